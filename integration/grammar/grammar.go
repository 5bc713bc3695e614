// Package grammar generates random inputs for the files of tracefs that parse text,
// plays them, and stores Linux's answers: definitions for kprobe_events and
// dynamic_events, values fetched by probes, filters, and words for small files and
// for those that configure tracing.
//
// A Table is a list of cases. A case has a few steps, each an operation with its data
// and its answer. Inputs are generated from a seed and so are reproducible. "golden
// tables" records the answers on Linux into integration/testdata; TestGrammar plays
// the cases below "kprobefs exec". A table's text has a line for each step, followed
// by its answers, indented by a tab, and an empty line between cases.
package grammar

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Step is one operation on a file.
type Step struct {
	Op     string // the operation, see the player's ops
	Data   string // the data written
	Answer []string
}

// Case is a sequence of steps that begins with empty files.
type Case struct{ Steps []Step }

// Table holds the cases of one kind, and the kernel that gave the answers.
type Table struct {
	Kernel string // "PACKAGE VERSION", or empty if there are no answers yet
	Cases  []Case
}

// Names are the names of the tables.
var Names = [...]string{"definitions", "values", "filters", "words", "options"}

// Seed is the seed of the recorded tables.
const Seed = 2026

// New returns the cases of a table, without answers, or nil if there is no such
// table.
func New(name string, seed uint64) *Table {
	make := map[string]func(*gen) []Case{
		"definitions": definitions, "values": values, "filters": filters, "words": words, "options": options,
	}[name]
	if make == nil {
		return nil
	}
	return &Table{Cases: make(&gen{rand.New(rand.NewPCG(seed, uint64(slices.Index(Names[:], name))))})}
}

// SameInputs reports whether two tables have the same inputs.
func (t *Table) SameInputs(u *Table) bool {
	same := func(a, b Step) bool { return a.Op == b.Op && a.Data == b.Data }
	return slices.EqualFunc(t.Cases, u.Cases, func(a, b Case) bool { return slices.EqualFunc(a.Steps, b.Steps, same) })
}

// Steps returns how many steps the table has with one of these operations.
func (t *Table) Steps(ops ...string) (n int) {
	for _, c := range t.Cases {
		for _, s := range c.Steps {
			if slices.Contains(ops, s.Op) {
				n++
			}
		}
	}
	return n
}

// kernelPrefix begins a table's first line.
const kernelPrefix = "# recorded from "

// Write writes the table in the form that Parse reads.
func (t *Table) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	if t.Kernel != "" {
		fmt.Fprintf(out, "%s%s\n", kernelPrefix, t.Kernel)
	}
	for i := range t.Cases {
		t.Cases[i].write(out)
	}
	return out.Flush()
}

func (c *Case) write(w io.Writer) {
	for _, s := range c.Steps {
		fmt.Fprintf(w, "%s %s\n", s.Op, escape(s.Data))
		for _, a := range s.Answer {
			fmt.Fprintf(w, "\t%s\n", a)
		}
	}
	fmt.Fprintln(w)
}

// String returns the case as in a table's text.
func (c *Case) String() string {
	var b strings.Builder
	c.write(&b)
	return b.String()
}

// Parse reads a table.
func Parse(r io.Reader) (*Table, error) {
	t := &Table{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var c Case
	for lines.Scan() {
		line := lines.Text()
		answer, isAnswer := strings.CutPrefix(line, "\t")
		kernel, isKernel := strings.CutPrefix(line, kernelPrefix)
		op, data, ok := strings.Cut(line, " ")
		switch {
		case line == "":
			t.Cases = append(t.Cases, c)
			c = Case{}
		case isKernel:
			t.Kernel = kernel
		case isAnswer && len(c.Steps) > 0:
			s := &c.Steps[len(c.Steps)-1]
			s.Answer = append(s.Answer, answer)
		case ok && !isAnswer:
			text, err := unescape(data)
			if err != nil {
				return nil, err
			}
			c.Steps = append(c.Steps, Step{Op: op, Data: text})
		default:
			return nil, fmt.Errorf("table: %q", line)
		}
	}
	return t, lines.Err()
}

// minRun is the number of equal bytes from which they are written as a count and a
// byte.
const minRun = 12

// escape returns data as a line of printable bytes. \*20*a is twenty a's.
func escape(data string) string {
	var s strings.Builder
	for i := 0; i < len(data); {
		c, n := data[i], 1
		for i+n < len(data) && data[i+n] == c {
			n++
		}
		if n < minRun {
			n = 1
		} else {
			fmt.Fprintf(&s, `\*%d*`, n)
		}
		i += n
		switch {
		case c == '\n':
			s.WriteString(`\n`)
		case c == '\\':
			s.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&s, `\x%02x`, c)
		default:
			s.WriteByte(c)
		}
	}
	return s.String()
}

// unescape is the inverse of escape.
func unescape(s string) (string, error) {
	var b strings.Builder
	repeat := 1
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' {
			rest := s[i+1:]
			switch {
			case strings.HasPrefix(rest, "n"):
				c, i = '\n', i+1
			case strings.HasPrefix(rest, `\`):
				i++
			case strings.HasPrefix(rest, "*"):
				number, _, ok := strings.Cut(rest[1:], "*")
				n, err := strconv.Atoi(number)
				if !ok || err != nil {
					return "", fmt.Errorf("escaped text %q: %w", s, err)
				}
				repeat, i = n, i+2+len(number)
				continue
			default:
				hex, ok := strings.CutPrefix(rest[:min(3, len(rest))], "x")
				v, err := strconv.ParseUint(hex, 16, 8)
				if !ok || len(hex) != 2 || err != nil {
					return "", fmt.Errorf("escaped text %q: %w", s, err)
				}
				c, i = byte(v), i+3
			}
		}
		b.WriteString(strings.Repeat(string([]byte{c}), repeat))
		repeat = 1
	}
	return b.String(), nil
}

// gen makes random choices.
type gen struct{ *rand.Rand }

// one returns one of the choices.
func (g *gen) one(choices ...string) string { return choices[g.IntN(len(choices))] }

// word returns one of the words of a text.
func (g *gen) word(words string) string { return g.one(strings.Fields(words)...) }

// percent returns true with a probability of n percent.
func (g *gen) percent(n int) bool { return g.IntN(100) < n }

// number is a number in various notations, mostly small.
func (g *gen) number() string {
	switch g.IntN(12) {
	case 0:
		return g.word("0x0 00 010 08 0x 0x1g 1a +1 -0 0b1 1_0 ٣")
	case 1:
		return g.word("127 128 255 256 32767 65535 65536 2147483647 2147483648 4294967295 4294967296 9223372036854775807 9223372036854775808 " +
			"18446744073709551615 18446744073709551616 99999999999999999999999 0xffffffffffffffff 0x10000000000000000 0x7fffffffffffffff")
	case 2:
		return fmt.Sprintf("%#x", g.IntN(1<<16))
	case 3:
		return strconv.Itoa(g.IntN(1 << 30))
	}
	return strconv.Itoa(g.IntN(40))
}

// mutate returns s with some bytes changed.
func (g *gen) mutate(s, alphabet string) string {
	b := []byte(s)
	for range 1 + g.IntN(2) {
		i := g.IntN(len(b) + 1)
		c := alphabet[g.IntN(len(alphabet))]
		switch g.IntN(4) {
		case 0, 1:
			b = slices.Insert(b, i, c)
		case 2:
			if i < len(b) {
				b[i] = c
			}
		case 3:
			if i < len(b) {
				b = slices.Delete(b, i, i+1)
			}
		}
	}
	return string(b)
}

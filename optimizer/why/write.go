package why

import (
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Style is what a part of an answer is, for colours.
type Style byte

// The styles.
const (
	Plain    Style = iota
	Good           // the probe is accepted, or becomes a jump
	Middling       // it stays a breakpoint, or there is a warning
	Bad            // it is refused, and the instruction that is to blame
	Probed         // the probed instruction
	Replaced       // the other instructions that the jump replaces
)

// Paint returns text as it looks in a style.
type Paint func(Style, string) string

// Write writes an answer for people. paint may be nil.
func (r *Answer) Write(w io.Writer, paint Paint) error {
	if paint == nil {
		paint = func(_ Style, text string) string { return text }
	}
	p := printer{Answer: r, paint: paint}
	p.write()
	_, err := io.WriteString(w, p.b.String())
	return err
}

type printer struct {
	*Answer
	b     strings.Builder
	paint Paint
}

// line writes a line with a word before it, which may be empty.
func (p *printer) line(style Style, word, format string, args ...any) {
	fmt.Fprintf(&p.b, "  %s %s\n", p.paint(style, fmt.Sprintf("%-12s", word)), fmt.Sprintf(format, args...))
}

func (p *printer) write() {
	fmt.Fprintf(&p.b, "%s on Linux %s", p.Probe, p.Kernel)
	if p.Address != "" {
		fmt.Fprintf(&p.b, ": %s", p.Address)
		if p.Place != "" && p.Place != p.Probe {
			fmt.Fprintf(&p.b, " is %s", p.Place)
		}
	}
	p.b.WriteByte('\n')
	if p.Instruction != nil {
		p.line(Plain, "instruction", "%s", p.Instruction.line())
	}
	p.verdict()
	p.arguments()
	if l := p.ErrorLog; l != nil {
		p.line(Plain, "error_log", "%s", l.Text)
		p.line(Plain, "", "%s", l.Command)
		p.line(Plain, "", "%s%s", strings.Repeat(" ", l.Column), p.paint(Bad, "^"))
	}
	for i, n := range p.Nearest {
		p.line(Plain, first(i, "would do"), "%s (%s)", n.Place, n.Kind)
	}
	for i, n := range p.Similar {
		p.line(Plain, first(i, "similar"), "%s", n)
	}
	p.listing()
}

// first returns a word for the first of several lines.
func first(i int, word string) string {
	if i > 0 {
		return ""
	}
	return word
}

// verdict writes whether the probe is accepted, and whether it becomes a jump.
func (p *printer) verdict() {
	switch {
	case !p.Accepted:
		p.line(Bad, "refused", "%s: %s", p.Errno, p.Refused)
		return
	case p.Kind == "ftrace":
		p.line(Good, "accepted", "at an fentry site: ftrace calls the handlers, no breakpoint is written")
		return
	}
	how, ok := carried[p.Kind]
	if !ok {
		how = "the instruction is emulated"
	}
	p.line(Good, "accepted", "by a breakpoint; %s", how)
	if p.Optimized {
		p.line(Good, "optimized", "a jump replaces %d bytes; the detour has %d bytes, and copies of what is marked below", p.regionSize(), p.Detour)
		return
	}
	p.line(Middling, "not a jump", "%s: %s", p.OptErrno, p.NotJump)
	if p.Offending != nil && (p.Instruction == nil || p.Offending.Address != p.Instruction.Address) {
		p.line(Plain, "", "%s", p.paint(Bad, p.Offending.line()))
	}
}

// carried says how an instruction is executed.
var carried = map[string]string{
	"step":  "the instruction is stepped out of line",
	"boost": "a copy of the instruction is executed, with a jump back after it",
}

// arguments writes what describe has found.
func (p *printer) arguments() {
	if p.Function != "" {
		p.line(Plain, "function", "%s", p.Function)
	}
	var entry []string
	for _, h := range p.Entry {
		entry = append(entry, h.Where+" has "+h.Parameter)
	}
	if entry != nil {
		p.line(Plain, "at its entry", "%s", strings.Join(entry, ", "))
	}
	if p.NoTypes != "" {
		p.line(Middling, "no types", "%s", p.NoTypes)
	}
	for i := range p.Arguments {
		a := &p.Arguments[i]
		text := a.Name + "=" + a.Text
		switch {
		case a.Where != "" && a.Parameter != "":
			text += ": " + a.Where + " has " + a.Parameter
		case a.Where != "":
			text += ": " + a.Where
		}
		if a.Reads != "" {
			text += fmt.Sprintf("; reads %s (%s)", a.Reads, a.Member)
		}
		p.line(Plain, "argument", "%s", text)
		for _, w := range a.Warnings {
			p.line(Plain, "", "%s", p.paint(Middling, "warning: "+w))
		}
	}
}

// around is how many instructions are shown on each side of those that are marked.
const around = 3

// listing writes the instructions around the probe and around the one that is to blame, marked: > is
// the probed one, | are the others that the jump replaces, ! is the one to blame.
func (p *printer) listing() {
	marks := p.marks()
	shown := make([]bool, len(p.starts))
	for i, at := range p.starts {
		if marks[at] == 0 {
			continue
		}
		for j := max(0, i-around); j <= min(i+around, len(shown)-1); j++ {
			shown[j] = true
		}
	}
	all, width := make(map[int]Instruction), 0
	for i, at := range p.starts {
		if !shown[i] {
			continue
		}
		if in, ok := p.show(at); ok {
			all[i], width = in, max(width, len(in.Place))
		}
	}
	word, gap := "text", false
	for i, at := range p.starts {
		in, ok := all[i]
		if !ok {
			gap = true
			continue
		}
		if gap {
			p.line(Plain, word, "...")
			word = ""
		}
		gap = false
		mark, style := byte(' '), Plain
		if m := marks[at]; m != 0 {
			mark, style = m, styles[m]
		}
		p.line(Plain, word, "%s", p.paint(style, string(mark)+" "+in.padded(width)))
		word = ""
	}
	if gap && word == "" {
		p.line(Plain, "", "...")
	}
}

// styles are the marks'.
var styles = map[byte]Style{'>': Probed, '|': Replaced, '!': Bad}

// marks returns the marks of instructions, by their addresses.
func (p *printer) marks() map[uint64]byte {
	marks := map[uint64]byte{}
	set := func(in *Instruction, mark byte) {
		if addr, err := strconv.ParseUint(in.Address, 0, 64); err == nil && marks[addr] == 0 {
			marks[addr] = mark
		}
	}
	if p.Instruction != nil {
		set(p.Instruction, '>')
	}
	for i := range p.Region {
		set(&p.Region[i], '|')
	}
	if p.Offending != nil {
		set(p.Offending, '!')
	}
	return marks
}

func (r *Answer) regionSize() (n int) {
	for _, in := range r.Region {
		n += len(in.Bytes) / 2
	}
	return n
}

// line is an instruction's line: place, bytes, text.
func (i *Instruction) line() string { return i.padded(0) }

// padded is line with a place of a width.
func (i *Instruction) padded(width int) string {
	b, _ := hex.DecodeString(i.Bytes)
	return fmt.Sprintf("%-*s  %-32s %s", width, i.Place, fmt.Sprintf("% x", b), i.Text)
}

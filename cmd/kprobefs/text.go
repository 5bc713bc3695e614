package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

const longText = `Show a function of a mounted tree's kernel, disassembled as its bytes are now. A line
that begins with * is patched: by int3 (a breakpoint), by a jump to a detour (an
optimized probe), or by a call to ftrace's trampoline. What stood there is beside it,
instruction by instruction, behind a bar: all instructions that a jump replaces are.

Below a probed instruction is the code that executes it outside of the function: the
slot with its copy, which is single-stepped up to the int3 after it; the copy that
jumps back by itself, where a step is not needed; the detour, which saves the
registers, calls the handlers and restores them; and behind it the copied instructions
and the jump back. A probe that is not armed shows what would be used.

Without addresses in /proc/kallsyms, they are zeros. --json writes an array with an
object for each function of that name: name, module and instructions, each with
address, offset, bytes, text, and where it is patched or probed: patch (int3, jump or
call), was, and probe (armed, flags, carried_out, copies).`

// textFunction is a function as `text --json` shows it.
type textFunction struct {
	Name         string        `json:"name"`
	Module       string        `json:"module,omitempty"`
	Instructions []instruction `json:"instructions"`
}

// instruction is one of a function, or of a copy.
type instruction struct {
	Address string        `json:"address"`
	Offset  uint64        `json:"offset"`
	Bytes   string        `json:"bytes"`
	Text    string        `json:"text"`
	Patch   string        `json:"patch,omitempty"` // int3, jump or call
	Was     []instruction `json:"was,omitempty"`   // what the patch replaces
	Probe   *textProbe    `json:"probe,omitempty"`
}

// textProbe describes a probed instruction.
type textProbe struct {
	Armed   bool     `json:"armed"`
	Flags   []string `json:"flags"`
	Carried string   `json:"carried_out"`
	Copies  []copied `json:"copies"`
}

// copied is code outside of a function that executes instructions of it.
type copied struct {
	Part         string        `json:"part"` // slot, boost, detour or copied
	Instructions []instruction `json:"instructions"`
}

func textCommand() *cobra.Command {
	at, asJSON := &treeFlag{}, false
	c := &cobra.Command{
		Use:     "text [--at MNT] [--json] FUNCTION",
		Short:   "Show a function's instructions as they are now",
		Long:    longText,
		Example: "  kprobefs text --at /mnt vfs_read\n  kprobefs text vfs_read --json | jq '.[].instructions[] | select(.patch)'",
		Args:    cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			return at.functions(args, begun), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: at.run(func(c *cobra.Command, dir string, args []string) error {
			functions, err := readFunctions(dir, args[0])
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(c.OutOrStdout(), functions)
			}
			return printFunctions(newScreen(c.OutOrStdout()), functions)
		}),
	}
	at.addTo(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of functions")
	return c
}

// functions returns the names of functions that begin with a prefix, as completions.
func (f *treeFlag) functions(args []string, begun string) []string {
	dir, err := f.find()
	if err != nil || len(args) > 0 {
		return nil
	}
	d, err := os.Open(filepath.Join(dir, "machine/text"))
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return beginning(names, begun)
}

var errTextChanging = errors.New("modules come and go all the time")

// readFunctions reads the functions of a name. A file name is not part of a path here: a function
// has no slash in its name.
func readFunctions(tree, name string) ([]textFunction, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, noFunction(name)
	}
	for range tries {
		text, err := os.ReadFile(filepath.Join(tree, "machine/text", name))
		if errors.Is(err, syscall.ENOENT) {
			return nil, noFunction(name)
		}
		if err != nil {
			return nil, err
		}
		outside, err := os.ReadFile(filepath.Join(tree, "machine/copies", name))
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, err
		}
		if functions := parseText(string(text)); addCopies(functions, string(outside)) {
			return functions, nil
		}
	}
	return nil, errTextChanging
}

func noFunction(name string) error {
	return fmt.Errorf("%q: no function of the kernel, or of a module, has this name: %w", name, syscall.ENOENT)
}

// parseText reads a file of machine/text.
func parseText(text string) []textFunction {
	functions := []textFunction{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if f, ok := parseHead(line); ok {
			functions = append(functions, f)
			continue
		}
		if in, ok := parseInstruction(line); ok && len(functions) > 0 {
			f := &functions[len(functions)-1]
			f.Instructions = append(f.Instructions, in)
		}
	}
	return functions
}

// parseHead reads "NAME:" or "NAME: [MODULE]".
func parseHead(line string) (f textFunction, ok bool) {
	if line == "" || strings.IndexByte(" *+", line[0]) >= 0 {
		return f, false
	}
	name, module, ok := strings.Cut(line, ":")
	return textFunction{Name: name, Module: strings.Trim(module, " []"), Instructions: []instruction{}}, ok
}

// parseInstruction reads a line of a disassembly: a star or a blank, the address, the offset, the
// bytes, the instruction, and the instructions that were there.
func parseInstruction(line string) (in instruction, ok bool) {
	if len(line) < 2 || line[:2] != "* " && line[:2] != "  " {
		return in, false
	}
	now, was, patched := strings.Cut(line[2:], "  # was: ")
	words := strings.SplitN(now, "  +", 2)
	if len(words) != 2 {
		return in, false
	}
	in.Address = words[0]
	offset, rest, _ := strings.Cut(words[1], " ")
	n, err := strconv.ParseUint(offset, 0, 64)
	if err != nil {
		return in, false
	}
	in.Offset = n
	in.Bytes, in.Text = splitBytes(rest)
	if patched && line[0] == '*' {
		in.Patch = patchName(in.Bytes)
		at := n
		for _, old := range strings.Split(was, "; ") {
			o := instruction{Address: in.Address, Offset: at}
			if o.Address = addTo(in.Address, at-n); o.Address == "" {
				return in, false
			}
			o.Bytes, o.Text = splitBytes(old)
			at += uint64(len(strings.Fields(o.Bytes)))
			in.Was = append(in.Was, o)
		}
	}
	return in, in.Bytes != ""
}

// addTo adds to an address in text, unless it is hidden. It returns "" if that is no address.
func addTo(address string, n uint64) string {
	a, err := strconv.ParseUint(address, 16, 64)
	switch {
	case err != nil:
		return ""
	case a != 0:
		a += n
	}
	return fmt.Sprintf("%016x", a)
}

// splitBytes splits "0f 1f 00  nopl (%rax)".
func splitBytes(text string) (code, rest string) {
	rest = strings.TrimLeft(text, " ")
	end := 0
	for i := 0; i+2 <= len(rest) && isHex(rest[i]) && isHex(rest[i+1]) && (i+2 == len(rest) || rest[i+2] == ' '); i += 3 {
		end = i + 2
	}
	return rest[:end], strings.TrimSpace(rest[end:])
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// patchName names what probes write into text, by the first byte.
func patchName(code string) string {
	switch {
	case strings.HasPrefix(code, "cc"):
		return "int3"
	case strings.HasPrefix(code, "e9"):
		return "jump"
	case strings.HasPrefix(code, "e8"):
		return "call"
	}
	return "other"
}

// addCopies adds a file of machine/copies to the functions of machine/text. It fails if they are
// not of the same functions.
func addCopies(functions []textFunction, text string) bool {
	n := -1
	var probe *textProbe
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if f, ok := parseHead(line); ok {
			n++
			probe = nil
			if n >= len(functions) || functions[n].Name != f.Name || functions[n].Module != f.Module {
				return false
			}
			continue
		}
		if n < 0 || line == "" {
			continue
		}
		if in, ok := parseInstruction(line); ok {
			if probe != nil && len(probe.Copies) > 0 {
				last := &probe.Copies[len(probe.Copies)-1]
				last.Instructions = append(last.Instructions, in)
			}
			continue
		}
		probe = addProbe(functions[n].Instructions, line, probe)
	}
	return text == "" || n == len(functions)-1
}

// addProbe reads a line about a probed instruction, "+OFFSET armed yes flags [FTRACE] carried ftrace"
// or "+OFFSET slot", and returns the probe that the next lines belong to.
func addProbe(all []instruction, line string, probe *textProbe) *textProbe {
	offset, what, _ := strings.Cut(line, " ")
	var armed, flags string
	if _, err := fmt.Sscanf(what, "armed %s flags %s", &armed, &flags); err != nil {
		if probe != nil {
			probe.Copies = append(probe.Copies, copied{Part: what, Instructions: []instruction{}})
		}
		return probe
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(offset, "+"), 0, 64)
	if err != nil {
		return nil
	}
	for i := range all {
		if all[i].Offset != n {
			continue
		}
		_, carried, _ := strings.Cut(what, " carried ")
		all[i].Probe = &textProbe{Armed: armed == "yes", Flags: flagNames(flags), Carried: carried, Copies: []copied{}}
		return all[i].Probe
	}
	return nil // in the bytes that a jump at another probe replaces
}

// Names of the parts of the code outside of a function, for people.
var partNames = map[string]string{
	"slot":   "slot: the copy, stepped",
	"boost":  "slot: the copy that jumps back",
	"detour": "detour: saves the registers, calls the handlers",
	"copied": "detour: the copied instructions, and the jump back",
}

var patchNames = map[string]string{
	"int3": "int3",
	"jump": "jump to the detour",
	"call": "call of ftrace's trampoline",
}

var patchColors = map[string]color{"int3": red, "jump": magenta, "call": cyan}

// printFunctions writes functions for people.
func printFunctions(s screen, functions []textFunction) error {
	out := bufio.NewWriter(s)
	for i, f := range functions {
		if i > 0 {
			fmt.Fprintln(out)
		}
		head := f.Name + ":"
		if f.Module != "" {
			head += " [" + f.Module + "]"
		}
		fmt.Fprintln(out, s.paint(bold, head))
		for _, in := range f.Instructions {
			printInstruction(out, s, in)
		}
	}
	return out.Flush()
}

// line is an instruction without what is beside it.
func (in instruction) line() string {
	return fmt.Sprintf("%s  +%#-6x %-30s %s", in.Address, in.Offset, in.Bytes, in.Text)
}

// beside is where the replaced instructions begin, in characters.
const beside = 92

func printInstruction(out *bufio.Writer, s screen, in instruction) {
	if in.Patch == "" {
		fmt.Fprintln(out, "  "+s.safe(in.line()))
	}
	for i, old := range in.Was {
		now := ""
		if i == 0 {
			now = "* " + in.line()
		}
		fmt.Fprintf(out, "%s %s\n", s.paint(patchColors[in.Patch], fmt.Sprintf("%-*s", beside, now)), s.paint(dim, fmt.Sprintf("| %-22s %s", old.Bytes, old.Text)))
	}
	if in.Probe == nil {
		return
	}
	words := []string{}
	if name := patchNames[in.Patch]; name != "" {
		words = append(words, name)
	}
	words = append(words, listedProbe{Armed: in.Probe.Armed, Flags: in.Probe.Flags}.state(), "carried out by "+in.Probe.Carried)
	if in.Patch == "jump" && len(in.Was) > 0 {
		words = append(words, fmt.Sprintf("optimized region of %d bytes", in.regionSize()))
	}
	fmt.Fprintln(out, s.paint(green, "    probed: "+strings.Join(words, ", ")))
	for _, c := range in.Probe.Copies {
		fmt.Fprintln(out, s.paint(yellow, "      "+partNames[c.Part]))
		for _, in := range c.Instructions {
			fmt.Fprintln(out, "        "+s.paint(dim, in.line()))
		}
	}
}

// regionSize returns the number of bytes that a patch replaces, with the rest of the last
// instruction.
func (in instruction) regionSize() (n int) {
	for _, old := range in.Was {
		n += len(strings.Fields(old.Bytes))
	}
	return n
}

package look

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Function is a function as `text --json` shows it.
type Function struct {
	Name         string        `json:"name"`
	Module       string        `json:"module,omitempty"`
	Instructions []Instruction `json:"instructions"`
}

// Instruction is one of a function, or of a copy.
type Instruction struct {
	Address string        `json:"address"`
	Offset  uint64        `json:"offset"`
	Bytes   string        `json:"bytes"`
	Text    string        `json:"text"`
	Patch   string        `json:"patch,omitempty"` // int3, jump or call
	Was     []Instruction `json:"was,omitempty"`   // what the patch replaces
	Probe   *TextProbe    `json:"probe,omitempty"`
	Source  *Source       `json:"source,omitempty"` // where another line begins than the instruction's before
}

// Source is a line of C.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"text,omitempty"` // if the file is there
}

// String returns the line for people.
func (s Source) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s:%d: %s", s.File, s.Line, s.Text), ": ")
}

// TextProbe describes a probed instruction.
type TextProbe struct {
	Armed   bool     `json:"armed"`
	Flags   []string `json:"flags"`
	Carried string   `json:"carried_out"`
	Copies  []Copy   `json:"copies"`
}

// Copy is code outside of a function that executes instructions of it.
type Copy struct {
	Part         string        `json:"part"` // slot, boost, detour or copied
	Instructions []Instruction `json:"instructions"`
}

var errTextChanging = errors.New("modules come and go all the time")

// Functions reads the functions of a name. A file name is not part of a path here: a function
// has no slash in its name.
func Functions(read ReadFile, name string) ([]Function, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, noFunction(name)
	}
	for range tries {
		text, err := read("machine/text/" + name)
		if errors.Is(err, syscall.ENOENT) {
			return nil, noFunction(name)
		}
		if err != nil {
			return nil, err
		}
		outside, err := read("machine/copies/" + name)
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return nil, err
		}
		if functions, ok := ParseFunctions(string(text), string(outside)); ok {
			return functions, nil
		}
	}
	return nil, errTextChanging
}

func noFunction(name string) error {
	return fmt.Errorf("%q: no function of the kernel, or of a module, has this name: %w", name, syscall.ENOENT)
}

// ParseFunctions reads a file of machine/text and the one of machine/copies. It fails if they are not
// of the same functions.
func ParseFunctions(text, outside string) ([]Function, bool) {
	functions := parseText(text)
	return functions, addCopies(functions, outside)
}

// parseText reads a file of machine/text.
func parseText(text string) []Function {
	functions := []Function{}
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
func parseHead(line string) (f Function, ok bool) {
	if line == "" || strings.IndexByte(" *+", line[0]) >= 0 {
		return f, false
	}
	name, module, ok := strings.Cut(line, ":")
	return Function{Name: name, Module: strings.Trim(module, " []"), Instructions: []Instruction{}}, ok
}

// parseInstruction reads a line of a disassembly: a star or a blank, the address, the offset, the
// bytes, the instruction, and the instructions that were there.
func parseInstruction(line string) (in Instruction, ok bool) {
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
			o := Instruction{Address: in.Address, Offset: at}
			if o.Address = AddTo(in.Address, at-n); o.Address == "" {
				return in, false
			}
			o.Bytes, o.Text = splitBytes(old)
			at += uint64(len(strings.Fields(o.Bytes)))
			in.Was = append(in.Was, o)
		}
	}
	return in, in.Bytes != ""
}

// AddTo adds to an address in text, unless it is hidden. It returns "" if that is no address.
func AddTo(address string, n uint64) string {
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
func addCopies(functions []Function, text string) bool {
	n := -1
	var probe *TextProbe
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
func addProbe(all []Instruction, line string, probe *TextProbe) *TextProbe {
	offset, what, _ := strings.Cut(line, " ")
	var armed, flags string
	if _, err := fmt.Sscanf(what, "armed %s flags %s", &armed, &flags); err != nil {
		if probe != nil {
			probe.Copies = append(probe.Copies, Copy{Part: what, Instructions: []Instruction{}})
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
		all[i].Probe = &TextProbe{Armed: armed == "yes", Flags: flagNames(flags), Carried: carried, Copies: []Copy{}}
		return all[i].Probe
	}
	return nil // in the bytes that a jump at another probe replaces
}

// RegionSize returns the number of bytes that a patch replaces, with the rest of the last
// instruction.
func (in Instruction) RegionSize() (n int) {
	for _, old := range in.Was {
		n += len(strings.Fields(old.Bytes))
	}
	return n
}

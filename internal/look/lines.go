package look

import (
	"fmt"
	"strings"
)

// Style is how a part of a line looks.
type Style int

// The styles, named after what they mean.
const (
	Plain     Style = iota
	Heading         // of a function, or of a table
	Faint           // beside what matters, or not armed
	Int3            // a breakpoint
	Optimized       // a jump
	Ftrace          // a call
	Probed          // about a probe
	Outside         // about code outside of the function
	Bad             // gone, lost, failed
)

// Span is a part of a line.
type Span struct {
	Style Style
	Text  string
}

// Line is a line of text for people.
type Line []Span

// String returns the line without styles.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.Text)
	}
	return b.String()
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

var patchStyles = map[string]Style{"int3": Int3, "jump": Optimized, "call": Ftrace}

// Style returns the style of a probe's line.
func (p Probe) Style() Style {
	flags := strings.Join(p.Flags, " ")
	switch {
	case strings.Contains(flags, "gone"):
		return Bad
	case !p.Armed || strings.Contains(flags, "disabled"):
		return Faint
	case strings.Contains(flags, "optimized"):
		return Optimized
	case strings.Contains(flags, "ftrace"):
		return Ftrace
	}
	return Int3
}

// beside is where the replaced instructions begin, in characters.
const beside = 92

// besideWidth is the width of a line with an instruction and a replaced one.
const besideWidth = beside + 48

// Lines returns a function for people: each patched instruction is marked, what it replaces is
// beside it, or below it if width is too small for that, and below a probed instruction is the
// code outside of the function that executes it. A width of 0 has no limit.
func (f Function) Lines(width int) []Line {
	head := f.Name + ":"
	if f.Module != "" {
		head += " [" + f.Module + "]"
	}
	lines := []Line{{{Heading, head}}}
	for _, in := range f.Instructions {
		if in.Source != nil {
			lines = append(lines, Line{{Faint, in.Source.String()}})
		}
		lines = append(lines, in.now(width == 0 || width >= besideWidth)...)
		if in.Probe != nil {
			lines = append(lines, in.probed()...)
		}
	}
	return lines
}

// line is an instruction without what is beside it.
func (in Instruction) line() string {
	return fmt.Sprintf("%s  +%#-6x %-30s %s", in.Address, in.Offset, in.Bytes, in.Text)
}

// now returns an instruction and what it replaces.
func (in Instruction) now(wide bool) (lines []Line) {
	style := patchStyles[in.Patch]
	switch {
	case in.Patch == "":
		return []Line{{{Plain, "  " + in.line()}}}
	case !wide:
		lines = append(lines, Line{{style, "* " + in.line()}})
		for _, old := range in.Was {
			lines = append(lines, Line{{Faint, fmt.Sprintf("    was %s  +%#-6x %-22s %s", old.Address, old.Offset, old.Bytes, old.Text)}})
		}
		return lines
	}
	for i, old := range in.Was {
		text := ""
		if i == 0 {
			text = "* " + in.line()
		}
		lines = append(lines, Line{{style, fmt.Sprintf("%-*s", beside, text)}, {Plain, " "}, {Faint, fmt.Sprintf("| %-22s %s", old.Bytes, old.Text)}})
	}
	return lines
}

// Carried says in words how a probed instruction is patched and executed.
func (in Instruction) Carried() string {
	words := []string{}
	if name := patchNames[in.Patch]; name != "" {
		words = append(words, name)
	}
	words = append(words, Probe{Armed: in.Probe.Armed, Flags: in.Probe.Flags}.State(), "carried out by "+in.Probe.Carried)
	if in.Patch == "jump" && len(in.Was) > 0 {
		words = append(words, fmt.Sprintf("optimized region of %d bytes", in.RegionSize()))
	}
	return strings.Join(words, ", ")
}

// probed returns what is known of the probes of an instruction.
func (in Instruction) probed() []Line {
	lines := []Line{{{Probed, "    probed: " + in.Carried()}}}
	for _, c := range in.Probe.Copies {
		lines = append(lines, Line{{Outside, "      " + partNames[c.Part]}})
		for _, in := range c.Instructions {
			lines = append(lines, Line{{Plain, "        "}, {Faint, in.line()}})
		}
	}
	return lines
}

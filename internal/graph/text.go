package graph

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kprobefs/kprobefs/internal/look"
)

// TextOptions are what Text may be told.
type TextOptions struct {
	// All draws all instructions of a function, not only those near its probes.
	All bool
}

// ErrNoText says that there is no function to draw.
var ErrNoText = errors.New("no instructions")

// near is how many instructions before and after a probe are drawn.
const near = 5

// gutter is the space left of a function's lines, for words about them.
const gutter = 42

// between is the space for the arrows.
const between = 150

// Text draws functions of a name: at the left the text as it is, with what stood there; at the right
// the copies that execute probed instructions, and arrows for the way that a hit takes.
func Text(w io.Writer, functions []look.Function, o TextOptions) error {
	if len(functions) == 0 {
		return ErrNoText
	}
	g := &picture{}
	y := 32.0
	title := "The text of " + functions[0].Name
	g.text(margin, y, "title", title)
	var desc []string
	for _, f := range functions {
		name := f.Name
		if f.Module != "" {
			name += " [" + f.Module + "]"
		}
		y += 30
		g.text(margin, y, "head", name)
		y += 8
		t := &textPicture{picture: g, rows: map[uint64]float64{}}
		t.right = t.left(f, y, o.All) + between
		y = max(t.end, t.copies(f, y))
		desc = append(desc, describeText(f)...)
	}
	g.reach(0, y)
	if len(desc) == 0 {
		desc = []string{"No instruction is probed."}
	}
	return g.writeTo(w, title, "The instructions as they are in memory; beside them what probes have replaced, and the code outside of the function that executes it. "+strings.Join(desc, " "))
}

// textPicture is a function in a picture.
type textPicture struct {
	*picture
	rows  map[uint64]float64 // the middle of an instruction's line, by its offset
	edge  float64            // the right edge of the function
	right float64            // where the copies begin
	end   float64            // below the function
}

// left draws the function from y on, and returns its right edge.
func (t *textPicture) left(f look.Function, y float64, all bool) float64 {
	shown := shownOf(f, all)
	longest := 0
	for i, in := range f.Instructions {
		if shown[i] {
			longest = max(longest, len([]rune(lineOf(in))))
			for _, old := range in.Was {
				longest = max(longest, len([]rune(lineOf(old))))
			}
		}
	}
	width := charWidth*float64(longest) + gutter + 12
	t.edge = margin + width
	start := y
	y += lineHeight
	var body picture // what lies on the box
	hidden := 0
	for i, in := range f.Instructions {
		if !shown[i] {
			hidden++
			continue
		}
		if hidden > 0 {
			body.text(margin+gutter, y, "faint", elided(hidden))
			hidden, y = 0, y+lineHeight
		}
		t.rows[in.Offset] = y - 4
		if in.Patch != "" {
			body.rect(margin+4, y-13, width-8, lineHeight*float64(1+len(in.Was))-1, "region")
		}
		body.text(margin+gutter, y, in.Patch, lineOf(in))
		y += lineHeight
		for _, old := range in.Was {
			body.text(margin+10, y, "was", "was")
			body.text(margin+gutter, y, "was", lineOf(old))
			y += lineHeight
		}
	}
	if hidden > 0 {
		body.text(margin+gutter, y, "faint", elided(hidden))
		y += lineHeight
	}
	t.rect(margin, start, width, y-start-6, "box")
	t.body.WriteString(body.body.String())
	t.reach(body.width, body.height)
	t.end = y
	return t.edge
}

func elided(n int) string {
	if n == 1 {
		return "... 1 instruction"
	}
	return fmt.Sprintf("... %d instructions", n)
}

// lineOf writes an instruction. An address that is hidden is left out.
func lineOf(in look.Instruction) string {
	address := in.Address + "  "
	if strings.Trim(in.Address, "0") == "" {
		address = ""
	}
	return fmt.Sprintf("%s+%#-6x %-30s %s", address, in.Offset, in.Bytes, in.Text)
}

// shownOf chooses the instructions: all, or the first one and those near a probe.
func shownOf(f look.Function, all bool) []bool {
	shown := make([]bool, len(f.Instructions))
	probed := false
	for i, in := range f.Instructions {
		if in.Probe == nil && in.Patch == "" {
			continue
		}
		probed = true
		for j := max(0, i-near); j < min(len(shown), i+near+1); j++ {
			shown[j] = true
		}
	}
	for i := range shown {
		shown[i] = shown[i] || all || !probed || i == 0
	}
	return shown
}

// copies draws the code outside of the function, and the ways. It returns where that ends.
func (t *textPicture) copies(f look.Function, y float64) float64 {
	for _, in := range f.Instructions {
		if in.Probe == nil {
			continue
		}
		t.text(t.right, y+12, "head", fmt.Sprintf("+%#x: %s", in.Offset, in.Carried()))
		y += lineHeight + 4
		y = t.copiesOf(in, y) + 14
	}
	return y
}

// copiesOf draws the copies of an instruction. The copied instructions follow the detour in memory.
func (t *textPicture) copiesOf(in look.Instruction, y float64) float64 {
	var firstOfDetour float64
	for i, c := range in.Probe.Copies {
		if len(c.Instructions) == 0 {
			continue
		}
		used := in.Patch == "jump" && (c.Part == "detour" || c.Part == "copied") || in.Patch == "int3" && (c.Part == "slot" || c.Part == "boost")
		class, words := "", partWords[c.Part]
		if !used {
			class, words = "unused", words+", not used now"
		}
		if i > 0 {
			y += 8
		}
		fmt.Fprintf(&t.body, "<g%s>\n", attribute(class))
		first, last, end := t.box(c, words, y)
		t.body.WriteString("</g>\n")
		y = end
		if c.Part == "detour" {
			firstOfDetour = first
		}
		if !used {
			continue
		}
		switch c.Part {
		case "slot":
			t.way(in.Offset, first, "int3", "a hit is stepped")
			t.back(t.afterFirst(in), last, "int3", "int3 again: goes on")
		case "boost":
			t.way(in.Offset, first, "int3", "a hit goes to the copy")
			t.back(t.afterFirst(in), last, "int3", "jumps back")
		case "copied":
			t.way(in.Offset, firstOfDetour, "jump", "jumps to the detour")
			t.back(in.Offset+uint64(in.RegionSize()), last, "jump", "jumps back")
		}
	}
	return y
}

// partWords are the titles of the boxes.
var partWords = map[string]string{
	"slot":   "slot: the copy of the instruction, and int3 behind it",
	"boost":  "slot: the copy of the instruction, and a jump back",
	"detour": "detour: save the registers, call the handlers, restore them",
	"copied": "detour: the copied instructions, and the jump back",
}

// box draws a copy. It returns the middles of its first and last line, and where it ends.
func (t *textPicture) box(c look.Copy, words string, y float64) (first, last, end float64) {
	longest := len(words)
	for _, in := range c.Instructions {
		longest = max(longest, len([]rune(lineOf(in))))
	}
	n := float64(len(c.Instructions))
	t.rect(t.right, y, charWidth*float64(longest)+24, lineHeight*(n+1)+8, "box")
	y += 16
	t.text(t.right+12, y, "faint", words)
	first = y + lineHeight - 4
	for _, in := range c.Instructions {
		y += lineHeight
		t.text(t.right+12, y, "", lineOf(in))
	}
	return first, y - 4, y + 10
}

// afterFirst returns the offset of the instruction after the probed one.
func (t *textPicture) afterFirst(in look.Instruction) uint64 {
	code := in.Bytes
	if len(in.Was) > 0 {
		code = in.Was[0].Bytes
	}
	return in.Offset + uint64(len(strings.Fields(code)))
}

// way draws an arrow from an instruction of the function to a line at the right.
func (t *textPicture) way(offset uint64, to float64, class, words string) {
	from, ok := t.rows[offset]
	if !ok {
		return
	}
	x, end := t.edge+2, t.right-2
	t.path(curve(x, from, end, to), "way "+class, true)
	t.text(x+8, from-5, class, words)
}

// back draws an arrow from a line at the right to an instruction of the function.
func (t *textPicture) back(offset uint64, from float64, class, words string) {
	to, ok := t.rows[offset]
	if !ok {
		return
	}
	t.path(curve(t.right-2, from, t.edge+2, to), "way back "+class, true)
	t.text(t.right-8-charWidth*float64(len(words)), from+14, class, words)
}

func curve(x1, y1, x2, y2 float64) string {
	middle := (x1 + x2) / 2
	return fmt.Sprintf("M%s %sC%s %s %s %s %s %s", number(x1), number(y1), number(middle), number(y1), number(middle), number(y2), number(x2), number(y2))
}

func describeText(f look.Function) (lines []string) {
	for _, in := range f.Instructions {
		if in.Probe != nil {
			lines = append(lines, fmt.Sprintf("%s+%#x: %s.", f.Name, in.Offset, in.Carried()))
		}
	}
	return lines
}

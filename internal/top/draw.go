package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/kprobefs/kprobefs/internal/look"
)

// The smallest terminal on which something is shown.
const (
	minWidth  = 20
	minHeight = 6
)

// detailFrom is the height from which on the selected probe is described below the list.
const (
	detailFrom   = 14
	detailHeight = 4 // with the line above it
)

// headHeight is the title and the summary, footHeight the message and the keys.
const (
	headHeight = 2
	footHeight = 2
)

// bodyHeight is how many lines of the view are visible.
func (m *model) bodyHeight() int {
	h := m.height - headHeight - footHeight
	if m.view == probesView {
		h-- // the titles of the columns
		if m.height >= detailFrom {
			h -= detailHeight
		}
	}
	return max(h, 1)
}

// style translates what a part of a line means. Without colours, attributes tell as much as they
// can.
func (m *model) style(s look.Style) tcell.Style {
	plain := tcell.StyleDefault
	foreground := map[look.Style]color.Color{
		look.Int3: color.Maroon, look.Bad: color.Red, look.Optimized: color.Purple, look.Ftrace: color.Teal,
		look.Probed: color.Green, look.Outside: color.Olive,
	}
	switch {
	case s == look.Faint:
		return plain.Dim(true)
	case s == look.Heading, s == look.Bad && !m.Colors, s == look.Optimized && !m.Colors:
		return plain.Bold(true)
	case m.Colors && foreground[s] != 0:
		return plain.Foreground(foreground[s])
	}
	return plain
}

// canvas is a terminal on which whole lines are written.
type canvas struct {
	tcell.Screen
	width int
}

// put writes text from a column on, and returns the column after it.
func (c canvas) put(x, y int, text string, style tcell.Style) int {
	for text = safe(text); text != "" && x < c.width; {
		rest, w := c.Put(x, y, text, style)
		if rest == text || w == 0 { // nothing has been written
			return x
		}
		text, x = rest, x+w
	}
	return x
}

// bar writes a line in reverse up to the right margin.
func (c canvas) bar(y int, text string) {
	style := tcell.StyleDefault.Reverse(true)
	for x := c.put(0, y, text, style); x < c.width; x++ {
		c.put(x, y, " ", style)
	}
}

// draw draws everything. The terminal writes what has changed.
func (m *model) draw(term tcell.Screen) {
	term.Clear()
	term.HideCursor()
	c := canvas{term, m.width}
	if m.width < minWidth || m.height < minHeight {
		c.put(0, 0, "too small", tcell.StyleDefault)
		term.Show()
		return
	}
	c.bar(0, m.title())
	c.put(0, 1, m.summary(), tcell.StyleDefault)
	if m.view == probesView {
		m.drawProbes(c)
	} else {
		m.drawLines(c)
	}
	m.drawMessage(c, m.height-2)
	m.drawKeys(c, m.height-1)
	term.Show()
}

var viewNames = [views]string{probesView: "probes", textView: "text", traceView: "trace", logView: "log", helpView: "help"}

// title names the view first: that remains on a narrow terminal.
func (m *model) title() string {
	name := viewNames[m.view]
	if m.view == textView {
		name += " of " + m.function
	}
	words := []string{name}
	if f := m.filter[m.view]; f != "" {
		words = append(words, fmt.Sprintf("only %q", f))
	}
	if m.paused {
		words = append(words, "paused")
	}
	words = append(words, m.Source.Name())
	if m.kernel.Release != "" {
		words = append(words, "Linux "+m.kernel.Release)
	}
	return "kprobefs " + strings.Join(words, " | ")
}

// summary counts the probes.
func (m *model) summary() string {
	if !m.loaded[probesView] {
		return "reading ..."
	}
	armed, jumps, called, total, known := 0, 0, 0, 0.0, false
	for _, p := range m.probes {
		if p.Armed {
			armed++
			switch shortState(p) {
			case "jump":
				jumps++
			case "ftrace":
				called++
			}
		}
		if p.rate >= 0 {
			total, known = total+p.rate, true
		}
	}
	if !known {
		total = -1
	}
	text := fmt.Sprintf("%d probes, %d armed, %s hits/s, jumps: %d, by ftrace: %d", len(m.probes), armed, perSecond(total), jumps, called)
	if !m.kernel.Enabled {
		text = "kprobes OFF, " + text
	}
	if !m.kernel.Optimization {
		text += ", optimization off"
	}
	return text
}

func (m *model) drawProbes(c canvas) {
	c.bar(headHeight, m.tableHead())
	l := &m.lists[probesView]
	height := m.bodyHeight()
	visible := l.visible(height)
	if len(visible) == 0 && m.loaded[probesView] {
		text := "no probes; echo p:mine vfs_read > tracing/kprobe_events defines one"
		if len(m.probes) > 0 {
			text = "no probe has this text; F4 and Ctrl-U show all"
		}
		c.put(0, headHeight+1, text, m.style(look.Faint))
	}
	byKey := map[string]probe{}
	for _, p := range m.probes {
		byKey[p.key] = p
	}
	for i, at := range visible {
		p := byKey[at.key]
		text := m.tableLine(func(col column) string { return table[col].text(p) })
		y := headHeight + 1 + i
		if l.top+i == l.cursor {
			c.bar(y, text)
			continue
		}
		c.put(0, y, text, m.style(p.Style()))
	}
	if p, ok := m.selected(); ok && m.height >= detailFrom {
		m.drawDetail(c, m.height-footHeight-detailHeight, p)
	}
}

// drawDetail describes a probe.
func (m *model) drawDetail(c canvas, y int, p probe) {
	c.put(0, y, strings.Repeat("-", m.width), m.style(look.Faint))
	events := strings.Join(names(p.Probe), ", ")
	if events == "" {
		events = "no event of kprobe_events"
	}
	parts := []string{p.Address, p.Place, map[string]string{"k": "probe", "r": "return probe", "j": "jprobe"}[p.Kind], events, p.State(), "carried out by " + p.Carried}
	if p.Slot != "" {
		parts = append(parts, "slot "+p.Slot)
	}
	if p.Detour != "" {
		parts = append(parts, "detour "+p.Detour)
	}
	if text := why(p.Probe); text != "" {
		parts = append(parts, text)
	}
	for i, text := range wrap(strings.Join(parts, "; "), m.width, detailHeight-1) {
		c.put(0, y+1+i, text, m.style(look.Plain))
	}
}

// wrap breaks text at blanks into at most n lines.
func wrap(text string, width, n int) (lines []string) {
	at := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case at == "":
			at = word
		case len(at)+1+len(word) <= width:
			at += " " + word
		case len(lines) == n-1:
			return append(lines, fit(at+" "+word+" ...", width))
		default:
			lines, at = append(lines, at), word
		}
	}
	return append(lines, at)
}

func (m *model) drawLines(c canvas) {
	l := m.list()
	visible := l.visible(m.bodyHeight())
	if len(visible) == 0 {
		text := "nothing is here"
		switch {
		case m.broken != "":
			text = ""
		case !m.loaded[m.view]:
			text = "reading ..."
		case len(l.all) > 0:
			text = "no line has this text; F4 and Ctrl-U show all"
		}
		c.put(0, headHeight, text, m.style(look.Faint))
	}
	for i, at := range visible {
		y := headHeight + i
		if l.top+i == l.cursor {
			c.bar(y, dropped(at.search, l.left))
			continue
		}
		x, skip := 0, l.left
		for _, s := range at.spans {
			text := safe(s.Text)
			n := min(skip, len([]rune(text)))
			skip -= n
			x = c.put(x, y, dropped(text, n), m.style(s.Style))
		}
	}
}

// dropped returns text without its first n characters.
func dropped(text string, n int) string {
	r := []rune(safe(text))
	return string(r[min(n, len(r)):])
}

// drawMessage writes what is being typed, or what has to be said.
func (m *model) drawMessage(c canvas, y int) {
	switch {
	case m.prompt != nil:
		x := c.put(0, y, questions[m.prompt.question]+m.prompt.text, m.style(look.Heading))
		c.ShowCursor(min(x, m.width-1), y)
		if m.said != "" {
			c.put(x+2, y, m.said, m.style(look.Faint))
		}
	case m.silent:
		c.put(0, y, fmt.Sprintf("the tree has not answered for %v", silence), m.style(look.Bad))
	case m.broken != "":
		c.put(0, y, m.broken, m.style(look.Bad))
	case m.failed && m.said != "":
		c.put(0, y, m.said, m.style(look.Bad))
	default:
		c.put(0, y, m.said, m.style(look.Probed))
	}
}

// drawKeys writes the keys as htop does. Keys of other views, and those that do not fit, are left
// out; the help and the end are always there.
func (m *model) drawKeys(c canvas, y int) {
	left := c.width
	fits := map[int]bool{}
	for _, last := range []bool{true, false} { // those that are always there first
		for i, b := range bindings {
			always := b.label == "Help" || b.label == "Quit"
			if b.label == "" || always != last || b.in != nil && !slices.Contains(b.in, m.view) {
				continue
			}
			if w := len(b.keys[0]) + len(b.label) + 1; w <= left {
				left -= w
				fits[i] = true
			}
		}
	}
	x := 0
	for i, b := range bindings {
		if !fits[i] {
			continue
		}
		x = c.put(x, y, b.keys[0], m.style(look.Heading))
		x = c.put(x, y, b.label, tcell.StyleDefault.Reverse(true)) + 1
	}
}

package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v3"

	"github.com/kprobefs/kprobefs/internal/look"
)

// binding is a row of the table of keys.
type binding struct {
	keys   []string // as keyName names them; the first is shown
	label  string   // in the last line of the screen, "" for those that are in the help only
	help   string
	in     []view // none means all
	action func(m *model)
}

var bindings []binding

// The table refers to the help, which is made from the table.
func init() {
	bindings = []binding{
		{keys: []string{"F1", "h", "?"}, label: "Help", help: "this help; again or Esc: back", action: (*model).toggleHelp},
		{keys: []string{"F2", "f"}, label: "Text", help: "the text of a function by its name; Tab completes", action: func(m *model) { m.ask(askFunction) }},
		{keys: []string{"F3", "/"}, label: "Search", help: "search; capital letters count if there are some", action: func(m *model) { m.ask(askSearch) }},
		{keys: []string{"n"}, help: "the next match", action: func(m *model) { m.next(1) }},
		{keys: []string{"N"}, help: "the match before", action: func(m *model) { m.next(-1) }},
		{keys: []string{"F4", "\\"}, label: "Filter", help: "show the lines with a text only; an empty one shows all", action: func(m *model) { m.ask(askFilter) }},
		{keys: []string{"F5", "t"}, label: "Trace", help: "the trace; at its end it follows", action: func(m *model) { m.show(traceView) }},
		{keys: []string{"F6", ">"}, label: "Sort", help: "sort by the next column", in: []view{probesView}, action: func(m *model) { m.sortNext(1) }},
		{keys: []string{"<"}, help: "sort by the column before", in: []view{probesView}, action: func(m *model) { m.sortNext(-1) }},
		{keys: []string{"R"}, help: "sort by hits a second", in: []view{probesView}, action: func(m *model) { m.sortBy(columnRate) }},
		{keys: []string{"H"}, help: "sort by hits", in: []view{probesView}, action: func(m *model) { m.sortBy(columnHits) }},
		{keys: []string{"M"}, help: "sort by missed hits", in: []view{probesView}, action: func(m *model) { m.sortBy(columnMissed) }},
		{keys: []string{"P"}, help: "sort by place", in: []view{probesView}, action: func(m *model) { m.sortBy(columnPlace) }},
		{keys: []string{"S"}, help: "sort by state", in: []view{probesView}, action: func(m *model) { m.sortBy(columnState) }},
		{keys: []string{"I"}, help: "sort the other way round", in: []view{probesView}, action: func(m *model) { m.reverse = !m.reverse; m.showProbes() }},
		{keys: []string{"F7", "l"}, label: "Log", help: "the kernel's log", action: func(m *model) { m.show(logView) }},
		{keys: []string{"Enter"}, label: "Function", help: "the text of the selected probe's function, as its bytes are now", in: []view{probesView}, action: (*model).openSelected},
		{keys: []string{"Space"}, label: "On/Off", help: "the selected probe's event on or off: the only key that writes", in: []view{probesView}, action: (*model).toggle},
		{keys: []string{"Z"}, help: "stop reading, and go on", action: func(m *model) { m.paused = !m.paused; m.stale = !m.paused }},
		{keys: []string{"r"}, help: "read now", action: func(m *model) { m.stale = true }},
		{keys: []string{"Up", "k"}, help: "up", action: func(m *model) { m.list().move(-1) }},
		{keys: []string{"Down", "j"}, help: "down", action: func(m *model) { m.list().move(1) }},
		{keys: []string{"PgUp", "Ctrl-B"}, help: "a page up", action: func(m *model) { m.list().move(-m.page()) }},
		{keys: []string{"PgDn", "Ctrl-F"}, help: "a page down", action: func(m *model) { m.list().move(m.page()) }},
		{keys: []string{"Home", "g"}, help: "the first line", action: func(m *model) { m.list().move(-len(m.list().lines)) }},
		{keys: []string{"End", "G"}, help: "the last line", action: func(m *model) { m.list().move(len(m.list().lines)) }},
		{keys: []string{"Left"}, help: "what is left of the screen", action: func(m *model) { m.sideways(-1) }},
		{keys: []string{"Right"}, help: "what is right of the screen", action: func(m *model) { m.sideways(1) }},
		{keys: []string{"Esc", "Backspace"}, help: "back to the probes", action: (*model).back},
		{keys: []string{"q"}, help: "back to the probes; there, end", action: (*model).leave},
		{keys: []string{"F10", "Ctrl-C"}, label: "Quit", help: "end", action: func(m *model) { m.over = true }},
	}
}

// keyName names a key.
func keyName(ev *tcell.EventKey) string {
	if ev.Key() != tcell.KeyRune {
		return tcell.KeyNames[ev.Key()]
	}
	if ev.Str() == " " {
		return "Space"
	}
	return ev.Str()
}

// key handles a key.
func (m *model) key(ev *tcell.EventKey) {
	if m.said = ""; m.prompt != nil {
		m.typeKey(ev)
		return
	}
	name := keyName(ev)
	for _, b := range bindings {
		switch {
		case !slices.Contains(b.keys, name):
		case b.in != nil && !slices.Contains(b.in, m.view):
			m.fail("%s is a key of the list of probes; Esc shows it", name)
		default:
			b.action(m)
		}
	}
}

func (m *model) list() *list { return &m.lists[m.view] }

// page is how many lines a page key moves.
func (m *model) page() int { return max(m.bodyHeight()-1, 1) }

// step is how many columns an arrow moves.
const step = 8

func (m *model) sideways(direction int) {
	if m.view == probesView {
		return // its columns fit
	}
	l := m.list()
	longest := 0
	for _, at := range l.lines {
		longest = max(longest, len([]rune(at.search)))
	}
	l.left = max(min(l.left+direction*step, longest-m.width), 0)
}

func (m *model) toggleHelp() {
	if m.view == helpView {
		m.back()
		return
	}
	m.show(helpView)
}

// back goes from the help to what it covers, and from other views to the list.
func (m *model) back() {
	if m.view == helpView {
		m.show(m.before)
		return
	}
	m.show(probesView)
}

// leave goes back, or ends where there is nothing to go back to, as q does in htop and lnav.
func (m *model) leave() {
	if m.view == probesView {
		m.over = true
		return
	}
	m.back()
}

func (m *model) sortBy(c column) {
	m.sort = c
	m.say("sorted by %s", table[c].title)
	m.showProbes()
}

func (m *model) sortNext(direction int) {
	c := m.sort
	w := m.widths()
	for range columns {
		c = (c + column(direction) + columns) % columns
		if table[c].less != nil && w[c] > 0 {
			break
		}
	}
	m.sortBy(c)
}

func (m *model) openSelected() {
	p, ok := m.selected()
	if !ok {
		m.fail("no probe is selected")
		return
	}
	function := functionOf(p.Place)
	if function == "" {
		m.fail("%s is in no function that has a name", p.Place)
		return
	}
	m.open(function)
}

// functionOf returns the function of SYMBOL+OFFSET, or of MODULE:SYMBOL+OFFSET.
func functionOf(place string) string {
	symbol, _, _ := strings.Cut(place, "+")
	if _, after, ok := strings.Cut(symbol, ":"); ok {
		symbol = after
	}
	symbol, _, _ = strings.Cut(symbol, " ")
	if strings.HasPrefix(symbol, "0x") {
		return ""
	}
	return symbol
}

// toggle switches the selected probe's event.
func (m *model) toggle() {
	p, ok := m.selected()
	if !ok {
		m.fail("no probe is selected")
		return
	}
	source := m.Source
	m.jobs = append(m.jobs, func() func(*model) {
		done, err := source.Switch(p.Probe)
		return func(m *model) {
			if m.stale = true; err != nil {
				m.fail("%s: %v", p.Place, err)
				return
			}
			m.say("%s", done)
		}
	})
}

// question is what a prompt asks for.
type question int

const (
	askSearch question = iota
	askFilter
	askFunction
)

var questions = map[question]string{askSearch: "search: ", askFilter: "filter: ", askFunction: "function: "}

// prompt is a line that is being typed.
type prompt struct {
	question question
	text     string
	before   string // what the search or filter was
	from     int    // where the cursor was
}

func (m *model) ask(q question) {
	m.prompt = &prompt{question: q, before: m.search, from: m.list().cursor}
	if q == askFilter {
		m.prompt.before, m.prompt.text = m.filter[m.view], m.filter[m.view]
	}
}

// typeKey takes a key of the line that is being typed.
func (m *model) typeKey(ev *tcell.EventKey) {
	p := m.prompt
	switch keyName(ev) {
	case "Enter":
		m.prompt = nil
		m.typed(p)
		return
	case "Esc", "Ctrl-C":
		m.prompt = nil
		p.text = p.before
		if p.question == askFilter {
			m.refilter(p.text)
		}
		return
	case "Backspace":
		if r := []rune(p.text); len(r) > 0 {
			p.text = string(r[:len(r)-1])
		}
	case "Ctrl-U":
		p.text = ""
	case "Tab":
		m.complete(p)
		return
	default:
		if ev.Key() != tcell.KeyRune {
			return
		}
		p.text += ev.Str()
	}
	switch p.question { // what has been typed so far is shown
	case askSearch:
		m.list().move(p.from - m.list().cursor)
		if p.text != "" {
			m.list().find(p.text, 1, 0)
		}
	case askFilter:
		m.refilter(p.text)
	case askFunction:
	}
}

// typed takes the line at its end.
func (m *model) typed(p *prompt) {
	switch p.question {
	case askSearch:
		if p.text != "" {
			m.search = p.text
		}
		m.list().move(p.from - m.list().cursor)
		if m.search != "" && !m.list().find(m.search, 1, 0) {
			m.fail("%q is not here", m.search)
		}
	case askFilter:
		m.refilter(p.text)
	case askFunction:
		if p.text != "" {
			m.open(p.text)
		}
	}
}

func (m *model) refilter(text string) {
	m.filter[m.view] = text
	l := m.list()
	l.set(l.all, text)
}

func (m *model) next(direction int) {
	switch {
	case m.search == "":
		m.fail("nothing has been searched for; / begins a search")
	case !m.list().find(m.search, direction, 1):
		m.fail("%q is not here", m.search)
	}
}

// complete extends the name of a function as far as it is the only possible one.
func (m *model) complete(p *prompt) {
	if p.question != askFunction {
		return
	}
	source, begun := m.Source, p.text
	m.jobs = append(m.jobs, func() func(*model) {
		names, err := source.FunctionNames(begun)
		return func(m *model) {
			switch {
			case m.prompt != p || p.text != begun: // it has been changed meanwhile
			case err != nil:
				m.fail("%v", err)
			case len(names) == 0:
				m.fail("no function begins with %q", begun)
			default:
				p.text = common(names)
				if len(names) > 1 {
					m.say("%d functions: %s", len(names), strings.Join(names[:min(len(names), 20)], " "))
				}
			}
		}
	})
}

// common returns what names begin with.
func common(names []string) string {
	first := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, first) {
			first = first[:len(first)-1]
		}
	}
	return first
}

// showHelp makes the help from the table of keys.
func (m *model) showHelp() {
	lines := []look.Line{
		{{Style: look.Heading, Text: "Keys"}},
		{},
	}
	for _, b := range bindings {
		lines = append(lines, look.Line{{Style: look.Probed, Text: fmt.Sprintf("%14s", strings.Join(b.keys, " "))}, {Style: look.Plain, Text: "  " + b.help}})
	}
	lines = append(lines, look.Line{}, look.Line{{Style: look.Heading, Text: "States"}}, look.Line{})
	for _, s := range []struct {
		style look.Style
		word  string
		help  string
	}{
		{look.Int3, "int3", "a breakpoint is in the text"},
		{look.Optimized, "jump", "a jump to a detour is, or is about to be, instead of the breakpoint"},
		{look.Ftrace, "ftrace", "a call at the function's entry"},
		{look.Faint, "disabled", "this probe is switched off"},
		{look.Faint, "not armed", "all are: kprobes/enabled is 0"},
		{look.Bad, "gone", "the module with the code has been unloaded"},
	} {
		lines = append(lines, look.Line{{Style: s.style, Text: fmt.Sprintf("%14s", s.word)}, {Style: look.Plain, Text: "  " + s.help}})
	}
	for _, text := range []string{
		"", "HITS are counted by the event of kprobe_events that has the probe, or - if that is not",
		"known. MISSED are the hits while another probe was being handled. The screen reads",
		"the tree's files as any program does: a probe on the kernel's reading counts that.",
	} {
		lines = append(lines, look.Line{{Style: look.Plain, Text: text}})
	}
	m.lists[helpView].set(linesOf(lines), m.filter[helpView])
	m.loaded[helpView] = true
}

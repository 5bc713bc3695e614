package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kprobefs/kprobefs/internal/look"
)

// view is what the screen shows.
type view int

const (
	probesView view = iota
	textView
	traceView
	logView
	helpView
)

// views is how many views there are.
const views = int(helpView) + 1

// model is the state of the screen.
type model struct {
	Config
	width, height int
	over          bool // the user has ended it

	view, before view // before is the one that the help covers
	lists        [views]list
	filter       [views]string
	search       string
	prompt       *prompt

	kernel   Kernel
	probes   []probe
	sort     column
	reverse  bool
	function string

	functions []look.Function
	log       []look.LogRecord

	asked   time.Time     // when the reading has begun
	took    time.Duration // what the last one has taken
	reading bool
	silent  bool // it takes too long
	stale   bool // it is time to read again
	paused  bool
	loaded  [views]bool // something has been read for the view

	said   string // an answer to a key
	failed bool   // it is an error
	broken string // why the tree cannot be read
	jobs   []func() func(*model)
}

// probe is a probe and its rates.
type probe struct {
	look.Probe
	key    string
	rate   float64 // hits a second, or negative if that is not known
	missed float64 // the same of those that were missed
	base   counts  // from which the rates are computed
}

// counts are a probe's at a time.
type counts struct {
	at     time.Time
	hits   *uint64
	missed uint64
}

func newModel(c Config) *model {
	m := &model{Config: c, stale: true, sort: columnRate}
	for _, v := range []view{traceView, logView} {
		m.lists[v].tail, m.lists[v].follow = true, true
	}
	return m
}

func (m *model) resize(width, height int) {
	m.width, m.height = width, height
	if len(m.functions) > 0 {
		m.showText()
	}
	m.showHelp()
}

// take takes what has been read.
func (m *model) take(r reading) {
	m.broken = ""
	if r.err != nil {
		m.broken = r.err.Error()
		return
	}
	m.kernel = r.kernel
	m.takeProbes(r.probes, r.at)
	m.loaded[probesView] = true
	if r.viewErr != nil {
		m.broken = r.viewErr.Error()
	}
	switch r.of {
	case textView:
		if r.viewErr == nil && r.function == m.function {
			m.functions = r.functions
			m.loaded[textView] = true
			m.showText()
		}
	case traceView:
		if r.viewErr == nil {
			m.loaded[traceView] = true
			m.showTrace(r.trace)
		}
	case logView:
		m.loaded[logView] = m.loaded[logView] || r.viewErr == nil
		m.log = append(m.log, r.log...)
		m.showLog()
	case probesView, helpView:
	}
}

// takeProbes computes the rates from counts before, of at least half an interval ago: what a key has
// read a moment ago is no measure.
func (m *model) takeProbes(all []look.Probe, at time.Time) {
	old := map[string]probe{}
	for _, p := range m.probes {
		old[p.key] = p
	}
	seen := map[string]int{}
	m.probes = m.probes[:0:0]
	for _, p := range all {
		key := p.Kind + " " + p.Address + " " + p.Place
		if len(p.Events) == 1 {
			key += " " + p.Events[0].Name
		}
		seen[key]++
		now := probe{Probe: p, key: key + " " + strconv.Itoa(seen[key]), rate: -1, missed: -1, base: counts{at, p.Hits, p.Missed}}
		if was, ok := old[now.key]; ok {
			now.measure(was, m.Interval/2)
		}
		m.probes = append(m.probes, now)
	}
	m.showProbes()
}

// measure computes the rates, or keeps the former ones if too little time has passed.
func (p *probe) measure(was probe, least time.Duration) {
	time := p.base.at.Sub(was.base.at)
	if time < least {
		p.rate, p.missed, p.base = was.rate, was.missed, was.base
		return
	}
	p.missed = rate(was.base.missed, p.Missed, time.Seconds())
	if was.base.hits != nil && p.Hits != nil {
		p.rate = rate(*was.base.hits, *p.Hits, time.Seconds())
	}
}

// rate returns how much a count has grown in a second, or -1 if that is not known.
func rate(was, now uint64, seconds float64) float64 {
	if now < was || seconds <= 0 {
		return -1
	}
	return float64(now-was) / seconds
}

// column is a column of the list.
type column int

const (
	columnPlace column = iota
	columnKind
	columnState
	columnRate
	columnHits
	columnMissed
	columnMissing
	columnEvent
	columnWhy
	columns // how many there are
)

// tableColumn describes a column.
type tableColumn struct {
	title string
	width int
	right bool // numbers
	// from is the width of a terminal from which on the column is shown.
	from int
	text func(p probe) string
	// less compares for sorting, in the order that is more useful; nil if the column cannot be
	// sorted by.
	less func(a, b probe) int
}

var table = [columns]tableColumn{
	columnPlace: {
		title: "PLACE", width: 20, text: func(p probe) string { return p.Place },
		less: func(a, b probe) int { return cmp.Compare(a.Place, b.Place) },
	},
	columnKind: {
		title: "K", width: 1, text: func(p probe) string { return p.Kind },
		less: func(a, b probe) int { return cmp.Compare(a.Kind, b.Kind) },
	},
	columnState: {
		title: "STATE", width: 9, from: 26, text: shortState,
		less: func(a, b probe) int { return cmp.Compare(shortState(a), shortState(b)) },
	},
	columnRate: {
		title: "HITS/s", width: 7, right: true, from: 36, text: func(p probe) string { return perSecond(p.rate) },
		less: func(a, b probe) int { return cmp.Compare(b.rate, a.rate) },
	},
	columnHits: {
		title: "HITS", width: 10, right: true, from: 52, text: func(p probe) string { return hits(p.Probe) },
		less: func(a, b probe) int { return cmp.Compare(count(b.Hits), count(a.Hits)) },
	},
	columnMissed: {
		title: "MISSED", width: 7, right: true, from: 60, text: func(p probe) string { return strconv.FormatUint(p.Missed, 10) },
		less: func(a, b probe) int { return cmp.Compare(b.Missed, a.Missed) },
	},
	columnMissing: {
		title: "MISS/s", width: 7, right: true, from: 70, text: func(p probe) string { return perSecond(p.missed) },
		less: func(a, b probe) int { return cmp.Compare(b.missed, a.missed) },
	},
	columnEvent: {
		title: "EVENT", width: 18, from: 90, text: func(p probe) string { return strings.Join(names(p.Probe), ",") },
		less: func(a, b probe) int { return slices.Compare(names(a.Probe), names(b.Probe)) },
	},
	columnWhy: {title: "WHY", from: 100, text: func(p probe) string { return why(p.Probe) }},
}

// shortState says in a word how the text is patched for a probe, or why it is not.
func shortState(p probe) string {
	has := func(flag string) bool { return slices.Contains(p.Flags, flag) }
	switch {
	case has("gone"):
		return "gone"
	case has("disabled"):
		return "disabled"
	case !p.Armed:
		return "not armed"
	case has("optimized"):
		return "jump"
	case has("ftrace"):
		return "ftrace"
	}
	return "int3"
}

// why says why a probe is a jump, or is not.
func why(p look.Probe) string {
	switch {
	case p.NotJump != "":
		return "no jump: " + p.NotJump
	case slices.Contains(p.Flags, "optimized"):
		return "a jump to its detour, or about to be"
	case p.Detour != "":
		return "a jump is possible, its detour is prepared"
	}
	return ""
}

func names(p look.Probe) []string {
	var all []string
	for _, e := range p.Events {
		all = append(all, e.Name)
	}
	return all
}

func hits(p look.Probe) string {
	if p.Hits == nil {
		return "-"
	}
	return strconv.FormatUint(*p.Hits, 10)
}

// count returns hits for comparing: those that are not known are the least.
func count(n *uint64) float64 {
	if n == nil {
		return -1
	}
	return float64(*n)
}

// perSecond writes a rate in at most 7 characters.
func perSecond(r float64) string {
	switch {
	case r < 0:
		return "-"
	case r == 0:
		return "0"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	case r < 1e6:
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	return fmt.Sprintf("%.1fM", r/1e6)
}

// widths returns the width of each column that is shown, and 0 for the others. What is left
// belongs to the reason or, without that, to the place.
func (m *model) widths() (w [columns]int) {
	left := m.width
	for i, c := range table {
		if m.width >= c.from {
			w[i] = c.width
			left -= c.width + 1
		}
	}
	if m.width >= table[columnWhy].from {
		wide := min(left/3, 20)
		w[columnPlace] += wide
		w[columnWhy] = max(left-wide, 1)
	} else {
		w[columnPlace] = max(w[columnPlace]+left+1, 1)
	}
	return w
}

// tableLine writes a line of the table.
func (m *model) tableLine(text func(column) string) string {
	w := m.widths()
	var b strings.Builder
	for i := range columns {
		if w[i] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		s := fit(text(i), w[i])
		if table[i].right {
			s = fmt.Sprintf("%*s", w[i], strings.TrimRight(s, " "))
		}
		b.WriteString(s)
	}
	return b.String()
}

// tableHead writes the titles. The one that is sorted by has an arrow.
func (m *model) tableHead() string {
	return m.tableLine(func(c column) string {
		if c != m.sort {
			return table[c].title
		}
		arrow := "v"
		if m.reverse {
			arrow = "^"
		}
		return table[c].title + arrow
	})
}

// fit cuts text to a width, or pads it.
func fit(text string, width int) string {
	r := []rune(safe(text))
	if len(r) > width {
		if width < 4 {
			return string(r[:width])
		}
		return string(r[:width-1]) + "~"
	}
	return string(r) + strings.Repeat(" ", width-len(r))
}

// showProbes makes the lines of the list, sorted.
func (m *model) showProbes() {
	slices.SortStableFunc(m.probes, func(a, b probe) int {
		order := table[m.sort].less(a, b)
		if m.reverse {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(a.Place, b.Place), cmp.Compare(a.key, b.key))
	})
	var lines []line
	for _, p := range m.probes {
		// The filter and the search see all that is known of the probe.
		lines = append(lines, line{key: p.key, search: strings.Join(append(names(p.Probe), p.Place, p.Address, p.Kind, p.State(), shortState(p), why(p.Probe)), " ")})
	}
	m.lists[probesView].set(lines, m.filter[probesView])
}

// selected returns the probe at the cursor.
func (m *model) selected() (probe, bool) {
	key := m.lists[probesView].key()
	i := slices.IndexFunc(m.probes, func(p probe) bool { return p.key == key })
	if key == "" || i < 0 {
		return probe{}, false
	}
	return m.probes[i], true
}

func (m *model) showText() {
	var lines []line
	for i, f := range m.functions {
		if i > 0 {
			lines = append(lines, line{})
		}
		lines = append(lines, linesOf(f.Lines(m.width))...)
	}
	m.lists[textView].set(lines, m.filter[textView])
}

func linesOf(all []look.Line) (lines []line) {
	for _, l := range all {
		lines = append(lines, line{spans: l, search: l.String()})
	}
	return lines
}

func (m *model) showTrace(entries []look.Entry) {
	var all []look.Line
	for _, e := range entries {
		for i, text := range e.Lines {
			style := look.Plain
			switch {
			case e.Lost != nil:
				style = look.Bad
			case i > 0:
				style = look.Faint
			}
			all = append(all, look.Line{{Style: style, Text: text}})
		}
	}
	m.lists[traceView].set(linesOf(all), m.filter[traceView])
}

// logLimit is how many records of the log are kept.
const logLimit = 10000

func (m *model) showLog() {
	if len(m.log) > logLimit {
		m.log = slices.Clone(m.log[len(m.log)-logLimit:])
	}
	var all []look.Line
	for _, r := range m.log {
		for text := range strings.SplitSeq(r.Text, "\n") {
			all = append(all, look.Line{
				{Style: look.Faint, Text: fmt.Sprintf("[%5d.%06d] ", r.Usec/1e6, r.Usec%1e6)}, {Style: look.Plain, Text: text},
			})
		}
	}
	m.lists[logView].set(linesOf(all), m.filter[logView])
}

// say shows an answer to a key.
func (m *model) say(format string, args ...any) {
	m.said, m.failed = fmt.Sprintf(format, args...), false
}

// fail shows why a key has done nothing.
func (m *model) fail(format string, args ...any) {
	m.said, m.failed = fmt.Sprintf(format, args...), true
}

// show changes the view. Its lines are read at once.
func (m *model) show(v view) {
	if v == helpView && m.view != helpView {
		m.before = m.view
	}
	m.view, m.stale = v, true
}

// open shows the text of a function.
func (m *model) open(function string) {
	if function != m.function {
		m.function, m.functions = function, nil
		m.lists[textView] = list{}
		m.loaded[textView] = false
	}
	m.show(textView)
}

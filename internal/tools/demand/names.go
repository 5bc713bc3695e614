package main

import (
	"regexp"
	"strings"
)

// Kind is what a name is the name of.
type Kind string

// The kinds of names. A field's name is SYSTEM:EVENT.FIELD, an event's SYSTEM:EVENT.
const (
	Function Kind = "function"
	Event    Kind = "event"
	Field    Kind = "field"
)

// A Name is something that a tool or a lesson names.
type Name struct {
	Kind Kind
	Text string
}

// Linux is what Linux 6.1 has, so that words of a text can be recognized.
type Linux struct {
	Functions map[string]bool            // of the kernel, and of its modules that are looked at
	Events    map[string]map[string]bool // SYSTEM:EVENT, and its fields
	systems   map[string][]string        // an event's name, and the systems that have one
}

// index fills in systems.
func (l *Linux) index() {
	l.systems = map[string][]string{}
	for e := range l.Events {
		system, name, _ := strings.Cut(e, ":")
		l.systems[name] = append(l.systems[name], system)
	}
}

// attach are the places in a program's text at which it says what a probe is set on: group
// 1 is the function. Where the text around does not show that it is one, Linux must have it.
var attach = []struct {
	text   *regexp.Regexp
	unsure bool
}{
	{regexp.MustCompile(`attach_k(?:ret)?probe\(\s*event\s*=\s*b?["'](\w+)["']`), false},
	{regexp.MustCompile(`attach_k(?:ret)?probe\(\s*event_re\s*=\s*r?["']\^(\w+)\$`), false},
	{regexp.MustCompile(`get_kprobe_functions\(\s*b?["']\^?(\w+)\$?["']\s*\)`), false},
	{regexp.MustCompile(`\bk(?:ret)?probe__(\w+)\s*\(`), false},
	{regexp.MustCompile(`\bK(?:RET)?FUNC_PROBE\(\s*(\w+)`), false},
	{regexp.MustCompile(`\b(?:kprobe|kretprobe|kfunc|kretfunc|fentry|fexit):(?:\w+:)?(\w+)\b`), false},
	{regexp.MustCompile(`\b(?:kprobe|kretprobe|fentry|fexit)/(\w+)\b`), true},
	{regexp.MustCompile(`\.symbol_name\s*=\s*"(\w+)"`), false},
	{regexp.MustCompile(`['" ][pr]\d*(?::[\w/]*)? ([a-z_]\w+)\b`), true},
	{regexp.MustCompile(`['" ][prk]:(?:\w*:)?([a-z_]\w+)\b`), true},
	{regexp.MustCompile(`perf probe (?:-[ax] ?|--add[= ])?'?([a-z_]\w+)\b`), true},
}

// attachSyscall are those at which it names a system call.
var attachSyscall = regexp.MustCompile(`(?:get_syscall_fnname\(\s*b?["']|syscall__|k(?:ret)?syscall/)(\w+)`)

// attachEvent are those at which it names an event: group 1 is its system, or nothing,
// and group 2 the event.
var attachEvent = []*regexp.Regexp{
	regexp.MustCompile(`TRACEPOINT_PROBE\(\s*(\w+)\s*,\s*(\w+)`),
	regexp.MustCompile(`(?:attach_(?:raw_)?tracepoint\(\s*tp\s*=|tracepoint_exists\()\s*b?["']()(\w+)["']\s*[,)]`),
	regexp.MustCompile(`tracepoint_exists\(\s*b?["'](\w+)["']\s*,\s*b?["'](\w+)["']`),
	regexp.MustCompile(`\b(?:tp_btf|raw_tp|raw_tracepoint)/()(\w+)\b`),
	regexp.MustCompile(`\b(?:tracepoint|tp)/(\w+)/(\w+)\b`),
	regexp.MustCompile(`\bevents/(\w+)/(\w+)\b`),
	regexp.MustCompile(`\b(?:tracepoint|rawtracepoint|t|e):(\w+):(\w+)\b`),
	regexp.MustCompile(`\b(?:rawtracepoint|rt):()(\w+)\b`),
	regexp.MustCompile(`\b(\w+):(\w+)\b`),
	regexp.MustCompile(`\btrace_()([a-z]\w+)\(`),
	regexp.MustCompile(`(?m)^\s*()([a-z]\w+)\s+(?:[a-z_]+=%\S+\s*)+$`), // a page that lists events
}

// tool is a line that starts a tool which is told what to look at, or that writes to a file
// of tracing. What is written or told is in the line.
var tool = regexp.MustCompile(`^\s*(?:[-\w/.~]*[#$%>] *|\.?/?[./\w]*)(?:sudo )?\S*\b(?:funccount|stackcount|trace|argdist|funclatency|funcslower|funcgraph|functrace|funcinterval|kprobe|tpoint|perf-stat-hist|trace-cmd|bpftrace|perf)\b|(?:set_ftrace_filter|set_ftrace_notrace|set_graph_function|set_graph_notrace|kprobe_events|dynamic_events|set_event|/filter|/trigger|/inject)\b`)

// toFile is a line that writes functions to a file: any word of it may be one, not only
// those with an underscore.
var toFile = regexp.MustCompile(`> ?\S*(?:set_ftrace_filter|set_ftrace_notrace|set_graph_function|set_graph_notrace|kprobe_events|dynamic_events)\b`)

// word is a name in such a line.
var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// prose are words of such lines that Linux also has as functions, and that are not meant.
var prose = wordSet("bpftrace trace perf kprobe echo cat sleep sort kill read write open close exit time sudo if then done do in to of the for and or on off all function filter count return current probe uprobe " +
	"common str kstack ustack printf print delete clear zero ntop strftime sum min max avg hist lhist stats pid tid comm args arg retval func stack sym usym ksym usage reset print_fmt string signed unsigned " +
	"size name id type val vals key keys hitcount log2 hex execname system snapshot panic dump memset memcpy strlen record report stat list start stop extract show split listen stream mem hash match test none nop free format panic_on_oops ls dummy foo sched symbol_name " +
	// files of tracefs
	"set_event set_ftrace_filter set_ftrace_notrace set_graph_function set_graph_notrace trace_clock")

func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// NamesIn returns what a text names: the functions and events that probes are set on in a
// program, or that a line of a lesson tells a tool, and the fields that are read from the
// events. A pattern (vfs_*) names nothing.
func NamesIn(text string, l *Linux) map[Name]bool {
	names := map[Name]bool{}
	for _, at := range attach {
		for _, m := range at.text.FindAllStringSubmatchIndex(text, -1) {
			if f := text[m[2]:m[3]]; !isPattern(text, m[3]) && (!at.unsure || l.Functions[f]) && !prose[f] && f != strings.ToUpper(f) {
				names[Name{Function, f}] = true
			}
		}
	}
	for _, m := range attachSyscall.FindAllStringSubmatch(text, -1) {
		if f := "__x64_sys_" + m[1]; l.Functions[f] {
			names[Name{Function, f}] = true
		}
	}
	for _, re := range attachEvent {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			l.addEvent(names, m[1], m[2])
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if tool.MatchString(line) {
			l.toldIn(line, names)
		}
	}
	l.fieldsIn(text, names)
	return names
}

// isPattern reports whether the name that ends there goes on as a pattern.
func isPattern(text string, end int) bool {
	return end < len(text) && strings.ContainsRune("*?[", rune(text[end]))
}

// addEvent adds an event that Linux has. Without a system it is the only one of that name.
func (l *Linux) addEvent(names map[Name]bool, system, event string) {
	if system == "" {
		if systems := l.systems[event]; len(systems) == 1 {
			system = systems[0]
		}
	}
	if name := system + ":" + event; l.Events[name] != nil {
		names[Name{Event, name}] = true
	}
}

// toldIn adds what a line of a shell tells a tool: functions and events by their names.
func (l *Linux) toldIn(line string, names map[Name]bool) {
	for _, at := range word.FindAllStringIndex(line, -1) {
		w := line[at[0]:at[1]]
		pattern := isPattern(line, at[1]) || at[0] > 0 && strings.ContainsRune("*?]$%@/-", rune(line[at[0]-1]))
		if prose[w] || pattern || len(w) < 4 {
			continue
		}
		if len(l.systems[w]) == 1 && !l.Functions[w] {
			l.addEvent(names, "", w)
		} else if l.Functions[w] && (strings.Contains(w, "_") || toFile.MatchString(line)) {
			names[Name{Function, w}] = true
		}
	}
	for n := range names {
		if n.Kind == Event && strings.Contains(line, strings.ReplaceAll(n.Text, ":", "/")) {
			l.addFields(names, n.Text, word.FindAllString(line, -1))
		}
	}
}

// eventBlock is the head of a block that runs at events, in bcc's C and in bpftrace's language.
var eventBlock = regexp.MustCompile(`TRACEPOINT_PROBE\(\s*\w+\s*,\s*\w+\s*\)|(?:\btracepoint:\w+:\w+,?\s*)+`)

var (
	eventIn  = regexp.MustCompile(`(\w+)\s*[,:]\s*(\w+)\s*(?:\)|,|$|\s)`)
	argument = regexp.MustCompile(`args(?:->|\.)(\w+)`)
)

// fieldsIn adds the fields that blocks read from their events.
func (l *Linux) fieldsIn(text string, names map[Name]bool) {
	for _, at := range eventBlock.FindAllStringIndex(text, -1) {
		head, body := text[at[0]:at[1]], text[at[1]:]
		if end := strings.Index(body, "\n}"); end >= 0 {
			body = body[:end]
		}
		var fields []string
		for _, m := range argument.FindAllStringSubmatch(body, -1) {
			fields = append(fields, m[1])
		}
		head = strings.NewReplacer("TRACEPOINT_PROBE(", "", "tracepoint:", "").Replace(head)
		for _, m := range eventIn.FindAllStringSubmatch(head, -1) {
			l.addFields(names, m[1]+":"+m[2], fields)
		}
	}
}

// addFields adds the words that are fields of the event.
func (l *Linux) addFields(names map[Name]bool, event string, words []string) {
	for _, w := range words {
		if l.Events[event][w] {
			names[Name{Field, event + "." + w}] = true
		}
	}
}

package grammar

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tracefs is where the files stand on Linux, and under "kprobefs exec".
const tracefs = "/sys/kernel/tracing/"

// playerName is the task's name during the play: $comm.
const playerName = "player"

// player makes the steps of cases, on the thread that it is locked to.
type player struct {
	setup string // what kprobe_events holds for the cases
	kmsg  int    // a descriptor of /dev/kmsg at its end

	words, options bool // small files were written to
}

// Play makes the cases from number first up to before last, fills in the
// answers, and prints the cases.
func Play(w io.Writer, name string, seed uint64, first, last int) error {
	t := New(name, seed)
	if t == nil {
		return fmt.Errorf("no table %q: one of %v", name, Names)
	}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NAME, cString(playerName), 0, 0, 0); err != nil {
		return fmt.Errorf("set the task's name: %w", err)
	}
	kmsg, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open /dev/kmsg: %w", err)
	}
	defer unix.Close(kmsg)
	p := &player{kmsg: kmsg}
	t.Cases = t.Cases[min(first, len(t.Cases)):min(last, len(t.Cases))]
	_, clock, _ := strings.Cut(load("trace_clock"), "[")
	clock, _, _ = strings.Cut(clock, "]")
	store("trace_clock", 0, "local") // as reset leaves it, wherever the cases begin
	for i := range t.Cases {
		p.play(&t.Cases[i])
	}
	p.reset()
	store("trace_clock", 0, clock)
	return t.Write(w)
}

// play makes one case.
func (p *player) play(c *Case) {
	if c.Steps[0].Op != opSetup || c.Steps[0].Data != p.setup || p.words || p.options {
		p.reset()
	}
	store("events/kprobes/a/filter", 0, "0")
	store("error_log", unix.O_TRUNC, "")
	p.log()
	for i := range c.Steps {
		s := &c.Steps[i]
		s.Answer = p.step(s)
	}
}

// reset leaves no event, and the small files as they were found.
func (p *player) reset() {
	p.setup = ""
	store("events/enable", 0, "0")
	store("kprobe_events", unix.O_TRUNC, "")
	store("tracing_on", 0, "1")
	if p.words {
		p.words = false
		for _, f := range [...][2]string{{"tracing_on", "1"}, {"trace_clock", "local"}, {"current_tracer", "nop"}, {"buffer_size_kb", "1408"}} {
			store(f[0], 0, f[1])
		}
	}
	if p.options {
		p.options = false
		for _, f := range optionDefaults {
			store(f[0], 0, f[1])
		}
		store("set_event_pid", unix.O_TRUNC, "")
		store("set_event_notrace_pid", unix.O_TRUNC, "")
	}
}

// step makes one step and gives its answers.
func (p *player) step(s *Step) []string {
	switch s.Op {
	case opKprobe:
		return []string{store("kprobe_events", unix.O_APPEND, s.Data)}
	case opTrunc:
		return []string{store("kprobe_events", unix.O_TRUNC, s.Data)}
	case opDynamic:
		return []string{store("dynamic_events", unix.O_APPEND, s.Data)}
	case opState:
		return p.state()
	case opSetup:
		return p.setUp(s.Data)
	case opOn:
		if answer := store("events/kprobes/a/enable", 0, "1"); answer != "1" {
			return []string{answer}
		}
		return nil
	case opRead:
		count, _ := strconv.Atoi(s.Data)
		return recorded(func() { read("README", count) })
	case opWrite:
		return recorded(func() { store("trace", 0, s.Data) })
	case opFilter:
		return p.filter(s.Data)
	}
	p.words, p.options = p.words || !isOption(s.Op), p.options || isOption(s.Op)
	answer := []string{store(s.Op, 0, s.Data)}
	return append(append(answer, showWords(s.Op)...), p.log()...)
}

func (p *player) setUp(definitions string) []string {
	if p.setup == definitions {
		return nil
	}
	p.setup = definitions
	if answer := store("kprobe_events", unix.O_TRUNC, definitions); answer != strconv.Itoa(len(definitions)) {
		return append([]string{answer}, errorLog()...)
	}
	return nil
}

// state is the events that are defined, with the fields of their arguments,
// what error_log has, and what was logged.
func (p *player) state() []string {
	var answer []string
	for line := range strings.Lines(load("kprobe_events")) {
		line = hidePointers(strings.TrimSuffix(line, "\n"))
		answer = append(answer, "= "+escape(line))
		_, rest, _ := strings.Cut(line, ":")
		name, args, _ := strings.Cut(rest, " ")
		if strings.Contains(args, " ") && !strings.Contains(name, "PTR") {
			answer = append(answer, format(name)...)
		}
	}
	return append(append(answer, errorLog()...), p.log()...)
}

// pointer is what %p makes of an address.
var pointer = regexp.MustCompile(`0x(\(____ptrval____\)|[0-9a-f]{16})`)

func hidePointers(s string) string { return pointer.ReplaceAllString(s, "PTR") }

// format is the fields of an event's arguments and how they are printed.
func format(event string) []string {
	var answer []string
	for line := range strings.Lines(load("events/" + event + "/format")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.Contains(line, " common_") || strings.Contains(line, " __probe_"):
		case strings.HasPrefix(line, "field:"):
			answer = append(answer, "f "+strings.NewReplacer("field:", "", "\toffset:", " ", "\tsize:", " ", "\tsigned:", " ", ";", "").Replace(line))
		case strings.HasPrefix(line, "print fmt: "):
			answer = append(answer, "f "+strings.TrimPrefix(line, "print fmt: "))
		}
	}
	return answer
}

// errorLog is error_log without the times; of a line that has only a caret, its
// column.
func errorLog() []string {
	var answer []string
	for line := range strings.Lines(load("error_log")) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			_, line, _ = strings.Cut(line, "] ")
		}
		if caret := strings.TrimLeft(line, " "); caret == "^" {
			line = fmt.Sprintf("^%d", len(line)-1)
		}
		answer = append(answer, "! "+escape(line))
	}
	return answer
}

// logged are the lines of the kernel's log that are about these files.
var logged = regexp.MustCompile(`^[^;]*;((?:trace_kprobe: |Line length|Could not create|Failed to create|event trace|Could not enable).*)`)

// log is what was logged since the last time.
func (p *player) log() []string {
	var answer []string
	b := make([]byte, 8192)
	for {
		n, err := unix.Read(p.kmsg, b)
		if err == unix.EPIPE {
			continue // some were overwritten
		}
		if err != nil || n <= 0 {
			return answer
		}
		line, _, _ := strings.Cut(string(b[:n]), "\n")
		if m := logged.FindStringSubmatch(line); m != nil {
			answer = append(answer, "log "+hidePointers(m[1]))
		}
	}
}

// byChance are fields whose values differ from run to run.
var byChance = regexp.MustCompile(`(?i)cpu|pid|sym|__probe`)

// filter writes a filter; one that is taken is held against reads.
func (p *player) filter(text string) []string {
	answer := []string{store("events/kprobes/a/filter", 0, text)}
	for line := range strings.Lines(load("events/kprobes/a/filter")) {
		answer = append(answer, "= "+escape(strings.TrimSuffix(line, "\n")))
	}
	if answer[0] != strconv.Itoa(len(text)) {
		return append(answer, errorLog()...)
	}
	if byChance.MatchString(text) {
		return answer
	}
	passed := "passes"
	for _, line := range recorded(func() {
		for _, n := range readCounts {
			read("README", n)
		}
	}) {
		_, n, _ := strings.Cut(line, "n=")
		n, _, _ = strings.Cut(n, " ")
		passed += " " + n
	}
	return append(answer, passed)
}

func isOption(path string) bool {
	return slices.ContainsFunc(optionFiles, func(f wordFile) bool { return f.path == path })
}

// showWords is what a small file shows.
func showWords(path string) []string {
	var answer []string
	switch path {
	case "trace", "error_log":
		return nil
	}
	text := load(path)
	if path == "trace_options" { // of all that a kernel may have those that are written
		words := strings.Fields(text)
		text = strings.Join(slices.DeleteFunc(words, func(w string) bool {
			return !slices.Contains([]string{"raw", "hex", "print-parent", "sym-addr", "overwrite"}, strings.TrimPrefix(w, "no"))
		}), " ")
	}
	if path == "set_event" || strings.HasPrefix(path, "events/") {
		text += "a " + load("events/kprobes/a/enable") + "b " + load("events/kprobes/b/enable") + "g/a " + load("events/g/a/enable") + "kprobes " + load("events/kprobes/enable")
	}
	for line := range strings.Lines(text) {
		group, _, isEvent := strings.Cut(line, ":")
		if path == "set_event" && isEvent && group != "kprobes" && group != "g" {
			continue
		}
		answer = append(answer, "= "+escape(strings.TrimSuffix(line, "\n")))
	}
	return answer
}

// recorded runs f and gives what the event a recorded of it, without what stands
// before the arguments. Of a probe on vfs_write the last hit is our own, which
// ends the recording.
func recorded(f func()) []string {
	store("tracing_on", 0, "0")
	store("trace", unix.O_TRUNC, "")
	store("tracing_on", 0, "1")
	f()
	store("tracing_on", 0, "0")
	me := fmt.Sprintf("-%d ", unix.Gettid())
	var answer []string
	for line := range strings.Lines(load("trace")) {
		_, hit, ok := strings.Cut(line, ": a: (")
		place, args, _ := strings.Cut(hit, ")")
		if ok && strings.Contains(line, me) {
			answer = append(answer, "hit"+escape(strings.TrimSuffix(args, "\n")))
			if strings.HasPrefix(place, "vfs_write") && len(answer) > 1 {
				answer = answer[:1]
			}
		}
	}
	return answer
}

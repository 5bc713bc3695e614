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

// tracefs is the files' directory, on Linux and below "kprobefs exec".
const tracefs = "/sys/kernel/tracing/"

// playerName is the task's name while playing: $comm.
const playerName = "player"

// player executes the steps of cases on the thread that it is locked to.
type player struct {
	setup string // contents of kprobe_events before each case
	kmsg  int    // a descriptor of /dev/kmsg, positioned at the end

	words, options bool // files of these tables were written to
}

// Play executes the cases from number first to last-1 and prints them with their
// answers.
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
	store("trace_clock", 0, "local") // as reset leaves it, so that all cases begin with the same state
	for i := range t.Cases {
		p.play(&t.Cases[i])
	}
	p.reset()
	store("trace_clock", 0, clock)
	return t.Write(w)
}

// play executes a case.
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

// reset removes all events, and restores the small files.
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

// step executes a step and returns its answers.
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

// state returns the defined events with the fields of their arguments, error_log, and
// the lines that were logged.
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

// pointer matches addresses as printed by %p.
var pointer = regexp.MustCompile(`0x(\(____ptrval____\)|[0-9a-f]{16})`)

func hidePointers(s string) string { return pointer.ReplaceAllString(s, "PTR") }

// format returns the fields of an event's arguments and their print format.
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

// errorLog returns error_log without the times, and with the column instead of lines
// that only have a caret.
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

// logged matches lines of the kernel's log that are about these files.
var logged = regexp.MustCompile(`^[^;]*;((?:trace_kprobe: |Line length|Could not create|Failed to create|event trace|Could not enable).*)`)

// log returns the lines logged since its last call.
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

// byChance matches fields whose values differ from run to run.
var byChance = regexp.MustCompile(`(?i)cpu|pid|sym|__probe`)

// filter writes a filter. If it is accepted, it is tested with reads.
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

// showWords returns the contents of a small file.
func showWords(path string) []string {
	var answer []string
	switch path {
	case "trace", "error_log":
		return nil
	}
	text := load(path)
	if path == "trace_options" { // only the options that are written
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

// recorded runs f and returns the arguments that the event a recorded during it. With
// a probe on vfs_write, the last hit is the player's own write, which ends the
// recording.
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

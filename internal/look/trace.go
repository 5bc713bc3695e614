package look

import (
	"bufio"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// otherFormats are the options of tracing/trace_options with which entries have another format.
var otherFormats = []string{"latency-format", "nocontext-info", "raw", "hex", "bin"}

// OtherFormat returns the option of tracing/trace_options with which the trace has not the format
// that is read here, and the word that switches it off. They are empty if there is none.
func OtherFormat(read ReadFile) (option, off string, err error) {
	b, err := read("tracing/trace_options")
	if err != nil {
		return "", "", err
	}
	for _, option := range strings.Fields(string(b)) {
		if !slices.Contains(otherFormats, option) {
			continue
		}
		other, ok := strings.CutPrefix(option, "no")
		if !ok {
			other = "no" + option
		}
		return option, other, nil
	}
	return "", "", nil
}

// Entry is an entry as `trace --json` shows it.
type Entry struct {
	Comm  string      `json:"comm,omitempty"`
	PID   *int        `json:"pid,omitempty"`
	CPU   *int        `json:"cpu,omitempty"`
	Flags string      `json:"flags,omitempty"`
	Time  json.Number `json:"time,omitempty"`
	Event string      `json:"event,omitempty"`
	Text  string      `json:"text,omitempty"`
	Lost  *uint64     `json:"lost,omitempty"`
	More  []string    `json:"more,omitempty"`

	Lines []string `json:"-"` // as they are in the file
}

// commWidth is the width of a task's name in a line. Linux has it in all releases; a name is shorter.
const commWidth = 16

var (
	entryLine = regexp.MustCompile(`^-(\d+)\s+(?:\([ \d-]+\)\s+)?\[(\d+)\]\s+(?:([^\s:]{4,6})\s+)?(\d+(?:\.\d+)?): (.*)$`)
	eventName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*): ?`)
	countLine = regexp.MustCompile(`^# entries-in-buffer/entries-written: (\d+)/`)
	lostLine  = regexp.MustCompile(`^CPU:(\d+) \[LOST (\d+) EVENTS\]$`)
)

// ParseEntry reads a line of the trace that begins an entry.
func ParseEntry(line string) (e Entry, ok bool) {
	if m := lostLine.FindStringSubmatch(line); m != nil {
		cpu, cerr := strconv.Atoi(m[1])
		lost, lerr := strconv.ParseUint(m[2], 10, 64)
		return Entry{CPU: &cpu, Lost: &lost, Lines: []string{line}}, cerr == nil && lerr == nil
	}
	if len(line) < commWidth {
		return e, false
	}
	m := entryLine.FindStringSubmatch(line[commWidth:])
	if m == nil {
		return e, false
	}
	pid, perr := strconv.Atoi(m[1])
	cpu, cerr := strconv.Atoi(m[2])
	if perr != nil || cerr != nil {
		return e, false
	}
	e = Entry{
		Comm: strings.TrimLeft(line[:commWidth], " "), PID: &pid, CPU: &cpu, Flags: m[3],
		Time: json.Number(timeDigits(m[4])), Text: m[5], Lines: []string{line},
	}
	if name := eventName.FindStringSubmatch(m[5]); name != nil {
		e.Event, e.Text = name[1], m[5][len(name[0]):]
	}
	return e, true
}

// EntryCount returns how many entries the buffer has, if a line of the trace's head says it.
func EntryCount(line string) (n int, ok bool) {
	m := countLine.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// maxLine bounds a line: Linux's are below a page.
const maxLine = 1 << 20

// latest reads a trace.
func latest(r io.Reader, limit int) ([]Entry, error) {
	var all []Entry
	left := -1 // entries to be read; negative if the trace has not said how many there are
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		e, ok := ParseEntry(line)
		switch {
		case !ok && len(all) == 0:
			if n, ok := EntryCount(line); ok {
				left = n
			}
			continue
		case !ok:
			last := &all[len(all)-1]
			last.More = append(last.More, line)
			last.Lines = append(last.Lines, line)
			continue
		case e.Lost == nil && left == 0:
			return keep(all, limit), nil
		case e.Lost == nil && left > 0:
			left--
		}
		if all = append(all, e); len(all) >= 2*limit {
			all = keep(all, limit)
		}
	}
	return keep(all, limit), lines.Err()
}

// keep returns the last entries, in memory of their own size.
func keep(all []Entry, limit int) []Entry {
	if len(all) <= limit {
		return all
	}
	return append([]Entry(nil), all[len(all)-limit:]...)
}

// timeDigits returns a number as JSON has it: without zeros before it.
func timeDigits(s string) string {
	whole, fraction, dot := strings.Cut(s, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if dot {
		return whole + "." + fraction
	}
	return whole
}

// ParseRecord reads an entry with its further lines, without what is before it: that entries were
// lost, or that a vCPU's begin. Of a text that is no entry, it has the text only.
func ParseRecord(text string) Entry {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for len(lines) > 1 && (strings.HasPrefix(lines[0], "#") || strings.HasPrefix(lines[0], "CPU:")) {
		lines = lines[1:]
	}
	e, ok := ParseEntry(lines[0])
	if !ok {
		e = Entry{Text: lines[0]}
	}
	e.Lines = lines
	if len(lines) > 1 {
		e.More = lines[1:]
	}
	return e
}

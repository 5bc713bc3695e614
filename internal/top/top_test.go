package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"

	"github.com/kprobefs/kprobefs/internal/look"
)

// fakeSource is a tree whose contents a test changes.
type fakeSource struct {
	mu       sync.Mutex
	probes   []look.Probe
	err      error
	switched []string
	hang     chan struct{}
	logged   bool
}

func (f *fakeSource) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeSource) Name() string { return "/mnt" }

func (f *fakeSource) Kernel() (Kernel, error) {
	f.mu.Lock()
	hang, err := f.hang, f.err
	f.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return Kernel{Release: "6.1.0", Enabled: true, Optimization: true}, err
}

func (f *fakeSource) Probes() ([]look.Probe, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]look.Probe{}, f.probes...), nil
}

func (f *fakeSource) Functions(name string) ([]look.Function, error) {
	if name == "nosuch" {
		return nil, errors.New("no function has this name")
	}
	text := name + `:
* ffffffff81021f51  +0x11   e9 b7 e0 fd 5e                 jmpq 0xffffffffe0000010  # was: 48 89 d3 mov %rdx,%rbx; 41 55 push %r13
`
	for i := range 60 {
		text += fmt.Sprintf("  ffffffff81021f%02x  +%#-6x 90                             nop\n", 0x60+i, 0x20+i)
	}
	all, _ := look.ParseFunctions(text, "")
	return all, nil
}

func (f *fakeSource) FunctionNames(prefix string) (names []string, err error) {
	for _, n := range []string{"vfs_read", "vfs_readv", "vfs_write"} {
		if strings.HasPrefix(n, prefix) {
			names = append(names, n)
		}
	}
	return names, nil
}

func (f *fakeSource) Trace(int) (all []look.Entry, err error) {
	for i := range 100 {
		e, _ := look.ParseEntry(fmt.Sprintf("             cat-7591    [001] .....     2.%06d: mine: number %d", i, i))
		all = append(all, e)
	}
	return all, nil
}

func (f *fakeSource) Log() ([]look.LogRecord, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logged {
		return nil, nil
	}
	f.logged = true
	return []look.LogRecord{{Usec: 1500000, Text: "kprobes: hello\x1b[2Jthere"}}, nil
}

func (f *fakeSource) Switch(p look.Probe) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.switched = append(f.switched, p.Place)
	if len(p.Events) == 0 {
		return "", errors.New("no event")
	}
	return p.Events[0].Name + " is disabled", nil
}

func number(n uint64) *uint64 { return &n }

func someProbes() []look.Probe {
	return []look.Probe{
		{Address: "ffffffff81000000", Kind: "k", Place: "vfs_read+0x0", Armed: true, Flags: []string{"ftrace"}, NotJump: "ftrace calls it", Hits: number(7), Events: []look.ProbeEvent{{Name: "kprobes/head"}}},
		{Address: "ffffffff81000010", Kind: "k", Place: "vfs_read+0x10", Armed: true, Flags: []string{"optimized"}, Detour: "ffffffffe0000010", Hits: number(90), Missed: 3, Events: []look.ProbeEvent{{Name: "kprobes/mid"}}},
		{Address: "ffffffffc0000010", Kind: "r", Place: "overlay:ovl_open+0x10", Flags: []string{"disabled"}},
	}
}

// shown is a screen on an emulated terminal.
type shown struct {
	t      *testing.T
	term   vt.MockTerm
	source *fakeSource
	end    context.CancelFunc
	done   chan error
}

func show(t *testing.T, width, height int, source *fakeSource) *shown {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("LANG", "C.UTF-8")
	s := &shown{t: t, term: vt.NewMockTerm(vt.MockOptSize{X: vt.Col(width), Y: vt.Row(height)}), source: source, done: make(chan error, 1)}
	screen, err := tcell.NewTerminfoScreenFromTty(s.term)
	if err != nil {
		t.Fatal(err)
	}
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	go func() {
		s.done <- Run(ctx, screen, Config{Source: source, Interval: 50 * time.Millisecond, Colors: true})
	}()
	t.Cleanup(func() {
		end()
		select {
		case <-s.done:
		case <-time.After(limit):
			t.Error("the screen has not ended")
		}
		screen.Fini()
	})
	return s
}

// limit only turns a hang into a failure.
const limit = 20 * time.Second

// text returns what is on the terminal, a line each, without blanks at the ends.
func (s *shown) text() []string {
	size, _ := s.term.WindowSize()
	var lines []string
	for y := range size.Height {
		var b strings.Builder
		for x := range size.Width {
			c := s.term.GetCell(vt.Coord{X: vt.Col(x), Y: vt.Row(y)})
			if c.C == "" {
				c.C = " "
			}
			b.WriteString(c.C)
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// until waits until the terminal shows what is wanted.
func (s *shown) until(what string, is func(lines []string) bool) {
	s.t.Helper()
	for begin := time.Now(); time.Since(begin) < limit; time.Sleep(5 * time.Millisecond) {
		if is(s.text()) {
			return
		}
	}
	s.t.Fatalf("no %s:\n%s", what, strings.Join(s.text(), "\n"))
}

// has waits for a text anywhere.
func (s *shown) has(text string) {
	s.t.Helper()
	s.until(text, func(lines []string) bool { return strings.Contains(strings.Join(lines, "\n"), text) })
}

// keys sends keys as a terminal does.
func (s *shown) keys(keys string) { s.term.SendRaw([]byte(keys)) }

const (
	f1, f3, f4, f5, f6, f7 = "\x1bOP", "\x1bOR", "\x1bOS", "\x1b[15~", "\x1b[17~", "\x1b[18~"
	f10                    = "\x1b[21~"
	down, up, right        = "\x1b[B", "\x1b[A", "\x1b[C"
	pageDown, end, escape  = "\x1b[6~", "\x1b[F", "\x1b"
)

func inReverse(c vt.Cell) bool { return c.S.Attr()&vt.Reverse != 0 }

// selected returns the line of the list that the cursor is on.
func (s *shown) selected() string {
	for y, text := range s.text() {
		if y >= 2 && y < len(s.text())-2 && !strings.HasPrefix(text, "PLACE") && inReverse(s.term.GetCell(vt.Coord{X: 0, Y: vt.Row(y)})) {
			return text
		}
	}
	return ""
}

func (s *shown) atCursor(text string) {
	s.t.Helper()
	s.until(text+" at the cursor", func([]string) bool { return strings.Contains(s.selected(), text) })
}

// TestList: the list has the probes with their rates, sorted, and describes the selected one.
func TestList(t *testing.T) {
	source := &fakeSource{probes: someProbes()}
	s := show(t, 120, 24, source)
	s.has("3 probes, 2 armed")
	s.has("Linux 6.1.0")
	s.has("0 hits/s")
	source.change(func() { source.probes[1].Hits = number(200000) })
	s.until("rate", func(lines []string) bool {
		f := strings.Fields(lines[3])
		return len(f) > 4 && f[0] == "vfs_read+0x10" && f[2] == "jump" && f[3] != "0" && f[4] == "200000"
	})
	s.keys("P" + end)
	s.atCursor("vfs_read+0x10")
	s.has("a jump to its detour")
	s.keys("H") // the cursor stays at its probe
	s.until("sorting", func(lines []string) bool { return strings.HasPrefix(lines[3], "vfs_read+0x10") })
	s.atCursor("vfs_read+0x10")
	s.keys(up + down)
	s.atCursor("vfs_read+0x0")
	s.has("no jump: ftrace calls it")
	s.keys("I")
	s.until("reverse", func(lines []string) bool { return strings.HasPrefix(lines[3], "overlay:ovl_open") })
	s.atCursor("vfs_read+0x0")
	s.keys(f6)
	s.has("sorted by MISSED")
	s.keys("x" + f10)
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	s.done <- nil
}

// TestSwitch: Space writes, once, to the selected probe, and an error is shown in a line.
func TestSwitch(t *testing.T) {
	source := &fakeSource{probes: someProbes()}
	s := show(t, 80, 24, source)
	s.has("3 probes")
	s.keys("P" + end + " ")
	s.has("kprobes/mid is disabled")
	s.keys("\x1b[H")
	s.atCursor("overlay:ovl_open")
	s.keys(" ")
	s.has("overlay:ovl_open+0x10: no event")
	s.keys(f1)
	s.has("the only key that writes")
	s.keys(" ")
	s.has("Space is a key of the list of probes")
	source.change(func() {
		if got := strings.Join(source.switched, " "); got != "vfs_read+0x10 overlay:ovl_open+0x10" {
			t.Errorf("switched: %s", got)
		}
	})
}

// TestViews: the views are reached by their keys, searched, filtered and left.
func TestViews(t *testing.T) {
	s := show(t, 60, 24, &fakeSource{probes: someProbes()})
	s.has("3 probes")
	s.keys("P" + end + "\r")
	s.has("text of vfs_read")
	s.has("* ffffffff81021f51")
	s.has("was ffffffff81021f54  +0x14   41 55")
	s.keys(pageDown + pageDown)
	s.until("page", func(lines []string) bool { return !strings.Contains(lines[2], "vfs_read:") })
	s.keys(right)
	s.until("scrolling", func(lines []string) bool { return strings.HasPrefix(lines[5], "ff81021f") })
	s.term.SetSize(vt.Coord{X: 80, Y: 24})
	s.keys(f5)
	s.has("mine: number 99")
	s.keys("/NUMBER 4\r")
	s.has(`"NUMBER 4" is not here`)
	s.keys(f3 + "number 4\r")
	s.atCursor("number 4")
	s.keys("n")
	s.atCursor("number 40")
	s.keys("NN")
	s.atCursor("number 49")
	s.keys(f4 + "number 7\r")
	s.has(`only "number 7"`)
	s.until("filter", func(lines []string) bool {
		return strings.HasSuffix(lines[2], "number 7") && strings.HasSuffix(lines[12], "number 79") && lines[13] == ""
	})
	s.keys(f7)
	s.has(`[    1.500000] kprobes: hello\x1b[2Jthere`)
	s.keys("fvfs_r\t")
	s.has("2 functions: vfs_read vfs_readv")
	s.has("function: vfs_read")
	s.keys("v\r")
	s.has("text of vfs_readv")
	s.keys("fnosuch\r")
	s.has("no function has this name")
	s.keys("q")
	s.has("HITS/s")
	s.keys("?")
	s.has("this help")
	s.keys(escape)
	s.has("HITS/s")
	s.keys("Z")
	s.has("paused")
}

// TestSizes: 40 columns show the place, the state and the rate; less than 20 say so; and a resize
// is followed.
func TestSizes(t *testing.T) {
	s := show(t, 40, 12, &fakeSource{probes: someProbes()})
	s.has("3 probes")
	s.until("40 columns", func(lines []string) bool {
		return strings.HasPrefix(lines[2], "PLACE ") && strings.HasSuffix(lines[2], "HITS/sv") && strings.HasSuffix(lines[11], "F10Quit") && len(lines[11]) <= 40
	})
	for _, width := range []int{41, 60, 79, 100, 250, 20} {
		s.term.SetSize(vt.Coord{X: vt.Col(width), Y: 30})
		s.until(fmt.Sprint(width, " columns"), func(lines []string) bool {
			text := strings.Join(lines, "\n")
			return strings.Contains(lines[29], "F1Help") && strings.Contains(text, "vfs_read") && strings.Contains(lines[2], "WHY") == (width >= 100)
		})
	}
	s.term.SetSize(vt.Coord{X: 19, Y: 5})
	s.until("word", func(lines []string) bool { return lines[0] == "too small" && lines[1] == "" })
	s.term.SetSize(vt.Coord{X: 1, Y: 1})
	s.until("letter", func(lines []string) bool { return lines[0] == "t" })
	s.term.SetSize(vt.Coord{X: 100, Y: 40})
	s.has("vfs_read+0x0; probe; kprobes/head")
}

// TestTrouble: a tree that fails says so in a line, and one that does not answer does not stop the
// keys.
func TestTrouble(t *testing.T) {
	source := &fakeSource{probes: someProbes()}
	s := show(t, 80, 24, source)
	s.has("3 probes")
	source.change(func() { source.err = errors.New("transport endpoint is not connected") })
	s.has("transport endpoint is not connected")
	s.has("vfs_read+0x10") // what was known stays
	source.change(func() { source.err = nil })
	s.until("recovery", func(lines []string) bool { return lines[22] == "" })
	hang := make(chan struct{})
	source.change(func() { source.hang = hang })
	s.has("has not answered for 3s")
	s.keys(f1)
	s.has("this help")
	source.change(func() { source.hang = nil })
	close(hang)
	s.until("an answer", func(lines []string) bool { return lines[22] == "" })
}

// TestGone: a tree that has been unmounted is said to be gone.
func TestGone(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewTree(dir).Kernel(); err == nil || !strings.Contains(err.Error(), "no kprobefs is mounted at "+dir) {
		t.Error(err)
	}
}

// TestSwitchRefused: a probe whose event is not known is not switched, and no file is looked for
// outside of the tree.
func TestSwitchRefused(t *testing.T) {
	tree := NewTree(t.TempDir())
	for want, events := range map[string][]look.ProbeEvent{
		"only its module":    nil,
		"2 events are at":    {{Name: "a/b"}, {Name: "a/c"}},
		"is no name":         {{Name: "../../../etc/passwd"}},
		"no such file or di": {{Name: "a/b"}},
	} {
		if _, err := tree.Switch(look.Probe{Events: events}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", events, err)
		}
	}
}

// TestNothing: without probes the screen says how to define one.
func TestNothing(t *testing.T) {
	s := show(t, 80, 24, &fakeSource{})
	s.has("no probes; echo p:mine vfs_read > tracing/kprobe_events")
	s.keys("\r")
	s.has("no probe is selected")
	s.keys("n")
	s.has("/ begins a search")
}

// TestRates: a rate needs time, and a count that has become less has none.
func TestRates(t *testing.T) {
	m := newModel(Config{Source: &fakeSource{}, Interval: time.Second})
	m.resize(100, 30)
	probes := func(hits uint64) []look.Probe {
		return []look.Probe{{Kind: "k", Place: "f+0x0", Hits: number(hits), Missed: hits / 10}}
	}
	begin := time.Now()
	for _, c := range []struct {
		after  time.Duration
		hits   uint64
		rate   float64
		missed float64
	}{
		{0, 100, -1, -1},
		{time.Second, 300, 200, 20},
		{1100 * time.Millisecond, 900, 200, 20}, // too early
		{2 * time.Second, 1300, 1000, 100},
		{3 * time.Second, 5, -1, -1}, // defined anew
	} {
		m.takeProbes(probes(c.hits), begin.Add(c.after))
		if p := m.probes[0]; p.rate != c.rate || p.base.at.After(begin) && p.missed != c.missed {
			t.Errorf("after %v: %v hits and %v missed a second, want %v and %v", c.after, p.rate, p.missed, c.rate, c.missed)
		}
	}
}

// FuzzKeys: no sequence of keys ends the screen other than by its own key, or hangs it.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"/vfs\r n N", "f\t\t\r\x1b", f5 + f4 + "x\r" + end + pageDown, " \r" + right + "G", "Z I<>" + f1 + "/a\x15\x7f\x1b"} {
		f.Add(s, uint8(80), uint8(24))
	}
	f.Fuzz(func(t *testing.T, keys string, width, height uint8) {
		m := newModel(Config{Source: &fakeSource{probes: someProbes()}, Interval: time.Second})
		m.resize(int(width), int(height))
		m.take(readAll(m.Source, m.view, ""))
		for _, r := range keys {
			m.key(tcell.NewEventKey(tcell.KeyRune, string(r), tcell.ModNone))
			key, ok := map[rune]tcell.Key{'\r': tcell.KeyEnter, '\x1b': tcell.KeyEsc, '\x7f': tcell.KeyBackspace, '\t': tcell.KeyTab, 'A': tcell.KeyUp, 'B': tcell.KeyDown, 'C': tcell.KeyRight, 'D': tcell.KeyLeft, '5': tcell.KeyPgUp, '6': tcell.KeyPgDn}[r]
			if ok {
				m.key(tcell.NewEventKey(key, "", tcell.ModNone))
			}
			for _, job := range m.jobs {
				job()(m)
			}
			m.jobs = nil
			m.take(readAll(m.Source, m.view, m.function))
			l := m.list()
			if n := len(l.visible(m.bodyHeight())); l.cursor < 0 || l.cursor > max(len(l.lines)-1, 0) || l.top < 0 || n > m.bodyHeight() {
				t.Fatalf("%+v", *l)
			}
			m.title()
			m.summary()
			if m.width >= minWidth {
				m.tableHead()
			}
		}
	})
}

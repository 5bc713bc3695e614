package dynevent

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

// fakeOwner is a tracer that has no arrays: it keeps the last entry of each event.
type fakeOwner struct {
	kernel *tracingtest.Kernel
	events map[eventName]*fakeEvent
	errors []loggedError
	has    release.Set
	reset  int // calls of ResetCleared
}

type loggedError struct {
	subsystem, text, command string
	column                   int
}

// fakeEvent is an Event of a fakeOwner.
type fakeEvent struct {
	owner     *fakeOwner
	name      eventName
	class     Class
	on        bool
	entry     probe.Entry
	depth     int // entries under construction
	committed int
	hit       func(trap *abi.Trap, entry []byte) // of an eprobe
	filter    *filter.Filter
}

// newTestRegistry returns a Registry of Linux 6.1 over a fake kernel. The change may set
// what differs.
func newTestRegistry(t testing.TB, change ...func(*Config)) (*Registry, *fakeOwner) {
	t.Helper()
	f := tracingtest.New()
	o := &fakeOwner{kernel: f, events: map[eventName]*fakeEvent{}, has: release.Linux6_1.Set()}
	c := Config{Mutex: &sync.Mutex{}, Events: o, Kprobes: f, Symbols: f, Sites: f, Machine: f, Modules: f, Host: f, Has: &o.has, Filters: &filter.Rules{}}
	for _, do := range change {
		do(&c)
	}
	c.Rules = probe.NewRules(release.Linux6_1, c.Has, c.BTF)
	return New(c), o
}

func (o *fakeOwner) New(group, name string, class Class) Event {
	e := &fakeEvent{owner: o, name: eventName{group, name}, class: class}
	class.Fields()
	o.events[e.name] = e
	return e
}

func (o *fakeOwner) NewLocal(group, name string, class Class) Event {
	class.Fields()
	return &fakeEvent{owner: o, name: eventName{group, name}, class: class}
}

func (o *fakeOwner) Forget(e Event) { delete(o.events, e.(*fakeEvent).name) }

func (o *fakeOwner) Find(group, name string) Event {
	if e := o.events[eventName{group, name}]; e != nil {
		return e
	}
	return nil
}

func (o *fakeOwner) ResetCleared() { o.reset++ }

func (o *fakeOwner) LogError(subsystem, text, command string, column int) {
	o.errors = append(o.errors, loggedError{subsystem, text, command, column})
}

func (o *fakeOwner) Room(int) error { return nil }

// AppendSymbol is seq_print_ip_sym without options.
func (o *fakeOwner) AppendSymbol(b []byte, addr uint64, offset bool) []byte {
	sym, off, ok := o.kernel.Lookup(addr)
	if ok && !offset {
		return append(b, sym.Name...)
	}
	return output.AppendSprint(b, sym, off, addr, ok)
}

// logged returns the only error that was logged for a kprobe.
func (o *fakeOwner) logged(t *testing.T) loggedError {
	t.Helper()
	if len(o.errors) != 1 || o.errors[0].subsystem != "trace_kprobe" {
		t.Fatalf("error_log: %+v, want one entry of trace_kprobe", o.errors)
	}
	return o.errors[0]
}

// event returns an event by name; it must exist.
func (o *fakeOwner) event(t testing.TB, group, name string) *fakeEvent {
	t.Helper()
	e := o.events[eventName{group, name}]
	if e == nil {
		t.Fatalf("there is no event %s/%s", group, name)
	}
	return e
}

func (e *fakeEvent) Class() Class                      { return e.class }
func (e *fakeEvent) IgnoresEnable() bool               { return e.name.group == "ftrace" }
func (e *fakeEvent) Members() map[string]*field.Member { return field.Members(e.class.Fields()) }
func (e *fakeEvent) Wanted() bool                      { return e.on }

func (e *fakeEvent) Begin(trap *abi.Trap) *probe.Entry {
	if !e.on {
		return nil
	}
	e.depth++
	e.entry.N, e.entry.Symbols = field.HeaderSize, e.owner.kernel
	return &e.entry
}

func (e *fakeEvent) BeginInside(trap *abi.Trap, _ uint32) *probe.Entry { return e.Begin(trap) }

func (e *fakeEvent) Commit(trap *abi.Trap) {
	e.depth--
	e.committed++
	s := filter.Subject{Entry: e.entry.Buf[:e.entry.N], Trap: trap}
	if e.hit != nil && e.filter.Passes(&s) {
		e.hit(trap, s.Entry)
	}
}

func (e *fakeEvent) Discard(*abi.Trap) { e.depth-- }

func (e *fakeEvent) Attach(f *filter.Filter, hit func(*abi.Trap, []byte)) (func(), error) {
	if e.hit != nil {
		return nil, fmt.Errorf("attached: %w", syscall.EBUSY)
	}
	e.filter, e.hit = f, hit
	was := e.on
	e.on = true
	return func() { e.hit, e.on = nil, was }, nil
}

// enable switches the event on or off, as its file enable does.
func (e *fakeEvent) enable(t testing.TB, on bool) {
	t.Helper()
	e.on = on
	if !on {
		e.class.Disable()
	} else if err := e.class.Enable(); err != nil {
		t.Fatal(err)
	}
}

// line returns what a line of trace shows of the last entry.
func (e *fakeEvent) line() string {
	if e.committed == 0 {
		return ""
	}
	return string(e.class.Print(e.owner, nil, e.entry.Buf[:e.entry.N]))
}

// write writes lines to kprobe_events one by one, each of which must succeed.
func write(t testing.TB, r *Registry, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := r.WriteKprobeEvents([]byte(line + "\n")); err != nil || n != len(line)+1 {
			t.Fatalf("write %q: %d, %v", line, n, err)
		}
	}
}

func listing(r *Registry) string { return strings.Join(tracingtest.Lines(r.KprobeEvent), "") }

// fakeFunctions has fentry sites that nobody hits.
type fakeFunctions struct{ kernel *tracingtest.Kernel }

type fakeListener struct{}

func (fakeListener) Set([]uint64) error { return nil }

func (f fakeFunctions) Listen(func(*abi.Trap)) Listener { return fakeListener{} }

// Match knows two functions, which a number selects by its index from 1.
func (f fakeFunctions) Match(pattern string) (sites []uint64, named int, err error) {
	pattern, not := strings.CutPrefix(pattern, "!")
	index, p := uint64(0), filter.NewPattern(pattern)
	if kstrtox.DigitFirst(pattern) {
		index, _ = kstrtox.SimpleUint(pattern, 0)
		p = filter.NewPattern("")
	}
	var all []uint64
	for i, name := range []string{"vfs_open", "vfs_read"} {
		site := f.kernel.Symbol(name)
		all = append(all, site)
		if index == uint64(i+1) || p.Covers([]byte(name)) {
			sites = append(sites, site)
		}
	}
	switch {
	case len(sites) == 0:
		return nil, 0, fmt.Errorf("no function %q: %w", pattern, syscall.EINVAL)
	case not:
		return all, 0, nil
	}
	return sites, len(sites), nil
}

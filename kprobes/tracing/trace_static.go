package tracing

import (
	"embed"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Tracepoints are the kernel's tracepoints; kernel.Machine implements it.
type Tracepoints interface {
	// Tracepoint returns the address of a tracepoint of the kernel.
	Tracepoint(name string) (addr uint64, ok bool)
	// SetTracepoint switches a tracepoint on or off. While it is on, Tracer.Tracepoint
	// is called at each hit.
	SetTracepoint(addr uint64, on bool) error
	// SetRawTracepoint has Tracer.RawTracepoint called at each hit of a tracepoint, or ends that.
	SetRawTracepoint(addr uint64, on bool) error
	// SetProbestub makes a tracepoint call the function __probestub_NAME, or stops it.
	SetProbestub(addr uint64, on bool) error
}

// formats has the format files of the static events of the releases whose kernels were looked at.
//
//go:embed formats-*.txt
var formats embed.FS

// formats returns the format files of the release's static events.
func (c *config) formats() (string, error) {
	text, err := formats.ReadFile("formats-" + release.StaticEvents.Of(c.Linux).String() + ".txt")
	return string(text), err
}

// firstEvent returns the ID of the first event that is defined at run time.
func (c *config) firstEvent() uint16 { return release.FirstEventID.Of(c.Linux) }

// staticFormat is one event of a formats file.
type staticFormat struct {
	group, name string
	id          uint16
	members     []field.Field
	text        string // the print fmt
}

// parseFormats parses a formats file: for each event a line "GROUP:NAME ID", lines of
// fields as in the file format, and the print fmt.
func parseFormats(text string) (list []staticFormat, _ error) {
	for _, line := range strings.Split(text, "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] != '\t':
			name, id, _ := strings.Cut(line, " ")
			n, err := strconv.ParseUint(id, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("formats: %q: %w", line, err)
			}
			f := staticFormat{id: uint16(n)}
			f.group, f.name, _ = strings.Cut(name, ":")
			list = append(list, f)
		case strings.HasPrefix(line, "\tfield:"):
			f, err := field.Parse(line)
			if err != nil {
				return nil, err
			}
			e := &list[len(list)-1]
			e.members = append(e.members, f)
		default:
			list[len(list)-1].text = line[1:]
		}
	}
	return list, nil
}

// tracepoint is a tracepoint of the kernel, with the events that use it.
type tracepoint struct {
	tracer *Tracer
	addr   uint64
	users  int          // number of enabled events; guarded by Tracer.mu
	event  *staticEvent // the event of the same name
	// nextPID is the offset of sched_switch's field while function_graph wants to know it,
	// otherwise 0.
	nextPID  atomic.Int32
	watchers int // arrays for which it does; guarded by Tracer.mu
	raw      atomic.Pointer[[]*rawUser]
	calls    []*syscallEvent // of sys_enter and sys_exit: events by system call number
}

// use adds d to the number of enabled events of the tracepoint. The caller holds
// Tracer.mu.
func (tp *tracepoint) use(d int) error {
	was := tp.users > 0
	tp.users += d
	if is := tp.users > 0; is != was {
		return tp.tracer.conf.Tracepoints.SetTracepoint(tp.addr, is)
	}
	return nil
}

// staticEvent is an event of TRACE_EVENT: the kernel fills in its entries.
type staticEvent struct {
	*Event
	staticFormat
	tp     *tracepoint
	format *output.Format
}

var _ eventClass = (*staticEvent)(nil)

func (ev *staticEvent) fields() []field.Field { return ev.members }
func (ev *staticEvent) printFmt() string      { return ev.text }
func (ev *staticEvent) enable() error         { return ev.tp.use(1) }
func (ev *staticEvent) disable()              { _ = ev.tp.use(-1) } // cannot fail: the same text was patched before

func (ev *staticEvent) print(a *Array, b, entry []byte) []byte {
	b = append(append(b, ev.Name...), ": "...)
	return append(ev.format.Append(b, entry, lineEnv{a}), '\n')
}

// newStaticEvents creates the events of the kernel's tracepoints, in the same order as
// Linux, and the events of group ftrace that nothing records.
func (t *Tracer) newStaticEvents() {
	t.tracepoints = map[uint64]*tracepoint{}
	if t.conf.Tracepoints == nil {
		return
	}
	text, err := t.conf.formats()
	if err != nil {
		panic(err)
	}
	list, err := parseFormats(text)
	if err != nil {
		panic(err)
	}
	for _, f := range list {
		switch f.group {
		case syscallGroup:
			t.newSyscallEvent(f)
			continue
		case "ftrace":
			t.newEvent(f.group, f.name, f.id, listedClass{staticFormat: f}).Internal = true
			continue
		}
		tp := t.tracepoint(f.name)
		if tp == nil && f.group != bpfGroup {
			continue
		}
		format, err := output.ParseFormat(f.text, f.members)
		if err != nil {
			panic(fmt.Errorf("formats: %s: %w", f.name, err))
		}
		if f.group == bpfGroup {
			t.newBPFEvent(&staticEvent{staticFormat: f, format: format})
			continue
		}
		ev := &staticEvent{staticFormat: f, tp: tp, format: format}
		ev.Event = t.newEvent(f.group, f.name, f.id, ev)
		tp.event = ev
	}
}

// tracepoint returns a tracepoint, or nil if the kernel does not have it.
func (t *Tracer) tracepoint(name string) *tracepoint {
	addr, ok := t.conf.Tracepoints.Tracepoint(name)
	if !ok {
		return nil
	}
	tp := t.tracepoints[addr]
	if tp == nil {
		tp = &tracepoint{tracer: t, addr: addr}
		t.tracepoints[addr] = tp
	}
	return tp
}

// Tracepoint is called at each hit of an enabled tracepoint, in handler context:
// trap.Arg is its address, trap.Data its data.
func (t *Tracer) Tracepoint(trap *abi.Trap) {
	if trap.Arg <= abi.TraceIsOn {
		t.printk(trap)
		return
	}
	tp := t.tracepoints[trap.Arg]
	if tp == nil || len(trap.Data) < field.HeaderSize {
		return
	}
	data := trap.Data[field.HeaderSize:]
	if at := int(tp.nextPID.Load()); at != 0 && len(trap.Data) >= at+4 {
		t.ftrace.SchedSwitch(trap, int32(binary.LittleEndian.Uint32(trap.Data[at:])))
	}
	if ev := tp.event; ev != nil && len(trap.Data) >= ev.size && len(trap.Data) <= ring.MaxData {
		if en := ev.begin(trap); en != nil {
			en.N += copy(en.Buf[en.N:], data)
			ev.commit(trap, en)
		}
	}
	if tp.calls != nil && len(data) >= 16 {
		if nr := binary.LittleEndian.Uint64(data); nr < uint64(len(tp.calls)) && tp.calls[nr] != nil {
			tp.calls[nr].hit(trap, data)
		}
	}
}

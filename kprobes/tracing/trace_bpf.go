package tracing

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// The event by which bpf_trace_printk writes into the trace. It has no tracepoint in the guest: programs are
// not guest code.
const (
	bpfGroup = "bpf_trace"
	bpfPrint = "bpf_trace_printk"
)

// bpfEvent is that event.
type bpfEvent struct{ *staticEvent }

func (bpfEvent) enable() error { return nil }
func (bpfEvent) disable()      {}

// printBPF writes a program's text: the event bpf_trace:bpf_trace_printk. A program that does not run in a hit of the
// guest writes nothing. It runs in handler context.
func (t *Tracer) printBPF(trap *abi.Trap, text string) {
	e := t.bpfEvent
	if e == nil || trap.Task == 0 {
		return
	}
	en := e.begin(trap)
	if en == nil {
		return
	}
	const at = field.HeaderSize
	field.PutDataLoc(en.Buf[at:], at+4, len(text)+1)
	en.N = at + 4
	en.N += copy(en.Buf[en.N:], text)
	en.Buf[en.N] = 0
	en.N++
	e.commit(trap, en)
}

// wantBPFPrint is bpf_get_trace_printk_proto: a program that prints switches the event on.
func (t *Tracer) wantBPFPrint() {
	if t.bpfEvent == nil {
		return
	}
	f := t.global.findFile(bpfGroup, bpfPrint, false)
	if f == nil {
		return
	}
	if err := f.Enable([]byte("1")); err != nil {
		t.conf.Machine.Printk(4, "could not enable bpf_trace_printk events\n")
	}
}

// newBPFEvent makes the event.
func (t *Tracer) newBPFEvent(ev *staticEvent) {
	t.bpfEvent = t.newEvent(ev.group, ev.name, ev.id, bpfEvent{ev})
	ev.Event = t.bpfEvent
}

package tracing

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// SoftwareSource returns what a software event of perf_event_open(2) (PERF_COUNT_SW_*) is to which a program can be attached.
// Clocks and context switches run it. The others happen on the host, if at all, which has the memory of user space and moves
// tasks, so they have no hits.
func (t *Tracer) SoftwareSource(config uint64) perf.Source {
	switch config {
	case perf.SoftwareCPUClock, perf.SoftwareTaskClock:
		return clockSource{tracer: t}
	case perf.SoftwareContextSwitches:
		if tp := t.schedSwitch(); tp != nil {
			return switchSource{event: tp.event.Event}
		}
	}
	return quietSource{}
}

// quietSource is a software event without hits. Others have of it what they do not do themselves.
type quietSource struct{}

var _ bpf.Attacher = quietSource{}

// Attach implements perf.Source.
func (quietSource) Attach(*perf.Event) (detach func(), err error) { return func() {}, nil }

// ParseFilter implements perf.Source.
func (quietSource) ParseFilter(string) (*filter.Filter, error) {
	return nil, fmt.Errorf("a software event has no filter: %w", syscall.EINVAL)
}

// AttachProgram implements bpf.Attacher. It fails with EINVAL for a program that is not for perf's events.
func (quietSource) AttachProgram(_ *perf.Event, a bpf.Attached) (detach func(), err error) {
	if a.Prog.Type() != bpf.ProgPerfEvent {
		return nil, bpf.ErrType
	}
	return func() {}, nil
}

// switchSource is PERF_COUNT_SW_CONTEXT_SWITCHES. As on Linux, a switch is the task's that the CPU leaves.
type switchSource struct {
	quietSource
	event *Event
}

// Attach implements perf.Source.
func (s switchSource) Attach(p *perf.Event) (detach func(), err error) {
	return perfSource{s.event}.Attach(p)
}

// AttachProgram implements bpf.Attacher: the program runs when a sample is due.
func (s switchSource) AttachProgram(e *perf.Event, a bpf.Attached) (detach func(), err error) {
	if _, err := s.quietSource.AttachProgram(e, a); err != nil {
		return nil, err
	}
	t, all := s.event.tracer, []bpf.Attached{a}
	e.OnOverflow(func(trap *abi.Trap, period uint64) bool {
		h := t.newProgramHit(trap)
		h.event, h.left = s.event, true
		h.Ctx = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(trap.Regs.Bytes(), period), 0) // struct bpf_perf_event_data
		return t.bpf.RunArray(all, &h.Hit)
	})
	return func() {
		e.OnOverflow(nil)
		t.conf.Machine.SynchronizeRCU()
	}, nil
}

// callers returns the part of a stack, whose innermost address is the first, that begins after a function, or all of it if the
// function is not in it.
func (t *Tracer) callers(stack []uint64, function string) []uint64 {
	for n, ip := range stack {
		if s, _, ok := t.conf.Symbols.Lookup(ip); ok && s.Name == function {
			return stack[n+1:]
		}
	}
	return stack
}

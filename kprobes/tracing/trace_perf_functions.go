package tracing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// functionSource is ftrace:function as perf counts it (observed: mirror_perf_functions): each
// event of perf_event_open(2) has a listener of its own, which is there for as long as the
// event is open. Guarded by Tracer.mu.
type functionSource struct {
	tracer          *Tracer
	event           *perf.Event
	listener        ftracer.Listener
	filter, notrace ftracer.Set
}

// Attach implements perf.Source: perf_ftrace_function_register. It fails with EINVAL if samples
// are to have something of user space, since the function may be one that reads it.
func (s *functionSource) Attach(p *perf.Event) (detach func(), err error) {
	if p.WantsUserStack() {
		return nil, fmt.Errorf("a function's sample with the user's stack: %w", syscall.EINVAL)
	}
	t := s.tracer
	t.mu.Lock()
	defer t.mu.Unlock()
	s.event = p
	s.listener = t.conf.Functions.Listen(ftracer.Handler{Function: "perf_ftrace_function_call", Hit: s.hit, Allocated: true})
	if err := s.update(); err != nil {
		return nil, err
	}
	t.perfFunctions = append(t.perfFunctions, s)
	return s.detach, nil
}

func (s *functionSource) detach() {
	t := s.tracer
	t.mu.Lock()
	defer t.mu.Unlock()
	t.perfFunctions = slices.DeleteFunc(t.perfFunctions, func(x *functionSource) bool { return x == s })
	t.sayFunctions(s.listener.Set(nil))
	t.conf.Machine.SynchronizeRCU()
}

// update listens to what the filter lets through of the functions that there are. The caller
// holds mu.
func (s *functionSource) update() error {
	return s.listener.Set(s.filter.WantedBut(s.tracer.ftrace, &s.notrace))
}

// ParseFilter implements perf.Source: ftrace_function_set_filter. The filter says which functions
// are listened to, so no hit has to pass one. Its terms change what the filter before it has left,
// but for the first of a kind, which replaces that; if one is refused, those before it stay.
func (s *functionSource) ParseFilter(text string) (*filter.Filter, error) {
	text, err := filterText([]byte(text))
	if err != nil {
		return nil, err
	}
	t := s.tracer
	t.mu.Lock()
	defer t.mu.Unlock()
	terms, ferr := t.filters.ParseFunctions(text, t.events.get(ftracer.TypeFunction).entryMembers())
	if ferr != nil {
		return nil, fmt.Errorf("filter %q: %w", text, ferr)
	}
	err = s.change(terms)
	return nil, errors.Join(err, s.update())
}

// change applies the terms of a filter. The caller holds mu.
func (s *functionSource) change(terms []filter.FunctionTerm) error {
	first := map[bool]bool{false: true, true: true}
	for _, term := range terms {
		set := &s.filter
		if term.Not {
			set = &s.notrace
		}
		for _, word := range term.Words {
			changed := ftracer.Set{}
			if !first[term.Not] {
				changed = set.Clone()
			}
			if err := changed.Change(s.tracer.ftrace, word, nil); err != nil {
				return err
			}
			*set, first[term.Not] = changed, false
		}
	}
	return nil
}

// hit is perf_ftrace_function_call. It runs in handler context.
func (s *functionSource) hit(trap *abi.Trap) {
	t := s.tracer
	en := t.newEntry(trap, ftracer.TypeFunction)
	if en == nil {
		return
	}
	defer t.discard(trap)
	pid := cmdlines.PID(trap)
	en.Buf[2], en.Buf[3] = t.traceContextHere(trap)
	if t.conf.has[release.NoAssistFunc] && en.Buf[3]&0xf < 0xf {
		en.Buf[3]++ // since then the function itself disables preemption, before it looks
	}
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(pid))
	en.Word(trap.Regs.IP)
	en.Word(trap.Arg)
	subject := &en.subject
	subject.Entry, subject.CPU, subject.Trap = en.Buf[:en.N], trap.CPU, trap
	h := t.newPerfHit(trap, subject, pid)
	if s.event.WantsSamples() {
		h.Chain = t.unwindFunction(trap)
		if len(h.Chain) > 0 { // who has called the handler: the trampoline, in 5.10 ftrace_ops_assist_func
			h.IP = h.Chain[0]
			if !t.conf.has[release.NoAssistFunc] { // its frame is in the chain, too
				h.Chain = slices.Insert(h.Chain, 0, h.IP)
			}
		}
	}
	s.event.Hit(h)
}

package tracing

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// perfUsers are the events of perf_event_open(2) that count an event. They are replaced,
// never changed.
type perfUsers struct {
	events []*perf.Event
	chains bool // one of them wants the stack of a hit
}

func (t *Tracer) newPerf() *perf.Set {
	c := perf.Config{CPUs: t.conf.PerfCPUs, Now: t.conf.Machine.Now, Clock: t.conf.PerfClock, Room: t.checkRoom}
	if c.CPUs == nil {
		for i := range t.conf.Machine.CPUs() {
			c.CPUs = append(c.CPUs, i)
		}
	}
	if c.Clock == nil {
		c.Clock = func(int32) int64 { return t.conf.Machine.Now() }
	}
	return perf.NewSet(c)
}

// Perf returns the events of perf_event_open(2).
func (t *Tracer) Perf() *perf.Set { return t.perf }

// PerfSource is perf_trace_init: what perf counts for the event with an ID. It fails with EINVAL
// if there is none, or if it is one of group ftrace but function and print.
func (t *Tracer) PerfSource(id uint64) (perf.Source, error) {
	if id <= maxEventType {
		e := t.events.get(uint16(id))
		switch {
		case e == nil:
		case e.ID == typeFunction:
			return &functionSource{tracer: t}, nil
		case !e.Internal || e.ID == typePrint:
			return perfSource{e}, nil
		}
	}
	return nil, fmt.Errorf("no event %d: %w", id, syscall.EINVAL)
}

// PerfProbe is perf_kprobe_event_init and perf_uprobe_event_init: what perf counts with a probe of
// its own, which is made when the source is attached. read returns the probe, and is called then.
func (t *Tracer) PerfProbe(read func() (dynevent.Local, error)) perf.Source {
	return localSource{t, read}
}

// localSource is a probe of PerfProbe.
type localSource struct {
	tracer *Tracer
	read   func() (dynevent.Local, error)
}

// Attach implements perf.Source.
func (s localSource) Attach(p *perf.Event) (detach func(), err error) {
	probe, err := s.read()
	if err != nil {
		return nil, err
	}
	t := s.tracer
	t.mu.Lock()
	defer t.mu.Unlock()
	local, release, err := t.definitions.NewLocal(probe)
	if err != nil {
		return nil, fmt.Errorf("perf's own probe: %w", err)
	}
	e := local.(definedEvent).event
	if e.kind == dynevent.Uprobe {
		return func() {}, e.class.enable() // which says that it has no hits
	}
	if err := e.attachPerf(p); err != nil {
		release()
		return nil, err
	}
	return func() {
		e.detachPerf(p)
		t.mu.Lock()
		defer t.mu.Unlock()
		release()
	}, nil
}

// ParseFilter implements perf.Source.
func (s localSource) ParseFilter(text string) (*filter.Filter, error) {
	return s.tracer.parsePerfFilter(text, field.Members(nil))
}

// perfSource is an Event as package perf sees it.
type perfSource struct{ event *Event }

// Attach implements perf.Source: perf_trace_event_reg. The probe is armed for as long as it is
// attached, whether p is enabled or not.
func (s perfSource) Attach(p *perf.Event) (detach func(), err error) {
	e := s.event
	if e.kind == dynevent.Eprobe || e.kind == dynevent.Synth || e.ID == typePrint {
		return func() {}, nil // on Linux perf may open them, and gets no hits
	}
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	if e.gone.Load() {
		return nil, fmt.Errorf("%s/%s is gone: %w", e.Group, e.Name, syscall.EINVAL)
	}
	if err := e.attachPerf(p); err != nil {
		return nil, err
	}
	return func() { e.detachPerf(p) }, nil
}

// attachPerf adds a user, and arms the event for the first one. The caller holds mu.
func (e *Event) attachPerf(p *perf.Event) error {
	first := !e.wanted()
	e.changePerf(func(all []*perf.Event) []*perf.Event { return append(all, p) })
	if !first {
		return nil
	}
	if err := e.class.enable(); err != nil {
		e.changePerf(without(p))
		return fmt.Errorf("perf of %s/%s: %w", e.Group, e.Name, err)
	}
	return nil
}

func (e *Event) detachPerf(p *perf.Event) {
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	e.changePerf(without(p))
	if !e.wanted() {
		e.class.disable()
	}
	e.tracer.conf.Machine.SynchronizeRCU()
}

func without(p *perf.Event) func([]*perf.Event) []*perf.Event {
	return func(all []*perf.Event) []*perf.Event {
		return slices.DeleteFunc(all, func(x *perf.Event) bool { return x == p })
	}
}

// changePerf replaces the list of users. The caller holds mu.
func (e *Event) changePerf(do func([]*perf.Event) []*perf.Event) {
	var all []*perf.Event
	if old := e.perf.Load(); old != nil {
		all = slices.Clone(old.events)
	}
	before := len(all)
	all = do(all)
	e.listens(len(all) - before)
	if len(all) == 0 {
		e.perf.Store(nil)
		return
	}
	e.perf.Store(&perfUsers{all, slices.ContainsFunc(all, (*perf.Event).WantsChain)})
}

// ParseFilter implements perf.Source.
func (s perfSource) ParseFilter(text string) (*filter.Filter, error) {
	return s.event.tracer.parsePerfFilter(text, s.event.entryMembers())
}

func (t *Tracer) parsePerfFilter(text string, members map[string]*field.Member) (*filter.Filter, error) {
	text, err := filterText([]byte(text))
	if err != nil {
		return nil, err
	}
	f, ferr := t.filters.Parse(text, members)
	if ferr != nil {
		return nil, fmt.Errorf("filter %q: %w", text, ferr)
	}
	return f, nil
}

// newPerfHit returns what perf is told of a hit, without a chain. It is valid until the vCPU's next
// hit. It runs in handler context.
func (t *Tracer) newPerfHit(trap *abi.Trap, s *filter.Subject, tid int32) *perf.Hit {
	h := &t.scratch(trap).perf
	tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
	h.VCPU, h.PID, h.TID, h.Time, h.IP, h.Chain, h.Subject = trap.CPU, int32(uint32(tgid)), tid, trap.Now(), trap.Regs.IP, nil, s
	return h
}

// perfHit is perf_trace_run_bpf_submit without bpf. It runs in handler context.
func (e *Event) perfHit(trap *abi.Trap, s *filter.Subject, users *perfUsers, tid int32) {
	h := e.tracer.newPerfHit(trap, s, tid)
	if users.chains {
		h.Chain = e.tracer.unwindEvent(trap, e)
	}
	for _, p := range users.events {
		p.Hit(h)
	}
}

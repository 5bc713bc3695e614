package tracing

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// perfUsers are the events of perf_event_open(2) that count an event. They are replaced,
// never changed.
type perfUsers struct {
	events []*perf.Event
	chains bool // one of them wants the stack of a hit
	user   bool // one of them wants the stack of user space
}

func (t *Tracer) newPerf() *perf.Set {
	c := perf.Config{CPUs: t.conf.PerfCPUs, Now: t.conf.Machine.Now, Clock: t.conf.Host.ReadClock, Room: t.checkRoom, Armed: t.conf.Armed}
	if c.CPUs == nil {
		for i := range t.conf.Machine.CPUs() {
			c.CPUs = append(c.CPUs, i)
		}
	}
	return perf.NewSet(c)
}

// newBPF returns what bpf(2) works on. User space sees the CPUs that perf's events are for.
func (t *Tracer) newBPF() *bpf.System {
	return bpf.New(bpf.Config{
		CPUs: max(t.conf.PossibleCPUs, t.conf.Machine.CPUs()), CPU: func(vcpu int) int { return t.perf.CPUs[vcpu] },
		Now: t.conf.Machine.Now, Room: t.checkRoom, HashPtr: t.conf.Machine.HashPtr, Memory: t.conf.Host.SharedMemory, EndedTasks: t.conf.Host.EndedTasks, UserStack: t.conf.Host.UserStack, UserMemory: t.conf.Host.UserMemory, UserFiles: t.conf.Host.UserFiles, UserRegs: t.conf.Host.UserRegs, Kernel: t.conf.Memory,
		After: t.afterInterrupt, Signal: t.conf.Host.Signal,
		Print: t.printBPF, Prints: t.wantBPFPrint, Clock: t.perf.Clock,
		Types: t.conf.RawBTF, Probes: programProbes{t}, KprobeMulti: t.conf.has[release.Fprobes], Verifier612: t.conf.has[release.BPFVerifier612], Warn: func(text string) { t.conf.Machine.Printk(4, "%s\n", text) },
	})
}

// UserStacks reports whether somebody could ask for the stack of user space, or for its registers: a program, an entry of the
// trace, or a sample.
func (t *Tracer) UserStacks() bool {
	return t.userTraces.Load() > 0 || t.bpf.UserStacks() || t.perf.UserStacks()
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
		case e.ID == ftracer.TypeFunction:
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
	return &localSource{tracer: t, read: read}
}

// localSource is a probe of PerfProbe.
type localSource struct {
	tracer *Tracer
	read   func() (dynevent.Local, error)
	event  *Event // when it is attached
}

// Attach implements perf.Source.
func (s *localSource) Attach(p *perf.Event) (detach func(), err error) {
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
	s.event = e
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
func (s *localSource) ParseFilter(text string) (*filter.Filter, error) {
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
	e.perf.Store(&perfUsers{all, slices.ContainsFunc(all, (*perf.Event).WantsChain), slices.ContainsFunc(all, (*perf.Event).WantsUserChain)})
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
	h.Trap, h.VCPU, h.PID, h.TID, h.Time, h.IP, h.Chain, h.User, h.Subject = trap, trap.CPU, int32(uint32(tgid)), tid, trap.Now(), trap.Regs.IP, nil, nil, s
	return h
}

// perfHit is perf_trace_run_bpf_submit. It runs in handler context.
func (e *Event) perfHit(trap *abi.Trap, s *filter.Subject, users *perfUsers, tid int32) {
	if all := e.programs.Load(); all != nil && !e.runPrograms(trap, s, *all, tid) {
		return
	}
	h := e.tracer.newPerfHit(trap, s, tid)
	if users.chains {
		h.Chain = e.tracer.unwindPerf(trap, e)
	}
	if users.user {
		h.User = e.tracer.userStack(trap)
	}
	for _, p := range users.events {
		p.Hit(h)
	}
}

// maxPrograms is BPF_TRACE_MAX_PROGS: how many programs may be attached to an event.
const maxPrograms = 64

// AttachProgram implements bpf.Attacher.
func (s perfSource) AttachProgram(_ *perf.Event, a bpf.Attached) (detach func(), err error) {
	return s.event.attachProgram(a)
}

// AttachProgram implements bpf.Attacher.
func (s *localSource) AttachProgram(_ *perf.Event, a bpf.Attached) (detach func(), err error) {
	return s.event.attachProgram(a)
}

// Place implements bpf.Placed.
func (s perfSource) Place() (bpf.Place, bool) { return s.event.place() }

// Place implements bpf.Placed.
func (s *localSource) Place() (bpf.Place, bool) {
	if s.event == nil {
		return bpf.Place{}, false
	}
	return s.event.place()
}

// place is bpf_get_perf_event_info: where the event's hits are, unless it is one that takes no programs.
func (e *Event) place() (bpf.Place, bool) {
	defined, ok := e.class.(definedClass)
	if !ok {
		return bpf.Place{Kind: bpf.PlaceTracepoint, Name: e.Name}, true
	}
	probe, ok := defined.Class.(dynevent.Probe)
	if !ok {
		return bpf.Place{}, false
	}
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	at := probe.Probe()
	p := bpf.Place{Kind: bpf.PlaceKprobe, Name: at.Name, Offset: at.At}
	if at.User {
		p.Kind = bpf.PlaceUprobe
	}
	if at.Return {
		p.Kind++
	}
	if at.Name == "" {
		p.Offset, p.Addr = 0, at.At
	}
	return p, true
}

// attachProgram is perf_event_attach_bpf_prog. It fails with EINVAL for a program of a type that is not
// for such events, with EEXIST if it is attached already, and with E2BIG for one of too many.
func (e *Event) attachProgram(a bpf.Attached) (detach func(), err error) {
	want := bpf.ProgTracepoint
	switch e.kind {
	case dynevent.Kprobe, dynevent.Kretprobe, dynevent.Uprobe:
		want = bpf.ProgKprobe
	case dynevent.Eprobe, dynevent.Synth, dynevent.Fentry, dynevent.Fexit:
		return nil, fmt.Errorf("%s/%s takes no program: %w", e.Group, e.Name, syscall.EINVAL)
	default:
	}
	if a.Prog.Type() != want || a.Prog.Sleepable() && e.kind != dynevent.Uprobe {
		return nil, bpf.ErrType
	}
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	var all []bpf.Attached
	if old := e.programs.Load(); old != nil {
		all = slices.Clone(*old)
	}
	switch {
	case slices.ContainsFunc(all, func(x bpf.Attached) bool { return x.Prog == a.Prog }):
		return nil, fmt.Errorf("%s/%s has this program: %w", e.Group, e.Name, syscall.EEXIST)
	case len(all) >= maxPrograms:
		return nil, fmt.Errorf("%s/%s has %d programs: %w", e.Group, e.Name, maxPrograms, syscall.E2BIG)
	}
	all = append(all, a)
	e.programs.Store(&all)
	return func() { e.detachProgram(a.Prog) }, nil
}

// detachProgram returns when the program is running in no hit any more.
func (e *Event) detachProgram(p *bpf.Prog) {
	e.tracer.mu.Lock()
	defer e.tracer.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(*e.programs.Load()), func(x bpf.Attached) bool { return x.Prog == p })
	if len(left) == 0 {
		e.programs.Store(nil)
	} else {
		e.programs.Store(&left)
	}
	e.tracer.conf.Machine.SynchronizeRCU()
}

// runPrograms is trace_call_bpf. It returns false if nothing is to be recorded of the hit by perf. It
// runs in handler context.
func (e *Event) runPrograms(trap *abi.Trap, s *filter.Subject, all []bpf.Attached, tid int32) bool {
	t := e.tracer
	tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
	h := &t.scratch(trap).program
	h.event, h.left = e, false
	h.Trap, h.Ctx, h.PID, h.TID, h.Comm, h.UID, h.Func = trap, s.Entry, int32(uint32(tgid)), tid, s.Comm, t.currentUID(trap), 0
	if e.kind == dynevent.Kprobe || e.kind == dynevent.Kretprobe {
		h.Ctx = trap.Regs.Bytes()
	}
	if e.kind == dynevent.Kprobe && trap.Regs.IP > 0 {
		h.Func = trap.Regs.IP - 1
	}
	t.chainOf(h)
	return t.bpf.RunArray(all, &h.Hit)
}

// programHit is a hit for programs, in the scratch memory of a vCPU.
type programHit struct {
	bpf.Hit
	event *Event // nil if it is no event's
	left  bool   // it is a software event of sched_switch: the stack begins with the caller of __schedule
	comm  [abi.TaskCommLen]byte
}

// currentUID returns the current task's user, and its group in the upper half.
func (t *Tracer) currentUID(trap *abi.Trap) uint64 {
	cred, err := trap.Mem.ReadU64(trap.Task + abi.TaskCred)
	if err != nil {
		return 0
	}
	ids, _ := trap.Mem.ReadU64(cred + abi.CredUID)
	return ids
}

// HitUser is a hit of a uprobe that an event of PerfProbe counts, in a task of the host. Its registers are not
// known but for the address.
func (t *Tracer) HitUser(p *perf.Event, task bpf.Task, ip uint64) {
	source, ok := p.Source().(*localSource)
	if !ok || source.event == nil {
		return
	}
	trap := &abi.Trap{Regs: &abi.Regs{IP: ip}, Mem: t.conf.Memory, Now: t.conf.Machine.Now}
	h := bpf.NewHit(trap, task)
	if all := source.event.programs.Load(); all != nil {
		if !t.bpf.RunArray(*all, h) {
			return
		}
	}
	p.Hit(&perf.Hit{PID: task.PID, TID: task.TID, Time: trap.Now(), IP: ip, Subject: &filter.Subject{Comm: h.Comm}})
}

// clockSource is a software clock of perf_event_open(2): it counts nothing, and runs programs that are attached to it.
type clockSource struct {
	quietSource
	tracer *Tracer
}

// shortestTick bounds how often a clock runs programs: kernel.perf_event_max_sample_rate.
const shortestTick = 10 * time.Microsecond

// AttachProgram implements bpf.Attacher: the program runs each time the clock's period is over, if the
// event is for a CPU of this machine and enabled. It sees no registers.
func (s clockSource) AttachProgram(e *perf.Event, a bpf.Attached) (detach func(), err error) {
	if _, err := s.quietSource.AttachProgram(e, a); err != nil {
		return nil, err
	}
	t := s.tracer
	vcpu := slices.Index(t.perf.CPUs, e.CPU())
	over, ended := make(chan struct{}), make(chan struct{})
	if vcpu < 0 || e.Interval() <= 0 {
		return func() {}, nil
	}
	go func() {
		defer close(ended)
		tick := time.NewTicker(max(time.Duration(e.Interval()), shortestTick))
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				if e.Enabled() {
					t.runTick(vcpu, a)
				}
			}
		}
	}()
	return func() { close(over); <-ended }, nil
}

// runTick runs a program as the clock interrupt of a CPU, in the task that the CPU executes.
func (t *Tracer) runTick(vcpu int, a bpf.Attached) {
	h := t.interruptHit(vcpu)
	h.Ctx = append(h.Trap.Regs.Bytes(), make([]byte, 16)...) // struct bpf_perf_event_data: sample_period, addr
	t.bpf.RunArray([]bpf.Attached{a}, h)
}

// afterInterrupt is bpf.Config.After.
func (t *Tracer) afterInterrupt(ns int64, vcpu int, do func(h *bpf.Hit)) (stop func()) {
	stopped := t.conf.Machine.AfterFunc(max(time.Duration(ns), shortestTick), func() { do(t.interruptHit(vcpu)) })
	return func() { stopped() }
}

// interruptHit returns a hit in the clock interrupt of a CPU, in the task that the CPU executes.
func (t *Tracer) interruptHit(vcpu int) *bpf.Hit {
	trap := &abi.Trap{CPU: vcpu, Regs: &abi.Regs{}, Mem: t.conf.Memory, Now: t.conf.Machine.Now, IRQsOff: true}
	h := bpf.Hit{Trap: trap, Comm: new([abi.TaskCommLen]byte)}
	trap.Task = t.conf.Machine.TaskOn(vcpu)
	if trap.Task != 0 {
		tgid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskTGID)
		tid, _ := trap.Mem.ReadU64(trap.Task + abi.TaskPID)
		h.PID, h.TID = int32(uint32(tgid)), int32(uint32(tid))
		_ = trap.Mem.ReadAt(trap.Task+abi.TaskComm, h.Comm[:])
	}
	return &h
}

// BPF returns what bpf(2) has made.
func (t *Tracer) BPF() *bpf.System { return t.bpf }

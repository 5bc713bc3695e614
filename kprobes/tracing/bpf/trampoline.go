package bpf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
)

// Probes are what programs are attached to beside the events of perf_event_open(2).
type Probes interface {
	// Function returns the address of the kernel's function of that name, or 0.
	Function(name string) uint64
	// Site returns the place at which the entry of the function at an address is traced.
	Site(addr uint64) (site uint64, ok bool)
	// Listen calls hit in handler context at each entry of the functions at the sites, or at each return from them, until
	// detach is called. args are the registers that had the first arguments.
	Listen(sites []uint64, at Moment, hit func(h *Hit, args *Args)) (detach func(), err error)
	// Modify calls hit in handler context at each entry of the function at a site, after all that Listen has called at it, until
	// detach is called. If it returns another number than 0, the function returns that in place of what it would do. It fails with
	// ENOTSUPP in a kernel whose functions cannot be left out.
	Modify(site uint64, hit func(h *Hit, args *Args) uint64) (detach func(), err error)
	// ListenTracepoint calls hit in handler context at each hit of a tracepoint, whose arguments h.Ctx has. It
	// fails with ENOENT if there is none of that name.
	ListenTracepoint(name string, hit func(h *Hit)) (detach func(), err error)
}

// Args are the registers that have a function's first arguments.
type Args [6]uint64

// Moment is when a call of a function is seen.
type Moment int

// The moments of a call. Who sees AtOwnReturn has called the function itself, as the trampoline of a fexit program does: it is
// before AtReturn, and the newest of them is the first.
const (
	AtEntry Moment = iota
	AtReturn
	AtOwnReturn
)

// Limits of what can be attached to a function.
const (
	maxTrampolineArgs = len(Args{})
	maxTrampoline     = 38 // BPF_MAX_TRAMP_LINKS: programs at a function
)

// Types of links (enum bpf_link_type).
const (
	linkRawTracepoint = 1
	linkTracing       = 2
	linkIter          = 4
	linkPerfEvent     = 7
	linkKprobeMulti   = 8
)

// rawTracepointOpen is BPF_RAW_TRACEPOINT_OPEN: it attaches a program for raw tracepoints to the one of a name,
// or a program of type TRACING to what that is for.
func (s *System) rawTracepointOpen(c Caller, a *attr) (Result, error) {
	p, ok := c.Object(a.fd(8)).(*Prog)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(8)))
	}
	switch p.kind {
	case ProgTracing:
		if a.u64(0) != 0 {
			return Result{}, syscall.EINVAL
		}
		return s.attachTracing(p, 0)
	case ProgRawTracepoint, ProgRawTracepointWritable:
	default:
		return Result{}, syscall.EINVAL
	}
	const maxName = 128
	name, err := readString(c, a.u64(0), maxName)
	if err != nil {
		return Result{}, err
	}
	return s.attachTracepoint(p, name)
}

// attachTracepoint is bpf_raw_tp_link_attach. It fails with ENOENT if there is no such tracepoint, and with EINVAL for
// a program that reads more arguments than it has.
func (s *System) attachTracepoint(p *Prog, name string) (Result, error) {
	if s.conf.Probes == nil {
		return Result{}, syscall.ENOENT
	}
	if n, known := s.types.tracepointArgs(name); known && p.reads > 8*n {
		return Result{}, fmt.Errorf("%s has %d arguments: %w", name, n, syscall.EINVAL)
	}
	all := []Attached{{Prog: p}}
	detach, err := s.conf.Probes.ListenTracepoint(name, func(h *Hit) { s.RunArray(all, h) })
	if err != nil {
		return Result{}, err
	}
	return s.newLink(&Link{kind: linkRawTracepoint, prog: p, detach: detach, name: name}), nil
}

// attachTracing is bpf_tracing_prog_attach. It fails with EBUSY if the program is attached already, with E2BIG if there
// are too many at the function, and with ENOTSUPP for a function of more arguments than registers have.
func (s *System) attachTracing(p *Prog, cookie uint64) (Result, error) {
	t := p.target
	switch p.attachType {
	case traceRawTP:
		return s.attachTracepoint(p, t.name)
	case traceIter: // BPF_LINK_CREATE attaches it
		return Result{}, syscall.EINVAL
	}
	var site uint64
	if p.attachProg == nil {
		if s.conf.Probes == nil || len(t.args) > maxTrampolineArgs {
			return Result{}, errNotSupported
		}
		var ok bool
		if site, ok = s.conf.Probes.Site(t.addr); !ok {
			return Result{}, fmt.Errorf("%s cannot be traced: %w", t.name, errNotSupported)
		}
	}
	if err := s.joinTrampoline(p); err != nil {
		return Result{}, err
	}
	detach, err := s.runInTrampoline(Attached{Prog: p, Cookie: cookie}, site)
	if err != nil {
		s.leaveTrampoline(p)
		return Result{}, err
	}
	return s.newLink(&Link{kind: linkTracing, prog: p, detach: func() { detach(); s.leaveTrampoline(p) }}), nil
}

// runInTrampoline has a program run at its function, whose entry is traced at site, or with the program that it is for, until
// detach is called.
func (s *System) runInTrampoline(a Attached, site uint64) (detach func(), err error) {
	t, at := a.Prog.target, AtEntry
	switch {
	case a.Prog.attachProg != nil:
		return s.follow(a), nil
	case a.Prog.attachType == modifyReturn:
		return s.modify(a, site)
	case a.Prog.attachType == traceFexit:
		at = AtOwnReturn
	}
	all := []Attached{a}
	return s.conf.Probes.Listen([]uint64{site}, at, func(h *Hit, args *Args) {
		if at == AtEntry {
			h.setArguments(t, args)
		} else {
			h.setArguments(t, args, h.Trap.Regs.AX)
		}
		s.RunArray(all, h)
	})
}

// setArguments makes the arguments of a function the context of programs that are for it, and after them its result so far, if that
// is to be there.
func (h *Hit) setArguments(t *target, args *Args, result ...uint64) {
	h.Func, h.Ctx = t.addr, h.words[:0]
	for _, v := range args[:len(t.args)] {
		h.Ctx = binary.LittleEndian.AppendUint64(h.Ctx, v)
	}
	for _, v := range result {
		h.Ctx = binary.LittleEndian.AppendUint64(h.Ctx, v)
	}
}

// joinTrampoline counts a program as one of its function's.
func (s *System) joinTrampoline(p *Prog) error {
	s.objects.Lock()
	defer s.objects.Unlock()
	at := s.trampolines[p.target.addr]
	switch {
	case slices.Contains(at, p):
		return syscall.EBUSY
	case len(at) >= maxTrampoline:
		return syscall.E2BIG
	}
	if s.trampolines == nil {
		s.trampolines = map[uint64][]*Prog{}
	}
	s.trampolines[p.target.addr] = append(at, p)
	return nil
}

func (s *System) leaveTrampoline(p *Prog) {
	s.objects.Lock()
	defer s.objects.Unlock()
	left := slices.DeleteFunc(s.trampolines[p.target.addr], func(x *Prog) bool { return x == p })
	if len(left) == 0 {
		delete(s.trampolines, p.target.addr)
		return
	}
	s.trampolines[p.target.addr] = left
}

// newLink gives a link its number, and a reference to its program.
func (s *System) newLink(l *Link) Result {
	s.objects.Lock()
	defer s.objects.Unlock()
	l.sys, l.refs = s, 1
	s.ref(l.prog)
	l.id = s.links.add(l)
	return Result{Object: l}
}

// targetObject is the number of the program that a program of type TRACING is for, or of the kernel's types.
func (p *Prog) targetObject() uint32 {
	if p.attachProg != nil {
		return p.attachProg.id
	}
	return p.sys.types.id
}

// checkAttach is bpf_prog_load_check_attach.
func (p *Prog) checkAttach(c Caller, a *attr) error {
	p.attachType, p.attachID = a.u32(68), a.u32(108)
	p.sleepable = a.u32(44)&progSleepable != 0
	of := a.fd(112)
	switch {
	case of != 0:
		switch t := c.Object(of).(type) {
		case *Prog:
			if p.kind != ProgTracing {
				return syscall.EINVAL
			}
			p.attachProg = t
		case *BTF:
			if !t.kernel {
				return syscall.EOPNOTSUPP
			}
			if p.attachID == 0 {
				return syscall.EINVAL
			}
		default:
			return badObject(t)
		}
	case p.attachID != 0 && p.sys.types == nil:
		return syscall.EINVAL
	}
	const maxType = 0xfffff // BTF_MAX_TYPE
	if p.attachID > maxType || p.attachID != 0 && p.kind != ProgTracing {
		return syscall.EINVAL
	}
	return nil
}

package bpf

import "slices"

// modifier is what decides about the result of a function: the programs of the attach type BPF_MODIFY_RETURN that are for it.
type modifier struct {
	programs []Attached // the newest first; guarded by System.mem
	detach   func()
}

// modify has a program decide about the result of its function, until detach is called.
func (s *System) modify(a Attached, site uint64) (detach func(), err error) {
	s.modifying.Lock()
	defer s.modifying.Unlock()
	addr := a.Prog.target.addr
	m := s.modifiers[addr]
	if m == nil {
		m = &modifier{}
		if m.detach, err = s.conf.Probes.Modify(site, func(h *Hit, args *Args) uint64 { return s.decide(m, h, args) }); err != nil {
			return nil, err
		}
		if s.modifiers == nil {
			s.modifiers = map[uint64]*modifier{}
		}
		s.modifiers[addr] = m
	}
	s.mem.Lock()
	m.programs = slices.Insert(m.programs, 0, a)
	s.mem.Unlock()
	return func() {
		s.modifying.Lock()
		defer s.modifying.Unlock()
		s.mem.Lock()
		m.programs = slices.DeleteFunc(m.programs, func(x Attached) bool { return x.Prog == a.Prog })
		none := len(m.programs) == 0
		s.mem.Unlock()
		if none {
			delete(s.modifiers, addr)
			m.detach()
		}
	}, nil
}

// decide runs the programs until one returns another number than 0, which is the function's result. It runs in handler context.
func (s *System) decide(m *modifier, h *Hit, args *Args) uint64 {
	s.mem.Lock()
	defer s.mem.Unlock()
	h.sent = false
	for _, a := range m.programs {
		h.setArguments(a.Prog.target, args, 0) // those before have returned 0
		if ret := s.runLocked(a, h); ret != 0 {
			return ret
		}
	}
	return 0
}

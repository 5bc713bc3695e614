package bpf

import (
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// Programs of type TRACING can be for the main function of another program, whose first argument they see as a number.

// follower is a program that runs at each run of another one.
type follower struct {
	Attached
	exit bool // after it
}

// programTarget is bpf_check_attach_target of a program: id is a function of its types.
func (v *verifier) programTarget(p *Prog, id uint32) (*target, error) {
	of := p.attachProg
	if p.attachType != traceFentry && p.attachType != traceFexit {
		return nil, v.refuse(syscall.EINVAL, "Only FENTRY/FEXIT progs are attachable to another BPF prog")
	}
	if of.btf == nil {
		return nil, v.refuse(syscall.EINVAL, "FENTRY/FEXIT program can only be attached to another program annotated with BTF")
	}
	types := btfCheck{data: of.btf.data, log: &verifierLog{}}
	section, err := types.header()
	if err == nil {
		err = types.read(section)
	}
	if err != nil {
		return nil, err
	}
	f, ok := types.find(id)
	switch {
	case !ok || f == nil:
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d is invalid", id)
	case f.name == 0:
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d doesn't have a name", id)
	case f.kind != btfFunc:
		return nil, v.refuse(syscall.EINVAL, "attach_btf_id %d is not a function", id)
	case len(of.funcs.records) < funcInfoSize || binary.LittleEndian.Uint32(of.funcs.records[4:]) != id:
		return nil, v.refuse(syscall.EINVAL, "Subprog %s doesn't exist", types.nameAt(f.name))
	case of.kind == ProgTracing:
		return nil, v.refuse(syscall.EINVAL, "Cannot recursively attach")
	}
	number := &btf.Int{Size: 8}
	t := &target{id: id, name: types.nameAt(f.name), addr: uint64(of.id), returns: number}
	if proto, ok := types.find(f.size); ok && proto != nil && proto.kind == btfFuncProto && proto.vlen > 0 {
		t.args = []btf.FuncParam{{Type: number}}
	}
	return t, nil
}

// follow has a program run at each run of the one that it is for, until detach is called.
func (s *System) follow(a Attached) (detach func()) {
	of := a.Prog.attachProg
	s.mem.Lock()
	defer s.mem.Unlock()
	of.followers = append(slices.Clone(of.followers), follower{a, a.Prog.attachType == traceFexit})
	return func() {
		s.mem.Lock()
		defer s.mem.Unlock()
		of.followers = slices.DeleteFunc(slices.Clone(of.followers), func(f follower) bool { return f.Prog == a.Prog })
	}
}

// runFollowers runs those before or after a run of a program in h, which has returned ret. The caller holds mem.
func (s *System) runFollowers(p *Prog, h *Hit, exit bool, ret uint64) {
	for _, f := range p.followers {
		if f.exit != exit {
			continue
		}
		seen := *h
		seen.Ctx, seen.Func = seen.words[:0], 0
		for range f.Prog.target.args {
			seen.Ctx = binary.LittleEndian.AppendUint64(seen.Ctx, ctxBase)
		}
		if exit {
			seen.Ctx = binary.LittleEndian.AppendUint64(seen.Ctx, ret)
		}
		s.runLocked(f.Attached, &seen)
	}
}

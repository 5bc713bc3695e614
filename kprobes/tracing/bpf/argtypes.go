package bpf

import (
	"math"
	"syscall"
)

// compareTypes is btf_check_subprog_arg_match: it says, once, if a function of the program is called with something else than its
// types tell, and returns false. For functions that are not global nothing follows from that, since compilers leave arguments out.
func (v *verifier) compareTypes(s *state, n int) bool {
	p := v.prog
	if p.funcs.size == 0 || v.odd[n] {
		return false
	}
	if v.matches(s, p.funcs.word(n, 4), n > 0 && v.global(n)) {
		return true
	}
	if v.odd == nil {
		v.odd = map[int]bool{}
	}
	v.odd[n] = true
	return false
}

// prototype returns the types of a function, and of what it takes and returns.
func (v *verifier) prototype(id uint32) (f, proto *btfType) {
	types := v.prog.btf.types
	if f, _ = types.find(id); f == nil {
		return nil, nil
	}
	proto, _ = types.find(f.size)
	if proto == nil || proto.kind != btfFuncProto {
		return f, nil
	}
	return f, proto
}

// scalar reports whether a type is one of numbers.
func (t *btfType) scalar() bool { return t.kind == btfInt || t.kind == btfEnum || t.kind == btfEnum64 }

func (v *verifier) matches(s *state, id uint32, global bool) bool {
	types := v.prog.btf.types
	f, proto := v.prototype(id)
	if proto == nil {
		return false
	}
	if proto.vlen > numArgs {
		v.log.printf("Function %s has %d > %d args\n", types.nameAt(f.name), proto.vlen, numArgs)
		return false
	}
	for n := range int(proto.vlen) {
		r := n + 1
		t := types.unmodified(proto.word(8*n + 4))
		switch {
		case t == nil:
			return false
		case t.scalar():
			if s.regs()[r].typ != regScalar {
				v.log.printf("R%d is not a scalar\n", r)
				return false
			}
		case t.kind != btfPtr:
			v.log.printf("Unrecognized arg#%d type %s\n", n, btfKinds[t.kind].name)
			return false
		default:
			if !v.pointerMatches(s, n, f, t, global) {
				return false
			}
		}
	}
	return true
}

// unmodified returns a type without what is before it: typedef, const and the like.
func (c *btfCheck) unmodified(id uint32) *btfType {
	t, _ := c.find(id)
	for range len(c.types) {
		if t == nil || !t.refers() {
			break
		}
		t, _ = c.find(t.size)
	}
	return t
}

// contextNames are the structures that programs see as their first argument, by type.
var contextNames = map[ProgType]string{
	ProgKprobe: "pt_regs", ProgSocketFilter: "__sk_buff", ProgSchedCLS: "__sk_buff", ProgSchedACT: "__sk_buff", ProgXDP: "xdp_md",
	ProgRawTracepoint: "bpf_raw_tracepoint_args", ProgRawTracepointWritable: "bpf_raw_tracepoint_args", ProgPerfEvent: "bpf_perf_event_data",
}

// pointsToContext reports whether a pointer's type is the one of the program's own first argument.
func (v *verifier) pointsToContext(t *btfType) bool {
	types := v.prog.btf.types
	to := types.unmodified(t.size)
	return to != nil && to.kind == btfStruct && to.name != 0 && types.nameAt(to.name) == contextNames[v.prog.kind]
}

// pointerMatches reports whether an argument of a pointer's type is the program's own first argument, or memory of the size that a
// global function's types tell. Which pointer it is does not matter for another function.
func (v *verifier) pointerMatches(s *state, n int, f, t *btfType, global bool) bool {
	types := v.prog.btf.types
	context := v.pointsToContext(t)
	switch {
	case context && s.regs()[n+1].typ != regCtx:
		v.log.printf("arg#%d expected pointer to ctx, but got %s\n", n, btfKinds[t.kind].name)
	case context:
		return true
	case global:
		size, ok := types.bytes(t.size)
		return ok && v.passesMemory(s, n+1, size)
	default:
		v.log.printf("reg type unsupported for arg#%d function %s#%d\n", n, types.nameAt(f.name), f.id)
	}
	return false
}

// passesMemory is check_mem_reg: whether a register is NULL, or points to size bytes that may be read and written.
func (v *verifier) passesMemory(s *state, r, size int) bool {
	reg := &s.regs()[r]
	if reg.isNull() {
		return true
	}
	if reg.typ.mayBeNull() { // the function looks at that
		before := reg.typ
		reg.typ--
		defer func() { reg.typ = before }()
	}
	if reg.typ == regCtx {
		switch v.prog.kind {
		case ProgKprobe, ProgTracepoint, ProgRawTracepoint, ProgRawTracepointWritable:
			return v.access(s, access{reg: r, off: size - 1, size: 1, from: -1, to: -1}) == nil &&
				v.access(s, access{reg: r, off: size - 1, size: 1, write: true, from: -1, to: -1, anything: true}) == nil
		default:
		}
	}
	if !reg.isMemory() {
		v.log.printf("R%d type=%s expected=%s\n", r, v.typeName(reg.typ), v.typeName(regStack))
		return false
	}
	read, write := helperCall{}, helperCall{uninit: true}
	return v.memory(s, &read, uint8(r), size, argMem) == nil && v.memory(s, &write, uint8(r), size, argMem) == nil
}

// bytes is btf_resolve_size: how large a type is. ok is false for one that has no size.
func (c *btfCheck) bytes(id uint32) (n int, ok bool) {
	count := uint64(1)
	for range len(c.types) {
		t := c.unmodified(id)
		if t == nil {
			return 0, false
		}
		size := uint64(t.size)
		switch t.kind {
		case btfArray:
			if count *= uint64(t.word(8)); count > math.MaxUint32 {
				return 0, false
			}
			id = t.word(0)
			continue
		case btfPtr:
			size = 8
		case btfInt, btfStruct, btfUnion, btfEnum, btfEnum64, btfFloat:
		default:
			return 0, false
		}
		return int(size * count), size*count <= math.MaxInt32
	}
	return 0, false
}

// Linkage of functions, in the types.
const (
	funcStatic = 0
	funcGlobal = 1
)

// global reports whether a function is global: it is verified by its types, and not where it is called.
func (v *verifier) global(n int) bool {
	if v.prog.funcs.size == 0 {
		return false
	}
	f, _ := v.prototype(v.prog.funcs.word(n, 4))
	return f != nil && f.vlen == funcGlobal
}

// globals verifies the global functions of the program, and on 6.12 those that are called by what was verified: do_check_subprogs.
func (v *verifier) globals() error {
	verified := map[int]bool{}
	for again := true; again; {
		again = false
		for n := 1; n < len(v.starts); n++ {
			if !v.global(n) || verified[n] || v.v612 && !v.called[n] {
				continue
			}
			if err := v.verifyGlobal(n); err != nil {
				return err
			}
			verified[n], again = true, v.v612
		}
	}
	return nil
}

// verifyGlobal follows a global function with all arguments that its types allow.
func (v *verifier) verifyGlobal(n int) error {
	f := newFunction(0, -1, v.starts[n])
	if err := v.takes(f, n); err != nil {
		return err
	}
	if err := v.paths(f); err != nil {
		return err
	}
	switch {
	case !v.log.verbose():
	case v.v612:
		v.log.printf("Func#%d ('%s') is safe for any args that match its prototype\n", n, v.functionName(n))
	default:
		v.log.printf("Func#%d is safe for any args that match its prototype\n", n)
	}
	return nil
}

// functionName returns the name of a function of the program.
func (v *verifier) functionName(n int) string {
	t, _ := v.prototype(v.prog.funcs.word(n, 4))
	return v.prog.btf.types.nameAt(t.name)
}

// takes is btf_prepare_func_args: it gives a global function all arguments that its types allow.
func (v *verifier) takes(f *function, n int) error {
	types := v.prog.btf.types
	t, proto := v.prototype(v.prog.funcs.word(n, 4))
	name := types.nameAt(t.name)
	if v.log.verbose() {
		v.log.printf("Validating %s() func#%d...\n", name, n)
	}
	if proto == nil {
		return v.refuse(syscall.EFAULT, "Invalid type of function %s()", name)
	}
	if proto.vlen > numArgs {
		return v.refuse(syscall.EINVAL, "Global function %s() with %d > %d args. Buggy compiler.", name, proto.vlen, numArgs)
	}
	if r := types.unmodified(proto.size); r == nil || !r.scalar() {
		return v.refuse(syscall.EINVAL, "Global function %s() doesn't return scalar. Only those are supported.", name)
	}
	for arg := range int(proto.vlen) {
		reg := &f.regs[arg+1]
		a := types.unmodified(proto.word(8*arg + 4))
		switch {
		case a != nil && a.scalar():
			*reg = unknown()
		case a == nil || a.kind != btfPtr:
			kind := "UNKNOWN"
			if a != nil {
				kind = btfKinds[a.kind].name
			}
			return v.refuse(syscall.EINVAL, "Arg#%d type %s in %s() is not supported yet.", arg, kind, name)
		case v.pointsToContext(a):
			*reg = pointer(regCtx)
		default:
			size, ok := types.bytes(a.size)
			if !ok {
				kind, to := "UNKNOWN", ""
				if target := types.unmodified(a.size); target != nil {
					kind = btfKinds[target.kind].name
					if target.name != 0 {
						to = types.nameAt(target.name)
					}
				}
				return v.refuse(syscall.EINVAL, "arg#%d reference type('%s %s') size cannot be determined: %d", arg, kind, to, -int(syscall.EINVAL))
			}
			v.newID()
			*reg = pointer(regMemOrNull)
			reg.size = int32(size)
		}
	}
	for r := range f.regs {
		if f.regs[r].typ == regMemOrNull {
			f.regs[r].id = v.newID()
		}
	}
	return nil
}

// skip follows the call of a global function: all that is known after it is that it returns a number.
func (v *verifier) skip(s *state, n int, matches bool) error {
	switch {
	case !matches && v.v612:
		return v.refuse(syscall.EINVAL, "Caller passes invalid args into func#%d ('%s')", n, v.functionName(n))
	case !matches:
		return v.refuse(syscall.EINVAL, "Caller passes invalid args into func#%d", n)
	case v.v612:
		v.log.printf("Func#%d ('%s') is global and assumed valid.\n", n, v.functionName(n))
		if v.called == nil {
			v.called = map[int]bool{}
		}
		v.called[n] = true
	case v.log.verbose():
		v.log.printf("Func#%d is global and valid. Skipping.\n", n)
	}
	for r := range numArgs + 1 {
		v.shownRegs |= 1 << r
		s.regs()[r].become(none())
		s.regs()[r].live |= liveWritten
	}
	s.regs()[r0].forget()
	return nil
}

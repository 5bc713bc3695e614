package bpf

// compareTypes is btf_check_subprog_arg_match: it says, once, if a function of the program is called with something else than its
// types tell. Nothing follows from that for functions that are not global, since compilers leave arguments out.
func (v *verifier) compareTypes(s *state, n int) {
	p := v.prog
	if p.funcs.size == 0 || v.odd[n] {
		return
	}
	if !v.matches(s, p.funcs.typeAt(v.starts[n])) {
		if v.odd == nil {
			v.odd = map[int]bool{}
		}
		v.odd[n] = true
	}
}

func (v *verifier) matches(s *state, id uint32) bool {
	types := v.prog.btf.types
	f, ok := types.find(id)
	if !ok || f == nil {
		return false
	}
	proto, ok := types.find(f.size)
	if !ok || proto == nil || proto.kind != btfFuncProto {
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
		case t.kind == btfInt || t.kind == btfEnum || t.kind == btfEnum64:
			if s.regs()[r].typ != regScalar {
				v.log.printf("R%d is not a scalar\n", r)
				return false
			}
		case t.kind != btfPtr:
			v.log.printf("Unrecognized arg#%d type %s\n", n, btfKinds[t.kind].name)
			return false
		default:
			if !v.pointerMatches(s, n, f, t) {
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

// pointerMatches reports whether an argument of a pointer's type is the program's own first argument. No other pointer is known to
// match: which one it is does not matter for a function that is not global.
func (v *verifier) pointerMatches(s *state, n int, f, t *btfType) bool {
	switch {
	case !v.pointsToContext(t):
		v.log.printf("reg type unsupported for arg#%d function %s#%d\n", n, v.prog.btf.types.nameAt(f.name), f.id)
	case s.regs()[n+1].typ != regCtx:
		v.log.printf("arg#%d expected pointer to ctx, but got %s\n", n, btfKinds[t.kind].name)
	default:
		return true
	}
	return false
}

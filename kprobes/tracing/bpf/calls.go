package bpf

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/cilium/ebpf/btf"
)

// call follows a call of a helper or of a function of the program.
func (v *verifier) call(s *state, i insn, at int) error {
	if i.off != 0 && i.src != pseudoKfuncCall || i.src > pseudoKfuncCall || i.dst != 0 {
		return v.refuse(syscall.EINVAL, "BPF_CALL uses reserved fields")
	}
	if s.lock != 0 && (i.src == pseudoCall || i.imm != helperSpinUnlock) {
		return v.refuse(syscall.EINVAL, "function calls are not allowed while holding a lock")
	}
	switch {
	case i.src == pseudoCall:
		return v.enter(s, at, at+1+int(i.imm), nil)
	case i.src == pseudoKfuncCall && i.imm == 0: // what libbpf makes of a weak one that there is not
		v.callsNothing = true
		if v.v612 {
			v.shownRegs |= 1
		}
		return nil
	case i.src == pseudoKfuncCall:
		return v.refuse(syscall.EACCES, "calling kernel function %s is not allowed", v.kernelFunctionName(i))
	}
	h := helpers[i.imm]
	switch {
	case h == nil && (i.imm < 0 || int(i.imm) >= len(helperNames)):
		return v.refuse(syscall.EINVAL, "invalid func unknown#%d", i.imm)
	case (h == nil || !v.allowed(i.imm)) && v.v612:
		return v.refuse(syscall.EINVAL, "program of this type cannot use helper %s#%d", helperName(i.imm), i.imm)
	case h == nil || !v.allowed(i.imm):
		return v.refuse(syscall.EINVAL, "unknown func %s#%d", helperName(i.imm), i.imm)
	case h.gpl && !v.prog.gpl:
		return v.refuse(syscall.EINVAL, "cannot call GPL-restricted function from non-GPL compatible program")
	case i.imm == helperDPath && !v.prog.namesPath():
		return v.refuse(syscall.EINVAL, "helper call is not allowed in probe")
	case (i.imm == helperCopyFromUser || i.imm == helperCopyFromTask) && !v.prog.sleepable:
		return v.refuse(syscall.EINVAL, "helper call might sleep in a non-sleepable prog")
	}
	if i.imm == helperGetFuncIP {
		switch k := v.prog.kind; {
		case k == ProgTracing && (v.prog.attachType == traceRawTP || v.prog.attachType == traceIter):
			return v.refuse(errNotSupported, "func %s#%d supported only for fentry/fexit/fmod_ret programs", h.name, i.imm)
		case k != ProgTracing && k != ProgKprobe:
			return v.refuse(errNotSupported, "func %s#%d not supported for program type %d", h.name, i.imm, k)
		}
	}
	return v.callHelper(s, i, h, at)
}

// allowed reports whether a program of this type may call a helper.
func (v *verifier) allowed(nr int32) bool {
	p := v.prog
	switch p.kind {
	case ProgSocketFilter, ProgSchedCLS, ProgSchedACT, ProgXDP:
		return slices.Contains(networkHelpers, nr)
	default:
	}
	switch nr {
	case helperSysBPF, helperFindByName, helperSysClose, helperKallsymsName:
		return p.kind == ProgSyscall
	case helperSeqPrintf, helperSeqWrite, helperSeqPrintfBTF:
		return p.kind == ProgTracing && p.attachType == traceIter
	case helperDPath:
		return p.kind == ProgTracing
	case helperBranchRecords:
		return p.kind == ProgPerfEvent
	case helperCoarseTime:
		return false // its clock may be written while a tracing program runs
	case helperAttachCookie:
		return p.kind == ProgKprobe || p.kind == ProgTracepoint || p.kind == ProgPerfEvent || p.atFunction()
	case helperFuncArg, helperFuncRet, helperFuncArgCnt:
		return p.atFunction()
	}
	return true
}

// networkHelpers are those that programs of packets may call here.
var networkHelpers = []int32{
	1, 2, 3, 5, 6, 7, 8, 12, 25, 35, 42, 87, 88, 89, helperSpinLock, helperSpinUnlock, 105, 106, 112, 113, 114, 115, 118, 125, 130, 131, 132, 133, 134,
	helperPercpuPtr, 154, 158, 160, 164, 165, 169, helperSetCallback, 171, 172, 175, 177, 181, 182, helperKptrXchg, helperLookupPercpu,
	helperDynptrFromMem, helperReserveDynptr, 199, 200, 201, 202, helperDynptrData, 208, helperRingDrain,
}

// atFunction reports whether a program is for the entry or the return of a function.
func (p *Prog) atFunction() bool {
	return p.kind == ProgTracing && (p.attachType == traceFentry || p.attachType == traceFexit || p.attachType == modifyReturn)
}

// memTypes are the types of registers that point to memory that a helper may read, in the words of
// the log.
const memTypes = "fp, pkt, pkt_meta, map_key, map_value, mem, alloc_mem, buf"

// memTypes612 are the same in 6.12's.
const memTypes612 = "fp, pkt, pkt_meta, map_key, map_value, mem, ringbuf_mem, buf, trusted_ptr_"

// memTypes returns them in the release's words.
func (v *verifier) memTypes() string {
	if v.v612 {
		return memTypes612
	}
	return memTypes
}

// longTypes are the types of registers that point to 8 bytes for a helper.
func (v *verifier) longTypes(nr int32) string {
	if v.v612 {
		return memTypes612
	}
	switch nr {
	case helperFuncArg, helperFuncRet:
		return memTypes
	}
	return "fp, pkt, pkt_meta, map_key, map_value"
}

// argument is check_func_arg.
func (v *verifier) argument(s *state, c *helperCall, r uint8, want argType) error {
	regs := s.regs()
	m := &c.m
	if err := v.readable(s, r); err != nil {
		return err
	}
	p := regs[r]
	null := p.isNull()
	wrong := func(expected string) error {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), expected)
	}
	switch want {
	case argMap:
		if p.typ != regMap {
			return wrong("map_ptr")
		}
		if *m != nil && *m != p.m {
			return v.refuse(syscall.EINVAL, "timer pointer in R1 map_uid=0 doesn't match map pointer in R2 map_uid=0")
		}
		*m = p.m
	case argCtx:
		if p.typ != regCtx {
			return wrong("ctx")
		}
	case argFunc:
		if p.typ != regFunc {
			return wrong("func")
		}
	case argStackOrNull:
		if p.typ != regStack && !null {
			return wrong("fp")
		}
	case argRecord:
		if p.typ != regRecord || p.ref == 0 {
			return wrong(v.typeName(regRecord))
		}
		if p.off != 0 || !p.isConst() {
			return v.refuse(syscall.EINVAL, "R%d must have zero offset when passed to release func or trusted arg to kfunc", r)
		}
	case argTimer:
		return v.timerArgument(p, r, m)
	case argTask:
		return v.structArgument(p, r, "task_struct")
	case argSeqFile:
		return v.structArgument(p, r, "seq_file")
	case argPath:
		return v.structArgument(p, r, "path")
	case argDynptr, argNewDynptr, argNewRingDynptr, argRingDynptr:
		return v.dynptrArgument(s, c, r, want)
	case argPercpu:
		return wrong("percpu_ptr_")
	case argKptr:
		return v.kptrArgument(p, r)
	case argKey, argValue, argUninitValue, argValueOrNull:
		if null && want == argValueOrNull {
			return nil
		}
		switch {
		case v.v612 && !p.isMemory():
			return wrong(memTypes612)
		case !v.v612 && p.typ != regStack && p.typ != regMapValue && p.typ != regKey:
			return wrong("fp, pkt, pkt_meta, map_key, map_value")
		}
		if want != argKey {
			c.uninit = want == argUninitValue && (*m).kind != mapBloomFilter // a bloom filter is asked for the value
			return v.memory(s, c, r, (*m).value, want)
		}
		c.uninit = false
		return v.memory(s, c, r, (*m).key, want)
	case argConstString:
		if p.typ != regMapValue {
			return wrong("map_value")
		}
		if !p.m.frozen.Load() || p.m.flags&flagProgRead == 0 {
			return v.refuse(syscall.EACCES, "R%d does not point to a readonly map'", r)
		}
	case argMem, argMemOrNull, argUninitMem:
		if null && want == argMemOrNull {
			return nil
		}
		if !p.isMemory() {
			return wrong(v.memTypes())
		}
	case argUninitLong:
		if !p.isMemory() {
			return wrong(v.longTypes(c.nr))
		}
		c.uninit = true
		return v.memory(s, c, r, 8, want)
	case argSize, argSizeOrZero:
		return v.sized(s, c, r, want)
	case argConstantSize, argConstSizeOrZero:
		if p.typ != regScalar || !p.isConst() {
			return v.refuse(syscall.EACCES, "R%d is not a known constant'", r)
		}
		return v.precisely(s, int(r))
	default:
	}
	return nil
}

// structArgument checks a pointer to a structure of the kernel.
func (v *verifier) structArgument(p value, r uint8, want string) error {
	name := v.typeName(regStruct)
	switch {
	case p.typ != regStruct:
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), name)
	case p.to != nil && !v.begins(p.to, int64(p.off), want):
		return v.refuse(syscall.EACCES, "R%d is of type %s but %s is expected", r, p.to.TypeName(), want)
	case p.off < 0:
		return v.refuse(syscall.EACCES, "negative offset %s ptr R%d off=%d disallowed", name, r, p.off)
	case !p.isConst() || p.bits != 0:
		return v.refuse(syscall.EACCES, "variable %s access var_off=%s disallowed", name, v.bitsText(p.tnum))
	}
	return nil
}

// begins is btf_struct_ids_match: whether a structure that is wanted is at an offset of another one.
func (v *verifier) begins(t btf.Type, off int64, want string) bool {
	if off == 0 && t.TypeName() == want {
		return true
	}
	const maxNesting = 64 // structures in structures
	for range maxNesting {
		inner, at, _, done, err := v.member(t, uint32(off), 1)
		switch {
		case err != nil || done:
			return false
		case at == 0 && inner.TypeName() == want:
			return true
		}
		t, off = inner, int64(at)
	}
	return false
}

// isMemory reports whether a register points to memory whose size is known.
func (v *value) isMemory() bool {
	return v.typ == regStack || v.typ == regMapValue || v.typ == regRecord || v.typ == regKey || v.typ == regMem
}

// mapAllows is check_map_func_compatibility: which helpers work on which maps.
func (v *verifier) mapAllows(i insn, h *helper, m *Map) error {
	if m == nil || h.args[0] == argTimer {
		return nil
	}
	needs := map[int32][]MapType{
		helperTailCall: {mapProgArray}, 22: {mapPerfEventArray}, 25: {mapPerfEventArray}, 55: {mapPerfEventArray}, 27: {mapStackTrace}, helperUnderCgroup: {mapCgroupArray},
		87: {mapQueue, mapStack, mapBloomFilter}, 88: {mapQueue, mapStack}, 89: {mapQueue, mapStack, mapBloomFilter},
		156: {mapTaskStorage}, 157: {mapTaskStorage}, helperRingDrain: {mapUserRingbuf}, helperReserveDynptr: {mapRingbuf}, helperLookupPercpu: {mapPerCPUArray, mapPerCPUHash, mapLRUPerCPUHash},
		130: {mapRingbuf}, 131: {mapRingbuf}, 134: {mapRingbuf},
	}
	ok := true
	if kinds, special := needs[i.imm]; special {
		ok = slices.Contains(kinds, m.kind)
	} else {
		switch m.kind {
		case mapProgArray, mapPerfEventArray, mapRingbuf, mapUserRingbuf, mapQueue, mapStack, mapBloomFilter, mapTaskStorage, mapCgroupArray:
			ok = false
		case mapStackTrace:
			ok = i.imm == 3 || i.imm == 1
		case mapArrayOfMaps, mapHashOfMaps:
			ok = i.imm == 1
		default:
		}
	}
	if !ok {
		return v.refuse(syscall.EINVAL, "cannot pass map_type %d into func %s#%d", m.kind, h.name, i.imm)
	}
	return nil
}

// mapKeeps is record_func_map and record_func_key: which maps helpers may write, and whether it is known which program a tail call
// goes to.
func (v *verifier) mapKeeps(s *state, nr int32, m *Map) error {
	switch nr {
	case 2, 3, 87, 88:
		if m != nil && m.flags&flagProgRead != 0 {
			return fmt.Errorf("a map that is read-only for programs: %w", v.refuse(syscall.EACCES, "write into map forbidden"))
		}
	case helperTailCall:
		if m.kind != mapProgArray {
			return v.refuse(syscall.EINVAL, "kernel subsystem misconfigured verifier")
		}
		if n := &s.regs()[3]; n.typ == regScalar && n.isConst() && n.bits < uint64(m.entries) {
			return v.precisely(s, 3)
		}
	}
	return nil
}

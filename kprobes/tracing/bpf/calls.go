package bpf

import (
	"fmt"
	"slices"
	"syscall"
)

// call follows a call of a helper or of a function of the program.
func (v *verifier) call(s *state, i insn, at int) error {
	if i.off != 0 || i.dst != 0 {
		return v.refuse(syscall.EINVAL, "BPF_CALL uses reserved fields")
	}
	if s.lock != 0 && (i.src == pseudoCall || i.imm != helperSpinUnlock) {
		return v.refuse(syscall.EINVAL, "function calls are not allowed while holding a lock")
	}
	if i.src == pseudoCall {
		return v.enter(s, at, at+1+int(i.imm), false, nil)
	}
	h := helpers[i.imm]
	switch {
	case h == nil && (i.imm < 0 || int(i.imm) >= len(helperNames)):
		return v.refuse(syscall.EINVAL, "invalid func unknown#%d", i.imm)
	case h == nil || !v.allowed(i.imm):
		return v.refuse(syscall.EINVAL, "unknown func %s#%d", helperName(i.imm), i.imm)
	case h.gpl && !v.prog.gpl:
		return v.refuse(syscall.EINVAL, "cannot call GPL-restricted function from non-GPL compatible program")
	case i.imm == helperCopyFromUser && !v.prog.sleepable:
		return v.refuse(syscall.EINVAL, "helper call might sleep in a non-sleepable prog")
	}
	if i.imm == helperGetFuncIP && v.prog.kind == ProgTracing && v.prog.attachType == traceRawTP {
		return v.refuse(errNotSupported, "func %s#%d supported only for fentry/fexit/fmod_ret programs", h.name, i.imm)
	}
	regs := s.regs()
	var m *Map
	var record value
	callback := -1
	var shown value // what the callback gets as its context
	for n, want := range h.args {
		if want == argNone {
			break
		}
		r := uint8(n + 1)
		if err := v.argument(s, h, r, want, &m); err != nil {
			return err
		}
		switch want {
		case argSpinLock:
			if err := v.lockArgument(s, r, i.imm == helperSpinLock); err != nil {
				return err
			}
		case argRecord:
			record = regs[r]
		case argFunc:
			callback = int(regs[r].off)
		case argStackOrNull:
			shown = regs[r]
		default:
		}
	}
	if err := v.mapAllows(i, h, m); err != nil {
		return err
	}
	size, third := regs[2], regs[3] // of a record, of memory
	if record.ref != 0 {
		s.release(record.ref)
	}
	key := regs[1]
	for r := range 6 {
		regs[r] = value{}
	}
	switch h.ret {
	case retInteger:
		regs[r0] = unknown()
		if i.imm == 8 || i.imm == 42 {
			regs[r0] = upTo(1<<32 - 1)
		}
	case retVoid:
	case retMapValueOrNull:
		regs[r0] = value{typ: regMapValueOrNull, m: m, id: v.newID()}
		if m.inner != nil {
			regs[r0].m, regs[r0].inner = m.meta, true
		}
	case retRecordOrNull:
		id := v.newID()
		regs[r0] = value{typ: regRecordOrNull, size: int32(size.umax), id: id, ref: id}
		s.refs = append(s.refs, reference{id: id, insn: at})
	case retMemOrNull:
		regs[r0] = value{typ: regMemOrNull, size: int32(third.bits), id: v.newID()}
	case retTask:
		regs[r0] = value{typ: regStruct}
		if task := v.prog.sys.types.structure("task_struct"); task != nil {
			regs[r0].to = task
		}
	}
	switch {
	case callback < 0:
		return nil
	case i.imm == helperSetCallback:
		v.async(callback, m)
		return nil
	}
	args := []value{unknown(), shown}
	switch i.imm {
	case helperRingDrain:
		args[0] = value{typ: regDynptr}
	case helperForEachElem:
		args = []value{key, {typ: regKey, m: m}, {typ: regMapValue, m: m}, shown}
	}
	return v.enter(s, at, callback, true, args)
}

// allowed reports whether a program of this type may call a helper.
func (v *verifier) allowed(nr int32) bool {
	switch v.prog.kind {
	case ProgSocketFilter, ProgSchedCLS, ProgSchedACT, ProgXDP:
		switch nr {
		case helperSpinLock, helperSpinUnlock, 169, helperSetCallback, 171, 172, 201, 202, 203, helperRingDrain:
			return true
		case 1, 2, 3, 5, 7, 8, 12, 25, 42, 87, 88, 89, 118, 125, 130, 131, 132, 133, 134, 160, 164, 165, 181, 182, 208, 6, 177, 35, 112, 113, 114, 115:
			return true
		}
		return false
	default:
	}
	switch nr {
	case helperSysBPF, helperKallsymsName:
		return v.prog.kind == ProgSyscall
	case helperCopyFromUser:
		return true
	}
	if nr == helperCoarseTime {
		return false // its clock may be written while a tracing program runs
	}
	switch v.prog.kind {
	case ProgKprobe:
		return nr < helperFuncArg || nr > helperFuncArgCnt
	case ProgTracing:
		return v.allowedTracing(nr)
	case ProgTracepoint, ProgPerfEvent:
		return nr != helperGetFuncIP && (nr < helperFuncArg || nr > helperFuncArgCnt)
	default:
	}
	return nr != helperAttachCookie && nr != helperGetFuncIP && (nr < helperFuncArg || nr > helperFuncArgCnt)
}

// allowedTracing is tracing_prog_func_proto.
func (v *verifier) allowedTracing(nr int32) bool {
	atFunction := v.prog.attachType == traceFentry || v.prog.attachType == traceFexit
	switch nr {
	case helperAttachCookie, helperFuncArg, helperFuncRet, helperFuncArgCnt:
		return atFunction
	}
	return true
}

// enter begins a function of the program; args are its arguments, or nil for those of the call.
func (v *verifier) enter(s *state, site, to int, callback bool, args []value) error {
	if len(s.frames) == maxFrames {
		return v.refuse(syscall.E2BIG, "the call stack of %d frames is too deep", maxFrames)
	}
	f := &function{site: site, callback: callback}
	from := s.regs()
	if args == nil {
		copy(f.regs[1:6], from[1:6])
	}
	copy(f.regs[1:], args)
	f.regs[r10] = value{typ: regStack, frame: uint8(len(s.frames))}
	s.frames = append(s.frames, f)
	s.pc = to
	return nil
}

// release gives a record back: nothing refers to it any more.
func (s *state) release(ref uint32) {
	s.drop(ref)
	for _, f := range s.frames {
		for r := range f.regs {
			if f.regs[r].ref == ref {
				f.regs[r] = unknown()
			}
		}
		for k := range f.stack {
			if f.stack[k].spilled.ref == ref {
				f.stack[k].spilled = unknown()
			}
		}
	}
}

// memTypes are the types of registers that point to memory that a helper may read, in the words of
// the log.
const memTypes = "fp, pkt, pkt_meta, map_key, map_value, mem, alloc_mem, buf"

// argument is check_func_arg.
func (v *verifier) argument(s *state, h *helper, r uint8, want argType, m **Map) error {
	regs := s.regs()
	if err := v.readable(s, r); err != nil {
		return err
	}
	p := regs[r]
	null := p.typ == regScalar && p.isConst() && p.bits == 0
	wrong := func(expected string) error {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, regNames[p.typ], expected)
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
			return wrong("alloc_mem")
		}
		if p.off != 0 || !p.isConst() {
			return v.refuse(syscall.EINVAL, "R%d must have zero offset when passed to release func or trusted arg to kfunc", r)
		}
	case argTimer:
		return v.timerArgument(p, r, m)
	case argTask:
		return v.taskArgument(p, r)
	case argDynptr:
		return v.dynptrArgument(p, r)
	case argKey, argValue, argUninitValue, argValueOrNull:
		if null && want == argValueOrNull {
			return nil
		}
		if p.typ != regStack && p.typ != regMapValue && p.typ != regKey {
			return wrong("fp, pkt, pkt_meta, map_key, map_value")
		}
		if want != argKey {
			written := want == argUninitValue && (*m).kind != mapBloomFilter // a bloom filter is asked for the value
			return v.memory(s, r, (*m).value, written, want)
		}
		return v.memory(s, r, (*m).key, false, want)
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
			return wrong(memTypes)
		}
	case argUninitLong:
		if !p.isMemory() {
			return wrong("fp, pkt, pkt_meta, map_key, map_value")
		}
		return v.memory(s, r, 8, true, want)
	case argSize, argSizeOrZero:
		return v.sized(s, h, r, want)
	case argConstantSize, argConstSizeOrZero:
		if p.typ != regScalar || !p.isConst() {
			return v.refuse(syscall.EACCES, "R%d is not a known constant'", r)
		}
	default:
	}
	return nil
}

// taskArgument checks a pointer to a struct task_struct.
func (v *verifier) taskArgument(p value, r uint8) error {
	const want = "task_struct"
	switch {
	case p.typ != regStruct:
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, regNames[p.typ], regNames[regStruct])
	case p.to != nil && (p.to.TypeName() != want || p.off != 0 || !p.isConst() || p.bits != 0):
		return v.refuse(syscall.EACCES, "R%d is of type %s but %s is expected", r, p.to.TypeName(), want)
	}
	return nil
}

// dynptrArgument checks a dynptr. Programs have only those that helpers show to callbacks.
func (v *verifier) dynptrArgument(p value, r uint8) error {
	name := regNames[regDynptr]
	switch {
	case p.typ == regStack:
		return v.refuse(syscall.EINVAL, "Expected an initialized dynptr as arg #%d", r)
	case p.typ != regDynptr:
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s, %s", r, regNames[p.typ], regNames[regStack], name)
	case p.off < 0:
		return v.refuse(syscall.EACCES, "negative offset %s ptr R%d off=%d disallowed", name, r, p.off)
	case p.off != 0:
		return v.refuse(syscall.EACCES, "dereference of modified %s ptr R%d off=%d disallowed", name, r, p.off)
	case !p.isConst() || p.bits != 0:
		return v.refuse(syscall.EACCES, "variable %s access var_off=(0x%x; 0x%x) disallowed", name, p.bits, p.mask)
	}
	return nil
}

// isMemory reports whether a register points to memory whose size is known.
func (v *value) isMemory() bool {
	return v.typ == regStack || v.typ == regMapValue || v.typ == regRecord || v.typ == regKey || v.typ == regMem
}

// sized is check_mem_size_reg: the register before it points to so many bytes.
func (v *verifier) sized(s *state, h *helper, r uint8, want argType) error {
	n := s.regs()[r]
	if n.typ != regScalar {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=scalar", r, regNames[n.typ])
	}
	if n.smin < 0 {
		return v.refuse(syscall.EACCES, "R%d min value is negative, either use unsigned or 'var &= const'", r)
	}
	p := s.regs()[r-1]
	null := p.typ == regScalar && p.isConst() && p.bits == 0
	if n.umin == 0 && want == argSize {
		return v.refuse(syscall.EACCES, "invalid zero-sized read")
	}
	if n.umax >= 1<<29 {
		return v.refuse(syscall.EACCES, "R%d unbounded memory access, use 'var &= const' or 'if (var < const)'", r)
	}
	if null {
		if n.umax > 0 && h.args[r-2] != argMemOrNull {
			return v.refuse(syscall.EACCES, "R%d type=scalar expected=%s", r-1, memTypes)
		}
		return nil
	}
	return v.memory(s, r-1, int(n.umax), h.args[r-2] == argUninitMem, want)
}

// memory is check_helper_mem_access: size bytes that a helper reads, or writes.
func (v *verifier) memory(s *state, r uint8, size int, written bool, want argType) error {
	p := s.regs()[r]
	if !p.isMemory() {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, regNames[p.typ], memTypes)
	}
	if size == 0 && want != argSizeOrZero {
		return v.refuse(syscall.EACCES, "invalid zero-sized read")
	}
	switch {
	case p.typ == regMapValue && p.m.hasValues():
		return v.mapRange(p, r, 0, size, written, true)
	case p.typ != regStack:
		_, err := v.access(s, r, 0, size, nil)
		return err
	}
	if size == 0 {
		return nil
	}
	lo, hi := int64(p.off)+p.smin, int64(p.off)+p.smax
	if p.smin <= -1<<29 || p.smax >= 1<<29 {
		return v.refuse(syscall.EACCES, "invalid unbounded variable-offset indirect access to stack R%d", r)
	}
	f := s.frames[p.frame]
	switch {
	case lo < -stackSize || lo > -1:
		return v.refuse(syscall.EACCES, "invalid indirect access to stack R%d off=%d size=%d", r, lo, size)
	case hi+int64(size) > 0:
		return v.refuse(syscall.EINVAL, "invalid indirect access to stack R%d off=%d size=%d", r, lo, size)
	}
	if !written {
		return nil // what was not written may be read, too
	}
	f.grow(lo)
	for off := int(lo); off < int(hi)+size; off++ {
		n, b := at(off)
		sl := &f.stack[n]
		if p.isConst() {
			sl.written |= 1 << b
		}
		sl.zero &^= 1 << b
		sl.spilled = value{}
	}
	return nil
}

// mapAllows is check_map_func_compatibility: which helpers work on which maps.
func (v *verifier) mapAllows(i insn, h *helper, m *Map) error {
	if m == nil || h.args[0] == argTimer {
		return nil
	}
	needs := map[int32][]MapType{
		helperTailCall: {mapProgArray}, 25: {mapPerfEventArray}, 27: {mapStackTrace}, helperUnderCgroup: {mapCgroupArray},
		87: {mapQueue, mapStack, mapBloomFilter}, 88: {mapQueue, mapStack}, 89: {mapQueue, mapStack, mapBloomFilter},
		156: {mapTaskStorage}, 157: {mapTaskStorage}, helperRingDrain: {mapUserRingbuf},
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
	switch i.imm {
	case 2, 3, 87, 88:
		if m.flags&flagProgRead != 0 {
			return fmt.Errorf("a map that is read-only for programs: %w", v.refuse(syscall.EACCES, "write into map forbidden"))
		}
	}
	return nil
}

package bpf

import (
	"fmt"
	"slices"
	"syscall"
)

// helperCall is what the arguments of a call of a helper are.
type helperCall struct {
	*helper
	nr       int32
	m        *Map
	record   value
	callback int   // the function that it calls, or -1
	shown    value // what that gets as its context

	dynptr  uint8  // the argument that points to room for a dynptr that the helper makes, or 0
	sliceOf uint32 // the reference of the dynptr to whose memory the helper returns a pointer, or 0
	ended   uint8  // the argument that is a dynptr whose record is given back, or 0

	uninit bool  // the memory of the argument need not have been written
	writer uint8 // the argument that points to what the helper writes
	writes int   // how many bytes that are
	most   int64 // the largest size among the arguments
}

// callHelper follows the call of a helper.
func (v *verifier) callHelper(s *state, i insn, h *helper, at int) error {
	c := helperCall{nr: i.imm, helper: h, callback: -1}
	if err := v.arguments(s, &c); err != nil {
		return err
	}
	if err := v.mapKeeps(s, i.imm, c.m); err != nil {
		return err
	}
	for n := range c.writes { // byte by byte
		if err := v.access(s, access{reg: int(c.writer), off: n, size: 1, write: true, from: -1, to: -1, anything: true}); err != nil {
			return err
		}
	}
	if c.dynptr != 0 {
		if err := v.makeDynptr(s, &c, at); err != nil {
			return err
		}
	}
	caller := s.top()
	size, third := caller.regs[2], caller.regs[3] // of a record, of memory
	if c.ended != 0 {
		v.endDynptr(s, c.ended)
	}
	if c.record.ref != 0 {
		if !s.release(c.record.ref) {
			return v.refuse(syscall.EINVAL, "func %s#%d reference has not been acquired before", h.name, i.imm)
		}
	}
	if i.imm == helperTailCall {
		if err := v.allReturned(s); err != nil {
			v.log.printf("tail_call would lead to reference leak\n")
			return err
		}
	}
	if i.imm == helperDynptrFromMem && caller.regs[1].typ != regMapValue {
		return v.refuse(syscall.EACCES, "Unsupported reg type %s for bpf_dynptr_from_mem data", v.typeName(caller.regs[1].typ))
	}
	if i.imm == helperDynptrData {
		if p := caller.regs[1]; p.typ == regStack {
			c.sliceOf = s.dynptrAt(p).ref()
		}
	}
	if err := v.callBack(s, at, &c); err != nil {
		return err
	}
	for r := range numArgs + 1 {
		v.shownRegs |= 1 << r
		caller.regs[r].become(none())
		s.regs()[r].live |= liveWritten // of a function that is called back, too
	}
	if h.ret != retVoid {
		caller.regs[r0].become(v.result(s, at, &c, size, third))
	}
	return v.mapAllows(i, h, c.m)
}

// arguments checks the arguments of a call.
func (v *verifier) arguments(s *state, c *helperCall) error {
	regs := s.regs()
	for n, want := range c.args {
		if want == argNone {
			break
		}
		r := uint8(n + 1)
		if err := v.argument(s, c, r, want); err != nil {
			return err
		}
		switch want {
		case argSpinLock:
			if err := v.lockArgument(s, r, c.nr == helperSpinLock); err != nil {
				return err
			}
		case argRecord:
			c.record = regs[r]
		case argFunc:
			c.callback = int(regs[r].size)
		case argStackOrNull:
			c.shown = regs[r]
		default:
		}
	}
	return nil
}

// result returns what a helper returns.
func (v *verifier) result(s *state, at int, c *helperCall, size, third value) value {
	r := pointer(regScalar)
	switch c.ret {
	case retInteger, retVoid:
		return v.returnedNumber(c)
	case retMapValueOrNull:
		r.typ, r.m, r.id = regMapValueOrNull, c.m, v.newID()
	case retRecordOrNull:
		v.newID()
		id := v.newID()
		r.typ, r.size, r.id, r.ref = regRecordOrNull, int32(size.umax), id, id
		s.acquire(id, at)
	case retMemOrNull:
		r.typ, r.size, r.id, r.ref = regMemOrNull, int32(third.bits), v.newID(), c.sliceOf
	case retTask:
		return v.structPointer("task_struct")
	case retRegs:
		return v.structPointer("pt_regs")
	}
	return r
}

// structPointer returns a pointer to a structure of the kernel.
func (v *verifier) structPointer(name string) value {
	r := pointer(regStruct)
	if to := v.prog.sys.types.structure(name); to != nil {
		r.to = to
	}
	return r
}

// returnedNumber is do_refine_retval_range: what is known of a number that a helper returns: of some that it is an error, or no more than the size of the memory,
// and on 6.12 that it is a CPU's.
func (v *verifier) returnedNumber(c *helperCall) value {
	const maxErrno = 4095
	r := unknown()
	switch c.nr {
	case helperGetStack, helperTaskStack, helperReadString, helperReadUserString, helperReadKernelString:
		r.smin, r.smax = -maxErrno, c.most
		r.low.smin, r.low.smax = -maxErrno, int32(c.most)
		v.sync(&r)
	case helperProcessorID:
		if v.v612 {
			last := uint64(v.prog.sys.conf.CPUs - 1)
			r.span64, r.low = span64{0, last, 0, int64(last)}, span32{0, uint32(last), 0, int32(last)}
			v.sync(&r)
		}
	}
	return r
}

// callBack follows the function that a helper calls.
func (v *verifier) callBack(s *state, at int, c *helperCall) error {
	switch {
	case c.callback < 0:
		return nil
	case c.nr == helperSetCallback:
		v.async(s, c.callback, c.m)
		return nil
	}
	if c.nr == helperLoop {
		if err := v.inlined(s, at, c.callback); err != nil {
			return err
		}
		if v.v612 {
			if on, err := v.loopsOn(s); err != nil || !on {
				return err
			}
		}
	}
	typed := func(t regType) value {
		p := pointer(t)
		p.m = c.m
		return p
	}
	args := []value{unknown(), c.shown}
	switch c.nr {
	case helperRingDrain:
		args[0] = pointer(regDynptr)
	case helperFindVMA:
		args = []value{s.regs()[1], v.structPointer("vm_area_struct"), c.shown}
	case helperForEachElem:
		args = []value{s.regs()[1], typed(regKey), typed(regMapValue), c.shown}
	}
	if v.v612 {
		return v.pushCallback(s, at, c.callback, args)
	}
	return v.enter(s, at, c.callback, args)
}

// loopCall is what a call of bpf_loop has as a function, and whether Linux may put the loop in its place: it calls the same function
// without flags each time.
type loopCall struct {
	callback int
	fits     bool
}

// inlined is update_loop_inline_state. As long as a call of bpf_loop may be replaced, its flags have to be 0 precisely.
func (v *verifier) inlined(s *state, at, callback int) error {
	l, known := v.loops[at]
	if !known {
		l = &loopCall{callback: callback, fits: true}
		if v.loops == nil {
			v.loops = map[int]*loopCall{}
		}
		v.loops[at] = l
	}
	if !l.fits {
		return nil
	}
	null := s.regs()[4].isNull()
	l.fits = null && l.callback == callback
	if !null {
		return nil
	}
	return v.precisely(s, 4)
}

// enter begins a function of the program; args are its arguments if a helper calls it, or nil for the call's.
func (v *verifier) enter(s *state, site, to int, args []value) error {
	if len(s.frames) == maxFrames {
		return v.refuse(syscall.E2BIG, "the call stack of %d frames is too deep", maxFrames+1)
	}
	n := v.function(to)
	matches := v.compareTypes(s, n)
	if v.global(n) {
		return v.skip(s, n, matches)
	}
	f := newFunction(len(s.frames), site, to)
	f.callback = args != nil
	caller := s.top()
	if args == nil {
		args = caller.regs[1:6]
	}
	copy(f.regs[1:], args) // they stay the registers that they were for the marks of what is read
	for r := range numArgs + 1 {
		caller.regs[r].become(none())
		caller.regs[r].live |= liveWritten
	}
	f.async, f.refs = caller.async, slices.Clone(caller.refs)
	s.frames = append(s.frames, f)
	s.pc = to
	v.showAll()
	if v.log.verbose() {
		v.log.printf("caller:\n%s\n", v.text(caller, len(s.frames)-2, true))
		v.log.printf("callee:\n%s\n", v.text(f, len(s.frames)-1, true))
	}
	return nil
}

// release gives a record back: nothing refers to it any more. It returns false as drop does.
func (s *state) release(ref uint32) bool {
	if !s.drop(ref) {
		return false
	}
	s.each(func(v *value) {
		if v.ref == ref {
			v.forget()
		}
	})
	return true
}

// sized is check_mem_size_reg: the register before it points to so many bytes.
func (v *verifier) sized(s *state, c *helperCall, r uint8, want argType) error {
	n := s.regs()[r]
	if n.typ != regScalar {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=scalar", r, v.typeName(n.typ))
	}
	c.most = int64(n.umax)
	c.uninit = c.args[r-2] == argUninitMem && n.isConst()
	if n.smin < 0 {
		return v.refuse(syscall.EACCES, "R%d min value is negative, either use unsigned or 'var &= const'", r)
	}
	if v.v612 && n.umin == 0 && want == argSize {
		return v.refuse(syscall.EACCES, "R%d invalid zero-sized read: u64=[%d,%d]", r, int64(n.umin), int64(n.umax))
	}
	if n.umin == 0 && !v.v612 {
		if err := v.sizedMemory(s, c, r, 0, want); err != nil {
			return err
		}
	}
	if n.umax >= 1<<29 {
		return v.refuse(syscall.EACCES, "R%d unbounded memory access, use 'var &= const' or 'if (var < const)'", r)
	}
	if err := v.sizedMemory(s, c, r, int(n.umax), want); err != nil {
		return err
	}
	return v.precisely(s, int(r))
}

// sizedMemory checks that the register before r points to size bytes.
func (v *verifier) sizedMemory(s *state, c *helperCall, r uint8, size int, want argType) error {
	if s.regs()[r-1].isNull() {
		switch {
		case size == 0 && want == argSize:
			return v.refuse(syscall.EACCES, "invalid zero-sized read")
		case size > 0 && c.args[r-2] != argMemOrNull:
			return v.refuse(syscall.EACCES, "R%d type=scalar expected=%s", r-1, v.memTypes())
		}
		return nil
	}
	return v.memory(s, c, r-1, size, want)
}

// memory is check_helper_mem_access: size bytes that a helper reads, or writes.
func (v *verifier) memory(s *state, c *helperCall, r uint8, size int, want argType) error {
	p := s.regs()[r]
	if !p.isMemory() {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), v.memTypes())
	}
	if size == 0 && want != argSizeOrZero {
		if p.typ != regMapValue || !p.m.hasValues() || !p.isConst() {
			return v.refuse(syscall.EACCES, "invalid zero-sized read")
		}
		return v.outside(int(r), fmt.Sprintf("invalid access to map value, value_size=%d", p.m.value), int64(p.off)+int64(p.bits), 0, "")
	}
	a := access{reg: int(r), size: size, from: -1, to: -1}
	switch {
	case p.typ == regMapValue && p.m.hasValues():
		return v.mapRange(p, a.reg, 0, size, c.uninit, true)
	case p.typ != regStack:
		return v.access(s, a)
	}
	lo, hi, err := v.stackRange(p, a, "indirect access to", "indirect access to")
	if err != nil {
		return err
	}
	f := s.frames[p.frame]
	v.deepen(f, lo)
	if c.uninit && p.isConst() {
		c.writer, c.writes = r, size
		return nil
	}
	return v.usedStack(f, p, lo, hi+size, a, true)
}

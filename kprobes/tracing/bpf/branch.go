package bpf

import (
	"fmt"
	"math"
	"syscall"
)

// branch follows a conditional jump: one way now, the other one later.
func (v *verifier) branch(s *state, i insn) error {
	regs := s.regs()
	if err := v.readable(s, i.dst); err != nil {
		return err
	}
	other := constant(uint64(int64(i.imm)))
	if i.fromRegister() {
		if i.imm != 0 {
			return v.refuse(syscall.EINVAL, "BPF_JMP/JMP32 uses reserved fields")
		}
		if err := v.readable(s, i.src); err != nil {
			return err
		}
		other = regs[i.src]
	} else if i.src != 0 {
		return v.refuse(syscall.EINVAL, "BPF_JMP/JMP32 uses reserved fields")
	}
	if v.v612 {
		v.comparesStack(s, i)
	}
	target := s.pc + int(i.off)
	if known := v.decided(i, &regs[i.dst], &other); known >= 0 {
		if err := v.decide(s, i); err != nil {
			return err
		}
		if v.log.verbose() {
			v.logState(s)
		}
		if known == 1 {
			s.pc = target
		}
		return nil
	}
	var links []link
	if v.v612 {
		links = v.links(s, i)
	}
	then, err := v.later(s, target)
	if err != nil {
		return err
	}
	if v.v612 {
		v.learn(i, then, s, links)
	} else {
		learn(i, then, s)
	}
	if d := regs[i.dst]; d.typ.mayBeNull() && !i.fromRegister() && i.imm == 0 && (i.op() == jmpJEQ || i.op() == jmpJNE) && i.class() == classJMP {
		s.isNull(d, i.op() == jmpJNE)
		then.isNull(d, i.op() == jmpJEQ)
	}
	if v.log.verbose() {
		v.logState(s)
	}
	return nil
}

// decided returns 1 if a jump is always followed, 0 if it never is, and -1 otherwise.
func (v *verifier) decided(i insn, d, other *value) int {
	narrow := i.class() == classJMP32
	if v.v612 {
		return decided612(i.op(), d, other, narrow)
	}
	switch {
	case other.typ != regScalar || !other.isConst() && !(narrow && other.lower().isConst()):
		return -1
	case d.typ == regScalar:
		return d.taken(i.op(), other.bits, narrow)
	case d.typ != regMapValue && d.typ != regKey || other.bits != 0: // of other pointers Linux does not see that they are not NULL
		return -1
	case i.op() == jmpJEQ:
		return 0
	case i.op() == jmpJNE:
		return 1
	}
	return -1
}

// decide has the numbers be precise on which the way of a jump depends.
func (v *verifier) decide(s *state, i insn) error {
	if err := v.precisely(s, int(i.dst)); err != nil || !i.fromRegister() {
		return err
	}
	return v.precisely(s, int(i.src))
}

// learn writes what a comparison shows into the registers of the two ways.
func learn(i insn, then, s *state) {
	yes, no := then.regs(), s.regs()
	dst, src := &no[i.dst], &no[i.src]
	narrow := i.class() == classJMP32
	fixed := func(v *value) bool { return v.isConst() || narrow && v.lower().isConst() }
	if dst.typ != regScalar || i.fromRegister() && src.typ != regScalar {
		return
	}
	switch {
	case !i.fromRegister():
		compared(&yes[i.dst], dst, i.op(), uint64(int64(i.imm)), narrow)
	case fixed(src):
		compared(&yes[i.dst], dst, i.op(), src.bits, narrow)
	case fixed(dst):
		compared(&yes[i.src], src, swapped[i.op()], dst.bits, narrow)
	case !narrow && i.op() == jmpJEQ:
		combine(&yes[i.src], &yes[i.dst])
	case !narrow && i.op() == jmpJNE:
		combine(src, dst)
	}
	if i.fromRegister() && src.id != 0 {
		s.equals(src)
		then.equals(&yes[i.src])
	}
	if dst.id != 0 {
		s.equals(dst)
		then.equals(&yes[i.dst])
	}
}

// exit follows the end of a function.
func (v *verifier) exit(s *state, at int) (done bool, err error) {
	i := v.prog.insns[at]
	if i.imm != 0 || i.src != 0 || i.dst != 0 || i.off != 0 {
		return false, v.refuse(syscall.EINVAL, "BPF_EXIT uses reserved fields")
	}
	if s.lock != 0 {
		return false, v.refuse(syscall.EINVAL, "bpf_spin_unlock is missing")
	}
	if err := v.allReturned(s); err != nil {
		return false, err
	}
	if len(s.frames) > 1 {
		return false, v.leave(s)
	}
	if err := v.readable(s, r0); err != nil {
		return false, err
	}
	ret := s.regs()[r0]
	if s.top().async == 0 && v.function(s.top().entry) > 0 {
		if ret.typ != regScalar {
			return false, v.refuse(syscall.EINVAL, "At subprogram exit the register R0 is not a scalar value (%s)", v.typeName(ret.typ))
		}
		return true, nil
	}
	if s.top().async > 0 {
		if ret.typ != regScalar {
			return false, v.refuse(syscall.EINVAL, "In async callback the register R0 is not a known value (%s)", v.typeName(ret.typ))
		}
		return true, v.inRange(ret, "async callback", 0)
	}
	return true, v.returned(ret)
}

// allReturned is check_reference_leak.
func (v *verifier) allReturned(s *state) error {
	leaks := s.leaks()
	for _, r := range leaks {
		v.log.printf("Unreleased reference id=%d alloc_insn=%d\n", r.id, r.insn)
	}
	if len(leaks) > 0 {
		return fmt.Errorf("a record is not given back: %w", syscall.EINVAL)
	}
	return nil
}

// leave follows the return from a function to another one.
func (v *verifier) leave(s *state) error {
	f := s.top()
	ret := &f.regs[r0]
	if ret.typ == regStack {
		return v.refuse(syscall.EINVAL, "cannot return stack pointer to the caller")
	}
	if f.callback {
		if err := v.callbackReturned(s); err != nil {
			return err
		}
	}
	back := f.site + 1
	if v.v612 && f.callback {
		back = f.site
	}
	if v.log.verbose() {
		v.log.printf("returning from callee:\n%s\n", v.text(f, len(s.frames)-1, true))
	}
	s.frames = s.frames[:len(s.frames)-1]
	if !f.callback {
		s.regs()[r0] = *ret
		s.top().refs = f.refs
	}
	s.pc = back
	if v.log.verbose() {
		v.log.printf("to caller at %d:\n%s\n", s.pc, v.text(s.top(), len(s.frames)-1, true))
	}
	v.arrived = true
	if v.v612 && f.callback {
		v.widen(s)
	}
	return nil
}

// returned is check_return_code: programs at entries and returns of functions return 0, iterators 0 or 1.
func (v *verifier) returned(r value) error {
	if v.prog.kind != ProgTracing || v.prog.attachType == traceRawTP || v.prog.attachType == modifyReturn {
		return nil
	}
	mask := uint64(0)
	if v.prog.attachType == traceIter {
		mask = iterRetry
	}
	if r.typ != regScalar {
		return v.refuse(syscall.EINVAL, "At program exit the register R0 is not a known value (%s)", v.typeName(r.typ))
	}
	return v.inRange(r, "program exit", mask)
}

// callbackReturned checks what a function returns to the helper that has called it: 0, or 1 if that may end a loop.
func (v *verifier) callbackReturned(s *state) error {
	ret := &s.regs()[r0]
	if ret.typ != regScalar {
		return v.refuse(syscall.EACCES, "R0 not a scalar value")
	}
	v.read(ret, ret.parent, liveRead64)
	if err := v.precisely(s, r0); err != nil {
		return err
	}
	return v.inRange(*ret, "callback return", 1)
}

// inRange checks that no bit of a number can be set but a mask's: verbose_invalid_scalar.
func (v *verifier) inRange(r value, where string, mask uint64) error {
	if (r.bits|r.mask)&^mask == 0 {
		return nil
	}
	if v.v612 {
		return v.refuse(syscall.EINVAL, "At %s the register R0 has%s should have been in [0, %d]", where, r.signedBounds(), mask)
	}
	is := "unknown scalar value"
	if r.mask != ^uint64(0) {
		is = fmt.Sprintf("value (0x%x; 0x%x)", r.bits, r.mask)
	}
	return v.refuse(syscall.EINVAL, "At %s the register R0 has %s should have been in (0x0; 0x%x)", where, is, mask)
}

// signedBounds returns between which signed numbers a number is, as 6.12 says it.
func (v *value) signedBounds() string {
	text := ""
	if v.smin > math.MinInt64 {
		text += fmt.Sprintf(" smin=%d", v.smin)
	}
	if v.smax < math.MaxInt64 {
		text += fmt.Sprintf(" smax=%d", v.smax)
	}
	if text == "" {
		return " unknown scalar value"
	}
	return text
}

// callable checks a function that helpers call: types say that it is static.
func (v *verifier) callable(at int) error {
	p := v.prog
	if p.funcs.size == 0 {
		return v.refuse(syscall.EINVAL, "missing btf func_info")
	}
	f := p.btf.types.funcOf(p.funcs.word(v.function(at), 4))
	if f == nil || f.vlen != funcStatic {
		return v.refuse(syscall.EINVAL, "callback function not static")
	}
	return nil
}

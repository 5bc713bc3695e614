package bpf

import (
	"math"
	"syscall"
)

// follow follows a path until it ends, or joins one that was followed already.
func (v *verifier) follow(s *state) error {
	v.prev = s.from
	for {
		v.at = s.pc
		if v.processed++; v.processed > maxInsns {
			return v.refuse(syscall.E2BIG, "BPF program is too large. Processed %d insn", v.processed)
		}
		s.last = v.prev
		if v.points[s.pc] {
			known, err := v.visited(s)
			if err != nil {
				return err
			}
			if known {
				v.logJoined(s)
				break
			}
		}
		v.noted = false
		if v.targets[s.pc] && (v.v612 || s.parent == nil || v.keptInsns != v.processed) { // not where a state was kept just now
			s.jumps = append(s.jumps, jump{to: s.pc, from: v.prev})
			v.noted = true
		}
		v.followed[s.pc] = true
		v.logInsn(s)
		v.before, v.prev = v.prev, s.pc
		i := v.prog.insns[s.pc]
		if c := i.class(); c == classJMP || c == classJMP32 {
			v.jumps++
		}
		done, err := v.step(s, i)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	v.showAll()
	s.ended()
	return nil
}

// logJoined says that a path need not be followed any more.
func (v *verifier) logJoined(s *state) {
	switch {
	case !v.log.verbose():
	case v.arrived:
		v.log.printf("\nfrom %d to %d: safe\n", v.prev, s.pc)
	default:
		v.log.printf("%d: safe\n", s.pc)
	}
}

// maxTodo is BPF_COMPLEXITY_LIMIT_JMP_SEQ: how many paths may wait to be followed.
const maxTodo = 8192

// later has the way from s to an instruction be followed later, and returns what is known there.
func (v *verifier) later(s *state, to int) (*state, error) {
	other := s.clone()
	other.pc, other.from, other.log = to, v.at, len(v.log.text)
	if other.parent != nil {
		other.parent.branches++
	}
	v.todo = append(v.todo, other)
	if len(v.todo) > maxTodo {
		return nil, v.refuse(syscall.EFAULT, "The sequence of %d jumps is too complex.", len(v.todo))
	}
	return other, nil
}

// step follows one instruction. It reports whether the path has ended.
func (v *verifier) step(s *state, i insn) (done bool, err error) {
	at := s.pc
	s.pc++
	switch i.class() {
	case classALU, classALU64:
		return false, v.alu(s, i)
	case classLD:
		return false, v.loadWide(s, i, at)
	case classLDX:
		if err := v.readable(s, i.src); err != nil {
			return false, err
		}
		if err := v.writes(s, i.dst); err != nil {
			return false, err
		}
		return false, v.access(s, access{reg: int(i.src), off: int(i.off), size: i.size(), to: int(i.dst), from: -1, signed: i.mode() == modeMEMSX})
	case classST, classSTX:
		return false, v.storeInsn(s, i)
	}
	switch i.op() {
	case jmpCALL:
		return false, v.call(s, i, at)
	case jmpEXIT:
		return v.exit(s, at)
	case jmpJA:
		if i.src != 0 || i.dst != 0 || i.imm != 0 && i.code != longJump || i.off != 0 && i.code == longJump {
			return false, v.refuse(syscall.EINVAL, "BPF_JA uses reserved fields")
		}
		s.pc += i.distance()
		return false, nil
	}
	return false, v.branch(s, i)
}

// loadWide follows a load of 64 bits that the program has: a number, a map, or a function.
func (v *verifier) loadWide(s *state, i insn, at int) error {
	if !i.wideLoad() {
		return v.refuse(syscall.EINVAL, "BPF_LD_[ABS|IND] instructions not allowed for this program type")
	}
	if i.off != 0 {
		return v.refuse(syscall.EINVAL, "BPF_LD_IMM64 uses reserved fields")
	}
	if err := v.writes(s, i.dst); err != nil {
		return err
	}
	s.pc++
	to := unknown()
	switch i.src {
	case 0:
		to = constant(v.prog.wide[at])
	case pseudoFunc:
		if err := v.callable(at + 1 + int(i.imm)); err != nil {
			return err
		}
		to = pointer(regFunc)
		to.size = i.imm + int32(at) + 1
	case pseudoMapFD, pseudoMapIdx:
		to = pointer(regMap)
		to.m = v.mapOf(v.prog.wide[at])
	default:
		to = pointer(regMapValue)
		to.m = v.mapOf(objBase + (v.prog.wide[at]-mapBase)>>mapShift<<objShift)
		to.off = int32(v.prog.wide[at] - to.m.address(0))
		if to.m.lock.has() {
			to.id = v.newID()
		}
	}
	s.regs()[i.dst].become(to)
	return nil
}

// readable follows that an instruction reads a register: check_reg_arg.
func (v *verifier) readable(s *state, r uint8) error {
	if r >= maxReg {
		return v.refuse(syscall.EINVAL, "R%d is invalid", r)
	}
	v.shownRegs |= 1 << r
	reg := &s.regs()[r]
	if reg.typ == regNone {
		return v.refuse(syscall.EACCES, "R%d !read_ok", r)
	}
	if r != r10 {
		v.read(reg, reg.parent, v.prog.insns[v.at].reads(reg))
	}
	return nil
}

// writes follows that it writes one.
func (v *verifier) writes(s *state, r uint8) error {
	if r >= maxReg {
		return v.refuse(syscall.EINVAL, "R%d is invalid", r)
	}
	v.shownRegs |= 1 << r
	if r == r10 {
		return v.refuse(syscall.EACCES, "frame pointer is read only")
	}
	s.regs()[r].live |= liveWritten
	return nil
}

// alu follows an arithmetic instruction.
func (v *verifier) alu(s *state, i insn) error {
	if i.op() == aluEND || i.op() == aluNEG { // 6.12's swap, too
		return v.unary(s, i)
	}
	regs := s.regs()
	op, narrow := i.op(), i.class() == classALU
	name := "ALU"
	if op == aluMOV {
		name = "MOV"
	}
	switch {
	case v.v612 && i.code == classALU64|aluMOV|srcX && i.off == 1: // BPF_ADDR_SPACE_CAST
		if i.imm != 1 && i.imm != 1<<16 {
			return v.refuse(syscall.EINVAL, "addr_space_cast insn can only convert between address space 1 and 0")
		}
		return v.refuse(syscall.EINVAL, "addr_space_cast insn can only be used in a program that has an associated arena")
	case !v.offsetFits(i):
		return v.refuse(syscall.EINVAL, "BPF_%s uses reserved fields", name)
	case i.fromRegister():
		if i.imm != 0 {
			return v.refuse(syscall.EINVAL, "BPF_%s uses reserved fields", name)
		}
		if err := v.readable(s, i.src); err != nil {
			return err
		}
	case i.src != 0:
		return v.refuse(syscall.EINVAL, "BPF_%s uses reserved fields", name)
	}
	if op != aluMOV {
		if err := v.readable(s, i.dst); err != nil {
			return err
		}
	}
	if !i.fromRegister() {
		switch {
		case (op == aluDIV || op == aluMOD) && i.imm == 0:
			return v.refuse(syscall.EINVAL, "div by zero")
		case (op == aluLSH || op == aluRSH || op == aluARSH) && (i.imm < 0 || i.imm >= 64 || narrow && i.imm >= 32):
			return v.refuse(syscall.EINVAL, "invalid shift %d", i.imm)
		}
	}
	if err := v.writes(s, i.dst); err != nil {
		return err
	}
	dst := &regs[i.dst]
	if op == aluMOV {
		v.move(s, i)
		return nil
	}
	src := constant(uint64(int64(i.imm)))
	if i.fromRegister() {
		src = regs[i.src]
	}
	switch {
	case dst.typ == regScalar && src.typ == regScalar:
		if i.fromRegister() && dst.precise {
			if err := v.precisely(s, int(i.src)); err != nil {
				return err
			}
		}
		return v.calculate(s, i, dst, src)
	case dst.typ != regScalar && src.typ != regScalar:
		if op == aluSUB {
			dst.forget()
			return nil
		}
		return v.refuse(syscall.EACCES, "R%d pointer %s pointer prohibited", i.dst, aluNames[op>>4])
	case dst.typ == regScalar:
		if err := v.precisely(s, int(i.dst)); err != nil {
			return err
		}
		return v.pointerMath(s, i, src, *dst)
	case i.fromRegister():
		if err := v.precisely(s, int(i.src)); err != nil {
			return err
		}
	}
	return v.pointerMath(s, i, *dst, src)
}

// calculate follows an operation of two numbers.
func (v *verifier) calculate(s *state, i insn, dst *value, src value) error {
	op, narrow := i.op(), i.class() == classALU
	if !v.v612 {
		dst.id = 0
		dst.arithmetic(op, src, narrow)
		return nil
	}
	if (op == aluAND || op == aluOR) && src.isConst() {
		if err := v.bothMasks(s, i, dst); err != nil {
			return err
		}
	}
	dst.calculate(op, src, narrow)
	switch {
	case op != aluADD || narrow || dst.id == 0 || !src.isConst() || i.fromRegister() && i.src == i.dst,
		dst.plus, src.bits > math.MaxInt32: // one number can be added once
		dst.unlink()
	default:
		dst.plus, dst.off = true, int32(src.bits)
	}
	return nil
}

// bothMasks is maybe_fork_scalars: a number that is -1 or 0 is one on the path that is followed now, and the other on one that is
// followed later.
func (v *verifier) bothMasks(s *state, i insn, dst *value) error {
	narrow := dst.smin != -1 || dst.smax != 0
	if narrow && (dst.low.smin != -1 || dst.low.smax != 0) {
		return nil
	}
	other, err := v.later(s, s.pc-1)
	if err != nil {
		return err
	}
	if narrow {
		other.regs()[i.dst].knowLow(0)
		dst.knowLow(math.MaxUint32)
	} else {
		other.regs()[i.dst].know(0)
		dst.know(math.MaxUint64)
	}
	return nil
}

// offsetFits reports whether an arithmetic instruction may have its off, which 6.12 gives a meaning.
func (v *verifier) offsetFits(i insn) bool {
	switch {
	case i.off == 0:
		return true
	case !v.v612:
		return false
	case i.op() == aluMOV:
		return i.fromRegister() && (i.off == 8 || i.off == 16 || i.off == 32 && i.class() == classALU64)
	}
	return i.signed()
}

// unary follows the negation of a register, or a change of the order of its bytes.
func (v *verifier) unary(s *state, i insn) error {
	switch {
	case i.op() == aluNEG && (i.src != 0 || i.off != 0 || i.imm != 0):
		return v.refuse(syscall.EINVAL, "BPF_NEG uses reserved fields")
	case i.op() == aluEND && (i.src != 0 || i.off != 0 || i.imm != 16 && i.imm != 32 && i.imm != 64):
		return v.refuse(syscall.EINVAL, "BPF_END uses reserved fields")
	}
	if err := v.readable(s, i.dst); err != nil {
		return err
	}
	if err := v.writes(s, i.dst); err != nil {
		return err
	}
	s.regs()[i.dst].forget()
	return nil
}

// move follows an assignment. Scalars that are the same number have an id.
func (v *verifier) move(s *state, i insn) {
	regs := s.regs()
	dst, src := &regs[i.dst], &regs[i.src]
	switch narrow := i.class() == classALU; {
	case i.extends() != 0:
		v.moveSigned(dst, src, i.extends(), narrow)
	case !i.fromRegister() && narrow:
		dst.become(constant(uint64(uint32(i.imm))))
	case !i.fromRegister():
		dst.become(constant(uint64(int64(i.imm))))
	case !narrow:
		v.number(src)
		dst.become(*src)
	case src.typ != regScalar: // a part of a pointer
		dst.forget()
		dst.zeroExtend()
		v.sync(dst)
	default:
		short := v.v612 && src.umax <= math.MaxUint32
		if short {
			v.number(src)
		}
		dst.become(*src)
		if !short {
			dst.unlink()
		}
		dst.zeroExtend()
		v.sync(dst)
	}
}

// moveSigned follows a move of the lower bits of a register, whose sign the others become. Only if that changes nothing are the two
// the same number.
func (v *verifier) moveSigned(dst, src *value, bits int, narrow bool) {
	if src.typ != regScalar { // a part of a pointer
		dst.forget()
	} else {
		same := src.umax < 1<<(bits-1)
		if same {
			v.number(src)
		}
		dst.become(*src)
		if !same {
			dst.unlink()
		}
		if narrow {
			dst.extendLow(bits)
		} else {
			dst.extend(bits)
		}
	}
	if narrow {
		dst.zeroExtend()
		v.sync(dst)
	}
}

// number gives a number that is about to be copied an id: assign_scalar_id_before_mov. 6.12 gives none to a constant, and another one
// to what is more than the others with the same.
func (v *verifier) number(n *value) {
	if n.typ != regScalar {
		return
	}
	if n.plus {
		n.unlink()
	}
	if n.id == 0 && !(v.v612 && n.isConst()) {
		n.id = v.newID()
	}
}

// pointerMath is adjust_ptr_min_max_vals: p is the pointer, and n the number.
func (v *verifier) pointerMath(s *state, i insn, p, n value) error {
	op := i.op()
	dst := &s.regs()[i.dst]
	swap := dst.typ == regScalar
	if n.span64.impossible(n.isConst()) { // what follows a comparison that never holds
		dst.forget()
		return nil
	}
	switch {
	case i.class() == classALU && op == aluSUB:
		dst.forget()
		return nil
	case i.class() == classALU:
		return v.refuse(syscall.EACCES, "R%d 32-bit pointer arithmetic prohibited", i.dst)
	case p.typ.mayBeNull():
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic on %s prohibited, null-check it first", i.dst, v.typeName(p.typ))
	case (p.typ == regMap || p.typ == regFunc) && !(n.isConst() && n.bits == 0 && op == aluADD):
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic on %s prohibited", i.dst, v.typeName(p.typ))
	}
	for _, part := range []value{n, p} {
		if err := v.sane(p, part); err != nil {
			return err
		}
	}
	switch {
	case op == aluSUB && swap:
		return v.refuse(syscall.EACCES, "R%d tried to subtract pointer from scalar", i.dst)
	case op == aluSUB && p.typ == regStack:
		return v.refuse(syscall.EACCES, "R%d subtraction from stack pointer prohibited", i.dst)
	case op == aluAND || op == aluOR || op == aluXOR:
		return v.refuse(syscall.EACCES, "R%d bitwise operator %s on pointer prohibited", i.dst, aluNames[op>>4])
	case op != aluADD && op != aluSUB:
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic with %s operator prohibited", i.dst, aluNames[op>>4])
	}
	r := p
	by := int64(n.bits)
	if op == aluSUB {
		by = -by
	}
	switch at := int64(p.off) + by; {
	case n.isConst() && at == int64(int32(at)):
		r.off = int32(at)
	case op == aluADD:
		r.span64, r.tnum = p.span64.plus(n.span64), p.tnum.plus(n.tnum)
	default:
		r.span64, r.tnum = p.span64.minus(n.span64), p.tnum.minus(n.tnum)
	}
	r.low = wholly[uint32, int32]()
	if err := v.sane(r, r); err != nil {
		return err
	}
	v.sync(&r)
	*dst = r // also what is said of the pointer being read or written, if a pointer was added to a number
	return nil
}

// sane is check_reg_sane_offset: neither a pointer nor what is added to it goes too far.
func (v *verifier) sane(p, part value) error {
	const most = 1 << 29 // BPF_MAX_VAR_OFF
	name := v.typeName(p.typ)
	switch {
	case part.isConst() && (int64(part.bits) >= most || int64(part.bits) <= -most):
		return v.refuse(syscall.EINVAL, "math between %s pointer and %d is not allowed", name, int64(part.bits))
	case part.off >= most || part.off <= -most:
		return v.refuse(syscall.EINVAL, "%s pointer offset %d is not allowed", name, part.off)
	case part.smin == -1<<63:
		return v.refuse(syscall.EINVAL, "math between %s pointer and register with unbounded min value is not allowed", name)
	case part.smin >= most || part.smin <= -most:
		return v.refuse(syscall.EINVAL, "value %d makes %s pointer be out of bounds", part.smin, name)
	}
	return nil
}

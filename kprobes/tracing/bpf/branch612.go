package bpf

// Jumps as 6.12 follows them.

// decided612 is is_branch_taken: two numbers can be compared by what is known of them, and a pointer that is not NULL with 0.
func decided612(op uint8, d, other *value, narrow bool) int {
	if d.typ == regScalar && other.typ == regScalar {
		return holds(op, d, other, narrow)
	}
	if narrow {
		return -1
	}
	if !other.fixed(false) {
		d, other = other, d
	}
	switch {
	case !other.fixed(false) || other.bits != 0 || !d.notNull():
		return -1
	case op == jmpJEQ:
		return 0
	case op == jmpJNE:
		return 1
	}
	return -1
}

// notNull is reg_not_null: whether a pointer is known not to be NULL.
func (v *value) notNull() bool {
	const most = 1 << 29 // BPF_MAX_VAR_OFF
	switch v.typ {
	case regMapValue, regKey, regMem, regRecord, regMap:
		return v.smin > -most && v.smax < most
	default:
		return false
	}
}

// maxLinks is LINKED_REGS_MAX: of how many numbers it is known that they are the same.
const maxLinks = 6

// links is collect_linked_regs: it returns which registers and slots have the numbers that are compared, and notes them.
func (v *verifier) links(s *state, i insn) (all []link) {
	regs := s.regs()
	collect := func(n *value) {
		if n.typ != regScalar || n.id == 0 {
			return
		}
		id := n.id
		for frame := len(s.frames) - 1; frame >= 0; frame-- {
			f := s.frames[frame]
			take := func(v *value, l link) {
				switch {
				case v.typ != regScalar || v.id != id:
				case len(all) < maxLinks:
					all = append(all, l)
				default:
					v.unlink()
				}
			}
			for r := range r10 {
				take(&f.regs[r], link{frame, r, false})
			}
			for n := range f.stack {
				if f.stack[n].spilled() {
					take(&f.stack[n].value, link{frame, n, true})
				}
			}
		}
	}
	if i.fromRegister() {
		collect(&regs[i.src])
	}
	collect(&regs[i.dst])
	if len(all) > 1 {
		v.note(s).links = all
	}
	return all
}

// linked returns the register or slot that a link is to.
func (s *state) linked(l link) *value {
	if l.slot {
		return &s.frames[l.frame].stack[l.n].value
	}
	return &s.frames[l.frame].regs[l.n]
}

// spread is sync_linked_regs: what is known of a number is known of those that are the same, or the same but for a constant.
func (s *state) spread(known *value, links []link) {
	if known.typ != regScalar || known.id == 0 {
		return
	}
	for _, l := range links {
		reg := s.linked(l)
		if reg.typ != regScalar || reg == known || reg.id != known.id {
			continue
		}
		if !reg.plus && !known.plus || reg.off == known.off {
			reg.become(*known)
			continue
		}
		off, plus := reg.off, reg.plus
		by := constant(uint64(int64(off) - int64(known.off)))
		reg.become(*known)
		reg.off, reg.plus = off, plus
		reg.combine(aluADD, &by)
	}
}

// learn writes what a comparison shows into the registers of the two ways: reg_set_min_max.
func (v *verifier) learn(i insn, then, s *state, links []link) {
	yes, no := then.regs(), s.regs()
	narrow := i.class() == classJMP32
	imm := [2]value{constant(uint64(int64(i.imm))), constant(uint64(int64(i.imm)))}
	yesSrc, noSrc := &imm[0], &imm[1]
	if i.fromRegister() {
		yesSrc, noSrc = &yes[i.src], &no[i.src]
	}
	yesDst, noDst := &yes[i.dst], &no[i.dst]
	switch {
	case noDst.typ == regScalar && noSrc.typ == regScalar:
		refine(inverse[i.op()], noDst, noSrc, narrow)
		noDst.syncAll()
		noSrc.syncAll()
		refine(i.op(), yesDst, yesSrc, narrow)
		yesDst.syncAll()
		yesSrc.syncAll()
		v.sound(yesDst, "true_reg1")
		v.sound(yesSrc, "true_reg2")
		v.sound(noDst, "false_reg1")
		v.sound(noSrc, "false_reg2")
	case i.fromRegister() && !narrow && noDst.typ != regScalar && noSrc.typ != regScalar && noDst.to == nil && noSrc.to == nil:
		if i.op() == jmpJEQ {
			bothNotNull(yesDst, yesSrc)
		} else if i.op() == jmpJNE {
			bothNotNull(noDst, noSrc)
		}
	}
	if i.fromRegister() {
		s.spread(noSrc, links)
		then.spread(yesSrc, links)
	}
	s.spread(noDst, links)
	then.spread(yesDst, links)
}

// bothNotNull says that a pointer that is the same as one that is not NULL is not either.
func bothNotNull(a, b *value) {
	aIs, bIs := a.notNull(), b.notNull()
	if aIs && b.typ.mayBeNull() {
		b.typ--
	}
	if bIs && a.typ.mayBeNull() {
		a.typ--
	}
}

// note is push_insn_history: it returns what is noted of the instruction that is followed.
func (v *verifier) note(s *state) *jump {
	if !v.noted {
		s.jumps = append(s.jumps, jump{to: v.at, from: v.before})
		v.noted = true
	}
	return &s.jumps[len(s.jumps)-1]
}

// comparesStack notes that a jump compares a pointer to a stack, which has no precision.
func (v *verifier) comparesStack(s *state, i insn) {
	dst, src := s.regs()[i.dst].typ == regStack, i.fromRegister() && s.regs()[i.src].typ == regStack
	if dst || src {
		j := v.note(s)
		j.toFP, j.fromFP = j.toFP || dst, j.fromFP || src
	}
}

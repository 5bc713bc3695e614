package bpf

import (
	"fmt"
	"syscall"
)

// access is a load or a store of an instruction, or of a helper.
type access struct {
	reg       int // has the address
	off, size int
	write     bool
	from, to  int   // the register that is stored, or gets what is loaded, or -1
	imm       int32 // a number that is stored
	anything  bool  // what is stored is not known
	signed    bool  // the sign of what is loaded is extended
}

// stored returns the register that is stored, or nil.
func (a *access) stored(s *state) *value {
	if a.from < 0 {
		return nil
	}
	return &s.regs()[a.from]
}

// zero reports whether zeros are stored.
func (a *access) zero(s *state) bool {
	if reg := a.stored(s); reg != nil {
		return reg.isNull()
	}
	return !a.anything && a.imm == 0
}

// storeInsn follows a store.
func (v *verifier) storeInsn(s *state, i insn) error {
	if i.class() == classSTX && i.mode() == modeMEM && i.imm != 0 {
		return v.refuse(syscall.EINVAL, "BPF_STX uses reserved fields")
	}
	if i.class() == classSTX {
		if err := v.readable(s, i.src); err != nil {
			return err
		}
	}
	if err := v.readable(s, i.dst); err != nil {
		return err
	}
	if i.class() == classST && i.src != 0 {
		return v.refuse(syscall.EINVAL, "BPF_ST uses reserved fields")
	}
	p := s.regs()[i.dst]
	if p.typ == regCtx && (v.prog.kind != ProgSyscall || i.class() == classST && !v.v612 || i.mode() == modeAtomic) {
		switch {
		case i.class() == classST && !v.v612:
			return v.refuse(syscall.EACCES, "BPF_ST stores into R%d ctx is not allowed", i.dst)
		case i.mode() == modeAtomic:
			return v.refuse(syscall.EACCES, "BPF_ATOMIC stores into R%d ctx is not allowed", i.dst)
		case p.off < 0:
			return v.refuse(syscall.EACCES, "negative offset ctx ptr R%d off=%d disallowed", i.dst, p.off)
		}
		return v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", i.off, i.size())
	}
	a := access{reg: int(i.dst), off: int(i.off), size: i.size(), write: true, from: -1, to: -1, imm: i.imm}
	if i.class() == classSTX {
		a.from = int(i.src)
	}
	if i.mode() != modeAtomic || i.class() != classSTX {
		return v.access(s, a)
	}
	return v.atomic(s, i, a)
}

// atomic follows a load and a store at once.
func (v *verifier) atomic(s *state, i insn, a access) error {
	switch i.imm {
	case aluADD, aluADD | atomicFetch, aluAND, aluAND | atomicFetch, aluOR, aluOR | atomicFetch, aluXOR, aluXOR | atomicFetch, atomicXCHG, atomicCMPXCHG:
	default:
		return v.refuse(syscall.EINVAL, "BPF_ATOMIC uses invalid atomic opcode %02x", uint8(i.imm))
	}
	load := a
	load.write, load.from = false, -1
	if i.imm == atomicCMPXCHG {
		if err := v.readable(s, r0); err != nil {
			return err
		}
	}
	to := -1
	switch {
	case i.imm == atomicCMPXCHG:
		to = r0
	case i.imm&atomicFetch != 0:
		to = int(i.src)
	}
	if to >= 0 {
		if err := v.writes(s, uint8(to)); err != nil {
			return err
		}
		s.regs()[to].forget()
	}
	if err := v.access(s, load); err != nil {
		return err
	}
	if to >= 0 {
		load.to = to
		if err := v.access(s, load); err != nil {
			return err
		}
	}
	a.from, a.anything = -1, true
	return v.access(s, a)
}

// access is check_mem_access.
func (v *verifier) access(s *state, a access) error {
	p := s.regs()[a.reg]
	loaded := unknown()
	var err error
	switch p.typ {
	case regStack:
		if err := v.stackAccess(s, p, a); err != nil {
			return err
		}
		if a.to >= 0 && a.size < 8 && s.regs()[a.to].typ == regScalar {
			v.loaded(&s.regs()[a.to], a)
		}
		return nil
	case regMapValue:
		if !p.m.hasValues() {
			return v.invalid(p, a)
		}
		loaded, err = v.mapAccess(s, p, a)
	case regKey:
		err = v.within(p, a.reg, a.off, a.size, p.m.key, fmt.Sprintf("invalid access to map key, key_size=%d", p.m.key))
	case regRecord, regMem:
		err = v.within(p, a.reg, a.off, a.size, int(p.size), fmt.Sprintf("invalid access to memory, mem_size=%d", p.size))
	case regCtx:
		loaded, err = v.contextAccess(p, a)
	case regStruct, regUntrusted:
		switch {
		case p.to != nil:
			loaded, err = v.structAccess(p, a)
		case a.write:
			return v.invalid(p, a)
		}
	default:
		return v.invalid(p, a)
	}
	if err != nil || a.write || a.to < 0 {
		return err
	}
	if a.size < 8 && loaded.typ == regScalar {
		v.loaded(&loaded, a)
	}
	s.regs()[a.to].become(loaded)
	return nil
}

// loaded makes a number what a load of fewer than 8 bytes makes of it.
func (v *verifier) loaded(n *value, a access) {
	if a.signed {
		n.extend(8 * a.size)
	} else {
		v.truncate(n, a.size)
	}
}

func (v *verifier) invalid(p value, a access) error {
	return v.refuse(syscall.EACCES, "R%d invalid mem access '%s'", a.reg, v.typeName(p.typ))
}

// contextAccess is an access to the program's first argument.
func (v *verifier) contextAccess(p value, a access) (value, error) {
	if p.off < 0 {
		return value{}, v.refuse(syscall.EACCES, "negative offset ctx ptr R%d off=%d disallowed", a.reg, p.off)
	}
	if p.off != 0 || !p.isConst() {
		return value{}, v.refuse(syscall.EACCES, "dereference of modified ctx ptr R%d off=%d disallowed", a.reg, p.off)
	}
	if a.write && v.prog.kind != ProgSyscall || !programTypes[v.prog.kind].reads(a.off, a.size) {
		return value{}, v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", a.off, a.size)
	}
	return v.context(a.off, a.size)
}

// mapAccess is a load from a map's value, or a store into it. What a load from a frozen map gives is known if programs only
// read the map: so conditions on constants that a loader has set (.rodata, .kconfig) leave one branch. It fails with
// ENOTSUPP if such a map has several elements.
func (v *verifier) mapAccess(s *state, p value, a access) (value, error) {
	if err := v.mapRange(p, a.reg, a.off, a.size, a.write, false); err != nil {
		return value{}, err
	}
	if k := p.m.kptrAt(int64(p.bits) + int64(p.off) + int64(a.off)); k != nil && p.isConst() {
		return v.kptrAccess(s, k, a)
	}
	m := p.m
	if a.write || a.to < 0 || !p.isConst() || m.kind != mapArray || m.flags&flagProgRead == 0 || !m.frozen.Load() {
		return unknown(), nil
	}
	if m.entries != 1 {
		return value{}, fmt.Errorf("a constant of a map with %d elements: %w", m.entries, errNotSupported)
	}
	return constant(m.constant(int(p.bits)+int(p.off)+a.off, a.size)), nil
}

// kptrAccess is an access to a pointer in a map's value.
func (v *verifier) kptrAccess(s *state, k *kptr, a access) (value, error) {
	i := v.prog.insns[s.pc-1]
	if !a.write && i.mode() == modeMEM {
		p := pointer(regUntrustedOrNull)
		p.to, p.id = k.to, v.newID()
		return p, nil
	}
	stored := unknown()
	if reg := a.stored(s); reg != nil {
		stored = *reg
	} else if !a.anything {
		stored = constant(uint64(int64(a.imm)))
	}
	return value{}, v.kptrStore(k, i, &stored)
}

// mapRange is check_map_access_type and check_map_access: whether size bytes at off from a pointer lie in the value, and
// whether programs may read, or write them.
func (v *verifier) mapRange(p value, r int, off, size int, store, helper bool) error {
	m := p.m
	switch {
	case store && m.flags&flagProgRead != 0:
		return v.refuse(syscall.EACCES, "write into map forbidden, value_size=%d off=%d size=%d", m.value, int(p.off)+off, size)
	case !store && m.flags&flagProgWrite != 0:
		return v.refuse(syscall.EACCES, "read from map forbidden, value_size=%d off=%d size=%d", m.value, int(p.off)+off, size)
	}
	if err := v.within(p, r, off, size, m.value, fmt.Sprintf("invalid access to map value, value_size=%d", m.value)); err != nil {
		return err
	}
	at := int64(p.off) + int64(off)
	lo, hi := at+p.smin, at+int64(p.umax)+int64(size)
	if p.isConst() {
		at += int64(p.bits)
		lo, hi = at, at+int64(size)
	}
	for _, f := range []*field{&m.lock, &m.timer} {
		if f.touches(lo, hi) {
			return v.refuse(syscall.EACCES, "%s cannot be accessed directly by load/store", f.special.name)
		}
	}
	return v.kptrRange(p, lo, hi, helper)
}

// context is what a load from the program's first argument gives.
func (v *verifier) context(off, size int) (value, error) {
	v.prog.reads = max(v.prog.reads, off+size)
	if v.prog.target == nil {
		return unknown(), nil
	}
	is, ok := v.prog.target.argument(v, off, size)
	if !ok {
		return value{}, v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", off, size)
	}
	return is, nil
}

// within is check_mem_region_access: whether all that the pointer can be lies in a region of limit bytes.
func (v *verifier) within(p value, r int, off, size, limit int, what string) error {
	at := int64(p.off) + int64(off)
	outside := func(at int64) bool { return at < 0 || at+int64(size) > int64(limit) || size < 0 }
	if p.isConst() {
		if at += int64(p.bits); outside(at) {
			return v.outside(r, what, at, size, "")
		}
		return nil
	}
	if p.smin < 0 && (p.smin == -1<<63 || at+p.smin < 0) {
		v.log.printf("R%d min value is negative, either use unsigned index or do a if (index >=0) check.\n", r)
		return fmt.Errorf("%s: %w", what, syscall.EACCES)
	}
	if outside(at + p.smin) {
		return v.outside(r, what, at+p.smin, size, "min value is outside of the allowed memory range")
	}
	if p.umax >= 1<<29 {
		v.log.printf("R%d unbounded memory access, make sure to bounds check any such access\n", r)
		return fmt.Errorf("%s: %w", what, syscall.EACCES)
	}
	if outside(at + int64(p.umax)) {
		return v.outside(r, what, at+int64(p.umax), size, "max value is outside of the allowed memory range")
	}
	return nil
}

func (v *verifier) outside(r int, what string, at int64, size int, why string) error {
	v.log.printf("%s off=%d size=%d\n", what, at, size)
	if why == "" {
		why = "min value is outside of the allowed memory range"
	}
	v.log.printf("R%d %s\n", r, why)
	return fmt.Errorf("%s: %w", what, syscall.EACCES)
}

package bpf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
)

// programType says what programs of a type get as their first argument, and how they may read it.
type programType struct {
	reads func(off, size int) bool
}

// programTypes are the types that can be loaded. Programs of the first four run at hits; the others are what
// tools load to learn what the kernel can do.
var programTypes = map[ProgType]programType{
	ProgKprobe:                {func(off, size int) bool { return off >= 0 && off%size == 0 && off+size <= 168 }},
	ProgTracepoint:            {func(off, size int) bool { return (off < 0 || off >= 8) && off%size == 0 && off+size <= maxCtx }}, // Linux takes what is before the entry, too
	ProgPerfEvent:             {func(off, size int) bool { return off >= 0 && off%size == 0 && off+size <= 184 }},
	ProgRawTracepoint:         {tracepointArgument},
	ProgRawTracepointWritable: {tracepointArgument},
	ProgTracing:               {func(off, size int) bool { return off >= 0 && size > 0 && off%size == 0 && off+size <= 8*maxFuncArgs }},
	ProgSocketFilter:          {word},
	ProgSchedCLS:              {word},
	ProgSchedACT:              {word},
	ProgSyscall:               {func(off, size int) bool { return off >= 0 && off < maxSyscallCtx && off%size == 0 }},
	ProgXDP:                   {func(off, size int) bool { return word(off, size) && off+size <= xdpSize }},
}

// Sizes of struct __sk_buff and struct xdp_md in bytes.
const (
	skbSize = 192
	xdpSize = 24
)

// tracepointArgument reports whether an argument of a raw tracepoint may be read.
func tracepointArgument(off, size int) bool {
	return off >= 0 && size == 8 && off%8 == 0 && off+size <= maxRawArgs
}

// word reports whether fields of 4 bytes of struct __sk_buff may be read. What is in a packet may not:
// there are none.
func word(off, size int) bool { return off >= 0 && size == 4 && off%4 == 0 && off+size <= skbSize }

// verifier is bpf_check: it follows each path through a program and knows what each register can hold,
// so that the program ends and touches nothing but what it may.
type verifier struct {
	prog      *Prog
	caller    Caller
	log       *verifierLog
	processed int
	lastID    uint32
	states    map[int][]*state // those that were followed from an instruction, where paths join
	asyncs    []asyncCallback  // functions that timers call
	joins     []bool           // by instruction: paths join here
	starts    []int            // of functions
	todo      []*state
	jumps     int // jumps that were followed
	keptJumps int // and instructions, when a state was kept last
	keptInsns int
}

// slot is 8 bytes of a stack frame: a register that was stored there, or bytes.
type slot struct {
	spilled value // its type is regNone if there is none
	written uint8 // which bytes were written
	zero    uint8 // which of them are 0
}

// function is one function that is running on a path.
type function struct {
	regs     [maxReg]value
	stack    []slot // as deep as it was written, from the frame pointer down
	site     int    // the call
	callback bool
	async    bool // a timer calls it
}

// state holds what the verifier knows at one point of a path.
type state struct {
	pc     int
	frames []*function
	refs   []reference
	parent *state // what was kept last on the path

	lock     uint32 // the value whose lock is taken, or 0
	branches int    // of what was kept: paths from it that have not ended
}

// reference is a record that has to be given back.
type reference struct {
	id   uint32
	insn int
}

func (s *state) top() *function { return s.frames[len(s.frames)-1] }

func (s *state) regs() *[maxReg]value { return &s.top().regs }

func (s *state) clone() *state {
	c := &state{pc: s.pc, refs: slices.Clone(s.refs), parent: s.parent, lock: s.lock}
	for _, f := range s.frames {
		copied := *f
		copied.stack = slices.Clone(f.stack)
		c.frames = append(c.frames, &copied)
	}
	return c
}

// refuse logs why a program is refused.
func (v *verifier) refuse(errno syscall.Errno, format string, args ...any) error {
	v.log.printf(format+"\n", args...)
	return fmt.Errorf(format+": %w", append(args, errno)...)
}

// verify checks the program and puts its maps and 64-bit values together. It fails with EINVAL, EACCES,
// EPERM, EBADF, or E2BIG.
func (v *verifier) verify(a *attr) error {
	p := v.prog
	p.wide = map[int]uint64{}
	v.states = map[int][]*state{}
	v.joins = make([]bool, len(p.insns))
	if err := v.functions(); err != nil {
		return err
	}
	if err := v.attached(); err != nil {
		return err
	}
	if err := v.resolve(a); err != nil {
		return err
	}
	if err := v.flow(); err != nil {
		return err
	}
	first := &function{}
	first.regs[1] = value{typ: regCtx}
	first.regs[r10] = value{typ: regStack}
	v.todo = []*state{{frames: []*function{first}}}
	for len(v.todo) > 0 {
		s := v.todo[len(v.todo)-1]
		v.todo = v.todo[:len(v.todo)-1]
		if err := v.follow(s); err != nil {
			return err
		}
	}
	return nil
}

// functions finds where functions begin: add_subprog_and_kfunc, check_subprogs.
func (v *verifier) functions() error {
	v.starts = []int{0}
	insns := v.prog.insns
	for n, i := range insns {
		var to int
		switch {
		case (i.class() == classJMP) && i.op() == jmpCALL && i.src == pseudoCall,
			i.wideLoad() && i.src == pseudoFunc:
			to = n + int(i.imm) + 1
		case i.class() == classJMP && i.op() == jmpCALL && i.src == pseudoKfuncCall:
			return v.refuse(syscall.EINVAL, "calling kernel function is not allowed without CONFIG_DEBUG_INFO_BTF")
		default:
			continue
		}
		if to < 0 || to >= len(insns) {
			return v.refuse(syscall.EINVAL, "call to invalid destination")
		}
		if !slices.Contains(v.starts, to) {
			v.starts = append(v.starts, to)
		}
	}
	slices.Sort(v.starts)
	for n, i := range insns {
		if c := i.class(); c != classJMP && c != classJMP32 || i.op() == jmpEXIT || i.op() == jmpCALL {
			continue
		}
		to := n + int(i.off) + 1
		if to < 0 || v.function(to) != v.function(n) || to >= len(insns) {
			return v.refuse(syscall.EINVAL, "jump out of range from insn %d to %d", n, to)
		}
	}
	for f := range v.starts {
		end := len(insns)
		if f+1 < len(v.starts) {
			end = v.starts[f+1]
		}
		last := insns[end-1]
		if last.code != classJMP|jmpEXIT && last.code != classJMP|jmpJA {
			return v.refuse(syscall.EINVAL, "last insn is not an exit or jmp")
		}
	}
	return nil
}

// function returns which function an instruction belongs to.
func (v *verifier) function(n int) int {
	f, found := slices.BinarySearch(v.starts, n)
	if !found {
		f--
	}
	return f
}

// resolve is resolve_pseudo_ldimm64: it checks the form of instructions, and finds the maps by
// their descriptors.
func (v *verifier) resolve(a *attr) error {
	insns := v.prog.insns
	for n := 0; n < len(insns); n++ {
		i := insns[n]
		switch {
		case i.class() == classLDX && (i.mode() != modeMEM || i.imm != 0):
			return v.refuse(syscall.EINVAL, "BPF_LDX uses reserved fields")
		case !i.wideLoad():
			if !known(i) {
				return v.refuse(syscall.EINVAL, "unknown opcode %02x", i.code)
			}
			continue
		}
		if n+1 == len(insns) || insns[n+1].code != 0 || insns[n+1].dst != 0 || insns[n+1].src != 0 || insns[n+1].off != 0 {
			return v.refuse(syscall.EINVAL, "invalid bpf_ld_imm64 insn")
		}
		low, high := uint64(uint32(i.imm)), uint64(uint32(insns[n+1].imm))
		switch i.src {
		case 0:
			v.prog.wide[n] = low | high<<32
		case pseudoFunc:
			v.prog.wide[n] = funcBase + uint64(n+1+int(i.imm))
		case pseudoMapFD, pseudoMapValue, pseudoMapIdx, pseudoMapIdxValue:
			if err := v.useMap(a, n, i, high); err != nil {
				return err
			}
		default:
			return v.refuse(syscall.EINVAL, "unrecognized bpf_ld_imm64 insn")
		}
		n++
	}
	return nil
}

// useMap resolves a 64-bit immediate that stands for a map, or for its first value.
func (v *verifier) useMap(a *attr, n int, i insn, high uint64) error {
	fd := int(i.imm)
	if i.src == pseudoMapIdx || i.src == pseudoMapIdxValue {
		b, err := read(v.caller, a.u64(120)+4*uint64(uint32(i.imm)), 4)
		if err != nil || a.u64(120) == 0 {
			return v.refuse(syscall.EPROTO, "fd_idx without fd_array is invalid")
		}
		fd = int(int32(binary.LittleEndian.Uint32(b)))
	}
	m, ok := v.caller.Object(fd).(*Map)
	if !ok {
		return v.refuse(badObject(v.caller.Object(fd)), "fd %d is not pointing to valid bpf_map", fd)
	}
	if err := v.mapCompatible(m); err != nil {
		return err
	}
	direct := i.src == pseudoMapValue || i.src == pseudoMapIdxValue
	switch {
	case !direct && high != 0:
		return v.refuse(syscall.EINVAL, "unrecognized bpf_ld_imm64 insn")
	case direct && m.kind != mapArray:
		return v.refuse(syscall.EINVAL, "no direct value access support for this map type")
	case direct && m.entries != 1:
		return v.refuse(errNotSupported, "invalid access to map value pointer, value_size=%d off=%d", m.value, high)
	case direct && high >= uint64(m.value):
		return v.refuse(syscall.EINVAL, "invalid access to map value pointer, value_size=%d off=%d", m.value, high)
	case direct:
		v.prog.wide[n] = m.address(0) + high
	default:
		v.prog.wide[n] = m.pointer()
	}
	if !slices.Contains(v.prog.maps, m) {
		if len(v.prog.maps) == maxMapsOfProg {
			return syscall.E2BIG
		}
		v.prog.maps = append(v.prog.maps, m)
	}
	return nil
}

// known reports whether there is such an instruction: bpf_opcode_in_insntable.
func known(i insn) bool {
	switch i.class() {
	case classALU, classALU64:
		return i.op() <= aluARSH || i.op() == aluEND && i.class() == classALU
	case classJMP32:
		return i.op() != jmpJA && i.op() != jmpCALL && i.op() != jmpEXIT && i.op() <= jmpJSLE
	case classJMP:
		if i.op() == jmpJA || i.op() == jmpCALL || i.op() == jmpEXIT {
			return !i.fromRegister()
		}
		return i.op() <= jmpJSLE
	case classST:
		return i.mode() == modeMEM
	case classSTX:
		return i.mode() == modeMEM || i.mode() == modeAtomic && i.size() >= 4
	case classLDX:
		return true
	}
	return i.mode() == modeABS || i.mode() == modeIND
}

// flow is check_cfg: each instruction can be reached. It marks where paths join.
func (v *verifier) flow() error {
	insns := v.prog.insns
	seen := make([]bool, len(insns))
	todo := []int{0}
	push := func(from, to int) error {
		if to < 0 || to >= len(insns) {
			return v.refuse(syscall.EINVAL, "jump out of range from insn %d to %d", from, to)
		}
		if to > 0 && insns[to-1].wideLoad() {
			return v.refuse(syscall.EINVAL, "jump into the middle of ldimm64 insn %d", to-1)
		}
		if seen[to] {
			return nil
		}
		seen[to] = true
		todo = append(todo, to)
		return nil
	}
	seen[0] = true
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		i := insns[n]
		var to []int
		next := n + 1
		switch {
		case i.wideLoad():
			next = n + 2
			seen[n+1] = true
			to = []int{next}
			if i.src == pseudoFunc {
				to = append(to, n+1+int(i.imm))
			}
		case i.class() != classJMP && i.class() != classJMP32:
			to = []int{next}
		case i.op() == jmpEXIT:
		case i.op() == jmpCALL:
			if to = []int{next}; i.src == pseudoCall {
				to = append(to, n+1+int(i.imm))
			}
		case i.op() == jmpJA:
			to = []int{next + int(i.off)}
			v.joins[max(0, min(next+int(i.off), len(insns)-1))] = true
		default:
			to = []int{next, next + int(i.off)}
			v.joins[n] = true
			v.joins[max(0, min(next+int(i.off), len(insns)-1))] = true
		}
		for _, t := range to {
			if err := push(n, t); err != nil {
				return err
			}
		}
	}
	for n, s := range seen {
		if !s {
			return v.refuse(syscall.EINVAL, "unreachable insn %d", n)
		}
	}
	return nil
}

// maxSavedStates bounds how many states are kept for one instruction.
const maxSavedStates = 32

// follow follows a path until it ends, or joins one that was followed already.
func (v *verifier) follow(s *state) error {
	for {
		if v.processed++; v.processed > maxInsns {
			s.ended()
			return v.refuse(syscall.E2BIG, "BPF program is too large. Processed %d insn", v.processed)
		}
		if v.joins[s.pc] {
			known, err := v.joined(s)
			if known || err != nil {
				s.ended()
				return err
			}
		}
		i := v.prog.insns[s.pc]
		if v.log.verbose() {
			var next insn
			if i.wideLoad() {
				next = v.prog.insns[s.pc+1]
			}
			v.log.printf("%d: (%02x) %s\n", s.pc, i.code, i.text(next))
		}
		if c := i.class(); c == classJMP || c == classJMP32 {
			v.jumps++
		}
		done, err := v.step(s, i)
		if done || err != nil {
			s.ended()
			return err
		}
	}
}

// joined is is_state_visited: whether all that can be here was followed before. Otherwise it is kept now and then,
// as often as on Linux.
func (v *verifier) joined(s *state) (bool, error) {
	const jumps, insns, loopJumps, loopInsns = 2, 8, 20, 100
	sinceJumps, sinceInsns := v.jumps-v.keptJumps, v.processed-v.keptInsns
	keep := sinceJumps >= jumps && sinceInsns >= insns
	for _, old := range v.states[s.pc] {
		if old.branches > 0 { // not followed to its end: it may be part of this path
			if len(old.frames) == len(s.frames) && s.covered(old, true) {
				return false, v.refuse(syscall.EINVAL, "infinite loop detected at insn %d", s.pc)
			}
			if sinceJumps < loopJumps && sinceInsns < loopInsns {
				keep = false
			}
			continue
		}
		if s.covered(old, false) {
			return true, nil
		}
	}
	if !keep {
		return false, nil
	}
	v.keptJumps, v.keptInsns = v.jumps, v.processed
	kept := s.clone()
	kept.branches = 1
	if all := v.states[s.pc]; len(all) < maxSavedStates {
		v.states[s.pc] = append(all, kept)
	} else {
		all[v.processed%maxSavedStates] = kept
	}
	s.parent = kept
	return false, nil
}

// later has the way from s to an instruction be followed later, and returns what is known there.
func (v *verifier) later(s *state, to int) *state {
	other := s.clone()
	other.pc = to
	if other.parent != nil {
		other.parent.branches++
	}
	v.todo = append(v.todo, other)
	return other
}

// ended says that a path has ended: what was kept on it is followed to its end when that was the last one.
func (s *state) ended() {
	for p := s.parent; p != nil; p = p.parent {
		if p.branches--; p.branches > 0 {
			return
		}
	}
}

// covered reports whether all that can be in s can be in an older state; exactly, if they have to be the same.
func (s *state) covered(old *state, exactly bool) bool {
	if len(s.frames) != len(old.frames) || len(s.refs) != len(old.refs) || s.lock != old.lock {
		return false
	}
	ids := map[uint32]uint32{}
	for n, f := range s.frames {
		o := old.frames[n]
		if f.site != o.site || f.callback != o.callback || f.async != o.async {
			return false
		}
		for r := range f.regs {
			if !f.regs[r].covered(&o.regs[r], ids, exactly) {
				return false
			}
		}
		if exactly && len(f.stack) != len(o.stack) {
			return false
		}
		for k := range o.stack {
			a, b := &slot{}, &o.stack[k]
			if k < len(f.stack) {
				a = &f.stack[k]
			}
			if !exactly && b.written == 0 && b.spilled.typ == regNone {
				continue
			}
			if exactly && a.written != b.written || b.zero&^a.zero != 0 { // what else was written is like what was not: it may be read
				return false
			}
			if b.spilled.typ != regNone || exactly {
				if !a.spilled.covered(&b.spilled, ids, exactly) {
					return false
				}
			}
		}
	}
	return true
}

// covered reports whether all that a register can hold in a state the older one can hold.
func (v *value) covered(o *value, ids map[uint32]uint32, exactly bool) bool {
	if exactly {
		a, b := *v, *o
		a.id, b.id = 0, 0
		return a == b
	}
	if o.typ == regNone {
		return true
	}
	if v.typ != o.typ || v.off != o.off || v.frame != o.frame || v.m != o.m || v.to != o.to || v.size != o.size || (v.ref == 0) != (o.ref == 0) {
		return false
	}
	if o.id != 0 && v.typ != regScalar {
		if to, ok := ids[o.id]; ok && to != v.id {
			return false
		}
		ids[o.id] = v.id
	}
	return v.within(o)
}

// next gives values that are NULL together their number.
func (v *verifier) newID() uint32 {
	v.lastID++
	return v.lastID
}

// step follows one instruction. It reports whether the path has ended.
func (v *verifier) step(s *state, i insn) (done bool, err error) {
	regs := s.regs()
	at := s.pc
	s.pc++
	switch i.class() {
	case classALU, classALU64:
		return false, v.alu(s, i)
	case classLD:
		if !i.wideLoad() {
			return false, v.refuse(syscall.EINVAL, "BPF_LD_[ABS|IND] instructions not allowed for this program type")
		}
		if err := v.writes(i.dst); err != nil {
			return false, err
		}
		s.pc++
		switch i.src {
		case 0:
			regs[i.dst] = constant(v.prog.wide[at])
		case pseudoFunc:
			if err := v.callable(at + 1 + int(i.imm)); err != nil {
				return false, err
			}
			regs[i.dst] = value{typ: regFunc, off: int32(at + 1 + int(i.imm))}
		case pseudoMapFD, pseudoMapIdx:
			regs[i.dst] = value{typ: regMap, m: v.mapOf(v.prog.wide[at])}
		default:
			m := v.mapOf(objBase + (v.prog.wide[at]-mapBase)>>mapShift<<objShift)
			regs[i.dst] = value{typ: regMapValue, m: m, off: int32(v.prog.wide[at] - m.address(0))}
			if m.lock.has() {
				regs[i.dst].id = v.newID()
			}
		}
		return false, nil
	case classLDX:
		if err := v.readable(s, i.src); err != nil {
			return false, err
		}
		if err := v.writes(i.dst); err != nil {
			return false, err
		}
		loaded, err := v.access(s, i.src, int(i.off), i.size(), nil)
		regs[i.dst] = loaded
		return false, err
	case classST, classSTX:
		return false, v.storeInsn(s, i)
	}
	switch i.op() {
	case jmpCALL:
		return false, v.call(s, i, at)
	case jmpEXIT:
		return v.exit(s, at)
	case jmpJA:
		s.pc += int(i.off)
		return false, nil
	}
	return v.branch(s, i)
}

// mapOf returns the program's map at an address.
func (v *verifier) mapOf(addr uint64) *Map {
	for _, m := range v.prog.maps {
		if m.pointer() == addr {
			return m
		}
	}
	return nil // cannot be: resolve has put the address there
}

func (v *verifier) readable(s *state, r uint8) error {
	switch {
	case r >= maxReg:
		return v.refuse(syscall.EINVAL, "R%d is invalid", r)
	case s.regs()[r].typ == regNone:
		return v.refuse(syscall.EACCES, "R%d !read_ok", r)
	}
	return nil
}

func (v *verifier) writes(r uint8) error {
	switch {
	case r >= maxReg:
		return v.refuse(syscall.EINVAL, "R%d is invalid", r)
	case r == r10:
		return v.refuse(syscall.EACCES, "frame pointer is read only")
	}
	return nil
}

// alu follows an arithmetic instruction.
func (v *verifier) alu(s *state, i insn) error {
	regs := s.regs()
	op, narrow := i.op(), i.class() == classALU
	src := constant(uint64(int64(i.imm)))
	switch {
	case op == aluEND || op == aluNEG:
		if err := v.readable(s, i.dst); err != nil {
			return err
		}
		if err := v.writes(i.dst); err != nil {
			return err
		}
		if d := regs[i.dst]; d.typ != regScalar {
			return v.refuse(syscall.EACCES, "R%d pointer arithmetic prohibited", i.dst)
		}
		if op == aluEND && i.imm != 16 && i.imm != 32 && i.imm != 64 {
			return v.refuse(syscall.EINVAL, "BPF_END uses reserved fields")
		}
		regs[i.dst] = unknown()
		switch {
		case op == aluEND && i.imm < 64:
			regs[i.dst] = upTo(1<<uint(i.imm) - 1)
		case narrow:
			regs[i.dst] = upTo(1<<32 - 1)
		}
		return nil
	case i.fromRegister():
		if i.imm != 0 || i.off != 0 {
			return v.refuse(syscall.EINVAL, "BPF_ALU uses reserved fields")
		}
		if err := v.readable(s, i.src); err != nil {
			return err
		}
		src = regs[i.src]
	case i.src != 0 || i.off != 0:
		return v.refuse(syscall.EINVAL, "BPF_ALU uses reserved fields")
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
	if err := v.writes(i.dst); err != nil {
		return err
	}
	dst := regs[i.dst]
	if op == aluMOV {
		if !narrow {
			regs[i.dst] = src
			return nil
		}
		if src.typ != regScalar {
			src = unknown() // a part of a pointer
		}
		src = src.low32()
		src.id = 0
		regs[i.dst] = src
		return nil
	}
	if dst.typ == regScalar && src.typ == regScalar {
		r := arithmetic(op, dst, src, narrow)
		regs[i.dst] = r
		return nil
	}
	if dst.typ != regScalar && src.typ != regScalar {
		if op == aluSUB {
			regs[i.dst] = unknown()
			return nil
		}
		return v.refuse(syscall.EACCES, "R%d pointer %s pointer prohibited", i.dst, aluNames[op>>4])
	}
	if narrow {
		if op == aluSUB {
			regs[i.dst] = unknown()
			return nil
		}
		return v.refuse(syscall.EACCES, "R%d 32-bit pointer arithmetic prohibited", i.dst)
	}
	return v.pointerMath(s, i, dst, src)
}

// pointerMath is adjust_ptr_min_max_vals.
func (v *verifier) pointerMath(s *state, i insn, dst, src value) error {
	op := i.op()
	p, n := dst, src
	if dst.typ == regScalar {
		p, n = src, dst
	}
	switch p.typ {
	case regMapValueOrNull, regRecordOrNull, regMemOrNull, regUntrustedOrNull:
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic on %s prohibited, null-check it first", i.dst, regNames[p.typ])
	case regMap, regFunc:
		if n.isConst() && n.bits == 0 && op == aluADD {
			s.regs()[i.dst] = p
			return nil
		}
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic on %s prohibited", i.dst, regNames[p.typ])
	default:
	}
	for _, part := range []value{n, p} {
		if err := v.sane(p, part); err != nil {
			return err
		}
	}
	switch {
	case op == aluSUB && dst.typ == regScalar:
		return v.refuse(syscall.EACCES, "R%d tried to subtract pointer from scalar", i.dst)
	case op == aluSUB && p.typ == regStack:
		return v.refuse(syscall.EACCES, "R%d subtraction from stack pointer prohibited", i.dst)
	}
	if op != aluADD && op != aluSUB {
		if op == aluAND || op == aluOR || op == aluXOR {
			return v.refuse(syscall.EACCES, "R%d bitwise operator %s on pointer prohibited", i.dst, aluNames[op>>4])
		}
		return v.refuse(syscall.EACCES, "R%d pointer arithmetic with %s operator prohibited", i.dst, aluNames[op>>4])
	}
	r := p
	if n.isConst() {
		by := int64(n.bits)
		if op == aluSUB {
			by = -by
		}
		r.off = int32(int64(p.off) + by)
		if err := v.sane(r, r); err != nil {
			return err
		}
		s.regs()[i.dst] = r
		return nil
	}
	number := value{typ: regScalar}
	number.setNumber(p)
	sum := arithmetic(op, number, n, false)
	r.setNumber(sum)
	if err := v.sane(r, r); err != nil {
		return err
	}
	s.regs()[i.dst] = r
	return nil
}

// sane is check_reg_sane_offset: neither a pointer nor what is added to it goes too far.
func (v *verifier) sane(p, part value) error {
	const most = 1 << 29 // BPF_MAX_VAR_OFF
	name := regNames[p.typ]
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

// storeInsn follows a store.
func (v *verifier) storeInsn(s *state, i insn) error {
	regs := s.regs()
	v2 := constant(uint64(int64(i.imm)))
	if i.class() == classSTX {
		if err := v.readable(s, i.src); err != nil {
			return err
		}
		v2 = regs[i.src]
	}
	if err := v.readable(s, i.dst); err != nil {
		return err
	}
	if i.class() == classST && i.src != 0 {
		return v.refuse(syscall.EINVAL, "BPF_ST uses reserved fields")
	}
	if t := regs[i.dst].typ; t == regCtx && (v.prog.kind != ProgSyscall || i.class() == classST || i.mode() == modeAtomic) {
		what := "BPF_ST"
		if i.class() == classSTX {
			if i.mode() == modeAtomic {
				return v.refuse(syscall.EACCES, "BPF_ATOMIC stores into R%d ctx is not allowed", i.dst)
			}
			if off := regs[i.dst].off; off < 0 {
				return v.refuse(syscall.EACCES, "negative offset ctx ptr R%d off=%d disallowed", i.dst, off)
			}
			return v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", i.off, i.size())
		}
		return v.refuse(syscall.EACCES, "%s stores into R%d ctx is not allowed", what, i.dst)
	}
	if i.mode() != modeAtomic || i.class() != classSTX {
		_, err := v.access(s, i.dst, int(i.off), i.size(), &v2)
		return err
	}
	switch i.imm {
	case aluADD, aluADD | atomicFetch, aluAND, aluAND | atomicFetch, aluOR, aluOR | atomicFetch, aluXOR, aluXOR | atomicFetch, atomicXCHG, atomicCMPXCHG:
	default:
		return v.refuse(syscall.EINVAL, "BPF_ATOMIC uses invalid atomic opcode %02x", uint8(i.imm))
	}
	if i.imm == atomicCMPXCHG {
		if err := v.readable(s, r0); err != nil {
			return err
		}
	}
	loaded, err := v.access(s, i.dst, int(i.off), i.size(), nil)
	if err != nil {
		return err
	}
	any_ := unknown()
	if _, err := v.access(s, i.dst, int(i.off), i.size(), &any_); err != nil {
		return err
	}
	if loaded.typ != regScalar {
		loaded = unknown()
	}
	switch {
	case i.imm == atomicCMPXCHG:
		regs[r0] = unknown()
	case i.imm&atomicFetch != 0:
		regs[i.src] = unknown()
	}
	return nil
}

// access is check_mem_access: a load, or a store of what is not nil, of size bytes at off from a register.
// It returns what is loaded.
func (v *verifier) access(s *state, r uint8, off, size int, stored *value) (value, error) {
	p := s.regs()[r]
	switch p.typ {
	case regStack:
		if at := p.bits + uint64(int64(p.off)+int64(off)); (at|p.mask)&uint64(size-1) != 0 {
			return value{}, v.refuse(syscall.EACCES, "misaligned stack access off (0x%x; 0x%x)+%d+%d size %d", p.bits, p.mask, p.off, off, size)
		}
		return v.stackAccess(s, r, off, size, stored)
	case regMapValue:
		if !p.m.hasValues() {
			break
		}
		return v.mapAccess(s, p, r, off, size, stored)
	case regKey:
		return unknown().loaded(size), v.within(p, r, off, size, p.m.key, fmt.Sprintf("invalid access to map key, key_size=%d", p.m.key))
	case regRecord, regMem:
		return unknown().loaded(size), v.within(p, r, off, size, int(p.size), fmt.Sprintf("invalid access to memory, mem_size=%d", p.size))
	case regCtx:
		if p.off < 0 {
			return value{}, v.refuse(syscall.EACCES, "negative offset ctx ptr R%d off=%d disallowed", r, p.off)
		}
		if p.off != 0 || !p.isConst() {
			return value{}, v.refuse(syscall.EACCES, "dereference of modified ctx ptr R%d off=%d disallowed", r, p.off)
		}
		if stored != nil && v.prog.kind != ProgSyscall || !programTypes[v.prog.kind].reads(off, size) {
			return value{}, v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", off, size)
		}
		return v.context(off, size)
	case regStruct, regUntrusted:
		if p.to != nil {
			loaded, err := v.structAccess(p, r, off, size, stored)
			if p.typ == regUntrusted && loaded.typ == regStruct {
				loaded.typ = regUntrusted
			}
			return loaded, err
		}
		if stored == nil {
			return unknown().loaded(size), nil
		}
	default:
	}
	return value{}, v.refuse(syscall.EACCES, "R%d invalid mem access '%s'", r, regNames[p.typ])
}

// mapAccess is a load from a map's value, or a store into it. What a load from a frozen map gives is known if programs only
// read the map: so conditions on constants that a loader has set (.rodata, .kconfig) leave one branch. It fails with
// ENOTSUPP if such a map has several elements.
func (v *verifier) mapAccess(s *state, p value, r uint8, off, size int, stored *value) (value, error) {
	store := stored != nil
	if err := v.mapRange(p, r, off, size, store, false); err != nil {
		return value{}, err
	}
	if k := p.m.kptrAt(int64(p.bits) + int64(p.off) + int64(off)); k != nil && p.isConst() {
		i := v.prog.insns[s.pc-1]
		if store || i.mode() != modeMEM {
			if stored == nil {
				stored = &value{typ: regScalar}
			}
			return value{}, v.kptrStore(k, i, stored)
		}
		return value{typ: regUntrustedOrNull, to: k.to, id: v.newID()}, nil
	}
	m := p.m
	if store || !p.isConst() || m.kind != mapArray || m.flags&flagProgRead == 0 || !m.frozen.Load() {
		return unknown().loaded(size), nil
	}
	if m.entries != 1 {
		return value{}, fmt.Errorf("a constant of a map with %d elements: %w", m.entries, errNotSupported)
	}
	return constant(m.constant(int(p.bits)+int(p.off)+off, size)), nil
}

// mapRange is check_map_access_type and check_map_access: whether size bytes at off from a pointer lie in the value, and
// whether programs may read, or write them.
func (v *verifier) mapRange(p value, r uint8, off, size int, store, helper bool) error {
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
		return unknown().loaded(size), nil
	}
	is, ok := v.prog.target.argument(v, off)
	if !ok {
		return value{}, v.refuse(syscall.EACCES, "invalid bpf_context access off=%d size=%d", off, size)
	}
	if is.typ == regScalar {
		is = is.loaded(size)
	}
	return is, nil
}

// attached is check_attach_btf_id: it finds what the program is for.
func (v *verifier) attached() error {
	p := v.prog
	if p.kind == ProgSyscall {
		if !p.sleepable {
			return v.refuse(syscall.EINVAL, "Syscall programs can only be sleepable")
		}
		return nil
	}
	if p.sleepable && p.kind != ProgTracing && p.kind != ProgKprobe {
		return v.refuse(syscall.EINVAL, "Only fentry/fexit/fmod_ret, lsm, and kprobe/uprobe programs can be sleepable")
	}
	if p.kind != ProgTracing {
		return nil
	}
	t, err := v.target(p, p.attachID)
	p.target = t
	return err
}

// loaded is what a load of size bytes gives.
func (v value) loaded(size int) value {
	if size < 8 {
		return upTo(1<<(8*size) - 1)
	}
	return v
}

// within is check_mem_region_access: whether all that the pointer can be lies in a region of limit bytes.
func (v *verifier) within(p value, r uint8, off, size, limit int, what string) error {
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

func (v *verifier) outside(r uint8, what string, at int64, size int, why string) error {
	v.log.printf("%s off=%d size=%d\n", what, at, size)
	if why == "" {
		why = "min value is outside of the allowed memory range"
	}
	v.log.printf("R%d %s\n", r, why)
	return fmt.Errorf("%s: %w", what, syscall.EACCES)
}

// stackAccess is check_stack_read and check_stack_write.
func (v *verifier) stackAccess(s *state, r uint8, off, size int, stored *value) (value, error) {
	p := s.regs()[r]
	verb := "read from"
	if stored != nil {
		verb = "write to"
	}
	lo, hi := int64(p.off)+int64(off), int64(p.off)+int64(off)
	if !p.isConst() {
		if p.smin <= -1<<29 || p.smax >= 1<<29 {
			return value{}, v.refuse(syscall.EACCES, "invalid unbounded variable-offset %s stack R%d", verb, r)
		}
		lo, hi = lo+p.smin, hi+p.smax
	} else {
		lo, hi = lo+int64(p.bits), hi+int64(p.bits)
	}
	f := s.frames[p.frame]
	errno := syscall.Errno(0)
	switch {
	case lo < -stackSize || lo > -1:
		errno = syscall.EACCES
	case hi+int64(size) > 0:
		errno = syscall.EINVAL
	}
	if errno != 0 {
		if p.isConst() {
			return value{}, v.refuse(errno, "invalid %s stack R%d off=%d size=%d", verb, r, lo, size)
		}
		return value{}, v.refuse(errno, "invalid variable-offset %s stack R%d var_off=(0x%x; 0x%x) off=%d size=%d", verb, r, p.bits, p.mask, int(p.off)+off, size)
	}
	if stored != nil {
		if size < 8 && stored.typ != regScalar && p.isConst() {
			return value{}, v.refuse(syscall.EACCES, "invalid size of register spill")
		}
		f.grow(lo)
		f.write(int(lo), int(hi)+size, size, stored, p.isConst())
		return value{}, nil
	}
	f.grow(lo)
	return f.read(int(lo), int(hi)+size, size), nil
}

// at returns the slot and the number in it of a byte of the stack, which is at a negative offset from the
// frame pointer.
func at(off int) (slot, byteOf int) { return (-off - 1) / 8, off & 7 }

// grow makes the stack at least as deep as an offset.
func (f *function) grow(off int64) {
	for int64(f.allocated()) < -off {
		f.stack = append(f.stack, slot{})
	}
}

// allocated is how deep the stack was written, bytes.
func (f *function) allocated() int { return 8 * len(f.stack) }

// write writes size bytes somewhere in [from, to) of a stack.
func (f *function) write(from, to, size int, v *value, exact bool) {
	n, b := at(from)
	if exact && b == 0 && size == 8 {
		f.stack[n] = slot{spilled: *v, written: 0xff}
		if v.typ == regScalar && v.isConst() && v.bits == 0 {
			f.stack[n].zero = 0xff
		}
		return
	}
	for off := from; off < to; off++ {
		n, b := at(off)
		sl := &f.stack[n]
		if sl.spilled.typ != regNone {
			sl.spilled = value{}
		}
		if exact {
			sl.written |= 1 << b
		}
		sl.zero &^= 1 << b
		if exact && v.typ == regScalar && v.isConst() && v.bits == 0 {
			sl.zero |= 1 << b
		}
	}
}

// read returns what size bytes somewhere in [from, to) of a stack are.
func (f *function) read(from, to, size int) value {
	n, b := at(from)
	sl := &f.stack[n]
	if to-from == size && sl.spilled.typ != regNone && b == 0 {
		if size == 8 {
			return sl.spilled
		}
		if sl.spilled.typ == regScalar && sl.spilled.isConst() {
			return constant(sl.spilled.bits & (1<<(8*size) - 1))
		}
	}
	zero := true
	for off := from; off < to; off++ {
		n, b := at(off)
		zero = zero && f.stack[n].zero&(1<<b) != 0
	}
	if zero {
		return constant(0)
	}
	return unknown().loaded(size)
}

// branch follows a conditional jump: one way now, the other one later.
func (v *verifier) branch(s *state, i insn) (done bool, err error) {
	regs := s.regs()
	if err := v.readable(s, i.dst); err != nil {
		return false, err
	}
	other := constant(uint64(int64(i.imm)))
	if i.fromRegister() {
		if err := v.readable(s, i.src); err != nil {
			return false, err
		}
		other = regs[i.src]
	} else if i.src != 0 {
		return false, v.refuse(syscall.EINVAL, "BPF_JMP/JMP32 uses reserved fields")
	}
	target := s.pc + int(i.off)
	d := regs[i.dst]
	op := i.op()
	narrow := i.class() == classJMP32
	null := !i.fromRegister() && i.imm == 0 && (op == jmpJEQ || op == jmpJNE) && !narrow
	switch {
	case null && (d.typ == regMapValueOrNull || d.typ == regRecordOrNull || d.typ == regMemOrNull || d.typ == regUntrustedOrNull):
		v.later(s, target).isNull(d, op == jmpJEQ)
		s.isNull(d, op == jmpJNE)
		return false, nil
	case null && d.typ == regMapValue: // of other pointers Linux does not see that they are not NULL
		if op == jmpJNE {
			s.pc = target
		}
		return false, nil
	case d.typ != regScalar || other.typ != regScalar:
		v.later(s, target)
		return false, nil
	}
	a, b := d, other
	if narrow {
		if b = b.low32(); a.umax > 1<<32-1 || b.umax > 1<<31-1 && op >= jmpJSGT {
			if a.isConst() && b.isConst() {
				if jumps(i, a.bits, b.bits) {
					s.pc = target
				}
				return false, nil
			}
			v.later(s, target)
			return false, nil
		}
		if op == jmpJSGT || op == jmpJSGE || op == jmpJSLT || op == jmpJSLE {
			if a.umax > 1<<31-1 {
				v.later(s, target)
				return false, nil
			}
		}
	}
	yesA, yesB := where(op, a, b)
	noA, noB := a, b
	if against, ok := opposite[op]; ok {
		noA, noB = where(against, a, b)
	} else if a.isConst() && b.isConst() && a.bits&b.bits != 0 {
		noA.umin, noA.umax = 1, 0
	}
	yes, no := yesA.possible() && yesB.possible(), noA.possible() && noB.possible()
	if yes && no {
		v.later(s, target).learn(i, d, yesA, yesB)
		s.learn(i, d, noA, noB)
		return false, nil
	}
	if yes {
		s.pc = target
		s.learn(i, d, yesA, yesB)
		return false, nil
	}
	s.learn(i, d, noA, noB)
	return false, nil
}

// learn writes what a comparison has shown into the registers.
func (s *state) learn(i insn, before, a, b value) {
	regs := s.regs()
	regs[i.dst].setNumber(a)
	if i.fromRegister() && i.src != i.dst {
		regs[i.src].setNumber(b)
	}
}

// isNull makes all copies of a pointer NULL, or not.
func (s *state) isNull(p value, null bool) {
	change := func(v *value) {
		if v.id != p.id || v.typ != p.typ {
			return
		}
		if null {
			*v = constant(0)
			return
		}
		v.typ-- // regMapValueOrNull, regRecordOrNull, regMemOrNull, regUntrustedOrNull
		if v.ref == 0 && (v.m == nil || !v.m.lock.has()) {
			v.id = 0
		}
		if v.inner { // what such an element holds is a map
			v.typ, v.inner = regMap, false
		}
	}
	for _, f := range s.frames {
		for r := range f.regs {
			change(&f.regs[r])
		}
		for k := range f.stack {
			change(&f.stack[k].spilled)
		}
	}
	if null && p.ref != 0 {
		s.drop(p.ref)
	}
}

func (s *state) drop(ref uint32) {
	s.refs = slices.DeleteFunc(s.refs, func(r reference) bool { return r.id == ref })
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
	regs := s.regs()
	if len(s.frames) > 1 {
		if err := v.callbackReturned(s); err != nil {
			return false, err
		}
		if err := v.readable(s, r0); err != nil {
			return false, err
		}
		ret := regs[r0]
		if ret.typ == regStack {
			return false, v.refuse(syscall.EINVAL, "cannot return stack pointer to the caller")
		}
		f := s.top()
		s.frames = s.frames[:len(s.frames)-1]
		caller := s.regs()
		for r := 1; r <= numArgs; r++ {
			caller[r] = value{}
		}
		caller[r0] = ret
		if f.callback {
			caller[r0] = unknown()
		}
		s.pc = f.site + 1
		return false, nil
	}
	if len(s.refs) > 0 {
		for _, r := range s.refs {
			v.log.printf("Unreleased reference id=%d alloc_insn=%d\n", r.id, r.insn)
		}
		return false, fmt.Errorf("a record is not given back: %w", syscall.EINVAL)
	}
	if err := v.readable(s, r0); err != nil {
		return false, err
	}
	if s.top().async {
		if r := regs[r0]; r.typ != regScalar {
			return false, v.refuse(syscall.EINVAL, "In async callback the register R0 is not a known value (%s)", regNames[r.typ])
		}
		return true, v.inRange(regs[r0], "async callback", 0)
	}
	return true, v.returned(regs[r0])
}

// returned is check_return_code: programs at entries and returns of functions return 0.
func (v *verifier) returned(r value) error {
	if v.prog.kind != ProgTracing || v.prog.attachType != traceFentry && v.prog.attachType != traceFexit {
		return nil
	}
	if r.typ != regScalar {
		return v.refuse(syscall.EINVAL, "At program exit the register R0 is not a known value (%s)", regNames[r.typ])
	}
	return v.inRange(r, "program exit", 0)
}

// callbackReturned checks what a function returns to the helper that has called it: 0, or 1 if that may end a loop.
func (v *verifier) callbackReturned(s *state) error {
	f := s.top()
	if !f.callback {
		return nil
	}
	if f.regs[r0].typ != regScalar {
		return v.refuse(syscall.EACCES, "R0 not a scalar value")
	}
	return v.inRange(f.regs[r0], "callback return", 1)
}

// inRange checks that no bit of a number can be set but those of a mask: verbose_invalid_scalar.
func (v *verifier) inRange(r value, where string, mask uint64) error {
	if (r.bits|r.mask)&^mask == 0 {
		return nil
	}
	is := "unknown scalar value"
	if r.mask != ^uint64(0) {
		is = fmt.Sprintf("value (0x%x; 0x%x)", r.bits, r.mask)
	}
	return v.refuse(syscall.EINVAL, "At %s the register R0 has %s should have been in (0x0; 0x%x)", where, is, mask)
}

// callable checks a function that helpers call: types say that it is static.
func (v *verifier) callable(at int) error {
	p := v.prog
	if p.funcs.size == 0 {
		return v.refuse(syscall.EINVAL, "missing btf func_info")
	}
	f := p.btf.types.funcOf(p.funcs.typeAt(v.starts[v.function(at)]))
	if f == nil || f.vlen != 0 {
		return v.refuse(syscall.EINVAL, "callback function not static")
	}
	return nil
}

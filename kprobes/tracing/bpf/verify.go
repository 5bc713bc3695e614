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
	ProgSocketFilter:          {partOfWord},
	ProgSchedCLS:              {partOfWord},
	ProgSchedACT:              {partOfWord},
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

// partOfWord reports the same, and of parts of a field: bpf_ctx_narrow_access_ok.
func partOfWord(off, size int) bool {
	return word(off, size) || size < 4 && off >= 0 && off%size == 0 && word(off&^3, 4) && !slices.Contains(wholeWords, off&^3)
}

// wholeWords are the fields of struct __sk_buff that are read as a whole only: data, data_end and data_meta.
var wholeWords = []int{76, 80, 140}

// verifier is bpf_check: it follows each path through a program and knows what each register can hold,
// so that the program ends and touches nothing but what it may.
type verifier struct {
	prog      *Prog
	v612      bool // the verifier is 6.12's
	caller    Caller
	log       *verifierLog
	processed int
	lastID    uint32
	asyncs    []asyncCallback // functions that timers call
	loops     map[int]*loopCall
	odd       map[int]bool // functions whose types are not what they are called with
	called    map[int]bool // global functions that something calls
	starts    []int        // of functions
	depths    []int        // how deep their stacks are, bytes
	todo      []*state

	followed []bool        // by instruction: a path has come there
	points   []bool        // by instruction: states are compared here
	targets  []bool        // and jumps come here
	states   []*checkpoint // see bucket

	jumps     int // jumps that were followed
	keptJumps int // and instructions, when a state was kept last
	keptInsns int

	statesOfInsn, totalStates, peakStates, longestRead int // of the log's last line

	at, prev     int    // the instruction that is followed, and the one before it, which is the same once it was logged
	before       int    // the one before the one that is followed, then
	noted        bool   // the path has a jump for it
	arrived      bool   // nothing was said yet of the path that is followed now
	shownRegs    uint32 // registers and slots of which something is to be said
	shownStack   uint64
	fdArray      bool // the program came with descriptors
	callsNothing bool // a path has come to a call of a kernel function that there is not
	lineSaid     int  // the record of the line of the source that was said last, from 1
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
	v.fdArray = a.u64(120) != 0
	v.followed = make([]bool, len(p.insns))
	v.points, v.targets = make([]bool, len(p.insns)), make([]bool, len(p.insns))
	if err := v.functions(); err != nil {
		return err
	}
	if err := v.described(); err != nil {
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
	if !v.v612 {
		if err := v.globals(); err != nil {
			return err
		}
	}
	first := newFunction(0, -1, 0)
	first.regs[1] = pointer(regCtx)
	v.compareTypes(&state{frames: []*function{first}}, 0)
	if err := v.paths(first); err != nil {
		return err
	}
	if v.v612 {
		if err := v.globals(); err != nil {
			return err
		}
	}
	if err := v.stacksFit(); err != nil {
		return err
	}
	v.inlineLoops()
	if v.v612 && v.dropsCallback() {
		return syscall.EFAULT
	}
	if v.callsNothing {
		return v.refuse(syscall.EINVAL, "invalid kernel function call not eliminated in verifier pass")
	}
	return nil
}

// paths follows all paths from the begin of a function: do_check_common.
func (v *verifier) paths(first *function) error {
	v.states = make([]*checkpoint, len(v.prog.insns))
	v.lineSaid = 0
	v.showAll()
	v.todo = []*state{{pc: first.entry, first: first.entry, frames: []*function{first}, branches: 1, from: -1, last: -1}}
	for len(v.todo) > 0 {
		s := v.todo[len(v.todo)-1]
		v.todo = v.todo[:len(v.todo)-1]
		if s.from >= 0 && v.log.level&logLevel2 == 0 {
			v.log.reset(s.log)
		}
		v.arrived = s.from >= 0
		if err := v.follow(s); err != nil {
			return err
		}
	}
	if v.log.level&logLevel2 == 0 {
		v.log.reset(0)
	}
	return nil
}

// newFunction returns a function that begins, called at an instruction, with only its frame pointer.
func newFunction(frame, site, entry int) *function {
	f := &function{site: site, entry: entry}
	for r := range f.regs {
		f.regs[r] = none()
	}
	f.regs[r10] = pointer(regStack)
	f.regs[r10].frame = uint8(frame)
	return f
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
			if err := v.kernelFunction(i); err != nil {
				return err
			}
			continue
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
	v.depths = make([]int, len(v.starts))
	if v.log.level&logLevel2 != 0 {
		for f, at := range v.starts {
			v.log.printf("func#%d @%d\n", f, at)
		}
	}
	for n, i := range insns {
		if c := i.class(); c != classJMP && c != classJMP32 || i.op() == jmpEXIT || i.op() == jmpCALL {
			continue
		}
		to := n + i.distance() + 1
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
		if last.code != classJMP|jmpEXIT && last.code != classJMP|jmpJA && last.code != longJump {
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
		case i.class() == classLDX && (i.mode() != modeMEM && !(v.v612 && i.mode() == modeMEMSX) || i.imm != 0):
			return v.refuse(syscall.EINVAL, "BPF_LDX uses reserved fields")
		case !i.wideLoad():
			if !known(i, v.v612) {
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

// known reports whether there is such an instruction: bpf_opcode_in_insntable. v612 says that it is 6.12's table.
func known(i insn, v612 bool) bool {
	switch i.class() {
	case classALU, classALU64:
		return i.op() <= aluARSH && !(i.op() == aluNEG && i.fromRegister()) || i.op() == aluEND && i.class() == classALU || v612 && i.isSwap()
	case classJMP32:
		return i.code == longJump || i.op() != jmpJA && i.op() != jmpCALL && i.op() != jmpEXIT && i.op() <= jmpJSLE
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
		return i.mode() != modeMEMSX || i.size() < 8
	}
	return i.mode() == modeABS || i.mode() == modeIND
}

// Whether check_cfg has come to an instruction, and whether it is done with all that follows.
const (
	flowNew = iota
	flowOpen
	flowDone
)

// flow is check_cfg: each instruction can be reached, and no function calls itself. It marks where paths join.
func (v *verifier) flow() error {
	insns := v.prog.insns
	seen := make([]uint8, len(insns))
	type visit struct {
		insn int
		left []int // the instructions that can follow and were not looked at
	}
	open := []visit{{0, v.next(0)}}
	seen[0] = flowOpen
	for len(open) > 0 {
		at := &open[len(open)-1]
		if len(at.left) == 0 {
			seen[at.insn] = flowDone
			open = open[:len(open)-1]
			continue
		}
		from, to := at.insn, at.left[0]
		at.left = at.left[1:]
		switch {
		case to < 0 || to >= len(insns):
			return v.refuse(syscall.EINVAL, "jump out of range from insn %d to %d", from, to)
		case seen[to] == flowNew:
			seen[to] = flowOpen
			open = append(open, visit{to, v.next(to)})
		case !v.v612 && seen[to] == flowOpen && insns[from].src == pseudoCall && insns[from].code == classJMP|jmpCALL && to != from+1:
			v.line(from)
			v.line(to)
			return v.refuse(syscall.EINVAL, "back-edge from insn %d to %d", from, to)
		}
	}
	for n := 0; n < len(insns); n++ {
		if seen[n] == flowNew {
			return v.refuse(syscall.EINVAL, "unreachable insn %d", n)
		}
		if !insns[n].wideLoad() {
			continue
		}
		if n++; seen[n] != flowNew {
			return v.refuse(syscall.EINVAL, "jump into the middle of ldimm64 insn %d", n-1)
		}
	}
	return nil
}

// next returns the instructions that can follow one. It marks where states are compared, and where a path may come to by a jump.
func (v *verifier) next(n int) []int {
	i := v.prog.insns[n]
	after := n + 1
	if i.wideLoad() {
		after++
	}
	join := func(n int, jump bool) {
		if n >= 0 && n < len(v.points) {
			v.points[n], v.targets[n] = true, v.targets[n] || jump
		}
	}
	switch {
	case i.wideLoad() && i.src == pseudoFunc, i.class() == classJMP && i.op() == jmpCALL:
		join(after, true)
		if !i.wideLoad() && i.src != pseudoCall {
			if i.imm == helperSetCallback { // another path begins here
				join(n, false)
			}
			if v.v612 && v.callsBack(n) { // and here one comes back
				join(n, true)
			}
			return []int{after}
		}
		join(n, false)
		join(n+1+int(i.imm), true)
		return []int{after, n + 1 + int(i.imm)}
	case i.class() != classJMP && i.class() != classJMP32:
		return []int{after}
	case i.op() == jmpEXIT:
		return nil
	case i.op() == jmpJA:
		join(after+i.distance(), true)
		if !v.v612 {
			join(after, false)
		}
		return []int{after + i.distance()}
	}
	join(n, false)
	join(after+int(i.off), true)
	return []int{after, after + int(i.off)}
}

// newID gives values that are NULL together their number.
func (v *verifier) newID() uint32 {
	v.lastID++
	return v.lastID
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

// attached is check_attach_btf_id: it finds what the program is for.
func (v *verifier) attached() error {
	p := v.prog
	if p.kind == ProgSyscall {
		if !p.sleepable {
			return v.refuse(syscall.EINVAL, "Syscall programs can only be sleepable")
		}
		return nil
	}
	if p.sleepable && v.v612 && (p.kind == ProgTracing && p.attachType == traceRawTP || p.kind != ProgTracing && p.kind != ProgKprobe) {
		return v.refuse(syscall.EINVAL, "Only fentry/fexit/fmod_ret, lsm, iter, uprobe, and struct_ops programs can be sleepable")
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

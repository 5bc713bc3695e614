package bpf

import (
	"encoding/binary"
	"math/bits"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Where a program sees memory. The ranges lie in what is the shadow of KASAN on Linux and
// nothing here, so no address is also one of the kernel's.
const (
	stackBase = 0xfffff10000000000
	ctxBase   = 0xfffff20000000000
	mapBase   = 0xfffff30000000000 // the values of maps, 1 << mapShift bytes for each
	mapShift  = 30
	mapEnd    = mapBase + maxMaps<<mapShift
	objBase   = 0xfffff80000000000 // the maps themselves, a page for each
	objShift  = 12
	objEnd    = objBase + maxMaps<<objShift
	keyBase   = 0xfffffa0000000000 // the keys that bpf_for_each_map_elem shows
	keyShift  = 16
	dynBase   = 0xfffffb0000000000 // the dynptrs that bpf_user_ringbuf_drain shows

	pageSize = abi.PageSize
)

// Limits of a run.
const (
	stackSize = 512     // MAX_BPF_STACK, bytes
	maxFrames = 8       // MAX_CALL_FRAMES
	maxTails  = 33      // MAX_TAIL_CALL_CNT
	maxSteps  = 1 << 24 // instructions of a run: many more than a program that the verifier lets through needs
	maxNested = 64      // callbacks in callbacks
	maxCtx    = 8192    // PERF_MAX_TRACE_SIZE, bytes
)

// Hit is what a program runs for.
type Hit struct {
	Trap  *abi.Trap // the registers, memory and time; never nil
	Ctx   []byte    // what the program's first argument points to
	PID   int32     // of the process
	TID   int32
	Comm  *[abi.TaskCommLen]byte
	UID   uint64 // the gid in the upper half
	Func  uint64 // the probed function, if the probe is at its entry or return, or 0
	Site  uint64 // where the entry of Func is traced, if Probes.Listen has told of it
	Chain func() []uint64
	seq   *seqBuffer                        // of the iterator that runs the program, or nil
	sent  bool                              // a signal waits until interrupts are on
	words [8 * (maxTrampolineArgs + 1)]byte // memory for Ctx
}

// frame is a function that has called another one.
type frame struct {
	pc    int
	saved [4]uint64 // r6 to r9
}

// run is a program that runs, and the memory that only it has. There is one for each System,
// guarded by its mem.
type run struct {
	sys    *System
	prog   *Prog
	hit    *Hit
	cookie uint64
	reg    [maxReg]uint64
	stack  [maxFrames * stackSize]byte
	frames [maxFrames]frame
	depth  int // of frames
	nested int
	left   int
	tails  int
	keys   [maxNested][]byte
	timer  *timer  // whose function runs
	given  []Given // descriptors that a program of type SYSCALL has made
	caller Caller  // who runs a program of type SYSCALL, or nil
	dyns   [maxNested][dynptrSize]byte
	args   [maxNested + 1][numArgs]uint64 // of helpers, by how many callbacks are nested
	ctx    []byte                         // what the first argument points to; zero after that
	high   int                            // how much of ctx is not zero
	out    perf.Hit                       // of perfOutput
	sample filter.Subject                 // the same
	fault  string                         // why it was ended, or ""

	callers [maxCallers]uint64 // of userFrames
}

// execute runs a program, and returns what it returns. The caller holds mem.
func (r *run) execute(p *Prog, cookie uint64, h *Hit) uint64 {
	r.begin(p, cookie, h)
	r.steps(0)
	return r.finish(p)
}

// begin makes the memory that only the program has.
func (r *run) begin(p *Prog, cookie uint64, h *Hit) {
	r.prog, r.hit, r.cookie, r.fault = p, h, cookie, ""
	r.depth, r.nested, r.left, r.tails = 0, 0, maxSteps, 0
	r.reg = [maxReg]uint64{1: ctxBase, r10: stackBase + stackSize}
	clear(r.stack[:stackSize])
	n := copy(r.ctx, h.Ctx)
	clear(r.ctx[n:max(n, r.high)])
	r.high = n
}

// finish returns what the program has returned.
func (r *run) finish(p *Prog) uint64 {
	r.hit = nil
	if r.fault != "" {
		p.faulted(r.fault)
		return 0
	}
	return r.reg[r0]
}

// bytes returns n bytes of the program's memory at an address, or nil.
func (r *run) bytes(addr uint64, n int) []byte {
	switch {
	case addr-stackBase < uint64((r.depth+1)*stackSize):
		at := int(addr - stackBase)
		if at+n <= (r.depth+1)*stackSize {
			return r.stack[at : at+n]
		}
	case addr-mapBase < mapEnd-mapBase:
		return r.sys.value(addr, n)
	case addr-ctxBase < uint64(len(r.ctx)):
		if at := int(addr - ctxBase); at+n <= len(r.ctx) {
			return r.ctx[at : at+n]
		}
	case addr-keyBase < maxNested<<keyShift:
		key, at := r.keys[(addr-keyBase)>>keyShift], int(addr&(1<<keyShift-1))
		if at+n <= len(key) {
			return key[at : at+n]
		}
	case addr-dynBase < maxNested*dynptrSize:
		at := (addr - dynBase) % dynptrSize
		if at+uint64(n) <= dynptrSize {
			return r.dyns[(addr-dynBase)/dynptrSize][at : at+uint64(n)]
		}
	}
	return nil
}

// value returns n bytes of a map's values, or nil. The caller holds mem.
func (s *System) value(addr uint64, n int) []byte {
	at := addr - mapBase
	m := s.byIndex[at>>mapShift]
	off := int(at & (1<<mapShift - 1))
	switch {
	case m == nil:
		return nil
	case m.ring != nil:
		return m.ring.record(off, n)
	case m.stride == 0:
		return nil
	}
	slot, off := int(uint32(off)/uint32(m.stride)), int(uint32(off)%uint32(m.stride))
	if slot >= m.room*m.cpus || off+n > m.stride {
		return nil
	}
	return m.slot(slot)[off : off+n]
}

// load reads a number of n bytes. A kernel's address reads as 0 if it cannot be read, as in
// Linux for pointers with a type; anything else ends the program.
func (r *run) load(addr uint64, size uint8) uint64 {
	n := int(size)
	b := r.bytes(addr, n)
	if b == nil {
		var other [8]byte
		if ctxBase-addr <= pageSize {
			return 0 // before the entry of a tracepoint
		}
		if addr < abi.TaskSizeMax || addr-stackBase < mapEnd-stackBase {
			r.end("invalid access to memory")
			return 0
		}
		if r.hit.Trap.Mem.ReadAt(addr, other[:n]) != nil {
			return 0
		}
		b = other[:n]
	}
	return number(b, size)
}

// number returns the number in the first size bytes.
func number(b []byte, size uint8) uint64 {
	switch size {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// store writes a number of n bytes into the program's own memory.
func (r *run) store(addr, v uint64, size uint8) {
	b := r.bytes(addr, int(size))
	if b == nil || addr-ctxBase < uint64(len(r.ctx)) && r.prog.kind != ProgSyscall {
		r.end("invalid access to memory")
		return
	}
	putNumber(b, v, size)
}

// putNumber writes a number of size bytes.
func putNumber(b []byte, v uint64, size uint8) {
	switch size {
	case 1:
		b[0] = byte(v)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// end stops the program.
func (r *run) end(why string) {
	if r.fault == "" {
		r.fault = why
	}
}

// steps executes instructions from pc, where a function begins, until it returns, or the program was stopped.
func (r *run) steps(pc int) {
	base, ops, reg := r.depth, r.prog.ops, &r.reg
	if !r.takes(ops, pc) {
		return
	}
	for {
		if uint(pc) >= uint(len(ops)) {
			r.end("jump out of range")
			return
		}
		o := &ops[pc]
		pc++
		second := o.imm
		if o.fromReg {
			second = reg[o.src]
		}
		switch o.do {
		case doMov:
			reg[o.dst] = second
			continue
		case doWide:
			reg[o.dst] = second
			pc++
			continue
		case doAdd:
			reg[o.dst] += second
			continue
		case doALU64:
			reg[o.dst] = alu64(o.insn.op(), reg[o.dst], second)
			continue
		case doALU32:
			reg[o.dst] = alu32(o.insn, reg[o.dst], second)
			continue
		case doSigned:
			reg[o.dst] = signedALU(o.insn, reg[o.dst], second)
			continue
		case doSwap:
			reg[o.dst] = bits.ReverseBytes64(reg[o.dst]) >> (64 - o.imm)
			continue
		case doLoadStack:
			reg[o.dst] = number(r.stack[r.depth*stackSize+int(o.to):], o.size)
			continue
		case doStoreStack:
			putNumber(r.stack[r.depth*stackSize+int(o.to):], second, o.size)
			continue
		case doLoad:
			reg[o.dst] = r.load(reg[o.src]+uint64(int64(o.to)), o.size)
		case doLoadSigned:
			reg[o.dst] = extendSign(r.load(reg[o.src]+uint64(int64(o.to)), o.size), 8*int(o.size))
		case doStore:
			r.store(reg[o.dst]+uint64(int64(o.to)), second, o.size)
		case doAtomic:
			r.atomic(&o.insn, reg[o.dst]+uint64(int64(o.to)))
		case doHelper:
			args := &r.args[r.nested]
			args[0], args[1], args[2], args[3], args[4] = reg[1], reg[2], reg[3], reg[4], reg[5]
			reg[r0] = o.helper(r, args)
		case doTailCall:
			if r.tailCall() {
				ops, pc = r.prog.ops, 0
				r.takes(ops, pc)
			}
		case doCall:
			if r.depth+1 >= maxFrames {
				r.end("the call stack is too deep")
				return
			}
			r.enter(pc)
			pc = int(o.to)
			r.takes(ops, pc)
		case doExit:
			if r.depth == base {
				return
			}
			pc = r.leave()
			continue
		default:
			if !o.jumps(reg[o.dst], second) {
				continue
			}
			if int(o.to) < pc {
				r.left -= pc - int(o.to)
			}
			pc = int(o.to)
			if r.left >= 0 {
				continue
			}
			r.end("too many instructions")
		}
		if r.fault != "" {
			return
		}
	}
}

// takes takes the instructions of a function from what is left of a run. It returns false, and the program ends, if
// there are not so many.
func (r *run) takes(ops []op, pc int) bool {
	if pc >= 0 && pc < len(ops) {
		r.left -= int(ops[pc].length)
	}
	if r.left < 0 {
		r.end("too many instructions")
	}
	return r.left >= 0
}

// jumps reports whether a jump is taken. What is no instruction jumps to where there is none.
func (o *op) jumps(first, second uint64) bool {
	switch o.do {
	case doEqual:
		return first == second
	case doNotEqual:
		return first != second
	case doAlways:
		return true
	case doJump:
		return jumps(o.insn, first, second)
	default:
	}
	return true
}

// enter begins a function, which returns to pc. Its registers r6 to r9 and its stack are new.
func (r *run) enter(pc int) {
	f := &r.frames[r.depth]
	f.pc = pc
	copy(f.saved[:], r.reg[6:10])
	r.depth++
	clear(r.stack[r.depth*stackSize : (r.depth+1)*stackSize])
	r.reg[r10] = stackBase + uint64(r.depth+1)*stackSize
}

// leave ends a function, and returns where its caller goes on.
func (r *run) leave() int {
	r.depth--
	f := &r.frames[r.depth]
	copy(r.reg[6:10], f.saved[:])
	r.reg[r10] = stackBase + uint64(r.depth+1)*stackSize
	return f.pc
}

// callback calls a function of the program at pc from a helper, with up to four arguments, and
// returns its result.
func (r *run) callback(pc int, args ...uint64) uint64 {
	if r.depth+1 >= maxFrames || r.nested >= maxNested {
		r.end("the call stack is too deep")
		return 0
	}
	saved := r.reg
	r.enter(0)
	copy(r.reg[firstArg:], args)
	r.nested++
	r.steps(pc)
	r.nested--
	if r.fault != "" {
		return 0
	}
	ret := r.reg[r0]
	r.leave()
	r.reg = saved
	return ret
}

// alu64 is a 64-bit operation. A division by 0 gives 0, and the remainder is the dividend.
func alu64(op uint8, a, b uint64) uint64 {
	switch op {
	case aluADD:
		return a + b
	case aluSUB:
		return a - b
	case aluMUL:
		return a * b
	case aluDIV:
		if b == 0 {
			return 0
		}
		return a / b
	case aluOR:
		return a | b
	case aluAND:
		return a & b
	case aluLSH:
		return a << (b & 63)
	case aluRSH:
		return a >> (b & 63)
	case aluNEG:
		return -a
	case aluMOD:
		if b == 0 {
			return a
		}
		return a % b
	case aluXOR:
		return a ^ b
	case aluARSH:
		return uint64(int64(a) >> (b & 63))
	}
	return b // aluMOV
}

// extendSign returns the number whose lower bits are n's, and the others their sign.
func extendSign(n uint64, bits int) uint64 { return uint64(int64(n<<(64-bits)) >> (64 - bits)) }

// signedALU is a move, a quotient, or a remainder that heeds the sign. A quotient that has no place is the dividend, and its
// remainder 0.
func signedALU(i insn, a, b uint64) uint64 {
	narrow := i.class() == classALU
	if i.op() == aluMOV {
		b = extendSign(b, int(i.off))
		if narrow {
			b = uint64(uint32(b))
		}
		return b
	}
	if narrow {
		a, b = extendSign(a, 32), extendSign(b, 32)
	}
	var n uint64
	switch div := i.op() == aluDIV; {
	case b == 0 && div:
	case b == 0:
		n = a
	case div:
		n = uint64(int64(a) / int64(b)) // of the least number and -1, Go gives the dividend, too
	default:
		n = uint64(int64(a) % int64(b))
	}
	if narrow {
		n = uint64(uint32(n))
	}
	return n
}

// alu32 is a 32-bit operation, or a change of the order of bytes, which clears the upper half.
func alu32(i insn, a64, b64 uint64) uint64 {
	a, b := uint32(a64), uint32(b64)
	switch i.op() {
	case aluARSH:
		return uint64(uint32(int32(a) >> (b & 31)))
	case aluLSH:
		return uint64(a << (b & 31))
	case aluRSH:
		return uint64(a >> (b & 31))
	case aluEND:
		return endian(i, a64)
	}
	return uint64(uint32(alu64(i.op(), uint64(a), uint64(b))))
}

// endian is BPF_END: to little endian it only cuts off, to big endian it swaps.
func endian(i insn, v uint64) uint64 {
	swap := i.fromRegister()
	switch i.imm {
	case 16:
		if swap {
			return uint64(bits.ReverseBytes16(uint16(v)))
		}
		return uint64(uint16(v))
	case 32:
		if swap {
			return uint64(bits.ReverseBytes32(uint32(v)))
		}
		return uint64(uint32(v))
	}
	if swap {
		return bits.ReverseBytes64(v)
	}
	return v
}

// jumps reports whether the condition of a jump holds.
func jumps(i insn, a, b uint64) bool {
	sa, sb := int64(a), int64(b)
	if i.class() == classJMP32 {
		a, b, sa, sb = uint64(uint32(a)), uint64(uint32(b)), int64(int32(a)), int64(int32(b))
	}
	switch i.op() {
	case jmpJEQ:
		return a == b
	case jmpJGT:
		return a > b
	case jmpJGE:
		return a >= b
	case jmpJSET:
		return a&b != 0
	case jmpJNE:
		return a != b
	case jmpJSGT:
		return sa > sb
	case jmpJSGE:
		return sa >= sb
	case jmpJLT:
		return a < b
	case jmpJLE:
		return a <= b
	case jmpJSLT:
		return sa < sb
	}
	return sa <= sb // jmpJSLE
}

// atomic is an atomic operation on memory. Programs run one at a time, so nothing comes between.
func (r *run) atomic(i *insn, addr uint64) {
	n := uint8(i.size())
	old := r.load(addr, n)
	if r.fault != "" {
		return
	}
	src := r.reg[i.src]
	var v uint64
	switch i.imm {
	case atomicXCHG:
		v = src
	case atomicCMPXCHG:
		v = old
		want := r.reg[r0]
		if n == 4 {
			want = uint64(uint32(want))
		}
		if old == want {
			v = src
		}
		r.store(addr, v, n)
		r.reg[r0] = old
		return
	default:
		v = alu64(uint8(i.imm)&^atomicFetch, old, src)
	}
	r.store(addr, v, n)
	if i.imm&atomicFetch != 0 {
		r.reg[i.src] = old
	}
}

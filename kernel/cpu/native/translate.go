package native

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// A translator makes host instructions of one block.
//
// BP points to the CPU, R14 holds the instructions left, AX, CX and DX are free.
// Ten of the guest's registers are in the host's, the others in State.R. The
// guest's flags are where the instruction that set them left them, in the host's
// flags, until something else needs these; then they are in Aside.Flags, as lahf and
// seto give them. They are exact wherever the code can be left: at the block's
// beginning and end, at each branch and at each instruction that may fault.
type translator struct {
	emit.Code

	insts  []decode.Inst
	end    uint64 // the address behind them
	block  uint32 // number
	n      int64  // instructions that entering the block takes from R14
	live   []bool // by instruction: the flags before it are needed
	runs   map[int]stackRun
	inRun  []bool // by instruction: it is in a run, after its first
	inHost bool   // the flags are in the host's
	inMem  bool   // and in Aside.Flags
	fix    uint8  // what must be put right when host flags are saved

	slot                int // of the next access
	fillRead, fillWrite int // where the common routines are

	stubs  []stub
	misses []tlbMiss
	others []otherTarget
	sites  []site
	calls  []call32
}

// call32 is a call of a routine outside of the block's code.
type call32 struct{ pos, to int }

// A stub is code out of the way, to which a jump leads.
type stub struct {
	pos    int    // of the jump's distance
	exit   uint32 // what the code returns with
	add    int64  // to R14
	save   bool   // the flags
	fix    uint8
	branch bool // it leads to another block
}

// A site is a jump to another block, once that is known.
type site struct {
	inst int    // index of the branch in the block
	to   uint64 // the block's address
	pos  int    // of the jump's distance
	exit int    // where it leads as long as the target is not known
}

const slotSize = int32(unsafe.Sizeof(core.Slot{}))

// Values of translator.fix.
const (
	fixNone = iota
	fixAF   // AF is undefined: 0
)

// hostReg says where the guest's registers are; SP: in memory.
var hostReg = [16]emit.Reg{
	emit.BX, emit.SI, emit.DI, emit.R8, emit.R9, emit.R10, emit.R11, emit.R12,
	emit.R13, emit.R15, emit.SP, emit.SP, emit.SP, emit.SP, emit.SP, emit.SP,
}

// Conditions of jumps.
const (
	ccAE = 3
	ccE  = 4
	ccNE = 5
	ccL  = 12
)

const (
	offNF     = int32(unsafe.Offsetof(core.CPU{}.Aside) + unsafe.Offsetof(core.Aside{}.Flags))
	offTmp    = int32(unsafe.Offsetof(core.CPU{}.Aside) + unsafe.Offsetof(core.Aside{}.Tmp))
	offTmp2   = offTmp + 8
	offResume = int32(unsafe.Offsetof(core.CPU{}.Aside) + unsafe.Offsetof(core.Aside{}.Resume))
	offNJC    = int32(unsafe.Offsetof(core.CPU{}.Aside) + unsafe.Offsetof(core.Aside{}.Targets))
	offRTLB   = int32(unsafe.Offsetof(core.CPU{}.TLB) + unsafe.Offsetof(core.TLB{}.Read))
	offWTLB   = int32(unsafe.Offsetof(core.CPU{}.TLB) + unsafe.Offsetof(core.TLB{}.Write))
	offRSlots = int32(unsafe.Offsetof(core.CPU{}.TLB) + unsafe.Offsetof(core.TLB{}.ReadSlots))
	offWSlots = int32(unsafe.Offsetof(core.CPU{}.TLB) + unsafe.Offsetof(core.TLB{}.WriteSlots))
	offRIP    = int32(unsafe.Offsetof(core.State{}.RIP))
	offRF     = int32(unsafe.Offsetof(core.State{}.RFlags))
)

// state is a word of the CPU.
func state(off int32) emit.Arg { return emit.M(emit.BP, off) }

// loc is where guest register g is, also decode.RegFS and RegGS.
func loc(g uint8) emit.Arg {
	if g < 16 && hostReg[g] != emit.SP {
		return emit.R(hostReg[g])
	}
	return state(8 * int32(g))
}

// in gives a host register that holds g; it may be free, which it then is.
func (t *translator) in(g uint8, free emit.Reg) emit.Reg {
	if g < 16 && hostReg[g] != emit.SP {
		return hostReg[g]
	}
	t.Op(8, 0x8b, free, loc(g))
	return free
}

// out gives the host register for a result in g.
func out(g uint8) emit.Reg {
	if h := hostReg[g]; h != emit.SP {
		return h
	}
	return emit.DX
}

// done puts a result that out's register holds where it belongs.
func (t *translator) done(g uint8) {
	if hostReg[g] == emit.SP {
		t.Op(8, 0x89, emit.DX, loc(g))
	}
}

// save puts the host's flags into Aside.Flags if they are not there and are needed.
func (t *translator) save() {
	if t.inHost && !t.inMem {
		t.saveFlags(t.fix)
		t.inMem = true
	}
}

func (t *translator) saveFlags(fix uint8) {
	t.Bytes(0x9f, 0x0f, 0x90, 0xc0) // lahf; seto %al
	if fix == fixAF {
		t.Bytes(0x80, 0xe4, 0xef) // and $0xef,%ah
	}
	t.Op(2, 0x89, emit.AX, state(offNF))
}

// spoil says that the host's flags are about to be lost.
func (t *translator) spoil() {
	t.save()
	t.inHost = false
}

// host puts the guest's flags into the host's. It uses AX.
func (t *translator) host() {
	if t.inHost {
		return
	}
	t.Op(4, 0x0fb7, emit.AX, state(offNF))
	t.Bytes(0x04, 0x7f, 0x9e) // add $0x7f,%al; sahf
	t.inHost, t.inMem, t.fix = true, true, fixNone
}

// set says that instruction i has put the guest's flags into the host's.
func (t *translator) set(i int, fix uint8) {
	t.inHost, t.inMem, t.fix = t.live[i+1], false, fix
}

// slowIf leaves the block for instruction i on condition cc.
func (t *translator) slowIf(cc uint8, i int) {
	t.stubs = append(t.stubs, stub{pos: t.Jcc(cc), exit: t.exit(Slow, i)})
}

func (t *translator) exit(kind uint32, i int) uint32 { return t.block<<exitBlocks | kind | uint32(i) }

// address sets AX to the guest's address of o's memory operand. It leaves the host's
// flags, and uses CX and DX.
func (t *translator) address(o *decode.Inst) {
	fits := o.Disp == uint64(int64(int32(o.Disp)))
	disp := int32(o.Disp)
	if !fits {
		disp = 0
	}
	base, index := o.Base, o.Index
	switch {
	case base == decode.RegZero && index == decode.RegZero:
		t.MovImm(emit.AX, o.Disp)
		fits = true
	case base == decode.RegZero:
		t.Op(8, 0x8d, emit.AX, emit.Abs(t.in(index, emit.CX), o.Scale, disp))
	case index == decode.RegZero:
		t.Op(8, 0x8d, emit.AX, emit.M(t.in(base, emit.AX), disp))
	default:
		b, x := t.in(base, emit.AX), t.in(index, emit.CX)
		t.Op(8, 0x8d, emit.AX, emit.X(b, x, o.Scale, disp))
	}
	if !fits {
		t.MovImm(emit.DX, o.Disp)
		t.Op(8, 0x8d, emit.AX, emit.X(emit.AX, emit.DX, 0, 0))
	}
	if o.Seg != decode.RegZero && o.Code != decode.LEA {
		t.Op(8, 0x8b, emit.CX, loc(o.Seg))
		t.Op(8, 0x8d, emit.AX, emit.X(emit.AX, emit.CX, 0, 0))
	}
}

// check turns the guest's address in AX into the host's, for w bytes; if they are
// not in the TLB, or in two pages, instruction i is left to the interpreter. The flags are
// saved. It uses CX and DX.
func (t *translator) check(i int, w uint64, write bool) {
	t.inHost = false
	slots, fill := offRSlots, &t.fillRead
	if write {
		slots, fill = offWSlots, &t.fillWrite
	}
	slot := slots + slotSize*int32(t.slot&core.SlotMask)
	t.slot++
	t.Op(8, 0x8b, emit.DX, emit.R(emit.AX))
	t.Op(8, 0x2b, emit.DX, state(slot))
	t.Op(8, 0x3b, emit.DX, state(slot+16))
	miss := tlbMiss{pos: [2]int{t.Jcc(ccAE)}, fill: *fill, slot: slot, last: int32(w - 1), exit: t.exit(Slow, i)}
	if w > 8 { // the last word, too
		t.Op(8, 0x8d, emit.DX, emit.M(emit.DX, int32(w-8)))
		t.Op(8, 0x3b, emit.DX, state(slot+16))
		miss.pos[1] = t.Jcc(ccAE)
	}
	miss.back = t.Len()
	t.misses = append(t.misses, miss)
	t.Op(8, 0x03, emit.AX, state(slot+8))
}

// A tlbMiss is a page that is not the one that an access used last: the TLB has
// it, or the interpreter looks for it.
type tlbMiss struct {
	pos  [2]int // of the jumps, the second 0 if there is one only
	back int    // where they come from
	fill int    // which of the common routines
	slot int32
	last int32 // byte of the access
	exit uint32
}

func (t *translator) miss(m *tlbMiss) {
	t.Here(m.pos[0])
	if m.pos[1] != 0 {
		t.Here(m.pos[1])
	}
	t.MovImm(emit.CX, uint64(m.slot))
	t.Op(8, 0x8d, emit.DX, emit.M(emit.AX, m.last))
	t.pageOfDX()
	t.Bytes(0xe8) // call
	t.Imm32(0)
	t.calls = append(t.calls, call32{t.Len() - 4, m.fill})
	slow := t.Jcc(ccNE)
	t.To(t.Jmp(), m.back)
	t.Here(slow)
	t.returnWith(m.exit)
}

// pageOfDX makes an address in DX that of its page.
func (t *translator) pageOfDX() {
	t.Op(8, 0x81, 4, emit.R(emit.DX)) // and $-4096,%rdx
	t.Imm32(0xfffff000)
}

// fillSlot makes the routine that copies the TLB's entry for address AX, whose last
// byte is in page DX, to slot CX; it answers with ZF whether there is one.
func fillSlot(tlb int32) []byte {
	var t translator
	t.Op(8, 0x89, emit.CX, state(offTmp2))
	t.Op(4, 0x8b, emit.CX, emit.R(emit.AX))
	t.Op(4, 0xc1, 5, emit.R(emit.CX)) // shr $8,%ecx
	t.Bytes(8)
	t.Op(4, 0x81, 4, emit.R(emit.CX)) // and $0xff0,%ecx
	t.Imm32(core.PageMask << 4)
	t.Op(8, 0x03, emit.CX, state(tlb))
	t.Op(8, 0x3b, emit.DX, emit.M(emit.CX, 0))
	first := t.Jcc(ccE)
	t.Op(8, 0x81, 6, emit.R(emit.CX)) // xor: the other place, since Pages is aligned to its size
	t.Imm32(core.SecondPlace << 4)
	t.Op(8, 0x3b, emit.DX, emit.M(emit.CX, 0))
	no := t.Jcc(ccNE)
	t.Here(first)
	t.Op(8, 0x8b, emit.DX, emit.M(emit.CX, 8))
	t.Op(8, 0x8b, emit.CX, state(offTmp2)) // an xchg would lock
	t.Op(8, 0x89, emit.DX, emit.X(emit.BP, emit.CX, 0, 8))
	t.Op(8, 0x8b, emit.DX, emit.R(emit.AX))
	t.pageOfDX()
	t.Op(8, 0x89, emit.DX, emit.X(emit.BP, emit.CX, 0, 0))
	t.Op(8, 0xc7, 0, emit.X(emit.BP, emit.CX, 0, 16))
	t.Imm32(core.SlotLimit)
	t.Op(4, 0x39, emit.AX, emit.R(emit.AX)) // cmp: ZF
	t.Here(no)
	t.Bytes(0xc3)
	return t.B
}

// operand makes AX the host's address of o's memory operand.
func (t *translator) operand(i int, o *decode.Inst, w uint64, write bool) emit.Arg {
	t.save()
	t.address(o)
	t.check(i, w, write)
	return emit.M(emit.AX, 0)
}

// aligned is operand of a locked instruction.
func (t *translator) aligned(i int, o *decode.Inst) emit.Arg {
	t.spoil()
	t.address(o)
	t.Bytes(0xa8, o.W-1) // test $w-1,%al
	t.slowIf(ccNE, i)
	t.check(i, uint64(o.W), true)
	return emit.M(emit.AX, 0)
}

// translate makes the code of a block; false: its first instruction cannot be
// translated.
func (t *translator) translate(rip uint64, insts []decode.Inst) bool {
	if formOf(&insts[0]) == nil {
		return false
	}
	t.insts, t.end, t.inMem = insts, rip, true
	for i := range insts {
		t.end += uint64(insts[i].Len)
		if insts[i].Code != decode.FETCH {
			t.n++
		}
	}
	t.findRuns()
	t.liveness()
	t.Op(8, 0x81, 5, emit.R(emit.R14)) // sub $n,%r14
	t.Imm32(uint32(t.n))
	t.stubs = append(t.stubs, stub{pos: t.Jcc(ccL), exit: t.exit(NoLeft, 0), add: t.n})
	for i := 0; i < len(insts); i++ {
		if r, ok := t.runs[i]; ok {
			t.run(i, r)
			i += r.n - 1
			continue
		}
		f := formOf(&insts[i])
		if f == nil {
			t.leave(i)
			break
		}
		f(t, i, &insts[i])
	}
	t.finish()
	return true
}

// event leaves the code behind instruction i, a vmcall or int3, for others to answer it; the
// code goes on behind a vmcall.
func (t *translator) event(i int, o *decode.Inst) {
	t.spoil()
	t.giveBack(t.rest(i))
	t.store(state(offRIP), o.Disp)
	if o.Code == decode.INT {
		t.returnWith(t.exit(Breakpoint, i))
		return
	}
	resume := t.Lea(emit.CX)
	t.Op(8, 0x89, emit.CX, state(offResume))
	t.returnWith(t.exit(Hypercall, i))
	t.Here(resume)
	t.giveBack(-t.rest(i))
	t.inMem = true
}

// store stores a constant. It uses CX.
func (t *translator) store(m emit.Arg, v uint64) {
	if v == uint64(int64(int32(v))) {
		t.Op(8, 0xc7, 0, m)
		t.Imm32(uint32(v))
		return
	}
	t.MovImm(emit.CX, v)
	t.Op(8, 0x89, emit.CX, m)
}

// leave ends the code before instruction i.
func (t *translator) leave(i int) {
	t.save()
	t.returnWith(t.exit(Slow, i))
}

// returnWith leaves translated code with an exit.
func (t *translator) returnWith(exit uint32) {
	t.MovImm(emit.AX, uint64(exit))
	t.Bytes(0xc3)
}

// finish makes the stubs.
func (t *translator) finish() {
	for _, s := range t.stubs {
		t.Here(s.pos)
		if s.save {
			t.saveFlags(s.fix)
		}
		if s.branch {
			t.chain(int(s.exit&exitInst), s.add)
			continue
		}
		t.giveBack(s.add)
		t.returnWith(s.exit)
	}
	for i := range t.misses {
		t.miss(&t.misses[i])
	}
	for i := range t.others {
		t.other(&t.others[i])
	}
}

func (t *translator) giveBack(n int64) {
	if n != 0 {
		t.Op(8, 0x81, 0, emit.R(emit.R14))
		t.Imm32(uint32(n))
	}
}

// chain goes on where branch instruction i leads; the flags are saved.
func (t *translator) chain(i int, add int64) {
	t.giveBack(add)
	pos := t.JmpAligned()
	t.Here(pos)
	t.sites = append(t.sites, site{inst: i, to: t.insts[i].Imm, pos: pos, exit: t.Len()})
	t.returnWith(t.exit(Branch, i))
}

// rest is how many instructions of the block come after instruction i.
func (t *translator) rest(i int) int64 { return max(0, t.n-int64(i)-1) }

// liveness finds where the flags are needed.
func (t *translator) liveness() {
	t.live = make([]bool, len(t.insts)+1)
	l := true
	t.live[len(t.insts)] = true
	for i := len(t.insts) - 1; i >= 0; i-- {
		o := &t.insts[i]
		if setsFlags(o) {
			l = false
		}
		if readsFlags(o) || mayLeave(o) && !t.inRun[i] {
			l = true
		}
		t.live[i] = l
	}
}

// setsFlags says whether o sets all status flags, whatever they were.
func setsFlags(o *decode.Inst) bool {
	switch o.Code {
	case decode.SHL, decode.SAL, decode.SHR, decode.SAR:
		return o.Form&decode.SrcImm != 0 && o.Imm != 0
	case decode.SHLD, decode.SHRD: // the count may be 0
		return false
	}
	return decode.PropertiesOf(o.Code).Writes == decode.Status
}

func readsFlags(o *decode.Inst) bool { return decode.PropertiesOf(o.Code).Reads != 0 }

// mayLeave says whether the code can be left at o.
func mayLeave(o *decode.Inst) bool {
	switch o.Code {
	case decode.DIV, decode.PUSH, decode.POP, decode.PUSHF, decode.POPF, decode.LEAVE, decode.JMP, decode.JCC, decode.CALL, decode.RET, decode.FETCH, decode.VMCALL, decode.INT:
		return true
	}
	return o.Form&decode.HasMem != 0 && o.Code != decode.LEA && o.Code != decode.NOP || !Translatable(o)
}

// An emitter translates instruction i, which is o.
type emitter func(t *translator, i int, o *decode.Inst)

// Translatable says whether translated code can execute o.
func Translatable(o *decode.Inst) bool { return formOf(o) != nil }

// formOf is how o is translated; nil: it is not, the interpreter executes it.
func formOf(o *decode.Inst) emitter {
	if o.Flags&(decode.Addr32|decode.VEX) != 0 || o.A >= decode.RegHigh || o.B >= decode.RegHigh {
		return nil
	}
	if o.Flags&decode.Locked != 0 || o.Code == decode.XCHG && o.Form&decode.DstMem != 0 || o.Code == decode.CMPXCHG || o.Code == decode.XADD {
		return lockedTranslation(o)
	}
	switch o.Code {
	case decode.NOP:
		return func(*translator, int, *decode.Inst) {}
	case decode.MOV:
		return (*translator).mov
	case decode.MOVZX, decode.MOVSX:
		if o.W >= 4 {
			return (*translator).extend
		}
	case decode.LEA:
		if o.W >= 4 {
			return (*translator).lea
		}
	case decode.ADD, decode.OR, decode.AND, decode.SUB, decode.XOR, decode.CMP, decode.TEST:
		return (*translator).alu
	case decode.ADC, decode.SBB:
		if o.Form&decode.DstMem == 0 {
			return (*translator).alu
		}
	case decode.INC, decode.DEC, decode.NEG, decode.NOT:
		return (*translator).unary
	case decode.SHL, decode.SAL, decode.SHR, decode.SAR:
		if o.Form&decode.DstMem == 0 && o.W >= 4 {
			if o.Form&decode.ByCL != 0 {
				return (*translator).shiftCL
			}
			return (*translator).shift
		}
	case decode.ROL, decode.ROR:
		if o.Form&decode.DstMem == 0 && o.W >= 4 && o.Form&decode.SrcImm != 0 && o.Imm != 0 {
			return (*translator).rotate
		}
	case decode.IMUL:
		if o.W >= 4 {
			return (*translator).imul
		}
	case decode.MUL, decode.IMUL1:
		if o.W >= 4 {
			return (*translator).mul
		}
	case decode.DIV:
		if o.W >= 4 && o.Form&decode.HasMem == 0 {
			return (*translator).div
		}
	case decode.BT, decode.BTS, decode.BTR, decode.BTC:
		if o.Form&decode.HasMem == 0 && o.W >= 4 {
			return (*translator).bitTest
		}
	case decode.POPCNT:
		if o.W >= 4 {
			return (*translator).popcnt
		}
	case decode.BSWAP:
		if o.W >= 4 {
			return (*translator).bswap
		}
	case decode.CBW:
		if o.W >= 4 {
			return (*translator).cbw
		}
	case decode.CWD:
		if o.W >= 4 {
			return (*translator).cwd
		}
	case decode.SETCC:
		return (*translator).setcc
	case decode.CMOV:
		if o.W >= 4 {
			return (*translator).cmov
		}
	case decode.XCHG:
		if o.W >= 4 {
			return (*translator).xchgReg
		}
	case decode.PUSH, decode.POP, decode.PUSHF, decode.POPF, decode.LEAVE:
		return stackForm(o)
	case decode.CLD:
		return (*translator).cld
	case decode.CLI:
		return (*translator).cli
	case decode.JMP, decode.JCC, decode.CALL, decode.RET, decode.FETCH:
		return branchForm(o)
	case decode.VMCALL:
		return (*translator).event
	case decode.INT:
		if o.Imm == abi.VecBP {
			return (*translator).event
		}
	}
	return nil
}

func stackForm(o *decode.Inst) emitter {
	if o.W != 8 {
		return nil
	}
	switch o.Code {
	case decode.PUSH:
		return (*translator).push
	case decode.POP:
		if o.Form&decode.DstMem == 0 {
			return (*translator).pop
		}
	case decode.PUSHF:
		return (*translator).pushf
	case decode.POPF:
		return (*translator).popf
	case decode.LEAVE:
		return (*translator).leaveFrame
	}
	return nil
}

func branchForm(o *decode.Inst) emitter {
	if o.Form&decode.Indirect == 0 && o.Code != decode.RET && !mem.Canonical(o.Imm) {
		return nil
	}
	switch o.Code {
	case decode.JCC:
		return (*translator).jcc
	case decode.JMP, decode.FETCH:
		if o.Form&decode.Indirect != 0 {
			return (*translator).jmpTo
		}
		return (*translator).jmp
	case decode.CALL:
		if o.Form&decode.Indirect != 0 {
			return (*translator).callTo
		}
		return (*translator).call
	}
	return (*translator).ret
}

// opcode is the form of an opcode for a width: its lowest bit says byte or not.
func opcode(op uint32, w uint8) uint32 {
	if w == 1 {
		return op &^ 1
	}
	return op | 1
}

func (t *translator) mov(i int, o *decode.Inst) {
	switch {
	case o.Form&decode.DstMem != 0 && o.Form&decode.SrcImm != 0:
		m := t.operand(i, o, uint64(o.W), true)
		t.Op(o.W, opcode(0xc7, o.W), 0, m)
		t.Imm(o.Imm, o.W)
	case o.Form&decode.DstMem != 0:
		m := t.operand(i, o, uint64(o.W), true)
		t.Op(o.W, opcode(0x89, o.W), t.in(o.B, emit.DX), m)
	case o.Form&decode.SrcImm != 0 && o.W >= 4:
		r := out(o.A)
		t.MovImm(r, o.Imm&decode.Mask(o.W))
		t.done(o.A)
	case o.Form&decode.SrcImm != 0:
		t.Op(o.W, opcode(0xc7, o.W), 0, loc(o.A))
		t.Imm(o.Imm, o.W)
	case o.Form&decode.SrcMem != 0:
		t.load(o.A, o.W, t.operand(i, o, uint64(o.W), false))
	default:
		t.load(o.A, o.W, loc(o.B))
	}
}

// load moves w bytes at m to guest register g.
func (t *translator) load(g, w uint8, m emit.Arg) {
	if w >= 4 {
		t.Op(w, 0x8b, out(g), m)
		t.done(g)
		return
	}
	if hostReg[g] == emit.SP {
		t.Op(w, opcode(0x8b, w), emit.DX, m)
		t.Op(w, opcode(0x89, w), emit.DX, loc(g))
		return
	}
	t.Op(w, opcode(0x8b, w), hostReg[g], m)
}

func (t *translator) extend(i int, o *decode.Inst) {
	from := uint8(o.Imm)
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(from), false)
	}
	r := out(o.A)
	switch {
	case from == 4 && o.Code == decode.MOVSX && o.W == 8:
		t.Op(8, 0x63, r, m)
	case from == 4:
		t.Op(4, 0x8b, r, m)
	default:
		code := uint32(0x0fb6)
		if o.Code == decode.MOVSX {
			code = 0x0fbe
		}
		if from == 2 {
			code++
			t.Op(o.W, code, r, m)
		} else {
			t.OpByteRM(o.W, code, r, m)
		}
	}
	t.done(o.A)
}

func (t *translator) lea(_ int, o *decode.Inst) {
	r := out(o.A)
	if o.Base == decode.RegZero && o.Index == decode.RegZero {
		t.MovImm(r, o.Disp&decode.Mask(o.W))
	} else if o.Disp == uint64(int64(int32(o.Disp))) && o.Base != decode.RegZero {
		b := t.in(o.Base, emit.AX)
		if o.Index == decode.RegZero {
			t.Op(o.W, 0x8d, r, emit.M(b, int32(o.Disp)))
		} else {
			t.Op(o.W, 0x8d, r, emit.X(b, t.in(o.Index, emit.CX), o.Scale, int32(o.Disp)))
		}
	} else {
		t.address(o)
		t.Op(o.W, 0x8b, r, emit.R(emit.AX))
	}
	t.done(o.A)
}

// alu is add, or, adc, sbb, and, sub, xor, cmp and test.
func (t *translator) alu(i int, o *decode.Inst) {
	rmReg := uint32(o.Code)<<3 | 3 // op reg, r/m
	regRM := uint32(o.Code)<<3 | 1 // op r/m, reg
	test := o.Code == decode.TEST
	if test {
		rmReg, regRM = 0x85, 0x85
	}
	writes := !test && o.Code != decode.CMP
	carry := o.Code == decode.ADC || o.Code == decode.SBB
	switch {
	case o.Form&decode.DstMem != 0:
		m := t.operand(i, o, uint64(o.W), writes)
		if o.Form&decode.SrcImm != 0 {
			t.aluImm(o, m)
		} else {
			t.Op(o.W, opcode(regRM, o.W), t.in(o.B, emit.DX), m)
		}
	case o.Form&decode.SrcMem != 0:
		m := t.operand(i, o, uint64(o.W), false)
		if carry {
			t.Op(8, 0x8b, emit.CX, emit.R(emit.AX))
			t.host()
			m = emit.M(emit.CX, 0)
		}
		r := t.in(o.A, emit.DX)
		t.Op(o.W, opcode(rmReg, o.W), r, m)
		if writes {
			t.done(o.A)
		}
	default:
		if carry {
			t.host()
		}
		r := t.in(o.A, emit.DX)
		if o.Form&decode.SrcImm != 0 {
			t.aluImm(o, emit.R(r))
		} else {
			t.Op(o.W, opcode(rmReg, o.W), r, loc(o.B))
		}
		if writes {
			t.done(o.A)
		}
	}
	t.set(i, fixNone)
}

// aluImm is alu with an immediate.
func (t *translator) aluImm(o *decode.Inst, m emit.Arg) {
	if o.Code == decode.TEST {
		t.Op(o.W, opcode(0xf7, o.W), 0, m)
		t.Imm(o.Imm, o.W)
		return
	}
	if o.W > 1 && o.Imm == uint64(int64(int8(o.Imm))) {
		t.Op(o.W, 0x83, emit.Reg(o.Code), m)
		t.Bytes(byte(o.Imm))
		return
	}
	t.Op(o.W, opcode(0x81, o.W), emit.Reg(o.Code), m)
	t.Imm(o.Imm, o.W)
}

// unary is inc, dec, neg and not. The first two leave CF as it is.
func (t *translator) unary(i int, o *decode.Inst) {
	code, ext := uint32(0xff), emit.Reg(o.Code-decode.INC)
	if o.Code == decode.NOT || o.Code == decode.NEG {
		code, ext = 0xf7, 2+emit.Reg(o.Code-decode.NOT)
	}
	m := emit.Arg{}
	if o.Form&decode.DstMem != 0 {
		if o.Flags&decode.Locked != 0 {
			t.aligned(i, o)
		} else {
			t.operand(i, o, uint64(o.W), true)
		}
		t.Op(8, 0x8b, emit.CX, emit.R(emit.AX))
		m = emit.M(emit.CX, 0)
	}
	if code == 0xff && t.live[i+1] {
		t.host()
	}
	if o.Form&decode.DstMem != 0 {
		t.prefixed(o, opcode(code, o.W), ext, m)
	} else {
		t.Op(o.W, opcode(code, o.W), ext, emit.R(t.in(o.A, emit.DX)))
		t.done(o.A)
	}
	if o.Code != decode.NOT {
		t.set(i, fixNone)
	}
}

// prefixed is Op, with LOCK if o has it.
func (t *translator) prefixed(o *decode.Inst, code uint32, reg emit.Reg, m emit.Arg) {
	if o.Flags&decode.Locked != 0 {
		t.OpPrefix(0xf0, o.W, code, reg, m)
		return
	}
	t.Op(o.W, code, reg, m)
}

// shiftExt is the opcode's extension of rol to sar.
func shiftExt(o *decode.Inst) emit.Reg { return emit.Reg(o.Code - decode.ROL) }

// shiftBy shifts or rotates r by the immediate of instruction i. OF is defined after a shift by one
// only: where flags are needed, the last bit is shifted by itself.
func (t *translator) shiftBy(i int, o *decode.Inst, r emit.Reg) {
	n := byte(o.Imm)
	if t.live[i+1] && n > 1 {
		t.Op(o.W, 0xc1, shiftExt(o), emit.R(r))
		t.Bytes(n - 1)
		n = 1
	}
	t.Op(o.W, 0xc1, shiftExt(o), emit.R(r))
	t.Bytes(n)
}

// shift is by an immediate.
func (t *translator) shift(i int, o *decode.Inst) {
	r := t.in(o.A, emit.DX)
	if o.Imm == 0 {
		t.Op(o.W, 0x8b, r, emit.R(r))
		t.done(o.A)
		return
	}
	t.shiftBy(i, o, r)
	t.done(o.A)
	t.set(i, fixAF)
}

// shiftCL is by CL, which may be 0: then the flags stay.
func (t *translator) shiftCL(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	t.Op(4, 0x8b, emit.CX, loc(1))
	if !t.live[i+1] {
		t.Op(o.W, 0xd3, shiftExt(o), emit.R(r))
		t.done(o.A)
		return
	}
	if o.W == 4 {
		t.Op(4, 0x8b, r, emit.R(r))
	}
	t.Bytes(0x83, 0xe1, 8*o.W-1) // and $n,%ecx
	skip := t.Jcc(ccE)
	t.Bytes(0xff, 0xc9) // dec %ecx
	t.Op(o.W, 0xd3, shiftExt(o), emit.R(r))
	t.Op(o.W, 0xd1, shiftExt(o), emit.R(r))
	t.saveFlags(fixAF)
	t.Here(skip)
	t.done(o.A)
}

// rotate is by an immediate; it sets CF and OF.
func (t *translator) rotate(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	t.shiftBy(i, o, r)
	t.done(o.A)
	if !t.live[i+1] {
		return
	}
	t.Bytes(0x0f, 0x90, 0xc0) // seto %al
	t.mergeCF()
	t.Op(1, 0x88, emit.AX, state(offNF))
}

// mergeCF puts the host's CF into Aside.Flags, whose other flags stay. It uses CX.
func (t *translator) mergeCF() {
	t.Bytes(0x0f, 0x92, 0xc1) // setb %cl
	t.Op(1, 0x80, 4, state(offNF+1))
	t.Bytes(0xfe)
	t.Op(1, 0x08, emit.CX, state(offNF+1))
}

// imul is the one with two or three operands.
func (t *translator) imul(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(o.W), false)
	}
	if o.Form&decode.ThreeOp != 0 {
		t.Op(o.W, 0x69, out(o.A), m)
		t.Imm32(uint32(o.Imm))
	} else {
		t.Op(o.W, 0x0faf, t.in(o.A, emit.DX), m)
	}
	t.done(o.A)
	t.product(i, o.W, out(o.A))
}

// product makes the flags of a product, of which r is the lower half.
func (t *translator) product(i int, w uint8, r emit.Reg) {
	t.set(i, fixNone)
	if !t.live[i+1] {
		return
	}
	t.Bytes(0x0f, 0x90, 0xc1) // seto %cl
	t.Op(w, 0x85, r, emit.R(r))
	t.Bytes(0x9f, 0x80, 0xe4, 0xef, 0x08, 0xcc, 0x88, 0xc8) // lahf; and $0xef,%ah; or %cl,%ah; mov %cl,%al
	t.Op(2, 0x89, emit.AX, state(offNF))
	t.inHost, t.inMem = false, true
}

// mul is mul and imul with one operand.
func (t *translator) mul(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		t.operand(i, o, uint64(o.W), false)
		t.Op(8, 0x8b, emit.CX, emit.R(emit.AX))
		m = emit.M(emit.CX, 0)
	}
	t.Op(8, 0x8b, emit.AX, loc(0))
	ext := emit.Reg(4)
	if o.Code == decode.IMUL1 {
		ext = 5
	}
	t.Op(o.W, 0xf7, ext, m)
	t.Op(o.W, 0x8b, hostReg[0], emit.R(emit.AX))
	t.Op(o.W, 0x8b, hostReg[2], emit.R(emit.DX))
	t.product(i, o.W, hostReg[0])
}

// div is for what is no more than one word: the others are left to the
// interpreter, with what divides by 0.
func (t *translator) div(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.B, emit.CX)
	t.Op(o.W, 0x85, r, emit.R(r))
	t.slowIf(ccE, i)
	t.Op(o.W, 0x85, hostReg[2], emit.R(hostReg[2]))
	t.slowIf(ccNE, i)
	t.Op(o.W, 0x8b, emit.AX, loc(0))
	t.Bytes(0x31, 0xd2) // xor %edx,%edx
	t.Op(o.W, 0xf7, 6, emit.R(r))
	t.Op(o.W, 0x8b, hostReg[0], emit.R(emit.AX))
	t.Op(o.W, 0x8b, hostReg[2], emit.R(emit.DX))
}

// bitTest sets CF.
func (t *translator) bitTest(i int, o *decode.Inst) {
	t.spoil()
	r := t.in(o.A, emit.DX)
	if o.Form&decode.SrcImm != 0 {
		t.Op(o.W, 0x0fba, 4+emit.Reg(o.Code-decode.BT), emit.R(r))
		t.Bytes(byte(o.Imm))
	} else {
		t.Op(o.W, 0x0fa3+uint32(o.Code-decode.BT)<<3, t.in(o.B, emit.AX), emit.R(r))
	}
	if o.Code != decode.BT {
		t.done(o.A)
	}
	if t.live[i+1] {
		t.mergeCF()
	}
}

func (t *translator) popcnt(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		m = t.operand(i, o, uint64(o.W), false)
	}
	t.OpPrefix(0xf3, o.W, 0x0fb8, out(o.A), m)
	t.done(o.A)
	t.set(i, fixNone)
}

func (t *translator) bswap(_ int, o *decode.Inst) {
	r := t.in(o.A, emit.DX)
	t.Bswap(o.W, r)
	t.done(o.A)
}

func (t *translator) cbw(_ int, o *decode.Inst) {
	if o.W == 8 {
		t.Op(8, 0x63, hostReg[0], loc(0))
		return
	}
	t.Op(4, 0x0fbf, hostReg[0], loc(0))
}

func (t *translator) cwd(_ int, o *decode.Inst) {
	t.Op(8, 0x8b, emit.AX, loc(0))
	if o.W == 8 {
		t.Bytes(0x48)
	}
	t.Bytes(0x99)
	t.Op(o.W, 0x8b, hostReg[2], emit.R(emit.DX))
}

func (t *translator) setcc(i int, o *decode.Inst) {
	set := 0x0f90 | uint32(o.Imm&15)
	t.host()
	if o.Form&decode.DstMem == 0 {
		t.Op(1, set, 0, loc(o.A))
		return
	}
	t.Op(1, set, 0, state(offTmp))
	m := t.operand(i, o, 1, true)
	t.Op(1, 0x8a, emit.CX, state(offTmp))
	t.Op(1, 0x88, emit.CX, m)
}

func (t *translator) cmov(i int, o *decode.Inst) {
	m := loc(o.B)
	if o.Form&decode.SrcMem != 0 {
		t.Op(o.W, 0x8b, emit.CX, t.operand(i, o, uint64(o.W), false))
		m = emit.R(emit.CX)
	}
	t.host()
	t.Op(o.W, 0x0f40|uint32(o.Imm&15), t.in(o.A, emit.DX), m)
	t.done(o.A)
}

func (t *translator) xchgReg(_ int, o *decode.Inst) {
	t.Op(o.W, 0x8b, emit.AX, loc(o.B))
	t.Op(o.W, 0x8b, emit.CX, loc(o.A))
	t.Op(8, 0x89, emit.AX, loc(o.A))
	t.Op(8, 0x89, emit.CX, loc(o.B))
}

func (t *translator) cld(int, *decode.Inst) { t.rflags(^uint32(abi.FlagDF)) }
func (t *translator) cli(int, *decode.Inst) { t.rflags(^uint32(abi.FlagIF)) }

// rflags clears a flag that is no status flag.
func (t *translator) rflags(and uint32) {
	t.spoil()
	t.Op(4, 0x8b, emit.AX, state(offRF))
	t.Bytes(0x25)
	t.Imm32(and)
	t.Op(4, 0x89, emit.AX, state(offRF))
}

// sp moves the stack pointer, and leaves the flags.
func (t *translator) sp(by int32) {
	t.Op(8, 0x8d, hostReg[4], emit.M(hostReg[4], by))
}

// top makes AX the host's address of the stack pointer's word, or of that below.
func (t *translator) top(i int, push bool) emit.Arg {
	off := int32(0)
	if push {
		off = -8
	}
	t.save()
	t.Op(8, 0x8d, emit.AX, emit.M(hostReg[4], off))
	t.check(i, 8, push)
	return emit.M(emit.AX, 0)
}

func (t *translator) push(i int, o *decode.Inst) {
	if o.Form&decode.SrcMem != 0 {
		m := t.operand(i, o, 8, false)
		t.Op(8, 0x8b, emit.AX, m)
		t.Op(8, 0x89, emit.AX, state(offTmp))
	}
	m := t.top(i, true)
	switch {
	case o.Form&decode.SrcImm != 0:
		t.Op(8, 0xc7, 0, m)
		t.Imm32(uint32(o.Imm))
	case o.Form&decode.SrcMem != 0:
		t.Op(8, 0x8b, emit.DX, state(offTmp))
		t.Op(8, 0x89, emit.DX, m)
	default:
		t.Op(8, 0x89, t.in(o.B, emit.DX), m)
	}
	t.sp(-8)
}

func (t *translator) pop(i int, o *decode.Inst) {
	m := t.top(i, false)
	t.Op(8, 0x8b, emit.DX, m)
	t.sp(8)
	t.Op(8, 0x89, emit.DX, loc(o.A))
}

func (t *translator) leaveFrame(i int, _ *decode.Inst) {
	t.save()
	t.Op(8, 0x8b, emit.AX, loc(5))
	t.check(i, 8, false)
	t.Op(8, 0x8b, emit.DX, emit.M(emit.AX, 0))
	t.Op(8, 0x8d, hostReg[4], emit.M(hostReg[5], 8))
	t.Op(8, 0x8b, hostReg[5], emit.R(emit.DX))
}

func (t *translator) pushf(i int, _ *decode.Inst) {
	t.spoil()
	t.storeFlags(t.top(i, true))
	t.sp(-8)
}

// storeFlags stores the flags, which are in Aside.Flags, as pushf does. It uses CX and DX, and
// the host's flags.
func (t *translator) storeFlags(m emit.Arg) {
	t.Op(4, 0x0fb6, emit.CX, state(offNF+1))
	t.Op(4, 0x8b, emit.DX, state(offRF))
	t.Op(4, 0x81, 4, emit.R(emit.CX))
	t.Imm32(core.FlagStatus & 0xff)
	t.Op(4, 0x81, 4, emit.R(emit.DX))
	t.Imm32(^uint32(core.FlagStatus | core.FlagRF))
	t.Op(4, 0x0b, emit.DX, emit.R(emit.CX))
	t.Op(4, 0x0fb6, emit.CX, state(offNF))
	t.Op(4, 0xc1, 4, emit.R(emit.CX))
	t.Bytes(11)
	t.Op(4, 0x0b, emit.DX, emit.R(emit.CX))
	t.Op(8, 0x89, emit.DX, m)
}

// popf is for flags that leave interrupts and single-stepping as they are.
func (t *translator) popf(i int, _ *decode.Inst) {
	m := t.top(i, false)
	t.Op(8, 0x8b, emit.DX, m)
	t.Op(4, 0x8b, emit.AX, state(offRF))
	t.Op(4, 0x33, emit.AX, emit.R(emit.DX))
	t.Bytes(0xa9)
	t.Imm32(abi.FlagIF | abi.FlagTF)
	t.slowIf(ccNE, i)
	t.Bytes(0x25) // and: what changes
	t.Imm32(core.FlagMask)
	t.Op(4, 0x31, emit.AX, state(offRF))
	t.Bytes(0x88, 0xd4)                 // mov %dl,%ah
	t.Op(4, 0x0fba, 4, emit.R(emit.DX)) // bt $11,%edx
	t.Bytes(11)
	t.Bytes(0x0f, 0x92, 0xc0) // setb %al
	t.Op(2, 0x89, emit.AX, state(offNF))
	t.sp(8)
	t.inHost, t.inMem = false, true
}

func (t *translator) jcc(i int, o *decode.Inst) {
	t.host()
	t.stubs = append(t.stubs, stub{
		pos: t.Jcc(o.A), exit: uint32(i), add: t.rest(i),
		save: !t.inMem, fix: t.fix, branch: true,
	})
}

func (t *translator) jmp(i int, o *decode.Inst) {
	t.spoil()
	t.chain(i, t.rest(i))
}

func (t *translator) call(i int, _ *decode.Inst) {
	m := t.top(i, true)
	t.pushRIP(m)
	t.chain(i, t.rest(i))
}

// pushRIP stores the address behind a call, which is the block's end.
func (t *translator) pushRIP(m emit.Arg) {
	t.store(m, t.end)
	t.sp(-8)
}

func (t *translator) jmpTo(i int, o *decode.Inst) {
	t.target(i, o)
	t.find(i)
	t.jump(i)
}

func (t *translator) callTo(i int, o *decode.Inst) {
	t.target(i, o)
	t.find(i)
	t.Op(8, 0x8b, emit.CX, emit.X(emit.BP, emit.CX, 0, offNJC+8))
	t.Op(8, 0x89, emit.CX, state(offTmp))
	t.pushRIP(t.top(i, true))
	t.giveBack(t.rest(i))
	t.Op(4, 0xff, 4, state(offTmp))
}

func (t *translator) ret(i int, o *decode.Inst) {
	m := t.top(i, false)
	t.Op(8, 0x8b, emit.DX, m)
	t.find(i)
	t.sp(8 + int32(o.Imm))
	t.jump(i)
}

// target makes DX the target of an indirect branch.
func (t *translator) target(i int, o *decode.Inst) {
	if o.Form&decode.SrcMem != 0 {
		t.Op(8, 0x8b, emit.DX, t.operand(i, o, 8, false))
		return
	}
	t.spoil()
	t.Op(8, 0x8b, emit.DX, loc(o.B))
}

// find makes CX the place in Targets of the code for DX; if there is none, instruction i is left
// to the interpreter.
func (t *translator) find(i int) {
	t.Op(4, 0x8b, emit.CX, emit.R(emit.DX))
	t.Op(4, 0xc1, 5, emit.R(emit.CX))
	t.Bytes(core.TargetShift)
	t.Op(4, 0x33, emit.CX, emit.R(emit.DX))
	t.Op(4, 0x81, 4, emit.R(emit.CX))
	t.Imm32(core.TargetMask)
	t.Op(4, 0xc1, 4, emit.R(emit.CX))
	t.Bytes(5)
	t.Op(8, 0x3b, emit.DX, emit.X(emit.BP, emit.CX, 0, offNJC))
	other := t.Jcc(ccNE)
	t.others = append(t.others, otherTarget{other, t.Len(), t.exit(Slow, i)})
}

// An otherTarget looks at the second one of a pair in Targets.
type otherTarget struct {
	pos, back int
	exit      uint32
}

func (t *translator) other(o *otherTarget) {
	t.Here(o.pos)
	t.Op(8, 0x83, 0, emit.R(emit.CX)) // add $16,%rcx
	t.Bytes(byte(unsafe.Sizeof(core.Target{})))
	t.Op(8, 0x3b, emit.DX, emit.X(emit.BP, emit.CX, 0, offNJC))
	no := t.Jcc(ccNE)
	t.To(t.Jmp(), o.back)
	t.Here(no)
	t.returnWith(o.exit)
}

// jump goes to the code that find has found.
func (t *translator) jump(i int) {
	t.giveBack(t.rest(i))
	t.Op(4, 0xff, 4, emit.X(emit.BP, emit.CX, 0, offNJC+8))
}

// lockedTranslation is formOf for what LOCK may stand before.
func lockedTranslation(o *decode.Inst) emitter {
	if o.W < 4 || o.Form&decode.DstMem == 0 {
		return nil
	}
	switch o.Code {
	case decode.ADD, decode.SUB, decode.AND, decode.OR, decode.XOR:
		return (*translator).lockedALU
	case decode.INC, decode.DEC, decode.NEG, decode.NOT:
		return (*translator).unary
	case decode.XCHG:
		return (*translator).xchg
	case decode.XADD:
		return (*translator).xadd
	case decode.CMPXCHG:
		return (*translator).cmpxchg
	case decode.BTS, decode.BTR, decode.BTC:
		if o.Form&decode.SrcImm != 0 {
			return (*translator).lockedBit
		}
	}
	return nil
}

func (t *translator) lockedALU(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	if o.Form&decode.SrcImm != 0 {
		t.Bytes(0xf0)
		t.aluImm(o, m)
	} else {
		t.prefixed(o, uint32(o.Code)<<3|1, t.in(o.B, emit.DX), m)
	}
	t.set(i, fixNone)
}

func (t *translator) xchg(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.Op(o.W, 0x8b, emit.DX, loc(o.B))
	t.Op(o.W, 0x87, emit.DX, m)
	t.Op(8, 0x89, emit.DX, loc(o.B))
}

func (t *translator) xadd(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.Op(o.W, 0x8b, emit.DX, loc(o.B))
	t.prefixed(o, 0x0fc1, emit.DX, m)
	t.Op(8, 0x89, emit.DX, loc(o.B))
	t.set(i, fixNone)
}

func (t *translator) cmpxchg(i int, o *decode.Inst) {
	t.aligned(i, o)
	t.Op(8, 0x8b, emit.CX, emit.R(emit.AX))
	t.Op(8, 0x8b, emit.AX, loc(0))
	t.prefixed(o, 0x0fb1, t.in(o.B, emit.DX), emit.M(emit.CX, 0))
	equal := t.Jcc(ccE)
	t.Op(o.W, 0x8b, hostReg[0], emit.R(emit.AX))
	t.Here(equal)
	t.set(i, fixNone)
}

func (t *translator) lockedBit(i int, o *decode.Inst) {
	m := t.aligned(i, o)
	t.prefixed(o, 0x0fba, 4+emit.Reg(o.Code-decode.BT), m)
	t.Bytes(byte(o.Imm) & (8*o.W - 1))
	if t.live[i+1] {
		t.mergeCF()
	}
}

package native

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
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

// hostReg says where the guest's registers are; SP: in memory.
var hostReg = [16]emit.Reg{
	emit.BX, emit.SI, emit.DI, emit.R8, emit.R9, emit.R10, emit.R11, emit.R12,
	emit.R13, emit.R15, emit.SP, emit.SP, emit.SP, emit.SP, emit.SP, emit.SP,
}

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
	t.MovRM(8, free, loc(g))
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
		t.MovMR(8, loc(g), emit.DX)
	}
}

func (t *translator) exit(kind uint32, i int) uint32 { return t.block<<exitBlocks | kind | uint32(i) }

// translate makes the code of a block. It returns false if its first instruction cannot
// be translated.
func (t *translator) translate(rip uint64, insts []decode.Inst) bool {
	if formOf(&insts[0]) == nil {
		return false
	}
	t.begin(rip, insts)
	t.ALUMI32(emit.Sub, 8, emit.R(emit.R14), uint32(t.n))
	t.stubs = append(t.stubs, stub{pos: t.Jcc(emit.L), exit: t.exit(NoLeft, 0), add: t.n})
	t.instructions(len(insts))
	t.finish()
	return true
}

// begin looks at what is to be translated.
func (t *translator) begin(rip uint64, insts []decode.Inst) {
	t.insts, t.end, t.inMem = insts, rip, true
	for i := range insts {
		t.end += uint64(insts[i].Len)
		if insts[i].Code != decode.FETCH {
			t.n++
		}
	}
	t.findRuns()
	t.liveness()
}

// instructions translates the first n instructions.
func (t *translator) instructions(n int) {
	for i := 0; i < n; i++ {
		if r, ok := t.runs[i]; ok {
			t.run(i, r)
			i += r.n - 1
			continue
		}
		f := formOf(&t.insts[i])
		if f == nil {
			t.leave(i)
			break
		}
		f(t, i, &t.insts[i])
	}
}

// leave ends the code before instruction i.
func (t *translator) leave(i int) {
	t.save()
	t.returnWith(t.exit(Slow, i))
}

// returnWith leaves translated code with an exit.
func (t *translator) returnWith(exit uint32) {
	t.MovImm(emit.AX, uint64(exit))
	t.Ret()
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
		t.ALUMI32(emit.Add, 8, emit.R(emit.R14), uint32(n))
	}
}

// rest is how many instructions of the block come after instruction i.
func (t *translator) rest(i int) int64 { return max(0, t.n-int64(i)-1) }

package native

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit"
)

// bitOF is the number of OF's bit.
const bitOF = 11

// Values of translator.fix.
const (
	fixNone = iota
	fixAF   // AF is undefined: 0
)

// save puts the host's flags into Aside.Flags if they are not there and are needed.
func (t *translator) save() {
	if t.inHost && !t.inMem {
		t.saveFlags(t.fix)
		t.inMem = true
	}
}

func (t *translator) saveFlags(fix uint8) {
	t.Lahf()
	t.Set(emit.O, emit.R(emit.AX))
	if fix == fixAF {
		t.clearAF()
	}
	t.MovMR(2, state(offNF), emit.AX)
}

// clearAF clears AF in AH, after lahf.
func (t *translator) clearAF() {
	t.ALUMI(emit.And, 1, emit.R(emit.AH), ^uint64(abi.FlagAF))
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
	t.Movzx(4, emit.AX, state(offNF), 2)
	t.ALUAX(emit.Add, 1, 0x7f) // OF, if al is 1
	t.Sahf()
	t.inHost, t.inMem, t.fix = true, true, fixNone
}

// set says that instruction i has put the guest's flags into the host's.
func (t *translator) set(i int, fix uint8) {
	t.inHost, t.inMem, t.fix = t.live[i+1], false, fix
}

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
	return forms[o.Code].leaves || o.Form&decode.HasMem != 0 && o.Code != decode.LEA && o.Code != decode.NOP || !Translatable(o)
}

// mergeCF puts the host's CF into Aside.Flags, whose other flags stay. It uses CX.
func (t *translator) mergeCF() {
	t.Set(emit.C, emit.R(emit.CX))
	t.ALUMI(emit.And, 1, state(offNF+1), ^uint64(abi.FlagCF))
	t.ALUMR(emit.Or, 1, state(offNF+1), emit.CX)
}

func (t *translator) cld(int, *decode.Inst) { t.rflags(^uint32(abi.FlagDF)) }
func (t *translator) cli(int, *decode.Inst) { t.rflags(^uint32(abi.FlagIF)) }

// rflags clears a flag that is no status flag.
func (t *translator) rflags(and uint32) {
	t.spoil()
	t.MovRM(4, emit.AX, state(offRF))
	t.ALUAX(emit.And, 4, and)
	t.MovMR(4, state(offRF), emit.AX)
}

// storeFlags stores the flags, which are in Aside.Flags, as pushf does. It uses CX and DX, and
// the host's flags.
func (t *translator) storeFlags(m emit.Arg) {
	t.Movzx(4, emit.CX, state(offNF+1), 1)
	t.MovRM(4, emit.DX, state(offRF))
	t.ALUMI32(emit.And, 4, emit.R(emit.CX), core.FlagStatus&0xff)
	t.ALUMI32(emit.And, 4, emit.R(emit.DX), ^uint32(core.FlagStatus|core.FlagRF))
	t.ALURM(emit.Or, 4, emit.DX, emit.R(emit.CX))
	t.Movzx(4, emit.CX, state(offNF), 1)
	t.ShiftMI(emit.Shl, 4, emit.R(emit.CX), bitOF)
	t.ALURM(emit.Or, 4, emit.DX, emit.R(emit.CX))
	t.MovMR(8, m, emit.DX)
}

package cpu

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

//go:generate go run gen.go

// Forms of operands, as keys of fast.
const (
	fRR = iota
	fRI
	fRM
	fMR
	fMI
	fRC // by cl
	fNone
)

// Ways to make an address.
const (
	modeBD   = iota // base + displacement
	modeBIS         // and index << scale
	modeFull        // and a segment's base
	modeNone
)

// kMOVSX32 stands for cMOVSX to 32 bits in keys.
const kMOVSX32 = cFUSED

// unlinked is where a branch leads that was never taken: never entered, as no
// budget is enough for it.
var unlinked = op{disp: dead}

// choose picks the function that executes ops[i], alone or with those after it.
func choose(ops []op, i int) {
	o := &ops[i]
	o.link = unsafe.Pointer(&unlinked)
	o.fn = chooseOne(o)
	switch {
	case pushes(o) && i+1 < len(ops) && pushes(&ops[i+1]):
		o.imm = streak(ops[i:], pushes)
		o.fn = pushRun
	case pops(o) && i+1 < len(ops) && pops(&ops[i+1]):
		o.imm = streak(ops[i:], pops)
		o.fn = popRun
	case ladder(ops[i:], saves) > 2:
		o.imm = ladder(ops[i:], saves)
		o.fn = saveRun
	case ladder(ops[i:], restores) > 2:
		o.imm = ladder(ops[i:], restores)
		o.fn = restoreRun
	case i+1 < len(ops) && ops[i+1].code == cJCC && mem.Canonical(ops[i+1].imm):
		if f := fast(fusedKey(ops, i)); f != nil {
			o.fn = f
		}
	default:
		k, ok := keyOf(o)
		if !ok || i+1 == len(ops) {
			return
		}
		if f := fast2(uint64(k)<<32 | uint64(fusedKey(ops, i+1))); f != nil {
			o.fn = f
		}
	}
}

// fusedKey is the key of ops[i], and of the conditional jump after it if there
// is one; an unused one if it has none.
func fusedKey(ops []op, i int) uint32 {
	k, ok := keyOf(&ops[i])
	if !ok {
		return ^uint32(0)
	}
	if i+1 < len(ops) && ops[i+1].code == cJCC && mem.Canonical(ops[i+1].imm) {
		switch ops[i].code {
		case cMOV, cMOVZX, cMOVSX, cLEA, cNOP, cPUSH, cPOP:
		default:
			k |= uint32(ops[i+1].a) << 20
		}
	}
	return k
}

// pushes and pops say whether o is one that can be part of a run.
func pushes(o *op) bool { return o.code == cPUSH && o.form == 0 && o.w == 8 && o.b != 4 }
func pops(o *op) bool   { return o.code == cPOP && o.form == 0 && o.w == 8 && o.a != 4 }

// saves is whether o moves a register to the stack.
func saves(o *op) bool { return o.form == dstMem|hasMem && onStack(o) && o.b < regZero }

// restores is whether o moves a word from the stack to a register, but for rsp.
func restores(o *op) bool {
	return o.form == srcMem|hasMem && onStack(o) && o.a < regZero && o.a != 4
}

func onStack(o *op) bool {
	return o.code == cMOV && o.w == 8 && o.flags&^stackSeg == 0 && o.base == 4 && o.index == regZero && o.seg == regZero
}

// ladder is how many ops in a row are like the first, each at the word above.
func ladder(ops []op, like func(*op) bool) uint64 {
	n := uint64(0)
	for n < uint64(len(ops)) && n < 16 && like(&ops[n]) && ops[n].disp == ops[0].disp+8*n {
		n++
	}
	return n
}

// streak is how many ops in a row are like the first.
func streak(ops []op, like func(*op) bool) uint64 {
	n := uint64(0)
	for n < uint64(len(ops)) && n < 16 && like(&ops[n]) {
		n++
	}
	return n
}

func chooseOne(o *op) func(*CPU, *op) *op {
	switch o.code {
	case cJCC:
		if mem.Canonical(o.imm) {
			return jccs[o.a&15]
		}
	case cJMP, cFETCH:
		switch {
		case o.form&indirect != 0 && o.form&srcMem == 0:
			return jmpReg
		case o.form&indirect == 0 && mem.Canonical(o.imm):
			return jmp
		}
		return general
	case cCALL:
		switch {
		case o.form&indirect != 0 && o.form&srcMem == 0:
			return callReg
		case o.form&indirect == 0 && mem.Canonical(o.imm):
			return call
		}
		return general
	case cVMCALL:
		return vmcall
	case cINT, cHLT, cPAUSE:
		if o.code == cINT && o.imm == abi.VecBP {
			return int3
		}
		return exits
	case cPUSH:
		if o.form&srcImm != 0 && o.w == 8 {
			return pushImm
		}
	case cPUSHF:
		if o.w == 8 {
			return pushf
		}
	case cPOPF:
		if o.w == 8 {
			return popf
		}
	case cCLI:
		return cli
	case cSTI:
		return sti
	case cCBW:
		if o.w == 8 {
			return cdqe
		}
	case cIMUL, cCMOV, cINC, cDEC, cNEG, cNOT, cBT, cADC, cSBB, cROL, cROR, cBSF, cBSR, cTZCNT, cLZCNT:
		if f := registers(o); f != nil {
			return f
		}
	case cLEAVE:
		if o.w == 8 {
			return leave
		}
	case cSETCC:
		if o.form == 0 && o.a < regHigh {
			return setcc
		}
	}
	if f := lockedForm(o); f != nil {
		return f
	}
	if k, ok := keyOf(o); ok {
		if f := fast(k); f != nil {
			return f
		}
	}
	if safe(o) {
		return direct
	}
	return general
}

// registers is for what is common with register operands only.
func registers(o *op) func(*CPU, *op) *op {
	if o.form&hasMem != 0 || o.w < 4 {
		return nil
	}
	switch o.code {
	case cIMUL:
		return [2]func(*CPU, *op) *op{imul32, imul64}[o.w>>3]
	case cCMOV:
		return [2]func(*CPU, *op) *op{cmov32, cmov64}[o.w>>3]
	case cINC, cDEC:
		return incDec
	case cNEG:
		return neg
	case cNOT:
		return not
	case cBT:
		return bt
	case cROL, cROR:
		if o.form&srcImm != 0 && o.imm != 0 {
			return rotateImm
		}
	case cBSF, cBSR, cTZCNT, cLZCNT:
		return scanBits
	case cADC, cSBB:
		return carried
	}
	return nil
}

// keyOf is the key of o's form; !ok: there is none.
func keyOf(o *op) (uint32, bool) {
	if o.flags&(locked|addr32|vex) != 0 || o.a >= regHigh || o.b >= regHigh || o.form&(threeOp|indirect) != 0 {
		return 0, false
	}
	if o.code == cNOP {
		return uint32(cNOP)<<8 | 2<<2, true // whatever it names
	}
	if (o.code == cCALL || o.code == cJMP) && !mem.Canonical(o.imm) {
		return 0, false
	}
	code, w, form := o.code, o.w, uint32(fNone)
	switch o.form &^ hasMem {
	case 0:
		form = fRR
	case srcImm:
		form = fRI
	case srcMem:
		form = fRM
	case dstMem:
		form = fMR
	case dstMem | srcImm:
		form = fMI
	case byCL:
		form = fRC
	}
	switch code {
	case cMOVZX:
		if o.w == 2 {
			return 0, false
		}
		w = uint8(o.imm)
	case cMOVSX:
		if o.w == 2 {
			return 0, false
		}
		w = uint8(o.imm)
		if o.w == 4 {
			code = kMOVSX32
			if w == 4 {
				code, w = cMOV, 4
			}
		}
	case cSAL:
		code = cSHL
	}
	switch code {
	case cSHL, cSHR, cSAR:
		if form == fRI && o.imm&(uint64(8*w)-1) == 0 {
			return 0, false
		}
	case cLEA:
		form = fRM
	}
	return uint32(code)<<8 | form<<4 | uint32(log2w(w))<<2 | mode(o), true
}

func mode(o *op) uint32 {
	switch {
	case o.form&hasMem == 0:
		return modeBD
	case o.seg != regZero && o.code != cLEA:
		return modeFull
	case o.index == regZero:
		return modeBD
	case o.code == cMOV, o.code == cMOVZX, o.code == cMOVSX, o.code == cLEA:
		return modeBIS
	}
	return modeFull
}

// safe says whether exec cannot throw on o.
func safe(o *op) bool {
	if o.form&hasMem != 0 && o.code != cLEA {
		return false
	}
	switch o.code {
	case cPUSH, cPOP, cPUSHF, cPOPF, cLEAVE, cENTER, cDIV, cIDIV, cXLAT:
		return false
	case cCLI, cSTI, cCLAC, cSTAC, cRDTSC, cHLT, cPAUSE, cVMCALL, cINT:
		return true
	case cANDN, cBEXTR, cBZHI, cBLSR, cBLSMSK, cBLSI, cPDEP, cPEXT, cMULX, cRORX, cSHLX, cSHRX, cSARX, cADCX, cADOX:
		return true
	}
	return o.code < cJMP || o.code > cSETCC && o.code < cCLI || o.code == cSETCC || o.code == cCMOV
}

package cpu

import "unsafe"

// code is what an instruction does, whatever its operands. It is not a type of
// its own: no switch here names all of them.
type code = uint16

// The order of the first eight is the processor's (opcode bits 3 to 5), as is
// that of rol to sar (ModRM bits 3 to 5), and of bt to btc.
const (
	cADD code = iota
	cOR
	cADC
	cSBB
	cAND
	cSUB
	cXOR
	cCMP
	cROL
	cROR
	cRCL
	cRCR
	cSHL
	cSHR
	cSAL
	cSAR
	cBT
	cBTS
	cBTR
	cBTC
	cTEST
	cMOV
	cMOVZX // imm: the source's width
	cMOVSX
	cLEA
	cXCHG
	cXADD
	cCMPXCHG
	cCMPXCHG8B // w 4: 8b, w 8: 16b
	cINC
	cDEC
	cNOT
	cNEG
	cMUL
	cIMUL1
	cIMUL // two operands; three with threeOp
	cDIV
	cIDIV
	cSHLD
	cSHRD
	cBSF
	cBSR
	cTZCNT
	cLZCNT
	cPOPCNT
	cBSWAP
	cMOVBE
	cCRC32
	cPUSH
	cPOP
	cPUSHF
	cPOPF
	cLAHF
	cSAHF
	cCBW // cbw, cwde, cdqe
	cCWD // cwd, cdq, cqo
	cLEAVE
	cENTER
	cXLAT
	cJMP
	cJCC
	cCALL
	cRET
	cRETF
	cIRET
	cLOOP
	cSETCC
	cCMOV
	cCLC
	cSTC
	cCMC
	cCLD
	cSTD
	cCLI
	cSTI
	cCLAC
	cSTAC
	cNOP
	cPAUSE
	cHLT
	cINT // imm: the vector
	cVMCALL
	cUD
	cGP    // an instruction that always gives #GP(0)
	cFETCH // the block ends here; goes on at imm without retiring anything
	cIN
	cOUT
	cMOVS
	cCMPS
	cSTOS
	cLODS
	cSCAS
	cINS
	cOUTS
	cRDTSC
	cRDTSCP
	cRDPMC
	cRDMSR
	cWRMSR
	cCPUID
	cRDRAND
	cRDSEED
	cRDPID
	cMOVFROMCR
	cMOVTOCR
	cMOVFROMDR
	cMOVTODR
	cCLTS
	cLMSW
	cSMSW
	cLGDT
	cLIDT
	cSGDT
	cSIDT
	cLTR
	cSTR
	cLLDT
	cSLDT
	cLAR
	cLSL
	cVERR
	cVERW
	cSWAPGS
	cINVLPG
	cCLFLUSH
	cINVPCID
	cMOVFROMSEG
	cMOVTOSEG
	cPUSHSEG
	cPOPSEG
	cLSEG // lss lfs lgs
	cRDBASE
	cWRBASE
	cXGETBV
	cRDPKRU
	cANDN
	cBEXTR
	cBZHI
	cBLSR
	cBLSMSK
	cBLSI
	cPDEP
	cPEXT
	cMULX
	cRORX
	cSHLX
	cSHRX
	cSARX
	cADCX
	cADOX
	cENTRY // not an instruction: it stands before a block's first one
)

// Bits of op.form: where the operands are.
const (
	dstMem  = 1 << iota
	srcMem  // the source is the memory operand
	srcImm  // the source is imm
	threeOp // imul r, r/m, imm; shld/shrd by imm
	byCL    // shld, shrd, shifts by cl
	hasMem
	indirect // jmp, call: target from an operand
	destUnused
)

// Bits of op.flags.
const (
	locked = 1 << iota
	repE   // f3
	repNE  // f2
	addr32
	stackSeg // faults of the memory operand's address are #SS
	vex
)

// Places in the register file that are no registers. regZero always reads 0, so
// that every address is base + index*scale + displacement + segment.
const (
	regZero = 16
	regFS   = 17
	regGS   = 18
	regHigh = 32 // + 0..3: ah, ch, dh, bh
)

// An op is one decoded instruction. Ops of a block stand one after the other,
// and each executes by calling fn, which returns the op to go on with.
type op struct {
	fn    func(*CPU, *op) *op
	link  unsafe.Pointer // *op, atomic: head of the block at the branch's target, once known
	imm   uint64         // immediate, sign-extended to 64 bits; branches: the target
	disp  uint64         // displacement; RIP-relative: the address
	code  code
	off   uint16 // bytes from the block's start to the instruction
	n     uint16 // instructions from the block's start to this one's end
	w     uint8  // width of the operation in bytes
	form  uint8
	a     uint8 // destination register
	b     uint8 // source register
	base  uint8
	index uint8
	scale uint8 // shift of the index
	seg   uint8
	len   uint8 // bytes
	flags uint8
}

const opSize = unsafe.Sizeof(op{})

// next is the op that stands after o in its block.
func (o *op) next() *op { return (*op)(unsafe.Add(unsafe.Pointer(o), opSize)) }

// after is the op n places after o.
func (o *op) after(n uintptr) *op { return (*op)(unsafe.Add(unsafe.Pointer(o), n*opSize)) }

// head is the slot before the first instruction of o's block: its imm is the
// block's address.
func (o *op) head() *op {
	n := uintptr(o.n)
	if o.code == cFETCH {
		n++
	}
	return (*op)(unsafe.Add(unsafe.Pointer(o), -int(n*opSize)))
}

// rip is the address of the instruction.
func (o *op) rip() uint64 { return o.head().imm + uint64(o.off) }

// end is the address of the instruction after it.
func (o *op) end() uint64 { return o.rip() + uint64(o.len) }

package decode

// Code is what an instruction does, whatever its operands. It is not a type of its own: no
// switch names all of them.
type Code = uint16

// The order of the first eight is the processor's (opcode bits 3 to 5), as is
// that of ROL to SAR (ModRM bits 3 to 5), and of BT to BTC.
const (
	ADD Code = iota
	OR
	ADC
	SBB
	AND
	SUB
	XOR
	CMP
	ROL
	ROR
	RCL
	RCR
	SHL
	SHR
	SAL
	SAR
	BT
	BTS
	BTR
	BTC
	TEST
	MOV
	MOVZX // Imm: the source's width
	MOVSX
	LEA
	XCHG
	XADD
	CMPXCHG
	CMPXCHG8B // W 4: 8b, W 8: 16b
	INC
	DEC
	NOT
	NEG
	MUL
	IMUL1
	IMUL // two operands; three with ThreeOp
	DIV
	IDIV
	SHLD
	SHRD
	BSF
	BSR
	TZCNT
	LZCNT
	POPCNT
	BSWAP
	MOVBE
	CRC32
	PUSH
	POP
	PUSHF
	POPF
	LAHF
	SAHF
	CBW // cbw, cwde, cdqe
	CWD // cwd, cdq, cqo
	LEAVE
	ENTER
	XLAT
	JMP
	JCC
	CALL
	RET
	RETF
	IRET
	LOOP
	SETCC
	CMOV
	CLC
	STC
	CMC
	CLD
	STD
	CLI
	STI
	CLAC
	STAC
	NOP
	PAUSE
	HLT
	INT // Imm: the vector
	VMCALL
	UD
	GP // an instruction that always gives #GP(0)
	IN
	OUT
	MOVS
	CMPS
	STOS
	LODS
	SCAS
	INS
	OUTS
	RDTSC
	RDTSCP
	RDPMC
	RDMSR
	WRMSR
	CPUID
	RDRAND
	RDSEED
	RDPID
	MOVFROMCR
	MOVTOCR
	MOVFROMDR
	MOVTODR
	CLTS
	LMSW
	SMSW
	LGDT
	LIDT
	SGDT
	SIDT
	LTR
	STR
	LLDT
	SLDT
	LAR
	LSL
	VERR
	VERW
	SWAPGS
	INVLPG
	CLFLUSH
	INVPCID
	MOVFROMSEG
	MOVTOSEG
	PUSHSEG
	POPSEG
	LSEG // lss lfs lgs
	RDBASE
	WRBASE
	XGETBV
	RDPKRU
	ANDN
	BEXTR
	BZHI
	BLSR
	BLSMSK
	BLSI
	PDEP
	PEXT
	MULX
	RORX
	SHLX
	SHRX
	SARX
	ADCX
	ADOX

	Codes // how many there are

	// FETCH is no instruction: it stands behind code that does not end with a branch, and
	// goes on at Imm.
	FETCH = Codes
)

// Flags are status flags, in bits of their own.
type Flags uint8

// The status flags.
const (
	CF Flags = 1 << iota
	PF
	AF
	ZF
	SF
	OF
	Status = CF | PF | AF | ZF | SF | OF
)

// Properties are what holds for all instructions of a Code.
type Properties struct {
	Reads  Flags // what it depends on
	Writes Flags // what it sets, whatever its operands; shifts by 0 set nothing
	Locks  bool  // LOCK may stand before it
	Ends   bool  // nothing after it would be executed
	Faults bool  // it may fault without a memory operand
}

// properties has the codes that have any.
var properties = [Codes]Properties{
	ADD: {Writes: Status, Locks: true}, OR: {Writes: Status, Locks: true},
	ADC: {Reads: CF, Writes: Status, Locks: true}, SBB: {Reads: CF, Writes: Status, Locks: true},
	AND: {Writes: Status, Locks: true}, SUB: {Writes: Status, Locks: true}, XOR: {Writes: Status, Locks: true},
	CMP: {Writes: Status}, TEST: {Writes: Status},
	ROL: {Writes: CF | OF}, ROR: {Writes: CF | OF},
	RCL: {Reads: CF, Writes: CF | OF}, RCR: {Reads: CF, Writes: CF | OF},
	SHL: {Writes: Status}, SHR: {Writes: Status}, SAL: {Writes: Status}, SAR: {Writes: Status},
	SHLD: {Writes: Status}, SHRD: {Writes: Status},
	BT: {Writes: CF}, BTS: {Writes: CF, Locks: true}, BTR: {Writes: CF, Locks: true}, BTC: {Writes: CF, Locks: true},
	XCHG: {Locks: true}, XADD: {Writes: Status, Locks: true},
	CMPXCHG: {Writes: Status, Locks: true}, CMPXCHG8B: {Writes: ZF, Locks: true},
	INC: {Writes: Status &^ CF, Locks: true}, DEC: {Writes: Status &^ CF, Locks: true},
	NOT: {Locks: true}, NEG: {Writes: Status, Locks: true},
	MUL: {Writes: Status}, IMUL1: {Writes: Status}, IMUL: {Writes: Status},
	BSF: {Writes: ZF}, BSR: {Writes: ZF}, TZCNT: {Writes: CF | ZF}, LZCNT: {Writes: CF | ZF}, POPCNT: {Writes: Status},
	PUSHF: {Reads: Status, Faults: true}, POPF: {Writes: Status, Faults: true}, LAHF: {Reads: Status &^ OF}, SAHF: {Writes: Status &^ OF},
	JMP: {Ends: true, Faults: true}, CALL: {Ends: true, Faults: true}, RET: {Ends: true, Faults: true}, RETF: {Ends: true, Faults: true}, IRET: {Writes: Status, Ends: true, Faults: true},
	JCC: {Reads: Status, Faults: true}, SETCC: {Reads: Status}, CMOV: {Reads: Status}, LOOP: {Reads: ZF, Faults: true},
	CLC: {Writes: CF}, STC: {Writes: CF}, CMC: {Reads: CF, Writes: CF},
	HLT: {Ends: true}, INT: {Ends: true}, PAUSE: {Ends: true}, UD: {Ends: true, Faults: true}, GP: {Ends: true, Faults: true},
	CMPS: {Writes: Status, Faults: true}, SCAS: {Writes: Status, Faults: true},
	RDRAND: {Writes: Status}, RDSEED: {Writes: Status}, LAR: {Writes: ZF, Faults: true}, LSL: {Writes: ZF, Faults: true}, VERR: {Writes: ZF, Faults: true}, VERW: {Writes: ZF, Faults: true},
	ANDN: {Writes: Status}, BEXTR: {Writes: Status}, BZHI: {Writes: Status},
	BLSR: {Writes: Status}, BLSMSK: {Writes: Status}, BLSI: {Writes: Status},
	ADCX: {Reads: CF, Writes: CF}, ADOX: {Reads: OF, Writes: OF},
	DIV: {Faults: true}, IDIV: {Faults: true}, PUSH: {Faults: true}, POP: {Faults: true}, LEAVE: {Faults: true}, ENTER: {Faults: true},
	XLAT: {Faults: true}, MOVS: {Faults: true}, STOS: {Faults: true}, LODS: {Faults: true}, INS: {Faults: true}, OUTS: {Faults: true},
	RDPMC: {Faults: true}, RDMSR: {Faults: true}, WRMSR: {Faults: true}, MOVFROMCR: {Faults: true}, MOVTOCR: {Faults: true}, LTR: {Faults: true},
	MOVTOSEG: {Faults: true}, PUSHSEG: {Faults: true}, POPSEG: {Faults: true}, LSEG: {Faults: true}, WRBASE: {Faults: true}, XGETBV: {Faults: true},
}

// PropertiesOf returns what holds for all instructions of a code.
func PropertiesOf(c Code) *Properties {
	if c >= Codes {
		return &Properties{}
	}
	return &properties[c]
}

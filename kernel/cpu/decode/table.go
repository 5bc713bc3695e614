package decode

// What instructions there are: their codes, what holds for all instructions of a code, and the rows that say which
// opcodes mean them.

// Code is what an instruction does, whatever its operands. It is not a type of its own: no
// switch names all of them.
type Code = uint16

// The order of the first eight is the processor's (opcode bits 3 to 5), as is
// the order of ROL to SAR (ModRM bits 3 to 5), and of BT to BTC.
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

var oneByte = mapOf([]row{
	{op: 0x00, n: 8, step: 8, adds: toCode, code: ADD, enc: eMR, w: w1},
	{op: 0x01, n: 8, step: 8, adds: toCode, code: ADD, enc: eMR, w: wV},
	{op: 0x02, n: 8, step: 8, adds: toCode, code: ADD, enc: eRM, w: w1},
	{op: 0x03, n: 8, step: 8, adds: toCode, code: ADD, enc: eRM, w: wV},
	{op: 0x04, n: 8, step: 8, adds: toCode, code: ADD, w: w1, imm: iZ, form: SrcImm},
	{op: 0x05, n: 8, step: 8, adds: toCode, code: ADD, w: wV, imm: iZ, form: SrcImm},
	{op: 0x50, n: 8, code: PUSH, enc: eOSrc, w: w64},
	{op: 0x58, n: 8, code: POP, enc: eO, w: w64},
	{op: 0x63, code: MOVSX, enc: eRM, w: wV, src: wD},
	{op: 0x68, code: PUSH, w: w64, imm: iZ, form: SrcImm},
	{op: 0x69, code: IMUL, enc: eRM, w: wV, imm: iZ, form: ThreeOp},
	{op: 0x6a, code: PUSH, w: w64, imm: iB, form: SrcImm},
	{op: 0x6b, code: IMUL, enc: eRM, w: wV, imm: iB, form: ThreeOp},
	{op: 0x6c, code: INS, w: w1, rep: true},
	{op: 0x6d, code: INS, w: wD, rep: true},
	{op: 0x6e, code: OUTS, w: w1, rep: true},
	{op: 0x6f, code: OUTS, w: wD, rep: true},
	{op: 0x70, n: 16, adds: toA, code: JCC, w: w8, imm: iB},
	{op: 0x80, adds: toExt, code: ADD, enc: eM, w: w1, imm: iZ, form: SrcImm},
	{op: 0x81, adds: toExt, code: ADD, enc: eM, w: wV, imm: iZ, form: SrcImm},
	{op: 0x83, adds: toExt, code: ADD, enc: eM, w: wV, imm: iB, form: SrcImm},
	{op: 0x84, code: TEST, enc: eMR, w: w1},
	{op: 0x85, code: TEST, enc: eMR, w: wV},
	{op: 0x86, code: XCHG, enc: eMR, w: w1},
	{op: 0x87, code: XCHG, enc: eMR, w: wV},
	{op: 0x88, code: MOV, enc: eMR, w: w1},
	{op: 0x89, code: MOV, enc: eMR, w: wV},
	{op: 0x8a, code: MOV, enc: eRM, w: w1},
	{op: 0x8b, code: MOV, enc: eRM, w: wV},
	{op: 0x8c, exts: 0x3f, mod: register, code: MOVFROMSEG, enc: eMExt, w: wV},
	{op: 0x8c, exts: 0x3f, mod: memory, code: MOVFROMSEG, enc: eMExt, w: w2},
	{op: 0x8d, mod: memory, code: LEA, enc: eRM, w: wV},
	{op: 0x8e, exts: 0x3d, code: MOVTOSEG, enc: eExtM, w: w2},
	{op: 0x8f, exts: 1 << 0, code: POP, enc: eM, w: w64},
	{op: 0x90, prefix: pF3, code: PAUSE, w: w4}, // with REX.B too, on Intel's
	{op: 0x90, prefix: pREXB, code: XCHG, enc: eOA, w: wV},
	{op: 0x90, code: NOP, w: w4},
	{op: 0x91, n: 7, code: XCHG, enc: eOA, w: wV},
	{op: 0x98, code: CBW, w: wV},
	{op: 0x99, code: CWD, w: wV},
	{op: 0x9b, code: NOP, w: w4}, // fwait
	{op: 0x9c, code: PUSHF, w: w64},
	{op: 0x9d, code: POPF, w: w64},
	{op: 0x9e, code: SAHF, w: w1},
	{op: 0x9f, code: LAHF, w: w1},
	{op: 0xa0, code: MOV, enc: eMOffs, w: w1, form: SrcMem},
	{op: 0xa1, code: MOV, enc: eMOffs, w: wV, form: SrcMem},
	{op: 0xa2, code: MOV, enc: eMOffs, w: w1, form: DstMem},
	{op: 0xa3, code: MOV, enc: eMOffs, w: wV, form: DstMem},
	{op: 0xa4, code: MOVS, w: w1, rep: true},
	{op: 0xa5, code: MOVS, w: wV, rep: true},
	{op: 0xa6, code: CMPS, w: w1, rep: true},
	{op: 0xa7, code: CMPS, w: wV, rep: true},
	{op: 0xa8, code: TEST, w: w1, imm: iZ, form: SrcImm},
	{op: 0xa9, code: TEST, w: wV, imm: iZ, form: SrcImm},
	{op: 0xaa, code: STOS, w: w1, rep: true},
	{op: 0xab, code: STOS, w: wV, rep: true},
	{op: 0xac, code: LODS, w: w1, rep: true},
	{op: 0xad, code: LODS, w: wV, rep: true},
	{op: 0xae, code: SCAS, w: w1, rep: true},
	{op: 0xaf, code: SCAS, w: wV, rep: true},
	{op: 0xb0, n: 8, code: MOV, enc: eO, w: w1, imm: iB, form: SrcImm},
	{op: 0xb8, n: 8, code: MOV, enc: eO, w: wV, imm: iV, form: SrcImm},
	{op: 0xc0, adds: toExt, code: ROL, enc: eM, w: w1, imm: iCount, form: SrcImm},
	{op: 0xc1, adds: toExt, code: ROL, enc: eM, w: wV, imm: iCount, form: SrcImm},
	{op: 0xc2, code: RET, w: w8, imm: iUW},
	{op: 0xc3, code: RET, w: w8},
	{op: 0xc6, exts: 1 << 0, code: MOV, enc: eM, w: w1, imm: iZ, form: SrcImm},
	{op: 0xc7, exts: 1 << 0, code: MOV, enc: eM, w: wV, imm: iZ, form: SrcImm},
	{op: 0xc8, code: ENTER, w: w64, imm: iEnter},
	{op: 0xc9, code: LEAVE, w: w64},
	{op: 0xca, code: RETF, w: wV, imm: iUW},
	{op: 0xcb, code: RETF, w: wV},
	{op: 0xcc, code: INT, w: w8, imm: iConst, value: 3},
	{op: 0xcd, code: INT, w: w8, imm: iUB},
	{op: 0xcf, code: IRET, w: wV},
	{op: 0xd0, adds: toExt, code: ROL, enc: eM, w: w1, imm: iConst, value: 1, form: SrcImm},
	{op: 0xd1, adds: toExt, code: ROL, enc: eM, w: wV, imm: iConst, value: 1, form: SrcImm},
	{op: 0xd2, adds: toExt, code: ROL, enc: eM, w: w1, form: ByCL},
	{op: 0xd3, adds: toExt, code: ROL, enc: eM, w: wV, form: ByCL},
	{op: 0xd7, code: XLAT, w: w1},
	{op: 0xe0, n: 4, adds: toA, code: LOOP, w: w8, imm: iB},
	{op: 0xe4, code: IN, w: w1, imm: iSkip},
	{op: 0xe5, code: IN, w: wD, imm: iSkip},
	{op: 0xe6, code: OUT, w: w1, imm: iSkip},
	{op: 0xe7, code: OUT, w: wD, imm: iSkip},
	{op: 0xe8, code: CALL, w: w8, imm: iZ},
	{op: 0xe9, code: JMP, w: w8, imm: iZ},
	{op: 0xeb, code: JMP, w: w8, imm: iB},
	{op: 0xec, code: IN, w: w1},
	{op: 0xed, code: IN, w: wD},
	{op: 0xee, code: OUT, w: w1},
	{op: 0xef, code: OUT, w: wD},
	{op: 0xf1, code: INT, w: w8, imm: iConst, value: 1},
	{op: 0xf4, code: HLT, w: w8},
	{op: 0xf5, code: CMC, w: w8},
	{op: 0xf6, exts: 3, code: TEST, enc: eM, w: w1, imm: iZ, form: SrcImm},
	{op: 0xf7, exts: 3, code: TEST, enc: eM, w: wV, imm: iZ, form: SrcImm},
	{op: 0xf6, exts: 3 << 2, firstExt: 2, adds: toExt, code: NOT, enc: eM, w: w1},
	{op: 0xf7, exts: 3 << 2, firstExt: 2, adds: toExt, code: NOT, enc: eM, w: wV},
	{op: 0xf6, exts: 3 << 4, firstExt: 4, adds: toExt, code: MUL, enc: eMSrc, w: w1},
	{op: 0xf7, exts: 3 << 4, firstExt: 4, adds: toExt, code: MUL, enc: eMSrc, w: wV},
	{op: 0xf6, exts: 3 << 6, firstExt: 6, adds: toExt, code: DIV, enc: eMSrc, w: w1},
	{op: 0xf7, exts: 3 << 6, firstExt: 6, adds: toExt, code: DIV, enc: eMSrc, w: wV},
	{op: 0xf8, code: CLC, w: w8},
	{op: 0xf9, code: STC, w: w8},
	{op: 0xfa, code: CLI, w: w8},
	{op: 0xfb, code: STI, w: w8},
	{op: 0xfc, code: CLD, w: w8},
	{op: 0xfd, code: STD, w: w8},
	{op: 0xfe, exts: 3, adds: toExt, code: INC, enc: eM, w: w1},
	{op: 0xff, exts: 3, adds: toExt, code: INC, enc: eM, w: wV},
	{op: 0xff, exts: 1 << 2, code: CALL, enc: eMSrc, w: w8, form: Indirect},
	{op: 0xff, exts: 1 << 4, code: JMP, enc: eMSrc, w: w8, form: Indirect},
	{op: 0xff, exts: 1 << 6, code: PUSH, enc: eMSrc, w: w64},
	// Far branches through memory (ff /3, ff /5) are UD: nothing emits them.
})

var map0f = mapOf([]row{
	{op: 0x00, exts: 1 << 0, mod: register, code: SLDT, enc: eM, w: wV},
	{op: 0x00, exts: 1 << 0, mod: memory, code: SLDT, enc: eM, w: w2},
	{op: 0x00, exts: 1 << 1, mod: register, code: STR, enc: eM, w: wV},
	{op: 0x00, exts: 1 << 1, mod: memory, code: STR, enc: eM, w: w2},
	{op: 0x00, exts: 1 << 2, code: LLDT, enc: eMSrc, w: w2},
	{op: 0x00, exts: 1 << 3, code: LTR, enc: eMSrc, w: w2},
	{op: 0x00, exts: 1 << 4, code: VERR, enc: eMSrc, w: w2},
	{op: 0x00, exts: 1 << 5, code: VERW, enc: eMSrc, w: w2},
	{op: 0x01, exts: 1 << 0, mod: memory, code: SGDT, enc: eM, w: w8},
	{op: 0x01, exts: 1 << 1, mod: memory, code: SIDT, enc: eM, w: w8},
	{op: 0x01, exts: 1 << 2, mod: memory, code: LGDT, enc: eM, w: w8},
	{op: 0x01, exts: 1 << 3, mod: memory, code: LIDT, enc: eM, w: w8},
	{op: 0x01, exts: 1 << 4, mod: memory, code: SMSW, enc: eM, w: w2},
	{op: 0x01, exts: 1 << 6, mod: memory, code: LMSW, enc: eMSrc, w: w2},
	{op: 0x01, exts: 1 << 7, mod: memory, code: INVLPG, enc: eM, w: w8},
	{op: 0x01, modrm: 0xc1, code: VMCALL, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xca, code: CLAC, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xcb, code: STAC, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xd0, code: XGETBV, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xe8, code: NOP, enc: eModRM, w: w8}, // serialize
	{op: 0x01, modrm: 0xee, code: RDPKRU, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xef, code: NOP, enc: eModRM, w: w8}, // wrpkru
	{op: 0x01, modrm: 0xf8, code: SWAPGS, enc: eModRM, w: w8},
	{op: 0x01, modrm: 0xf9, code: RDTSCP, enc: eModRM, w: w8},
	{op: 0x01, exts: 1 << 4, mod: register, code: SMSW, enc: eM, w: wV},
	{op: 0x01, exts: 1 << 6, mod: register, code: LMSW, enc: eMSrc, w: w2},
	{op: 0x02, code: LAR, enc: eRM, w: wV},
	{op: 0x03, code: LSL, enc: eRM, w: wV},
	{op: 0x06, code: CLTS, w: w8},
	{op: 0x08, n: 2, code: NOP, w: w4}, // invd, wbinvd
	{op: 0x0d, code: NOP, enc: eModRM, w: w4},
	{op: 0x18, n: 8, code: NOP, enc: eModRM, w: w4}, // rdssp without shadow stacks is one, too
	{op: 0x20, code: MOVFROMCR, enc: eCR, w: w8},
	{op: 0x21, code: MOVFROMDR, enc: eCR, w: w8},
	{op: 0x22, code: MOVTOCR, enc: eRC, w: w8},
	{op: 0x23, code: MOVTODR, enc: eRC, w: w8},
	{op: 0x30, code: WRMSR, w: w8},
	{op: 0x31, code: RDTSC, w: w8},
	{op: 0x32, code: RDMSR, w: w8},
	{op: 0x33, code: RDPMC, w: w8},
	{op: 0x40, n: 16, adds: toImm, code: CMOV, enc: eRM, w: wV},
	{op: 0x80, n: 16, adds: toA, code: JCC, w: w8, imm: iZ},
	{op: 0x90, n: 16, adds: toImm, code: SETCC, enc: eM, w: w1},
	{op: 0xa0, code: PUSHSEG, w: w64, b: 4},
	{op: 0xa1, code: POPSEG, w: w64, a: 4},
	{op: 0xa2, code: CPUID, w: w8},
	{op: 0xa3, n: 4, step: 8, adds: toCode, code: BT, enc: eMR, w: wV},
	{op: 0xa4, code: SHLD, enc: eMR, w: wV, imm: iUB, form: ThreeOp},
	{op: 0xa5, code: SHLD, enc: eMR, w: wV, form: ByCL},
	{op: 0xa8, code: PUSHSEG, w: w64, b: 5},
	{op: 0xa9, code: POPSEG, w: w64, a: 5},
	{op: 0xac, code: SHRD, enc: eMR, w: wV, imm: iUB, form: ThreeOp},
	{op: 0xad, code: SHRD, enc: eMR, w: wV, form: ByCL},
	{op: 0xae, exts: 1 << 0, mod: register, prefix: pF3, code: RDBASE, enc: eM, w: wY, b: RegFS},
	{op: 0xae, exts: 1 << 1, mod: register, prefix: pF3, code: RDBASE, enc: eM, w: wY, b: RegGS},
	{op: 0xae, exts: 1 << 2, mod: register, prefix: pF3, code: WRBASE, enc: eM, w: wY, b: RegFS},
	{op: 0xae, exts: 1 << 3, mod: register, prefix: pF3, code: WRBASE, enc: eM, w: wY, b: RegGS},
	{op: 0xae, exts: 7 << 5, mod: register, prefix: pNoRep, code: NOP, enc: eModRM, w: w4}, // fences
	{op: 0xae, exts: 1 << 6, mod: memory, prefix: p66, code: CLFLUSH, enc: eM, w: w1},      // clwb
	{op: 0xae, exts: 1 << 7, mod: memory, code: CLFLUSH, enc: eM, w: w1},                   // clflushopt, too
	{op: 0xaf, code: IMUL, enc: eRM, w: wV},
	{op: 0xb0, code: CMPXCHG, enc: eMR, w: w1},
	{op: 0xb1, code: CMPXCHG, enc: eMR, w: wV},
	{op: 0xb2, mod: memory, code: LSEG, enc: eRM, w: wV, imm: iConst, value: 2},
	{op: 0xb4, mod: memory, code: LSEG, enc: eRM, w: wV, imm: iConst, value: 4},
	{op: 0xb5, mod: memory, code: LSEG, enc: eRM, w: wV, imm: iConst, value: 5},
	{op: 0xb6, code: MOVZX, enc: eRM, w: wV, src: w1},
	{op: 0xb7, code: MOVZX, enc: eRM, w: wV, src: w2},
	{op: 0xb8, prefix: pF3, code: POPCNT, enc: eRM, w: wV},
	{op: 0xba, exts: 0xf0, firstExt: 4, adds: toExt, code: BT, enc: eM, w: wV, imm: iUB, form: SrcImm},
	{op: 0xbc, prefix: pF3, code: TZCNT, enc: eRM, w: wV},
	{op: 0xbc, code: BSF, enc: eRM, w: wV},
	{op: 0xbd, prefix: pF3, code: LZCNT, enc: eRM, w: wV},
	{op: 0xbd, code: BSR, enc: eRM, w: wV},
	{op: 0xbe, code: MOVSX, enc: eRM, w: wV, src: w1},
	{op: 0xbf, code: MOVSX, enc: eRM, w: wV, src: w2},
	{op: 0xc0, code: XADD, enc: eMR, w: w1},
	{op: 0xc1, code: XADD, enc: eMR, w: wV},
	{op: 0xc3, mod: memory, prefix: pNone, code: MOV, enc: eMR, w: wV}, // movnti
	{op: 0xc7, exts: 1 << 1, mod: memory, code: CMPXCHG8B, enc: eM, w: wY},
	{op: 0xc7, exts: 1 << 6, mod: register, prefix: pNoRep, code: RDRAND, enc: eM, w: wV},
	{op: 0xc7, exts: 1 << 7, mod: register, prefix: pNoRep, code: RDSEED, enc: eM, w: wV},
	{op: 0xc7, exts: 1 << 7, mod: register, prefix: pF3, code: RDPID, enc: eM, w: w8},
	{op: 0xc8, n: 8, code: BSWAP, enc: eO, w: wV},
}, 0xb9, 0xff) // ud1, ud0

var map0f38 = mapOf([]row{
	{op: 0x82, mod: memory, prefix: p66, code: INVPCID, enc: eRM, w: w8},
	{op: 0xf0, prefix: pF2, code: CRC32, enc: eRM, w: wY, src: w1},
	{op: 0xf0, mod: memory, prefix: pNoRep, code: MOVBE, enc: eRM, w: wV},
	{op: 0xf1, prefix: pF2, code: CRC32, enc: eRM, w: wY, src: wV},
	{op: 0xf1, mod: memory, prefix: pNoRep, code: MOVBE, enc: eMR, w: wV},
	{op: 0xf6, prefix: pF2, code: UD, enc: eModRM},       // also with 66
	{op: 0xf6, prefix: pF3, code: ADOX, enc: eRM, w: wY}, // with 66 too, on Intel's
	{op: 0xf6, prefix: p66, code: ADCX, enc: eRM, w: wY},
	{op: 0xf9, mod: memory, prefix: pNone, code: MOV, enc: eMR, w: wY}, // movdiri
}, all()...)

// map0f3a has nothing that is known here. ModRM and a byte follow each opcode.
var map0f3a = mapOf([]row{{op: 0, n: 256, code: UD, enc: eModRM, imm: iSkip}})

var vexRows = []row{
	{vexMap: 2, op: 0xf2, pp: 0, code: ANDN, enc: eV, w: wY},
	{vexMap: 2, op: 0xf3, pp: 0, exts: 7 << 1, firstExt: 1, adds: toExt, code: BLSR, enc: eV, w: wY},
	{vexMap: 2, op: 0xf5, pp: 0, code: BZHI, enc: eV, w: wY},
	{vexMap: 2, op: 0xf5, pp: 2, code: PEXT, enc: eV, w: wY},
	{vexMap: 2, op: 0xf5, pp: 3, code: PDEP, enc: eV, w: wY},
	{vexMap: 2, op: 0xf6, pp: 3, code: MULX, enc: eV, w: wY},
	{vexMap: 2, op: 0xf7, pp: 0, code: BEXTR, enc: eV, w: wY},
	{vexMap: 2, op: 0xf7, pp: 1, code: SHLX, enc: eV, w: wY},
	{vexMap: 2, op: 0xf7, pp: 2, code: SARX, enc: eV, w: wY},
	{vexMap: 2, op: 0xf7, pp: 3, code: SHRX, enc: eV, w: wY},
	{vexMap: 3, op: 0xf0, pp: 3, prefix: pVvvv0, code: RORX, enc: eRM, w: wY},
}

// all is all opcodes of a map.
func all() (ops []byte) {
	for op := range 256 {
		ops = append(ops, byte(op))
	}
	return ops
}

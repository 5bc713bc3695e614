package interp

import (
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// An operation is how the interpreter executes the instructions of a code.
type operation struct {
	// exec executes any form of it completely, and may throw a fault. The next instruction
	// is executed after it.
	exec func(*CPU, *Op)

	// branch is the same where another instruction may be next. It is set if exec is nil.
	branch Handler

	// fast picks a handler for a common form; it returns nil for others. The instruction has
	// no LOCK, no 32-bit address and no VEX.
	fast func(*Op) Handler

	// locked is the handler of forms of 32 and 64 bits that change memory atomically.
	locked Handler
}

// operations is what the interpreter does for each code.
//
// init fills it, since handlers of branches look blocks up, and that picks handlers.
var operations [decode.Codes + 1]operation

func init() {
	operations = [...]operation{
		// Moves.
		decode.MOV:   {exec: (*CPU).mov, fast: fastMov},
		decode.MOVZX: {exec: (*CPU).movzx, fast: fastExtend},
		decode.MOVSX: {exec: (*CPU).movsx, fast: fastExtend},
		decode.MOVBE: {exec: func(c *CPU, o *Op) { c.set(o, bswap(c.src(o, o.W), o.W)) }},
		decode.LEA:   {exec: func(c *CPU, o *Op) { c.setReg(o.A, o.W, c.ea(o)-c.Place(o.Seg)) }, fast: wide(lea)},
		decode.XCHG:  {exec: (*CPU).xchg, locked: lockedXchg},
		decode.BSWAP: {exec: func(c *CPU, o *Op) { c.setReg(o.A, o.W, bswap(c.getReg(o.A, o.W), o.W)) }},
		decode.CMOV:  {exec: (*CPU).cmov, fast: registers(byWidth(cmov32, cmov64))},
		decode.SETCC: {exec: func(c *CPU, o *Op) { c.set(o, b2u(c.cond(uint8(o.Imm)))) }, fast: fastSetcc},
		decode.CBW:   {exec: (*CPU).cbw, fast: registers(byWidth(nil, cdqe))},
		decode.CWD:   {exec: (*CPU).cwd},
		decode.XLAT:  {exec: (*CPU).xlat},
		decode.NOP:   {exec: func(*CPU, *Op) {}, fast: always(nop)},

		// Arithmetic and logic.
		decode.ADD:       {exec: (*CPU).alu, fast: fastALU(add), locked: lockedALU},
		decode.OR:        {exec: (*CPU).alu, fast: fastALU(logic), locked: lockedALU},
		decode.ADC:       {exec: (*CPU).alu, fast: registers(always(carried))},
		decode.SBB:       {exec: (*CPU).alu, fast: registers(always(carried))},
		decode.AND:       {exec: (*CPU).alu, fast: fastALU(logic), locked: lockedALU},
		decode.SUB:       {exec: (*CPU).alu, fast: fastALU(sub), locked: lockedALU},
		decode.XOR:       {exec: (*CPU).alu, fast: fastALU(logic), locked: lockedALU},
		decode.CMP:       {exec: (*CPU).cmp, fast: fastALU(cmp)},
		decode.TEST:      {exec: (*CPU).test, fast: fastALU(logic)},
		decode.INC:       {exec: (*CPU).incDec, fast: registers(always(incDec)), locked: lockedIncDec},
		decode.DEC:       {exec: (*CPU).incDec, fast: registers(always(incDec)), locked: lockedIncDec},
		decode.NOT:       {exec: (*CPU).not, fast: registers(always(not))},
		decode.NEG:       {exec: (*CPU).neg, fast: registers(always(neg))},
		decode.MUL:       {exec: (*CPU).multiply},
		decode.IMUL1:     {exec: (*CPU).multiply},
		decode.IMUL:      {exec: (*CPU).multiply, fast: registers(byWidth(imul32, imul64))},
		decode.DIV:       {exec: (*CPU).divide},
		decode.IDIV:      {exec: (*CPU).divide},
		decode.XADD:      {exec: (*CPU).xadd, locked: lockedXadd},
		decode.CMPXCHG:   {exec: (*CPU).cmpxchg, locked: lockedCmpxchg},
		decode.CMPXCHG8B: {exec: (*CPU).cmpxchgPair},
		decode.CRC32:     {exec: (*CPU).crc},

		// Shifts and bits.
		decode.ROL:    {exec: (*CPU).rotate, fast: registers(fastRotate)},
		decode.ROR:    {exec: (*CPU).rotate, fast: registers(fastRotate)},
		decode.RCL:    {exec: (*CPU).rotate},
		decode.RCR:    {exec: (*CPU).rotate},
		decode.SHL:    {exec: (*CPU).shift, fast: registers(always(shift))},
		decode.SHR:    {exec: (*CPU).shift, fast: registers(always(shift))},
		decode.SAL:    {exec: (*CPU).shift, fast: registers(always(shift))},
		decode.SAR:    {exec: (*CPU).shift, fast: registers(always(shift))},
		decode.SHLD:   {exec: (*CPU).shiftDouble},
		decode.SHRD:   {exec: (*CPU).shiftDouble},
		decode.BT:     {exec: (*CPU).bitTest, fast: registers(always(bt))},
		decode.BTS:    {exec: (*CPU).bitTest},
		decode.BTR:    {exec: (*CPU).bitTest},
		decode.BTC:    {exec: (*CPU).bitTest},
		decode.BSF:    {exec: (*CPU).countBits, fast: registers(always(scanBits))},
		decode.BSR:    {exec: (*CPU).countBits, fast: registers(always(scanBits))},
		decode.TZCNT:  {exec: (*CPU).countBits, fast: registers(always(scanBits))},
		decode.LZCNT:  {exec: (*CPU).countBits, fast: registers(always(scanBits))},
		decode.POPCNT: {exec: (*CPU).countBits},

		// BMI1, BMI2 and ADX.
		decode.ANDN:   {exec: (*CPU).andn},
		decode.BEXTR:  {exec: (*CPU).bextr},
		decode.BZHI:   {exec: (*CPU).bzhi},
		decode.BLSR:   {exec: (*CPU).lowestBit},
		decode.BLSMSK: {exec: (*CPU).lowestBit},
		decode.BLSI:   {exec: (*CPU).lowestBit},
		decode.PDEP:   {exec: (*CPU).deposit},
		decode.PEXT:   {exec: (*CPU).deposit},
		decode.MULX:   {exec: (*CPU).mulx},
		decode.RORX:   {exec: (*CPU).rorx},
		decode.SHLX:   {exec: (*CPU).shiftX},
		decode.SHRX:   {exec: (*CPU).shiftX},
		decode.SARX:   {exec: (*CPU).shiftX},
		decode.ADCX:   {exec: (*CPU).addCarry},
		decode.ADOX:   {exec: (*CPU).addCarry},

		// Strings.
		decode.MOVS: {branch: (*CPU).stringOp},
		decode.CMPS: {branch: (*CPU).stringOp},
		decode.STOS: {branch: (*CPU).stringOp},
		decode.LODS: {branch: (*CPU).stringOp},
		decode.SCAS: {branch: (*CPU).stringOp},
		decode.INS:  {branch: (*CPU).stringOp},
		decode.OUTS: {branch: (*CPU).stringOp},

		// The stack.
		decode.PUSH:  {exec: (*CPU).pushOp, fast: words(withoutMemory(push))},
		decode.POP:   {exec: (*CPU).popOp, fast: words(withoutMemory(pop))},
		decode.LEAVE: {exec: (*CPU).leaveFrame, fast: words(always(leave))},
		decode.ENTER: {exec: (*CPU).enter},
		decode.PUSHF: {exec: (*CPU).pushFlags, fast: words(always(pushf))},
		decode.POPF:  {branch: (*CPU).popFlags, fast: words(always(popf))},

		// Branches.
		decode.JMP:   {branch: (*CPU).jumpOrCall, fast: fastBranch},
		decode.CALL:  {branch: (*CPU).jumpOrCall, fast: fastBranch},
		decode.JCC:   {branch: (*CPU).jcc, fast: fastBranch},
		decode.LOOP:  {branch: (*CPU).loop},
		decode.RET:   {branch: (*CPU).ret, fast: always(ret)},
		decode.RETF:  {branch: (*CPU).retf},
		decode.IRET:  {branch: (*CPU).iret},
		decode.FETCH: {branch: func(c *CPU, o *Op) *Op { return c.jump(o.Imm) }, fast: fastBranch},

		// What ends Run.
		decode.HLT:    {branch: leaveWith(core.Halt), fast: always(exits)},
		decode.PAUSE:  {branch: leaveWith(core.Pause), fast: always(exits)},
		decode.VMCALL: {branch: leaveWith(core.Hypercall), fast: always(vmcall)},
		decode.INT:    {branch: leaveWith(core.Trap), fast: fastInt},
		decode.UD:     {exec: (*CPU).undefined},
		decode.GP:     {exec: (*CPU).protected},

		// Flags.
		decode.LAHF: {exec: (*CPU).lahf},
		decode.SAHF: {exec: func(c *CPU, _ *Op) { c.setStatus(flagStatus&^flagOF, c.R[0]>>8) }},
		decode.CLC:  {exec: func(c *CPU, _ *Op) { c.setStatus(flagCF, 0) }},
		decode.STC:  {exec: func(c *CPU, _ *Op) { c.setStatus(flagCF, flagCF) }},
		decode.CMC:  {exec: func(c *CPU, _ *Op) { c.setStatus(flagCF, (c.carry()^1)*flagCF) }},
		decode.CLD:  {exec: func(c *CPU, _ *Op) { c.RFlags &^= flagDF }},
		decode.STD:  {exec: func(c *CPU, _ *Op) { c.RFlags |= flagDF }},
		decode.CLI:  {exec: func(c *CPU, _ *Op) { c.RFlags &^= flagIF }, fast: always(cli)},
		decode.STI:  {branch: (*CPU).sti, fast: always(sti)},
		decode.CLAC: {exec: func(c *CPU, _ *Op) { c.RFlags &^= flagAC }},
		decode.STAC: {exec: func(c *CPU, _ *Op) { c.RFlags |= flagAC }},

		// What only kernels use.
		decode.IN:         {exec: func(c *CPU, o *Op) { c.setReg(0, o.W, mask(o.W)) }},
		decode.OUT:        {exec: func(*CPU, *Op) {}},
		decode.RDTSC:      {exec: (*CPU).rdtsc},
		decode.RDTSCP:     {exec: (*CPU).rdtsc},
		decode.RDPMC:      {exec: (*CPU).protected},
		decode.RDPID:      {exec: func(c *CPU, o *Op) { c.R[o.A&15] = c.TSCAux }},
		decode.RDMSR:      {exec: (*CPU).msr},
		decode.WRMSR:      {exec: (*CPU).msr},
		decode.CPUID:      {exec: (*CPU).cpuid},
		decode.RDRAND:     {exec: (*CPU).rdrand},
		decode.RDSEED:     {exec: (*CPU).rdrand},
		decode.MOVFROMCR:  {exec: (*CPU).moveCR},
		decode.MOVTOCR:    {exec: (*CPU).moveCR},
		decode.MOVFROMDR:  {exec: func(c *CPU, o *Op) { c.R[o.A&15] = c.DR[debugReg(o.B)] }},
		decode.MOVTODR:    {exec: func(c *CPU, o *Op) { c.DR[debugReg(o.A)] = c.R[o.B&15] }},
		decode.CLTS:       {exec: func(c *CPU, _ *Op) { c.CR0 &^= 8 }},
		decode.SMSW:       {exec: func(c *CPU, o *Op) { c.set(o, c.CR0) }},
		decode.LMSW:       {exec: func(c *CPU, o *Op) { c.CR0 = c.CR0&^14 | c.src(o, 2)&15 }},
		decode.LGDT:       {exec: func(c *CPU, o *Op) { c.GDT = c.loadTable(o) }},
		decode.LIDT:       {exec: func(c *CPU, o *Op) { c.IDT = c.loadTable(o) }},
		decode.SGDT:       {exec: func(c *CPU, o *Op) { c.storeTable(o, c.GDT) }},
		decode.SIDT:       {exec: func(c *CPU, o *Op) { c.storeTable(o, c.IDT) }},
		decode.LTR:        {exec: func(c *CPU, o *Op) { c.loadTR(uint16(c.src(o, 2))) }},
		decode.STR:        {exec: func(c *CPU, o *Op) { c.set(o, uint64(c.TR)) }},
		decode.LLDT:       {exec: func(c *CPU, o *Op) { c.LDT = uint16(c.src(o, 2)) }},
		decode.SLDT:       {exec: func(c *CPU, o *Op) { c.set(o, uint64(c.LDT)) }},
		decode.LAR:        {exec: (*CPU).inspect},
		decode.LSL:        {exec: (*CPU).inspect},
		decode.VERR:       {exec: (*CPU).inspect},
		decode.VERW:       {exec: (*CPU).inspect},
		decode.SWAPGS:     {exec: func(c *CPU, _ *Op) { c.GSBase, c.KernelGSBase = c.KernelGSBase, c.GSBase }},
		decode.INVLPG:     {exec: func(c *CPU, o *Op) { c.FlushPage(c.ea(o)) }},
		decode.INVPCID:    {exec: func(c *CPU, _ *Op) { c.FlushTLB() }},
		decode.CLFLUSH:    {exec: func(c *CPU, o *Op) { c.load(c.ea(o), 1, stk(o)) }}, // it must be allowed to read the byte
		decode.MOVFROMSEG: {exec: func(c *CPU, o *Op) { c.set(o, uint64(c.Seg[o.B])) }},
		decode.MOVTOSEG:   {branch: func(c *CPU, o *Op) *Op { return c.setSegReg(o, uint16(c.src(o, 2)), 0) }},
		decode.PUSHSEG:    {exec: func(c *CPU, o *Op) { c.push(uint64(c.Seg[o.B]), o.W) }},
		decode.POPSEG:     {branch: (*CPU).popSeg},
		decode.LSEG:       {branch: (*CPU).loadFarPointer},
		decode.RDBASE:     {exec: func(c *CPU, o *Op) { c.setReg(o.A, o.W, c.Place(o.B)) }},
		decode.WRBASE:     {exec: (*CPU).writeBase},
		decode.XGETBV:     {exec: (*CPU).undefined},
		decode.RDPKRU:     {exec: func(c *CPU, _ *Op) { c.R[0], c.R[2] = 0, 0 }},
	}
}

package emit

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/native/emit/emittest"
)

// TestEncodings has a disassembler read what was made.
func TestEncodings(t *testing.T) {
	for _, tt := range []struct {
		make func(*Code)
		want string
	}{
		{func(c *Code) { c.MovRM(8, AX, M(BP, 8)) }, "mov 0x8(%rbp),%rax"},
		{func(c *Code) { c.MovRM(8, R9, M(R13, 0)) }, "mov (%r13),%r9"},
		{func(c *Code) { c.MovRM(4, CX, M(R12, 0)) }, "mov (%r12,%riz),%ecx"},
		{func(c *Code) { c.MovRM(4, CX, M(SP, 0x1000)) }, "mov 0x1000(%rsp),%ecx"},
		{func(c *Code) { c.MovRM(1, CX, M(BP, 1)) }, "mov 0x1(%rbp),%cl"},
		{func(c *Code) { c.MovMR(1, M(AX, 0), SI) }, "mov %sil,(%rax)"},
		{func(c *Code) { c.MovMR(1, R(DI), DX) }, "mov %dl,%dil"},
		{func(c *Code) { c.MovMR(1, R(AH), DX) }, "mov %dl,%ah"},
		{func(c *Code) { c.MovMR(2, M(BP, 0x200), AX) }, "mov %ax,0x200(%rbp)"},
		{func(c *Code) { c.MovMI(2, M(AX, 0), 0x1234) }, "movw $0x1234,(%rax)"},
		{func(c *Code) { c.MovMI(8, M(BP, -8), 5) }, "movq $0x5,-0x8(%rbp)"},
		{func(c *Code) { c.MovImm(R9, 5) }, "mov $0x5,%r9d"},
		{func(c *Code) { c.MovImm(BX, 1<<64-1) }, "mov $-0x1,%rbx"},
		{func(c *Code) { c.MovImm(R14, 1<<40) }, "mov $0x10000000000,%r14"},
		{func(c *Code) { c.Movzx(4, BX, R(SI), 1) }, "movzbl %sil,%ebx"},
		{func(c *Code) { c.Movzx(8, R8, M(AX, 0), 2) }, "movzwq (%rax),%r8"},
		{func(c *Code) { c.Movsx(8, R8, M(AX, 0), 1) }, "movsbq (%rax),%r8"},
		{func(c *Code) { c.Movsx(8, R8, R(DX), 4) }, "movsxd %edx,%r8"},
		{func(c *Code) { c.Lea(8, DX, X(R8, R12, 3, -4)) }, "lea -0x4(%r8,%r12,8),%rdx"},
		{func(c *Code) { c.Lea(8, DX, Abs(R15, 2, 0x10)) }, "lea 0x10(,%r15,4),%rdx"},

		{func(c *Code) { c.ALURM(Cmp, 8, DX, M(BP, 0x80)) }, "cmp 0x80(%rbp),%rdx"},
		{func(c *Code) { c.ALUMR(Or, 1, R(AH), CX) }, "or %cl,%ah"},
		{func(c *Code) { c.ALUMR(Xor, 4, R(DX), DX) }, "xor %edx,%edx"},
		{func(c *Code) { c.ALUMI(And, 1, R(AH), 0xef) }, "and $0xef,%ah"},
		{func(c *Code) { c.ALUMI(And, 4, R(CX), 31) }, "and $0x1f,%ecx"},
		{func(c *Code) { c.ALUMI(Sub, 8, M(SI, 0), 1<<64-0x1000) }, "subq $-0x1000,(%rsi)"},
		{func(c *Code) { c.ALUMI32(Sub, 8, R(R14), 3) }, "sub $0x3,%r14"},
		{func(c *Code) { c.ALUAX(Add, 1, 0x7f) }, "add $0x7f,%al"},
		{func(c *Code) { c.ALUAX(And, 4, 0x300) }, "and $0x300,%eax"},
		{func(c *Code) { c.TestMR(8, R(BX), SI) }, "test %rsi,%rbx"},
		{func(c *Code) { c.TestMI(1, M(AX, 0), 0x80) }, "testb $0x80,(%rax)"},
		{func(c *Code) { c.TestAX(1, 7) }, "test $0x7,%al"},
		{func(c *Code) { c.Unary(Inc, 8, R(R15)) }, "inc %r15"},
		{func(c *Code) { c.Unary(Dec, 4, R(CX)) }, "dec %ecx"},
		{func(c *Code) { c.Unary(Not, 1, M(CX, 0)) }, "notb (%rcx)"},
		{func(c *Code) { c.Unary(Neg, 2, R(BX)) }, "neg %bx"},
		{func(c *Code) { c.Unary(Mul, 8, R(BX)) }, "mul %rbx"},
		{func(c *Code) { c.Unary(IMul1, 8, R(BX)) }, "imul %rbx"},
		{func(c *Code) { c.Unary(Div, 4, R(CX)) }, "div %ecx"},
		{func(c *Code) { c.IMulRM(8, BX, M(AX, 0)) }, "imul (%rax),%rbx"},
		{func(c *Code) { c.IMulRMI(4, BX, R(SI), 10) }, "imul $0xa,%esi,%ebx"},
		{func(c *Code) { c.Cwd(4) }, "cltd"},
		{func(c *Code) { c.Cwd(8) }, "cqto"},

		{func(c *Code) { c.ShiftMI(Shl, 4, R(CX), 11) }, "shl $0xb,%ecx"},
		{func(c *Code) { c.ShiftM1(Shr, 8, R(R8)) }, "shr %r8"},
		{func(c *Code) { c.ShiftMC(Rol, 8, R(R8)) }, "rol %cl,%r8"},
		{func(c *Code) { c.BitMI(Bt, 4, R(DX), 11) }, "bt $0xb,%edx"},
		{func(c *Code) { c.BitMR(Bt+1, 8, R(BX), SI) }, "bts %rsi,%rbx"},
		{func(c *Code) { c.Popcnt(8, R10, R(R11)) }, "popcnt %r11,%r10"},
		{func(c *Code) { c.Bswap(8, R13) }, "bswap %r13"},
		{func(c *Code) { c.Bswap(4, SI) }, "bswap %esi"},
		{func(c *Code) { c.Set(O, R(AX)) }, "seto %al"},
		{func(c *Code) { c.Set(NE, R(DI)) }, "setne %dil"},
		{func(c *Code) { c.Cmov(L, 8, BX, R(R9)) }, "cmovl %r9,%rbx"},
		{func(c *Code) { c.Lahf() }, "lahf"},
		{func(c *Code) { c.Sahf() }, "sahf"},

		{func(c *Code) { c.Xchg(4, M(AX, 0), DX) }, "xchg %edx,(%rax)"},
		{func(c *Code) { c.Lock(); c.Xadd(4, M(AX, 0), DX) }, "lock xadd %edx,(%rax)"},
		{func(c *Code) { c.Lock(); c.Cmpxchg(8, M(CX, 0), R15) }, "lock cmpxchg %r15,(%rcx)"},
		{func(c *Code) { c.Lock(); c.Unary(Inc, 4, M(CX, 0)) }, "lock incl (%rcx)"},
		{func(c *Code) { c.JmpTo(X(BP, CX, 0, 8)) }, "jmpq *0x8(%rbp,%rcx)"},
		{func(c *Code) { c.Ret() }, "retq"},
		{func(c *Code) { c.To(c.Call(), 0x105) }, "callq .+0x100"},
		{func(c *Code) { c.To(c.LeaCode(CX), 0x107) }, "lea 0x100(%rip),%rcx"},
	} {
		var c Code
		tt.make(&c)
		if got := emittest.Text(c.B); got != tt.want+"\n" {
			t.Errorf("% x is %s; want %s", c.B, got, tt.want)
		}
	}
}

func TestJumps(t *testing.T) {
	var c Code
	forward := c.Jcc(NE)
	back := c.Len()
	c.Lahf()
	c.To(c.Jmp(), back)
	c.Here(forward)
	pos := c.JmpAligned()
	if pos%4 != 0 {
		t.Errorf("the distance stands at %d", pos)
	}
	const want = "jne .+0x6\nlahf\njmpq .-0x6\nnop\nnop\nnop\njmpq .+0x0\n"
	if got := emittest.Text(c.B); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

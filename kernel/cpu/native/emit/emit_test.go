package emit

import (
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

// TestEncodings has a disassembler read what was made.
func TestEncodings(t *testing.T) {
	for _, tt := range []struct {
		make func(*Code)
		want string
	}{
		{func(c *Code) { c.Op(8, 0x8b, AX, M(BP, 8)) }, "mov 0x8(%rbp),%rax"},
		{func(c *Code) { c.Op(8, 0x8b, R9, M(R13, 0)) }, "mov (%r13),%r9"},
		{func(c *Code) { c.Op(4, 0x8b, CX, M(R12, 0)) }, "mov (%r12,%riz),%ecx"},
		{func(c *Code) { c.Op(4, 0x8b, CX, M(SP, 0x1000)) }, "mov 0x1000(%rsp),%ecx"},
		{func(c *Code) { c.Op(8, 0x8d, DX, X(R8, R12, 3, -4)) }, "lea -0x4(%r8,%r12,8),%rdx"},
		{func(c *Code) { c.Op(8, 0x8d, DX, Abs(R15, 2, 0x10)) }, "lea 0x10(,%r15,4),%rdx"},
		{func(c *Code) { c.Op(1, 0x88, SI, M(AX, 0)) }, "mov %sil,(%rax)"},
		{func(c *Code) { c.Op(1, 0x88, DX, R(DI)) }, "mov %dl,%dil"},
		{func(c *Code) { c.OpByteRM(4, 0x0fb6, BX, R(SI)) }, "movzbl %sil,%ebx"},
		{func(c *Code) { c.Op(2, 0x89, AX, M(BP, 0x200)) }, "mov %ax,0x200(%rbp)"},
		{func(c *Code) { c.OpPrefix(0xf3, 8, 0x0fb8, R10, R(R11)) }, "popcnt %r11,%r10"},
		{func(c *Code) { c.OpPrefix(0xf0, 4, 0x0fc1, DX, M(AX, 0)) }, "lock xadd %edx,(%rax)"},
		{func(c *Code) { c.MovImm(R9, 5) }, "mov $0x5,%r9d"},
		{func(c *Code) { c.MovImm(BX, 1<<64-1) }, "mov $-0x1,%rbx"},
		{func(c *Code) { c.MovImm(R14, 1<<40) }, "mov $0x10000000000,%r14"},
		{func(c *Code) { c.Bswap(8, R13) }, "bswap %r13"},
		{func(c *Code) { c.Bswap(4, SI) }, "bswap %esi"},
	} {
		var c Code
		tt.make(&c)
		i, err := x86asm.Decode(c.B, 64)
		if err != nil {
			t.Errorf("% x: %v", c.B, err)
			continue
		}
		if got := x86asm.GNUSyntax(i, 0, nil); got != tt.want || i.Len != len(c.B) {
			t.Errorf("% x is %s, %d bytes; want %s", c.B, got, i.Len, tt.want)
		}
	}
}

func TestJumps(t *testing.T) {
	var c Code
	forward := c.Jcc(5)
	back := c.Len()
	c.Bytes(0x90)
	c.To(c.Jmp(), back)
	c.Here(forward)
	pos := c.JmpAligned()
	if pos%4 != 0 {
		t.Errorf("the distance stands at %d", pos)
	}
	for _, tt := range []struct {
		at   int
		want string
	}{{0, "jne .+0x6"}, {7, "jmpq .-0x6"}} {
		i, err := x86asm.Decode(c.B[tt.at:], 64)
		if got := x86asm.GNUSyntax(i, 0, nil); err != nil || got != tt.want {
			t.Errorf("at %d: %s, %v; want %s", tt.at, got, err, tt.want)
		}
	}
}

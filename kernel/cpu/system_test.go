package cpu

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
)

// TestSystem is one privileged instruction each: registers before, what must be
// in rax, and a look at the rest.
func TestSystem(t *testing.T) {
	const sel = 0x10
	for _, tt := range []struct {
		name   string
		code   []byte
		ax, cx uint64
		want   uint64
		check  func(c *CPU) bool
	}{
		{"cpuid vendor", []byte{0x0f, 0xa2}, 0, 0, 7, func(c *CPU) bool { return c.R[3] == 0x756e6547 }},
		{"cpuid hypervisor", []byte{0x0f, 0xa2}, 0x40000000, 0, 0x40000000, func(c *CPU) bool { return c.R[3] == 0x6f72706b }},
		{"cpuid unknown", []byte{0x0f, 0xa2}, 0x4000, 0, 0, nil},
		{"mov to dr7", []byte{0x0f, 0x23, 0xf8}, 0x401, 0, 0x401, func(c *CPU) bool { return c.DR[7] == 0x401 }},
		{"dr5 is dr7", []byte{0x0f, 0x21, 0xe8}, 0, 0, 0x400, nil},
		{"mov from cr4", []byte{0x0f, 0x20, 0xe0}, 0, 0, 0x20, nil},
		{"mov to cr3", []byte{0x0f, 0x22, 0xd8}, 0x1000, 0, 0x1000, func(c *CPU) bool { return c.CR3 == 0x1000 && c.TLB.Read[dataVA>>12&core.PageMask].Tag == 1 }},
		{"mov to cr8", []byte{0x44, 0x0f, 0x22, 0xc0}, 5, 0, 5, func(c *CPU) bool { return c.CR8 == 5 }},
		{"clts", []byte{0x0f, 0x06}, 9, 0, 9, func(c *CPU) bool { return c.CR0&8 == 0 }},
		{"smsw", []byte{0x0f, 0x01, 0xe0}, 0, 0, 0x80050033, nil},
		{"rdmsr efer", []byte{0x0f, 0x32}, 0, 0xc0000080, 0xd01, nil},
		{"wrmsr tsc", []byte{0x0f, 0x30, 0x0f, 0x31}, 5000, 0x10, 5001, nil},
		{"rdtscp", []byte{0x0f, 0x01, 0xf9}, 0, 9, 1, func(c *CPU) bool { return c.R[1] == 0 }},
		{"rdpid", []byte{0xf3, 0x0f, 0xc7, 0xf8}, 9, 0, 0, nil},
		{"lar", []byte{0x66, 0x0f, 0x02, 0xc1}, 0, sel, 0x9300, func(c *CPU) bool { return c.RFlags&abi.FlagZF != 0 }},
		{"lar of nothing", []byte{0x0f, 0x02, 0xc1}, 3, 0x70, 3, func(c *CPU) bool { return c.RFlags&abi.FlagZF == 0 }},
		{"lsl", []byte{0x0f, 0x03, 0xc1}, 0, sel, 0xffffffff, nil},
		{"verw", []byte{0x0f, 0x00, 0xe8}, sel, 0, sel, func(c *CPU) bool { return c.RFlags&abi.FlagZF != 0 }},
		{"verr", []byte{0x0f, 0x00, 0xe0}, 0, 0, 0, func(c *CPU) bool { return c.RFlags&abi.FlagZF == 0 }},
		{"mov to ds", []byte{0x8e, 0xd8, 0x8c, 0xd9}, sel, 0, sel, func(c *CPU) bool { return c.R[1] == sel }},
		{"mov null to fs", []byte{0x8e, 0xe0}, 0, 0, 0, func(c *CPU) bool { return c.FSBase == 0 }},
		{"in", []byte{0xec}, 0, 0, 0xff, nil},
		{"out", []byte{0xee}, 7, 0, 7, nil},
		{"rdrand", []byte{0x48, 0x0f, 0xc7, 0xf1}, 0, 0, 0, func(c *CPU) bool { return c.R[1] != 0 && c.RFlags&abi.FlagCF != 0 }},
		{"crc32", []byte{0xf2, 0x48, 0x0f, 0x38, 0xf1, 0xc1}, 0xffffffff, 0x3837363534333231, ^uint64(0x6087809a) & 0xffffffff, nil},
		{"stac", []byte{0x0f, 0x01, 0xcb}, 0, 0, 0, func(c *CPU) bool { return c.RFlags&core.FlagAC != 0 }},
		{"retf", []byte{0x51, 0x50, 0x48, 0xcb}, textVA + 4, sel, textVA + 4, func(c *CPU) bool { return c.Seg[1] == sel && c.R[4] == stackVA }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := machine(t, append(tt.code, 0xf4)...)
			c.mem.WriteU64(dataVA+sel, 0x00cf93000000ffff)
			c.GDT = Table{Base: dataVA, Limit: 0x3f}
			c.R[0], c.R[1], c.FSBase, c.CR0 = tt.ax, tt.cx, 77, c.CR0|8
			if tt.name == "smsw" {
				c.CR0 &^= 8
			}
			c.TLB.Read.Put(dataVA, uint64(uintptr(c.mem.Base()))+dataPA-dataVA)
			if e, _ := c.Run(10); e.Reason != Halt || c.R[0] != tt.want || tt.check != nil && !tt.check(c) {
				t.Errorf("%+v, rax %#x, want %#x; %+v", e, c.R[0], tt.want, c.State)
			}
		})
	}
}

// TestSystemFaults are privileged instructions that must be refused.
func TestSystemFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		code   []byte
		vector uint8
		err    uint64
	}{
		{"rdmsr of none", []byte{0x0f, 0x32}, abi.VecGP, 0},
		{"wrmsr of none", []byte{0x0f, 0x30}, abi.VecGP, 0},
		{"mov to cr1", []byte{0x0f, 0x22, 0xc8}, abi.VecUD, 0},
		{"mov to ss past the gdt", []byte{0x8e, 0xd0}, abi.VecGP, 0x1234&^7 | 4},
		{"mov to cs", []byte{0x8e, 0xc8}, abi.VecUD, 0},
		{"ltr of data", []byte{0x0f, 0x00, 0xd9}, abi.VecGP, 0x10},
		{"lock without memory", []byte{0xf0, 0x01, 0xc0}, abi.VecUD, 0},
		{"lock of a mov", []byte{0xf0, 0x89, 0x06}, abi.VecUD, 0},
		{"vmlaunch", []byte{0x0f, 0x01, 0xc2}, abi.VecUD, 0},
		{"x87", []byte{0xd9, 0xc0}, abi.VecUD, 0},
		{"sse", []byte{0x0f, 0x10, 0xc0}, abi.VecUD, 0},
		{"cmpxchg16b not aligned", []byte{0x48, 0x0f, 0xc7, 0x0e}, abi.VecGP, 0},
		{"16 bytes", []byte{0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90}, abi.VecGP, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := machine(t, tt.code...)
			c.mem.WriteU64(dataVA+0x10, 0x00cf93000000ffff)
			c.GDT = Table{Base: dataVA, Limit: 0x3f}
			c.R[0], c.R[1], c.R[6] = 0x1234, 0x20010, dataVA+8
			want := c.State
			if e := run(t, c, 10, Trap, 0); e.Vector != tt.vector || e.Code != tt.err || c.State != want {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestLoadFarPointer executes lfs, lgs and lss: the first two go on in their block,
// also where they end it.
func TestLoadFarPointer(t *testing.T) {
	for _, op := range []byte{0xb2, 0xb4, 0xb5} {
		c := machine(t, 0x0f, op, 0x3e, 0xf4) // lss, lfs, lgs (%rsi),%edi; hlt
		c.R[6] = dataVA
		c.mem.WriteU64(dataVA, 0x12345678)
		run(t, c, 10, Halt, 2)
		if c.R[7] != 0x12345678 || c.RIP != textVA+4 {
			t.Errorf("%#x: rdi %#x, rip %#x", op, c.R[7], c.RIP)
		}
	}
}

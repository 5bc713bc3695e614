package abi

import (
	"testing"
	"unsafe"
)

// TestRegsOffsets: the constants equal the offsets of Regs' fields.
func TestRegsOffsets(t *testing.T) {
	var r Regs
	for name, at := range map[string][2]uintptr{
		"size": {RegsSize, unsafe.Sizeof(r)}, "ip": {RegsIP, unsafe.Offsetof(r.IP)}, "cs": {RegsCS, unsafe.Offsetof(r.CS)},
		"flags": {RegsFlags, unsafe.Offsetof(r.Flags)}, "sp": {RegsSP, unsafe.Offsetof(r.SP)}, "ss": {RegsSS, unsafe.Offsetof(r.SS)},
	} {
		if at[0] != at[1] {
			t.Errorf("%s: %d, want %d", name, at[0], at[1])
		}
	}
}

// TestRegsSetGet: what Set takes, Get gives back, and each register has its number's place.
func TestRegsSetGet(t *testing.T) {
	var x, y [16]uint64
	for i := range x {
		x[i] = uint64(i) + 100
	}
	r := Regs{OrigAX: 5}
	r.Set(&x, 1, 2)
	want := Regs{
		AX: 100, CX: 101, DX: 102, BX: 103, SP: 104, BP: 105, SI: 106, DI: 107,
		R8: 108, R9: 109, R10: 110, R11: 111, R12: 112, R13: 113, R14: 114, R15: 115,
		IP: 1, Flags: 2, CS: KernelCS, SS: KernelSS, OrigAX: 5,
	}
	if r != want {
		t.Errorf("Set: %+v", r)
	}
	if ip, flags := r.Get(&y); y != x || ip != 1 || flags != 2 {
		t.Errorf("Get: %d, ip %d, flags %d", y, ip, flags)
	}
}

// TestHash64 checks values computed by the definition of Linux's hash_64.
func TestHash64(t *testing.T) {
	for _, test := range []struct {
		v    uint64
		bits uint
		want uint64
	}{{0, 6, 0}, {1, 6, 0x18}, {1, 64, 0x61c8864680b583eb}, {1 << 63, 1, 1}, {2, 8, 0xc3}} {
		if got := Hash64(test.v, test.bits); got != test.want {
			t.Errorf("Hash64(%#x, %d) = %#x, want %#x", test.v, test.bits, got, test.want)
		}
	}
}

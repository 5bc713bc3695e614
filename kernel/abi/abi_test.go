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

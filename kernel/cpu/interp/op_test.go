package interp

import (
	"testing"
	"unsafe"
)

func TestOpSize(t *testing.T) {
	if opSize != 56 || unsafe.Offsetof(CPU{}.CPU) != 0 {
		t.Errorf("an op has %d bytes, or translated code does not find the CPU", opSize)
	}
}

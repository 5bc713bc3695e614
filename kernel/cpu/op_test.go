package cpu

import (
	"testing"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

func TestOpSize(t *testing.T) {
	if opSize != 56 || unsafe.Offsetof(State{}.zero) != decode.RegZero*8 || unsafe.Offsetof(State{}.FSBase) != decode.RegFS*8 ||
		unsafe.Offsetof(State{}.GSBase) != decode.RegGS*8 || unsafe.Offsetof(CPU{}.State) != 0 {
		t.Errorf("an op has %d bytes, or the register file is not as x expects", opSize)
	}
}

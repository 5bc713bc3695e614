package core

import (
	"testing"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// TestPlaces: the State begins as decode numbers registers, and the CPU with the State.
func TestPlaces(t *testing.T) {
	if unsafe.Offsetof(State{}.zero) != decode.RegZero*8 || unsafe.Offsetof(State{}.FSBase) != decode.RegFS*8 ||
		unsafe.Offsetof(State{}.GSBase) != decode.RegGS*8 || unsafe.Offsetof(CPU{}.State) != 0 {
		t.Error("the register file is not as Place expects")
	}
}

package cpu

import (
	"errors"
	"runtime"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/native"
)

func TestParseEngine(t *testing.T) {
	for _, e := range []Engine{Auto, Native, Interp} {
		if got, err := ParseEngine(e.String()); err != nil || got != e {
			t.Errorf("%v: %v, %v", e, got, err)
		}
	}
	if _, err := ParseEngine("jit"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("jit: %v", err)
	}
	if e, err := Auto.Resolve(); err != nil || (e == Native) != (native.Error() == nil) {
		t.Errorf("auto is %v, %v; the native engine: %v", e, err, native.Error())
	}
	if runtime.GOARCH != "amd64" {
		if _, err := Native.Resolve(); !errors.Is(err, syscall.ENOTSUP) {
			t.Errorf("native: %v", err)
		}
	}
}

package ftrace

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fakeText is text at base.
type fakeText struct {
	base uint64
	b    []byte
}

func (f *fakeText) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		copy(f.b[p.Addr-f.base:], p.Bytes)
	}
	return nil
}

func TestSites(t *testing.T) {
	const base, caller = 0x1000, 0x2000
	text := &fakeText{base: base, b: bytes.Repeat([]byte{0x90}, 64)}
	copy(text.b[16:], nop[:])
	s := New(text, []uint64{base + 16}, Callers{Regs: caller})
	at := func() []byte { return text.b[16:21] }
	// e8 rel32, relative to the end of the site: 0x2000 - 0x1015.
	call := []byte{0xe8, 0xeb, 0x0f, 0, 0}

	step := func(name string, err error, want []byte) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(at(), want) {
			t.Errorf("%s: site holds % x, want % x", name, at(), want)
		}
	}
	step("arm", s.Arm(base+16), call)
	step("arm again", s.Arm(base+16), call)
	step("disarm one of two", s.Disarm(base+16), call)
	step("ftrace_enabled=0", s.SetEnabled(false), nop[:])
	step("arm while off", s.Arm(base+16), nop[:])
	step("ftrace_enabled=1", s.SetEnabled(true), call)
	step("disarm", s.Disarm(base+16), call)
	step("disarm the last", s.Disarm(base+16), nop[:])

	for _, bad := range []uint64{base, base + 17} {
		if err := s.Arm(bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Arm(%#x) gave %v, want EINVAL", bad, err)
		}
	}
	if err := s.Disarm(base + 16); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Disarm of an idle site gave %v, want EINVAL", err)
	}
	if !bytes.Equal(text.b[:16], bytes.Repeat([]byte{0x90}, 16)) || !bytes.Equal(text.b[21:], bytes.Repeat([]byte{0x90}, 43)) {
		t.Error("bytes beside the site have changed")
	}
}

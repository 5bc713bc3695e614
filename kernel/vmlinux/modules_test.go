package vmlinux

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// guestKernel is the guest of 6.1 as a Kernel.
func guestKernel(t testing.TB) *Kernel {
	t.Helper()
	m, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	syms := kallsyms.New(m.Symbols)
	k := &Kernel{Image: m, Symbols: syms, Tables: image.NewTables(m, syms), features: DefaultCPU().Features(release.Linux6_1)}
	k.Booted()
	return k
}

func guestModule(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../guest/modules/" + name + ".ko")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAddModule(t *testing.T) {
	k := guestKernel(t)
	for name, ko := range map[string][]byte{"kprobe_example": guestModule(t, "kprobe_example"), "kretprobe_example": gzipped(guestModule(t, "kretprobe_example"))} {
		got, err := k.AddModule(ko)
		if err != nil || got != name {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
	syms := k.LookupName("kprobe_example:before")
	if len(syms) != 1 || !k.KernelText(syms[0].Addr) || !k.FtraceSite(syms[0].Addr) {
		t.Fatalf("before: %+v", syms)
	}
	nop := make([]byte, 5)
	if err := k.Read(syms[0].Addr, nop); err != nil || string(nop) != string(nops[5]) {
		t.Errorf("its entry is % x, %v", nop, err)
	}
	if syms := k.LookupName("kprobe_example:plant"); len(syms) != 0 {
		t.Errorf("its init function is there: %+v", syms)
	}
	if s, off, ok := k.Lookup(syms[0].Addr + 1); !ok || off != 1 || s.Module != "kprobe_example" {
		t.Errorf("%+v, %d", s, off)
	}
	if _, err := k.AddModule(guestModule(t, "kprobe_example")); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second time: %v", err)
	}
	for what, b := range map[string][]byte{"nothing": nil, "text": []byte("no module"), "half of one": guestModule(t, "kprobe_example")[:2000], "a kernel": guest.Image("6.1")} {
		if name, err := k.AddModule(b); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %q, %v", what, name, err)
		}
	}
}

// FuzzModule changes bytes of a module.
func FuzzModule(f *testing.F) {
	ko := guestModule(f, "kprobe_example")
	k := guestKernel(f)
	f.Add(uint32(0x40), byte(1), uint32(0), byte(0))
	f.Add(uint32(5000), byte(255), uint32(9000), byte(1))
	f.Fuzz(func(t *testing.T, at uint32, v byte, at2 uint32, v2 byte) {
		b := append([]byte(nil), ko...)
		b[int(at)%len(b)] ^= v
		b[int(at2)%len(b)] ^= v2
		fresh := &Kernel{Image: &image.Image{Segments: k.Image.Segments[:len(k.Image.Segments):len(k.Image.Segments)], Text: k.Image.Text}, Symbols: kallsyms.New(nil), features: k.features}
		fresh.Tables = image.NewTables(fresh.Image, fresh.Symbols)
		if _, err := fresh.AddModule(b); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}

package kprobes_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// chain is the guest's memory as far as handlers are concerned: the address of the next probe, by the
// address of a struct kprobe.
type chain map[uint64]uint64

// link is the Mirror of the struct at an address.
type link struct {
	chain
	at uint64
}

func (l link) SetFlags(kprobes.Flags) {}
func (l link) SetOpcode(byte)         {}
func (l link) Missed(uint64)          {}
func (l link) RetMissed(uint64)       {}
func (l link) SetNext(at uint64)      { l.chain[l.at] = at }

// TestHandlersInGuest: the detour's word leads to the probes of the address, newest first, while all
// of them are modules'; it is 0 while one is not, and when none is left.
func TestHandlersInGuest(t *testing.T) {
	w := newHistoryWorld(t)
	const addr = kprobetest.Text + 0x100
	next := chain{}
	var first, second, third, ours *kprobes.Kprobe
	module := func(at uint64) *kprobes.Kprobe {
		return &kprobes.Kprobe{Addr: addr, Struct: at, Mirror: link{next, at}, PreHandler: func(*kprobes.Hit) int { return 0 }}
	}
	register := func(p **kprobes.Kprobe, made *kprobes.Kprobe) func() {
		return func() {
			*p = made
			if err := w.k.Register(made); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want []uint64
	}{
		{"one", register(&first, module(0x1000)), []uint64{0x1000}},
		{"two", register(&second, module(0x2000)), []uint64{0x2000, 0x1000}},
		{"one of ours", register(&ours, &kprobes.Kprobe{Addr: addr, PreHandler: func(*kprobes.Hit) int { return 0 }}), nil},
		{"three", register(&third, module(0x3000)), nil},
		{"ours is gone", func() { w.k.Unregister(ours) }, []uint64{0x3000, 0x2000, 0x1000}},
		{"the middle one is gone", func() { w.k.Unregister(second) }, []uint64{0x3000, 0x1000}},
		{"one is disabled", func() { _ = w.k.Disable(third) }, []uint64{0x3000, 0x1000}}, // its flags say so
		{"all are disabled", func() { _ = w.k.Disable(first) }, []uint64{0x3000, 0x1000}},
		{"it is gone", func() { w.k.Unregister(third) }, []uint64{0x1000}},
		{"none", func() { w.k.Unregister(first) }, nil},
	} {
		step.do()
		w.k.WaitOptimizer()
		var got []uint64
		for at := binary.LittleEndian.Uint64(w.Bytes(fixedOp, 8)); at != 0; at = next[at] {
			got = append(got, at)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("%s: %#x, want %#x", step.name, got, step.want)
		}
	}
	if next[0x2000] != 0x1000 {
		t.Errorf("a probe that is gone leads to %#x", next[0x2000]) // who is at it still finds the next
	}
}

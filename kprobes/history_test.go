package kprobes_test

import (
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// TestHistory: a probed address knows what has happened to it, and the optimizer what waits.
func TestHistory(t *testing.T) {
	w := newHistoryWorld(t)
	outer := &kprobes.Kprobe{Addr: kprobetest.Text + 0x100}
	if err := w.k.Register(outer); err != nil {
		t.Fatal(err)
	}
	if q := w.k.Queues(); !q.On || !q.Scheduled || !slices.Equal(q.Jumps, []uint64{outer.Addr}) || len(q.Breakpoints) != 0 {
		t.Errorf("queued: %+v", q)
	}
	w.k.WaitOptimizer()
	inner := &kprobes.Kprobe{Addr: kprobetest.Text + 0x101}
	if err := w.k.Register(inner); err != nil {
		t.Fatal(err)
	}
	want := []string{"registered", "int3 is written", "queued for its jump", "the jump is written", "a probe is armed in its region", "the jump is replaced by int3"}
	if got := w.history(t, outer.Addr); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range 20 {
		if err := w.k.Disable(inner); err != nil {
			t.Fatal(err)
		}
		if err := w.k.Enable(inner); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range w.k.Points() {
		if i.Addr == inner.Addr && (i.Before == 0 || len(i.History) == 0 || len(i.History) > 12) {
			t.Errorf("%d changes after %d others", len(i.History), i.Before)
		}
	}
}

// TestKeepsItsJump: a probe that is enabled again before its jump is removed keeps it, and its history
// says so.
func TestKeepsItsJump(t *testing.T) {
	w := newHistoryWorld(t)
	p := &kprobes.Kprobe{Addr: kprobetest.Text + 0x100}
	if err := w.k.Register(p); err != nil {
		t.Fatal(err)
	}
	w.k.WaitOptimizer()
	if err := w.k.Disable(p); err != nil {
		t.Fatal(err)
	}
	if err := w.k.Enable(p); err != nil {
		t.Fatal(err)
	}
	want := []string{"registered", "int3 is written", "queued for its jump", "the jump is written", "it is disarmed", "queued to lose its jump", "keeps its jump"}
	if got := w.history(t, p.Addr); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

type historyWorld struct {
	*kprobetest.Kernel
	k *kprobes.Kprobes
}

func newHistoryWorld(t *testing.T) historyWorld {
	t.Helper()
	m := kprobetest.New()
	m.Func(0x100, "f", 0x55, 0x53, 0x48, 0x89, 0xfb, 0x5b, 0x5d, 0xc3)
	c := m.Config()
	c.Optimizer = fixedDetour{}
	return historyWorld{m, kprobes.New(c)}
}

func (w historyWorld) history(t *testing.T, addr uint64) (all []string) {
	t.Helper()
	for _, i := range w.k.Points() {
		if i.Addr != addr {
			continue
		}
		for _, c := range i.History {
			all = append(all, c.What)
		}
	}
	return all
}

// fixedOp is where fixedDetour has what the guest's callback gets.
const fixedOp = kprobetest.Slots + 0x808

// fixedDetour makes each probe a jump over five bytes.
type fixedDetour struct{}

func (fixedDetour) Prepare(addr uint64, text func(addr uint64, p []byte) error) (*kprobes.Detour, error) {
	region := make([]byte, 5)
	if err := text(addr, region); err != nil {
		return nil, err
	}
	at := uint64(kprobetest.Slots + 0x800)
	return &kprobes.Detour{Region: region, Jump: []byte{0xe9, 0, 0, 0, 0}, Addr: at, Code: []byte{0x90}, Copied: at, Op: fixedOp}, nil
}

func (fixedDetour) Free(*kprobes.Detour) {}

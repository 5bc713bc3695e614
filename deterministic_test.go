package kprobefs_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestDeterministic runs the same machine twice with a virtual clock. Both must have
// retired the same number of instructions at each step.
func TestDeterministic(t *testing.T) {
	run := func() (counts []uint64, hits int) {
		clock := kernel.NewVirtualClock(1_700_000_000_000_000_000)
		s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Deterministic: true, Seed: 7, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		counts = append(counts, settled(s))
		p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5, PreHandler: func(*kprobes.Hit) int { hits++; return 0 }}
		if err := s.Kprobes.Register(p); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			got, err := s.Machine.Call(t.Context(), "int_sqrt", uint64(i*i))
			if err != nil || got != uint64(i) {
				t.Fatalf("int_sqrt(%d) gave %d, %v", i*i, got, err)
			}
			counts = append(counts, settled(s))
		}
		s.Kprobes.Unregister(p)
		return counts, hits
	}
	first, hits := run()
	second, hits2 := run()
	if !slices.Equal(first, second) || hits != 5 || hits2 != 5 {
		t.Errorf("two runs retired %v and %v instructions, with %d and %d hits, want equal, and 5", first, second, hits, hits2)
	}
}

// settled waits until all vCPUs are idle and returns the number of retired
// instructions.
func settled(s *kprobefs.Kernel) uint64 {
	for !s.Machine.Idle() {
		time.Sleep(time.Millisecond)
	}
	return s.Machine.Retired()
}

// TestHashedPointers defines a probe by its address on several machines. The hashed
// addresses differ between machines, and are the same on deterministic ones. No
// machine shows that its random numbers are not ready.
func TestHashedPointers(t *testing.T) {
	listed := func(o kprobefs.Options) string {
		o.CPUs = 1
		s, err := kprobefs.Boot(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		at := s.Machine.Symbols().LookupName("vfs_read")[0].Addr
		if _, err := s.Tracer.Definitions().WriteKprobeEvents(fmt.Appendf(nil, "p:a %#x", at)); err != nil {
			t.Fatal(err)
		}
		line, ok := s.Tracer.Definitions().KprobeEvent(0)
		if want := fmt.Sprintf("p:kprobes/a 0x%016x\n", s.Machine.HashPtr(at)); !ok || line != want {
			t.Errorf("the listing says %q, want %q", line, want)
		}
		return line
	}
	if a, b := listed(kprobefs.Options{}), listed(kprobefs.Options{}); a == b {
		t.Errorf("two machines hash alike: %q", a)
	}
	fixed := kprobefs.Options{Deterministic: true, Clock: kernel.NewVirtualClock(0)}
	if a, b := listed(fixed), listed(fixed); a != b {
		t.Errorf("two deterministic machines hash as %q and %q", a, b)
	}
}

// TestClockFile: machine/clock shows a virtual clock and moves it.
func TestClockFile(t *testing.T) {
	k := start(t, kprobefs.Options{Clock: kernel.NewVirtualClock(0)})
	before, err := k.ReadFile("machine/clock")
	if err != nil {
		t.Fatal(err)
	}
	if err := k.WriteFile("machine/clock", "1000000"); err != nil {
		t.Fatal(err)
	}
	after, err := k.ReadFile("machine/clock")
	if err != nil || string(before) == string(after) {
		t.Errorf("%q, then %q, %v", before, after, err)
	}
	if err := k.WriteFile("machine/clock", "-1"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a time before now: %v", err)
	}
}

package system_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/cmd/kprobefs/system"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestDeterministic boots the same machine twice with a virtual clock and finds
// it after the same number of instructions at each step.
func TestDeterministic(t *testing.T) {
	run := func() (counts []uint64, hits int) {
		clock := kernel.NewVirtualClock(1_700_000_000_000_000_000)
		s, err := system.New(system.Options{CPUs: 2, Deterministic: true, Seed: 7, Clock: clock})
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

// settled gives the number of retired instructions when all vCPUs are idle.
func settled(s *system.System) uint64 {
	for !s.Machine.Idle() {
		time.Sleep(time.Millisecond)
	}
	return s.Machine.Retired()
}

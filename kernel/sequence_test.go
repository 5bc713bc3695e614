package kernel

import (
	"slices"
	"testing"

	images "github.com/kprobefs/kprobefs/kernel/guest"
)

// bootSequenced boots a sequenced machine with two vCPUs.
func bootSequenced(t *testing.T, e Engine) *Machine {
	t.Helper()
	m, err := Boot(Options{Image: images.Image("6.1"), CPUs: 2, Clock: NewVirtualClock(1e18), Deterministic: true, Sequenced: true, Engine: e})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// TestSequenced: machines that execute the same calls retire the same instructions, with each engine, and also if a
// debugger stops one of them in between and steps it.
func TestSequenced(t *testing.T) {
	addr := func(m *Machine) uint64 { return m.Symbols().LookupName("int_sqrt")[0].Addr }
	run := func(e Engine, stops bool) (counts []uint64) {
		m := bootSequenced(t, e)
		counts = append(counts, m.Retired())
		for i := range 6 {
			if stops {
				m.StopAt(AllCPUs, m.Retired()+40+13*uint64(i))
			}
			done := make(chan error, 1)
			m.Enter()
			go func() {
				defer m.Leave()
				got, err := m.CallOn(t.Context(), i%2, addr(m), 500, uint64(i*i))
				if got != uint64(i) {
					t.Errorf("int_sqrt(%d) gave %d", i*i, got)
				}
				m.Settle(nil)
				done <- err
			}()
			if stops {
				awaitStop(t, m)
				for range 100 {
					if _, err := m.Debugger().Step(i%2, false); err != nil {
						t.Error(err)
					}
				}
				m.Debugger().Continue()
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			m.Advance(10e6)
			counts = append(counts, m.Retired(), uint64(m.Now()))
		}
		return counts
	}
	want := run(EngineInterp, false)
	for name, got := range map[string][]uint64{
		"again": run(EngineInterp, false), "engine": run(EngineAuto, false), "stops": run(EngineAuto, true),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func awaitStop(t *testing.T, m *Machine) {
	t.Helper()
	for {
		changed := m.Debugger().Changed()
		if _, stopped := m.Debugger().Stopped(); stopped {
			return
		}
		<-changed
	}
}

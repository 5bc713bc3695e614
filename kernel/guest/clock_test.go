package guest_test

import (
	"context"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/guest"
)

// TestVirtualClock: nothing in the guest waits for time to pass while all CPUs are
// idle, since a virtual clock stands still then.
func TestVirtualClock(t *testing.T) {
	for _, deterministic := range []bool{false, true} {
		m, err := kernel.Boot(kernel.Options{
			Image: guest.Image("6.1"), CPUs: 2, Clock: kernel.NewVirtualClock(0), Deterministic: deterministic, Seed: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		done := make(chan error, 1)
		go func() {
			for _, f := range []string{"synchronize_rcu", "synchronize_rcu_tasks", "rcu_barrier", "synchronize_rcu"} {
				if _, err := m.Call(context.Background(), f); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Errorf("deterministic %v: a grace period waits for time to pass", deterministic)
		}
	}
}

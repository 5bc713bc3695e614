package kernel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// reader opens a file in the guest as a thread of its own, and returns a function that
// reads it with op as the file's operation.
func reader(t *testing.T, m *testMachine, tid int) func(ctx context.Context, op host.FileOp) (int64, error) {
	t.Helper()
	c := host.Caller{TID: tid, PID: tid, Comm: func() string { return "reader" }}
	fd, _, err := m.Host().Do(t.Context(), c, host.Call{
		Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/enabled", Mode: syscall.S_IFREG | 0o600, FOps: abi.FOpsSeq,
	}, func(context.Context, host.Op) (int, error) { return 0, nil })
	if err != nil || fd < 0 {
		t.Fatal(fd, err)
	}
	return func(ctx context.Context, op host.FileOp) (int64, error) {
		n, _, err := m.Host().Do(ctx, c, host.Call{Nr: abi.SysRead, FD: int(fd), Count: 64}, op)
		return n, err
	}
}

// unknownTID is close to the largest ID that the guest takes. Few hosts have threads with
// such IDs, by which tasks would be placed.
const unknownTID = 1<<22 - 1000

// TestBorrowed: one call after the other runs on the caller's goroutine, and leaves the
// vCPU to the task until others need it.
func TestBorrowed(t *testing.T) {
	m := boot(t, 1)
	read := reader(t, m, unknownTID)
	v := m.cpus[0]
	soon(t, "a call finds the vCPU free, which rests during the file operation", func() bool {
		var busy bool
		n, err := read(t.Context(), func(context.Context, host.Op) (int, error) {
			busy = v.inRun.Load() // another goroutine has it if it was not free
			return 2, nil
		})
		if n != 2 || err != nil {
			t.Fatal(n, err)
		}
		return v.parked.Load() != 0 && !busy
	})
	soon(t, "the tick puts the task to sleep", func() bool { return v.parked.Load() == 0 && m.Idle() })
}

// TestBorrowedOperationWaits: while a file operation waits, others have its vCPU.
func TestBorrowedOperationWaits(t *testing.T) {
	m := boot(t, 1)
	waits, reads := reader(t, m, unknownTID), reader(t, m, unknownTID+1)
	for _, c := range []struct {
		name string
		wait func(ctx context.Context, over <-chan struct{})
	}{
		{"for its context", func(ctx context.Context, over <-chan struct{}) {
			select {
			case <-ctx.Done():
			case <-over:
			}
		}},
		{"unnoticed", func(_ context.Context, over <-chan struct{}) { <-over }},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun, over, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				n, err := waits(t.Context(), func(ctx context.Context, _ host.Op) (int, error) {
					close(begun)
					c.wait(ctx, over)
					return 3, nil
				})
				if n != 3 {
					err = errors.Join(err, syscall.Errno(-n))
				}
				done <- err
			}()
			<-begun
			for range 20 {
				if n, err := reads(t.Context(), func(context.Context, host.Op) (int, error) { return 2, nil }); n != 2 || err != nil {
					t.Fatal(n, err)
				}
			}
			m.SynchronizeRCU()
			m.StopMachine(func() {})
			close(over)
			if err := within(t, "the operation that waits", done); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBorrowersAndOthers: requests of many threads, some of whose operations wait, with
// machine stops and grace periods in between. All of them end, with the right result.
func TestBorrowersAndOthers(t *testing.T) {
	for _, cpus := range []int{1, 2} {
		m := boot(t, cpus)
		const threads, calls = 8, 150
		var inside, ended atomic.Int32
		var wg sync.WaitGroup
		for i := range threads {
			read := reader(t, m, unknownTID+i)
			wg.Go(func() {
				for n := range calls {
					got, err := read(t.Context(), func(ctx context.Context, _ host.Op) (int, error) {
						defer inside.Add(-1)
						inside.Add(1)
						if n%10 == i {
							time.Sleep(100 * time.Microsecond)
						}
						if n%7 == i {
							_ = ctx.Done()
						}
						return 1 + n%60, nil
					})
					if got != int64(1+n%60) || err != nil {
						t.Errorf("%d vCPUs, thread %d, call %d: %d, %v", cpus, i, n, got, err)
						return
					}
				}
				ended.Add(1)
			})
		}
		done := make(chan error)
		go func() { wg.Wait(); close(done) }()
		for ended.Load() < threads && !t.Failed() {
			m.StopMachine(func() {})
			m.SynchronizeRCU()
			time.Sleep(time.Millisecond)
			if t.Context().Err() != nil {
				break
			}
		}
		_ = within(t, "all calls", done)
	}
}

// TestCloseWhileBorrowed: Close waits for the goroutines that have borrowed vCPUs.
func TestCloseWhileBorrowed(t *testing.T) {
	for range 5 {
		m := boot(t, 2)
		var wg sync.WaitGroup
		for i := range 4 {
			read := reader(t, m, unknownTID+i)
			wg.Go(func() {
				for {
					_, err := read(context.Background(), func(context.Context, host.Op) (int, error) { return 0, nil })
					if err != nil {
						if !errors.Is(err, host.ErrStopped) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		time.Sleep(2 * time.Millisecond)
		if err := m.Retire(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
}

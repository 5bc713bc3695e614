package host

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// driver is how calls are made on a machine that does not run by itself
// (kernel.Options.Sequenced): who waits for the guest executes it. Nothing here depends on how
// fast the host is.
type driver struct {
	// await executes the guest until due returns true. It fails with ErrStopped, when ctx ends, and, if it is
	// impatient, with ErrIdle when nothing happens in the guest before something else does.
	await func(ctx context.Context, due func() bool, impatient bool) error
	now   func() int64   // nanoseconds since boot
	later func(f func()) // does f when nobody waits for the guest
}

// ErrIdle means that a guest that is waited for has nothing to do.
var ErrIdle = errors.New("the guest is idle")

// Drive has calls execute the guest themselves. It must be called before the first one.
func (h *Host) Drive(await func(context.Context, func() bool, bool) error, now func() int64, later func(func())) {
	h.driver = &driver{await, now, later}
}

// later does f when the caller's locks are free.
func (h *Host) later(f func()) {
	if h.driver != nil {
		h.driver.later(f)
	} else {
		go f()
	}
}

// drive is await for a machine that does not run by itself. The caller that is interrupted has
// patience by the machine's clock. A call that is abandoned keeps its task.
func (t *Task) drive(ctx context.Context, r *request, op FileOp) (int64, error) {
	d := t.h.driver
	due, rest := r.due, ctx
	var end int64
	late := false
	for {
		select {
		case e := <-r.events:
			if e.ended {
				return e.ret, nil
			}
			t.fileOp(ctx, r, e, op)
			continue
		default:
		}
		if late || end != 0 && d.now() >= end {
			if t.withdraw(r) {
				return 0, fmt.Errorf("the guest has not begun: %w", syscall.EINTR)
			}
			return 0, ErrAbandoned
		}
		err := d.await(rest, due, end != 0)
		switch {
		case err == nil:
		case errors.Is(err, ErrStopped):
			return 0, err
		case errors.Is(err, ErrIdle):
			late = true
		case end == 0: // the caller was interrupted
			t.cutShort(r)
			t.interrupt(r, false)
			end = d.now() + int64(patience)
			rest = context.WithoutCancel(ctx)
			due = func() bool { return len(r.events) > 0 || d.now() >= end }
		}
	}
}

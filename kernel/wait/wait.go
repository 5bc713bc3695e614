// Package wait is how what is done for a caller waits: for an entry of a buffer, a record
// of the log, the guest. On a machine whose outside events have an order, all that happens
// is done in turns (kernel.Options.Sequenced). Who waits there gives up its turn, and gets
// another one at a moment that does not depend on the host: its context has a Parker, which
// sees to that.
package wait

import "context"

// Parker gives turns.
type Parker interface {
	// Park ends the caller's turn, and returns in a later one: when ready has returned true, or, with
	// false, when ctx has ended. ready is called in turns of others, and must not wait.
	Park(ctx context.Context, ready func() bool) bool
	// Boundary is called between two bursts of instructions, in the caller's turn.
	Boundary()
}

type key struct{}

// With returns a context of somebody to whom p gives turns.
func With(ctx context.Context, p Parker) context.Context { return context.WithValue(ctx, key{}, p) }

// Of returns the Parker of a context, or nil.
func Of(ctx context.Context) Parker {
	p, _ := ctx.Value(key{}).(Parker)
	return p
}

// For waits until ch has a value or is closed. It returns false if ctx ends before.
func For(ctx context.Context, ch <-chan struct{}) bool {
	if p := Of(ctx); p != nil {
		return p.Park(ctx, func() bool { return got(ch) })
	}
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return false
	}
}

func got(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

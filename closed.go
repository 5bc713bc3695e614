package kprobefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ErrClosed is the error of the methods of a Kernel after Close, and of those that Close ends.
var ErrClosed = errors.New("the kernel is closed")

// errNoContext is the error of methods whose context is nil.
var errNoContext = errors.New("no context given")

// users are the methods of a Kernel that use its memory: Close waits for them.
type users struct {
	mu     sync.Mutex
	n      int
	none   chan struct{} // closed when n is 0 after closing
	closed context.Context
	cancel context.CancelFunc
}

// begin starts a method, unless the kernel is closed. leave must be called at its end.
func (u *users) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed.Err() != nil {
		return ErrClosed
	}
	u.n++
	return nil
}

// leave ends a method.
func (u *users) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.n--; u.n == 0 && u.none != nil {
		close(u.none)
	}
}

// closePatience is how long Close waits for methods that run. Only a handler or a module's
// function that does not end takes so long.
const closePatience = 2 * time.Second

// close lets no method begin any more, ends the waits of those that run, and waits until they
// have returned, closePatience at most. It reports whether they have. A second call returns
// ErrClosed.
func (u *users) close() (all bool, err error) {
	none := make(chan struct{})
	u.mu.Lock()
	if u.closed.Err() != nil {
		u.mu.Unlock()
		return false, ErrClosed
	}
	u.cancel()
	if u.none = none; u.n == 0 {
		close(none)
	}
	u.mu.Unlock()
	select {
	case <-none:
		return true, nil
	case <-time.After(closePatience):
		return false, nil
	}
}

// using runs f, unless the kernel is closed.
func (k *Kernel) using(f func() error) error {
	if err := k.users.begin(); err != nil {
		return err
	}
	defer k.users.leave()
	return f()
}

// until returns a context that ends with ctx, or when the kernel is closed.
func (k *Kernel) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(k.users.closed, cancel)
	return ctx, func() { stop(); cancel() }
}

// because adds to the error of a call why it has ended: the kernel was closed, or ctx ended.
func (k *Kernel) because(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case k.users.closed.Err() != nil:
		return errors.Join(ErrClosed, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// handlerGrace is how long a call whose context has ended may take to return: longer means that
// a handler, which is Go code and cannot be interrupted, does not return.
const handlerGrace = 100 * time.Millisecond

// errHandler is the error of a call that outlives its context.
var errHandler = errors.New("a handler, or code that cannot be interrupted, has not returned")

// called is Call, which returns soon after the end of ctx. The function may run on then, and later
// calls wait for its end: it has the thread on which they run.
func (k *Kernel) called(ctx context.Context, function string, args []uint64) (uint64, error) {
	if err := k.late.wait(ctx); err != nil {
		return 0, fmt.Errorf("%s: %w: %w", function, err, errHandler)
	}
	if ctx.Done() == nil { // nothing ends it
		ret, err := k.call(ctx, function, args)
		return ret, k.because(ctx, err)
	}
	var ret uint64
	var err error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		ret, err = k.call(ctx, function, args)
	}()
	select {
	case <-returned:
		return ret, k.because(ctx, err)
	case <-ctx.Done():
	}
	select {
	case <-returned:
		return ret, k.because(ctx, err)
	case <-time.After(handlerGrace):
		k.late.add(returned)
		return 0, fmt.Errorf("%s: %w: %w", function, context.Cause(ctx), errHandler)
	}
}

// lateCalls are the calls that have outlived their contexts.
type lateCalls struct {
	mu    sync.Mutex
	calls []<-chan struct{} // closed at the end of each
}

func (l *lateCalls) add(call <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
}

// wait waits for the end of all of them, or of ctx.
func (l *lateCalls) wait(ctx context.Context) error {
	l.mu.Lock()
	calls := slices.Clone(l.calls)
	l.mu.Unlock()
	for _, c := range calls {
		select {
		case <-c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = slices.DeleteFunc(l.calls, func(c <-chan struct{}) bool { return slices.Contains(calls, c) })
	return nil
}

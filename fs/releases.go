package fs

import (
	"slices"
	"sync"
	"time"
)

// releasePatience is how long a request waits for the release of a file. Only guest
// code that does not end takes so long.
const releasePatience = 2 * time.Second

// releases are the pending RELEASE requests. On Linux a file has been released when
// its last close(2) returns. FUSE has only queued RELEASE by then, so the requests
// that come after it wait for its end.
type releases struct {
	mu       sync.Mutex
	underWay []chan struct{} // closed at the end
	mounts   []*filesystem   // with open connections; the slice is replaced, not changed

	// stopped reports whether a debugger has stopped the machine: releases then last until it goes on.
	stopped func() bool
}

// releaseTick is how often a wait for a release looks whether the machine is stopped.
const releaseTick = 2 * time.Millisecond

// join adds a mount.
func (r *releases) join(f *filesystem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mounts = append(slices.Clone(r.mounts), f)
}

// leave removes a mount.
func (r *releases) leave(f *filesystem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mounts = slices.DeleteFunc(slices.Clone(r.mounts), func(o *filesystem) bool { return o == f })
}

// all returns the mounts.
func (r *releases) all() []*filesystem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mounts
}

// begin adds a RELEASE that has been read. end must be called when it is over.
func (r *releases) begin() (end func()) {
	over := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay = append(r.underWay, over)
	return func() {
		close(over)
		r.forget(over)
	}
}

// forget removes releases, for which no more requests wait.
func (r *releases) forget(these ...chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay = slices.DeleteFunc(r.underWay, func(c chan struct{}) bool { return slices.Contains(these, c) })
}

// wait waits for the releases that came before a request through mount f, or until its
// caller is interrupted. The RELEASE requests of other mounts may not have been read
// yet; without f, neither may any mount's. It calls waits before it waits, and
// reports whether it has waited for all of them. While a debugger has stopped the machine, it
// waits for none.
func (r *releases) wait(f *filesystem, cancel <-chan struct{}, waits func()) bool {
	r.mu.Lock()
	mounts := r.mounts
	r.mu.Unlock()
	for _, o := range mounts {
		if o != f && o.handles.any() && !o.server.caughtUp(cancel, waits) {
			return false
		}
	}
	r.mu.Lock()
	these := slices.Clone(r.underWay)
	r.mu.Unlock()
	if len(these) == 0 || r.stopped() {
		return true
	}
	waits()
	tick := time.NewTicker(releaseTick)
	defer tick.Stop()
	begun := time.Now()
	for len(these) > 0 {
		select {
		case <-these[0]:
			these = these[1:]
		case <-cancel:
			return false
		case <-tick.C:
			switch {
			case r.stopped():
				return true
			case time.Since(begun) > releasePatience:
				r.forget(these...)
				return true
			}
		}
	}
	return true
}

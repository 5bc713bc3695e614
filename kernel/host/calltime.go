package host

import (
	"sync/atomic"
	"time"
)

// How long a process waits for the guest in a call that the host's kernel carries out. A
// call that has waited in vain halves this for the calls after it, since a process makes
// many calls.
const (
	activityPatience = time.Second
	slowPatience     = 5 * time.Millisecond
)

// A CallTime is how long a call may wait for the guest. The zero value is a second. It is
// safe for concurrent use.
type CallTime struct {
	less atomic.Int64 // ns, or 0 for activityPatience
}

// Now returns the time of a call that begins now.
func (t *CallTime) Now() time.Duration {
	if d := t.less.Load(); d != 0 {
		return time.Duration(d)
	}
	return activityPatience
}

// Late takes the time that a call has waited in vain. The next ones have half of it.
func (t *CallTime) Late(waited time.Duration) {
	half := int64(max(waited/2, slowPatience))
	for {
		d := t.less.Load()
		if d != 0 && d <= half || t.less.CompareAndSwap(d, half) {
			return
		}
	}
}

// InTime says that the guest was not late for a call. The next ones have all of the time.
func (t *CallTime) InTime() {
	if t.less.Load() != 0 {
		t.less.Store(0)
	}
}

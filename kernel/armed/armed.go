// Package armed tells of the moments at which something begins or ends to see what a kernel does: a probe is
// armed or disarmed, a listener comes to an fentry site, an event is enabled, perf opens an event, a module is
// loaded or unloaded.
//
// Each owner of such things notes its changes, with its own locks held. Who follows them only remembers that
// there was one, and asks the owners later.
package armed

import "sync/atomic"

// Changes joins those who arm with the one who follows what is armed. A nil Changes has no follower.
type Changes struct {
	follower atomic.Pointer[func()]
}

// Follow has f called at each change, in place of the function before. f must not wait, and must not ask
// the owners, since it runs with their locks held. A nil f ends that.
func (c *Changes) Follow(f func()) {
	if f == nil {
		c.follower.Store(nil)
		return
	}
	c.follower.Store(&f)
}

// Note tells the follower that what is armed has changed. The caller has made the change before.
func (c *Changes) Note() {
	if c == nil {
		return
	}
	if f := c.follower.Load(); f != nil {
		(*f)()
	}
}

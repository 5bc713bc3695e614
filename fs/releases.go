package fs

import (
	"slices"
	"sync"
	"time"
)

// closing is how long a request waits for a file that is being closed. Only guest
// code that does not end takes so long.
const closing = 2 * time.Second

// releases are the RELEASEs under way. On Linux a file's release is over when the
// close(2) returns that was the last; the host's kernel only queues it until then,
// in front of what comes after the close(2). So what comes after waits for it.
type releases struct {
	mu       sync.Mutex
	underWay []chan struct{} // closed at the end
	faces    []*face         // whose requests are read; replaced, not changed
}

// join is a mount whose requests are read from now on.
func (r *releases) join(f *face) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faces = append(slices.Clone(r.faces), f)
}

// leave is the end of one.
func (r *releases) leave(f *face) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faces = slices.DeleteFunc(slices.Clone(r.faces), func(o *face) bool { return o == f })
}

// begin is a RELEASE that has been read; end is to be called when it is over.
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

// forget has nobody wait for these any more.
func (r *releases) forget(these ...chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay = slices.DeleteFunc(r.underWay, func(c chan struct{}) bool { return slices.Contains(these, c) })
}

// wait waits until the files are closed that were so when a request came through f,
// or its caller is interrupted. Those that were open through other mounts may
// still have to be read.
func (r *releases) wait(f *face, cancel <-chan struct{}) {
	r.mu.Lock()
	faces := r.faces
	r.mu.Unlock()
	for _, o := range faces {
		if o != f && o.handles.any() {
			o.server.caughtUp(cancel)
		}
	}
	r.mu.Lock()
	these := slices.Clone(r.underWay)
	r.mu.Unlock()
	if len(these) == 0 {
		return
	}
	late := time.NewTimer(closing)
	defer late.Stop()
	for _, over := range these {
		select {
		case <-over:
		case <-cancel:
			return
		case <-late.C:
			r.forget(these...)
			return
		}
	}
}

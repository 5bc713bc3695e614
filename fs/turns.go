package fs

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// turns says which of a server's loops reads the next request. One loop leads: it reads
// a request, answers it itself and reads the next one, so that no thread has to wake
// another for a request that does not wait. It passes the lead
//
//   - when its request is going to wait: what waits asks for the Done of its context
//     (request), or calls server.waits,
//   - when the request has taken a tick, whatever the reason (server.watch),
//   - when more requests are queued and fewer loops than half of the processors answer.
//
// The leader polls for a moment before it sleeps, if that has paid lately (spin): who
// makes one call after the other comes back sooner than a sleeping thread is woken.
type turns struct {
	leader  atomic.Pointer[worker]
	active  atomic.Int32 // number of loops that answer and do not wait
	watched atomic.Bool  // watch runs
	poll    host.Poll    // the leader's
	spins   bool         // there is more than one processor

	mu      sync.Mutex
	workers []*worker // of all loops
	idle    []*worker // that wait for the lead
	dead    bool      // the connection has ended
}

// worker is the state of a loop.
type worker struct {
	request atomic.Uint64 // number of the request that it answers, or 0
	count   atomic.Uint64 // of requests that it has read
	state   atomic.Int32
	wake    chan struct{} // gets the lead
	flow    *flow         // what it answers if requests have an order, or nil
	direct  *connection   // if it answers a request that has no place in the order, or nil
	in, out [smallBuf]byte
}

// States of a worker.
const (
	reading   = iota // leads, and waits for a request
	answering        // leads, and answers one
	following        // answers one
	sleeping         // answers one, which waits
	parked           // waits for the lead
)

const (
	// tick is how long a request may take before another loop leads. It is also the
	// interval of watch, which runs while there are requests.
	tick = time.Millisecond
	// idleTicks is after how many of them without a request watch ends.
	idleTicks = 10
	// maxIdle is how many loops wait for the lead; what more there are end.
	maxIdle = 16
)

// parallel is how many loops answer requests that do not wait. The clients need the rest
// of the processors: with two, a second loop does not make sixteen clients faster.
func parallel() int32 { return int32(max(1, runtime.NumCPU()/2)) }

func (t *turns) join(w *worker) {
	t.leader.Store(w)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers = append(t.workers, w)
}

func (t *turns) leave(w *worker) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.workers = slices.DeleteFunc(t.workers, func(o *worker) bool { return o == w })
}

// all returns the workers.
func (t *turns) all() []*worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.workers)
}

// end has all loops end when they have answered their requests. It reports whether it
// is the first call.
func (t *turns) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.dead
	t.dead = true
	for _, w := range t.idle {
		close(w.wake)
	}
	t.idle = nil
	return first
}

// lead is called by the leader when it has read a request.
func (s *server) lead(w *worker) {
	t := &s.turns
	w.count.Add(1)
	w.state.Store(answering)
	if t.active.Add(1) < parallel() && s.ready(0) && w.state.CompareAndSwap(answering, following) {
		s.promote()
	}
	if !t.watched.Load() && t.watched.CompareAndSwap(false, true) {
		go s.watch()
	}
}

// answered is called by a loop that has answered its request. It reports whether the
// loop leads.
func (t *turns) answered(w *worker) bool {
	if w.state.CompareAndSwap(answering, reading) {
		t.active.Add(-1)
		return true
	}
	if w.state.Swap(parked) == following {
		t.active.Add(-1)
	}
	return false
}

// wait waits until w has the lead. It returns false if w's loop is to end.
func (t *turns) wait(w *worker) bool {
	t.mu.Lock()
	if t.dead || len(t.idle) >= maxIdle {
		t.mu.Unlock()
		return false
	}
	t.idle = append(t.idle, w)
	t.mu.Unlock()
	_, ok := <-w.wake
	return ok
}

// waits is called when the request with a number is going to wait.
func (s *server) waits(id uint64) {
	for _, w := range s.turns.all() {
		if w.request.Load() == id {
			s.pass(w)
		}
	}
}

// pass counts w's request as one that waits. If w leads, another loop leads now.
func (s *server) pass(w *worker) {
	if w.state.CompareAndSwap(answering, sleeping) {
		s.turns.active.Add(-1)
		s.promote()
	} else if w.state.CompareAndSwap(following, sleeping) {
		s.turns.active.Add(-1)
	}
}

// promote gives another loop the lead.
func (s *server) promote() {
	t := &s.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead {
		return
	}
	n := len(t.idle)
	if n == 0 {
		s.loops.Add(1) // the loop that led has not ended
		go s.loop()
		return
	}
	w := t.idle[n-1]
	t.idle = t.idle[:n-1]
	w.state.Store(reading)
	t.leader.Store(w)
	w.wake <- struct{}{}
}

// watch passes the lead of a loop whose request has taken a tick. It ends when no
// requests have come for a while.
func (s *server) watch() {
	t := &s.turns
	var last *worker
	var count uint64
	for quiet := 0; ; {
		time.Sleep(tick)
		w := t.leader.Load()
		n := w.count.Load()
		same := w == last && n == count
		last, count = w, n
		switch {
		case !same:
			quiet = 0
		case w.state.Load() == answering:
			s.pass(w)
		case quiet < idleTicks:
			quiet++
		default:
			t.watched.Store(false)
			// The leader may have seen true for a request that it has read just now.
			if w := t.leader.Load(); w == last && w.count.Load() == count || !t.watched.CompareAndSwap(false, true) {
				return
			}
			quiet = 0
		}
	}
}

// spin is a leader's wait for a request.
type spin struct {
	t     *turns
	start time.Time // of the wait; zero if a request was queued already
}

// again reports whether the leader, which has found no request, is to look again at
// once. If not, it sleeps until there is one.
func (s *spin) again() bool {
	if s.start.IsZero() {
		s.start = time.Now()
	}
	return s.t.spins && s.t.poll.Again(s.start)
}

// over is called when a request has come.
func (s *spin) over() {
	if !s.start.IsZero() {
		s.t.poll.Waited(time.Since(s.start))
	}
}

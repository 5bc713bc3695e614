package kprobes

// Change is what has happened to a probed address.
type Change struct {
	At   int64 // nanoseconds of the machine's clock
	What string
}

// historySize is how many changes of an address are kept, the latest ones.
const historySize = 12

// history is a ring of changes.
type history struct {
	changes [historySize]Change
	n       int // of all changes
}

// note keeps a change of a point. The caller holds k.mu.
func (k *Kprobes) note(pt *point, what string) {
	if pt.past == nil {
		pt.past = &history{}
	}
	pt.past.changes[pt.past.n%historySize] = Change{k.cfg.Machine.Now(), what}
	pt.past.n++
}

// list returns the changes, the oldest first, and how many there were before them.
func (h *history) list() (changes []Change, before int) {
	if h == nil {
		return nil, 0
	}
	for i := max(0, h.n-historySize); i < h.n; i++ {
		changes = append(changes, h.changes[i%historySize])
	}
	return changes, h.n - len(changes)
}

// Queues is the state of the optimizer.
type Queues struct {
	On          bool     // debug.kprobes-optimization
	Scheduled   bool     // its work runs within OptimizeDelay
	Jumps       []uint64 // addresses that wait for their jump, in the order of the queue
	Breakpoints []uint64 // addresses whose jump is to be replaced by the breakpoint
	Garbage     int      // buffers and slots that are freed after the next grace period
}

// Queues returns the state of the optimizer.
func (k *Kprobes) Queues() Queues {
	k.mu.look()
	defer k.mu.Unlock()
	q := k.jumps.state()
	q.On = q.On && k.cfg.Optimizer != nil
	return q
}

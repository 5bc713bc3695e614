package kprobes

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Rethook is struct rethook of somebody who is no return probe: when told of a
// function's entry in another way, as fprobes are, it can have its return hooked.
type Rethook struct {
	k    *Kprobes
	pool *instancePool
}

// NewRethook is rethook_alloc: so many calls at a time can be hooked, each with so
// many bytes of data. exit is called at the returns, in atomic Go; what it leaves in
// the registers is ignored. EINVAL: no calls or too much data; ENOENT: there is
// nowhere to return to.
func (k *Kprobes) NewRethook(calls int, dataSize uint64, exit func(ri *Instance, t *abi.Trap)) (*Rethook, error) {
	if calls <= 0 || dataSize > maxRetData {
		return nil, errf(syscall.EINVAL, "%d calls with %d bytes of data", calls, dataSize)
	}
	if err := k.findTrampoline(); err != nil {
		return nil, err
	}
	pool := newPool(nil, calls, dataSize)
	pool.exit = exit
	return &Rethook{k, pool}, nil
}

// Get is rethook_try_get: an instance for a call of the task that has just begun, to
// be filled and given to Hook. nil: all are in use. Atomic.
func (r *Rethook) Get(t *abi.Trap) *Instance {
	ri := r.pool.get()
	if ri != nil {
		ri.Task = t.Task
	}
	return ri
}

// Hook is rethook_hook: the call that has just begun will return over the instance.
// Atomic.
func (r *Rethook) Hook(ri *Instance, t *abi.Trap) {
	if !r.k.hook(ri, t) {
		r.pool.put(ri)
	}
}

// Stop is rethook_free: calls that are still in the function return without exit.
func (r *Rethook) Stop() { r.pool.dead.Store(true) }

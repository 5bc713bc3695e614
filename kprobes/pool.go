package kprobes

import (
	"math/bits"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// instancePool is struct rethook: the instances of one registration of a return
// probe, or of a Rethook. They are allocated and freed without a lock.
//
// Each CPU has its part of them and takes from the others' only what its own has not, so
// that CPUs whose calls are few at a time do not write to the same cache lines.
type instancePool struct {
	exit  func(*Instance, *abi.Trap) // set for a Rethook; a return probe has its own handler
	dead  atomic.Bool                // unregistered: returns no longer call handlers
	parts []poolPart                 // by CPU
}

// poolPart is the part of a pool that is a CPU's: instances that follow each other.
type poolPart struct {
	all  []Instance
	free []freeInstances
}

// freeInstances has a bit for each of 64 instances.
type freeInstances struct {
	bits atomic.Uint64
	_    [cacheLines - 8]byte
}

// cacheLines is how far apart in bytes what two CPUs write to must be: a processor may
// fetch lines of 64 bytes by pairs.
const cacheLines = 128

func newPool(rp *Retprobe, n int, dataSize uint64, cpus int) *instancePool {
	all, pool := make([]Instance, n), &instancePool{parts: make([]poolPart, cpus)}
	for cpu := range pool.parts {
		from, to := n*cpu/cpus, n*(cpu+1)/cpus
		part := &pool.parts[cpu]
		part.all, part.free = all[from:to], make([]freeInstances, (to-from+63)/64)
		for i := range part.all {
			ri := &part.all[i]
			*ri = Instance{Retprobe: rp, Index: from + i, Data: make([]byte, dataSize), pool: pool, part: part}
			pool.put(ri)
		}
	}
	return pool
}

// get is rethook_try_get: it allocates a free instance for a call on a CPU, or returns nil.
func (pool *instancePool) get(cpu int) *Instance {
	ri := pool.parts[cpu].get()
	for i := 0; ri == nil && i < len(pool.parts); i++ {
		ri = pool.parts[i].get()
	}
	return ri
}

// get allocates the part's first free instance.
func (part *poolPart) get() *Instance {
	for i := range part.free {
		word := &part.free[i].bits
		for free := word.Load(); free != 0; free = word.Load() {
			if word.CompareAndSwap(free, free&(free-1)) {
				ri := &part.all[i*64+bits.TrailingZeros64(free)]
				ri.RetAddr = 0
				return ri
			}
		}
	}
	return nil
}

// put is rethook_recycle.
func (pool *instancePool) put(ri *Instance) {
	i := ri.Index - ri.part.all[0].Index
	ri.part.free[i/64].bits.Or(1 << (i % 64))
}

package host

import (
	"math/bits"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A task of the guest runs where its thread runs: CPU n of the host stands for vCPU n
// modulo the number of vCPUs. The thread's affinity (taskset) is read at each call,
// which takes well below a microsecond. Its CPU is read from /proc, which takes 20 us,
// only now and then.

// place tells the vCPUs on which a task may run, and the best one.
type place struct {
	cpus, cpu uint64    // a bit for each allowed vCPU, or 0 if not known yet; number of the best
	looked    time.Time // when cpu was read
}

// placeAge is how long a thread is assumed to stay on its CPU.
const placeAge = 100 * time.Millisecond

// Follow has tasks run on the vCPU, of so many, that stands for their thread's CPU.
func (h *Host) Follow(cpus int) {
	if cpus > 1 && cpus <= 64 {
		h.cpus = cpus
	}
}

// follow updates the place of t, which is in no call.
func (t *Task) follow() {
	if t.h.cpus == 0 || t.tid <= 0 {
		return
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(t.tid, &set) != nil {
		return // the thread has ended or cannot be seen
	}
	p := t.place
	p.cpus = fold(&set, t.h.cpus)
	if bits.OnesCount64(p.cpus) == 1 {
		p.cpu = uint64(bits.TrailingZeros64(p.cpus))
	} else if now := time.Now(); now.Sub(p.looked) >= placeAge {
		p.looked = now
		if s, err := proc.ReadStat(t.tid); err == nil && s.CPU >= 0 {
			p.cpu = uint64(s.CPU % t.h.cpus)
		}
	}
	if p.cpus != t.place.cpus || p.cpu != t.place.cpu {
		_ = t.h.g.WriteU64(t.addr+abi.CallCPU, p.cpu)
		_ = t.h.g.WriteU64(t.addr+abi.CallCPUs, p.cpus)
	}
	t.mu.Lock()
	t.place = p
	t.mu.Unlock()
}

// fold maps a set of the host's CPUs to one of n vCPUs.
func fold(set *unix.CPUSet, n int) (cpus uint64) {
	const wordBits = bits.UintSize
	for i, w := range set {
		for ; w != 0; w &= w - 1 {
			cpus |= 1 << ((i*wordBits + bits.TrailingZeros64(uint64(w))) % n)
		}
	}
	return cpus
}

package vm

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Read copies memory as it is now, without the stubs. It fails with EFAULT where nothing is mapped.
func (m *VM) Read(addr uint64, p []byte) error {
	if err := m.mem.ReadAt(addr, p); err != nil {
		return err
	}
	end := addr + uint64(len(p))
	for at, s := range *m.stubs.Load() {
		for i, b := range s.hidden {
			if a := at + uint64(i); addr <= a && a < end {
				p[a-addr] = b
			}
		}
	}
	return nil
}

// Poke does what text_poke does: see kernel.Machine.Poke.
func (m *VM) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		for _, a := range [...]uint64{p.Addr, p.Addr + uint64(max(len(p.Bytes), 1)) - 1} {
			if _, perm, ok := m.mem.Lookup(a); !ok || perm&mem.Exec == 0 {
				return fmt.Errorf("text_poke at %#x, which is not text: %w", a, syscall.EFAULT)
			}
		}
	}
	m.stopped(func() {
		for _, p := range patches {
			_ = m.mem.PokeText(p.Addr, p.Bytes) // it is mapped
		}
	})
	return nil
}

// stopped calls f while no vCPU executes.
func (m *VM) stopped(f func()) {
	for _, v := range m.cpus {
		v.cpu.Kick()
	}
	m.gate.Lock()
	defer m.gate.Unlock()
	f()
}

// AllocSlot returns n bytes of executable memory: see insnslot.Cache.Alloc.
func (m *VM) AllocSlot(n int) (uint64, error) { return m.slots.Alloc(n) }

// FreeSlot frees memory from AllocSlot. No vCPU may be executing in it.
func (m *VM) FreeSlot(addr uint64) { m.slots.Free(addr) }

// SynchronizeRCU returns when every vCPU has left the handler and the copy of an instruction that it
// was in.
func (m *VM) SynchronizeRCU() {
	for i := 0; !m.quiescent((*vcpu).quiescent); i++ {
		rest(i)
	}
}

// SynchronizeRCUTasks returns when every call that was in progress has ended.
func (m *VM) SynchronizeRCUTasks() {
	calls := map[*vcpu]uint64{}
	m.stopped(func() {
		for _, v := range m.cpus {
			calls[v] = v.calls
		}
	})
	for i := 0; !m.quiescent(func(v *vcpu) bool { return !v.calling || v.calls != calls[v] }); i++ {
		rest(i)
	}
}

// quiescent reports whether all vCPUs are, as seen while none executes.
func (m *VM) quiescent(is func(*vcpu) bool) (all bool) {
	all = true
	m.stopped(func() {
		for _, v := range m.cpus {
			all = all && is(v)
		}
	})
	return all
}

// rest lets the vCPUs execute.
func rest(i int) {
	if i < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(100 * time.Microsecond)
}

// SlotsInUse counts the slots that are allocated, without the one that functions return to, and
// ftrace's trampolines.
func (m *VM) SlotsInUse() int {
	n := m.slots.InUse() - 1
	for _, s := range *m.stubs.Load() {
		if s.hidden == nil {
			n--
		}
	}
	return n
}

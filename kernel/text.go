package kernel

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Read copies the present contents of kernel memory. It fails with EFAULT where nothing is mapped.
func (m *Machine) Read(addr uint64, p []byte) error { return m.mem.ReadAt(addr, p) }

// maxStop is how many patches one stop of the machine writes, so that vCPUs wait
// only a fraction of a millisecond.
const maxStop = 1024

// Poke does what text_poke does: it writes the patches while no vCPU executes guest
// code. It writes all of them, or none when one is outside executable memory
// (EFAULT). Many patches take several stops and are written in order.
func (m *Machine) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		if err := m.checkText(p); err != nil {
			return err
		}
	}
	var err error
	for some := range slices.Chunk(patches, maxStop) {
		m.StopMachine(func() {
			for _, p := range some {
				if e := m.mem.PokeText(p.Addr, p.Bytes); e != nil && err == nil {
					err = e
				}
			}
		})
	}
	return err
}

func (m *Machine) checkText(p abi.Patch) error {
	if len(p.Bytes) == 0 {
		return nil
	}
	for _, a := range [...]uint64{p.Addr, p.Addr + uint64(len(p.Bytes)) - 1} {
		if _, perm, ok := m.mem.Lookup(a); !ok || perm&mem.Exec == 0 {
			return fmt.Errorf("text_poke at %#x, which is not text: %w", a, syscall.EFAULT)
		}
	}
	return nil
}

// AllocSlot returns n bytes of executable memory: see insnslot.Cache.Alloc.
func (m *Machine) AllocSlot(n int) (uint64, error) { return m.slots.Alloc(n) }

// FreeSlot frees memory from AllocSlot. No vCPU may be executing in it.
func (m *Machine) FreeSlot(addr uint64) { m.slots.Free(addr) }

// SlotsInUse counts the allocated pieces, except ftrace's trampolines, which are
// never freed.
func (m *Machine) SlotsInUse() int { return m.slots.InUse() - m.trampolines() }

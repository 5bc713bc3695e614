package kprobes

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// A handler is Go code. Where a handler on Linux would raise an exception, a Go
// handler accesses guest memory that is not mapped (by the methods of Hit below), or
// causes a run-time panic that corresponds to a trap.

// Load reads the word at addr as a handler's own load instruction would. When addr
// is not mapped, Load calls the probe's fault handler. If that returns 1, the load is
// retried, and gives 0 if it fails again. Otherwise it is a fault in the kernel: the
// handler is aborted, and its probe disabled.
func (h *Hit) Load(addr uint64) uint64 {
	v, err := h.Mem.ReadU64(addr)
	if err == nil {
		return v
	}
	h.mustHandle(addr, 0)
	v, _ = h.Mem.ReadU64(addr)
	return v
}

// Store writes the word at addr as a handler's own store instruction would. It treats
// faults as Load does; a retry that fails writes nothing.
func (h *Hit) Store(addr, v uint64) {
	if h.Mem.WriteU64(addr, v) == nil {
		return
	}
	h.mustHandle(addr, errWrite)
	_ = h.Mem.WriteU64(addr, v)
}

// Read is copy_from_kernel_nofault, an access with a fixup: it calls the probe's fault
// handler as Load does. It fails with EFAULT if there is none, or if the retry fails.
func (h *Hit) Read(addr uint64, p []byte) error {
	err := h.Mem.ReadAt(addr, p)
	if err != nil && h.faulted(addr, 0) {
		err = h.Mem.ReadAt(addr, p)
	}
	return err
}

// Write is copy_to_kernel_nofault. It treats faults as Read does.
func (h *Hit) Write(addr uint64, p []byte) error {
	err := h.Mem.WriteAt(addr, p)
	if err != nil && h.faulted(addr, errWrite) {
		err = h.Mem.WriteAt(addr, p)
	}
	return err
}

// errWrite is the bit of a page fault's error code for a write.
const errWrite = 2

// guestFault is the value that a handler panics with after an access to unmapped memory.
type guestFault struct {
	addr uint64
	nr   int
}

func (f guestFault) Error() string {
	if f.nr == abi.VecGP {
		return fmt.Sprintf("general protection fault, for non-canonical address %#x", f.addr)
	}
	return fmt.Sprintf("BUG: unable to handle page fault for address: %016x", f.addr)
}

func (h *Hit) mustHandle(addr, code uint64) {
	if !h.faulted(addr, code) {
		panic(guestFault{addr, vectorOf(addr)})
	}
}

// faulted calls the fault handler for an access by its probe's handler.
func (h *Hit) faulted(addr, code uint64) bool {
	if h.hits == nil || h.hits.has[release.NoFaultHandlers] {
		return false
	}
	h.hits.missFault(h)
	before, beforeCode := h.Addr, h.ErrorCode
	h.Addr, h.ErrorCode = addr, code
	handled := h.hits.callFault(h.Probe, h, vectorOf(addr))
	h.Addr, h.ErrorCode = before, beforeCode
	return handled
}

// missFault counts a fault of a handler as a missed hit, as 5.10 does.
func (hs *Hits) missFault(h *Hit) {
	if pt := hs.cpus[h.CPU].point; pt != nil && pt != &hs.returns {
		miss(pt)
		return
	}
	h.Probe.miss()
}

// vectorOf returns the exception that an access to an unmapped address raises.
func vectorOf(addr uint64) int {
	if s := int64(addr) >> 47; s != 0 && s != -1 {
		return abi.VecGP
	}
	return abi.VecPF
}

// trapOf returns the exception that corresponds to a panic of Go's run time.
func trapOf(why any) (nr int, ok bool) {
	var err runtime.Error
	if e, is := why.(error); !is || !errors.As(e, &err) {
		return 0, false
	}
	switch text := err.Error(); { // Go has no types for these errors
	case strings.HasSuffix(text, "integer divide by zero"):
		return abi.VecDE, true
	case strings.Contains(text, "nil pointer dereference"):
		return abi.VecPF, true
	}
	return 0, false
}

// callFault calls the fault handler of p. It is not called for a fault of its own.
func (hs *Hits) callFault(p *Kprobe, h *Hit, nr int) (handled bool) {
	c := &hs.cpus[h.CPU]
	if p.FaultHandler == nil || c.faulting || p.muted() {
		return false
	}
	done := false
	c.faulting = true
	defer func() {
		c.faulting = false
		if !done {
			hs.handlerPanicked(p, recover())
		}
	}()
	handled = p.FaultHandler(h, nr) != 0
	done = true
	return handled
}

// faultStepped calls the fault handlers of c's point for a fault of the stepped copy.
// It returns true when one has resolved it; execution then continues at t.Regs.
func (hs *Hits) faultStepped(c *ctlblk, t *abi.Trap) bool {
	flags := t.Regs.Flags
	t.Regs.IP = c.point.addr
	t.Regs.Flags |= c.saved
	for _, p := range c.point.list.Load().probes {
		if p.FaultHandler == nil {
			continue
		}
		c.fault = Hit{Trap: t, Probe: p, hits: hs}
		if !hs.callFault(p, &c.fault, int(t.Vector)) {
			continue
		}
		if t.Regs.IP == c.point.addr { // execute it again
			t.Regs.IP = c.code.slot
			t.Regs.Flags &^= abi.FlagIF
			return true
		}
		c.end()
		return true
	}
	t.Regs.IP, t.Regs.Flags = c.code.slot, flags
	return false
}

// faultHandler calls the fault handler of a probe whose handler is guest code (a
// jprobe's, or one that a module has registered) and has faulted.
func (hs *Hits) faultHandler(c *ctlblk, t *abi.Trap) bool {
	p := hs.jprobes.of(t).p
	switch {
	case p != nil:
	case c.point == &hs.returns:
		p = c.ret.Probe
	default:
		p = c.hit.Probe
	}
	c.fault = Hit{Trap: t, Probe: p, hits: hs}
	hs.missFault(&c.fault)
	return hs.callFault(p, &c.fault, int(t.Vector))
}

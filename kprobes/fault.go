package kprobes

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// A handler is Go code: what would be an exception of the processor in one of
// Linux's is an access to guest memory that is not there (the methods of Hit
// here), or a run-time panic of Go that stands for a trap.

// Load is a handler's own load of the word at addr. When there is none it is a
// fault: the probe's fault handler is asked, and when that answers 1 the load is
// tried again, and gives 0 if there is still nothing. Else it is what a fault in
// the kernel is: the handler is given up, and its probe disabled.
func (h *Hit) Load(addr uint64) uint64 {
	v, err := h.Mem.ReadU64(addr)
	if err == nil {
		return v
	}
	h.mustHandle(addr, 0)
	v, _ = h.Mem.ReadU64(addr)
	return v
}

// Store is a handler's own store to the word at addr; as Load, but if there is
// still nothing to write to, it does nothing.
func (h *Hit) Store(addr, v uint64) {
	if h.Mem.WriteU64(addr, v) == nil {
		return
	}
	h.mustHandle(addr, errWrite)
	_ = h.Mem.WriteU64(addr, v)
}

// Read is copy_from_kernel_nofault, an access with a fixup: the probe's fault
// handler is asked as by Load; without it, or when the bytes are not there then
// either, the error is EFAULT.
func (h *Hit) Read(addr uint64, p []byte) error {
	err := h.Mem.ReadAt(addr, p)
	if err != nil && h.faulted(addr, 0) {
		err = h.Mem.ReadAt(addr, p)
	}
	return err
}

// Write is copy_to_kernel_nofault; as Read.
func (h *Hit) Write(addr uint64, p []byte) error {
	err := h.Mem.WriteAt(addr, p)
	if err != nil && h.faulted(addr, errWrite) {
		err = h.Mem.WriteAt(addr, p)
	}
	return err
}

// errWrite is the bit of a page fault's error code for a write.
const errWrite = 2

// guestFault is what a handler panics with that touched memory which is not there.
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

// faulted asks the fault handler about an access of its probe's handler.
func (h *Hit) faulted(addr, code uint64) bool {
	if h.k == nil || !h.k.cfg.FaultHandlers {
		return false
	}
	h.k.missFault(h)
	before, beforeCode := h.Addr, h.ErrorCode
	h.Addr, h.ErrorCode = addr, code
	handled := h.k.callFault(h.Probe, h, vectorOf(addr))
	h.Addr, h.ErrorCode = before, beforeCode
	return handled
}

// missFault counts a fault of a handler, as 5.10 was seen to.
func (k *Kprobes) missFault(h *Hit) {
	if pt := k.cpus[h.CPU].point; pt != nil && pt != &k.returns {
		miss(pt)
		return
	}
	h.Probe.missed.Add(1)
}

// vectorOf is the exception of an access to an address that nothing is at.
func vectorOf(addr uint64) int {
	if s := int64(addr) >> 47; s != 0 && s != -1 {
		return abi.VecGP
	}
	return abi.VecPF
}

// trapOf is the exception that a panic of Go's run time stands for.
func trapOf(why any) (nr int, ok bool) {
	var err runtime.Error
	if e, is := why.(error); !is || !errors.As(e, &err) {
		return 0, false
	}
	switch text := err.Error(); { // Go has no types for them
	case strings.HasSuffix(text, "integer divide by zero"):
		return abi.VecDE, true
	case strings.Contains(text, "nil pointer dereference"):
		return abi.VecPF, true
	}
	return 0, false
}

// callFault calls the fault handler of p. A fault of its own is not for it.
func (k *Kprobes) callFault(p *Kprobe, h *Hit, nr int) (handled bool) {
	c := &k.cpus[h.CPU]
	if p.FaultHandler == nil || c.faulting || p.muted() {
		return false
	}
	done := false
	c.faulting = true
	defer func() {
		c.faulting = false
		if !done {
			k.broke(p, recover())
		}
	}()
	handled = p.FaultHandler(h, nr) != 0
	done = true
	return handled
}

// faultStepped asks the fault handlers of c's point about a fault of its copy.
// True: one has dealt with it, and t.Regs are where to go on.
func (k *Kprobes) faultStepped(c *ctlblk, t *abi.Trap) bool {
	flags := t.Regs.Flags
	t.Regs.IP = c.point.addr
	t.Regs.Flags |= c.saved
	for _, p := range c.point.list.Load().probes {
		if p.FaultHandler == nil {
			continue
		}
		c.fault = Hit{Trap: t, Probe: p, k: k}
		if !k.callFault(p, &c.fault, int(t.Vector)) {
			continue
		}
		if t.Regs.IP == c.point.addr { // once more
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

// faultHandler asks the fault handler of the probe whose handler is guest code that
// has faulted: a jprobe's, or one that a module has registered.
func (k *Kprobes) faultHandler(c *ctlblk, t *abi.Trap) bool {
	p := c.away.p
	switch {
	case p != nil:
	case c.point == &k.returns:
		p = c.ret.Probe
	default:
		p = c.hit.Probe
	}
	c.fault = Hit{Trap: t, Probe: p, k: k}
	k.missFault(&c.fault)
	return k.callFault(p, &c.fault, int(t.Vector))
}

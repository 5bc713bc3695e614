package kernel

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// WriteState writes what tells a state of a stopped or idle machine from others: the contents of its RAM, the registers
// of the vCPUs, pending interrupts, the clock, and how many instructions were retired. Two machines that were
// booted alike and write the same are in the same state, as far as guest code can see.
func (m *Machine) WriteState(w io.Writer) error {
	m.memMu.RLock()
	defer m.memMu.RUnlock()
	if m.memGone {
		return fmt.Errorf("the machine has been closed: %w", syscall.EIO)
	}
	fmt.Fprintln(w, m.Retired(), m.clock.Now(), m.clock.Wall())
	for _, v := range m.cpus {
		v.lock()
		fmt.Fprintln(w, v.cpu.State, v.started.Load(), v.idle.Load())
		for i := range v.irqs {
			fmt.Fprintln(w, v.irqs[i].Load())
		}
		v.own.Unlock()
	}
	return m.writeRAM(w)
}

// writeRAM writes the pages that are not zero, with their numbers.
func (m *Machine) writeRAM(w io.Writer) error {
	var zero [abi.PageSize]byte
	for pa := uint64(0); pa < m.mem.Size(); pa += abi.PageSize {
		page := m.mem.Phys(pa, abi.PageSize)
		if bytes.Equal(page, zero[:]) {
			continue
		}
		if err := binary.Write(w, binary.LittleEndian, pa); err != nil {
			return err
		}
		if _, err := w.Write(page); err != nil {
			return err
		}
	}
	return nil
}

// ImageHash is the SHA-256 of the image, in hexadecimal.
func (m *Machine) ImageHash() string { return fmt.Sprintf("%x", sha256.Sum256(m.opts.Image)) }

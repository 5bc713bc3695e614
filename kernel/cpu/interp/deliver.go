package interp

import (
	"fmt"
	"syscall"
)

// Deliver does what the processor does on an interrupt or exception: it pushes
// the frame (and the error code) on the stack, or on the one that the gate's IST
// chooses, and goes to the handler of the guest's IDT. It is called between
// Runs. The error (EFAULT) means that the IDT or the stack is bad; nothing has
// changed then.
func (c *CPU) Deliver(vector uint8, hasCode bool, code uint64) (err error) {
	c.sync()
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*fault)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("vector %d cannot be delivered at %#x: exception %d, code %#x, address %#x: %w",
				vector, c.RIP, f.vector, f.code, f.addr, syscall.EFAULT)
		}
	}()
	rip, cs, ist, masks := c.gate(vector)
	sp := c.R[4]
	if ist != 0 {
		sp = c.load(c.TSS+0x1c+8*uint64(ist), 8, false)
	}
	sp &^= 15
	flags := c.RFlags
	if isFault(vector) {
		flags |= flagRF
	}
	frame := [6]uint64{code, c.RIP, uint64(c.Seg[segCS]), flags, c.R[4], uint64(c.Seg[segSS])}
	words := frame[:]
	if !hasCode {
		words = frame[1:]
	}
	sp -= 8 * uint64(len(words))
	c.canWrite(sp, 8*uint64(len(words)), true)
	for i, v := range words {
		c.store(sp+8*uint64(i), v, 8, true)
	}
	c.R[4], c.RIP, c.Seg[segCS] = sp, rip, cs
	c.RFlags &^= flagTF | flagNT | flagRF
	if masks {
		c.RFlags &^= flagIF
	}
	c.Shadow = false
	return nil
}

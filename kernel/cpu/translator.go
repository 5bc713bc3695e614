package cpu

import (
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/interp"
	"github.com/kprobefs/kprobefs/kernel/cpu/native"
)

// A translator is the interp.Translator of a machine: it has native translate what the
// interpreter enters often, and deals with what translated code is left for.
type translator struct {
	blocks *interp.Cache
	code   *native.Code
	all    atomic.Pointer[[]*translated] // by number. The blocks' lock is held when it is replaced.
}

var _ interp.Translator = (*translator)(nil)

// translated is a block and its translation.
type translated struct {
	hot   *translator
	block *interp.Block
	code  *native.Translation
	n     int64 // the block's instructions
}

var _ interp.Translation = (*translated)(nil)

// translated is what has been left.
func (h *translator) translated(e native.Exit) *translated { return (*h.all.Load())[e.Number()] }

func (h *translator) clear() { h.all.Store(new([]*translated)) }

// Translatable implements interp.Translator.
func (h *translator) Translatable(in *decode.Inst) bool { return native.Translatable(in) }

// Phase implements interp.Translator.
func (h *translator) Phase() *atomic.Uint64 { return h.code.Phase() }

// Translate implements interp.Translator.
func (h *translator) Translate(b *interp.Block) interp.Translation {
	code := h.code.Translate(b.RIP(), b.Insts())
	if code == nil {
		return nil
	}
	t := &translated{hot: h, block: b, code: code, n: b.Len()}
	all := append(*h.all.Load(), t) // its number is code's
	h.all.Store(&all)
	h.code.Publish(code)
	return t
}

// Attend implements interp.Translator: the vCPU is not in translated code. The last one
// to say so empties the memory.
func (h *translator) Attend(c *interp.CPU) {
	if !h.code.Acknowledge(&c.CPU) {
		return
	}
	h.blocks.DropTranslated()
	h.clear()
	h.code.Empty()
}

// Drop implements interp.Translation.
func (t *translated) Drop() { t.hot.code.Drop(t.code) }

// Enter implements interp.Translation: it executes translated code until there is none to
// go on with.
func (t *translated) Enter(c *interp.CPU) (next *interp.Op) {
	code := t.hot.code
	at := code.Place(&c.CPU, t.code)
	if at == 0 {
		return t.block.Op(0)
	}
	for at != 0 {
		c.LendFlags()
		exit := code.Enter(&c.CPU, at)
		if exit.Kind() == native.Hypercall {
			at, next = t.hot.hypercall(c, exit)
			continue
		}
		c.TakeFlags()
		at, next = t.hot.left(c, exit)
	}
	return next
}

// left deals with an exit of translated code. It returns the code to go on with, or 0 and
// what Enter returns.
func (h *translator) left(c *interp.CPU, exit native.Exit) (at uintptr, next *interp.Op) {
	t := h.translated(exit)
	o := t.block.Op(exit.Inst())
	switch exit.Kind() {
	case native.Breakpoint:
		return h.breakpoint(c, o)
	case native.Slow:
		c.Left += t.n
		return 0, o
	case native.NoLeft:
		return 0, c.Look(t.block.RIP())
	}
	c.Go(o.Imm)
	if c.Interprets(o.Imm) {
		return 0, nil
	}
	return h.code.Link(t.code, exit.Inst()), nil
}

// hypercall has a vmcall answered. The hook may run other code meanwhile, and forget this.
func (h *translator) hypercall(c *interp.CPU, exit native.Exit) (at uintptr, next *interp.Op) {
	t := h.translated(exit)
	resume, rip, gen := c.Aside.Resume, c.RIP, h.code.Generation()
	c.TakeFlagsLater()
	switch {
	case !c.Hit(core.Hypercall):
		c.Settle()
		return 0, t.block.Op(exit.Inst()).Refused(c)
	case c.RIP == rip && h.code.Stays(gen):
		return resume, nil
	}
	c.Settle()
	return 0, c.Look(c.RIP)
}

// breakpoint has int3 o answered.
func (h *translator) breakpoint(c *interp.CPU, o *interp.Op) (at uintptr, next *interp.Op) {
	if !c.Hit(core.Trap) {
		return 0, o.Refused(c)
	}
	if c.GoOnBehindTrap(); !c.Went() {
		return 0, nil
	}
	return h.code.Known(&c.CPU, c.RIP), nil
}

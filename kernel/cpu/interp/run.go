package interp

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// chunk is after how many instructions Run looks whether it was kicked.
const chunk = 4096

// sync makes what is private to the vCPU agree with the memory.
func (c *CPU) sync() {
	if e := c.mem.Epoch(); e != c.epoch {
		c.epoch = e
		c.FlushTLB()
	}
}

// Run executes at most budget instructions. It returns why it ended and how many
// were retired: exactly those whose effects are there. int3, int, hlt, pause and
// vmcall count as retired, an instruction that faults does not, a REP counts
// once, when it is complete.
func (c *CPU) Run(budget uint64) (core.Exit, uint64) {
	nested := c.Running.Load()
	if !nested {
		c.Running.Store(true)
	}
	c.sync()
	c.total = int64(min(budget, maxBudget))
	c.more, c.Left = c.total, 0
	c.ccOp = ccNone
	c.run()
	c.Settle()
	retired := uint64(c.total - c.more - c.Left)
	c.TSC += retired
	if !nested {
		c.Running.Store(false)
	}
	e := &c.exit // field by field: wider loads would wait for the narrow stores
	return core.Exit{Reason: e.Reason, Vector: e.Vector, HasCode: e.HasCode, Code: e.Code, Addr: e.Addr}, retired
}

// run executes until there is an exit.
func (c *CPU) run() {
	for c.ready() {
		h := c.lookup(c.RIP)
		if h == nil {
			return
		}
		if need := h.need(); c.Left < need && !c.refill(need) || c.RFlags&flagTF != 0 || c.Shadow {
			if c.step(h) && !c.hooked() {
				return
			}
			continue
		}
		if c.block(h.Next()) && !c.hooked() {
			return
		}
	}
}

// hooked says whether the exit was one that the hook has dealt with.
func (c *CPU) hooked() bool {
	if c.asked {
		c.asked = false
		return false
	}
	if c.hook == nil || c.exit.Reason != core.Hypercall && (c.exit.Reason != core.Trap || c.exit.Vector != abi.VecBP) {
		return false
	}
	c.Settle()
	return c.hook.OnHit(c.exit.Reason)
}

// ready looks at all that can end Run between two instructions.
func (c *CPU) ready() bool {
	if c.Aside.Acked.Load() != c.cache.phase.Load() {
		c.cache.translator.Attend(c)
	}
	switch {
	case c.kick.Load() != 0 && c.kick.Swap(0) != 0:
		c.exit = core.Exit{Reason: core.Kick}
	case c.wantIRQ.Load() && c.RFlags&flagIF != 0 && !c.Shadow:
		c.exit = core.Exit{Reason: core.IRQWindow}
	case c.Left+c.more <= 0:
		c.exit = core.Exit{Reason: core.Budget}
	default:
		return true
	}
	return false
}

// refill takes another chunk from the budget. It returns false if less than need is left.
func (c *CPU) refill(need int64) bool {
	all := c.Left + c.more
	if all < need {
		return false
	}
	c.Left = min(all, chunk)
	c.more = all - c.Left
	return true
}

// lookup returns the decoded block at rip. It returns nil if the block cannot be fetched;
// exit says why.
func (c *CPU) lookup(rip uint64) *Op {
	e := &c.jc[jcHash(rip)]
	if e.rip == rip && e.head.need() != dead {
		return e.head
	}
	h, f := c.cache.lookup(rip)
	if f != nil {
		c.notFetched(f)
		return nil
	}
	*e = jcEntry{rip, h}
	return h
}

// notFetched makes the exit for an instruction that cannot be fetched.
func (c *CPU) notFetched(f *fault) {
	c.Shadow = false
	if f.vector == abi.VecPF {
		c.CR2 = f.addr
	}
	c.exit = core.Exit{Reason: core.Trap, Vector: f.vector, HasCode: f.hasCode, Code: f.code, Addr: f.addr}
}

func jcHash(rip uint64) uint64 { return (rip ^ rip>>jcBits) & jcMask }

// block executes from o, the first op of a block, to where something must be
// looked at. It returns true when there is an exit.
func (c *CPU) block(o *Op) bool {
	for {
		// Four call sites instead of one: the processor predicts each by itself.
		var n *Op
		for {
			if n = o.fn(c, o); n == nil {
				break
			}
			if o = n.fn(c, n); o == nil {
				o = n
				break
			}
			if n = o.fn(c, o); n == nil {
				break
			}
			if o = n.fn(c, n); o == nil {
				o = n
				break
			}
		}
		switch c.br {
		case brSlow, brSlowCross:
			link := c.br == brSlowCross
			if n = c.slow(o); n != nil {
				o = n
				continue
			}
			if link && c.br == brGo {
				c.br = brCross
			}
		}
		switch c.br {
		case brCross:
			n, exit := c.cross(o)
			if n == nil {
				return exit
			}
			o = n
		case brGo:
			c.Left -= int64(o.n)
			e := &c.jc[jcHash(c.RIP)]
			if e.rip != c.RIP || c.Left < e.head.need() {
				return false
			}
			o = e.head.Next()
		case brLook:
			c.Left -= int64(o.n)
			return false
		case brExit:
			c.Left -= int64(o.n)
			return true
		case brFault:
			c.Left -= int64(o.n) - 1
			c.RIP = o.RIP()
			return true
		case brKick:
			c.Left -= int64(o.n) - 1
			c.RIP = o.RIP()
			return false
		}
	}
}

// step executes the block's instructions one by one: when the budget ends inside
// the block, after sti, and with TF. It returns true when there is an exit.
func (c *CPU) step(h *Op) bool {
	for o := h.after(uintptr(c.cache.first)); ; {
		if o.Code == cBREAK {
			breakpoint(c, o)
			return true
		}
		tf, shadow := c.RFlags&flagTF != 0, c.Shadow
		c.single = true
		n := c.slow(o)
		c.single = false
		if n == nil && (c.br == brFault || c.br == brKick) {
			c.RIP = o.RIP()
			c.Shadow = c.Shadow && c.br == brKick
			return c.br == brFault
		}
		if o.Code == decode.FETCH {
			return false
		}
		c.Left--
		if n != nil {
			c.RIP = o.end()
		} else if c.br == brExit {
			c.Shadow = false
			return true
		}
		if shadow {
			c.Shadow = false
		}
		if tf && (!c.Shadow || o.Code == decode.STI) {
			c.DR[6] |= 1 << 14
			c.exit = core.Exit{Reason: core.Trap, Vector: abi.VecDB}
			return true
		}
		if n == nil || shadow || tf || c.Left+c.more <= 0 {
			return false
		}
		o = n
	}
}

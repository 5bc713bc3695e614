package interp

import "github.com/kprobefs/kprobefs/kernel/cpu/core"

// Suspended is what Suspend has set aside: what code changes that is called and returns.
type Suspended struct {
	r            [16]uint64
	rip, rflags  uint64
	shadow       bool
	wantIRQ      bool
	asked        bool
	br           uint8
	ccOp         uint8
	ccRes, ccSrc uint64
	left, more   int64
	total        int64

	// Of the exit, field by field: wider loads would wait for the narrow stores.
	reason     core.Reason
	vector     uint8
	hasCode    bool
	code, addr uint64
}

// Suspend sets aside, in s, what the vCPU is doing. The hook may then call Run for
// something else, and must Resume before it returns. WantIRQ is off meanwhile.
func (c *CPU) Suspend(s *Suspended) {
	if c.ccOp == ccAside { // others will use that place
		c.TakeFlags()
	}
	s.r, s.rip, s.rflags, s.shadow = c.R, c.RIP, c.RFlags, c.Shadow
	s.ccRes, s.ccSrc, s.ccOp, s.br = c.ccRes, c.ccSrc, c.ccOp, c.br
	s.left, s.more, s.total, s.asked = c.Left, c.more, c.total, c.asked
	e := &c.exit
	s.reason, s.vector, s.hasCode, s.code, s.addr = e.Reason, e.Vector, e.HasCode, e.Code, e.Addr
	s.wantIRQ = c.wantIRQ.Load()
	c.asked = false
	c.want(false)
}

// Abandon forgets what the vCPU was doing when s was filled in: the Run that had called
// the hook goes on with the state that there is now. The hook returns right after.
func (c *CPU) Abandon(s *Suspended) {
	c.Left, c.more, c.total, c.asked = s.left, s.more, s.total, s.asked
	e := &c.exit
	e.Reason, e.Vector, e.HasCode, e.Code, e.Addr = s.reason, s.vector, s.hasCode, s.code, s.addr
	c.want(s.wantIRQ)
}

// Resume goes back to it: to the registers, RIP and the flags. Everything else is as the
// code that was run has left it.
func (c *CPU) Resume(s *Suspended) {
	c.back(s)
	c.br = s.br
	c.Abandon(s)
}

// ResumeLater goes back to it outside of the Run that had called the hook, which has
// been Abandoned, with ax in rax.
func (c *CPU) ResumeLater(s *Suspended, ax uint64) {
	c.back(s)
	c.Settle()
	c.R[0] = ax
}

func (c *CPU) back(s *Suspended) {
	c.R, c.RIP, c.RFlags, c.Shadow = s.r, s.rip, s.rflags, s.shadow
	c.ccRes, c.ccSrc, c.ccOp = s.ccRes, s.ccSrc, s.ccOp
}

// want sets wantIRQ, which is a locked instruction, only if it is another one.
func (c *CPU) want(on bool) {
	if c.wantIRQ.Load() != on {
		c.wantIRQ.Store(on)
	}
}

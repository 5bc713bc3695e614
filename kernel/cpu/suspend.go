package cpu

// Suspended is what Suspend has set aside.
type Suspended struct {
	state        State
	ccRes, ccSrc uint64
	ccOp, br     uint8
	left, more   int64
	total        int64
	asked        bool
	exit         Exit
	wantIRQ      bool
}

// Suspend sets aside, in s, what the vCPU is doing. The hook may then call Run for
// something else, and must Resume before it returns. WantIRQ is off meanwhile.
func (c *CPU) Suspend(s *Suspended) {
	*s = Suspended{c.State, c.ccRes, c.ccSrc, c.ccOp, c.br, c.left, c.more, c.total, c.asked, c.exit, c.wantIRQ.Load()}
	c.asked = false
	c.wantIRQ.Store(false)
}

// Resume goes back to it. Time and random numbers have gone on.
func (c *CPU) Resume(s *Suspended) {
	tsc, seed := c.TSC, c.Seed
	c.State, c.ccRes, c.ccSrc, c.ccOp, c.br = s.state, s.ccRes, s.ccSrc, s.ccOp, s.br
	c.left, c.more, c.total, c.asked, c.exit = s.left, s.more, s.total, s.asked, s.exit
	c.TSC, c.Seed = tsc, seed
	c.wantIRQ.Store(s.wantIRQ)
}

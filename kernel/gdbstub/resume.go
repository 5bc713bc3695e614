package gdbstub

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel"
)

// Signals of stop replies.
const (
	sigINT  = 2
	sigTRAP = 5
	sigABRT = 6
)

// action is what a vCPU is to do.
type action struct {
	what       byte // 'c', 's', 'r', 't', or 0: it stays stopped
	start, end uint64
}

// stopReply says why the machine has stopped, and chooses the vCPU that has stopped it.
func (c *client) stopReply() string {
	s, _ := c.d.Stopped()
	signal := sigTRAP
	switch s.Why {
	case kernel.StopRequested:
		signal, s.CPU = sigINT, c.busy()
	case kernel.StopPanic:
		signal = sigABRT
	case kernel.StopBreakpoint, kernel.StopWatchpoint, kernel.StopStepped, kernel.StopIdle:
	}
	return c.reply(signal, c.why(s), s.CPU)
}

// why returns what a stop reply says about the breakpoint or watchpoint that has stopped the machine.
func (c *client) why(s kernel.Stop) string {
	switch kinds := c.breaks[s.Addr]; {
	case s.Why == kernel.StopBreakpoint && kinds&1 != 0 && c.swbreak:
		return "swbreak:;"
	case s.Why == kernel.StopBreakpoint && kinds&2 != 0 && c.hwbreak:
		return "hwbreak:;"
	case s.Why == kernel.StopWatchpoint && s.Watch < len(c.watchList):
		names := map[int]string{2: "watch", 3: "rwatch", 4: "awatch"}
		return fmt.Sprintf("%s:%x;", names[c.watchList[s.Watch].kind], s.Addr)
	}
	return ""
}

// reply makes a stop reply, and chooses its vCPU.
func (c *client) reply(signal int, more string, cpu int) string {
	c.cpu, c.attached = cpu, true
	reply := fmt.Sprintf("T%02x%sthread:%x;", signal, more, cpu+1)
	if state, err := c.d.State(cpu); err == nil {
		const rbp, rsp, rip = 6, 7, 16
		for _, n := range []int{rbp, rsp, rip} {
			reply += fmt.Sprintf("%02x:%s;", n, registers[n].encode(&state))
		}
	}
	return reply
}

// busy returns the first vCPU that does not idle.
func (c *client) busy() int {
	for i := range c.d.CPUs() {
		if s, err := c.d.State(i); err == nil && s.Started && s.PID != 0 {
			return i
		}
	}
	return 0
}

// resume answers vCont. Of several actions for a thread the first counts.
func (c *client) resume(args string) (string, error) {
	actions := make([]action, c.d.CPUs())
	for _, text := range strings.Split(args, ";") {
		what, id, all := strings.Cut(text, ":")
		all = !all
		a, err := parseAction(what)
		if err != nil {
			return bad, nil
		}
		cpu, err := c.thread(id)
		if err != nil {
			return bad, nil
		}
		for i := range actions {
			if actions[i].what == 0 && (all || cpu < 0 || cpu == i) {
				actions[i] = a
			}
		}
	}
	return c.act(actions)
}

// parseAction parses c, CSIG, s, SSIG, t and rSTART,END.
func parseAction(s string) (a action, err error) {
	if s == "" {
		return a, fmt.Errorf("an empty action")
	}
	switch s[0] {
	case 'c', 'C':
		a.what = 'c'
	case 's', 'S':
		a.what = 's'
	case 't':
		a.what = 't'
	case 'r':
		a.what = 'r'
		a.start, a.end, err = twoNumbers(s[1:])
	default:
		err = fmt.Errorf("the action %q", s)
	}
	return a, err
}

// resumeOld answers c, s, C and S, which are about the vCPU that Hc has chosen.
func (c *client) resumeOld(what byte, args string) (string, error) {
	if what == 'C' || what == 'S' {
		_, args, _ = strings.Cut(args, ";") // the signal
		what += 'a' - 'A'
	}
	if args != "" {
		addr, err := strconv.ParseUint(args, 16, 64)
		if err != nil {
			return bad, nil
		}
		s, err := c.d.State(c.cpu)
		if err != nil {
			return bad, nil
		}
		s.RIP = addr
		if c.setState(s) != ok {
			return bad, nil
		}
	}
	actions := make([]action, c.d.CPUs())
	for i := range actions {
		actions[i].what = 'c'
	}
	if what == 's' {
		cpu := c.stepCPU
		if cpu < 0 {
			cpu = c.cpu
		}
		actions[cpu].what = 's'
	}
	return c.act(actions)
}

// act has the vCPUs do what the client wants, waits until the machine has stopped, and returns the stop reply.
func (c *client) act(actions []action) (string, error) {
	c.putPoints()
	for cpu, addr := range c.skipped {
		delete(c.skipped, cpu)
		if _, err := c.d.Step(cpu, false); err != nil {
			return bad, nil
		}
		if s, _ := c.d.Stopped(); s.Why != kernel.StopStepped || c.breaks[addr+1] != 0 {
			return c.stopReply(), nil // gdb wants to stop behind what it has gone over
		}
	}
	stepped, going := -1, -1
	all := true // that are started go on
	others := false
	for i, a := range actions {
		switch a.what {
		case 's', 'r':
			if stepped < 0 {
				stepped = i
			}
			all = false
		case 'c':
			going, others = i, true
		default:
			all = all && !c.started(i)
		}
	}
	switch {
	case stepped >= 0:
		return c.step(stepped, actions[stepped], others)
	case going < 0:
		return c.stopReply(), nil
	case all:
		c.d.Continue()
		return c.wait()
	}
	return c.runAlone(going)
}

// step executes one instruction of a vCPU, or those in a range of addresses.
func (c *client) step(cpu int, a action, others bool) (string, error) {
	for {
		s, err := c.d.Step(cpu, others)
		if err != nil {
			if _, stopped := c.d.Stopped(); !stopped { // somebody else lets it run
				return c.wait()
			}
			return bad, nil
		}
		if a.what == 's' || s.Why != kernel.StopStepped || s.CPU != cpu {
			return c.stopReply(), nil
		}
		state, err := c.d.State(cpu)
		if err != nil || state.RIP < a.start || state.RIP >= a.end || c.breaks[state.RIP] != 0 {
			return c.stopReply(), nil
		}
		if stop, err := c.wanted(); stop || err != nil {
			return c.reply(sigINT, "", cpu), err
		}
	}
}

// runAlone lets one vCPU run.
func (c *client) runAlone(cpu int) (string, error) {
	for {
		_, hit, err := c.d.RunAlone(cpu)
		if err != nil {
			return bad, nil
		}
		if s, _ := c.d.Stopped(); hit || s.Why == kernel.StopPanic {
			return c.stopReply(), nil
		}
		if stop, err := c.wanted(); stop || err != nil {
			return c.reply(sigINT, "", cpu), err
		}
	}
}

// wanted reports whether the client has asked to stop the machine. Packets that come while the machine runs are
// dropped, as the protocol has it.
func (c *client) wanted() (bool, error) {
	select {
	case <-c.d.Ended():
		return false, errGone
	case e := <-c.events:
		return e.interrupt, e.err
	default:
		return false, nil
	}
}

// wait returns when the machine has stopped.
func (c *client) wait() (string, error) {
	for {
		changed := c.d.Changed()
		if _, stopped := c.d.Stopped(); stopped {
			return c.stopReply(), nil
		}
		select {
		case <-changed:
		case <-c.d.Ended():
			if c.follow() {
				continue
			}
			_ = c.send("X09") // killed
			return "", errGone
		case e := <-c.events:
			switch {
			case e.err != nil:
				return "", e.err
			case e.interrupt:
				c.d.Interrupt()
			}
		}
	}
}

package kernel

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Watchdog configures what happens when guest code does not release its vCPU. The
// zero value uses Linux's times and kills the task that holds a vCPU.
type Watchdog struct {
	Action WatchdogAction
	Thresh time.Duration     // kernel.watchdog_thresh; 0 means ten seconds
	Report func(line string) // gets the first line of each report; may be nil
}

// WatchdogAction is what the watchdog does, after its report, to a vCPU that runs with
// interrupts or preemption off. A task that can be preempted is only reported.
type WatchdogAction int

// The actions of the watchdog.
const (
	WatchdogKill  WatchdogAction = iota // kill the task, as after an oops
	WatchdogPanic                       // panic, as with Linux's softlockup_panic and hardlockup_panic
	WatchdogWarn                        // only report, Linux's default
	WatchdogOff                         // no watchdog
)

// WatchdogActions returns the names of the actions, as ParseWatchdog reads them.
func WatchdogActions() []string { return slices.Clone(watchdogActions) }

var watchdogActions = []string{WatchdogKill: "kill", WatchdogPanic: "panic", WatchdogWarn: "warn", WatchdogOff: "off"}

// watchdogThresh is Linux's default of kernel.watchdog_thresh, and maxThresh its
// maximum.
const (
	watchdogThresh = 10 * time.Second
	maxThresh      = 60
)

// ParseWatchdog parses ACTION[:SECONDS]; "" is the default. It fails with EINVAL when
// the action is unknown or SECONDS is not from 1 to 60.
func ParseWatchdog(s string) (w Watchdog, err error) {
	action, seconds, limited := strings.Cut(s, ":")
	found := action == ""
	for a, name := range watchdogActions {
		if name == action {
			w.Action, found = WatchdogAction(a), true
		}
	}
	if !found {
		return w, fmt.Errorf("watchdog action %q is not one of %s: %w", action, strings.Join(watchdogActions, ", "), syscall.EINVAL)
	}
	if !limited {
		return w, nil
	}
	n, err := strconv.Atoi(seconds)
	if err != nil || n < 1 || n > maxThresh {
		return w, fmt.Errorf("watchdog %q: the seconds must be from 1 to %d: %w", s, maxThresh, syscall.EINVAL)
	}
	w.Thresh = time.Duration(n) * time.Second
	return w, nil
}

// String returns the form that ParseWatchdog reads.
func (w Watchdog) String() string {
	if w.Thresh == 0 {
		return watchdogActions[w.Action]
	}
	return fmt.Sprintf("%s:%d", watchdogActions[w.Action], int(w.Thresh.Seconds()))
}

// watchdog does the work of Linux's lockup detectors. Those use a timer interrupt on
// each CPU and an NMI; here one goroutine looks at the vCPUs, and so also sees one
// that takes no interrupts. Time is counted in samples, so that neither a stopped
// process nor a busy host looks like a lockup.
type watchdog struct {
	m       *Machine
	conf    Watchdog
	tasks   map[heldBy]*held
	stalled stall
}

// sighting is one sample of what a vCPU was doing.
type sighting struct {
	at       time.Time
	task     uint64
	pid      int
	comm     string
	yields   uint64 // how often the task has released its CPU; for an idle task, how often it has halted
	irqs     uint64 // interrupts that the vCPU has taken
	irqsOff  bool
	inIRQ    bool          // it handled an interrupt or a softirq
	bound    bool          // the task cannot be preempted
	place    []string      // the vCPU's state, as an oops shows it
	hardFor  time.Duration // time with interrupts off
	reported bool
}

// heldBy is a task on a vCPU.
type heldBy struct {
	task uint64
	pid  int
}

// held is how long a task has kept its vCPU.
type held struct {
	yields uint64
	seen   time.Time
	since  time.Duration
	report time.Duration // when to report it next
}

// stall is an RCU grace period that does not end.
type stall struct {
	gp     uint64
	since  time.Duration
	report time.Duration
	seen   time.Time
}

// watch samples the vCPUs until the machine ends.
func (m *Machine) watch() {
	w := &watchdog{m: m, conf: m.opts.Watchdog, tasks: map[heldBy]*held{}}
	if w.conf.Thresh == 0 {
		w.conf.Thresh = watchdogThresh
	}
	tick := time.NewTicker(w.period())
	defer tick.Stop()
	last := make([]*sighting, len(m.cpus))
	for {
		select {
		case <-tick.C:
		case <-m.died:
			return
		case <-m.ending:
			return
		}
		for i, v := range m.cpus {
			last[i] = w.look(v, last[i])
		}
		w.rcu(last)
		w.forget()
	}
}

// period is Linux's sample_period, and soft its get_softlockup_thresh.
func (w *watchdog) period() time.Duration { return w.conf.Thresh * 2 / 5 }
func (w *watchdog) soft() time.Duration   { return 2 * w.conf.Thresh }

// stallTime is Debian's CONFIG_RCU_CPU_STALL_TIMEOUT of 21 s, scaled with watchdog_thresh (10 s by default).
func (w *watchdog) stallTime() time.Duration { return w.conf.Thresh * 21 / 10 }

// elapsed is the part of the time between two samples in which the vCPU could run.
func (w *watchdog) elapsed(from, to time.Time) time.Duration {
	return min(to.Sub(from), 2*w.period())
}

// look takes the vCPU's latest sample and requests the next.
func (w *watchdog) look(v *vcpu, before *sighting) *sighting {
	now := v.shown.Swap(nil)
	if !v.started.Load() || v.resting() {
		v.show.Store(false)
		return nil
	}
	v.show.Store(true)
	v.cpu.Kick()
	if now == nil {
		return nil
	}
	if now.irqsOff {
		w.hard(v, before, now)
	} else {
		w.softly(v, now)
	}
	return now
}

// hard does what the NMI watchdog does.
func (w *watchdog) hard(v *vcpu, before, now *sighting) {
	if before == nil || !before.irqsOff || before.irqs != now.irqs {
		return
	}
	now.hardFor, now.reported = before.hardFor+w.elapsed(before.at, now.at), before.reported
	if now.hardFor <= w.conf.Thresh || now.reported {
		return
	}
	now.reported = true
	w.report(LogEmerg, now, hardLockup(w.m.has, v.id))
	w.act(v, now, "Hard LOCKUP")
}

// hardLockup returns the first line of the report of a vCPU that is locked up.
func hardLockup(has release.Set, cpu int) string {
	if has[release.LockupLine] {
		return fmt.Sprintf("watchdog: CPU%d: Watchdog detected hard LOCKUP on cpu %[1]d", cpu)
	}
	return fmt.Sprintf("NMI watchdog: Watchdog detected hard LOCKUP on cpu %d", cpu)
}

// softly does what watchdog_timer_fn does.
func (w *watchdog) softly(v *vcpu, s *sighting) {
	if s.pid == 0 && !s.bound {
		return // the idle task is about to halt
	}
	key := heldBy{s.task, s.pid}
	h := w.tasks[key]
	if h == nil || h.yields != s.yields {
		w.tasks[key] = &held{yields: s.yields, seen: s.at, report: w.soft()}
		return
	}
	h.since += w.elapsed(h.seen, s.at)
	h.seen = s.at
	if h.since <= h.report {
		return
	}
	h.report = h.since + w.soft()
	w.report(LogEmerg, s, fmt.Sprintf("watchdog: BUG: soft lockup - CPU#%d stuck for %ds! [%s:%d]", v.id, int(h.since.Seconds()), s.comm, s.pid))
	if s.bound {
		w.act(v, s, "softlockup: hung tasks")
	}
}

// forget drops the tasks that have not been seen for a while.
func (w *watchdog) forget() {
	for key, h := range w.tasks {
		if time.Since(h.seen) > 10*w.period() {
			delete(w.tasks, key)
		}
	}
}

// report logs the finding and the vCPU's state.
func (w *watchdog) report(level int, s *sighting, lines ...string) {
	if w.conf.Report != nil {
		w.conf.Report(lines[0])
	}
	for _, l := range lines {
		w.m.log.Printk(level, "%s", l)
	}
	for _, l := range s.place {
		w.m.log.Printk(level, "%s", l)
	}
}

// act applies the watchdog's action to the task that holds the vCPU.
func (w *watchdog) act(v *vcpu, s *sighting, panic string) {
	c := &condemned{task: s.task, inIRQ: s.inIRQ}
	switch w.conf.Action {
	case WatchdogKill:
		line := fmt.Sprintf("watchdog: CPU#%d is taken from %s:%d, which is killed", v.id, s.comm, s.pid)
		w.m.log.Printk(LogEmerg, "%s", line)
		if w.conf.Report != nil {
			w.conf.Report(line)
		}
	case WatchdogPanic:
		c.panic = panic
	default:
		return
	}
	v.condemned.Store(c)
	v.cpu.Kick()
}

// rcu detects RCU stalls: grace periods that wait for a vCPU too long.
func (w *watchdog) rcu(last []*sighting) {
	gp, cpus, queued := w.m.gracePeriod()
	now := time.Now()
	if cpus == 0 || gp != w.stalled.gp {
		w.stalled = stall{gp: gp, seen: now, report: w.stallTime()}
		return
	}
	w.stalled.since += w.elapsed(w.stalled.seen, now)
	w.stalled.seen = now
	if w.stalled.since < w.stalled.report {
		return
	}
	w.stalled.report = 3*w.stalled.since + 3*time.Second // as Linux does
	jiffies := w.stalled.since / (time.Second / 250)
	for cpu, s := range last {
		if cpus>>cpu&1 == 0 || s == nil {
			continue
		}
		head, tail := "rcu: INFO: rcu_preempt self-detected stall on CPU", "\t(t=%d jiffies g=%d q=%d ncpus=%d)"
		if s.irqsOff { // the report must come from another vCPU
			head, tail = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "\t(detected by "+strconv.Itoa((cpu+1)%len(last))+", t=%d jiffies, g=%d, q=%d ncpus=%d)"
		}
		w.report(LogErr, s, head, fmt.Sprintf("rcu: \t%d-....: (%d ticks this GP)", cpu, jiffies), fmt.Sprintf(tail, jiffies, gp, queued, len(last)))
	}
}

// Offsets in the guest's struct rcu_state that gracePeriod uses.
const (
	rcuGPSeq   = 8
	rcuQSMask  = 16
	rcuQueued  = 80
	rcuNesting = 4 // in struct rcu_data
)

// gracePeriod returns the number of the current grace period, the vCPUs that it
// waits for, and how many callbacks have been queued so far.
func (m *Machine) gracePeriod() (gp, cpus, queued uint64) {
	addr := m.symbol("rcu_state")
	gp, _ = m.mem.ReadU64(addr + rcuGPSeq)
	cpus, err := m.mem.ReadU64(addr + rcuQSMask)
	if addr == 0 || err != nil {
		return 0, 0, 0
	}
	queued, _ = m.mem.ReadU64(addr + rcuQueued)
	return gp, cpus, queued
}

// watched is the vCPU's side of the watchdog.
type watched struct {
	show      atomic.Bool               // the watchdog requests a sample
	shown     atomic.Pointer[sighting]  // the latest sample
	condemned atomic.Pointer[condemned] // the task that the watchdog wants to end
	irqsTaken uint64                    // only the vCPU uses this and the next
	halts     uint64
}

// condemned is a task that does not release its vCPU.
type condemned struct {
	task  uint64
	inIRQ bool   // in an interrupt or a softirq
	panic string // if not empty, the guest panics with this message; else the task is killed
}

// showItself takes a sample for the watchdog, on the vCPU, between two runs.
func (v *vcpu) showItself() {
	v.show.Store(false)
	s := &sighting{at: time.Now(), irqs: v.irqsTaken}
	s.task, s.bound, s.irqsOff, s.inIRQ = v.hold()
	pid, _ := v.m.mem.ReadU64(s.task + abi.TaskPID)
	s.pid = int(int32(pid))
	s.comm = v.m.comm(s.task)
	if s.yields = v.halts; s.pid != 0 {
		s.yields, _ = v.m.mem.ReadU64(s.task + abi.TaskYields)
	}
	var r abi.Regs
	v.readRegs(&r)
	p := func(format string, args ...any) { s.place = append(s.place, fmt.Sprintf(format, args...)) }
	v.showPlace(p)
	v.showRegs(p, &r)
	v.showTrace(p, v.oopsStack(&r), true)
	v.shown.Store(s)
}

// hold returns the running task, whether and why it could not be preempted, and whether it
// is interrupted: an interrupt or a softirq is handled.
func (v *vcpu) hold() (task uint64, bound, irqsOff, inIRQ bool) {
	var t abi.Trap
	v.fill(&t, 0)
	irqsOff = v.cpu.RFlags&abi.FlagIF == 0
	rcu := v.percpuWord("rcu_data", rcuNesting+4)
	reads := rcu != nil && binary.LittleEndian.Uint32(rcu[rcuNesting:]) != 0
	return t.Task, t.Preempt != 0 || reads || irqsOff, irqsOff, t.Preempt&abi.InterruptMask != 0
}

// endCondemned makes the task that the watchdog condemned exit as after an oops, or
// panics the guest, unless the task has released the vCPU meanwhile. What interrupts the task
// is let through first: who is killed in an interrupt takes the kernel along.
func (v *vcpu) endCondemned() {
	c := v.condemned.Load()
	if c == nil {
		return
	}
	task, bound, _, inIRQ := v.hold()
	if task == c.task && inIRQ && !c.inIRQ {
		return
	}
	v.condemned.CompareAndSwap(c, nil)
	if task != c.task || !bound {
		return
	}
	r := &v.cpu.R
	if c.panic == "" {
		v.setKprobe(0) // if it is in a probe's handler: the CPU's other probes are hit again
		r[rdi] = uint64(syscall.SIGKILL)
		v.goTo(v.m.symbol("rewind_stack_and_make_dead"))
		return
	}
	pa, err := v.m.pool.Alloc(1)
	if err != nil {
		v.die(c.panic)
		return
	}
	copy(v.m.mem.Phys(pa, abi.PageSize), c.panic+"\x00")
	r[rdi], r[rax], r[rsp] = abi.DirectMap+pa, 0, r[rsp]&^15-8
	v.goTo(v.m.symbol("panic"))
}

// goTo makes the vCPU continue at ip, with interrupts off.
func (v *vcpu) goTo(ip uint64) {
	v.cpu.RIP = ip
	v.cpu.RFlags &^= abi.FlagIF
	v.cpu.Shadow = false
}

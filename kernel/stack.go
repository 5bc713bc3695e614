package kernel

// maxDump is how many lines of a stack dump_stack shows.
const maxDump = 64

// hitPlace is where a hit was whose handler is a function of the guest.
type hitPlace struct{ task, ip, sp uint64 }

// hcStack is dump_stack, in which the vCPU is. In a handler of the guest, what was hit follows at once: the functions
// that Linux has in between are not the guest's.
func (v *vcpu) hcStack(_, _, _ uint64) int64 {
	m := v.m
	p := func(format string, args ...any) { m.log.Printk(LogWarning, format, args...) }
	p("CPU: %d PID: %d Comm: %s %s %s", v.id, m.currentPID(v.id), m.currentComm(v.id), m.tainted(), m.opts.Release)
	p("Call Trace:")
	p(" <TASK>")
	show := func(at hitPlace) {
		var ips [maxDump]uint64
		for _, ip := range ips[:m.Unwind(at.task, at.ip, 1, at.sp, ips[:], nil)] {
			p(" %s", m.Describe(ip))
		}
	}
	show(hitPlace{m.currentTask(v.id), v.cpu.RIP, v.cpu.R[rsp]})
	if v.hit != nil {
		show(*v.hit)
	}
	p(" </TASK>")
	return 0
}

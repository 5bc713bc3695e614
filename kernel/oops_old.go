package kernel

import (
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Oopses and stack traces as kernels before 5.10 print them. The forms are taken from logs
// in public mailing lists, which release.Changes names.

// oldFaultLines prints the first lines of a page fault's oops, as up to 4.15.
func (m *Machine) oldFaultLines(p func(string, ...any), addr, ip uint64) {
	what := "paging request"
	if addr < abi.PageSize {
		what = "NULL pointer dereference"
	}
	at := fmt.Sprintf("%016x", addr)
	if addr == 0 && m.has[release.OopsNumberSign] {
		at = "(null)" // it is printed by %p
	}
	p("BUG: unable to handle kernel %s at %s", what, at)
	p("IP: %s", m.place(ip))
}

// place formats an address of code as an oops shows it. Up to 2.6.32 the address itself
// comes before the name.
func (m *Machine) place(addr uint64) string {
	if m.has[release.CPULine] {
		return m.Describe(addr)
	}
	text := fmt.Sprintf("[<%016x>]", addr)
	if _, _, ok := m.syms.Lookup(addr); ok {
		text += " " + m.Describe(addr)
	}
	return text
}

// oldStackWords is the number of words of the stack that an oops of 2.6 shows.
const oldStackWords = 12

// old prints what follows the first lines, as up to 2.6.32.
func (o *oopsReport) old() {
	v, r, m := o.v, o.regs, o.v.m
	p := m.saying(LogWarning)
	if o.kind == abi.BugWarn {
		p("%s", m.modulesLine())
		v.dumpOld(p, v.oopsStack(r))
		m.endTrace()
		m.Taint('W')
		return
	}
	p("CPU %d ", v.id)
	p("%s", m.modulesLine())
	v.showPlace(p)
	p("RIP: 0010:[<%016x>]  %s", r.IP, m.place(r.IP))
	p("RSP: 0018:%016x  EFLAGS: %08x", r.SP, r.Flags)
	v.showGeneralRegs(p, r)
	c := v.cpu
	p("FS:  %016x(0000) GS:%016x(0000) knlGS:%016x", c.FSBase, c.GSBase, c.KernelGSBase)
	p("CS:  0010 DS: 0000 ES: 0000 CR0: %016x", c.CR0)
	p("CR2: %016x CR3: %016x CR4: %016x", c.CR2, c.CR3, c.CR4)
	task := m.currentTask(v.id)
	stack, _ := m.mem.ReadU64(task + abi.TaskStack)
	p("Process %s (pid: %d, threadinfo %016x, task %016x)", m.currentComm(v.id), m.currentPID(v.id), stack, task)
	v.showStackWords(p, r.SP, stack+threadSize)
	v.showOldTrace(p, v.oopsStack(r), m.returnsTo(r.IP) || r.IP == 0)
	p("Code: %s ", m.code(r.IP))
	p("RIP  %s", m.place(r.IP))
	p(" RSP <%016x>", r.SP)
	if o.kind == abi.BugFault {
		p("CR2: %016x", c.CR2)
	}
	m.endTrace()
	m.Taint('D')
}

// old415 prints what follows the first lines, as 4.15.
func (o *oopsReport) old415() {
	v, r, m := o.v, o.regs, o.v.m
	p := m.saying(LogWarning)
	p("%s", m.modulesLine())
	v.showPlace(p)
	v.showRegs(p, r)
	v.showTrace(p, v.oopsStack(r), m.returnsTo(r.IP) || r.IP == 0)
	p("Code: %s ", m.code(r.IP))
	if o.kind == abi.BugWarn {
		m.endTrace()
		m.Taint('W')
		return
	}
	p("RIP: %s RSP: %016x", m.Describe(r.IP), r.SP)
	if o.kind == abi.BugFault {
		p("CR2: %016x", v.cpu.CR2)
	}
	m.endTrace()
	m.Taint('D')
}

// endTrace prints the last line of an oops. Its number was chosen when a kernel had its
// first, and is 0 since.
func (m *Machine) endTrace() {
	if !m.has[release.NoOopsID] {
		m.oopsMu.Lock()
		if m.oopsID == 0 {
			m.oopsID = m.rand.next()
		}
		m.oopsID++
		m.oopsMu.Unlock()
	}
	m.log.Printk(LogWarning, "---[ end trace %016x ]---", m.oopsID)
}

// showStackWords prints words of the stack from sp on, four a line.
func (v *vcpu) showStackWords(p func(string, ...any), sp, end uint64) {
	line := "Stack: "
	if v.m.has[release.OopsNumberSign] {
		p("Stack:")
		line = ""
	}
	for i := range uint64(oldStackWords) {
		w, err := v.m.mem.ReadU64(sp + 8*i)
		if err != nil || sp+8*i >= end {
			break
		}
		if i > 0 && i%4 == 0 {
			p("%s", line)
			line = ""
		}
		line += fmt.Sprintf(" %016x", w)
	}
	p("%s", line)
}

// dumpOld prints the task and a stack trace, as dump_stack does up to 2.6.32.
func (v *vcpu) dumpOld(p func(string, ...any), frames []frame) {
	if v.showPlace(p); !v.m.has[release.OopsNumberSign] {
		p("")
	}
	v.showOldTrace(p, frames, true)
}

// showOldTrace prints a stack trace as up to 2.6.32: a line for each function, with its
// address, and what an interrupt called between <IRQ> and <EOI>.
func (v *vcpu) showOldTrace(p func(string, ...any), frames []frame, reliable bool) {
	p("Call Trace:")
	mark := "? "
	if reliable {
		mark = ""
	}
	irq := -1
	for i, f := range frames {
		if v.m.entersIRQ(f.ip) {
			irq = i
		}
	}
	for i, f := range frames {
		stack := ""
		switch {
		case i == irq:
			stack = " <EOI> "
		case i == 0 && irq > 0:
			stack = " <IRQ> "
		}
		p("%s [<%016x>] %s%s", stack, f.ip, mark, v.m.Describe(f.ip))
	}
}

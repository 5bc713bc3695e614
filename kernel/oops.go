package kernel

import (
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// What HCBug's second argument tells.
const (
	bugOops    = 0 // kernel BUG: the task dies
	bugWarn    = 1 // WARN: execution goes on
	bugFault   = 2 // a page fault that nothing expects
	bugTrap    = 3 // another exception that nothing expects
	bugAtomic  = 4 // schedule() with preemption off
	bugUnknown = 5
)

// oops writes what Linux prints for a BUG, a WARN or an unexpected exception:
// the first line, the place, the registers and the end.
func (m *Machine) oops(cpu int, kind uint64, r *abi.Regs) {
	where := m.Describe(r.IP)
	p := func(format string, args ...any) { m.log.Printk(m.oopsLevel(kind), format, args...) }
	switch kind {
	case bugOops:
		p("------------[ cut here ]------------")
		if b, ok := m.tab.FindBug(r.IP); ok && b.File != "" {
			p("kernel BUG at %s:%d!", b.File, b.Line)
		} else {
			p("Kernel BUG at %s [verbose debug info unavailable]", where)
		}
	case bugWarn:
		p("------------[ cut here ]------------")
		file, line := "unknown", uint(0)
		if b, ok := m.tab.FindBug(r.IP); ok && b.File != "" {
			file, line = b.File, uint(b.Line)
		}
		p("WARNING: CPU: %d PID: %d at %s:%d %s", cpu, m.currentPID(cpu), file, line, where)
	case bugFault:
		p("BUG: unable to handle page fault for address: %016x", m.cpus[cpu].cpu.CR2)
	case bugTrap:
		p("%s: 0000 [#1] PREEMPT SMP NOPTI", m.cpus[cpu].trapName())
	case bugAtomic:
		p("BUG: scheduling while atomic: %s/%d/0x%08x", m.currentComm(cpu), m.currentPID(cpu), m.cpus[cpu].trap.Preempt)
	default:
		p("Oops: 0000 [#1] PREEMPT SMP")
	}
	m.oopsRegs(p, cpu, where, r)
	if kind == bugWarn {
		p("---[ end trace 0000000000000000 ]---")
		m.Taint('W')
		return
	}
	m.Taint('D')
}

func (m *Machine) oopsLevel(kind uint64) int {
	if kind == bugWarn {
		return LogWarning
	}
	return LogAlert
}

func (m *Machine) oopsRegs(p func(string, ...any), cpu int, where string, r *abi.Regs) {
	p("CPU: %d PID: %d Comm: %s %s %s", cpu, m.currentPID(cpu), m.currentComm(cpu), m.tainted(), m.opts.Release)
	p("RIP: 0010:%s", where)
	p("RSP: 0018:%016x EFLAGS: %08x", r.SP, r.Flags)
	p("RAX: %016x RBX: %016x RCX: %016x", r.AX, r.BX, r.CX)
	p("RDX: %016x RSI: %016x RDI: %016x", r.DX, r.SI, r.DI)
	p("RBP: %016x R08: %016x R09: %016x", r.BP, r.R8, r.R9)
	p("R10: %016x R11: %016x R12: %016x", r.R10, r.R11, r.R12)
	p("R13: %016x R14: %016x R15: %016x", r.R13, r.R14, r.R15)
}

// Describe gives an address as %pS prints it: symbol+offset/size, or the bare
// number where no symbol is.
func (m *Machine) Describe(addr uint64) string {
	s, off, ok := m.syms.Lookup(addr)
	if !ok {
		return fmt.Sprintf("0x%x", addr)
	}
	if s.Module != "" {
		return fmt.Sprintf("%s+0x%x/0x%x [%s]", s.Name, off, s.Size, s.Module)
	}
	return fmt.Sprintf("%s+0x%x/0x%x", s.Name, off, s.Size)
}

func (m *Machine) currentTask(cpu int) uint64 {
	var t abi.Trap
	m.cpus[cpu].fill(&t, 0)
	return t.Task
}

func (m *Machine) currentPID(cpu int) int {
	v, _ := m.mem.ReadU64(m.currentTask(cpu) + abi.TaskPID)
	return int(int32(v))
}

func (m *Machine) currentComm(cpu int) string {
	var b [abi.TaskCommLen]byte
	if m.mem.ReadAt(m.currentTask(cpu)+abi.TaskComm, b[:]) != nil {
		return "?"
	}
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b[:])
}

// trapName is how the line of an oops begins that tells of the last exception.
func (v *vcpu) trapName() string {
	switch v.vector {
	case abi.VecDE:
		return "divide error"
	case abi.VecBP:
		return "int3"
	case abi.VecUD:
		return "invalid opcode"
	}
	return fmt.Sprintf("general protection fault, maybe for address 0x%x", v.cpu.CR2)
}

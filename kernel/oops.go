package kernel

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/mem"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// bugNoCutHere is BUGFLAG_NO_CUT_HERE: __warn_printk has printed the first line.
const bugNoCutHere = 8

// oopsReport is what one BUG, WARN or unexpected exception prints.
type oopsReport struct {
	v     *vcpu
	kind  uint64
	regs  *abi.Regs
	code  uint64 // the exception's error code
	where string // the place, as %pS prints it
	count int    // the number of oopses so far
}

// oops logs what Linux prints for a BUG, a WARN or an unexpected exception: the first
// lines, the place, the registers, the stack, the modules, the end marker, and the
// registers of the first oops since boot. code is the exception's error code.
func (m *Machine) oops(cpu int, kind uint64, r *abi.Regs, code uint64) {
	v := m.cpus[cpu]
	if f := m.handlers.Load().Oops; f != nil && kind != abi.BugWarn {
		f()
	}
	if kind != abi.BugWarn {
		v.hit.oopsed = v.hit.on
	}
	o := oopsReport{v: v, kind: kind, regs: r, code: code, where: m.Describe(r.IP), count: m.noteOops(v, kind)}
	switch o.head(); {
	case !m.has[release.CPULine]:
		o.old()
		return
	case !m.has[release.FaultWords]:
		o.old415()
		return
	}
	p := m.saying(LogWarning)
	if kind == abi.BugWarn {
		p("%s", m.modulesLine())
	}
	v.showPlace(p)
	v.showRegs(p, r)
	v.showTrace(p, v.oopsStack(r), m.returnsTo(r.IP) || r.IP == 0)
	if kind != abi.BugWarn {
		p("%s", m.modulesLine())
	}
	if kind == abi.BugFault {
		p("CR2: %016x", v.cpu.CR2)
	}
	m.endTrace()
	if kind == abi.BugWarn {
		m.Taint('W')
		return
	}
	first := m.firstOops(r)
	v.showRegs(p, &first)
	m.Taint('D')
}

// saying returns a function that logs lines of a level.
func (m *Machine) saying(level int) func(format string, args ...any) {
	return func(format string, args ...any) { m.log.Printk(level, format, args...) }
}

// head prints the lines above the CPU's.
func (o *oopsReport) head() {
	m, p := o.v.m, o.v.m.saying(LogWarning)
	what := ""
	switch o.kind {
	case abi.BugOops:
		p("------------[ cut here ]------------")
		if b, ok := m.tab.FindBug(o.regs.IP); ok && b.File != "" {
			m.log.Printk(LogCrit, "kernel BUG at %s:%d!", b.File, b.Line)
		} else {
			m.log.Printk(LogCrit, "Kernel BUG at %s [verbose debug info unavailable]", o.where)
		}
		what = "invalid opcode"
	case abi.BugWarn:
		o.warning(p)
		return
	case abi.BugFault:
		if say := m.saying(LogAlert); m.has[release.FaultWords] {
			faultLines(say, o.v.cpu.CR2, o.code)
		} else {
			m.oldFaultLines(say, o.v.cpu.CR2, o.regs.IP)
		}
		pgd := "PGD 0 " // there are no page tables
		if m.has[release.CPULine] {
			pgd += "P4D 0 "
		}
		m.log.Printk(LogInfo, "%s", pgd)
		what = "Oops"
	case abi.BugTrap:
		what = o.v.trapName(o.code)
	default:
		what = "Oops"
	}
	p("%s: %04x %s", what, o.code, m.built(o.count))
}

// built returns the number of an oops and the properties of the kernel that its first
// line tells.
func (m *Machine) built(count int) string {
	text := fmt.Sprintf("[#%d]", count)
	if !m.has[release.OopsNumberSign] {
		text = fmt.Sprintf("[%d]", count)
	}
	if !m.opts.NoPreempt {
		text += " PREEMPT"
	}
	if text += " SMP"; m.has[release.CPULine] {
		return text + " NOPTI"
	}
	return text + " " // each word had a space after it
}

// warning prints the first lines of a WARN.
func (o *oopsReport) warning(p func(string, ...any)) {
	m := o.v.m
	b, _ := m.tab.FindBug(o.regs.IP)
	if b.Flags&bugNoCutHere == 0 {
		p("------------[ cut here ]------------")
	}
	file, line := "unknown", uint(0)
	if b.File != "" {
		file, line = b.File, uint(b.Line)
	}
	if !m.has[release.CPULine] {
		p("WARNING: at %s:%d %s()", file, line, o.where)
		return
	}
	p("WARNING: CPU: %d PID: %d at %s:%d %s", o.v.id, m.currentPID(o.v.id), file, line, o.where)
}

// modulesLine is what print_modules prints.
func (m *Machine) modulesLine() string {
	line := "Modules linked in:"
	if f := m.handlers.Load().Modules; f != nil {
		line += f()
	}
	return line
}

// firstOops returns the registers of the first oops since boot, which is r if there was
// none (exec_summary_regs).
func (m *Machine) firstOops(r *abi.Regs) abi.Regs {
	m.oopsMu.Lock()
	defer m.oopsMu.Unlock()
	if m.oopsRegs == nil {
		first := *r
		m.oopsRegs = &first
	}
	return *m.oopsRegs
}

// noteOops records where the log describes an oops, for a panic that may follow,
// and returns the oops's number.
func (m *Machine) noteOops(v *vcpu, kind uint64) int {
	m.oopsMu.Lock()
	defer m.oopsMu.Unlock()
	if kind != abi.BugWarn {
		m.dies++
		_, m.oopses[m.currentTask(v.id)] = m.log.Bounds()
	}
	return m.dies
}

// beginPanic logs the first line of a panic, unless that has been done. It reports
// whether the stack is to be logged, too: not after an oops, which has done so.
func (v *vcpu) beginPanic(msg string) (showStack bool) {
	m := v.m
	m.panicOnce.Do(func() {
		m.oopsMu.Lock()
		from, oopsed := m.oopses[m.currentTask(v.id)]
		m.oopsMu.Unlock()
		if !oopsed {
			_, from = m.log.Bounds()
		}
		m.panicFrom = from
		m.log.Printk(LogEmerg, "Kernel panic - not syncing: %s", msg)
		showStack = !oopsed
	})
	return showStack
}

// die panics the guest: the machine stops. What guest code that calls panic has not
// logged, it logs.
func (v *vcpu) die(msg string) {
	m := v.m
	m.dieOnce.Do(func() {
		if v.beginPanic(msg) {
			v.dumpStack(LogEmerg)
		}
		m.log.Printk(LogEmerg, "---[ end Kernel panic - not syncing: %s ]---", msg)
		m.diedMsg, m.words = msg, m.log.since(m.panicFrom)
		m.dead.Store(true)
		close(m.died)
		m.debug.panicked(v.id)
		m.host.Stop()
		for _, c := range m.cpus {
			c.setTimer(0)
			c.cpu.Kick()
			c.wakeUp()
		}
	})
	v.idle.Store(true)
}

// Bits of a page fault's error code.
const (
	faultPresent = 1 << iota
	faultWrite
	_
	_
	faultFetch
)

// faultLines prints the first lines of a page fault's oops.
func faultLines(p func(string, ...any), addr, code uint64) {
	if addr < abi.PageSize {
		p("BUG: kernel NULL pointer dereference, address: %016x", addr)
	} else {
		p("BUG: unable to handle page fault for address: %016x", addr)
	}
	access, why := "read access", "not-present page"
	switch {
	case code&faultFetch != 0:
		access = "instruction fetch"
	case code&faultWrite != 0:
		access = "write access"
	}
	if code&faultPresent != 0 {
		why = "permissions violation"
	}
	p("#PF: supervisor %s in kernel mode", access)
	p("#PF: error_code(0x%04x) - %s", code, why)
}

// showRegs does what __show_regs does.
func (v *vcpu) showRegs(p func(string, ...any), r *abi.Regs) {
	v.showShortRegs(p, r)
	c := v.cpu
	p("FS:  %016x(0000) GS:%016x(0000) knlGS:%016x", c.FSBase, c.GSBase, c.KernelGSBase)
	p("CS:  0010 DS: 0000 ES: 0000 CR0: %016x", c.CR0)
	p("CR2: %016x CR3: %016x CR4: %016x", c.CR2, c.CR3, c.CR4)
}

// showShortRegs does what __show_regs does with SHOW_REGS_SHORT.
func (v *vcpu) showShortRegs(p func(string, ...any), r *abi.Regs) {
	p("RIP: 0010:%s", v.m.Describe(r.IP))
	if v.m.has[release.FaultWords] {
		p("Code: %s", v.m.code(r.IP))
	}
	p("RSP: 0018:%016x EFLAGS: %08x", r.SP, r.Flags)
	v.showGeneralRegs(p, r)
}

func (v *vcpu) showGeneralRegs(p func(string, ...any), r *abi.Regs) {
	p("RAX: %016x RBX: %016x RCX: %016x", r.AX, r.BX, r.CX)
	p("RDX: %016x RSI: %016x RDI: %016x", r.DX, r.SI, r.DI)
	p("RBP: %016x R08: %016x R09: %016x", r.BP, r.R8, r.R9)
	p("R10: %016x R11: %016x R12: %016x", r.R10, r.R11, r.R12)
	p("R13: %016x R14: %016x R15: %016x", r.R13, r.R14, r.R15)
}

// The number of bytes that an oops shows before and after the start of the instruction.
const (
	codeBefore = 42
	codeBehind = 21
)

// code formats the bytes around an address as an oops shows them.
func (m *Machine) code(ip uint64) string {
	var b [codeBefore + 1 + codeBehind]byte
	if m.mem.ReadAt(ip-codeBefore, b[:]) != nil {
		return fmt.Sprintf("Unable to access opcode bytes at 0x%x.", ip-codeBefore)
	}
	return fmt.Sprintf("% x <%02x> % x", b[:codeBefore], b[codeBefore], b[codeBefore+1:])
}

// oopsStack returns the callers of the place of an oops. When that place is not
// code, the word at the top of the stack is the return address of the call that led
// there.
func (v *vcpu) oopsStack(r *abi.Regs) []frame {
	at := hitPlace{task: v.m.currentTask(v.id), ip: r.IP, sp: r.SP}
	if v.m.returnsTo(r.IP) {
		return v.stack(at, 0, v.hit)[1:] // without the place itself
	}
	ret, err := v.m.mem.ReadU64(r.SP)
	if err != nil || !v.m.returnsTo(ret) {
		return nil
	}
	at.ip, at.sp = ret, r.SP+8
	return v.stack(at, 1, v.hit)
}

// Describe formats an address as %pS does: symbol+offset/size, or the bare number
// when no symbol covers it.
func (m *Machine) Describe(addr uint64) string { return m.describe(addr, 'S') }

// describe formats an address as %pS, %ps (the symbol alone) or %pB (the symbol of
// the call before a return address) does.
func (m *Machine) describe(addr uint64, kind byte) string {
	back := uint64(0)
	if kind == 'B' {
		back = 1
	}
	s, off, ok := m.syms.Lookup(addr - back)
	if !ok && back != 0 { // not a return address: a trampoline that has replaced one
		back = 0
		s, off, ok = m.syms.Lookup(addr)
	}
	if !ok {
		return fmt.Sprintf("0x%x", addr)
	}
	text := s.Name
	if kind != 's' {
		text = fmt.Sprintf("%s+0x%x/0x%x", s.Name, off+back, s.Size)
	}
	if s.Module != "" {
		text += " [" + s.Module + "]"
	}
	return text
}

func (m *Machine) currentTask(cpu int) uint64 { return m.cpus[cpu].currentTask() }

func (m *Machine) currentPID(cpu int) int {
	v, _ := m.mem.ReadU64(m.currentTask(cpu) + abi.TaskPID)
	return int(int32(v))
}

func (m *Machine) currentComm(cpu int) string {
	return m.comm(m.currentTask(cpu))
}

func (m *Machine) comm(task uint64) string {
	var b [abi.TaskCommLen]byte
	if m.mem.ReadAt(task+abi.TaskComm, b[:]) != nil {
		return "?"
	}
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b[:])
}

// trapName is how the first line of an oops begins after the last exception, whose error
// code is code.
func (v *vcpu) trapName(code uint64) string {
	const gp = "general protection fault"
	switch v.vector {
	case abi.VecDE:
		return "divide error"
	case abi.VecBP:
		return "int3"
	case abi.VecUD:
		return "invalid opcode"
	case abi.VecDF:
		return "stack guard page"
	}
	switch {
	case v.vector != abi.VecGP:
		return fmt.Sprintf("exception %d", v.vector)
	case code != 0:
		return "segment-related " + gp
	case v.gpAddr == 0:
		return gp
	case !mem.Canonical(v.gpAddr):
		return fmt.Sprintf("%s, probably for non-canonical address 0x%x", gp, v.gpAddr)
	}
	return fmt.Sprintf("%s, maybe for address 0x%x", gp, v.gpAddr)
}

// maxDump is the number of lines that dump_stack shows at most.
const maxDump = 64

// hitPlace is the place of a hit whose handler is a guest function.
type hitPlace struct {
	task, ip, sp uint64
	on           bool // there is one
	oopsed       bool // the handler has made an oops, so the task ends
}

// place returns where the vCPU is.
func (v *vcpu) place() hitPlace {
	return hitPlace{task: v.m.currentTask(v.id), ip: v.cpu.RIP, sp: v.cpu.R[rsp]}
}

// hcStack is the hypercall of the guest's dump_stack: it logs the calling vCPU's stack.
func (v *vcpu) hcStack(_, _, _ uint64) int64 {
	v.dumpStack(LogWarning)
	return 0
}

// hcStackSave is the hypercall of the guest's stack_trace_save. It stores the addresses
// that stack returns, without the guest function's own and skip more.
func (v *vcpu) hcStackSave(store, size, skip uint64) int64 {
	frames := v.stack(v.place(), 1, v.hit)
	frames = frames[min(uint64(uint32(skip))+1, uint64(len(frames))):]
	frames = frames[:min(uint64(uint32(size)), uint64(len(frames)))]
	for i, f := range frames {
		if v.m.mem.WriteU64(store+8*uint64(i), f.ip) != nil {
			return int64(i)
		}
	}
	return int64(len(frames))
}

// dumpStack logs the vCPU's stack, as show_stack does.
func (v *vcpu) dumpStack(level int) {
	p := v.m.saying(level)
	if !v.m.has[release.CPULine] {
		v.dumpOld(p, v.stack(v.place(), 1, v.hit))
		return
	}
	v.showPlace(p)
	v.showTrace(p, v.stack(v.place(), 1, v.hit), true)
}

// showPlace prints the line with the CPU and its task.
func (v *vcpu) showPlace(p func(string, ...any)) {
	m := v.m
	if !m.has[release.CPULine] {
		p("Pid: %d, comm: %s %s %s #1", m.currentPID(v.id), m.currentComm(v.id), m.tainted(), m.opts.Release)
		return
	}
	p("CPU: %d PID: %d Comm: %s %s %s #1", v.id, m.currentPID(v.id), m.currentComm(v.id), m.tainted(), m.opts.Release)
	v.showWork(p)
}

// pfWQWorker is PF_WQ_WORKER.
const pfWQWorker = 0x20

// Offsets in the guest's struct worker, bytes.
const (
	workerName = 48 // desc
	workerFunc = 72 // current_func
	wqNameLen  = 24
)

// showWork does what print_worker_info does: it prints which work a kworker executes.
func (v *vcpu) showWork(p func(string, ...any)) {
	m, task := v.m, v.m.currentTask(v.id)
	flags, _ := m.mem.ReadU64(task + abi.TaskFlags)
	worker, _ := m.mem.ReadU64(task + abi.TaskWorker)
	var name [wqNameLen]byte
	fn, err := m.mem.ReadU64(worker + workerFunc)
	if flags&pfWQWorker == 0 || err != nil || fn == 0 || m.mem.ReadAt(worker+workerName, name[:]) != nil {
		return
	}
	text, _, _ := bytes.Cut(name[:], []byte{0})
	p("Workqueue: %s %s", text, m.describe(fn, 's'))
}

// frame is a function of a stack trace: the place where it is, and its stack pointer.
type frame struct{ ip, sp uint64 }

// stack is Unwind, except that in a guest's handler the functions between the handler
// and the hit are left out: Linux has others there.
func (v *vcpu) stack(at hitPlace, past uint64, hit hitPlace) []frame {
	var ips, sps [2 * maxDump]uint64
	n := v.m.Unwind(at.task, at.ip, past, at.sp, ips[:maxDump], sps[:maxDump])
	if hit.on {
		n += v.m.Unwind(hit.task, hit.ip, 1, hit.sp, ips[n:n+maxDump], sps[n:n+maxDump])
	}
	frames := make([]frame, n)
	for i := range frames {
		frames[i] = frame{ips[i], sps[i]}
	}
	return frames
}

// showTrace prints a stack trace. Where the place itself is not known to be code, the
// addresses are guesses, as Linux's unwinder makes them then. What an interrupt called
// is on a stack of its own; behind the entry of an interrupt or exception come the
// registers that it saved, in the place of the function that was interrupted.
func (v *vcpu) showTrace(p func(string, ...any), frames []frame, reliable bool) {
	if !v.m.has[release.CPULine] {
		v.showOldTrace(p, frames, reliable)
		return
	}
	p("Call Trace:")
	stack, irq := "TASK", -1
	for i, f := range frames {
		if v.m.entersIRQ(f.ip) {
			stack, irq = "IRQ", i
		}
	}
	marks := v.m.has[release.TraceTaskMarks]
	if marks || irq >= 0 {
		p(" <%s>", stack)
	}
	mark := "? "
	if reliable {
		mark = ""
	}
	for i := 0; i < len(frames); i++ {
		f := frames[i]
		if i == irq {
			if p(" </IRQ>"); marks {
				p(" <TASK>")
			}
		}
		p(" %s%s", mark, v.m.describe(f.ip, 'B')) // a call that does not return may be a function's last instruction
		if i+1 < len(frames) && v.m.img.EntryText.Contains(f.ip-1) {
			if r := v.regsAt(f.sp); r != nil && r.IP == frames[i+1].ip {
				v.showShortRegs(p, r)
				i++
			}
		}
	}
	if marks {
		p(" </TASK>")
	}
}

// entersIRQ reports whether a return address lies in the entry code of an interrupt,
// which goes on on another stack.
func (m *Machine) entersIRQ(ret uint64) bool {
	s, _, ok := m.syms.Lookup(ret - 1)
	return ok && m.img.EntryText.Contains(ret-1) && strings.HasPrefix(s.Name, "asm_sysvec_")
}

// taintLetters are 6.1's taint_flags, by bit. A clear first bit prints as G.
const taintLetters = "PFSRMBUDAWCIOELKXTN"

// taintLetters26 is the number of these letters that kernels up to 2.6.32 have.
const taintLetters26 = len("PFSRMBUDAWC")

// Taint does what add_taint does, by letter: "O" for an out-of-tree module, "E" for
// an unsigned one, "P" for a proprietary one. It ignores letters that Linux lacks.
func (m *Machine) Taint(letter byte) {
	if i := strings.IndexByte(taintLetters, letter); i >= 0 {
		m.taints.Or(1 << i)
	}
}

// Taints returns tainted_mask, by Linux's numbers of bits.
func (m *Machine) Taints() uint64 { return uint64(m.taints.Load()) }

// AddTaints adds bits to tainted_mask. It ignores those that Linux lacks.
func (m *Machine) AddTaints(bits uint64) {
	for i := range len(taintLetters) {
		if bits&(1<<i) != 0 {
			m.Taint(taintLetters[i])
		}
	}
}

// tainted does what print_tainted does, for the first line of a stack trace.
func (m *Machine) tainted() string {
	set, letters := m.taints.Load(), taintLetters
	if !m.has[release.CPULine] {
		letters = letters[:taintLetters26]
	}
	if set &= 1<<len(letters) - 1; set == 0 {
		return "Not tainted"
	}
	b := []byte(letters)
	for i := range b {
		if set&(1<<i) == 0 {
			b[i] = ' '
		}
	}
	if b[0] == ' ' {
		b[0] = 'G'
	}
	return "Tainted: " + string(b)
}

// threadSize is THREAD_SIZE, the size of a task's stack in bytes.
const threadSize = 4 * abi.PageSize

// overflowed panics the guest as handle_stack_overflow does if the task's stack is full,
// and reports whether it is. sp is the stack pointer. Linux prints hashed addresses.
func (v *vcpu) overflowed(sp uint64) bool {
	m := v.m
	stack, err := m.mem.ReadU64(m.currentTask(v.id) + abi.TaskStack)
	if err != nil || sp >= stack+abi.PageSize || sp < stack-abi.PageSize {
		return false
	}
	var r abi.Regs
	v.readRegs(&r)
	_, from := m.log.Bounds()
	hash := func(addr uint64) string { return fmt.Sprintf("%016x", m.HashPtr(addr)) }
	m.log.Printk(LogEmerg, "BUG: TASK stack guard page was hit at %s (stack is %s..%s)", hash(v.cpu.CR2), hash(stack), hash(stack+threadSize-1))
	v.vector = abi.VecDF
	m.oops(v.id, abi.BugTrap, &r, 0)
	m.oopsMu.Lock()
	m.oopses[m.currentTask(v.id)] = from // the panic's report begins with the line above
	m.oopsMu.Unlock()
	v.die("Fatal exception in interrupt")
	return true
}

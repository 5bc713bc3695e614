package kernel

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Registers of a hypercall, in the processor's numbering.
const (
	rax = 0
	rdx = 2
	rsp = 4
	rbp = 5
	rsi = 6
	rdi = 7
	r8  = 8
	r10 = 10
)

// maxText is the longest text that a hypercall may pass, in bytes.
const maxText = 1024

// hypercalls holds the function for each number: arguments in, rax out. They run
// between exit and entry, and treat all arguments as hostile.
var hypercalls = [...]func(v *vcpu, a, b, c uint64) int64{
	abi.HCPrintk:     (*vcpu).hcPrintk,
	abi.HCClock:      func(v *vcpu, _, _, _ uint64) int64 { return v.m.clock.Now() },
	abi.HCWallClock:  func(v *vcpu, _, _, _ uint64) int64 { return v.m.clock.Wall() },
	abi.HCSetTimer:   func(v *vcpu, at, _, _ uint64) int64 { v.setTimer(at); return 0 },
	abi.HCSendIPI:    (*vcpu).hcSendIPI,
	abi.HCStartCPU:   (*vcpu).hcStartCPU,
	abi.HCMap:        (*vcpu).hcMap,
	abi.HCUnmap:      (*vcpu).hcUnmap,
	abi.HCNext:       func(v *vcpu, call, _, _ uint64) int64 { return v.m.host.Next(call) },
	abi.HCDone:       (*vcpu).hcDone,
	abi.HCFileOp:     (*vcpu).hcFileOp,
	abi.HCPopWake:    func(v *vcpu, _, _, _ uint64) int64 { return int64(v.m.host.PopWake()) },
	abi.HCPanic:      (*vcpu).hcPanic,
	abi.HCPanicBegin: (*vcpu).hcPanicBegin,
	abi.HCBooted:     (*vcpu).hcBooted,
	abi.HCRandom:     func(v *vcpu, _, _, _ uint64) int64 { return int64(v.m.rand.next()) },
	abi.HCBug:        (*vcpu).hcBug,
	abi.HCTaskDead:   (*vcpu).hcTaskDead,
	abi.HCProbe:      (*vcpu).hcProbe,
	abi.HCStack:      (*vcpu).hcStack,
	abi.HCSymbol:     (*vcpu).hcSymbol,
	abi.HCStackSave:  (*vcpu).hcStackSave,
	abi.HCEntry:      (*vcpu).hcEntry,
	abi.HCDisk:       (*vcpu).hcDisk,
	abi.HCLookupName: (*vcpu).hcLookupName,
	abi.HCSymbolAt:   (*vcpu).hcSymbolAt,
}

// vmcallLen is the length of a vmcall in bytes.
const vmcallLen = 3

// hypercall answers a vmcall that is not a callback. Outside core kernel text a
// vmcall is an undefined instruction, as on a machine without a hypervisor.
func (v *vcpu) hypercall() {
	if !v.m.tab.KernelText(v.cpu.RIP - vmcallLen) {
		v.cpu.RIP -= vmcallLen
		v.onTrap(cpu.Exit{Reason: cpu.Trap, Vector: abi.VecUD, Addr: v.cpu.CR2})
		return
	}
	nr := v.cpu.R[rax]
	ret := -int64(syscall.ENOSYS)
	if nr < uint64(len(hypercalls)) && hypercalls[nr] != nil {
		ret = hypercalls[nr](v, v.cpu.R[rdi], v.cpu.R[rsi], v.cpu.R[rdx])
	}
	v.cpu.R[rax] = uint64(ret)
}

// text reads n bytes at addr, at most maxText.
func (v *vcpu) text(addr, n uint64) (string, error) {
	b := make([]byte, min(n, maxText))
	err := v.m.mem.ReadAt(addr, b)
	return string(b), err
}

// hcFileOp lets the vCPU wait a moment while the host works on a file operation. A
// deterministic machine does not wait, because the duration must not matter there.
func (v *vcpu) hcFileOp(call, op, _ uint64) int64 {
	wait := host.WaitMoment
	switch {
	case v.m.opts.Deterministic:
		wait = host.WaitNot
	case v.lent == call:
		wait = host.WaitSuspended
	}
	return v.m.host.StartFileOp(call, op, wait)
}

// hcDone lets a vCPU that is lent for this call stay as it is until the next one, unless
// other tasks wait for it.
func (v *vcpu) hcDone(call, alone, _ uint64) int64 {
	if v.lent == call && alone != 0 {
		v.parked.Store(call)
	}
	return v.m.host.Done(call)
}

func (v *vcpu) hcPrintk(buf, n, level uint64) int64 {
	s, err := v.text(buf, n)
	if err != nil {
		return -int64(syscall.EFAULT)
	}
	flags := v.cpu.R[r10]
	r := Record{Level: int(level & 7), Facility: int(uint32(level) >> 3), Text: s}
	if flags&abi.PrintkDev != 0 {
		var info [subsystemBytes + deviceBytes]byte
		if v.m.mem.ReadAt(buf+n, info[:]) != nil {
			return -int64(syscall.EFAULT)
		}
		r.Subsystem, r.Device = untilNUL(info[:subsystemBytes]), untilNUL(info[subsystemBytes:])
	}
	v.m.log.store(v.m.currentTask(v.id), r, flags)
	return 0
}

// untilNUL returns the text at the beginning of b, up to a NUL.
func untilNUL(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

func (v *vcpu) hcSymbol(addr, buf, kind uint64) int64 {
	s := v.m.describe(addr, byte(kind))
	s = s[:min(uint64(len(s)), v.cpu.R[r10])]
	if v.m.mem.WriteAt(buf, []byte(s)) != nil {
		return -int64(syscall.EFAULT)
	}
	return int64(len(s))
}

func (v *vcpu) hcLookupName(name, n, _ uint64) int64 {
	text, err := v.text(name, n)
	if err != nil {
		return 0
	}
	syms := v.m.syms.LookupName(text)
	if len(syms) == 0 {
		return 0
	}
	return int64(syms[0].Addr)
}

func (v *vcpu) hcSymbolAt(i, addr, buf uint64) int64 {
	size := v.cpu.R[r10]
	sym, ok := v.m.syms.Core(i)
	if !ok || size == 0 {
		return -int64(syscall.ENOENT)
	}
	name := append([]byte(sym.Name[:min(uint64(len(sym.Name)), size-1)]), 0)
	if v.m.mem.WriteAt(addr, binary.LittleEndian.AppendUint64(nil, sym.Addr)) != nil || v.m.mem.WriteAt(buf, name) != nil {
		return -int64(syscall.EFAULT)
	}
	return 0
}

func (v *vcpu) hcSendIPI(cpu, vector, _ uint64) int64 {
	if cpu >= uint64(len(v.m.cpus)) || vector < 32 || vector > 255 {
		return -int64(syscall.EINVAL)
	}
	v.m.cpus[cpu].raise(uint8(vector))
	return 0
}

func (v *vcpu) hcStartCPU(cpu, entry, stack uint64) int64 {
	if cpu >= uint64(len(v.m.cpus)) || v.m.cpus[cpu].started.Load() {
		return -int64(syscall.EINVAL)
	}
	c := v.m.cpus[cpu]
	c.cpu.State.CR0, c.cpu.State.CR3, c.cpu.State.CR4 = v.cpu.CR0, v.cpu.CR3, v.cpu.CR4
	c.begin(entry, stack)
	return 0
}

// maxMapPages is the largest number of pages that one HCMap may map.
const maxMapPages = 1 << 14

// userSpace reports whether the pages from va are in the lower half.
func userSpace(va, pages uint64) bool {
	return va%abi.PageSize == 0 && pages > 0 && pages <= maxMapPages && va < 1<<47 && va+pages*abi.PageSize <= 1<<47
}

// vmallocSpace reports whether the pages from va are in 6.1's vmalloc area: 0xffffc90000000000, 32 TiB.
func vmallocSpace(va, pages uint64) bool {
	const start, end = 0xffffc90000000000, 0xffffe90000000000
	return va%abi.PageSize == 0 && pages > 0 && pages <= maxMapPages && va >= start && va < end && va+pages*abi.PageSize <= end
}

func (v *vcpu) hcMap(va, pa, pages uint64) int64 {
	perm := v.cpu.R[r10]
	if perm&^1 != 0 || !userSpace(va, pages) && !vmallocSpace(va, pages) && !v.m.vmemmap(va, pages) {
		return -int64(syscall.EINVAL)
	}
	if pa%abi.PageSize != 0 || pa > v.m.opts.RAM || pages*abi.PageSize > v.m.opts.RAM-pa || v.isText(pa, pages) {
		return -int64(syscall.EINVAL)
	}
	p := mem.Read
	if perm&1 != 0 {
		p |= mem.Write
	}
	if v.m.mem.Map(va, pa, pages, p) != nil {
		return -int64(syscall.ENOMEM)
	}
	return 0
}

// vmemmapStart is VMEMMAP_START: where the guest has its array of struct page.
const vmemmapStart = 0xffffea0000000000

// vmemmap reports whether the pages at va hold the array of struct page.
func (m *Machine) vmemmap(va, pages uint64) bool {
	const pageStruct = 64
	return va == vmemmapStart && pages <= m.opts.RAM/abi.PageSize*pageStruct/abi.PageSize+1
}

// isText reports whether the pages of RAM at pa overlap memory that the guest must not write.
func (v *vcpu) isText(pa, pages uint64) bool {
	for _, s := range v.m.img.Segments {
		r := abi.Range{Start: s.Addr - abi.KernelBase, End: s.Addr - abi.KernelBase + s.MemSize}
		if s.Perm&image.Write == 0 && r.Overlaps(pa, pa+pages*abi.PageSize) {
			return true
		}
	}
	return false
}

func (v *vcpu) hcUnmap(va, pages, _ uint64) int64 {
	if !userSpace(va, pages) && !vmallocSpace(va, pages) {
		return -int64(syscall.EINVAL)
	}
	v.m.unmap(va, pages)
	return 0
}

// unmap removes pages from the mappings of all vCPUs.
func (m *Machine) unmap(va, pages uint64) {
	m.StopMachine(func() {
		m.mem.Unmap(va, pages)
		for _, c := range m.cpus {
			c.cpu.FlushTLB()
		}
	})
}

func (v *vcpu) hcPanic(buf, n, _ uint64) int64 {
	v.die(v.panicText(buf, n))
	return 0
}

// hcPanicBegin tells the guest's panic whether to dump its stack.
func (v *vcpu) hcPanicBegin(buf, n, _ uint64) int64 {
	if v.beginPanic(v.panicText(buf, n)) {
		return 1
	}
	return 0
}

// panicText reads the message of a panic.
func (v *vcpu) panicText(buf, n uint64) string {
	s, err := v.text(buf, n)
	if err != nil {
		return "(the message cannot be read)"
	}
	return s
}

// hcBooted takes the array of host_call addresses: manager, then load/N.
func (v *vcpu) hcBooted(array, n, _ uint64) int64 {
	if n != uint64(1+len(v.m.cpus)) || len(v.m.loads) > 0 {
		return -int64(syscall.EINVAL)
	}
	calls := make([]uint64, n)
	for i := range calls {
		a, err := v.m.mem.ReadU64(array + 8*uint64(i))
		if err != nil {
			return -int64(syscall.EFAULT)
		}
		calls[i] = a
	}
	loads := v.m.host.Booted(calls)[1:]
	v.m.loads = make([]atomic.Pointer[host.Task], len(loads))
	for i, t := range loads {
		v.m.loads[i].Store(t)
	}
	if !v.m.opts.Deterministic { // the task that reports a new task must not depend on how long the host takes
		v.m.host.SetMakers(loads)
	}
	v.m.tab.Booted()
	close(v.m.booted)
	return 0
}

func (v *vcpu) hcBug(regs, kind, code uint64) int64 {
	switch kind {
	case abi.BugAtomic: // the caller prints the first line and the stack
		v.m.log.Printk(LogWarning, "%s", v.m.modulesLine())
		return 0
	case abi.BugAtomicTaint:
		v.m.Taint('W')
		return 0
	}
	r := v.regsAt(regs)
	if r == nil {
		return -int64(syscall.EFAULT)
	}
	v.m.oops(v.id, kind, r, code)
	return 0
}

// hcTaskDead is called for every task that ends, before its memory is reused.
func (v *vcpu) hcTaskDead(task, _, _ uint64) int64 {
	if f := v.m.handlers.Load().TaskDead; f != nil {
		f(task)
	}
	v.m.sleepers.forget(task)
	v.m.oopsMu.Lock()
	delete(v.m.oopses, task)
	v.m.oopsMu.Unlock()
	v.m.host.TaskDied(task)
	return 0
}

// hcProbe passes a task's request to the probes; the task sleeps meanwhile.
func (v *vcpu) hcProbe(request, _, _ uint64) int64 {
	f := v.m.handlers.Load().Probe
	if f == nil {
		return -int64(syscall.ENOSYS)
	}
	var b [abi.ProbeDone + 4]byte
	task := v.m.currentTask(v.id)
	if v.m.mem.ReadAt(request, b[:]) != nil || task == 0 {
		return -int64(syscall.EFAULT)
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	answer := func() {
		ret := f(word(abi.ProbeNr), word(abi.ProbeAddr), word(abi.ProbeArg))
		_ = v.m.mem.WriteU64(request+abi.ProbeRet, uint64(ret)) // on the stack of the task that waits for it
		_ = v.m.mem.WriteAt(request+abi.ProbeDone, []byte{1, 0, 0, 0})
		v.m.host.Wake(task)
	}
	if v.m.seq != nil {
		v.m.seq.ask(answer)
	} else {
		v.m.wg.Go(answer)
	}
	return 0
}

// onCallback reports whether a vmcall in core text was a callback, and answers it.
func (v *vcpu) onCallback(h *Handlers) bool {
	r := &v.cpu.R
	nr := r[rax]
	if (nr < abi.HCFunction || nr > abi.HCRethook) && nr != abi.HCGraphReturn && nr != abi.HCRawTracepoint || !v.m.img.Text.Contains(v.cpu.RIP-vmcallLen) {
		return false
	}
	var ret int64
	switch nr {
	case abi.HCOptimized:
		ret = v.callback(h.Optimized, r[rsi], r[rdi], 0)
	case abi.HCFtrace:
		ret = v.ftrace(h.Ftrace, r[rdx], r[rsi], r[rdi])
	case abi.HCRethook:
		ret = v.callback(h.Rethook, r[rdi], 0, 0)
	case abi.HCGraphReturn:
		ret = v.graphReturn(h.GraphReturn, r[rdi])
	case abi.HCFunction:
		ret = v.function(h.Function, r[rdi], r[rsi], r[rdx])
	case abi.HCTracepoint:
		ret = v.tracepoint(h.Tracepoint, r[rdi], r[rsi], r[rdx])
	case abi.HCRawTracepoint:
		ret = v.tracepoint(h.RawTracepoint, r[rdi], r[rsi], r[rdx])
	}
	if v.left(&v.trap, uint64(ret), nil) {
		return true
	}
	r[rax] = uint64(ret)
	return true
}

// ftrace runs the listeners of an fentry site that get all registers. It returns the
// address of the ftrace_ops whose function the guest calls then, or 0.
func (v *vcpu) ftrace(f func(*abi.Trap), regs, parent, ip uint64) int64 {
	v.trap.Op = v.cpu.R[r10]
	if ret := v.callback(f, regs, parent, ip); ret != 0 {
		return ret
	}
	return int64(v.trap.Op)
}

// callback runs a handler on the pt_regs in guest memory, in place.
func (v *vcpu) callback(f func(*abi.Trap), regs, arg, ip uint64) int64 {
	if f == nil {
		return 0
	}
	p := v.regsNear(regs)
	if p == nil {
		return -int64(syscall.EFAULT)
	}
	t := &v.trap
	t.Mem = &v.near
	t.Vector, t.RegsAddr, t.Arg, t.Regs = 0, regs, arg, p
	t.Next = p.IP
	if ip != 0 {
		t.Regs.IP = ip
	}
	v.fill(t, 0)
	f(t)
	return 0
}

// function runs the listeners of an fentry site that get no registers but the
// address, the stack pointer and the flags.
func (v *vcpu) function(f func(*abi.Trap), ip, parent, regs uint64) int64 {
	if f == nil {
		return 0
	}
	t := &v.trap
	t.Vector, t.RegsAddr, t.Arg, t.Regs, t.Op = 0, 0, parent, &v.regs, v.cpu.R[r10]
	v.regs = abi.Regs{IP: ip, SP: regs + abi.RegsSize + 8, BP: v.cpu.R[rbp], CS: abi.KernelCS, SS: abi.KernelSS, Flags: v.cpu.RFlags}
	v.fill(t, 0)
	f(t)
	return int64(t.Op)
}

// graphReturn passes on that a function has returned to return_to_handler, which pops
// the address to continue at from slot.
func (v *vcpu) graphReturn(f func(*abi.Trap), slot uint64) int64 {
	if f == nil {
		return 0
	}
	t := &v.trap
	t.Vector, t.RegsAddr, t.Arg, t.Regs, t.Op = 0, 0, slot, &v.regs, 0
	v.regs = abi.Regs{IP: v.cpu.RIP, SP: slot + 8, BP: v.cpu.R[rbp], CS: abi.KernelCS, SS: abi.KernelSS, Flags: v.cpu.RFlags}
	v.fill(t, 0)
	f(t)
	return 0
}

// maxRecord is the longest record of a tracepoint, in bytes.
const maxRecord = 1024 + 64

// tracepoint passes a tracepoint's record to f.
func (v *vcpu) tracepoint(f func(*abi.Trap), tracepoint, record, n uint64) int64 {
	if f == nil {
		return 0
	}
	if n > maxRecord {
		return -int64(syscall.EINVAL)
	}
	b := v.guestBytes(record, n)
	if b == nil {
		return -int64(syscall.EFAULT)
	}
	t := &v.trap
	v.readRegs(&v.regs)
	t.Vector, t.RegsAddr, t.Arg, t.Regs, t.Data = 0, 0, tracepoint, &v.regs, b
	v.fill(t, 0)
	if !t.Quiet {
		f(t)
	}
	t.Data = nil
	return 0
}

// guestBytes returns n bytes of writable guest memory in at most two pages. The
// pages must be contiguous in RAM, as a kernel stack's are; otherwise the
// result is nil.
func (v *vcpu) guestBytes(addr, n uint64) []byte {
	if n == 0 || n > abi.PageSize {
		return nil
	}
	pa, perm, ok := v.m.mem.Lookup(addr)
	if !ok || perm&mem.Write == 0 {
		return nil
	}
	if addr%abi.PageSize+n > abi.PageSize {
		last, perm, ok := v.m.mem.Lookup(addr + n - 1)
		if !ok || perm&mem.Write == 0 || last != pa+n-1 {
			return nil
		}
	}
	return v.m.mem.Phys(pa, n)
}

// regsNear is regsAt inside Run, where the vCPU's translations are valid.
func (v *vcpu) regsNear(addr uint64) *abi.Regs {
	if p := v.cpu.Window(addr, abi.RegsSize); p != nil && addr%8 == 0 {
		return (*abi.Regs)(p)
	}
	return v.regsAt(addr)
}

// regsAt returns the pt_regs at addr, or nil when there are not 168 aligned bytes
// of writable memory. The two pages of a kernel stack that they may cross are
// contiguous in RAM. (Guest memory is little-endian, and so are all hosts that
// this program supports.)
func (v *vcpu) regsAt(addr uint64) *abi.Regs {
	b := v.guestBytes(addr, abi.RegsSize)
	if b == nil || addr%8 != 0 {
		return nil
	}
	return (*abi.Regs)(unsafe.Pointer(unsafe.SliceData(b)))
}

// random is the machine's source of random numbers: the host's, or splitmix64
// with a seed.
type random struct {
	mu    sync.Mutex
	state uint64
	host  bool
}

func newRandom(seed uint64) *random { return &random{state: seed, host: seed == 0} }

func (r *random) next() uint64 {
	if r.host {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		return binary.LittleEndian.Uint64(b[:])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return abi.SplitMix64(&r.state)
}

// guest is the machine as package host sees it. Requests may come while the machine is
// closed: their accesses to memory fail with ErrStopped then.
type guest struct{ m *Machine }

// access calls f unless the memory is gone.
func (g guest) access(f func() error) error {
	g.m.memMu.RLock()
	defer g.m.memMu.RUnlock()
	if g.m.memGone {
		return host.ErrStopped
	}
	return f()
}

func (g guest) ReadAt(addr uint64, p []byte) error {
	return g.access(func() error { return g.m.mem.ReadAt(addr, p) })
}

func (g guest) WriteAt(addr uint64, p []byte) error {
	return g.access(func() error { return g.m.mem.WriteAt(addr, p) })
}

func (g guest) ReadU64(addr uint64) (v uint64, err error) {
	err = g.access(func() (err error) {
		v, err = g.m.mem.ReadU64(addr)
		return err
	})
	return v, err
}

func (g guest) WriteU64(addr uint64, v uint64) error {
	return g.access(func() error { return g.m.mem.WriteU64(addr, v) })
}

func (g guest) Phys(pa, n uint64) []byte   { return g.m.mem.Phys(pa, n) }
func (g guest) UnmapUser(va, pages uint64) { g.m.unmap(va, pages) }
func (g guest) MapUser(va, pa, pages uint64) error {
	return g.m.mem.Map(va, pa, pages, mem.Read|mem.Write)
}

// wakePatience is how long a busy vCPU may leave the wake-up interrupt pending
// before all others are interrupted.
const wakePatience = 2 * time.Millisecond

// Wake interrupts an idle vCPU, or the first one when all are busy. If that one
// keeps its interrupts off, the others are interrupted, too.
func (g guest) Wake() {
	for _, v := range g.m.cpus {
		if v.idle.Load() && v.started.Load() {
			v.raise(abi.VecAsyncPF)
			return
		}
	}
	g.m.cpus[0].raise(abi.VecAsyncPF)
	if len(g.m.cpus) > 1 && !g.m.waking.Swap(true) {
		g.m.clock.alarm(wakePatience, g.m.wakeOthers)
	}
}

func (m *Machine) wakeOthers() {
	m.waking.Store(false)
	if !m.host.Waking() || m.closing.Load() {
		return
	}
	for _, v := range m.cpus[1:] {
		if v.started.Load() {
			v.raise(abi.VecAsyncPF)
		}
	}
}

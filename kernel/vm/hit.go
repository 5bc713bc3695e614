package vm

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insnslot"
	"github.com/kprobefs/kprobefs/kernel/mem"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
)

// stub is code that takes the place of a function of the kernel, or of a trampoline that Linux would
// make: a vmcall, at which answer is called, and a ret.
type stub struct {
	answer func(v *vcpu, h *Handlers)
	hidden []byte // the kernel's own bytes there; nil for a trampoline
}

var stubCode = []byte{0x0f, 0x01, 0xc1, 0xc3} // vmcall; ret

const (
	vmcallLen = 3
	hltLen    = 1
	hlt       = 0xf4
)

// makeStubs writes the stubs, and what functions return to.
func (m *VM) makeStubs(ram *pages) error {
	m.slots = insnslot.New(m.mem, ram, abi.SlotsBase, m.Poke)
	var err error
	if m.end, err = m.slots.Alloc(hltLen); err != nil {
		return err
	}
	if err := m.mem.PokeText(m.end, []byte{hlt}); err != nil {
		return err
	}
	m.stubs.Store(&map[uint64]stub{})
	for name, answer := range map[string]func(*vcpu, *Handlers){
		trampoline.Optimized:                  (*vcpu).optimized,
		release.Trampoline.Of(m.kernel.Linux): (*vcpu).rethook,
		"return_to_handler":                   (*vcpu).graphReturn,
		trampoline.Ftrace.Name:                (*vcpu).function,
		trampoline.FtraceRegs.Name:            (*vcpu).ftrace,
	} {
		if at := m.addr(name); at != 0 {
			if err := m.replace(at, answer); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	sites := slices.DeleteFunc(slices.Clone(m.kernel.Image.Mcount), func(at uint64) bool { return !m.kernel.FtraceSite(at) }) // freed
	m.sites = ftrace.New(m, sites, ftrace.Callers{
		Regs: m.addr(trampoline.FtraceRegs.Name), List: m.addr(trampoline.Ftrace.Name), Trampoline: m.trampoline,
	}, m.armed)
	return nil
}

// replace writes a stub over a function of the kernel.
func (m *VM) replace(at uint64, answer func(*vcpu, *Handlers)) error {
	hidden := make([]byte, len(stubCode))
	if err := m.mem.ReadAt(at, hidden); err != nil {
		return err
	}
	m.addStub(at, stub{answer, hidden})
	return m.mem.PokeText(at, stubCode)
}

func (m *VM) addStub(at uint64, s stub) {
	m.stubMu.Lock()
	defer m.stubMu.Unlock()
	all := maps.Clone(*m.stubs.Load())
	all[at] = s
	m.stubs.Store(&all)
}

// trampoline is ftrace.Callers.Trampoline.
func (m *VM) trampoline(_ string, regs bool) (uint64, error) {
	at, err := m.slots.Alloc(len(stubCode))
	if err != nil {
		return 0, err
	}
	answer := (*vcpu).function
	if regs {
		answer = (*vcpu).ftrace
	}
	m.addStub(at, stub{answer: answer})
	return at, m.Poke(abi.Patch{Addr: at, Bytes: stubCode})
}

// hitMemory is memory for handlers: the kernel's, and in the direct map the tasks'. A kernel that is
// not booted has nothing there.
type hitMemory struct {
	*mem.Memory
	cpu   *cpu.CPU
	tasks abi.Memory
}

var _ abi.Memory = (*hitMemory)(nil)

// directEnd is where the direct map ends, whose size is 64 TiB.
const directEnd = abi.DirectMap + 1<<46

func (m *hitMemory) elsewhere(va uint64) bool {
	return m.tasks != nil && va >= abi.DirectMap && va < directEnd
}

func (m *hitMemory) ReadAt(va uint64, p []byte) error {
	if m.elsewhere(va) {
		return m.tasks.ReadAt(va, p)
	}
	return m.Memory.ReadAt(va, p)
}

func (m *hitMemory) WriteAt(va uint64, p []byte) error {
	if m.elsewhere(va) {
		return fmt.Errorf("write at %#x: %w", va, syscall.EFAULT)
	}
	return m.Memory.WriteAt(va, p)
}

func (m *hitMemory) ReadU64(va uint64) (uint64, error) {
	if m.elsewhere(va) {
		return m.tasks.ReadU64(va)
	}
	if m.cpu != nil {
		if p := m.cpu.Window(va, 8); p != nil {
			return *(*uint64)(p), nil
		}
	}
	return m.Memory.ReadU64(va)
}

func (m *hitMemory) WriteU64(va, x uint64) error {
	if m.elsewhere(va) {
		return fmt.Errorf("write at %#x: %w", va, syscall.EFAULT)
	}
	return m.Memory.WriteU64(va, x)
}

// Memory returns what handlers read.
func (m *VM) Memory() abi.Memory { return &hitMemory{Memory: m.mem, tasks: m.tasks} }

// OnHit implements interp.Hook: see kernel's vcpu.
func (v *vcpu) OnHit(r cpu.Reason) bool {
	h := v.vm.handlers.Load()
	if r == cpu.Hypercall {
		at := v.cpu.RIP - vmcallLen
		s, ok := (*v.vm.stubs.Load())[at]
		if ok {
			v.first = 0
			s.answer(v, h)
		}
		return ok
	}
	if h.Int3 == nil {
		return false
	}
	if v.cpu.RIP >= abi.SlotsBase && h.Stepped != nil {
		if ip, flags, ok := h.Stepped(v.id, v.cpu.RIP, v.cpu.RFlags); ok {
			v.cpu.GoOn(ip, flags)
			return true
		}
	}
	return v.inTrap(v.vm.trap, abi.VecBP, h.Int3)
}

// inTrap calls f with the trap of a hit, in whose context the guest is meanwhile, as the vCPU of package kernel does. The
// vCPU then has the registers that f leaves.
func (v *vcpu) inTrap(add uint32, vector uint8, f func(*abi.Trap) bool) bool {
	v.regs.Set(&v.cpu.R, v.cpu.RIP, v.cpu.RFlags)
	v.regs.OrigAX = ^uint64(0)
	t := v.fill(add)
	t.Vector = vector
	claimed := f(t)
	v.cpu.GoOn(v.regs.Get(&v.cpu.R))
	return claimed
}

// fill begins a trap with the registers in v.regs.
func (v *vcpu) fill(add uint32) *abi.Trap {
	t := &v.trap
	t.Regs, t.Vector, t.RegsAddr, t.Arg, t.Op, t.Next, t.Caller = &v.regs, 0, 0, 0, 0, 0, 0
	t.Gone, t.Away, t.IRQsOff = false, false, false
	t.Preempt = add
	if at := v.preemptCount(); at != 0 {
		var b [4]byte
		if v.vm.mem.ReadAt(at, b[:]) == nil {
			t.Preempt += binary.LittleEndian.Uint32(b[:]) &^ preemptible
		}
	}
	return t
}

func (v *vcpu) preemptCount() uint64 { return v.vm.preempt + v.fresh.GSBase }

func (v *vcpu) addPreempt(n int32) {
	var b [4]byte
	at := v.preemptCount()
	if v.vm.mem.ReadAt(at, b[:]) == nil {
		binary.LittleEndian.PutUint32(b[:], binary.LittleEndian.Uint32(b[:])+uint32(n))
		_ = v.vm.mem.WriteAt(at, b[:])
	}
}

// word reads a word of the stack, 0 where there is none.
func (v *vcpu) word(at uint64) uint64 {
	x, _ := v.vm.mem.ReadU64(at)
	return x
}

// optimized is optimized_callback(op, regs), which a detour calls.
func (v *vcpu) optimized(h *Handlers) {
	op, at := v.cpu.R[rdi], v.cpu.R[rsi]
	if h.Optimized == nil || v.vm.mem.ReadAt(at, v.regs.Bytes()) != nil {
		return
	}
	t := v.fill(1)
	t.RegsAddr, t.Arg = at, op
	h.Optimized(t)
	_ = v.vm.mem.WriteAt(at, v.regs.Bytes()) // it has been read there
}

// ftrace is a trampoline that saves all registers. It was called by an fentry site, and returns to
// where the handler says.
func (v *vcpu) ftrace(h *Handlers) {
	sp := v.cpu.R[rsp]
	next := v.word(sp)
	v.regs.Set(&v.cpu.R, next, v.cpu.RFlags)
	v.regs.SP, v.regs.OrigAX = sp+8, 0
	t := v.fill(1)
	v.regs.IP = next - ftrace.SiteSize
	t.RegsAddr, t.Arg, t.Next = sp-abi.RegsSize, v.word(sp+8), next
	if h.Ftrace == nil {
		return
	}
	h.Ftrace(t)
	ip, _ := v.regs.Get(&v.cpu.R)
	v.cpu.R[rsp] = sp
	_ = v.vm.mem.WriteU64(sp, ip) // the call has just written there
}

// function is a trampoline whose listeners see no registers.
func (v *vcpu) function(h *Handlers) {
	sp := v.cpu.R[rsp]
	if h.Function == nil {
		return
	}
	v.regs = abi.Regs{IP: v.word(sp) - ftrace.SiteSize, SP: sp + 8, BP: v.cpu.R[rbp], CS: abi.KernelCS, SS: abi.KernelSS, Flags: v.cpu.RFlags}
	t := v.fill(1)
	t.Arg = v.word(sp + 8)
	v.first = v.cpu.RIP - vmcallLen
	h.Function(t)
}

// rethook is what hooked calls return to: its ret goes on where the handler has the return address
// written.
func (v *vcpu) rethook(h *Handlers) {
	slot := v.cpu.R[rsp] - 8
	if h.Rethook == nil {
		return
	}
	v.regs.Set(&v.cpu.R, v.cpu.RIP-vmcallLen, v.cpu.RFlags)
	t := v.fill(1)
	t.RegsAddr = slot - abi.RegsSize
	h.Rethook(t)
	v.regs.Get(&v.cpu.R)
	v.cpu.R[rsp] = slot
}

// graphReturn is return_to_handler, in the same way.
func (v *vcpu) graphReturn(h *Handlers) {
	slot := v.cpu.R[rsp] - 8
	if h.GraphReturn == nil {
		return
	}
	v.regs = abi.Regs{IP: v.cpu.RIP, SP: slot + 8, BP: v.cpu.R[rbp], CS: abi.KernelCS, SS: abi.KernelSS, Flags: v.cpu.RFlags}
	t := v.fill(1)
	t.Arg = slot
	h.GraphReturn(t)
	v.cpu.R[rsp] = slot
}

// Oops is what would have ended the task on Linux.
type Oops struct {
	What string
	At   string // the instruction: "strlen+0x4"
}

// Error says what and where.
func (o *Oops) Error() string { return fmt.Sprintf("%s at %s", o.What, o.At) }

// Unwrap returns EFAULT.
func (o *Oops) Unwrap() error { return syscall.EFAULT }

func (v *vcpu) oops(e cpu.Exit, what string) error {
	if what == "" {
		what = fmt.Sprintf("exception %d", e.Vector)
		switch e.Vector {
		case abi.VecPF:
			what = fmt.Sprintf("an access to %#x, where nothing is,", e.Addr)
			if e.Code&1 != 0 {
				what = fmt.Sprintf("an access to %#x that is not allowed", e.Addr)
			}
		case abi.VecUD:
			what = "an instruction that cannot be executed"
		case abi.VecGP:
			what = "a general protection fault"
		case abi.VecDE:
			what = "a division by zero"
		case abi.VecBP:
			what = "a breakpoint that is no probe's"
		}
	}
	return &Oops{what, v.vm.placeOf(v.cpu.RIP)}
}

// Types of exception table entries whose fixup is only a jump, in 5.16 and later: EX_TYPE_DEFAULT,
// DEFAULT_MCE_SAFE, UACCESS. 5.10 has handlers instead of types, which are not looked at: what
// they do besides is not done.
const (
	exTypeMask = 0xff
	exDefault  = 1
	exUaccess  = 3
	exMCESafe  = 14
)

// onTrap offers an exception to the probes, which have seen breakpoints, and then to the exception table.
func (v *vcpu) onTrap(e cpu.Exit) error {
	h := v.vm.handlers.Load()
	if h.Fault != nil && e.Vector != abi.VecBP {
		v.trap.ErrorCode, v.trap.Addr = e.Code, e.Addr
		claimed := v.inTrap(0, e.Vector, h.Fault)
		v.trap.ErrorCode, v.trap.Addr = 0, 0
		if claimed {
			return nil
		}
	}
	for _, x := range v.vm.kernel.Image.ExTable {
		if x.Insn != v.cpu.RIP || e.Vector == abi.VecBP || e.Vector == abi.VecUD {
			continue
		}
		switch x.Type & exTypeMask {
		case exDefault, exUaccess, exMCESafe:
			v.cpu.GoOn(x.Fixup, v.cpu.RFlags)
			return nil
		}
	}
	if b, ok := v.vm.kernel.FindBug(v.cpu.RIP); ok && e.Vector == abi.VecUD {
		return v.oops(e, fmt.Sprintf("BUG or WARN of %s:%d", b.File, b.Line))
	}
	return v.oops(e, "")
}

// readFrames reads the kernel's ORC tables; a kernel without them has no stack traces beyond the
// function that was entered last.
func (m *VM) readFrames() image.Frames {
	img := m.kernel.Image
	ip, ipEnd := m.addr("__start_orc_unwind_ip"), m.addr("__stop_orc_unwind_ip")
	orc, orcEnd := m.addr("__start_orc_unwind"), m.addr("__stop_orc_unwind")
	f, err := image.ReadORC(ip, img.Bytes(ip, ipEnd-ip), img.Bytes(orc, orcEnd-orc))
	if err != nil {
		return image.Frames{}
	}
	return f
}

// Unwind stores a stack trace of a call: see kernel.Machine.Unwind.
func (m *VM) Unwind(task, ip, past, sp uint64, ips, sps []uint64) (n int) {
	frames := m.frames()
	h := m.handlers.Load()
	shown, entered := ip, true
	for n < len(ips) {
		ips[n] = shown
		if sps != nil {
			sps[n] = sp
		}
		n++
		size, ok := frames.Size(ip - past)
		switch {
		case entered && past == 0 || !ok && entered:
			size = 8
		case !ok:
			return n
		}
		past, entered = 1, false
		slot := sp + size - 8
		ret, err := m.mem.ReadU64(slot)
		if err != nil {
			return n
		}
		shown = ret
		if h.Return != nil {
			shown, ret = h.Return(task, slot, ret)
		}
		if !m.kernel.KernelText(ret - 1) {
			return n
		}
		ip, sp = ret, sp+size
	}
	return n
}

// UnwindCallback stores a stack trace of the hit in hand. At an fentry site whose listeners see no
// registers the trampoline comes first.
func (m *VM) UnwindCallback(cpu int, task uint64, ips []uint64) int {
	v := m.cpus[cpu]
	n := 0
	if v.first != 0 && len(ips) > 0 {
		ips[0], n = v.first, 1
	}
	return n + m.Unwind(task, v.regs.IP, 0, v.regs.SP, ips[n:], nil)
}

// Package tracingtest provides a fake kernel for tests of tracing: the symbols that the
// recorded definitions use, probes that a test hits, and memory of tasks. It does not
// execute code.
package tracingtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Kinds of symbols that matter for a definition.
const (
	function    = iota // with an fentry site
	notrace            // without one
	blacklisted        // with one, but blacklisted
	data
)

// Kernel has the symbols of Debian's kernel that the recorded definitions use, and
// refuses the probes that register_kprobe refuses. It implements the interfaces of the
// packages below kprobes/tracing that have to do with probes, symbols and the machine.
type Kernel struct {
	Owners

	Clock  atomic.Int64 // ns
	VCPUs  int
	HitVia kprobes.Via // what Via returns
	Refuse error       // what Enable returns

	Probes []*kprobes.Kprobe // the registered ones, the oldest first
	Rets   []*kprobes.Retprobe
	Armed  map[*kprobes.Kprobe]bool
	Synced []bool // see SynchronizeRCU

	syms    []abi.Symbol // by address
	kind    map[uint64]int
	bugs    []uint64
	modules []string

	mu  sync.Mutex // guards log and changes of the probes
	log []string
}

// boundaries are the offsets of instructions in each function of the fake.
var boundaries = []uint64{0, 5, 7, 9, 11}

// New returns a kernel with two vCPUs and no module.
func New() *Kernel {
	f := &Kernel{kind: map[uint64]int{}, VCPUs: 2, Armed: map[*kprobes.Kprobe]bool{}}
	next := uint64(0xffffffff81000000)
	at := func(addr uint64) { next = addr }
	add := func(kind int, size uint64, names ...string) {
		for _, name := range names {
			module, base, found := strings.Cut(name, ":")
			if !found {
				module, base = "", name
			}
			f.syms = append(f.syms, abi.Symbol{Addr: next, Size: size, Name: base, Module: module, Type: 't'})
			f.kind[next] = kind
			next += size
		}
	}
	add(notrace, 16, "_text", "entry_SYSCALL_64", "do_syscall_64", "__fentry__", "ftrace_caller", "memcpy",
		"__x86_indirect_thunk_rax", "__x86_return_thunk", "trace_clock_local", "native_sched_clock",
		"__SCT__might_resched", "arch_rethook_trampoline", "exc_int3", "asm_exc_int3", "exc_page_fault",
		"do_user_addr_fault", "notify_die", "__switch_to", "cold.part.1")
	add(function, 0x40, "__x64_sys_read", "schedule", "register_kprobe", "perf_iommu_stop.part.0", "panic", "_printk",
		"__x64_sys_getpid", "name_show", "name_show", "type_show", "type_show", "xfrm_hash_resize", "xfrm_hash_resize",
		"cold")
	add(blacklisted, 0x40, "kprobe_dispatcher", "aggr_pre_handler", "do_int3", "get_kprobe", "kprobe_int3_handler", "notifier_call_chain")
	at(0xffffffff810a0a20)
	add(function, 0x430, "kernel_clone")
	at(0xffffffff810a6f80)
	add(function, 0xb10, "do_exit")
	at(0xffffffff81383780)
	add(function, 0x200, "at_18446744071582529424")
	f.bugs = []uint64{0xffffffff810a71f1, 0xffffffff810a7202, 0xffffffff810a7449}
	at(0xffffffff81360af0)
	add(function, 0x30, "vfs_open")
	at(0xffffffff81363790)
	add(function, 0x310, "vfs_read", "__kernel_write_iter")
	at(0xffffffff81363f10)
	add(function, 0x3f0, "vfs_write")
	at(0xffffffff81373790)
	add(function, 0x40, "try_lookup_one_len")
	at(0xffffffff8137be00)
	add(notrace, 0x100, "far_away")
	at(0xffffffff81a47000)
	add(notrace, 0x100, "__static_call_text_start")
	add(data, 16, "_etext")
	at(0xffffffff82000000)
	add(data, 0x100, "linux_proc_banner", "init_task", "jiffies", "_sdata")
	at(0xffffffff83000000)
	add(notrace, 0x100, "start_kernel")
	return f
}

// LoadModule adds a module with a function mod_func.
func (f *Kernel) LoadModule(name string) {
	addr := uint64(0xffffffffc0201020)
	f.modules = append(f.modules, name)
	f.syms = append(f.syms, abi.Symbol{Addr: addr, Size: 0x20, Name: "mod_func", Module: name})
	f.kind[addr] = function
}

// LookupName returns the symbols of a name, "symbol" or "module:symbol".
func (f *Kernel) LookupName(name string) (found []abi.Symbol) {
	module, base, qualified := strings.Cut(name, ":")
	if !qualified {
		base = name
	}
	for _, s := range f.syms {
		if s.Name == base && (!qualified || s.Module == module) {
			found = append(found, s)
		}
	}
	return found
}

// Lookup returns the symbol at an address.
func (f *Kernel) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	for _, s := range f.syms {
		if s.Addr <= addr && addr < s.Addr+s.Size {
			return s, addr - s.Addr, true
		}
	}
	return abi.Symbol{}, 0, false
}

// FtraceOverlap reports whether a function with an fentry site starts there.
func (f *Kernel) FtraceOverlap(start, end uint64) bool {
	for addr, kind := range f.kind {
		if start <= addr && addr < end && (kind == function || kind == blacklisted) {
			return true
		}
	}
	return false
}

// CPUs returns VCPUs.
func (f *Kernel) CPUs() int { return f.VCPUs }

// Now returns Clock, ns.
func (f *Kernel) Now() int64 { return f.Clock.Load() }

// Printk adds a line to the log.
func (f *Kernel) Printk(_ int, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// SynchronizeRCU records which probes are armed.
func (f *Kernel) SynchronizeRCU() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Synced = append(f.Synced, slices.Contains(slices.Collect(maps.Values(f.Armed)), true))
}

// TakeLog is dmesg -c.
func (f *Kernel) TakeLog() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

func (f *Kernel) resolve(addr uint64, name string, offset uint32) (uint64, uint64, error) {
	if name == "" && addr == 0 {
		return 0, 0, syscall.EINVAL
	}
	if name != "" {
		syms := f.LookupName(name)
		if len(syms) == 0 {
			return 0, 0, syscall.ENOENT
		}
		addr = syms[0].Addr + uint64(offset)
	}
	_, off, ok := f.Lookup(addr)
	if !ok {
		return 0, 0, syscall.ENOENT
	}
	return addr, off, nil
}

// OnFuncEntry fails with EINVAL within a function and with ENOENT outside of all.
func (f *Kernel) OnFuncEntry(addr uint64, name string, offset uint32) error {
	_, off, err := f.resolve(addr, name, offset)
	if err == nil && off != 0 {
		return syscall.EINVAL
	}
	return err
}

// NewRethook fails with ENOSYS.
func (f *Kernel) NewRethook(int, uint64, func(*kprobes.Instance, *abi.Trap)) (*kprobes.Rethook, error) {
	return nil, syscall.ENOSYS
}

// Register fails as register_kprobe does.
func (f *Kernel) Register(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	addr, off, err := f.resolve(p.Addr, p.SymbolName, p.Offset)
	if err != nil {
		return err
	}
	if f.kind[addr-off] != function || slices.Contains(f.bugs, addr) {
		return fmt.Errorf("refused: %w", syscall.EINVAL)
	}
	if !slices.Contains(boundaries, off) {
		return fmt.Errorf("refused: %w", syscall.EILSEQ)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p.Addr = addr
	f.Probes = append(f.Probes, p)
	f.Armed[p] = p.Flags&kprobes.FlagDisabled == 0
	return nil
}

// Unregister removes a probe.
func (f *Kernel) Unregister(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Probes = slices.DeleteFunc(f.Probes, func(q *kprobes.Kprobe) bool { return p == q })
	delete(f.Armed, p)
	return nil
}

// RegisterRetprobe fails as register_kretprobe does.
func (f *Kernel) RegisterRetprobe(rp *kprobes.Retprobe, _ ...*kprobes.Hit) error {
	p := &rp.Kprobe
	if err := f.OnFuncEntry(p.Addr, p.SymbolName, p.Offset); err != nil {
		return err
	}
	if rp.MaxActive <= 0 {
		rp.MaxActive = max(10, 2*f.VCPUs)
	}
	if err := f.Register(p); err != nil {
		return err
	}
	f.Rets = append(f.Rets, rp)
	return nil
}

// UnregisterRetprobe removes a return probe.
func (f *Kernel) UnregisterRetprobe(rp *kprobes.Retprobe, _ ...*kprobes.Hit) error {
	f.Unregister(&rp.Kprobe)
	f.Rets = slices.DeleteFunc(f.Rets, func(q *kprobes.Retprobe) bool { return rp == q })
	return nil
}

// Enable fails with Refuse if that is set.
func (f *Kernel) Enable(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Refuse != nil {
		return f.Refuse
	}
	f.Armed[p] = true
	return nil
}

// Disable disarms a probe.
func (f *Kernel) Disable(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Armed[p] = false
	return nil
}

// Task is the guest memory of a hit: a task_struct at address 0.
type Task struct{ Bytes []byte }

// NewTask returns the memory of a task.
func NewTask(pid int32, name string) *Task {
	m := &Task{make([]byte, abi.TaskSize)}
	binary.LittleEndian.PutUint32(m.Bytes[abi.TaskPID:], uint32(pid))
	copy(m.Bytes[abi.TaskComm:], name)
	return m
}

// ReadAt fails with EFAULT outside of the memory.
func (m *Task) ReadAt(addr uint64, p []byte) error {
	if addr+uint64(len(p)) > uint64(len(m.Bytes)) {
		return syscall.EFAULT
	}
	copy(p, m.Bytes[addr:])
	return nil
}

// ReadU64 fails like ReadAt.
func (m *Task) ReadU64(addr uint64) (uint64, error) {
	if addr+8 > uint64(len(m.Bytes)) {
		return 0, syscall.EFAULT
	}
	return binary.LittleEndian.Uint64(m.Bytes[addr:]), nil
}

// WriteAt fails with EFAULT.
func (m *Task) WriteAt(uint64, []byte) error { return syscall.EFAULT }

// WriteU64 fails with EFAULT.
func (m *Task) WriteU64(uint64, uint64) error { return syscall.EFAULT }

// Symbol returns the address of a symbol.
func (f *Kernel) Symbol(name string) uint64 { return f.LookupName(name)[0].Addr }

// Loaded reports whether the module is loaded.
func (f *Kernel) Loaded(name string) bool { return slices.Contains(f.modules, name) }

// Hit runs the handlers of the enabled probes at addr, as after an fentry call, or as
// after an int3 if t is its trap.
func (f *Kernel) Hit(addr uint64, t *abi.Trap) {
	f.mu.Lock()
	var hits []*kprobes.Kprobe
	for _, p := range f.Probes {
		if p.Addr == addr && f.Armed[p] && p.PreHandler != nil {
			hits = append(hits, p)
		}
	}
	f.mu.Unlock()
	for _, p := range hits {
		p.PreHandler(&kprobes.Hit{Trap: t, Probe: p})
	}
}

// Ret runs the return handlers of the enabled kretprobes at addr.
func (f *Kernel) Ret(addr, retAddr uint64, t *abi.Trap) {
	for _, rp := range f.Rets {
		if rp.Kprobe.Addr == addr && f.Armed[&rp.Kprobe] {
			rp.Handler(&kprobes.Instance{Retprobe: rp, RetAddr: retAddr}, &kprobes.Hit{Trap: t, Probe: &rp.Kprobe})
		}
	}
}

// Entered is the trap of an fentry call.
func Entered(cpu int, now int64, m abi.Memory) *abi.Trap {
	return &abi.Trap{CPU: cpu, Now: func() int64 { return now }, Mem: m, Preempt: 1, Regs: &abi.Regs{Flags: abi.FlagIF | 2}}
}

// Breakpoint is the trap of an int3.
func Breakpoint(cpu int, now int64, m abi.Memory) *abi.Trap {
	return &abi.Trap{
		CPU: cpu, Now: func() int64 { return now }, Mem: m, Vector: abi.VecBP, Preempt: abi.NMIOffset | abi.HardirqOffset,
		Regs: &abi.Regs{Flags: abi.FlagIF | 2},
	}
}

// HitOf returns the hit of a probe.
func (f *Kernel) HitOf(p *kprobes.Kprobe, t *abi.Trap) *kprobes.Hit {
	return &kprobes.Hit{Trap: t, Probe: p}
}

// Via returns HitVia.
func (f *Kernel) Via(*abi.Trap) kprobes.Via { return f.HitVia }

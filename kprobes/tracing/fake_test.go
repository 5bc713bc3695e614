package tracing

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

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

// fakeKernel has the symbols of Debian's kernel that the recorded definitions use,
// and refuses the probes that register_kprobe refuses.
type fakeKernel struct {
	syms    []abi.Symbol // by address
	kind    map[uint64]int
	bugs    []uint64
	modules []string
	now     atomic.Int64
	cpus    int

	mu      sync.Mutex
	log     []string
	probes  []*kprobes.Kprobe
	rets    []*kprobes.Retprobe
	enabled map[*kprobes.Kprobe]bool
	refuse  error // what Enable returns
	via     kprobes.Via
	synced  []bool // see SynchronizeRCU
}

// boundaries are the offsets of instructions in each function of the fake.
var boundaries = []uint64{0, 5, 7, 9, 11}

func newFakeKernel() *fakeKernel {
	f := &fakeKernel{kind: map[uint64]int{}, cpus: 2, enabled: map[*kprobes.Kprobe]bool{}}
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

func (f *fakeKernel) loadModule(name string) {
	addr := uint64(0xffffffffc0201020)
	f.modules = append(f.modules, name)
	f.syms = append(f.syms, abi.Symbol{Addr: addr, Size: 0x20, Name: "mod_func", Module: name})
	f.kind[addr] = function
}

func (f *fakeKernel) LookupName(name string) (found []abi.Symbol) {
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

func (f *fakeKernel) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	for _, s := range f.syms {
		if s.Addr <= addr && addr < s.Addr+s.Size {
			return s, addr - s.Addr, true
		}
	}
	return abi.Symbol{}, 0, false
}

func (f *fakeKernel) FtraceOverlap(start, end uint64) bool {
	for addr, kind := range f.kind {
		if start <= addr && addr < end && (kind == function || kind == blacklisted) {
			return true
		}
	}
	return false
}

func (f *fakeKernel) CPUs() int  { return f.cpus }
func (f *fakeKernel) Now() int64 { return f.now.Load() }

func (f *fakeKernel) Printk(_ int, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// SynchronizeRCU records which probes are armed.
func (f *fakeKernel) SynchronizeRCU() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = append(f.synced, slices.Contains(slices.Collect(maps.Values(f.enabled)), true))
}

// takeLog is dmesg -c.
func (f *fakeKernel) takeLog() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

func (f *fakeKernel) resolve(addr uint64, name string, offset uint32) (uint64, uint64, error) {
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

func (f *fakeKernel) OnFuncEntry(addr uint64, name string, offset uint32) error {
	_, off, err := f.resolve(addr, name, offset)
	if err == nil && off != 0 {
		return syscall.EINVAL
	}
	return err
}

func (f *fakeKernel) NewRethook(int, uint64, func(*kprobes.Instance, *abi.Trap)) (*kprobes.Rethook, error) {
	return nil, syscall.ENOSYS
}

func (f *fakeKernel) Register(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
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
	f.probes = append(f.probes, p)
	f.enabled[p] = p.Flags&kprobes.FlagDisabled == 0
	return nil
}

func (f *fakeKernel) Unregister(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.probes = slices.DeleteFunc(f.probes, func(q *kprobes.Kprobe) bool { return p == q })
	delete(f.enabled, p)
	return nil
}

func (f *fakeKernel) RegisterRetprobe(rp *kprobes.Retprobe, _ ...*kprobes.Hit) error {
	p := &rp.Kprobe
	if err := f.OnFuncEntry(p.Addr, p.SymbolName, p.Offset); err != nil {
		return err
	}
	if rp.MaxActive <= 0 {
		rp.MaxActive = max(10, 2*f.cpus)
	}
	if err := f.Register(p); err != nil {
		return err
	}
	f.rets = append(f.rets, rp)
	return nil
}

func (f *fakeKernel) UnregisterRetprobe(rp *kprobes.Retprobe, _ ...*kprobes.Hit) error {
	f.Unregister(&rp.Kprobe)
	f.rets = slices.DeleteFunc(f.rets, func(q *kprobes.Retprobe) bool { return rp == q })
	return nil
}

func (f *fakeKernel) Enable(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	f.enabled[p] = true
	return nil
}

func (f *fakeKernel) Disable(p *kprobes.Kprobe, _ ...*kprobes.Hit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.enabled[p] = false
	return nil
}

// fakeTask is the guest memory of a hit: a task_struct at address 0.
type fakeTask struct{ bytes []byte }

func newFakeTask(pid int32, name string) *fakeTask {
	m := &fakeTask{make([]byte, abi.TaskSize)}
	binary.LittleEndian.PutUint32(m.bytes[abi.TaskPID:], uint32(pid))
	copy(m.bytes[abi.TaskComm:], name)
	return m
}

func (m *fakeTask) ReadAt(addr uint64, p []byte) error {
	if addr+uint64(len(p)) > uint64(len(m.bytes)) {
		return syscall.EFAULT
	}
	copy(p, m.bytes[addr:])
	return nil
}

func (m *fakeTask) ReadU64(addr uint64) (uint64, error) {
	if addr+8 > uint64(len(m.bytes)) {
		return 0, syscall.EFAULT
	}
	return binary.LittleEndian.Uint64(m.bytes[addr:]), nil
}

func (m *fakeTask) WriteAt(uint64, []byte) error    { return syscall.EFAULT }
func (m *fakeTask) WriteU64(uint64, uint64) error   { return syscall.EFAULT }
func (f *fakeKernel) symbol(name string) uint64     { return f.LookupName(name)[0].Addr }
func (f *fakeKernel) moduleLoaded(name string) bool { return slices.Contains(f.modules, name) }

// hit runs the handlers of the enabled probes at addr, as after an fentry call, or as
// after an int3 if t is its trap.
func (f *fakeKernel) hit(addr uint64, t *abi.Trap) {
	f.mu.Lock()
	var hits []*kprobes.Kprobe
	for _, p := range f.probes {
		if p.Addr == addr && f.enabled[p] && p.PreHandler != nil {
			hits = append(hits, p)
		}
	}
	f.mu.Unlock()
	for _, p := range hits {
		p.PreHandler(&kprobes.Hit{Trap: t, Probe: p})
	}
}

// ret runs the return handlers of the enabled kretprobes at addr.
func (f *fakeKernel) ret(addr, retAddr uint64, t *abi.Trap) {
	for _, rp := range f.rets {
		if rp.Kprobe.Addr == addr && f.enabled[&rp.Kprobe] {
			rp.Handler(&kprobes.Instance{Retprobe: rp, RetAddr: retAddr}, &kprobes.Hit{Trap: t, Probe: &rp.Kprobe})
		}
	}
}

// entered is the trap of an fentry call, breakpoint that of an int3.
func entered(cpu int, now int64, m abi.Memory) *abi.Trap {
	return &abi.Trap{CPU: cpu, Now: func() int64 { return now }, Mem: m, Preempt: 1, Regs: &abi.Regs{Flags: abi.FlagIF | 2}}
}

func breakpoint(cpu int, now int64, m abi.Memory) *abi.Trap {
	return &abi.Trap{
		CPU: cpu, Now: func() int64 { return now }, Mem: m, Vector: abi.VecBP, Preempt: abi.NMIOffset | abi.HardirqOffset,
		Regs: &abi.Regs{Flags: abi.FlagIF | 2},
	}
}

func newTestTracer(t testing.TB) (*Tracer, *fakeKernel) {
	t.Helper()
	f := newFakeKernel()
	return New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Module: f.moduleLoaded}), f
}

// write writes lines to kprobe_events one by one, each of which must succeed.
func write(t testing.TB, tr *Tracer, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if n, err := tr.WriteKprobeEvents([]byte(line + "\n")); err != nil || n != len(line)+1 {
			t.Fatalf("write %q: %d, %v", line, n, err)
		}
	}
}

func listing(tr *Tracer) string { return strings.Join(all(tr.KprobeEvent), "") }

func (t *Tracer) event(group, name string) *EventFile {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.global.files[t.namesInUse[eventName{group, name}]]
}

func traceText(tr *Tracer) string {
	var b []byte
	for r, more := tr.global.Trace(-1), true; more; {
		b, more = r.Next(b)
	}
	return string(b)
}

// all returns the lines of a file that is read line by line.
func all(line func(int) (string, bool)) (lines []string) {
	for i := 0; ; i++ {
		s, ok := line(i)
		if !ok {
			return lines
		}
		lines = append(lines, s)
	}
}

// traceLines returns the trace without its header.
func traceLines(tr *Tracer) []string {
	_, text, _ := strings.Cut(traceText(tr), "|         |\n")
	return strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
}

func (f *fakeKernel) hitOf(tk *traceKprobe, t *abi.Trap) *kprobes.Hit {
	return &kprobes.Hit{Trap: t, Probe: tk.kprobe()}
}

func (f *fakeKernel) Via(*abi.Trap) kprobes.Via { return f.via }

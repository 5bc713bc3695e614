// Package kernel is the machine: it boots the guest's image on emulated vCPUs
// and does for it what hardware and hypervisor do. Guest code runs in
// kernel/cpu; every time it stops (an exit), this package decides what that
// means: a breakpoint or fault goes to the probes' handlers first and then to
// the guest's own interrupt table, a hypercall is answered, a halt waits for an
// interrupt.
//
// Three ideas carry it.
//
// A vCPU is running guest code, out (in Go, between an exit and the next
// entry), or idle. StopMachine keeps all vCPUs from running guest code, and
// waits for those that do; it never waits for Go code, so Go code on a vCPU may
// be slow, but it must not wait for somebody who stops the machine.
//
// What Go does for a vCPU between exit and entry (trap handlers, hypercalls)
// takes only locks that are held for a few instructions. What may sleep runs
// in goroutines of its own and reaches the guest through package host.
//
// Text is written only by Poke, with all vCPUs stopped.
package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Options say what machine to boot. Only Image must be given.
type Options struct {
	Image         []byte // the guest's ELF
	CPUs          int    // vCPUs; 0: as many as the host has
	RAM           uint64 // bytes that the guest may use; 0: 64 MiB
	Clock         Clock  // nil: real time
	Deterministic bool   // all vCPUs in turn in one goroutine, by instruction count
	Seed          uint64 // of the guest's random numbers; 0 takes the host's
	Cmdline       string
	Release       string                   // uname -r
	Version       string                   // the text of /proc/version
	TextSymbols   bool                     // kallsyms has symbols of text only: CONFIG_KALLSYMS_ALL=n
	Rename        func(name string) string // what users call the image's functions; nil: as they are
}

// kallsyms is what users find of the symbols that the machine's own look-ups find.
func (o *Options) kallsyms(img *image.Image, own *kallsyms.Table) *kallsyms.Table {
	if o.Rename == nil && !o.TextSymbols {
		return own
	}
	syms := slices.Clone(img.Symbols)
	for i := range syms {
		if o.Rename != nil {
			syms[i].Name = o.Rename(syms[i].Name)
		}
	}
	if o.TextSymbols {
		return kallsyms.NewText(syms, img.Text, img.InitText)
	}
	return kallsyms.New(syms)
}

const (
	defaultRAM = 64 << 20
	poolRAM    = 64 << 20 // above the guest's: buffers of host calls
	textRAM    = 64 << 20 // above that: executable slots
	minRAM     = 24 << 20
	maxCPUs    = 64
)

// Handlers are what the vCPUs call when guest code comes to a probe. They run
// between exit and entry: no waiting, no locks held across waits, no
// allocation. A nil one is skipped.
type Handlers struct {
	Int3      func(*abi.Trap) bool                                            // #BP: true when it was a probe's
	Stepped   func(cpu int, ip, flags uint64) (toIP, toFlags uint64, ok bool) // asked before Int3; ok: the #BP is dealt with by going on so
	Fault     func(*abi.Trap) bool                                            // any other exception: true when Regs says where to go on
	Ftrace    func(*abi.Trap)                                                 // an armed fentry site; Arg is the caller's return address
	Optimized func(*abi.Trap)                                                 // a detour's callback; Arg is the op pointer
	Rethook   func(*abi.Trap)                                                 // a hooked function has returned
	// RealReturn gives what a return slot of the task held before the trampoline's
	// address was put there.
	RealReturn func(task, slot, trampoline uint64) (addr uint64, ok bool)
	// Trampoline is another address than arch_rethook_trampoline that hooked calls
	// return to; 0: there is none. Unlike that it shows in stack traces.
	Trampoline uint64
	// EndAtTrampoline has stacks end at arch_rethook_trampoline, which then stands in
	// the place of the caller.
	EndAtTrampoline bool
	// Function is called at an armed fentry site without registers: Regs has IP,
	// SP, BP and Flags; Arg is the caller's return address.
	Function func(*abi.Trap)
	// Tracepoint is told of a tracepoint: Arg is its address, Data its record, and
	// Regs those in the function that stands for it.
	Tracepoint func(*abi.Trap)
	TaskDead   func(task uint64) // a task_struct is about to be freed
	// Probe does what guest code asks of the probes (abi.ProbeNr), in a goroutine
	// of its own: it may wait. It gives 0 or -errno.
	Probe func(nr, addr, arg uint64) int64
}

// Machine is a booted guest with its vCPUs.
type Machine struct {
	opts    Options
	mem     *mem.Memory
	img     *image.Image
	own     *kallsyms.Table // all of the image's, whatever syms has
	syms    *kallsyms.Table
	sites   *ftrace.Sites
	tab     *image.Tables
	log     *Log
	clock   Clock
	host    *host.Host
	pool    *host.Pool
	slots   slots
	modules moduleMem
	cpus    []*vcpu
	rand    *random
	taints  atomic.Uint32 // see taintLetters

	handlers atomic.Pointer[Handlers]

	rethookTrampoline, syscallEntry uint64 // symbols that Unwind looks for

	returns map[uint64]uint64 // addresses of handlerReturns

	copies atomic.Pointer[[]textCopy] // replaced by trampoline only

	keyMu    sync.Mutex   // one change of a static key at a time
	stubs    bool         // tracepoints have functions for fprobes: the guest of 6.12
	stopMu   sync.Mutex   // one StopMachine at a time
	stopping atomic.Int32 // vCPUs do not enter guest code while it is not 0
	resume   *sync.Cond   // on gate: stopping has become 0, or the machine closes
	gate     sync.Mutex

	closeMu sync.Mutex // held while closing or wg changes, but for vCPUs
	closing atomic.Bool
	wg      sync.WaitGroup
	booted  chan struct{}
	died    chan struct{} // the guest panicked
	dieOnce sync.Once
	diedMsg string

	loads   []*host.Task  // load/N: one kernel thread for each vCPU
	turn    chan struct{} // deterministic: something has become runnable
	rcuOnce sync.Once
	rcuErr  error
	rcuTask chan *host.Task // holds the thread that waits for tasks while nobody uses it
}

// Boot loads the image, starts the vCPUs and waits until the guest's init is
// done. It fails with EINVAL for an image or options that make no machine, and
// with EIO when the guest panics or does not come up within ten seconds.
func Boot(o Options) (*Machine, error) {
	m, err := newMachine(o)
	if err != nil {
		return nil, err
	}
	m.start()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	select {
	case <-m.booted:
		return m, nil
	case <-m.died:
		err = fmt.Errorf("the guest kernel panicked: %s: %w", m.diedMsg, syscall.EIO)
	case <-timeout.C:
		err = fmt.Errorf("the guest kernel did not come up in 10 s: %w", syscall.EIO)
	}
	return nil, errors.Join(err, m.Close())
}

func newMachine(o Options) (*Machine, error) {
	if o.CPUs == 0 {
		o.CPUs = min(runtime.NumCPU(), maxCPUs)
	}
	if o.RAM == 0 {
		o.RAM = defaultRAM
	}
	if o.CPUs < 1 || o.CPUs > maxCPUs || o.RAM < minRAM || o.RAM%abi.PageSize != 0 {
		return nil, fmt.Errorf("a machine of %d vCPUs and %d bytes (1 to %d vCPUs, whole pages from %d bytes): %w", o.CPUs, o.RAM, maxCPUs, minRAM, syscall.EINVAL)
	}
	if o.Clock == nil {
		o.Clock = NewRealClock()
	}
	img, err := image.Load(o.Image)
	if err != nil {
		return nil, err
	}
	ram, err := mem.New(o.RAM + poolRAM + textRAM)
	if err != nil {
		return nil, err
	}
	m := &Machine{
		opts: o, mem: ram, img: img, clock: o.Clock, rand: newRandom(o.Seed),
		own: kallsyms.New(img.Symbols), log: newLog(o.Clock.Now),
		booted: make(chan struct{}), died: make(chan struct{}),
		turn: make(chan struct{}, 1), rcuTask: make(chan *host.Task, 1),
	}
	m.syms = o.kallsyms(img, m.own)
	m.resume = sync.NewCond(&m.gate)
	m.slots = slots{m: m, next: abi.SlotsBase, pool: host.NewPool(o.RAM+poolRAM, textRAM/abi.PageSize)}
	m.handlers.Store(&Handlers{})
	m.pool = host.NewPool(o.RAM, poolRAM/abi.PageSize)
	m.host = host.New(guest{m}, m.pool)
	m.tab = image.NewTables(img, m.syms)
	if err := m.load(); err != nil {
		return nil, errors.Join(err, ram.Close())
	}
	m.stubs = m.symbol("__probestub_sched_switch") != 0
	m.rethookTrampoline, m.syscallEntry = m.symbol("arch_rethook_trampoline"), m.symbol("entry_SYSCALL_64_after_hwframe")
	m.returns = make(map[uint64]uint64, len(handlerReturns))
	for callback, name := range handlerReturns {
		if addr := m.symbol(name); addr != 0 {
			m.returns[callback] = addr + 1
		}
	}
	m.sites = ftrace.New(m, img.Mcount, ftrace.Callers{
		Regs: m.symbol("ftrace_regs_caller"), List: m.symbol("ftrace_caller"), Trampoline: m.trampoline,
	})
	cache := cpu.NewCache(ram)
	for i := range o.CPUs {
		m.cpus = append(m.cpus, newVCPU(m, i, cpu.New(ram, i, cache)))
	}
	return m, nil
}

// load puts the image and boot_params into RAM and makes the first mappings:
// the direct map of all RAM, and the kernel's segments where they were linked.
func (m *Machine) load() error {
	pages := m.mem.Size() / abi.PageSize
	if err := m.mem.Map(abi.DirectMap, 0, pages, mem.Read|mem.Write); err != nil {
		return err
	}
	for _, s := range m.img.Segments {
		if err := m.loadSegment(s); err != nil {
			return err
		}
	}
	p := m.mem.Phys(abi.BootParamsPA, abi.BootSize)
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(p[off:], v) }
	put(abi.BootMagic, abi.BootMagicValue)
	put(abi.BootCPUs, uint64(m.opts.CPUs))
	put(abi.BootRAM, m.opts.RAM)
	put(abi.BootWall, uint64(m.clock.Wall()))
	put(abi.BootSeed, m.rand.next())
	copy(p[abi.BootCmdline:abi.BootRelease-1], m.opts.Cmdline)
	copy(p[abi.BootRelease:abi.BootVersion-1], m.opts.Release)
	copy(p[abi.BootVersion:abi.BootVersion+255], m.opts.Version)
	return nil
}

func (m *Machine) loadSegment(s image.Segment) error {
	if s.Addr < abi.KernelBase || s.Addr%abi.PageSize != 0 {
		return fmt.Errorf("a segment at %#x is not in the kernel's mapping: %w", s.Addr, syscall.EINVAL)
	}
	pa := s.Addr - abi.KernelBase
	size := (max(s.MemSize, uint64(len(s.Data))) + abi.PageSize - 1) &^ (abi.PageSize - 1)
	if pa > m.opts.RAM || size > m.opts.RAM-pa {
		return fmt.Errorf("a segment at %#x of %d bytes does not fit in %d bytes of RAM: %w", s.Addr, size, m.opts.RAM, syscall.EINVAL)
	}
	copy(m.mem.Phys(pa, size), s.Data)
	if err := m.mem.Map(s.Addr, pa, size/abi.PageSize, mem.Perm(s.Perm)); err != nil {
		return err
	}
	if s.Perm&image.Write == 0 { // text is written by Poke only, in the direct map too
		return m.mem.Map(abi.DirectMap+pa, pa, size/abi.PageSize, mem.Read)
	}
	return nil
}

// symbol gives the address of a symbol of the core kernel, 0 when there is none.
func (m *Machine) symbol(name string) uint64 {
	if s := m.own.LookupName(name); len(s) > 0 {
		return s[0].Addr
	}
	return 0
}

// start lets vCPU 0 begin at the image's entry; the guest starts the others.
func (m *Machine) start() {
	m.cpus[0].begin(m.img.Entry, 0)
	m.cpus[0].cpu.R[6] = abi.DirectMap + abi.BootParamsPA // rsi
	if m.opts.Deterministic {
		m.wg.Go(m.runInTurn)
		return
	}
	for _, v := range m.cpus {
		m.wg.Go(v.loop)
	}
}

// Close stops the vCPUs and gives guest memory back. Calls that are under way
// end with host.ErrStopped.
func (m *Machine) Close() error {
	if m.close() {
		return nil
	}
	m.host.Stop()
	m.gate.Lock()
	m.resume.Broadcast()
	m.gate.Unlock()
	for _, v := range m.cpus {
		v.setTimer(0)
		v.cpu.Kick()
		v.nudge()
	}
	m.wg.Wait()
	return m.mem.Close()
}

// die is the guest's panic: the machine stands still.
func (m *Machine) die(msg string) {
	m.dieOnce.Do(func() {
		m.diedMsg = msg
		m.log.Printk(LogEmerg, "Kernel panic - not syncing: %s", msg)
		close(m.died)
		m.host.Stop()
	})
}

// Died is closed when the guest has panicked; Panic then says why.
func (m *Machine) Died() <-chan struct{} { return m.died }

// Panic is the guest's last words.
func (m *Machine) Panic() string { return m.diedMsg }

// StopMachine runs f while no vCPU executes guest code. f must not wait for a
// vCPU, for a goroutine that does, or for another StopMachine.
func (m *Machine) StopMachine(f func()) {
	m.stopMu.Lock()
	defer m.stopMu.Unlock()
	m.stopping.Store(1)
	for _, v := range m.cpus {
		v.cpu.Kick()
	}
	for _, v := range m.cpus {
		v.waitOut()
	}
	f()
	m.gate.Lock()
	m.stopping.Store(0)
	m.resume.Broadcast()
	m.gate.Unlock()
}

// SetHandlers puts the probes' handlers in place.
func (m *Machine) SetHandlers(h Handlers) { m.handlers.Store(&h) }

// CPUs is the number of vCPUs.
func (m *Machine) CPUs() int { return len(m.cpus) }

// Now is nanoseconds since boot.
func (m *Machine) Now() int64 { return m.clock.Now() }

// AfterFunc runs f in its own goroutine after d of the machine's time, unless the
// machine is closed by then. Close waits for it.
func (m *Machine) AfterFunc(d time.Duration, f func()) func() bool {
	return m.clock.AfterFunc(d, func() {
		if m.join() {
			defer m.wg.Done()
			f()
		}
	})
}

// join makes Close wait for the caller. False: it has begun.
func (m *Machine) join() bool {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	if m.closing.Load() {
		return false
	}
	m.wg.Add(1)
	return true
}

// close says that the machine closes, and whether it did already.
func (m *Machine) close() (before bool) {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	return m.closing.Swap(true)
}

// Printk adds a line to the kernel's log.
func (m *Machine) Printk(level int, format string, args ...any) {
	m.log.Printk(level, format, args...)
}

// Log is the kernel's log.
func (m *Machine) Log() *Log { return m.log }

// Mem is guest memory.
func (m *Machine) Mem() *mem.Memory { return m.mem }

// Image is what was booted.
func (m *Machine) Image() *image.Image { return m.img }

// Tables answers questions about text: sites, ranges, the blacklist.
func (m *Machine) Tables() *image.Tables { return m.tab }

// Symbols is kallsyms: what the guest's users find, and its modules' symbols.
func (m *Machine) Symbols() *kallsyms.Table { return m.syms }

// Sites is the fentry sites.
func (m *Machine) Sites() *ftrace.Sites { return m.sites }

// Host runs the host's calls.
func (m *Machine) Host() *host.Host { return m.host }

// Clock is the machine's time.
func (m *Machine) Clock() Clock { return m.clock }

// Call runs a guest function on vCPU 0's kernel thread load/0 with at most five
// arguments and gives rax. ENOENT: there is no such function.
func (m *Machine) Call(ctx context.Context, sym string, args ...uint64) (uint64, error) {
	s := m.syms.LookupName(sym)
	if len(s) == 0 {
		return 0, fmt.Errorf("no function %s in the guest: %w", sym, syscall.ENOENT)
	}
	return m.CallOn(ctx, 0, s[0].Addr, 1, args...)
}

// CallOn calls the guest function at addr count times with the same arguments
// on a vCPU's own kernel thread and gives the last result.
func (m *Machine) CallOn(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error) {
	if cpu < 0 || cpu >= len(m.loads) {
		return 0, fmt.Errorf("no vCPU %d: %w", cpu, syscall.EINVAL)
	}
	return m.loads[cpu].Func(ctx, addr, count, args...)
}

// Retired counts the instructions that all vCPUs have executed.
func (m *Machine) Retired() uint64 {
	var n uint64
	for _, v := range m.cpus {
		n += v.retired.Load()
	}
	return n
}

// Idle says whether no vCPU has anything to do before the next interrupt.
func (m *Machine) Idle() bool {
	return !slices.ContainsFunc(m.cpus, func(v *vcpu) bool { return v.started.Load() && !v.resting() })
}

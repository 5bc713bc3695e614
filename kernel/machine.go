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
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/insnslot"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/mem"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
)

// Options say what machine to boot. Only Image must be given.
type Options struct {
	Image         []byte // the guest's ELF
	CPUs          int    // number of vCPUs; 0 means as many as the host has
	RAM           uint64 // bytes that the guest may use; 0 means 64 MiB
	Clock         Clock  // nil means real time
	Engine        Engine // what executes the guest's code
	Deterministic bool   // run all vCPUs in turn in one goroutine, by instruction count
	// Sequenced has only those execute the vCPUs who wait for the guest, so that what comes from outside takes
	// effect at instructions that do not depend on the host. The machine must be deterministic, with a virtual clock.
	Sequenced   bool
	Seed        uint64 // for random numbers and %p's hashes; 0 means the host's random numbers, or 1 when Deterministic
	Cmdline     string
	Release     string                   // uname -r
	Console     io.Writer                // what a console shows is written here; nil means that there is none
	Linux       release.Version          // 0 means release.Default
	NoPreempt   bool                     // CONFIG_PREEMPTION=n, as oopses tell
	Version     string                   // the text of /proc/version
	Watchdog    Watchdog                 // stops guest code that does not end; a deterministic machine has none
	TextSymbols bool                     // kallsyms has only symbols of text: CONFIG_KALLSYMS_ALL=n
	Rename      func(name string) string // the name that users see for a function of the image; nil keeps all names
}

// kallsyms returns the symbols that users see; own are those that the machine looks up.
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
	poolRAM    = 64 << 20 // above the guest's RAM: buffers of host calls
	textRAM    = 64 << 20 // above that: executable slots
	minRAM     = 24 << 20

	// MaxCPUs is the largest number of vCPUs of a machine.
	MaxCPUs = 64
)

// Handlers are the functions that vCPUs call when guest code reaches a probe. They
// run between exit and entry: they must not wait, take locks that are held across
// waits, or allocate. A nil handler is not called.
type Handlers struct {
	Int3      func(*abi.Trap) bool                                            // for #BP; true when it was a probe's
	Stepped   func(cpu int, ip, flags uint64) (toIP, toFlags uint64, ok bool) // called before Int3; ok when the #BP ended a single step and the vCPU goes on at toIP
	Fault     func(*abi.Trap) bool                                            // for other exceptions; true when Regs tells where to go on
	Ftrace    func(*abi.Trap)                                                 // an armed fentry site; Arg is the caller's return address
	Optimized func(*abi.Trap)                                                 // a detour's callback; Arg is the op pointer
	Rethook   func(*abi.Trap)                                                 // a hooked function has returned
	// GraphReturn is called when a function has returned to return_to_handler: Arg is the
	// slot of its return address, in which the handler stores where to go on.
	GraphReturn func(*abi.Trap)
	// Return is called by Unwind for each return address on a task's stack, with the
	// slot that holds it. shown takes its place in the stack trace, and real is the
	// address to which the function returns. Both are addr if it has not been replaced.
	Return func(task, slot, addr uint64) (shown, real uint64)
	// Last reports whether stack traces end at this address.
	Last func(ip uint64) bool
	// Function is called at an armed fentry site that needs no registers: Regs has
	// only IP, SP, BP and Flags; Arg is the caller's return address.
	Function func(*abi.Trap)
	// Tracepoint is called at a tracepoint: Arg is its address, Data its record, and
	// Regs the registers in the function that the tracepoint is in.
	Tracepoint func(*abi.Trap)
	// RawTracepoint is called at a tracepoint of SetRawTracepoint: Arg is its address, Data its
	// arguments, 8 bytes each.
	RawTracepoint func(*abi.Trap)
	TaskDead      func(task uint64) // a task_struct is about to be freed
	// Probe does what guest code asks of the probes (abi.ProbeNr), in a separate
	// goroutine, so it may wait. It returns 0 or -errno.
	Probe func(nr, addr, arg uint64) int64
	// Modules returns the modules and the one that was unloaded last, as an oops lists
	// them, with a space in front; "" if there are none.
	Modules func() string
	// Oops is called when an oops begins (oops_enter), before anything is logged, on its
	// vCPU. It must not wait. It may be nil.
	Oops func()
	// ReturnTo names the functions that handlers in the guest return to, by the
	// callback in which Machine.Handler calls them (abi.HC*). CallerNames does so for
	// breakpoints; a function that the guest does not have is aggr_pre_handler. Each has a
	// hlt.
	ReturnTo    map[uint64]string
	CallerNames [abi.Callers]string
	returns     [abi.HCRethook + 1]uint64 // addresses of those hlts
	callers     [abi.Callers]uint64
}

// Machine is a booted guest with its vCPUs.
type Machine struct {
	opts    Options
	mem     *mem.Memory
	img     *image.Image
	allSyms *kallsyms.Table // all symbols of the image, also those that syms lacks
	syms    *kallsyms.Table
	sites   *ftrace.Sites
	armed   armed.Changes
	tab     *image.Tables
	log     *Log
	clock   Clock
	host    *host.Host
	pool    *host.Pool
	text    *host.Pool // RAM for executable memory
	slots   *insnslot.Cache
	modules moduleMem
	entries *Entries
	cpus    []*vcpu
	rand    *random
	disk    disk
	ptrKey  sipKey        // see HashPtr
	taints  atomic.Uint32 // see taintLetters

	debug *Debugger
	cache *cpu.Cache

	handlers atomic.Pointer[Handlers]

	syscallEntry uint64 // a symbol that Unwind looks for

	copies atomic.Pointer[[]textCopy] // replaced by trampoline only

	keyMu    sync.Mutex   // serializes changes of static keys
	stubs    bool         // tracepoints have functions for fprobes: the guest of 6.12
	stopMu   sync.Mutex   // serializes StopMachine
	stopping atomic.Int32 // vCPUs do not enter guest code while it is not 0: stoppedForFunc, stoppedByDebugger or both
	resume   *sync.Cond   // on gate: StopMachine is over, or the machine is closing
	gate     sync.Mutex

	closeMu     sync.Mutex // held while closing or wg changes, except by vCPUs
	closing     atomic.Bool
	memMu       sync.RWMutex // guards memGone, and the memory against accesses of requests after Close
	memGone     bool
	wg          sync.WaitGroup
	booted      chan struct{}
	dead        atomic.Bool   // the guest has panicked: no vCPU runs any more
	died        chan struct{} // closed when dead becomes true
	ending      chan struct{} // closed when the machine closes
	consoleDone chan struct{} // closed when the console has all of the log; nil if there is none
	dieOnce     sync.Once
	panicOnce   sync.Once
	panicFrom   uint64 // the sequence number of the panic's first line, or of the oops before it
	diedMsg     string
	words       []Record // the panic's records of the log

	sleepers   sleepers
	has        release.Set
	trapOffset int32  // what handlers of a breakpoint see in preempt_count
	slept      uint64 // where a handler continues that was called for an int3 and has slept; 0 means after the int3

	oopsMu   sync.Mutex
	oopses   map[uint64]uint64 // live task_structs that have oopsed, with the sequence number of the oops in the log
	dies     int               // number of oopses so far
	oopsRegs *abi.Regs         // registers of the first of them
	oopsID   uint64            // the number in the last line of the newest, or 0

	loads   []atomic.Pointer[host.Task] // load/N: one kernel thread for each vCPU
	waking  atomic.Bool                 // wakeOthers is scheduled
	turn    chan struct{}               // deterministic: something has become runnable
	seq     *sequencer                  // nil if the machine is not sequenced
	virtual *VirtualClock               // nil if the clock is another one
	rcuOnce sync.Once
	rcuErr  error
	rcuTask chan *host.Task // holds the thread that waits for tasks while nobody uses it
}

// bootTime is how long a guest may take to boot: some 30 ms on a machine that is idle, and a
// hundred times that where many others run, or where a cgroup allows little processor time.
const bootTime = time.Minute

// Boot loads the image, starts the vCPUs and waits until the guest's init is
// done. It fails with EINVAL when the image or the options are not valid, and
// with EIO when the guest panics or does not come up within bootTime.
func Boot(o Options) (*Machine, error) {
	m, err := newMachine(o)
	if err != nil {
		return nil, err
	}
	m.start()
	if o.Console != nil {
		m.consoleDone = make(chan struct{})
		go func() {
			defer close(m.consoleDone)
			m.log.console(o.Console, m.ending)
		}()
	}
	timeout := time.NewTimer(bootTime)
	defer timeout.Stop()
	select {
	case <-m.booted:
		if o.Watchdog.Action != WatchdogOff && !o.Deterministic && m.join() {
			go func() {
				defer m.wg.Done()
				m.watch()
			}()
		}
		return m, nil
	case <-m.died:
		err = fmt.Errorf("the guest kernel panicked: %s: %w", m.diedMsg, syscall.EIO)
	case <-timeout.C:
		err = fmt.Errorf("the guest kernel did not boot within %v: %w", bootTime, syscall.EIO)
	}
	return nil, errors.Join(err, m.Close())
}

// complete replaces zero options by their defaults. It fails with EINVAL if they are
// invalid.
func (o *Options) complete() error {
	if o.CPUs == 0 {
		o.CPUs = min(runtime.NumCPU(), MaxCPUs)
	}
	if o.RAM == 0 {
		o.RAM = defaultRAM
	}
	if o.CPUs < 1 || o.CPUs > MaxCPUs || o.RAM < minRAM || o.RAM%abi.PageSize != 0 {
		return fmt.Errorf("a machine cannot have %d vCPUs and %d bytes of RAM (it takes 1 to %d vCPUs, and whole pages from %d bytes up): %w", o.CPUs, o.RAM, MaxCPUs, minRAM, syscall.EINVAL)
	}
	if o.Clock == nil {
		o.Clock = NewRealClock()
	}
	if o.Deterministic && o.Seed == 0 {
		o.Seed = 1
	}
	if _, virtual := o.Clock.(*VirtualClock); o.Sequenced && !(virtual && o.Deterministic) {
		return fmt.Errorf("%w, and to be deterministic: %w", errSequenced, syscall.EINVAL)
	}
	return nil
}

func newMachine(o Options) (*Machine, error) {
	if err := o.complete(); err != nil {
		return nil, err
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
		allSyms: kallsyms.New(img.Symbols), log: newLog(o.Clock.Now),
		booted: make(chan struct{}), died: make(chan struct{}), ending: make(chan struct{}),
		oopses: map[uint64]uint64{}, entries: newEntries(),
		turn: make(chan struct{}, 1), rcuTask: make(chan *host.Task, 1),
	}
	m.virtual, _ = o.Clock.(*VirtualClock)
	if o.Sequenced {
		m.seq = newSequencer(m)
		m.virtual.later = m.doLater
	}
	m.syms = o.kallsyms(img, m.allSyms)
	m.resume = sync.NewCond(&m.gate)
	m.text = host.NewPool(o.RAM+poolRAM, textRAM/abi.PageSize)
	m.slots = insnslot.New(ram, m.text, abi.SlotsBase, m.Poke)
	m.handlers.Store(&Handlers{})
	m.pool = host.NewPool(o.RAM, poolRAM/abi.PageSize)
	m.host = host.New(guest{m}, m.pool)
	if !o.Deterministic {
		m.host.Follow(o.CPUs)
	}
	if o.Sequenced {
		m.host.Drive(m.seq.awaitGuest, m.clock.Now, m.doLater)
	}
	m.tab = image.NewTables(img, m.syms)
	if err := m.load(); err != nil {
		return nil, errors.Join(err, ram.Close())
	}
	m.has, m.trapOffset = o.Linux.Set(), 1 // preempt_disable
	if m.has[release.Int3NMI] {
		m.trapOffset = abi.NMIOffset | abi.HardirqOffset
	}
	m.findSlept()
	m.stubs = m.symbol("__probestub_sched_switch") != 0
	m.syscallEntry = m.symbol("entry_SYSCALL_64_after_hwframe")
	m.sites = ftrace.New(m, img.Mcount, ftrace.Callers{
		Regs: m.symbol(trampoline.FtraceRegs.Name), List: m.symbol(trampoline.Ftrace.Name), Trampoline: m.trampoline,
		OpsRegs: m.symbol(trampoline.FtraceOpsRegs.Name), OpsTrampoline: m.opsTrampoline,
	}, &m.armed)
	m.debug = newDebugger(m)
	m.cache = cpu.NewCache(ram, o.Engine)
	for i := range o.CPUs {
		c, err := cpu.New(ram, i, m.cache)
		if err != nil {
			return nil, errors.Join(err, ram.Close())
		}
		m.cpus = append(m.cpus, newVCPU(m, i, c))
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
	m.ptrKey = sipKey{m.rand.next(), m.rand.next()}
	put(abi.BootPtrKey, m.ptrKey[0])
	put(abi.BootPtrKey+8, m.ptrKey[1])
	copy(p[abi.BootCmdline:abi.BootRelease-1], m.opts.Cmdline)
	copy(p[abi.BootRelease:abi.BootVersion-1], m.opts.Release)
	copy(p[abi.BootVersion:abi.BootVersion+255], m.opts.Version)
	return nil
}

func (m *Machine) loadSegment(s image.Segment) error {
	if s.Addr < abi.KernelBase || s.Addr%abi.PageSize != 0 {
		return fmt.Errorf("the image's segment at %#x is outside the kernel's mapping: %w", s.Addr, syscall.EINVAL)
	}
	pa := s.Addr - abi.KernelBase
	size := (max(s.MemSize, uint64(len(s.Data))) + abi.PageSize - 1) &^ (abi.PageSize - 1)
	if pa > m.opts.RAM || size > m.opts.RAM-pa {
		return fmt.Errorf("the image's segment at %#x of %d bytes does not fit in %d bytes of RAM: %w", s.Addr, size, m.opts.RAM, syscall.EINVAL)
	}
	copy(m.mem.Phys(pa, size), s.Data)
	if err := m.mem.Map(s.Addr, pa, size/abi.PageSize, mem.Perm(s.Perm)); err != nil {
		return err
	}
	if s.Perm&image.Write == 0 { // only Poke writes text, in the direct map too
		return m.mem.Map(abi.DirectMap+pa, pa, size/abi.PageSize, mem.Read)
	}
	return nil
}

// symbol returns the address of a symbol of the core kernel, or 0.
func (m *Machine) symbol(name string) uint64 {
	if s := m.allSyms.LookupName(name); len(s) > 0 {
		return s[0].Addr
	}
	return 0
}

// SetKptrRestrict sets kernel.kptr_restrict, which says how printk shows %pK: 0 to 2.
func (m *Machine) SetKptrRestrict(v int) error {
	return m.mem.WriteAt(m.symbol("kptr_restrict"), binary.LittleEndian.AppendUint32(nil, uint32(v)))
}

// start starts vCPU 0 at the image's entry; the guest starts the others.
func (m *Machine) start() {
	m.cpus[0].begin(m.img.Entry, 0)
	m.cpus[0].cpu.R[6] = abi.DirectMap + abi.BootParamsPA // rsi
	switch {
	case m.seq != nil:
		m.seq.settle(nil)
		return
	case m.opts.Deterministic:
		m.wg.Go(m.runInTurn)
		return
	}
	for _, v := range m.cpus {
		m.wg.Go(v.loop)
	}
}

// Close stops the vCPUs and frees guest memory. Calls in progress fail with
// host.ErrStopped.
func (m *Machine) Close() error {
	if m.stop() {
		return nil
	}
	m.memMu.Lock()
	defer m.memMu.Unlock()
	m.memGone = true
	return m.mem.Close()
}

// Retire is Close for a machine whose memory may still be accessed: the host gets
// its pages back, and it reads as zeros.
func (m *Machine) Retire() error {
	if m.stop() {
		return nil
	}
	return m.mem.Discard()
}

// stop ends the vCPUs, and reports whether they had been stopped before.
func (m *Machine) stop() (before bool) {
	if m.close() {
		return true
	}
	close(m.ending)
	if m.consoleDone != nil {
		<-m.consoleDone
	}
	m.host.Stop()
	m.debug.end()
	m.gate.Lock()
	m.resume.Broadcast()
	m.gate.Unlock()
	for _, v := range m.cpus {
		v.setTimer(0)
		v.cpu.Kick()
		v.wakeUp()
	}
	m.wg.Wait()
	for _, v := range m.cpus {
		v.awaitReturn()
	}
	return false
}

// Died is closed when the guest has panicked. All calls then fail with
// host.ErrStopped; memory, symbols and the log stay as they are until Close.
func (m *Machine) Died() <-chan struct{} { return m.died }

// Panic returns the message of the guest's panic.
func (m *Machine) Panic() string { return m.diedMsg }

// PanicLog returns the records of the log about the panic and the oops that led to
// it. It may be called once Died is closed.
func (m *Machine) PanicLog() []Record { return m.words }

// Why vCPUs do not enter guest code: bits of Machine.stopping.
const (
	stoppedForFunc    int32 = 1 << iota // StopMachine runs a function; vCPUs wait
	stoppedByDebugger                   // who executes a vCPU gives it back
)

// StopMachine runs f while no vCPU executes guest code. f must not wait for a
// vCPU, for a goroutine that waits for one, or for another StopMachine.
func (m *Machine) StopMachine(f func()) {
	m.stopMu.Lock()
	defer m.stopMu.Unlock()
	m.stopping.Or(stoppedForFunc)
	for _, v := range m.cpus {
		v.cpu.Kick()
	}
	for _, v := range m.cpus {
		v.waitOut()
	}
	f()
	m.gate.Lock()
	m.stopping.And(^stoppedForFunc)
	m.resume.Broadcast()
	m.gate.Unlock()
}

// haltIn returns the address of the first hlt in a function of the guest, or 0.
func (m *Machine) haltIn(function string) uint64 {
	const hlt = 0xf4
	at := m.symbol(function)
	for s, off, ok := m.allSyms.Lookup(at); ok && off < s.Size; {
		text := make([]byte, min(s.Size-off, insn.MaxLen))
		in, err := insn.Decode(text[:copy(text, m.img.Bytes(at+off, uint64(len(text))))])
		switch {
		case err != nil:
			return 0
		case text[0] == hlt:
			return at + off
		}
		off += uint64(in.Len)
	}
	return 0
}

// SetHandlers puts the probes' handlers in place.
func (m *Machine) SetHandlers(h Handlers) {
	for callback, name := range h.ReturnTo {
		if callback < uint64(len(h.returns)) {
			h.returns[callback] = m.haltIn(name)
		}
	}
	for caller, name := range h.CallerNames {
		h.callers[caller] = h.callers[abi.CallerAggr]
		if addr := m.haltIn(name); addr != 0 {
			h.callers[caller] = addr
		}
	}
	m.handlers.Store(&h)
}

// findSlept finds the call of irqentry_nmi_exit, which is asm_exc_int3's last instruction
// before its padding of int3s.
func (m *Machine) findSlept() {
	const callLen, int3 = 5, 0xcc
	entry := m.allSyms.LookupName("asm_exc_int3")
	if len(entry) != 1 || m.symbol("irqentry_nmi_exit") == 0 {
		return
	}
	end := entry[0].Addr + entry[0].Size
	var b [1]byte
	for m.mem.ReadAt(end-1, b[:]) == nil && b[0] == int3 {
		end--
	}
	m.slept = end - callLen
}

// CPUs returns the number of vCPUs.
func (m *Machine) CPUs() int { return len(m.cpus) }

// Now returns nanoseconds since boot.
func (m *Machine) Now() int64 { return m.clock.Now() }

// AfterFunc runs f in a new goroutine after d of the machine's time, unless the
// machine is closed by then. Close waits for it.
func (m *Machine) AfterFunc(d time.Duration, f func()) func() bool {
	return m.clock.AfterFunc(d, func() {
		if m.join() {
			defer m.wg.Done()
			f()
		}
	})
}

// join makes Close wait for the caller. It returns false when Close has begun.
func (m *Machine) join() bool {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	if m.closing.Load() {
		return false
	}
	m.wg.Add(1)
	return true
}

// close marks the machine as closing, and reports whether it was already.
func (m *Machine) close() (before bool) {
	m.closeMu.Lock()
	defer m.closeMu.Unlock()
	return m.closing.Swap(true)
}

// Printk adds a line to the kernel's log.
func (m *Machine) Printk(level int, format string, args ...any) {
	m.log.Printk(level, format, args...)
}

// Debugger returns what stops the machine and executes single instructions.
func (m *Machine) Debugger() *Debugger { return m.debug }

// Log returns the kernel's log.
func (m *Machine) Log() *Log { return m.log }

// Mem returns guest memory.
func (m *Machine) Mem() *mem.Memory { return m.mem }

// Image returns the image that was booted.
func (m *Machine) Image() *image.Image { return m.img }

// Tables returns the tables about text: sites, ranges, the blacklist.
func (m *Machine) Tables() *image.Tables { return m.tab }

// Symbols returns kallsyms: the symbols that users of the guest see, and modules'.
func (m *Machine) Symbols() *kallsyms.Table { return m.syms }

// Sites returns the fentry sites.
func (m *Machine) Sites() *ftrace.Sites { return m.sites }

// Armed returns what tells of changes of what is armed.
func (m *Machine) Armed() *armed.Changes { return &m.armed }

// Host returns the part that runs the host's calls.
func (m *Machine) Host() *host.Host { return m.host }

// Clock returns the machine's clock.
func (m *Machine) Clock() Clock { return m.clock }

// Call runs a guest function with at most five arguments on vCPU 0's kernel thread
// load/0 and returns rax. It fails with ENOENT when there is no such function.
func (m *Machine) Call(ctx context.Context, sym string, args ...uint64) (uint64, error) {
	s := m.syms.LookupName(sym)
	if len(s) == 0 {
		return 0, fmt.Errorf("no function %s in the guest: %w", sym, syscall.ENOENT)
	}
	return m.CallOn(ctx, 0, s[0].Addr, 1, args...)
}

// CallOn calls the guest function at addr count times with the same arguments
// on a vCPU's kernel thread and returns the last result. When ctx ends, it fails
// with EINTR after the call that is in progress; with EIO (host.ErrDied) when the
// thread has died in it, as after an oops.
func (m *Machine) CallOn(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error) {
	if cpu < 0 || cpu >= len(m.loads) {
		return 0, fmt.Errorf("no vCPU %d: %w", cpu, syscall.EINVAL)
	}
	t := m.loads[cpu].Load()
	ret, err := t.Func(ctx, addr, count, args...)
	if errors.Is(err, host.ErrAbandoned) || errors.Is(err, host.ErrDied) {
		m.replaceLoad(ctx, cpu, t)
	}
	return ret, err
}

// replaceLoad starts another kernel thread for the calls on a vCPU, because the
// present one does not return from its call, or has died in it.
func (m *Machine) replaceLoad(ctx context.Context, cpu int, old *host.Task) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadPatience)
	defer cancel()
	t, err := m.host.KthreadOn(ctx, fmt.Sprintf("load/%d", cpu), cpu)
	if err != nil {
		return // the next caller that gives up tries again
	}
	if m.loads[cpu].CompareAndSwap(old, t) {
		old.Leave()
		return
	}
	t.Leave()
}

// loadPatience bounds the time to start such a thread.
const loadPatience = time.Second

// Retired returns the number of instructions that all vCPUs have executed.
func (m *Machine) Retired() uint64 {
	var n uint64
	for _, v := range m.cpus {
		n += v.retired.Load()
	}
	return n
}

// RetiredBy returns the number of instructions that a vCPU, or all of them together (AllCPUs), have executed.
func (m *Machine) RetiredBy(cpu int) uint64 {
	if cpu == AllCPUs {
		return m.Retired()
	}
	return m.cpus[cpu].retired.Load()
}

// Idle reports whether no vCPU has work before the next interrupt.
func (m *Machine) Idle() bool {
	return !slices.ContainsFunc(m.cpus, func(v *vcpu) bool { return v.started.Load() && !v.resting() })
}

// syscallCount is NR_syscalls of x86-64.
const syscallCount = 451

// Syscalls returns the names of the guest's system calls by number ("read",
// "write", ...), with "" for numbers without one: the functions in sys_call_table
// without their prefix.
func (m *Machine) Syscalls() []string {
	const prefix = "__x64_sys_"
	table := m.symbol("sys_call_table")
	names := make([]string, syscallCount)
	for nr := range names {
		addr, err := m.mem.ReadU64(table + 8*uint64(nr))
		if err != nil || table == 0 {
			return nil
		}
		if s, off, ok := m.allSyms.Lookup(addr); ok && off == 0 && s.Name != prefix+"ni_syscall" {
			names[nr], _ = strings.CutPrefix(s.Name, prefix)
		}
	}
	return names
}

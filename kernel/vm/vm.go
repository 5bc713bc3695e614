// Package vm executes functions of another kernel: one that package vmlinux has read from a
// distribution's file. A VM is an address space of its own, in which text, data and per-CPU
// areas lie where that kernel was linked, and vCPUs that call one function at a time.
//
// Three ideas carry it.
//
// The kernel is not booted. Its data are as the file has them, but for the few per-CPU words
// without which no C code runs. So a function runs that needs nothing but its arguments, the
// kernel's tables and the stack. Interrupts do not come, nothing sleeps, and an access outside
// of what is mapped ends the call with an error that says where.
//
// Where that kernel's own code would take a hit of a probe (optimized_callback, what fentry
// sites call, what hooked calls return to), there is a stub instead: a vmcall and a ret. The
// handlers of the probes are called there, in Go. Read does not show the stubs.
//
// Nothing in it knows the guest of package kernel: the two share neither memory nor vCPUs. What
// handlers read of the task that makes the call is read from the memory that Options name.
package vm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insnslot"
	"github.com/kprobefs/kprobefs/kernel/mem"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
)

// Options say what New makes. Only Kernel must be given.
type Options struct {
	Kernel *vmlinux.Kernel
	CPUs   int            // number of vCPUs; 0 means 1
	Engine cpu.Engine     // what executes the code
	Now    func() int64   // nanoseconds since boot; nil means since New
	Tasks  abi.Memory     // where the tasks lie that make calls; nil means that there are none
	Armed  *armed.Changes // learns when a listener that is no kprobe comes to an fentry site, or goes
}

// Handlers are called at hits, with the conditions of kernel.Handlers. A nil handler is not called.
type Handlers struct {
	Int3        func(*abi.Trap) bool
	Stepped     func(cpu int, ip, flags uint64) (toIP, toFlags uint64, ok bool)
	Fault       func(*abi.Trap) bool
	Ftrace      func(*abi.Trap) // at an fentry site whose listener wants registers
	Function    func(*abi.Trap) // at one whose listeners want none
	Optimized   func(*abi.Trap)
	Rethook     func(*abi.Trap)
	GraphReturn func(*abi.Trap)
	Return      func(task, slot, addr uint64) (shown, real uint64)
}

// VM is another kernel's text and data, and the vCPUs that call its functions.
type VM struct {
	kernel   *vmlinux.Kernel
	mem      *mem.Memory
	cache    *cpu.Cache
	slots    *insnslot.Cache
	sites    *ftrace.Sites
	armed    *armed.Changes
	tasks    abi.Memory
	now      func() int64
	cpus     []*vcpu
	end      uint64 // the hlt that functions return to
	frames   func() image.Frames
	handlers atomic.Pointer[Handlers]
	stubs    atomic.Pointer[map[uint64]stub] // by address; replaced as a whole
	trap     uint32                          // what a handler of a breakpoint sees in preempt_count
	preempt  uint64                          // where the count is in a per-CPU area

	// A vCPU holds gate to read while it executes. Who writes text, or waits for handlers, holds
	// it to write.
	gate   sync.RWMutex
	stubMu sync.Mutex // serializes changes of stubs
}

// Addresses, which a kernel without KASLR uses for the same. They do not overlap with an image's.
const (
	stackBase  = 0xffffc90000000000 // vmalloc: where a task's stack is
	arenaBase  = 0xffffc90100000000 // buffers that are arguments
	percpuBase = 0xffffc90200000000
	spacing    = 1 << 24 // from one vCPU's to the next one's

	arenaSize = 2 << 20
	slotsSize = 64 << 20
)

// New maps a kernel. It fails with EINVAL if its image cannot be mapped, and with ENOMEM.
func New(o Options) (*VM, error) {
	m := &VM{kernel: o.Kernel, armed: o.Armed, tasks: o.Tasks, now: o.Now, trap: 1}
	if o.Now == nil {
		began := time.Now()
		m.now = func() int64 { return int64(time.Since(began)) }
	}
	if o.Kernel.Linux.Has(release.Int3NMI) {
		m.trap = abi.NMIOffset | abi.HardirqOffset
	}
	n := max(o.CPUs, 1)
	percpu := pagesOf(o.Kernel.Image.Percpu.End)
	ram := &pages{}
	size := uint64(n)*(percpu+abi.ThreadSize+arenaSize) + slotsSize
	for _, s := range o.Kernel.Image.Segments {
		size += pagesOf(s.Addr%abi.PageSize + s.MemSize)
	}
	var err error
	if m.mem, err = mem.New(size); err != nil {
		return nil, err
	}
	ram.end = size
	for _, step := range []func() error{
		func() error { return m.mapSegments(ram) },
		func() error { return m.mapCPUs(ram, n, percpu) },
		func() error { return m.makeStubs(ram) },
		func() error { return m.makeCPUs(n, o.Engine) },
	} {
		if err := step(); err != nil {
			return nil, cmp.Or(m.Close(), err)
		}
	}
	m.handlers.Store(&Handlers{})
	m.frames = sync.OnceValue(m.readFrames)
	return m, nil
}

// Close frees the memory. No call may be in progress, and none may follow.
func (m *VM) Close() error { return m.mem.Close() }

// SetHandlers says who is called at hits.
func (m *VM) SetHandlers(h Handlers) { m.handlers.Store(&h) }

// Sites returns the fentry sites.
func (m *VM) Sites() *ftrace.Sites { return m.sites }

// CPUs returns the number of vCPUs.
func (m *VM) CPUs() int { return len(m.cpus) }

// pagesOf rounds a size up to whole pages.
func pagesOf(n uint64) uint64 { return (n + abi.PageSize - 1) &^ (abi.PageSize - 1) }

// pages gives out RAM, which is kept until Close.
type pages struct{ next, end uint64 }

func (p *pages) Alloc(n int) (uint64, error) {
	size := uint64(n) * abi.PageSize
	if p.end-p.next < size {
		return 0, fmt.Errorf("%d pages: %w", n, syscall.ENOMEM)
	}
	pa := p.next
	p.next += size
	return pa, nil
}

// Free is called by the slots for a page that could not be mapped: the last one.
func (p *pages) Free(pa uint64, n int) {
	if pa+uint64(n)*abi.PageSize == p.next {
		p.next = pa
	}
}

// place maps size bytes at va.
func (m *VM) place(ram *pages, va, size uint64, perm mem.Perm) (pa uint64, err error) {
	n := pagesOf(size) / abi.PageSize
	if pa, err = ram.Alloc(int(n)); err != nil {
		return 0, err
	}
	return pa, m.mem.Map(va, pa, n, perm)
}

// mapSegments maps the image. Init text is in a segment that is written and executed, and is freed
// after boot: it can only be read and written here.
func (m *VM) mapSegments(ram *pages) error {
	for _, s := range m.kernel.Image.Segments {
		perm := mem.Perm(s.Perm)
		if perm&mem.Write != 0 {
			perm &^= mem.Exec
		}
		in := s.Addr % abi.PageSize
		pa, err := m.place(ram, s.Addr-in, in+max(s.MemSize, uint64(len(s.Data))), perm)
		if err != nil {
			return fmt.Errorf("the segment at %#x: %w", s.Addr, err)
		}
		copy(m.mem.Phys(pa+in, uint64(len(s.Data))), s.Data)
	}
	return nil
}

// mapCPUs maps for each vCPU a per-CPU area, a stack with nothing below it, and an arena.
func (m *VM) mapCPUs(ram *pages, n int, percpu uint64) error {
	offsets := m.addr("__per_cpu_offset")
	for i := range uint64(n) {
		for _, area := range []struct{ at, size uint64 }{
			{percpuBase + i*spacing, percpu}, {stackBase + i*spacing + abi.ThreadSize, abi.ThreadSize}, {arenaBase + i*spacing, arenaSize},
		} {
			if area.size == 0 {
				continue
			}
			if _, err := m.place(ram, area.at, area.size, mem.Read|mem.Write); err != nil {
				return err
			}
		}
		if err := m.fillPercpu(i); err != nil {
			return err
		}
		if offsets != 0 {
			_ = m.mem.WriteU64(offsets+8*i, percpuBase+i*spacing) // a kernel for one processor has a shorter table, or none
		}
	}
	return nil
}

// Where fixed_percpu_data has the stack protector's value, and a value: its lowest byte is 0, as on Linux.
const (
	canaryOffset = 0x28
	canary       = 0x5bd1e995c6a4a700
)

// fillPercpu copies the template of the per-CPU data, and writes what setup_per_cpu_areas writes.
func (m *VM) fillPercpu(i uint64) error {
	img := m.kernel.Image
	size := img.Percpu.End
	base := percpuBase + i*spacing
	if size == 0 {
		return nil
	}
	template := img.Bytes(img.PercpuLoad, size)
	if template == nil {
		return fmt.Errorf("the image has no template of its per-CPU data: %w", syscall.EINVAL)
	}
	if err := m.mem.WriteAt(base, template); err != nil {
		return err
	}
	if at := m.addr("this_cpu_off"); at != 0 {
		_ = m.mem.WriteU64(base+at, base)
	}
	number := m.addr("cpu_number")
	m.preempt = m.addr("__preempt_count")
	if hot := m.addr("pcpu_hot"); hot != 0 { // since 6.2: current_task, preempt_count, cpu_number
		m.preempt, number = hot+8, hot+12
	}
	for at, v := range map[uint64]uint32{m.preempt: preemptible, number: uint32(i)} {
		if at != 0 {
			_ = m.mem.WriteAt(base+at, binary.LittleEndian.AppendUint32(nil, v))
		}
	}
	return m.mem.WriteU64(base+canaryOffset, canary)
}

// preemptible is __preempt_count of a task that may be preempted: the top bit is need_resched,
// inverted.
const preemptible = 1 << 31

// addr returns the address of a symbol of the kernel, or 0.
func (m *VM) addr(name string) uint64 {
	if s := m.kernel.Symbols.LookupName(name); len(s) > 0 {
		return s[0].Addr
	}
	return 0
}

// place of an address for messages: "strlen+0x4".
func (m *VM) placeOf(addr uint64) string {
	if s, off, ok := m.kernel.Symbols.Lookup(addr); ok {
		return fmt.Sprintf("%s+%#x", s.Name, off)
	}
	return fmt.Sprintf("%#x", addr)
}

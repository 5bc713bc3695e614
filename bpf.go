package kprobefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// BPFName is the end of the name of descriptors of BPF, in /proc/PID/fd.
const BPFName = "bpf"

// MaxBPFAttr is how many bytes of its attr a call of BPF looks at; more is E2BIG.
const MaxBPFAttr = bpf.MaxAttr

// BPFCall are the arguments of bpf(2).
type BPFCall struct {
	Command uint32
	Addr    uint64 // of union bpf_attr
	Size    uint32
	Memory  io.ReaderAt `json:"-"` // the caller's
}

// BPFWrite is what a call has to write into the caller's memory.
type BPFWrite struct {
	Addr  uint64
	Bytes []byte
}

// bpfFiles are the descriptors of bpf(2).
type bpfFiles struct {
	descriptors
	clocks map[int]bool // processes that have loaded a program for perf events
}

// runsClocks remembers that a process has loaded a program that a clock could run.
func (b *bpfFiles) runsClocks(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.clocks == nil {
		b.clocks = map[int]bool{}
	}
	b.clocks[pid] = true
}

func (b *bpfFiles) hasClocks(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.clocks[pid]
}

// BPF is bpf(2) of a caller that may make it. It returns what is to be written into the caller's
// memory, whether the call fails or not, and a descriptor to give, or nil. It fails with ENXIO if there can
// be no descriptors here, and with Linux's errnos.
func (a *Activity) BPF(c host.Caller, call BPFCall) (ret int, f *os.File, writes []BPFWrite, err error) {
	fs, err := a.bpf.connected(BPFName)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("bpf: %w: %w", syscall.ENXIO, err)
	}
	by := &bpfCaller{activity: a, fs: fs, caller: c, pid: c.PID, memory: call.Memory}
	system := a.tracer.BPF()
	r, err := system.Call(by, call.Command, call.Addr, call.Size)
	if err != nil {
		return 0, nil, by.writes, err
	}
	if r.Object == nil {
		return r.Value, nil, by.writes, nil
	}
	backing := -1
	if m, ok := r.Object.(*bpf.Map); ok {
		if memory, ok := m.Memory().(*sharedMemory); ok {
			backing = memory.fd
		}
	}
	if p, ok := r.Object.(*bpf.Prog); ok && p.Type() == bpf.ProgPerfEvent {
		a.bpf.runsClocks(c.PID)
	}
	f, err = fs.Open(&bpfFile{system: system, object: r.Object}, backing)
	return 0, f, by.writes, err
}

// bpfCaller is a process that calls bpf(2).
type bpfCaller struct {
	activity *Activity
	fs       *anoninode.FS
	caller   host.Caller
	pid      int
	memory   io.ReaderAt
	writes   []BPFWrite
}

// Read implements bpf.Caller.
func (c *bpfCaller) Read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if int64(addr) < 0 {
		return syscall.EFAULT
	}
	if n, err := c.memory.ReadAt(b, int64(addr)); n < len(b) {
		return errors.Join(syscall.EFAULT, err)
	}
	return nil
}

// Write implements bpf.Caller.
func (c *bpfCaller) Write(addr uint64, b []byte) {
	c.writes = append(c.writes, BPFWrite{addr, b})
}

// Task implements bpf.Caller.
func (c *bpfCaller) Task() (perf.IDs, string) { return perfIDs(c.caller), c.caller.Comm() }

// Object implements bpf.Caller.
func (c *bpfCaller) Object(fd int) any {
	if fd < 0 {
		return nil
	}
	if f, ok := c.fs.Find(c.pid, fd).(*bpfFile); ok {
		return f.object
	}
	if perfFS := c.activity.perf.present(); perfFS != nil {
		if f, ok := perfFS.Find(c.pid, fd).(*perfFile); ok {
			return f.event
		}
	}
	if exists(fmt.Sprintf("/proc/%d/fd/%d", c.pid, fd)) {
		return otherFile{}
	}
	return nil
}

// otherFile is what a descriptor refers to that has nothing to do with bpf(2).
type otherFile struct{}

// SetBPF is PERF_EVENT_IOC_SET_BPF: it attaches the program of one descriptor of a process to the event of
// another one, until that is closed. It fails with ErrNotOurs if that is no event of ours.
func (a *Activity) SetBPF(c host.Caller, event, program int) error {
	perfFS := a.perf.present()
	if perfFS == nil {
		return ErrNotOurs
	}
	f, ok := perfFS.Find(c.PID, event).(*perfFile)
	if !ok {
		return ErrNotOurs
	}
	fs := a.bpf.present()
	if fs == nil {
		return syscall.EBADF
	}
	file, ok := fs.Find(c.PID, program).(*bpfFile)
	if !ok {
		return syscall.EBADF
	}
	p, ok := file.object.(*bpf.Prog)
	if !ok {
		return syscall.EINVAL
	}
	f.programMu.Lock()
	defer f.programMu.Unlock()
	if f.detach != nil {
		return syscall.EEXIST
	}
	system := a.tracer.BPF()
	detach, err := system.AttachPerf(f.event, p, 0)
	if err != nil {
		return err
	}
	system.Ref(p)
	f.detach = func() {
		detach()
		system.Release(p)
	}
	a.update()
	return nil
}

// bpfFile is a descriptor of a map, program, link or of types.
type bpfFile struct {
	system *bpf.System
	object any
}

var _ anoninode.File = (*bpfFile)(nil)

// Read implements anoninode.File: there is nothing to read.
func (f *bpfFile) Read([]byte) (int, error) { return 0, syscall.EINVAL }

// Poll implements anoninode.File.
func (f *bpfFile) Poll() (ready uint32, changed <-chan struct{}) {
	m, ok := f.object.(*bpf.Map)
	if !ok {
		return unix.POLLERR, nil
	}
	in, changed := m.Poll()
	if in {
		ready = unix.POLLIN
	}
	return ready, changed
}

// Release implements anoninode.File.
func (f *bpfFile) Release() { f.system.Release(f.object) }

// Ioctl implements anoninode.File.
func (f *bpfFile) Ioctl(int, uint32, uint64, []byte, []byte) error { return syscall.ENOTTY }

// possibleCPUs returns how many CPUs programs take to be possible, as sysfs tells them.
func possibleCPUs() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/possible")
	return len(parseCPUList(strings.TrimSpace(string(text))))
}

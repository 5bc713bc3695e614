// Package perffd is perf_event_open(2) and bpf(2) for processes of the host: what they get are descriptors of
// package anoninode, which stand for the tracer's events, maps and programs.
package perffd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// PerfName is the end of the name of what Open opens, in /proc/PID/fd.
const PerfName = "[perf_event]"

// ErrNotOurs is the error of a perf_event_open(2) that is the host's to answer.
var ErrNotOurs = errors.New("no event of the emulated kernel")

// OpenArgs are the arguments of perf_event_open(2).
type OpenArgs struct {
	Attr  []byte // struct perf_event_attr, as long as it says
	TID   int    // -1: all tasks, 0: the caller
	Site  uint64 // of a uprobe in the caller: the address after the call that tells of a hit, or 0
	PMU   string // of which device attr.type is the type: one of PerfTypes, or ""
	CPU   int    // -1: all
	Group int    // a descriptor of the caller, or -1
	Flags uint64
}

// Descriptors are what processes get by perf_event_open(2) and bpf(2).
type Descriptors struct {
	activity *activity.Activity
	tracer   *tracing.Tracer
	linux    release.Version
	perf     perfFiles
	bpf      bpfFiles
}

// New returns the descriptors of a kernel, which has none yet.
func New(a *activity.Activity, tracer *tracing.Tracer, linux release.Version) *Descriptors {
	d := &Descriptors{activity: a, tracer: tracer, linux: linux}
	a.Add(d)
	return d
}

// Settle waits for events that are being closed.
func (d *Descriptors) Settle() { d.perf.settle() }

// Close has all descriptors fail from now on.
func (d *Descriptors) Close() {
	d.bpf.close()
	d.perf.close()
}

// Flags of perf_event_open(2).
const (
	perfNoGroup = 1 << iota
	perfOutput
	perfCgroup
	perfCloexec
	perfFlags
)

// perfFiles are the descriptors of perf_event_open(2).
type perfFiles struct {
	descriptors
	open map[int]int // by process: how many it has opened

	sites map[site][]*perfFile // of uprobes
}

// site is where a process tells of a hit of a uprobe.
type site struct {
	pid int
	ip  uint64
}

// plant makes hits at a site count for a file's event.
func (p *perfFiles) plant(at site, f *perfFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sites == nil {
		p.sites = map[site][]*perfFile{}
	}
	f.site = at
	p.sites[at] = append(p.sites[at], f)
}

// uproot ends that.
func (p *perfFiles) uproot(f *perfFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := slices.DeleteFunc(p.sites[f.site], func(x *perfFile) bool { return x == f })
	if len(left) == 0 {
		delete(p.sites, f.site)
	} else {
		p.sites[f.site] = left
	}
}

// at returns the files of a site.
func (p *perfFiles) at(where site) []*perfFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sites[where])
}

// UserProbe is a hit of a uprobe in the caller, whose call that tells of it ends at ip. It fails with ENOENT if
// there is no such probe.
func (d *Descriptors) UserProbe(c host.Caller, ip uint64) error {
	files := d.perf.at(site{c.PID, ip})
	if len(files) == 0 {
		return fmt.Errorf("no uprobe at %#x: %w", ip, syscall.ENOENT)
	}
	for _, f := range files {
		d.tracer.HitUser(f.event, d.taskOf(c), ip-PlantedCall)
	}
	return nil
}

// taskOf returns the task that a program sees as a caller's.
func (d *Descriptors) taskOf(c host.Caller) bpf.Task {
	return bpf.Task{IDs: activity.IDs(c), Comm: c.Comm(), Addr: d.activity.TaskOf(c)}
}

// PlantedCall is how many bytes before the instruction after the call a planted uprobe is.
const PlantedCall = 8

// descriptors are what programs have open of one kind.
type descriptors struct {
	mu  sync.Mutex
	fs  *anoninode.FS // nil until the first
	err error         // why there can be none
}

// Mappable reports whether descriptors can be mapped as they are, and none has to be exchanged meanwhile. Where there
// can be no descriptors none can. It is tried once.
var Mappable = sync.OnceValue(func() bool {
	mappable, err := anoninode.Try()
	return err == nil && mappable
})

// connected returns the file system, and connects it the first time. Its files have that name.
func (d *descriptors) connected(name string) (*anoninode.FS, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fs == nil && d.err == nil {
		d.fs, d.err = anoninode.New(name)
	}
	return d.fs, d.err
}

// present returns the file system, or nil if nobody has used it.
func (d *descriptors) present() *anoninode.FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fs
}

func (d *descriptors) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fs != nil {
		d.fs.Close()
	}
	d.err, d.fs = syscall.ENODEV, nil
}

// has reports whether a process has opened an event that it has not closed.
func (p *perfFiles) has(pid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open[pid] > 0
}

func (p *perfFiles) count(pid, more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[int]int{}
	}
	if p.open[pid] += more; p.open[pid] <= 0 {
		delete(p.open, pid)
	}
}

// settle waits for those that are being closed.
func (p *perfFiles) settle() {
	if fs := p.present(); fs != nil {
		fs.Settle()
	}
}

// Open is perf_event_open(2) of a caller that may count what it asks for. It fails with
// ErrNotOurs for types of events that are the host's, and with Linux's errnos.
func (d *Descriptors) Open(c host.Caller, o OpenArgs) (*os.File, error) {
	if o.Flags >= perfFlags {
		return nil, fmt.Errorf("flags %#x: %w", o.Flags, syscall.EINVAL)
	}
	attr, err := perf.ParseAttr(o.Attr)
	if err != nil {
		return nil, err
	}
	var source perf.Source
	switch {
	case o.PMU != "":
		symbolMax := release.SymbolMax.Of(d.linux)
		source = d.tracer.PerfProbe(func() (dynevent.Local, error) { return perfProbe(c.TID, o.PMU, &attr, symbolMax) })
	case attr.Type == perf.TypeTracepoint:
		if source, err = d.tracer.PerfSource(attr.Config); err != nil {
			return nil, err
		}
	case attr.Type != perf.TypeSoftware:
		return nil, ErrNotOurs
	case attr.Config < perf.SoftwareMax && d.bpf.runsPrograms(c.PID):
		source = d.tracer.SoftwareSource(attr.Config) // a program that it has loaded would be the host's to run
	case attr.Config == perf.SoftwareBPFOutput && d.bpf.present() != nil, attr.Config == perf.SoftwareDummy && d.perf.has(c.PID):
	default:
		return nil, ErrNotOurs
	}
	fs, err := d.perf.connected(PerfName)
	if err != nil {
		return nil, fmt.Errorf("perf_event_open: %w: %w", syscall.ENXIO, err)
	}
	group, err := perfGroup(fs, c, o)
	if err != nil {
		return nil, err
	}
	tid, err := perfTarget(c, o)
	if err != nil {
		return nil, err
	}
	d.activity.Begin(c)
	defer d.activity.Learn(tid)
	defer d.activity.End(c)
	memory, err := anoninode.NewMemory()
	if err != nil {
		return nil, err
	}
	leader := group
	if o.Flags&perfNoGroup != 0 {
		leader = nil
	}
	fd := memory.FD() // the event may close its memory
	e, err := d.tracer.Perf().Open(attr, source, tid, o.CPU, leader, memory)
	if err != nil {
		memory.Close()
		return nil, err
	}
	if o.Flags&perfOutput != 0 && group != nil {
		if err := e.SetOutput(group); err != nil {
			e.Release()
			return nil, err
		}
	}
	d.perf.count(c.PID, 1)
	file := &perfFile{all: d, fs: fs, event: e, opener: c.PID, memory: memory}
	if o.Site != 0 {
		d.perf.plant(site{c.PID, o.Site}, file)
	}
	return fs.Open(file, fd)
}

// perfGroup returns the event of the descriptor that is named as the group's. It fails with EBADF
// if it is none of ours.
func perfGroup(fs *anoninode.FS, c host.Caller, o OpenArgs) (*perf.Event, error) {
	if o.Group == -1 {
		return nil, nil
	}
	f, ok := fs.Find(c.PID, o.Group).(*perfFile)
	if !ok {
		return nil, fmt.Errorf("group %d: %w", o.Group, syscall.EBADF)
	}
	return f.event, nil
}

// perfTarget returns the thread to count, or -1 for all. It fails with ESRCH if there is no such
// thread, and with EINVAL for a cgroup.
func perfTarget(c host.Caller, o OpenArgs) (int32, error) {
	switch {
	case o.Flags&perfCgroup != 0:
		return 0, fmt.Errorf("a cgroup: %w", syscall.EINVAL)
	case o.TID == -1:
		return -1, nil
	case o.TID == 0:
		return int32(c.TID), nil
	case o.TID < 0 || !exists(proc.Path(o.TID, "")):
		return 0, fmt.Errorf("task %d: %w", o.TID, syscall.ESRCH)
	}
	return int32(o.TID), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Map is mmap(2) of a process's descriptor, before the host's kernel maps its memory. Where that cannot
// map it by the descriptor, memory is what it can map. Map fails with ErrNotOurs if the descriptor is none of
// Open, or of BPF.
func (d *Descriptors) Map(pid, fd int, size, offset uint64, writable bool) (memory *os.File, err error) {
	if fs := d.bpf.present(); fs != nil {
		if f := findBPF(fs, pid, fd); f != nil {
			return f.mapped(fs.Mappable(), size, offset, writable)
		}
	}
	fs := d.perf.present()
	if fs == nil {
		return nil, ErrNotOurs
	}
	f, ok := fs.Find(pid, fd).(*perfFile)
	if !ok {
		return nil, ErrNotOurs
	}
	if err := f.event.Map(size, offset, writable); err != nil || fs.Mappable() {
		return nil, err
	}
	return f.memory.File()
}

// perfFile is the descriptor of an event.
type perfFile struct {
	all    *Descriptors
	fs     *anoninode.FS
	event  *perf.Event
	memory *anoninode.Memory // of its ring
	opener int

	site      site // of a uprobe
	programMu sync.Mutex
	detach    func() // of the program that SetBPF has attached, or nil
}

var _ anoninode.File = (*perfFile)(nil)

func (f *perfFile) Read(p []byte) (int, error) { return f.event.Read(p) }

func (f *perfFile) Poll() (ready uint32, changed <-chan struct{}) {
	in, hangup, changed := f.event.Poll()
	if in {
		ready |= unix.POLLIN
	}
	if hangup {
		ready |= unix.POLLHUP
	}
	return ready, changed
}

func (f *perfFile) Release() {
	f.programMu.Lock()
	detach := f.detach
	f.detach = nil
	f.programMu.Unlock()
	if detach != nil {
		detach()
	}
	f.all.perf.uproot(f)
	f.event.Release()
	f.all.perf.count(f.opener, -1)
	f.all.activity.Update()
}

// Ioctl is perf_ioctl. PERF_EVENT_IOC_SET_BPF (SetBPF) and PAUSE_OUTPUT do not come here: their
// numbers say that the argument is a pointer, which it is not, and the host's kernel fails with
// EFAULT.
func (f *perfFile) Ioctl(tid int, cmd uint32, arg uint64, in, out []byte) error {
	defer f.all.activity.End(host.Caller{TID: tid}) // a filter or a switch may have armed functions
	const groupFlag = 1
	group := arg&groupFlag != 0
	switch cmd {
	case unix.PERF_EVENT_IOC_ENABLE:
		f.event.Enable(group)
	case unix.PERF_EVENT_IOC_DISABLE:
		f.event.Disable(group)
	case unix.PERF_EVENT_IOC_RESET:
		f.event.Reset(group)
	case unix.PERF_EVENT_IOC_REFRESH:
		return f.event.Refresh(arg)
	case unix.PERF_EVENT_IOC_PERIOD:
		if len(in) < 8 {
			return syscall.EFAULT
		}
		return f.event.SetPeriod(binary.NativeEndian.Uint64(in))
	case unix.PERF_EVENT_IOC_ID:
		if len(out) < 8 {
			return syscall.EFAULT
		}
		binary.NativeEndian.PutUint64(out, f.event.ID())
	case unix.PERF_EVENT_IOC_SET_OUTPUT:
		return f.setOutput(tid, int(int32(arg)))
	case unix.PERF_EVENT_IOC_SET_FILTER:
		text, err := readFilter(tid, arg)
		if err != nil {
			return err
		}
		return f.event.SetFilter(text)
	default:
		return syscall.ENOTTY
	}
	return nil
}

func (f *perfFile) setOutput(tid, fd int) error {
	if fd == -1 {
		return f.event.SetOutput(nil)
	}
	pid, err := proc.Process(tid)
	if err != nil {
		return syscall.ESRCH
	}
	to, ok := f.fs.Find(pid, fd).(*perfFile)
	if !ok {
		return fmt.Errorf("descriptor %d: %w", fd, syscall.EBADF)
	}
	return f.event.SetOutput(to.event)
}

// readFilter is strndup_user: it fails with EFAULT, and with EINVAL for a page or more.
func readFilter(tid int, addr uint64) (string, error) {
	text, err := readText(tid, addr, abi.PageSize)
	if errors.Is(err, syscall.E2BIG) {
		err = fmt.Errorf("a filter of a page: %w", syscall.EINVAL)
	}
	return text, err
}

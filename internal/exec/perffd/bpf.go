package perffd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
)

// BPFName is what the name of descriptors of BPF begins with after their number, in /proc/PID/fd.
const BPFName = "bpf"

// IsBPF reports whether a path in /proc/PID/fd may belong to such a descriptor.
func IsBPF(path string) bool { return strings.Contains(filepath.Base(path), "."+BPFName) }

// MaxBPFAttr is how many bytes of its attr a call of BPF looks at; more is E2BIG.
const MaxBPFAttr = bpf.MaxAttr

// BPFCall are the arguments of bpf(2).
type BPFCall struct {
	Command uint32
	Addr    uint64 // of union bpf_attr
	Size    uint32
	Memory  io.ReaderAt `json:"-"` // the caller's

	// Path is the path in our bpffs of the file that the call names, or "": then it fails with Refused.
	Path    string
	Refused syscall.Errno
	Files   BPFFiles `json:"-"` // what there is in our bpffs
}

// BPFFiles are the files of a bpffs.
type BPFFiles interface {
	// Pin makes a file of an object.
	Pin(path string, object any) error
	// Pinned returns the object of a file, with a reference; flags are open(2)'s.
	Pinned(path string, flags uint32) (any, error)
}

// What BPFCall.Command has if the call names a file.
const (
	BPFObjPin = unix.BPF_OBJ_PIN
	BPFObjGet = unix.BPF_OBJ_GET
)

// BPFWrite is what a call has to write into the caller's memory.
type BPFWrite struct {
	Addr  uint64
	Bytes []byte
}

// bpfFiles are the descriptors of bpf(2).
type bpfFiles struct {
	descriptors
	perf map[int]bool // processes that have loaded a program for perf events
}

// loadedPerf remembers that a process has loaded a program that a software event could run.
func (b *bpfFiles) loadedPerf(pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.perf == nil {
		b.perf = map[int]bool{}
	}
	b.perf[pid] = true
}

func (b *bpfFiles) runsPrograms(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.perf[pid]
}

// BPFAnswer is the answer to a bpf(2).
type BPFAnswer struct {
	Ret    int
	Writes []BPFWrite // what is to be written into the caller's memory, whether the call fails or not
	File   *os.File   // a descriptor to give, or nil
	Given  []BPFGiven // descriptors with fixed numbers to give as well
}

// BPFGiven is a descriptor of the caller.
type BPFGiven struct {
	FD   int
	File *os.File
}

// BPF is bpf(2) of a caller that may make it. It fails with ENXIO if there can be no descriptors here, and with Linux's errnos.
func (d *Descriptors) BPF(c host.Caller, call BPFCall) (answer BPFAnswer, err error) {
	fs, err := d.bpf.connected(BPFName)
	if err != nil {
		return answer, fmt.Errorf("bpf: %w: %w", syscall.ENXIO, err)
	}
	fs.Settle() // an object whose last descriptor was closed is gone
	by := &bpfCaller{all: d, fs: fs, caller: c, pid: c.PID, memory: call.Memory, call: &call}
	system := d.tracer.BPF()
	r, err := system.Call(by, call.Command, call.Addr, call.Size)
	answer.Writes = by.writes
	if err != nil {
		return answer, err
	}
	answer.Ret = r.Value
	for _, g := range r.Given {
		f, failed := d.open(fs, c.PID, bpf.Result{Object: g.Object, Access: g.Access}, g.Link)
		if failed != nil { // the others are given nevertheless
			err = failed
			continue
		}
		answer.Given = append(answer.Given, BPFGiven{g.FD, f})
	}
	if r.Object == nil {
		return answer, err
	}
	answer.Ret = 0
	answer.File, err = d.open(fs, c.PID, r, makesLink[call.Command])
	return answer, err
}

// open returns a descriptor of an object for a process.
func (d *Descriptors) open(fs *anoninode.FS, pid int, r bpf.Result, makesLink bool) (*os.File, error) {
	backing := -1
	if memory := memoryOf(r.Object); memory != nil {
		backing = memory.FD()
	}
	if p, ok := r.Object.(*bpf.Prog); ok && p.Type() == bpf.ProgPerfEvent {
		d.bpf.loadedPerf(pid)
	}
	return fs.Open(d.fileOf(d.tracer.BPF(), r, makesLink), backing)
}

// memoryOf returns the memory of a map that can be mapped, or nil.
func memoryOf(object any) *anoninode.Memory {
	m, ok := object.(*bpf.Map)
	if !ok {
		return nil
	}
	memory, _ := m.Memory().(*anoninode.Memory)
	return memory
}

// mapped returns what to map where the descriptor itself cannot be mapped. It fails with ENODEV for what has no memory, and
// as bpf_map_mmap for a mapping that may not be.
func (f *bpfFile) mapped(directly bool, size, offset uint64, writable bool) (*os.File, error) {
	if m, ok := f.object.(*bpf.Map); ok {
		if err := m.MayMap(size, offset, writable); err != nil {
			return nil, err
		}
	}
	memory := memoryOf(f.object)
	switch {
	case directly:
		return nil, nil
	case memory == nil:
		return nil, syscall.ENODEV
	}
	return memory.File()
}

// bpfCaller is a process that calls bpf(2).
type bpfCaller struct {
	all    *Descriptors
	fs     *anoninode.FS
	caller host.Caller
	pid    int
	memory io.ReaderAt
	call   *BPFCall
	writes []BPFWrite
}

// Access implements bpf.Caller.
func (c *bpfCaller) Access(fd int) uint32 {
	if f := findBPF(c.fs, c.pid, fd); f != nil {
		return f.access
	}
	return 0
}

// Pin implements bpf.Caller.
func (c *bpfCaller) Pin(object any) error {
	if c.call.Path == "" || c.call.Files == nil {
		return cmp.Or(c.call.Refused, syscall.EPERM)
	}
	return c.call.Files.Pin(c.call.Path, object)
}

// Pinned implements bpf.Caller.
func (c *bpfCaller) Pinned(access uint32) (any, error) {
	if c.call.Path == "" || c.call.Files == nil {
		return nil, cmp.Or(c.call.Refused, syscall.EACCES)
	}
	flags := uint32(unix.O_RDWR)
	switch access {
	case unix.BPF_F_RDONLY:
		flags = unix.O_RDONLY
	case unix.BPF_F_WRONLY:
		flags = unix.O_WRONLY
	}
	return c.call.Files.Pinned(c.call.Path, flags)
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
func (c *bpfCaller) Task() bpf.Task { return c.all.taskOf(c.caller) }

// Object implements bpf.Caller.
func (c *bpfCaller) Object(fd int) any { return c.find(c.pid, fd) }

// FreeFD implements bpf.Caller.
func (c *bpfCaller) FreeFD(first int) int {
	for exists(proc.Path(c.pid, "fd/"+strconv.Itoa(first))) {
		first++
	}
	return first
}

// ObjectOf implements bpf.Caller.
func (c *bpfCaller) ObjectOf(pid, fd int) (any, error) {
	if pid <= 0 || !exists(proc.Path(pid, "")) {
		return nil, fmt.Errorf("task %d: %w", pid, syscall.ENOENT)
	}
	return c.find(pid, fd), nil
}

// TaskOf implements bpf.Caller: pidfd_get_pid.
func (c *bpfCaller) TaskOf(fd int) (int32, error) {
	if fd < 0 {
		return 0, syscall.EBADF
	}
	text, _ := proc.Read(c.pid, "fdinfo/"+strconv.Itoa(fd))
	value, is := proc.Field(text, "Pid")
	if !is {
		return 0, fmt.Errorf("descriptor %d is not of a task: %w", fd, syscall.EBADF)
	}
	tid, err := strconv.ParseInt(value, 10, 32)
	if err != nil || tid <= 0 || !exists(proc.Path(int(tid), "")) {
		return 0, fmt.Errorf("the task of descriptor %d has ended: %w", fd, syscall.ENOENT)
	}
	return int32(tid), nil
}

// find returns what a descriptor of a process refers to, or nil.
func (c *bpfCaller) find(pid, fd int) any {
	if fd < 0 {
		return nil
	}
	if f := findBPF(c.fs, pid, fd); f != nil {
		return f.object
	}
	if perfFS := c.all.perf.present(); perfFS != nil {
		if f, ok := perfFS.Find(pid, fd).(*perfFile); ok {
			return f.event
		}
	}
	// The link is not followed: the file system of the file may be one that does not answer.
	if _, err := os.Readlink(proc.Path(pid, "fd/"+strconv.Itoa(fd))); err == nil {
		return otherFile{}
	}
	return nil
}

// FDInfo returns what /proc/PID/fdinfo/FD says of a descriptor of bpf(2) beside its position and flags. It fails with
// ErrNotOurs if it is none of ours.
func (d *Descriptors) FDInfo(pid, fd int) (string, error) {
	if fs := d.bpf.present(); fs != nil {
		if f := findBPF(fs, pid, fd); f != nil {
			return f.system.FDInfo(f.object), nil
		}
	}
	return "", ErrNotOurs
}

// otherFile is what a descriptor refers to that has nothing to do with bpf(2).
type otherFile struct{}

// SetBPF is PERF_EVENT_IOC_SET_BPF: it attaches the program of one descriptor of a process to the event of
// another one, until that is closed. It fails with ErrNotOurs if that is no event of ours.
func (d *Descriptors) SetBPF(c host.Caller, event, program int) error {
	perfFS := d.perf.present()
	if perfFS == nil {
		return ErrNotOurs
	}
	f, ok := perfFS.Find(c.PID, event).(*perfFile)
	if !ok {
		return ErrNotOurs
	}
	fs := d.bpf.present()
	if fs == nil {
		return syscall.EBADF
	}
	file := findBPF(fs, c.PID, program)
	if file == nil {
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
	system := d.tracer.BPF()
	detach, err := system.AttachPerf(f.event, p, 0)
	if err != nil {
		return err
	}
	system.Ref(p)
	f.detach = func() {
		detach()
		system.Release(p)
	}
	return nil
}

// fileOf returns the file of an object.
func (d *Descriptors) fileOf(system *bpf.System, r bpf.Result, makesLink bool) anoninode.File {
	f := &bpfFile{all: d, system: system, object: r.Object, access: r.Access, made: makesLink}
	if it, ok := r.Object.(*bpf.Iterator); ok {
		return &iterFile{f, it}
	}
	return f
}

// iterFile is a descriptor of an iterator.
type iterFile struct {
	*bpfFile
	it *bpf.Iterator
}

// findBPF returns what a descriptor of a process is, or nil if it is none of bpf(2).
func findBPF(fs *anoninode.FS, pid, fd int) *bpfFile {
	switch f := fs.Find(pid, fd).(type) {
	case *bpfFile:
		return f
	case *iterFile:
		return f.bpfFile
	}
	return nil
}

var _ anoninode.Reader = (*iterFile)(nil)

// ReadIn implements anoninode.Reader.
func (f *iterFile) ReadIn(tid int, p []byte) (int, error) {
	pid, err := proc.Process(tid)
	if err != nil {
		pid = tid
	}
	c := host.Caller{TID: tid, PID: pid, Comm: func() string { name, _ := proc.Comm(tid); return name }}
	return f.it.Read(f.all.taskOf(c), p)
}

// Poll implements anoninode.File: a file without a poll of its own is always ready.
func (f *iterFile) Poll() (ready uint32, changed <-chan struct{}) {
	return anoninode.Readable | unix.POLLOUT | 0x100, nil // POLLWRNORM
}

// bpfFile is a descriptor of a map, program, link or of types.
type bpfFile struct {
	all    *Descriptors
	system *bpf.System
	object any
	access uint32 // as bpf.Result has it
	made   bool   // by a command that makes a link, where Linux has another name for it
}

// makesLink are the commands that make a link.
var makesLink = map[uint32]bool{unix.BPF_LINK_CREATE: true, unix.BPF_RAW_TRACEPOINT_OPEN: true}

// Name implements anoninode.Named: programs look at it.
func (f *bpfFile) Name() string {
	switch f.object.(type) {
	case *bpf.Map:
		return BPFName + "-map"
	case *bpf.Prog:
		return BPFName + "-prog"
	case *bpf.Link:
		if f.made {
			return BPFName + "_link"
		}
		return BPFName + "-link"
	case *bpf.BTF:
		return BPFName + "-btf"
	case *bpf.Iterator:
		return BPFName + "_iter"
	}
	return BPFName + "-stats"
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
	in, out, changed := m.Poll()
	if in {
		ready = unix.POLLIN
	}
	if out {
		ready |= unix.POLLOUT
	}
	return ready, changed
}

// Release implements anoninode.File.
func (f *bpfFile) Release() {
	f.system.Release(f.object)
	f.all.activity.Update()
}

// Ioctl implements anoninode.File.
func (f *bpfFile) Ioctl(int, uint32, uint64, []byte, []byte) error { return syscall.ENOTTY }

package bpf

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Iterators are kernel/bpf/bpf_iter.c: a program of type TRACING for the function bpf_iter_NAME is called for each object of
// one kind. Whoever reads a descriptor of BPF_ITER_CREATE, or the file of a pinned link, gets what the program writes.

const (
	iterPrefix = "bpf_iter_"
	iterRetry  = 1       // what a program returns that wants the same object again
	iterMost   = 1000000 // MAX_ITER_OBJECTS: of one read
)

// iterTarget is struct bpf_iter_reg: a kind of objects.
type iterTarget struct {
	name, arg, shows string // arg is the program's second argument, which points to a structure of the name shows
	sleeps           bool   // BPF_ITER_RESCHED: programs may sleep
	// next returns the first object that is not before one, and its number; ok is false if there is none.
	next func(it *Iterator, from uint64) (o iterObject, ok bool)
	// attach reads what a link says of the objects that are wanted; it may be nil.
	attach func(c Caller, l *Link, info []byte) error
}

// iterTargets are the kinds of objects that can be iterated over.
var iterTargets []*iterTarget

func init() {
	iterTargets = []*iterTarget{
		{name: "bpf_map", arg: "map", shows: "bpf_map", next: (*Iterator).nextMap},
		{name: "bpf_prog", arg: "prog", shows: "bpf_prog", next: (*Iterator).nextProg},
		{name: "task", arg: "task", shows: "task_struct", sleeps: true, next: (*Iterator).nextTask, attach: attachTasks},
	}
}

// iterTargetOf returns the target of a function, or nil.
func iterTargetOf(function string) *iterTarget {
	name, _ := strings.CutPrefix(function, iterPrefix)
	for _, t := range iterTargets {
		if t.name == name && name != function {
			return t
		}
	}
	return nil
}

// iterTarget is bpf_check_attach_target and bpf_iter_prog_supported of a program of an iterator. It fails with EINVAL.
func (v *verifier) iterTarget(t btf.Type, id uint32) (*target, error) {
	name, proto, err := v.traceable(t, id)
	if err != nil {
		return nil, err
	}
	if iterTargetOf(name) == nil {
		return nil, fmt.Errorf("no iterator %s: %w", name, syscall.EINVAL)
	}
	return &target{id: id, name: name, args: proto.Params, returns: proto.Return}, nil
}

// Which tasks a link wants: enum bpf_iter_task_type.
const (
	allTasks = iota
	oneThread
	oneProcess
)

// taskTypes are their names in fdinfo.
var taskTypes = [...]string{"ALL", "TID", "PID"}

// iterLink is what a link of an iterator has beside its program.
type iterLink struct {
	target *iterTarget
	tasks  int // allTasks, ...
	id     uint32
}

// attachIter is bpf_iter_link_attach.
func (s *System) attachIter(c Caller, a *attr, p *Prog) (Result, error) {
	const (
		infoSize = 16 // union bpf_iter_link_info, bytes
		maxInfo  = pageSize
	)
	at, size := a.u64(16), int(a.u32(24))
	if a.u32(4) != 0 || a.u32(12) != 0 || (at == 0) != (size == 0) {
		return Result{}, syscall.EINVAL
	}
	if size > maxInfo {
		return Result{}, syscall.E2BIG
	}
	var info []byte
	if size > 0 {
		var err error
		if info, err = read(c, at, size); err != nil {
			return Result{}, err
		}
	}
	if len(info) > infoSize && len(bytes.Trim(info[infoSize:], "\x00")) > 0 {
		return Result{}, fmt.Errorf("iter_info with more than is known: %w", syscall.E2BIG)
	}
	info = append(info, make([]byte, infoSize)...)[:infoSize]
	t := iterTargetOf(p.target.name)
	if p.sleepable && !t.sleeps {
		return Result{}, fmt.Errorf("a sleepable program of %s: %w", t.name, syscall.EINVAL)
	}
	l := &Link{kind: linkIter, prog: p, name: t.name, iter: &iterLink{target: t}}
	if t.attach != nil {
		if err := t.attach(c, l, info); err != nil {
			return Result{}, err
		}
	}
	return s.newLink(l), nil
}

// attachTasks is bpf_iter_attach_task: it takes the id of a thread, of a process, or a descriptor of pidfd_open(2).
func attachTasks(c Caller, l *Link, info []byte) error {
	tid, pid, fd := given(info, 0), given(info, 4), given(info, 8)
	switch {
	case tid != 0 && pid != 0, tid != 0 && fd != 0, pid != 0 && fd != 0:
		return fmt.Errorf("more than one task: %w", syscall.EINVAL)
	case tid != 0:
		l.iter.tasks, l.iter.id = oneThread, tid
	case pid != 0:
		l.iter.tasks, l.iter.id = oneProcess, pid
	case fd != 0:
		of, err := c.TaskOf(int(int32(fd)))
		if err != nil {
			return fmt.Errorf("a descriptor of a task: %w", err)
		}
		l.iter.tasks, l.iter.id = oneProcess, uint32(of)
	}
	return nil
}

// replaceIter is bpf_iter_link_replace: an iterator that is made from now on runs another program. It fails with EPERM if the
// link has another program than old, which may be nil, and with EINVAL for a program of another target.
func (s *System) replaceIter(l *Link, p, old *Prog) error {
	s.objects.Lock()
	before := l.prog
	switch {
	case old != nil && before != old:
		s.objects.Unlock()
		return fmt.Errorf("the link has another program: %w", syscall.EPERM)
	case p.kind != before.kind || p.attachType != before.attachType || p.attachID != before.attachID:
		s.objects.Unlock()
		return fmt.Errorf("a program of another iterator: %w", syscall.EINVAL)
	}
	l.prog = p
	s.ref(p)
	ends := s.unref(before)
	s.objects.Unlock()
	for _, end := range ends {
		end()
	}
	return nil
}

// iterCreate is BPF_ITER_CREATE.
func (s *System) iterCreate(c Caller, a *attr) (Result, error) {
	if a.u32(4) != 0 {
		return Result{}, syscall.EINVAL
	}
	l, ok := c.Object(a.fd(0)).(*Link)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	it, err := s.iterate(l)
	if err != nil {
		return Result{}, err
	}
	return Result{Object: it}, nil
}

// OpenPinned is open(2) of the file of a pinned object: the file of an iterator's link is an iterator, which Release ends. It fails
// with EIO for others, which have nothing to read.
func (s *System) OpenPinned(object any) (*Iterator, error) {
	l, ok := object.(*Link)
	if !ok || l.kind != linkIter {
		return nil, fmt.Errorf("a pinned object has nothing to read: %w", syscall.EIO)
	}
	return s.iterate(l)
}

// iterate makes an iterator of a link. It fails with EINVAL for another link.
func (s *System) iterate(l *Link) (*Iterator, error) {
	if l.kind != linkIter {
		return nil, fmt.Errorf("a link of type %d: %w", l.kind, syscall.EINVAL)
	}
	it := &Iterator{sys: s, of: l.iter, session: s.sessions.Add(1), objects: newIterObjects(s.types)}
	s.objects.Lock()
	defer s.objects.Unlock()
	it.prog = l.prog
	s.ref(it.prog)
	return it, nil
}

// Iterator is an iterator that is read: struct seq_file with its struct bpf_iter_priv_data.
type Iterator struct {
	sys     *System
	prog    *Prog // with a reference
	of      *iterLink
	session uint64

	mu      sync.Mutex // taken before System.objects; guards what follows
	buf     seqBuffer
	number  uint64 // seq_num: of the object that is shown
	from    uint64 // the number of the next object
	done    bool   // the program was told of the end
	tasks   []iterTask
	objects *iterObjects
}

// iterObject is an object that a program is shown: its number, by which objects follow one another, and its address; fill
// makes the memory there if it is not the kernel's.
type iterObject struct {
	id, addr uint64
	fill     func(m *iterObjects)
}

// Read is bpf_seq_read: it reads what the program writes in a task. It fails with EAGAIN if the program wants its first object
// again, and with E2BIG for an object of which it writes too much.
func (it *Iterator) Read(task Task, p []byte) (int, error) {
	it.mu.Lock()
	defer it.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if len(it.buf.unread()) > 0 {
		return it.buf.take(p), nil
	}
	it.buf.reset()
	it.tasks = nil
	if err := it.fill(task, len(p)); err != nil {
		return 0, err
	}
	return it.buf.take(p), nil
}

// fill runs the program until it has written size bytes, or has seen all objects.
func (it *Iterator) fill(task Task, size int) error {
	o, more := it.next()
	for n := 0; more; n++ {
		before := it.buf.mark()
		again, err := it.show(task, &o)
		if again || err != nil {
			if it.buf.back(before); before == 0 {
				return cmp.Or(err, error(syscall.EAGAIN))
			}
			return nil
		}
		it.from = o.id + 1
		if o, more = it.next(); !more {
			break
		}
		it.number++
		switch {
		case it.buf.mark() >= size:
			return nil
		case n >= iterMost && it.buf.mark() == 0:
			return fmt.Errorf("%d objects of which nothing is written: %w", n, syscall.EAGAIN)
		case n >= iterMost:
			return nil
		}
	}
	if it.done {
		return nil
	}
	before := it.buf.mark()
	if _, err := it.show(task, nil); err != nil {
		if it.buf.back(before); before == 0 {
			return err
		}
		return nil
	}
	it.done = true
	return nil
}

func (it *Iterator) next() (iterObject, bool) { return it.of.target.next(it, it.from) }

// show runs the program for an object, or for the end if that is nil. It reports whether the program wants it again, and fails with
// E2BIG if what it has written has no room.
func (it *Iterator) show(task Task, o *iterObject) (again bool, err error) {
	s, m := it.sys, it.objects
	m.begin(s.conf.Kernel)
	m.meta(it.session, it.number)
	addr := uint64(0)
	if o != nil {
		if addr = o.addr; o.fill != nil {
			o.fill(m)
		}
	}
	h := NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: m, Now: s.conf.Now}, task)
	h.Ctx = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, iterMetaAddr), addr)
	h.seq = &it.buf
	s.mem.Lock()
	ret := s.runLocked(Attached{Prog: it.prog}, h)
	s.mem.Unlock()
	switch {
	case ret != 0:
		return true, nil
	case it.buf.overflowed():
		return false, syscall.E2BIG
	}
	return false, nil
}

// nextMap and nextProg are bpf_map_get_curr_or_next and its kin.
func (it *Iterator) nextMap(from uint64) (iterObject, bool) {
	return nextOf(it.sys, &it.sys.maps, from, (*iterObjects).aMap)
}

func (it *Iterator) nextProg(from uint64) (iterObject, bool) {
	return nextOf(it.sys, &it.sys.progs, from, (*iterObjects).aProg)
}

// nextOf returns the first object of a table that is not before a number.
func nextOf[T interface{ pointer() uint64 }](s *System, of *table[T], from uint64, fill func(*iterObjects, T)) (iterObject, bool) {
	s.objects.Lock()
	defer s.objects.Unlock()
	id, ok := of.notBefore(from)
	if !ok {
		return iterObject{}, false
	}
	o := of.all[id]
	return iterObject{id: uint64(id), addr: o.pointer(), fill: func(to *iterObjects) { fill(to, o) }}, true
}

// notBefore returns the smallest number that is in use and not less than one.
func (t *table[T]) notBefore(from uint64) (uint32, bool) {
	switch {
	case from > uint64(t.last):
		return 0, false
	case from > 0:
		from--
	}
	return t.after(uint32(from))
}

// iterTask is a task of the kernel.
type iterTask struct {
	tid, tgid uint32
	addr      uint64
}

// nextTask is task_seq_get_next. The tasks of one read are those that there are at its beginning.
func (it *Iterator) nextTask(from uint64) (iterObject, bool) {
	if it.tasks == nil {
		it.tasks = it.sys.allTasks()
		it.tasks = slices.DeleteFunc(it.tasks, func(t iterTask) bool {
			return it.of.tasks == oneThread && t.tid != it.of.id || it.of.tasks == oneProcess && t.tgid != it.of.id
		})
	}
	n, _ := slices.BinarySearchFunc(it.tasks, from, func(t iterTask, from uint64) int { return cmp.Compare(uint64(t.tid), from) })
	if n == len(it.tasks) {
		return iterObject{}, false
	}
	return iterObject{id: uint64(it.tasks[n].tid), addr: it.tasks[n].addr}, true
}

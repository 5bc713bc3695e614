package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A process is not stopped at each call, where that can be avoided: the syscall instructions
// of its program, and of the libraries that it maps, are replaced so that they ring for the calls
// that can be seen (package doorbell), and its threads go on from ring to ring. That is done
// when the text is new to the process, so that no thread is in it.
//
// A process that was there when the first probe was armed is made to ring later, if it has one thread
// only (late.go).
//
// All other processes are stopped at each call: those whose text has a syscall instruction that cannot
// be replaced, or that make code, and those that have filters of their own, which may kill them for a
// number that does not exist.

// image is the text of a process whose calls ring.
type image struct {
	rooms   []uint64        // where the sets of calls are that ring
	covered map[uint64]bool // mappings that need no further look, by where they begin
	rings   doorbell.Set    // the calls that can ring
	busy    bool            // a thread is on an errand
	shared  bool            // another process with an image has, or had, the same memory
}

func (i *image) clone() *image {
	c := &image{rooms: slices.Clone(i.rooms), covered: map[uint64]bool{}, rings: i.rings, shared: i.shared}
	for at := range i.covered {
		c.covered[at] = true
	}
	return c
}

// controlCalls ring always: they change what is known of a process, or the supervisor is notified of them, and a
// signal that comes before must not end them (again).
var controlCalls = func() *doorbell.Set {
	var s doorbell.Set
	for _, nr := range []uint64{
		unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT, unix.SYS_SHMAT, unix.SYS_PTRACE, unix.SYS_SECCOMP, unix.SYS_PRCTL,
	} {
		s.Add(nr)
	}
	for _, row := range calls.Told {
		if row.OpensFile() {
			s.Add(row.Host)
		}
	}
	return &s
}()

// findWanted returns the calls that can be seen.
func (m *Mirror) findWanted() doorbell.Set {
	var s doorbell.Set
	a := m.activity.Load()
	if a == nil || !m.on.Load() {
		return s
	}
	for nr, row := range calls.Rows {
		if row.Plain() && m.plain && a.Mirrored(row.Guest) || row.By != calls.Supervisor && (a.Mirrored(row.Guest) || row.By == calls.Either && a.Told(row.Guest)) {
			s.Add(nr)
		}
	}
	return s
}

// setRings has the processes ring for the calls that can be seen from now on, and for none if
// nothing can be seen any more.
func (m *Mirror) setRings() {
	m.wanted = m.findWanted()
	for pid, i := range m.images {
		if !m.on.Load() || !m.wanted.Within(&i.rings) || i.set(pid, &m.wanted, controlCalls) != nil {
			m.silenceOne(pid)
		}
	}
}

// set writes the sets of calls that ring.
func (i *image) set(pid int, of, always *doorbell.Set) error {
	if len(i.rooms) == 0 {
		return nil
	}
	mem, err := os.OpenFile(proc.Path(pid, "mem"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for _, room := range i.rooms {
		if _, err := mem.WriteAt(doorbell.Sets(of, always), int64(room)); err != nil {
			return err
		}
	}
	return nil
}

// silence has a process ring no more, nor those that share its memory, as the parent of a vfork(2). Their
// threads are stopped at each call from now on or, if nothing can be seen, let go.
func (m *Mirror) silence(pid int) {
	if i := m.images[pid]; i != nil && i.shared {
		for other, o := range m.images {
			if o.shared && other != pid && sharesMemory(pid, other) {
				m.silenceOne(other)
			}
		}
	}
	m.silenceOne(pid)
}

// sharesMemory reports whether two processes are known to share their memory.
func sharesMemory(a, b int) bool {
	shared, err := hostview.SharesMemory(a, b)
	return err == nil && shared
}

// silenceOne does that for one process.
func (m *Mirror) silenceOne(pid int) {
	i := m.images[pid]
	if i == nil {
		return
	}
	delete(m.images, pid)
	_ = i.set(pid, &doorbell.Set{}, &doorbell.Set{})
	for _, t := range m.tracees {
		if _, held := m.held[t]; t.pid == pid && !held && !t.stopped {
			m.later[t] = struct{}{}
		}
	}
}

// inherit gives a process's child the same image: its memory is a copy, or the same.
func (m *Mirror) inherit(parent, child int) {
	if child == parent {
		return
	}
	if i := m.images[parent]; i != nil && m.images[child] == nil {
		i.shared = i.shared || sharesMemory(parent, child)
		m.images[child] = i.clone()
	}
	if l := m.lates[parent]; l != nil {
		of := *l
		m.lates[child] = &of
	}
}

// handleRing handles the stop at a call that a filter leaves to the tracer.
func (m *Mirror) handleRing(t *tracee, info *syscallInfo) {
	if !m.answer(t, info) { // a filter of the program's own: as without a tracer
		_ = setCall(t.tid, noCall)
		m.resume(t, 0)
		return
	}
	m.handleEntry(t, info)
}

// answer puts the number of the call in place of the one by which a thread rings for it. It
// returns false for other calls.
func (m *Mirror) answer(t *tracee, info *syscallInfo) bool {
	nr, ok := doorbell.Ring(info.nr)
	arch, known := calls.Arch()
	t.rang = ok && known && info.arch == arch && setCall(t.tid, nr) == nil
	if t.rang {
		info.nr = nr
	}
	return t.rang
}

// ringAgain has a call ring again that the kernel makes again after a signal.
func (t *tracee) ringAgain(ret int64) {
	const noHandler = -514 // ERESTARTNOHAND
	if t.rang && (ret == errRestart || ret == errRestartAlways || ret == noHandler) {
		_ = setCall(t.tid, doorbell.Base+t.nr)
	}
}

// noteControl looks at a call that changes what is known of the thread's process.
func (m *Mirror) noteControl(t *tracee) {
	if m.images[t.pid] == nil {
		return
	}
	const exec = unix.PROT_EXEC
	switch t.nr {
	case unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_PKEY_MPROTECT:
		t.fresh = t.args[2]&exec != 0
	case unix.SYS_SHMAT:
		const shmExec = 0x8000
		t.fresh = t.args[2]&shmExec != 0
	case unix.SYS_SECCOMP:
		m.silence(t.pid)
	case unix.SYS_PRCTL:
		if t.args[0] == unix.PR_SET_SECCOMP {
			m.silence(t.pid)
		}
	}
}

// covering is the work of making new text of a process ring, while a thread of it maps memory for that.
type covering struct {
	image *image
	todo  []mapping
	at    int  // the one for which there is no room yet
	late  bool // the process has executed the text

	resume uint64 // where the thread goes on
	kept   uint64 // where the errand's code has that
	mapped uint64 // where it is when it has mapped memory for us, or 0
}

// mapping is a mapping of a process that is executed.
type mapping struct {
	proc.Mapping
	text *doorbell.Text
	bias uint64 // how much higher the text is than the file says
	room uint64 // the memory beside it, or 0
}

func (a *mapping) file() fileID { return fileID{a.Dev, a.Ino} }

// fileID tells files apart as /proc/PID/maps does.
type fileID struct {
	dev string
	ino uint64
}

// texts keeps what doorbell.Read has found in files, which takes up to a second.
type texts struct {
	mu    sync.Mutex
	known map[fileID]*fileText
}

type fileText struct {
	done atomic.Bool
	text *doorbell.Text // nil: it cannot ring
}

// maxTexts is how many files' texts are remembered.
const maxTexts = 1 << 10

// of returns what is known of a mapping's file. If nothing is, it finds it out in a goroutine, which calls
// done, or returns nil unless read is set.
func (t *texts) of(pid int, at *mapping, read bool, done func()) *fileText {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.known[at.file()]; f != nil || !read {
		return f
	}
	if len(t.known) >= maxTexts {
		clear(t.known)
	}
	f := &fileText{}
	t.known[at.file()] = f
	of := *at
	go func() {
		defer done()
		defer f.done.Store(true)
		file, err := openMapped(pid, &of)
		switch {
		case err == nil:
			f.text, _ = doorbell.Read(file)
			_ = file.Close()
		case !stillMaps(pid, &of): // the process has ended, or executes another program: that says nothing of the file
			t.forget(of.file())
		}
	}()
	return f
}

// forget drops what is known of a file, which has changed.
func (t *texts) forget(f fileID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, f)
}

// stillMaps reports whether a process still has a mapping.
func stillMaps(pid int, of *mapping) bool {
	all, err := executables(pid)
	return err == nil && slices.ContainsFunc(all, func(a mapping) bool { return a.Start == of.Start && a.file() == of.file() })
}

// openMapped opens the file of a mapping.
func openMapped(pid int, of *mapping) (*os.File, error) {
	hex := func(v uint64) string { return strconv.FormatUint(v, 16) }
	for _, name := range []string{"map_files/" + hex(of.Start) + "-" + hex(of.End), "exe", "root" + of.Path} {
		at, err := hostview.OpenHandle(proc.Path(pid, name), unix.O_PATH) // opening a device or a FIFO does something
		if err != nil {
			continue
		}
		st, err := at.Stat()
		if err != nil || !st.Mode().IsRegular() || st.Sys().(*syscall.Stat_t).Ino != of.Ino {
			_ = at.Close()
			continue
		}
		f, err := os.Open(proc.Path(os.Getpid(), "fd/"+strconv.Itoa(int(at.Fd()))))
		_ = at.Close()
		return f, err
	}
	return nil, unix.ENOENT
}

// executables returns the mappings of a process that are executed.
func executables(pid int) (all []mapping, err error) {
	maps, err := proc.Read(pid, "maps")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(maps) {
		m, ok := proc.ParseMapping(line)
		if !ok {
			return nil, fmt.Errorf("%q: %w", line, unix.EINVAL)
		}
		if m.Perms[2] == 'x' {
			all = append(all, mapping{Mapping: m})
		}
	}
	return all, nil
}

// cover has a thread's process ring for calls of text that it has not executed yet. The thread
// has stopped at the end of a call, and goes on when that is done.
func (m *Mirror) cover(t *tracee) {
	i := m.images[t.pid]
	if i == nil {
		if !t.program {
			m.resume(t, 0)
			return
		}
		i = &image{covered: map[uint64]bool{}, rings: m.wanted.Union(controlCalls)}
		if err := m.mayRing(t); err != nil {
			m.giveUp(t, err)
			return
		}
	}
	if i.busy {
		m.giveUp(t, errBusy)
		return
	}
	switch todo, made, known, err := m.list(t, i, true); {
	case err != nil:
		m.giveUp(t, err)
	case len(made) > 0:
		m.giveUp(t, errForeign)
	case !known:
		m.hold(t, forText)
	default:
		i.busy = true
		t.covering = &covering{image: i, todo: todo}
		m.makeRoom(t)
	}
}

// Why a process does not ring.
var (
	errBusy     = errors.New("two threads map text at once")
	errForeign  = errors.New("code that the program has made, or that others can change")
	errFilters  = errors.New("it has filters of its own")
	errNoText   = errors.New("a file that cannot ring")
	errLate     = errors.New("a file that is not read in time")
	errDisabled = errors.New("nothing rings there")
)

// giveUp has a thread's process ring no more, or not begin to, and lets the thread go on.
func (m *Mirror) giveUp(t *tracee, err error) {
	m.log.WithFields(logrus.Fields{"pid": t.pid, "err": err}).Debug("its calls are stopped at")
	m.finish(t)
	m.silence(t.pid)
	m.resume(t, 0)
}

// finish ends the work for a thread's process.
func (m *Mirror) finish(t *tracee) {
	if t.covering != nil {
		t.covering.image.busy = false
	}
	t.covering, t.program = nil, false
}

// mayRing fails if the process of a thread that has a new program may not ring.
func (m *Mirror) mayRing(t *tracee) error {
	if !canRing || t.space == nil || !t.space.rings {
		return errDisabled
	}
	// A filter below the supervisor's could kill the process for a number that does not exist.
	filters, ok := proc.Status(t.tid, "Seccomp_filters")
	own, known := proc.Status(t.space.server, "Seccomp_filters")
	n, err := strconv.Atoi(filters)
	most, oerr := strconv.Atoi(own)
	if !ok || !known || err != nil || oerr != nil || n > most+1 {
		return errFilters
	}
	return nil
}

// list finds the mappings of a thread's process of which the calls are to ring, and those that are not of a
// file. known is false while the text of one of the files is being looked at, which is begun if read is set: then
// t.text is that.
func (m *Mirror) list(t *tracee, i *image, read bool) (todo, made []mapping, known bool, err error) {
	all, err := executables(t.pid)
	if err != nil {
		return nil, nil, false, err
	}
	known = true
	for _, a := range all {
		if i.covered[a.Start] || a.Path == "[vdso]" || a.Path == "[vsyscall]" || a.Path == "[uprobes]" || slices.Contains(i.rooms, a.Start) {
			continue
		}
		if a.Perms[3] != 'p' {
			return nil, nil, false, errForeign
		}
		if a.Ino == 0 {
			made = append(made, a)
			continue
		}
		of := m.texts.of(t.pid, &a, read, m.wake)
		switch {
		case of == nil, !of.done.Load():
			t.text, known = of, false
			continue
		case of.text == nil:
			return nil, nil, false, errNoText
		}
		a.text = of.text
		if a.bias, err = bias(&a); err != nil {
			return nil, nil, false, err
		}
		todo = append(todo, a)
	}
	if !known {
		return nil, nil, false, nil
	}
	for _, a := range todo {
		i.covered[a.Start] = true
	}
	return todo, made, true, nil
}

// bias returns how much higher a file's text is mapped than the file says.
func bias(a *mapping) (uint64, error) {
	const page = abi.PageSize
	for _, s := range a.text.Segments {
		if s.Offset&^(page-1) == a.Offset && s.Addr%page == s.Offset%page && a.End-a.Start >= s.Addr%page+s.Size {
			return a.Start - s.Addr&^(page-1), nil
		}
	}
	if len(a.text.Segments) == 0 { // a program of another architecture
		return 0, nil
	}
	return 0, unix.EINVAL
}

// makeRoom sends a thread on an errand, to map the memory for the next mapping, or finishes if there is none. The
// errand's code brings the thread back to where it was, whatever becomes of us.
func (m *Mirror) makeRoom(t *tracee) {
	c := t.covering
	for c.at < len(c.todo) && c.todo[c.at].text.Room(&c.image.rings) == 0 {
		c.at++
	}
	if c.at == len(c.todo) {
		m.applyText(t)
		return
	}
	if err := m.send(t, c, &c.todo[c.at]); err != nil {
		m.giveUp(t, err)
		return
	}
	m.resume(t, 0)
}

// send sends a thread on the errand for a mapping.
func (m *Mirror) send(t *tracee, c *covering, a *mapping) error {
	place, ok := c.place()
	if !ok {
		return unix.ENOSPC
	}
	mem, err := os.OpenFile(proc.Path(t.tid, "mem"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	first := c.mapped == 0
	if first {
		if c.resume, err = instructionOf(t.tid); err != nil {
			return err
		}
		if err := c.unused(mem, place); err != nil {
			return err
		}
	}
	code, again, mapped := doorbell.Errand(place, near(a), a.text.Room(&c.image.rings), c.resume)
	if _, err := mem.WriteAt(code, int64(place)); err != nil {
		return err
	}
	c.mapped, c.kept = mapped, place+uint64(len(code))-8
	if first {
		return goTo(t.tid, place)
	}
	return goTo(t.tid, again) // it has saved its registers
}

// unused fails with EBUSY if the end of a text, where an errand's code is to be, is not 0.
func (c *covering) unused(mem io.ReaderAt, place uint64) error {
	if len(c.image.rooms) > 0 {
		return nil
	}
	var b [doorbell.ErrandSize]byte
	if _, err := mem.ReadAt(b[:], int64(place)); err != nil {
		return err
	}
	if b != [doorbell.ErrandSize]byte{} {
		return unix.EBUSY
	}
	return nil
}

// place returns where an errand's code can be: in a room, or at the end of some text.
func (c *covering) place() (at uint64, ok bool) {
	if len(c.image.rooms) > 0 {
		return c.image.rooms[0] + doorbell.ErrandAt, true
	}
	for i := range c.todo {
		if at, ok = c.todo[i].text.Spare(); ok {
			return at + c.todo[i].bias, true
		}
	}
	return 0, false
}

// near is where a mapping's memory should be: within 2 GiB, and out of the way of what the
// program maps next.
func near(a *mapping) uint64 {
	const away, low = 64 << 20, 256 << 20
	if a.Start < low {
		return a.End&^0xfff + 1<<30
	}
	return a.Start - away
}

// errand handles the stops of a thread on an errand. It returns false for others.
func (m *Mirror) errand(t *tracee, info *syscallInfo) bool {
	c := t.covering
	if c == nil || info.ip != c.mapped {
		return false
	}
	if info.op != syscallExit {
		m.resume(t, 0)
		return true
	}
	a := &c.todo[c.at]
	a.room = info.nr // the result
	c.at++
	if ret := int64(a.room); failed(ret) {
		m.giveUp(t, unix.Errno(-ret))
	} else {
		m.makeRoom(t)
	}
	return true
}

// failed reports whether what a call returns is an errno.
func failed(ret int64) bool { return ret < 0 && ret > -4096 }

// applyText changes the text, for which there is room now.
func (m *Mirror) applyText(t *tracee) {
	c := t.covering
	err := error(nil)
	if c.late {
		err = m.checkUndisturbed(t, c)
	}
	if err == nil {
		err = m.change(t, c)
	}
	if err != nil {
		m.giveUp(t, err)
		return
	}
	m.finish(t)
	if m.on.Load() {
		m.images[t.pid] = c.image
		if !m.wanted.Within(&c.image.rings) { // since it was looked at
			m.silence(t.pid)
		}
	}
	m.resume(t, 0)
}

// memoryOf reads a thread's memory.
func memoryOf(tid int) doorbell.Reader {
	return func(addrs []uint64, into [][]byte) error { return proc.ReadParts(tid, addrs, into) }
}

// change writes the new text.
func (m *Mirror) change(t *tracee, c *covering) error {
	mem, err := os.OpenFile(proc.Path(t.tid, "mem"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	for n := range c.todo {
		a := &c.todo[n]
		if a.room == 0 {
			continue
		}
		p, err := a.text.Program(a.bias, a.room, &c.image.rings)
		if err != nil {
			return err
		}
		copy(p.Code, doorbell.Sets(&m.wanted, controlCalls))
		if _, err := mem.WriteAt(p.Code, int64(a.room)); err != nil {
			return err
		}
		if err := p.Check(memoryOf(t.tid)); err != nil { // the file has changed since it was read
			m.texts.forget(a.file())
			return err
		}
		switch to, moved := p.Moved[c.resume]; {
		case moved:
			if _, err := mem.WriteAt(binary.LittleEndian.AppendUint64(nil, to), int64(c.kept)); err != nil {
				return err
			}
		case a.text.Inside(a.bias, c.resume, &c.image.rings):
			return errInside
		}
		for _, one := range p.Patches {
			if _, err := mem.WriteAt(one.Code, int64(one.Addr)); err != nil {
				return err
			}
		}
		c.image.rooms = append(c.image.rooms, a.room)
	}
	return nil
}

// handleNewText handles the end of a call that may have given a process new text.
func (m *Mirror) handleNewText(t *tracee, ret int64) {
	t.cover = !failed(ret)
	if i := m.images[t.pid]; i != nil && t.cover && t.nr == unix.SYS_MMAP {
		i.forgetMappings(uint64(ret), t.args[1])
	}
	if t.call != nil || !t.cover { // a call that can be seen first returns in the guest
		t.ringAgain(ret)
		m.handleReturn(t, ret)
		return
	}
	m.goOn(t)
}

// forgetMappings forgets the mappings in place of which there is another one of size bytes.
func (i *image) forgetMappings(at, size uint64) {
	for start := range i.covered {
		if start >= at && start-at < size {
			delete(i.covered, start)
		}
	}
}

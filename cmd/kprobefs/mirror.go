package main

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A mirror stops the command's threads before and after their calls by ptrace(2), while
// one of the calls that it mirrors can be seen. At the beginning of such a call the guest
// makes the same one, up to the point where the file's operation would do its work; then
// the host's kernel makes the call; at its end the guest gets the result and returns,
// and after that the program does.
//
// All ptrace(2) calls for a thread must come from the thread that has attached to it.
// Hence one thread does everything here. It never waits for the guest: it only notes
// that a thread is held, and goes on with others. It executes the guest's part of a call
// itself where nothing has to be waited for (host.StartMirror, pageMaps), which is how a
// call costs two stops and no wake-up of another thread.
//
// A thread is detached at its first stop after nothing can be seen any more. When this
// process dies, the host's kernel detaches all, wherever they are.

// How long a thread is held for the guest. When it has taken too long, the next calls
// are held less.
const (
	mirrorPatience = time.Second
	slowMirror     = 5 * time.Millisecond
)

// laterPeriod is how often the threads are looked at that could not be stopped yet.
const laterPeriod = 20 * time.Millisecond

// mirror is the thread that traces the command's threads.
type mirror struct {
	log      *logrus.Logger
	activity atomic.Pointer[kprobefs.Activity]
	on       atomic.Bool
	starting sync.Once
	tid      int          // of the tracing thread
	joined   atomic.Int32 // the number of spaces

	events   atomic.Uint32 // counts what wake is called for
	waits    atomic.Bool   // the tracing thread waits for that
	told     sync.Map      // *mirrorWork by thread: calls of toldCalls that threads make
	mu       sync.Mutex
	requests []func() // for the tracing thread

	// The rest belongs to the tracing thread.
	spaces  map[string]*mirrorSpace // by the name of the mount namespace
	tracees map[int]*tracee
	held    map[*tracee]struct{}
	later   map[*tracee]struct{} // seized, to be interrupted when they have left a call
	maps    pageMaps
	slow    atomic.Bool // the guest was too slow for the last call
}

// mirrorSpace is a mount namespace with a supervised command.
type mirrorSpace struct {
	name   string
	server int    // the supervisor, which is never traced
	exe    string // its file, which the command has before it executes its own
	files  *mirrorFiles
	view   view
}

// tracee is a thread that is traced.
type tracee struct {
	tid, pid int
	space    *mirrorSpace
	inCall   bool        // it is between the two stops of a call
	nr       uint64      // the number of the call that it made last
	call     *mirrorWork // the call, if it is mirrored
	row      *mirroredCall
	args     [6]uint64

	holds    heldFor
	deadline time.Time
	awaits   *tracee // is to be let go before this one goes on
	letGo    bool
}

// heldFor is why a thread is held.
type heldFor int

const (
	forNothing heldFor = iota
	forEntry           // until the guest has come to the host's part
	forReturn          // until the guest has returned
	forOther           // until awaits is detached
)

// mirrorWork is a call in the guest.
type mirrorWork struct {
	reached, ended atomic.Bool
	told           atomic.Bool // a supervisor has told of the call; not set for those that need no such
	opens          bool        // it is one of openCalls
	made           chan host.Made
	memory         callMemory
	wait           *pollWait // what the call waits for, if it does

	run *host.MirrorRun // of a call that the tracing thread has begun, until it ends it
}

// What a call returns in the kernel when a signal ends it: ERESTARTSYS, or of sleeps
// ERESTART_RESTARTBLOCK.
const (
	errRestart      = -512
	errRestartBlock = -516
)

// errRestartAlways (ERESTARTNOINTR) has the kernel make the call again after the signal,
// whatever the signal's handler wants.
const errRestartAlways = -513

// canMirror reports whether this process may trace others in every way. Without that
// privilege set-user-ID programs would lose theirs.
func canMirror() bool {
	const sysPtrace = 19
	text, ok := proc.Status(os.Getpid(), "CapEff")
	caps, err := strconv.ParseUint(text, 16, 64)
	return ok && err == nil && caps>>sysPtrace&1 != 0
}

// newMirror returns a mirror that traces nothing before the first command joins.
func newMirror(log *logrus.Logger) *mirror {
	return &mirror{
		log: log, spaces: map[string]*mirrorSpace{},
		tracees: map[int]*tracee{}, held: map[*tracee]struct{}{}, later: map[*tracee]struct{}{},
		maps: pageMaps{open: map[int]int{}},
	}
}

// join has a command's threads traced: those in its supervisor's mount namespace. It starts
// the tracing thread the first time.
func (m *mirror) join(space string, server int, exe string) error {
	if !canMirror() {
		return errors.New("CAP_SYS_PTRACE is missing")
	}
	at, err := viewOf(space, server)
	if err != nil {
		return err
	}
	m.starting.Do(func() {
		started := make(chan struct{})
		go m.run(started)
		<-started
	})
	m.do(func() {
		m.spaces[space] = &mirrorSpace{space, server, exe, newMirrorFiles(server), at}
		m.joined.Store(int32(len(m.spaces)))
		if m.on.Load() {
			m.attachAll()
		}
	})
	return nil
}

// leave lets the threads go of a command that has joined, if it has.
func (m *mirror) leave(space string) {
	if m.joined.Load() == 0 {
		return
	}
	m.do(func() {
		s := m.spaces[space]
		if s == nil {
			return
		}
		delete(m.spaces, space)
		m.joined.Store(int32(len(m.spaces)))
		for _, t := range m.tracees {
			if t.space == s {
				m.letGo(t)
			}
		}
		s.view.close()
	})
}

// letGo has a thread detached as soon as it can be stopped.
func (m *mirror) letGo(t *tracee) {
	t.letGo = true
	if _, held := m.held[t]; !held {
		m.later[t] = struct{}{}
	}
}

// Calls returns the calls that are mirrored.
func (m *mirror) Calls() []uint64 { return mirroredNumbers() }

// Mirror starts to trace all threads of the command, or ends that.
func (m *mirror) Mirror(on bool) {
	m.on.Store(on)
	if on && m.joined.Load() > 0 {
		m.do(m.attachAll)
	}
}

// Answering has a thread stop when it has the answer to its request. The host's kernel
// tells of that as an interruption, which comes too late to change the answer.
func (m *mirror) Answering(tid int) {
	if tid > 0 && m.joined.Load() > 0 {
		m.do(func() { m.answering(tid) })
	}
}

func (m *mirror) answering(tid int) {
	t := m.tracees[tid]
	if t == nil {
		if pid, err := proc.Process(tid); err == nil {
			if s := m.spaceOf(pid); s != nil {
				t = m.seize(tid, pid, s)
			}
		}
	}
	if t == nil {
		return
	}
	if _, waits := m.later[t]; waits {
		delete(m.later, t)
		_ = ptrace(ptraceInterrupt, tid, 0, 0)
	}
}

// do has the tracing thread call f, and waits for it, as long as for the guest. That thread
// may be about to wait when the signal comes, so it is sent again.
func (m *mirror) do(f func()) {
	done := make(chan struct{})
	m.mu.Lock()
	m.requests = append(m.requests, func() { f(); close(done) })
	m.mu.Unlock()
	late := time.NewTimer(m.patience())
	defer late.Stop()
	again := time.NewTicker(100 * time.Microsecond)
	defer again.Stop()
	for {
		m.wake()
		_ = unix.Tgkill(os.Getpid(), m.tid, interruptSignal)
		select {
		case <-done:
			return
		case <-late.C:
			m.slow.Store(true)
			return
		case <-again.C:
		}
	}
}

// wake ends the tracing thread's wait for the guest.
func (m *mirror) wake() {
	m.events.Add(1)
	if m.waits.Load() {
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m.events)), futexWakePrivate, 1, 0, 0, 0)
	}
}

const futexWaitPrivate, futexWakePrivate = 128, 129

// interruptSignal interrupts the tracing thread's wait4(2).
const interruptSignal = unix.Signal(40)

// run is the tracing thread. While it holds no thread it waits in wait4(2), otherwise
// for the guest, and looks for stops of other threads now and then.
func (m *mirror) run(started chan struct{}) {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1) // this thread's: it must not take that of a vCPU
	m.tid = unix.Gettid()
	setSignalFlags(unix.SIGCHLD, saNoCldStop, 0)
	setSignalFlags(interruptSignal, 0, saRestart)
	close(started)
	var poll host.Poll
	began := time.Now() // to wait
	came := func() {
		now := time.Now()
		poll.Waited(now.Sub(began))
		began = now
	}
	for {
		events := m.events.Load()
		m.serveRequests()
		seen := m.reap(unix.WNOHANG)
		if m.releaseHeld() || seen {
			came()
			continue
		}
		m.interruptLater()
		switch {
		case len(m.later) > 0 && len(m.held) == 0 || len(m.tracees) == 0:
			m.awaitGuest(events, laterPeriod)
			began = time.Now()
		case poll.Again(began):
		case len(m.held) > 0:
			m.awaitGuest(events, min(max(time.Since(began), minPause), maxPause))
		default:
			m.reap(0)
			came()
		}
	}
}

// How long the tracing thread waits for the guest before it looks for other threads' stops:
// as long as it has waited so far, within these limits.
const (
	minPause = 100 * time.Microsecond
	maxPause = 5 * time.Millisecond
)

// awaitGuest sleeps until wake has been called since events was read.
func (m *mirror) awaitGuest(events uint32, most time.Duration) {
	ts := unix.NsecToTimespec(int64(most))
	timeout := &ts
	if len(m.tracees) == 0 {
		timeout = nil
	}
	m.waits.Store(true)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m.events)), futexWaitPrivate, uintptr(events), uintptr(unsafe.Pointer(timeout)), 0, 0)
	m.waits.Store(false)
}

// Flags of struct sigaction.
const (
	saNoCldStop = 0x1
	saRestart   = 0x10000000
)

// setSignalFlags changes the flags with which Go has installed its handler of a signal.
func setSignalFlags(sig unix.Signal, set, unset uint64) {
	var action struct{ handler, flags, restorer, mask uint64 }
	at := uintptr(unsafe.Pointer(&action))
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, at, 8, 0, 0); errno != 0 {
		return
	}
	action.flags = action.flags&^unset | set
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), at, 0, 8, 0, 0)
}

func (m *mirror) serveRequests() {
	m.mu.Lock()
	requests := m.requests
	m.requests = nil
	m.mu.Unlock()
	for _, f := range requests {
		f()
	}
}

// reap handles the stops that have happened, and waits for one unless how is WNOHANG. It
// reports whether there was one.
func (m *mirror) reap(how int) (any bool) {
	for {
		var status unix.WaitStatus
		tid, err := waitTracee(&status, how)
		if err != nil || tid <= 0 {
			return any
		}
		m.stopped(tid, status)
		any, how = true, unix.WNOHANG
	}
}

// waitTracee is wait4(2) for a thread that this thread traces.
func waitTracee(status *unix.WaitStatus, how int) (int, error) {
	if how&unix.WNOHANG == 0 {
		return unix.Wait4(-1, status, unix.WALL|unix.WNOTHREAD, nil)
	}
	var s int32
	tid, _, errno := unix.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s)), unix.WALL|unix.WNOTHREAD|unix.WNOHANG, 0, 0, 0)
	if errno != 0 {
		return -1, errno
	}
	*status = unix.WaitStatus(s)
	return int(tid), nil
}

// spaceOf returns the space of a process of a command, or nil for other processes.
func (m *mirror) spaceOf(pid int) *mirrorSpace {
	ns, err := proc.Namespace(pid, "mnt")
	if err != nil {
		return nil
	}
	s := m.spaces[ns]
	if s == nil || pid == s.server || pid == os.Getpid() {
		return nil
	}
	exe, err := os.Readlink(proc.Path(pid, "exe"))
	if err != nil || exe == s.exe {
		return nil
	}
	return s
}

// spaceOfChild returns the space of a new thread: its namespace's, or that of who has created
// it, for it may have a namespace of its own.
func (m *mirror) spaceOfChild(tid, pid int) *mirrorSpace {
	if ns, err := proc.Namespace(tid, "mnt"); err == nil && m.spaces[ns] != nil {
		return m.spaces[ns]
	}
	if t := m.tracees[pid]; t != nil {
		return t.space
	}
	if s, err := proc.ReadStat(pid); err == nil {
		if t := m.tracees[s.Parent]; t != nil {
			return t.space
		}
	}
	return nil
}

// sees attaches to a thread of a command that is about to execute a program, and so far has
// the supervisor's file, by: it is the command's first, which nobody traces. The host's
// kernel stops it when it has.
func (m *mirror) sees(tid int, space, by string) {
	if m.joined.Load() == 0 || !m.on.Load() {
		return
	}
	if exe, err := os.Readlink(proc.Path(tid, "exe")); err != nil || exe != by {
		return
	}
	m.do(func() {
		s := m.spaces[space]
		if s == nil || m.tracees[tid] != nil {
			return
		}
		if pid, err := proc.Process(tid); err == nil {
			if t := m.seize(tid, pid, s); t != nil {
				delete(m.later, t)
			}
		}
	})
}

// attachAll attaches to all threads of the command. Threads that are created meanwhile
// are found in the next round, or are traced as children of traced ones.
func (m *mirror) attachAll() {
	for found := true; found; {
		found = false
		for _, pid := range numbers("/proc") {
			var space *mirrorSpace
			if t := m.tracees[pid]; t != nil {
				space = t.space
			} else if space = m.spaceOf(pid); space == nil {
				continue
			}
			for _, tid := range numbers(proc.Path(pid, "task")) {
				if m.tracees[tid] == nil && m.seize(tid, pid, space) != nil {
					found = true
				}
			}
		}
	}
	m.interruptLater()
}

// numbers returns the numbers in a directory of /proc.
func numbers(dir string) (all []int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// seize attaches to a thread, which goes on running: interruptLater stops it. It returns
// nil where that is refused, as for a thread that is traced already.
func (m *mirror) seize(tid, pid int, space *mirrorSpace) *tracee {
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC
	if err := ptrace(ptraceSeize, tid, 0, options); err != nil {
		return nil
	}
	t := &tracee{tid: tid, pid: pid, space: space}
	m.tracees[tid] = t
	m.later[t] = struct{}{}
	return t
}

// interruptLater stops the threads that are not in a call that a stop would end.
func (m *mirror) interruptLater() {
	for t := range m.later {
		if !interruptible(t.tid) {
			continue
		}
		delete(m.later, t)
		_ = ptrace(ptraceInterrupt, t.tid, 0, 0)
	}
}

// stopped handles a stop or the end of a thread.
func (m *mirror) stopped(tid int, status unix.WaitStatus) {
	t := m.tracees[tid]
	if status.Exited() || status.Signaled() {
		if t != nil {
			m.forget(t)
		}
		return
	}
	if !status.Stopped() {
		return
	}
	if t == nil { // a child of a traced thread
		pid, err := proc.Process(tid)
		if err != nil {
			pid = tid
		}
		t = m.born(tid, pid)
	}
	delete(m.later, t)
	sig, event := status.StopSignal(), int(status)>>16
	switch {
	case sig == unix.SIGTRAP|0x80:
		m.call(t)
	case event == ptraceEventStop && sig != unix.SIGTRAP: // a stop of the whole process
		if !m.leaves(t) {
			_ = ptrace(ptraceListen, tid, 0, 0)
		}
	case event == unix.PTRACE_EVENT_EXEC:
		m.executed(t)
		m.resume(t, 0)
	case event != 0:
		m.expect(t)
		m.resume(t, 0)
	default:
		m.resume(t, sig)
	}
}

// expect is called when t has made a child, which is traced from its begin on. Its first stop may
// be still to come, when t is no longer traced; run waits for stops as long as there are tracees.
func (m *mirror) expect(t *tracee) {
	var child uintptr
	if ptrace(unix.PTRACE_GETEVENTMSG, t.tid, 0, uintptr(unsafe.Pointer(&child))) != nil || m.tracees[int(child)] != nil {
		return
	}
	pid, err := proc.Process(int(child))
	tracer, ok := proc.Status(int(child), "TracerPid")
	if err != nil || !ok || tracer != strconv.Itoa(m.tid) {
		return // it has come and gone
	}
	m.born(int(child), pid)
}

// born adds a thread that a traced one has created.
func (m *mirror) born(tid, pid int) *tracee {
	t := &tracee{tid: tid, pid: pid, space: m.spaceOfChild(tid, pid)}
	t.letGo = t.space == nil // its command has left
	m.tracees[tid] = t
	return t
}

// executed is called when the process of t has a new program. The thread that has called
// execve(2) now has the id of the process.
func (m *mirror) executed(t *tracee) {
	m.maps.forget(t.pid)
	var old uintptr
	if ptrace(unix.PTRACE_GETEVENTMSG, t.tid, 0, uintptr(unsafe.Pointer(&old))) != nil || int(old) == t.tid {
		return
	}
	if was := m.tracees[int(old)]; was != nil {
		m.forget(was)
	}
	t.abort()
	t.call, t.inCall = nil, true
}

// abort ends the call in the guest of a thread that will not return from it.
func (t *tracee) abort() {
	if t.call != nil {
		ret := int64(errRestart)
		if t.row != nil && t.row.sleeps {
			ret = errRestartBlock
		}
		t.call.finish(host.Made{Ret: ret})
	}
}

// finish has the call return in the guest. The tracing thread calls it, and ends the call
// itself if it has begun it and nothing has to be waited for.
func (w *mirrorWork) finish(made host.Made) {
	run := w.run
	if run == nil {
		select {
		case w.made <- made:
		default: // it has a result
		}
		return
	}
	w.run = nil
	if made.Written = w.memory.changed(made.Ret); !w.memory.absent {
		run.End(made)
		return
	}
	go func() {
		made.Written = w.memory.awaitChanged(made.Ret)
		run.End(made)
	}()
}

func (m *mirror) forget(t *tracee) {
	t.abort()
	m.told.Delete(t.tid)
	delete(m.tracees, t.tid)
	delete(m.held, t)
	delete(m.later, t)
	m.maps.forget(t.pid) // the process may have another program when it is traced again
	if t.tid == t.pid && t.space != nil {
		t.space.files.forget(t.pid)
	}
}

// leaves detaches a stopped thread if nothing is to be seen of it.
func (m *mirror) leaves(t *tracee) bool {
	if m.on.Load() && !t.letGo {
		return false
	}
	_ = ptrace(unix.PTRACE_DETACH, t.tid, 0, 0)
	m.forget(t)
	return true
}

// resume lets a stopped thread go on up to the next stop.
func (m *mirror) resume(t *tracee, sig unix.Signal) {
	request := unix.PTRACE_SYSCALL
	gone := !m.on.Load() || t.letGo
	if gone {
		request = unix.PTRACE_DETACH
	}
	_ = ptrace(request, t.tid, 0, uintptr(sig))
	if gone {
		m.forget(t)
	}
}

// patience is how long the guest has now for its part of a call.
func (m *mirror) patience() time.Duration {
	if m.slow.Load() {
		return slowMirror
	}
	return mirrorPatience
}

// hold keeps a stopped thread until release.
func (m *mirror) hold(t *tracee, why heldFor) {
	t.holds = why
	t.deadline = time.Now().Add(m.patience())
	m.held[t] = struct{}{}
	m.release(t)
}

// release lets a held thread go on if it may, or if it has waited too long.
func (m *mirror) release(t *tracee) bool {
	ready := false
	switch t.holds {
	case forNothing:
		ready = true
	case forEntry:
		ready = t.call.reached.Load() && m.alone(t)
	case forReturn:
		ready = t.call.ended.Load()
	case forOther:
		ready = m.alone(t)
	}
	late := !ready && time.Now().After(t.deadline)
	if !ready && !late {
		return false
	}
	if t.holds != forOther {
		m.slow.Store(late)
	}
	if t.holds == forReturn {
		t.call = nil
	}
	t.holds, t.awaits = forNothing, nil
	delete(m.held, t)
	m.resume(t, 0)
	return true
}

// releaseHeld reports whether a thread was released.
func (m *mirror) releaseHeld() (any bool) {
	for t := range m.held {
		any = m.release(t) || any
	}
	return any
}

// call handles the stop at the beginning or the end of a call.
func (m *mirror) call(t *tracee) {
	var info syscallInfo
	if err := ptrace(ptraceGetSyscallInfo, t.tid, unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info))); err != nil {
		m.resume(t, 0) // it has been killed, or this kernel does not know the request
		return
	}
	switch info.op {
	case syscallEntry:
		t.inCall = true
		m.entered(t, &info)
	case syscallExit:
		t.inCall = false
		m.returned(t, int64(info.nr))
	default:
		m.resume(t, 0)
	}
}

// entered handles the beginning of a call.
func (m *mirror) entered(t *tracee, info *syscallInfo) {
	t.nr = noCall
	if arch, ok := auditArch(); !ok || info.arch != arch {
		m.resume(t, 0)
		return
	}
	t.nr, t.args = info.nr, info.args
	if info.nr == unix.SYS_PTRACE && m.traces(t, info.args) {
		return
	}
	if slices.Contains(toldCalls, info.nr) {
		t.call, t.row = &mirrorWork{made: make(chan host.Made, 1), opens: slices.Contains(openCalls, info.nr)}, nil
		m.told.Store(t.tid, t.call)
		m.resume(t, 0)
		return
	}
	a := m.activity.Load()
	row := mirroredRows[info.nr]
	if row == nil || a == nil || !a.Mirrored(row.guest) || row.except != nil && row.except(info.args) {
		if t.awaits != nil {
			m.hold(t, forOther)
		} else {
			m.resume(t, 0)
		}
		return
	}
	c := &host.Mirror{Syscall: host.Syscall{Nr: row.guest, Args: info.args}}
	if m.describe(t, row, c) { // it comes as a request
		m.resume(t, 0)
		return
	}
	t.call, t.row = &mirrorWork{made: make(chan host.Made, 1)}, row
	t.call.wait = m.wait(t, row, c)
	if !m.start(t, a, c) {
		go m.make(a, c, t.call, row, t.tid, t.pid, t.space.view, t.space.files.ours())
	}
	m.hold(t, forEntry)
}

// describe says what the descriptors of a call refer to. It reports whether one is a file of
// ours.
func (m *mirror) describe(t *tracee, row *mirroredCall, c *host.Mirror) (ours bool) {
	n := 0
	for i, arg := range row.args {
		fd := int(int32(c.Args[i]))
		if arg.kind != isFD && (arg.kind != isDir || fd < 0) {
			continue
		}
		file, ours := t.space.files.of(t.tid, t.pid, fd)
		if ours {
			return true
		}
		c.Files[n] = host.Descriptor{Arg: 1 + i, File: file}
		n++
	}
	return false
}

// memory reads the memory of a thread's process as far as it is in RAM.
func (m *mirror) memory(t *tracee) callMemory {
	return callMemory{tid: t.tid, present: func(addr uint64, n int) int { return m.maps.present(t.pid, addr, n) }}
}

// start has the guest begin t's call in this thread. It returns false, and does nothing,
// where something has to be waited for.
func (m *mirror) start(t *tracee, a *kprobefs.Activity, c *host.Mirror) bool {
	if t.row.named() {
		return false
	}
	w := t.call
	w.memory = m.memory(t)
	w.memory.arguments(t.row, c.Args)
	if w.memory.absent {
		return false
	}
	m.connect(w, c)
	run, ok := a.StartMirror(callerOf(t.tid, t.pid), c, func(int64) { m.returns(w) })
	w.run = run
	return ok
}

// make has the guest make a call. It reads the program's memory, which may be such that has
// to be waited for.
func (m *mirror) make(a *kprobefs.Activity, c *host.Mirror, w *mirrorWork, row *mirroredCall, tid, pid int, at view, ours []string) {
	defer m.returns(w)
	mode, skip := row.path(at, tid, c.Args, ours)
	if skip {
		return
	}
	c.Mode = mode
	w.memory = callMemory{tid: tid}
	w.memory.arguments(row, c.Args)
	m.connect(w, c)
	a.Mirror(callerOf(tid, pid), c)
}

// connect has the guest's call tell of itself in w, and get the result from there.
func (m *mirror) connect(w *mirrorWork, c *host.Mirror) {
	c.Memory = w.memory.Memory
	c.Reached = func() { w.reached.Store(true); m.wake() }
	c.Made = func() host.Made {
		made := <-w.made
		made.Written = w.memory.awaitChanged(made.Ret)
		return made
	}
}

// returns notes that a call has returned in the guest.
func (m *mirror) returns(w *mirrorWork) {
	w.reached.Store(true)
	w.ended.Store(true)
	m.wake()
}

func callerOf(tid, pid int) host.Caller {
	return host.Caller{TID: tid, PID: pid, Comm: func() string { name, _ := proc.Comm(tid); return name }}
}

// awaits returns the call of toldCalls that a traced thread makes, or nil. The supervisor
// has told of it while the host's kernel waits.
func (m *mirror) awaits(tid int) *mirrorWork {
	w, _ := m.told.Load(tid)
	if w == nil || w.(*mirrorWork).told.Swap(true) {
		return nil
	}
	return w.(*mirrorWork)
}

// begin makes a call in the guest of which the supervisor has told; reached is called when
// the host's kernel is to make it, which is also when the guest takes too long.
func (w *mirrorWork) begin(m *mirror, a *kprobefs.Activity, by host.Caller, s host.Syscall, reached func()) {
	var once sync.Once
	late := time.AfterFunc(m.patience(), func() {
		m.slow.Store(true)
		once.Do(reached)
	})
	come := func() {
		if late.Stop() {
			m.slow.Store(false)
		}
		once.Do(reached)
	}
	a.Mirror(by, &host.Mirror{Syscall: s, Reached: come, Made: func() host.Made { return <-w.made }})
	come()
	w.ended.Store(true)
	m.wake()
}

// returned handles the end of a call.
func (m *mirror) returned(t *tracee, ret int64) {
	if ret == errRestart && m.again(t) {
		return
	}
	if t.call == nil {
		m.resume(t, 0)
		return
	}
	made := host.Made{Ret: ret}
	switch {
	case t.row == nil: // one of toldCalls
		if !t.call.told.Load() {
			m.forgetCall(t)
			m.resume(t, 0)
			return
		}
		m.told.Delete(t.tid)
		if ret >= 0 && t.call.opens {
			made.Files[0], _ = t.space.files.of(t.tid, t.pid, int(ret))
		}
	case t.row.guest == abi.SysClose:
		t.space.files.closed(t.pid, int(int32(t.args[0])))
	case ret >= 0 && t.row.opens != nil && t.row.opens(t.args):
		made.Files[0], _ = t.space.files.of(t.tid, t.pid, int(ret))
	case ret >= 0 && t.row.pair > 0:
		b := proc.ReadMemory(t.tid, t.args[t.row.pair-1], make([]byte, sizeofPair))
		for i := 0; i+sizeofInt <= len(b); i += sizeofInt {
			made.Files[i/sizeofInt], _ = t.space.files.of(t.tid, t.pid, int(int32(binary.NativeEndian.Uint32(b[i:]))))
		}
	}
	made.Polled = m.ended(t, t.call.wait, ret)
	t.call.finish(made)
	m.hold(t, forReturn)
}

// again has the kernel make a call again that a signal has ended before the supervisor
// received its notification: without a supervisor it would not have waited there, and so
// it must not fail with EINTR. It reports whether it takes care of t. That is not so of a
// call which the supervisor has told of, or which waits by itself, as open(2) of a FIFO.
func (m *mirror) again(t *tracee) bool {
	switch {
	case !notified(t.nr), t.call != nil && t.call.told.Load():
		return false
	case t.row != nil && t.call != nil: // it returns in the guest as well
		_ = setResult(t.tid, errRestartAlways)
		return false
	}
	call := openCall(t.nr)
	if call == nil {
		m.restart(t)
		return true
	}
	at, ours := t.space.view, t.space.files.ours()
	args := t.args
	go func() { // to look at a file may take long
		waits := mayWait(at, t.tid, call, args, ours)
		m.do(func() {
			switch {
			case m.tracees[t.tid] != t: // it has been killed
			case waits:
				m.forgetCall(t)
				m.resume(t, 0)
			default:
				m.restart(t)
			}
		})
	}()
	return true
}

// restart ends a call so that the kernel makes it again.
func (m *mirror) restart(t *tracee) {
	m.forgetCall(t)
	_ = setResult(t.tid, errRestartAlways) // else it fails with EINTR
	m.resume(t, 0)
}

// forgetCall forgets a call that the guest does not make.
func (m *mirror) forgetCall(t *tracee) {
	m.told.Delete(t.tid)
	t.call = nil
}

// mayWait reports whether an open(2) may wait for somebody: that of a FIFO may, and that of
// a device which is not memory.
func mayWait(at view, tid int, call *tracedCall, args [6]uint64, ours []string) bool {
	path, mode := hostPath(at, tid, call, args, string(readString(tid, args[call.name])), ours)
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFBLK:
		return true
	case unix.S_IFCHR:
		const memory = 1 // the major number of /dev/null and the like
		return unix.Major(at.deviceOf(path)) != memory
	}
	return false
}

// alone reports whether the thread that t is about to trace has no other tracer.
func (m *mirror) alone(t *tracee) bool {
	return t.awaits == nil || m.tracees[t.awaits.tid] != t.awaits
}

// traces handles ptrace(2): a thread that another one is about to trace is let go, since
// it can have one tracer only. It reports whether that is t itself, whose call is not seen.
func (m *mirror) traces(t *tracee, args [6]uint64) (gone bool) {
	switch args[0] {
	case unix.PTRACE_TRACEME:
		t.letGo = true
		m.resume(t, 0)
		return true
	case unix.PTRACE_ATTACH, ptraceSeize:
		if other := m.tracees[int(int32(args[1]))]; other != nil && other != t {
			other.letGo = true
			t.awaits = other
			if _, held := m.held[other]; !held {
				_ = ptrace(ptraceInterrupt, other.tid, 0, 0)
			}
		}
	}
	return false
}

// Requests, events and structures of ptrace(2) that package unix lacks on some machines.
const (
	ptraceSeize          = 0x4206
	ptraceInterrupt      = 0x4207
	ptraceListen         = 0x4208
	ptraceGetSyscallInfo = 0x420e
	ptraceEventStop      = 128

	syscallEntry, syscallExit = 1, 2

	noCall = ^uint64(0) // the number of no call
)

// syscallInfo is struct ptrace_syscall_info. At the end of a call nr is the result.
type syscallInfo struct {
	op    uint8
	_     [3]uint8
	arch  uint32
	ip    uint64
	sp    uint64
	nr    uint64
	args  [6]uint64
	extra uint64
}

func ptrace(request, tid int, addr, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Package mirror makes the calls of a command's threads in the guest, too, at the moments at which they make
// them.
//
// A mirror stops the command's threads before and after their calls by ptrace(2), while
// one of the calls that it mirrors can be seen. At the beginning of such a call the guest
// makes the same one, up to the point where the file's operation would do its work; then
// the host's kernel makes the call; at its end the guest gets the result and returns,
// and after that the program does.
//
// All ptrace(2) calls for a thread must come from the thread that has attached to it.
// Hence one thread does everything here. It never waits for the guest: it only notes
// that a thread is held, and sees to others meanwhile. It executes the guest's part of a call
// itself where nothing has to be waited for (host.StartMirror, PageMaps), which is how a
// call costs two stops and no wake-up of another thread. Which calls it is told of, see rings.go.
//
// A thread is detached at its first stop after nothing can be seen any more. When this
// process dies, the host's kernel detaches all, wherever they are.
package mirror

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/registers"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// laterPeriod is how often the threads are looked at that could not be stopped yet.
const laterPeriod = 20 * time.Millisecond

// Mirror is the thread that traces the command's threads.
type Mirror struct {
	log      *logrus.Logger
	activity atomic.Pointer[activity.Activity]
	on       atomic.Bool
	starting sync.Once
	tid      int          // of the tracing thread
	joined   atomic.Int32 // the number of spaces

	events   atomic.Uint32 // counts what wake is called for
	waits    atomic.Bool   // the tracing thread waits for that
	told     sync.Map      // *Call by thread: calls that a supervisor may tell of
	mu       sync.Mutex
	requests []func() // for the tracing thread

	// The rest belongs to the tracing thread.
	plain    bool                    // it tells of plain calls
	made     func(tid int)           // counts a call of which the supervisor need not tell
	spaces   map[string]*mirrorSpace // by the name of the mount namespace
	tracees  map[int]*tracee
	held     map[*tracee]struct{}
	later    map[*tracee]struct{} // seized, to be interrupted when they have left a call
	maps     hostview.PageMaps
	images   map[int]*image // by process: those that ring
	lates    map[int]*late  // by process: those that do not ring yet
	texts    texts
	regs     registers.Registers
	wanted   doorbell.Set  // the calls that can be seen
	callTime host.CallTime // how long a thread is held for the guest
}

// mirrorSpace is a mount namespace with a supervised command.
type mirrorSpace struct {
	name   string
	server int    // the supervisor, which is never traced
	exe    string // its file, which the command has before it executes its own
	files  *hostview.Files
	view   hostview.View
	rings  bool // its processes may ring
}

// tracee is a thread that is traced.
type tracee struct {
	tid, pid int
	space    *mirrorSpace
	nr       uint64 // the number of the call that it made last
	call     *Call  // the call, if it is mirrored
	row      *calls.Row
	args     [6]uint64
	rang     bool      // it has rung for the call
	fresh    bool      // the call may give its process new text
	stopped  bool      // it has stopped, and has not been let go on
	covering *covering // it makes a call for us
	text     *fileText // is looked at before it goes on
	program  bool      // it has executed a new program, which does not ring yet
	another  bool      // it has executed a program since it began
	skipped  bool      // the host's kernel does not make the call, which a program has refused
	regular  bool      // the call's first descriptor is a regular file
	tcp      bool      // the call's first descriptor is a socket of TCP
	tells    bool      // the call is plain: it is over in the guest before the host's kernel makes it
	cover    bool      // its process has new text when the call has returned in the guest

	holds    heldFor
	deadline time.Time
	limit    time.Duration // how long it is held at most, until deadline
	awaits   *tracee       // is to be let go before this one goes on
	letGo    bool
}

// heldFor is why a thread is held.
type heldFor int

const (
	forNothing heldFor = iota
	forEntry           // until the guest has come to the host's part
	forReturn          // until the guest has returned
	forOther           // until awaits is detached
	forText            // until the text of its files is known
)

// newCall returns a call that the guest has not begun yet.
func (m *Mirror) newCall() *Call { return &Call{made: make(chan host.Made, 1), wake: m.wake} }

// Call is a call of a thread that the guest makes, too, from its entry to its return.
type Call struct {
	reached, ended atomic.Bool
	told           atomic.Bool // a supervisor has told of the call; not set for those that need no such
	opens          bool        // it opens a file
	made           chan host.Made
	wake           func() // the tracing thread
	memory         callMemory
	wait           *pollWait // what the call waits for, if it does
	sent           signals
	refused        atomic.Bool  // a program has left out a function of the guest
	ret            atomic.Int64 // what the call has returned in the guest, once ended is set

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

// New returns a mirror that traces nothing before the first command joins. It tells of plain calls where the host's
// kernel reports forks and exits, also for threads that cannot be traced.
func New(log *logrus.Logger) *Mirror {
	return &Mirror{
		log: log, spaces: map[string]*mirrorSpace{},
		tracees: map[int]*tracee{}, held: map[*tracee]struct{}{}, later: map[*tracee]struct{}{},
		images: map[int]*image{}, lates: map[int]*late{}, texts: texts{known: map[fileID]*fileText{}},
		maps: hostview.PageMaps{Open: map[int]int{}}, plain: activity.Reported(),
	}
}

// Join has a command's threads traced: those in its supervisor's mount namespace, stopped at each
// call if stops is set. It starts the tracing thread the first time.
func (m *Mirror) Join(space string, server int, exe string, stops bool) error {
	if !canMirror() {
		return errors.New("CAP_SYS_PTRACE is missing")
	}
	at, err := hostview.ViewOf(space, server)
	if err != nil {
		return err
	}
	m.starting.Do(func() {
		started := make(chan struct{})
		go m.run(started)
		<-started
	})
	m.do(func() {
		m.spaces[space] = &mirrorSpace{space, server, exe, hostview.NewFiles(server), at, !stops}
		m.joined.Store(int32(len(m.spaces)))
		if m.on.Load() {
			m.setRings()
			m.attachAll()
		}
	})
	return nil
}

// Leave lets the threads go of a command that has joined, if it has.
func (m *Mirror) Leave(space string) {
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
				m.detachLater(t)
			}
		}
		s.view.Close()
	})
}

// detachLater has a thread detached as soon as it can be stopped.
func (m *Mirror) detachLater(t *tracee) {
	t.letGo = true
	if _, held := m.held[t]; !held {
		m.later[t] = struct{}{}
	}
}

// Follow sends the calls to a new machine from now on.
func (m *Mirror) Follow(a *activity.Activity) {
	a.SetRegisters(m.regs.Of)
	m.activity.Store(a)
}

// Tell sets what counts the calls of threads of which the supervisor need not tell.
func (m *Mirror) Tell(made func(tid int)) { m.made = made }

// Calls returns the calls that are mirrored.
func (m *Mirror) Calls() []uint64 {
	all := calls.Numbers()
	for _, row := range calls.Told {
		if m.plain && row.Plain() {
			all = append(all, row.Guest)
		}
	}
	return all
}

// Plain reports whether the mirror tells of plain calls (calls.Row.Plain).
func (m *Mirror) Plain() bool { return m.plain }

// Mirror starts to trace all threads of the command, or ends that, and follows what can be seen.
func (m *Mirror) Mirror(on bool) {
	m.on.Store(on)
	if m.joined.Load() == 0 {
		return
	}
	m.do(func() {
		m.setRings()
		if on {
			m.attachAll()
		}
	})
}

// StopAnswered has a thread stop when it has the answer to its request. The host's kernel
// tells of that as an interruption, which comes too late to change the answer.
func (m *Mirror) StopAnswered(tid int) {
	if tid > 0 && m.joined.Load() > 0 {
		m.do(func() { m.stopAnswered(tid) })
	}
}

func (m *Mirror) stopAnswered(tid int) {
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
func (m *Mirror) do(f func()) {
	done := make(chan struct{})
	m.mu.Lock()
	m.requests = append(m.requests, func() { f(); close(done) })
	m.mu.Unlock()
	d := m.callTime.Now()
	late := time.NewTimer(d)
	defer late.Stop()
	again := time.NewTicker(100 * time.Microsecond)
	defer again.Stop()
	for {
		m.wake()
		_ = unix.Tgkill(os.Getpid(), m.tid, hostview.InterruptSignal)
		select {
		case <-done:
			return
		case <-late.C:
			m.callTime.Late(d)
			return
		case <-again.C:
		}
	}
}

// wake ends the tracing thread's wait for the guest.
func (m *Mirror) wake() {
	m.events.Add(1)
	if m.waits.Load() {
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m.events)), futexWakePrivate, 1, 0, 0, 0)
	}
}

const futexWaitPrivate, futexWakePrivate = 128, 129

// run is the tracing thread. While it holds no thread it waits in wait4(2), otherwise
// for the guest, and looks for stops of other threads now and then.
func (m *Mirror) run(started chan struct{}) {
	runtime.LockOSThread()
	// One for this thread, which must not take a vCPU's, and two for those that wait in system calls for messages
	// and for forks: Go's monitor takes up to 10 ms to notice that these do nothing, and a new goroutine would wait so long.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 3)
	m.tid = unix.Gettid()
	hostview.SetSignalFlags(unix.SIGCHLD, hostview.SaNoCldStop, 0)
	hostview.SetSignalFlags(hostview.InterruptSignal, 0, hostview.SaRestart)
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
func (m *Mirror) awaitGuest(events uint32, most time.Duration) {
	ts := unix.NsecToTimespec(int64(most))
	timeout := &ts
	if len(m.tracees) == 0 {
		timeout = nil
	}
	m.waits.Store(true)
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&m.events)), futexWaitPrivate, uintptr(events), uintptr(unsafe.Pointer(timeout)), 0, 0)
	m.waits.Store(false)
}

func (m *Mirror) serveRequests() {
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
func (m *Mirror) reap(how int) (any bool) {
	for {
		var status unix.WaitStatus
		tid, err := waitTracee(&status, how)
		if errors.Is(err, unix.ECHILD) { // none is traced: what is known of one is of a thread that execve(2) has taken the id of
			for _, t := range m.tracees {
				m.forget(t)
			}
		}
		if err != nil || tid <= 0 {
			return any
		}
		m.handleStop(tid, status)
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
func (m *Mirror) spaceOf(pid int) *mirrorSpace {
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

// spaceOfChild returns the space of a new thread: its namespace's, or the space of who has created
// it, for it may have a namespace of its own.
func (m *Mirror) spaceOfChild(tid, pid int) *mirrorSpace {
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

// AttachFirst attaches to a thread of a command that is about to execute a program, and so far has
// the supervisor's file, by: it is the command's first, which nobody traces. The host's
// kernel stops it when it has.
func (m *Mirror) AttachFirst(tid int, space, by string) {
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
func (m *Mirror) attachAll() {
	for found := true; found; {
		found = false
		for _, pid := range hostview.Numbers("/proc") {
			var space *mirrorSpace
			if t := m.tracees[pid]; t != nil {
				space = t.space
			} else if space = m.spaceOf(pid); space == nil {
				continue
			}
			for _, tid := range hostview.Numbers(proc.Path(pid, "task")) {
				if m.tracees[tid] == nil && m.seize(tid, pid, space) != nil {
					found = true
				}
			}
		}
	}
	m.interruptLater()
}

// seize attaches to a thread, which goes on running: interruptLater stops it. It returns
// nil where that is refused, as for a thread that is traced already.
func (m *Mirror) seize(tid, pid int, space *mirrorSpace) *tracee {
	const options = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESECCOMP
	ended, err := seizeThread(tid, pid, options)
	for _, other := range ended {
		if t := m.tracees[other]; t != nil {
			m.forget(t)
		}
	}
	if err != nil {
		return nil
	}
	t := &tracee{tid: tid, pid: pid, space: space}
	m.tracees[tid] = t
	m.later[t] = struct{}{}
	return t
}

// interruptLater stops the threads that are not in a call that a stop would end.
func (m *Mirror) interruptLater() {
	for t := range m.later {
		if !hostview.Interruptible(t.tid) {
			continue
		}
		delete(m.later, t)
		_ = ptrace(ptraceInterrupt, t.tid, 0, 0)
	}
}

// handleStop handles a stop or the end of a thread.
func (m *Mirror) handleStop(tid int, status unix.WaitStatus) {
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
		t = m.addChild(tid, pid)
	}
	delete(m.later, t)
	t.stopped = true
	sig, event := status.StopSignal(), int(status)>>16
	switch {
	case sig == unix.SIGTRAP|0x80 || event == unix.PTRACE_EVENT_SECCOMP:
		m.handleCall(t)
	case event == ptraceEventStop && sig != unix.SIGTRAP: // a stop of the whole process
		if !m.detachIdle(t) {
			t.stopped = false
			_ = ptrace(ptraceListen, tid, 0, 0)
		}
	case event == unix.PTRACE_EVENT_EXEC:
		m.handleExec(t)
		m.resume(t, 0)
	case event == unix.PTRACE_EVENT_FORK, event == unix.PTRACE_EVENT_VFORK, event == unix.PTRACE_EVENT_CLONE:
		m.expectChild(t)
		m.resume(t, 0)
	case event != 0: // it is new, or was to stop
		m.resume(t, 0)
	default:
		asKernel(tid)
		m.resume(t, sig)
	}
}

// expectChild is called when t has made a child, which is traced from its begin on. Its first stop may
// be still to come, when t is no longer traced; run waits for stops as long as there are tracees.
func (m *Mirror) expectChild(t *tracee) {
	var child uintptr
	if ptrace(unix.PTRACE_GETEVENTMSG, t.tid, 0, uintptr(unsafe.Pointer(&child))) != nil {
		return
	}
	if c := m.tracees[int(child)]; c != nil {
		if !c.another { // it may have run before t stopped
			m.inherit(t.pid, c.pid)
		}
		return
	}
	pid, err := proc.Process(int(child))
	tracer, ok := proc.Status(int(child), "TracerPid")
	if err != nil || !ok || tracer != strconv.Itoa(m.tid) {
		return // it has come and gone
	}
	m.addChild(int(child), pid)
	m.inherit(t.pid, pid)
}

// addChild adds a thread that a traced one has created.
func (m *Mirror) addChild(tid, pid int) *tracee {
	t := &tracee{tid: tid, pid: pid, space: m.spaceOfChild(tid, pid)}
	t.letGo = t.space == nil // its command has left
	m.tracees[tid] = t
	if tid == pid && m.lates[pid] == nil {
		m.lates[pid] = &late{next: firstLook} // it is likely to be told what its parent has
	}
	return t
}

// handleExec is called when the process of t has a new program. The thread that has called
// execve(2) now has the id of the process.
func (m *Mirror) handleExec(t *tracee) {
	m.maps.Forget(t.pid)
	delete(m.images, t.pid)
	delete(m.lates, t.pid)
	t.fresh, t.program, t.another, t.covering = true, true, true, nil
	var old uintptr
	if ptrace(unix.PTRACE_GETEVENTMSG, t.tid, 0, uintptr(unsafe.Pointer(&old))) != nil || int(old) == t.tid {
		return
	}
	if was := m.tracees[int(old)]; was != nil {
		m.forget(was)
	}
	t.abort()
	t.endSignals()
	t.call = nil
}

// abort ends the call in the guest of a thread that will not return from it.
func (t *tracee) abort() {
	if t.call != nil {
		ret := int64(errRestart)
		if t.row != nil && t.row.Sleeps {
			ret = errRestartBlock
		}
		t.call.finish(host.Made{Ret: ret})
	}
}

// finish has the call return in the guest. The tracing thread calls it, and ends the call
// itself if it has begun it and nothing has to be waited for.
func (w *Call) finish(made host.Made) {
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

func (m *Mirror) forget(t *tracee) {
	t.abort()
	m.told.Delete(t.tid)
	m.regs.Forget(t.tid)
	delete(m.tracees, t.tid)
	delete(m.held, t)
	delete(m.later, t)
	m.maps.Forget(t.pid) // the process may have another program when it is traced again
	if t.tid == t.pid {
		delete(m.images, t.pid)
		delete(m.lates, t.pid)
		if t.space != nil {
			t.space.files.Forget(t.pid)
		}
	}
}

// detachIdle detaches a stopped thread if nothing is to be seen of it.
func (m *Mirror) detachIdle(t *tracee) bool {
	if m.on.Load() && !t.letGo {
		return false
	}
	m.silence(t.pid)
	m.detach(t, 0)
	return true
}

// detach lets a stopped thread go. One that is being killed has left its stop: it stays known until its end is reported,
// since its process cannot be waited for before that.
func (m *Mirror) detach(t *tracee, sig unix.Signal) {
	t.stopped = false
	if !errors.Is(ptrace(unix.PTRACE_DETACH, t.tid, 0, uintptr(sig)), unix.ESRCH) {
		m.forget(t)
	}
}

// resume lets a stopped thread go on up to the next stop: the end of a call that is mirrored, or
// otherwise the next one that the thread rings for or, if it rings for none, the next one.
func (m *Mirror) resume(t *tracee, sig unix.Signal) {
	if !m.on.Load() || t.letGo {
		m.silence(t.pid) // another tracer would see it ring
		m.detach(t, sig)
		return
	}
	request := unix.PTRACE_SYSCALL
	if m.images[t.pid] != nil && t.call == nil && !t.fresh && t.covering == nil {
		request = unix.PTRACE_CONT
	}
	t.stopped = false
	_ = ptrace(request, t.tid, 0, uintptr(sig))
}

// hold keeps a stopped thread until release.
func (m *Mirror) hold(t *tracee, why heldFor) {
	t.holds = why
	t.limit = m.callTime.Now()
	t.deadline = time.Now().Add(t.limit)
	m.held[t] = struct{}{}
	m.release(t)
}

// release lets a held thread go on if it may, or if it has waited too long.
func (m *Mirror) release(t *tracee) bool {
	ready := false
	switch t.holds {
	case forNothing:
		ready = true
	case forEntry:
		ready = t.call.reached.Load() && m.untraced(t)
	case forReturn:
		ready = t.call.ended.Load()
	case forOther:
		ready = m.untraced(t)
	case forText:
		ready = t.text.done.Load()
	}
	late := !ready && time.Now().After(t.deadline)
	if !ready && !late {
		return false
	}
	why := t.holds
	t.holds, t.awaits, t.text = forNothing, nil, nil
	delete(m.held, t)
	switch {
	case why != forEntry && why != forReturn:
	case late:
		m.callTime.Late(t.limit)
	default:
		m.callTime.InTime()
	}
	if t.call != nil && why == forEntry {
		t.signalWrite()
	}
	if why == forEntry && m.refuse(t) {
		return true
	}
	if why == forReturn || t.tells {
		t.correct()
		t.endSignals()
		t.call, t.tells = nil, false
	}
	switch {
	case why == forText && late:
		m.giveUp(t, errLate)
	case why == forText:
		m.cover(t)
	case why == forReturn:
		m.goOn(t)
	default:
		m.resume(t, 0)
	}
	return true
}

// goOn lets a thread go on whose call has returned, in the guest as well: first its process's new text is made to
// ring, if it has some. That is the only moment for it: no thread is in that text yet.
func (m *Mirror) goOn(t *tracee) {
	if t.cover {
		t.cover = false
		m.cover(t)
		return
	}
	m.resume(t, 0)
}

// releaseHeld reports whether a thread was released.
func (m *Mirror) releaseHeld() (any bool) {
	for t := range m.held {
		any = m.release(t) || any
	}
	return any
}

// handleCall handles the stop at the beginning or the end of a call.
func (m *Mirror) handleCall(t *tracee) {
	var info syscallInfo
	if err := getCall(t.tid, &info); err != nil {
		m.resume(t, 0) // it has been killed, or this kernel does not know the request
		return
	}
	if m.errand(t, &info) {
		return
	}
	switch info.op {
	case syscallEntry:
		m.answer(t, &info)
		m.handleEntry(t, &info)
	case syscallSeccomp:
		m.handleRing(t, &info)
	case syscallExit:
		if t.fresh {
			t.fresh = false
			m.handleNewText(t, int64(info.nr))
			return
		}
		t.ringAgain(int64(info.nr))
		if t.call == nil && m.adopt(t, &info) {
			return
		}
		m.handleReturn(t, int64(info.nr))
	default:
		m.resume(t, 0)
	}
}

// handleEntry handles the beginning of a call.
func (m *Mirror) handleEntry(t *tracee, info *syscallInfo) {
	t.nr = noCall
	if arch, ok := calls.Arch(); !ok || info.arch != arch {
		m.resume(t, 0)
		return
	}
	t.nr, t.args = info.nr, info.args
	t.cover, t.program, t.tcp, t.regular, t.skipped = false, false, false, false, false // it is in its new text
	m.noteControl(t)
	if info.nr == unix.SYS_PTRACE && m.handlePtrace(t, info.args) {
		return
	}
	a := m.activity.Load()
	if a != nil && a.UserStacks() {
		m.regs.Note(t.tid)
	}
	row := calls.Rows[info.nr]
	switch {
	case row != nil && row.Plain() && m.plain && a != nil && a.Mirrored(row.Guest):
		m.tellPlain(t, a, row)
	case row == nil || row.By == calls.Supervisor:
		m.beginCall(t, a, nil, false)
	case row.By == calls.Tracer:
		m.beginCall(t, a, row, a != nil && a.Mirrored(row.Guest) && (row.Except == nil || !row.Except(info.args)))
	case row.Quiet(info.args): // nobody tells of it
		m.beginCall(t, a, row, a != nil && a.Told(row.Guest))
	case a == nil || !a.Told(row.Guest) || !m.beginNamed(t, a, row):
		t.call, t.row = m.newCall(), nil
		t.call.opens = row.Opens != nil
		m.told.Store(t.tid, t.call)
		m.resume(t, 0)
	}
}

// tellPlain has the guest make a plain call, and lets t go on when it has.
func (m *Mirror) tellPlain(t *tracee, a *activity.Activity, row *calls.Row) {
	w := m.newCall()
	t.call, t.row, t.tells = w, nil, true
	tid, pid, args := t.tid, t.pid, t.args
	go func() {
		defer w.noteReturn()
		if clone3, ok := activity.ReadPlain(tid, row.Guest, args); ok {
			if refused := a.Plain(callerOf(tid, pid), row.Guest, args, clone3); refused != 0 {
				w.noteRefusal()
				w.returned(-int64(refused))
			}
		}
	}()
	m.hold(t, forEntry)
}

// beginCall has the guest begin the call of t, if it is seen.
func (m *Mirror) beginCall(t *tracee, a *activity.Activity, row *calls.Row, seen bool) {
	if !seen {
		if t.awaits != nil {
			m.hold(t, forOther)
		} else {
			m.resume(t, 0)
		}
		return
	}
	c := &host.Mirror{Syscall: host.Syscall{Nr: row.Guest, Args: t.args}}
	if m.describe(t, row, c) { // it comes as a request
		m.resume(t, 0)
		return
	}
	t.call, t.row = m.newCall(), row
	t.call.wait = m.wait(t, row, c)
	if !m.start(t, a, c) {
		go m.makeCall(a, c, t.call, row, t.tid, t.pid, t.space.view, t.space.files.Ours())
	}
	m.hold(t, forEntry)
}

// beginNamed makes a call of calls.Either in the guest without the supervisor, if all is known of it at once. It returns
// false for others.
func (m *Mirror) beginNamed(t *tracee, a *activity.Activity, row *calls.Row) bool {
	c := &host.Mirror{Syscall: host.Syscall{Nr: row.Guest, Args: t.args}}
	t.call, t.row = m.newCall(), row
	t.call.memory = m.memory(t)
	ours := append([]string{"/proc"}, t.space.files.Ours()...) // of some files there the supervisor knows more
	path, known := m.lookUp(t, c, ours)
	if !known || path == "" || hostview.Below(path, ours) || m.describe(t, row, c) || !m.begin(t, a, c) {
		t.call, t.row = nil, nil
		return false
	}
	m.made(t.tid)
	m.hold(t, forEntry)
	return true
}

// describe says what the descriptors of a call refer to. It reports whether one is a file of
// ours.
func (m *Mirror) describe(t *tracee, row *calls.Row, c *host.Mirror) (ours bool) {
	n := 0
	for i, arg := range row.Args {
		fd := int(int32(c.Args[i]))
		if arg.Kind != calls.IsFD && (arg.Kind != calls.IsDir || fd < 0) {
			continue
		}
		look := t.space.files.Of
		if row.Ends() {
			look = t.space.files.Sock
		}
		file, ours := look(t.tid, t.pid, fd)
		if ours {
			return true
		}
		t.tcp = t.tcp || n == 0 && hostview.IsTCP(file)
		t.regular = t.regular || n == 0 && file.Mode&unix.S_IFMT == unix.S_IFREG
		c.Files[n] = host.Descriptor{Arg: 1 + i, File: file}
		n++
	}
	return false
}

// memory reads the memory of a thread's process as far as it is in RAM.
func (m *Mirror) memory(t *tracee) callMemory {
	return callMemory{tid: t.tid, present: func(addr uint64, n int) int { return m.maps.Present(t.pid, addr, n) }}
}

// start has the guest begin t's call in this thread. It returns false, and does nothing,
// where something has to be waited for.
func (m *Mirror) start(t *tracee, a *activity.Activity, c *host.Mirror) bool {
	w := t.call
	w.memory = m.memory(t)
	if t.row.Name() >= 0 {
		path, known := m.lookUp(t, c, t.space.files.Ours())
		if !known {
			return false
		}
		if hostview.Below(path, t.space.files.Ours()) { // it comes as a request
			w.noteReturn()
			return true
		}
	}
	return m.begin(t, a, c)
}

// lookUp finds the file that a call names, if it need not wait for that.
func (m *Mirror) lookUp(t *tracee, c *host.Mirror, ours []string) (path string, known bool) {
	missed := false
	path, c.Mode = t.call.memory.path(t.row, t.space.view.AtOnce(&missed), c.Args, ours, &c.Cwd)
	return path, !missed && !t.call.memory.absent
}

// begin has the guest begin t's call, all of whose files are known, as start does.
func (m *Mirror) begin(t *tracee, a *activity.Activity, c *host.Mirror) bool {
	w := t.call
	w.memory.arguments(t.row, c.Args)
	if w.memory.absent {
		return false
	}
	by := callerOf(t.tid, t.pid)
	guest := a.CaughtUp(by)
	if guest == nil {
		return false
	}
	w.connect(c)
	run, ok := guest.StartMirror(by, c, c.Returned)
	w.run = run
	return ok
}

// makeCall has the guest make a call. It reads the program's memory, which may be such that has
// to be waited for.
func (m *Mirror) makeCall(a *activity.Activity, c *host.Mirror, w *Call, row *calls.Row, tid, pid int, at hostview.View, ours []string) {
	defer w.noteReturn()
	w.memory = callMemory{tid: tid}
	path, mode := w.memory.path(row, at, c.Args, ours, &c.Cwd)
	if hostview.Below(path, ours) {
		return
	}
	c.Mode = mode
	w.memory.arguments(row, c.Args)
	w.connect(c)
	a.Mirror(callerOf(tid, pid), c)
}

// connect has the guest's call tell of itself, and get the result from here.
func (w *Call) connect(c *host.Mirror) {
	c.Memory = w.memory.Memory
	c.Reached = func() { w.reached.Store(true); w.wake() }
	c.Signal, c.Refuse, c.Returned = w.signal, w.noteRefusal, func(ret int64) { w.returned(ret); w.noteReturn() }
	c.Made = func() host.Made {
		made := <-w.made
		made.Written = w.memory.awaitChanged(made.Ret)
		return made
	}
}

// noteReturn notes that the call has returned in the guest.
func (w *Call) noteReturn() {
	w.reached.Store(true)
	w.ended.Store(true)
	w.wake()
}

func callerOf(tid, pid int) host.Caller {
	return host.Caller{TID: tid, PID: pid, Comm: func() string { name, _ := proc.Comm(tid); return name }}
}

// claim returns the call of calls.Either that a traced thread makes, or nil. The supervisor
// has told of it while the host's kernel waits.
func (m *Mirror) claim(tid int) *Call {
	w, _ := m.told.Load(tid)
	if w == nil || w.(*Call).told.Swap(true) {
		return nil
	}
	return w.(*Call)
}

// Begin makes a call in the guest of which the supervisor has told; reached is called when
// the host's kernel is to make it, which is also when the guest takes too long, or, with an error, when a program
// has refused it. It returns false
// for a call that is not one of calls.Either by a traced thread.
func (m *Mirror) Begin(by host.Caller, s host.Syscall, reached func(refused syscall.Errno)) bool {
	w, a := m.claim(by.TID), m.activity.Load()
	if w == nil || a == nil {
		return false
	}
	var once sync.Once
	d := m.callTime.Now()
	late := time.AfterFunc(d, func() {
		m.callTime.Late(d)
		once.Do(func() { reached(0) })
	})
	come := func() {
		if late.Stop() {
			m.callTime.InTime()
		}
		w.reached.Store(true)
		once.Do(func() { reached(w.refusal()) })
	}
	a.Mirror(by, &host.Mirror{Syscall: s, Reached: come, Signal: w.signal, Refuse: w.noteRefusal, Returned: w.returned, Made: func() host.Made { return <-w.made }})
	come()
	w.ended.Store(true)
	m.wake()
	return true
}

// handleReturn handles the end of a call.
func (m *Mirror) handleReturn(t *tracee, ret int64) {
	if t.skipped {
		m.refusedCall(t)
		return
	}
	if ret == errRestart && m.remake(t) {
		return
	}
	m.endCall(t, ret)
}

// endCall has the guest end the call that has returned ret.
func (m *Mirror) endCall(t *tracee, ret int64) {
	if t.call == nil {
		m.resume(t, 0)
		return
	}
	made := host.Made{Ret: ret}
	switch {
	case t.row == nil: // the supervisor tells of it
		if !t.call.told.Load() {
			m.forgetCall(t)
			m.goOn(t)
			return
		}
		m.told.Delete(t.tid)
		if ret >= 0 && t.call.opens {
			made.Files[0], _ = t.space.files.Of(t.tid, t.pid, int(ret))
		}
	case t.row.Guest == abi.SysClose || t.row.Guest == abi.SysFcntl && (t.args[1] == unix.F_SETFD || t.args[1] == unix.F_SETFL):
		t.space.files.Closed(t.pid, int(int32(t.args[0])))
	case ret >= 0 && t.row.Opens != nil && t.row.Opens(t.args):
		made.Files[0], _ = t.space.files.Of(t.tid, t.pid, int(ret))
	case ret >= 0 && t.row.Pair > 0:
		b := proc.ReadMemory(t.tid, t.args[t.row.Pair-1], make([]byte, calls.SizeofPair))
		for i := 0; i+calls.SizeofInt <= len(b); i += calls.SizeofInt {
			made.Files[i/calls.SizeofInt], _ = t.space.files.Of(t.tid, t.pid, int(int32(binary.NativeEndian.Uint32(b[i:]))))
		}
	}
	if t.tcp && t.row != nil && t.row.Changes(ret) {
		made.Files[0], _ = t.space.files.Sock(t.tid, t.pid, int(int32(t.args[0])))
	}
	made.Polled = m.pollResult(t, t.call.wait, ret)
	t.call.finish(made)
	m.hold(t, forReturn)
}

// remake has the kernel make a call again that a signal has ended before the supervisor
// received its notification: without a supervisor it would not have waited there, and so
// it must not fail with EINTR. It reports whether it takes care of t. That is not so of a
// call which the supervisor has told of, or which waits by itself, as open(2) of a FIFO.
func (m *Mirror) remake(t *tracee) bool {
	row := calls.Rows[t.nr]
	opens := row != nil && row.OpensFile()
	switch {
	case !calls.Notified(t.nr), t.call != nil && t.call.told.Load():
		return false
	case t.row != nil && t.call != nil && !opens: // it returns in the guest as well
		_ = setResult(t.tid, errRestartAlways)
		return false
	}
	if !opens {
		m.restartCall(t)
		return true
	}
	at, ours := t.space.view, t.space.files.Ours()
	args := t.args
	go func() { // to look at a file may take long
		waits := mayWait(at, t.tid, row, args, ours)
		m.do(func() {
			switch {
			case m.tracees[t.tid] != t: // it has been killed
			case t.row != nil && t.call != nil:
				if !waits {
					_ = setResult(t.tid, errRestartAlways)
				}
				m.endCall(t, errRestart)
			case waits:
				m.forgetCall(t)
				m.resume(t, 0)
			default:
				m.restartCall(t)
			}
		})
	}()
	return true
}

// restartCall ends a call so that the kernel makes it again.
func (m *Mirror) restartCall(t *tracee) {
	m.forgetCall(t)
	_ = setResult(t.tid, errRestartAlways) // else it fails with EINTR
	m.resume(t, 0)
}

// forgetCall forgets a call that the guest does not make.
func (m *Mirror) forgetCall(t *tracee) {
	m.told.Delete(t.tid)
	t.endSignals()
	t.call = nil
}

// mayWait reports whether an open(2) may wait for somebody, as for a FIFO or
// for a device which is not memory.
func mayWait(at hostview.View, tid int, call *calls.Row, args [6]uint64, ours []string) bool {
	path, mode := at.Path(tid, hostview.Name(tid, call, args), ours)
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFBLK:
		return true
	case unix.S_IFCHR:
		const memory = 1 // the major number of /dev/null and the like
		return unix.Major(at.DeviceOf(path)) != memory
	}
	return false
}

// untraced reports whether the thread that t is about to trace has no other tracer.
func (m *Mirror) untraced(t *tracee) bool {
	return t.awaits == nil || m.tracees[t.awaits.tid] != t.awaits
}

// handlePtrace handles ptrace(2): a thread that another one is about to trace is let go, since
// it can have one tracer only. It reports whether that is t itself, whose call is not seen.
func (m *Mirror) handlePtrace(t *tracee, args [6]uint64) (gone bool) {
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

	syscallEntry, syscallExit, syscallSeccomp = 1, 2, 3

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

// getCall says at which call a thread has stopped.
func getCall(tid int, info *syscallInfo) error {
	return ptrace(ptraceGetSyscallInfo, tid, unsafe.Sizeof(*info), uintptr(unsafe.Pointer(info)))
}

func ptrace(request, tid int, addr, data uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

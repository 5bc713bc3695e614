package system

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/connector"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// Activity brings what the host's processes do to the guest: their forks, execs
// and exits, which the host's kernel tells, and the system calls that a
// supervisor tells. The guest does the same in the tasks that stand for the
// processes. All of it happens only while somebody could see it: while a probe
// is armed or an event is on.
//
// Only processes of this one's mount namespace count, as they are those that
// have the files; and never this process and who serves with it.
type Activity struct {
	host    *host.Host
	tracer  *tracing.Tracer
	watched func() bool
	say     func(string, error)
	state   *atomic.Uint32 // 1 while somebody watches

	mu         sync.Mutex
	conn       *connector.Conn // nil: nobody watches, or it cannot be had
	stop       *os.File        // closed to end the goroutine that waits for events
	refused    bool            // the host does not tell
	supervised bool            // a supervisor tells execs
	lost       uint64
	namespace  string
	apart      map[int]bool // processes that serve the files
	known      map[int]bool // by process: whether it counts
	calls      map[int]host.Fork
	forks      []fork
	counted    uint64 // forks of the whole machine, as far as they were seen
}

// maxDrain is how many events of our processes are handled before a request, and
// maxForeign how many of others are thrown away: what is more comes after it, and
// what the host's kernel cannot keep meanwhile is lost.
const (
	maxDrain   = 512
	maxForeign = 1 << 15
)

// ActivityOptions say who else has to do with the files.
type ActivityOptions struct {
	// Apart are processes that serve the files with this one: the guest does not see them.
	Apart []int
	// Supervised says that Call is told of execs.
	Supervised bool
	// State is kept 1 while somebody watches, else 0; nil: nobody asks.
	State *atomic.Uint32
	// Say is told, once each, that events were lost, and why the host tells of
	// none; nil: nobody is.
	Say func(what string, err error)
}

// Watch begins to bring the host's activity to the guest.
func (s *System) Watch(o ActivityOptions) *Activity {
	a := &Activity{
		host: s.Machine.Host(), tracer: s.Tracer, watched: s.watched, say: o.Say, state: o.State, supervised: o.Supervised,
		apart: map[int]bool{os.Getpid(): true}, known: map[int]bool{}, calls: map[int]host.Fork{},
	}
	for _, pid := range o.Apart {
		a.apart[pid] = true
	}
	if a.say == nil {
		a.say = func(string, error) {}
	}
	if a.state == nil {
		a.state = new(atomic.Uint32)
	}
	a.namespace, _ = os.Readlink("/proc/self/ns/mnt")
	a.host.Watch(a.begin, a.end)
	s.activity = a
	return a
}

// watched says whether anybody could see what the guest does.
func (s *System) watched() bool {
	return s.Kprobes.Armed() > 0 || s.Tracer.Listening() || s.Machine.Sites().Listening()
}

// Close ends it.
func (a *Activity) Close() {
	a.host.Watch(nil, nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unlisten()
	a.state.Store(0)
}

// begin is called before each request of the files.
func (a *Activity) begin(c host.Caller) {
	if a.state.Load() != 0 {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.drain()
		a.settle(c)
		if a.refused && !a.supervised {
			a.count(c)
		}
	}
}

// end is called after each: it may have been the one that armed the first probe,
// or disarmed the last.
func (a *Activity) end() {
	on := uint32(0)
	if a.watched() {
		on = 1
	}
	if a.state.Load() == on {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Store(on)
	if on != 0 {
		if !a.listen() {
			a.counted = forksSoFar()
		}
	} else {
		a.unlisten()
		a.forks = nil
		clear(a.calls)
	}
}

// drain has the guest do what has happened. The caller holds mu.
func (a *Activity) drain() {
	if !a.listen() {
		return
	}
	for own, foreign := 0, 0; own < maxDrain && foreign < maxForeign; {
		e, ok, err := a.conn.Next()
		if errors.Is(err, connector.ErrLost) {
			if a.lost++; a.lost == 1 {
				a.say("some of what processes do is not seen", err)
			}
			continue
		}
		if !ok {
			return
		}
		if a.handle(e) {
			own++
		} else {
			foreign++
		}
	}
}

// listen subscribes, and starts who waits for events that come while no request
// does. The caller holds mu.
func (a *Activity) listen() bool {
	if a.conn != nil || a.refused {
		return a.conn != nil
	}
	c, err := connector.Open()
	if err != nil {
		a.refused = true
		a.say("what processes do is not seen", err)
		return false
	}
	r, w, err := os.Pipe()
	if err != nil {
		c.Close()
		return false
	}
	a.conn, a.stop = c, w
	go a.wait(c, r)
	return true
}

// unlisten needs mu.
func (a *Activity) unlisten() {
	if a.conn != nil {
		_ = a.stop.Close() // who waits closes the rest
		a.conn, a.stop = nil, nil
		clear(a.known)
	}
}

// wait handles what happens while no request comes.
func (a *Activity) wait(c *connector.Conn, stop *os.File) {
	defer stop.Close()
	defer c.Close()
	for {
		if err := c.Wait(int(stop.Fd())); err != nil {
			return
		}
		a.mu.Lock()
		if a.conn != c {
			a.mu.Unlock()
			return
		}
		a.drain()
		a.mu.Unlock()
	}
}

// handle says whether the event is of a process that counts.
func (a *Activity) handle(e connector.Event) bool {
	switch e.Kind {
	case connector.Fork:
		return a.forked(e)
	case connector.Exec:
		if !a.counts(e.PID) {
			return false
		}
		if !a.supervised {
			_, _ = a.host.Other(context.Background(), caller(e.TID, e.PID), execOf(e.PID))
		}
		return true
	case connector.Exit:
		yes := a.counts(e.PID)
		if yes {
			a.exit(caller(e.TID, e.PID), e.Code)
		}
		if e.TID == e.PID {
			delete(a.known, e.PID)
		}
		return yes
	}
	return false
}

func (a *Activity) forked(e connector.Event) bool {
	creator := e.TID
	if e.ChildTID != e.ChildPID {
		creator = e.ChildPID // the event names the process' parent
	}
	yes := a.counts(creator)
	if e.ChildTID == e.ChildPID && (yes || !a.apart[e.PID]) {
		a.known[e.ChildPID] = yes // a child is where its parent is
	}
	if !yes {
		return false
	}
	f := forkOf(e)
	if told, ok := a.calls[creator]; ok && e.ChildTID == e.ChildPID {
		f.Nr, f.Args = told.Nr, told.Args
		delete(a.calls, creator)
	}
	a.fork(caller(creator, creator), f)
	return true
}

// fork has the guest fork. Who follows forks hears of the child before it runs.
func (a *Activity) fork(by host.Caller, f host.Fork) {
	if f.Child.TID != 0 {
		a.tracer.Forked(int32(by.TID), int32(f.Child.TID))
	}
	_, _ = a.host.Fork(context.Background(), by, f)
}

// exit has the guest exit. A list of tasks keeps it until it has run for the last
// time, as Linux's does until sched_process_free.
func (a *Activity) exit(c host.Caller, code int) {
	_ = a.host.Exit(context.Background(), c, code)
	a.tracer.Exited(int32(c.TID))
}

// maxKnown bounds what is remembered of processes.
const maxKnown = 1 << 16

// counts says whether a process is one of those whose doings the guest sees.
func (a *Activity) counts(pid int) bool {
	if a.apart[pid] {
		return false
	}
	yes, ok := a.known[pid]
	if !ok {
		ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/mnt")
		yes = err == nil && ns == a.namespace
		if len(a.known) > maxKnown {
			clear(a.known)
		}
		a.known[pid] = yes
	}
	return yes
}

func caller(tid, pid int) host.Caller {
	return host.Caller{TID: tid, PID: pid, Comm: func() string { return procLine(tid, "comm") }}
}

// procLine reads a file of /proc/PID; empty where there is none.
func procLine(pid int, name string) string {
	b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return strings.TrimSuffix(string(b), "\n")
}

// Flags of clone(2) as the C library gives them.
const (
	forkFlags   = unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID | uint64(syscall.SIGCHLD)
	threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM |
		unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
)

// Linux's numbers on x86-64, the guest's.
const (
	sysClone     = 56
	sysExecve    = 59
	sysExit      = 60
	sysPrctl     = 157
	sysExitGroup = 231
)

// forkOf is the call that must have made the thread.
func forkOf(e connector.Event) host.Fork {
	f := host.Fork{Nr: sysClone, Child: host.Caller{TID: e.ChildTID, PID: e.ChildPID}}
	f.Args[0] = forkFlags
	if e.ChildTID != e.ChildPID {
		f.Args[0] = threadFlags
		f.Args[1] = 16 // some stack
	}
	return f
}

// execOf is the call that must have made a process what it is now.
func execOf(pid int) host.Syscall {
	path, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		path = procLine(pid, "comm") // it has ended meanwhile
	}
	argv := strings.Split(procLine(pid, "cmdline"), "\x00")
	s := host.Syscall{Nr: sysExecve, Mode: syscall.S_IFREG | 0o755, Head: [][]byte{head(path)}}
	s.Text[0], s.Vector[1], s.Vector[2] = &path, argv[:max(0, len(argv)-1)], []string{}
	return s
}

// elfMagic is how a program begins that Linux runs by itself.
const elfMagic = "\x7fELF\x02\x01\x01"

// head is how a program begins.
func head(path string) []byte {
	b := make([]byte, 256)
	f, err := os.Open(path)
	if err != nil {
		return []byte(elfMagic)
	}
	defer f.Close()
	n, _ := f.Read(b)
	return b[:n]
}

// Call has the guest make a system call that a process of the host is about to
// make, after all that has happened before it.
func (a *Activity) Call(c host.Caller, s host.Syscall) {
	if a.state.Load() == 0 {
		return
	}
	a.mu.Lock()
	a.drain()
	a.settle(c)
	here := a.conn != nil
	a.mu.Unlock()
	switch s.Nr {
	case sysExit, sysExitGroup:
		if !here { // else the host's kernel tells
			a.exit(c, int(s.Args[0]&0xff)<<8)
		}
		return
	}
	_, _ = a.host.Other(context.Background(), c, s)
	if name := s.Text[1]; s.Nr == sysPrctl && s.Args[0] == unix.PR_SET_NAME && name != nil {
		a.tracer.Renamed(int32(c.TID), *name)
	}
}

// Fork tells of a call of a supervised process that is going to make a process
// or a thread; which one will be known later.
func (a *Activity) Fork(c host.Caller, f host.Fork) {
	if a.state.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain()
	a.settle(c)
	if a.conn != nil {
		a.calls[c.TID] = f // the host's kernel will tell the rest
		return
	}
	a.forks = append(a.forks, fork{c, f, bootTicks()})
}

// dirs has the guest make and remove the directories of events as Linux does,
// in the task whose write did it, if anybody could see it.
func (s *System) dirs(ctx context.Context, changes []tracing.DirChange) {
	if !s.watched() {
		return
	}
	for _, c := range changes {
		do, names := "host_remove_", []string{c.System}
		if c.Made {
			do = "host_make_"
		}
		if c.Event == "" {
			do += "system"
		} else {
			do += "event"
			names = append(names, c.Event)
		}
		if sym := s.Machine.Symbols().LookupName(do); len(sym) > 0 {
			_, _ = host.CallIn(ctx, sym[0].Addr, names...)
		}
	}
}

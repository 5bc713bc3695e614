// Package activity has the guest repeat what the host's processes do: their forks, execs and exits, and the
// system calls that supervisors tell of. It knows the emulated kernel by small interfaces only.
package activity

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/armed"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/connector"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Activity repeats in the guest what the host's processes do: their forks, execs
// and exits, which the host's kernel reports, and the system calls that a supervisor
// reports. The guest does the same in the tasks that stand for these processes. It
// does so only while somebody could see it: while a probe is armed or an event is
// enabled.
//
// Only processes in this process's mount namespace count, since they have the files, and
// those in the mount namespaces that join; this process and others that serve the files
// never count.
type Activity struct {
	host       *host.Host
	tracer     Tracer
	modules    Modules
	log        *kernel.Log
	seen       *seen
	warn       func(string, error)
	sayLost    func(uint64)
	mirror     Mirror
	mirrors    atomic.Pointer[callSet] // the calls of mirrorable that somebody could see; nil means none
	mirrorable callSet                 // the calls that mirror can stop at
	state      *atomic.Uint32          // 0 while nobody watches, else the bits of the calls that somebody could see
	watched    atomic.Pointer[watchedCalls]
	armed      *armed.Changes
	noted      atomic.Uint64 // changes of what is armed, or of whose processes count
	followed   atomic.Uint64 // of these, how many Update has followed
	late       atomic.Bool   // a timer runs that calls Update
	others     []Descriptors

	mu       sync.Mutex
	conn     *connector.Conn     // nil while nobody watches, or when there is no connector
	stop     *os.File            // closed to end the goroutine that waits for events
	refused  bool                // the host reports nothing
	lost     uint64              // lost events that have not been reported yet
	saidLost time.Time           // the time of the last such report
	spaces   map[string]counting // mount namespaces whose processes count
	servers  map[int]bool        // processes that serve the files
	known    map[int]counting    // by process id
	calls    map[int]fork        // forks that supervisors have told of, by the thread that makes them
	exiting  map[int]uint64      // the calls by which threads end, of which somebody has told
	grouped  map[int]bool        // the processes of which a thread has told of its exit_group(2)
	placed   map[int]bool        // threads of which it is known whether the guest has to make the fork by which they began
	unseen   map[int]fork        // forks that nobody could see and the guest has yet to make, by their children
	executed map[int]bool        // by process, of a new program: true if the guest has it before the host's kernel reports it, false if the guest has yet to execute it
	forks    []fork
	endings  []*ending
	closed   bool
	joined   atomic.Int32 // the number of spaces
}

// counting says whether the guest repeats what a process does.
type counting uint8

const (
	countsNot        counting = iota
	countsAlone               // it does
	countsSupervised          // it does, and a supervisor reports the process's execs
)

// maxDrain is the number of our processes' events that are handled before a request,
// and maxForeign the number of others' that are skipped. Further events are handled
// after the request, and are lost if the host's kernel cannot queue them meanwhile.
const (
	maxDrain   = 512
	maxForeign = 1 << 15
)

// Config is what Activity needs of the emulated kernel.
type Config struct {
	Machine Machine
	Probes  Probes
	Tracer  Tracer
	Modules Modules
	Loaded  func() []module.Info // the modules that are loaded
	Sites   *ftrace.Sites        // fentry sites of the kernel that is probed
	// Elsewhere means that the kernel that is probed is another one than the guest.
	Elsewhere bool
}

// Machine is the machine: *kernel.Machine.
type Machine interface {
	Host() *host.Host
	Sites() *ftrace.Sites
	Image() *image.Image
	Syscalls() []string // names, by their numbers
	Log() *kernel.Log
	Armed() *armed.Changes
}

// Probes are the probes that are set: *kprobes.Kprobes.
type Probes interface {
	Armed() int
	ArmedChanges() uint64 // counts the changes of ArmedAt
	ArmedAt() []uint64
}

// Tracer learns of tasks, and wants calls to be seen: *tracing.Tracer.
type Tracer interface {
	Listening() bool
	ListeningElsewhere() bool // to what is hit outside the probes
	UserStacks() bool         // somebody could ask for the stack of user space, or for its registers
	Forked(parent, child int32)
	Exited(tid int32)
	Renamed(tid int32, comm string)
	Perf() *perf.Set
}

// Modules loads and unloads modules: *machinefs.ModuleDir.
type Modules interface {
	Insert(ctx context.Context, ko []byte, o module.Options) error
	Remove(ctx context.Context, name string, force bool) error
}

// Descriptors are descriptors of a kind that processes have open.
type Descriptors interface {
	Settle() // waits for those that are being closed
	Close()
}

// Options name the others that are involved with the files.
type Options struct {
	// Elsewhere means that the processes in this process's mount namespace do not count.
	Elsewhere bool
	// State, if not nil, is kept at 0 while nobody watches, and otherwise at the bits
	// (CallBit) of the calls that somebody could see.
	State *atomic.Uint32
	// Mirror, if not nil, has the calls of processes made by Activity.Mirror.
	Mirror Mirror
	// Warn, if not nil, is called with the reason when the host reports nothing.
	Warn func(what string, err error)
	// Lost, if not nil, is called at most once a second and at the end with the number
	// of events that the host's kernel has lost since the last call.
	Lost func(events uint64)
}

// New returns an Activity, which repeats nothing before Start.
func New(c Config, o Options) *Activity {
	a := &Activity{
		host: c.Machine.Host(), armed: c.Machine.Armed(), tracer: c.Tracer, modules: c.Modules, log: c.Machine.Log(), seen: newSeen(c),
		warn: o.Warn, sayLost: o.Lost, state: o.State, mirror: o.Mirror,
		spaces: map[string]counting{}, servers: map[int]bool{os.Getpid(): true}, known: map[int]counting{}, calls: map[int]fork{}, exiting: map[int]uint64{}, grouped: map[int]bool{}, unseen: map[int]fork{}, executed: map[int]bool{}, placed: map[int]bool{},
	}
	if a.warn == nil {
		a.warn = func(string, error) {}
	}
	if a.sayLost == nil {
		a.sayLost = func(uint64) {}
	}
	if a.state == nil {
		a.state = new(atomic.Uint32)
	}
	if o.Mirror != nil {
		for _, nr := range o.Mirror.Calls() {
			a.mirrorable.add(nr)
		}
	}
	if own, err := proc.OwnNamespace("mnt"); err == nil && !o.Elsewhere {
		a.spaces[own] = countsAlone
		a.joined.Store(1)
	}
	return a
}

// Add adds descriptors, whose ends are waited for before each request. They are closed with a. It must be called
// before Start.
func (a *Activity) Add(d Descriptors) { a.others = append(a.others, d) }

// Start starts repeating the host's activity in the guest.
func (a *Activity) Start() {
	a.armed.Follow(a.note)
	a.note()
	a.Update()
}

// Join makes the processes in a mount namespace count. Their supervisor, which is the
// process server, reports their execs (Call).
func (a *Activity) Join(namespace string, server int) {
	a.mu.Lock()
	a.spaces[namespace] = countsSupervised
	a.servers[server] = true
	a.spacesChanged()
	a.mu.Unlock()
	a.Update()
}

// Leave is the end of Join.
func (a *Activity) Leave(namespace string, server int) {
	a.mu.Lock()
	delete(a.spaces, namespace)
	delete(a.servers, server)
	a.spacesChanged()
	a.mu.Unlock()
	a.Update()
}

// spacesChanged is called with mu held.
func (a *Activity) spacesChanged() {
	clear(a.known)
	a.joined.Store(int32(len(a.spaces)))
	a.note()
}

// watching returns the calls that somebody could see and that processes make.
func (a *Activity) watching() watchedCalls {
	if a.joined.Load() == 0 {
		return watchedCalls{}
	}
	return a.seen.wanted()
}

// Close stops it.
func (a *Activity) Close() {
	a.armed.Follow(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.closed = true
	a.unlisten()
	a.forgetEnds()
	a.state.Store(0)
	a.host.Before(nil)
	a.host.After(nil)
	a.setMirrors(callSet{}, false)
	for _, d := range a.others {
		d.Close()
	}
}

// Begin is called before each request of the files while somebody watches.
func (a *Activity) Begin(c host.Caller) {
	if a.state.Load() != 0 {
		for _, d := range a.others {
			d.Settle()
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.catchUp(c)
	}
}

// End is called after each request while calls are mirrored, and after a request that may have
// armed the first probe or disarmed the last one.
func (a *Activity) End(c host.Caller) {
	a.Update()
	if a.mirrored() != (callSet{}) {
		a.mirror.StopAnswered(c.TID)
	}
}

// followGrace is how long a change of what is armed may wait for the request that makes it. Guest code
// that no request waits for, and Go programs, arm without one.
const followGrace = 10 * time.Millisecond

// note is called at each change of what is armed, with locks of those who arm. The change is followed
// before the request that makes it is answered, or soon if there is none.
func (a *Activity) note() {
	a.noted.Add(1)
	a.host.After(a.End)
	if a.late.CompareAndSwap(false, true) {
		time.AfterFunc(followGrace, func() {
			a.late.Store(false)
			a.Update()
		})
	}
}

// Update follows what is armed, if that has changed.
func (a *Activity) Update() {
	if a.followed.Load() == a.noted.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed { // the state may belong to a successor now
		return
	}
	upTo := a.noted.Load() // before it asks: what is noted later may not be in the answer
	a.follow(a.watching())
	a.followed.Store(upTo)
	if a.mirrored() != (callSet{}) {
		a.host.After(a.End)
		return
	}
	a.host.After(nil)
	if a.noted.Load() != upTo {
		a.host.After(a.End)
	}
}

// follow has the calls that somebody can see told of and mirrored. The caller holds mu.
func (a *Activity) follow(on watchedCalls) {
	if on.told != 0 && !a.listen() { // only who makes them tells of the ends of tasks
		on.told |= lives
	}
	a.watched.Store(&on)
	was := a.state.Swap(on.told)
	a.setMirrors(on.mirrored.and(a.mirrorable), was != on.told)
	if (was != 0) == (on.told != 0) {
		return
	}
	if on.told != 0 {
		a.host.Before(a.Begin)
	} else {
		a.host.Before(nil)
		a.unlisten()
		a.forks = nil
		a.forgetEnds()
		clear(a.calls)
		clear(a.exiting)
		clear(a.grouped)
		clear(a.unseen)
		clear(a.placed)
		clear(a.executed)
	}
}

// catchUp makes the guest repeat what has happened before a call of c. The caller holds mu.
func (a *Activity) catchUp(c host.Caller) {
	a.drain()
	a.resolveForks(c)
	a.settleEnds()
	a.renew(c)
}

// renew brings the task of c up to date with what its thread did while nobody could see that. The caller holds mu.
func (a *Activity) renew(c host.Caller) {
	a.create(c.TID)
	made, ok := a.executed[c.TID]
	delete(a.executed, c.TID)
	if !ok || made { // if it was made and not reported, it has failed on the host
		return
	}
	s := execOf(c.PID)
	s.Quiet = true
	_, _ = a.host.Other(context.Background(), c, s)
	a.setComm(c) // of a script it is not the program's
}

// create makes the task of a thread that began while nobody could see that, by a fork of the thread that has created it.
// If that cannot make it now, the task will be one without a parent, like a thread's from before.
func (a *Activity) create(tid int) {
	f, ok := a.unseen[tid]
	delete(a.unseen, tid)
	earlier := !ok
	if earlier {
		f, ok = a.earlierFork(tid)
	}
	if !ok {
		return
	}
	a.renew(f.by)
	if a.host.Knows(tid) || a.host.Busy(f.by.TID) || a.host.Ended(f.by.TID) {
		return
	}
	f.call.Quiet = true
	if _, err := a.host.Fork(context.Background(), f.by, f.call); err == nil && earlier {
		a.setComm(f.call.Child)
	}
}

// earlierFork returns the fork by which a supervised thread began before anything was armed, at the first call that is
// seen of it: its process's parent has forked then or, for another thread than the first, the process itself. It returns false for the
// command's own process, whose parent is none of the guest's.
func (a *Activity) earlierFork(tid int) (f fork, ok bool) {
	if a.placed[tid] {
		return f, false
	}
	if len(a.placed) > maxKnown {
		clear(a.placed)
	}
	a.placed[tid] = true
	if a.host.Knows(tid) {
		return f, false
	}
	pid, err := proc.Process(tid)
	if err != nil || a.counting(pid) != countsSupervised {
		return f, false
	}
	creator := pid
	if tid == pid {
		s, err := proc.ReadStat(pid)
		if err != nil || a.counting(s.Parent) != countsSupervised {
			return f, false
		}
		creator = s.Parent
	}
	call := forkOf(connector.Event{ChildTID: tid, ChildPID: pid})
	call.Child = callerOf(tid, pid)
	return fork{by: callerOf(creator, creator), call: call}, true
}

// setComm gives a thread's task the name that the thread has, which no probe sees.
func (a *Activity) setComm(c host.Caller) {
	comm := commOf(c.TID)
	name := host.Syscall{Nr: abi.SysPrctl, Quiet: true}
	name.Args[0], name.Text[1] = unix.PR_SET_NAME, &comm
	_, _ = a.host.Other(context.Background(), c, name)
}

// setDir gives the task of a thread that executes a program by a relative name the directory in which the thread is, which
// no probe sees: the task knows it only if it was seen to go there.
func (a *Activity) setDir(c host.Caller, s host.Syscall) {
	if s.Nr != abi.SysExecve || s.Text[0] == nil || strings.HasPrefix(*s.Text[0], "/") {
		return
	}
	dir, err := os.Readlink(proc.Path(c.TID, "cwd"))
	if err != nil {
		return // it has ended meanwhile
	}
	there := host.Syscall{Nr: abi.SysChdir, Quiet: true, Mode: syscall.S_IFDIR | 0o755}
	there.Text[0] = &dir
	_, _ = a.host.Other(context.Background(), c, there)
}

// behind reports whether renew has something to do.
func (a *Activity) behind(c host.Caller) bool {
	_, unseen := a.unseen[c.TID]
	made, executed := a.executed[c.TID]
	return unseen || executed && !made || !a.placed[c.TID]
}

// caughtUp reports whether catchUp has nothing to do before a call of c. The caller holds mu.
func (a *Activity) caughtUp(c host.Caller) bool {
	return !a.behind(c) && len(a.forks) == 0 && len(a.endings) == 0 && (a.refused || a.conn != nil && !a.conn.Queued())
}

// drain makes the guest repeat what has happened. The caller holds mu.
func (a *Activity) drain() {
	if !a.listen() {
		return
	}
	for own, foreign := 0, 0; own < maxDrain && foreign < maxForeign; {
		e, ok, err := a.conn.Next()
		if lost := (*connector.LostError)(nil); errors.As(err, &lost) {
			a.lose(lost.Events)
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

// listen subscribes to events, and starts a goroutine for those that come while there
// are no requests. The caller holds mu.
func (a *Activity) listen() bool {
	if a.conn != nil || a.refused {
		return a.conn != nil
	}
	c, err := connector.Open()
	if err != nil {
		a.refused = true
		a.warn("the activity of processes is not seen", err)
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

// lose counts events that the host's kernel has lost. The caller holds mu.
func (a *Activity) lose(events uint64) {
	clear(a.known) // a number may belong to another process by now
	clear(a.unseen)
	a.lost += events
	if time.Since(a.saidLost) >= time.Second {
		a.tellLost()
	}
}

func (a *Activity) tellLost() {
	if a.lost > 0 {
		a.sayLost(a.lost)
		a.lost, a.saidLost = 0, time.Now()
	}
}

// unlisten ends the subscription. The caller holds mu.
func (a *Activity) unlisten() {
	a.tellLost()
	if a.conn != nil {
		_ = a.stop.Close() // the waiting goroutine closes the rest
		a.conn, a.stop = nil, nil
		clear(a.known)
	}
}

// wait handles the events that come while there are no requests.
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

// handle repeats an event, and reports whether its process counts.
func (a *Activity) handle(e connector.Event) bool {
	switch e.Kind {
	case connector.Fork:
		return a.forked(e)
	case connector.Exec:
		how := a.counting(e.PID)
		if how != countsNot {
			a.execed(e, how)
		}
		return how != countsNot
	case connector.Exit:
		how := a.counting(e.PID)
		if how != countsNot {
			a.host.AwaitClosed(context.Background()) // which happened before the exec
			a.ended(e)
			a.exit(callerOf(e.TID, e.PID), e.Code, a.exitCall(e, how))
		}
		return how != countsNot // it stays known: other threads of its process may exit later
	}
	return false
}

// execed is called when the host's kernel reports that a thread has a new program.
func (a *Activity) execed(e connector.Event, how counting) {
	made := a.executed[e.PID]
	delete(a.executed, e.PID)
	switch {
	case made: // somebody has told of it
	case a.state.Load()&lives == 0:
		if _, unseen := a.unseen[e.PID]; unseen || a.host.Knows(e.PID) {
			a.executed[e.PID] = false
		}
	case how == countsAlone:
		a.other(callerOf(e.PID, e.PID), execOf(e.PID))
	}
}

// ended is called before exit when the host's kernel reports the end of a thread.
func (a *Activity) ended(e connector.Event) {
	if a.state.Load()&lives != 0 {
		a.renew(callerOf(e.TID, e.PID))
	}
	delete(a.unseen, e.TID)
	delete(a.executed, e.TID)
	delete(a.placed, e.TID)
}

func (a *Activity) forked(e connector.Event) bool {
	creator := e.TID
	told, isTold := a.toldFork(e)
	if isTold {
		creator = told.by.TID
	} else if e.ChildTID != e.ChildPID {
		creator = e.ChildPID // the event names the parent of the process
	}
	if e.ChildTID == e.ChildPID {
		delete(a.known, e.ChildPID) // that was another one
	}
	how := a.counting(creator)
	if e.ChildTID == e.ChildPID && (how != countsNot || !a.servers[e.PID]) {
		a.known[e.ChildPID] = how // a child is in its parent's namespace
	}
	if how == countsNot {
		return false
	}
	f := forkOf(e)
	by := callerOf(creator, creator)
	if isTold {
		child := f.Child
		f, by = told.call, told.by
		f.Child = child
		delete(a.calls, creator)
	}
	a.fork(by, f)
	return true
}

// toldFork returns the call that has created a thread if a supervisor has told of it. The
// event of a thread names the parent of the process, not the thread that has made it.
func (a *Activity) toldFork(e connector.Event) (fork, bool) {
	if e.ChildTID == e.ChildPID {
		f, ok := a.calls[e.TID]
		return f, ok && f.call.Args[0]&unix.CLONE_THREAD == 0
	}
	for _, f := range a.calls {
		if f.by.PID == e.ChildPID && f.call.Args[0]&unix.CLONE_THREAD != 0 {
			return f, true
		}
	}
	return fork{}, false
}

// exitCall returns the call by which a thread has ended. A supervised one of which nobody has told was killed, or ended
// by another thread of its process, unless it is the first thread of a process in which none has told: nobody tells
// of the calls of a thread that a debugger traces, or if nothing can be seen of them.
func (a *Activity) exitCall(e connector.Event, how counting) uint64 {
	nr, told := a.exiting[e.TID]
	delete(a.exiting, e.TID)
	first, grouped := e.TID == e.PID, a.grouped[e.PID]
	if first {
		delete(a.grouped, e.PID)
	}
	const signal = 0x7f
	switch {
	case told:
		return nr
	case how == countsSupervised && (!first || grouped || e.Code&signal != 0):
		return abi.HostKilled
	}
	return abi.SysExitGroup
}

// fork makes the guest fork. Fork's listeners learn of the child before it runs.
func (a *Activity) fork(by host.Caller, f host.Fork) {
	if f.Child.TID != 0 {
		a.tracer.Forked(int32(by.TID), int32(f.Child.TID))
		a.perfForked(by, f.Child)
	}
	if a.state.Load()&lives != 0 {
		a.renew(by)
		_, _ = a.host.Fork(context.Background(), by, f)
	} else if f.Child.TID != 0 {
		a.unseen[f.Child.TID] = fork{by: by, call: f}
	}
}

// exit makes the guest exit. Lists of tasks keep the task until it has run for the
// last time, as Linux's do until sched_process_free.
func (a *Activity) exit(c host.Caller, code int, nr uint64) {
	if a.state.Load()&lives != 0 || a.host.Knows(c.TID) {
		_ = a.host.ExitBy(context.Background(), c, code, nr)
	}
	a.tracer.Exited(int32(c.TID))
	a.tracer.Perf().Exited(perf.Task{IDs: IDs(c)})
}

// maxKnown is the largest number of processes to remember.
const maxKnown = 1 << 16

// counting says whether the guest repeats what a process does.
func (a *Activity) counting(pid int) counting {
	if a.servers[pid] {
		return countsNot
	}
	how, ok := a.known[pid]
	if !ok {
		if ns, err := proc.Namespace(pid, "mnt"); err == nil {
			how = a.spaces[ns]
		}
		if len(a.known) > maxKnown {
			clear(a.known)
		}
		a.known[pid] = how
	}
	return how
}

func (a *Activity) counts(pid int) bool { return a.counting(pid) != countsNot }

func callerOf(tid, pid int) host.Caller {
	return host.Caller{TID: tid, PID: pid, Comm: func() string { return commOf(tid) }}
}

// commOf returns the name of a thread, or "" if it has ended.
func commOf(tid int) string {
	name, _ := proc.Comm(tid)
	return name
}

// Flags of clone(2) as the C library passes them.
const (
	forkFlags   = unix.CLONE_CHILD_SETTID | unix.CLONE_CHILD_CLEARTID | uint64(syscall.SIGCHLD)
	threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM |
		unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
)

// forkOf returns the call that must have created the thread.
func forkOf(e connector.Event) host.Fork {
	f := host.Fork{Nr: abi.SysClone, Child: host.Caller{TID: e.ChildTID, PID: e.ChildPID}}
	f.Args[0] = forkFlags
	if e.ChildTID != e.ChildPID {
		f.Args[0] = threadFlags
		f.Args[1] = 16 // any stack
	}
	return f
}

// execOf returns the execve that must have started the process's program.
func execOf(pid int) host.Syscall {
	path, err := os.Readlink(proc.Path(pid, "exe"))
	if err != nil {
		path = commOf(pid) // it has ended meanwhile
	}
	cmdline, _ := proc.Read(pid, "cmdline")
	argv := strings.Split(cmdline, "\x00")
	s := host.Syscall{Nr: abi.SysExecve, Mode: syscall.S_IFREG | 0o755, Head: [][]byte{headOf(path)}}
	s.Text[0], s.Vector[1], s.Vector[2] = &path, argv[:max(0, len(argv)-1)], []string{}
	return s
}

// headOf returns the start of a program. A file that cannot be read is taken for an ELF program.
func headOf(path string) []byte {
	if b, err := hostview.Head(path); err == nil {
		return b
	}
	return []byte(hostview.ElfMagic)
}

// Call makes the guest repeat a system call that a process of the host is about to
// make, after everything that has happened before it. It returns the error with which a
// program has refused the call, or 0.
func (a *Activity) Call(c host.Caller, s host.Syscall) (refused syscall.Errno) {
	if state := a.state.Load(); state == 0 || CallBit(s.Nr) == lives && state&lives == 0 {
		return 0
	}
	a.host.AwaitClosed(context.Background())
	a.mu.Lock()
	a.catchUp(c)
	here := a.conn != nil
	a.mu.Unlock()
	switch s.Nr {
	case abi.SysExit, abi.SysExitGroup:
		if !here { // otherwise the host's kernel reports it
			a.exits(c, s.Nr, int(s.Args[0]&0xff)<<8)
			return 0
		}
		a.mu.Lock()
		a.exiting[c.TID] = s.Nr
		if s.Nr == abi.SysExitGroup {
			a.grouped[c.PID] = true
		}
		a.mu.Unlock()
		return 0
	}
	if tid, pid, ok := signalled(s); ok && !a.ensureTask(tid, pid) {
		return 0
	}
	a.setDir(c, s)
	done, refused := a.other(c, s)
	if done && here && (s.Nr == abi.SysExecve || s.Nr == abi.SysExecveat) {
		a.mu.Lock()
		a.executed[c.PID] = true
		a.mu.Unlock()
	}
	if name := s.Text[1]; s.Nr == abi.SysPrctl && s.Args[0] == unix.PR_SET_NAME && name != nil {
		a.tracer.Renamed(int32(c.TID), *name)
		a.tracer.Perf().Renamed(IDs(c), *name)
	}
	return refused
}

// other makes a call in the guest. It reports whether it succeeds there, and returns the error with which a program has refused it, or 0.
func (a *Activity) other(c host.Caller, s host.Syscall) (ok bool, refused syscall.Errno) {
	left := false
	s.Refused = &left
	ret, err := a.host.Other(context.Background(), c, s)
	ok = err == nil && ret >= 0
	if name := execName(s); ok && name != "" {
		a.tracer.Perf().Executed(IDs(c), name)
	}
	if left && err == nil {
		refused = host.RefusedWith(ret)
	}
	return ok, refused
}

// execName returns the name that a thread gets by an execve(2) or execveat(2), or "" for other
// calls.
func execName(s host.Syscall) string {
	switch {
	case s.Nr == abi.SysExecve && s.Text[0] != nil:
		return filepath.Base(*s.Text[0])
	case s.Nr == abi.SysExecveat && s.Text[1] != nil && *s.Text[1] != "":
		return filepath.Base(*s.Text[1])
	case s.Nr == abi.SysExecveat && s.Text[5] != nil: // the program of a descriptor
		return *s.Text[5]
	}
	return ""
}

// signalled returns the thread that a kill(2), tkill(2) or tgkill(2) is for.
func signalled(s host.Syscall) (tid, pid int, ok bool) {
	first, second := int(int32(s.Args[0])), int(int32(s.Args[1]))
	switch s.Nr {
	case abi.SysKill:
		return first, first, true
	case abi.SysTkill:
		return first, 0, true
	case abi.SysTgkill:
		return second, first, true
	}
	return 0, 0, false
}

// ensureTask makes the guest create the task of a thread that is about to get a
// signal. It returns false when the guest cannot answer for that thread: it has no
// process groups, and no tasks for processes that do not count.
func (a *Activity) ensureTask(tid, pid int) bool {
	if tid <= 0 {
		return false
	}
	if _, err := os.Stat(proc.Path(tid, "")); err != nil {
		return true // ESRCH
	}
	if pid == 0 {
		pid, _ = proc.Process(tid) // 0 if it has ended meanwhile
	}
	a.mu.Lock()
	yes := a.counts(pid)
	if yes {
		a.renew(callerOf(tid, pid))
	}
	a.mu.Unlock()
	return yes && a.host.EnsureTask(context.Background(), callerOf(tid, pid)) == nil
}

// TaskOf returns the guest's task of a caller, which is created if it has none yet, or 0 if there can be none.
func (a *Activity) TaskOf(c host.Caller) uint64 {
	a.mu.Lock()
	a.renew(c)
	a.mu.Unlock()
	if a.host.EnsureTask(context.Background(), c) != nil {
		return 0
	}
	for _, t := range a.host.Tasks() {
		if t.TID == c.TID {
			return t.Addr
		}
	}
	return 0
}

// Fork reports a call of a supervised process that is about to create a process or a
// thread. Its id is found later.
func (a *Activity) Fork(c host.Caller, f host.Fork) {
	if a.state.Load() == 0 {
		return
	}
	a.host.AwaitClosed(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.catchUp(c)
	if a.conn != nil {
		a.calls[c.TID] = fork{by: c, call: f} // the host's kernel will report the rest
		return
	}
	a.forks = append(a.forks, fork{c, f, bootTicks()})
}

// Learn makes sure that the end of a thread will be recognized as the end of one that counts.
func (a *Activity) Learn(tid int32) {
	pid, err := proc.Process(int(tid))
	if tid < 0 || err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts(pid)
}

// IDs returns a caller's ids.
func IDs(c host.Caller) perf.IDs { return perf.IDs{PID: int32(c.PID), TID: int32(c.TID)} }

// perfForked tells perf of a child before it runs.
func (a *Activity) perfForked(by, child host.Caller) {
	parent := by
	if child.PID == by.TID {
		parent.PID = child.PID
	}
	a.tracer.Perf().Forked(perf.Task{IDs: IDs(child), Parent: IDs(parent)})
}

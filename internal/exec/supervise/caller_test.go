package supervise

import (
	"encoding/binary"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/exectest"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/space"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
)

// byNumber are functions that act on a thread or a process by its number, and constants of
// ioctls that answer a notification, with the files that may name them.
var byNumber = map[string][]string{
	"ProcessVMWritev":              {},
	"Kill":                         {},
	"Tgkill":                       {"notify/listener.go", "mirror/mirror.go", "hostview/threads.go"}, // own threads; signal 0
	"PidfdSendSignal":              {"notify/caller.go"},
	"SECCOMP_IOCTL_NOTIF_SEND":     {"notify/caller.go"},
	"SECCOMP_IOCTL_NOTIF_ADDFD":    {"notify/caller.go"},
	"SECCOMP_IOCTL_NOTIF_ID_VALID": {"notify/caller.go"},
	"Notifier":                     {"notify/caller.go"},
}

// notInTake are functions that change something, which must not be called before it is known that
// the caller still waits.
var notInTake = []string{
	"Mount", "Unmount", "Setns", "Unshare", "Pwrite", "Write", "Seek", "PidfdSendSignal", "Ask", "askOf", "asks", "Tell", "send",
	"Signal", "Kill", "Give", "Result", "Fail", "Succeed", "Proceed", "mountFor", "bind", "openFor",
}

// TestCallersNumber: only notify/caller.go uses the number of a notification's thread, no file of exec acts on
// a thread by its number, and what Take calls only looks.
func TestCallersNumber(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	takes := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		name = strings.TrimPrefix(name, "../")
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if in, known := byNumber[s.Sel.Name]; known && !slices.Contains(in, name) && !ofSignal(s) {
					t.Errorf("%v: %s is for %v: what is done for a caller is done by a caller's methods", set.Position(s.Pos()), s.Sel.Name, in)
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || !strings.EqualFold(s.Sel.Name, "take") {
				return true
			}
			takes++
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if inner, ok := n.(*ast.CallExpr); ok {
					if s, ok := inner.Fun.(*ast.SelectorExpr); ok && slices.Contains(notInTake, s.Sel.Name) {
						t.Errorf("%v: %s in what Take calls: the caller may be another thread by then", set.Position(s.Pos()), s.Sel.Name)
					}
				}
				return true
			})
			return true
		})
	}
	if takes == 0 {
		t.Error("no call of Take is found")
	}
}

// ofSignal reports whether a selector is a method or syscall.Kill of this process.
func ofSignal(s *ast.SelectorExpr) bool {
	if s.Sel.Name != "Kill" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return !ok || x.Name != "unix"
}

// supervisorFor returns a supervisor of a filter, whose server counts what it is told and asked. It
// has a tree with nothing in it but the directories that are mounted elsewhere.
func supervisorFor(t *testing.T, listener int) (s *supervisor, told *atomic.Int32) {
	t.Helper()
	calls, theirs, err := wire.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	told = &atomic.Int32{}
	go func() {
		b := make([]byte, wire.MaxPacket)
		for {
			n, err := unix.Read(int(theirs.Fd()), b)
			if n == 0 && err == nil {
				return
			}
			told.Add(1)
			var m wire.Message
			_ = json.Unmarshal(b[:max(n, 0)], &m)
			answer, _ := json.Marshal(m.ID)
			if m.Question != nil {
				answer, _ = json.Marshal(wire.Reply{ID: m.ID})
			}
			_, _ = unix.Write(int(theirs.Fd()), answer)
		}
	}()
	t.Cleanup(calls.Close)
	var watched atomic.Uint32
	watched.Store(^uint32(0)) // a probe for each call
	calls.State.Store(&watched)
	tree := t.TempDir()
	for _, dir := range []string{"tracing", "debugfs", "proc", "sys"} {
		if err := os.Mkdir(filepath.Join(tree, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ns := &space.Namespace{Log: logrus.New(), Tree: tree, Staging: tree}
	fd, err := unix.Open(hostview.ProcDir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, _, id := hostview.Fdinfo(os.Getpid(), fd)
	ns.Covers.Store(hostview.ProcDir, id) // statfs(2) of what is covered is answered
	made := space.NewPlaces(ns, func() ([]wire.Entry, error) { return nil, nil })
	return newSupervisor(logrus.New(), listener, Supervised{Dirs: []string{tree}, Calls: calls, Made: made, Kernel: Identity{Release: "emulated"}}), told
}

// wait has everything answered that was received.
func (s *supervisor) wait() { s.answers.Wait() }

// TestDeadCallers: a notification whose caller is dead, and whose number another process of root has by now,
// has no effect on that process, and none with its rights. So for each call that is answered; the one of a caller that
// waits has it.
func TestDeadCallers(t *testing.T) {
	ready, over := make(chan int), make(chan struct{})
	type request struct {
		nr   uint32
		args [6]uintptr
	}
	requests, results := make(chan request), make(chan syscall.Errno)
	go func() { // the caller that waits
		runtime.LockOSThread() // and never unlocked: the filter ends with the thread
		defer close(over)
		ready <- exectest.NotifyOf(unix.SYS_UNAME, unix.SYS_STATFS, unix.SYS_DELETE_MODULE)
		for r := range requests {
			_, _, errno := unix.Syscall6(uintptr(r.nr), r.args[0], r.args[1], r.args[2], 0, 0, 0)
			results <- errno
		}
	}()
	listener := <-ready
	if listener < 0 {
		t.Skip("no filters with a listener here")
	}
	defer unix.Close(listener)
	s, told := supervisorFor(t, listener)

	// The process that has the number is this one: its memory has what the call's arguments point to.
	var kept [][]byte
	text := func(s string) uint64 {
		kept = append(kept, append([]byte(s), 0))
		return exectest.AddrOf(t, &kept[len(kept)-1][0])
	}
	victim := make([]byte, 4096)
	at, target, file := exectest.AddrOf(t, &victim[0]), t.TempDir(), "/proc/self/mounts"
	attr := make([]byte, 128)
	attr[0], attr[6] = unix.PERF_TYPE_TRACEPOINT, 0xff // a size that cannot be: it is corrected there
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	position, err := os.Open("caller_test.go")
	if err != nil {
		t.Fatal(err)
	}
	defer position.Close()
	args := map[uint32][6]uint64{
		unix.SYS_MOUNT:           {text("none"), text(target), text(hostview.TraceFS), 0, text("uid=7")},
		unix.SYS_UMOUNT2:         {text(target), 0},
		unix.SYS_FSOPEN:          {text(hostview.TraceFS)},
		unix.SYS_STATFS:          {text(hostview.ProcDir), at},
		unix.SYS_FSTATFS:         {uint64(position.Fd()), at},
		unix.SYS_UNAME:           {at},
		unix.SYS_INIT_MODULE:     {at, 128, text("")},
		unix.SYS_FINIT_MODULE:    {uint64(position.Fd()), text(""), 0},
		unix.SYS_DELETE_MODULE:   {text("m"), 0},
		unix.SYS_SYSLOG:          {3, at, 4096}, // SYSLOG_ACTION_READ_ALL
		unix.SYS_PERF_EVENT_OPEN: {exectest.AddrOf(t, &attr[0]), 0, ^uint64(0), ^uint64(0)},
		unix.SYS_MMAP:            {0, 8192, unix.PROT_READ, unix.MAP_SHARED, uint64(null.Fd())},
		unix.SYS_SPLICE:          {uint64(position.Fd()), 0, uint64(null.Fd()), 0, 10},
		unix.SYS_LSEEK:           {uint64(position.Fd()), 0, unix.SEEK_CUR},
		unix.SYS_PRCTL:           {unix.PR_SET_NAME, text("name")},
	}
	for _, call := range calls.Told {
		if _, known := args[uint32(call.Host)]; !known {
			var a [6]uint64
			if dir := call.Arg(calls.IsDir); dir >= 0 {
				a[dir] = 0xffffff9c
			}
			for _, i := range []int{call.Name(), call.Arg(calls.IsText)} {
				if i >= 0 {
					a[i] = text(file)
				}
			}
			args[uint32(call.Host)] = a
		}
	}
	numbers := append(Identity{}.numbers(), append(slices.Clone(calls.PlaceCalls), unix.SYS_PERF_EVENT_OPEN, unix.SYS_MMAP, unix.SYS_SPLICE, unix.SYS_LSEEK, unix.SYS_PRCTL)...)
	for _, call := range calls.Told {
		numbers = append(numbers, uint32(call.Host))
	}
	for _, nr := range numbers {
		if _, known := args[nr]; !known {
			t.Errorf("call %d is answered, and not tried here", nr)
		}
	}
	for nr, a := range args {
		n := &notify.Notif{ID: 1 << 60, Notifier: uint32(os.Getpid()), Nr: int32(nr), Arch: calls.KernelNumbers[0].Arch, Args: a}
		s.answer(notify.NewCaller(n, listener))
		s.wait()
		switch {
		case slices.ContainsFunc(victim, func(b byte) bool { return b != 0 }):
			t.Errorf("call %d writes into another process", nr)
		case told.Load() != 0:
			t.Errorf("call %d of a dead caller is made", nr)
		case unix.Unmount(target, unix.MNT_DETACH) == nil:
			t.Errorf("call %d mounts", nr)
		case attr[4] != 0:
			t.Errorf("call %d writes a size", nr)
		}
		clear(victim)
		told.Store(0)
	}

	// The same by a caller that waits.
	do := func(nr uint32, args ...uint64) syscall.Errno {
		r := request{nr: nr}
		for i, a := range args {
			r.args[i] = uintptr(a)
		}
		requests <- r
		n := &notify.Notif{}
		for notify.SeccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)) != nil {
			*n = notify.Notif{}
		}
		s.answer(notify.NewCaller(n, listener))
		s.wait()
		return <-results
	}
	if errno := do(unix.SYS_UNAME, at); errno != 0 || !strings.HasPrefix(string(victim[2*65:]), "emulated\x00") {
		t.Errorf("uname of a caller that waits: %v, %q", errno, victim[:390])
	}
	clear(victim)
	if errno := do(unix.SYS_STATFS, text(hostview.ProcDir), at); errno != 0 || told.Load() == 0 || int64(binary.NativeEndian.Uint64(victim)) != unix.PROC_SUPER_MAGIC {
		t.Errorf("statfs of a caller that waits: %v", errno)
	}
	if errno := do(unix.SYS_UNAME, 8); errno != unix.EFAULT {
		t.Errorf("uname where nothing is: %v", errno)
	}
	if told.Store(0); os.Geteuid() == 0 {
		if errno := do(unix.SYS_DELETE_MODULE, text("m")); errno != 0 || told.Load() != 1 {
			t.Errorf("delete_module of a caller that waits: %v, asked %d times", errno, told.Load())
		}
	}
	close(requests)
	<-over
	runtime.KeepAlive(kept)
}

package main

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

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// byNumber are functions that act on a thread or a process by its number, and constants of
// ioctls that answer a notification, with the files that may name them.
var byNumber = map[string][]string{
	"ProcessVMWritev":              {},
	"Kill":                         {},
	"Tgkill":                       {"notifications.go", "mirror.go", "threads.go"}, // own threads; signal 0
	"PidfdSendSignal":              {"caller.go"},
	"SECCOMP_IOCTL_NOTIF_SEND":     {"caller.go"},
	"SECCOMP_IOCTL_NOTIF_ADDFD":    {"caller.go"},
	"SECCOMP_IOCTL_NOTIF_ID_VALID": {"caller.go"},
	"notifier":                     {"caller.go"},
}

// notInTake are functions that change something, which must not be called before it is known that
// the caller still waits.
var notInTake = []string{
	"Mount", "Unmount", "Setns", "Unshare", "Pwrite", "Write", "Seek", "PidfdSendSignal", "ask", "askOf", "asks", "tell", "send", "write",
	"signal", "kill", "give", "result", "fail", "succeed", "proceed", "mountFor", "bind", "openFor",
}

// TestCallersNumber: only caller.go uses the number of a notification's thread, no file acts on a
// thread by its number, and what take calls only looks.
func TestCallersNumber(t *testing.T) {
	files, err := filepath.Glob("*.go")
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
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "take" {
				return true
			}
			takes++
			ast.Inspect(call.Args[0], func(n ast.Node) bool {
				if inner, ok := n.(*ast.CallExpr); ok {
					if s, ok := inner.Fun.(*ast.SelectorExpr); ok && slices.Contains(notInTake, s.Sel.Name) {
						t.Errorf("%v: %s in what take calls: the caller may be another thread by then", set.Position(s.Pos()), s.Sel.Name)
					}
				}
				return true
			})
			return true
		})
	}
	if takes == 0 {
		t.Error("no call of take is found")
	}
}

// ofSignal reports whether a selector is a method of os.Process or syscall.Kill of this process.
func ofSignal(s *ast.SelectorExpr) bool {
	if s.Sel.Name != "Kill" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return !ok || x.Name == "syscall"
}

// TestWritable: what /proc/TID/maps shows as writable, across mappings that lie side by side.
func TestWritable(t *testing.T) {
	const maps = `1000-2000 r--p 00000000 00:00 0
2000-4000 rw-p 00000000 00:00 0                          [heap]
4000-5000 rwxs 00000000 00:01 7 /a file
6000-7000 rw-p 00000000 00:00 0
7fffffffe000-7ffffffff000 -w-p 00000000 00:00 0
`
	for _, tt := range []struct {
		addr, size uint64
		want       bool
	}{
		{0x1000, 1, false},
		{0x1fff, 2, false},
		{0x2000, 0x3000, true},
		{0x2001, 0x3000, false},
		{0x4fff, 1, true},
		{0x5000, 1, false},
		{0x6000, 0x1000, true},
		{0x5fff, 2, false},
		{0x7fffffffe000, 16, true},
		{0, 1, false},
		{^uint64(0), 8, false},
	} {
		if got := writable(maps, tt.addr, tt.size); got != tt.want {
			t.Errorf("%d bytes at %#x: %v", tt.size, tt.addr, got)
		}
	}
}

// supervisorFor returns a supervisor of a filter, whose server counts what it is told and asked. It
// has a tree with nothing in it but the directories that are mounted elsewhere.
func supervisorFor(t *testing.T, listener int) (s *supervisor, told *atomic.Int32) {
	t.Helper()
	calls, theirs, err := newCallClient()
	if err != nil {
		t.Fatal(err)
	}
	told = &atomic.Int32{}
	go func() {
		b := make([]byte, maxPacket)
		for {
			n, err := unix.Read(int(theirs.Fd()), b)
			if n == 0 && err == nil {
				return
			}
			told.Add(1)
			var m callMessage
			_ = json.Unmarshal(b[:max(n, 0)], &m)
			answer, _ := json.Marshal(m.ID)
			if m.Question != nil {
				answer, _ = json.Marshal(reply{ID: m.ID})
			}
			_, _ = unix.Write(int(theirs.Fd()), answer)
		}
	}()
	t.Cleanup(calls.close)
	var watched atomic.Uint32
	watched.Store(^uint32(0)) // a probe for each call
	calls.state.Store(&watched)
	tree := t.TempDir()
	for _, dir := range []string{"tracing", "debugfs", "proc", "sys"} {
		if err := os.Mkdir(filepath.Join(tree, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ns := &namespace{log: newLog(), tree: tree, staging: tree}
	fd, err := unix.Open(procDir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	_, _, id := fdinfo(os.Getpid(), fd)
	ns.covers.Store(procDir, id) // statfs(2) of what is covered is answered
	made := newPlaces(ns, func() ([]madeEntry, error) { return nil, nil })
	return newSupervisor(newLog(), listener, supervised{dirs: []string{tree}, calls: calls, made: made, kernel: identity{release: "emulated"}}), told
}

// wait has everything answered that was received.
func (s *supervisor) wait() { s.answers.Wait() }

// TestDeadCallers: a notification whose caller is dead, and whose number another process of root has by now,
// has no effect on that process, and none with its rights. So for each call that is answered; that of a caller that
// waits has it.
func TestDeadCallers(t *testing.T) {
	needFuse(t)
	ready, over := make(chan int), make(chan struct{})
	type request struct {
		nr   uint32
		args [6]uintptr
	}
	requests, results := make(chan request), make(chan syscall.Errno)
	go func() { // the caller that waits
		runtime.LockOSThread() // and never unlocked: the filter ends with the thread
		defer close(over)
		ready <- notifyOf(unix.SYS_UNAME, unix.SYS_STATFS, unix.SYS_DELETE_MODULE)
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
		return addrOf(t, &kept[len(kept)-1][0])
	}
	victim := make([]byte, 4096)
	at, target, file := addrOf(t, &victim[0]), t.TempDir(), "/proc/self/mounts"
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
		unix.SYS_MOUNT:           {text("none"), text(target), text(traceFS), 0, text("uid=7")},
		unix.SYS_FSOPEN:          {text(traceFS)},
		unix.SYS_STATFS:          {text(procDir), at},
		unix.SYS_FSTATFS:         {uint64(position.Fd()), at},
		unix.SYS_UNAME:           {at},
		unix.SYS_INIT_MODULE:     {at, 128, text("")},
		unix.SYS_FINIT_MODULE:    {uint64(position.Fd()), text(""), 0},
		unix.SYS_DELETE_MODULE:   {text("m"), 0},
		unix.SYS_SYSLOG:          {3, at, 4096}, // SYSLOG_ACTION_READ_ALL
		unix.SYS_PERF_EVENT_OPEN: {addrOf(t, &attr[0]), 0, ^uint64(0), ^uint64(0)},
		unix.SYS_MMAP:            {0, 8192, unix.PROT_READ, unix.MAP_SHARED, uint64(null.Fd())},
		unix.SYS_SPLICE:          {uint64(position.Fd()), 0, uint64(null.Fd()), 0, 10},
		unix.SYS_LSEEK:           {uint64(position.Fd()), 0, unix.SEEK_CUR},
		unix.SYS_PRCTL:           {unix.PR_SET_NAME, text("name")},
	}
	numbers := append(identity{}.numbers(), append(slices.Clone(placeCalls), unix.SYS_PERF_EVENT_OPEN, unix.SYS_MMAP, unix.SYS_SPLICE, unix.SYS_LSEEK, unix.SYS_PRCTL)...)
	for _, call := range tracedCalls {
		numbers = append(numbers, call.host)
		if _, known := args[call.host]; !known {
			var a [6]uint64
			if call.dir >= 0 {
				a[call.dir] = 0xffffff9c
			}
			for _, i := range []int{call.name, call.text} {
				if i >= 0 {
					a[i] = text(file)
				}
			}
			args[call.host] = a
		}
	}
	for _, nr := range numbers {
		if _, known := args[nr]; !known {
			t.Errorf("call %d is answered, and not tried here", nr)
		}
	}
	for nr, a := range args {
		n := &seccompNotif{id: 1 << 60, notifier: uint32(os.Getpid()), nr: int32(nr), arch: kernelNumbers[0].arch, args: a}
		s.answer(newCaller(n, listener))
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
		n := &seccompNotif{}
		for seccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n)) != nil {
			*n = seccompNotif{}
		}
		s.answer(newCaller(n, listener))
		s.wait()
		return <-results
	}
	if errno := do(unix.SYS_UNAME, at); errno != 0 || !strings.HasPrefix(string(victim[2*65:]), "emulated\x00") {
		t.Errorf("uname of a caller that waits: %v, %q", errno, victim[:390])
	}
	clear(victim)
	if errno := do(unix.SYS_STATFS, text(procDir), at); errno != 0 || told.Load() == 0 || int64(binary.NativeEndian.Uint64(victim)) != unix.PROC_SUPER_MAGIC {
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

// TestWriteProtected: an answer is not written where the caller may not write.
func TestWriteProtected(t *testing.T) {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	maps, err := proc.Read(os.Getpid(), "maps")
	if err != nil {
		t.Fatal(err)
	}
	if at := addrOf(t, &page[0]); writable(maps, at, 8) {
		t.Error("a page that can be read only is writable")
	}
	word := new([8]byte)
	if !writable(maps, addrOf(t, &word[0]), 8) {
		t.Error("memory of ours is not writable")
	}
}

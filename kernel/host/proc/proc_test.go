package proc

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const rest = " 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 3 0 0\n"
	for _, tt := range []struct {
		text string
		want Stat
		ok   bool
	}{
		{"42 (a) b) c) S 7" + rest, Stat{7, 98765, 3}, true},
		{"42 (sh) Z 7" + rest, Stat{7, 98765, 3}, true},
		{"42 (sh) S x" + rest, Stat{}, false},
		{"42 (sh) S 7 42\n", Stat{}, false},
		{"", Stat{}, false},
	} {
		if got, err := parseStat(tt.text); (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("%q: %+v, %v", tt.text, got, err)
		}
	}
}

// TestThread reads the files of a thread of this process.
func TestThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, tid := os.Getpid(), unix.Gettid()
	if got, err := Process(tid); got != pid || err != nil {
		t.Errorf("thread %d is of process %d, %v; want %d", tid, got, err, pid)
	}
	whole, err := Read(tid, "comm")
	if name, cerr := Comm(tid); err != nil || cerr != nil || name == "" || name+"\n" != whole {
		t.Errorf("name %q, %v; comm has %q, %v", name, cerr, whole, err)
	}
	s, err := ReadStat(tid)
	if err != nil || s.Parent != os.Getppid() || s.CPU < 0 || s.CPU >= 1<<16 {
		t.Errorf("stat %+v, %v", s, err)
	}
	if caps, ok := Status(tid, "CapEff"); !ok || len(caps) != 16 {
		t.Errorf("CapEff %q, %v", caps, ok)
	}
	if _, ok := Status(tid, "CapEf"); ok {
		t.Error("status has a field that begins as another")
	}
	ours, err := OwnNamespace("pid")
	if theirs, terr := Namespace(tid, "pid"); err != nil || terr != nil || ours != theirs || !strings.HasPrefix(ours, "pid:[") {
		t.Errorf("pid namespaces %q, %v and %q, %v", ours, err, theirs, terr)
	}
}

// TestGone: a process that was waited for has no files.
func TestGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if name, err := Comm(pid); err == nil {
		t.Errorf("name %q", name)
	}
	if s, err := ReadStat(pid); err == nil {
		t.Errorf("stat %+v", s)
	}
	if of, err := Process(pid); err == nil {
		t.Errorf("process %d", of)
	}
}

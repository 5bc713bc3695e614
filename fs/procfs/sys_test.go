package procfs

import (
	"context"
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/sysctl"
	"github.com/kprobefs/kprobefs/sysctl/sysctltest"
)

func testTable() (*sysctl.Table, *sysctltest.Kernel) {
	k := &sysctltest.Kernel{}
	return sysctl.New(sysctl.Config{Kernel: k, Release: "6.1.0", Version: "#1 SMP"}), k
}

func as(uid uint32) context.Context {
	return seqfile.WithCaller(context.Background(), &seqfile.Caller{UID: uid})
}

func TestSys(t *testing.T) {
	table, on := testTable()
	sys := Sys(table)
	debug := seqfile.Find(sys.Dir, "debug")
	if debug == nil || len(debug.Dir.Rows()) != 2 || debug.Mode != 0o555 {
		t.Fatalf("debug: %+v", debug)
	}
	if got := all(t, seqfile.Find(seqfile.Find(sys.Dir, "kernel").Dir, "osrelease"), 5); got != "6.1.0\n" {
		t.Errorf("osrelease %q", got)
	}
	row := seqfile.Find(debug.Dir, "kprobes-optimization")
	if got := all(t, row, 5); got != "1\n" {
		t.Errorf("got %q", got)
	}
	f, err := row.Open(context.Background(), &seqfile.OpenInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid  uint32
		text string
		off  int64
		n    int
		err  error
		on   bool
	}{
		{65534, "0\n", 0, 0, syscall.EPERM, true}, // root's descriptor used by another user
		{0, "0\n", 0, 2, nil, false},
		{0, "1\n", 2, 2, nil, false}, // strict: dropped
		{0, "1 0", 0, 2, nil, true},
		{0, "2", 0, 0, syscall.EINVAL, true},
	} {
		n, err := f.Write(as(c.uid), []byte(c.text), c.off)
		if n != c.n || !errors.Is(err, c.err) || on.Optimization() != c.on {
			t.Errorf("uid %d writes %q at %d: %d, %v, then %v; want %d, %v, %v", c.uid, c.text, c.off, n, err, on.Optimization(), c.n, c.err, c.on)
		}
	}
	p := make([]byte, 1)
	if n, _ := f.Read(as(0), p, 0); string(p[:n]) != "1" {
		t.Errorf("one byte: %q", p[:n])
	}
	if n, _ := f.Read(as(0), p, 1); n != 0 {
		t.Errorf("the next byte: %q", p[:n])
	}
}

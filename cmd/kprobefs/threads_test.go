package main

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

func TestThreadGroups(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	me, tid := os.Getpid(), syscall.Gettid()
	var g threadGroups
	for range 2 { // the second time from the cache
		if pid, err := g.of(tid); err != nil || pid != me {
			t.Fatalf("thread %d is of process %d, %v; want %d", tid, pid, err, me)
		}
	}
	g.known[tid] = 1 // as if the ID had belonged to another thread before
	if pid, err := g.of(tid); err != nil || pid != me {
		t.Errorf("thread %d is of process %d, %v; want %d", tid, pid, err, me)
	}
}

// TestFollow: symbolic links in a path are resolved. Files of the mount are not
// accessed.
func TestFollow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link, ours := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "ours")
	in := filepath.Join(ours, "file")
	if err := os.Mkdir(ours, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, in} {
		if err := os.WriteFile(f, nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range [][2]string{{file, link}, {in, link + "-in"}} {
		if err := os.Symlink(l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path string
		mode       uint64
	}{
		{file, file, syscall.S_IFREG | 0o640},
		{link, file, syscall.S_IFREG | 0o640},
		{link + "-in", in, abi.CallModeNone},
		{file + "-not", file + "-not", abi.CallModeNone},
	} {
		if path, mode := (view{}).follow(c.name, []string{ours}); path != c.path || mode != c.mode {
			t.Errorf("%s leads to %s, mode %#o; want %s, %#o", c.name, path, mode, c.path, c.mode)
		}
	}
}

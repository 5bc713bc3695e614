package memcg

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// TestRoom: live objects count, garbage does not.
func TestRoom(t *testing.T) {
	l := New(l0(t) + 64<<20)
	held := make([]byte, 48<<20)
	if err := l.Room(32 << 20); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("32 MiB with 48 of 64 in use: %v", err)
	}
	if err := l.Small(false); err != nil {
		t.Errorf("a small request: %v", err)
	}
	runtime.KeepAlive(held) // garbage from here on
	if err := l.Room(32 << 20); err != nil {
		t.Errorf("32 MiB with garbage: %v", err)
	}
	var none *Limit
	if none.Room(math.MaxInt64) != nil || none.Small(false) != nil {
		t.Error("no limit refuses")
	}
}

// TestSmall: beyond the limit there is a reserve for everybody, and then one for
// root.
func TestSmall(t *testing.T) {
	l := New(l0(t))
	l.reserve = 32 << 20
	for _, c := range []struct {
		mib       int
		all, root error
	}{{8, nil, nil}, {48, syscall.ENOMEM, nil}, {96, syscall.ENOMEM, syscall.ENOMEM}} {
		held := make([]byte, c.mib<<20)
		l.look()
		if err := l.Small(false); !errors.Is(err, c.all) {
			t.Errorf("%d MiB beyond: %v", c.mib, err)
		}
		if err := l.Small(true); !errors.Is(err, c.root) {
			t.Errorf("%d MiB beyond, for root: %v", c.mib, err)
		}
		runtime.KeepAlive(held)
	}
}

// l0 returns the number of bytes in use before a test.
func l0(t *testing.T) int64 {
	t.Helper()
	runtime.GC()
	return New(0).look()
}

func TestDefault(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, want int64) {
		t.Helper()
		if got := cgroupMax(filepath.Join(dir, "self"), dir); got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	want("no file", math.MaxInt64)
	put("self", "0::/a/b\n")
	put("a/b/memory.max", "max\n")
	want("no limit", math.MaxInt64)
	put("a/memory.max", "300000000\n")
	want("above", 300000000)
	put("a/b/memory.max", "200000000\n")
	want("its own", 200000000)
	put("self", "3:cpu,cpuacct:/x\n2:memory:/y\n")
	put("memory/y/memory.limit_in_bytes", "100000000\n")
	want("version 1", 100000000)
	put("meminfo", "MemTotal:        1000 kB\nMemFree: 2 kB\n")
	if got := ram(filepath.Join(dir, "meminfo")); got != 1000<<10 {
		t.Errorf("ram: %d", got)
	}
	if got := Default(); got < Minimum || got > defaultMost {
		t.Errorf("the default is %d", got)
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		err  error
	}{
		{"134217728", 128 << 20, nil},
		{"131072K", 128 << 20, nil},
		{"128M", 128 << 20, nil},
		{"2g", 2 << 30, nil},
		{"1M", 0, syscall.EINVAL},
		{"", 0, syscall.EINVAL},
		{"M", 0, syscall.EINVAL},
		{"-1G", 0, syscall.EINVAL},
		{"9999999999999G", 0, syscall.EINVAL},
		{"1T", 0, syscall.EINVAL},
	} {
		if got, err := Parse(c.text); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v", c.text, got, err)
		}
	}
}

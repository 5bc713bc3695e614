package kernel

import (
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestEntriesWatch: a watcher is told about all entries that have gone, each once, and
// about additions; calls do not overlap.
func TestEntriesWatch(t *testing.T) {
	e := newEntries()
	told, slow := make(chan []string, 100), make(chan struct{})
	e.Watch(func(gone []string) {
		told <- gone
		<-slow
	})
	add := func(paths ...string) {
		for _, p := range paths {
			if err := e.add(&Entry{Path: p, Mode: syscall.S_IFDIR | 0o755}); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func() []string {
		t.Helper()
		select {
		case gone := <-told:
			return gone
		case <-time.After(10 * time.Second):
			t.Fatal("the watcher is not told")
			return nil
		}
	}
	add("/proc/a")
	if gone := next(); len(gone) != 0 {
		t.Errorf("an addition: %q", gone)
	}
	add("/proc/a/b", "/proc/c") // the watcher is busy
	e.mu.Lock()
	e.remove("/proc/a")
	e.mu.Unlock()
	e.move("/proc/c", "/proc/d")
	close(slow)
	if gone, want := next(), []string{"/proc/a/b", "/proc/a", "/proc/c"}; !slices.Equal(gone, want) {
		t.Errorf("gone %q, want %q", gone, want)
	}
	if all := e.All(); len(all) != 1 || all[0].Path != "/proc/d" {
		t.Errorf("left: %v", all)
	}
}

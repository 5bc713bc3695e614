package fs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestReleaseBeforeNextRequest: a file's release is done, as seen through all mounts, when
// close(2) has returned or the process that had it open has ended.
func TestReleaseBeforeNextRequest(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	start(t, here, there)
	closes := func(name string) {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	exits := func(name string) { _ = exec.Command("sh", "-c", "exec 3<"+name).Run() }
	closed := 0
	for range 3 {
		for _, dir := range []string{here, there} {
			for _, end := range []func(string){closes, exits} {
				end(filepath.Join(dir, "tracing/slow"))
				closed++
				f, err := os.Open(filepath.Join(here, "tracing/slow"))
				if err != nil {
					t.Fatal(err)
				}
				var p [8]byte
				n, _ := f.Read(p[:])
				if got, want := string(p[:n]), fmt.Sprint(closed); got != want {
					t.Errorf("through %s: %s files are closed, want %s", dir, got, want)
				}
				_ = f.Close()
				closed++
			}
		}
	}
}

// TestReleasesWait: a request waits for releases that began before it, and not longer
// than its caller.
func TestReleasesWait(t *testing.T) {
	var stopped atomic.Bool
	r := releases{stopped: stopped.Load}
	first, second := r.begin(), r.begin()
	over := make(chan struct{})
	go func() {
		r.wait(nil, nil, func() {})
		close(over)
	}()
	cancel := make(chan struct{})
	close(cancel)
	r.wait(nil, cancel, func() {})
	second()
	select {
	case <-over:
		t.Error("it did not wait for the first")
	case <-time.After(10 * time.Millisecond):
	}
	first()
	<-over
	r.wait(nil, nil, func() {})
	if len(r.underWay) != 0 {
		t.Errorf("%d are pending", len(r.underWay))
	}
	r.begin()
	go func() {
		time.Sleep(5 * time.Millisecond)
		stopped.Store(true)
	}()
	begun := time.Now()
	for range 10 { // a debugger stops the machine
		r.wait(nil, nil, func() {})
	}
	if took := time.Since(begun); took >= releasePatience || len(r.underWay) != 1 {
		t.Errorf("%v, %d are pending", took, len(r.underWay))
	}
}

package fs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSilentWaits: requests that wait without saying so do not keep others from being
// answered.
func TestSilentWaits(t *testing.T) {
	d := start(t)
	const readers = 2 * maxIdle
	got := make(chan string, readers)
	for range readers {
		f, err := os.OpenFile(filepath.Join(d.dir, "tracing/silent"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		go func() {
			var p [8]byte
			n, _ := f.Read(p[:])
			got <- string(p[:n])
		}()
	}
	for range 2 {
		begin := time.Now()
		if _, err := os.ReadFile(filepath.Join(d.dir, "kprobes/enabled")); err != nil {
			t.Fatal(err)
		}
		t.Logf("beside readers that wait, a read has taken %v", time.Since(begin))
	}
	for range readers {
		if err := os.WriteFile(filepath.Join(d.dir, "tracing/silent"), []byte("line"), 0); err != nil {
			t.Fatal(err)
		}
		if l := <-got; l != "line" {
			t.Errorf("a reader has got %q", l)
		}
	}
	if _, err := os.ReadFile(filepath.Join(d.dir, "kprobes/enabled")); err != nil {
		t.Error(err)
	}
}

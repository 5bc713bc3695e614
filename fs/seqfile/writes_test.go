package seqfile

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestWrites: the last writes are kept, the oldest first, and long texts are cut.
func TestWrites(t *testing.T) {
	now := int64(0)
	w := NewWrites(func() int64 { now += 1_000_001_000; return now })
	w.Add(Written{PID: 7, UID: 8, Comm: "a b", File: "/f", Err: syscall.EINVAL}, []byte("x\n"))
	want := "# 1 writes, 0 older ones are not kept\n# seconds pid uid result file comm text\n1.000001 7 8 EINVAL \"/f\" \"a b\" \"x\\n\"\n"
	if got, err := w.Show(); got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for i := range 2 * keptWrites {
		w.Add(Written{Bytes: i}, []byte(strings.Repeat("y", 2*keptText)))
	}
	got, _ := w.Show()
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 2+keptWrites || lines[0] != fmt.Sprintf("# %d writes, %d older ones are not kept", 2*keptWrites+1, keptWrites+1) {
		t.Fatalf("%d lines: %s", len(lines), lines[0])
	}
	if first, cut := lines[2], strings.Repeat("y", keptText); !strings.HasSuffix(first, fmt.Sprintf(` 0 0 %d "" "" "%s"`, keptWrites, cut)) {
		t.Errorf("%s", first)
	}
}

// BenchmarkWrites measures what a write costs for the record, beside the write itself.
func BenchmarkWrites(b *testing.B) {
	w, text := NewWrites(func() int64 { return 0 }), []byte("p:mine vfs_read\n")
	for b.Loop() {
		w.Add(Written{PID: 1, Comm: "sh", File: "/sys/kernel/tracing/kprobe_events", Bytes: len(text)}, text)
	}
}

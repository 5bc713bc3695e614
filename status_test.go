package kprobefs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs"
)

// marked returns the numbers of the markers in a feed's next entries.
func marked(t *testing.T, f *kprobefs.TraceFeed, most int) (numbers []int, skipped uint64) {
	t.Helper()
	entries, skipped, err := f.Next(most)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		_, after, ok := strings.Cut(e, ": mark ")
		n := 0
		if _, err := fmt.Sscan(after, &n); !ok || err != nil {
			t.Fatalf("%q: %v", e, err)
		}
		numbers = append(numbers, n)
	}
	return numbers, skipped
}

// TestTraceFeed: a feed has each entry once, takes none away, lets the buffer be resized and cleared,
// and goes past what is too much.
func TestTraceFeed(t *testing.T) {
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	mark := func(n int) {
		t.Helper()
		for range n {
			if err := k.WriteFile("tracing/trace_marker", fmt.Sprintf("mark %d\n", written)); err != nil {
				t.Fatal(err)
			}
			written++
		}
	}
	f := k.TraceFeed()
	defer f.Close()
	wantNext := func(most, first, n int) {
		t.Helper()
		var want []int
		for i := range n {
			want = append(want, first+i)
		}
		if got, skipped := marked(t, f, most); !slices.Equal(got, want) || skipped != 0 {
			t.Errorf("%v, %d skipped, want %d from %d", got, skipped, n, first)
		}
	}
	wantNext(100, 0, 0)
	mark(3)
	wantNext(100, 0, 3)
	mark(100)
	wantNext(100, 3, 100)
	wantNext(100, 103, 0)
	if err := k.WriteFile("tracing/buffer_size_kb", "64\n"); err != nil {
		t.Errorf("while there is a feed: %v", err)
	}
	mark(2)
	wantNext(100, 103, 2)
	if err := k.WriteFile("tracing/trace", ""); err != nil {
		t.Fatal(err)
	}
	mark(1)
	wantNext(100, 105, 1)
	mark(5000)
	got, skipped := marked(t, f, 400)
	if len(got) < 40 || len(got)+int(skipped) != 5000 || got[len(got)-1] != written-1 {
		t.Errorf("%d entries of 5000 up to %d, %d skipped", len(got), got[len(got)-1], skipped)
	}
	wantNext(400, 0, 0)
	text, err := k.ReadFile("tracing/trace")
	if err != nil || !strings.Contains(string(text), fmt.Sprintf("mark %d\n", written-1)) {
		t.Errorf("the feed has taken entries: %v", err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Next(1); err == nil {
		t.Error("a closed kernel has entries")
	}
}

// TestStatus: what is read while the vCPUs run is what they do.
func TestStatus(t *testing.T) {
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	before, err := k.Status()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Call(context.Background(), "int_sqrt", 144); err != nil {
		t.Fatal(err)
	}
	after, err := k.Status()
	if err != nil || len(after.CPUs) != 2 || after.Instructions <= before.Instructions || after.Memory == 0 || after.Panic != "" || after.Release == "" {
		t.Errorf("%v: %+v, before %+v", err, after, before)
	}
	for i, c := range after.CPUs {
		if c.Instructions == 0 || c.Comm == "" || c.Comm == "?" {
			t.Errorf("vCPU %d: %+v", i, c)
		}
	}
	if got := k.Functions("vfs_rea", 10); !slices.Contains(got, "vfs_read") || !slices.IsSorted(got) {
		t.Errorf("%q", got)
	}
	if got := k.Functions("", 10); len(got) != 10 {
		t.Errorf("%d of all functions, want 10", len(got))
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Status(); err == nil {
		t.Error("a closed kernel has a status")
	}
}

// TestOneTree: a value that only a file has is the same for all who use the files of a kernel.
func TestOneTree(t *testing.T) {
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	const name = "sys/kernel/kptr_restrict"
	if err := k.WriteFile(name, "1\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := k.ReadFile(name); err != nil || string(b) != "1\n" {
		t.Errorf("%q, %v", b, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = k.ReadFile(name) }); allocs > 100 {
		t.Errorf("a read makes %.0f allocations: is the tree built for each?", allocs)
	}
}

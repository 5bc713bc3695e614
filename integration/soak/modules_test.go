package soak

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// rounds returns how often TestInsertAndRemove inserts each of its two modules.
func rounds() int {
	switch {
	case soaking():
		return 5_000 // 10,000 insertions
	case testing.Short():
		return 10
	}
	return 50
}

// TestInsertAndRemove inserts and removes modules with probes again and again: nothing of
// them is left in the program, in the emulated kernel's memory, or in its tables.
func TestInsertAndRemove(t *testing.T) {
	d := start(t, t.TempDir())
	modules := map[string][]byte{}
	for _, name := range []string{"kprobe_example.ko", "kretprobe_example.ko"} {
		b, err := os.ReadFile(filepath.Join("../../kernel/guest/modules", name))
		if err != nil {
			t.Fatal(err)
		}
		modules[name] = b
	}
	order := []string{"kprobe_example.ko", "kretprobe_example.ko"}
	n := rounds()
	for range max(n/10, 50) { // caches fill
		d.insertAndRemove(modules, order)
	}
	symbols, before := d.symbols(), d.state()
	for range n {
		d.insertAndRemove(modules, order)
	}
	if s := d.symbols(); s != symbols {
		t.Errorf("kallsyms has %d lines, before it had %d", s, symbols)
	}
	for _, file := range []string{"kprobes/list", "proc/modules"} {
		if b, err := os.ReadFile(d.path(file)); err != nil || len(b) != 0 {
			t.Errorf("%s at the end: %q, %v", file, b, err)
		}
	}
	within(t, time.Minute, "files are closed", func() bool { return d.state().Open <= before.Open }) // FUSE does not wait for RELEASE
	after := d.state()
	t.Logf("%d times: %+v, then %+v", n, before, after)
	const slack = 8 << 10 // KiB of memory that the garbage collector may keep
	if after.Goroutines > before.Goroutines+5 || after.files > before.files || after.threads > before.threads+10 ||
		after.Inodes > before.Inodes+10 || after.Open > before.Open || after.resident > before.resident+slack {
		t.Errorf("after %d times: %+v, before %+v", n, after, before)
	}
	d.works()
}

// insertAndRemove inserts modules, and removes them in the other order.
func (d *daemon) insertAndRemove(modules map[string][]byte, order []string) {
	d.t.Helper()
	for _, name := range order {
		if err := os.WriteFile(d.path("machine/modules/"+name), modules[name], 0o644); err != nil {
			d.t.Fatal(err)
		}
	}
	for _, name := range slices.Backward(order) {
		if err := os.Remove(d.path("machine/modules/" + name)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// symbols is how many symbols the emulated kernel has.
func (d *daemon) symbols() int {
	d.t.Helper()
	b, err := os.ReadFile(d.path("proc/kallsyms"))
	if err != nil {
		d.t.Fatal(err)
	}
	return bytes.Count(b, []byte("\n"))
}

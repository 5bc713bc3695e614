package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/memcg"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func TestParseCPUMask(t *testing.T) {
	for _, c := range []struct {
		text  string
		cpus  int
		want  string
		errno error
	}{
		{"3\n", 2, "11", nil},
		{"0", 2, "00", nil},
		{"2", 2, "01", nil},
		{"4", 2, "", syscall.EOVERFLOW},
		{"00000003", 2, "11", nil},
		{"000000003", 2, "", syscall.EOVERFLOW},
		{"0,3", 2, "", syscall.EOVERFLOW},
		{",3,", 2, "11", nil},
		{",", 2, "00", nil},
		{"0x1", 2, "", syscall.EINVAL},
		{"-1", 2, "", syscall.EINVAL},
		{"1,00000000", 33, strings.Repeat("0", 32) + "1", nil},
		{"1 1", 33, "1" + strings.Repeat("0", 31) + "1", nil},
	} {
		mask, err := parseCPUMask(c.text, c.cpus)
		got := ""
		for _, on := range mask {
			got += string(rune('0' + bit(on)))
		}
		if !errors.Is(err, c.errno) || got != c.want {
			t.Errorf("%q: %s, %v, want %s, %v", c.text, got, err, c.want, c.errno)
		}
	}
}

func TestInstances(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(tr.global.WriteTraceOptions([]byte("sym-addr")))
	must(tr.MakeInstance("foo"))
	if err := tr.MakeInstance("foo"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second one: %v", err)
	}
	a := tr.Instances()[0]
	if !a.has(optSymAddr) || a.BufferSizeKB(-1) != "1410 (expanded: 1408)\n" {
		t.Errorf("options %x, size %q", a.options.on.Load(), a.BufferSizeKB(-1))
	}
	must(a.files[tr.event("kprobes", "a").Event].Enable([]byte("1")))
	f.Hit(f.Symbol("vfs_read"), tracingtest.Entered(0, 1, tracingtest.NewTask(1, "init")))
	if a.buffer.Stats(0).Entries != 1 || tr.global.buffer.Stats(0).Entries != 0 {
		t.Error("the hit is not where it belongs")
	}
	if err := tr.definitions.ReleaseKprobes(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("delete while an instance wants hits: %v", err)
	}
	must(a.Get())
	if err := tr.RemoveInstance("foo"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("remove while open: %v", err)
	}
	a.Put()
	must(tr.RemoveInstance("foo"))
	if err := a.Get(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("open of a removed instance: %v", err)
	}
	must(tr.definitions.ReleaseKprobes())
	if err := tr.RemoveInstance("foo"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("remove again: %v", err)
	}
}

// TestSnapshotSwaps: hits during swaps are recorded in one of the two buffers.
func TestSnapshotSwaps(t *testing.T) {
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read")
	enable(t, tr, "kprobes", "a", "1")
	const hits = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hits {
			f.Hit(f.Symbol("vfs_read"), tracingtest.Entered(0, 1, tracingtest.NewTask(1, "init")))
		}
	}()
	for range 20 {
		if err := tr.global.WriteSnapshot(-1, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if n := tr.global.buffer.Stats(0).Entries + tr.global.snapshots.buffer.Load().Stats(0).Entries; n != hits {
		t.Errorf("%d of %d hits", n, hits)
	}
	if err := tr.global.WriteSnapshot(0, []byte("1")); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("of one vCPU: %v", err)
	}
}

func TestPIDs(t *testing.T) {
	tr, _ := newTestTracer(t)
	a := tr.global
	for _, c := range []struct {
		write string
		errno error
		want  string
	}{
		{"2 1\n", nil, "1 2"},
		{"x", syscall.EINVAL, "1 2"},
		{"3 x", syscall.EINVAL, "1 2"},
		{"0x10 010", nil, "1 2 8 16"},
		{"1073741824", syscall.EPERM, "1 2 8 16"},
		{"\n", nil, "1 2 8 16"},
	} {
		_, err := a.PIDs(SetEventPID).Write([]byte(c.write))
		got := strings.Join(strings.Fields(pidText(a, SetEventPID)), " ")
		if !errors.Is(err, c.errno) || got != c.want {
			t.Errorf("%q: %v, %q, want %v, %q", c.write, err, got, c.errno, c.want)
		}
	}
	if a.pids.ignores(8) || !a.pids.ignores(9) {
		t.Error("the wrong tasks are ignored")
	}
	tr.Forked(8, 9)
	if !a.pids.ignores(9) {
		t.Error("a child was added without event-fork")
	}
	if err := a.WriteTraceOptions([]byte("event-fork")); err != nil {
		t.Fatal(err)
	}
	tr.Forked(8, 9)
	tr.Exited(8)
	if a.pids.ignores(9) || !a.pids.ignores(8) {
		t.Error("event-fork does not follow")
	}
	a.PIDs(SetEventPID).Clear()
	if a.pids.ignores(8) || pidText(a, SetEventPID) != "" {
		t.Error("an empty list ignores")
	}
}

// TestExpansion: enabling an event in an instance expands the global array's buffer
// on 6.1, but not on 6.12, as recorded there.
func TestExpansion(t *testing.T) {
	for _, v := range []release.Version{release.Linux6_1, release.Linux6_12} {
		own := v == release.Linux6_12
		f := tracingtest.New()
		tr := New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: tracingtest.NewMemory(f), Linux: v})
		write(t, tr, "p:a vfs_read")
		if err := tr.MakeInstance("i"); err != nil {
			t.Fatal(err)
		}
		a := tr.Instances()[0]
		sizes := func() string { return tr.Global().BufferSizeKB(-1) + a.BufferSizeKB(-1) }
		before := sizes()
		if err := a.EnableSystem("kprobes", []byte("1")); err != nil {
			t.Fatal(err)
		}
		want := [2]string{"7 (expanded: 1408)\n1410 (expanded: 1408)\n", "1410\n1410\n"}
		if own {
			want = [2]string{"7 (expanded: 1408)\n1410\n", "7 (expanded: 1408)\n1410\n"}
		}
		if got := [2]string{before, sizes()}; got != want {
			t.Errorf("own %v: %q, want %q", own, got, want)
		}
	}
}

// TestLimit: without free memory, operations that need memory fail, and those that
// free memory succeed.
func TestLimit(t *testing.T) {
	f := tracingtest.New()
	tr := New(Config{Kprobes: f, Symbols: f, Sites: f, Machine: f, Unwinder: f, Modules: f, Files: f, Host: f, Memory: tracingtest.NewMemory(f), Limit: memcg.New(1)})
	global := tr.Global()
	_, definition := tr.definitions.WriteKprobeEvents([]byte("p:x vfs_read\n"))
	for what, err := range map[string]error{
		"instance":   tr.MakeInstance("i"),
		"buffer":     global.SetBufferSizeKB(-1, []byte("4096\n")),
		"snapshot":   global.WriteSnapshot(-1, []byte("1\n")),
		"definition": definition,
	} {
		if !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v, want ENOMEM", what, err)
		}
	}
	tr.mu.Lock()
	err := global.resize(-1, 1)
	tr.mu.Unlock()
	if err != nil {
		t.Errorf("a smaller buffer: %v", err)
	}
}

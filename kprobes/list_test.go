package kprobes_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// recordText returns the text of a bucket's records, which are made anew at each call.
func recordText(k *kprobes.Kprobes, bucket int, hide bool) (b []byte) {
	for _, r := range k.Bucket(nil, bucket) {
		b = r.Append(b, hide)
	}
	return b
}

// checkText compares the text of kprobes/list, of which buckets may be kept from the last
// call, with what the records say. The optimizer may change a bucket meanwhile.
func checkText(k *kprobes.Kprobes) error {
	for i := range kprobes.Buckets {
		before := recordText(k, i, false)
		got := k.AppendList(nil, i, false)
		if want := recordText(k, i, false); bytes.Equal(before, want) && !bytes.Equal(got, want) {
			return fmt.Errorf("the text of bucket %d is\n%swant\n%s", i, got, want)
		}
	}
	return nil
}

// TestListKept changes probes, and who may see addresses, between two looks at the list.
func TestListKept(t *testing.T) {
	w := newWorld(t)
	p := &kprobes.Kprobe{SymbolName: "vfs_read", Offset: 5}
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"nothing", func() error { return nil }},
		{"register", func() error { return w.k.Register(p) }},
		{"optimize", func() error { w.k.WaitOptimizer(); return nil }},
		{"disable", func() error { return w.k.Disable(p) }},
		{"unoptimize", func() error { w.k.WaitOptimizer(); return nil }},
		{"second", func() error {
			return w.k.Register(&kprobes.Kprobe{Addr: p.Addr, PostHandler: func(*kprobes.Hit, uint64) {}})
		}},
		{"enable", func() error { return w.k.Enable(p) }},
		{"all off", func() error { return w.k.SetEnabled(false) }},
		{"all on", func() error { return w.k.SetEnabled(true) }},
		{"gone", func() error { w.k.Kill(p.Addr, p.Addr+1); return nil }},
		{"unregister", func() error { return w.k.Unregister(p) }},
	} {
		if err := step.run(); err != nil {
			t.Fatal(step.name, err)
		}
		for _, hide := range []bool{false, false, true, true, false} {
			for i := range kprobes.Buckets {
				if got, want := w.k.AppendList(nil, i, hide), recordText(w.k, i, hide); !bytes.Equal(got, want) {
					t.Errorf("%s, hide %v: the list has\n%swant\n%s", step.name, hide, got, want)
				}
			}
		}
	}
}

// TestListOfModules has a module's symbol go, which no change of a probe tells.
func TestListOfModules(t *testing.T) {
	w := newWorld(t)
	at := w.Func(0x3000, "in_module", 0x90, 0xc3)
	w.Symtab[len(w.Symtab)-1].Module = "m"
	w.register(t, &kprobes.Kprobe{Addr: at})
	w.wantList(t, "with the module", "k  in_module+0x0  m ")
	w.Symtab = w.Symtab[:len(w.Symtab)-1]
	w.wantList(t, "without its symbol", fmt.Sprintf("k  %#x ", at))
}

// BenchmarkList makes the text of kprobes/list for 10,000 probes; an operation is a
// line. "again" is for probes that have not changed since.
func BenchmarkList(b *testing.B) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m := &machine{Kernel: s}
	m.everywhere(10_000)
	s.Kprobes.WaitOptimizer()
	for _, c := range []struct {
		name   string
		change bool
	}{{"changed", true}, {"again", false}} {
		b.Run(c.name, func(b *testing.B) {
			hide := false
			var text []byte
			b.ReportAllocs()
			for lines := 0; lines < b.N; {
				hide = hide != c.change
				for i := range kprobes.Buckets {
					text = s.Kprobes.AppendList(text[:0], i, hide)
					lines += bytes.Count(text, []byte{'\n'})
				}
			}
		})
	}
}

package kprobes_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
	"github.com/kprobefs/kprobefs/optimizer"
)

// modelCode is a function that can be probed at every second byte, and optimized at
// nearly all of these.
var modelCode = append([]byte{0x0f, 0x1f, 0x44, 0, 0, 0x90}, bytes.Repeat([]byte{0x41, 0x57}, 20)...)

// TestRandomOperations does random operations on probes in random order, and checks the text
// after each one.
func TestRandomOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newRapidWorld()
		var ps []*kprobes.Kprobe
		pick := func(t *rapid.T) *kprobes.Kprobe {
			if len(ps) == 0 {
				t.Skip("no probes")
			}
			return rapid.SampledFrom(ps).Draw(t, "probe")
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				p := &kprobes.Kprobe{Addr: vfsReadAt, Offset: uint32(rapid.IntRange(0, 5).Draw(t, "insn"))}
				if p.Offset > 0 {
					p.Offset = 4 + 2*p.Offset
				}
				if rapid.Bool().Draw(t, "disabled") {
					p.Flags = kprobes.FlagDisabled
				}
				if rapid.IntRange(0, 3).Draw(t, "post") == 0 {
					p.PostHandler = func(*kprobes.Hit, uint64) {}
				}
				if err := w.k.Register(p); err != nil {
					t.Fatal(err)
				}
				ps = append(ps, p)
			},
			"unregister": func(t *rapid.T) {
				p := pick(t)
				w.k.Unregister(p)
				ps = remove(ps, p)
			},
			"enable": func(t *rapid.T) {
				if err := w.k.Enable(pick(t)); err != nil {
					t.Fatal(err)
				}
			},
			"disable": func(t *rapid.T) {
				if err := w.k.Disable(pick(t)); err != nil {
					t.Fatal(err)
				}
			},
			"enabled": func(t *rapid.T) {
				if err := w.k.SetEnabled(rapid.Bool().Draw(t, "on")); err != nil {
					t.Fatal(err)
				}
			},
			"optimization": func(t *rapid.T) { w.k.SetOptimization(rapid.Bool().Draw(t, "on")) },
			"wait":         func(t *rapid.T) { w.Advance(time.Duration(rapid.IntRange(1, 25).Draw(t, "ms")) * time.Millisecond) },
			"":             func(t *rapid.T) { w.check(t, ps) },
		})
		w.Advance(time.Second)
		w.checkQuiet(t)
		w.k.UnregisterAll(ps)
		w.Advance(time.Second)
		if got := w.Bytes(vfsReadAt, len(modelCode)); !bytes.Equal(got, modelCode) {
			t.Fatalf("the text stays % x", got)
		}
		if n := w.SlotsInUse(); n != 0 {
			t.Fatalf("%d slots stay in use", n)
		}
	})
}

func newRapidWorld() *world {
	m := kprobetest.New()
	m.Func(0x200, "optimized_callback", 0xc3)
	m.Site(m.Func(0x1000, "f", modelCode...))
	w := &world{Kernel: m, o: optimizer.New(optimizer.Config{Symbols: m, Tables: m, Slots: m})}
	c := m.Config()
	c.Optimizer = w.o
	w.k = kprobes.New(c)
	return w
}

func remove(ps []*kprobes.Kprobe, p *kprobes.Kprobe) []*kprobes.Kprobe {
	var rest []*kprobes.Kprobe
	for _, q := range ps {
		if q != p {
			rest = append(rest, q)
		}
	}
	return rest
}

// check checks what must be true at any time: bytes that are not part of a
// breakpoint, a jump or a call are unchanged, the instruction of each enabled probe
// is overwritten, and the original text can be read.
func (w *world) check(t *rapid.T, ps []*kprobes.Kprobe) {
	text := w.Bytes(vfsReadAt, len(modelCode))
	covered := make([]bool, len(text))
	for i := 0; i < len(text); i++ {
		n := map[byte]int{0xcc: 1, 0xe9: 5, 0xe8: 5}[text[i]]
		if text[i] == 0xcc && i+5 <= len(text) {
			// Enabled before its jump was removed: an int3 on the jump's first byte.
			to := vfsReadAt + uint64(i+5) + uint64(int64(int32(binary.LittleEndian.Uint32(text[i+1:]))))
			if kprobetest.Slots <= to && to < kprobetest.Slots+kprobetest.SlotSize {
				n = 5
			}
		}
		for j := i; j < min(i+n, len(text)); j++ {
			covered[j] = true
		}
		if n > 1 {
			i += n - 1
		}
	}
	for i, b := range text {
		if !covered[i] && b != modelCode[i] {
			t.Fatalf("byte %d of % x", i, text)
		}
	}
	got := make([]byte, len(modelCode))
	err := w.k.Original(vfsReadAt, got)
	if err != nil || !bytes.Equal(got, modelCode) {
		t.Fatalf("Original returns % x (%v)", got, err)
	}
	lines := 0
	for i := range kprobes.Buckets {
		lines += len(w.k.Bucket(nil, i))
	}
	if lines != len(ps) {
		t.Fatalf("%d lines of %d probes", lines, len(ps))
	}
	if err := checkText(w.k); err != nil {
		t.Fatal(err)
	}
}

// checkQuiet checks what must be true when the optimizer has no work: the text agrees
// with the points' flags.
func (w *world) checkQuiet(t *rapid.T) {
	for _, i := range w.k.Points() {
		b := w.Bytes(i.Addr, 1)[0]
		disabled := i.Flags&kprobes.FlagDisabled != 0
		optimized := i.Flags&kprobes.FlagOptimized != 0
		switch {
		case i.Flags&kprobes.FlagFtrace != 0:
			if want := w.k.Enabled() && !disabled; (b == 0xe8) != want {
				t.Fatalf("ftrace point %#x: %#x", i.Flags, b)
			}
		case disabled || !w.k.Enabled():
			if optimized || b == 0xcc || b == 0xe9 {
				t.Fatalf("disabled point %#x: %#x", i.Flags, b)
			}
		case optimized:
			if b != 0xe9 && b != 0xcc {
				t.Fatalf("optimized point: %#x", b)
			}
		case b != 0xcc:
			t.Fatalf("enabled point %#x: %#x", i.Flags, b)
		}
	}
}

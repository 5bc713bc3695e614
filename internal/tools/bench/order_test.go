//go:build !race

package main

import (
	"math"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/cpu"
)

// TestOverheadOrder: the rows of the documents' table have the same order of costs
// here, but for a margin: how code lies in memory and who else uses the processors makes
// some 20 per cent, so a few rows are level in one process and not in the next. What the
// test notices is a way that is lost, as a detour that is no longer translated, which
// costs twice a breakpoint; "make bench" prints the order as it is. That a jump costs
// less than a breakpoint is so with the native engine only.
func TestOverheadOrder(t *testing.T) {
	var cases []*leastOf
	for _, of := range overheadMachines {
		h, err := newHitMachine(of.release, kprobefs.Config{NoFtrace: true, NoPreempt: of.boost})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { h.sys.Close() })
		h.calls = 20_000
		bare := &leastOf{h: h, least: math.MaxInt64}
		cases = append(cases, bare)
		for _, row := range overheadRows {
			if row.boost == of.boost && row.jprobe == of.jprobes {
				cases = append(cases, &leastOf{row.name, h, row.set, bare, math.MaxInt64})
			}
		}
	}
	var ns map[string]float64
	engine, err := cpu.Auto.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	native := engine == cpu.Native
	broken := overheadOrder[:]
	for range 20 {
		for _, c := range cases {
			c.least = math.MaxInt64
		}
		for range 6 {
			for _, c := range cases {
				if err := c.round(); err != nil {
					t.Fatal(err)
				}
			}
		}
		ns = map[string]float64{}
		for _, c := range cases {
			if c.bare != nil {
				ns[c.name] = float64(c.least-c.bare.least) / float64(c.h.calls)
			}
		}
		t.Logf("ns: %v", ns)
		left := broken[:0:0]
		for _, o := range broken {
			if (native || !o.translated) && ns[o.a] > orderMargin*o.most*ns[o.b] {
				left = append(left, o)
			}
		}
		if broken = left; len(broken) == 0 {
			return
		}
	}
	for _, o := range broken {
		t.Errorf("%s takes more than x%.2f of %s each time", o.a, orderMargin*o.most, o.b)
	}
}

// TestJumpsInC: with handlers of a module, an optimized probe adds at most half of what a
// breakpoint adds to a call, since the guest calls the handlers itself. (It adds a sixth.)
func TestJumpsInC(t *testing.T) {
	engine, err := cpu.Auto.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if engine != cpu.Native {
		t.Skip("the interpreter executes detours one instruction after the other")
	}
	b := &bench{dir: t.TempDir()}
	if !b.buildsModules() {
		t.Skip("gcc and make are not here")
	}
	objects, err := b.buildModules(map[string]string{"counter": counterSource})
	if err != nil {
		t.Fatal(err)
	}
	h, err := newHitMachine("", kprobefs.Config{NoFtrace: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.sys.Close() })
	h.calls = 20_000
	bare := &leastOf{h: h, least: math.MaxInt64}
	cases := []*leastOf{bare}
	for _, jumps := range []bool{false, true} {
		row := overheadRow{name: "k", kprobe: true, jumps: jumps}
		cases = append(cases, &leastOf{row.inC(), h, row.module(objects["counter.ko"]).set, bare, math.MaxInt64})
	}
	var added [2]time.Duration
	for range 20 {
		for range 4 {
			for _, c := range cases {
				if err := c.round(); err != nil {
					t.Fatal(err)
				}
			}
		}
		added = [2]time.Duration{cases[1].least - bare.least, cases[2].least - bare.least}
		if 2*added[1] <= added[0] {
			return
		}
	}
	t.Errorf("%d calls take %v longer with a breakpoint, %v with a jump", h.calls, added[0], added[1])
}

// orderMargin is what TestOverheadOrder allows beside the documents' relations.
const orderMargin = 1.4

// leastOf is a row, or the call without a probe, with the shortest time of its calls.
type leastOf struct {
	name  string
	h     *hitBench
	set   func(h *hitBench) (func(), error)
	bare  *leastOf
	least time.Duration
}

func (l *leastOf) round() error {
	if l.set != nil {
		undo, err := l.set(l.h)
		if err != nil {
			return err
		}
		defer undo()
	}
	for range 2 { // the first one decodes
		took, err := l.h.call(true)
		if err != nil {
			return err
		}
		l.least = min(l.least, took)
	}
	return nil
}

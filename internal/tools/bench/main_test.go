package main

import (
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs"
)

func TestMedianOf(t *testing.T) {
	for _, c := range []struct {
		vs   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := medianOf(c.vs); got != c.want {
			t.Errorf("medianOf(%v) = %v, want %v", c.vs, got, c.want)
		}
	}
}

func TestBrokenOrder(t *testing.T) {
	ns := map[string]float64{"k": 80, "b": 50, "o": 40, "r": 160, "rb": 130, "ro": 120, "kr": 170, "j": 100, "jr": 220}
	if got := brokenOrder(ns); got != nil {
		t.Errorf("an order that holds: %q", got)
	}
	ns["o"], ns["kr"] = 60, 200
	if got := brokenOrder(ns); len(got) != 2 || !strings.HasPrefix(got[0], "o is x1.20 of b") || !strings.HasPrefix(got[1], "kr is x1.25 of r") {
		t.Errorf("o and kr are too high, got %q", got)
	}
}

func TestPrint(t *testing.T) {
	b := &bench{notes: []string{"without unicorn"}, rows: []Row{
		{Section: "a", Name: "time", Unit: "us", Value: 30, Beside: map[string]float64{"other": 10}},
		{Section: "a", Name: "speed", Unit: "MIPS", Value: 500, Beside: map[string]float64{"other": 1000}},
		{Section: "b", Name: "alone", Unit: "ms", Value: 1.234},
	}}
	var s strings.Builder
	if err := b.print(&s); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nA\n", "other 10.0 (x3)", "other 1000 (x2)", "\nB\n", "1.23", "without unicorn"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in\n%s", want, s.String())
		}
	}
}

// TestOverheadRows: the probes of each row can be registered, and each call hits them
// once.
func TestOverheadRows(t *testing.T) {
	for _, of := range overheadMachines {
		h, err := newHitMachine(of.release, kprobefs.Config{NoFtrace: true, NoPreempt: of.boost})
		if err != nil {
			t.Fatal(err)
		}
		defer h.sys.Close()
		for _, row := range overheadRows {
			if row.boost != of.boost || row.jprobe != of.jprobes {
				continue
			}
			undo, err := row.set(h)
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			if n, err := h.hitsOfCall(); n != 1 || err != nil {
				t.Errorf("%s: %d hits, %v", row.name, n, err)
			}
			undo()
			if n, err := h.hitsOfCall(); n != 0 || err != nil {
				t.Errorf("without %s: %d hits, %v", row.name, n, err)
			}
		}
	}
}

// TestPairs: each call of each pair is a hit, on both vCPUs. How fast is not judged.
func TestPairs(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Config: kprobefs.Config{NoFtrace: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if times, err := spin(1000); err != nil || times <= 0 {
		t.Errorf("plain loops: %v, %v", times, err)
	}
	p := &pairBench{sys: s, calls: 500}
	for _, kind := range pairKinds {
		for _, functions := range [][2]string{pairFunctions, {hitFunction, hitFunction}} {
			if times, err := p.measure(kind, functions); err != nil || times <= 0 {
				t.Errorf("%s at %q: %v, %v", kind.name, functions, times, err)
			}
		}
	}
}

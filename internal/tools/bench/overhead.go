package main

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs"
)

// The table of the kernel document's section "Probe Overhead", in the words of its
// legend. Probes are at a function's entry, by a breakpoint that is single-stepped or
// boosted, or by a jump. They do not use fentry sites (CONFIG_KPROBES_ON_FTRACE=n),
// like the kernels that the document measured. j and jr are measured on 2.6.32, which
// has jprobes.

// overheadRow is a line of the table, with the documents' numbers in us, or 0.
type overheadRow struct {
	name              string
	xeon, opteron     float64 // E5410 2.33 GHz; Opteron 246 1.99 GHz
	boost, jumps      bool
	kprobe, kretprobe bool
	jprobe            bool
}

var overheadRows = []overheadRow{
	{name: "k", xeon: 0.99, opteron: 0.49, kprobe: true},
	{name: "j", opteron: 0.76, jprobe: true},
	{name: "b", xeon: 0.43, boost: true, kprobe: true},
	{name: "o", xeon: 0.06, jumps: true, kprobe: true},
	{name: "r", xeon: 1.24, opteron: 0.80, kretprobe: true},
	{name: "rb", xeon: 0.68, boost: true, kretprobe: true},
	{name: "ro", xeon: 0.30, jumps: true, kretprobe: true},
	{name: "kr", opteron: 0.82, kprobe: true, kretprobe: true},
	{name: "jr", opteron: 1.07, jprobe: true, kretprobe: true},
}

// overheadOrder are relations that all figures of the documents satisfy: a costs at
// most so many times as much as b. why is printed if this is not so here. Those of
// translated detours hold with the native engine only.
var overheadOrder = []struct {
	a, b       string
	most       float64
	why        string
	translated bool
}{
	{"o", "b", 1, whyJumps, true},
	{"b", "k", 1, "", false},
	{"k", "r", 1, "", false},
	{"ro", "rb", 1, whyJumps, true},
	{"rb", "r", 1, "", false},
	{"k", "j", 1, "", false},
	{"j", "jr", 1, "", false},
	{"r", "jr", 1, "", false},
	{"kr", "jr", 1, "", false},
	{"kr", "r", 1.15, "a second handler and its guard, on a short way", false},
}

const whyJumps = "a detour saves and restores all registers in guest code, which the interpreter executes one by one"

// overheadMachines are the configurations that the rows are measured on.
var overheadMachines = []struct {
	release        string
	boost, jprobes bool
}{{}, {boost: true}, {release: "2.6.32", jprobes: true}}

// overhead measures the table on one vCPU: for handlers in Go, and beside them for handlers
// of a module if there is what one is built with.
func overhead(b *bench) error {
	var ts []timed
	var counter []byte
	if b.buildsModules() {
		objects, err := b.buildModules(map[string]string{"counter": counterSource})
		if err != nil {
			return err
		}
		counter = objects["counter.ko"]
	}
	for _, of := range overheadMachines {
		h, err := newHitMachine(of.release, kprobefs.Config{NoFtrace: true, NoPreempt: of.boost})
		if err != nil {
			return err
		}
		defer h.sys.Close()
		for _, row := range overheadRows {
			if row.boost == of.boost && row.jprobe == of.jprobes {
				c := hitCase{row.name, row.set}
				ts = append(ts, timed{row.name, func() (float64, error) { return h.measure(c, true) }})
				if counter != nil && !row.jprobe {
					ts = append(ts, timed{row.inC(), func() (float64, error) { return h.added(row.module(counter)) }})
				}
			}
		}
	}
	ns, err := b.medians(ts)
	if err != nil {
		return err
	}
	for _, row := range overheadRows {
		b.add(row.row(ns[row.name]/1000, ns["k"]/1000, ns[row.inC()]/1000))
	}
	for _, line := range brokenOrder(ns) {
		b.note("%s", line)
	}
	return nil
}

// brokenOrder returns a line for each relation of overheadOrder that does not hold.
func brokenOrder(ns map[string]float64) (lines []string) {
	for _, o := range overheadOrder {
		if ratio := ns[o.a] / ns[o.b]; ratio > o.most {
			line := fmt.Sprintf("%s is x%.2f of %s; the documents have at most x%.2f", o.a, ratio, o.b, o.most)
			if o.why != "" {
				line += ": " + o.why
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// inC is the name of what is measured for the row with handlers of a module.
func (o *overheadRow) inC() string { return o.name + " in C" }

func oneIf(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// module returns the row's probes with handlers of the module counter.
func (o *overheadRow) module(counter []byte) hitCase {
	args, want := fmt.Sprintf("kprobe=%d kretprobe=%d", oneIf(o.kprobe), oneIf(o.kretprobe)), oneIf(o.kprobe)+oneIf(o.kretprobe)
	return hitCase{o.inC(), func(h *hitBench) (func(), error) { return h.counter(counter, args, want, o.jumps) }}
}

// row returns the line with its ratios to k, here and in the documents. inC is what it costs
// with handlers of a module, or 0.
func (o *overheadRow) row(us, k, inC float64) Row {
	r := Row{Section: "probe overhead", Name: o.name, Unit: "us", Value: us, Beside: map[string]float64{}}
	r.Note = fmt.Sprintf("x%.2f of k", us/k)
	if inC != 0 {
		r.Beside["C"] = inC
		r.Note += fmt.Sprintf(", with handlers in C %.3f us", inC)
	}
	for _, cpu := range []struct {
		name  string
		us, k float64
	}{{"Xeon E5410", o.xeon, 0.99}, {"Opteron 246", o.opteron, 0.49}} {
		if cpu.us != 0 {
			r.Beside[cpu.name] = cpu.us
			r.Note += fmt.Sprintf(", %s x%.2f", cpu.name, cpu.us/cpu.k)
		}
	}
	return r
}

// set registers the probes of a row.
func (o *overheadRow) set(h *hitBench) (func(), error) {
	undo, err := o.register(h)
	if err != nil {
		return nil, err
	}
	var b [1]byte
	want := byte(0xcc)
	if o.jumps {
		want = 0xe9
	}
	if err := h.sys.Machine.Read(h.addr, b[:]); err != nil || b[0] != want {
		undo()
		return nil, fmt.Errorf("%s begins with %#x, not %#x: %w", hitFunction, b[0], want, syscall.EIO)
	}
	return undo, nil
}

func (o *overheadRow) register(h *hitBench) (func(), error) {
	if o.jprobe {
		return h.jprobe(o.kretprobe)
	}
	if o.kretprobe {
		return h.ret(o.kprobe, o.jumps)
	}
	return h.probes(1, 0, false, o.jumps)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// pairFunctions are the functions that two vCPUs call: small leaf functions, whose loops
// are skipped if their arguments are 0.
var pairFunctions = [2]string{hitFunction, "int_pow"}

// pairMark is how many times the hits of one vCPU two are to give.
const pairMark = 1.8

// pairKind is a kind of probe. set registers one of it at a function, whose hits call pre.
type pairKind struct {
	name string
	set  func(k *kprobes.Kprobes, function string, pre func(*kprobes.Hit) int) (undo func(), err error)
}

var pairKinds = []pairKind{
	{"k", func(k *kprobes.Kprobes, function string, pre func(*kprobes.Hit) int) (func(), error) {
		k.SetOptimization(false)
		undo, err := pairKprobe(k, function, pre)
		return func() { undo(); k.SetOptimization(true) }, err
	}},
	{"k optimized", pairKprobe},
	{"r", func(k *kprobes.Kprobes, function string, pre func(*kprobes.Hit) int) (func(), error) {
		rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: function}, Handler: func(_ *kprobes.Instance, hit *kprobes.Hit) int { return pre(hit) }}
		return func() { k.UnregisterRetprobe(rp) }, k.RegisterRetprobe(rp)
	}},
}

func pairKprobe(k *kprobes.Kprobes, function string, pre func(*kprobes.Hit) int) (func(), error) {
	p := &kprobes.Kprobe{SymbolName: function, PreHandler: pre}
	err := k.Register(p)
	k.WaitOptimizer()
	return func() { k.Unregister(p) }, err
}

// pairBench is a machine without fentry sites, on which two vCPUs call functions.
type pairBench struct {
	sys   *kprobefs.Kernel
	calls uint64
	count [2]counter
}

// pairs measures the hits of two vCPUs against one's, on probes of their own and on
// one that they share, beside two loops that share nothing: these say how much of a second
// processor the machine has to give.
func pairs(b *bench) error {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2, Config: kprobefs.Config{NoFtrace: true}})
	if err != nil {
		return err
	}
	defer s.Close()
	p := &pairBench{sys: s, calls: 2_000_000}
	const plain = "plain loops"
	ts := []timed{{plain, func() (float64, error) { return spin(p.calls) }}}
	for _, kind := range pairKinds {
		for _, of := range []struct {
			name      string
			functions [2]string
		}{{"own probes", pairFunctions}, {"one probe", [2]string{hitFunction, hitFunction}}} {
			ts = append(ts, timed{kind.name + ", " + of.name, func() (float64, error) { return p.measure(kind, of.functions) }})
		}
	}
	got, err := b.medians(ts)
	if err != nil {
		return err
	}
	for _, t := range ts[1:] {
		b.add(Row{
			Section: "two vCPUs", Name: t.name, Unit: "times the hits of one", Value: got[t.name],
			Beside: map[string]float64{plain: got[plain]}, Note: fmt.Sprintf("mark %v", pairMark),
		})
	}
	return nil
}

// measure returns how many times the hits of one vCPU two give.
func (p *pairBench) measure(kind pairKind, functions [2]string) (float64, error) {
	pre := func(hit *kprobes.Hit) int {
		p.count[hit.CPU].n++
		return 0
	}
	for i, f := range functions {
		if i == 1 && f == functions[0] {
			continue
		}
		undo, err := kind.set(p.sys.Kprobes, f, pre)
		if err != nil {
			return 0, fmt.Errorf("%s at %s: %w", kind.name, f, err)
		}
		defer undo()
	}
	return together(p.calls, func(i int, n uint64) (time.Duration, error) { return p.call(i, functions[i], n) })
}

// together returns how many times the work of one two goroutines do, in wall time: each
// does its work n times alone, then both do theirs, as often as takes the same time.
func together(n uint64, work func(i int, n uint64) (time.Duration, error)) (float64, error) {
	var alone [2]float64 // ns
	for i := range alone {
		if _, err := work(i, n/10+1); err != nil { // decode, translate
			return 0, err
		}
		took, err := work(i, n)
		if err != nil {
			return 0, err
		}
		alone[i] = float64(took) / float64(n)
	}
	counts := [2]uint64{n, max(1, uint64(float64(n)*alone[0]/alone[1]))}
	var took [2]time.Duration
	var errs [2]error
	var wg sync.WaitGroup
	for i := range took {
		wg.Go(func() { took[i], errs[i] = work(i, counts[i]) })
	}
	wg.Wait()
	times := 0.0
	for i := range took {
		times += alone[i] * float64(counts[i]) / float64(max(took[0], took[1]))
	}
	return times, errors.Join(errs[:]...)
}

// spin is what the machine gives two goroutines that share nothing.
func spin(n uint64) (float64, error) {
	var sums [2]counter
	return together(n, func(i int, n uint64) (time.Duration, error) {
		start, sum := time.Now(), sums[i].n
		for k := range n * 100 {
			sum = sum*31 + k
		}
		sums[i].n = sum
		return time.Since(start), nil
	})
}

// call calls a function on a vCPU. Each call must be a hit.
func (p *pairBench) call(cpu int, function string, calls uint64) (time.Duration, error) {
	addr := p.sys.Machine.Symbols().LookupName(function)[0].Addr
	before := p.count[cpu].n
	start := time.Now()
	if _, err := p.sys.Machine.CallOn(context.Background(), cpu, addr, calls, 0, 0); err != nil {
		return 0, err
	}
	took := time.Since(start)
	if n := p.count[cpu].n - before; n != calls {
		return 0, fmt.Errorf("%d hits in %d calls of %s: %w", n, calls, function, syscall.EIO)
	}
	return took, nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// hitFunction is the function that is called: a small leaf function, whose loop is
// skipped if its argument is 0.
const hitFunction = "int_sqrt"

// The kernel document's table "Probe Overhead" and its optimization section, ns
// (x86-64, Xeon E5410 2.33 GHz; kr on an Opteron).
var documented = map[string]float64{
	"k": 990, "k boosted": 430, "k optimized": 60,
	"r": 1240, "kr": 820,
}

// hitCase is a kind of probe. set registers it and returns a function that
// unregisters it.
type hitCase struct {
	name string
	set  func(h *hitBench) (undo func(), err error)
}

// hitBench is a machine on which hitFunction is called.
type hitBench struct {
	sys   *kprobefs.Kernel
	addr  uint64
	cpus  int
	calls uint64
	at    map[string]uint32 // offset of an instruction that is handled so: "step", "boost", an emulation, "optimized"
	count []counter
}

// counter is a vCPU's counter, on its own cache line.
type counter struct {
	_ [128]byte
	n uint64
	_ [120]byte
}

// hits measures what a probe adds to a call, for one vCPU and for all.
func hits(b *bench) error {
	plain, err := newHitBench(false)
	if err != nil {
		return err
	}
	defer plain.sys.Close()
	boosted, err := newHitBench(true)
	if err != nil {
		return err
	}
	defer boosted.sys.Close()
	for _, one := range []bool{true, false} {
		var ts []timed
		for _, h := range []*hitBench{plain, boosted} {
			for _, c := range h.cases() {
				ts = append(ts, timed{c.name, func() (float64, error) { return h.measure(c, one) }})
			}
		}
		got, err := b.medians(ts)
		if err != nil {
			return err
		}
		for _, t := range ts {
			b.addHit(t.name, got[t.name], one, plain.cpus)
		}
	}
	return nil
}

func (b *bench) addHit(name string, ns float64, one bool, cpus int) {
	if !one {
		b.add(Row{Section: "hits on all vCPUs", Name: name, Unit: "M hits/s", Value: float64(cpus) * 1000 / ns})
		return
	}
	r := Row{Section: "hits on one vCPU", Name: name, Unit: "ns", Value: ns}
	if doc, ok := documented[name]; ok {
		r.Beside = map[string]float64{"document": doc}
	}
	b.add(r)
}

func newHitBench(boost bool) (*hitBench, error) {
	h, err := newHitMachine("", kprobefs.Config{NoPreempt: boost})
	if err != nil {
		return nil, err
	}
	return h, h.survey(h.sys.Machine.Symbols().LookupName(hitFunction)[0].Size)
}

// newHitMachine boots a release (the default one if it is "") with a configuration.
func newHitMachine(release string, conf kprobefs.Config) (*hitBench, error) {
	r, err := kprobefs.ParseRelease(release)
	if err != nil {
		return nil, err
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: max(2, cpusHere()), Release: r, Config: conf})
	if err != nil {
		return nil, err
	}
	sym := s.Machine.Symbols().LookupName(hitFunction)[0]
	h := &hitBench{sys: s, addr: sym.Addr, cpus: s.Machine.CPUs(), calls: 50_000}
	h.count = make([]counter, h.cpus)
	return h, nil
}

// survey finds offsets for the kinds of probes, at instructions that a call executes
// once.
func (h *hitBench) survey(size uint64) error {
	h.at = map[string]uint32{}
	for off := uint32(1); uint64(off) < size; off++ {
		p := &kprobes.Kprobe{SymbolName: hitFunction, Offset: off, PreHandler: h.pre}
		if h.sys.Kprobes.Register(p) != nil {
			continue
		}
		i := slices.IndexFunc(h.sys.Kprobes.Points(), func(i kprobes.PointInfo) bool { return i.Addr == p.Addr })
		info := h.sys.Kprobes.Points()[i]
		n, err := h.hitsOfCall()
		h.sys.Kprobes.Unregister(p)
		if err != nil || n != 1 {
			continue
		}
		kind := info.Carried
		if kind != "step" && kind != "boost" {
			kind = "emulated"
		}
		for _, k := range []string{kind, map[bool]string{true: "optimized"}[info.NotJump == nil]} {
			if _, ok := h.at[k]; !ok && k != "" {
				h.at[k] = off
			}
		}
	}
	return nil
}

func (h *hitBench) hitsOfCall() (uint64, error) {
	h.count[0].n = 0
	_, err := h.sys.Machine.CallOn(context.Background(), 0, h.addr, 1, 0)
	return h.count[0].n, err
}

func (h *hitBench) pre(hit *kprobes.Hit) int {
	h.count[hit.CPU].n++
	return 0
}

// probes registers n kprobes at an offset. jumps tells whether they may be optimized.
func (h *hitBench) probes(n int, off uint32, post, jumps bool) (func(), error) {
	h.allowJumps(jumps)
	ps := make([]*kprobes.Kprobe, n)
	for i := range ps {
		ps[i] = &kprobes.Kprobe{SymbolName: hitFunction, Offset: off, PreHandler: func(*kprobes.Hit) int { return 0 }}
		if i == 0 {
			ps[i].PreHandler = h.pre
		}
		if post {
			ps[i].PostHandler = func(*kprobes.Hit, uint64) {}
		}
	}
	if err := h.sys.Kprobes.RegisterAll(ps); err != nil {
		return nil, err
	}
	h.settle()
	return func() { h.sys.Kprobes.UnregisterAll(ps); h.settle() }, nil
}

// ret registers a return probe, and if with is set a kprobe at the same address.
func (h *hitBench) ret(with, jumps bool) (func(), error) {
	h.allowJumps(jumps)
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: hitFunction}, Handler: func(_ *kprobes.Instance, hit *kprobes.Hit) int { return h.pre(hit) }}
	if err := h.sys.Kprobes.RegisterRetprobe(rp); err != nil {
		return nil, err
	}
	undo := func() { h.sys.Kprobes.UnregisterRetprobe(rp); h.settle() }
	h.settle()
	if !with {
		return undo, nil
	}
	p := &kprobes.Kprobe{SymbolName: hitFunction, PreHandler: func(*kprobes.Hit) int { return 0 }}
	err := h.sys.Kprobes.Register(p)
	return func() { h.sys.Kprobes.Unregister(p); undo() }, err
}

// jprobe registers a jprobe, and if with is set a return probe at the same address.
func (h *hitBench) jprobe(with bool) (func(), error) {
	jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{SymbolName: hitFunction}, Handler: func(*kprobes.Hit) {}}
	if !with {
		jp.Handler = func(hit *kprobes.Hit) { h.pre(hit) }
	}
	if err := h.sys.Kprobes.RegisterJprobe(jp); err != nil {
		return nil, err
	}
	undo := func() { _ = h.sys.Kprobes.UnregisterJprobe(jp) } // cannot fail outside of handlers
	if !with {
		return undo, nil
	}
	ret, err := h.ret(false, false)
	if err != nil {
		undo()
		return nil, err
	}
	return func() { ret(); undo() }, nil
}

// settle waits for the optimizer, if there is one.
func (h *hitBench) settle() {
	if h.sys.Kprobes.HasOptprobes() {
		h.sys.Kprobes.WaitOptimizer()
	}
}

// allowJumps sets whether probes may be optimized, if the configuration has
// optimization.
func (h *hitBench) allowJumps(on bool) {
	if h.sys.Kprobes.HasOptprobes() {
		h.sys.Kprobes.SetOptimization(on)
	}
}

// cases returns the kinds of probes that are measured on the machine.
func (h *hitBench) cases() []hitCase {
	kprobe := func(n int, kind string, post, jumps bool) func(h *hitBench) (func(), error) {
		return func(h *hitBench) (func(), error) {
			off, ok := h.at[kind]
			if !ok {
				return nil, fmt.Errorf("%s has no instruction for it: %w", hitFunction, syscall.ENOENT)
			}
			return h.probes(n, off, post, jumps)
		}
	}
	if _, ok := h.at["boost"]; ok {
		return []hitCase{{"k boosted", kprobe(1, "boost", false, false)}}
	}
	return []hitCase{
		{"k", kprobe(1, "step", false, false)},
		{"k with post", kprobe(1, "step", true, false)},
		{"k emulated", kprobe(1, "emulated", false, false)},
		{"k optimized", kprobe(1, "optimized", false, true)},
		{"2 at one address", kprobe(2, "step", false, false)},
		{"8 at one address", kprobe(8, "step", false, false)},
		{"8 optimized", kprobe(8, "optimized", false, true)},
		{"k at fentry", func(h *hitBench) (func(), error) { return h.probes(1, 0, false, true) }},
		{"r", func(h *hitBench) (func(), error) { return h.ret(false, true) }},
		{"kr", func(h *hitBench) (func(), error) { return h.ret(true, true) }},
	}
}

// measure returns the time that a hit adds in nanoseconds; the call without the probe
// is measured right before and subtracted. With all vCPUs it is wall time.
func (h *hitBench) measure(c hitCase, one bool) (float64, error) {
	base, err := h.call(one)
	if err != nil {
		return 0, err
	}
	undo, err := c.set(h)
	if err != nil {
		return 0, err
	}
	defer undo()
	if _, err := h.call(one); err != nil { // decode
		return 0, err
	}
	clear(h.count)
	probed, err := h.call(one)
	if err != nil {
		return 0, err
	}
	var n uint64
	for i := range h.count {
		n += h.count[i].n
	}
	want := h.calls
	if !one {
		want *= uint64(h.cpus)
		n = (n + uint64(h.cpus) - 1) / uint64(h.cpus) // each vCPU's share, side by side
	}
	if n == 0 || n > want {
		return 0, fmt.Errorf("%d hits in %d calls: %w", n, want, syscall.EIO)
	}
	if one {
		return float64(probed-base) / float64(n), nil
	}
	return float64(probed) / float64(n), nil
}

// added returns the time that c adds to a call in nanoseconds.
func (h *hitBench) added(c hitCase) (float64, error) {
	base, err := h.call(true)
	if err != nil {
		return 0, err
	}
	with, err := h.perCall(c)
	return with - float64(base)/float64(h.calls), err
}

// call calls the function on one vCPU or on all.
func (h *hitBench) call(one bool) (time.Duration, error) {
	if one {
		start := cpuTime()
		_, err := h.sys.Machine.CallOn(context.Background(), 0, h.addr, h.calls, 0)
		return cpuTime() - start, err
	}
	start := time.Now()
	errs := make([]error, h.cpus)
	var wg sync.WaitGroup
	for i := range h.cpus {
		wg.Go(func() { _, errs[i] = h.sys.Machine.CallOn(context.Background(), i, h.addr, h.calls, 0) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

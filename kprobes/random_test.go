package kprobes_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes"
)

// A model of docs/reference/linux/control-files.md sections 2 and 3: which handlers
// of an address run, what kprobes/list shows and what is written to the text once the
// optimizer has no work left. It includes text of modules that are unloaded and
// loaded again, and pending calls whose return probe changes.

// modelProbe is a probe of the model.
type modelProbe struct {
	*kprobes.Kprobe
	site     *modelSite
	post     bool
	disabled bool // kprobe.flags
	gone     bool
	want     uint64
	byCPU    perCPU

	ret      *kprobes.Retprobe // nil if it is not a return probe
	skip     bool              // its entry handler returns 1
	held     int               // pending calls that it has hooked
	serial   int               // number of its registration
	entries  uint64            // expected calls of handlers, and misses
	returns  uint64
	missed   uint64
	sawEntry perCPU // actual calls of handlers
	sawRet   perCPU
	bad      atomic.Uint64 // calls whose instance was not as the entry handler left it
}

// perCPU is a counter of each vCPU. The test reads one while a call sleeps.
type perCPU [2]atomic.Uint64

func (c *perCPU) add(cpu int) { c[cpu].Add(1) }
func (c *perCPU) sum() uint64 { return c[0].Load() + c[1].Load() }

// ahead returns the difference between vCPU 0 and vCPU 1, modulo 2^64.
func (c *perCPU) ahead() uint64 { return c[0].Load() - c[1].Load() }

// modelSite is a probed address.
type modelSite struct {
	fn      *modelFunc
	offset  uint32
	ftrace  bool
	canJump bool
	perCall uint64
	probes  []*modelProbe // newest first
	aggr    bool
	off     bool // the point's own FlagDisabled
	gone    bool // the point's FlagGone
}

// modelFunc is a probed function.
type modelFunc struct {
	name   string
	module string // "" for the kernel
	args   []uint64
	depth  int  // how often a call enters it, by recursion
	sleeps bool // a call waits for the completion given as argument
	at     uint64
	orig   []byte
	result uint64
	sites  []*modelSite
}

// inFlight is a task that may be inside a function.
type inFlight struct {
	task   *host.Task
	comp   uint64 // struct completion
	done   chan error
	hooked []hooked
}

type hooked struct {
	p      *modelProbe
	serial int
}

// model has all sites of some functions.
type model struct {
	*machine
	r      *rand.Rand
	funcs  []*modelFunc
	allOff bool
	jumps  bool // debug.kprobes-optimization
	target bool // kprobe_target is loaded
	user   bool // kprobe_user, which depends on it, is loaded
	calls  []*inFlight
	parked []*modelProbe // unregistered, for reuse
	serial int
	loads  int

	trampoline uint64
	lines      map[uint64][]kprobes.Record // checkList's buffer
}

// modelFuncs returns the probed functions. int_pow's instructions from +5 on are
// pushes and moves. kprobe_target's functions are a loop and a recursion in a module.
// Only the test calls wait_for_completion_interruptible.
func modelFuncs() []*modelFunc {
	return []*modelFunc{
		{name: "int_pow", args: []uint64{3, 4}, depth: 1},
		{name: "kprobe_target_sum", module: "kprobe_target", args: []uint64{1, 4}, depth: 1},
		{name: "kprobe_target_fact", module: "kprobe_target", args: []uint64{4}, depth: 4},
		{name: "wait_for_completion_interruptible", depth: 1, sleeps: true},
	}
}

func newModel(t *testing.T, seed int64) *model {
	m := &model{machine: boot(t), r: rand.New(rand.NewSource(seed)), jumps: true, funcs: modelFuncs(), lines: map[uint64][]kprobes.Record{}}
	m.trampoline = m.addr("arch_rethook_trampoline")
	m.ctx = context.Background() // the test's own time limit is enough
	m.load("kprobe_target", 0)
	m.target = true
	for _, f := range m.funcs {
		m.addFunc(f)
	}
	for i := range 3 {
		m.addTask(i)
	}
	return m
}

func (m *model) addFunc(f *modelFunc) {
	sym := m.Machine.Symbols().LookupName(f.name)[0]
	f.at, f.orig = sym.Addr, make([]byte, sym.Size)
	if err := m.Machine.Read(f.at, f.orig); err != nil {
		m.t.Fatal(err)
	}
	if f.sleeps {
		f.sites = []*modelSite{{fn: f, ftrace: true, off: true, perCall: 1}}
		return
	}
	f.result = m.call(f.name, f.args...)
	for i, off := range m.starts(f.name)[:6] {
		s := &modelSite{fn: f, offset: off, ftrace: i == 0, off: true}
		m.measure(s)
		f.sites = append(f.sites, s)
	}
}

// measure determines whether a probe at the site can be optimized, and how often a
// call hits it.
func (m *model) measure(s *modelSite) {
	p := &kprobes.Kprobe{SymbolName: s.fn.name, Offset: s.offset, PreHandler: func(*kprobes.Hit) int { s.perCall++; return 0 }}
	wantErr(m.t, m.Kprobes.Register(p), 0)
	s.canJump = m.Kprobes.Points()[0].Aggregate
	m.call(s.fn.name, s.fn.args...)
	wantErr(m.t, m.Kprobes.Unregister(p), 0)
	m.settle()
}

func (m *model) addTask(i int) {
	task, err := m.Machine.Host().Kthread(m.ctx, fmt.Sprint("waiter/", i))
	if err != nil {
		m.t.Fatal(err)
	}
	const completion, gfpKernel = 32, 0xcc0
	c := &inFlight{task: task, comp: m.call("__kmalloc", completion, gfpKernel)}
	m.calls = append(m.calls, c)
}

// load loads a guest module, and expects errno.
func (m *model) load(name string, errno syscall.Errno) {
	m.t.Helper()
	ko, err := os.ReadFile("../kernel/guest/modules/" + name + ".ko")
	if err != nil {
		m.t.Fatal(err)
	}
	_, err = m.Modules.Load(m.ctx, ko)
	wantErr(m.t, err, errno)
	m.loads++
}

func (m *model) present(f *modelFunc) bool { return f.module == "" || m.target }

func (m *model) sites() (all []*modelSite) {
	for _, f := range m.funcs {
		all = append(all, f.sites...)
	}
	return all
}

// probes returns all registered probes.
func (m *model) probes() (ps []*modelProbe) {
	for _, s := range m.sites() {
		ps = append(ps, s.probes...)
	}
	return ps
}

// step does a random operation on the kernel and on the model.
func (m *model) step() string {
	ps := m.probes()
	var p *modelProbe
	if len(ps) > 0 {
		p = ps[m.r.Intn(len(ps))]
	}
	switch n := m.r.Intn(40); {
	case n < 11 && len(ps) < 24:
		return m.doRegister()
	case n < 18 && p != nil:
		return m.doUnregister(p)
	case n < 22 && p != nil:
		return m.doEnable(p)
	case n < 27 && p != nil:
		p.site.disable(p)
		return m.did("disable", p, m.Kprobes.Disable(p.Kprobe))
	case n == 27:
		m.allOff = !m.allOff
		return m.did(fmt.Sprint("all off ", m.allOff), nil, m.Kprobes.SetEnabled(!m.allOff))
	case n == 28:
		m.jumps = !m.jumps
		m.Kprobes.SetOptimization(m.jumps)
		return fmt.Sprint("jumps ", m.jumps)
	case n == 29:
		m.settle()
		return "settle"
	case n == 30:
		return m.doModule()
	case n == 31 && len(m.parked) > 0:
		return m.misuse(m.parked[m.r.Intn(len(m.parked))])
	case n == 32 && len(ps) > 2:
		return m.unregisterSome(ps)
	case n < 36:
		return m.doCall()
	}
	return m.hit()
}

func (m *model) did(what string, p *modelProbe, err error) string {
	if p != nil {
		what = fmt.Sprintf("%s %s", what, p.site)
	}
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
	return what
}

func (s *modelSite) String() string { return fmt.Sprintf("%s+%d", s.fn.name, s.offset) }

// doRegister registers a new probe, or one that was registered before.
func (m *model) doRegister() string {
	sites := m.sites()
	p := m.newProbe(sites[m.r.Intn(len(sites))])
	if n := len(m.parked); n > 0 && m.r.Intn(3) == 0 {
		p = m.parked[n-1]
		m.parked = m.parked[:n-1]
		p.Addr = 0 // otherwise it would have both a symbol and an address
	}
	p.disabled = m.r.Intn(4) == 0
	p.Flags = 0
	if p.disabled {
		p.Flags = kprobes.FlagDisabled
	}
	err := m.register(p)
	if !m.present(p.site.fn) {
		wantErr(m.t, err, syscall.ENOENT)
		return "register what is not there"
	}
	p.gone, p.held, p.missed = false, 0, 0
	m.serial++
	p.serial = m.serial
	p.site.register(p)
	return m.did(fmt.Sprintf("register (disabled %v, post %v, return %v)", p.disabled, p.post, p.ret != nil), p, err)
}

func (m *model) register(p *modelProbe) error {
	if p.ret != nil {
		return m.Kprobes.RegisterRetprobe(p.ret)
	}
	return m.Kprobes.Register(p.Kprobe)
}

func (m *model) newProbe(s *modelSite) *modelProbe {
	p := &modelProbe{site: s}
	if s.ftrace && m.r.Intn(2) == 0 {
		p.ret = m.newRetprobe(p)
		p.Kprobe = &p.ret.Kprobe
	} else {
		p.Kprobe = &kprobes.Kprobe{PreHandler: func(h *kprobes.Hit) int {
			p.byCPU.add(h.CPU)
			return 0
		}}
		if p.post = m.r.Intn(4) == 0; p.post {
			p.PostHandler = func(*kprobes.Hit, uint64) {}
		}
	}
	p.SymbolName, p.Offset = s.fn.name, s.offset
	if s.fn.module != "" && m.r.Intn(2) == 0 {
		p.SymbolName = s.fn.module + ":" + s.fn.name
	}
	return p
}

// newRetprobe makes a return probe whose handlers check that both see the same stack
// address in the instance's data.
func (m *model) newRetprobe(p *modelProbe) *kprobes.Retprobe {
	trampoline := m.trampoline
	p.skip = m.r.Intn(4) == 0
	return &kprobes.Retprobe{
		MaxActive: 1 + m.r.Intn(6), DataSize: 8,
		EntryHandler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
			p.sawEntry.add(h.CPU)
			binary.LittleEndian.PutUint64(ri.Data, h.Regs.SP+8)
			if ri.RetAddr != 0 || ri.Task != h.Task {
				p.bad.Add(1)
			}
			if p.skip {
				return 1
			}
			return 0
		},
		Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
			p.sawRet.add(h.CPU)
			// If an older return probe has hooked the call, its return address is the
			// trampoline.
			if binary.LittleEndian.Uint64(ri.Data) != h.Regs.SP || ri.Task != h.Task || ri.RetAddr != h.Regs.IP && ri.RetAddr != trampoline {
				p.bad.Add(1)
			}
			return 0
		},
	}
}

func (m *model) doUnregister(p *modelProbe) string {
	m.drop(p)
	if p.ret != nil {
		return m.did("unregister", p, m.Kprobes.UnregisterRetprobe(p.ret))
	}
	return m.did("unregister", p, m.Kprobes.Unregister(p.Kprobe))
}

func (m *model) drop(p *modelProbe) {
	p.site.remove(p)
	p.serial = 0
	if len(m.parked) > 8 {
		m.parked = m.parked[1:]
	}
	m.parked = append(m.parked, p)
}

// unregisterSome unregisters a batch that contains a probe that is not registered.
func (m *model) unregisterSome(ps []*modelProbe) string {
	batch := []*kprobes.Kprobe{{Addr: ps[0].site.fn.at}}
	for _, p := range ps {
		if p.ret == nil && m.r.Intn(3) == 0 {
			m.drop(p)
			batch = append(batch, p.Kprobe)
		}
	}
	err := m.Kprobes.UnregisterAll(batch)
	if batch[0].Addr != 0 {
		m.t.Fatal("the address of a probe that is not registered was not cleared")
	}
	return m.did(fmt.Sprintf("unregister %d", len(batch)), nil, err)
}

func (m *model) doEnable(p *modelProbe) string {
	err := m.Kprobes.Enable(p.Kprobe)
	if p.gone {
		wantErr(m.t, err, syscall.EINVAL)
		return "enable what is gone"
	}
	m.enable(p)
	return m.did("enable", p, err)
}

// misuse calls functions for registered probes with one that is not registered.
func (m *model) misuse(p *modelProbe) string {
	wantErr(m.t, m.Kprobes.Enable(p.Kprobe), syscall.EINVAL)
	wantErr(m.t, m.Kprobes.Disable(p.Kprobe), syscall.EINVAL)
	if p.Addr != 0 {
		wantErr(m.t, m.register(p), syscall.EINVAL) // it has a symbol and an address
	}
	wantErr(m.t, m.Kprobes.Unregister(p.Kprobe), 0)
	if p.Addr != 0 {
		m.t.Fatalf("%s: unregistered twice, its address was not cleared", p.site)
	}
	return "misuse"
}

// doModule loads or unloads a module, or tries to.
func (m *model) doModule() string {
	remove := func(name string, want syscall.Errno) { wantErr(m.t, m.Modules.Delete(m.ctx, name), want) }
	switch {
	case m.r.Intn(8) == 0:
		m.load("kprobe_fails", syscall.ENODEV)
		return "load kprobe_fails"
	case !m.target:
		m.load("kprobe_user", syscall.ENOENT)
		m.load("kprobe_target", 0) // its init calls functions, with their probes removed
		m.target = true
		return "load kprobe_target"
	case m.user && m.r.Intn(2) == 0:
		remove("kprobe_target", syscall.EWOULDBLOCK)
		remove("kprobe_user", 0)
		m.user = false
		return "unload kprobe_user"
	case !m.user && m.r.Intn(2) == 0:
		m.load("kprobe_user", 0)
		m.user = true
		m.called(m.funcs[1], 1) // by the module's init
		m.checkHits()
		return "load kprobe_user"
	case m.user:
		m.load("kprobe_user", syscall.EEXIST)
		return "load kprobe_user again"
	}
	remove("kprobe_target", 0)
	m.target = false
	for _, s := range m.sites() {
		if s.fn.module != "" {
			s.kill()
		}
	}
	return "unload kprobe_target"
}

// register: the point of a first probe has the probe's flags. A site that can be
// optimized has an aggregate from the first probe on, others from the second one on.
// A point that was gone is disabled afterwards, and its old probes stay gone.
func (s *modelSite) register(p *modelProbe) {
	if len(s.probes) == 0 {
		s.off, s.aggr, s.gone = p.disabled, s.canJump, false
	} else {
		s.aggr = true
		s.off = (s.off || s.gone) && p.disabled
		s.gone = false
	}
	s.probes = append([]*modelProbe{p}, s.probes...)
}

// remove disables the probe first, and so disables the point with its last enabled
// probe.
func (s *modelSite) remove(p *modelProbe) {
	s.disable(p)
	rest := make([]*modelProbe, 0, len(s.probes))
	for _, q := range s.probes {
		if q != p {
			rest = append(rest, q)
		}
	}
	s.probes = rest
}

func (s *modelSite) disable(p *modelProbe) {
	if p.disabled || p.gone {
		return
	}
	p.disabled = true
	for _, q := range s.probes {
		if !q.disabled && !q.gone {
			return // the point stays as it is, even if "Knob-off quirks" have left it off
		}
	}
	s.off = true
}

func (s *modelSite) kill() {
	s.gone = true
	for _, p := range s.probes {
		p.gone = true
	}
}

// enable while kprobes/enabled is 0 only clears the flag of an aggregate's probe.
// That probe, and a lone one, stay unarmed for good ("Knob-off quirks").
func (m *model) enable(p *modelProbe) {
	s := p.site
	if s.aggr {
		p.disabled = false
	}
	if m.allOff {
		return
	}
	if s.off {
		s.off = false
		if !s.aggr {
			p.disabled = false
		}
	}
}

// armed reports whether hits reach the site's probes.
func (m *model) armed(s *modelSite) bool {
	return len(s.probes) > 0 && !m.allOff && !s.off && !s.gone
}

// called adds the hits expected from consecutive calls of f.
func (m *model) called(f *modelFunc, calls int) {
	for _, s := range f.sites {
		for _, p := range s.probes {
			if !m.armed(s) || p.disabled || p.gone {
				continue
			}
			p.want += uint64(calls) * s.perCall
			if p.ret != nil {
				p.calledRet(uint64(calls), uint64(f.depth))
			}
		}
	}
}

// calledRet adds the handler calls expected of a return probe: of nested calls, as
// many are hooked as there are instances. If the entry handler returns 1, the
// instance is freed at once.
func (p *modelProbe) calledRet(calls, depth uint64) {
	taken := min(uint64(p.ret.MaxActive), depth)
	if p.skip {
		p.entries += calls * depth
		return
	}
	p.entries += calls * taken
	p.returns += calls * taken
	p.missed += calls * (depth - taken)
}

// hit calls a function on one or both vCPUs. Each armed probe that is not disabled is
// hit by each call.
func (m *model) hit() string {
	const calls = 3
	f := m.funcs[m.r.Intn(3)]
	if !m.present(f) {
		return "no hit"
	}
	cpus := []int{m.r.Intn(2)}
	if m.r.Intn(3) > 0 {
		cpus = []int{0, 1}
	}
	ahead := map[*modelProbe]uint64{}
	for _, p := range m.probes() {
		ahead[p] = p.byCPU.ahead()
	}
	done := make(chan error, 2)
	for _, cpu := range cpus {
		go func() {
			v, err := m.Machine.CallOn(m.ctx, cpu, f.at, calls, f.args...)
			if err == nil && v != f.result {
				err = fmt.Errorf("%s is %d, not %d", f.name, v, f.result)
			}
			done <- err
		}()
	}
	var err error
	for range cpus {
		err = errors.Join(err, <-done)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.called(f, calls*len(cpus))
	if len(cpus) == 2 {
		m.shareOut(f)
		m.checkBoth(f, ahead)
	}
	m.checkHits()
	return "hit"
}

// shareOut: nested calls on two vCPUs compete for instances. The number of misses
// depends on timing, but each call is hooked or missed, and up to MaxActive calls at
// a time are hooked.
func (m *model) shareOut(f *modelFunc) {
	for _, p := range f.sites[0].probes {
		if p.ret == nil || p.ret.MaxActive >= 2*f.depth {
			continue
		}
		saw := p.sawEntry.sum()
		fewer := p.entries - saw
		if saw > p.entries {
			continue // too many; checkRet reports it
		}
		p.entries, p.missed = saw, p.missed+fewer
		if !p.skip {
			p.returns -= fewer
		}
	}
}

// checkBoth checks that both vCPUs had the same number of hits.
func (m *model) checkBoth(f *modelFunc, ahead map[*modelProbe]uint64) {
	for _, s := range f.sites {
		for _, p := range s.probes {
			if d := int64(p.byCPU.ahead() - ahead[p]); d != 0 {
				m.t.Fatalf("%s: %d more hits on vCPU 0 than on 1", s, d)
			}
		}
	}
}

func (m *model) checkHits() {
	for _, p := range m.probes() {
		if p.ret != nil {
			m.checkRet(p)
		} else if p.byCPU.sum() != p.want || p.Missed() != 0 {
			m.t.Fatalf("%s: hits %d, missed %d, want %d", p.site, p.byCPU.sum(), p.Missed(), p.want)
		}
	}
}

func (m *model) checkRet(p *modelProbe) {
	got := [3]uint64{p.sawEntry.sum(), p.sawRet.sum(), p.ret.Missed()}
	if want := [3]uint64{p.entries, p.returns, p.missed}; got != want || p.Missed() != 0 || p.bad.Load() != 0 {
		m.t.Fatalf("%s: entries, returns, misses %v, want %v (maxactive %d, %d pending, nmissed %d, %d bad instances)",
			p.site, got, want, p.ret.MaxActive, p.held, p.Missed(), p.bad.Load())
	}
}

// doCall has a task call the function that sleeps, or return from it. The call is
// hooked by the return probes registered when it begins, which may be unregistered or
// registered again before it returns.
func (m *model) doCall() string {
	c := m.calls[m.r.Intn(len(m.calls))]
	if c.done == nil {
		m.beginCall(c)
		return "begin a call"
	}
	m.endCall(c)
	return "end a call"
}

func (m *model) beginCall(c *inFlight) {
	f := m.funcs[3]
	list := c.comp + 16 // swait_queue_head.task_list
	for off, v := range map[uint64]uint64{0: 0, 8: 0, 16: list, 24: list} {
		if err := m.Machine.Mem().WriteU64(c.comp+off, v); err != nil {
			m.t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	c.done = done
	go func() {
		v, err := c.task.Func(m.ctx, f.at, 1, c.comp)
		if err == nil && v != 0 {
			err = fmt.Errorf("%s gives %d", f.name, int64(v))
		}
		done <- err
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Microsecond) {
		first, err := m.Machine.Mem().ReadU64(list)
		if err != nil || time.Now().After(end) {
			m.t.Fatalf("a call does not sleep: %v", err)
		}
		if first != list {
			break
		}
	}
	for _, p := range f.sites[0].probes {
		if !m.armed(p.site) || p.disabled {
			continue
		}
		p.want++
		switch {
		case p.ret == nil:
		case p.held == p.ret.MaxActive:
			p.missed++
		case p.skip:
			p.entries++
		default:
			p.entries++
			p.held++
			c.hooked = append(c.hooked, hooked{p, p.serial})
		}
	}
}

func (m *model) endCall(c *inFlight) {
	m.call("complete", c.comp)
	if err := <-c.done; err != nil {
		m.t.Fatal(err)
	}
	for _, h := range c.hooked {
		if h.p.serial == h.serial {
			h.p.held--
			h.p.returns++
		}
	}
	c.done, c.hooked = nil, nil
	m.checkHits()
}

// checkList compares the lines of kprobes/list with the model. checkFunc checks
// [OPTIMIZED].
func (m *model) checkList() error {
	if err := checkText(m.Kprobes); err != nil {
		return err
	}
	clear(m.lines)
	n := 0
	for i := range kprobes.Buckets {
		for _, r := range m.Kprobes.Bucket(nil, i) {
			r.Flags &^= kprobes.FlagOptimized
			m.lines[r.Addr] = append(m.lines[r.Addr], r)
			n++
		}
	}
	for _, s := range m.sites() {
		got := m.lines[s.fn.at+uint64(s.offset)]
		if len(got) != len(s.probes) {
			return fmt.Errorf("%s: list has %d lines, want %d", s, len(got), len(s.probes))
		}
		for i, p := range s.probes {
			if want := m.line(p); !sameLine(got[i], want) {
				return fmt.Errorf("%s: list has\n%swant\n%s", s, got[i].Append(nil, false), want.Append(nil, false))
			}
			n--
		}
	}
	if n != 0 {
		return fmt.Errorf("%d lines too many", n)
	}
	return nil
}

// line returns a probe's line of kprobes/list, without [OPTIMIZED].
func (m *model) line(p *modelProbe) kprobes.Record {
	s := p.site
	r := kprobes.Record{Addr: s.fn.at + uint64(s.offset), Ret: p.ret != nil, Known: m.present(s.fn)}
	if r.Known {
		r.Symbol, r.Offset = abi.Symbol{Name: s.fn.name, Module: s.fn.module}, uint64(s.offset)
	}
	switch {
	case p.gone:
		r.Flags = kprobes.FlagGone
	case p.disabled:
		r.Flags = kprobes.FlagDisabled
	}
	if s.ftrace {
		r.Flags |= kprobes.FlagFtrace
	}
	return r
}

// sameLine reports whether two records make the same line.
func sameLine(a, b kprobes.Record) bool {
	a.Symbol = abi.Symbol{Name: a.Symbol.Name, Module: a.Symbol.Module}
	return a == b
}

// checkText checks all functions and, if nothing is queued, the counts of points.
func (m *model) checkText(settled bool) error {
	for _, f := range m.funcs {
		if err := m.checkFunc(f, settled); err != nil {
			return fmt.Errorf("%s%w", f.name, err)
		}
	}
	if !settled {
		return nil
	}
	var got, want struct{ points, armed int }
	for _, s := range m.sites() {
		if len(s.probes) > 0 {
			want.points++
		}
		if m.armed(s) {
			want.armed++
		}
	}
	got.points = m.Kprobes.TableSize()
	if got.armed = m.Kprobes.Armed(); got != want {
		return fmt.Errorf("%+v, want %+v", got, want)
	}
	return nil
}

// checkFunc checks a function's text. Where no probe is armed it has the original
// bytes, or the rest of a jump that the optimizer has not yet removed. Where one is
// armed it has a call, a breakpoint, or a jump if optimization is possible.
func (m *model) checkFunc(f *modelFunc, settled bool) error {
	text := make([]byte, len(f.orig))
	if err := m.Machine.Read(f.at, text); (err == nil) != m.present(f) {
		return fmt.Errorf(": there %v, %w", m.present(f), err)
	}
	if !m.present(f) {
		return nil
	}
	var covered uint64 // bytes below it are part of a jump
	own := bytes.Clone(text)
	for _, s := range f.sites {
		b := text[s.offset]
		armed := m.armed(s)
		switch {
		case uint64(s.offset) < covered:
			if armed {
				return fmt.Errorf("+%d: an armed probe inside a jump: % x", s.offset, text)
			}
			continue
		case s.ftrace:
			if (b == 0xe8) != armed {
				return fmt.Errorf("+%d: armed %v, % x", s.offset, armed, text)
			}
			copy(own, f.orig[:5])
			continue
		case armed && b != 0xcc && b != 0xe9:
			return fmt.Errorf("+%d: not armed: % x", s.offset, text)
		case !armed && settled && b != f.orig[s.offset]:
			return fmt.Errorf("+%d: still armed: % x", s.offset, text)
		case armed && b == 0xe9 && settled && (!m.jumps || s.hasPost()):
			return fmt.Errorf("+%d: a jump, with jumps %v and post-handlers: % x", s.offset, m.jumps, text)
		}
		if b == 0xe9 || armed && s.canJump && f.overJump(text, s.offset) {
			covered = uint64(s.offset) + 5
			copy(own[s.offset:covered], f.orig[s.offset:covered])
		}
		own[s.offset] = f.orig[s.offset]
	}
	if settled && !bytes.Equal(own, f.orig) {
		return fmt.Errorf(": text % x, want % x with probes", text, f.orig)
	}
	return nil
}

// overJump reports whether the breakpoint is on the first byte of a jump: the probe
// was enabled before its jump was removed. Hits go through the detour, as on Linux.
func (f *modelFunc) overJump(text []byte, offset uint32) bool {
	if text[offset] != 0xcc || int(offset)+5 > len(text) {
		return false
	}
	rel := int32(binary.LittleEndian.Uint32(text[offset+1:]))
	to := f.at + uint64(offset) + 5 + uint64(int64(rel))
	return abi.SlotsBase <= to && to < abi.SlotsBase+1<<20 // the range of detours
}

func (s *modelSite) hasPost() bool {
	for _, p := range s.probes {
		if p.post {
			return true
		}
	}
	return false
}

// finish unregisters all probes, ends all calls and unloads the modules.
func (m *model) finish() {
	for _, p := range m.probes() {
		m.doUnregister(p)
	}
	for _, c := range m.calls {
		if c.done != nil {
			m.endCall(c)
		}
	}
	wantErr(m.t, m.Kprobes.SetEnabled(true), 0)
	m.empty(0)
	if err := errors.Join(m.checkList(), m.checkText(true)); err != nil {
		m.t.Error(err)
	}
	if n := m.Machine.SlotsInUse(); n != 0 {
		m.t.Errorf("%d slots and detours are still in use", n)
	}
}

// TestStateMachine does random operations on probes and return probes of some
// functions, with hits on both vCPUs, calls that sleep, and modules that are loaded
// and unloaded. After each step it compares kprobes/list, text and hit counts with
// the model: 100,000 steps under the race detector, or 500,000 with a new seed if
// KPROBEFS_SOAK is set.
func TestStateMachine(t *testing.T) {
	steps, seed := stateSteps, int64(1)
	if soaking() {
		steps, seed = 500000, time.Now().UnixNano()
	}
	if testing.Short() {
		steps = 500
	}
	t.Logf("seed %d", seed)
	m := newModel(t, seed)
	var trail []string
	did := map[string]int{}
	for i := range steps {
		what := m.step()
		trail = append(trail, what)
		did[what]++
		settled := what == "settle"
		if err := errors.Join(m.checkList(), m.checkText(settled)); err != nil {
			t.Fatalf("step %d: %v\nafter %s", i, err, strings.Join(trail[max(0, len(trail)-25):], "; "))
		}
	}
	m.finish()
	t.Logf("%d steps, %d rounds of hits, %d calls that slept, %d modules loaded", steps, did["hit"], did["end a call"], m.loads)
	if !testing.Short() && (did["hit"] < steps/20 || did["end a call"] < steps/100 || did["unload kprobe_target"] < steps/1000) {
		t.Error("too few")
	}
}

// TestEnabledProbesMissNothing: probes that stay enabled are hit by every call on both vCPUs, while
// other probes of the function and the jumps of all are made and removed.
func TestEnabledProbesMissNothing(t *testing.T) {
	rounds := 50
	if soaking() {
		rounds = 1000
	}
	m := newModel(t, 7)
	f := m.funcs[0]
	var witnesses []*kprobes.Kprobe
	hits := make([][2]uint64, 3)
	for i := range hits { // an fentry site, an instruction that can be optimized, one that cannot
		p := &kprobes.Kprobe{SymbolName: "int_pow", Offset: f.sites[i].offset, PreHandler: func(h *kprobes.Hit) int {
			hits[i][h.CPU]++
			return 0
		}}
		witnesses = append(witnesses, m.machine.register(p))
	}
	stop := make(chan struct{})
	done := make(chan error, 2)
	var calls [2]uint64
	for cpu := range 2 {
		go func() { done <- m.callUntil(stop, cpu, &calls[cpu]) }()
	}
	for range rounds {
		m.disturb()
	}
	close(stop)
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	for i, p := range witnesses {
		want := calls
		for cpu := range want {
			want[cpu] *= f.sites[i].perCall
		}
		if hits[i] != want || p.Missed() != 0 {
			t.Errorf("+%d: hits %v, missed %d, want %v", p.Offset, hits[i], p.Missed(), want)
		}
	}
	t.Logf("%d rounds, %v calls", rounds, calls)
}

func (m *model) callUntil(stop chan struct{}, cpu int, calls *uint64) error {
	f := m.funcs[0]
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		v, err := m.Machine.CallOn(m.ctx, cpu, f.at, 100, f.args...)
		if err != nil || v != f.result {
			return fmt.Errorf("%s is %d: %w", f.name, v, err)
		}
		*calls += 100
	}
}

// disturb registers a probe somewhere, waits a moment, and unregisters it.
func (m *model) disturb() {
	f := m.funcs[0]
	p := &kprobes.Kprobe{SymbolName: f.name, Offset: f.sites[m.r.Intn(len(f.sites))].offset}
	if m.r.Intn(3) == 0 {
		p.PostHandler = func(*kprobes.Hit, uint64) {}
	}
	wantErr(m.t, m.Kprobes.Register(p), 0)
	switch m.r.Intn(6) {
	case 0:
		m.settle()
	case 1:
		m.Kprobes.SetOptimization(m.jumps)
		m.jumps = !m.jumps
	case 2:
		wantErr(m.t, m.Kprobes.Disable(p), 0)
		wantErr(m.t, m.Kprobes.Enable(p), 0)
	case 3:
		m.doModule()
	}
	wantErr(m.t, m.Kprobes.Unregister(p), 0)
	if m.r.Intn(4) == 0 {
		m.settle()
	}
}

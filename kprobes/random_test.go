package kprobes_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// What control-files.md sections 2 and 5 say of an address, as a model: which
// handlers run, what list shows and what stands in the text, when the optimizer
// has nothing left to do.

// modelProbe is a probe as the model has it.
type modelProbe struct {
	*kprobes.Kprobe
	site     *modelSite
	post     bool
	disabled bool // kprobe.flags
	want     uint64
	byCPU    [2]uint64
}

// modelSite is an address.
type modelSite struct {
	offset  uint32
	ftrace  bool
	canJump bool
	perCall uint64
	probes  []*modelProbe // newest first
	aggr    bool
	off     bool // the point's own FlagDisabled
}

// model is all sites of one function.
type model struct {
	*machine
	r       *rand.Rand
	sites   []*modelSite
	orig    []byte
	at      uint64
	allOff  bool
	jumps   bool // debug.kprobes-optimization
	args    [2]uint64
	results uint64
}

// modelFunc is probed; its instructions from +5 on are pushes and moves.
const modelFunc = "int_pow"

func newModel(t *testing.T, seed int64) *model {
	m := &model{machine: boot(t), r: rand.New(rand.NewSource(seed)), jumps: true}
	m.ctx = context.Background() // the test's own time limit is enough
	m.at = m.addr(modelFunc)
	sym := m.Machine.Symbols().LookupName(modelFunc)[0]
	m.orig = make([]byte, sym.Size)
	if err := m.Machine.Read(m.at, m.orig); err != nil {
		t.Fatal(err)
	}
	m.args = [2]uint64{3, 4}
	m.results = m.call(modelFunc, m.args[0], m.args[1])
	for i, off := range m.starts(modelFunc)[:6] {
		s := &modelSite{offset: off, ftrace: i == 0, off: true}
		m.measure(s)
		m.sites = append(m.sites, s)
	}
	return m
}

// measure finds out whether the optimizer takes a probe there at all, and how
// often a call comes by.
func (m *model) measure(s *modelSite) {
	p := &kprobes.Kprobe{SymbolName: modelFunc, Offset: s.offset, PreHandler: func(*kprobes.Hit) int { s.perCall++; return 0 }}
	wantErr(m.t, m.Kprobes.Register(p), 0)
	s.canJump = m.Kprobes.Points()[0].Aggregate
	m.call(modelFunc, m.args[0], m.args[1])
	wantErr(m.t, m.Kprobes.Unregister(p), 0)
	m.settle()
}

// probes gives all registered ones.
func (m *model) probes() (ps []*modelProbe) {
	for _, s := range m.sites {
		ps = append(ps, s.probes...)
	}
	return ps
}

// step does one thing at random, to the kernel and to the model.
func (m *model) step() string {
	ps := m.probes()
	switch n := m.r.Intn(20); {
	case n < 5 && len(ps) < 12:
		return m.doRegister()
	case n < 9 && len(ps) > 0:
		p := ps[m.r.Intn(len(ps))]
		p.site.remove(p)
		return m.did("unregister", p, m.Kprobes.Unregister(p.Kprobe))
	case n < 12 && len(ps) > 0:
		p := ps[m.r.Intn(len(ps))]
		m.enable(p)
		return m.did("enable", p, m.Kprobes.Enable(p.Kprobe))
	case n < 15 && len(ps) > 0:
		p := ps[m.r.Intn(len(ps))]
		p.site.disable(p)
		return m.did("disable", p, m.Kprobes.Disable(p.Kprobe))
	case n == 15:
		m.allOff = !m.allOff
		return m.did(fmt.Sprint("all off ", m.allOff), nil, m.Kprobes.SetEnabled(!m.allOff))
	case n == 16:
		m.jumps = !m.jumps
		m.Optimizer.SetAllowed(m.jumps)
		return fmt.Sprint("jumps ", m.jumps)
	case n == 17:
		m.settle()
		return "settle"
	}
	return m.hit()
}

func (m *model) did(what string, p *modelProbe, err error) string {
	if p != nil {
		what = fmt.Sprintf("%s +%d", what, p.site.offset)
	}
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
	return what
}

func (m *model) doRegister() string {
	s := m.sites[m.r.Intn(len(m.sites))]
	p := &modelProbe{site: s, post: m.r.Intn(4) == 0, disabled: m.r.Intn(4) == 0}
	p.Kprobe = &kprobes.Kprobe{SymbolName: modelFunc, Offset: s.offset, PreHandler: func(h *kprobes.Hit) int {
		p.byCPU[h.CPU]++
		return 0
	}}
	if p.post {
		p.PostHandler = func(*kprobes.Hit, uint64) {}
	}
	if p.disabled {
		p.Flags = kprobes.FlagDisabled
	}
	s.register(p)
	return m.did(fmt.Sprintf("register (disabled %v, post %v)", p.disabled, p.post), p, m.Kprobes.Register(p.Kprobe))
}

// register: the point of a first probe has the probe's flags. A site that can
// be optimized has an aggregate from the start, another from its second probe
// on.
func (s *modelSite) register(p *modelProbe) {
	if len(s.probes) == 0 {
		s.off, s.aggr = p.disabled, s.canJump
	} else {
		s.aggr = true
		s.off = s.off && p.disabled
	}
	s.probes = append([]*modelProbe{p}, s.probes...)
}

// remove disables first, and so switches off the point with its last enabled probe.
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
	if p.disabled {
		return
	}
	p.disabled = true
	for _, q := range s.probes {
		if !q.disabled {
			return // the point stays as it is: off, too, after "Knob-off quirks"
		}
	}
	s.off = true
}

// enable while all is off clears the flag of an aggregate's probe only: it, and
// a lone probe, stay unarmed for good ("Knob-off quirks").
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

// hit calls the function on both vCPUs at once: each armed probe that is not
// disabled sees each call.
func (m *model) hit() string {
	const calls = 3
	done := make(chan error, 2)
	for cpu := range 2 {
		go func() {
			v, err := m.Machine.CallOn(m.ctx, cpu, m.at, calls, m.args[0], m.args[1])
			if err == nil && v != m.results {
				err = fmt.Errorf("%s is %d, not %d", modelFunc, v, m.results)
			}
			done <- err
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		m.t.Fatal(err)
	}
	for _, p := range m.probes() {
		if !m.allOff && !p.site.off && !p.disabled {
			p.want += calls * p.site.perCall
		}
		if p.byCPU != [2]uint64{p.want, p.want} || p.Missed() != 0 {
			m.t.Fatalf("+%d: hits %v, missed %d, want %d each", p.site.offset, p.byCPU, p.Missed(), p.want)
		}
	}
	return "hit"
}

// checkList compares each line of list with the model. [OPTIMIZED] is looked
// at in checkText.
func (m *model) checkList() error {
	lines := map[uint64][]string{}
	n := 0
	for i := range kprobes.Buckets {
		for _, r := range m.Kprobes.Bucket(i) {
			lines[r.Addr] = append(lines[r.Addr], strings.Replace(r.Flags.String(), "[OPTIMIZED]", "", 1))
			n++
		}
	}
	for _, s := range m.sites {
		var want []string
		for _, p := range s.probes {
			flags := kprobes.Flags(0)
			if p.disabled {
				flags |= kprobes.FlagDisabled
			}
			if s.ftrace {
				flags |= kprobes.FlagFtrace
			}
			want = append(want, flags.String())
			n--
		}
		if got := lines[m.at+uint64(s.offset)]; strings.Join(got, ",") != strings.Join(want, ",") {
			return fmt.Errorf("+%d: list has %q, want %q", s.offset, got, want)
		}
	}
	if n != 0 {
		return fmt.Errorf("%d lines too many", n)
	}
	return nil
}

// checkText: where nothing is armed the function's own bytes stand, but for the
// rest of a jump that the optimizer has not yet taken away; where something is,
// a call, a breakpoint or a jump, and a jump only where nothing speaks against it.
func (m *model) checkText(settled bool) error {
	text := make([]byte, len(m.orig))
	if err := m.Machine.Read(m.at, text); err != nil {
		return err
	}
	var covered uint64 // no byte below it is looked at: a jump covers it
	own := bytes.Clone(text)
	for _, s := range m.sites {
		b := text[s.offset]
		armed := !m.allOff && !s.off && len(s.probes) > 0
		switch {
		case uint64(s.offset) < covered:
			if armed {
				return fmt.Errorf("+%d: an armed probe lies under a jump: % x", s.offset, text)
			}
			continue
		case s.ftrace:
			if (b == 0xe8) != armed {
				return fmt.Errorf("+%d: armed %v, % x", s.offset, armed, text)
			}
			copy(own, m.orig[:5])
			continue
		case armed && b != 0xcc && b != 0xe9:
			return fmt.Errorf("+%d: not armed: % x", s.offset, text)
		case !armed && settled && b != m.orig[s.offset]:
			return fmt.Errorf("+%d: still armed: % x", s.offset, text)
		case armed && b == 0xe9 && settled && (!m.jumps || s.hasPost()):
			return fmt.Errorf("+%d: a jump, with jumps %v and post-handlers: % x", s.offset, m.jumps, text)
		}
		if b == 0xe9 || armed && s.canJump && m.overJump(text, s.offset) {
			covered = uint64(s.offset) + 5
			copy(own[s.offset:covered], m.orig[s.offset:covered])
		}
		own[s.offset] = m.orig[s.offset]
	}
	if settled && !bytes.Equal(own, m.orig) {
		return fmt.Errorf("text % x, want % x with probes", text, m.orig)
	}
	return nil
}

// overJump says whether the breakpoint stands on the first byte of a jump: of a
// probe that was enabled while its jump had not yet been taken away. Hits go by
// the detour, as in Linux.
func (m *model) overJump(text []byte, offset uint32) bool {
	if text[offset] != 0xcc || int(offset)+5 > len(text) {
		return false
	}
	rel := int32(binary.LittleEndian.Uint32(text[offset+1:]))
	to := m.at + uint64(offset) + 5 + uint64(int64(rel))
	return abi.SlotsBase <= to && to < abi.SlotsBase+1<<20 // where the detours are
}

func (s *modelSite) hasPost() bool {
	for _, p := range s.probes {
		if p.post {
			return true
		}
	}
	return false
}

// TestStateMachine does whatever may be done to the probes of one function in
// any order, with hits on both vCPUs, and compares list, text and hit counts
// with the model after each step. KPROBEFS_SOAK makes it 100,000 steps.
func TestStateMachine(t *testing.T) {
	steps := 4000
	if soaking() {
		steps = 100000
	}
	if testing.Short() {
		steps = 500
	}
	seed := int64(steps)
	m := newModel(t, seed)
	var trail []string
	hits := 0
	for i := range steps {
		what := m.step()
		trail = append(trail, what)
		if what == "hit" {
			hits++
		}
		settled := what == "settle"
		if err := errors.Join(m.checkList(), m.checkText(settled)); err != nil {
			t.Fatalf("step %d: %v\nafter %s", i, err, strings.Join(trail[max(0, len(trail)-25):], "; "))
		}
	}
	for _, p := range m.probes() {
		wantErr(t, m.Kprobes.Unregister(p.Kprobe), 0)
		p.site.remove(p)
	}
	wantErr(t, m.Kprobes.SetEnabled(true), 0)
	m.empty()
	text := make([]byte, len(m.orig))
	if err := m.Machine.Read(m.at, text); err != nil || !bytes.Equal(text, m.orig) {
		t.Errorf("the text stays % x (%v)", text, err)
	}
	if n := m.Machine.SlotsInUse(); n != 0 {
		t.Errorf("%d slots and detours stay in use", n)
	}
	t.Logf("%d steps, %d rounds of hits", steps, hits)
}

// TestWitness: probes that stay enabled see every call, while both vCPUs run
// through a function whose other probes, and the jumps of all, come and go.
func TestWitness(t *testing.T) {
	rounds := 50
	if soaking() {
		rounds = 1000
	}
	m := newModel(t, 7)
	var witnesses []*kprobes.Kprobe
	hits := make([][2]uint64, 3)
	for i := range hits { // an fentry site, one that can be optimized, one that can not
		p := &kprobes.Kprobe{SymbolName: modelFunc, Offset: m.sites[i].offset, PreHandler: func(h *kprobes.Hit) int {
			hits[i][h.CPU]++
			return 0
		}}
		witnesses = append(witnesses, m.register(p))
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
			want[cpu] *= m.sites[i].perCall
		}
		if hits[i] != want || p.Missed() != 0 {
			t.Errorf("+%d: hits %v, missed %d, want %v", p.Offset, hits[i], p.Missed(), want)
		}
	}
	t.Logf("%d rounds, %v calls", rounds, calls)
}

func (m *model) callUntil(stop chan struct{}, cpu int, calls *uint64) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		v, err := m.Machine.CallOn(m.ctx, cpu, m.at, 100, m.args[0], m.args[1])
		if err != nil || v != m.results {
			return fmt.Errorf("%s is %d: %w", modelFunc, v, err)
		}
		*calls += 100
	}
}

// disturb puts a probe somewhere, lets it live for a moment, and takes it away.
func (m *model) disturb() {
	p := &kprobes.Kprobe{SymbolName: modelFunc, Offset: m.sites[m.r.Intn(len(m.sites))].offset}
	if m.r.Intn(3) == 0 {
		p.PostHandler = func(*kprobes.Hit, uint64) {}
	}
	wantErr(m.t, m.Kprobes.Register(p), 0)
	switch m.r.Intn(6) {
	case 0:
		m.settle()
	case 1:
		m.Optimizer.SetAllowed(m.jumps)
		m.jumps = !m.jumps
	case 2:
		wantErr(m.t, m.Kprobes.Disable(p), 0)
		wantErr(m.t, m.Kprobes.Enable(p), 0)
	}
	wantErr(m.t, m.Kprobes.Unregister(p), 0)
	if m.r.Intn(4) == 0 {
		m.settle()
	}
}

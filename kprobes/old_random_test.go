package kprobes_test

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// oldProbe is a probe of TestOldRandom with its expected state.
type oldProbe struct {
	kind     byte
	fn       int
	off      uint32
	disabled bool
	hits     atomic.Int64
	want     int64

	k *kprobes.Kprobe
	j *kprobes.Jprobe
	r *kprobes.Retprobe
}

var oldFunctions = []struct {
	name string
	args []uint64
	want uint64
}{{"int_sqrt", []uint64{100}, 10}, {"gcd", []uint64{12, 18}, 6}, {"int_pow", []uint64{3, 4}, 81}}

// oldWorld is a machine of an older release and the probes registered on it.
type oldWorld struct {
	*machine
	jprobes bool
	probes  []*oldProbe
	off     bool // kprobes/enabled is 0
}

func (w *oldWorld) register(p *oldProbe) error {
	place := kprobes.Kprobe{SymbolName: oldFunctions[p.fn].name, Offset: p.off}
	if p.disabled {
		place.Flags = kprobes.FlagDisabled
	}
	hit := func() { p.hits.Add(1) }
	switch p.kind {
	case 'j':
		p.j = &kprobes.Jprobe{Handler: func(h *kprobes.Hit) { hit(); h.Regs.DI = 1 }}
		p.k = &p.j.Kprobe
		p.k.SymbolName, p.k.Flags = place.SymbolName, place.Flags
		return w.Kprobes.RegisterJprobe(p.j)
	case 'r':
		p.r = &kprobes.Retprobe{Handler: func(*kprobes.Instance, *kprobes.Hit) int { hit(); return 0 }}
		p.k = &p.r.Kprobe
		p.k.SymbolName, p.k.Flags = place.SymbolName, place.Flags
		return w.Kprobes.RegisterRetprobe(p.r)
	}
	p.k = &kprobes.Kprobe{SymbolName: place.SymbolName, Offset: p.off, Flags: place.Flags, PreHandler: func(*kprobes.Hit) int { hit(); return 0 }}
	return w.Kprobes.Register(p.k)
}

func (w *oldWorld) unregister(p *oldProbe) error {
	switch p.kind {
	case 'j':
		return w.Kprobes.UnregisterJprobe(p.j)
	case 'r':
		return w.Kprobes.UnregisterRetprobe(p.r)
	}
	return w.Kprobes.Unregister(p.k)
}

// step does a random operation and updates the expected state.
func (w *oldWorld) step(r *rand.Rand) error {
	if len(w.probes) == 0 || r.Intn(3) == 0 && len(w.probes) < 12 {
		return w.add(r)
	}
	i := r.Intn(len(w.probes))
	p := w.probes[i]
	switch r.Intn(5) {
	case 0, 1:
		w.probes = slices.Delete(w.probes, i, i+1)
		return w.unregister(p)
	case 2:
		p.disabled = true
		return w.Kprobes.Disable(p.k)
	case 3:
		if w.off { // it would never be armed
			return nil
		}
		p.disabled = false
		return w.Kprobes.Enable(p.k)
	}
	w.off = !w.off
	return w.Kprobes.SetEnabled(!w.off)
}

func (w *oldWorld) add(r *rand.Rand) error {
	p := &oldProbe{kind: "kkjr"[r.Intn(4)], fn: r.Intn(len(oldFunctions)), disabled: r.Intn(4) == 0}
	if p.kind == 'k' && r.Intn(2) == 0 {
		p.off = 5
	}
	if p.kind == 'j' && !w.jprobes {
		p.kind = 'r'
	}
	err := w.register(p)
	if p.kind == 'j' && slices.ContainsFunc(w.probes, func(q *oldProbe) bool { return q.kind == 'j' && q.fn == p.fn }) {
		if !errors.Is(err, syscall.EEXIST) {
			return errors.Join(errors.New("a second jprobe was registered"), err)
		}
		return nil
	}
	w.probes = append(w.probes, p)
	return err
}

// call calls every function on both vCPUs.
func (w *oldWorld) call(n uint64) error {
	done := make(chan error, w.Machine.CPUs())
	for cpu := range w.Machine.CPUs() {
		go func() {
			for _, f := range oldFunctions {
				v, err := w.Machine.CallOn(w.ctx, cpu, w.Machine.Symbols().LookupName(f.name)[0].Addr, n, f.args...)
				if err == nil && v != f.want {
					err = fmt.Errorf("%s gives %d", f.name, v)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	var err error
	for range w.Machine.CPUs() {
		err = errors.Join(err, <-done)
	}
	for _, p := range w.probes {
		if !p.disabled && !w.off {
			p.want += int64(n) * int64(w.Machine.CPUs())
		}
	}
	return err
}

// check compares hits and kprobes/list with the expected state.
func (w *oldWorld) check() error {
	var want []string
	for _, p := range w.probes {
		if got := p.hits.Load(); got != p.want || p.k.Missed() != 0 || p.r != nil && p.r.Missed() != 0 {
			return fmt.Errorf("%c %s+%d was hit %d times, want %d (missed %d)", p.kind, oldFunctions[p.fn].name, p.off, got, p.want, p.k.Missed())
		}
		line := fmt.Sprintf("%c  %s+0x%x", p.kind, oldFunctions[p.fn].name, p.off)
		if p.disabled {
			line += " [DISABLED]"
		}
		want = append(want, line)
	}
	var got []string
	for l := range strings.Lines(w.lines()) {
		place, flags, _ := strings.Cut(strings.TrimSpace(l), "    ")
		if strings.Contains(flags, "[DISABLED]") {
			place += " [DISABLED]"
		}
		got = append(got, place)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("list has %q, want %q", got, want)
	}
	return nil
}

// TestOldRandom: on the older releases, probes of all kinds are registered and
// unregistered in random order at the same addresses. Each call hits each enabled
// probe once, jprobes do not change the functions' results, and kprobes/list shows
// the probes.
func TestOldRandom(t *testing.T) {
	steps := 1000
	if testing.Short() {
		steps = 80
	}
	for _, release := range []string{"2.6.32", "4.15"} {
		t.Run(release, func(t *testing.T) {
			w := &oldWorld{machine: bootRelease(t, release), jprobes: release == "2.6.32"}
			text := w.text()
			r := rand.New(rand.NewSource(1))
			for i := range steps {
				if err := errors.Join(w.step(r), w.call(2), w.check()); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			wantErr(t, w.Kprobes.SetEnabled(true), 0)
			for _, p := range w.probes {
				wantErr(t, w.unregister(p), 0)
			}
			w.settle()
			if w.lines() != "" || string(text) != string(w.text()) {
				t.Errorf("list %q, text as before: %v", w.lines(), string(text) == string(w.text()))
			}
		})
	}
}

// TestJprobeEverywhere registers a jprobe at each function that can have one,
// including the scheduler's and interrupt handlers, and runs the kernel with them.
func TestJprobeEverywhere(t *testing.T) {
	m := bootRelease(t, "2.6.32")
	text := m.text()
	var hits atomic.Int64
	var jps []*kprobes.Jprobe
	seen := map[uint64]bool{}
	for _, s := range m.Machine.Symbols().All() {
		if s.Type|0x20 != 't' || seen[s.Addr] {
			continue
		}
		seen[s.Addr] = true
		jp := &kprobes.Jprobe{Kprobe: kprobes.Kprobe{Addr: s.Addr}, Handler: func(h *kprobes.Hit) {
			hits.Add(1)
			*h.Regs = abi.Regs{} // all changes are undone
		}}
		if err := m.Kprobes.RegisterJprobe(jp); err == nil {
			jps = append(jps, jp)
		} else if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if len(jps) < 1000 {
		t.Errorf("%d jprobes", len(jps))
	}
	for range 20 {
		done := make(chan error, 2)
		for cpu := range 2 {
			go func() {
				_, err := m.Machine.CallOn(m.ctx, cpu, m.addr("msleep"), 1, 1)
				v, e := m.Machine.CallOn(m.ctx, cpu, m.addr("int_sqrt"), 3, 100)
				if err = errors.Join(err, e); err == nil && v != 10 {
					err = fmt.Errorf("int_sqrt is %d", v)
				}
				done <- err
			}()
		}
		if err := errors.Join(<-done, <-done); err != nil {
			t.Fatal(err)
		}
	}
	wantErr(t, m.Kprobes.UnregisterJprobes(jps), 0)
	if string(text) != string(m.text()) || m.lines() != "" {
		t.Error("the text is not restored")
	}
	if log := dmesg(m.Kernel); hits.Load() < 1000 || strings.Contains(log, "BUG") {
		t.Errorf("%d hits, log\n%s", hits.Load(), log)
	}
}

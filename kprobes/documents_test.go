package kprobes_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestBreakHandlerOptimization: up to 4.15 a probe with a break handler is not
// optimized.
func TestBreakHandlerOptimization(t *testing.T) {
	m := bootRelease(t, "4.15", "CONFIG_PREEMPT=n")
	for _, tc := range []struct {
		name    string
		handler func(*kprobes.Hit) int
		want    bool
	}{{"without", nil, true}, {"with", func(*kprobes.Hit) int { return 0 }, false}} {
		p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: m.inside("int_sqrt"), PreHandler: func(*kprobes.Hit) int { return 0 }, BreakHandler: tc.handler}
		wantErr(t, m.Kprobes.Register(p), 0)
		m.settle()
		if got := m.Kprobes.Points()[0].Flags&kprobes.FlagOptimized != 0; got != tc.want {
			t.Errorf("%s a break handler: optimized is %v", tc.name, got)
		}
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("%s: int_sqrt(100) = %d", tc.name, got)
		}
		wantErr(t, m.Kprobes.Unregister(p), 0)
		m.settle()
	}
}

// TestInjectedFault: on each release, a fault caused by a handler's change of
// registers is handled and logged like one caused by the caller.
func TestInjectedFault(t *testing.T) {
	for _, release := range kprobefs.ReleaseNames() {
		t.Run(release, func(t *testing.T) {
			fault := func(inject bool) (said []string) {
				m := bootRelease(t, release)
				arg := uint64(unmapped)
				if inject {
					arg = m.addr("linux_banner")
					m.register(&kprobes.Kprobe{SymbolName: "strlen", Offset: m.starts("strlen")[0], PreHandler: func(h *kprobes.Hit) int {
						h.Regs.DI = unmapped
						return 0
					}})
				}
				if v, err := m.Machine.Call(m.ctx, "strlen", arg); err == nil && v == uint64(len("Linux")) {
					t.Errorf("no fault: strlen gives %d", v)
				}
				for line := range strings.Lines(dmesg(m.Kernel)) {
					if strings.Contains(line, "BUG: ") || strings.Contains(line, "#PF: ") || strings.Contains(line, "RIP") {
						_, text, _ := strings.Cut(line, ";")
						said = append(said, text)
					}
				}
				return said
			}
			own, injected := fault(false), fault(true)
			if len(own) < 3 || !slices.Equal(own, injected) {
				t.Errorf("the caller's fault: %q\nthe handler's: %q", own, injected)
			}
		})
	}
}

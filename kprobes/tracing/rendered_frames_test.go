package tracing

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
)

// TestRenderedFramesAreDocumented: docs/reference/differences.md lists exactly the
// frames in stack traces whose function does not run.
func TestRenderedFramesAreDocumented(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(b), "## Frames of stack traces that are written in\n")
	if !found {
		t.Fatal("docs/reference/differences.md has no section on them")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") && line != "| when | frames |\n" {
			got = append(got, strings.TrimSpace(line))
		}
	}
	for _, r := range renderedFrames {
		want = append(want, fmt.Sprintf("| %s | `%s` |", r.when, strings.Join(r.frames, "`, `")))
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/reference/differences.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// shallow has stacks of two.
type shallow struct{}

func (shallow) Unwind(_, _, _, _ uint64, ips, _ []uint64) int { return copy(ips, []uint64{1, 2}) }
func (shallow) UnwindCallback(int, uint64, []uint64) int      { return 0 }

// TestRenderedFrames: a trigger's stack trace has the frames of the table for which
// the kernel has symbols, followed by the guest's stack's.
func TestRenderedFrames(t *testing.T) {
	tr, f := newTestTracer(t)
	tr.conf.Unwinder = shallow{}
	for _, tt := range []struct {
		ret  bool
		via  kprobes.Via
		want []string
	}{
		{false, kprobes.ViaCall, []string{"kprobe_dispatcher"}},
		{false, kprobes.ViaCallAggr, []string{"kprobe_dispatcher", "aggr_pre_handler"}},
		{false, kprobes.ViaInt3, []string{"kprobe_dispatcher", "kprobe_int3_handler", "exc_int3", "asm_exc_int3"}},
		{false, kprobes.ViaInt3Aggr, []string{"kprobe_dispatcher", "aggr_pre_handler", "kprobe_int3_handler", "exc_int3", "asm_exc_int3"}},
		{true, kprobes.ViaReturn, nil},
	} {
		f.HitVia = tt.via
		kind := dynevent.Kprobe
		if tt.ret {
			kind = dynevent.Kretprobe
		}
		var got []string
		ips := tr.unwindHandler(&abi.Trap{Regs: &abi.Regs{}}, &Event{kind: kind})
		for _, ip := range ips[:len(ips)-2] {
			s, _, _ := tr.conf.Symbols.Lookup(ip)
			got = append(got, s.Name)
		}
		if !slices.Equal(got, tt.want) || !slices.Equal(ips[len(ips)-2:], []uint64{1, 2}) {
			t.Errorf("%v, %v: %v, want %v and what the guest has", tt.ret, tt.via, got, tt.want)
		}
	}
}

package tracing

import (
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
)

// Rendered frames are kernel functions that handle a hit on Linux and that are Go code
// here, run in the middle of an instruction without leaving the vCPU's Run. They have
// no frame on the guest's stack. Stack traces name them nevertheless, because scripts
// and histograms by stack written for Linux expect them. This table lists all of them;
// docs/reference/differences.md names them too. All other frames of a stack trace are found on
// the guest's stack. In the guest these names are symbols with an unused body
// (ON_THE_WAY in kernel/guest/arch/x86/kprobes_64.S), so that each has an address.

// rendering is a group of frames that are inserted together.
type rendering int

// The groups, by what is recorded and by how its hit was handled.
const (
	ofKprobe rendering = iota
	ofKretprobe
	ofFentry
	ofFexit
	ofEprobe
	byInt3
	byInt3Aggr
	byCallAggr
	byJump
	byReturn
	byReturn510
	byTrampoline510
	renderings
)

// renderedFrames lists for each group when it is inserted, and its frames, the
// innermost first.
var renderedFrames = [renderings]struct {
	when   string
	frames []string
}{
	ofKprobe:        {"a trigger of a kprobe's event", []string{"kprobe_trace_func", "kprobe_dispatcher"}},
	ofKretprobe:     {"a trigger of a return probe's event", []string{"kretprobe_trace_func", "kretprobe_dispatcher"}},
	ofFentry:        {"a trigger of an `f:` event at an entry (6.12)", []string{"fentry_trace_func", "fentry_dispatcher"}},
	ofFexit:         {"a trigger of an `f:` event at an exit (6.12)", []string{"fexit_trace_func", "fexit_dispatcher", "fprobe_exit_handler", "rethook_trampoline_handler"}},
	ofEprobe:        {"a trigger of an event probe", []string{"eprobe_trigger_func", "event_triggers_call", "trace_event_buffer_commit"}},
	byInt3:          {"a probe that was hit by its breakpoint", []string{"kprobe_int3_handler", "exc_int3", "asm_exc_int3"}},
	byInt3Aggr:      {"one of several probes at such a place, or one that could be optimized", []string{"aggr_pre_handler", "kprobe_int3_handler", "exc_int3", "asm_exc_int3"}},
	byCallAggr:      {"one of several probes at an entry that ftrace calls", []string{"aggr_pre_handler"}},
	byJump:          {"an optimized probe", []string{"opt_pre_handler"}},
	byReturn:        {"a return that a return probe watches", []string{"kretprobe_rethook_handler", "rethook_trampoline_handler"}},
	byReturn510:     {"the same (5.10)", []string{"__kretprobe_trampoline_handler"}},
	byTrampoline510: {"a listener that a trampoline of ftrace calls (5.10)", []string{"ftrace_ops_assist_func"}},
}

// recordedBy maps a kind of event to the group of what records its hits.
var recordedBy = map[dynevent.Kind]rendering{
	dynevent.Kprobe: ofKprobe, dynevent.Kretprobe: ofKretprobe, dynevent.Fentry: ofFentry, dynevent.Fexit: ofFexit, dynevent.Eprobe: ofEprobe,
}

// renderingOf maps how a hit is handled to the group that is inserted for it.
var renderingOf = map[kprobes.Via]rendering{
	kprobes.ViaInt3: byInt3, kprobes.ViaInt3Aggr: byInt3Aggr, kprobes.ViaCallAggr: byCallAggr,
	kprobes.ViaJump: byJump, kprobes.ViaReturn: byReturn, kprobes.ViaReturnOld: byReturn510,
}

// appendRendered writes the addresses of a group into ips from index n on, leaving out
// functions that the kernel does not have, and returns the index after the last one.
func (t *Tracer) appendRendered(ips []uint64, n int, r rendering) int {
	for _, name := range renderedFrames[r].frames {
		if s := t.conf.Symbols.LookupName(name); len(s) > 0 && n < len(ips) {
			ips[n] = inside(s[0])
			n++
		}
	}
	return n
}

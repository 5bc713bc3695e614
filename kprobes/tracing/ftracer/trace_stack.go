package ftracer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
)

// maxStack is STACK_TRACE_ENTRIES, as far as it is recorded.
const maxStack = 128

// softirqOffset is SOFTIRQ_OFFSET: a softirq is running.
const softirqOffset = 256

// stackTracer looks for the deepest kernel stack: at each function entry it measures
// how much of the task's stack is used.
type stackTracer struct {
	max atomic.Uint64 // stack_max_size, bytes

	// Guarded by Config.Mutex.
	on       bool // kernel.stack_tracer_enabled
	filter   Set
	listener Listener

	mu    sync.Mutex // guards the rest: the deepest stack
	sps   [maxStack]uint64
	n     int
	ips   [maxStack]uint64
	depth [maxStack]uint64 // distance from the stack's top, bytes
}

// StackTracer sets kernel.stack_tracer_enabled.
func (t *Tracers) StackTracer(on bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stacks.on = on
	return t.updateStackTracer()
}

// updateStackTracer makes the tracer listen to the functions of its filter. The caller
// holds mu.
func (t *Tracers) updateStackTracer() error {
	s := &t.stacks
	if t.conf.Functions == nil || !s.on && s.listener == nil {
		return nil
	}
	if s.listener == nil {
		s.listener = t.conf.Functions.Listen(Handler{Function: "stack_trace_call", Hit: t.measureStack})
	}
	if !s.on {
		return s.listener.Set(nil)
	}
	return s.listener.Set(s.filter.Wanted(t))
}

// measureStack is stack_trace_call. It runs in handler context.
func (t *Tracers) measureStack(trap *abi.Trap) {
	const word = 8 // the call of the tracer has pushed its return address
	if trap.Preempt&(abi.NMIMask|abi.HardirqMask|softirqOffset) != 0 {
		return // Linux has other stacks for interrupts, which it does not measure
	}
	s := &t.stacks
	at := trap.Regs.SP - word
	top := at&^uint64(abi.ThreadSize-1) + abi.ThreadSize
	if top-at <= s.max.Load() || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if top-at <= s.max.Load() {
		return
	}
	s.n = t.conf.Unwind(trap.Task, trap.Regs.IP, 0, trap.Regs.SP, s.ips[:], s.sps[:])
	s.max.Store(top - at)
	s.ips[0] += fentrySize
	for i := range s.n {
		// A return address is right below its caller's stack pointer.
		s.depth[i] = top - (s.sps[i] - word)
	}
}

// fentrySize is the length of an fentry site; the call there returns to the address
// after it.
const fentrySize = 5

// StackMaxSize returns the text of stack_max_size, which is signed.
func (t *Tracers) StackMaxSize() string { return fmt.Sprintf("%d\n", int64(t.stacks.max.Load())) }

// SetStackMaxSize handles a write to stack_max_size. It fails with EINVAL if data is
// not a number.
func (t *Tracers) SetStackMaxSize(data []byte) error {
	v, err := kstrtox.FromUser(data)
	if err != nil {
		return fmt.Errorf("stack_max_size: %w", err)
	}
	t.stacks.mu.Lock()
	defer t.stacks.mu.Unlock()
	t.stacks.max.Store(v)
	return nil
}

// StackTrace returns the lines of stack_trace: the deepest stack so far.
func (t *Tracers) StackTrace() []string {
	t.mu.Lock()
	on := t.stacks.on
	t.mu.Unlock()
	s := &t.stacks
	s.mu.Lock()
	n, ips, depth := s.n, slices.Clone(s.ips[:s.n]), slices.Clone(s.depth[:s.n])
	s.mu.Unlock()
	lines := []string{fmt.Sprintf("        Depth    Size   Location    (%d entries)\n        -----    ----   --------\n", n)}
	if !on && s.max.Load() == 0 {
		lines = append(lines, "#\n#  Stack tracer disabled\n#\n# To enable the stack tracer, either add 'stacktrace' to the\n"+
			"# kernel command line\n# or 'echo 1 > /proc/sys/kernel/stack_tracer_enabled'\n#\n")
	}
	for i := range n {
		size := depth[i]
		if i+1 < n {
			size -= depth[i+1]
		}
		line := fmt.Appendf(nil, "%3d) %8d   %5d   ", i, depth[i], size)
		lines = append(lines, string(append(t.global.trace.AppendSymbol(line, ips[i], true), '\n')))
	}
	return lines
}

// StackFilter returns the lines of stack_trace_filter.
func (t *Tracers) StackFilter() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stacks.filter.lines(t, t.stacks.filter.known(t), "#### all functions enabled ####\n", false)
}

// EditStackFilter opens stack_trace_filter for writing.
func (t *Tracers) EditStackFilter(truncate bool) *Edit {
	return t.editFunctions(nil, &t.stacks.filter, truncate, t.updateStackTracer)
}

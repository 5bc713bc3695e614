// Package sysctltest has a kernel for tests of the files below /proc/sys.
package sysctltest

// Kernel is a sysctl.Kernel: it keeps what the rows set, and says nothing. A test that asks for more embeds it.
type Kernel struct {
	NotOptimized bool // debug.kprobes-optimization is 0
	FtraceOff    bool // kernel.ftrace_enabled is 0
	StackTracer  bool
	KptrRestrict int
	Levels       []int
	Taint        uint64
}

// Printk drops a message.
func (*Kernel) Printk(int, string, ...any) {}

// Optimization returns what SetOptimization has set; at first it is on.
func (k *Kernel) Optimization() bool { return !k.NotOptimized }

// SetOptimization sets debug.kprobes-optimization.
func (k *Kernel) SetOptimization(on bool) { k.NotOptimized = !on }

// SetFtrace sets kernel.ftrace_enabled.
func (k *Kernel) SetFtrace(on bool) error { k.FtraceOff = !on; return nil }

// SetStackTracer sets kernel.stack_tracer_enabled.
func (k *Kernel) SetStackTracer(on bool) error { k.StackTracer = on; return nil }

// SetKptrRestrict sets kernel.kptr_restrict.
func (k *Kernel) SetKptrRestrict(v int) error { k.KptrRestrict = v; return nil }

// ConsoleLevels returns the levels of the console.
func (k *Kernel) ConsoleLevels() []int { return k.Levels }

// SetConsoleLevels sets the first of them.
func (k *Kernel) SetConsoleLevels(to []int) { copy(k.Levels, to) }

// Taints returns the bits of kernel.tainted.
func (k *Kernel) Taints() uint64 { return k.Taint }

// SetTaints adds bits to them.
func (k *Kernel) SetTaints(bits uint64) { k.Taint |= bits }

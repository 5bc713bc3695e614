// Package why answers what Linux would do with a probe, and why, for a kernel that does not run: the
// answers come from packages kprobes, optimizer and dynevent, which decide it for the guest, on the
// text and the tables of another kernel (package vmlinux).
package why

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/optimizer"
)

// Kernel has the text of a kernel as it runs, its symbols and its tables.
type Kernel interface {
	kprobes.Symbols
	kprobes.Tables
	Read(addr uint64, p []byte) error
	All() []abi.Symbol // in kallsyms' order
}

// Asker asks about one kernel. One goroutine at a time may use it.
type Asker struct {
	kernel    Kernel
	probes    *kprobes.Kprobes
	optimizer *optimizer.Optimizer
	events    *dynevent.Registry // parses definitions
	types     func(module string) *btf.Types
	noTypes   string
	has       release.Set
	preempt   bool
}

// Config is the argument of New.
type Config struct {
	Kernel  Kernel
	Linux   release.Version // whose rules hold
	Preempt bool            // CONFIG_PREEMPTION

	// Types returns the types of the kernel's functions, or of a module's and its kernel's; nil if
	// they are not known. It may be nil itself. NoTypes says how they can be given.
	Types   func(module string) *btf.Types
	NoTypes string
}

// New returns an Asker.
func New(c Config) *Asker {
	k := cached{Kernel: c.Kernel, black: c.Kernel.Blacklist()}
	s := &slots{}
	a := &Asker{
		kernel: k, types: c.Types, noTypes: c.NoTypes,
		probes: kprobes.New(kprobes.Config{
			Text: text{k}, Symbols: k, Tables: k, Ftrace: noFtrace{}, Slots: s, Machine: machine{}, Linux: c.Linux, NoPreempt: !c.Preempt,
		}),
		optimizer: optimizer.New(optimizer.Config{Symbols: k, Tables: k, Slots: s, Linux: c.Linux}),
		has:       c.Linux.Set(), preempt: c.Preempt,
	}
	if a.types == nil {
		a.types = func(string) *btf.Types { return nil }
	}
	var parsed func() *btf.Types // what the kernel itself knows when it parses
	if a.has[release.BTFArgs] && a.types("") != nil {
		parsed = func() *btf.Types { return a.types("") }
	}
	a.events = dynevent.New(dynevent.Config{
		Mutex: &sync.Mutex{}, Kprobes: a.probes, Symbols: k, Sites: k, Has: &a.has, Rules: probe.NewRules(c.Linux, &a.has, parsed), BTF: parsed,
	})
	return a
}

// Verdict is what Linux does with a probe.
type Verdict struct {
	Addr   uint64     // of the probe; 0 if the place does not exist
	Symbol abi.Symbol // that contains it
	Offset uint64     // in Symbol

	Err     error  // why register_kprobe refuses it, with its errno; nil if it takes it
	Ftrace  bool   // at an fentry site: ftrace calls the handlers
	Carried string // how the instruction is executed: "step", "boost", "ftrace", or the kind of emulation
	Insn    insn.Insn
	Boosts  bool // the instruction may be in the region of a jump
	Boosted bool // a jump back follows its copy, so that a hit needs no second int3
	Bytes   []byte

	NotJump error   // why it is not optimized: an *optimizer.Refusal with the instruction's address; nil if it can be
	Region  []byte  // the bytes that the jump replaces; nil if NotJump is not nil
	Detour  *Detour // its size; nil if NotJump is not nil

	Definition *probe.Definition // of a line of kprobe_events; nil of other probes, and if it cannot be parsed
	Log        *Log              // what error_log shows; nil if the line is not refused
	Words      bool              // Err is about other words of the line than the place
}

// Log is an entry of error_log.
type Log struct {
	Text    string `json:"text"`
	Command string `json:"command"`
	Column  int    `json:"column"` // of the caret below the command
}

// Detour is the size of a detour buffer.
type Detour struct {
	Size   int // bytes in all
	Copied int // offset of the copied instructions
}

// Errno returns the errno of register_kprobe, 0 when it succeeds.
func (v *Verdict) Errno() syscall.Errno { return errnoOf(v.Err) }

// OptErrno returns the errno with which Linux's functions refuse the optimization, 0 if they do not.
func (v *Verdict) OptErrno() syscall.Errno { return errnoOf(v.NotJump) }

func errnoOf(err error) (e syscall.Errno) {
	_ = errors.As(err, &e)
	return e
}

// errFtrace is why a probe at an fentry site has no jump.
var errFtrace = errors.New("ftrace calls the handlers: it needs no jump")

// At answers for an address.
func (a *Asker) At(addr uint64) Verdict { return a.ask(&kprobes.Kprobe{Addr: addr}) }

// Symbol answers for a place in a function.
func (a *Asker) Symbol(name string, offset uint32) Verdict {
	return a.ask(&kprobes.Kprobe{SymbolName: name, Offset: offset})
}

// ask registers p, which is disabled, so that no text changes, and looks at the result.
func (a *Asker) ask(p *kprobes.Kprobe) Verdict {
	p.Flags = kprobes.FlagDisabled
	v := Verdict{Addr: p.Addr}
	if p.SymbolName != "" {
		if syms := a.kernel.LookupName(p.SymbolName); len(syms) > 0 {
			v.Addr = syms[0].Addr + uint64(p.Offset)
		}
	}
	if v.Err = a.probes.Register(p); v.Err == nil {
		v.Addr = p.Addr
	}
	v.Symbol, v.Offset, _ = a.kernel.Lookup(v.Addr)
	if v.Err != nil {
		return v
	}
	info := a.probes.Points()[0]
	_ = a.probes.Unregister(p)
	v.Ftrace, v.Carried = info.Flags&kprobes.FlagFtrace != 0, info.Carried
	v.Bytes, v.Insn = a.insnAt(v.Addr)
	if v.Ftrace {
		v.NotJump = errFtrace
		return v
	}
	v.Boosts = insn.CanBoost(v.Insn, a.has[release.BoostGroups]) && !a.kernel.ExTable(v.Addr)
	v.Boosted = v.Carried == "boost" || (v.Carried == "ret" || v.Carried == "ifmodifiers") && v.Boosts && !a.preempt && !a.has[release.StepsByInt3]
	d, err := a.optimizer.Prepare(v.Addr, a.kernel.Read)
	if err != nil {
		v.NotJump = err
		return v
	}
	v.Region, v.Detour = d.Region, &Detour{Size: len(d.Code), Copied: int(d.Copied - d.Addr)}
	a.optimizer.Free(d)
	return v
}

// insnAt decodes the instruction at an address.
func (a *Asker) insnAt(addr uint64) ([]byte, insn.Insn) {
	b := make([]byte, insn.MaxLen)
	for ; len(b) > 0 && a.kernel.Read(addr, b) != nil; b = b[:len(b)-1] {
	}
	in, err := insn.Decode(b)
	if err != nil {
		return nil, insn.Insn{}
	}
	return b[:in.Len], in
}

// cached is a Kernel whose blacklist is made once.
type cached struct {
	Kernel
	black []abi.Range
}

func (c cached) Blacklist() []abi.Range { return c.black }

// text is a kernel's text that is never changed: what is poked are copies in slots.
type text struct{ Kernel }

func (t text) Read(addr uint64, p []byte) error { return t.Kernel.Read(addr, p) }
func (text) Poke(...abi.Patch) error            { return nil }

// slots gives the addresses that module_alloc would give, within reach of the kernel's text.
type slots struct{ next uint64 }

// slotBase is where modules begin, and slotRoom how much room there is, in bytes.
const (
	slotBase = 0xffffffffa0000000
	slotRoom = 0x10000000
)

func (s *slots) Alloc(n int) (uint64, error) {
	addr := slotBase + s.next%slotRoom
	s.next += uint64(n+63) &^ 63
	return addr, nil
}

func (*slots) Free(uint64) {}

// noFtrace arms nothing: no probe is enabled.
type noFtrace struct{}

func (noFtrace) Arm(uint64) error         { return fmt.Errorf("not here: %w", syscall.ENODEV) }
func (noFtrace) ArmIPModify(uint64) error { return fmt.Errorf("not here: %w", syscall.ENODEV) }
func (noFtrace) Disarm(uint64) error      { return nil }

// machine is one on which nothing runs.
type machine struct{}

func (machine) CPUs() int                                   { return 1 }
func (machine) SynchronizeRCU()                             {}
func (machine) SynchronizeRCUTasks()                        {}
func (machine) AfterFunc(time.Duration, func()) func() bool { return func() bool { return false } }
func (machine) Now() int64                                  { return 0 }
func (machine) Printk(int, string, ...any)                  {}

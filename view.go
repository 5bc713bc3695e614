package kprobefs

import (
	"context"
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/btf/rawbtf"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/vm"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/exports"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// view is the kernel that probes and files look at: the guest itself, or the one of
// Options.Kernel, whose functions run in a vm.VM. The guest then only runs the files.
type view struct {
	text     kprobes.Text
	symbols  *kallsyms.Table
	tables   *image.Tables
	sites    *ftrace.Sites
	slots    kprobes.Slots
	machine  viewMachine
	memory   abi.Memory
	inUse    func() int // slots
	retired  func() uint64
	callOn   func(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error)
	unwinder tracing.Unwinder
	points   tracing.Tracepoints // nil if there are no static events
	syscalls []string
	btf      func() *btf.Types
	rawBTF   []byte // as /sys/kernel/btf/vmlinux shows it; nil if there is none

	vm *vm.VM // nil if it is the guest
}

// viewMachine is a machine as probes and the tracer use it.
type viewMachine interface {
	kprobes.Machine
	tracing.Machine
}

// guestView is the guest.
func guestView(m *kernel.Machine, r Release) view {
	return view{
		text: m, symbols: m.Symbols(), tables: m.Tables(), sites: m.Sites(), slots: slots{m}, machine: m, memory: m.Mem(),
		inUse: m.SlotsInUse, retired: m.Retired, callOn: m.CallOn, unwinder: m,
		points: m, syscalls: m.Syscalls(), btf: r.btf(), rawBTF: r.types(),
	}
}

// fileView is the kernel of a file, beside the guest m.
func fileView(m *kernel.Machine, o Options) (view, error) {
	v, err := vm.New(vm.Options{Kernel: o.Kernel, CPUs: m.CPUs(), Engine: o.Engine, Now: m.Now, Tasks: m.Mem(), Armed: m.Armed()})
	if err != nil {
		return view{}, err
	}
	called := func(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (ax uint64, err error) {
		c := vm.Call{CPU: cpu, Task: host.TaskIn(ctx), Function: addr}
		for _, a := range args {
			c.Args = append(c.Args, vm.Arg{Value: a})
		}
		for range count {
			r, err := v.Call(ctx, c)
			if err != nil {
				return 0, err
			}
			ax = r.AX
		}
		return ax, nil
	}
	return view{
		text: v, symbols: o.Kernel.Symbols, tables: o.Kernel.Tables, sites: v.Sites(), slots: slots{v}, machine: vmMachine{m, v}, memory: v.Memory(),
		inUse: v.SlotsInUse, retired: v.Retired, callOn: called, unwinder: v,
		btf: rawTypes(o.Kernel.BTF, o.Release.Linux), rawBTF: o.Kernel.BTF, vm: v,
	}, nil
}

// vmMachine is what waits for handlers that run in a VM, and the guest's clock and log.
type vmMachine struct {
	*kernel.Machine
	vm *vm.VM
}

func (m vmMachine) SynchronizeRCU()      { m.vm.SynchronizeRCU() }
func (m vmMachine) SynchronizeRCUTasks() { m.vm.SynchronizeRCUTasks() }

// rawTypes returns a function that parses a kernel's types when they are first needed, or nil if a
// kernel has none, or does not look at them. Types that cannot be parsed are none.
func rawTypes(raw []byte, v release.Version) func() *btf.Types {
	if raw == nil || !v.Has(release.BTFArgs) {
		return nil
	}
	return sync.OnceValue(func() *btf.Types {
		spec, err := rawbtf.Parse(raw)
		if err != nil {
			return nil
		}
		return btf.From(spec)
	})
}

// handlers handle the hits in the guest and in the VM. The guest's own text has no probes where
// there is a VM.
func (k *Kernel) handlers() kernel.Handlers {
	m, v := k.Machine, k.view
	h := kernel.Handlers{TaskDead: k.taskDead, Modules: k.Modules.Linked, Oops: k.Tracer.Off, Probe: k.request}
	if v.vm != nil {
		v.vm.SetHandlers(vm.Handlers{
			Int3: k.Kprobes.Int3, Stepped: k.Kprobes.Stepped, Fault: k.Kprobes.Fault, Ftrace: v.sites.HitRegs,
			Function: v.sites.Hit, Optimized: k.Kprobes.Optimized, Rethook: k.Kprobes.Rethook, GraphReturn: k.Tracer.Ftrace().GraphReturn, Return: k.returnsTo,
		})
		return h
	}
	h.Int3, h.Stepped, h.Fault, h.Ftrace, h.Function = k.Kprobes.Int3, k.Kprobes.Stepped, k.Kprobes.Fault, m.Sites().HitRegs, m.Sites().Hit
	h.Optimized, h.Rethook, h.Return, h.Last = k.Kprobes.Optimized, k.Kprobes.Rethook, k.returnsTo, k.lastFrame
	h.Tracepoint, h.RawTracepoint, h.GraphReturn = k.Tracer.Tracepoint, k.Tracer.RawTracepoint, k.Tracer.Ftrace().GraphReturn
	h.ReturnTo, h.CallerNames = exports.ReturnTo, exports.CallerNames
	return h
}

// callExpression is the file machine/call: it calls what an expression says ('strlen("abc")') in the
// task that ctx belongs to, and returns what is to be read.
func (k *Kernel) callExpression(ctx context.Context, text string) (string, error) {
	e, err := vm.ParseCall(text, k.view.symbols)
	if err != nil {
		return "", err
	}
	e.CPU, e.Task = host.CPUIn(ctx)%k.view.vm.CPUs(), host.TaskIn(ctx)
	r, err := k.view.vm.Call(ctx, e.Call)
	if err != nil {
		return "", fmt.Errorf("%s: %w", e.Name, err)
	}
	return e.Show(r), nil
}

// errOneKernel is the error of what needs a module's kernel to run.
var errOneKernel = fmt.Errorf("a kernel that is only looked at loads no modules: %w", syscall.EOPNOTSUPP)

// machineFiles is the directory machine.
func (k *Kernel) machineFiles(c machinefs.Config) machinefs.Config {
	v := k.view
	c.Symbols, c.Read, c.CallOn = v.symbols, v.text.Read, v.callOn
	if v.vm != nil {
		c.Call = k.callExpression
		return c
	}
	c.Debugger, c.Timeline, c.Image = k.Machine.Debugger(), k.timeline, k.opts.Release.image()
	return c
}

// ReleaseOf returns the release and the configuration of a kernel's file, with c where the file does not
// tell: its names are its own, it behaves as the emulated version whose rules hold.
func ReleaseOf(f *vmlinux.Kernel, c Config) (Release, Config) {
	r := OptionsOf(f.Linux).Release
	r.Kernel, r.Banner = f.Release, f.Banner
	r.ABI, r.Modules = nil, 0
	c.NoPreempt = !f.Preempt
	r.Config = c
	return r, c
}

// call calls a function for Kernel.Call.
func (k *Kernel) call(ctx context.Context, function string, args []uint64) (uint64, error) {
	if k.view.vm == nil {
		return k.Machine.Call(ctx, function, args...)
	}
	s := k.view.symbols.LookupName(function)
	if len(s) == 0 {
		return 0, fmt.Errorf("no function %s in the kernel: %w", function, syscall.ENOENT)
	}
	if len(args) > maxCallArgs {
		return 0, fmt.Errorf("%d arguments: %w", len(args), syscall.EINVAL)
	}
	return k.view.callOn(ctx, 0, s[0].Addr, 1, args...)
}

// maxCallArgs is how many arguments Call takes.
const maxCallArgs = 5

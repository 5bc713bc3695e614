package vm_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/vm"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/optimizer"
)

// kernels returns the images that are at hand: the one that KPROBEFS_KERNEL names, or those that
// "golden" has downloaded (Debian's packages, in the user's cache).
func kernels(t *testing.T) []string {
	t.Helper()
	if file := os.Getenv("KPROBEFS_KERNEL"); file != "" {
		return []string{file}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	files, _ := filepath.Glob(filepath.Join(cache, "kprobefs", "linux", "linux-image-*", "vmlinuz"))
	if len(files) == 0 {
		t.Skip("KPROBEFS_KERNEL names no kernel, and golden has downloaded none")
	}
	if testing.Short() {
		return files[:1]
	}
	return files
}

// caller calls functions of a kernel.
type caller struct {
	kernel *vmlinux.Kernel
	vm     *vm.VM
	probes *kprobes.Kprobes
	later  []func() // that AfterFunc was given
}

// symbol is an argument: the address of a symbol.
type symbol string

// failed is a panic of do.
type failed struct{ error }

// do calls a function.
func (c *caller) do(name string, args ...any) vm.Result {
	call := vm.Call{Function: c.addr(name), Limit: 1 << 24}
	for _, a := range args {
		switch a := a.(type) {
		case string:
			call.Args = append(call.Args, vm.Arg{Buffer: append([]byte(a), 0)})
		case []byte:
			call.Args = append(call.Args, vm.Arg{Buffer: a})
		case symbol:
			call.Args = append(call.Args, vm.Arg{Value: c.addr(string(a))})
		case int:
			call.Args = append(call.Args, vm.Arg{Value: uint64(a)})
		case int64:
			call.Args = append(call.Args, vm.Arg{Value: uint64(a)})
		case byte:
			call.Args = append(call.Args, vm.Arg{Value: uint64(a)})
		case uint16:
			call.Args = append(call.Args, vm.Arg{Value: uint64(a)})
		case uint32:
			call.Args = append(call.Args, vm.Arg{Value: uint64(a)})
		case uint64:
			call.Args = append(call.Args, vm.Arg{Value: a})
		default:
			panic(fmt.Sprintf("%T", a))
		}
	}
	r, err := c.vm.Call(context.Background(), call)
	if err != nil {
		panic(failed{fmt.Errorf("%s%v: %w", name, args, err)})
	}
	return r
}

func (c *caller) addr(name string) uint64 {
	if s := c.kernel.LookupName(name); len(s) > 0 {
		return s[0].Addr
	}
	panic(failed{errors.New("no symbol " + name)})
}

// run makes n tries, and returns what is wrong.
func (c *caller) run(f try, r *rand.Rand, n int) (problem string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			problem = p.Error()
		default:
			panic(p)
		}
	}()
	for i := range n {
		if p := f(c, r); p != "" {
			return fmt.Sprintf("call %d: %s", i, p)
		}
	}
	return ""
}

// probeMachine is the machine of the probes: the VM, and a clock that settle advances.
type probeMachine struct{ *caller }

func (m probeMachine) CPUs() int                  { return 1 }
func (m probeMachine) SynchronizeRCU()            { m.vm.SynchronizeRCU() }
func (m probeMachine) SynchronizeRCUTasks()       { m.vm.SynchronizeRCUTasks() }
func (m probeMachine) Now() int64                 { return 0 }
func (m probeMachine) Printk(int, string, ...any) {}

func (m probeMachine) AfterFunc(_ time.Duration, f func()) func() bool {
	m.later = append(m.later, f)
	return func() bool { return false }
}

// settle does what the optimizer has put off.
func (c *caller) settle() {
	for len(c.later) > 0 {
		f := c.later[0]
		c.later = c.later[1:]
		f()
	}
}

type slots struct{ *vm.VM }

func (s slots) Alloc(n int) (uint64, error) { return s.AllocSlot(n) }
func (s slots) Free(addr uint64)            { s.FreeSlot(addr) }

// boot makes a VM of a kernel's file, with probes.
func boot(t *testing.T, file string) *caller {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k, err := vmlinux.Load(b, vmlinux.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := vm.New(vm.Options{Kernel: k})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	c := &caller{kernel: k, vm: m}
	c.probes = kprobes.New(kprobes.Config{
		Text: m, Symbols: k, Tables: k, Ftrace: m.Sites(), Slots: slots{m}, Machine: probeMachine{c}, NoPreempt: !k.Preempt, Linux: k.Linux,
		Optimizer: optimizer.New(optimizer.Config{Symbols: k, Tables: k, Slots: slots{m}, Linux: k.Linux}),
	})
	p := c.probes
	m.Sites().OnKprobe(p.Ftrace)
	m.SetHandlers(vm.Handlers{Int3: p.Int3, Stepped: p.Stepped, Fault: p.Fault, Ftrace: m.Sites().HitRegs, Function: m.Sites().Hit, Optimized: p.Optimized, Rethook: p.Rethook, Return: p.Return})
	return c
}

// known returns the names of the functions that a kernel has.
func (c *caller) known() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(functions)), func(name string) bool { return len(c.kernel.LookupName(name)) == 0 })
}

// leastFunctions is how many of the functions each kernel must have.
const leastFunctions = 60

// TestFunctions calls the functions of distributions' kernels 1,000 times each, with random arguments:
// none gives another result than its counterpart in Go.
func TestFunctions(t *testing.T) {
	calls := 1000
	if testing.Short() {
		calls = 50
	}
	for _, file := range kernels(t) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			c := boot(t, file)
			names := c.known()
			if len(names) < leastFunctions {
				t.Errorf("%d functions, want %d", len(names), leastFunctions)
			}
			for i, name := range names {
				if p := c.run(functions[name], rand.New(rand.NewPCG(uint64(i), 1)), calls); p != "" {
					t.Errorf("%s: %s", name, p)
				}
			}
			t.Logf("%s: %d functions, %d calls each", c.kernel.Release, len(names), calls)
		})
	}
}

// instructions returns the addresses at which instructions of a function begin, without padding.
func (c *caller) instructions(name string) (all []uint64) {
	s := c.kernel.LookupName(name)[0]
	text := make([]byte, s.Size+insn.MaxLen)
	if c.kernel.Read(s.Addr, text) != nil {
		return nil
	}
	for off := uint64(0); off < s.Size; {
		in, err := insn.Decode(text[off:])
		if err != nil {
			return all
		}
		if text[off] != 0xcc {
			all = append(all, s.Addr+off)
		}
		off += uint64(in.Len)
	}
	return all
}

// counts is what became of the probes.
type counts struct{ refused, ftrace, jumps, breakpoints, hit int }

// TestProbedFunctions sets a probe at each instruction of the functions, one at a time, where Linux
// accepts one, and has it optimized where it can be: the results stay the same.
func TestProbedFunctions(t *testing.T) {
	calls, every := 20, 1
	if testing.Short() {
		calls, every = 3, 20
	}
	for _, file := range kernels(t) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			c := boot(t, file)
			var n counts
			for i, name := range c.known() {
				for j, addr := range c.instructions(name) {
					if (i+j)%every != 0 {
						continue
					}
					if p := c.probed(addr, functions[name], rand.New(rand.NewPCG(uint64(i), uint64(j))), calls, &n); p != "" {
						t.Errorf("a probe at %s+%#x: %s", name, addr-c.addr(name), p)
					}
				}
			}
			if n.hit == 0 || n.jumps == 0 || n.breakpoints == 0 || n.ftrace == 0 {
				t.Errorf("%+v: a kind of probes was not tried", n)
			}
			if used := c.vm.SlotsInUse(); used > 1 {
				t.Errorf("%d slots are left", used)
			}
			t.Logf("%s, %d calls each: %+v", c.kernel.Release, calls, n)
		})
	}
}

// probed makes tries with a probe at an address.
func (c *caller) probed(addr uint64, f try, r *rand.Rand, calls int, n *counts) string {
	hits := 0
	p := &kprobes.Kprobe{Addr: addr, PreHandler: func(*kprobes.Hit) int { hits++; return 0 }}
	if err := c.probes.Register(p); err != nil {
		n.refused++
		return ""
	}
	c.settle()
	switch flags := c.probes.Points()[0].Flags; {
	case flags&kprobes.FlagFtrace != 0:
		n.ftrace++
	case flags&kprobes.FlagOptimized != 0:
		n.jumps++
	default:
		n.breakpoints++
	}
	problem := c.run(f, r, calls)
	if hits > 0 {
		n.hit++
	}
	if err := c.probes.Unregister(p); err != nil && problem == "" {
		problem = err.Error()
	}
	c.settle()
	return problem
}

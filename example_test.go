package kprobefs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/kprobefs/kprobefs"
)

// boot returns a small kernel, and a function that closes it.
func boot(o kprobefs.Options) (k *kprobefs.Kernel, end func()) {
	o.CPUs = 1
	k, err := kprobefs.Boot(o)
	if err != nil {
		log.Fatal(err)
	}
	return k, func() { _ = k.Close() }
}

// A kprobe calls a Go function when the kernel reaches its address.
func ExampleKernel_Register() {
	k, end := boot(kprobefs.Options{})
	defer end()
	p := &kprobefs.Kprobe{
		SymbolName: "int_sqrt",
		PreHandler: func(h *kprobefs.Hit) int {
			fmt.Println("int_sqrt of", h.Regs.Arg(0))
			return 0
		},
	}
	if err := k.Register(p); err != nil {
		log.Fatal(err)
	}
	root, _ := k.Call(context.Background(), "int_sqrt", 144)
	fmt.Println("is", root)
	_ = k.Unregister(p)
	// Output:
	// int_sqrt of 144
	// is 12
}

// A pre-handler may change the registers: the function sees another argument.
func ExampleKernel_Register_changeArgument() {
	k, end := boot(kprobefs.Options{})
	defer end()
	_ = k.Register(&kprobefs.Kprobe{
		SymbolName: "int_sqrt",
		PreHandler: func(h *kprobefs.Hit) int {
			h.Regs.DI = 81
			return 0
		},
	})
	root, _ := k.Call(context.Background(), "int_sqrt", 144)
	fmt.Println(root)
	// Output: 9
}

// An address that cannot be probed is refused with Linux's errno and the reason.
func ExampleKernel_Register_refused() {
	k, end := boot(kprobefs.Options{})
	defer end()
	err := k.Register(&kprobefs.Kprobe{SymbolName: "no_such_function"})
	fmt.Println(err)
	// Output: no symbol no_such_function: no such file or directory
}

// A return probe sees a function's return value and may change it.
func ExampleKernel_RegisterRetprobe() {
	k, end := boot(kprobefs.Options{})
	defer end()
	r := &kprobefs.Retprobe{
		Kprobe: kprobefs.Kprobe{SymbolName: "int_sqrt"},
		Handler: func(_ *kprobefs.Instance, h *kprobefs.Hit) int {
			fmt.Println("returns", h.Regs.ReturnValue())
			h.Regs.AX = 42
			return 0
		},
	}
	if err := k.RegisterRetprobe(r); err != nil {
		log.Fatal(err)
	}
	root, _ := k.Call(context.Background(), "int_sqrt", 100)
	fmt.Println(root)
	// Output:
	// returns 10
	// 42
}

// A jprobe's handler has the arguments of the probed function. Only old releases have
// jprobes.
func ExampleKernel_RegisterJprobe() {
	k, end := boot(kprobefs.OptionsOf(kprobefs.Linux2_6_32))
	defer end()
	j := &kprobefs.Jprobe{
		Kprobe:  kprobefs.Kprobe{SymbolName: "int_sqrt"},
		Handler: func(h *kprobefs.Hit) { fmt.Println("called with", h.Regs.Arg(0)) },
	}
	if err := k.RegisterJprobe(j); err != nil {
		log.Fatal(err)
	}
	root, _ := k.Call(context.Background(), "int_sqrt", 16)
	fmt.Println(root)
	// Output:
	// called with 16
	// 4
}

// A probe inside a function becomes a jump.
func ExampleKernel_optimization() {
	k, end := boot(kprobefs.Options{})
	defer end()
	p := &kprobefs.Kprobe{SymbolName: "vfs_read", Offset: 5, PreHandler: func(*kprobefs.Hit) int { return 0 }}
	if err := k.Register(p); err != nil {
		log.Fatal(err)
	}
	k.Kprobes.WaitOptimizer() // or wait as long as on Linux
	list, _ := k.ReadFile("kprobes/list")
	fmt.Println(strings.Join(strings.Fields(string(list))[2:], " "))

	_ = k.WriteFile("sys/debug/kprobes-optimization", "0\n")
	list, _ = k.ReadFile("kprobes/list")
	fmt.Println(strings.Join(strings.Fields(string(list))[2:], " "))
	// Output:
	// vfs_read+0x5 [OPTIMIZED]
	// vfs_read+0x5
}

// The files can be used without a mount.
func ExampleKernel_WriteFile() {
	k, end := boot(kprobefs.Options{})
	defer end()
	err := k.WriteFile("tracing/kprobe_events", "p:mine int_sqrt x=$arg1:u64\n")
	if err == nil {
		err = k.WriteFile("tracing/events/kprobes/mine/enable", "1")
	}
	if err != nil {
		log.Fatal(err)
	}
	_, _ = k.Call(context.Background(), "int_sqrt", 49)
	trace, _ := k.ReadFile("tracing/trace")
	_, hit, _ := strings.Cut(string(trace), "mine: ")
	_, args, _ := strings.Cut(hit, ") ")
	fmt.Print(args)
	// Output: x=49
}

// Other processes use a mounted tree as they use Linux's files.
func ExampleKernel_Mount() {
	k, end := boot(kprobefs.Options{})
	defer end()
	dir, err := os.MkdirTemp("", "kprobefs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(dir)
	m, err := k.Mount(dir)
	if err != nil {
		log.Fatal(err) // no /dev/fuse, or no permission to mount
	}
	defer m.Detach()
	fmt.Println("serving", filepath.Join(dir, "kprobes", "list"))
}

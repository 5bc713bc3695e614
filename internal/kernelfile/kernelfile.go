// Package kernelfile has the commands about a kernel that does not run here, why and call, and the flags that name its file.
package kernelfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
)

// Flags is the file of a kernel that is looked at instead of the emulated one.
type Flags struct {
	File    string // "" means the emulated one
	Symbols string
	CPU     string // for which the kernel chooses code, as --cpu says

	Shown  wire.Shown      // the kernel of a tree that is mounted already, if it is a file's
	Kernel *vmlinux.Kernel // of File, once it has been loaded
}

// AddTo adds the flags.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.File, "kernel", "", "show the kernel of this `FILE` (bzImage, ELF vmlinux, Debian or RPM package) instead of the emulated one: probes are defined in its text, and its functions run when they are called (machine/call)")
	chooseCPU(flags, &f.CPU)
	flags.StringVar(&f.Symbols, "symbols", "", "a System.map or a copy of /proc/kallsyms, for a --kernel without its own")
}

// Args returns the flags as arguments for another process of this program.
func (f *Flags) Args() (args []string) {
	if f.File != "" {
		args = append(args, "--kernel", f.File, "--cpu", f.CPU)
	}
	if f.Symbols != "" {
		args = append(args, "--symbols", f.Symbols)
	}
	return args
}

// Find makes the names of the files absolute.
func (f *Flags) Find() error {
	for flag, file := range map[string]*string{"--kernel": &f.File, "--symbols": &f.Symbols} {
		if *file == "" {
			continue
		}
		path, err := filepath.Abs(*file)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		*file = path
	}
	return nil
}

// Load reads the kernel, once. It returns nil if there is none.
func (f *Flags) Load() (*vmlinux.Kernel, error) {
	if f.File == "" || f.Kernel != nil {
		return f.Kernel, nil
	}
	cpu, err := vmlinux.ParseCPU(f.CPU, os.DirFS("/"))
	if err != nil {
		return nil, fmt.Errorf("--cpu: %w", err)
	}
	f.Kernel, err = readKernel(f.File, f.Symbols, cpu, false)
	return f.Kernel, err
}

// IsShown reports whether the kernel is a file's.
func (f *Flags) IsShown() bool { return f.File != "" || f.Shown != (wire.Shown{}) }

// chooseCPU adds the flag --cpu.
func chooseCPU(flags *pflag.FlagSet, at *string) {
	flags.StringVar(at, "cpu", DefaultCPU, "the `CPU` for which the --kernel chooses code (alternatives, retpolines, returns): default (QEMU's, with retpolines), baseline, host, or a list of features after one of these, as in default,smap,-retpoline")
}

// DefaultCPU is the value of --cpu without one.
const DefaultCPU = "default"

// readKernel reads a kernel with its symbols, a file's if there is one.
func readKernel(file, symbols string, cpu vmlinux.CPU, noCache bool) (*vmlinux.Kernel, error) {
	o := vmlinux.Options{CPU: cpu}
	b, err := os.ReadFile(file)
	if err == nil && symbols != "" {
		o.Symbols, err = os.ReadFile(symbols)
	}
	if err != nil {
		return nil, err
	}
	if !noCache {
		b = unpacked(b)
	}
	k, err := vmlinux.Load(b, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// Release returns the release and configuration of the kernel, or those that are given if there is none.
func (f *Flags) Release(r kprobefs.Release, c kprobefs.Config) (kprobefs.Release, kprobefs.Config, error) {
	k, err := f.Load()
	if err != nil {
		return r, c, err
	}
	if k == nil {
		if f.IsShown() {
			r.Kernel, r.Banner, r.ABI, r.Modules = f.Shown.Release, f.Shown.Banner, nil, 0
		}
		return r, c, nil
	}
	r, c = kprobefs.ReleaseOf(k, c)
	return r, c, nil
}

// Check fails for flags that contradict --kernel.
func (f *Flags) Check(modules bool, gdb string) error {
	switch {
	case f.File == "" && f.Symbols != "":
		return cli.Misused(fmt.Errorf("--symbols belongs to a --kernel: %w", syscall.EINVAL))
	case f.File == "" && f.CPU != DefaultCPU:
		return cli.Misused(fmt.Errorf("--cpu belongs to a --kernel: %w", syscall.EINVAL))
	case f.File == "":
		return nil
	case modules:
		return cli.Misused(fmt.Errorf("--module and --kernel: a kernel that is only looked at loads no modules: %w", syscall.EINVAL))
	case gdb != "":
		return cli.Misused(fmt.Errorf("--gdb and --kernel: gdb debugs the emulated kernel: %w", syscall.EINVAL))
	}
	return nil
}

var errTwoKernels = errors.New("--at and --kernel are two kernels")

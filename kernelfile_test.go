package kprobefs

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/vmlinux"
)

// fileKernels are kernels as of files: the guest of 6.1, which each test has, and the one that
// KPROBEFS_KERNEL names.
func fileKernels(t *testing.T) map[string]*vmlinux.Kernel {
	t.Helper()
	m, err := image.Load(guest.Image("6.1"))
	if err != nil {
		t.Fatal(err)
	}
	own := &vmlinux.Kernel{
		Image: m, Symbols: kallsyms.NewSized(m.Symbols), Linux: Linux6_1, Preempt: true,
		Release: "6.1.0-99-test", Banner: "Linux version 6.1.0-99-test (me@here) #7 SMP PREEMPT_DYNAMIC",
	}
	own.Tables = image.NewTables(m, own.Symbols)
	own.Booted()
	all := map[string]*vmlinux.Kernel{"guest": own}
	if file := os.Getenv("KPROBEFS_KERNEL"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if all["file"], err = vmlinux.Load(b, vmlinux.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestKernelFile: the tree shows the kernel of a file. Its functions can be called, and probes in
// them are hit.
func TestKernelFile(t *testing.T) {
	for name, file := range fileKernels(t) {
		t.Run(name, func(t *testing.T) {
			k, err := Boot(Options{Kernel: file, CPUs: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer closeKernel(t, k)
			write := func(name, text string) {
				t.Helper()
				if err := k.AppendFile(name, text); err != nil {
					t.Fatal(err)
				}
			}
			if got := readFile(t, k, "proc/version"); got != file.Banner+"\n" {
				t.Errorf("proc/version is %q", got)
			}
			if got := strings.Count(readFile(t, k, "proc/kallsyms"), "\n"); got != len(file.All()) {
				t.Errorf("kallsyms has %d symbols of %d", got, len(file.All()))
			}
			write("tracing/kprobe_events", "p:at int_sqrt x=%di:u64\nr:back int_sqrt r=$retval\np:inside int_sqrt+5\np:text time64_to_tm t=%di:s64\n")
			write("tracing/events/kprobes/enable", "1")
			want := "  argument 3  00000000  01 00 00 00 01 00 00 00                           |........|\n"
			if got := readBack(t, k, "machine/call", `time64_to_tm(61, 0, [8])`); !strings.HasPrefix(got, "time64_to_tm(61, 0, [8]) = ") || !strings.HasSuffix(got, want) {
				t.Errorf("the call gave %q", got)
			}
			if got, err := k.Call(context.Background(), "int_sqrt", 144); got != 12 || err != nil {
				t.Errorf("the root of 144 is %d, %v", got, err)
			}
			trace := readFile(t, k, "tracing/trace")
			for _, hit := range []string{`at: \(int_sqrt\+0x0/0x[0-9a-f]+\) x=144`, `inside: \(int_sqrt\+0x5/`, `back: \(.* <- int_sqrt\) r=0xc`, `text: \(time64_to_tm\+0x0/.* t=61`} {
				if !regexp.MustCompile(hit).MatchString(trace) {
					t.Errorf("no %s in\n%s", hit, trace)
				}
			}
			if err := k.WriteFile("machine/call", `time64_to_tm(61, 0, 8)`); !errors.Is(err, syscall.EFAULT) {
				t.Errorf("a call that faults: %v", err)
			}
			if err := k.WriteFile("machine/call", `int_sqrt`); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("no call: %v", err)
			}
			if _, err := k.Call(context.Background(), "no_such_function"); !errors.Is(err, syscall.ENOENT) {
				t.Errorf("no function: %v", err)
			}
			if _, err := k.Insmod([]byte("no module"), ""); !errors.Is(err, syscall.EOPNOTSUPP) {
				t.Errorf("a module: %v", err)
			}
			if got := readBack(t, k, "machine/load/call", "strlen 3 linux_banner"); strings.Count(got, "3 calls") != 2 {
				t.Errorf("the load gave %q", got)
			}
			write("tracing/events/kprobes/enable", "0")
			if err := k.WriteFile("tracing/kprobe_events", ""); err != nil {
				t.Fatal(err)
			}
			if got := readFile(t, k, "kprobes/list"); got != "" {
				t.Errorf("left: %s", got)
			}
		})
	}
}

func readFile(t *testing.T, k *Kernel, name string) string {
	t.Helper()
	b, err := k.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readBack writes to a file, and reads it through the same descriptor.
func readBack(t *testing.T, k *Kernel, name, text string) (got string) {
	t.Helper()
	err := k.withFile(t.Context(), name, os.O_RDWR, func(ctx context.Context, f seqfile.File) error {
		if _, err := f.Write(ctx, []byte(text), 0); err != nil {
			return err
		}
		b := make([]byte, 4096)
		n, err := f.Read(ctx, b, 0)
		got = string(b[:n])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func closeKernel(t *testing.T, k *Kernel) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

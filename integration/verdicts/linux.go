package verdicts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// Ask asks a kernel of Debian for its verdicts on functions. program is this machine's
// program that calls Answer there, when it is started as "PROGRAM verdicts answer".
func Ask(ctx context.Context, k *linux.Kernel, names []string, program string) (*Table, error) {
	object, err := build(ctx, k)
	if err != nil {
		return nil, err
	}
	results, err := k.Run(ctx, "", []linux.Script{{
		Name: "verdicts", Limit: limit,
		Text:  "insmod ./ask.ko && exec /usr/bin/" + filepath.Base(program) + " verdicts answer names\n",
		Files: map[string][]byte{"ask.ko": object, "names": []byte(strings.Join(names, "\n"))},
	}}, program)
	if err != nil {
		return nil, err
	}
	if results[0].Status != 0 {
		return nil, fmt.Errorf("asking %s: exit status %d: %s", k, results[0].Status, results[0].Output)
	}
	t, err := Parse(strings.NewReader(results[0].Output))
	if err != nil {
		return nil, err
	}
	t.Kernel = k.String()
	return t, nil
}

// limit is how long Linux may take. It needs about a minute on a quiet machine.
const limit = 20 * time.Minute

// Answer runs on Linux, where ask.c is loaded: it writes the verdicts on the functions that a
// file lists.
func Answer(file string, w io.Writer) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	kallsyms, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		return err
	}
	here := map[string]bool{}
	for _, name := range functionsIn(string(kallsyms)) {
		here[name] = true
	}
	if err := os.WriteFile("/sys/kernel/rcu_expedited", []byte("1"), 0); err != nil {
		return err
	}
	t := &Table{Functions: map[string]*Verdict{}}
	for _, name := range strings.Fields(string(b)) {
		t.Functions[name] = nil
		if here[name] {
			v, err := answer(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			t.Functions[name] = &v
		}
	}
	for _, event := range []string{probeEvent, returnEvent} {
		if e := define("-:" + event); e != 0 && e != syscall.ENOENT { // all may have been refused
			return fmt.Errorf("removing %s: %w", event, e)
		}
	}
	if err := os.WriteFile("/sys/kernel/rcu_expedited", []byte("0"), 0); err != nil {
		return err
	}
	return t.Write(w)
}

// answer returns Linux's verdict on a function.
func answer(name string) (v Verdict, err error) {
	v[Event], v[ReturnEvent] = define("p:"+probeEvent+" "+name), define("r:"+returnEvent+" "+name)
	const file = "/sys/kernel/debug/verdict"
	if err := os.WriteFile(file, []byte(name), 0); err != nil {
		return v, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return v, err
	}
	for i, word := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(word)
		if err != nil || i > ReturnProbe {
			return v, fmt.Errorf("the module answers %q", b)
		}
		v[i] = syscall.Errno(-n)
	}
	return v, nil
}

// define writes a definition to kprobe_events.
func define(line string) syscall.Errno {
	f, err := os.OpenFile("/sys/kernel/tracing/kprobe_events", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return errno(err)
	}
	_, err = f.WriteString(line)
	return errno(errors.Join(err, f.Close()))
}

// build compiles ask.c with the headers of a kernel.
func build(ctx context.Context, k *linux.Kernel) ([]byte, error) {
	arch, common, err := k.Headers(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kprobefs-verdicts")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, object := filepath.Join(dir, "ask.c"), filepath.Join(dir, "ask.ko")
	if err := os.WriteFile(source, Source, 0o644); err != nil {
		return nil, err
	}
	own, err := exec.CommandContext(ctx, "gcc", "-print-file-name=include").Output() // for stdarg.h, which 5.10 includes
	if err != nil {
		return nil, err
	}
	args := []string{
		"-nostdinc", "-isystem", strings.TrimSpace(string(own)), "-w", "-std=gnu11", "-O2", "-ffreestanding", "-fno-pie", "-mcmodel=kernel", "-mno-red-zone", "-mgeneral-regs-only",
		"-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-strict-aliasing", "-fno-common", "-fshort-wchar", "-fcf-protection=none",
		"-D__KERNEL__", "-DMODULE", "-DCC_USING_FENTRY", `-DKBUILD_MODNAME="ask"`, `-DKBUILD_BASENAME="ask"`, `-DKBUILD_MODFILE="ask"`, "-D__KBUILD_MODNAME=kmod_ask",
	}
	for _, folder := range []string{"arch/x86/include", "arch/x86/include/generated", "include", "arch/x86/include/uapi", "arch/x86/include/generated/uapi", "include/uapi", "include/generated/uapi"} {
		args = append(args, "-I"+filepath.Join(common, folder), "-I"+filepath.Join(arch, folder))
	}
	for _, header := range []string{"compiler-version.h", "kconfig.h", "compiler_types.h"} {
		if file := filepath.Join(common, "include/linux", header); exists(file) { // the first is not in 5.10
			args = append(args, "-include", file)
		}
	}
	cmd := exec.CommandContext(ctx, "gcc", append(args, "-c", "-o", object, source)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ask.c: %w\n%s", err, said.Bytes())
	}
	return os.ReadFile(object)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

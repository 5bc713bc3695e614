package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration"
)

// callsVar makes this process make so many read(2) of /dev/zero and print how many ns each took,
// and how many of its processor.
const callsVar = "KPROBEFS_BENCH_CALLS"

// makeCalls does that if callsVar is set.
func makeCalls() error {
	n, err := strconv.Atoi(os.Getenv(callsVar))
	if err != nil {
		return errNoChild
	}
	fd, err := unix.Open("/dev/zero", unix.O_RDONLY, 0)
	if err != nil {
		return err
	}
	var b [1]byte
	start, cpu := time.Now(), cpuTime()
	for range n {
		if _, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), 1); errno != 0 {
			return errno
		}
	}
	took := time.Since(start)
	_, err = fmt.Fprintf(os.Stdout, "%d %d\n", took.Nanoseconds()/int64(n), (cpuTime()-cpu).Nanoseconds()/int64(n))
	return errors.Join(err, unix.Close(fd))
}

// armVFSRead is a command before another one, whose arguments follow, that probes what it reads.
var armVFSRead = []string{"sh", "-c", `echo p:bench vfs_read >/sys/kernel/tracing/kprobe_events && echo 1 >/sys/kernel/tracing/events/kprobes/bench/enable && exec "$@"`, "sh"}

// commands measures what exec costs its command, beside strace: a call that nothing sees, one
// that a probe sees, and a build.
func commands(b *bench) error {
	kprobefs, err := integration.Build(context.Background(), b.dir)
	if err != nil {
		return err
	}
	below := []string{kprobefs, "exec", "--"}
	strace := []string{"strace", "-f", "-o", "/dev/null"}
	if _, err := exec.LookPath("strace"); err != nil {
		b.note("without strace: %v", err)
		strace = nil
	}
	if err := b.calls(below, strace); err != nil {
		return err
	}
	return b.build(below, strace)
}

// calls measures read(2) under commands that stand before the program: in its own processor's time,
// which other processes do not affect, if nobody stops it.
func (b *bench) calls(below, strace []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	one := func(name string, n, field int, before ...string) timed {
		return timed{name, func() (float64, error) {
			argv := append(before[:len(before):len(before)], self)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", callsVar, n))
			out, err := cmd.Output()
			if err != nil {
				return 0, err
			}
			f := strings.Fields(string(out))
			if len(f) <= field {
				return 0, unix.ENODATA
			}
			return strconv.ParseFloat(f[field], 64)
		}}
	}
	const many, few = 1_000_000, 5000
	const wall, cpu = 0, 1
	ts := []timed{
		one("alone", many, cpu, "env"),
		one("nothing armed", many, cpu, below...),
		one("armed", few, wall, append(below[:len(below):len(below)], armVFSRead...)...),
	}
	if strace != nil {
		ts = append(ts, one("strace", few, wall, strace...))
	}
	ns, err := b.medians(ts)
	if err != nil {
		return err
	}
	b.add(Row{
		Section: "commands", Name: "read, nothing armed", Unit: "ns", Value: ns["nothing armed"], Beside: map[string]float64{"alone": ns["alone"]},
		Note: fmt.Sprintf("%+.0f ns", ns["nothing armed"]-ns["alone"]),
	})
	armed := Row{Section: "commands", Name: "read, a probe at vfs_read", Unit: "us", Value: ns["armed"] / 1000, Beside: map[string]float64{}}
	if strace != nil {
		armed.Beside["strace -f"] = ns["strace"] / 1000
	}
	b.add(armed)
	return nil
}

// build measures the build of a small Go program, whose packages are built already.
func (b *bench) build(below, strace []string) error {
	dir := filepath.Join(b.dir, "built")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module built\n\ngo 1.21\n"), 0o644); err != nil {
		return err
	}
	built := 0
	one := func(name string, before ...string) timed {
		return timed{name, func() (float64, error) {
			built++
			text := fmt.Sprintf("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(%d) }\n", built)
			if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
				return 0, err
			}
			// The shell measures the build alone, without the emulated kernel's start.
			argv := append(before[:len(before):len(before)], "sh", "-ec", `from=$(date +%s%N); go build -o prog . ; to=$(date +%s%N); echo $((to - from))`)
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Dir = dir
			out, err := cmd.Output()
			if err != nil {
				return 0, err
			}
			lines := bytes.Fields(out)
			if len(lines) == 0 {
				return 0, unix.ENODATA
			}
			ns, err := strconv.ParseFloat(string(lines[len(lines)-1]), 64)
			return ns / 1e6, err
		}}
	}
	ts := []timed{one("alone", "env"), one("nothing armed", below...), one("armed", append(below[:len(below):len(below)], armVFSRead...)...)}
	if strace != nil {
		ts = append(ts, one("strace -f", strace...))
	}
	ms, err := b.medians(ts)
	if err != nil {
		return err
	}
	for _, name := range []string{"nothing armed", "armed"} {
		r := Row{Section: "commands", Name: "go build, " + name, Unit: "ms", Value: ms[name], Beside: map[string]float64{"alone": ms["alone"]}}
		if strace != nil {
			r.Beside["strace -f"] = ms["strace -f"]
		}
		b.add(r)
	}
	return nil
}

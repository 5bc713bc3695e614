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

// callsVar makes this process make a call so many times, and print how many ns each took: "read 1000".
const callsVar = "KPROBEFS_BENCH_CALLS"

// kindsOfCalls are the calls that are measured. Each has a file's descriptor and name.
var kindsOfCalls = []struct {
	name string
	call func(fd uintptr, name, buffer unsafe.Pointer) unix.Errno
}{
	{"getppid", func(uintptr, unsafe.Pointer, unsafe.Pointer) unix.Errno { return raw(unix.SYS_GETPPID, 0, 0, 0, 0) }},
	{"read", func(fd uintptr, _, b unsafe.Pointer) unix.Errno { return raw(unix.SYS_READ, fd, uintptr(b), 1, 0) }},
	{"stat", func(_ uintptr, name, b unsafe.Pointer) unix.Errno {
		return raw(unix.SYS_NEWFSTATAT, ^uintptr(99), uintptr(name), uintptr(b), 0) // AT_FDCWD
	}},
	{"write", func(fd uintptr, _, b unsafe.Pointer) unix.Errno { return raw(unix.SYS_WRITE, fd, uintptr(b), 1, 0) }},
	{"open+close", func(_ uintptr, name, _ unsafe.Pointer) unix.Errno {
		fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, ^uintptr(99), uintptr(name), unix.O_RDONLY, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return raw(unix.SYS_CLOSE, fd, 0, 0, 0)
	}},
	{"lseek", func(fd uintptr, _, _ unsafe.Pointer) unix.Errno { return raw(unix.SYS_LSEEK, fd, 0, unix.SEEK_CUR, 0) }},
}

func raw(nr, a, b, c, d uintptr) unix.Errno {
	_, _, errno := unix.RawSyscall6(nr, a, b, c, d, 0, 0)
	return errno
}

// makeCalls does that if callsVar is set.
func makeCalls() error {
	name, times, found := strings.Cut(os.Getenv(callsVar), " ")
	n, err := strconv.Atoi(times)
	if !found || err != nil {
		return errNoChild
	}
	file := []byte("/dev/zero\x00")
	fd, err := unix.Open("/dev/zero", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	var buffer [256]byte
	for _, kind := range kindsOfCalls {
		if kind.name != name {
			continue
		}
		start := time.Now()
		for range n {
			if errno := kind.call(uintptr(fd), unsafe.Pointer(&file[0]), unsafe.Pointer(&buffer[0])); errno != 0 {
				return errno
			}
		}
		_, err = fmt.Fprintln(os.Stdout, time.Since(start).Nanoseconds()/int64(n))
		return errors.Join(err, unix.Close(fd))
	}
	return unix.ENOSYS
}

// arms is a command before another one, whose arguments follow: it probes functions.
func arms(functions ...string) []string {
	script := ""
	for _, f := range functions {
		script += fmt.Sprintf("echo p:bench_%[1]s %[1]s >>/sys/kernel/tracing/kprobe_events\n", f)
	}
	return []string{"sh", "-ec", script + "echo 1 >/sys/kernel/tracing/events/kprobes/enable\nexec \"$@\"", "sh"}
}

// way is how a command is started.
type way struct {
	name   string
	before []string // what stands before the command
	slow   bool     // a call takes microseconds
}

// command returns a command that is started this way.
func (w way) command(args ...string) *exec.Cmd {
	argv := append(w.before[:len(w.before):len(w.before)], args...)
	return exec.Command(argv[0], argv[1:]...)
}

// printed runs a command that prints a number, and returns that.
func printed(cmd *exec.Cmd) (float64, error) {
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(bytes.TrimSpace(out)), 64)
}

const plainWay, straceWay = "plain", "strace -f"

// commands measures what exec costs its command, beside strace: programs and single calls, where nothing is
// armed, where a probe is that their calls do not come to (blind), and where some are that they do (seen).
func commands(b *bench) error {
	kprobefs, err := integration.Build(context.Background(), b.dir)
	if err != nil {
		return err
	}
	below := func(more ...string) []string { return append([]string{kprobefs, "exec", "--"}, more...) }
	ways := []way{
		{plainWay, []string{"env"}, false},
		{"exec", below(), false},
		{"blind", below(arms("__x64_sys_sched_yield")...), false},
		{"seen", below(arms("vfs_read", "vfs_write", "vfs_statx", "do_sys_openat2", "iterate_dir")...), true},
	}
	if _, err := exec.LookPath("strace"); err != nil {
		b.note("without strace: %v", err)
	} else {
		ways = append(ways, way{straceWay, []string{"strace", "-f", "-o", "/dev/null"}, true})
	}
	if err := b.programs(ways); err != nil {
		return err
	}
	return b.calls([]way{
		ways[0],
		{"nothing armed", below(), false},
		{"a probe at vfs_read", below(arms("vfs_read")...), true},
		{"probes that see names", below(arms("vfs_read", "vfs_statx", "do_sys_openat2")...), true},
	})
}

// rowsOf adds a row for each way but those without kprobefs, beside which they stand.
func (b *bench) rowsOf(name, unit string, ways []way, values map[string]float64) {
	for _, w := range ways[1:] {
		if w.name == straceWay {
			continue
		}
		r := Row{Section: "commands", Name: name + ", " + w.name, Unit: unit, Value: values[w.name], Beside: map[string]float64{plainWay: values[plainWay]}}
		if v, ok := values[straceWay]; ok {
			r.Beside[straceWay] = v
		}
		b.add(r)
	}
}

// calls measures single calls.
func (b *bench) calls(ways []way) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, kind := range kindsOfCalls {
		var ts []timed
		for _, w := range ways {
			n := 100_000
			if w.slow {
				n = 2000
			}
			ts = append(ts, timed{w.name, func() (float64, error) {
				cmd := w.command(self)
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", callsVar, kind.name, n))
				ns, err := printed(cmd)
				return ns / 1000, err
			}})
		}
		us, err := b.medians(ts)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		b.rowsOf(kind.name, "us", ways, us)
	}
	return nil
}

// workload is a command that is measured.
type workload struct {
	name    string
	needs   string // a program
	prepare string // for the shell, each time; not measured
	command string // for the shell
}

// benchPrograms are the programs of a directory with the files of putBenchFiles.
var benchPrograms = []workload{
	{"find /usr/lib", "find", ":", "find /usr/lib >/dev/null"},
	{"du /usr/include", "du", ":", "du -s /usr/include >/dev/null"},
	{"git status", "git", "[ -d repo/.git ] || (cd repo; git init -q; git add .)", "git -C repo status --short >/dev/null"},
	{"gcc -c", "gcc", ":", "gcc -c -o main.o c/main.c"},
	{"dd, 10,000 blocks", "dd", ":", "dd if=/dev/zero of=/dev/null bs=512 count=10000 2>/dev/null"},
	{"tar cf", "tar", "rm -f out.tar", "tar cf out.tar repo"},
	{"go build", "go", `echo "package main; func main() { println($(date +%s%N)) }" >main.go`, "go build -o prog ."},
	{"redis-benchmark, 10,000 get", "redis-benchmark", `redis-server --port 0 --unixsocket redis.sock --save "" --daemonize yes --pidfile redis.pid >/dev/null; until [ -S redis.sock ]; do sleep 0.1; done`, "redis-benchmark -s redis.sock -t get -n 10000 -q >/dev/null"},
}

// putBenchFiles makes what benchPrograms work on.
func putBenchFiles(dir string) error {
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "repo"), 0o755), os.MkdirAll(filepath.Join(dir, "c"), 0o755)); err != nil {
		return err
	}
	files := map[string]string{
		"go.mod":   "module built\n\ngo 1.21\n",
		"c/main.c": "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { return puts(\"x\") < 0; }\n",
	}
	for i := range 300 {
		files[fmt.Sprintf("repo/%d", i)] = strings.Repeat("line\n", i)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// programs measures benchPrograms. The shell measures a program alone, without the emulated kernel's start.
func (b *bench) programs(ways []way) error {
	dir := filepath.Join(b.dir, "programs")
	if err := putBenchFiles(dir); err != nil {
		return err
	}
	for _, p := range benchPrograms {
		if _, err := exec.LookPath(p.needs); err != nil {
			b.note("without %s: %v", p.name, err)
			continue
		}
		var ts []timed
		for _, w := range ways {
			script := p.prepare + "\nfrom=$(date +%s%N)\n" + p.command + "\nto=$(date +%s%N)\n[ ! -e redis.pid ] || { kill $(cat redis.pid); rm -f redis.pid redis.sock; }\necho $((to - from))"
			ts = append(ts, timed{w.name, func() (float64, error) {
				cmd := w.command("sh", "-ec", script)
				cmd.Dir = dir
				ns, err := printed(cmd)
				return ns / 1e6, err
			}})
		}
		ms, err := b.medians(ts)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.rowsOf(p.name, "ms", ways, ms)
	}
	return nil
}

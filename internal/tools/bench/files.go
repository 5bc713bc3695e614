package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/integration"
)

func cpusHere() int { return min(runtime.NumCPU(), 8) }

// mounted is a process that serves a tree in a private mount namespace.
type mounted struct {
	name string
	root string // path of the tree in this namespace
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	took time.Duration // from the start of the process until its files exist
}

// enabled returns the path of the file that all trees have.
func (m *mounted) enabled() string { return filepath.Join(m.root, "kprobes/enabled") }

// start starts a server and waits until its tree is mounted.
func (b *bench) start(name string, args ...string) (*mounted, error) {
	dir, err := os.MkdirTemp(b.dir, "mnt")
	if err != nil {
		return nil, err
	}
	for i, a := range args {
		if a == "DIR" {
			args[i] = dir
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), childVar+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m := &mounted{name: name, cmd: cmd, in: in, out: bufio.NewScanner(out), root: fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, dir)}
	for time.Since(begin) < 20*time.Second {
		if _, err := os.Stat(m.enabled()); err == nil {
			m.took = time.Since(begin)
			return m, nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	m.stop()
	return nil, fmt.Errorf("%s does not mount: %w", name, syscall.ETIMEDOUT)
}

// stop ends the server, and with its namespace the mount.
func (m *mounted) stop() {
	_ = m.in.Close()
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(5*time.Second, func() { _ = m.cmd.Process.Kill() })
	defer timer.Stop()
	_ = m.cmd.Wait()
}

// ask sends a command to a server and returns its answer.
func (m *mounted) ask(command string) (string, error) {
	if _, err := fmt.Fprintln(m.in, command); err != nil {
		return "", err
	}
	if !m.out.Scan() {
		return "", errors.Join(io.ErrUnexpectedEOF, m.out.Err())
	}
	if text, bad := strings.CutPrefix(m.out.Text(), "error: "); bad {
		return "", errors.New(text)
	}
	return m.out.Text(), nil
}

// files compares operations on kprobes/enabled with those on files of minimal file
// systems.
func files(b *bench) error {
	program, err := integration.Build(context.Background(), b.dir)
	if err != nil {
		return err
	}
	servers := [][]string{{"kprobefs", program, "mount", "DIR"}, {"go-fuse", "/proc/self/exe", "DIR"}}
	if c := b.compile("libfuse", "internal/tools/bench/testdata/libfuse.c", "-lfuse3", "-I/usr/include/fuse3"); c != "" {
		servers = append(servers, []string{"libfuse", c, "DIR"})
	}
	targets := map[string]string{"proc": "/proc/sys/kernel/ostype"}
	writable := map[string]string{"proc": "/proc/self/coredump_filter"}
	order := []string{}
	for _, s := range servers {
		m, err := b.start(s[0], s[1:]...)
		if err != nil {
			return err
		}
		defer m.stop()
		targets[m.name], writable[m.name] = m.enabled(), m.enabled()
		order = append(order, m.name)
	}
	order = append(order, "proc")
	for _, op := range []struct {
		name  string
		paths map[string]string
		run   func(path string, n int) error
	}{{"open+read+close", targets, openReadClose}, {"pread", targets, preads}, {"pwrite", writable, pwrites}} {
		for _, row := range []struct {
			name string
			run  func(path string, n int) error
		}{{op.name, op.run}, {fmt.Sprintf("%s, %d clients", op.name, clients), atOnce(op.run)}} {
			if err := b.fileRow(row.name, order, op.paths, row.run); err != nil {
				return err
			}
		}
	}
	return nil
}

// clients is how many use a file at once.
const clients = 16

// atOnce has run's n operations made by that many goroutines, each with its own open file.
func atOnce(run func(path string, n int) error) func(path string, n int) error {
	return func(path string, n int) error {
		errs := make([]error, clients)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = run(path, n*(i+1)/clients-n*i/clients) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
}

func (b *bench) fileRow(name string, order []string, paths map[string]string, run func(string, int) error) error {
	const n = 1000
	var ts []timed
	for _, who := range order {
		ts = append(ts, timed{who, func() (float64, error) {
			start := time.Now()
			err := run(paths[who], n)
			return float64(time.Since(start).Microseconds()) / n, err
		}})
	}
	got, err := b.medians(ts)
	if err != nil {
		return err
	}
	row := Row{Section: "files", Name: name, Unit: "us", Value: got["kprobefs"], Beside: got}
	delete(got, "kprobefs")
	b.add(row)
	return nil
}

func openReadClose(path string, n int) error {
	var buf [64]byte
	for range n {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Read(fd, buf[:])
		if err := errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
	}
	return nil
}

func preads(path string, n int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var buf [64]byte
	for range n {
		if _, err := unix.Pread(fd, buf[:], 0); err != nil {
			return err
		}
	}
	return nil
}

func pwrites(path string, n int) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for range n {
		if _, err := unix.Pwrite(fd, []byte("1"), 0); err != nil {
			return err
		}
	}
	return nil
}

// manyProbes is the number of probes in the section "many".
const manyProbes = 10_000

// many measures operations with 10,000 registered probes.
func many(b *bench) error {
	m, err := b.start("system", "/proc/self/exe", "DIR")
	if err != nil {
		return err
	}
	defer m.stop()
	ns, err := m.ask("register " + strconv.Itoa(manyProbes))
	if err != nil {
		return err
	}
	each, err := strconv.ParseFloat(ns, 64)
	if err != nil {
		return err
	}
	knob := filepath.Join(m.root, "sys/debug/kprobes-optimization")
	if _, err := m.ask("wait"); err != nil {
		return err
	}
	got, err := b.medians([]timed{
		{"cat list", func() (float64, error) { return ms(func() error { return catList(m) }) }},
		{"cat list again", func() (float64, error) { return ms(func() error { return catList(m) }) }},
		{"enabled 0", func() (float64, error) { return ms(func() error { return put(m.enabled(), "0") }) }},
		{"enabled 1", func() (float64, error) { return ms(func() error { return put(m.enabled(), "1") }) }},
		{"until optimized again", func() (float64, error) { return ms(func() error { _, err := m.ask("wait"); return err }) }},
		{"optimization 0", func() (float64, error) { return ms(func() error { return put(knob, "0") }) }},
		{"optimization 1", func() (float64, error) { return ms(func() error { return put(knob, "1") }) }},
		{"until all jumps are written", func() (float64, error) { return ms(func() error { _, err := m.ask("wait"); return err }) }},
	})
	if err != nil {
		return err
	}
	linux := map[string]float64{"register": 4600, "enabled 0": 1200, "enabled 1": 1200, "optimization 1": 300, "optimization 0": 810, "cat list": 26, "cat list again": 26}
	b.add(Row{Section: "10,000 probes", Name: "register, each", Unit: "us", Value: each / 1000, Beside: map[string]float64{"Linux in QEMU": linux["register"]}})
	for _, name := range []string{"cat list", "cat list again", "enabled 0", "enabled 1", "until optimized again", "optimization 0", "optimization 1", "until all jumps are written"} {
		r := Row{Section: "10,000 probes", Name: name, Unit: "ms", Value: got[name]}
		if l, ok := linux[name]; ok {
			r.Beside = map[string]float64{"Linux in QEMU": l}
		}
		b.add(r)
	}
	return nil
}

func ms(f func() error) (float64, error) {
	start := time.Now()
	err := f()
	return float64(time.Since(start).Microseconds()) / 1000, err
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0) }

// catList reads kprobes/list as cat does.
func catList(m *mounted) error {
	f, err := os.Open(filepath.Join(m.root, "kprobes/list"))
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 128<<10)
	n, lines := 1, 0
	for n > 0 && err == nil {
		n, err = f.Read(buf)
		for _, c := range buf[:n] {
			if c == '\n' {
				lines++
			}
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if lines < manyProbes {
		return fmt.Errorf("%d lines for %d probes: %w", lines, manyProbes, syscall.EIO)
	}
	return nil
}

// size measures what the program needs at start.
func size(b *bench) error {
	program, err := integration.Build(context.Background(), b.dir)
	if err != nil {
		return err
	}
	var ready, resident []float64
	for range b.rounds {
		m, err := b.start("kprobefs", program, "mount", "DIR")
		if err != nil {
			return err
		}
		kib, err := residentKiB(m.cmd.Process.Pid)
		ready = append(ready, float64(m.took.Microseconds())/1000)
		resident = append(resident, kib/1024)
		m.stop()
		if err != nil {
			return err
		}
	}
	b.add(Row{Section: "size", Name: "start to mounted", Unit: "ms", Value: medianOf(ready), Beside: map[string]float64{"Linux in QEMU": 5000, "User Mode Linux": 3100}})
	b.add(Row{Section: "size", Name: "resident", Unit: "MiB", Value: medianOf(resident), Beside: map[string]float64{"Linux in QEMU": 235, "User Mode Linux": 42}})
	return b.idle(program)
}

// idle measures the share of a processor that an unused mount uses.
func (b *bench) idle(program string) error {
	m, err := b.start("kprobefs", program, "mount", "DIR")
	if err != nil {
		return err
	}
	defer m.stop()
	time.Sleep(time.Second)
	const watch = 5 * time.Second
	before, err := ticksOf(m.cmd.Process.Pid)
	if err != nil {
		return err
	}
	time.Sleep(watch)
	after, err := ticksOf(m.cmd.Process.Pid)
	b.add(Row{Section: "size", Name: "idle", Unit: "% of a CPU", Value: float64(after-before) / float64(watch.Nanoseconds()) * 100})
	return err
}

// residentKiB returns VmRSS, the memory of a process that is in RAM.
func residentKiB(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	var kib float64
	_, err = fmt.Sscan(after, &kib)
	return kib, err
}

// ticksOf returns the processor time of a process in nanoseconds, from schedstat.
func ticksOf(pid int) (sum int64, err error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(text), &ns); err == nil {
			sum += ns
		}
	}
	return sum, nil
}

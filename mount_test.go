package kprobefs_test

import (
	"bufio"
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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/kprobes"
)

// serveVar makes this binary the daemon, in another process and mount namespace.
// Tests access that namespace through /proc/PID/root.
const serveVar = "KPROBEFS_TEST_SERVE"

// watchVar makes the daemon mirror processes' activity in the guest.
const watchVar = "KPROBEFS_TEST_WATCH"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVar); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve mounts a kernel's tree at dir and executes commands from stdin until its end.
func serve(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	if os.Getenv(watchVar) != "" {
		a := activity.New(activity.Config{Machine: s.Machine, Probes: s.Kprobes, Tracer: s.Tracer, Loaded: s.Modules.List, Sites: s.Machine.Sites()}, activity.Options{})
		a.Start()
		defer a.Close()
	}
	tree := fs.New(s.Machine.Host(), nil)
	mnt, err := tree.Mount(&seqfile.Row{Name: "/", Mode: 0o755, Dir: s.Tree(), Kind: seqfile.Ours, At: "/"}, dir, fs.MountOptions{})
	if err != nil {
		return err
	}
	defer mnt.End(time.Second)
	return obey(s)
}

// obey executes commands, one per line, and answers each with a line.
func obey(s *kprobefs.Kernel) error {
	commands := map[string]func(string) error{
		"":     func(string) error { return nil },
		"fail": func(place string) error { return failCalls(s, place) },
	}
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		name, arg, _ := strings.Cut(in.Text(), " ")
		fmt.Println(commands[name](arg))
	}
	return nil
}

// failCalls makes the function at place (SYMBOL, or SYMBOL+OFFSET before the stack
// pointer changes) return -EIO as fault injection does on Linux: a probe sets the
// result and continues at just_return_func.
func failCalls(s *kprobefs.Kernel, place string) error {
	name, off, _ := strings.Cut(place, "+")
	offset, _ := strconv.ParseUint(off, 0, 32)
	ret := s.Machine.Symbols().LookupName("just_return_func")
	if len(ret) == 0 {
		return errors.New("no just_return_func in the guest")
	}
	return s.Kprobes.Register(&kprobes.Kprobe{
		SymbolName: name, Offset: uint32(offset),
		PreHandler: func(h *kprobes.Hit) int {
			eio := int64(syscall.EIO)
			h.Regs.AX, h.Regs.IP = uint64(-eio), ret[0].Addr
			return 1
		},
		PostHandler: func(*kprobes.Hit, uint64) {}, // prevents optimization: an optimized probe ignores the new IP
	})
}

// daemon is a kernel that is mounted by another process.
type daemon struct {
	t   *testing.T
	dir string // the mount, as seen from here
	in  io.Writer
	out *bufio.Scanner
}

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	return startDaemonIn(t, 0)
}

// startDaemonIn starts it in further private namespaces, CLONE_NEW*.
func startDaemonIn(t *testing.T, namespaces uintptr, env ...string) *daemon {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Geteuid() != 0 {
		t.Skip("needs root and /dev/fuse")
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), serveVar+"="+dir), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | namespaces, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("no private mount namespace: ", err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error("the daemon ended with", err)
		}
	})
	d := &daemon{t: t, dir: fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, dir), in: in, out: bufio.NewScanner(out)}
	if got := d.answer(); got != "ready" {
		t.Fatalf("the daemon said %q", got)
	}
	return d
}

func (d *daemon) answer() string {
	d.t.Helper()
	if !d.out.Scan() {
		d.t.Fatal("the daemon has ended")
	}
	return d.out.Text()
}

// do has the daemon execute a command.
func (d *daemon) do(command string) {
	d.t.Helper()
	fmt.Fprintln(d.in, command)
	if got := d.answer(); got != "<nil>" {
		d.t.Fatalf("%s: %s", command, got)
	}
}

func (d *daemon) path(name string) string { return filepath.Join(d.dir, name) }

// TestProbeFailsRead shows that reads go through the guest's vfs_read: with a probe
// that makes vfs_read return -EIO, read(2) fails with EIO and the file's code is not
// called.
func TestProbeFailsRead(t *testing.T) {
	for _, place := range []string{"vfs_read", "vfs_read+5"} {
		t.Run(place, func(t *testing.T) {
			d := startDaemon(t)
			f, err := os.Open(d.path("kprobes/enabled"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := make([]byte, 4)
			if n, err := f.Read(b); err != nil || string(b[:n]) != "1\n" {
				t.Fatalf("before the probe read gave %q, %v", b[:n], err)
			}
			d.do("fail " + place)
			if n, err := f.ReadAt(b, 0); !errors.Is(err, syscall.EIO) {
				t.Errorf("read gave %d, %v, want EIO", n, err)
			}
			if err := os.WriteFile(d.path("kprobes/enabled"), []byte("0"), 0); err != nil {
				t.Fatal(err)
			}
			if n, err := f.ReadAt(b, 0); err != nil && err != io.EOF || string(b[:n]) != "0\n" {
				t.Errorf("with kprobes off read gave %q, %v", b[:n], err)
			}
		})
	}
}

// TestProbeFailsOpenAndWrite does the same for open(2) and write(2).
func TestProbeFailsOpenAndWrite(t *testing.T) {
	d := startDaemon(t)
	f, err := os.OpenFile(d.path("kprobes/enabled"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d.do("fail vfs_write")
	if _, err := f.Write([]byte("0")); !errors.Is(err, syscall.EIO) {
		t.Errorf("write gave %v, want EIO", err)
	}
	b := make([]byte, 4)
	if n, _ := f.ReadAt(b, 0); string(b[:n]) != "1\n" {
		t.Errorf("the write that failed had an effect: %q", b[:n])
	}
	d.do("fail do_sys_openat2")
	if _, err := os.Open(d.path("kprobes/list")); !errors.Is(err, syscall.EIO) {
		t.Errorf("open gave %v, want EIO", err)
	}
}

// TestParallelClients reads and writes from many threads. Each result must be one of
// the file's possible contents.
func TestParallelClients(t *testing.T) {
	d := startDaemon(t)
	stop := time.Now().Add(2 * time.Second)
	var wg sync.WaitGroup
	var reads atomic.Int64
	for i := range 8 {
		wg.Go(func() {
			for time.Now().Before(stop) {
				if i == 0 {
					_ = os.WriteFile(d.path("kprobes/enabled"), []byte{'0' + byte(reads.Load()&1)}, 0)
				}
				b, err := os.ReadFile(d.path("kprobes/enabled"))
				if err != nil || string(b) != "0\n" && string(b) != "1\n" {
					t.Errorf("read %q, %v", b, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d reads", reads.Load())
}

// TestNoConnector: without the proc connector and without a supervisor, forks
// and exits of the host's processes are not seen in the guest.
func TestNoConnector(t *testing.T) {
	d := startDaemonIn(t, syscall.CLONE_NEWNET, watchVar+"=1") // in a network namespace the connector is refused
	definitions := "p:fork kernel_clone\np:leave do_exit\np:read vfs_read\n"
	if err := os.WriteFile(d.path("tracing/kprobe_events"), []byte(definitions), 0); err != nil {
		t.Fatal(err)
	}
	enable := d.path("tracing/events/kprobes/enable")
	if err := os.WriteFile(enable, []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(enable); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(enable, []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(d.path("tracing/trace"))
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	for line := range strings.Lines(string(trace)) {
		switch {
		case strings.Contains(line, ": fork: "), strings.Contains(line, ": leave: "):
			t.Errorf("this was not reported to the daemon: %s", line)
		case strings.Contains(line, ": read: "):
			reads++
		}
	}
	if reads == 0 {
		t.Error("no read was seen")
	}
}

// TestFollowsAffinity: the calls of a thread that is bound to one CPU are executed on
// the vCPU of that number.
func TestFollowsAffinity(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || !all.IsSet(0) || !all.IsSet(1) {
		t.Skip("needs the CPUs 0 and 1")
	}
	d := startDaemon(t)
	if err := os.WriteFile(d.path("tracing/kprobe_events"), []byte("p:read vfs_read"), 0); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	for _, cpu := range []int{1, 0, 1} {
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(d.path("kprobes/enabled"), unix.O_RDONLY, 0) // not through os.File, whose poller uses other threads
		if err != nil {
			t.Fatal(err)
		}
		enable := d.path("tracing/events/kprobes/enable")
		if err := os.WriteFile(enable, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond) // so that the task sleeps, and is woken on an allowed vCPU
		for range 10 {
			if _, err := unix.Pread(fd, make([]byte, 8), 0); err != nil {
				t.Fatal(err)
			}
		}
		_ = unix.Close(fd)
		if err := os.WriteFile(enable, []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		trace, err := os.ReadFile(d.path("tracing/trace"))
		if err != nil {
			t.Fatal(err)
		}
		here := strings.Count(string(trace), fmt.Sprintf("[%03d]", cpu))
		if elsewhere := strings.Count(string(trace), ": read: ") - here; here != 10 || elsewhere != 0 {
			t.Errorf("%d hits on vCPU %d and %d elsewhere, want 10 and none", here, cpu, elsewhere)
		}
		if err := os.WriteFile(d.path("tracing/trace"), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
}

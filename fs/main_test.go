package fs

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/procfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/testns"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/sysctl"
	"github.com/kprobefs/kprobefs/sysctl/sysctltest"
)

// The tests run in a private mount namespace, and the daemon in a separate process,
// since a process that serves a mount must not wait for it. Both are this binary; an
// environment variable tells which.
const (
	roleVar   = "KPROBEFS_TEST_ROLE"
	roleServe = "serve"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVar) == roleServe {
		serveFake(os.Args[1:]...)
		return
	}
	os.Exit(testns.Main(m.Run))
}

// fake is a tree with one file of each kind.
type fake struct {
	mu      sync.Mutex
	enabled bool
	opt     bool
	events  []string
	trunc   int
	lines   chan string
	closed  int
}

func newFake() *fake {
	return &fake{enabled: true, opt: true, lines: make(chan string)}
}

func (s *fake) list(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
	if i >= 64 {
		return b, false, nil
	}
	return fmt.Appendf(b, "ffffffff81%06x  k  symbol_%d+0x0    [FTRACE]\n", i*64, i), true, nil
}

func (s *fake) setEnabled(_ context.Context, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(p) > 0 && p[0] == '1':
		s.enabled = true
	case len(p) > 0 && p[0] == '0':
		s.enabled = false
	default:
		return 0, fmt.Errorf("not a bool: %w", syscall.EINVAL)
	}
	return len(p), nil
}

// sysctls is a kernel whose debug.kprobes-optimization the test has.
type sysctls struct {
	sysctltest.Kernel
	s *fake
}

func (s *sysctls) Optimization() bool      { return s.s.optimization() }
func (s *sysctls) SetOptimization(on bool) { s.s.setOptimization(on) }

func (s *fake) optimization() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt
}

func (s *fake) setOptimization(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt = on
}

func (s *fake) setEvents(_ context.Context, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, strings.Fields(string(p))...)
	return len(p), nil
}

func (s *fake) eventRows() []*seqfile.Row {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []*seqfile.Row
	for i, e := range s.events {
		rows = append(rows, &seqfile.Row{Name: e, Mode: 0o750, Gen: uint64(i), Dir: seqfile.Table{
			{Name: "id", Mode: 0o440, Open: seqfile.OpenSingle(func() (string, error) { return fmt.Sprintf("%d\n", i), nil })},
		}})
	}
	return rows
}

// waiting is a file whose reads wait for a line.
type waiting struct{ s *fake }

func (w waiting) Read(ctx context.Context, p []byte, _ int64) (int, error) {
	select {
	case l := <-w.s.lines:
		return copy(p, l), nil
	case <-ctx.Done():
		return 0, syscall.EINTR
	}
}

func (w waiting) Write(_ context.Context, p []byte, _ int64) (int, error) {
	w.s.lines <- string(p)
	return len(p), nil
}

func (waiting) Release() {}

// silent is waiting, but does not say that it waits.
type silent struct{ waiting }

func (f silent) Read(_ context.Context, p []byte, _ int64) (int, error) {
	return copy(p, <-f.s.lines), nil
}

// slow is a file whose close takes long.
type slow struct{ s *fake }

func (f slow) Read(_ context.Context, p []byte, off int64) (int, error) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	if off > 0 {
		return 0, nil
	}
	return copy(p, fmt.Sprint(f.s.closed)), nil
}

func (slow) Write(_ context.Context, p []byte, _ int64) (int, error) { return len(p), nil }

func (f slow) Release() {
	time.Sleep(50 * time.Millisecond)
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.closed++
}

// failing is a file whose read and close fail.
type failing struct{ read, flush error }

func (f failing) Read(context.Context, []byte, int64) (int, error)  { return 0, f.read }
func (f failing) Write(context.Context, []byte, int64) (int, error) { return 0, f.read }
func (f failing) Flush(context.Context) error                       { return f.flush }
func (failing) Release()                                            {}

func (s *fake) root() *seqfile.Row {
	enabled := seqfile.Bool(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.enabled
	}, s.setEnabled)
	enabled.KeepPos = true
	events := seqfile.Value{
		Get: func(context.Context) (string, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return fmt.Sprintln(s.trunc, s.events), nil
		},
		Set: s.setEvents,
	}
	return &seqfile.Row{Mode: 0o755, Kind: seqfile.Ours, Dir: seqfile.Table{
		{Name: "kprobes", Mode: 0o755, Kind: seqfile.Debugfs, At: "/sys/kernel/debug/kprobes", Dir: seqfile.Table{
			{Name: "list", Mode: 0o400, Open: seqfile.OpenSeq(s.list)},
			{Name: "enabled", Mode: 0o600, FOps: abi.FOpsDebugBool, Open: seqfile.Opens(enabled)},
			{Name: "blacklist", Mode: 0o400, Open: seqfile.OpenSeq(s.list)},
		}},
		{Name: "tracing", Mode: 0o700, Kind: seqfile.Tracefs, Dir: seqfile.Table{
			{Name: "kprobe_events", Mode: 0o640, Open: func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
				if o.Truncates() {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.events = nil
					s.trunc++
				}
				return events, nil
			}},
			{Name: "trace_pipe", Mode: 0o644, Open: seqfile.Opens(waiting{s})},
			{Name: "silent", Mode: 0o644, Open: seqfile.Opens(silent{waiting{s}})},
			{Name: "slow", Mode: 0o644, Open: seqfile.Opens(slow{s})},
			{Name: "lines", Mode: 0o644, Open: seqfile.Opens(newLines())},
			{Name: "events", Mode: 0o750, Dir: seqfile.DirFunc(s.eventRows)},
		}},
		procfs.Sys(sysctl.New(sysctl.Config{Kernel: &sysctls{s: s}})),
		{Name: "fail", Mode: 0o755, Dir: seqfile.Table{
			{Name: "enotsupp", Mode: 0o644, Open: seqfile.Opens(failing{read: fmt.Errorf("x: %w", syscall.Errno(abi.ENOTSUPP))})},
			{Name: "none", Mode: 0o644, Open: seqfile.Opens(failing{read: io.ErrUnexpectedEOF})},
			{Name: "flush", Mode: 0o644, Open: seqfile.Opens(failing{flush: syscall.ENOEXEC})},
			{Name: "open", Mode: 0o644, Open: func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
				return nil, fmt.Errorf("x: %w", syscall.EBUSY)
			}},
		}},
	}}
}

// serveFake serves a fake, mounted at dirs.
func serveFake(dirs ...string) {
	tree, root := New(nil, nil), newFake().root()
	var m *Mount
	for _, dir := range dirs {
		var err error
		if m, err = tree.Mount(root, dir, MountOptions{}); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGTERM)
	fmt.Println("ready")
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(gone)
	}()
	select {
	case <-sig:
	case <-gone:
	case <-m.Done():
	}
	m.End(500 * time.Millisecond)
	os.Exit(0)
}

// daemon is a process that serves a fake.
type daemon struct {
	dir string
	cmd *exec.Cmd
}

// start starts a daemon, mounted at a new directory or at those given.
func start(t *testing.T, dir ...string) *daemon {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("no /dev/fuse")
	}
	if len(dir) == 0 {
		dir = []string{t.TempDir()}
	}
	d := &daemon{dir: dir[0]}
	d.cmd = exec.Command("/proc/self/exe", dir...)
	d.cmd.Env = append(os.Environ(), roleVar+"="+roleServe)
	d.cmd.Stderr = os.Stderr
	if _, err := d.cmd.StdinPipe(); err != nil { // so that it ends with this process
		t.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_, _ = d.cmd.Process.Wait()
		for _, place := range dir {
			_ = unix.Unmount(place, unix.MNT_DETACH)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		t.Fatalf("daemon: %q, %v", line, err)
	}
	return d
}

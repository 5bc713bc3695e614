package machinefs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kprobes"
)

// fakeDebugger is a machine with two vCPUs, the second of which is in fn. It comes to a breakpoint when it goes
// on, if there is one.
type fakeDebugger struct {
	stop    kernel.Stop
	stopped bool
	breaks  map[string][]uint64
	steps   []int // by which vCPU
	changed chan struct{}
}

func (*fakeDebugger) CPUs() int { return 2 }
func (d *fakeDebugger) Interrupt() {
	d.stop, d.stopped = kernel.Stop{Why: kernel.StopRequested}, true
}

func (d *fakeDebugger) Continue() {
	d.stopped = false
	for _, addrs := range d.breaks {
		d.stop, d.stopped = kernel.Stop{CPU: 1, Why: kernel.StopBreakpoint, Addr: addrs[0]}, true
	}
}

func (d *fakeDebugger) Step(cpu int, _ bool) (kernel.Stop, error) {
	if !d.stopped {
		return kernel.Stop{}, kernel.ErrRunning
	}
	d.steps = append(d.steps, cpu)
	d.stop = kernel.Stop{CPU: cpu, Why: kernel.StopStepped}
	return d.stop, nil
}

func (d *fakeDebugger) Stopped() (kernel.Stop, bool) { return d.stop, d.stopped }
func (d *fakeDebugger) Changed() <-chan struct{}     { return d.changed }

func (d *fakeDebugger) State(cpu int) (s kernel.CPUState, err error) {
	if !d.stopped {
		return s, kernel.ErrRunning
	}
	s.Started, s.Idle, s.Comm = true, cpu == 0, "swapper"
	if cpu == 1 {
		s.RIP, s.PID, s.Comm = base+5, 12, "cat"
	}
	return s, nil
}

func (d *fakeDebugger) Breakpoints(user string, addrs []uint64) {
	if delete(d.breaks, user); len(addrs) > 0 {
		d.breaks[user] = addrs
	}
}

func withDebugger(c Config) (Config, *fakeDebugger) {
	d := &fakeDebugger{breaks: map[string][]uint64{}, changed: make(chan struct{})}
	c.Debugger = d
	return c, d
}

func TestRun(t *testing.T) {
	c, d := withDebugger(testConfig())
	f := open(t, c, "run")
	write := func(text string) error {
		n, err := f.Write(context.Background(), []byte(text), 0)
		if err == nil && n != len(text) {
			t.Errorf("%q: %d bytes", text, n)
		}
		return err
	}
	if got := read(t, f); got != "running\n" {
		t.Error(got)
	}
	for text, want := range map[string]syscall.Errno{"step": syscall.EBUSY, "": syscall.EINVAL, "stop now": syscall.EINVAL, "step -1": syscall.EINVAL, "step 1048577": syscall.EINVAL, "cpu 2": syscall.EINVAL} {
		if err := write(text); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"stop\n", " step 3 \n", "cpu 0", "step"} {
		if err := write(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if fmt.Sprint(d.steps) != "[1 1 1 0]" { // the first that does not idle, then the chosen one
		t.Error(d.steps)
	}
	if err := write("hit"); err != nil || len(d.breaks) != 0 || d.stop.Addr != base+5 {
		t.Error(err, d.breaks, d.stop)
	}
	want := "stopped at a breakpoint, cpu 1\ncpu 0 idle at 0x0, task swapper/0: push %rbp\ncpu 1 at fn+0x5, task cat/12: push %rbp\n"
	read0 := c.Read
	c.Read = func(addr uint64, p []byte) error { return read0(base+5, p) }
	if got := read(t, open(t, c, "run")); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
	c.ShowAddr = func(*seqfile.Caller) bool { return false }
	if got := read(t, open(t, c, "run")); strings.Contains(got, "0x0,") || !strings.Contains(got, "an address without a name") {
		t.Errorf("addresses are shown: %q", got)
	}
	if err := write("go"); err != nil || d.stopped {
		t.Error(err)
	}
}

// TestHitWaits: hit waits until the machine stops, and not after the end of its caller.
func TestHitWaits(t *testing.T) {
	c, d := withDebugger(testConfig())
	points := c.Points()
	points[0].Armed = false
	c.Points = func() []kprobes.PointInfo { return points }
	f := open(t, c, "run")
	if _, err := f.Write(context.Background(), []byte("hit"), 0); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("without an armed probe: %v", err)
	}
	points[0].Armed = true
	d2 := &neverStops{d}
	c.Debugger = d2
	f = open(t, c, "run")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Write(ctx, []byte("hit"), 0); !errors.Is(err, syscall.EINTR) || len(d.breaks) != 0 {
		t.Errorf("%v, breakpoints %v", err, d.breaks)
	}
	c.Points = func() []kprobes.PointInfo { select {} } // somebody waits for the machine with the probes' lock
	f = open(t, c, "run")
	if _, err := f.Write(context.Background(), []byte("hit"), 0); !errors.Is(err, syscall.EBUSY) {
		t.Error(err)
	}
	d.stopped = true
	if got := read(t, f); !strings.HasPrefix(got, "stopped") {
		t.Error(got)
	}
}

// neverStops is a machine in which nothing is hit.
type neverStops struct{ *fakeDebugger }

func (d *neverStops) Continue() { d.stopped = false }

// FuzzRun: a text written to machine/run is a command or fails with an errno.
func FuzzRun(f *testing.F) {
	for _, s := range []string{"stop", "go", "step", "step 3", "cpu 1", "hit", "step 0x10", "step 99999999999999999999", "\x00", "cpu -1", "stop stop"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, d := withDebugger(testConfig())
		d.Interrupt()
		_, err := open(t, c, "run").Write(context.Background(), []byte(text), 0)
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Errorf("%q: an error without errno: %v", text, err)
		}
		if len(d.steps) > maxSteps || len(d.breaks) != 0 {
			t.Errorf("%q: %d steps, breakpoints %v", text, len(d.steps), d.breaks)
		}
	})
}

// TestImage: machine/vmlinux is the image.
func TestImage(t *testing.T) {
	c := testConfig()
	c.Image = []byte("an ELF file")
	f := open(t, c, "vmlinux")
	if got := read(t, f); got != "an ELF file" {
		t.Errorf("%q", got)
	}
	p := make([]byte, 4)
	if n, err := f.Read(context.Background(), p, 7); n != 4 || err != nil || string(p) != "file" {
		t.Errorf("%q, %d, %v", p, n, err)
	}
	if n, err := f.Read(context.Background(), p, 11); n != 0 || err != nil {
		t.Errorf("at the end %d, %v", n, err)
	}
	if _, err := f.Write(context.Background(), p, 0); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
	s := f.(seqfile.Seeker)
	for _, c := range []struct {
		off, want int64
		whence    int
	}{{0, 0, seqfile.SeekData}, {10, 10, seqfile.SeekData}, {0, 11, seqfile.SeekHole}, {-1, 10, seqfile.SeekEnd}} {
		if got, err := s.Seek(c.off, c.whence); got != c.want || err != nil {
			t.Errorf("Seek(%d, %d): %d, %v", c.off, c.whence, got, err)
		}
	}
	if _, err := s.Seek(11, seqfile.SeekData); !errors.Is(err, syscall.ENXIO) {
		t.Error(err)
	}
}

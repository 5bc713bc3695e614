package machinefs

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Debugger stops the machine: *kernel.Debugger.
type Debugger interface {
	CPUs() int
	Interrupt()
	Continue()
	Step(cpu int, others bool) (kernel.Stop, error)
	Stopped() (kernel.Stop, bool)
	Changed() <-chan struct{}
	State(cpu int) (kernel.CPUState, error)
	Breakpoints(user string, addrs []uint64)
}

// Timeline takes a deterministic machine back in time. The machine is stopped after that.
type Timeline interface {
	// Back goes back by n instructions.
	Back(ctx context.Context, n uint64) error
	// BackHit goes back to where a vCPU came to an armed probe the last time.
	BackHit(ctx context.Context) error
}

// run is the file machine/run. Calls on it do not go through the guest, so that it works while
// the machine is stopped.
type run struct {
	c    Config
	hits atomic.Uint64 // how often hit has been written
	cpu  atomic.Int64  // the vCPU that step executes, or -1: the one that the last stop is about
}

// maxSteps bounds how many instructions one write executes.
const maxSteps = 1 << 20

// pointsPatience is how long run waits for the list of probes. Who changes probes may have locked it while
// waiting for a vCPU that is stopped; on a busy host, one who is about to unlock it may take tenths of a second.
const pointsPatience = 2 * time.Second

// runFile returns the row of machine/run.
func (c Config) runFile() *seqfile.Row {
	r := &run{c: c}
	r.cpu.Store(-1)
	return &seqfile.Row{
		Name: "run", Mode: 0o600, WithoutGuest: true,
		Open: func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
			opener := o.Cred(seqfile.CapSyslog)
			return seqfile.Value{
				Get: func(ctx context.Context) (text string, err error) {
					shown := make(chan string, 1)
					err = interruptible(ctx, func() error {
						shown <- r.show(ctx, !c.ShowAddr(opener))
						return nil
					})
					if err == nil {
						text = <-shown
					}
					return text, err
				},
				Set: r.write,
			}, nil
		},
	}
}

// write carries out one command.
func (r *run) write(ctx context.Context, p []byte) (int, error) {
	words := strings.Fields(string(p))
	err := interruptible(ctx, func() error { return r.command(ctx, words) })
	return len(p), err
}

// endPatience is how long a command has to end by itself when its caller is interrupted.
const endPatience = 50 * time.Millisecond

// interruptible calls f, and does not wait for its end much longer than ctx lasts: a vCPU that is in a handler of a
// probe stops when that has returned.
func interruptible(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(endPatience):
		return fmt.Errorf("the command has not ended yet: %w", syscall.EINTR)
	}
}

func (r *run) command(ctx context.Context, f []string) error {
	d := r.c.Debugger
	switch {
	case len(f) == 1 && f[0] == "stop":
		d.Interrupt()
		return nil
	case len(f) == 1 && f[0] == "go":
		d.Continue()
		return nil
	case len(f) == 1 && f[0] == "hit":
		return r.hit(ctx)
	case len(f) == 1 && f[0] == "step":
		return r.step(ctx, 1)
	case len(f) > 0 && f[0] == "back":
		return r.back(ctx, f[1:])
	case len(f) == 2 && (f[0] == "step" || f[0] == "cpu"):
		n, err := kstrtox.ParseUint(f[1], 0, maxSteps)
		switch {
		case err != nil || n == 0 && f[0] == "step":
			return fmt.Errorf("%q is no number of instructions from 1 to %d, and no number of a vCPU: %w", f[1], maxSteps, syscall.EINVAL)
		case f[0] == "step":
			return r.step(ctx, int(n))
		case int(n) >= d.CPUs():
			return fmt.Errorf("there is no vCPU %d, the machine has %d: %w", n, d.CPUs(), syscall.EINVAL)
		}
		r.cpu.Store(int64(n))
		return nil
	}
	return fmt.Errorf("machine/run takes stop, go, step, step N, back, back N, back hit, hit and cpu N, not %q: %w", strings.Join(f, " "), syscall.EINVAL)
}

// back takes the machine back: by one instruction, by a number of them, or to the last hit.
func (r *run) back(ctx context.Context, f []string) error {
	t := r.c.Timeline
	switch {
	case t == nil:
		return fmt.Errorf("only a machine that was started with --deterministic goes back: %w", syscall.EOPNOTSUPP)
	case len(f) == 0:
		return t.Back(ctx, 1)
	case len(f) == 1 && f[0] == "hit":
		return t.BackHit(ctx)
	case len(f) == 1:
		if n, err := kstrtox.ParseUint(f[0], 0, math.MaxInt64); err == nil && n > 0 {
			return t.Back(ctx, n)
		}
	}
	return fmt.Errorf("back takes hit or a number of instructions from 1 on, not %q: %w", strings.Join(f, " "), syscall.EINVAL)
}

// which returns the vCPU that step executes: the chosen one, or the one that has stopped the machine,
// or after a request the first that does not idle.
func (r *run) which() int {
	if n := r.cpu.Load(); n >= 0 {
		return int(n)
	}
	s, _ := r.c.Debugger.Stopped()
	if s.Why != kernel.StopRequested {
		return s.CPU
	}
	for i := range r.c.Debugger.CPUs() {
		if st, err := r.c.Debugger.State(i); err == nil && st.Started && st.PID != 0 {
			return i
		}
	}
	return 0
}

// step executes n instructions of a vCPU. It ends sooner at a breakpoint and at the end of ctx.
func (r *run) step(ctx context.Context, n int) error {
	cpu := r.which()
	for range n {
		s, err := r.c.Debugger.Step(cpu, false)
		if err != nil {
			return fmt.Errorf("%w; write stop first", err)
		}
		if s.CPU != cpu || s.Why != kernel.StopStepped {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not all steps were made: %w", syscall.EINTR)
		}
	}
	return nil
}

// hit lets the machine run until a vCPU comes to an armed probe, and stops it before the instruction there.
func (r *run) hit(ctx context.Context) error {
	d := r.c.Debugger
	points, err := r.points(ctx)
	if err != nil {
		return err
	}
	var addrs []uint64
	for _, pt := range points {
		if pt.Armed {
			addrs = append(addrs, pt.Addr)
		}
	}
	if len(addrs) == 0 {
		return fmt.Errorf("no probe is armed, so nothing can be hit: %w", syscall.ENOENT)
	}
	user := fmt.Sprintf("hit %d", r.hits.Add(1))
	d.Breakpoints(user, addrs)
	defer d.Breakpoints(user, nil)
	d.Continue()
	for {
		changed := d.Changed()
		if s, stopped := d.Stopped(); stopped {
			if s.Why == kernel.StopPanic {
				return fmt.Errorf("the guest has panicked: %w", syscall.EIO)
			}
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("nothing was hit: %w", syscall.EINTR)
		}
	}
}

// points returns the probed addresses, or EBUSY if they are not to be had soon.
func (r *run) points(ctx context.Context) ([]kprobes.PointInfo, error) {
	got := make(chan []kprobes.PointInfo, 1)
	go func() { got <- r.c.Points() }()
	late := time.NewTimer(pointsPatience)
	defer late.Stop()
	select {
	case p := <-got:
		return p, nil
	case <-late.C:
	case <-ctx.Done():
	}
	return nil, fmt.Errorf("probes are being changed: %w", syscall.EBUSY)
}

// show describes the state of the machine, and for each vCPU of a stopped one its next instruction.
func (r *run) show(ctx context.Context, hide bool) string {
	d := r.c.Debugger
	s, stopped := d.Stopped()
	if !stopped {
		return "running\n"
	}
	points, _ := r.points(ctx) // without them slots and detours have no names
	var b strings.Builder
	fmt.Fprintf(&b, "stopped %s, cpu %d\n", s.Why, s.CPU)
	for i := range d.CPUs() {
		st, err := d.State(i)
		if err != nil {
			return "running\n" // since a moment
		}
		fmt.Fprintf(&b, "cpu %d ", i)
		switch {
		case !st.Started:
			b.WriteString("not started\n")
			continue
		case st.Idle:
			b.WriteString("idle ")
		}
		fmt.Fprintf(&b, "at %s, task %s/%d: %s\n", r.c.codePlace(st.RIP, points, hide), st.Comm, st.PID, r.c.instructionAt(st.RIP, hide))
	}
	return b.String()
}

// codePlace names an address of code, also in the slots and detours of probes.
func (c Config) codePlace(addr uint64, points []kprobes.PointInfo, hide bool) string {
	for _, pt := range points {
		for _, part := range []struct {
			what string
			addr uint64
			size int
		}{
			{"slot", pt.Slot, pt.Length + 1}, {"boost", pt.Boost, pt.Length + 5}, {"detour", pt.Buffer, pt.BufferLen},
		} {
			if part.addr != 0 && addr >= part.addr && addr-part.addr < uint64(part.size) {
				return fmt.Sprintf("%s+%#x of %s", part.what, addr-part.addr, c.place(pt.Addr))
			}
		}
	}
	if _, _, ok := c.Symbols.Lookup(addr); !ok && hide {
		return "an address without a name"
	}
	return c.place(addr)
}

// instructionAt disassembles the instruction that is at an address now.
func (c Config) instructionAt(addr uint64, hide bool) string {
	code := make([]byte, 15)
	for len(code) > 0 && c.Read(addr, code) != nil { // the end of a page
		code = code[:len(code)-1]
	}
	in, err := x86asm.Decode(code, 64)
	if err != nil {
		return "no instruction"
	}
	l := listing{addr: addr, now: code[:in.Len], was: code[:in.Len], name: c.name, hide: hide}
	if hide {
		l.absolute = absolute(l.was)
	}
	return l.instruction(l.now, 0)
}

// image is the file machine/vmlinux.
type image []byte

var (
	_ seqfile.File   = image(nil)
	_ seqfile.Seeker = image(nil)
)

// Read copies the bytes from off on.
func (b image) Read(_ context.Context, p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, nil
	}
	return copy(p, b[off:]), nil
}

// Seek does the kinds of lseek(2) about the file's end and about holes, which cp(1) looks for: there is none.
func (b image) Seek(off int64, whence int) (int64, error) {
	size := int64(len(b))
	switch {
	case whence == seqfile.SeekEnd:
		return size + off, nil
	case off < 0 || off >= size:
		return 0, fmt.Errorf("nothing at %d, the file has %d bytes: %w", off, size, syscall.ENXIO)
	case whence == seqfile.SeekHole:
		return size, nil
	}
	return off, nil
}

// Write fails with EINVAL.
func (image) Write(context.Context, []byte, int64) (int, error) {
	return 0, fmt.Errorf("machine/vmlinux cannot be changed: %w", syscall.EINVAL)
}

// Release does nothing.
func (image) Release() {}

package timeline

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel"
)

// errStart means that there is nothing before.
var errStart = fmt.Errorf("the machine cannot go back into its boot: %w", syscall.ERANGE)

// ErrNoHit means that no breakpoint was hit before.
var ErrNoHit = fmt.Errorf("nothing was hit before that: %w", syscall.ENOENT)

// look is the number of instructions before a position that are executed one by one, to find the last one before
// it. What a module's handler executes counts, and the machine cannot be stopped inside, so that it may have to be
// another one than the position says.
const look = 512

// moment is when a vCPU, or all of them together (kernel.AllCPUs), have retired a number of instructions.
type moment struct {
	cpu     int
	retired uint64
}

// now returns the present moment, by the instructions of a vCPU or of all.
func (w *world) now(cpu int) moment {
	return moment{cpu, w.kernel.Machine.RetiredBy(cpu)}
}

// stops are what a machine stops at.
type stops struct {
	at      moment // not if it is zero
	breaks  []uint64
	watches []kernel.Watchpoint
}

// Back makes the machine one that is stopped n instructions before the present one, or a little earlier.
func (t *Timeline) Back(ctx context.Context, n uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.earlier(ctx, kernel.AllCPUs, n)
	if err != nil {
		return err
	}
	return t.become(w, false)
}

// BackStep makes the machine one that is stopped before the last instruction that a vCPU has executed, or a little earlier.
// What came after that will come again: when the machine goes on, it plays that first.
func (t *Timeline) BackStep(ctx context.Context, cpu int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, err := t.earlier(ctx, cpu, 1)
	if err != nil {
		return err
	}
	return t.become(w, true)
}

// earlier returns a machine that is stopped n instructions of a vCPU or of all before the present one.
func (t *Timeline) earlier(ctx context.Context, cpu int, n uint64) (*world, error) {
	end := t.now.Load().now(cpu)
	if n >= end.retired {
		return nil, errStart
	}
	to := moment{cpu, end.retired - n}
	w, err := t.reach(ctx, stops{at: to}, 0)
	if err == nil && w.now(cpu).retired >= end.retired {
		w.end()
		w, err = t.before(ctx, to, end)
	}
	return w, err
}

// before returns a machine that is stopped at the last position before end.
func (t *Timeline) before(ctx context.Context, to, end moment) (*world, error) {
	w, err := t.reach(ctx, stops{at: moment{to.cpu, max(to.retired, look) - look}}, 0)
	if err != nil {
		return nil, err
	}
	defer w.end()
	last := w.now(to.cpu)
	for at := last; at.retired < end.retired; at = w.now(to.cpu) {
		last = at
		d := w.kernel.Machine.Debugger()
		cpu := to.cpu
		if cpu == kernel.AllCPUs {
			stop, _ := d.Stopped()
			cpu = stop.CPU
		}
		if s, err := d.Step(cpu, true); err != nil || s.Why == kernel.StopIdle && w.now(to.cpu) == at {
			return nil, errors.Join(err, errStart)
		}
	}
	if last.retired >= end.retired {
		return nil, errStart
	}
	return t.reach(ctx, stops{at: last}, 0)
}

// BackHit makes the machine one that is stopped where a vCPU came to an armed probe the last time.
func (t *Timeline) BackHit(ctx context.Context) error {
	var addrs []uint64
	for _, p := range t.Kernel().Kprobes.Points() {
		if p.Armed {
			addrs = append(addrs, p.Addr)
		}
	}
	if len(addrs) == 0 {
		return fmt.Errorf("no probe is armed, so nothing was hit: %w", syscall.ENOENT)
	}
	return t.BackTo(ctx, addrs)
}

// BackTo makes the machine one that is stopped where a vCPU came to one of the addresses the last time. It fails with
// ErrNoHit if none did.
func (t *Timeline) BackTo(ctx context.Context, addrs []uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, _, err := t.last(ctx, stops{breaks: addrs})
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrNoHit
	}
	w, err := t.reach(ctx, stops{breaks: addrs}, n)
	if err != nil {
		return err
	}
	w.kernel.Machine.Debugger().Breakpoints(user, nil)
	return t.become(w, false)
}

// BackStop makes the machine one that is stopped where a vCPU came to one of the breakpoints the last time, or before the last
// instruction that has accessed watched memory. It fails with ErrNoHit, and the machine stays, if there is none. What came
// after that will come again, as after BackStep.
func (t *Timeline) BackStop(ctx context.Context, breaks []uint64, watches []kernel.Watchpoint) (s kernel.Stop, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, last, err := t.last(ctx, stops{breaks: breaks, watches: watches})
	switch {
	case err != nil:
		return s, err
	case n == 0:
		return s, ErrNoHit
	}
	if last.stop.Why == kernel.StopWatchpoint {
		last.at.retired--
	}
	w, err := t.reach(ctx, stops{at: last.at}, 0)
	if err != nil {
		return s, err
	}
	return last.stop, t.become(w, true)
}

// user is this package's name among those who set breakpoints.
const user = "timeline"

// occurred is a stop and its moment, by the instructions of its vCPU.
type occurred struct {
	stop kernel.Stop
	at   moment
}

// last counts how often a machine comes to stops before the present position, and returns the last one.
func (t *Timeline) last(ctx context.Context, s stops) (n int, last occurred, err error) {
	end := t.Position()
	s.at = moment{kernel.AllCPUs, end}
	w, err := t.start(s)
	if err != nil {
		return 0, last, err
	}
	defer w.end()
	d := w.kernel.Machine.Debugger()
	for {
		stopped, err := w.awaitStop(ctx)
		switch {
		case err != nil:
			return 0, last, err
		case !stopped || w.position() >= end && !w.watched():
			return n, last, nil
		}
		stop, _ := d.Stopped()
		n, last = n+1, occurred{stop, w.now(stop.CPU)}
		d.Continue()
	}
}

// watched reports whether the machine has stopped after an access to watched memory, which was before its position.
func (w *world) watched() bool {
	stop, _ := w.kernel.Machine.Debugger().Stopped()
	return stop.Why == kernel.StopWatchpoint
}

// reach returns a machine to which the journal was played up to a moment or, if n is not 0, to where it stops for the nth
// time.
func (t *Timeline) reach(ctx context.Context, s stops, n int) (*world, error) {
	w, err := t.start(s)
	if err != nil {
		return nil, err
	}
	for {
		stopped, err := w.awaitStop(ctx)
		if err == nil && !stopped {
			err = errors.New("the machine does not come there again")
		}
		if err != nil {
			w.end()
			return nil, err
		}
		if n--; n <= 0 {
			return w, nil
		}
		w.kernel.Machine.Debugger().Continue()
	}
}

// start boots a machine that plays the journal, and stops as s says. It fails if the moment is before the journal's begin.
func (t *Timeline) start(s stops) (*world, error) {
	var early error
	w, err := t.boot(t.whole(), func(m *kernel.Machine) {
		if s.at.retired != 0 && s.at.retired < m.RetiredBy(s.at.cpu) {
			early = errStart
			return
		}
		m.StopAt(s.at.cpu, s.at.retired)
		if len(s.breaks) > 0 {
			m.Debugger().Breakpoints(user, s.breaks)
		}
		if len(s.watches) > 0 {
			m.Debugger().Watchpoints(s.watches)
		}
	})
	if err == nil && early != nil {
		w.end()
		return nil, early
	}
	return w, err
}

func (w *world) position() uint64 { return w.kernel.Machine.Retired() }

// awaitStop waits until the machine has stopped, and returns false if the journal was played without that.
func (w *world) awaitStop(ctx context.Context) (stopped bool, err error) {
	d := w.kernel.Machine.Debugger()
	for {
		changed := d.Changed()
		if _, stopped := d.Stopped(); stopped {
			d.Interrupt() // waits until no vCPU executes an instruction
			return true, nil
		}
		select {
		case <-changed:
		case <-w.seq.Played():
			_, stopped := d.Stopped()
			return stopped, w.seq.Err()
		case <-ctx.Done():
			return false, fmt.Errorf("the way back was not ended: %w", syscall.EINTR)
		}
	}
}

// become has w take the place of the present machine. With again, what w has not played yet comes again before anything else.
func (t *Timeline) become(w *world, again bool) error {
	old := t.now.Swap(w)
	if again {
		w.takeFile(old)
	}
	if t.mount != nil {
		t.mount.Follow(w.seq, again)
	}
	old.end()
	if again {
		return nil
	}
	return t.rewrite()
}

package mirror

import (
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A process whose program began before the first probe was armed, such as the shell that arms it, has
// executed the text that is to be changed. So it must be certain that it does not go on inside of what is
// replaced: it has one thread, which has stopped at the end of a call and can be sent elsewhere, nobody shares
// its memory, and nowhere in its memory is an address inside, as a signal's handler would return to. A text that is
// changed already, since the process or one that has forked it has rung before, is left as it is.

// late is a process that does not ring, and may at the end of a later call.
type late struct {
	calls, next int  // those that have ended, and the one at whose end the process is looked at
	never       bool // it cannot ring
}

// firstLook is how many calls of a new process may end before it is looked at.
const firstLook = 8

// maxLate is how many calls may end before a process is given up that could not be changed so far.
const maxLate = 1 << 12

// maxScan is the largest size in bytes of the memory in which addresses are looked for.
const maxScan = 32 << 20

// maxTracees is up to how many threads are compared with a process, whose memory each of them may share.
const maxTracees = 256

// allCalls are those that can ever be seen, and those that always ring. A process that goes on for long, as a
// shell does, is made to ring for all, whatever is armed now.
var allCalls = func() *doorbell.Set {
	all := *controlCalls
	for nr := range calls.Rows {
		all.Add(nr)
	}
	return &all
}()

// Why a process does not ring now, but may later.
var (
	errShared = errors.New("others share its memory")
	errInside = errors.New("it may go on inside of what is replaced")
	errFew    = errors.New("it rings for other calls than those that can be seen")
)

// errLarge and others of lasting are why a process cannot ring later either.
var errLarge = errors.New("it has too much memory to look through")

var lasting = []error{errLarge, errDisabled, errForeign, errFilters, errNoText, doorbell.ErrText}

// adopt has a process ring from now on whose program does not yet. The thread t has stopped at the end of a
// call. It returns false if t is to go on at once. An errand changes rcx and r11, as a call does, but not
// rt_sigreturn(2): after that the program goes on where a signal came, and needs them.
func (m *Mirror) adopt(t *tracee, info *syscallInfo) bool {
	if m.images[t.pid] != nil || t.covering != nil || t.program || !m.on.Load() || t.letGo || restarts(int64(info.nr)) || t.nr == unix.SYS_RT_SIGRETURN {
		return false
	}
	l := m.lates[t.pid]
	if l == nil {
		l = &late{}
		m.lates[t.pid] = l
	}
	l.calls++
	if l.never || l.calls <= l.next {
		return false
	}
	covering, err := m.lateText(t, info.ip)
	switch {
	case err == nil && covering == nil: // it rings, or the text of a file is being looked at
		return false
	case err == nil:
		covering.image.busy = true
		t.covering = covering
		l.next = max(2*l.calls, firstLook)
		m.makeRoom(t)
		return true
	}
	l.next = max(2*l.calls, firstLook)
	l.never = l.calls > maxLate || slices.ContainsFunc(lasting, func(of error) bool { return errors.Is(err, of) })
	if l.never {
		m.log.WithFields(logrus.Fields{"pid": t.pid, "err": err}).Debug("its calls are stopped at")
	}
	return false
}

// restarts reports whether a call returns such that the kernel makes it again.
func restarts(ret int64) bool { return ret <= errRestart && ret >= errRestartBlock }

// lateText finds the text of a process that is to be changed. It returns nil if there is nothing to do: the
// process rings now, or the text of a file is not known yet.
func (m *Mirror) lateText(t *tracee, ip uint64) (*covering, error) {
	if err := m.mayRing(t); err != nil {
		return nil, err
	}
	alone := m.checkSingle(t)
	i := &image{covered: map[uint64]bool{}, rings: *allCalls}
	todo, made, known, err := m.list(t, i, alone == nil)
	t.text = nil
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, alone
	}
	if todo, err = i.found(memoryOf(t.tid), todo); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(made, func(a mapping) bool { return !slices.Contains(i.rooms, a.Start) }) {
		return nil, errForeign
	}
	if !m.wanted.Within(&i.rings) || !controlCalls.Within(&i.rings) {
		return nil, errFew
	}
	if len(todo) == 0 {
		m.images[t.pid] = i
		return nil, i.set(t.pid, &m.wanted, controlCalls)
	}
	if alone != nil {
		return nil, alone
	}
	c := &covering{image: i, todo: todo, late: true, resume: ip}
	return c, m.scan(t, c)
}

// found finds the rooms of text that has been changed before, and returns the mappings that are left.
func (i *image) found(mem doorbell.Reader, all []mapping) (left []mapping, err error) {
	for _, a := range all {
		room, rings, err := a.text.Found(mem, a.bias)
		switch {
		case err != nil:
			return nil, err
		case room == 0:
			left = append(left, a)
		default:
			i.rooms = append(i.rooms, room)
			i.rings = i.rings.Both(&rings)
		}
	}
	return slices.DeleteFunc(left, func(a mapping) bool { return a.text.Room(&i.rings) == 0 }), nil
}

// checkUndisturbed fails if a process may go on inside of what is to be replaced.
func (m *Mirror) checkUndisturbed(t *tracee, c *covering) error {
	if err := m.checkSingle(t); err != nil {
		return err
	}
	return m.scan(t, c)
}

// inside reports whether an address is inside of what is to be replaced.
func (c *covering) inside(addr uint64) bool {
	for i := range c.todo {
		a := &c.todo[i]
		if addr >= a.Start && addr < a.End {
			return a.text.Inside(a.bias, addr, &c.image.rings)
		}
	}
	return false
}

// checkSingle fails if the process of a thread has another one, or shares its memory with another process.
func (m *Mirror) checkSingle(t *tracee) error {
	if n, ok := proc.Status(t.pid, "Threads"); !ok || n != "1" || len(m.tracees) > maxTracees {
		return errShared
	}
	s, err := proc.ReadStat(t.pid)
	if err != nil {
		return err
	}
	others := []int{s.Parent}
	for _, o := range m.tracees {
		others = append(others, o.pid)
	}
	for _, pid := range others {
		if pid == t.pid {
			continue
		}
		shared, err := hostview.SharesMemory(t.pid, pid)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil || shared {
			return errShared
		}
	}
	return nil
}

// redZone is how many bytes below the end of its stack a program may use. What is below these may be overwritten by a signal at
// any time.
const redZone = 128

// scan fails with errInside if the memory that a process can write has an address inside of what is to be replaced. Below the
// stack of its thread there often is one, which nobody uses any more: the dynamic linker keeps rcx on the stack, and that is where
// the last call has returned to.
func (m *Mirror) scan(t *tracee, c *covering) error {
	stack, err := stackOf(t.tid)
	if err != nil {
		return err
	}
	maps, err := proc.Read(t.pid, "maps")
	if err != nil {
		return err
	}
	low, high := c.todo[0].Start, c.todo[0].End
	for _, a := range c.todo {
		low, high = min(low, a.Start), max(high, a.End)
	}
	left := maxScan
	var b []byte
	used := uint64(0) // what is lower is not used
	look := func(addr uint64, n int) error {
		if left -= n; left < 0 {
			return errLarge
		}
		b = proc.ReadMemory(t.tid, addr, slices.Grow(b[:0], n)[:n])
		if len(b) < n {
			return unix.EFAULT
		}
		for at := int(max(addr, used) - addr); at+8 <= n; at += 8 {
			if v := binary.NativeEndian.Uint64(b[at:]); v >= low && v < high && c.inside(v) {
				return errInside
			}
		}
		return nil
	}
	for line := range strings.Lines(maps) {
		a, ok := proc.ParseMapping(line)
		if !ok || a.Perms[:2] != "rw" {
			continue
		}
		start := a.Start
		if used = 0; a.Path == "[stack]" && stack-redZone > start && stack-redZone < a.End {
			used = (stack - redZone) &^ 7
			start = used &^ (uint64(os.Getpagesize()) - 1)
		}
		if err := m.maps.EachInRAM(t.pid, start, a.End, look); err != nil {
			return err
		}
	}
	return nil
}

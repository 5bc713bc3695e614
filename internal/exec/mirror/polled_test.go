package mirror

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/exectest"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// waiting returns a mirror and a tracee that is this process.
func waiting(t *testing.T) (*Mirror, *tracee) {
	t.Helper()
	m := &Mirror{maps: hostview.PageMaps{Open: map[int]int{}}}
	t.Cleanup(func() { m.maps.Forget(os.Getpid()) })
	return m, &tracee{tid: os.Getpid(), pid: os.Getpid(), space: &mirrorSpace{files: hostview.NewFiles(os.Getpid())}}
}

func testPipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// readyFor returns what is known of a descriptor.
func readyFor(all []host.Polled, fd int) (events uint32, known bool) {
	i := slices.IndexFunc(all, func(p host.Polled) bool { return p.FD == fd })
	if i < 0 {
		return 0, false
	}
	return all[i].Ready, true
}

// TestWaitArray: the descriptors of poll(2) are asked before the call and after it.
func TestWaitArray(t *testing.T) {
	m, tracee := waiting(t)
	r, w := testPipe(t)
	fds := []unix.PollFd{{Fd: int32(r), Events: unix.POLLIN}, {Fd: -1}, {Fd: 12345}, {Fd: int32(r)}}
	row := calls.Rows[unix.SYS_PPOLL]
	c := &host.Mirror{Syscall: host.Syscall{Args: [6]uint64{exectest.AddrOf(t, &fds[0]), uint64(len(fds))}}}
	wait := m.wait(tracee, row, c)
	if got, known := readyFor(c.Polled, r); len(c.Polled) != 1 || !known || got != 0 {
		t.Errorf("an empty pipe: %+v", c.Polled)
	}
	if _, err := unix.Write(w, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if got, _ := readyFor(m.pollResult(tracee, wait, 1), r); got&unix.POLLIN == 0 {
		t.Errorf("a pipe with data: %#x", got)
	}
	if none := m.wait(tracee, calls.Rows[unix.SYS_READ], c); none != nil || m.pollResult(tracee, none, 0) != nil {
		t.Errorf("read(2) waits for %+v", none)
	}
}

// TestWaitSets: the descriptors in the sets of select(2).
func TestWaitSets(t *testing.T) {
	m, tracee := waiting(t)
	r, w := testPipe(t)
	var in, out unix.FdSet
	in.Set(r)
	out.Set(w)
	n := max(r, w) + 1
	at := func(s *unix.FdSet) uint64 { return uint64(uintptr(unsafe.Pointer(s))) }
	c := &host.Mirror{Syscall: host.Syscall{Args: [6]uint64{uint64(n), at(&in), at(&out)}}}
	m.wait(tracee, calls.Rows[unix.SYS_PSELECT6], c)
	if got, known := readyFor(c.Polled, w); len(c.Polled) != 2 || !known || got&unix.POLLOUT == 0 {
		t.Errorf("%+v", c.Polled)
	}
	for _, args := range [][6]uint64{{1 << 40, 8, 8, 8}, {^uint64(0), at(&in), 0, 0}, {0, 0, 0, 0}} {
		m.wait(tracee, calls.Rows[unix.SYS_PSELECT6], &host.Mirror{Syscall: host.Syscall{Args: args}})
	}
}

// TestWaitEpoll: the descriptors of an epoll file, and those of which it has told.
func TestWaitEpoll(t *testing.T) {
	m, tracee := waiting(t)
	r, w := testPipe(t)
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(epoll)
	tracee.space.files.Of(tracee.tid, tracee.pid, epoll) // as describe does
	ctl := &host.Mirror{Syscall: host.Syscall{Args: [6]uint64{uint64(epoll), unix.EPOLL_CTL_ADD, uint64(r)}}}
	if m.wait(tracee, calls.Rows[unix.SYS_EPOLL_CTL], ctl); len(ctl.Polled) != 1 {
		t.Errorf("a new descriptor: %+v", ctl.Polled)
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, r, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 7, Pad: 8}); err != nil {
		t.Fatal(err)
	}
	if ctl.Polled = nil; m.wait(tracee, calls.Rows[unix.SYS_EPOLL_CTL], ctl) == nil || ctl.Polled != nil {
		t.Errorf("one that is there: %+v", ctl.Polled)
	}

	events := make([]unix.EpollEvent, 4)
	tracee.args = [6]uint64{uint64(epoll), exectest.AddrOf(t, &events[0]), 4, 0}
	c := &host.Mirror{Syscall: host.Syscall{Args: tracee.args}}
	wait := m.wait(tracee, calls.Rows[unix.SYS_EPOLL_PWAIT], c)
	if c.Ready != 0 || len(c.Polled) != hostview.MaxPolled || c.Polled[0].FD != -1 || m.pollResult(tracee, wait, 0) == nil || len(m.pollResult(tracee, wait, 0)) != 0 {
		t.Errorf("nothing is ready: %#x, %+v", c.Ready, c.Polled)
	}
	if _, err := unix.Write(w, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if m.wait(tracee, calls.Rows[unix.SYS_EPOLL_PWAIT], c); c.Ready&unix.POLLIN == 0 {
		t.Errorf("the epoll file is ready for %#x", c.Ready)
	}
	n, err := unix.EpollWait(epoll, events, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := m.pollResult(tracee, wait, int64(n))
	if got, known := readyFor(found, r); n != 1 || len(found) != 1 || !known || got&unix.POLLIN == 0 {
		t.Errorf("%d events, found %+v", n, found)
	}
	events[0].Pad = 9 // what nobody has asked for
	if found := m.pollResult(tracee, wait, 1); len(found) != 0 {
		t.Errorf("found %+v", found)
	}

	// A descriptor that is no epoll file is not asked: it may be one whose server is held.
	tracee.space.files.Of(tracee.tid, tracee.pid, r)
	other := &host.Mirror{Syscall: host.Syscall{Args: [6]uint64{uint64(r), 0, 4, 0}}}
	if m.wait(tracee, calls.Rows[unix.SYS_EPOLL_PWAIT], other); other.Ready != 0 {
		t.Errorf("a pipe is ready for %#x", other.Ready)
	}
	// Nor one with many descriptors.
	for range hostview.MaxInterest {
		fd, err := unix.Dup(r)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if wait := m.wait(tracee, calls.Rows[unix.SYS_EPOLL_PWAIT], c); wait.interest != nil && len(wait.interest) <= hostview.MaxInterest {
			t.Errorf("%d descriptors", len(wait.interest))
		}
	}
	if c.Ready = 0; m.wait(tracee, calls.Rows[unix.SYS_EPOLL_PWAIT], c) == nil || c.Ready != 0 {
		t.Errorf("a crowded epoll file is ready for %#x", c.Ready)
	}
}

// TestCallItems: arrays of which a call writes as many items as it returns, and times that
// futex(2) has for some operations only.
func TestCallItems(t *testing.T) {
	b := make([]byte, 4*calls.SizeofEpollEvent)
	addr := exectest.AddrOf(t, &b[0])
	m := callMemory{tid: unix.Gettid()}
	m.arguments(calls.Rows[unix.SYS_EPOLL_PWAIT], [6]uint64{3, addr, 4, 0})
	copy(b, "some events of this call")
	changed := m.awaitChanged(2)
	if len(changed) != 1 || !bytes.Equal(changed[0].Data, b[:2*calls.SizeofEpollEvent]) || len(m.awaitChanged(-4)) != 0 || len(m.awaitChanged(0)) != 0 {
		t.Errorf("changed: %v", changed)
	}
	const wait, wake, private = 0, 1, 128
	for op, want := range map[uint64]bool{wait: true, wait | private: true, wake: false, wake | private: false} {
		m := callMemory{tid: unix.Gettid()}
		m.arguments(calls.Rows[unix.SYS_FUTEX], [6]uint64{addr, op, 0, addr})
		if got := m.Args[3] != 0; got != want {
			t.Errorf("operation %d: the time is read: %v", op, got)
		}
	}
	m = callMemory{tid: unix.Gettid()}
	m.arguments(calls.Rows[unix.SYS_PPOLL], [6]uint64{addr, 1 << 60, 0, 0, 0})
	m.arguments(calls.Rows[unix.SYS_SENDMMSG], [6]uint64{3, addr, 1 << 60, 0})
	m.arguments(calls.Rows[unix.SYS_SENDMMSG], [6]uint64{3, addr, 0, 0})
	if len(m.Data) > 2*maxMirrored {
		t.Errorf("%d bytes", len(m.Data))
	}
}

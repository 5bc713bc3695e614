package connector

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// message returns a message as the kernel sends it.
func message(what uint32, data ...uint32) []byte {
	b := make([]byte, headerSize+eventOffset)
	binary.NativeEndian.PutUint32(b[16:], idxProc)
	binary.NativeEndian.PutUint32(b[20:], valProc)
	binary.NativeEndian.PutUint32(b[headerSize:], what)
	for _, v := range data {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

func TestParse(t *testing.T) {
	other := message(whatExec, 5, 6)
	other[16] = 9
	for _, tt := range []struct {
		name string
		in   []byte
		want Event
		ok   bool
	}{
		{"fork", message(whatFork, 1, 2, 3, 4), Event{Kind: Fork, TID: 1, PID: 2, ChildTID: 3, ChildPID: 4}, true},
		{"exec", message(whatExec, 5, 6), Event{Kind: Exec, TID: 5, PID: 6}, true},
		{"exit", message(whatExit, 7, 8, 0x900, 17), Event{Kind: Exit, TID: 7, PID: 8, Code: 0x900}, true},
		{"uid", message(4, 1, 2, 3, 4), Event{}, false},
		{"another connector", other, Event{}, false},
		{"cut off", message(whatExec, 5), Event{}, false},
		{"nothing", nil, Event{}, false},
	} {
		if got, ok := parse(tt.in); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
}

// TestListen: a child's fork and exit are reported before the child has been waited
// for.
func TestListen(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	cmd := exec.Command("sh", "-c", "exit 3")
	if err := cmd.Run(); err == nil {
		t.Error("no exit status")
	}
	forked, code := false, 0
	for {
		e, ok, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		forked = forked || e.Kind == Fork && e.ChildPID == cmd.Process.Pid
		if e.Kind == Exit && e.PID == cmd.Process.Pid {
			code = e.Code
		}
	}
	if !forked || code != 3<<8 {
		t.Errorf("forked %v, exit code %#x", forked, code)
	}
}

// TestGap: each CPU numbers its events, and missing numbers are lost events.
func TestGap(t *testing.T) {
	c := &Conn{next: map[uint32]uint32{}}
	for i, tt := range []struct{ what, cpu, number, want uint32 }{
		{whatFork, 0, 100, 0}, // the first event
		{whatExec, 0, 101, 0},
		{whatFork, 1, 7, 0},
		{0, noCPU, 0, 0}, // a reply to opListen
		{0, 1, 8, 0},     // a reply that is numbered
		{whatExit, 0, 105, 3},
		{4, 1, 11, 2}, // of another kind
		{whatExit, 0, 104, 0},
		{whatExit, 1, ^uint32(0), 0},
		{whatFork, 2, ^uint32(0), 0},
		{whatFork, 2, 1, 1}, // number 0 is missing
	} {
		b := message(tt.what, 1, 2, 3, 4)
		binary.NativeEndian.PutUint32(b[unix.SizeofNlMsghdr+8:], tt.number)
		binary.NativeEndian.PutUint32(b[headerSize+4:], tt.cpu)
		if got := c.gap(b); got != tt.want {
			t.Errorf("%d: %d lost, want %d", i, got, tt.want)
		}
	}
}

// TestLost causes more events than fit into a small buffer: the events read and those
// reported as lost add up to all of them.
func TestLost(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	onEachCPU(t) // so that the sequence numbers are known
	seen, lost := drained(t, c)
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 0; do for j in 1 2 3 4 5 6 7 8 9 0; do (:); done; done").Run(); err != nil {
		t.Fatal(err)
	}
	n, more := drained(t, c) // an overrun socket queues nothing before it has been drained
	seen, lost = seen+n, lost+more
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, queueSize); err != nil {
		t.Fatal(err)
	}
	onEachCPU(t)
	n, more = drained(t, c)
	seen, lost = seen+n, lost+more
	if lost == 0 || seen+lost < 200 {
		t.Errorf("%d events are seen and %d lost of 100 forks and exits", seen, lost)
	}
}

// onEachCPU causes an event on each processor.
func onEachCPU(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.SchedSetaffinity(0, &all) }()
	for cpu := range 1024 {
		if !all.IsSet(cpu) {
			continue
		}
		var one unix.CPUSet
		one.Set(cpu)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
	}
}

// drained reads all queued events and counts them.
func drained(t *testing.T, c *Conn) (seen, lost uint64) {
	t.Helper()
	for {
		_, ok, err := c.Next()
		var l *LostError
		switch {
		case errors.As(err, &l):
			lost += l.Events
		case err != nil:
			t.Fatal(err)
		case !ok:
			return seen, lost
		default:
			seen++
		}
	}
}

// FuzzPacket: any packet is parsed as an event of a known kind, or not as an event.
func FuzzPacket(f *testing.F) {
	f.Add(message(whatFork, 1, 2, 3, 4))
	f.Add(message(whatExec, 5, 6))
	f.Add(message(whatExit, 7, 8, 0x900, 17))
	f.Add(message(whatExec, 5))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Conn{next: map[uint32]uint32{}}
		if first, again := c.gap(b), c.gap(b); first != 0 || again != 0 {
			t.Errorf("%x: events are lost before the first one, or between one and itself", b)
		}
		e, ok := parse(b)
		if !ok {
			return
		}
		if e.Kind > Exit || e.Kind != Fork && (e.ChildTID != 0 || e.ChildPID != 0) || e.Kind != Exit && e.Code != 0 {
			t.Errorf("%x is %+v", b, e)
		}
		if len(b) < headerSize+eventOffset+8 {
			t.Errorf("%d bytes have a thread and a process", len(b))
		}
	})
}

// TestOtherListeners: replies to other listeners do not count as lost events.
func TestOtherListeners(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	for range 5 {
		onEachCPU(t)
		other, err := Open()
		if err != nil {
			t.Fatal(err)
		}
		other.Close()
	}
	onEachCPU(t)
	if seen, lost := drained(t, c); seen == 0 || lost != 0 {
		t.Errorf("%d events are seen and %d lost, want some and none", seen, lost)
	}
}

package fs

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// lines is a file from which written lines can be read, as from dev/kmsg.
type lines struct {
	mu   sync.Mutex
	text []byte
	more chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) Read(ctx context.Context, p []byte, _ int64) (int, error) {
	for {
		l.mu.Lock()
		n, more := copy(p, l.text), l.more
		l.text = l.text[n:]
		l.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		if seqfile.CallerOf(ctx).FileFlags&syscall.O_NONBLOCK != 0 {
			return 0, syscall.EAGAIN
		}
		select {
		case <-more:
		case <-ctx.Done():
			return 0, syscall.EINTR
		}
	}
}

func (l *lines) Write(_ context.Context, p []byte, _ int64) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	close(l.more)
	l.more = make(chan struct{})
	return len(p), nil
}

func (l *lines) Poll() (ready uint32, changed <-chan struct{}, end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) > 0 {
		ready = seqfile.PollIn
	}
	return ready, l.more, func() {}
}

func (*lines) Release() {}

// pollOf sleeps in poll(2) and sends the returned events.
func pollOf(t *testing.T, name string) <-chan int16 {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int16, 1)
	go func() {
		defer unix.Close(fd)
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(p, 30000); !errors.Is(err, unix.EINTR) {
				got <- p[0].Revents
				return
			}
		}
	}()
	return got
}

// readOf reads a line by os.File, which waits by epoll(7).
func readOf(t *testing.T, name string) <-chan error {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		defer f.Close()
		for {
			if _, err := f.Read(make([]byte, 100)); err != nil {
				got <- err
				return
			}
			got <- nil
		}
	}()
	return got
}

func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing in 20 s", what)
		panic("unreachable")
	}
}

// TestPollWakes: poll(2) of a file with a Poll method sleeps until there is something
// to read, each time.
func TestPollWakes(t *testing.T) {
	d := start(t)
	name := d.path("tracing/lines")
	polled := pollOf(t, name)
	write := func() {
		t.Helper()
		if err := os.WriteFile(name, []byte("a line\n"), 0); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case r := <-polled:
		t.Fatalf("poll gave %#x at once", r)
	case <-time.After(100 * time.Millisecond):
	}
	write()
	if r := within(t, "poll", polled); r != unix.POLLIN {
		t.Errorf("poll gave %#x", r)
	}
	read := readOf(t, name)
	if err := within(t, "read", read); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		select {
		case err := <-read:
			t.Fatalf("read gave %v at once", err)
		case <-time.After(time.Millisecond):
		}
		write()
		if err := within(t, "read", read); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPollIsAlwaysReady: files without a Poll method are always ready.
func TestPollIsAlwaysReady(t *testing.T) {
	d := start(t)
	if r := within(t, "poll", pollOf(t, d.path("kprobes/enabled"))); r != unix.POLLIN {
		t.Errorf("poll gave %#x", r)
	}
}

// TestPollAtEnd: poll(2) returns when the daemon ends or is killed.
func TestPollAtEnd(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			d := start(t)
			name := d.path("tracing/lines")
			polled := pollOf(t, name)
			read := readOf(t, name)
			time.Sleep(50 * time.Millisecond)
			_ = d.cmd.Process.Signal(sig)
			if r := within(t, "poll", polled); r&unix.POLLERR == 0 {
				t.Errorf("poll gave %#x", r)
			}
			if err := within(t, "read", read); !errors.Is(err, syscall.ENOTCONN) && !errors.Is(err, syscall.ECONNABORTED) {
				t.Errorf("read: %v", err)
			}
		})
	}
}

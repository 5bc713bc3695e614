package devfs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
)

// fakeLog is a log whose records before first were overwritten.
type fakeLog struct {
	mu      sync.Mutex
	first   uint64
	cleared uint64
	recs    []kernel.Record
	more    chan struct{}
}

func (l *fakeLog) Bounds() (first, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first, l.first + uint64(len(l.recs))
}

func (l *fakeLog) Get(seq uint64) (r kernel.Record, ok bool, first uint64, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := seq - l.first; seq >= l.first && i < uint64(len(l.recs)) {
		return l.recs[i], true, l.first, l.more
	}
	return kernel.Record{}, false, l.first, l.more
}

func (l *fakeLog) Cleared() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cleared
}

func (l *fakeLog) Append(facility, level int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := l.first + uint64(len(l.recs))
	l.recs = append(l.recs, kernel.Record{Seq: seq, Time: int64(seq) * 1500, Facility: facility, Level: level, Text: text})
	if l.more != nil {
		close(l.more)
	}
	l.more = make(chan struct{})
}

func (l *fakeLog) drop(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first += uint64(n)
	l.recs = l.recs[n:]
}

func open(t *testing.T, l Log, flags uint32) seqfile.File {
	t.Helper()
	f, err := seqfile.Find(Dev(l).Dir, "kmsg").Open(context.Background(), &seqfile.OpenInfo{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var nonblock = seqfile.WithCaller(context.Background(), &seqfile.Caller{FileFlags: syscall.O_NONBLOCK})

func line(f seqfile.File, off int64) string {
	p := make([]byte, 8192)
	n, err := f.Read(nonblock, p, off)
	if err != nil {
		var e syscall.Errno
		errors.As(err, &e)
		return e.Error()
	}
	return string(p[:n])
}

func TestOneRecordARead(t *testing.T) {
	l := &fakeLog{}
	l.Append(0, kernel.LogInfo, "kprobes: Kprobes globally disabled")
	l.Append(0, kernel.LogErr, "tab\there \\ ü")
	f := open(t, l, syscall.O_RDONLY)
	first := "6,0,0,-;kprobes: Kprobes globally disabled\n"
	if got := line(f, 0); got != first {
		t.Errorf("got %q, want %q", got, first)
	}
	if got, want := line(f, int64(len(first))), `3,1,1,-;tab\x09here \x5c \xc3\xbc`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := line(f, 100), syscall.EAGAIN.Error(); got != want {
		t.Errorf("at the end: %q, want %q", got, want)
	}
	if got := line(f, 0); got != first { // lseek(0, SEEK_SET)
		t.Errorf("after a rewind %q", got)
	}
}

func TestDeviceOfRecord(t *testing.T) {
	r := kernel.Record{Level: 3, Seq: 7, Time: 5000, Text: "a\\b\n", Subsystem: "net", Device: "n2\x01"}
	if got, want := string(AppendRecord(nil, r)), "3,7,5,-;a\\x5cb\\x0a\n SUBSYSTEM=net\n DEVICE=n2\\x01\n"; got != want {
		t.Errorf("a record of a device is %q, want %q", got, want)
	}
}

func TestOverrun(t *testing.T) {
	l := &fakeLog{}
	for i := range 4 {
		l.Append(0, 6, fmt.Sprint(i))
	}
	f := open(t, l, 0)
	_ = line(f, 0)
	l.drop(2)
	if got, want := line(f, 10), syscall.EPIPE.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := line(f, 10), "6,2,3,-;2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestShortBuffer(t *testing.T) {
	l := &fakeLog{}
	l.Append(0, 6, "text")
	f := open(t, l, 0)
	if _, err := f.Read(nonblock, make([]byte, 5), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v, want EINVAL", err)
	}
	if got := line(f, 0); got != "6,0,0,-;text\n" {
		t.Errorf("the record is lost: %q", got)
	}
}

func TestSeek(t *testing.T) {
	l := &fakeLog{}
	l.Append(0, 6, "old")
	f := open(t, l, 0)
	s := f.(seqfile.Seeker)
	if pos, err := s.Seek(0, seqfile.SeekEnd); pos != 0 || err != nil {
		t.Errorf("SEEK_END: %d, %v", pos, err)
	}
	l.Append(0, 6, "new")
	if got := line(f, 0); got != "6,1,1,-;new\n" {
		t.Errorf("after SEEK_END: %q", got)
	}
	if _, err := s.Seek(0, seqfile.SeekData); err != nil {
		t.Error(err)
	}
	if got := line(f, 0); got != "6,0,0,-;old\n" {
		t.Errorf("after SEEK_DATA: %q", got)
	}
	l.cleared = 1
	if _, err := s.Seek(0, seqfile.SeekData); err != nil {
		t.Error(err)
	}
	if got := line(f, 0); got != "6,1,1,-;new\n" {
		t.Errorf("after SEEK_DATA of a log that was cleared: %q", got)
	}
	if _, err := s.Seek(0, seqfile.SeekHole); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("SEEK_HOLE: %v", err)
	}
	if _, err := s.Seek(5, seqfile.SeekEnd); !errors.Is(err, syscall.ESPIPE) {
		t.Errorf("an offset: %v", err)
	}
}

func TestWaits(t *testing.T) {
	l := &fakeLog{more: make(chan struct{})}
	f := open(t, l, 0)
	got := make(chan string)
	go func() {
		p := make([]byte, 100)
		n, _ := f.Read(context.Background(), p, 0)
		got <- string(p[:n])
	}()
	time.Sleep(10 * time.Millisecond)
	l.Append(1, 4, "hello")
	if s := <-got; s != "12,0,0,-;hello\n" {
		t.Errorf("got %q", s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Read(ctx, make([]byte, 100), 15); !errors.Is(err, syscall.EINTR) {
		t.Errorf("interrupted: %v, want EINTR", err)
	}
}

func TestWrite(t *testing.T) {
	l := &fakeLog{}
	f := open(t, l, syscall.O_WRONLY)
	for _, s := range []string{"plain", "<6>info", "<13>user notice", "<2", "<x>y"} {
		if n, err := f.Write(context.Background(), []byte(s), 0); n != len(s) || err != nil {
			t.Errorf("%q: %d, %v", s, n, err)
		}
	}
	for i, want := range []string{"1 4 plain", "1 6 info", "1 5 user notice", "1 4 <2", "1 4 <x>y"} {
		r := l.recs[i]
		if got := fmt.Sprint(r.Facility, r.Level, " ", r.Text); got != want {
			t.Errorf("record %d is %q, want %q", i, got, want)
		}
	}
	if _, err := f.Write(context.Background(), make([]byte, lineMax+1), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a long line: %v", err)
	}
}

func TestReadingNeedsSyslog(t *testing.T) {
	row := seqfile.Find(Dev(&fakeLog{}).Dir, "kmsg")
	user := seqfile.Caller{UID: 1000, CapableFunc: func(int) bool { return false }}
	if _, err := row.Open(context.Background(), &seqfile.OpenInfo{Caller: user}); !errors.Is(err, syscall.EPERM) {
		t.Errorf("read: %v, want EPERM", err)
	}
	if _, err := row.Open(context.Background(), &seqfile.OpenInfo{Caller: user, Flags: syscall.O_WRONLY}); err != nil {
		t.Errorf("write: %v", err)
	}
}

func TestPoll(t *testing.T) {
	l := &fakeLog{}
	l.Append(0, 6, "one")
	f := open(t, l, syscall.O_RDONLY)
	poll := func(what string, f seqfile.File, want uint32) <-chan struct{} {
		t.Helper()
		got, changed, end := f.(seqfile.Poller).Poll()
		defer end()
		if got != want {
			t.Errorf("%s: %#x, want %#x", what, got, want)
		}
		return changed
	}
	poll("a record", f, seqfile.PollIn)
	if _, err := f.Read(context.Background(), make([]byte, 100), 0); err != nil {
		t.Fatal(err)
	}
	changed := poll("none", f, 0)
	l.Append(0, 6, "two")
	<-changed
	poll("the next", f, seqfile.PollIn)
	l.drop(2)
	poll("it was overwritten", f, seqfile.PollIn|seqfile.PollLost)
	poll("opened to write", open(t, l, syscall.O_WRONLY), seqfile.PollNone)
}

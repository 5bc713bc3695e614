package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func newPipe(t *testing.T) (*Tracer, *tracingtest.Kernel, *Pipe) {
	t.Helper()
	tr, f := newTestTracer(t)
	write(t, tr, "p:a vfs_read n=%di:u64")
	if err := tr.global.EnableAll([]byte("1")); err != nil {
		t.Fatal(err)
	}
	p, err := tr.global.OpenPipe(-1)
	if err != nil {
		t.Fatal(err)
	}
	return tr, f, p
}

func hitWith(f *tracingtest.Kernel, cpu int, now int64, n uint64) {
	trap := tracingtest.Entered(cpu, now, tracingtest.NewTask(7, "cat"))
	trap.Regs = &abi.Regs{DI: n, Flags: abi.FlagIF}
	f.Hit(f.Symbol("vfs_read"), trap)
}

func readPipe(t *testing.T, p *Pipe, size int) string {
	t.Helper()
	b := make([]byte, size)
	n, err := p.Read(context.Background(), b, true)
	if err != nil && !errors.Is(err, syscall.EAGAIN) {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestPipeConsumes: entries are read once, in order of time, and are removed from trace.
func TestPipeConsumes(t *testing.T) {
	tr, f, p := newPipe(t)
	hitWith(f, 0, 1e9, 1)
	hitWith(f, 1, 2e9, 2)
	hitWith(f, 0, 3e9, 3)
	want := traceLines(tr)
	if got := readPipe(t, p, len(want[0])); got != want[0] {
		t.Errorf("first %q, want %q", got, want[0])
	}
	if got := traceText(tr); !strings.Contains(got, "entries-written: 2/2 ") || strings.Contains(got, "n=1") || !strings.Contains(got, "3.000000: a:") {
		t.Errorf("trace after one was taken:\n%s", got)
	}
	if got := readPipe(t, p, 20) + readPipe(t, p, 20) + readPipe(t, p, 4096) + readPipe(t, p, 4096); got != want[1]+want[2]+"\n" {
		t.Errorf("the others: %q", got)
	}
	hitWith(f, 0, 4e9, 4)
	if got := readPipe(t, p, 4096); !strings.HasSuffix(got, " 4.000000: a: (vfs_read+0x0/0x310) n=4\n") {
		t.Errorf("one more: %q", got)
	}
}

// TestPipeWholeLines: a large read ends at the end of a line.
func TestPipeWholeLines(t *testing.T) {
	_, f, p := newPipe(t)
	for i := range 200 {
		hitWith(f, 0, int64(i)*1e6, uint64(i))
	}
	next := 0
	for text := readPipe(t, p, 65536); text != ""; text = readPipe(t, p, 65536) {
		if len(text) >= pipeRead || !strings.HasSuffix(text, "\n") {
			t.Fatalf("a read of %d bytes, ending in %q", len(text), text[len(text)-1:])
		}
		for line := range strings.Lines(text) {
			if want := fmt.Sprintf(" n=%d\n", next); !strings.HasSuffix(line, want) {
				t.Fatalf("line %q, want %q", line, want)
			}
			next++
		}
	}
	if next != 200 {
		t.Errorf("%d lines", next)
	}
}

func TestPipeOneReader(t *testing.T) {
	tr, _, p := newPipe(t)
	if _, err := tr.global.OpenPipe(-1); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a second reader: %v", err)
	}
	p.Close()
	if _, err := tr.global.OpenPipe(-1); err != nil {
		t.Errorf("after the first one went: %v", err)
	}
}

// awaitReader waits until a reader of trace_pipe sleeps.
func awaitReader(tr *Tracer) {
	for waiting := false; !waiting; {
		waiting = tr.global.buffer.Watched() == 1
	}
}

// TestPipeWaits: a read sleeps until there is an entry. It ends when it is
// interrupted or, once something was read, when tracing_on becomes 0.
func TestPipeWaits(t *testing.T) {
	tr, f, p := newPipe(t)
	got := make(chan string)
	read := func(ctx context.Context) {
		b := make([]byte, 4096)
		n, err := p.Read(ctx, b, false)
		got <- fmt.Sprint(strings.Contains(string(b[:n]), "n=5"), err)
	}
	go read(context.Background())
	awaitReader(tr)
	hitWith(f, 1, 1e9, 5)
	if s := <-got; s != "true <nil>" {
		t.Errorf("after an entry: %s", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go read(ctx)
	cancel()
	if s := <-got; !strings.Contains(s, "EINTR") && !strings.Contains(s, syscall.EINTR.Error()) {
		t.Errorf("after the caller was interrupted: %s", s)
	}
	go read(context.Background())
	if err := tr.global.SetOn([]byte("0")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "false <nil>" {
		t.Errorf("after tracing_on became 0: %s", s)
	}
}

// TestPipeSleepsOn: on releases where readers continue to sleep, setting tracing_on
// to 0 does not wake them up; a hit after setting it to 1 does.
func TestPipeSleepsOn(t *testing.T) {
	tr, f, p := newPipe(t)
	tr.conf.has[release.PipesSleepOn] = true
	hitWith(f, 0, 1e9, 1)
	readPipe(t, p, 4096)
	lines := make(chan string)
	go func() {
		b := make([]byte, 4096)
		n, _ := p.Read(context.Background(), b, false)
		lines <- string(b[:n])
	}()
	awaitReader(tr)
	p.mu.Lock()   // acquired once the reader has seen that recording is on, and sleeps
	p.mu.Unlock() //nolint:staticcheck // only waits for the lock
	for _, on := range []string{"0", "1"} {
		if err := tr.global.SetOn([]byte(on)); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-lines:
			t.Fatalf("tracing_on %s ended the read with %q", on, got)
		case <-time.After(20 * time.Millisecond):
		}
	}
	hitWith(f, 0, 2e9, 2)
	if got := <-lines; !strings.Contains(got, "arg1=2") && !strings.Contains(got, "n=2") {
		t.Errorf("the read gave %q", got)
	}
}

// TestPipePoll: poll reports an entry, and waits for the next one.
func TestPipePoll(t *testing.T) {
	_, f, p := newPipe(t)
	ready, next, end := p.Poll()
	if ready {
		t.Error("ready without an entry")
	}
	hitWith(f, 1, 1e9, 5)
	<-next
	end()
	if ready, _, end := p.Poll(); !ready {
		t.Error("not ready with an entry")
	} else {
		end()
	}
	readPipe(t, p, 4096)
	ready, _, end = p.Poll()
	end()
	if ready {
		t.Error("ready after the entry was read")
	}
	if n := p.array.buffer.Watched(); n != 0 {
		t.Errorf("%d watches are left", n)
	}
}

// TestPipeSplice: pages get whole lines, as many as fit, and what does not fit stays in the
// buffer.
func TestPipeSplice(t *testing.T) {
	tr, f, p := newPipe(t)
	splice := func(size int) string {
		b := make([]byte, size)
		n, err := p.Splice(b)
		if err != nil {
			return err.(interface{ Unwrap() error }).Unwrap().Error() // the errno
		}
		return string(b[:n])
	}
	if got := splice(4096); got != syscall.EAGAIN.Error() {
		t.Errorf("none: %q", got)
	}
	for i := range 100 {
		hitWith(f, 0, int64(i)*1e9, uint64(i))
	}
	lines := traceLines(tr)
	if got := splice(len(lines[0]) - 1); got != "" || len(traceLines(tr)) != 100 {
		t.Errorf("no room for a line: %q, %d lines left", got, len(traceLines(tr)))
	}
	if got := splice(len(lines[0]) + len(lines[1])); got != lines[0]+lines[1] {
		t.Errorf("room for two: %q", got)
	}
	part := readPipe(t, p, 5)
	text := lines[0] + lines[1] + part
	for page := splice(4096); !strings.Contains(page, "unavailable"); page = splice(4096) {
		if !strings.HasSuffix(page, "\n") || len(page) >= 4096 {
			t.Fatalf("a page of %d bytes, ending in %q", len(page), page[max(0, len(page)-1):])
		}
		text += page
	}
	if want := strings.Join(lines, "") + "\n"; text != want {
		t.Errorf("got %d bytes, want %d", len(text), len(want))
	}
	tr.global.setOn(false)
	if got := splice(4096); got != syscall.EFAULT.Error() {
		t.Errorf("off: %q", got)
	}
}

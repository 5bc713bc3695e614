package kernel

import (
	"strings"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	now := int64(5)
	l := newLog(func() int64 { return now })
	_, ok, _, more := l.Get(0)
	if ok {
		t.Fatal("an empty log has a record")
	}
	l.Printk(LogInfo, "one\nand a half\n")
	l.Printk(LogInfo, "two %d", 2)
	select {
	case <-more:
	default:
		t.Error("readers were not told of a record")
	}
	for i, want := range []string{"one\nand a half", "two 2"} {
		r, ok, _, _ := l.Get(uint64(i))
		if !ok || r.Text != want || r.Seq != uint64(i) || r.Time != 5 || r.Level != LogInfo {
			t.Errorf("record %d is %+v (%v), want text %q", i, r, ok, want)
		}
	}
}

func TestLogOverrun(t *testing.T) {
	l := newLog(func() int64 { return 0 })
	line := strings.Repeat("x", 1000)
	const n = 1000
	for range n {
		l.Printk(LogInfo, "%s", line)
	}
	first, next := l.Bounds()
	if next != n {
		t.Errorf("next is %d, want %d", next, n)
	}
	if kept := next - first; kept*1000 > logBytes || kept < 100 {
		t.Errorf("%d records of 1000 bytes are kept in a log of %d bytes", kept, logBytes)
	}
	if _, ok, oldest, _ := l.Get(0); ok || oldest != first {
		t.Errorf("record 0 is still there (%v), or the oldest is %d, want %d", ok, oldest, first)
	}
}

func TestVirtualClock(t *testing.T) {
	c := NewVirtualClock(1000)
	fired := make(chan int, 3)
	c.AfterFunc(20, func() { fired <- 20 })
	stop := c.AfterFunc(10, func() { fired <- 10 })
	c.AfterFunc(30, func() { fired <- 30 })
	if !stop() || stop() {
		t.Error("stop must say true once")
	}
	c.Advance(20)
	if got := <-fired; got != 20 {
		t.Errorf("timer %d fired, want 20", got)
	}
	c.retired(9)
	select {
	case got := <-fired:
		t.Errorf("timer %d fired one nanosecond early", got)
	case <-time.After(10 * time.Millisecond):
	}
	c.retired(1)
	if got := <-fired; got != 30 {
		t.Errorf("timer %d fired, want 30", got)
	}
	if c.Now() != 30 || c.Wall() != 1030 {
		t.Errorf("the clock stands at %d, %d, want 30, 1030", c.Now(), c.Wall())
	}
}

package kernel

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// syslogOf returns a function that makes calls of syslog(2) with a buffer.
func syslogOf(t *testing.T, l *Log) func(action, size int) string {
	return func(action, size int) string {
		t.Helper()
		text, n, err := l.Syslog(t.Context(), action, size, false)
		if err != nil || len(text) > max(size, 0) || len(text) > 0 && n != len(text) {
			t.Fatalf("action %d, %d bytes: %q, %d, %v", action, size, text, n, err)
		}
		return string(text)
	}
}

// TestSyslog: the results are what the same calls give on Linux 6.1.
func TestSyslog(t *testing.T) {
	now := int64(3376381 * 1000)
	l := newLog(func() int64 { return now })
	call := syslogOf(t, l)
	l.Append(1, 4, "one")
	now = 3376476 * 1000
	l.Append(3, 6, "two\nlines\n")
	now = 3381565 * 1000
	l.Append(1, 4, "three\n")
	three := "<12>[    3.381565] three\n"
	all := "<12>[    3.376381] one\n<30>[    3.376476] two\n<30>[    3.376476] lines\n" + three
	for _, c := range []struct {
		size int
		want string
	}{{1 << 18, all}, {20, ""}, {60, three}, {1, ""}, {96, all}, {95, all[23:]}, {0, ""}} {
		if got := call(syslogReadAll, c.size); got != c.want {
			t.Errorf("READ_ALL of %d bytes: %q, want %q", c.size, got, c.want)
		}
	}
	if got := call(syslogReadClear, 60); got != three {
		t.Errorf("READ_CLEAR: %q", got)
	}
	if got := call(syslogReadAll, 1000); got != "" {
		t.Errorf("after it: %q", got)
	}
	if _, n, _ := l.Syslog(t.Context(), syslogSizeUnread, 0, true); n != len(all) {
		t.Errorf("%d bytes are unread, want %d", n, len(all))
	}
	var parts []string
	for range 4 {
		parts = append(parts, call(syslogRead, 25))
	}
	if got := strings.Join(parts, ""); got != all || parts[0] != all[:23] || len(parts[1]) != 25 {
		t.Errorf("READ in parts: %q", parts)
	}
	if _, n, _ := l.Syslog(t.Context(), syslogSizeUnread, 0, true); n != 0 {
		t.Errorf("%d bytes are unread at the end", n)
	}
	if _, n, _ := l.Syslog(t.Context(), syslogSizeBuffer, 0, true); n != 131072 {
		t.Errorf("a buffer of %d bytes", n)
	}
}

// TestSyslogErrors: invalid calls have Linux 6.1's errnos.
func TestSyslogErrors(t *testing.T) {
	l := newLog(func() int64 { return 0 })
	for _, c := range []struct {
		action, size int
		null         bool
		want         error
	}{
		{syslogOpen, 0, true, nil},
		{syslogClose, 0, true, nil},
		{11, 0, true, syscall.EINVAL},
		{-1, 0, true, syscall.EINVAL},
		{syslogReadAll, 10, true, syscall.EINVAL},
		{syslogReadAll, -1, false, syscall.EINVAL},
		{syslogRead, 10, true, syscall.EINVAL},
		{syslogRead, -1, false, syscall.EINVAL},
		{syslogRead, 0, false, nil},
		{syslogConsoleLevel, 0, true, syscall.EINVAL},
		{syslogConsoleLevel, 9, true, syscall.EINVAL},
		{syslogConsoleLevel, 1, true, nil},
		{syslogConsoleLevel, 8, true, nil},
		{syslogConsoleOff, 0, true, nil},
		{syslogConsoleOn, 0, true, nil},
		{syslogClear, 0, true, nil},
	} {
		if _, n, err := l.Syslog(t.Context(), c.action, c.size, c.null); n != 0 || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("action %d, %d bytes: %d, %v, want %v", c.action, c.size, n, err, c.want)
		}
	}
}

// TestSyslogWaits: READ waits for a record, or for the end of its context.
func TestSyslogWaits(t *testing.T) {
	l := newLog(func() int64 { return 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := l.Syslog(ctx, syslogRead, 100, false); !errors.Is(err, syscall.EINTR) {
		t.Errorf("of an empty log: %v", err)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		l.Printk(6, "late")
	}()
	if got := syslogOf(t, l)(syslogRead, 100); got != "<6>[    0.000000] late\n" {
		t.Errorf("%q", got)
	}
	for range 3000 { // more than the log holds
		l.Printk(6, "%s", strings.Repeat("x", 100))
	}
	if got := syslogOf(t, l)(syslogReadAll, 1<<20); len(got) > 131072*2 || !strings.HasSuffix(got, "x\n") {
		t.Errorf("%d bytes", len(got))
	}
	if got := syslogOf(t, l)(syslogRead, 1000); !strings.HasPrefix(got, "<6>[    0.000000] xxx") {
		t.Errorf("after records were overwritten: %q", got)
	}
}

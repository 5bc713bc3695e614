package kernel

import (
	"bytes"
	"context"
	"testing"
)

// TestConsole: a console gets the messages below its level, and none once syslog(2) has
// switched it off.
func TestConsole(t *testing.T) {
	l := newLog(func() int64 { return 1_500_000_000 })
	show := func(level int, text string) string {
		var b bytes.Buffer
		done := make(chan struct{})
		close(done)
		l.Printk(level, "%s", text)
		l.console(&b, done)
		l.recs, l.first = nil, 0
		return b.String()
	}
	set := func(action, size int) {
		t.Helper()
		if _, _, err := l.Syslog(context.Background(), action, size, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		do    func()
		level int
		shown bool
	}{
		{func() {}, LogInfo, true},
		{func() {}, LogDebug, false},
		{func() { l.SetConsoleLevels([]int{8}) }, LogDebug, true},
		{func() { l.SetConsoleLevels([]int{4, 4}) }, LogWarning, false},
		{func() {}, LogErr, true},
		{func() { set(syslogConsoleOff, 0) }, LogAlert, false},
		{func() {}, LogEmerg, true},
		{func() { set(syslogConsoleOn, 0) }, LogErr, true},
		{func() { set(syslogConsoleLevel, 8) }, LogDebug, true},
	} {
		tc.do()
		want := ""
		if tc.shown {
			want = "[    1.500000] one\n[    1.500000] two\n"
		}
		if got := show(tc.level, "one\ntwo\n"); got != want {
			t.Errorf("level %d with %d: %q, want %q", tc.level, l.ConsoleLevels(), got, want)
		}
	}
}

package integration

import (
	"regexp"
	"strings"
	"testing"
)

// lockdownScript was run on Linux with lockdown=confidentiality.
const lockdownScript = `cat /sys/kernel/debug/kprobes/enabled
head -1 /sys/kernel/debug/kprobes/blacklist
echo 0 > /sys/kernel/debug/kprobes/enabled
chmod 644 /sys/kernel/debug/kprobes/list
ls -l /sys/kernel/debug/kprobes
ls /sys/kernel/tracing | grep -c kprobe_events
echo p vfs_read > /sys/kernel/tracing/kprobe_events
echo 0 > /proc/sys/debug/kprobes-optimization && cat /proc/sys/debug/kprobes-optimization
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep -o 'Kernel is locked down.*\|Lockdown: cat.*\|Tracing disabled.*'
`

// What Linux printed: with confidentiality, and with integrity, which does not affect
// tracefs. The last lines are from the log.
const (
	closedDebugfs = `cat: can't open '/sys/kernel/debug/kprobes/enabled': Operation not permitted
ADDR-ADDR	NAME
script: line 3: can't create /sys/kernel/debug/kprobes/enabled: Operation not permitted
chmod: /sys/kernel/debug/kprobes/list: Operation not permitted
total 0
-r--------    1 root     root             0 TIME blacklist
-rw-------    1 root     root             0 TIME enabled
-r--------    1 root     root             0 TIME list
`
	closedTracefs = `0
script: line 7: can't create /sys/kernel/tracing/kprobe_events: Permission denied
0
Kernel is locked down from command line; see man kernel_lockdown.7
Tracing disabled due to lockdown
`
	openTracefs = `1
0
Kernel is locked down from command line; see man kernel_lockdown.7
`
	refusedLine = "Lockdown: cat: debugfs access is restricted; see man kernel_lockdown.7\n"
)

// TestLockdown compares with Linux's output.
func TestLockdown(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	masks := []struct{ re, with string }{
		{`0x[0-9a-f]+`, "ADDR"},
		{`(?m)(ADDR)\t\S+$`, "$1\tNAME"},
		{`[A-Z][a-z]{2} [ \d]\d \d\d:\d\d`, "TIME"},
	}
	for _, tt := range []struct{ level, want string }{
		{"confidentiality", closedDebugfs + closedTracefs + refusedLine},
		{"integrity", closedDebugfs + openTracefs + refusedLine},
	} {
		t.Run(tt.level, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "script", lockdownScript)
			out, _ := asUser(nil).exec(t, dir, nil, []string{"--lockdown", tt.level}, "busybox", "sh", "script")
			for _, m := range masks {
				out = regexp.MustCompile(m.re).ReplaceAllString(out, m.with)
			}
			if out != tt.want {
				t.Errorf("Linux (-) and kprobefs (+) differ:\n%s", diff(tt.want, out))
			}
		})
	}
	out, status := asUser(nil).exec(t, ".", nil, []string{"--lockdown", "all"}, "true")
	if status == 0 || !strings.Contains(out, "lockdown") {
		t.Errorf("an unknown level gave status %d and %q", status, out)
	}
}

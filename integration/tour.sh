#!/bin/sh
# A tour of kprobefs, run by "make run" below "kprobefs exec": it registers
# probes, causes hits, flips every knob, and prints each command and what the
# files show. On Linux, as root, it prints the same except for the last part.
D=/sys/kernel/debug/kprobes
T=/sys/kernel/tracing
O=/proc/sys/debug/kprobes-optimization
cd "$T" || exit 1

say() { printf '\n== %s\n' "$*"; }
run() {
	printf '# %s\n' "$1"
	eval "$1"
}

say 'A kernel of our own'
run 'cut -d" " -f1-3 /proc/version'
run "grep -w vfs_read /proc/kallsyms"
run "cat $D/list"

say 'Three probes: at an entry, inside a function, on a return'
run 'echo p:entry vfs_read > kprobe_events'
run 'echo p:inside vfs_read+5 >> kprobe_events'
run 'echo r:back vfs_open >> kprobe_events'
run 'cat kprobe_events'
run "cat $D/list"

say 'What Linux refuses is refused'
run 'echo p:x vfs_read+1 >> kprobe_events'
run 'echo p:x no_such_function >> kprobe_events'
run 'echo p:x exc_int3 >> kprobe_events'
run 'cat error_log'

say 'Armed: the entry by ftrace, the inner one by int3, then by a jump'
run 'echo 1 > events/kprobes/enable'
run "cat $D/list"
sleep 0.5
run 'true < events/kprobes/entry/enable; cat events/kprobes/entry/id > /dev/null'
run 'echo 0 > events/kprobes/enable'
run 'cat kprobe_profile'
run 'tail -n 6 trace'
run 'echo 1 > events/kprobes/enable'

say 'Optimization off: every jump becomes a breakpoint again'
run "echo 0 > $O; cat $D/list"
run "echo 1 > $O; cat $D/list"

say 'All probes off and on'
run "echo 0 > $D/enabled; cat $D/list"
run "echo 1 > $D/enabled; cat $D/list"
run 'echo 0 > events/kprobes/inside/enable; sleep 0.3'
run "cat $D/list"

say 'An armed event is busy'
run '(echo -:entry >> kprobe_events)'
run 'echo 0 > events/kprobes/enable; echo > kprobe_events'
run "cat kprobe_events $D/list"

say 'What the kernel said'
run '/usr/bin/dd if=/dev/kmsg bs=8192 iflag=nonblock 2>/dev/null | grep kprobes: | cut -d";" -f2 | tail -n 6'

[ -n "$KPROBEFS_MNT" ] || exit 0
say 'What Linux does not have: the text as it is now'
cd "$KPROBEFS_MNT/machine" || exit 1
run 'echo p:a vfs_read > $T/kprobe_events; echo p:b vfs_read+5 >> $T/kprobe_events'
run 'head -n 6 text/vfs_read'
run 'echo 1 > $T/events/kprobes/enable; sleep 0.5'
run 'head -n 6 text/vfs_read'
run 'head -n 9 probes/vfs_read+0x5'
run 'echo 0 > $T/events/kprobes/enable; echo > $T/kprobe_events'

# Names and helpers for the scripts of testdata, sourced as ./lib.sh. Runs under busybox sh.
D=/sys/kernel/debug/kprobes
L=$D/list
O=/proc/sys/debug/kprobes-optimization
T=/sys/kernel/tracing
E=$T/kprobe_events
S=/proc/sys/kernel/sysctl_writes_strict

# run COMMAND: prints the command, what it prints, and its exit status when not 0.
run() {
	echo "# $1"
	eval "$1" 2>&1
	rc=$?
	[ $rc = 0 ] || echo "[rc=$rc]"
}

# list: kprobes/list, sorted by symbol; lines of a symbol keep their order.
list() { sort -s -k3,3 $L; }

# on EVENT, off EVENT: enable and disable an event of the group kprobes.
on() { echo 1 >$T/events/kprobes/$1/enable; }
off() { echo 0 >$T/events/kprobes/$1/enable; }

# klog: what kprobes said in the kernel's log since the last klog_mark, without time stamps.
klog_all() { /usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[0-9]*,[0-9]*,[0-9]*,[^;]*;//p' | grep -E 'kprobe|file position|not be supported|writes_strict'; }
klog_mark() { klog_seen=$(klog_all | wc -l); }
klog() { klog_all | tail -n +$((klog_seen + 1)); }

# entry SYMBOL: the place of a probe at its entry, as in list: vfs_read+0x0, or +0x4 after endbr64.
# behind SYMBOL: the place of the next instruction, 5 bytes further.
entry() {
	echo "p:entry $1" >>$E
	sed -n "s/^[0-9a-f]*  k  \($1+0x[0-9a-f]*\) .*/\1/p" $L
	echo -:entry >>$E
}
behind() {
	at=$(entry $1)
	printf '%s+0x%x\n' $1 $((0x${at##*+0x} + 5))
}

# clean: removes all events, as scripts must at their end.
clean() {
	echo 0 >$T/events/enable
	echo >$E
	echo >$T/trace
}

#!/bin/sh
# The initrd's first process: mounts, runs each script of /scripts in the order of
# /order, and sends the results to the host by the second serial port:
#   =script NAME STATUS BYTES\n, the bytes; =left NAME STATUS BYTES\n for what a script left behind.
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t debugfs none /sys/kernel/debug
mount -t tracefs none /sys/kernel/tracing
stty -F /dev/ttyS1 raw -echo
exec 3>/dev/ttyS1

# A kernel that has run for a while shows hashes of addresses; before its random numbers
# are ready, and up to two seconds later, it says (____ptrval____).
head -c 1 /dev/random >/dev/null
tries=0
until [ $tries = 50 ]; do
	echo "p 0x$(sed -n 's/ T vfs_read$//p' /proc/kallsyms)" >/sys/kernel/tracing/kprobe_events
	grep -q ptrval /sys/kernel/tracing/kprobe_events || break
	sleep 0.2
	tries=$((tries + 1))
done
echo >/sys/kernel/tracing/kprobe_events

send() { printf '=%s %s %d %d\n' "$1" "$2" "$3" "$(stat -c %s "$4")" >&3; cat "$4" >&3; }

# state prints the state that a script must restore.
state() {
	for f in /sys/kernel/debug/kprobes/enabled /sys/kernel/debug/kprobes/list /proc/sys/debug/kprobes-optimization \
		/proc/sys/kernel/sysctl_writes_strict /proc/sys/kernel/kptr_restrict /proc/sys/kernel/perf_event_paranoid \
		/proc/sys/kernel/ftrace_enabled /sys/kernel/tracing/kprobe_events /sys/kernel/tracing/tracing_on \
		/sys/kernel/tracing/events/enable /sys/kernel/tracing/current_tracer \
		/sys/kernel/tracing/set_event_pid /sys/kernel/tracing/set_event_notrace_pid \
		/sys/kernel/tracing/trace_clock /sys/kernel/tracing/dynamic_events; do
		echo "$f:"
		cat $f
	done
	stat -c '%n %a %u %g' /sys/kernel/debug /sys/kernel/debug/kprobes /sys/kernel/debug/kprobes/* \
		/sys/kernel/tracing/kprobe_events /sys/kernel/tracing/trace
}

# reset removes what a script has left, before the next one.
reset() {
	echo 0 >/sys/kernel/tracing/events/enable
	echo >/sys/kernel/tracing/dynamic_events
	echo >/sys/kernel/tracing/kprobe_events
	echo "$clock" >/sys/kernel/tracing/trace_clock
	echo nop >/sys/kernel/tracing/current_tracer
	: >/sys/kernel/tracing/set_event_pid # a blank line would keep 5.10 for ever
	: >/sys/kernel/tracing/set_event_notrace_pid
	echo 1 >/sys/kernel/tracing/tracing_on
	echo 1 >/sys/kernel/debug/kprobes/enabled
	echo 1 >/proc/sys/debug/kprobes-optimization
	echo 1 >/proc/sys/kernel/sysctl_writes_strict
} 2>/dev/null

for m in /disk/*.ko /disk/*.ko; do # in some releases virtio needs virtio_ring, in others that needs virtio
	[ ! -e $m ] || insmod $m 2>/dev/null
done
clock=$(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/tracing/trace_clock)
state >/state 2>&1
while read -r name limit; do
	mkdir /work
	cp /scripts/$name /work/script
	[ ! -d /files/$name ] || cp -r /files/$name/. /work
	cp /lib.sh /work/lib.sh
	cd /work
	{
		timeout -s KILL $limit busybox sh script 2>&1 </dev/null
		echo $? >/status
		[ $(cat /status) != 137 ] || kill -9 -1 # what it started still holds the pipe
	} | cat >/out
	cd /
	rm -rf /work /tmp/*
	send script $name $(cat /status) /out
	state >/state.now 2>&1
	diff /state /state.now >/left || { send left $name 1 /left; reset; }
done </order
printf '=end\n' >&3
sleep 0.2
poweroff -f

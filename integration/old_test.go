package integration

import (
	"strings"
	"testing"
)

// oldScript is document 002's example of a jprobe, as a user of 2.6.25 has it: a
// module is loaded, list has its line, and a fork is told of. $KPROBEFS_MNT/debug
// stands for /debug.
const oldScript = `cd $KPROBEFS_MNT
cp $1/jprobe_example.ko machine/modules
cut -d' ' -f2- debug/kprobes/list
(busybox true)
echo 0 > debug/kprobes/enabled; (busybox true); cat debug/kprobes/enabled
rm machine/modules/jprobe_example.ko
cat debug/kprobes/list
ls debug/kprobes
cut -d' ' -f3 proc/version
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep -o 'jprobe: clone_flags.*\|jprobe unregistered' | uniq
`

const oldWant = ` j  do_fork+0x0   
0
enabled
list
2.6.25-kprobefs-amd64
jprobe: clone_flags=0x1200000, stack_size=0x0
jprobe unregistered
`

// TestOldRelease plays it.
func TestOldRelease(t *testing.T) { playModules(t, oldScript, oldWant, "--release", "2.6.25") }

// oldShell is what a shell does with probes on releases that follow their documents:
// what list has of them, who is refused, and what the knobs change.
const oldShell = `cd /sys/kernel/tracing
L=/sys/kernel/debug/kprobes/list
list() { cut -d' ' -f2- $L | sort; }
echo p:a vfs_read > kprobe_events
echo p:b vfs_read+5 >> kprobe_events
echo p:c vfs_read+6 >> kprobe_events
echo r:d do_execve >> kprobe_events
echo p:e do_page_fault >> kprobe_events
echo p:e __switch_to >> kprobe_events
echo p:e notifier_call_chain >> kprobe_events
echo p:e kernel_clone >> kprobe_events
list
cat kprobe_events
echo -:c >> kprobe_events
echo 1 > events/kprobes/enable; list
(busybox true); echo 0 > events/kprobes/enable
grep -o ': d: .*' trace | head -n 1 | sed 's/(.*<-/(<-/'
echo 1 > events/kprobes/enable
echo 0 > /sys/kernel/debug/kprobes/enabled; list
echo 1 > /sys/kernel/debug/kprobes/enabled; list
if [ -e /proc/sys/debug/kprobes-optimization ]; then
	sysctl -w debug.kprobes_optimization=n; list
	sysctl -w debug.kprobes_optimization=y; list
	echo 0 > /proc/sys/debug/kprobes-optimization; cat /proc/sys/debug/kprobes_optimization
fi
echo 0 > events/kprobes/enable; echo > kprobe_events; list
ls /sys/kernel/debug/kprobes
`

// oldRefused are do_page_fault, __switch_to, notifier_call_chain, and a name that is newer.
const oldRefused = `sh: write error: Invalid argument
sh: write error: Invalid argument
sh: write error: Invalid argument
sh: write error: No such file or directory
`

const oldEvents = `p:kprobes/a vfs_read
p:kprobes/b vfs_read+5
p:kprobes/c vfs_read+6
r2:kprobes/d do_execve
`

const oldHit = `: d: (<- do_execve)
`

// TestOldShell plays it.
func TestOldShell(t *testing.T) {
	list := func(entry, inner, back string) string {
		return " k  vfs_read+0x0   " + entry + "\n k  vfs_read+0x5   " + inner + "\n r  do_execve+0x0   " + back + "\n"
	}
	bare, none := list("", "", ""), list(" ", " ", " ")
	jump, int3 := list(" [FTRACE]", " [OPTIMIZED]", " [FTRACE]"), list(" [FTRACE]", " ", " [FTRACE]")
	const off, off415 = " [DISABLED]", " [DISABLED][FTRACE]"
	third := func(flags string) string { return "\n k  vfs_read+0x6   " + flags + "\n r" }
	for release, want := range map[string]string{
		"2.6.25": strings.Replace(bare, "\n r", third(""), 1) + oldEvents + bare + oldHit + bare + bare + "enabled\nlist\n",
		"2.6.32": strings.Replace(list(off, off, off), "\n r", third(off), 1) + oldEvents + none + oldHit + none + none + "enabled\nlist\n",
		"4.15": strings.Replace(list(off415, off, off415), "\n r", third(off), 1) + oldEvents + jump + oldHit + int3 + jump +
			"debug.kprobes_optimization = n\n" + int3 + "debug.kprobes_optimization = y\n" + jump + "0\nblacklist\nenabled\nlist\n",
	} {
		t.Run(release, func(t *testing.T) { playModules(t, oldShell, oldRefused+want, "--release", release) })
	}
}

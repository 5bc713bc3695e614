package integration

import (
	"strings"
	"testing"
)

// oldScript is document 002's example of a jprobe on 2.6.25: a module is loaded,
// kprobes/list has its probe, and a fork is logged. $KPROBEFS_MNT/debug stands for
// /debug.
const oldScript = `cd $KPROBEFS_MNT
cp $1/jprobe_example.ko machine/modules
cut -d' ' -f2- debug/kprobes/list
(busybox true)
echo 0 > debug/kprobes/enabled; (busybox true); cat debug/kprobes/enabled
rm machine/modules/jprobe_example.ko
cat debug/kprobes/list
ls debug/kprobes
cut -d' ' -f3 proc/version
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep -o 'jprobe: clone_flags.*\|jprobe unregistered' |
	sed 's/regs=0xffff[0-9a-f]\{12\}$/regs=an address/' | uniq
`

const oldWant = ` j  do_fork+0x0   
0
enabled
list
2.6.25-kprobefs-amd64
jprobe: clone_flags=0x1200011, stack_size=0x0, regs=an address
jprobe unregistered
`

// TestOldRelease runs oldScript.
func TestOldRelease(t *testing.T) { playModules(t, oldScript, oldWant, "--release", "2.6.25") }

// breakScript prints what kprobe_break_old logs about its probes with break handlers.
const breakScript = `cd $KPROBEFS_MNT
cp $1/kprobe_break_old.ko machine/modules
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 | grep '^break\|atomic\|BUG\|returned without'
`

const breakWant = `break: without: 3 4, preempt 0, others 1, missed 0, breaks 0, missed 0
break: empty: 42 42, preempt 0, others 1, missed 0, breaks 0, missed 0
break: a second one: -17
break: back: 103 104, preempt 0, others 3, missed 0, breaks 2, missed 0
break: gone: 3 4, preempt 0, others 1, missed 0, breaks 0, missed 0
`

// TestOldBreakHandler: with an empty break handler, a pre-handler can change the
// execution path at each hit, and probes are still hit afterwards (document 001). One
// that is not empty leads execution back.
func TestOldBreakHandler(t *testing.T) {
	for _, release := range []string{"2.6.25", "2.6.32", "4.15"} {
		t.Run(release, func(t *testing.T) { playModules(t, breakScript, breakWant, "--release", release) })
	}
}

// examplesScript loads the examples of document 002 in the document's order.
const examplesScript = `cd $KPROBEFS_MNT
for m in kprobe_example_old jprobe_example kretprobe_example_old; do cp $1/$m.ko machine/modules; done
cut -d' ' -f2- kprobes/list | sed 's/ *$//' | sort
(busybox true)
for m in kprobe_example_old jprobe_example kretprobe_example_old; do rm machine/modules/$m.ko; done
cat kprobes/list
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 |
	grep -o '^[a-z]*_handler: p->addr=0xf*8\|^jprobe: clone_flags=0x1200011\|^[a-z]* unregistered.*\|^Planted [a-z ]* at f*8\|^Missed probing .*\|^register_.*failed.*' | sort -u
`

const examplesWant = ` j  do_fork+0x0
 k  do_fork+0x0
 r  sys_open+0x0
Missed probing 0 instances of sys_open
Planted jprobe at ffffffff8
Planted return probe at ffffffff8
jprobe unregistered
jprobe: clone_flags=0x1200011
kprobe unregistered
kretprobe unregistered
post_handler: p->addr=0xffffffff8
pre_handler: p->addr=0xffffffff8
`

// TestOldExamples runs examplesScript: each module's text reuses the memory of the
// previous one's init text, and all modules see the fork.
func TestOldExamples(t *testing.T) {
	for _, release := range []string{"2.6.25", "2.6.32"} {
		t.Run(release, func(t *testing.T) { playModules(t, examplesScript, examplesWant, "--release", release) })
	}
}

// oldShell uses probes from a shell on the older releases: lines of kprobes/list,
// refused probes, and the effect of the knobs.
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
echo p:e register_kprobe >> kprobe_events 2>/dev/null && echo register_kprobe has a probe && echo -:e >> kprobe_events
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

// oldRefused is the output for refused probes: on do_page_fault, __switch_to,
// notifier_call_chain, and a newer name.
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

// TestOldShell runs oldShell.
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
		"4.15": "register_kprobe has a probe\n" + strings.Replace(list(off415, off, off415), "\n r", third(off), 1) + oldEvents + jump + oldHit + int3 + jump +
			"debug.kprobes_optimization = n\n" + int3 + "debug.kprobes_optimization = y\n" + jump + "0\nblacklist\nenabled\nlist\n",
	} {
		t.Run(release, func(t *testing.T) { playModules(t, oldShell, oldRefused+want, "--release", release) })
	}
}

// forkScript prints do_fork's arguments at its entry, as older releases have them.
const forkScript = `cd /sys/kernel/tracing
echo 'p:f do_fork flags=%di:x64 start=%si:x64 third=%dx:x64 fourth=%cx:x64' > kprobe_events
echo 1 > events/kprobes/f/enable
(busybox true)
echo 0 > events/kprobes/f/enable
grep -o 'flags=.*' trace | head -n 1 | sed 's/=0xffff[0-9a-f]*/=an address/g; s/start=0x7f[0-9a-f]*/start=a stack/'
`

// TestOldFork runs forkScript: 2.6 passes the child's stack and registers, 4.15 zeros
// for what the caller omits.
func TestOldFork(t *testing.T) {
	for release, want := range map[string]string{
		"2.6.25": "flags=0x1200011 start=0x0 third=an address fourth=0x0\n",
		"2.6.32": "flags=0x1200011 start=0x0 third=an address fourth=0x0\n",
		"4.15":   "flags=0x1200011 start=0x0 third=0x0 fourth=0x0\n",
	} {
		t.Run(release, func(t *testing.T) { playModules(t, forkScript, want, "--release", release) })
	}
}

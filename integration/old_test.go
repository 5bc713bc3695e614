package integration

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// saysScript loads kprobe_says_old and removes it, by which its probes are hit: their
// handlers tell what they find, and do HOW, the name of a number in the module.
const saysScript = `cd $KPROBEFS_MNT
cp $1/kprobe_says_old.ko machine/modules
echo kprobe_says_how 1 HOW > machine/load/call
rm machine/modules/kprobe_says_old.ko
cut -d' ' -f2- kprobes/list | sed 's/ *$//' | sort
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[^;]*;//p'
`

// playSays runs saysScript on a release and returns what it prints.
func playSays(t *testing.T, release, how string, flags ...string) string {
	t.Helper()
	needFUSE(t)
	needBusybox(t)
	dir := publicDir(t)
	number := slices.Index([]string{"context", "dump", "before", "after", "returned"}, how)
	put(t, dir, "script", strings.ReplaceAll(saysScript, "HOW", strconv.Itoa(number)))
	modules, err := filepath.Abs("../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).exec(t, dir, nil, append([]string{"--cpus", "2", "--release", release}, flags...), "busybox", "sh", "script", modules)
	if status != 0 {
		t.Errorf("status %d:\n%s", status, out)
	}
	return out
}

// said returns the lines of a log that begin with a text, without it.
func said(log, prefix string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}

// TestOldContexts: handlers run with preemption disabled, and a breakpoint's with
// interrupts disabled, also where a hooked call returns: there is a probe in a trap, too
// (documents 000 and 002). Document 001 has return handlers run without interrupts
// disabled. No probe can be set at the trampoline, which implements kprobes.
func TestOldContexts(t *testing.T) {
	const want = `before: preempt_count 1, irqs off 1
after: preempt_count 1, irqs off 1
returned: preempt_count 1, irqs off OFF
gcd 6, int_sqrt 7
`
	for release, off := range map[string]string{"2.6.25": "1", "2.6.32": "1", "4.15": "0"} {
		t.Run(release, func(t *testing.T) {
			out := playSays(t, release, "context")
			got := said(out, "says: ")
			if _, rest, ok := strings.Cut(got, "at the trampoline: -22\n"); !ok || rest != strings.Replace(want, "OFF", off, 1) {
				t.Errorf("it says\n%s", got)
			}
		})
	}
}

// TestOldErrors: register_kprobe where there is no text of the kernel: EINVAL, but on
// 4.15 an address in the last page is an errno.
func TestOldErrors(t *testing.T) {
	const want = "400000: -22\n1000: -22\n8: -22\n7fffffffe000: -22\n8000000000000000: -22\nffffffffffffffff: LAST\nfffffffffffff001: FIRST\n"
	for release, last := range map[string][2]string{"2.6.25": {"-22", "-22"}, "2.6.32": {"-22", "-22"}, "4.15": {"-1", "-4095"}} {
		t.Run(release, func(t *testing.T) {
			got := said(playSays(t, release, "context"), "says: at ")
			if !strings.HasPrefix(got, strings.NewReplacer("LAST", last[0], "FIRST", last[1]).Replace(want)) {
				t.Errorf("it says\n%s", got)
			}
		})
	}
}

// inOrder reports the first of some patterns of lines that a log does not have after the
// others.
func inOrder(t *testing.T, log string, lines []string) {
	t.Helper()
	at := 0
	for _, line := range lines {
		where := regexp.MustCompile("(?m)^" + line + "$").FindStringIndex(log[at:])
		if where == nil {
			t.Fatalf("no line %s after %d bytes of\n%s", line, at, log)
		}
		at += where[1]
	}
}

// TestOldTraces: dump_stack in handlers. Up to 2.6.32 a probe that is alone at its place
// has no aggr_pre_handler, and the task's line and the addresses are as in logs of
// the time.
func TestOldTraces(t *testing.T) {
	const addr = `\[<ffffffff[0-9a-f]{8}>\]`
	pid := func(release string) []string {
		return []string{`Pid: \d+, comm: \S+ Not tainted ` + release + `-kprobefs-amd64 #1`, `Call Trace:`}
	}
	old := func(head []string) (lines []string) {
		lines = append(lines, "says: before: .*")
		lines = append(lines, head...)
		lines = append(lines, ` +`+addr+` dump_stack\+.*`, ` +`+addr+` look\+.* \[kprobe_says_old\]`, ` +`+addr+` before\+.* \[kprobe_says_old\]`, ` +`+addr+` kprobe_handler\+.*\n +`+addr+` gcd\+.*`)
		lines = append(lines, "says: after: .*")
		lines = append(lines, head...)
		lines = append(lines, ` +`+addr+` look\+.*`, ` +`+addr+` post_kprobe_handler\+.*\n +`+addr+` gcd\+.*`)
		lines = append(lines, "says: returned: .*")
		lines = append(lines, head...)
		return append(lines, ` +`+addr+` returned\+.*`, ` +`+addr+` trampoline_probe_handler\+.*\n +`+addr+` kretprobe_trampoline\+.*`)
	}
	blank := pid("2.6.25")
	blank[0] += "\n"
	for release, want := range map[string][]string{
		"2.6.25": old(blank),
		"2.6.32": old(pid("2.6.32")),
		"4.15": {
			"says: before: .*", `CPU: \d PID: \d+ Comm: \S+ Tainted: .* 4.15.0-kprobefs-amd64 #1`, `Call Trace:\n dump_stack\+.*`, " before\\+.*", " gcd\\+.*",
			"says: returned: .*", "Call Trace:", " trampoline_probe_handler\\+.*\n kretprobe_trampoline\\+.*",
		},
	} {
		t.Run(release, func(t *testing.T) {
			log := playSays(t, release, "dump")
			inOrder(t, log, want)
			for _, not := range []string{"<TASK>", "aggr_pre_handler"} {
				if strings.Contains(log, not) && (release != "4.15" || not != "aggr_pre_handler") {
					t.Errorf("there is %s in\n%s", not, log)
				}
			}
		})
	}
}

// TestOldFaults: a fault in a handler that its fault_handler does not handle is an oops
// that ends the task, and the machine goes on. The oopses have the form of logs of the
// time, and tell PREEMPT if the kernel is preemptible.
func TestOldFaults(t *testing.T) {
	needTime(t)
	old := func(release, number string) []string {
		return []string{
			`BUG: unable to handle kernel NULL pointer dereference at 0000000000000008`, `IP: \[<ffffffff[0-9a-f]{8}>\] look\+.* \[kprobe_says_old\]`, `PGD 0 `,
			`Oops: 0002 \[` + number + `\] SMP `, `CPU \d `, `Modules linked in: kprobe_says_old.*`, `Pid: \d+, comm: \S+ Not tainted ` + release + `-kprobefs-amd64 #1`,
			`RIP: 0010:\[<ffffffff[0-9a-f]{8}>\]  \[<ffffffff[0-9a-f]{8}>\] look\+.*`, `RSP: 0018:[0-9a-f]{16}  EFLAGS: [0-9a-f]{8}`, `RAX: .*`,
			`Process \S+ \(pid: \d+, threadinfo [0-9a-f]{16}, task [0-9a-f]{16}\)`, `Stack: ?(\n)?( [0-9a-f]{16}){4}`, `Call Trace:`, `Code: .*`,
			`RIP  \[<ffffffff[0-9a-f]{8}>\] look\+.*`, ` RSP <[0-9a-f]{16}>`, `CR2: 0000000000000008`, `---\[ end trace [0-9a-f]{16} \]---`,
		}
	}
	for release, oops := range map[string][]string{
		"2.6.25": old("2.6.25", "1"),
		"2.6.32": old("2.6.32", "#1"),
		"4.15": {
			`BUG: unable to handle kernel NULL pointer dereference at 0000000000000008`, `IP: look\+.*`, `PGD 0 P4D 0 `, `Oops: 0002 \[#1\] SMP NOPTI`, `Modules linked in: .*`,
			`CPU: \d PID: .*`, `RIP: 0010:look\+.*\nRSP: .*`, `Call Trace:`, `Code: .*`, `RIP: look\+.* RSP: [0-9a-f]{16}`, `CR2: 0000000000000008`, `---\[ end trace [0-9a-f]{16} \]---`,
		},
	} {
		for _, how := range []string{"before", "after", "returned"} {
			t.Run(release+"/"+how, func(t *testing.T) {
				log := playSays(t, release, how)
				inOrder(t, log, append(append([]string{`says: ` + how + `: .*`, `says: fault 14, .*`}, oops...), `note: \S+\[\d+\] exited with preempt_count 1`))
				if !strings.Contains(log, " k  gcd+0x5") || strings.Contains(log, "Kernel panic") || strings.Contains(log, "scheduling while atomic") {
					t.Errorf("the machine does not go on:\n%s", log)
				}
			})
		}
	}
	t.Run("preemptible", func(t *testing.T) {
		inOrder(t, playSays(t, "2.6.25", "before", "--config", "CONFIG_PREEMPT=y"), []string{`Oops: 0002 \[1\] PREEMPT SMP `})
	})
}

// marksScript prints the stack that kprobe_example dumps when a task is created.
const marksScript = `cd $KPROBEFS_MNT
cp $1/kprobe_example.ko machine/modules
(busybox true)
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | sed -n 's/^[^;]*;//p' | grep '^ <\|^Call Trace\|^ kernel_clone' | sed 's/+.*//' | head -n 4
`

// TestTraceMarks: stack traces have <TASK> on 6.1 and not on 5.10, as on Debian's kernels.
func TestTraceMarks(t *testing.T) {
	for release, want := range map[string]string{"5.10": "Call Trace:\n kernel_clone\nCall Trace:\n kernel_clone\n", "6.1": "Call Trace:\n <TASK>\n kernel_clone\n </TASK>\n"} {
		t.Run(release, func(t *testing.T) {
			folder := map[string]string{"5.10": "/5.10"}[release]
			playModules(t, strings.ReplaceAll(marksScript, "$1", "$1"+folder), want, "--release", release)
		})
	}
}

// consoleScript loads the document's example, which prints at each fork, and prints
// messages of other levels.
const consoleScript = `cp $1/MODULE.ko $KPROBEFS_MNT/machine/modules
(busybox true)
for n in 3 5 7; do echo "<$n>level $n" >/dev/kmsg; done
dmesg -n 4
for n in 3 5; do echo "<$n>then level $n" >/dev/kmsg; done
echo 8 >/proc/sys/kernel/printk
echo "<7>now level 7" >/dev/kmsg
rm $KPROBEFS_MNT/machine/modules/MODULE.ko
`

// TestConsole: with --console, what printk says comes to the terminal, as document 002
// says of its examples, if its level is below console_loglevel.
func TestConsole(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	modules, err := filepath.Abs("../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	const stamp = `\[ +\d+\.\d{6}\] `
	for release, lines := range map[string][]string{
		"2.6.25": {"pre_handler: p->addr=.*", "Pid: .*", "post_handler: p->addr=.*", "level 3", "level 5", "then level 3", "now level 7", "kprobe unregistered"},
		"6.1":    {"pre_handler: p->addr=.*", "CPU: .*", "post_handler: p->addr=.*", "level 3", "level 5", "then level 3", "now level 7", "kprobe unregistered.*"},
	} {
		t.Run(release, func(t *testing.T) {
			module := map[string]string{"2.6.25": "kprobe_example_old", "6.1": "kprobe_example"}[release]
			for _, flags := range [][]string{{"--console"}, nil} {
				dir := publicDir(t)
				put(t, dir, "script", strings.ReplaceAll(consoleScript, "MODULE", module))
				out, status := asUser(nil).exec(t, dir, nil, append([]string{"--release", release}, flags...), "busybox", "sh", "script", modules)
				if status != 0 {
					t.Errorf("status %d", status)
				}
				if flags == nil && out != "" {
					t.Errorf("without a console it prints\n%s", out)
				}
				if flags == nil {
					continue
				}
				var want []string
				for _, line := range lines {
					want = append(want, stamp+line)
				}
				inOrder(t, out, want)
				for _, not := range []string{"] level 7", "] then level 5"} {
					if strings.Contains(out, not) {
						t.Errorf("there is %q in\n%s", not, out)
					}
				}
			}
		})
	}
}

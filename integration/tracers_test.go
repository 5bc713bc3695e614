package integration

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tracerScript runs a script that uses third-party tracing programs, as root, and
// returns its output.
func tracerScript(t *testing.T, script string, needs ...string) string {
	t.Helper()
	needFUSE(t)
	for _, program := range needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing (Debian: perf-tools-unstable, trace-cmd, linux-perf)", program)
		}
	}
	dir := publicDir(t)
	put(t, dir, "script", script)
	put(t, dir, "lib.sh", Lib())
	out, status := asUser(nil).kprobefs(t, dir, []string{"HOME=" + dir}, 2, "sh", "script")
	if status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out)
	}
	return out
}

// expect fails unless the patterns match parts of the output in the given order.
func expect(t *testing.T, out string, patterns ...string) {
	t.Helper()
	rest := out
	for _, p := range patterns {
		at := regexp.MustCompile("(?m)" + p).FindStringIndex(rest)
		if at == nil {
			t.Errorf("nothing matches %q in\n%s\nof\n%s", p, rest, out)
			return
		}
		rest = rest[at[1]:]
	}
}

// TestPerfTools runs Brendan Gregg's kprobe and reset-ftrace, unmodified.
func TestPerfTools(t *testing.T) {
	needTime(t)
	out := tracerScript(t, `. ./lib.sh
reader() { (sleep 1; head -c 50 $T/README >/dev/null) & }
echo "== entry"; reader
kprobe-perf -d 2 'p:vfs_read' 'COMM == "head"' 2>&1 # of grep, which reads trace, there would be no end
echo "== name, argument, filter, header"; reader
kprobe-perf -H -d 2 'p:mine vfs_read count=%dx:u32' 'count == 50' 2>&1
echo "== return"; reader
kprobe-perf -d 2 'r:vfs_read $retval:s32' 'arg1 == 50' 2>&1
echo "== stacks"; reader
kprobe-perf -s -d 2 'p:vfs_read' 'COMM == "head"' 2>&1
echo "stacktrace: $(cat $T/options/stacktrace)"
echo "== format"
kprobe-perf -v 'p:vfs_read x=%di:u8' 2>&1
echo "== refused"
kprobe-perf -d 1 'p:no_such_function' 2>&1
kprobe-perf -d 1 'p:vfs_read %nosuch' 2>&1 | grep ERROR
kprobe-perf -d 1 'p:vfs_read' 'nofield == 1' 2>&1 | grep ERROR
echo "== left: $(cat $E)"
echo p:left vfs_read >$E
echo 1 >$T/events/kprobes/left/enable
reset-ftrace-perf -q
echo "reset: $? $(cat $T/events/enable)"
clean
`, "kprobe-perf", "reset-ftrace-perf")
	expect(t, out,
		`^Tracing kprobe vfs_read for 2 seconds \(buffered\)`, `vfs_read: \(vfs_read\+0x0/0x[0-9a-f]+\)$`, `^Ending tracing`,
		`^== name`, `^# tracer: nop`, `mine: \(vfs_read\+0x0/0x[0-9a-f]+\) count=50$`, `^Ending tracing`,
		`^== return`, `head-\d+ .* vfs_read: \(\w+\+0x[0-9a-f]+/0x[0-9a-f]+ <- vfs_read\) arg1=50$`, `^Ending tracing`,
		`^== stacks`, `vfs_read: \(vfs_read\+0x0/0x[0-9a-f]+\)$`, `<stack trace>$`, `^ => vfs_read$`, `^ => ksys_read$`, `^ => do_syscall_64$`, `^Ending tracing`, `^stacktrace: 0$`,
		`^== format`, `field:u8 x;\s+offset:16;\s+size:1;`, `print fmt: "\(%lx\) x=%u"`,
		`^== refused`, `^ERROR: func no_such_function not in`, `^ERROR: adding kprobe`, `^ERROR: setting filter`,
		`^== left: $`, `^reset: 0 0$`)
	section, _, _ := strings.Cut(out[strings.Index(out, "== return"):], "== format")
	if strings.Contains(section, "arg1=0") {
		t.Errorf("the filter arg1 == 50 let others through:\n%s", section)
	}
}

// snoop is a script's function that runs a tool while programs open and execute files.
const snoop = `. ./lib.sh
echo text >some_file
snoop() {
	echo "== $1"
	rm -f stop
	(until [ -e stop ]; do cat some_file missing_file >/dev/null 2>&1; sleep 0.1; done) &
	"$@" 2>&1
	touch stop; wait
}
`

// TestPerfToolsPrograms: the other tools of perf-tools show what programs do, those that run on
// Debian's 6.1. There execsnoop and funccount fail with these errors, too: they look for
// do_execve and for the function profiler. iosnoop sees the reads of the kernel's disk.
func TestPerfToolsPrograms(t *testing.T) {
	needTime(t)
	out := tracerScript(t, snoop+`
snoop functrace-perf -d 2 do_sys_openat2
snoop tpoint-perf -d 2 sched:sched_process_exec
snoop tpoint-perf -H -d 2 syscalls:sys_enter_openat
echo "== syscount"; syscount-perf -c cat some_file 2>&1
snoop execsnoop-perf -d 2
snoop funccount-perf -d 2 'vfs_*'
echo "== iosnoop"; rm -f stop
(until [ -e stop ]; do dd if=$KPROBEFS_MNT/dev/vda of=/dev/null bs=4k count=1 status=none; sleep 0.1; done) &
iosnoop-perf 2 2>&1
touch stop; wait
echo "== left: $(cat $E $T/current_tracer $T/events/enable)"
`, "functrace-perf", "perf")
	expect(t, out,
		`^== functrace`, `^ +cat-\d+ +\[\d+\] .* do_sys_openat2 <-__x64_sys_openat$`, `^Ending tracing`,
		`^== tpoint`, `^ +cat-\d+ .* sched_process_exec: filename=\S*/cat pid=\d+ old_pid=\d+$`, `^Ending tracing`,
		`^== tpoint`, `^# tracer: nop`, `^ +cat-\d+ .* sys_openat\(dfd: ffffff9c, filename: [0-9a-f]+, flags: `, `^Ending tracing`,
		`^== syscount`, `^SYSCALL +COUNT$`, `^write +1$`, `^(read|openat) +\d+$`, `^(read|openat) +\d+$`,
		`^== execsnoop`, `^ERROR: adding a kprobe for execve`,
		`^== funccount`, `^ERROR: enabling function profiling`,
		`^== iosnoop`, `^COMM +PID`, `^dd +\d+ +RA +254,0 +0 +16384 +\d`, `^Ending tracing`,
		`^== left: nop\n0$`)
}

// TestOpensnoop: perf-tools' opensnoop shows what programs open, and with what result. Its awk
// scripts are for GNU's, which writes at once only to a terminal. A busy machine needs some of the
// ten seconds until the events are on.
func TestOpensnoop(t *testing.T) {
	needTime(t)
	out := tracerScript(t, snoop+`
terminal() { script -qc "timeout -s INT 10 $*" /dev/null </dev/null | tr -d '\r'; }
snoop terminal opensnoop-perf some_file
snoop terminal opensnoop-perf -n cat -t _file
`, "opensnoop-perf", "gawk", "script")
	expect(t, out,
		`^== terminal`, `^COMM +PID +FD FILE$`, `^cat +\d+ +0x3 some_file$`, `^Ending tracing`,
		`^== terminal`, `^\d+\.\d+ +cat +\d+ +0x3 some_file$`, `^\d+\.\d+ +cat +\d+ +-1 missing_file$`, `^Ending tracing`)
}

// TestTraceCmdSyscalls: trace-cmd records all calls of a command, and the functions of some.
func TestTraceCmdSyscalls(t *testing.T) {
	needTime(t)
	out := tracerScript(t, `. ./lib.sh
echo text >some_file
report() { trace-cmd report -i $1 2>/dev/null | sed -E 's/ +/ /g'; }
trace-cmd record -e syscalls -o calls.dat sh -c 'cat some_file missing_file; exec /bin/echo x' >/dev/null 2>&1 || exit
echo "== calls"; report calls.dat | grep -E '^ (cat|echo)-'
trace-cmd record -p function -l vfs_read -l vfs_write -l do_sys_openat2 -o functions.dat cat some_file >/dev/null 2>&1 || exit
echo "== functions"; report functions.dat | grep '^ cat-'
clean
`, "trace-cmd")
	expect(t, out,
		`^== calls`, `^ cat-.* sys_enter_openat: dfd: 0xffffff9c, filename: 0x[0-9a-f]+, flags: 0x`, `^ cat-.* sys_exit_openat: 0x3$`,
		`^ cat-.* sys_enter_read: fd: 0x0*3, buf: 0x[0-9a-f]+, count: 0x`, `^ cat-.* sys_exit_read: 0x5$`,
		`^ cat-.* sys_enter_write: fd: 0x0*1, buf: 0x[0-9a-f]+, count: 0x0*5$`, `^ cat-.* sys_exit_write: 0x5$`,
		`^ cat-.* sys_enter_openat: `, `^ cat-.* sys_exit_openat: 0xfffffffffffffffe$`, `^ cat-.* sys_enter_exit_group: `,
		`^ echo-.* sys_enter_write: fd: 0x0*1, buf: 0x[0-9a-f]+, count: 0x0*2$`,
		`^== functions`, `function: do_sys_openat2$`, `function: vfs_read$`, `function: vfs_write$`)
}

// TestTraceCmd runs trace-cmd, unmodified. It must find kprobefs's files (it mounts
// tracefs, which must not hide them), and its trace.dat, made from pages of the ring
// buffer, must have the same events as trace.
func TestTraceCmd(t *testing.T) {
	copied := func(n int) string { // by dd, three times
		return fmt.Sprintf(`( +1 v: n=%d c="reader"\n +1 w: n=%d c="reader"\n){3}`, n, n)
	}
	out := tracerScript(t, `. ./lib.sh
echo 'p:v vfs_read n=%dx:s32 c=$comm' >$E
echo 'p:w vfs_write n=$arg3:u16 c=$comm' >>$E
mine='c=="reader"&&n<780' # not what the dynamic linker reads of the libraries: 784 bytes and more
filtered="-e kprobes:v -f $mine -e kprobes:w -f $mine" # it begins with no filter
cp "$(command -v dd)" reader
work() { for n in 11 222 333; do ./reader if=$T/README of=$T/trace bs=$n count=2 conv=notrunc status=none; done; }
# lines: task, vCPU, time, event and its arguments.
lines() { grep -E ' [vw]: ' | sed -E 's/ \.\.\.\.\. / /; s/\([^)]*\)//; s/ +/ /g'; }
echo "== list"; trace-cmd list -e '^kprobes:'; trace-cmd list -t; trace-cmd list -f | grep -cx vfs_read
echo "== start"; trace-cmd start $filtered || exit; work
echo "== stat"; trace-cmd stat
trace-cmd stop; echo "stopped: $(cat $T/tracing_on)"
echo "== show"; trace-cmd show | lines >show
wc -l <show; lines <$T/trace | cmp - show && echo same
trace-cmd extract -o extracted.dat >/dev/null 2>&1 || exit
echo "== extracted"; trace-cmd report -i extracted.dat 2>/dev/null | lines | cmp - show && echo same
trace-cmd restart; echo "restarted: $(cat $T/tracing_on)"
trace-cmd clear
echo "== record"; trace-cmd record -o recorded.dat $filtered sh -c 'for n in 7 77 777; do ./reader if='$T'/README of=/dev/null bs=$n count=3 status=none; done' >/dev/null 2>&1 || exit
trace-cmd report -i recorded.dat 2>/dev/null | lines | cut -d' ' -f5- | uniq -c
echo "== snapshot"; trace-cmd start -e kprobes:v -f "$mine"; work; trace-cmd snapshot -s; trace-cmd snapshot | lines | wc -l
trace-cmd snapshot -f
echo "== reset"; trace-cmd reset; wc -l <$E; cat $T/events/enable
echo p:x vfs_read >$E
mount -t tracefs nodev $T 2>/dev/null || grep kprobes: $T/available_events
clean
`, "trace-cmd")
	expect(t, out,
		`^== list\n`, `^kprobes:v$`, `\bnop\b`, `^1$`,
		`^== stat$`, `kprobes`, `p:kprobes/v vfs_read n=%dx:s32 c=\$comm`, `^Tracing is enabled`, `^stopped: 0`,
		`^== show\n12\nsame\n`, `^== extracted\nsame\nrestarted: 1$`,
		`^== record\n`+copied(7)+copied(77)+copied(777),
		`^== snapshot\n6\n`, `^== reset\n0\n0\nkprobes:x\n`)
}

// TestPerfProbe runs perf probe, unmodified.
func TestPerfProbe(t *testing.T) {
	out := tracerScript(t, `. ./lib.sh
perf probe -q -a vfs_read; echo "added: $?"
perf probe -q -a 'mine=vfs_write+5 %di'; echo "added: $?"
perf probe -q -a 'vfs_open%return $retval'; echo "added: $?"
echo "== files"; cut -d' ' -f1 $E; ls $T/events/probe
echo "== list"; perf probe -l
echo "== functions"; perf probe -F 2>/dev/null | grep -x -e vfs_read -e kernel_clone
perf probe -a no_such_function >/dev/null 2>&1; echo "refused: $((! !$?))"
perf probe -q -a vfs_read 2>/dev/null; echo "again: $((! !$?))"
echo "== deleted"; perf probe -d 'vfs_*' 2>&1; cut -d' ' -f1 $E
perf probe -q -d '*'; wc -l <$E
`, "perf")
	expect(t, out,
		`^added: 0\nadded: 0\nadded: 0\n`, `^== files\np:probe/vfs_read\np:probe/mine\nr\d*:probe/vfs_open__return\n`,
		`^== list\n`, `probe:mine +\(on vfs_write\+5 with arg1\)`, `probe:vfs_read +\(on vfs_read\)`, `probe:vfs_open__return +\(on vfs_open%return with arg1\)`,
		`^== functions\nkernel_clone\nvfs_read\n`, `^refused: 1\nagain: 1\n`, `^== deleted\n`, `Removed event: probe:vfs_read`, `^p:probe/mine\n0\n`)
}

// TestCilium runs the tests of cilium/ebpf's package for tracefs, unmodified: it finds the
// files by statfs(2).
func TestCilium(t *testing.T) {
	needFUSE(t)
	const module = "github.com/cilium/ebpf@v0.16.0"
	text, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var source struct{ Dir string }
	if jerr := json.Unmarshal(text, &source); err != nil || jerr != nil {
		t.Skipf("%s cannot be had: %v, %v", module, err, jerr)
	}
	dir := publicDir(t)
	build := exec.Command("go", "test", "-c", "-mod=mod", "-o", filepath.Join(dir, "tests"), "./internal/tracefs")
	build.Dir = source.Dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put(t, dir, "script", "./tests -test.v")
	out, status := asUser(nil).kprobefs(t, dir, nil, 2, "sh", "script")
	if failed := regexp.MustCompile(`(?m)^ *--- (FAIL|SKIP).*`).FindAllString(out, -1); status != 0 || len(failed) > 0 {
		t.Errorf("exit status %d, %q:\n%s", status, failed, out)
	}
}

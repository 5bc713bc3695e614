package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// debianObjects returns the modules of DebianModules, or skips the test where the headers
// are missing.
func debianObjects(t *testing.T) map[string][]byte {
	t.Helper()
	objects, err := builtModules()
	if errors.Is(err, ErrNoHeaders) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// builtModules builds the modules of DebianModules once for all tests: it takes half a
// minute.
var builtModules = sync.OnceValues(func() (map[string][]byte, error) { return BuildModules(DebianModules) })

// needTool skips the test where a program is missing, but not in CI.
func needTool(t *testing.T, name, from string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "true" {
		t.Skipf("%s is missing (Debian: %s)", name, from)
	}
}

// moduleDir returns a directory for every user with some modules and a script.
func moduleDir(t *testing.T, script string, names ...string) string {
	t.Helper()
	dir := publicDir(t)
	objects := debianObjects(t)
	for _, name := range names {
		put(t, dir, name+".ko", string(objects[name+".ko"]))
	}
	put(t, dir, "script", script)
	return dir
}

// users are root, or whoever runs the tests, and an ordinary user.
func users(t *testing.T) map[string]asUser {
	all := map[string]asUser{"this user": nil}
	if user := ordinary(t); user != nil {
		all["ordinary user"] = user
	}
	return all
}

// toolScript loads and unloads modules with the tools that $1 names. It prints what the
// kernel says, and of the tools only their status.
const toolScript = `
[ -e /proc/modules ] && listed() { $1 lsmod | awk '$1 == "shares" {print $1, $3, $4}'; } || listed() { cut -d' ' -f1,3,4 $KPROBEFS_MNT/proc/modules | sed -n 's/,$//; s/-$//; /^shares/p'; }
try() { echo "# $*"; "$@" >/dev/null 2>&1 || echo "[$?]"; }
try $1 insmod uses.ko
try $1 insmod shares.ko
try $1 insmod shares.ko
try $1 insmod uses.ko
listed $1
try $1 rmmod shares
try $1 rmmod uses
listed $1
try $1 rmmod shares
listed $1
try $1 insmod life.ko result=x
try $1 insmod life.ko 'nosuch=1' result=-2
try $1 insmod life.ko hold=0
try $1 insmod noexit.ko
try $1 rmmod noexit
try $1 rmmod life
$1 dmesg | sed 's/^[^]]*\] //' | grep -E '^(life|shares|uses|noexit): ' | grep -vE 'taint|frame|probe|shares_times\(' 
$1 dmesg -c | grep -c 'here for good'; $1 dmesg
echo '<4>later' >/dev/kmsg; $1 dmesg | sed 's/^[^]]*\] //'
$1 dmesg -n 4
`

// toolsSay is what it prints, for kmod and for busybox, whose insmod tries a second time
// after a failure.
const toolsSay = `# insmod uses.ko
[1]
# insmod shares.ko
# insmod shares.ko
[1]
# insmod uses.ko
shares 1 uses
# rmmod shares
[1]
# rmmod uses
shares 0 
# rmmod shares
# insmod life.ko result=x
[1]
# insmod life.ko nosuch=1 result=-2
[1]
# insmod life.ko hold=0
# insmod noexit.ko
# rmmod noexit
[1]
# rmmod life
uses: Unknown symbol shares_number (err -2)
uses: Unknown symbol shares_times (err -2)
uses: times 42
uses: times 49
shares: number 7
life: ` + "`x' invalid for parameter `result'" + `
life: unknown parameter 'nosuch' ignored
life: init of life, state 1, 7
life: init of life, state 1, 7
noexit: here for good
life: exit, state 2, live 0
1
later
`

// busyboxSays is what busybox's insmod says otherwise: its status is the errno.
var busyboxSays = strings.NewReplacer(
	"# insmod uses.ko\n[1]", "# insmod uses.ko\n[2]",
	"# insmod shares.ko\n[1]", "# insmod shares.ko\n[17]",
	"result=x\n[1]", "result=x\n[22]",
	"result=-2\n[1]", "result=-2\n[2]",
)

// TestModuleTools: insmod, rmmod, lsmod and dmesg of kmod, util-linux and busybox act on
// the emulated kernel.
func TestModuleTools(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	needTool(t, "kmod", "kmod")
	dir := moduleDir(t, toolScript, "shares", "uses", "life", "noexit")
	for who, user := range users(t) {
		for name, tools := range map[string]string{"kmod": "", "busybox": "busybox"} {
			t.Run(who+"/"+name, func(t *testing.T) {
				t.Parallel()
				out, status := user.exec(t, dir, []string{"TMPDIR=" + publicDir(t), "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, nil, "sh", "script", tools)
				want := toolsSay
				if tools != "" {
					want = strings.ReplaceAll(busyboxSays.Replace(want), "# ", "# busybox ")
				}
				if got := onceEach(out); got != onceEach(want) || status != 0 {
					t.Errorf("status %d, -want +got\n%s", status, diff(onceEach(want), got))
				}
			})
		}
	}
}

// onceEach drops lines that were printed before: what the kernel says twice when
// busybox's insmod tries twice.
func onceEach(text string) string {
	seen := map[string]bool{}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if said := strings.Contains(line, ": "); !said || !seen[line] {
			b.WriteString(line)
		}
		seen[line] = true
	}
	return b.String()
}

// TestUname: uname(2) tells the emulated kernel's release, as /proc/version does; the
// host's with --uname=host. Static programs of today run on all releases.
func TestUname(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimSpace(string(b))
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{nil, "6.1.0-56-amd64"},
		{[]string{"--release", "5.10"}, "5.10.0-"},
		{[]string{"--release", "4.15"}, "4.15.0-"},
		{[]string{"--release", "2.6.25"}, "2.6.25-"},
		{[]string{"--uname", "host"}, host},
		{[]string{"--uname", "release", "--release", "6.12"}, "6.12.0-"},
	} {
		out, status := asUser(nil).exec(t, "/", nil, c.flags, "sh", "-c", "uname -r; busybox uname -r; cut -d' ' -f3 /proc/version; uname -v; uname -n; setarch i686 uname -m")
		lines := strings.Split(out, "\n")
		if status != 0 || len(lines) < 6 || !strings.HasPrefix(lines[0], c.want) || lines[1] != lines[0] || c.want != host && lines[2] != lines[0] {
			t.Errorf("%q: status %d\n%s", c.flags, status, out)
			continue
		}
		name, _ := os.Hostname()
		if emulated := strings.Contains(lines[3], "emulating Linux "); emulated != (c.want != host) || lines[4] != name || lines[5] != "i686" {
			t.Errorf("%q:\n%s", c.flags, out)
		}
	}
	if out, status := asUser(nil).exec(t, "/", nil, []string{"--uname", "mine"}, "true"); status != 2 || !strings.Contains(out, "release and host") {
		t.Errorf("--uname=mine: status %d, %s", status, out)
	}
}

// oddCalls makes calls that fail, and prints their errnos.
const oddCalls = `
use POSIX;
sub say { my ($what, $r) = @_; print "$what: ", (defined $r && $r != -1 ? $r : "$!"), "\n"; }
my ($finit, $init, $del, $log) = (313, 175, 176, 103);
my $no = ""; my $nothing = "nothing"; my $long = "a" x 300; my $zeros = "\0" x 1000; my $room = "\0" x 100;
open(my $f, "<", "life.ko"); open(my $w, "+<", "life.ko"); open(my $o, ">>", "life.ko"); open(my $e, ">", "empty"); open($e, "<", "empty");
opendir(my $d, "/"); pipe(my $p, my $q);
say("no file", syscall($finit, -1, $no, 0));
say("flags 8", syscall($finit, -1, $no, 8));
say("flags 4", syscall($finit, fileno($f), $no, 4));
say("directory", syscall($finit, fileno($d), $no, 0));
say("pipe", syscall($finit, fileno($p), $no, 0));
say("empty", syscall($finit, fileno($e), $no, 0));
say("written", syscall($finit, fileno($w), $no, 0));
say("only written", syscall($finit, fileno($o), $no, 0));
close $w; close $o;
say("arguments at 8", syscall($finit, fileno($f), 8, 0));
say("object at 8", syscall($init, 8, 100, $no));
say("short", syscall($init, $zeros, 10, $no));
say("zeros", syscall($init, $zeros, 1000, $no));
say("huge", syscall($init, $zeros, 1 << 40, $no));
say("delete at 8", syscall($del, 8, 0));
say("delete nothing", syscall($del, $nothing, 0));
say("delete a long name", syscall($del, $long, 0));
say("log action 11", syscall($log, 11, 0, 0));
say("log without a buffer", syscall($log, 3, 0, 10));
say("log at 8", syscall($log, 3, 8, 100));
say("log -1", syscall($log, 3, $room, -1));
say("log size", syscall($log, 10, 0, 0));
say("level 9", syscall($log, 8, 0, 9));
say("uname at 8", syscall(63, 8));
POSIX::setuid(65534) if $> == 0 && $ARGV[0] eq "drop";
if ($ARGV[0] eq "drop") {
  say("user's file", syscall($finit, -1, $no, 8));
  say("user's object", syscall($init, 0, 0, $no));
  say("user's delete", syscall($del, 0, 0));
  say("user's log", syscall($log, 11, 0, 0));
}
`

// oddSays is what Debian's 6.1 says to these calls.
const oddSays = `no file: Bad file descriptor
flags 8: Invalid argument
flags 4: Operation not supported
directory: Invalid argument
pipe: Invalid argument
empty: Invalid argument
written: Text file busy
only written: Bad file descriptor
arguments at 8: Bad address
object at 8: Bad address
short: Exec format error
zeros: Exec format error
huge: Cannot allocate memory
delete at 8: Bad address
delete nothing: No such file or directory
delete a long name: No such file or directory
log action 11: Invalid argument
log without a buffer: Invalid argument
log at 8: Bad address
log -1: Invalid argument
log size: 131072
level 9: Invalid argument
uname at 8: Bad address
user's file: Operation not permitted
user's object: Operation not permitted
user's delete: Operation not permitted
user's log: Operation not permitted
`

// TestOddCalls: system calls about modules and the log have Linux's errnos.
func TestOddCalls(t *testing.T) {
	needFUSE(t)
	needTool(t, "perl", "perl-base")
	dir := moduleDir(t, oddCalls, "life")
	drop := "drop"
	want := oddSays
	if os.Getuid() != 0 {
		drop, want = "keep", want[:strings.Index(want, "user's")]
	}
	out, status := asUser(nil).exec(t, dir, nil, nil, "perl", "script", drop)
	if out != want || status != 0 {
		t.Errorf("status %d, -Linux +kprobefs\n%s", status, diff(want, out))
	}
	out, _ = asUser(nil).exec(t, dir, nil, []string{"--release", "5.10"}, "perl", "script", "keep")
	if !strings.Contains(out, "flags 4: Invalid argument\n") {
		t.Errorf("on 5.10:\n%s", out)
	}
}

// TestModulesOutliveExec: what a command leaves behind has its kernel, with the probes that are set
// there. When the process in the background is told to end, it does not reach the host's kernel
// with calls about modules.
func TestModulesOutliveExec(t *testing.T) {
	needFUSE(t)
	needTool(t, "perl", "perl-base")
	dir := publicDir(t)
	mark := "KPROBEFS_LEFT_TEST=" + filepath.Base(dir)
	out, status := asUser(nil).exec(t, dir, []string{mark}, nil, "sh", "-c", `echo p:left vfs_read >/sys/kernel/tracing/kprobe_events
ask() {
	until [ -e $1 ]; do sleep 0.05; done
	{
		cat /sys/kernel/tracing/kprobe_events
		perl -e '$n = "no_such_module"; syscall(176, $n, 0) and print "$!\n"'
		uname -r
	} >said.tmp 2>/dev/null
	mv said.tmp said-$1
}
{ ask with; ask without; } </dev/null >/dev/null 2>&1 &
echo left`)
	if out != "left\n" || status != 0 {
		t.Fatalf("status %d, %s", status, out)
	}
	said := func(when string) (text string) {
		put(t, dir, when, "")
		eventually(t, "it says something", func() bool {
			b, err := os.ReadFile(filepath.Join(dir, "said-"+when))
			text = string(b)
			return err == nil
		})
		return text
	}
	host, err := exec.Command("uname", "-r").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := said("with"), "p:kprobes/left vfs_read\nNo such file or directory\n"; !strings.HasPrefix(got, want) || strings.HasSuffix(got, string(host)) {
		t.Errorf("with its kernel: %q", got)
	}
	for _, pid := range descendants(mark) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("\x00inside\x00")) {
			_ = syscall.Kill(pid, syscall.SIGTERM)
			eventually(t, "the background ends", func() bool { return !slices.Contains(descendants(mark), pid) })
		}
	}
	if got, want := said("without"), "Input/output error\n"+string(host); got != want {
		t.Errorf("without: %q, want %q", got, want)
	}
	noneLeft(t, mark)
}

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// attachLimit bounds a script of these tests: what hangs fails.
const attachLimit = 3 * time.Minute

// attachLib mounts a tree at $M, below which exec runs a command. seen waits until
// the last read of a program is recorded, which on a busy machine may be after its end;
// read_by lists the sizes of its reads then, and stops recording.
const attachLib = `
M=$PWD/tree
T=/sys/kernel/tracing
mkdir $M
$K --log-file daemon.log mount --daemon $M || exit
X="$K exec --attach $M"
below() { $X "$@"; }
probe() { below --mirror none -- sh -c "echo 'p:r vfs_read count=\$arg3:u32' >>$T/kprobe_events; echo 'r:rr vfs_read ret=\$retval:s32' >>$T/kprobe_events; echo 1 >$T/events/kprobes/enable"; }
seen() { until_true "timeout 2 grep -qE '^ *$1-[0-9]+ .*: rr: .* ret=0\$' $M/tracing/trace"; }
read_by() { seen $1; below --mirror none -- sh -c "echo 0 >$T/events/kprobes/enable; sed -nE 's/^ *$1-[0-9]+ .*: r[r]?: .* (count|ret)=/\1 /p' $T/trace"; }
daemon() { for p in /proc/[0-9]*; do { tr '\0' ' ' <$p/cmdline; } 2>/dev/null | grep -q -- "--detached.* $M \$" && echo ${p#/proc/}; done; }
inside() { for p in /proc/[0-9]*; do { tr '\0' ' ' <$p/cmdline; } 2>/dev/null | grep -q " inside .*$1" && echo ${p#/proc/}; done; }
D=$(daemon)
traced() { cat /proc/[0-9]*/status 2>/dev/null | grep -c "TracerPid:.$D\$"; }
until_true() { for i in $(seq 200); do eval "$1" && return; sleep 0.05; done; echo "never: $1"; }
printf 123456789 >nine
cp $(command -v dd) dd_a; cp dd_a dd_b
`

// inTree has each user run a script after attachLib in a private mount namespace, and
// compares its output.
func inTree(t *testing.T, script, want string) {
	t.Helper()
	needFUSE(t)
	for who, user := range users(t) {
		t.Run(who, func(t *testing.T) { wantOutput(t, user.inTree(t, script), want) })
	}
}

// inTree runs a script after attachLib in a private mount namespace, and returns its output.
func (user asUser) inTree(t *testing.T, script string) string {
	t.Helper()
	dir := publicDir(t)
	put(t, dir, "script", attachLib+script+"\n$K umount $M || echo not unmounted\n")
	ctx, cancel := context.WithTimeout(context.Background(), attachLimit)
	defer cancel()
	unshare := []string{"unshare", "-m"}
	if user != nil {
		unshare = []string{"unshare", "-Urm"}
	}
	argv := slices.Concat(user, unshare, []string{"sh", "script"})
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "K="+filepath.Join(built, "kprobefs"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// TestAttachKernelFile: a command below a tree of a kernel's file is told that kernel's release, and --cpu decides
// for which processor its text is.
func TestAttachKernelFile(t *testing.T) {
	needFUSE(t)
	dir := publicDir(t)
	b := guest.Image("6.1")
	m, err := image.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	var symbols strings.Builder
	for _, s := range m.Symbols {
		fmt.Fprintf(&symbols, "%016x %c %s\n", s.Addr, s.Type, s.Name)
	}
	const release = "6.1.77-of-a-file"
	was := []byte("Linux version 6.1 (kprobefs guest)\n")
	if !bytes.Contains(b, was) {
		t.Fatal("the guest has another banner")
	}
	put(t, dir, "vmlinux", string(bytes.Replace(b, was, fmt.Appendf(nil, "Linux version %-20s\n", release), 1)))
	put(t, dir, "System.map", symbols.String())
	got := asUser(nil).inTree(t, `
F="--kernel `+dir+`/vmlinux --symbols `+dir+`/System.map"
below uname -r
mkdir $PWD/file
$K --log-file file.log mount --daemon $F --cpu baseline $PWD/file || exit
$K exec --attach $PWD/file -- uname -r
$K exec --attach $PWD/file -- cut -d' ' -f-3 /proc/version
$K umount $PWD/file
$K exec $F -- uname -r
$K exec $F --cpu nothing -- uname -r 2>&1 | grep -c "is no feature"
`)
	wantOutput(t, got, "6.1.0-56-amd64\n"+release+"\nLinux version "+release+"\n"+release+"\n1\n")
}

// TestWhyAt asks about the kernel of a mounted tree, and is shown what is probed there.
func TestWhyAt(t *testing.T) {
	out := asUser(nil).inTree(t, `
echo 'p:mine vfs_read' >$M/tracing/kprobe_events
$K why --at $M vfs_read vfs_write; echo status $?
mkdir empty; $K why --at empty vfs_read; echo status $?`)
	for _, want := range []string{"vfs_read on Linux 6.1", "  probed       in ", "registered\n", "vfs_write on Linux 6.1", "status 0\n", "no kprobefs is mounted there; 'kprobefs mounted' lists those that are\nstatus 2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Count(out, "  probed       in ") != 1 {
		t.Errorf("vfs_write is not probed:\n%s", out)
	}
}

// TestNestedExec: exec below exec is refused, also by a process that has outlived its exec;
// another tree can be mounted there.
func TestNestedExec(t *testing.T) {
	inTree(t, `
mkdir other
for flags in "" "--mirror none" "--attach $M"; do
	$K exec -- sh -c "$K exec $flags true; echo \$?" 2>&1
done
below -- sh -c "env -i $K exec true || echo \$?; $K --log-file daemon.log mount --daemon $PWD/other && cat other/kprobes/enabled && $K umount $PWD/other" 2>&1 | grep -v nested
$K exec -- sh -c "(sleep 0.5; $K exec true; touch over) >late 2>&1 &"
until_true '[ -e over ]'
cat late
mount -t kprobefs.supervised none / 2>/dev/null || echo no such type`, strings.Repeat(nestedSays+"125\n", 3)+"125\n1\n"+nestedSays+"no such type\n")
}

const nestedSays = "kprobefs: this is below 'kprobefs exec' already, which cannot be nested: run CMD as it is; for a second kernel 'kprobefs mount' its tree: device or resource busy\n"

// TestKeep: a tree outlives the command that exec --keep has run, until it is unmounted.
func TestKeep(t *testing.T) {
	inTree(t, `
mkdir kept
$K exec --keep=$PWD/kept --cpus 2 -- sh -c "echo p:kept vfs_read >$T/kprobe_events; exit 3"; echo $?
cat kept/tracing/kprobe_events; grep cpus kept/machine/kernel
$K exec --attach kept -- cat $T/kprobe_events
$K exec --keep=kept -- true 2>&1 | sed "s,$PWD/,,"
$K umount kept && ls -d kept
echo a new directory
export TMPDIR=$PWD
$K exec --keep -- sh -c 'basename $KPROBEFS_MNT >name' 2>said
new=$(cat name)
sed "s,$PWD/$new,NEW,g" said
$K exec --attach $new -- cat $T/kprobe_events && $K umount $new
until_true '! [ -e $new ]'
echo killed
$K exec --keep -- sh -c 'basename $KPROBEFS_MNT >name' 2>/dev/null
M=$PWD/$(cat name); kill -KILL $(daemon)
until_true '! [ -e $M ]'
echo refused
M=$PWD/tree
$X --keep true
$K exec --keep tree true
$K exec --keep= true
$K exec --keep=/nothing true 2>&1 | tail -n 1
$K exec --keep --cpus 99 true
ls -d kprobefs-* 2>/dev/null`, `
3
p:kprobes/kept vfs_read
cpus 2
p:kprobes/kept vfs_read
kprobefs: kept: a kprobefs is mounted there: device or resource busy; kprobefs umount removes it
kept
a new directory
kprobefs: the tree is at NEW and stays there until 'kprobefs umount NEW'
killed
refused
kprobefs: --keep is for a new tree, and --attach for one that stays anyway: invalid argument
kprobefs: --keep: tree is no command but a directory; where the tree is to be, write --keep=tree: is a directory
kprobefs: --keep: the value is empty: invalid argument
kprobefs: mount on /nothing: stat /nothing: no such file or directory; make the directory first: mkdir -p /nothing
kprobefs: --cpus: 99 CPUs: the emulated kernel can have 1 to 64
`)
}

func wantOutput(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("-want +got\n%s", diff(want, got))
	}
}

// TestAttach: commands that attach to a tree, one after the other and at the same time, act
// in its kernel.
func TestAttach(t *testing.T) {
	inTree(t, `
below -- sh -c 'uname -r; echo $KPROBEFS_MNT | sed "s/.*\///"; echo "<4>one of two" >/dev/kmsg; grep -cE "^(tracefs|debugfs) /sys/kernel/(tracing|debug) " /proc/mounts'
below --uname host true && below -- dmesg | grep -o 'one of two'
probe
sed "s/^r[0-9]*/r/" $M/tracing/kprobe_events
echo a command that is traced from its beginning
below ./dd_a if=nine of=/dev/null bs=7 2>/dev/null
read_by dd_a | tail -n 6
echo two at the same time, and one that is not seen
below -- sh -c ": >$T/trace; echo 1 >$T/events/kprobes/enable"
$X -- sh -c 'sleep 0.1; ./dd_a if=nine of=/dev/null bs=6 2>/dev/null; sleep 0.2' &
$X -- sh -c 'sleep 0.1; ./dd_b if=nine of=/dev/null bs=5 2>/dev/null; sleep 0.2' &
$X --mirror none -- sh -c 'sleep 0.1; ./dd_b if=nine of=/dev/null bs=3 2>/dev/null; sleep 0.2' &
wait
seen dd_b
read_by dd_a | tail -n 6
below -- sh -c ": >/dev/null"
read_by dd_b | tail -n 6
echo status
below -- sh -c 'exit 5'; echo $?
below -- no-such-command 2>/dev/null; echo $?
(below -- sh -c 'kill $$') 2>/dev/null; echo $?
traced`, `
6.1.0-56-amd64
tree
2
one of two
p:kprobes/r vfs_read count=$arg3:u32
r:kprobes/rr vfs_read ret=$retval:s32
a command that is traced from its beginning
count 7
ret 7
count 7
ret 2
count 7
ret 0
two at the same time, and one that is not seen
count 6
ret 6
count 6
ret 3
count 6
ret 0
count 5
ret 5
count 5
ret 4
count 5
ret 0
status
5
127
143
0
`)
}

// TestAttachRefused: what is refused says so, and may not attach.
func TestAttachRefused(t *testing.T) {
	needFUSE(t)
	out := asUser(nil).inTree(t, `
try() { "$@" 2>&1 | sed -e "s,$PWD/,,g" -e 's/^.*sh: /sh: /'; }
try below --cpus 2 true
try $K exec --attach / true
try $K exec --attach /nothing true
try $K exec --attach "" true
try $K exec --attach $M/tracing true
mkdir other; mount --bind $M/machine other
try $K exec --attach other true
[ $(id -u) != 0 ] || try setpriv --reuid 1000 --regid 1000 --clear-groups $K exec --attach $M true
try unshare -mpf --mount-proc $K exec --attach $M true
for text in 0 -1 x 99 3; do unshare -m sh -c "exec 3</dev/null; printf %s $text >$M/machine/attach" 2>/dev/null && echo taken; done
sh -c "printf 0 >$M/machine/attach" 2>/dev/null && echo taken
below -- echo still there
umount other`)
	want := `
kprobefs: --cpus is for a new kernel, and --attach for one that runs: invalid argument
kprobefs: --attach /: no kprobefs is mounted there: invalid argument
kprobefs: --attach: lstat /nothing: no such file or directory
kprobefs: --attach: the value is empty: invalid argument
kprobefs: --attach tree/tracing: no kprobefs is mounted there: invalid argument
kprobefs: --attach other: no such file or directory: it is no whole tree, or of an older kprobefs
kprobefs: --attach tree: permission denied: only the user who has mounted it, and root, may attach
kprobefs: --attach tree: invalid cross-device link: its serving process is in another PID namespace
still there
`
	if os.Getuid() != 0 {
		want = strings.Replace(want, "kprobefs: --attach tree: permission denied: only the user who has mounted it, and root, may attach\n", "", 1)
	}
	wantOutput(t, out, want)
}

// TestAttachEnds: a command goes on when the serving process has ended, and others when the
// supervisor of one has; nothing hangs, and nothing stays traced.
func TestAttachEnds(t *testing.T) {
	needTime(t)
	needFUSE(t)
	oops, err := filepath.Abs("../kernel/guest/modules/kprobe_oops_handler.ko")
	if err != nil {
		t.Fatal(err)
	}
	const loop = `'i=0; echo $$ >pid.NAME; while [ ! -e stop ]; do ./dd_a if=nine of=/dev/null 2>/dev/null && i=$((i+1)); done; [ $i -gt 0 ] && echo NAME goes on; exit 3'`
	name := func(s, name string) string { return strings.ReplaceAll(s, "NAME", name) }
	for _, c := range []struct{ name, script, want string }{
		{"serving process killed", `
$X -- sh -c 'cat /etc/hostname >/dev/null; touch up; until_gone() { until cat /sys/kernel/tracing/README 2>&1 >/dev/null | grep -q "not connected"; do sleep 0.05; done; }; until_gone; cat /sys/kernel/tracing/README 2>&1 | sed "s/.*: //"; cat nine; echo; dmesg 2>&1 | sed "s/.*: //"; uname -r; exit 4' &
until_true '[ -e up ]'
kill -KILL $D
wait $!; echo $?
traced
until_true '! $K mounted $M 2>/dev/null'
$K --log-file daemon.log mount --daemon $M`, `
Transport endpoint is not connected
123456789
Input/output error
6.1.0-56-amd64
4
0
`},
		{"unmounted", `
$X -- sh -c ` + name(loop, "it") + ` &
until_true '[ -e pid.it ]'
sleep 0.3
$K umount $M
until_true '[ -z "$(daemon)" ]'
sleep 0.3; touch stop
wait $!; echo $?
traced
$K --log-file daemon.log mount --daemon $M`, `
it goes on
3
0
`},
		// Between the death of its supervisor and its own, the command's calls are ENOSYS, and it may say so.
		{"supervisor killed", `
$X -- sh -c ` + name(loop, "one") + ` 2>/dev/null &
one=$!
$X -- sh -c ` + name(loop, "two") + ` &
two=$!
until_true '[ -e pid.one -a -e pid.two ]'
sleep 0.3
kill -KILL $(inside pid.one)
{ wait $one; echo $?; } 2>/dev/null
until_true '! [ -e /proc/$(cat pid.one) ]'
below -- echo another
sleep 0.3; touch stop
wait $two; echo $?
until_true '[ $(traced) = 0 ]'`, `
137
another
two goes on
3
`},
		{"first process killed", `
$X -- sh -c ` + name(loop, "one") + ` &
one=$!
until_true '[ -e pid.one ]'
kill -KILL $one
wait $one 2>/dev/null
until_true '! [ -e /proc/$(cat pid.one) ]'
below -- echo another
until_true '[ $(traced) = 0 ]'`, `
another
`},
		{"booted again after a panic", `
$K umount $M; $K --log-file daemon.log mount --daemon --panic=reboot $M 2>/dev/null
$X -- sh -c 'touch up; while ! [ -e go ]; do sleep 0.05; done; cat nine; echo; ./dd_a if=nine of=/dev/null bs=8 2>/dev/null; exit 6' &
until_true '[ -e up ]'
cp ` + oops + ` $M/machine/modules
(echo kernel_clone 1 >$M/machine/load/call) 2>/dev/null
until_true 'l=$(cat $M/kprobes/list 2>/dev/null) && [ -z "$l" ]'
probe; touch go
wait $!; echo $?
read_by dd_a | tail -n 4`, `
123456789
6
count 8
ret 1
count 8
ret 0
`},
		{"processes outlive the command", `
below -- sh -c '(sleep 0.3; cat nine >out.tmp; mv out.tmp out) >/dev/null 2>&1 &'
until_true '[ -e out ]'
cat out; echo
until_true '[ $(traced) = 0 ]'`, `
123456789
`},
	} {
		t.Run(c.name, func(t *testing.T) { wantOutput(t, asUser(nil).inTree(t, "probe\n"+c.script), c.want) })
	}
}

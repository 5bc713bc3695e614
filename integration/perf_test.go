package integration

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// needPerf skips where perf is not installed, or where its rings cannot be mapped.
func needPerf(t *testing.T) {
	t.Helper()
	needFUSE(t)
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("no perf")
	}
	if !Mappable() {
		t.Skip("the host's kernel is older than 5.9: the descriptors cannot be mapped")
	}
}

// perfScript runs a script below exec, with the variable DATA for perf's file.
func perfScript(t *testing.T, cpus int, script string) string {
	t.Helper()
	dir := publicDir(t)
	out, status := asUser(nil).kprobefs(t, dir, []string{"DATA=" + filepath.Join(dir, "perf.data")}, cpus, "sh", "-c", "cd /sys/kernel/tracing\n"+script)
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	return out
}

// number returns the number that a pattern's group finds in a text.
func number(t *testing.T, text, pattern string) int {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in %s", pattern, text)
	}
	n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestPerfStat: perf counts the hits that trace shows of the same tasks.
func TestPerfStat(t *testing.T) {
	needPerf(t)
	out := perfScript(t, 2, `
echo 'p:mine vfs_read n=$arg3:u32' >kprobe_events
echo 'n == 3' >events/kprobes/mine/filter
echo 1 >events/kprobes/mine/enable
perf stat -e kprobes:mine --filter 'n == 3' sh -c 'dd if=/dev/zero of=/dev/null bs=3 count=20; dd if=/dev/zero of=/dev/null bs=3 count=22; dd if=/dev/zero of=/dev/null bs=4 count=5' 2>&1
echo 0 >events/kprobes/mine/enable
echo traced $(grep -c mine: trace)
perf stat -a -e kprobes:mine --filter 'n == 3' dd if=/dev/zero of=/dev/null bs=3 count=7 2>&1
echo -:mine >>kprobe_events && echo gone`)
	if got := number(t, out, `([\d,]+) +kprobes:mine`); got != 42 || number(t, out, `traced (\d+)`) != got {
		t.Errorf("not 42 hits: %s", out)
	}
	_, all, _ := strings.Cut(out, "system wide")
	if got := number(t, all, `([\d,]+) +kprobes:mine`); got != 7 {
		t.Errorf("not 7 hits: %s", all)
	}
	if !strings.Contains(out, "gone") {
		t.Errorf("the event is still in use: %s", out)
	}
}

// TestPerfRecord: what is not in the records is told as lost, also with the smallest ring,
// and the records name the tasks.
func TestPerfRecord(t *testing.T) {
	needPerf(t)
	for _, how := range []string{"-m 1", "-m 1 -a", "", "-g"} {
		out, samples, lost := recordTwice(t, how)
		if samples+lost != 2000 || number(t, out, `named (\d+)`) != samples || samples == 0 {
			t.Errorf("%q: %d samples, %d lost, of 2000: %s", how, samples, lost, out)
		}
		if frames := number(t, out, `framed (\d+)`); how == "-g" && frames != samples {
			t.Errorf("%d stacks of %d samples", frames, samples)
		}
	}
}

// recordTwice records 2,000 hits, and returns how many samples there are, and how many were lost. It records again
// if that is not right: on a busy host a read may be interrupted and made again, which is another hit.
func recordTwice(t *testing.T, how string) (out string, samples, lost int) {
	t.Helper()
	for range 2 {
		out = perfScript(t, 2, `
echo 'p:mine vfs_read n=$arg3:u32' >kprobe_events
perf record `+how+` -o $DATA -e kprobes:mine --filter 'n == 3' dd if=/dev/zero of=/dev/null bs=3 count=2000 2>&1
perf script -i $DATA >$DATA.text 2>/dev/null
echo named $(grep -c '^ *dd .*kprobes:mine: .* n=3' $DATA.text)
echo framed $(grep -c ' ksys_read+0x' $DATA.text)
perf report -i $DATA --stats 2>&1`)
		samples, lost = number(t, out, `SAMPLE events: +(\d+)`), 0
		for _, m := range regexp.MustCompile(`(?m)^ +LOST_SAMPLES events: +(\d+)$`).FindAllStringSubmatch(out, -1) {
			lost, _ = strconv.Atoi(m[1]) // the last one is the event's
		}
		if samples+lost == 2000 {
			break
		}
	}
	return out, samples, lost
}

// TestRingsUser: an ordinary user, who gets no passthrough of FUSE, records with perf, and sees what programs of bpf(2)
// print.
func TestRingsUser(t *testing.T) {
	needPerf(t)
	if _, err := exec.LookPath("bpftrace"); err != nil {
		t.Skip("no bpftrace")
	}
	dir := publicDir(t)
	out, status := ordinary(t).kprobefs(t, dir, []string{"DATA=" + filepath.Join(dir, "perf.data"), "HOME=" + dir}, 2, "sh", "-c", `
perf record -q -o $DATA -e syscalls:sys_enter_openat cat /etc/passwd >/dev/null 2>&1
perf script -i $DATA 2>/dev/null | grep -c '^ *cat .* syscalls:sys_enter_openat: dfd' | sed 's/^[1-9].*/some/'
bpftrace -e 'BEGIN { printf("begins\n"); } kprobe:vfs_read /comm == "dd" && arg2 == 3/ { printf("read %d\n", arg2); }' -c '/bin/dd if=/dev/zero of=/dev/null bs=3 count=2' 2>/dev/null | grep -v "^Attaching" | grep .`)
	if want := "some\nbegins\nread 3\nread 3\n"; out != want || status != 0 {
		t.Errorf("got %q and status %d, want %q", out, status, want)
	}
}

// TestPerfPrograms: perf probe and perf trace work with what perf_event_open(2) answers.
func TestPerfPrograms(t *testing.T) {
	needPerf(t)
	out := perfScript(t, 2, `
perf probe -q --add 'vfs_read count=%dx:u64' 2>&1
perf record -o $DATA -e probe:vfs_read cat /etc/passwd >/dev/null 2>&1
perf script -i $DATA 2>/dev/null | sed -n 's/^ *cat .* probe:vfs_read: .* count=/read of /p' | tail -n 1
perf trace -e probe:vfs_read cat /etc/passwd 2>&1 >/dev/null | grep -c 'probe:vfs_read(.*count: 131072'
perf probe -q --del '*' 2>&1; echo left: $(cat kprobe_events)`)
	if want := "read of 131072\n2\nleft:\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestPerfHost: the events of the host can be counted together with ours, and refused types are
// said to be.
func TestPerfHost(t *testing.T) {
	needPerf(t)
	out := perfScript(t, 1, `
echo 'p:mine vfs_read' >kprobe_events
perf stat -x, -e kprobes:mine -e task-clock cat /etc/passwd 2>&1 >/dev/null
echo '-:mine' >>kprobe_events && echo gone`)
	if got := number(t, out, `(\d+),,kprobes:mine,`); got == 0 || !strings.Contains(out, ",msec,task-clock,") || !strings.HasSuffix(out, "gone\n") {
		t.Errorf("not both: %s", out)
	}
}

// TestPerfOwnProbe: perf's event kprobe/.../ makes a probe by itself, and counts what a probe of
// kprobe_events at the same address counts.
func TestPerfOwnProbe(t *testing.T) {
	needPerf(t)
	out := perfScript(t, 2, `
echo 'p:mine vfs_read' >kprobe_events
at=$(sed -n 's/ T vfs_read$//p' /proc/kallsyms)
perf stat -x, -e kprobes:mine -e kprobe/config1=0,config2=0x$at/ dd if=/dev/zero of=/dev/null bs=3 count=30 2>&1
echo '-:mine' >>kprobe_events && echo left: $(cat /sys/kernel/debug/kprobes/list)`)
	named, own := number(t, out, `(\d+),,kprobes:mine,`), number(t, out, `(\d+),,kprobe/config1=`)
	if named < 30 || own != named || !strings.HasSuffix(out, "left:\n") {
		t.Errorf("%d and %d hits: %s", named, own, out)
	}
}

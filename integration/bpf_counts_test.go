package integration

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// needBpftrace skips where bpftrace is not installed, or where what it prints cannot come through a ring.
func needBpftrace(t *testing.T) {
	t.Helper()
	needFUSE(t)
	if _, err := exec.LookPath("bpftrace"); err != nil {
		t.Skip("no bpftrace")
	}
	if !Mappable() {
		t.Skip("the host's kernel is older than 5.9: the rings cannot be mapped")
	}
}

// TestBPFCounts: a program counts the hits that the event of a probe at the same place has in the same run, and what
// it prints at each of them is printed or told as lost. As on Linux a loss is told with the next record that has
// room: a last read comes when the ring, the one of the only CPU, is empty. bpftrace takes what it is told of until the command
// ends, and FUSE tells a moment after the hit.
func TestBPFCounts(t *testing.T) {
	needTime(t)
	needBpftrace(t)
	for _, c := range []struct {
		name, pages string
		reads       int
	}{
		{"few", "64", 500},
		{"many", "64", 20000},
		{"a small ring", "1", 20000},
	} {
		t.Run(c.name, func(t *testing.T) {
			// On a busy host bpftrace may be told of the last record when it has ended (FUSE's poll comes late): not twice.
			why := countsOf(t, c.pages, c.reads)
			if why != "" {
				t.Log(why)
				why = countsOf(t, c.pages, c.reads)
			}
			if why != "" {
				t.Error(why)
			}
		})
	}
}

// countsOf has bpftrace count and print reads, and returns what is wrong with the numbers, or "".
func countsOf(t *testing.T, pages string, reads int) string {
	t.Helper()
	out := perfScript(t, 1, `
echo 'p:mine vfs_read n=$arg3' >kprobe_events
echo 'hist:keys=n if n == 777' >events/kprobes/mine/trigger
echo "dd if=/dev/zero of=/dev/null bs=777 count=`+strconv.Itoa(reads)+`; sleep 1; dd if=/dev/zero of=/dev/null bs=777 count=1; sleep 1" >"$DATA.sh"
BPFTRACE_PERF_RB_PAGES=`+pages+` bpftrace -e 'kprobe:vfs_read /arg2 == 777/ { @counted = count(); printf("read\n"); }' \
	-c "/bin/sh $DATA.sh" >"$DATA" 2>&1
grep '^@counted' "$DATA"
echo printed: $(grep -c '^read$' "$DATA")
sed -n 's/^Lost \([0-9]*\) events$/lost: \1/p' "$DATA"
sed -n 's/.*hitcount: *\([0-9]*\).*/hits: \1/p' events/kprobes/mine/hist
echo '!hist:keys=n if n == 777' >events/kprobes/mine/trigger
echo '-:mine' >>kprobe_events`)
	lost := 0
	for _, m := range regexp.MustCompile(`lost: (\d+)`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		lost += n
	}
	counted, printed, hits := number(t, out, `@counted: (\d+)`), number(t, out, `printed: (\d+)`), number(t, out, `hits: (\d+)`)
	if hits != reads+1 || counted != hits || printed+lost != hits {
		return fmt.Sprintf("%d hits of %d reads, %d counted, %d printed, %d lost", hits, reads+1, counted, printed, lost)
	}
	return ""
}

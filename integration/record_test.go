package integration

import (
	"strconv"
	"strings"
	"testing"
)

// recordScript has trace-cmd record a probe's hits with buffers that the load fills many
// times, and extract them from a buffer that holds fewer. It prints, for each, how many of
// the 3000 opens are in the file, and how many trace-cmd says were lost.
const recordScript = `
echo 'p:rec do_sys_openat2 name=+0($arg2):ustring' >/sys/kernel/tracing/kprobe_events
cat >load <<'X'
i=0; while [ $i -lt 3000 ]; do read x </none/$i; i=$((i+1)); done 2>/dev/null
X
tell() {
	trace-cmd report -i $1.dat >$1 2>err
	lost=$(sed -n 's/^CPU [0-9]*: \([0-9]*\) events lost$/\1/p; s/.*CPU:[0-9]* \[\([0-9]*\) EVENTS DROPPED\].*/\1/p' $2 | paste -sd+)
	echo $1 $(grep -c /none/ $1) $((${lost:-0}))
}
for size in 16 64; do
	trace-cmd record -q -b $size -e kprobes:rec -f 'name ~ "/none/*"' -o record$size.dat sh load >/dev/null 2>&1
	tell record$size record$size
done
trace-cmd start -b 64 -e kprobes:rec -f 'name ~ "/none/*"' >/dev/null
sh load
trace-cmd stop
trace-cmd extract -o extract.dat >said 2>&1
cat err >>said
tell extract said
`

// TestTraceCmdRecord: trace-cmd's recorder, which splices pages of trace_pipe_raw, keeps
// each event or says that it was lost. On Linux 6.1 the same script keeps all 3000 of
// record.
func TestTraceCmdRecord(t *testing.T) {
	needTime(t)
	needFUSE(t)
	needTool(t, "trace-cmd", "trace-cmd")
	dir := publicDir(t)
	put(t, dir, "script", recordScript)
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "sh", "script")
	lines := strings.Fields(out)
	if status != 0 || len(lines) != 9 {
		t.Fatalf("status %d:\n%s", status, out)
	}
	for i := 0; i < len(lines); i += 3 {
		kept, _ := strconv.Atoi(lines[i+1])
		lost, _ := strconv.Atoi(lines[i+2])
		if kept+lost != 3000 || kept < 500 {
			t.Errorf("%s: %d events kept, %d lost, of 3000", lines[i], kept, lost)
		}
	}
}

// execScript executes programs that have a file of ours open, which execve(2) closes.
const execScript = `
for i in 1 2 3 4 5; do
	perl -e 'open F, "<", $ARGV[0] or die; select undef, undef, undef, 0.05; exec "true"' /sys/kernel/debug/kprobes/list
done
echo done`

// TestExecClosesFiles: while execve(2) closes a file of ours, the daemon does not wait for
// what the host's kernel tells only after it (proc.ReadStat).
func TestExecClosesFiles(t *testing.T) {
	needFUSE(t)
	needTool(t, "perl", "perl-base")
	out, status := asUser(nil).exec(t, publicDir(t), nil, []string{"--cpus", "2"}, "sh", "-c", execScript)
	if out != "done\n" || status != 0 {
		t.Errorf("status %d:\n%s", status, out)
	}
}

// rateScript has trace-cmd and perf record the hits that two kernel threads make as fast as
// they can, far more than 100,000 a second, with the smallest buffers. It prints the hits, the
// events in the file and those that the programs say were lost. perf may copy a part of its
// ring twice: it looks at the head when it begins to copy, copies up to where that is
// meanwhile, and goes on from the first. So its events are counted by their times.
const rateScript = `
cd /sys/kernel/tracing
echo 'p:rate int_sqrt' >kprobe_events
trace-cmd record -q -b 8 -e kprobes:rate -o $OLDPWD/rate.dat sh -c "echo int_sqrt 100000 >$KPROBEFS_MNT/machine/load/call"
hits() { while read -r name hits missed; do [ $name = rate ] && echo $hits $missed; done <kprobe_profile; }
echo trace-cmd $(hits) $(trace-cmd report -i $OLDPWD/rate.dat 2>/dev/null | grep -c ' rate: ') \
	$(trace-cmd report -i $OLDPWD/rate.dat --stat 2>/dev/null | sed -n 's/^\(overrun\|dropped events\): //p' | paste -sd+)
echo >kprobe_events
echo 'p:rate int_sqrt' >kprobe_events
perf record -q -m 1 -a -o $OLDPWD/perf.dat -e kprobes:rate sh -c "echo int_sqrt 100000 >$KPROBEFS_MNT/machine/load/call" >/dev/null 2>&1
perf script -i $OLDPWD/perf.dat --ns -F tid,cpu,time,event 2>/dev/null | grep kprobes:rate | sort -u >$OLDPWD/perf.text
echo perf $(hits) $(wc -l <$OLDPWD/perf.text) $(perf report -i $OLDPWD/perf.dat --stats 2>/dev/null | sed -n 's/^ *LOST_SAMPLES events: *\([0-9]*\)$/\1/p')
`

// TestRecordRate: what the recorders have kept and what they say was lost are all hits.
func TestRecordRate(t *testing.T) {
	needPerf(t)
	needTool(t, "trace-cmd", "trace-cmd")
	dir := publicDir(t)
	put(t, dir, "script", rateScript)
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "sh", "script")
	if status != 0 {
		t.Fatalf("status %d:\n%s", status, out)
	}
	const hits = 200000
	for _, want := range []string{"trace-cmd", "perf"} {
		var line string
		line, out, _ = strings.Cut(out, "\n")
		var kept, lost int
		f := strings.Fields(line)
		if len(f) == 5 {
			kept, _ = strconv.Atoi(f[3])
			for n := range strings.SplitSeq(f[4], "+") {
				one, _ := strconv.Atoi(n)
				lost += one
			}
		}
		if !strings.HasPrefix(line, want+" "+strconv.Itoa(hits)+" 0 ") || kept == 0 || kept+lost != hits {
			t.Errorf("%d kept, %d lost: %s", kept, lost, line)
		}
	}
}

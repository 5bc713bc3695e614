package integration

import (
	"os/exec"
	"regexp"
	"testing"
)

// TestBCC: bcc compiles its programs with the headers that are below exec in the build folder of the kernel, and prints
// each read of a file with a name that it finds through structures of the kernel, as the event of a probe at the same place does.
func TestBCC(t *testing.T) {
	needBCC(t)
	out := perfScript(t, 1, `
echo 'p:mine vfs_read n=$arg3' >kprobe_events
echo 'hist:keys=n if n == 777' >events/kprobes/mine/trigger
PYTHONUNBUFFERED=1 timeout -s INT 60 trace-bpfcc -I linux/fs.h 'vfs_read(struct file *file, char *buf, size_t n) (n == 777) "%s", file->f_path.dentry->d_name.name' >"$DATA" 2>&1 & p=$!
n=0; until grep -q PID "$DATA" || [ $n = 300 ]; do sleep 0.1; n=$((n+1)); done
dd if=/dev/zero of=/dev/null bs=777 count=41 2>/dev/null
n=0; until [ $(grep -c zero "$DATA") -ge 41 ] || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done
kill -INT $p; wait $p
echo printed: $(grep -c 'vfs_read *zero$' "$DATA")
grep -v 'vfs_read *zero$' "$DATA" | tail -n 5
sed -n 's/.*hitcount: *\([0-9]*\).*/hits: \1/p' events/kprobes/mine/hist
echo '!hist:keys=n if n == 777' >events/kprobes/mine/trigger
echo '-:mine' >>kprobe_events`)
	if printed, hits := number(t, out, `printed: (\d+)`), number(t, out, `hits: (\d+)`); hits != 41 || printed != hits {
		t.Errorf("%d hits of 41 reads, %d printed:\n%s", hits, printed, out)
	}
}

func needBCC(t *testing.T) {
	t.Helper()
	needFUSE(t)
	if _, err := exec.LookPath("trace-bpfcc"); err != nil {
		t.Skip("no bpfcc-tools")
	}
	if !Mappable() {
		t.Skip("the host's kernel is older than 5.9: the rings cannot be mapped")
	}
}

// TestBCCHeaders: tools of bcc that ask for members of struct sock and of struct kmem_cache, which is in a header of its own,
// are compiled and print what they print on Linux.
func TestBCCHeaders(t *testing.T) {
	needBCC(t)
	out := perfScript(t, 1, `
watch() { PYTHONUNBUFFERED=1 timeout -s INT 60 "$@" >"$DATA.$1" 2>&1 & all="$all $!"; }
watch tcpaccept-bpfcc; watch bindsnoop-bpfcc; watch slabratetop-bpfcc -C 1
n=0; until grep -q LPORT "$DATA.tcpaccept-bpfcc" && grep -q PROT "$DATA.bindsnoop-bpfcc" && grep -q CACHE "$DATA.slabratetop-bpfcc" || [ $n = 300 ]; do sleep 0.1; n=$((n+1)); done
busybox nc -l -p 4001 </dev/null >/dev/null & p=$!
n=0; until grep -q 4001 "$DATA.bindsnoop-bpfcc" || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done
busybox nc 127.0.0.1 4001 </dev/null
n=0; until grep -q 4001 "$DATA.tcpaccept-bpfcc" && grep -q filp "$DATA.slabratetop-bpfcc" || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done
kill $p $all 2>/dev/null; wait
cat "$DATA".*-bpfcc; rm "$DATA".*-bpfcc`)
	for _, line := range []string{
		`\d+ +busybox +6 +::ffff:127\.0\.0\.1 +\d+ +::ffff:127\.0\.0\.1 +4001 *`,
		`\d+ busybox +TCP +:: +4001 +\.\.\.R\. +0`,
		`filp +\d+ +\d+`,
	} {
		if !regexp.MustCompile(`(?m)^ *` + line + `$`).MatchString(out) {
			t.Errorf("no line %s:\n%s", line, out)
		}
	}
}

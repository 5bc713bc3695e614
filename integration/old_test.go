package integration

import (
	"path/filepath"
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
func TestOldRelease(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	dir := publicDir(t)
	put(t, dir, "script", oldScript)
	modules, err := filepath.Abs("../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2", "--release", "2.6.25"}, "busybox", "sh", "script", modules)
	if status != 0 || out != oldWant {
		t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(oldWant, out))
	}
}

package integration

import "testing"

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
func TestOldRelease(t *testing.T) { playModules(t, oldScript, oldWant, "--release", "2.6.25") }

package integration

import (
	"path/filepath"
	"testing"
)

// modulesScript is the documents' examples as a user has them: two modules are
// loaded, list has their lines, a fork and an open that fails are told of, and
// nothing is left when they are gone.
const modulesScript = `cd $KPROBEFS_MNT
for m in kprobe_example kretprobe_example; do cp $1/$m.ko machine/modules; done
cut -d' ' -f1,3 proc/modules
cut -d' ' -f2- kprobes/list | sort
(busybox true)
cat /nofile 2>/dev/null
echo 0 > kprobes/enabled; (busybox true); cat /nofile 2>/dev/null; echo 1 > kprobes/enabled
for m in kprobe_example kretprobe_example; do rm machine/modules/$m.ko; done
cat kprobes/list proc/modules
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 |
	grep -o '^pre_handler\|^ before+\|^ kernel_clone+0x1/\|^post_handler\|^do_sys_openat2 returns -2\|^kprobe [a-z]*\|^Missed probing 0' | sort -u
`

const modulesWant = `kretprobe_example 0
kprobe_example 0
 k  kernel_clone+0x0    [FTRACE]
 r  do_sys_openat2+0x0    [FTRACE]
 before+
 kernel_clone+0x1/
Missed probing 0
do_sys_openat2 returns -2
kprobe registered
kprobe unregistered
post_handler
pre_handler
`

// TestExampleModules plays it.
func TestExampleModules(t *testing.T) { playModules(t, modulesScript, modulesWant) }

// playModules plays a script below exec, on two vCPUs, with flags; its argument is the
// folder of the guest's modules.
func playModules(t *testing.T, script, want string, flags ...string) {
	t.Helper()
	needFUSE(t)
	needBusybox(t)
	dir := publicDir(t)
	put(t, dir, "script", script)
	modules, err := filepath.Abs("../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).exec(t, dir, nil, append([]string{"--cpus", "2"}, flags...), "busybox", "sh", "script", modules)
	if status != 0 || out != want {
		t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(want, out))
	}
}

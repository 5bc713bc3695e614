package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// moduleFiles are sources of modules that make files, and of a program that uses them.
const moduleFiles = "testdata/modules/files"

// buildModule compiles one source as a kernel module and writes the object to dir.
func buildModule(t *testing.T, dir, source string) {
	t.Helper()
	src := t.TempDir()
	b, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	put(t, src, filepath.Base(source), string(b))
	objects, err := BuildModules(src)
	if errors.Is(err, ErrNoHeaders) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, object := range objects {
		put(t, dir, name, string(object))
	}
}

// hostileScript uses the files of a module whose operations misbehave. The last one ends
// its reader; the machine, and the files of others, stay.
const hostileScript = `cp hostile.ko $KPROBEFS_MNT/machine/modules
at=/sys/kernel/debug/hostile
dd if=$at/garbage bs=16 count=1 2>/dev/null | wc -c
echo 12345 >$at/garbage && echo written
dd if=$at/garbage bs=1 skip=7 count=1 2>&1 | sed 's/.*: //'
cat $at/below 2>&1 | sed 's/.*: //'
cat $at/restarts 2>&1 | sed 's/.*: //'
timeout -s KILL 1 cat $at/forever
echo "killed: $?"
timeout -s KILL 1 cat $at/spins
echo "killed: $?"
rm $KPROBEFS_MNT/machine/modules/hostile.ko 2>&1 | sed 's/.*: //'
cat $at/faults 2>&1 | sed 's/.*: //'
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | grep -q 'RIP: 0010:faults+' && echo oops
ls $at | wc -l
`

const hostileWant = `16
written
Input/output error
Input/output error
Operation not supported
Killed
killed: 137
Killed
killed: 137
Resource temporarily unavailable
Input/output error
oops
6
`

// TestHostileFiles: no file of a module hangs a program that is killed, or the end of exec.
func TestHostileFiles(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	dir := publicDir(t)
	buildModule(t, dir, moduleFiles+"/hostile.c")
	put(t, dir, "script", hostileScript)
	start := time.Now()
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "busybox", "sh", "script")
	if status != 0 || out != hostileWant {
		t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(hostileWant, out))
	}
	if d := time.Since(start); d > time.Minute { // it waits about three seconds; the rest is for slow machines
		t.Errorf("it took %v", d)
	}
}

// commandsWant is what the program printed on Debian's kernel 6.1, but for mmap, which
// failed with ENODEV there, too.
const commandsWant = `none: 42
set: 0
get: 0
33
both: 0
5 0x500000021
bad: -1 Invalid request code
unknown: -1 Inappropriate ioctl for device
poll: 1
0x5
mmap: -1 No such device
`

// TestDeviceCommands: ioctl(2), poll(2) and mmap(2) on a device of a module.
func TestDeviceCommands(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	dir := publicDir(t)
	buildModule(t, dir, DebianModules+"/devices.c")
	if out, err := exec.Command("gcc", "-static", "-o", filepath.Join(dir, "commands"), moduleFiles+"/commands.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	put(t, dir, "script", "cp devices.ko $KPROBEFS_MNT/machine/modules && ./commands $KPROBEFS_MNT/dev/hf_misc\n")
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "busybox", "sh", "script")
	if status != 0 || out != commandsWant {
		t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(commandsWant, out))
	}
}

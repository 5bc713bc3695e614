package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modulesScript uses the documents' examples: two modules are loaded, kprobes/list
// has their probes, a fork and a failing open are logged, and nothing is left after
// they are unloaded.
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

// oopsModulesScript loads a module whose init function oopses, one whose exit
// function does, and then others. On Debian 6.1 the insmod and rmmod are killed and
// the modules stay, "Loading" with one reference and "Unloading" with -1. rmmod of
// both and insmod of the second return EBUSY; other modules can be loaded and
// unloaded. Another insmod of the first one waits on Debian until it is killed.
const oopsModulesScript = `cd $KPROBEFS_MNT
for k in init exit; do
	cp $1/kprobe_oops_$k.ko machine/modules
	[ $k = exit ] && rm machine/modules/kprobe_oops_$k.ko
	cut -d' ' -f1,3-5,7- proc/modules
	cp $1/kprobe_oops_$k.ko machine/modules/again.ko
	rm machine/modules/kprobe_oops_$k.ko
	cp $1/kprobe_fails.ko machine/modules
	cp $1/kprobe_target.ko machine/modules && rm machine/modules/kprobe_target.ko && echo others come and go
done
ls machine/modules
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 | grep -c '^BUG: \|Comm: insmod\|Comm: rmmod'
`

const oopsModulesWant = `cp: error writing to 'machine/modules/kprobe_oops_init.ko': Input/output error
kprobe_oops_init 1 - Loading (OE+)
cp: error writing to 'machine/modules/again.ko': Device or resource busy
rm: can't remove 'machine/modules/kprobe_oops_init.ko': Device or resource busy
cp: error writing to 'machine/modules/kprobe_fails.ko': No such device
others come and go
rm: can't remove 'machine/modules/kprobe_oops_exit.ko': Input/output error
kprobe_oops_exit -1 - Unloading (OE-)
kprobe_oops_init 1 - Loading (OE+)
cp: error writing to 'machine/modules/again.ko': Device or resource busy
rm: can't remove 'machine/modules/kprobe_oops_exit.ko': Device or resource busy
cp: error writing to 'machine/modules/kprobe_fails.ko': No such device
others come and go
kprobe_oops_exit.ko
kprobe_oops_init.ko
4
`

// TestOopsInModules runs oopsModulesScript.
func TestOopsInModules(t *testing.T) { playModules(t, oopsModulesScript, oopsModulesWant) }

// TestExampleModules runs modulesScript.
func TestExampleModules(t *testing.T) { playModules(t, modulesScript, modulesWant) }

// playModules runs a script below exec on two vCPUs with further flags. The script's
// argument is the directory of the guest's modules.
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

// reuseScript loads a module whose text reuses the memory of another module's init
// text, where a probe was. A function there can be probed, and stack traces contain
// it.
const reuseScript = `cd $KPROBEFS_MNT/tracing
echo p:once kprobe_target:kprobe_target_once > kprobe_events
echo 1 > events/kprobes/enable
cp $1/kprobe_target.ko ../machine/modules
page=$(cut -c1-13 ../kprobes/list)
echo 0 > events/kprobes/enable; echo > kprobe_events
cp $1/kprobe_user.ko ../machine/modules
grep -q "^$page.* kprobe_user_twice" ../proc/kallsyms && echo its init text was there
echo p:entry kprobe_user:kprobe_user_twice > kprobe_events
echo r:back kprobe_user:kprobe_user_twice '$retval' >> kprobe_events
echo p:sum kprobe_target:kprobe_target_sum >> kprobe_events
echo stacktrace > trace_options
echo 1 > events/kprobes/enable
echo kprobe_user_twice 1 3 > ../machine/load/call
echo 0 > events/kprobes/enable
grep -o ' [a-z]*: (.*\|=> kprobe_user_twice' trace | sed 's/(.*)//' | sort | uniq -c
`

const reuseWant = `its init text was there
      2  back:  arg1=0xc
      2  entry: 
      2  sum: 
      4 => kprobe_user_twice
`

// TestModuleTextReused runs reuseScript on each release.
func TestModuleTextReused(t *testing.T) {
	playModulesOfEach(t, func(string) (script, want string) { return reuseScript, reuseWant })
}

// playModulesOfEach runs a script on each release with the directory of its modules.
func playModulesOfEach(t *testing.T, of func(release string) (script, want string)) {
	for release, folder := range map[string]string{"2.6.25": "", "2.6.32": "", "4.15": "", "5.10": "/5.10", "6.1": "", "6.12": "/6.12"} {
		t.Run(release, func(t *testing.T) {
			script, want := of(release)
			playModules(t, strings.ReplaceAll(script, "$1", "$1"+folder), want, "--release", release)
		})
	}
}

// sayingScript prints a module's lines in the log.
const sayingScript = `cd $KPROBEFS_MNT
cp $1/MODULE.ko machine/modules
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 | grep '^fields\|^prints'
`

// TestModuleFields: the fields of struct kprobe and struct kretprobe as modules see
// them, in particular nmissed while probes are registered. The texts of 5.10 and 6.1
// were logged by the module on Debian's kernels. 2.6's is 5.10's, except for
// the flags, which unregistering does not change there, and for the probe at an
// entry, which is not special.
func TestModuleFields(t *testing.T) {
	playSaying(t, "kprobe_fields", map[string]string{"2.6.25": "2.6", "2.6.32": "2.6", "4.15": "5.10", "5.10": "5.10", "6.1": "6.1", "6.12": "6.1"})
}

// TestModulePrints: pointers in printk. The text of 5.10 and 6.1 was logged by the
// module on Debian's kernels. 4.15 hashed NULL and error pointers too, 2.6 hashed
// nothing.
func TestModulePrints(t *testing.T) {
	playSaying(t, "kprobe_prints", map[string]string{"2.6.25": "2.6", "2.6.32": "2.6", "4.15": "4.15", "5.10": "6.1", "6.1": "6.1", "6.12": "6.1"})
}

// playSaying loads a module on each release and compares its lines in the log with a
// file in testdata/modules.
func playSaying(t *testing.T, module string, recorded map[string]string) {
	playModulesOfEach(t, func(release string) (script, want string) {
		b, err := os.ReadFile("testdata/modules/" + module + "." + recorded[release])
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(sayingScript, "MODULE", module), string(b)
	})
}

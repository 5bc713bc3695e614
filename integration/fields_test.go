package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fieldsScript loads a module that says what its struct module holds: at init, when it is
// live and when another module uses it.
const fieldsScript = `cd $KPROBEFS_MNT
echo 'options fields number=2 word=abc' > machine/modprobe.conf
cp $1/fields.ko machine/modules
p=sys/module/fields/parameters
echo live > $p/show
cp $1/fields_user.ko machine/modules
echo used > $p/show
rm machine/modules/fields_user.ko machine/modules/fields.ko
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 | grep '^fields.*: ' | grep -v taint
`

// TestModuleFieldsOfReleases builds the module with our own headers for each release, whose
// struct modules differ, and compares what it says with what the module said that was built
// with that kernel's headers, on Debian's 5.10, 6.1 and 6.12.
func TestModuleFieldsOfReleases(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	for _, release := range []string{"5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) {
			want, err := os.ReadFile("testdata/modules/fields." + release)
			if err != nil {
				t.Fatal(err)
			}
			headers, dir := unpackHeaders(t, release), publicDir(t)
			for _, name := range []string{"fields.c", "fields_user.c"} {
				b, err := os.ReadFile(filepath.Join(DebianModules, name))
				if err != nil {
					t.Fatal(err)
				}
				put(t, dir, name, string(b))
			}
			put(t, dir, "Makefile", "obj-m := fields.o fields_user.o\n")
			if out, err := exec.Command("make", "-C", headers, "M="+dir, "modules").CombinedOutput(); err != nil {
				t.Fatalf("make: %v\n%s", err, out)
			}
			put(t, dir, "script", fieldsScript)
			got, status := asUser(nil).exec(t, dir, nil, []string{"--release", release}, "busybox", "sh", "script", dir)
			if status != 0 || got != string(want) {
				t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(string(want), got))
			}
		})
	}
}

// TestOneName: a module that is built in /lib/modules/$(uname -r)/build has the kernel's name
// in vermagic, and is loaded without a taint for it.
func TestOneName(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	needTools(t)
	const source = "#include <linux/module.h>\nMODULE_LICENSE(\"GPL\");\n"
	const script = `cd $1 && make -s -C /lib/modules/$(uname -r)/build M=$PWD modules || exit 1
vermagic=$(tr '\0' '\n' < named.ko | sed -n 's/^vermagic=\([^ ]*\) .*/\1/p')
[ "$vermagic" = "$(uname -r)" ] && echo vermagic || echo "$vermagic is not $(uname -r)"
[ "$(make -s -C /lib/modules/$(uname -r)/build kernelrelease)" = "$vermagic" ] && echo kernelrelease
grep -q "^Linux version $vermagic " $KPROBEFS_MNT/proc/version && echo version
cp named.ko $KPROBEFS_MNT/machine/modules && sed 's/ 0x[0-9a-f]*//; s/ [0-9]*//' $KPROBEFS_MNT/proc/modules
`
	for _, release := range []string{"2.6.25", "2.6.32", "4.15", "5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) {
			dir := publicDir(t)
			put(t, dir, "named.c", source)
			put(t, dir, "Makefile", "obj-m := named.o\n")
			put(t, dir, "script", script)
			got, status := asUser(nil).exec(t, dir, nil, []string{"--release", release}, "sh", "script", dir)
			if want := "vermagic\nkernelrelease\nversion\nnamed 0 - Live (OE)\n"; status != 0 || !strings.HasSuffix(got, want) {
				t.Errorf("status %d:\n%s", status, got)
			}
		})
	}
}

// TestBuildTreeSamples builds and loads the modules of samples/kprobes in the directory that
// `kprobefs headers` writes.
func TestBuildTreeSamples(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	for _, release := range []string{"4.15", "5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) {
			headers, dir := unpackHeaders(t, release), publicDir(t)
			if err := os.CopyFS(filepath.Join(dir, "kprobes"), os.DirFS(filepath.Join(headers, "samples/kprobes"))); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("make", "-C", headers, "M="+dir+"/kprobes", "modules").CombinedOutput()
			if err != nil || strings.Contains(string(out), "warning") {
				t.Fatalf("make: %v\n%s", err, out)
			}
			const script = `m=$KPROBEFS_MNT/machine/modules
f=do_sys_openat2
echo "options kprobe_example symbol=$f
options kretprobe_example func=$f" > $KPROBEFS_MNT/machine/modprobe.conf
for k in kprobe_example kretprobe_example; do cp $1/kprobes/$k.ko $m; done
cat /nofile 2>/dev/null
for k in kprobe_example kretprobe_example; do rm $m/$k.ko; done
/usr/bin/dd if=/dev/kmsg iflag=nonblock bs=8192 2>/dev/null | cut -d';' -f2 |
	grep -o '^kprobe_init: probe at\|^before: <do_sys_openat2> at\|^after: <do_sys_openat2> next\|^kprobe_exit: probe removed\|^return probe [a-z]*\|^do_sys_openat2 returned 18446744073709551614 after' |
	sort -u
`
			put(t, dir, "script", script)
			got, status := asUser(nil).exec(t, dir, nil, []string{"--release", release}, "busybox", "sh", "script", dir, release)
			want := `after: <do_sys_openat2> next
before: <do_sys_openat2> at
do_sys_openat2 returned 18446744073709551614 after
kprobe_exit: probe removed
kprobe_init: probe at
return probe at
return probe removed
`
			if status != 0 || got != want {
				t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(want, got))
			}
		})
	}
}

package integration

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// usualPlaces makes a script of testdata/modules/debian do below exec what it did on
// Linux: insmod(8) and rmmod(8) load and unload, and files are looked for where Linux has
// them.
var usualPlaces = strings.NewReplacer(
	`[ -n "$KPROBEFS_MNT" ]`, "false",
	"/usr/bin/golden insmod", "/usr/sbin/insmod",
	"rmmod ", "busybox rmmod ",
	"sysfs=$KPROBEFS_MNT/sys", "sysfs=/sys",
	"$KPROBEFS_MNT/dev", "/dev",
	"$KPROBEFS_MNT/proc/misc", "/proc/misc",
	"$KPROBEFS_MNT/proc/devices", "/proc/devices",
)

// TestUsualPlaces: what modules make in /dev and /sys is there from the return of insmod
// to rmmod's, for root and for an ordinary user.
func TestUsualPlaces(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	needTool(t, "kmod", "kmod")
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadModuleCases(".", DebianModules, debianObjects(t))
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, c := range cases {
		if !slices.Contains([]string{"devices", "kobjects"}, c.Name) {
			continue
		}
		c.Script = usualPlaces.Replace(c.Script)
		c.Files["modules.sh"] = []byte(usualPlaces.Replace(string(c.Files["modules.sh"])))
		for who, user := range users(t) {
			played++
			t.Run(c.Name+"/"+who, func(t *testing.T) { playOne(t, c, user, masks) })
		}
	}
	if played < 2 {
		t.Errorf("%d scripts were played", played)
	}
}

// procScript opens files that a module has made in /proc.
const procScript = `/usr/sbin/insmod ./procs.ko
lsmod | grep -o '^procs '
cat /proc/procs/single /proc/procs/sub/deep
cat /proc/procs/ops
echo
echo second >/proc/procs/ops
(cd /proc && cat procs/ops)
cat /proc/procs/none 2>&1 | sed 's/.*: //'
cat <>/proc/procs/remove 2>&1 | sed 's/.*: //'
exec 5</proc/procs/single
read -r line <&5
echo "$line"
exec 5<&-
test "$(cat /proc/self/comm)" = cat && echo "other files are the host's"
[ -z "$OTHER" ] || $OTHER cat /proc/procs/ops 2>&1 | sed 's/.*: //'
busybox rmmod procs
cat /proc/procs/single 2>&1 | sed 's/.*: //'
`

// procWant has, line by line, what Debian's kernel said in procs.txtar.
const procWant = `procs 
single: data
single: deep
first
second
No such file or directory
Input/output error
single: data
other files are the host's
`

// TestProcNames: for root, for another user, who may not read one of the files, and for
// an ordinary user.
func TestProcNames(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	needTool(t, "kmod", "kmod")
	dir := publicDir(t)
	buildModule(t, dir, DebianModules+"/procs.c")
	put(t, dir, "script", procScript)
	for who, user := range users(t) {
		env, want := []string{}, procWant
		if os.Getuid() == 0 && who == "this user" {
			env, want = []string{"OTHER=/usr/bin/setpriv --reuid 1000 --regid 1000 --clear-groups"}, want+"Permission denied\n"
		}
		out, status := user.exec(t, dir, env, []string{"--cpus", "2"}, "busybox", "sh", "script")
		if want += "No such file or directory\n"; out != want || status != 0 {
			t.Errorf("%s: status %d, -want +got\n%s", who, status, diff(want, out))
		}
	}
}

// TestBootConfig: /boot/config-RELEASE says how the emulated kernel is configured.
func TestBootConfig(t *testing.T) {
	needFUSE(t)
	if _, err := os.Stat("/boot"); err != nil {
		t.Skip(err)
	}
	for who, user := range users(t) {
		t.Run(who, func(t *testing.T) {
			const script = `grep -e ^CONFIG_KPROBES= -e OPTPROBES -e BPF_SYSCALL /boot/config-$(uname -r); ls /boot | wc -l; echo own >/boot/own-file || echo refused`
			before, err := os.ReadDir("/boot")
			if err != nil {
				t.Fatal(err)
			}
			out, status := user.exec(t, publicDir(t), nil, []string{"--config", "CONFIG_OPTPROBES=n"}, "sh", "-c", script)
			want := fmt.Sprintf("CONFIG_BPF_SYSCALL=y\nCONFIG_KPROBES=y\n# CONFIG_OPTPROBES is not set\n%d\n", len(before)+1)
			if !strings.HasPrefix(out, want) || !strings.HasSuffix(out, "Read-only file system\nrefused\n") || status != 0 {
				t.Errorf("status %d: %s\nwant %s", status, out, want)
			}
		})
	}
}

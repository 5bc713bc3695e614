package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// commandScript uses the program's own commands on modules; $1 is the program.
const commandScript = `
try() { echo "# $*"; "$K" "$@" 2>&1 || echo "[$?]"; }
K=$1
try insmod shares.ko
try insmod uses.ko
try lsmod | sed 's/ [0-9]\{4,\} / SIZE /'
try rmmod shares
try rmmod uses
try rmmod shares.ko
try rmmod shares
try insmod --at $KPROBEFS_MNT life.ko result=x
try insmod life.ko result=-5
try insmod nothing.ko
try insmod script
try insmod life.ko 'nosuch="a b"' hold=1
try rmmod life
try insmod --at / life.ko
try dmesg | tail -n 2 | sed 's/^[^]]*\] //'
timeout 2 "$K" dmesg --follow >$TMPDIR/said; echo [$?]; tail -n 1 $TMPDIR/said | sed 's/^[^]]*\] //'
ls $KPROBEFS_MNT/machine/modules
cp shares.ko $KPROBEFS_MNT/machine/modules/by-file.ko; ls $KPROBEFS_MNT/sys/module/shares/refcnt | grep -o 'shares.*'
try rmmod no-such_one
try rmmod ./shares.ko
ls $KPROBEFS_MNT/machine/modules
`

const commandsSay = `# insmod shares.ko
# insmod uses.ko
# lsmod
Module                  Size  Used by
uses                   SIZE  0
shares                 SIZE  1 uses
# rmmod shares
kprobefs: shares: resource temporarily unavailable
[1]
# rmmod uses
# rmmod shares.ko
# rmmod shares
kprobefs: shares: the module is not loaded: no such file or directory
[1]
# insmod --at MNT life.ko result=x
kprobefs: life.ko: invalid argument
  the kernel: life: ` + "`x' invalid for parameter `result'" + `
[1]
# insmod life.ko result=-5
kprobefs: life.ko: input/output error
  the kernel: life: init of life, state 1, 7
[1]
# insmod nothing.ko
kprobefs: nothing.ko: no such file or directory
[1]
# insmod script
kprobefs: script: exec format error
  the kernel: Invalid ELF header magic: != \x7fELF
[1]
# insmod life.ko nosuch="a b" hold=1
# rmmod life
kprobefs: life: resource temporarily unavailable
[1]
# insmod --at / life.ko
kprobefs: /: no kprobefs is mounted there; 'kprobefs mounted' lists those that are
[1]
life: unknown parameter 'nosuch' ignored
life: init of life, state 1, 7
[124]
life: init of life, state 1, 7
life.ko
shares/refcnt
# rmmod no-such_one
kprobefs: no-such_one: the module is not loaded: no such file or directory
[1]
# rmmod ./shares.ko
life.ko
`

// TestModuleCommands: the commands insmod, rmmod, lsmod and dmesg say why something is
// refused.
func TestModuleCommands(t *testing.T) {
	needTime(t)
	needFUSE(t)
	dir := moduleDir(t, commandScript, "shares", "uses", "life")
	for who, user := range users(t) {
		tmp := publicDir(t)
		out, status := user.exec(t, dir, []string{"TMPDIR=" + tmp}, nil, "sh", "script", filepath.Join(built, "kprobefs"))
		for _, line := range strings.Split(out, "\n") {
			if rest, ok := strings.CutPrefix(line, "# insmod --at "); ok && strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "/ ") {
				at, _, _ := strings.Cut(rest, " ")
				out = strings.Replace(out, at, "MNT", 1)
			}
		}
		if out != commandsSay || status != 0 {
			t.Errorf("%s: status %d, -want +got\n%s", who, status, diff(commandsSay, out))
		}
	}
}

// TestModuleFlag: --module loads modules in order before the command runs, and a refusal
// is the end, with the reason.
func TestModuleFlag(t *testing.T) {
	needFUSE(t)
	dir := moduleDir(t, "", "shares", "uses", "life")
	out, status := asUser(nil).exec(t, dir, nil, []string{"--module", "shares.ko", "--module", "uses.ko", "--module", "life.ko hold=1 nosuch"},
		"sh", "-c", "cut -d' ' -f1,3 $KPROBEFS_MNT/proc/modules")
	if want := "life 1\nuses 0\nshares 1\n"; out != want || status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	for _, c := range []struct {
		flag string
		want []string
	}{
		{"uses.ko", []string{"uses.ko: no such file or directory\n", "the kernel: uses: Unknown symbol shares_times (err -2)\n"}},
		{"life.ko result=-12", []string{"cannot allocate memory\n", "the kernel: life: init of life"}},
		{"none.ko", []string{"none.ko: no such file"}},
	} {
		out, status := asUser(nil).exec(t, dir, nil, []string{"--module", c.flag}, "echo", "started")
		for _, want := range c.want {
			if status != 125 || !strings.Contains(out, want) || strings.Contains(out, "started") {
				t.Errorf("%s: status %d, no %q in\n%s", c.flag, status, want, out)
			}
		}
	}
}

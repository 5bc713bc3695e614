package integration

import (
	"os"
	"strings"
	"testing"
)

// TestMachineAddresses: the files in machine/ hide addresses under the same
// conditions as kprobes/list (scripts kptr_restrict and kptr_user).
func TestMachineAddresses(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	if os.Getuid() != 0 {
		t.Skip("needs a second user")
	}
	dir := publicDir(t)
	put(t, dir, "lib.sh", Lib())
	put(t, dir, "script", `. ./lib.sh
echo p:a vfs_read+5 >$E
on a
chmod 755 /sys/kernel/debug
chmod 444 $L
sleep 0.5
# shown FILE: whether there are addresses in it, and whether it says anything.
shown() { $as busybox cat $1 >out; grep -q 'ffffffff[89a-f]' out && echo -n " shown" || echo -n " hidden"; [ -s out ] || echo -n " (empty)"; }
for p in 3 1; do
	echo $p >/proc/sys/kernel/perf_event_paranoid
	for k in 0 1 2; do
		echo $k >/proc/sys/kernel/kptr_restrict
		for as in "" "/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups"; do
			echo "$p $k ${as:+user}:$(shown $L)$(shown $KPROBEFS_MNT/machine/text/vfs_read)$(shown $KPROBEFS_MNT/machine/probes/vfs_read+0x5)"
		done
	done
done
busybox head -n 3 $KPROBEFS_MNT/machine/text/vfs_read
echo 0 >/proc/sys/kernel/kptr_restrict
exec 5<$KPROBEFS_MNT/machine/text/vfs_read
echo 2 >/proc/sys/kernel/kptr_restrict
grep 'ffffffff[89a-f]' <&5
`)
	out, status := asUser(nil).kprobefs(t, dir, nil, 1, "busybox", "sh", "script")
	if status != 1 { // grep's status if nothing matches
		t.Errorf("exit status %d", status)
	}
	want := `3 0 : shown shown shown
3 0 user: hidden hidden hidden
3 1 : shown shown shown
3 1 user: hidden hidden hidden
3 2 : hidden hidden hidden
3 2 user: hidden hidden hidden
1 0 : shown shown shown
1 0 user: shown shown shown
1 1 : shown shown shown
1 1 user: hidden hidden hidden
1 2 : hidden hidden hidden
1 2 user: hidden hidden hidden
vfs_read:
  0000000000000000  +0x0 `
	if !strings.HasPrefix(out, want) || strings.Count(out, "\n") != strings.Count(want, "\n")+2 {
		t.Errorf("got\n%s\nwant at first\n%s", out, want)
	}
}

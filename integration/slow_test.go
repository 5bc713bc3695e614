package integration

import "testing"

// slowScript loads a module whose init function takes time. Its insmod is killed; 20 are
// made at once; and one is met by an rmmod.
const slowScript = `M=${KPROBEFS_MNT:+$KPROBEFS_MNT/proc/modules}
M=${M:-/proc/modules}
state() { grep '^slow ' $M | cut -d' ' -f3,5; }
said() { dmesg | sed -n 's/^[^]]*\] \(slow: [^lm]\)/\1/p' | tail -n +$((seen + 1)); seen=$(dmesg | grep -c '\] slow: [^lm]'); }
seen=0
for how in msleep interruptible killable; do
	echo "# $how"
	insmod ./slow.ko ms=3000 how=$how &
	p=$!
	sleep 1
	state
	cat /sys/kernel/debug/kprobes/enabled
	kill -9 $p
	wait $p 2>/dev/null
	echo "[$?]"
	sleep 3
	state
	said
	rmmod slow
	echo "[$?]"
	said
done
echo "# all at once"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	{ insmod ./slow.ko ms=500 2>/dev/null && echo loaded || echo refused; } &
done | sort | uniq -c
state
said
echo "# removed while it begins"
rmmod slow
insmod ./slow.ko ms=2000 &
sleep 1
rmmod slow 2>&1 | sed 's/.*: //; s/.*in use$/in use/'
wait
rmmod slow
said
`

// slowWant is what busybox printed on Debian's kernel 6.1.
const slowWant = `# msleep
1 Loading
1
[137]
0 Live
slow: init, msleep
slow: 0, killed 1
[0]
slow: exit
# interruptible
1 Loading
1
[137]
0 Live
slow: init, interruptible
slow: 1, killed 1
[0]
slow: exit
# killable
1 Loading
1
[137]
0 Live
slow: init, killable
slow: -512, killed 1
[0]
slow: exit
# all at once
      1 loaded
     19 refused
0 Live
slow: init, msleep
slow: 0, killed 0
# removed while it begins
Device or resource busy
slow: exit
slow: init, msleep
slow: 0, killed 0
slow: exit
`

// TestSlowInit: an init function goes on when its insmod is killed, and what waits in it
// may see that; one of many insmods loads the module.
func TestSlowInit(t *testing.T) {
	needTime(t)
	needFUSE(t)
	needBusybox(t)
	needTool(t, "kmod", "kmod")
	dir := publicDir(t)
	buildModule(t, dir, moduleFiles+"/slow.c")
	put(t, dir, "script", slowScript)
	out, status := asUser(nil).exec(t, dir, nil, []string{"--cpus", "2"}, "busybox", "sh", "script")
	if status != 0 || out != slowWant {
		t.Errorf("status %d, wanted (-) and got (+):\n%s", status, diff(slowWant, out))
	}
}

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// worker does the same again and again, with pauses of $2 seconds, until a file stop exists, or until the result is
// not the right one. Then it says so in the file done$1.
const worker = `n=0
until [ $n != 0 ] && [ -e stop ]; do
	got=$(cat in | cut -d: -f2 | grep x; (exit 7) & wait $!; echo "$?") || :
	if [ "$got" != "x
7" ]; then
		echo "after $n: $got" >tmp$1
		mv tmp$1 done$1
		exit
	fi
	n=$((n + 1))
	[ $2 = 0 ] || sleep $2
done
echo "right $n" >tmp$1
mv tmp$1 done$1
`

// startWorkers is a script that starts some in sessions of their own.
const startWorkers = `for i in $(seq %d); do setsid sh worker $i %d </dev/null >/dev/null 2>said$i & done
touch begun
`

// putWorkers puts the files for workers into a directory.
func putWorkers(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "worker", worker)
	put(t, dir, "in", "a:b\nc:x\nd:e\n")
}

// rightWorkers stops workers, and fails unless all have had right results.
func rightWorkers(t *testing.T, dir string, n int) {
	t.Helper()
	put(t, dir, "stop", "")
	for i := range n {
		var said string
		eventually(t, fmt.Sprintf("worker %d ends", i+1), func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, fmt.Sprint("done", i+1)))
			said = string(b)
			return said != ""
		})
		var times int
		if _, err := fmt.Sscanf(said, "right %d", &times); err != nil {
			cries, _ := os.ReadFile(filepath.Join(dir, fmt.Sprint("said", i+1)))
			t.Errorf("worker %d: %s%s", i+1, said, cries)
		}
	}
}

// TestSupervisorKilled: the supervisor, the tracer or both are killed at any moment, while probes are armed
// or not. The processes of the command go on, each with the right results. 500 times if KPROBEFS_SOAK is
// set.
func TestSupervisorKilled(t *testing.T) {
	needTime(t)
	needFUSE(t)
	const workers = 3
	victims := [][]string{{"inside"}, {"mount"}, {"inside", "mount"}}
	setups := []string{"", armed, fmt.Sprintf(mirrorSetup, "sched_yield"), fmt.Sprintf(mirrorSetup, "read write close openat exit_group")}
	for i := range rounds(12, 500) {
		dir := publicDir(t)
		putWorkers(t, dir)
		put(t, dir, "script", setups[i/len(victims)%len(setups)]+fmt.Sprintf(startWorkers, workers, 0)+"sleep 60\n")
		mark := "KPROBEFS_KILLED_TEST=" + filepath.Base(dir)
		mode := []string{"all", "stops"}[rand.IntN(2)]
		cmd := exec.Command(filepath.Join(built, "kprobefs"), "exec", "--mirror", mode, "--", "sh", "script")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "begun", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
		time.Sleep(100*time.Millisecond + time.Duration(rand.IntN(100_000))*time.Microsecond)
		killAll(mark, victims[i%len(victims)]...)
		time.Sleep(100 * time.Millisecond)
		rightWorkers(t, dir, workers)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		killAll(mark, "inside", "mount")
		for _, pid := range descendants(mark) { // the command, if only the tracer was killed
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.HasPrefix(string(line), "sleep\x00") {
				killAll(mark, "60")
			}
		}
		noneLeft(t, mark)
		if t.Failed() {
			t.Fatalf("round %d: %s killed, --mirror=%s", i, victims[i%len(victims)], mode)
		}
	}
}

// TestArmedAndDisarmed: probes are armed and disarmed while 50 processes work. 1,000 times if KPROBEFS_SOAK is
// set.
func TestArmedAndDisarmed(t *testing.T) {
	needTime(t)
	needFUSE(t)
	const workers = 50
	for _, mode := range []string{"all", "stops"} {
		dir := publicDir(t)
		putWorkers(t, dir)
		times := rounds(30, 1000)
		put(t, dir, "script", fmt.Sprintf(mirrorSetup, "read openat exit_group")+"echo 0 >$T/events/kprobes/enable\n"+
			fmt.Sprintf(startWorkers, workers, 1)+fmt.Sprintf(`i=0
while [ $i -lt %d ]; do
	echo 1 >$T/events/kprobes/read/enable
	echo 1 >$T/events/kprobes/enable
	echo 0 >$T/events/kprobes/enable
	i=$((i + 1))
done
touch over
wait
`, times))
		mark := "KPROBEFS_ARMED_TEST=" + filepath.Base(dir)
		cmd := exec.Command(filepath.Join(built, "kprobefs"), "exec", "--mirror", mode, "--", "sh", "script")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), mark)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(30 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "over")); err == nil {
				break
			}
		}
		t.Logf("--mirror=%s: armed and disarmed %d times in %v", mode, times, time.Since(began))
		rightWorkers(t, dir, workers)
		if err := cmd.Wait(); err != nil {
			t.Errorf("--mirror=%s: %v", mode, err)
		}
		noneLeft(t, mark)
	}
}

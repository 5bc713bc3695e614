package integration

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// countScript counts in histograms how often the processes of a command come to functions
// and return from them. The shell that plays it has the name ctl, and is not counted.
const countScript = `T=/sys/kernel/tracing
for f in do_sys_openat2 vfs_read vfs_write kernel_clone; do echo "p:p_$f $f"; echo "r64:r_$f $f"; done >$T/kprobe_events
echo p:p_do_exit do_exit >>$T/kprobe_events
for e in $T/events/kprobes/[pr]_*; do echo 'hist:keys=common_pid if COMM != "ctl"' >>$e/trigger; done
"$@" >said 2>&1
status=$?
for e in $T/events/kprobes/[pr]_*; do echo 'hist:keys=common_pid:pause if COMM != "ctl"' >>$e/trigger; done
for e in $T/events/kprobes/[pr]_*; do
	echo "${e##*/}" $(sed -nE 's/.* hitcount: *([0-9]+)$/\1/p' $e/hist)
	grep -v 'Dropped: 0' $e/hist | grep Dropped
done
exit $status
`

// countedCalls are the calls that come to each function, by strace's names.
var countedCalls = map[string][]string{
	"do_sys_openat2": {"open", "openat", "openat2", "creat"},
	"vfs_read":       {"read", "pread64"},
	"vfs_write":      {"write", "pwrite64"},
	"kernel_clone":   {"clone", "clone3", "fork", "vfork"},
}

// countedHits returns how often each probe of countScript was hit by a command.
func countedHits(t *testing.T, dir string, env, command []string) map[string]int {
	t.Helper()
	var user asUser
	out, status := user.exec(t, dir, env, nil, append([]string{"./ctl", "script"}, command...)...)
	if status != 0 {
		said, _ := os.ReadFile(filepath.Join(dir, "said"))
		t.Fatalf("status %d: %s%s", status, out, said)
	}
	hits := map[string]int{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		for _, n := range f[1:] {
			v, err := strconv.Atoi(n)
			if err != nil {
				t.Fatalf("%q", line)
			}
			hits[f[0]] += v
		}
	}
	return hits
}

// TestProgramCounts: p: and r: probes are hit by real programs as often as strace counts the
// calls. How often a program reads a pipe depends on time, and so does how many threads the
// Go runtime starts: there the counts may differ by what strace's own differ by.
func TestProgramCounts(t *testing.T) {
	needFUSE(t)
	needTool(t, "strace", "strace")
	public := publicDir(t)
	for _, c := range []struct {
		name, tool, from string
		prepare          func(t *testing.T, dir string) // before each run
		command          []string
		reads, clones    int // by how much these may differ
	}{
		{name: "git", tool: "git", from: "git", prepare: prepareGit, command: []string{"git", "clone", "-q", "repo", "copy"}},
		{name: "dpkg", tool: "dpkg-deb", from: "dpkg", prepare: prepareDpkg, command: []string{"dpkg", "--root=root", "--force-not-root", "-i", "demo.deb"}, clones: 1},
		{name: "go", tool: "go", from: "golang", prepare: prepareGo, command: []string{"go", "build", "-o", "prog", "."}, reads: 10, clones: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			needTool(t, c.tool, c.from)
			dir := filepath.Join(public, c.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			sh, err := os.ReadFile("/bin/sh")
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ctl"), sh, 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, dir, "script", countScript)
			env := []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"}

			c.prepare(t, dir)
			strace := exec.Command("strace", append([]string{"-f", "-c", "-o", "counts"}, c.command...)...)
			strace.Dir, strace.Env = dir, append(append(os.Environ(), "LC_ALL=C"), env...)
			if out, err := strace.CombinedOutput(); err != nil {
				t.Fatalf("strace: %v %s", err, out)
			}
			calls := countedBy(t, filepath.Join(dir, "counts"))

			c.prepare(t, dir)
			hits := countedHits(t, dir, env, c.command)
			t.Log(hits)
			may := map[string]int{"vfs_read": c.reads, "kernel_clone": c.clones}
			for function, names := range countedCalls {
				want := 0
				for _, n := range names {
					want += calls[n]
				}
				got, returns := hits["p_"+function], hits["r_"+function]
				if got < want-may[function] || got > want+may[function] || want == 0 {
					t.Errorf("%s: %d hits, strace counts %d calls", function, got, want)
				}
				if returns != got {
					t.Errorf("%s: %d hits, %d returns", function, got, returns)
				}
			}
			if got, want := hits["p_do_exit"], hits["p_kernel_clone"]+1; got != want {
				t.Errorf("do_exit: %d hits, there were %d threads", got, want)
			}
		})
	}
}

// countedBy reads strace's table.
func countedBy(t *testing.T, file string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line) // % time, seconds, usecs/call, calls, [errors,] syscall
		if len(f) < 5 {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			calls[f[len(f)-1]] = n
		}
	}
	return calls
}

// runIn runs commands in a directory, each a line.
func runIn(t *testing.T, dir, commands string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", commands)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

func prepareGit(t *testing.T, dir string) {
	t.Helper()
	runIn(t, dir, `rm -rf copy
[ -e repo ] && exit
git init -q repo; cd repo
for i in $(seq 30); do echo line $i >f$i; done
git add .
git -c user.name=x -c user.email=x@localhost commit -qm x`)
}

func prepareDpkg(t *testing.T, dir string) {
	t.Helper()
	runIn(t, dir, `rm -rf root; mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates; : >root/var/lib/dpkg/status
[ -e demo.deb ] && exit
mkdir -p demo/DEBIAN demo/usr/share/demo
for i in $(seq 20); do echo $i >demo/usr/share/demo/f$i; done
printf 'Package: demo\nVersion: 1\nArchitecture: all\nMaintainer: x <x@localhost>\nDescription: demo\n' >demo/DEBIAN/control
chmod -R u=rwX,go=rX demo
dpkg-deb --root-owner-group -b demo demo.deb >/dev/null`)
}

// prepareGo writes a program that has not been built yet: the cache of builds has the rest.
func prepareGo(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "go.mod", "module demo\n\ngo 1.21\n")
	write := func() {
		put(t, dir, "main.go", fmt.Sprintf("package main\n\nfunc main() { println(%q) }\n", rand.Text()))
	}
	write()
	if _, err := os.Stat(filepath.Join(dir, "prog")); err != nil {
		runIn(t, dir, "GOMAXPROCS=1 GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o prog .")
		write()
	}
}

package integration

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// countScript counts in histograms how often the processes of a command come to functions
// and return from them. The shell that plays it has the name ctl, and is not counted.
const countScript = `T=/sys/kernel/tracing
for f in do_sys_openat2 vfs_read vfs_write kernel_clone tcp_sendmsg; do echo "p:p_$f $f"; echo "r64:r_$f $f"; done >$T/kprobe_events
echo p:p_do_exit do_exit >>$T/kprobe_events
echo 'r64:again kernel_clone ret=$retval:s64' >>$T/kprobe_events # made again because of a signal: ERESTARTNOINTR
for e in $T/events/kprobes/[pr]_*; do echo 'hist:keys=common_pid if COMM != "ctl"' >>$e/trigger; done
echo 'hist:keys=common_pid if COMM != "ctl" && ret == -513' >>$T/events/kprobes/again/trigger
"$@" >said 2>&1
status=$?
for e in $T/events/kprobes/[pr]_*; do echo 'hist:keys=common_pid:pause if COMM != "ctl"' >>$e/trigger; done
for e in $T/events/kprobes/[pra]*; do
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
	"tcp_sendmsg":    {tcpSends},
}

// tcpSends stands for all calls that send on a TCP socket, which strace shows one by one.
const tcpSends = "TCP"

var tcpSend = regexp.MustCompile(`(?m)^\d+ +(write|writev|sendto|sendmsg)\(\d+<TCP(v6)?:`)

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
	needTime(t)
	needFUSE(t)
	needTool(t, "strace", "strace")
	public := publicDir(t)
	for _, c := range []struct {
		name, tool, from string
		prepare          func(t *testing.T, dir string) // before each run
		command          []string
		reads, clones    int    // by how much these may differ
		sends            int    // there are at least so many by TCP
		made             string // shell commands that show what the command has made
	}{
		{name: "git", tool: "git", from: "git", prepare: prepareGit, command: []string{"git", "clone", "-q", "repo", "copy"}, made: "git -C copy log --format=%s; git -C copy status --porcelain; cat copy/f*"},
		{name: "dpkg", tool: "dpkg-deb", from: "dpkg", prepare: prepareDpkg, command: []string{"dpkg", "--root=root", "--force-not-root", "-i", "demo.deb"}, clones: 1, made: "cat root/var/lib/dpkg/info/demo.list root/usr/share/demo/*"},
		{name: "go", tool: "go", from: "golang", prepare: prepareGo, command: []string{"go", "build", "-o", "prog", "."}, reads: 10, clones: 5, made: `grep -c -F "$(./prog 2>&1)" main.go`},
		{name: "web", tool: "python3", from: "python3", prepare: prepareWeb, command: []string{python(t), "web.py"}, sends: 200},
		{name: "make", tool: "make", from: "make", prepare: prepareMake, command: []string{"make", "-s", "-j4"}, made: "ar t lib.a"},
		{name: "xargs", tool: "xargs", from: "findutils", prepare: prepareXargs, command: []string{"sh", "-c", "find d -type f | sort | xargs -n 20 -P 4 grep -l 'line 1' | sort"}, reads: 20, made: "true"},
		{name: "tests", tool: "python3", from: "python3", prepare: prepareTests, command: []string{python(t), "-m", "unittest", "-v"}, sends: 41},
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
			// glibc and the Go runtime read files and start threads now and then, and Python writes caches: not with this.
			env := []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1", "GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "PYTHONDONTWRITEBYTECODE=1", "MALLOC_ARENA_MAX=1"}

			c.prepare(t, dir)
			strace := exec.Command("strace", append([]string{"-f", "-C", "-yy", "-o", "counts"}, c.command...)...)
			strace.Dir, strace.Env = dir, append(append(os.Environ(), "LC_ALL=C"), env...)
			says, err := strace.CombinedOutput()
			if err != nil {
				t.Fatalf("strace: %v %s", err, says)
			}
			calls := countedBy(t, filepath.Join(dir, "counts"))
			made := runIn(t, dir, c.made)

			c.prepare(t, dir)
			hits := countedHits(t, dir, env, c.command)
			t.Log(hits)
			if said, err := os.ReadFile(filepath.Join(dir, "said")); err != nil || withoutTimes(said) != withoutTimes(says) {
				t.Errorf("%v, it says under probes, -want +got\n%s", err, diff(withoutTimes(says), withoutTimes(said)))
			}
			if got := runIn(t, dir, c.made); got != made {
				t.Errorf("it makes under probes, -want +got\n%s", diff(made, got))
			}
			may := map[string]int{"vfs_read": c.reads, "kernel_clone": c.clones}
			for function, names := range countedCalls {
				want := 0
				for _, n := range names {
					want += calls[n]
				}
				got, returns := hits["p_"+function], hits["r_"+function]
				if function == "kernel_clone" {
					got, returns = got-hits["again"], returns-hits["again"]
				}
				if got < want-may[function] || got > want+may[function] || want == 0 && names[0] != tcpSends {
					t.Errorf("%s: %d hits, strace counts %d calls", function, got, want)
				}
				if returns != got {
					t.Errorf("%s: %d hits, %d returns", function, got, returns)
				}
			}
			if sends := hits["p_tcp_sendmsg"]; sends < c.sends {
				t.Errorf("%d messages were sent by TCP, want at least %d", sends, c.sends)
			}
			if got, want := hits["p_do_exit"], hits["p_kernel_clone"]-hits["again"]+1; got != want {
				t.Errorf("do_exit: %d hits, there were %d threads", got, want)
			}
		})
	}
}

// withoutTimes is what a command says, but for the time that Python's tests say they took.
func withoutTimes(said []byte) string {
	return regexp.MustCompile(`(?m)^(Ran \d+ tests) in .*`).ReplaceAllString(string(said), "$1")
}

// madeAgain are the calls that make a thread, and that the kernel makes again because a signal has come meanwhile.
var madeAgain = regexp.MustCompile(`(?m)^\d+ +(?:<\.\.\. )?(clone3?|v?fork)\b.*= \? ERESTARTNOINTR`)

// countedBy reads strace's calls and the table behind them. A call that is made again counts once.
func countedBy(t *testing.T, file string) map[string]int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	made, table, _ := strings.Cut(string(b), "\n% time")
	calls := map[string]int{tcpSends: len(tcpSend.FindAllString(made, -1))}
	for line := range strings.Lines(table) {
		f := strings.Fields(line) // % time, seconds, usecs/call, calls, [errors,] syscall
		if len(f) < 5 {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			calls[f[len(f)-1]] = n
		}
	}
	for _, m := range madeAgain.FindAllStringSubmatch(made, -1) {
		calls[m[1]]--
	}
	return calls
}

// runIn runs commands in a directory, each a line, and returns what they print.
func runIn(t *testing.T, dir, commands string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", commands)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return string(out)
}

// python returns Python's program: what PATH has may be a script that looks for it.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return "python3"
	}
	return strings.TrimSpace(string(out))
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

// prepareMake writes twelve C files, of which make builds a library.
func prepareMake(t *testing.T, dir string) {
	t.Helper()
	runIn(t, dir, `rm -f *.o lib.a
for i in $(seq 12); do echo "int f$i(void) { return $i; }" >f$i.c; done
printf 'lib.a: %s\n\tar rcD $@ $^\n' "$(seq -s ' ' -f f%g.o 12)" >Makefile`)
}

// prepareXargs writes the files that grep is to read.
func prepareXargs(t *testing.T, dir string) {
	t.Helper()
	runIn(t, dir, `mkdir -p d; for i in $(seq 300); do echo line $i >d/f$i; done`)
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

// webProgram is a web server, a process with a thread for each connection, and ten threads that
// fetch ten files each from it.
const webProgram = `import http.client, http.server, mimetypes, os, threading

mimetypes.init() # else each thread that comes early enough does

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False # server_close waits for them
    request_queue_size = 100

class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

server = Server(("127.0.0.1", 0), Handler)
child = os.fork()
if child == 0:
    for _ in range(100):
        server.handle_request()
    server.server_close()
    os._exit(0)
got = {}

def fetch(first):
    for i in range(first, first + 10):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
        connection.request("GET", "/file%d" % (i % 10))
        answer = connection.getresponse()
        got[i] = answer.status, len(answer.read())
        connection.close()

clients = [threading.Thread(target=fetch, args=(i,)) for i in range(0, 100, 10)]
for c in clients:
    c.start()
for c in clients:
    c.join()
print(os.waitpid(child, 0)[1], sorted(got.items()))
`

func prepareWeb(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "web.py", webProgram)
	for i := range 10 {
		put(t, dir, fmt.Sprintf("file%d", i), strings.Repeat("line\n", 5000*i))
	}
}

// testedProgram is a suite of Python's tests.
const testedProgram = `import os, queue, shutil, socket, subprocess, tempfile, threading, unittest

class Files(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(dir=".")
        self.addCleanup(shutil.rmtree, self.dir)

    def test_lines(self):
        name = os.path.join(self.dir, "lines")
        with open(name, "w") as f:
            f.writelines("%d\n" % i for i in range(5000))
        with open(name) as f:
            self.assertEqual([int(line) for line in f], list(range(5000)))

    def test_copy(self):
        name = os.path.join(self.dir, "copy")
        shutil.copy(__file__, name)
        with open(name, "rb") as a, open(__file__, "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_missing(self):
        for i in range(50):
            with self.assertRaises(FileNotFoundError):
                open(os.path.join(self.dir, "missing%d" % i))

    def test_offsets(self):
        with tempfile.TemporaryFile(dir=self.dir) as f:
            for i in range(40):
                self.assertEqual(os.pwrite(f.fileno(), b"%04d" % i, 4 * i), 4)
            for i in range(40):
                self.assertEqual(os.pread(f.fileno(), 4, 4 * i), b"%04d" % i)

class Processes(unittest.TestCase):
    def test_output(self):
        for i in range(5):
            self.assertEqual(subprocess.check_output(["/bin/echo", str(i)]), b"%d\n" % i)

    def test_status(self):
        self.assertEqual(subprocess.run(["/bin/sh", "-c", "exit 3"]).returncode, 3)
        self.assertEqual(subprocess.run(["/bin/sh", "-c", "kill -9 $$"]).returncode, -9)

    def test_fork(self):
        for i in range(5):
            pid = os.fork()
            if pid == 0:
                os._exit(i)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), i)

class Threads(unittest.TestCase):
    def test_queue(self):
        todo, done = queue.Queue(), queue.Queue()
        def work():
            while (n := todo.get()) is not None:
                done.put(n * n)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for i in range(200):
            todo.put(i)
        for t in threads:
            todo.put(None)
        for t in threads:
            t.join()
        self.assertEqual(sorted(done.get() for _ in range(200)), [i * i for i in range(200)])

class Sockets(unittest.TestCase):
    def exchange(self, a, b):
        for i in range(20):
            a.sendall(b"%04d" % i)
            self.assertEqual(b.recv(4, socket.MSG_WAITALL), b"%04d" % i)

    def test_tcp(self):
        with socket.create_server(("127.0.0.1", 0)) as s, socket.create_connection(s.getsockname()) as a, s.accept()[0] as b:
            self.exchange(a, b)
            self.exchange(b, a)
            self.assertEqual(os.write(a.fileno(), b"x"), 1)
            self.assertEqual(os.read(b.fileno(), 1), b"x")

    def test_pair(self):
        a, b = socket.socketpair()
        with a, b:
            self.exchange(a, b)
            self.exchange(b, a)
`

func prepareTests(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "test_all.py", testedProgram)
}

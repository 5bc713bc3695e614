package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/journal"
)

// inTime is a mounted deterministic machine.
type inTime struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	log string
}

// mountInTime mounts one. env is added to the program's environment.
func mountInTime(t *testing.T, env []string, flags ...string) *inTime {
	t.Helper()
	needFuse(t)
	m := &inTime{t: t, dir: t.TempDir(), log: filepath.Join(t.TempDir(), "log")}
	stderr, err := os.Create(m.log)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m.cmd = runProgram(append(append([]string{"mount", "--ready-fd", "3"}, flags...), m.dir)...)
	m.cmd.Env = append(append(os.Environ(), roleVar+"="+roleReal), env...)
	m.cmd.ExtraFiles = []*os.File{w}
	m.cmd.Stderr = stderr
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(m.end)
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		b, _ := os.ReadFile(m.log)
		t.Fatalf("%q, %v\n%s", line, err, b)
	}
	return m
}

// end unmounts, and waits for the program's end.
func (m *inTime) end() {
	if m.cmd.ProcessState != nil {
		return
	}
	_ = unix.Unmount(m.dir, unix.MNT_DETACH)
	late := time.AfterFunc(endLimit, func() { _ = m.cmd.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	err := m.cmd.Wait()
	if b, _ := os.ReadFile(m.log); err != nil || m.t.Failed() {
		m.t.Logf("the program ended with %v; its log:\n%.20000s", err, b)
	}
}

// sh plays a script in a new shell, whose current directory is the tree, and returns what it prints.
func (m *inTime) sh(script string) string {
	m.t.Helper()
	cmd := exec.Command("timeout", "-k", "1", "60", "sh", "-c", script)
	cmd.Dir = m.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// save saves a snapshot, and returns its file and the state that is printed.
func (m *inTime) save() (file, state string) {
	m.t.Helper()
	file = filepath.Join(m.t.TempDir(), "snapshot")
	cmd := runProgram("snapshot", "--at", m.dir, file)
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("snapshot: %v %s", err, out)
	}
	return file, string(out)
}

// Two halves of a run with probes of several kinds, a module's worth of writes, and moves of the clock.
const (
	firstHalf = `
echo 'p:mine vfs_read count=%dx' > tracing/kprobe_events
echo 'p:mid vfs_read+5' >> tracing/kprobe_events
echo 'r:ret vfs_read $retval' >> tracing/kprobe_events
echo 'hist:keys=common_pid:vals=hitcount' > tracing/events/kprobes/mine/trigger
echo 1 > tracing/events/kprobes/enable
cat kprobes/enabled proc/version > /dev/null
echo +50ms > machine/clock
for i in 1 2 3; do cat kprobes/enabled & done; wait
echo int_sqrt 10 49 > machine/load/call; cat machine/load/call
cat machine/clock
`
	secondHalf = `
cat kprobes/list
echo +1s > machine/clock
cat sys/debug/kprobes-optimization
echo '-:mid' >> tracing/kprobe_events 2>/dev/null || echo busy
cat kprobes/enabled
echo 0 > tracing/events/kprobes/enable
cat tracing/trace tracing/events/kprobes/mine/hist kprobes/list tracing/kprobe_profile machine/clock
`
)

// TestSameCommand: the same command gives the same output, and the same state, with two vCPUs, whatever the engine and the host's
// processors are. A recording of it plays to the same trace.
func TestSameCommand(t *testing.T) {
	script := strings.Replace(firstHalf, "& done; wait", "; done", 1) + secondHalf
	run := func(env []string, flags ...string) (out, state, file string) {
		file = filepath.Join(t.TempDir(), "journal")
		m := mountInTime(t, env, append([]string{"--cpus", "2", "--record", file}, flags...)...)
		out = m.sh(script)
		_, state = m.save()
		m.end()
		return out, state, file
	}
	out, state, file := run(nil)
	if !strings.Contains(out, "mid: (vfs_read+0x5/") || !strings.Contains(out, "OPTIMIZED") {
		t.Errorf("the run has no hits: %s", out)
	}
	for name, other := range map[string]struct{ env, flags []string }{
		"again":     {},
		"interp":    {nil, []string{"--engine", "interp"}},
		"elsewhere": {[]string{"GOMAXPROCS=1", "TMPDIR=" + t.TempDir()}, nil},
	} {
		gotOut, gotState, _ := run(other.env, other.flags...)
		if gotOut != out || gotState != state {
			t.Errorf("%s: state %q, want %q; output\n%s\nwant\n%s", name, gotState, state, gotOut, out)
		}
	}
	wantReplayed(t, file, out)
}

// wantReplayed plays a recording with each engine. What it prints must be a part of out.
func wantReplayed(t *testing.T, file, out string) {
	t.Helper()
	for _, engine := range []string{"auto", "interp"} {
		cmd := runProgram("replay", "--engine", engine, file, "tracing/trace")
		cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		got, err := cmd.Output()
		if err != nil || len(got) == 0 || !strings.Contains(out, string(got)) {
			t.Errorf("replay --engine=%s: %v %s; it printed\n%s\nwhich is not in\n%s", engine, err, &stderr, got, out)
		}
	}
}

// TestRestore: a machine that was saved goes on in another process to the same results.
func TestRestore(t *testing.T) {
	m := mountInTime(t, nil, "--deterministic", "--cpus", "2")
	m.sh(firstHalf)
	file, state := m.save()
	want := m.sh(secondHalf)
	_, wantState := m.save()
	m.end()
	n := mountInTime(t, []string{"GOMAXPROCS=1", "TMPDIR=" + t.TempDir()}, "--restore", file, "--engine", "interp")
	_, again := n.save()
	if again != state {
		t.Errorf("after --restore the state is %q, want %q", again, state)
	}
	if got := n.sh(secondHalf); got != want {
		t.Errorf("after --restore the machine prints\n%s\nwant\n%s", got, want)
	}
	if _, got := n.save(); got != wantState {
		t.Errorf("in the end the state is %q, want %q", got, wantState)
	}
}

// TestRecordWaits: a reader that waits, and is interrupted, is recorded and played.
func TestRecordWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	m := mountInTime(t, nil, "--record", file, "--cpus", "2")
	out := m.sh(`
echo 'p:mine int_sqrt' > tracing/kprobe_events
echo 1 > tracing/events/kprobes/mine/enable
timeout 1 cat tracing/trace_pipe > ` + t.TempDir() + `/pipe &
sleep 0.2
echo int_sqrt 1 16 > machine/load/call
sleep 0.2
echo int_sqrt 1 25 > machine/load/call
wait
echo int_sqrt 1 36 > machine/load/call
cat tracing/trace
timeout 0.2 cat dev/kmsg > /dev/null
timeout 0.2 sh -c 'echo int_sqrt 1000000000 1 > machine/load/call' 2>/dev/null
cat tracing/trace | wc -l
`)
	m.end()
	cmd := runProgram("replay", file, "tracing/kprobe_profile")
	cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if got, err := cmd.Output(); err != nil || !strings.Contains(string(got), "mine") {
		t.Errorf("replay: %v %s\n%s\nthe run was\n%s", err, &stderr, got, out)
	}
}

// TestBack steps a hit forth and back, and goes back to it later.
func TestBack(t *testing.T) {
	m := mountInTime(t, nil, "--deterministic", "--cpus", "2")
	m.sh("echo 0 > sys/debug/kprobes-optimization; echo 'p:mid vfs_read+5' > tracing/kprobe_events; echo 1 > tracing/events/kprobes/mid/enable")
	run := filepath.Join(m.dir, "machine/run")
	hit := make(chan struct{})
	go func() {
		defer close(hit)
		writeTree(t, run, "hit")
	}()
	for !strings.HasPrefix(readTree(t, run), "running") {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // for the write to begin; if it comes later, cat runs through
	read := exec.Command("cat", filepath.Join(m.dir, "kprobes/enabled"))
	var out bytes.Buffer
	read.Stdout = &out
	if err := read.Start(); err != nil {
		t.Fatal(err)
	}
	<-hit
	seen := []string{place(readTree(t, run))}
	for range 3 {
		writeTree(t, run, "step")
		seen = append(seen, place(readTree(t, run)))
	}
	if !strings.HasPrefix(seen[0], "vfs_read+0x5,") || !strings.HasPrefix(seen[1], "slot+0x0 of vfs_read+0x5,") {
		t.Errorf("the steps are %q", seen)
	}
	for i := 2; i >= 0; i-- {
		writeTree(t, run, "back")
		if got := place(readTree(t, run)); got != seen[i] {
			t.Errorf("back is at %q, want %q", got, seen[i])
		}
	}
	writeTree(t, run, "step 3")
	writeTree(t, run, "back 2")
	if got := place(readTree(t, run)); got != seen[1] {
		t.Errorf("back 2 is at %q, want %q", got, seen[1])
	}
	writeTree(t, run, "go")
	if err := read.Wait(); err != nil || out.String() != "1\n" {
		t.Errorf("cat: %v, %q", err, &out)
	}
	m.sh("echo 0 > tracing/events/kprobes/mid/enable")
	before := m.sh("cat tracing/trace")
	if n := strings.Count(before, " mid: "); n != 2 {
		t.Errorf("%d hits, want 2:\n%s", n, before)
	}
	m.sh("echo 1 > tracing/events/kprobes/mid/enable; echo stop > machine/run; echo back hit > machine/run")
	if got := place(readTree(t, run)); got != seen[0] {
		t.Errorf("back hit is at %q, want %q", got, seen[0])
	}
	m.sh("echo back hit > machine/run; echo go > machine/run")
	m.sh("echo 0 > tracing/events/kprobes/mid/enable")
	if got := m.sh("cat tracing/trace"); got != before {
		t.Errorf("after going back and on the trace is\n%s\nwant\n%s", got, before)
	}
}

// place is where machine/run says that cat is.
func place(run string) string {
	m := regexp.MustCompile(`(?m)^cpu \d at (.*), task cat/`).FindStringSubmatch(run)
	if m == nil {
		return run
	}
	return m[1] + ","
}

// TestRefusedFiles: what does not fit is refused with a reason.
func TestRefusedFiles(t *testing.T) {
	m := mountInTime(t, nil, "--deterministic", "--cpus", "2")
	m.sh("echo p vfs_read > tracing/kprobe_events")
	file, _ := m.save()
	m.end()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
		return b
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"damaged":       {flip(whole), "the file is damaged"},
		"damaged entry": {flip(plain), "the checksum of an entry is wrong"},
		"no journal":    {[]byte("something else"), "no journal"},
		"other version": {append([]byte("kprobefs journal 77\n"), whole...), "version"},
		"other program": {remade(t, whole, func(h *journal.Header, _ []journal.Entry) { h.Program = "kprobefs 0.0" }), "only the same version plays it"},
		"wrong release": {remade(t, whole, func(h *journal.Header, _ []journal.Entry) { h.Release = "5.10" }), "the emulated kernel of this program is another one"},
		"other vCPUs":   {remade(t, whole, func(h *journal.Header, _ []journal.Entry) { h.CPUs = 1 }), "the machine does not do what the journal says"},
		"other state": {remade(t, whole, func(_ *journal.Header, e []journal.Entry) {
			e[len(e)-1].State = strings.Repeat("0", 64)
		}), "the machine does not do what the journal says"},
	} {
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"replay", bad}, {"mount", "--restore", bad, t.TempDir()}} {
			cmd := runProgram(args...)
			cmd.Env = append(os.Environ(), roleVar+"="+roleReal)
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%s, %s: %v %q, want %q", name, args[0], err, out, c.want)
			}
		}
	}
}

// remade changes the header and the entries of a journal.
func remade(t *testing.T, file []byte, change func(*journal.Header, []journal.Entry)) []byte {
	t.Helper()
	h, entries, _, err := journal.ReadAll(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	change(&h, entries)
	var b bytes.Buffer
	w, err := journal.NewWriter(&b, h)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := w.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestRefusedFlags: flags that do not go with a deterministic machine are refused, and an ordinary one says what it lacks.
func TestRefusedFlags(t *testing.T) {
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--deterministic", "--http", "127.0.0.1:0"}, "--http does not go with a deterministic machine"},
		{[]string{"--deterministic", "--part", "tracefs=/x"}, "--part does not go with a deterministic machine"},
		{[]string{"--record", "x", "--panic", "reboot"}, "--panic=reboot does not go with a deterministic machine"},
		{[]string{"--restore", "x", "--cpus", "2"}, "--cpus is not for --restore"},
		{[]string{"--clock", "sundial"}, "the values are real and virtual"},
	} {
		out, _ := output(t, append(append([]string{"mount"}, c.flags...), t.TempDir())...)
		if !strings.Contains(out, c.want) {
			t.Errorf("%q: %q, want %q", c.flags, out, c.want)
		}
	}
	if out, _ := output(t, "exec", "--deterministic", "--", "true"); !strings.Contains(out, "--deterministic is for mount") {
		t.Errorf("exec --deterministic: %q", out)
	}
	m := mountInTime(t, nil, "--cpus", "2", "--clock", "virtual")
	run := filepath.Join(m.dir, "machine/run")
	if err := os.WriteFile(run, []byte("back"), 0); !isErrno(err, syscall.EOPNOTSUPP) {
		t.Errorf("back on an ordinary machine gives %v", err)
	}
	cmd := runProgram("snapshot", "--at", m.dir, filepath.Join(t.TempDir(), "s"))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "was not started with --deterministic") {
		t.Errorf("snapshot of an ordinary machine: %v %q", err, out)
	}
	clock := filepath.Join(m.dir, "machine/clock")
	before := readTree(t, clock)
	writeTree(t, clock, "+1h")
	if after := readTree(t, clock); len(after) <= len(before) {
		t.Errorf("the clock was %s and is %s", before, after)
	}
	for _, bad := range []string{"-1", "1 2", "soon", "+25h"} {
		if err := os.WriteFile(clock, []byte(bad), 0); !isErrno(err, syscall.EINVAL) {
			t.Errorf("%q to machine/clock gives %v", bad, err)
		}
	}
}

// TestModulesInTime: a module that is loaded, hit on two vCPUs, read, removed and loaded again gives the same state each time, and
// a recording of it plays.
func TestModulesInTime(t *testing.T) {
	modules, err := filepath.Abs("../../kernel/guest/modules")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.ReplaceAll(`
cp KO/kprobe_example.ko machine/modules/
cut -d' ' -f1-3 proc/modules
echo 'p:mine int_sqrt x=%di' > tracing/kprobe_events
echo 1 > tracing/events/kprobes/mine/enable
echo int_sqrt 2000 49 > machine/load/call; cat machine/load/call
cat sys/module/kprobe_example/sections/.text kprobes/list
rm machine/modules/kprobe_example.ko
{ echo symbol=int_sqrt; cat KO/kprobe_example.ko; } > machine/insmod
cp KO/kretprobe_example.ko machine/modules/
echo int_sqrt 50 64 > machine/load/call
echo +20ms > machine/clock
cat kprobes/list
rm machine/modules/kretprobe_example.ko machine/modules/kprobe_example.ko
cp KO/nothing.ko machine/modules/ 2> /dev/null || echo no such module
cat proc/modules kprobes/list
cat tracing/trace
`, "KO", modules)
	run := func(flags ...string) (out, state, file string) {
		file = filepath.Join(t.TempDir(), "journal")
		m := mountInTime(t, nil, append([]string{"--cpus", "2", "--record", file}, flags...)...)
		out = m.sh(script)
		_, state = m.save()
		m.end()
		return out, state, file
	}
	out, state, file := run()
	if strings.Count(out, "mine: (int_sqrt") < 2000 || !strings.Contains(out, "[001]") || !strings.Contains(out, "kprobe_example") || !strings.Contains(out, "no such module") {
		t.Errorf("the run is not what it should be: %.4000s", out)
	}
	if gotOut, gotState, _ := run("--engine", "interp"); gotOut != out || gotState != state {
		t.Errorf("again: state %q, want %q; output\n%.4000s\nwant\n%.4000s", gotState, state, gotOut, out)
	}
	wantReplayed(t, file, out)
}

// TestCrowdInTime: what many programs do at once, while probes are hit on two vCPUs, plays back exactly.
func TestCrowdInTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal")
	m := mountInTime(t, nil, "--cpus", "2", "--record", file)
	m.sh(`
echo 4096 > tracing/buffer_size_kb
echo 'p:mine int_sqrt x=%di' > tracing/kprobe_events
echo 'r:ret vfs_read $retval' >> tracing/kprobe_events
echo 'hist:keys=x' > tracing/events/kprobes/mine/trigger
for i in 1 2 3 4 5 6; do
	(for k in 1 2 3 4 5; do
		echo $((i % 2)) > tracing/events/kprobes/ret/enable
		echo int_sqrt 300 $((i * k)) > machine/load/call
		cat kprobes/list tracing/events/kprobes/mine/hist > /dev/null
		echo +1ms > machine/clock
		echo 1 > tracing/events/kprobes/mine/enable
	done) &
done
wait
echo 0 > tracing/events/kprobes/enable
`)
	trace := m.sh("cat tracing/trace")
	if n := strings.Count(trace, " mine: (int_sqrt"); n < 1000 || !strings.Contains(trace, "[000]") || !strings.Contains(trace, "[001]") {
		t.Errorf("%d hits", n)
	}
	m.end()
	wantReplayed(t, file, trace)
}

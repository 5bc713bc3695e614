package soak

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleHolder makes this binary a client that opens a file many times, prints the
// number of successes and the first error, and keeps the files open until its input
// ends.
const roleHolder = "holder"

func hold(file string, times int) int {
	limit := unix.Rlimit{Cur: uint64(times) + 100, Max: uint64(times) + 100}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		var errno syscall.Errno
		_ = errors.As(err, &errno)
		fmt.Println(0, int(errno))
		return 1
	}
	n, errno := 0, syscall.Errno(0)
	for ; n < times; n++ {
		if _, err := unix.Open(file, unix.O_RDONLY, 0); err != nil {
			errors.As(err, &errno)
			break
		}
	}
	fmt.Println(n, int(errno))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// holder starts a client of another user that opens a file many times. result returns
// the number of successes and the errno of the first failure.
func (d *daemon) holder(uid uint32, file string, times int) (result func() (opened int, errno syscall.Errno), end func()) {
	d.t.Helper()
	cmd := exec.Command("/proc/self/exe", d.path(file), strconv.Itoa(times))
	cmd.Env = append(os.Environ(), roleVar+"="+roleHolder)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = dieWithUs()
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	in, err := cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	end = func() { _ = in.Close(); _ = cmd.Wait() }
	d.t.Cleanup(func() { _ = cmd.Process.Kill(); end() })
	return func() (int, syscall.Errno) {
		d.t.Helper()
		var n, errno int
		if _, err := fmt.Fscan(bufio.NewReader(out), &n, &errno); err != nil {
			d.t.Fatal(err)
		}
		return n, syscall.Errno(errno)
	}, end
}

// publicDir returns a directory that all users can access.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; len(at) > len(os.TempDir()); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpenFiles: a user who opens as many files as possible does not affect root.
// Each process has its own descriptor table, and the total of files opened by all
// other users is limited (ENFILE) before the guest's memory is used up.
func TestOpenFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Max < 16100 {
		t.Skipf("a process may have %d files here: %v", limit.Max, err)
	}
	if testing.Short() {
		t.Skip("opens 67,536 files")
	}
	d := start(t, publicDir(t))
	defer func() { _ = d.cmd.Process.Kill() }() // before its clients, which would have to close all files
	const file, processes, each, most = "proc/version", 5, 16000, 1 << 16
	var results []func() (int, syscall.Errno)
	for range processes {
		r, _ := d.holder(4242, file, each)
		results = append(results, r)
	}
	opened := 0
	for _, r := range results {
		n, errno := r()
		opened += n
		if n < each && errno != syscall.ENFILE {
			t.Errorf("after %d files of a process: %v", n, errno)
		}
	}
	if opened < most-100 || opened > most+100 {
		t.Errorf("the user has %d files open, want about %d", opened, most)
	}
	const more = 2000
	root, _ := d.holder(0, file, more)
	if n, errno := root(); n != more {
		t.Errorf("root has opened %d of %d files, then: %v", n, more, errno)
	}
	d.works()
}

// TestInstancesAreFreed: removed instances leave nothing in memory, neither their buffers,
// which are full here, nor inodes that the host's kernel remembers.
func TestInstancesAreFreed(t *testing.T) {
	d := start(t, t.TempDir())
	before := d.state()
	const times, bytes = 30, 4 << 20
	line := []byte(strings.Repeat("x", 4000) + "\n")
	for n := range times {
		name := fmt.Sprintf("tracing/instances/i%d", n)
		dir := d.path(name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(dir, unix.O_RDONLY, 0) // the host's kernel keeps the inode of an open directory
		if err != nil {
			t.Fatal(err)
		}
		if err := d.write(name+"/buffer_size_kb", fmt.Sprint(bytes>>10)); err != nil {
			t.Fatal(err)
		}
		marker, err := os.OpenFile(dir+"/trace_marker", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for range bytes / len(line) {
			if _, err := marker.Write(line); err != nil {
				t.Fatal(err)
			}
		}
		_ = marker.Close()
		within(t, endLimit, "rmdir", func() bool { return unix.Rmdir(dir) == nil }) // the RELEASE of the marker may still be pending
		_ = unix.Close(fd)
	}
	var after state
	within(t, endLimit, "inodes are forgotten", func() bool { after = d.state(); return after.Inodes <= before.Inodes+5 })
	// Twice the size of an instance, since garbage may not be collected yet; 30
	// instances had 240 MB.
	if grown := after.resident - before.resident; grown > 64<<10 {
		t.Errorf("%d KiB more than before", grown)
	}
	if grown := after.Heap - before.Heap; grown > 32<<20 {
		t.Errorf("%d bytes of heap more than before", grown)
	}
}

// TestHalfRead: readers of trace that stop half-way hold two pages per vCPU, not the
// contents of the buffer. Writers continue, and a reader that continues is told of
// lost events.
func TestHalfRead(t *testing.T) {
	d := start(t, t.TempDir())
	const bytes, readers = 32 << 20, 28
	if err := d.write("tracing/buffer_size_kb", fmt.Sprint(bytes>>10)); err != nil {
		t.Fatal(err)
	}
	marker, err := os.OpenFile(d.path("tracing/trace_marker"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer marker.Close()
	line := []byte(strings.Repeat("x", 4000) + "\n")
	write := func(n int) {
		t.Helper()
		for range n / len(line) {
			if _, err := marker.Write(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(2 * bytes)
	before := d.state()
	var open []*os.File
	part := make([]byte, 64<<10)
	for range readers {
		f, err := os.Open(d.path("tracing/trace"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := io.ReadFull(f, part); err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	// 1 MiB each for requests and text; copies of the buffer would be 900 MiB.
	if grown := d.state().resident - before.resident; grown > readers<<10 {
		t.Errorf("%d half-read files hold %d KiB", readers, grown)
	}
	write(2 * bytes) // overwrites all that they have not read
	rest, err := io.ReadAll(open[0])
	if err != nil || !strings.Contains(string(rest), " [LOST EVENTS]\n") {
		t.Errorf("%d bytes are left to read, without a line about lost events: %v", len(rest), err)
	}
	d.works()
}

// TestMemory: what clients make the program allocate is limited by ENOMEM: buffers,
// instances, copies of modules that are never closed. The program continues, and the
// memory is freed when clients release it.
func TestMemory(t *testing.T) {
	const limit = 128 << 20
	d := start(t, t.TempDir(), "--memory", "128M")
	d.works()
	before := d.state()
	full := func(what string, until int, more func(n int) error) {
		t.Helper()
		n := 0
		var err error
		for ; n < until && err == nil; n++ {
			err = more(n)
		}
		if !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %d times, then %v, want ENOMEM", what, n, err)
		}
		// 64 MiB for garbage that is not yet collected, and for the Go runtime.
		if grown := d.state().resident - before.resident; grown > (limit+64<<20)>>10 {
			t.Errorf("%s: %d KiB more than before", what, grown)
		}
		if b, err := os.ReadFile(d.path("kprobes/enabled")); err != nil || string(b) != "1\n" {
			t.Errorf("%s: then a file reads %q, %v", what, b, err)
		}
	}
	empty := func(what string) {
		t.Helper()
		within(t, endLimit, "memory comes back after "+what, func() bool {
			s := d.state()
			return s.Heap < before.Heap+16<<20 && s.resident < before.resident+48<<10
		})
		d.works()
	}

	full("a buffer", 1, func(int) error { return d.write("tracing/buffer_size_kb", "1000000") })
	if err := d.write("tracing/buffer_size_kb", "1408"); err != nil {
		t.Error(err)
	}

	instance := func(n int) string { return d.path(fmt.Sprintf("tracing/instances/i%d", n)) }
	made := 0
	full("instances", 10000, func(n int) error {
		if err := unix.Mkdir(instance(n), 0o755); err != nil {
			return err
		}
		made = n + 1
		return nil
	})
	for n := range made {
		if err := unix.Rmdir(instance(n)); err != nil {
			t.Fatal(err)
		}
	}
	empty("instances")

	var copies []*os.File
	part := make([]byte, 1<<20)
	full("copies of modules", 1000, func(n int) error {
		f, err := os.OpenFile(d.path(fmt.Sprintf("machine/modules/m%d.ko", n)), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		copies = append(copies, f)
		for range 16 {
			if _, err := f.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
	for _, f := range copies {
		_ = f.Close()
	}
	empty("copies of modules")
}

// TestGivingBack: what fills the memory in a file of definitions, filters, triggers, pids,
// functions or instances gets ENOMEM at --memory, and not the reserves beyond it: however often
// that is tried, the files can be read, and what holds the memory can be taken away again.
// Some seconds later the memory is the host's.
func TestGivingBack(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes more than ten seconds: left to make test-all")
	}
	d := start(t, t.TempDir(), "--memory", "64M")
	d.works()
	before := d.state()
	rounds := 2
	if soaking() {
		rounds = 10
	}
	for _, f := range fillers() {
		t.Run(f.name, func(t *testing.T) {
			d := *d
			d.t = t
			filled := make([]int, rounds)
			for round := range rounds {
				n, refused := 0, 0 // in a row
				for ; refused < 20; n++ {
					switch err := f.fill(&d, n); {
					case err == nil && n < f.most:
						refused = 0
						filled[round]++
					case errors.Is(err, syscall.ENOMEM):
						refused++
					default:
						t.Fatalf("round %d: %d times, then %v, want ENOMEM", round, n, err)
					}
				}
				for _, name := range []string{"kprobes/list", "kprobes/enabled", "tracing/kprobe_events"} {
					if _, err := os.ReadFile(d.path(name)); err != nil {
						t.Errorf("round %d: full: %v", round, err)
					}
				}
				if err := f.clear(&d); err != nil {
					t.Fatalf("round %d: clear: %v", round, err)
				}
				d.works()
			}
			if filled[rounds-1] < filled[0]/2 {
				t.Errorf("there was room for %d: less each time", filled)
			}
			t.Logf("room for %d, %+v", filled, d.state())
		})
	}
	// The daemon gives the memory of its heap back when requests are few, so it is asked twice
	// a second. Pages of the guest that were touched stay resident: with this load some 40 MB.
	const guestPages = 80 << 10 // KB
	now := d.state()
	for range 60 {
		if now = d.state(); now.resident < before.resident+guestPages {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("after 30s %d KB are resident, before %d KB", now.resident, before.resident)
}

// filler fills the memory by one kind of file.
type filler struct {
	name  string
	most  int // times that fill may succeed
	fill  func(d *daemon, n int) error
	clear func(d *daemon) error
}

// fillers are the files that hold what clients write, until it is taken away.
func fillers() []filler {
	write := func(d *daemon, name, text string) error {
		return os.WriteFile(d.path(name), []byte(text), 0) // with O_TRUNC
	}
	const page = 4000
	var fields, args, terms strings.Builder
	for i := range 100 {
		fmt.Fprintf(&args, " argument_%d=+%d(%%%%di):u64", i, i)
	}
	for i := range 60 {
		fmt.Fprintf(&fields, "u64 field_%d_%s;", i, strings.Repeat("x", 40))
	}
	for terms.Len() < page-20 {
		fmt.Fprintf(&terms, "common_pid==1||")
	}
	filter := terms.String() + "common_pid==2"
	definitions := func(file, line string) filler {
		return filler{
			name: file, most: 100000,
			fill:  func(d *daemon, n int) error { return d.write("tracing/"+file, fmt.Sprintf(line, n)) },
			clear: func(d *daemon) error { return write(d, "tracing/"+file, "") },
		}
	}
	// In some instances, the file of each event in turn.
	const instances = 4
	inInstances := func(file, text string) filler {
		var files []string
		return filler{
			name: file, most: 10000,
			fill: func(d *daemon, n int) error {
				for i := 0; n == 0 && i < instances; i++ {
					if err := os.Mkdir(d.path(fmt.Sprintf("tracing/instances/i%d", i)), 0o755); err != nil {
						return err
					}
				}
				if files == nil {
					files, _ = filepath.Glob(d.path("tracing/events/[a-eg-z]*/*/" + file)) // not ftrace's
				}
				at, err := filepath.Rel(d.path("tracing"), files[n/instances%len(files)])
				if err != nil {
					return err
				}
				return d.write(fmt.Sprintf("tracing/instances/i%d/%s", n%instances, at), text)
			},
			clear: func(d *daemon) error { return d.removeInstances() },
		}
	}
	return []filler{
		definitions("synthetic_events", "s%d "+fields.String()),
		definitions("kprobe_events", "p:m%d vfs_read+5"+args.String()),
		definitions("dynamic_events", "s:d%d "+fields.String()),
		{
			name: "instances", most: 10000,
			fill: func(d *daemon, n int) error {
				return os.Mkdir(d.path(fmt.Sprintf("tracing/instances/i%d", n)), 0o755)
			},
			clear: func(d *daemon) error { return d.removeInstances() },
		},
		inInstances("filter", filter),
		inInstances("trigger", "traceoff if "+filter),
		{
			name: "set_event_pid", most: 10000,
			fill: func(d *daemon, n int) error {
				f, err := os.OpenFile(d.path("tracing/set_event_pid"), os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				defer f.Close()
				const each = 50000
				text := make([]byte, 0, 10*each)
				for i := range each {
					text = append(strconv.AppendInt(text, int64(n*each+i), 10), ' ')
				}
				_, err = f.Write(text)
				return err
			},
			clear: func(d *daemon) error { return write(d, "tracing/set_event_pid", "") },
		},
	}
}

// removeInstances removes all instances.
func (d *daemon) removeInstances() error {
	dirs, err := os.ReadDir(d.path("tracing/instances"))
	for _, e := range dirs {
		err = errors.Join(err, unix.Rmdir(d.path("tracing/instances/"+e.Name())))
	}
	return err
}

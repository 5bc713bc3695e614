package integration

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// clientVar tells the test binary that it runs inside "kprobefs exec" as the
// program whose calls are counted. Its value: NAME OFFSET KNOB CALLS THREADS.
const clientVar = "KPROBEFS_INTEGRATION_CLIENT"

// TestExactHits: a program makes N read(2) calls on the mount, and a probe in the
// read path must count exactly N hits, for each way of arming and several numbers of
// vCPUs and threads.
func TestExactHits(t *testing.T) {
	needTime(t)
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name     string
		place    string
		optimize string // kprobes-optimization
		flag     string // flag in kprobes/list
	}{
		{"fentry", "vfs_read", "1", "[FTRACE]"},
		{"int3", "vfs_read+5", "0", ""},
		{"jump", "vfs_read+5", "1", "[OPTIMIZED]"},
	} {
		for _, cpus := range []int{1, 2} {
			for _, threads := range []int{1, 4} {
				t.Run(fmt.Sprintf("%s/cpus=%d/threads=%d", kind.name, cpus, threads), func(t *testing.T) {
					const calls = 2000
					// changes: the reads of Go's runtime elsewhere (of an eventfd) do not count.
					env := clientVar + "=" + strings.Join([]string{kind.place, kind.optimize, strconv.Itoa(calls), strconv.Itoa(threads)}, " ")
					out, status := asUser(nil).exec(t, publicDir(t), []string{env}, []string{"--cpus", strconv.Itoa(cpus), "--mirror", "changes"}, self)
					if status != 0 {
						t.Fatalf("exit status %d: %s", status, out)
					}
					want := fmt.Sprintf("flag %q hits %d missed 0\n", kind.flag, calls)
					if out != want {
						t.Errorf("got %q, want %q", out, want)
					}
				})
			}
		}
	}
}

// client is the program that is run inside: it arms a probe, makes the reads, and
// prints the number of hits.
func client() int {
	var place, optimize string
	var calls, threads int
	if _, err := fmt.Sscan(os.Getenv(clientVar), &place, &optimize, &calls, &threads); err != nil {
		fmt.Println(err)
		return 1
	}
	if err := count(place, optimize, calls, threads); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

const (
	debugfs = "/sys/kernel/debug/kprobes/"
	tracefs = "/sys/kernel/tracing/"
)

func count(place, optimize string, calls, threads int) error {
	if err := errors.Join(
		write("/proc/sys/debug/kprobes-optimization", optimize),
		write(tracefs+"kprobe_events", "p:hits "+place),
		write(tracefs+"events/kprobes/hits/enable", "1"),
	); err != nil {
		return err
	}
	time.Sleep(700 * time.Millisecond) // until the optimizer has written the jump
	flag, err := flags()
	if err != nil {
		return err
	}
	before, _, err := profile()
	if err != nil {
		return err
	}
	if err := reads(calls, threads); err != nil {
		return err
	}
	after, missed, err := profile()
	if err != nil {
		return err
	}
	// Reading kprobe_profile is a read(2) too; its hit is counted before the file's
	// content is generated.
	fmt.Printf("flag %q hits %d missed %d\n", flag, after-before-1, missed)
	return nil
}

// reads makes the given number of pread(2) calls on kprobes/enabled, distributed over
// threads.
func reads(calls, threads int) error {
	errs := make([]error, threads)
	var wg sync.WaitGroup
	for i := range threads {
		wg.Go(func() {
			runtime.LockOSThread()
			n := calls / threads
			if i < calls%threads {
				n++
			}
			errs[i] = readTimes(n)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func readTimes(n int) error {
	fd, err := syscall.Open(debugfs+"enabled", syscall.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var b [16]byte
	for range n {
		if got, err := syscall.Pread(fd, b[:], 0); got != 2 || err != nil {
			return fmt.Errorf("pread: %d, %w", got, err)
		}
	}
	return nil
}

// flags returns the flags of the only probe in kprobes/list.
func flags() (string, error) {
	line, err := readOnce(debugfs + "list")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return "", fmt.Errorf("list: %q", line)
	}
	return strings.Join(fields[3:], " "), nil
}

func profile() (hits, missed int, err error) {
	line, err := readOnce(tracefs + "kprobe_profile")
	if err != nil {
		return 0, 0, err
	}
	var name string
	_, err = fmt.Sscan(line, &name, &hits, &missed)
	return hits, missed, err
}

// readOnce makes exactly one read(2).
func readOnce(path string) (string, error) {
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer syscall.Close(fd)
	b := make([]byte, 4096)
	n, err := syscall.Read(fd, b)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(b[:n]), nil
}

func write(path, text string) error {
	fd, err := syscall.Open(path, syscall.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer syscall.Close(fd)
	if _, err := syscall.Write(fd, []byte(text+"\n")); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

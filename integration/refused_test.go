package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedVar makes the test binary the client of TestHostKernel. Its value is an
// event's id.
const refusedVar = "KPROBEFS_INTEGRATION_REFUSED"

// refusedClient makes calls that reach the host's kernel, and prints their errnos.
func refusedClient() int {
	id, err := strconv.ParseUint(strings.TrimSpace(os.Getenv(refusedVar)), 10, 64)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	perf := func(kind uint32, config uint64) {
		attr := unix.PerfEventAttr{Type: kind, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: config}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		fmt.Printf("perf %d: %v\n", kind, errno(err))
		if err == nil {
			_ = unix.Close(fd)
		}
	}
	perf(unix.PERF_TYPE_TRACEPOINT, id)
	for _, name := range []string{"kprobe", "uprobe"} {
		b, err := os.ReadFile("/sys/bus/event_source/devices/" + name + "/type")
		if n, perr := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil && perr == nil {
			perf(uint32(n), 0)
		}
	}
	perf(unix.PERF_TYPE_SOFTWARE, unix.PERF_COUNT_SW_TASK_CLOCK)
	perf(unix.PERF_TYPE_HARDWARE, unix.PERF_COUNT_HW_CPU_CYCLES)
	bpf := func(command uintptr, at int, kind uint32, first uint32) {
		attr, license := make([]byte, 120), []byte("GPL\x00")
		// r0 = 0; exit
		program := []uint64{0xb7, 0x95}
		binary.NativeEndian.PutUint32(attr, first)
		if command == unix.BPF_PROG_LOAD {
			binary.NativeEndian.PutUint32(attr[4:], uint32(len(program)))
			binary.NativeEndian.PutUint64(attr[8:], uint64(uintptr(unsafe.Pointer(&program[0]))))
			binary.NativeEndian.PutUint64(attr[16:], uint64(uintptr(unsafe.Pointer(&license[0]))))
		}
		binary.NativeEndian.PutUint32(attr[at:], kind)
		fd, _, e := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)))
		runtime.KeepAlive(program)
		runtime.KeepAlive(license)
		var err error
		if e != 0 {
			err = e
		} else {
			_ = unix.Close(int(fd))
		}
		fmt.Printf("bpf %d %d: %v\n", command, kind, errno(err))
	}
	for _, kind := range []uint32{
		unix.BPF_PROG_TYPE_KPROBE, unix.BPF_PROG_TYPE_TRACEPOINT, unix.BPF_PROG_TYPE_RAW_TRACEPOINT,
		unix.BPF_PROG_TYPE_SOCKET_FILTER,
	} {
		bpf(unix.BPF_PROG_LOAD, 0, kind, kind)
	}
	const nobody = 1 << 20 // a descriptor that is not open, for a program and for a link
	bpf(unix.BPF_RAW_TRACEPOINT_OPEN, 8, nobody, 0)
	bpf(unix.BPF_LINK_CREATE, 8, unix.BPF_TRACE_KPROBE_MULTI, nobody)
	bpf(unix.BPF_LINK_CREATE, 8, unix.BPF_CGROUP_INET_INGRESS, nobody)
	return 0
}

func errno(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return unix.ErrnoName(e)
	}
	return "ok"
}

// TestHostKernel: perf_event_open and bpf with an event's id do not reach the host's
// event of the same number. Calls that are not about events have the same result as
// outside.
func TestHostKernel(t *testing.T) {
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	outside := exec.Command(self)
	outside.Env = append(os.Environ(), refusedVar+"=1")
	b, err := outside.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(b)) {
		call, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		want[call] = result
	}
	script := `cd /sys/kernel/tracing && echo p:mine vfs_read >kprobe_events && ` + refusedVar + `=$(cat events/kprobes/mine/id) "$TESTBIN" 2>&1`
	out, status := asUser(nil).kprobefs(t, publicDir(t), []string{"TESTBIN=" + self}, 1, "sh", "-c", script)
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	got, warnings := map[string]string{}, 0
	for line := range strings.Lines(out) {
		if strings.Contains(line, "level=warning") {
			warnings++
			continue
		}
		call, result, _ := strings.Cut(strings.TrimSpace(line), ": ")
		got[call] = result
	}
	for call, result := range want {
		switch call {
		case "perf 0", "perf 1", "bpf 5 1", "bpf 28 0":
		case "bpf 17 1048576":
			result = "ENOENT"
		default:
			result = "ENOENT"
			if strings.HasPrefix(call, "bpf") {
				result = "EINVAL"
			}
		}
		if got[call] != result {
			t.Errorf("%s: %s, want %s (outside %s)", call, got[call], result, want[call])
		}
	}
	if warnings < 2 || warnings > 3 {
		t.Errorf("%d warnings, want one for each kind of call:\n%s", warnings, out)
	}
}

// TestPerf: perf reports that it cannot count kprobefs's events, and counts the
// host's own.
func TestPerf(t *testing.T) {
	needFUSE(t)
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("perf is missing (Debian: linux-perf)")
	}
	script := `cd /sys/kernel/tracing && echo p:mine vfs_read >kprobe_events && cd / &&
perf stat -x, -e kprobes:mine true; echo "status $?"
perf stat -x, -e task-clock true; echo "status $?"`
	out, _ := asUser(nil).kprobefs(t, publicDir(t), nil, 1, "sh", "-c", script)
	count, clock, _ := strings.Cut(out, "status ")
	if !strings.Contains(count, "not supported") || !strings.Contains(count, "perf_event_open(2) of a tracepoint is refused") {
		t.Errorf("for a kprobefs event perf prints\n%s", count)
	}
	if !strings.Contains(clock, ",msec,task-clock,") || strings.Contains(clock, "not supported") {
		t.Errorf("for the host's clock perf prints\n%s", clock)
	}
}

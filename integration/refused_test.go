package integration

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
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

// hostsAnonymous reports whether a descriptor is one of the host's file system of anonymous inodes, as an eventfd is. Its
// name does not tell: exec gives ours the names that Linux has for them.
func hostsAnonymous(fd int) bool {
	other, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(other)
	var st, st2 unix.Stat_t
	return unix.Fstat(fd, &st) == nil && unix.Fstat(other, &st2) == nil && st.Dev == st2.Dev
}

// refusedClient makes calls that reach the host's kernel, and prints their errnos.
func refusedClient() int {
	id, err := strconv.ParseUint(strings.TrimSpace(os.Getenv(refusedVar)), 10, 64)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	perfOf := func(what string, kind uint32, config uint64, name string) {
		attr := unix.PerfEventAttr{Type: kind, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Config: config}
		text := append([]byte(name), 0)
		if name != "" {
			attr.Ext1 = uint64(uintptr(unsafe.Pointer(&text[0])))
		}
		fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		of := ""
		if err == nil {
			if !hostsAnonymous(fd) {
				of = " ours"
			}
			_ = unix.Close(fd)
		}
		runtime.KeepAlive(text)
		fmt.Printf("perf %s: %v%s\n", what, errno(err), of)
	}
	perf := func(kind uint32, config uint64) { perfOf(strconv.Itoa(int(kind)), kind, config, "") }
	perf(unix.PERF_TYPE_TRACEPOINT, id)
	if n, err := strconv.ParseUint(os.Getenv(refusedVar+"_UPROBE"), 10, 32); err == nil {
		perfOf("the host's uprobe", uint32(n), 0, "/proc/self/exe")
	}
	for name, of := range map[string]string{"kprobe": "vfs_read", "uprobe": "/proc/self/exe"} {
		b, err := os.ReadFile("/sys/bus/event_source/devices/" + name + "/type")
		if n, perr := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32); err == nil && perr == nil {
			perfOf(name, uint32(n), 0, of)
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

// TestHostKernel: with --bpf=host, perf_event_open and bpf with an event's id do not reach the host's
// event of the same number: a descriptor of ours comes back. Calls that are not about events have the same result as
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
	want["perf kprobe"], want["perf uprobe"] = "", ""
	hosts, _ := os.ReadFile("/sys/bus/event_source/devices/uprobe/type")
	if hosts := strings.TrimSpace(string(hosts)); hosts != "" && hosts != "7" {
		want["perf the host's uprobe"] = ""
	}
	script := `cd /sys/kernel/tracing && echo p:mine vfs_read >kprobe_events && ` + refusedVar + `=$(cat events/kprobes/mine/id) "$TESTBIN" 2>&1`
	out, status := asUser(nil).exec(t, publicDir(t), []string{"TESTBIN=" + self, refusedVar + "_UPROBE=" + strings.TrimSpace(string(hosts))}, []string{"--cpus", "1", "--bpf", "host"}, "sh", "-c", script)
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
		case "perf 2", "perf kprobe", "perf uprobe":
			result = "ok ours"
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
	if warnings < 1 || warnings > 2 {
		t.Errorf("%d warnings, want one for each kind of call:\n%s", warnings, out)
	}
}

// TestNothingReachesHost: by the supervisor's own record, no perf_event_open or bpf with an id or a
// type of ours is left to the host's kernel, and other ones are.
func TestNothingReachesHost(t *testing.T) {
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := `cd /sys/kernel/tracing && echo p:mine vfs_read >kprobe_events && ` + refusedVar + `=$(cat events/kprobes/mine/id) "$TESTBIN" 2>&1
for n in kprobe uprobe; do echo ours: $(cat /sys/bus/event_source/devices/$n/type); done
! command -v perf >/dev/null || perf stat -a -e kprobes:mine -e task-clock cat /etc/passwd >/dev/null 2>&1`
	out, status := asUser(nil).exec(t, publicDir(t), []string{"TESTBIN=" + self}, []string{"--cpus", "1", "--bpf", "host", "--log-level", "debug"}, "sh", "-c", script)
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, out)
	}
	ours := map[string]bool{"perf_event_open " + strconv.Itoa(unix.PERF_TYPE_TRACEPOINT): true}
	for _, kind := range []int{
		unix.BPF_PROG_TYPE_KPROBE, unix.BPF_PROG_TYPE_TRACEPOINT, unix.BPF_PROG_TYPE_RAW_TRACEPOINT,
		unix.BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE, unix.BPF_PROG_TYPE_TRACING,
	} {
		ours["bpf "+strconv.Itoa(kind)] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^ours: (\d+)$`).FindAllStringSubmatch(out, -1) {
		ours["perf_event_open "+m[1]] = true
	}
	if len(ours) < 8 {
		t.Fatalf("there are no types of kprobes and uprobes: %s", out)
	}
	left := map[string]bool{}
	for _, m := range regexp.MustCompile(`msg="left to the host" call=(\w+) type=(\d+)`).FindAllStringSubmatch(out, -1) {
		left[m[1]+" "+m[2]] = true
	}
	for call := range left {
		if ours[call] {
			t.Errorf("%s has reached the host's kernel", call)
		}
	}
	for _, call := range []string{"perf_event_open 0", "perf_event_open 1", "bpf 1"} {
		if !left[call] {
			t.Errorf("%s is not in the record: %s", call, out)
		}
	}
}

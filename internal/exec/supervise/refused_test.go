package supervise

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/sysfs"
)

// TestRefuser: calls that would use the host's tracepoints and probes are refused,
// others are not.
func TestRefuser(t *testing.T) {
	pmus := t.TempDir()
	for name, kind := range map[string]string{"software": "1", "kprobe": "8", "uprobe": "9", "msr": "10"} {
		if err := os.Mkdir(filepath.Join(pmus, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(pmus, name, "type"), []byte(kind+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	told := 0
	r := newRefuser(func(string) { told++ })
	r.others = sysfs.HostPerfTypes(pmus)
	blind := newRefuser(func(string) {})
	blind.others = sysfs.HostPerfTypes(filepath.Join(pmus, "none"))
	words := func(at int, v ...uint32) []byte {
		b := make([]byte, 120)
		for i, w := range v {
			binary.NativeEndian.PutUint32(b[at+4*i:], w)
		}
		return b
	}
	for _, tt := range []struct {
		kind        uint32
		want, blind syscall.Errno
	}{
		{unix.PERF_TYPE_HARDWARE, 0, 0},
		{unix.PERF_TYPE_SOFTWARE, 0, 0},
		{unix.PERF_TYPE_TRACEPOINT, unix.ENOENT, unix.ENOENT},
		{unix.PERF_TYPE_BREAKPOINT, 0, 0},
		{8, unix.ENOENT, unix.ENOENT},
		{9, unix.ENOENT, unix.ENOENT},
		{10, 0, unix.ENOENT},
	} {
		if got := r.perf(words(0, tt.kind)); got != tt.want {
			t.Errorf("perf type %d: %v, want %v", tt.kind, got, tt.want)
		}
		if got := blind.perf(words(0, tt.kind)); got != tt.blind {
			t.Errorf("perf type %d without a list of types: %v, want %v", tt.kind, got, tt.blind)
		}
	}
	if got := r.perf(nil); got != 0 {
		t.Errorf("perf without memory: %v", got)
	}
	program := func(kind, attach uint32) []byte {
		b := words(0, kind)
		copy(b[68:], words(0, attach)[:4])
		return b
	}
	for _, tt := range []struct {
		name    string
		Command uint32
		attr    []byte
		want    syscall.Errno
	}{
		{"socket filter", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_SOCKET_FILTER, 0), 0},
		{"perf event", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_PERF_EVENT, 0), 0},
		{"kprobe", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_KPROBE, 0), unix.EINVAL},
		{"tracepoint", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_TRACEPOINT, 0), unix.EINVAL},
		{"raw tracepoint", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_RAW_TRACEPOINT, 0), unix.EINVAL},
		{"fentry", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_FENTRY), unix.EINVAL},
		{"iterator", unix.BPF_PROG_LOAD, program(unix.BPF_PROG_TYPE_TRACING, unix.BPF_TRACE_ITER), 0},
		{"cut short", unix.BPF_PROG_LOAD, []byte{2}, 0},
		{"a raw tracepoint's name", unix.BPF_RAW_TRACEPOINT_OPEN, words(0), unix.ENOENT},
		{"a link to functions", unix.BPF_LINK_CREATE, words(8, unix.BPF_TRACE_KPROBE_MULTI), unix.EINVAL},
		{"a link to a cgroup", unix.BPF_LINK_CREATE, words(8, unix.BPF_CGROUP_INET_INGRESS), 0},
		{"a map", unix.BPF_MAP_CREATE, words(0, unix.BPF_PROG_TYPE_KPROBE), 0},
	} {
		if got := r.bpf(tt.Command, tt.attr); got != tt.want {
			t.Errorf("bpf, %s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if told != 3 {
		t.Errorf("logged %d times, want once for each of tracepoints, probes and programs", told)
	}
}

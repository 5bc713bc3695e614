package guest_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// hostFile is a file of the host.
type hostFile struct {
	path  string
	mode  uint64
	fops  uint64
	data  string
	opErr map[int]error

	ops     []int
	written string
	fd      int
}

var caller = host.Caller{TID: 4242, PID: 4242, Comm: func() string { return "cat" }}

func (f *hostFile) op(_ context.Context, op host.Op) (int, error) {
	f.ops = append(f.ops, op.Kind)
	if err := f.opErr[op.Kind]; err != nil {
		return 0, err
	}
	switch op.Kind {
	case abi.OpRead:
		return copy(op.Buf, f.data[min(int(op.Pos), len(f.data)):]), nil
	case abi.OpWrite:
		f.written += string(op.Buf)
		return len(op.Buf), nil
	}
	return 0, nil
}

// do makes a system call on f as the host would.
func (m *machine) do(f *hostFile, nr uint64, call host.Call) (int64, string) {
	m.t.Helper()
	call.Nr, call.Path, call.Mode, call.FOps, call.FD = nr, f.path, f.mode, f.fops, f.fd
	ret, out, err := m.Host().Do(context.Background(), caller, call, f.op)
	if err != nil {
		m.t.Fatalf("call %d on %s: %v", nr, f.path, err)
	}
	return ret, string(out)
}

func (m *machine) open(f *hostFile, flags uint64) int64 {
	m.t.Helper()
	ret, _ := m.do(f, abi.SysOpenat, host.Call{Flags: flags})
	f.fd = int(ret)
	return ret
}

// TestHostFiles: each kind of file has its own call path to the same operations.
func TestHostFiles(t *testing.T) {
	m := watch(t, 2)
	long := strings.Repeat("0123456789abcdef", 4096)
	files := []*hostFile{
		{path: "/sys/kernel/debug/kprobes/list", fops: abi.FOpsSeq},
		{path: "/sys/kernel/debug/kprobes/enabled", fops: abi.FOpsDebugBool},
		{path: "/proc/sys/debug/kprobes-optimization", fops: abi.FOpsProcSys},
		{path: "/proc/kallsyms", fops: abi.FOpsSeq},
		{path: "/sys/kernel/tracing/trace", fops: abi.FOpsTracefs},
		{path: "/sys/kernel/debug/tracing/kprobe_events", fops: abi.FOpsProbes},
		{path: "/dev/kmsg", fops: abi.FOpsDev},
		{path: "/machine/load/vfs_read", fops: abi.FOpsSeq},
	}
	for _, f := range files {
		t.Run(strings.ReplaceAll(f.path[1:], "/", "_"), func(t *testing.T) {
			m := &machine{m.Machine, t}
			f.mode = syscall.S_IFREG | 0o600
			for _, data := range []string{"1\n", "", long} {
				f.data, f.written, f.ops = data, "", nil
				if fd := m.open(f, syscall.O_RDWR); fd < 0 {
					t.Fatalf("open: %d", fd)
				}
				var got string
				for {
					n, out := m.do(f, abi.SysRead, host.Call{Count: 10000})
					if n < 0 {
						t.Fatalf("read: %d", n)
					}
					if int(n) != len(out) {
						t.Fatalf("read gave %d and %d bytes", n, len(out))
					}
					if n == 0 {
						break
					}
					got += out
				}
				if got != data {
					t.Errorf("read %d bytes %.20q, want %d", len(got), got, len(data))
				}
				if n, _ := m.do(f, abi.SysWrite, host.Call{Data: []byte(data)}); int(n) != len(data) || f.written != data {
					t.Errorf("write of %d gave %d; %d arrived", len(data), n, len(f.written))
				}
				if n, _ := m.do(f, abi.HostFilpClose, host.Call{}); n != 0 {
					t.Errorf("filp_close: %d", n)
				}
				if n, _ := m.do(f, abi.HostRelease, host.Call{}); n != 0 {
					t.Errorf("release: %d", n)
				}
				if want := []int{abi.OpFlush, abi.OpRelease}; !bytes.Equal([]byte(fmt.Sprint(f.ops[len(f.ops)-2:])), []byte(fmt.Sprint(want))) {
					t.Errorf("operations %v, want %v at the end", f.ops, want)
				}
				if n, _ := m.do(f, abi.SysRead, host.Call{Count: 10}); n != -int64(syscall.EBADF) {
					t.Errorf("read after release: %d", n)
				}
			}
		})
	}
}

// TestHostErrors: system calls return the host's errors.
func TestHostErrors(t *testing.T) {
	m := watch(t, 1)
	f := &hostFile{
		path: "/sys/kernel/debug/kprobes/enabled", mode: syscall.S_IFREG | 0o600, fops: abi.FOpsDebugBool, data: "1\n",
		opErr: map[int]error{abi.OpOpen: syscall.EACCES},
	}
	if n := m.open(f, syscall.O_RDONLY); n != -int64(syscall.EACCES) {
		t.Errorf("open: %d", n)
	}
	f.opErr = map[int]error{abi.OpWrite: syscall.EINVAL, abi.OpRead: syscall.EPERM, abi.OpFlush: syscall.EBUSY}
	if fd := m.open(f, syscall.O_RDWR); fd < 0 {
		t.Fatalf("open: %d", fd)
	}
	if n, _ := m.do(f, abi.SysRead, host.Call{Count: 4}); n != -int64(syscall.EPERM) {
		t.Errorf("read: %d", n)
	}
	if n, _ := m.do(f, abi.SysWrite, host.Call{Data: []byte("1")}); n != -int64(syscall.EINVAL) {
		t.Errorf("write: %d", n)
	}
	if n, _ := m.do(f, abi.HostFilpClose, host.Call{}); n != -int64(syscall.EBUSY) {
		t.Errorf("filp_close: %d", n)
	}
	m.do(f, abi.HostRelease, host.Call{})
	if n, _ := m.do(f, abi.HostRelease, host.Call{}); n != -int64(syscall.EBADF) {
		t.Errorf("second release: %d", n)
	}
}

func TestHostStatAndDirectories(t *testing.T) {
	m := watch(t, 1)
	f := &hostFile{path: "/sys/kernel/debug/kprobes/list", mode: syscall.S_IFREG | 0o400}
	for range 2 {
		f.ops = nil
		if n, _ := m.do(f, abi.SysNewfstatat, host.Call{}); n != 0 {
			t.Errorf("stat: %d", n)
		}
		if fmt.Sprint(f.ops) != fmt.Sprint([]int{abi.OpStat}) {
			t.Errorf("operations of stat: %v", f.ops)
		}
	}
	f.opErr = map[int]error{abi.OpStat: syscall.ENOENT}
	if n, _ := m.do(f, abi.SysNewfstatat, host.Call{}); n != -int64(syscall.ENOENT) {
		t.Errorf("stat of a removed file: %d", n)
	}
	d := &hostFile{path: "/sys/kernel/debug/kprobes", mode: syscall.S_IFDIR | 0o755, fops: abi.FOpsDir}
	if fd := m.open(d, syscall.O_RDONLY|syscall.O_DIRECTORY); fd < 0 {
		t.Fatalf("open: %d", fd)
	}
	n, out := m.do(d, abi.SysGetdents64, host.Call{Count: 4096})
	if n <= 0 || !strings.Contains(out, "list") {
		t.Errorf("getdents64: %d, %q", n, out)
	}
	if n, _ := m.do(d, abi.SysGetdents64, host.Call{Count: 4096}); n != 0 {
		t.Errorf("getdents64 at the end: %d", n)
	}
	m.do(d, abi.HostRelease, host.Call{})
	// The file has become a directory.
	g := &hostFile{path: "/sys/kernel/tracing/instances/a", mode: syscall.S_IFREG | 0o644}
	if fd := m.open(g, syscall.O_RDONLY); fd < 0 {
		t.Fatalf("open: %d", fd)
	}
	m.do(g, abi.HostRelease, host.Call{})
	g.mode = syscall.S_IFDIR | 0o755
	if fd := m.open(g, syscall.O_RDONLY|syscall.O_DIRECTORY); fd < 0 {
		t.Errorf("open of the directory: %d", fd)
	}
	m.do(g, abi.HostRelease, host.Call{})
	// A new file.
	c := &hostFile{path: "/machine/modules/x.ko", mode: syscall.S_IFREG | 0o644, fops: abi.FOpsSeq}
	for range 2 {
		if fd := m.open(c, syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY); fd < 0 {
			t.Fatalf("create: %d", fd)
		}
		m.do(c, abi.HostRelease, host.Call{})
	}
}

// TestManyOpenFiles: more descriptors than fit into the first table.
func TestManyOpenFiles(t *testing.T) {
	m := watch(t, 1)
	var open []*hostFile
	for i := range 300 {
		f := &hostFile{path: "/sys/kernel/debug/kprobes/list", mode: syscall.S_IFREG | 0o400, data: fmt.Sprint(i)}
		if fd := m.open(f, syscall.O_RDONLY); fd < 0 {
			t.Fatalf("open %d: %d", i, fd)
		}
		open = append(open, f)
	}
	for i, f := range open {
		if _, out := m.do(f, abi.SysRead, host.Call{Count: 8}); out != fmt.Sprint(i) {
			t.Errorf("file %d holds %q", i, out)
		}
		m.do(f, abi.HostRelease, host.Call{})
	}
}

// TestHostThreads: many threads of the host access the same and different files.
func TestHostThreads(t *testing.T) {
	m := boot(t, 2)
	files := []hostFile{
		{path: "/sys/kernel/debug/kprobes/list", fops: abi.FOpsSeq},
		{path: "/sys/kernel/debug/kprobes/enabled", fops: abi.FOpsDebugBool},
		{path: "/proc/sys/debug/kprobes-optimization", fops: abi.FOpsProcSys},
		{path: "/sys/kernel/tracing/kprobe_events", fops: abi.FOpsProbes},
		{path: "/dev/kmsg", fops: abi.FOpsDev},
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := host.Caller{TID: 1000 + i, PID: 1000, Comm: func() string { return "worker" }}
			r := rand.New(rand.NewSource(int64(i)))
			for n := range 60 {
				data := fmt.Sprintf("%d of %d\n", n, i)
				file := files[r.Intn(len(files))]
				if r.Intn(3) == 0 {
					file = hostFile{path: fmt.Sprintf("/sys/kernel/tracing/events/g%d/enable", r.Intn(50)), fops: abi.FOpsTracefs}
				}
				f, p := &file, file.path
				f.mode, f.data = syscall.S_IFREG|0o600, data
				do := func(nr uint64, call host.Call) (int64, []byte) {
					call.Nr, call.Path, call.Mode, call.FOps, call.FD = nr, f.path, f.mode, f.fops, f.fd
					ret, out, err := m.Host().Do(context.Background(), c, call, f.op)
					if err != nil {
						t.Error(err)
					}
					return ret, out
				}
				fd, _ := do(abi.SysOpenat, host.Call{Flags: syscall.O_RDWR})
				if fd < 0 {
					t.Errorf("open(%s): %d", p, fd)
					return
				}
				f.fd = int(fd)
				if n, out := do(abi.SysRead, host.Call{Count: 100}); string(out) != data {
					t.Errorf("read(%s): %d, %q, want %q", p, n, out, data)
				}
				if n, _ := do(abi.SysWrite, host.Call{Data: []byte(data)}); int(n) != len(data) || f.written != data {
					t.Errorf("write(%s): %d, %q", p, n, f.written)
				}
				do(abi.SysNewfstatat, host.Call{})
				do(abi.HostFilpClose, host.Call{})
				do(abi.HostRelease, host.Call{})
			}
		})
	}
	wg.Wait()
}

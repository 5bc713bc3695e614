package guest_test

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// taskMM is task_struct.mm.
const taskMM = 2272

// Clone flags that the tests use.
const (
	cloneVM, cloneSighand, cloneThread = 0x100, 0x800, 0x10000
	cloneSettid, cloneVfork            = 0x100000, 0x4000
)

func named(tid int, name string) host.Caller {
	return host.Caller{TID: tid, PID: tid, Comm: func() string { return name }}
}

// sees runs do and returns the functions with an fentry site that ran during it, by
// name, with their number of calls and the task of the last one.
func sees(t *testing.T, m *machine, do func()) map[string]sighting {
	t.Helper()
	var mu sync.Mutex
	seen := map[uint64]sighting{}
	m.SetHandlers(kernel.Handlers{Ftrace: func(tr *abi.Trap) {
		mu.Lock()
		defer mu.Unlock()
		s := seen[tr.Regs.IP]
		if !tr.Quiet {
			seen[tr.Regs.IP] = sighting{s.n + 1, tr.Task}
		}
		tr.Regs.IP += 5
	}})
	for _, addr := range m.Image().Mcount {
		if err := m.Sites().Arm(addr); err != nil {
			t.Fatal(err)
		}
	}
	do()
	for _, addr := range m.Image().Mcount {
		_ = m.Sites().Disarm(addr)
	}
	mu.Lock()
	defer mu.Unlock()
	names := map[string]sighting{}
	for addr, s := range seen {
		if sym, _, ok := m.Symbols().Lookup(addr); ok {
			names[sym.Name] = s
			reached.Store(sym.Name, true)
		}
	}
	return names
}

type sighting struct {
	n    int
	task uint64
}

// TestHostFork: a fork of the host makes a task with the host's pid and the parent's
// name, by the functions that Linux calls.
func TestHostFork(t *testing.T) {
	m := boot(t, 2)
	ctx := context.Background()
	parent := named(5000, "shell")
	if _, err := m.Host().Fork(ctx, parent, host.Fork{Nr: abi.SysFork}); err != nil { // so that the parent has a task
		t.Fatal(err)
	}
	for i, tt := range []struct {
		name  string
		nr    uint64
		flags uint64
		via   string
	}{
		{"clone", 56, 0x1200000 | uint64(syscall.SIGCHLD), "__x64_sys_clone"},
		{"fork", 57, 0, "__do_sys_fork"},
		{"vfork", 58, 0, "__do_sys_vfork"},
		{"clone3", 435, uint64(syscall.SIGCHLD) | cloneSettid, "__x64_sys_clone3"},
		{"vfork by clone", 56, cloneVM | cloneVfork | uint64(syscall.SIGCHLD), "__x64_sys_clone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machine{m.Machine, t}
			child := 6000 + i
			f := host.Fork{Nr: tt.nr, Child: host.Caller{TID: child, PID: child}}
			f.Args[0] = tt.flags
			seen := sees(t, m, func() {
				if ret, err := m.Host().Fork(ctx, parent, f); ret != int64(child) || err != nil {
					t.Errorf("%s: %d, %v; want %d", tt.name, ret, err, child)
				}
			})
			for _, name := range []string{tt.via, "kernel_clone", "copy_process", "wake_up_new_task"} {
				if seen[name].n != 1 {
					t.Errorf("%s ran %d times", name, seen[name].n)
				}
			}
			task := m.call("find_task_by_vpid", uint64(child))
			if task == 0 || m.u32(task+abi.TaskTGID) != uint32(child) || m.string(task+abi.TaskComm) != "shell" {
				t.Fatalf("no task %d, or another tgid or name", child)
			}
			if p := m.u64(task + abi.TaskRealParent); m.u32(p+abi.TaskPID) != 5000 {
				t.Errorf("its parent is %d", m.u32(p+abi.TaskPID))
			}
			seen = sees(t, m, func() {
				if err := m.Host().Exit(ctx, named(child, "shell"), 3<<8); err != nil {
					t.Error(err)
				}
			})
			if seen["do_exit"] != (sighting{1, task}) || seen["release_task"].n != 1 {
				t.Errorf("do_exit %+v in task %#x, release_task %+v", seen["do_exit"], task, seen["release_task"])
			}
			if m.call("find_task_by_vpid", uint64(child)) != 0 {
				t.Error("the task is still there")
			}
		})
	}
}

// TestHostForkUnknown: a child that the host does not know ends at once.
func TestHostForkUnknown(t *testing.T) {
	m := boot(t, 1)
	seen := sees(t, m, func() {
		if ret, err := m.Host().Fork(context.Background(), named(5000, "shell"), host.Fork{Nr: abi.SysFork}); ret <= 0 || err != nil {
			t.Errorf("%d, %v", ret, err)
		} else {
			eventually(t, "the child has gone", func() bool { return m.call("find_task_by_vpid", uint64(ret)) == 0 })
		}
	})
	if seen["kernel_clone"].n != 1 || seen["do_exit"].n != 1 {
		t.Errorf("kernel_clone %+v, do_exit %+v", seen["kernel_clone"], seen["do_exit"])
	}
}

// TestHostThread: a thread belongs to its process and can end alone. A killed process
// ends with the signal.
func TestHostThread(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	f := host.Fork{Nr: abi.SysClone, Child: host.Caller{TID: 7001, PID: 7000}}
	f.Args = [5]uint64{cloneVM | cloneSighand | cloneThread, 16}
	if ret, err := m.Host().Fork(ctx, named(7000, "server"), f); ret != 7001 || err != nil {
		t.Fatalf("a thread: %d, %v", ret, err)
	}
	task := m.call("find_task_by_vpid", 7001)
	if m.u32(task+abi.TaskTGID) != 7000 {
		t.Errorf("a thread's tgid: %d", m.u32(task+abi.TaskTGID))
	}
	if err := m.Host().Exit(ctx, named(7001, "server"), int(syscall.SIGKILL)); err != nil {
		t.Error(err)
	}
	eventually(t, "the thread has gone", func() bool { return m.call("find_task_by_vpid", 7001) == 0 })
	if m.call("find_task_by_vpid", 7000) == 0 {
		t.Error("its process has ended too")
	}
}

// TestHostPIDsReused: the host reuses a pid whose end was not seen.
func TestHostPIDsReused(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	for i := range 300 { // more than the number of tasks that are kept
		f := host.Fork{Nr: abi.SysFork, Child: host.Caller{TID: 8000 + i%250, PID: 8000 + i%250}}
		if ret, err := m.Host().Fork(ctx, named(5000, "shell"), f); ret <= 0 || err != nil {
			t.Fatalf("fork %d: %d, %v", i, ret, err)
		}
	}
	if err := m.Host().Exit(ctx, named(8049, "shell"), 0); err != nil {
		t.Error(err)
	}
}

// TestHostExec: execve sets the new name, memory and arguments through bprm_execve.
// Its errors.
func TestHostExec(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	elf := "\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 57)
	long := strings.Repeat("x", 5000)
	for i, tt := range []struct {
		name, path string
		argv, envp []string
		mode       uint64
		heads      []string
		want       syscall.Errno
		comm       string
		stack      []string // strings at arg_start
	}{
		{
			name: "program", path: "/usr/bin/env", argv: []string{"env", "two", long}, envp: []string{"A=b"}, heads: []string{elf},
			comm: "env", stack: []string{"env", "two", long, "A=b", "/usr/bin/env"},
		},
		{
			name: "script", path: "/tmp/a_script_of_a_long_name", argv: []string{"0", "arg"}, heads: []string{"#! /bin/sh -e x \nbody", elf},
			comm: "a_script_of_a_l", stack: []string{"/bin/sh", "-e x", "/tmp/a_script_of_a_long_name", "arg", "/tmp/a_script_of_a_long_name"},
		},
		{name: "self", path: "/proc/self/exe", argv: []string{"cat"}, heads: []string{elf}, comm: "exe", stack: []string{"cat", "/proc/self/exe"}},
		{name: "no arguments", path: "/x", heads: []string{elf}, comm: "x", stack: []string{"", "/x"}},
		{name: "nothing there", path: "/none", mode: abi.CallModeNone, want: syscall.ENOENT, comm: "shell"},
		{name: "not for running", path: "/etc/passwd", mode: syscall.S_IFREG | 0o644, want: syscall.EACCES, comm: "shell"},
		{name: "directory", path: "/etc", mode: syscall.S_IFDIR | 0o755, want: syscall.EACCES, comm: "shell"},
		{name: "text", path: "/text", heads: []string{"echo\n"}, want: syscall.ENOEXEC, comm: "shell"},
		{name: "no interpreter", path: "/s", heads: []string{"#!\n"}, want: syscall.ENOEXEC, comm: "shell"},
		{name: "scripts for ever", path: "/s", heads: []string{"#!/a", "#!/b", "#!/c", "#!/d", "#!/e", "#!/f", "#!/g"}, want: syscall.ELOOP, comm: "shell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machine{m.Machine, t}
			c := named(9000+i, "shell")
			if tt.mode == 0 {
				tt.mode = syscall.S_IFREG | 0o755
			}
			s := host.Syscall{Nr: abi.SysExecve, Mode: tt.mode}
			for _, h := range tt.heads {
				s.Head = append(s.Head, []byte(h))
			}
			s.Text[0], s.Vector[1], s.Vector[2] = &tt.path, tt.argv, tt.envp
			var ret int64
			seen := sees(t, m, func() {
				var err error
				if ret, err = m.Host().Other(ctx, c, s); err != nil {
					t.Fatal(err)
				}
			})
			if ret != -int64(tt.want) {
				t.Errorf("execve: %d, want %v", ret, tt.want)
			}
			if seen["bprm_execve"].n != 1 || (seen["begin_new_exec"].n == 1) != (tt.want == 0) {
				t.Errorf("bprm_execve %+v, begin_new_exec %+v", seen["bprm_execve"], seen["begin_new_exec"])
			}
			task := m.call("find_task_by_vpid", uint64(c.TID))
			if got := m.string(task + abi.TaskComm); got != tt.comm {
				t.Errorf("comm %q, want %q", got, tt.comm)
			}
			if tt.want != 0 {
				return
			}
			mm := m.u64(task + taskMM)
			const argStart = 304 // mm_struct.arg_start
			at := m.u64(mm + argStart)
			for _, want := range tt.stack {
				got := string(m.bytes(at, len(want)+1))
				if got != want+"\x00" {
					t.Errorf("on the stack %.40q, want %.40q", got, want)
				}
				at += uint64(len(got))
			}
			const startStack = 296
			if sp := m.u64(mm + startStack); sp != m.u64(mm+argStart) {
				t.Errorf("the stack begins at %#x", sp)
			}
		})
	}
}

// TestHostOther: calls on the host's files call the same functions as on Linux, with
// the caller's string, and leave nothing in the guest.
func TestHostOther(t *testing.T) {
	for _, release := range []string{"5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) { hostOther(t, release) })
	}
}

func hostOther(t *testing.T, release string) {
	m := bootRelease(t, release, 1, nil)
	rmdir := "vfs_rmdir"
	if release == "5.10" { // where it is inlined into do_rmdir
		rmdir = "do_rmdir"
	}
	ctx := context.Background()
	const none = abi.CallModeNone
	const reg, dir = syscall.S_IFREG | 0o644, syscall.S_IFDIR | 0o755
	cwd := ^uint64(99)
	two := func(nr uint64, mode uint64, args [6]uint64, at int, path string) host.Syscall {
		s := host.Syscall{Nr: nr, Mode: mode, Args: args}
		s.Text[at] = &path
		return s
	}
	link := two(88, none, [6]uint64{}, 1, "/tmp/dir/link")
	target := "foo"
	link.Text[0] = &target
	for _, tt := range []struct {
		name string
		s    host.Syscall
		ret  func(int64) bool
		via  string
	}{
		{"open", two(257, reg, [6]uint64{cwd, 0, syscall.O_RDONLY}, 1, "/etc/passwd"), positive, "other_open"},
		{"open for writing", two(257, syscall.S_IFCHR|0o666, [6]uint64{cwd, 0, syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC, 0o666}, 1, "/dev/null"), positive, "other_open"},
		{"open of a directory", two(257, dir, [6]uint64{cwd, 0, syscall.O_DIRECTORY}, 1, "/etc"), positive, "vfs_open"},
		{"open of nothing", two(257, none, [6]uint64{cwd, 0, syscall.O_RDONLY}, 1, "/etc/none"), is(syscall.ENOENT), "do_filp_open"},
		{"open makes", two(257, none, [6]uint64{cwd, 0, syscall.O_WRONLY | syscall.O_CREAT, 0o600}, 1, "/tmp/new"), positive, "vfs_create"},
		{"open makes no other", two(257, reg, [6]uint64{cwd, 0, syscall.O_WRONLY | syscall.O_CREAT | syscall.O_EXCL, 0o600}, 1, "/tmp/new"), is(syscall.EEXIST), "do_filp_open"},
		{"a file becomes a directory", two(257, reg, [6]uint64{cwd, 0, 0}, 1, "/etc/passwd/x"), positive, "other_open"},
		{"relative", two(257, reg, [6]uint64{cwd, 0, 0}, 1, "some/where"), positive, "other_open"},
		{"chdir", two(80, dir, [6]uint64{}, 0, "/tmp"), is(0), "set_fs_pwd"},
		{"chdir to a file", two(80, reg, [6]uint64{}, 0, "/etc/passwd"), is(syscall.ENOTDIR), "user_path_at_empty"},
		{"symlink", link, is(0), "vfs_symlink"},
		{"symlink again", link, is(0), "vfs_symlink"}, // the host has removed it
		{"unlink", two(87, reg, [6]uint64{}, 0, "/tmp/new"), is(0), "vfs_unlink"},
		{"unlink of nothing", two(87, none, [6]uint64{}, 0, "/tmp/new"), is(syscall.ENOENT), "do_unlinkat"},
		{"mkdir", two(83, none, [6]uint64{0, 0o755}, 0, "/tmp/made"), is(0), "vfs_mkdir"},
		{"mkdir again", two(83, dir, [6]uint64{0, 0o755}, 0, "/tmp/made"), is(syscall.EEXIST), "do_mkdirat"},
		{"rmdir", two(84, dir, [6]uint64{}, 0, "/tmp/made"), is(0), rmdir},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &machine{m.Machine, t}
			var ret int64
			seen := sees(t, m, func() {
				var err error
				if ret, err = m.Host().Other(ctx, named(4000, "sh"), tt.s); err != nil {
					t.Fatal(err)
				}
			})
			if !tt.ret(ret) {
				t.Errorf("returned %d", ret)
			}
			if seen[tt.via].n != 1 {
				t.Errorf("%s ran %d times", tt.via, seen[tt.via].n)
			}
			if closed := seen["filp_close"].n == 1; closed != (ret > 0) {
				t.Errorf("filp_close ran %d times", seen["filp_close"].n)
			}
		})
	}
}

func positive(ret int64) bool { return ret >= 0 && ret < 1000 }

func is(e syscall.Errno) func(int64) bool { return func(ret int64) bool { return ret == -int64(e) } }

// TestHostOtherLeaks: paths of the host are not kept in the guest's memory.
func TestHostOtherLeaks(t *testing.T) {
	m := boot(t, 1)
	ctx := context.Background()
	free := func() uint64 { time.Sleep(20 * time.Millisecond); return m.call("nr_free_pages") }
	before := uint64(0)
	for i := range 3000 {
		if i == 300 {
			before = free()
		}
		path := "/var/" + strings.Repeat("d", i%200+1) + "/" + strings.Repeat("f", (i*7)%250+1)
		s := host.Syscall{Nr: abi.SysOpenat, Mode: syscall.S_IFREG | 0o644, Args: [6]uint64{^uint64(99)}}
		s.Text[1] = &path
		if ret, err := m.Host().Other(ctx, named(4000, "sh"), s); ret < 0 || err != nil {
			t.Fatalf("%d: %d, %v", i, ret, err)
		}
	}
	if after := free(); after+64 < before {
		t.Errorf("%d pages were free, now %d", before, after)
	}
}

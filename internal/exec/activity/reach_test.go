package activity

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestReach: the call graph read from the text. A missing system call would lose
// hits; one too many would make processes wait for nothing.
func TestReach(t *testing.T) {
	for _, release := range []string{"5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) { testReach(t, release) })
	}
}

func testReach(t *testing.T, release string) {
	rel, err := kprobefs.ParseRelease(release)
	if err != nil {
		t.Fatal(err)
	}
	m, err := kernel.Boot(kernel.Options{Image: guest.Image(rel.Image), CPUs: 1, Release: rel.Uname()})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := newReach(m.Image())
	of := func(name string) string {
		sym := m.Symbols().LookupName(name)
		if len(sym) == 0 {
			t.Fatalf("no %s", name)
		}
		calls, ok := r.from(sym[0].Addr)
		if !ok {
			return "?"
		}
		slices.Sort(calls)
		return strings.Join(calls, " ")
	}
	for name, want := range map[string]string{
		"__x64_sys_read": "read", "ksys_read": "read", "do_sys_openat2": "creat open openat openat2", "do_tkill": "tgkill tkill",
		"schedule": "?", "kfree": "?", "do_exit": "?", "entry_SYSCALL_64": "?",
	} {
		if got := of(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"vfs_read", "vfs_write"} {
		got := of(name)
		for _, call := range []string{"open", "openat", "chdir", "kill"} {
			if got == "?" || slices.Contains(strings.Fields(got), call) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
	known := 0
	for _, site := range m.Image().Mcount {
		if _, ok := r.from(site); ok {
			known++
		}
	}
	t.Logf("of %d functions, %d have known system calls", len(m.Image().Mcount), known)
	reachHolds(t, m, r)
}

// reachHolds makes calls and checks the functions that run against r.
func reachHolds(t *testing.T, m *kernel.Machine, r *reach) {
	var mu sync.Mutex
	hits := map[uint64]bool{}
	m.SetHandlers(kernel.Handlers{Ftrace: func(tr *abi.Trap) {
		mu.Lock()
		hits[tr.Regs.IP] = true
		mu.Unlock()
		tr.Regs.IP += 5
	}})
	for _, site := range m.Image().Mcount {
		if err := m.Sites().Arm(site); err != nil {
			t.Fatal(err)
		}
	}
	names := m.Syscalls()
	bits := callBits(names)
	by := host.Caller{TID: 4242, PID: 4242, Comm: func() string { return "caller" }}
	path, other := "/etc/some/file", "target"
	call := func(nr uint64, mode uint64, name int, args ...uint64) {
		if names[nr] == "" {
			return // this release's guest does not have it
		}
		mu.Lock()
		clear(hits)
		mu.Unlock()
		s := host.Syscall{Nr: nr, Mode: mode}
		copy(s.Args[:], args)
		if name >= 0 {
			s.Text[name] = &path
		}
		if nr == abi.SysSymlink || nr == abi.SysSymlinkat {
			s.Text[0] = &other
		}
		if ret, err := m.Host().Other(context.Background(), by, s); err != nil || ret == -int64(syscall.ENOSYS) {
			t.Fatalf("%s: %d, %v", names[nr], ret, err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(hits) < 5 {
			t.Errorf("%s hits %d functions", names[nr], len(hits))
		}
		for site := range maps.Clone(hits) {
			if calls, ok := r.from(site); ok && !slices.ContainsFunc(calls, func(c string) bool { return bits(c)&CallBit(nr) != 0 }) {
				sym, _, _ := m.Symbols().Lookup(site)
				t.Errorf("%s calls %s, which reach has only for %q", names[nr], sym.Name, calls)
			}
		}
	}
	const file, dir, cwd = syscall.S_IFREG | 0o755, syscall.S_IFDIR | 0o755, 0xffffff9c
	for range 2 {
		for _, mode := range []uint64{file, dir, abi.CallModeNone, syscall.S_IFIFO | 0o644} {
			call(abi.SysOpen, mode, 0, 0, 0)
			call(abi.SysOpen, mode, 0, 0, syscall.O_RDWR|syscall.O_CREAT|syscall.O_TRUNC, 0o644)
			call(abi.SysOpenat, mode, 1, cwd, 0, 0)
			call(abi.SysOpenat, mode, 1, cwd, 0, syscall.O_DIRECTORY)
			call(abi.SysChdir, mode, 0)
			call(abi.SysUnlink, mode, 0)
			call(abi.SysUnlinkat, mode, 1, cwd)
			call(abi.SysMkdir, mode, 0, 0, 0o755)
			call(abi.SysMkdirat, mode, 1, cwd, 0, 0o755)
			call(abi.SysRmdir, mode, 0)
			call(abi.SysSymlink, mode, 1)
			call(abi.SysSymlinkat, mode, 2, 0, cwd)
		}
		if err := m.Host().EnsureTask(context.Background(), host.Caller{TID: 4343, PID: 4343}); err != nil {
			t.Fatal(err)
		}
		for _, sig := range []uint64{0, 12, 28, 9, 65} {
			for _, pid := range []uint64{4242, 4343, 99999} {
				call(abi.SysKill, 0, -1, pid, sig)
				call(abi.SysTkill, 0, -1, pid, sig)
				call(abi.SysTgkill, 0, -1, pid, pid, sig)
			}
		}
	}
}

// BenchmarkReach measures the cost of the first armed probe.
func BenchmarkReach(b *testing.B) {
	rel, _ := kprobefs.ParseRelease(kprobefs.DefaultRelease)
	m, err := kernel.Boot(kernel.Options{Image: guest.Image(rel.Image), CPUs: 1, Release: rel.Uname()})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		newReach(m.Image())
	}
}

// TestWanted: the system calls that are mirrored while probes are armed.
func TestWanted(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := newSeen(Config{Machine: s.Machine, Probes: s.Kprobes, Tracer: s.Tracer, Loaded: s.Modules.List, Sites: s.Machine.Sites()})
	arm := func(name string) *kprobes.Kprobe {
		p := &kprobes.Kprobe{SymbolName: name}
		if err := s.Kprobes.Register(p, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return p
	}
	want := func(what string, bits uint32) {
		t.Helper()
		if got := w.wanted().told; got != bits {
			t.Errorf("%s: calls %#x, want %#x", what, got, bits)
		}
	}
	want("nothing armed", 0)
	read := arm("vfs_read")
	want("vfs_read", always)
	open := arm("do_sys_openat2")
	want("and do_sys_openat2", always|CallBit(abi.SysOpen)|CallBit(abi.SysOpenat)|CallBit(abi.SysOpenat2)|CallBit(abi.SysCreat))
	s.Kprobes.Unregister(open, nil)
	free := arm("kfree")
	want("and kfree", Every)
	s.Kprobes.Unregister(free, nil)
	s.Kprobes.Unregister(read, nil)
	want("nothing any more", 0)
}

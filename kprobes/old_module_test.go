package kprobes_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes"
)

// errno returns a call's result as an int.
func (m *machine) errno(name string, args ...uint64) int { return int(int32(m.call(name, args...))) }

// TestJprobeModule: a module of the guest registers one and several jprobes, with
// 2.6.32's functions and struct.
func TestJprobeModule(t *testing.T) {
	const one, all = 0, 2 // arguments of jprobe_target_register: the first probe, or n probes for all + n
	m := bootJprobes(t, "2.6.32")
	hit := func(want bool) {
		t.Helper()
		if got := m.call("jprobe_target_call_sum", 10); got != 528 {
			t.Errorf("jprobe_target_call_sum(10) = %d", got)
		}
		if seen := m.seen(); (seen == [8]int64{10, 11, 12, 13, 14, 15, 16, 17}) != want {
			t.Errorf("the handler saw %d", seen)
		}
	}
	does := func(want syscall.Errno, name string, args ...uint64) {
		t.Helper()
		if got := m.errno(name, args...); got != -int(want) {
			t.Errorf("%s(%d) = %d, want %d", name, args, got, -int(want))
		}
	}
	does(0, "jprobe_target_register", one)
	if got, want := m.lines(), "j  jprobe_target_sum+0x0  jprobe_target \n"; got != want {
		t.Errorf("list is %q, want %q", got, want)
	}
	hit(true)
	does(0, "jprobe_target_disable", one)
	hit(false)
	does(0, "jprobe_target_enable", one)
	hit(true)
	does(0, "jprobe_target_unregister", one)
	hit(false)
	does(syscall.EINVAL, "jprobe_target_disable", one)

	does(0, "jprobe_target_register", all+2)
	if got := strings.Count(m.lines(), "j  jprobe_target_"); got != 2 {
		t.Errorf("list is %q", m.lines())
	}
	hit(true)
	does(syscall.EINVAL, "jprobe_target_register", one) // it has a symbol and an address by now
	does(0, "jprobe_target_unregister", all+2)
	if m.lines() != "" {
		t.Errorf("list is %q", m.lines())
	}
	does(syscall.EINVAL, "jprobe_target_register", all)
	does(syscall.EFAULT, "register_jprobe", 0x1000)
	does(syscall.EINVAL, "register_jprobes", m.addr("jprobe_target_seen"), 1<<32-1)

	does(0, "jprobe_target_register", one)
	other := m.jprobe("jprobe_target_fold", "jprobe_target_fold_seen")
	does(0, "jprobe_target_unregister", one)
	does(syscall.EEXIST, "jprobe_target_register", all+2)
	if got, want := m.lines(), "j  jprobe_target_fold+0x0  jprobe_target \n"; got != want {
		t.Errorf("list is %q, want %q", got, want)
	}
	wantErr(t, m.Kprobes.UnregisterJprobe(other), 0)
	if err := m.Modules.Delete(m.ctx, "jprobe_target"); err != nil {
		t.Error(err)
	}
}

// TestJprobeExample: document 002's module logs each fork.
func TestJprobeExample(t *testing.T) {
	m := bootRelease(t, "2.6.25")
	m.loadModule("jprobe_example")
	if got, want := m.lines(), "j  do_fork+0x0   \n"; got != want {
		t.Errorf("list is %q, want %q", got, want)
	}
	const cloneFS = 0x200
	if got := m.errno("kernel_thread", m.addr("do_exit"), 0, cloneFS); got <= 0 {
		t.Errorf("kernel_thread gives %d", got)
	}
	if err := m.Modules.Delete(m.ctx, "jprobe_example"); err != nil {
		t.Error(err)
	}
	log := dmesg(m.Kernel)
	for _, want := range []string{
		fmt.Sprintf("Planted jprobe at %016x, handler addr ", m.addr("do_fork")),
		"jprobe: clone_flags=0x800300, stack_size=0x", "jprobe unregistered",
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	if m.lines() != "" {
		t.Errorf("list is %q", m.lines())
	}
}

// TestJprobeModuleRefused: 6.1 does not have the functions, and refuses the module.
func TestJprobeModuleRefused(t *testing.T) {
	m := boot(t)
	for _, name := range []string{"register_jprobe", "jprobe_return", "kretprobe_trampoline"} {
		if syms := m.Machine.Symbols().LookupName(name); len(syms) != 0 {
			t.Errorf("6.1 has %s", name)
		}
	}
}

// TestFaultHandlerModule: the fault handler of a module's probe is guest code.
func TestFaultHandlerModule(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	if got := m.errno("jprobe_target_plant"); got != 0 {
		t.Fatalf("register_kprobe: %d", got)
	}
	seen := m.addr("jprobe_target_seen")
	for i, tc := range []struct {
		bad  uint64
		want [3]int64 // the value read, the trap's number, nmissed in the fault handler
	}{
		{seen + 56, [3]int64{0, 0, 0}},
		{unmapped, [3]int64{-1, abi.VecPF, 1}},
		{nonCanonical, [3]int64{-1, abi.VecGP, 2}},
	} {
		m.set("jprobe_target_bad", tc.bad)
		if got := m.call("int_sqrt", 100); got != 10 {
			t.Errorf("int_sqrt(100) = %d", got)
		}
		if got := m.seen(); [3]int64(got[:3]) != tc.want {
			t.Errorf("case %d: the handlers saw %d, want %d", i, got[:3], tc.want)
		}
	}
	if got := m.errno("jprobe_target_pull"); got != 0 || m.lines() != "" {
		t.Errorf("unregister_kprobe: %d, list %q", got, m.lines())
	}
}

// TestOldExample: the documents' module with a return probe, on releases where calls
// return to kretprobe_trampoline.
func TestOldExample(t *testing.T) {
	for _, release := range []string{"2.6.25", "4.15"} {
		m := bootRelease(t, release)
		m.loadModule("kretprobe_example")
		if !strings.Contains(m.lines(), "r  do_sys_openat2+0x0  ") {
			t.Errorf("%s: list is %q", release, m.lines())
		}
		absent := host.Call{Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/nofile", Mode: syscall.S_IFREG | 0o600}
		caller := host.Caller{TID: 4000, PID: 4000, Comm: func() string { return "shell" }}
		for range 2 {
			ret, _, err := m.Machine.Host().Do(m.ctx, caller, absent, func(context.Context, host.Op) (int, error) {
				return 0, syscall.ENOENT
			})
			if ret != -int64(syscall.ENOENT) || err != nil {
				t.Errorf("%s: open gives %d, %v", release, ret, err)
			}
		}
		if err := m.Modules.Delete(m.ctx, "kretprobe_example"); err != nil {
			t.Error(err)
		}
		if log := dmesg(m.Kernel); !strings.Contains(log, "do_sys_openat2 returns -2\n") || !strings.Contains(log, "kretprobe unregistered after 2 calls") {
			t.Errorf("%s: %s", release, log)
		}
	}
}

// TestOldNotifier: kprobes is first on the die notifier chain and handles probes'
// breakpoints. Other notifiers are called only for breakpoints without a probe.
func TestOldNotifier(t *testing.T) {
	for _, release := range []string{"2.6.25", "6.1"} {
		m := bootRelease(t, release)
		block := m.call("__kmalloc", abi.PageSize, 0xdc0) // GFP_KERNEL | __GFP_ZERO
		if err := m.Machine.Mem().WriteU64(block, m.addr("clear_page")); err != nil {
			t.Fatal(err)
		}
		if got := m.errno("register_die_notifier", block); got != 0 {
			t.Fatalf("%s: register_die_notifier gives %d", release, got)
		}
		told := func() bool {
			v, err := m.Machine.Mem().ReadU64(block)
			return err != nil || v == 0
		}
		hits := 0
		p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5, PreHandler: func(*kprobes.Hit) int { hits++; return 0 }, PostHandler: func(*kprobes.Hit, uint64) {}}
		wantErr(t, m.Kprobes.Register(p), 0)
		if got := m.call("int_sqrt", 100); got != 10 || hits != 1 || told() {
			t.Errorf("%s: int_sqrt(100) = %d, %d hits, notified: %v", release, got, hits, told())
		}
		wantErr(t, m.Kprobes.Unregister(p), 0)
		_, err := m.Machine.CallOn(m.ctx, 0, m.addr("int_sqrt")-1, 1) // padding; the task dies
		if !told() {
			t.Errorf("%s: no notifier was called for a breakpoint (%v)", release, err)
		}
	}
}

// TestJprobeDies: an unhandled fault in a jprobe's handler kills the task. Its CPU
// goes on with the right preempt_count, and its probes are hit.
func TestJprobeDies(t *testing.T) {
	m := bootJprobes(t, "2.6.32")
	m.set("jprobe_target_bad", unmapped)
	jp := m.jprobe("jprobe_target_fold", "jprobe_target_faults")
	_, err := m.Machine.Call(m.ctx, "jprobe_target_call", 1)
	if log := dmesg(m.Kernel); !strings.Contains(log, "BUG: unable to handle kernel paging request at ") || !strings.Contains(log, "] jprobe_target_faults+") {
		t.Errorf("%v, log\n%s", err, log)
	}
	wantErr(t, m.Kprobes.UnregisterJprobe(jp), 0)
	var hits, atomicHits [2]int
	m.register(&kprobes.Kprobe{SymbolName: "vfs_read", PreHandler: func(h *kprobes.Hit) int {
		hits[h.CPU]++
		if h.Preempt&abi.PreemptMask != 1 { // the breakpoint's
			atomicHits[h.CPU]++
		}
		return 0
	}})
	caller := host.Caller{TID: 4000, PID: 4000, Comm: func() string { return "shell" }}
	op := func(_ context.Context, op host.Op) (int, error) { return copy(op.Buf, "1\n"), nil }
	fd, _, err := m.Machine.Host().Do(m.ctx, caller, host.Call{
		Nr: abi.SysOpenat, Path: "/sys/kernel/debug/kprobes/enabled", Mode: syscall.S_IFREG | 0o600, FOps: abi.FOpsSeq,
	}, op)
	if err != nil || fd < 0 {
		t.Fatal(fd, err)
	}
	for range 200 {
		if n, _, err := m.Machine.Host().Do(m.ctx, caller, host.Call{Nr: abi.SysRead, FD: int(fd), Count: 64}, op); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	if hits[0]+hits[1] != 200 || atomicHits != [2]int{} {
		t.Errorf("%d hits, %d of them with a wrong preempt_count, log\n%s", hits, atomicHits, dmesg(m.Kernel))
	}
}

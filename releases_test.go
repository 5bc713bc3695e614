package kprobefs_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// moduleFor returns the name of a module's build for a release.
func moduleFor(rel, name string) string {
	switch rel {
	case "5.10", "6.12":
		return path.Join(rel, name)
	case "2.6.25", "2.6.32", "4.15":
		if name == "kprobe_example" || name == "kretprobe_example" {
			return name + "_old"
		}
	}
	return name
}

// TestModulesOfEach: on each release, modules have functions that can be probed, and
// register probes. kprobes/list shows the module's name. A probe in init text is gone
// once init has run, the others in the module when it is unloaded.
func TestModulesOfEach(t *testing.T) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) {
			s, ctx := bootRelease(t, rel), context.Background()
			for _, line := range []string{"p:once kprobe_target:kprobe_target_once", "p:sum kprobe_target:kprobe_target_sum"} {
				if _, err := s.Tracer.Definitions().WriteKprobeEvents([]byte(line + "\n")); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Tracer.Global().EnableAll([]byte("1")); err != nil {
				t.Fatal(err)
			}
			load(t, s, moduleFor(rel, "kprobe_target"))
			returned := uint64(0)
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "kprobe_target_sum"}, Handler: func(_ *kprobes.Instance, h *kprobes.Hit) int {
				returned = h.Regs.ReturnValue()
				return 0
			}}
			if err := s.Kprobes.RegisterRetprobe(rp); err != nil {
				t.Fatal(err)
			}
			if v, err := s.Machine.Call(ctx, "kprobe_target_sum", 1, 100); v != 5050 || err != nil || returned != v {
				t.Errorf("kprobe_target_sum(1, 100) = %d, %v; the handler saw %d", v, err, returned)
			}
			gone := 1 // kprobe_target_once
			if !s.Kprobes.Has(release.ListFlags) {
				gone = -100
			}
			text := list(s)
			named := 2
			if strings.Contains(text, "[GONE][FTRACE]") { // ftrace keeps the name of kprobe_target_once
				named = 3
			}
			if strings.Count(strings.ReplaceAll(text, "\n", " \n"), "  kprobe_target ") != named || !strings.Contains(text, "  r  kprobe_target_sum+0x") || strings.Count(text, "[GONE]") != max(gone, 0) {
				t.Errorf("list:\n%s", text)
			}
			if err := s.Modules.Delete(ctx, "kprobe_target"); err != nil {
				t.Fatal(err)
			}
			text = list(s)
			if strings.Contains(text, "kprobe_target") || strings.Count(text, "[GONE]") != max(gone+2, 0) {
				t.Errorf("list after unloading:\n%s", text)
			}
			if err := s.Kprobes.UnregisterRetprobe(rp); err != nil {
				t.Error(err)
			}
			load(t, s, moduleFor(rel, "kprobe_target"))
			if line, _ := s.Tracer.Definitions().KprobeProfile(0); strings.Fields(line)[1] != "2" { // init has run twice
				t.Errorf("loaded again: %q", line)
			}
		})
	}
}

// TestNestedReturns: of ten nested calls of a function, maxactive are hooked and the
// others are counted as missed, from 0 on at each registration. Each return handler
// gets the data of its own entry, innermost first.
func TestNestedReturns(t *testing.T) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) {
			s, ctx := bootRelease(t, rel), context.Background()
			load(t, s, moduleFor(rel, "kprobe_target"))
			var entries, returns []uint64
			rp := &kprobes.Retprobe{
				Kprobe: kprobes.Kprobe{SymbolName: "kprobe_target_fact"}, DataSize: 8,
				EntryHandler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
					entries = append(entries, h.Regs.DI)
					ri.Data[0] = byte(h.Regs.DI)
					if h.Regs.DI == 9 {
						return 1 // not hooked; the instance is freed
					}
					return 0
				},
				Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
					returns = append(returns, uint64(ri.Data[0]), h.Regs.ReturnValue())
					return 5 // ignored
				},
			}
			for _, tc := range []struct {
				room             int
				entries, returns []uint64
				missed           uint64
			}{
				{1, []uint64{10}, []uint64{10, 3628800}, 9},
				{3, []uint64{10, 9, 8, 7}, []uint64{7, 5040, 8, 40320, 10, 3628800}, 6},
				{20, []uint64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, []uint64{1, 1, 2, 2, 3, 6, 4, 24, 5, 120, 6, 720, 7, 5040, 8, 40320, 10, 3628800}, 0},
			} {
				rp.MaxActive, rp.Kprobe.Addr = tc.room, 0
				if err := s.Kprobes.RegisterRetprobe(rp); err != nil || rp.Missed() != 0 {
					t.Fatalf("%v, %d missed at once", err, rp.Missed())
				}
				for range 2 {
					entries, returns = nil, nil
					if v, err := s.Machine.Call(ctx, "kprobe_target_fact", 10); v != 3628800 || err != nil {
						t.Errorf("kprobe_target_fact(10) = %d, %v", v, err)
					}
					if !slices.Equal(entries, tc.entries) || !slices.Equal(returns, tc.returns) {
						t.Errorf("maxactive %d: entered with %d, returned %d", tc.room, entries, returns)
					}
				}
				if rp.Missed() != 2*tc.missed || rp.Kprobe.Missed() != 0 {
					t.Errorf("maxactive %d: %d missed, want %d", tc.room, rp.Missed(), 2*tc.missed)
				}
				if err := s.Kprobes.UnregisterRetprobe(rp); err != nil || rp.Kprobe.Addr == 0 {
					t.Errorf("%v, address %#x", err, rp.Kprobe.Addr)
				}
				if err := s.Kprobes.UnregisterRetprobe(rp); err != nil || rp.Kprobe.Addr != 0 {
					t.Errorf("unregistered twice: %v, address %#x", err, rp.Kprobe.Addr)
				}
			}
		})
	}
}

// TestForgottenProbes: probes that a module does not unregister are removed when it
// is unloaded, or when init has run if they use init memory. The kernel goes on.
func TestForgottenProbes(t *testing.T) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) {
			s, ctx := bootRelease(t, rel), context.Background()
			call := func() {
				t.Helper()
				if v, err := s.Machine.Call(ctx, "int_sqrt", 100); v != 10 || err != nil {
					t.Fatalf("int_sqrt(100) = %d, %v", v, err)
				}
			}
			for range 3 {
				load(t, s, moduleFor(rel, "kprobe_forgets"))
				call()
				at := s.Machine.Symbols().LookupName("kprobe_forgets_hits")[0].Addr
				if n, err := s.Machine.Mem().ReadU64(at); n != 2 || err != nil {
					t.Errorf("%d handlers ran (%v), want the handlers of the probe in slab memory and of the return probe", n, err)
				}
				if got := strings.Count(list(s), "int_sqrt+0x"); got != 3 {
					t.Errorf("list:\n%s", list(s))
				}
				if err := s.Modules.Delete(ctx, "kprobe_forgets"); err != nil {
					t.Fatal(err)
				}
				if got := list(s); got != "" {
					t.Errorf("list after unloading:\n%s", got)
				}
				call()
			}
		})
	}
}

// TestExamplesOfEach is TestExamples for the examples in the documents of each
// release.
func TestExamplesOfEach(t *testing.T) {
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) {
			s, ctx := bootRelease(t, rel), context.Background()
			examples := []string{moduleFor(rel, "kprobe_example"), moduleFor(rel, "kretprobe_example")}
			for _, name := range examples {
				load(t, s, name)
			}
			fork, open := "kernel_clone", "do_sys_openat2"
			if !s.Kprobes.Has(release.InsnBoundary) {
				fork, open = "do_fork", "sys_open"
			}
			if got := list(s); !strings.Contains(got, "k  "+fork+"+0x") || !strings.Contains(got, "r  "+open+"+0x") {
				t.Errorf("list has %q", got)
			}
			forkAndOpen(t, s)
			nofile := "/nofile"
			old := host.Syscall{Nr: abi.SysOpen, Text: [6]*string{&nofile}, Mode: abi.CallModeNone}
			if ret, err := s.Machine.Host().Other(ctx, host.Caller{TID: 4000, PID: 4000}, old); ret != -int64(syscall.ENOENT) || err != nil {
				t.Errorf("open: %d, %v", ret, err)
			}
			for _, name := range slices.Backward(examples) {
				if err := s.Modules.Delete(ctx, path.Base(name)); err != nil {
					t.Error(err)
				}
			}
			got := strings.Join(says(s, "kprobe registered"), "\n") + "\n"
			dump := " dump_stack+" // 5.14 and later call another function
			if s.Kprobes.Has(release.NoFaultHandlers) {
				dump = " dump_stack_lvl+"
			}
			wants := map[string]int{"pre_handler: p->addr=0x": 1, dump: 1, "post_handler: p->addr=0x": 1, "kprobe unregistered": 1}
			if !s.Kprobes.Has(release.TrampolineCode) { // the fork is made by fork(2)
				wants["sys_open returns -2 to "], wants["\nkretprobe unregistered\nMissed probing 0 instances of sys_open\n"] = 1, 1
			} else {
				wants["do_sys_openat2 returns -2\n"], wants["Missed probing 0 instances of do_sys_openat2\n"] = 2, 1
			}
			if addr := s.Machine.Symbols().LookupName("do_fork"); !s.Kprobes.Has(release.NoJprobes) && !strings.Contains(got, fmt.Sprintf("pre_handler: p->addr=0x%016x, ip=%x,", addr[0].Addr, addr[0].Addr+1)) {
				t.Errorf("%%p hides the address of do_fork in\n%s", got)
			}
			for want, n := range wants {
				if strings.Count(got, want) != n {
					t.Errorf("not %d times %q in\n%s", n, want, got)
				}
			}
		})
	}
}

// TestNamesOfEach: functions that the documents name have these names and not the
// newer ones. Functions of page faults and notifiers cannot be probed.
func TestNamesOfEach(t *testing.T) {
	names := map[string][2]string{ // names that exist (- for not probeable), and names that do not
		"2.6.25": {"do_fork do_execve do_exit sys_open printk tcp_v4_rcv vfs_read -do_page_fault -notifier_call_chain -__switch_to", "kernel_clone _printk exc_page_fault __x64_sys_open"},
		"5.10":   {"kernel_clone printk __x64_sys_open do_exit -exc_page_fault -notifier_call_chain", "do_fork _printk do_page_fault sys_open"},
		"6.1":    {"kernel_clone _printk __x64_sys_open do_exit -exc_page_fault -notifier_call_chain", "do_fork printk do_page_fault sys_open"},
	}
	names["4.15"], names["6.12"] = names["2.6.25"], names["6.1"]
	// In these releases, functions that register probes are __kprobes.
	for _, rel := range []string{"2.6.25", "2.6.32"} {
		refused := " -register_kprobe -unregister_kprobe -register_kprobes -unregister_kprobes -enable_kprobe -disable_kprobe" +
			" -register_kretprobe -unregister_kretprobe -register_kretprobes -unregister_kretprobes -probe_request" +
			" -register_jprobe -unregister_jprobe -jprobe_return"
		names[rel] = [2]string{names["4.15"][0] + refused, names["4.15"][1]}
	}
	for _, rel := range []string{"4.15", "5.10", "6.1", "6.12"} {
		names[rel] = [2]string{names[rel][0] + " register_kprobe unregister_kprobe enable_kprobe register_kretprobe", names[rel][1]}
	}
	for _, rel := range kprobefs.ReleaseNames() {
		t.Run(rel, func(t *testing.T) {
			s := bootRelease(t, rel)
			for _, name := range strings.Fields(names[rel][0]) {
				bare, refused := strings.CutPrefix(name, "-")
				p := &kprobes.Kprobe{SymbolName: bare, Flags: kprobes.FlagDisabled}
				err := s.Kprobes.Register(p)
				if refused && !errors.Is(err, syscall.EINVAL) || !refused && err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, name := range strings.Fields(names[rel][1]) {
				if err := s.Kprobes.Register(&kprobes.Kprobe{SymbolName: name}); !errors.Is(err, syscall.ENOENT) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if calls := s.Machine.Syscalls(); calls[0] != "read" || calls[59] != "execve" {
				t.Errorf("system calls %.5q", calls)
			}
		})
	}
}

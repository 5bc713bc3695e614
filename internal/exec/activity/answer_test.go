package activity

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes"
)

// TestAnswer: a call that is answered in place of the host's kernel comes through the guest's system
// call, with its arguments and result, while a probe can see it, and is answered once anyway.
func TestAnswer(t *testing.T) {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a := New(Config{Machine: s.Machine, Probes: s.Kprobes, Tracer: s.Tracer, Loaded: s.Modules.List, Sites: s.Machine.Sites()}, Options{})
	a.Start()
	defer a.Close()
	by := host.Caller{TID: os.Getpid(), PID: os.Getpid(), Comm: func() string { return "answered" }}
	for nr, functions := range map[uint64][]string{
		abi.SysBpf: {"__x64_sys_bpf"}, abi.SysInitModule: {"__x64_sys_init_module"}, abi.SysFinitModule: {"__x64_sys_finit_module"},
		abi.SysDeleteModule: {"__x64_sys_delete_module"}, abi.SysPerfEventOpen: {"__x64_sys_perf_event_open"},
		abi.SysSyslog: {"__x64_sys_syslog", "do_syslog"},
	} {
		var got []string
		ask := func() {
			got = nil
			a.Answer(by, nr, [6]uint64{5, 0x1000, 7}, func() int64 { got = append(got, "answer"); return -77 })
		}
		ask()
		if !slices.Equal(got, []string{"answer"}) {
			t.Errorf("%s: %q without a probe", functions[0], got)
		}
		want := []string{"answer"}
		var undo []func()
		for _, name := range functions {
			entry := &kprobes.Kprobe{SymbolName: name, PreHandler: func(h *kprobes.Hit) int {
				got = append(got, name)
				return 0
			}}
			back := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: name}, Handler: func(_ *kprobes.Instance, h *kprobes.Hit) int {
				got = append(got, fmt.Sprintf("%s returns %d", name, int32(h.Regs.AX)))
				return 0
			}}
			if err := s.Kprobes.Register(entry, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := s.Kprobes.RegisterRetprobe(back, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			undo = append(undo, func() { s.Kprobes.Unregister(entry); s.Kprobes.UnregisterRetprobe(back) })
			at := slices.Index(want, "answer")
			want = slices.Insert(want, at, name)
			want = slices.Insert(want, at+2, name+" returns -77")
		}
		if ask(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		for _, f := range undo {
			f()
		}
	}
}

package ftrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fakeText is text that begins at base.
type fakeText struct {
	base uint64
	b    []byte
}

func (f *fakeText) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		copy(f.b[p.Addr-f.base:], p.Bytes)
	}
	return nil
}

func TestSites(t *testing.T) {
	const base, caller = 0x1000, 0x2000
	text := &fakeText{base: base, b: bytes.Repeat([]byte{0x90}, 64)}
	copy(text.b[16:], []byte(abi.Nop5))
	s := New(text, []uint64{base + 16}, Callers{Regs: caller}, nil)
	at := func() []byte { return text.b[16:21] }
	// e8 rel32, relative to the end of the site: 0x2000 - 0x1015.
	call := []byte{0xe8, 0xeb, 0x0f, 0, 0}

	step := func(name string, err error, want []byte) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !bytes.Equal(at(), want) {
			t.Errorf("%s: site holds % x, want % x", name, at(), want)
		}
	}
	step("arm", s.Arm(base+16), call)
	step("arm again", s.Arm(base+16), call)
	step("disarm one of two", s.Disarm(base+16), call)
	step("ftrace_enabled=0", s.SetEnabled(false), []byte(abi.Nop5))
	step("arm while off", s.Arm(base+16), []byte(abi.Nop5))
	step("ftrace_enabled=1", s.SetEnabled(true), call)
	step("disarm", s.Disarm(base+16), call)
	step("disarm the last", s.Disarm(base+16), []byte(abi.Nop5))

	for _, bad := range []uint64{base, base + 17} {
		if err := s.Arm(bad); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Arm(%#x) gave %v, want EINVAL", bad, err)
		}
	}
	if err := s.Disarm(base + 16); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Disarm of an idle site gave %v, want EINVAL", err)
	}
	if !bytes.Equal(text.b[:16], bytes.Repeat([]byte{0x90}, 16)) || !bytes.Equal(text.b[21:], bytes.Repeat([]byte{0x90}, 43)) {
		t.Error("bytes outside of the site have changed")
	}
}

// TestRegs: Ops with Regs share a trampoline if they have the same function. With
// other listeners at a site, ftrace_regs_caller is called. A site that was once
// patched stays in touched_functions, with the function that shared trampolines call.
func TestRegs(t *testing.T) {
	const base = 0x1000
	text := &fakeText{base: base, b: bytes.Repeat([]byte{0x90}, 64)}
	made := 0
	s := New(text, []uint64{base, base + 16}, Callers{Regs: 0x2000, List: 0x3000, Trampoline: func(name string, regs bool) (uint64, error) {
		made++
		switch {
		case !regs:
			return 0x4000, nil
		case name == kprobeFunc:
			return 0x6000, nil
		}
		return 0x5000, nil
	}}, nil)
	target := func() uint64 {
		if text.b[0] != 0xe8 {
			return 0
		}
		return base + SiteSize + uint64(binary.LittleEndian.Uint32(text.b[1:]))
	}
	regs := &Ops{Function: "fprobe_handler", Regs: true, Allocated: true, Func: func(*abi.Trap) {}}
	again := &Ops{Function: "fprobe_handler", Regs: true, Allocated: true, Func: func(*abi.Trap) {}}
	plain := &Ops{Function: "function_trace_call", Func: func(*abi.Trap) {}}
	set := func(o *Ops, sites ...uint64) func() error { return func() error { return s.Set(o, sites) } }
	for _, step := range []struct {
		name    string
		do      func() error
		target  uint64
		touched string // function of the first site in touched_functions
	}{
		{"regs", set(regs, base), 0x5000, "fprobe_handler"},
		{"two with regs", set(again, base), 0x2000, "arch_ftrace_ops_list_func"},
		{"the other", set(regs), 0x5000, "fprobe_handler"},
		{"beside one without", set(plain, base), 0x2000, "arch_ftrace_ops_list_func"},
		{"off", func() error { return s.SetEnabled(false) }, 0, "arch_ftrace_ops_list_func"},
		{"alone, off", set(again), 0, "arch_ftrace_ops_list_func"},
		{"on", func() error { return s.SetEnabled(true) }, 0x4000, "function_trace_call"},
		{"elsewhere", set(plain, base+16), 0, "function_trace_call"},
		{"a kprobe elsewhere", func() error { return errors.Join(set(plain)(), s.Arm(base+16)) }, 0, "kprobe_ftrace_handler"},
		{"none", func() error { return s.Disarm(base + 16) }, 0, "ftrace_stub"},
		{"an fprobe elsewhere", set(regs, base+16), 0, "arch_ftrace_ops_list_func"},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := target(); got != step.target {
			t.Errorf("%s: the site calls %#x, want %#x", step.name, got, step.target)
		}
		if list := s.Touched(); len(list) == 0 || list[0].Addr != base || list[0].Function != step.touched {
			t.Errorf("%s: touched %+v, want %s", step.name, list, step.touched)
		}
	}
	if made != 3 {
		t.Errorf("%d trampolines were made", made)
	}
}

// TestListPreempt: if a site has several listeners, preempt_count is one higher in
// those that see registers.
func TestListPreempt(t *testing.T) {
	const base = 0x1000
	s := New(&fakeText{base: base, b: make([]byte, 64)}, []uint64{base}, Callers{Regs: 0x2000, List: 0x3000}, nil)
	var seen []uint32
	note := func(t *abi.Trap) { seen = append(seen, t.Preempt) }
	hit := func(want ...uint32) {
		t.Helper()
		tr := &abi.Trap{Regs: &abi.Regs{IP: base}, Next: base, Preempt: 1}
		seen = nil
		s.HitRegs(tr)
		if !slices.Equal(seen, want) || tr.Preempt != 1 || tr.Regs.IP != base+SiteSize {
			t.Errorf("preemption off %d times, want %d; %+v", seen, want, tr.Regs)
		}
	}
	s.OnKprobe(func(t *abi.Trap) { note(t); t.Regs.IP += SiteSize })
	if err := s.Arm(base); err != nil {
		t.Fatal(err)
	}
	hit(1)
	if err := s.Set(&Ops{Function: "f", Func: note}, []uint64{base}); err != nil {
		t.Fatal(err)
	}
	hit(1, 2)
	if err := s.Set(&Ops{Function: "r", Regs: true, Func: note}, []uint64{base}); err != nil {
		t.Fatal(err)
	}
	hit(2, 1, 2)
}

// TestModuleOps: the guest calls the functions of modules' ftrace_ops, between which the
// machine calls its own; an address to continue at that one has set stays. A site has one
// listener that may set it, and trampolines are used again.
func TestModuleOps(t *testing.T) {
	const base, first, second = 0x1000, 0x7000, 0x7100
	made := map[uint64]uint64{} // the ftrace_ops of each trampoline
	s := New(&fakeText{base: base, b: make([]byte, 64)}, []uint64{base, base + 16}, Callers{
		Regs: 0x2000, List: 0x3000, OpsRegs: 0x4000,
		OpsTrampoline: func(over uint64, _ string, _, op uint64, _ bool) (uint64, error) {
			if over == 0 {
				over = 0x5000 + uint64(len(made))*0x100
			}
			made[over] = op
			return over, nil
		},
	}, nil)
	calls := 0
	s.OnKprobe(func(t *abi.Trap) { calls++; t.Regs.IP += SiteSize })
	a := &Ops{Struct: first, Target: 0x8000, Regs: true, IPModify: true}
	b := &Ops{Struct: second, Target: 0x8100, Regs: true, IPModify: true}
	must := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", what, err, want)
		}
	}
	must("first", s.AddOps(a, []uint64{base}), nil)
	must("second, at the same site", s.AddOps(b, []uint64{base}), syscall.EBUSY)
	must("second, elsewhere", s.AddOps(b, []uint64{base + 16}), nil)
	must("second, moved", s.Set(b, []uint64{base}), syscall.EBUSY)
	must("kprobe with a post handler", s.ArmIPModify(base), syscall.EBUSY)
	must("kprobe", s.Arm(base), nil)

	tr := &abi.Trap{Regs: &abi.Regs{IP: base}, Next: base + SiteSize}
	s.HitRegs(tr)
	if tr.Op != first || calls != 1 {
		t.Errorf("the guest goes on with %#x after %d kprobes, want the first after one", tr.Op, calls)
	}
	tr.Regs.IP, tr.Next = base, 0x9000 // the function has set it
	s.HitRegs(tr)
	if tr.Op != 0 || calls != 1 || tr.Regs.IP != 0x9000 {
		t.Errorf("the end is %#x after %d kprobes, continuing at %#x; want 0, 1, 0x9000", tr.Op, calls, tr.Regs.IP)
	}
	if list := s.Listened(); len(list) != 2 || list[0].Count != 2 || !list[0].IPModify || list[0].Tramp != 0 || list[1].Target != b.Target || list[1].Tramp != b.Trampoline() {
		t.Errorf("listened: %+v", list)
	}
	old := a.Trampoline()
	must("remove", s.RemoveOps(a), nil)
	must("second, moved now", s.Set(b, []uint64{base}), nil)
	must("first, elsewhere", s.AddOps(a, []uint64{base + 16}), nil)
	if a.Trampoline() != old || made[old] != first {
		t.Errorf("the trampoline is %#x for %#x, want the old one, %#x", a.Trampoline(), made[old], old)
	}
	must("permanent", s.AddOps(&Ops{Struct: 0x7200, Permanent: true}, nil), nil)
	must("ftrace_enabled=0", s.SetEnabled(false), syscall.EBUSY)
}

package tracing

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// fakeFunctions has an fentry site at each symbol of a fakeKernel.
type fakeFunctions struct{ sites []uint64 }

type fakeListener struct{}

func (fakeListener) Set([]uint64) error { return nil }

func (f fakeFunctions) All() []uint64                           { return f.sites }
func (f fakeFunctions) Listen(FunctionHandler) FunctionListener { return fakeListener{} }
func (f fakeFunctions) Listened() []ListenedFunction            { return nil }
func (f fakeFunctions) Touched() []ListenedFunction             { return nil }

func newFprobeTracer(t testing.TB) *Tracer {
	t.Helper()
	tr, f := newBTFTracer(t)
	tr.conf.has[release.Fprobes], tr.conf.has[release.MaxActiveExit] = true, true
	tr.conf.Functions = fakeFunctions{[]uint64{f.symbol("vfs_read"), f.symbol("vfs_open")}}
	return tr
}

func TestFprobeDefinitions(t *testing.T) {
	for _, tt := range []struct{ def, want string }{
		{"f vfs_read", "f:fprobes/vfs_read__entry vfs_read\n"},
		{"f:g/a vfs_read file $arg2", "f:g/a vfs_read file=file buf=buf\n"},
		{"f vfs_* $arg1", "f:fprobes/vfs____entry vfs_* arg1=$arg1\n"},
		{"t:a nosuch $arg1", "t:tracepoints/a nosuch arg1=$arg1\n"},
		{"t 5x", "t:tracepoints/_5x 5x\n"},
		{"t a-b", "Invalid character in tracepoint name"},
		{"t a%return", "Invalid probed address suffix"},
		{"t a $retval", "$retval is not available on probe"},
		{"f vfs_read%ret", "Invalid probed address suffix"},
		{"f %return", "Failed to register probe event"},
		{"f nosuch", "Failed to register probe event"},
		{"f vfs_read+4", "Failed to register probe event"},
		{"f5 vfs_read", "Maxactive is only for function exit"},
		{"f vfs_read %ax", "Invalid fetch argument"},
		{"f vfs_read nosuch", "This variable is not found at this probe point"},
		{"f 0x1x", "f:fprobes/0x1x__entry 0x1x\n"},
		{"f 3", "Failed to register probe event"},
		{"f vfs_read $arg18446744073709551618", "f:fprobes/vfs_read__entry vfs_read buf=buf\n"},
		{"f vfs_read $arg18446744073709551616", "Invalid argument number"},
		{"f vfs_r* file", "No BTF entry for this probe point"},
	} {
		tr := newFprobeTracer(t)
		_, err := tr.WriteDynamicEvents([]byte(tt.def + "\n"))
		got, _ := tr.DynamicEvent(0)
		if derr := (*probe.Error)(nil); errors.As(err, &derr) {
			got = derr.Text
		}
		if got != tt.want {
			t.Errorf("%q gave %q, %v, want %q", tt.def, got, err, tt.want)
		}
	}
}

func TestHasRetval(t *testing.T) {
	for word, want := range map[string]bool{
		"$retval": true, "a=$retval": true, "+0($retval):x8": true, "$retval:x8": true, "$retval->x": true,
		"$retvalx": false, "$retval_": false, "$retval1": false, "retval": false, "": false,
	} {
		if got := hasRetval(word); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// TestNoFprobes: other releases accept neither f nor t.
func TestNoFprobes(t *testing.T) {
	tr := newFprobeTracer(t)
	tr.conf.has[release.Fprobes] = false
	for _, def := range []string{"f vfs_read", "t sched_switch"} {
		if _, err := tr.WriteDynamicEvents([]byte(def + "\n")); !errors.Is(err, syscall.EINVAL) || len(tr.global.ErrorLog()) > 0 {
			t.Errorf("%q: %v, %q", def, err, tr.global.ErrorLog())
		}
	}
}

// TestFprobeHit: hits are counted while the event is enabled.
func TestFprobeHit(t *testing.T) {
	tr := newFprobeTracer(t)
	if _, err := tr.WriteDynamicEvents([]byte("f:a vfs_read n=$arg3\n")); err != nil {
		t.Fatal(err)
	}
	tf := tr.dynamic[0].(*traceFprobe)
	at := tr.conf.Symbols.LookupName("vfs_read")[0].Addr
	hit := func() {
		tf.entered(&abi.Trap{Mem: fakeMemory{}, Regs: &abi.Regs{IP: at, DX: 7}, Preempt: 1, Now: func() int64 { return 0 }})
	}
	hit()
	file := tr.event("fprobes", "a")
	if err := file.Enable([]byte("1")); err != nil {
		t.Fatal(err)
	}
	hit()
	if err := file.Enable([]byte("0")); err != nil {
		t.Fatal(err)
	}
	hit()
	if got := traceLines(tr); len(got) != 1 {
		t.Errorf("the trace is %q", got)
	}
}

func FuzzFprobeDefinition(f *testing.F) {
	for _, seed := range []string{"f vfs_read", "f3:g/a vfs_*%return $retval", "t:a x $arg1 $arg*", "f !vfs_read", "t %", "f vfs_read +8(%di)", "f[ [", "-:a", "f:a. vfs_open a=$retvalx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		tr := newFprobeTracer(t)
		_, err := tr.WriteDynamicEvents([]byte(line + "\n"))
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		for _, d := range tr.dynamic {
			if d.line() == "" {
				t.Error("a probe that is not listed")
			}
		}
		if err := tr.ReleaseAll(); err != nil {
			t.Error(err)
		}
	})
}

package dynevent

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingtest"
)

func newFprobeRegistry(t testing.TB) (*Registry, *fakeOwner) {
	t.Helper()
	r, o := newBTFRegistry(t, func(c *Config) {
		c.Has[release.Fprobes], c.Has[release.MaxActiveExit] = true, true
		c.Functions = fakeFunctions{c.Events.(*fakeOwner).kernel}
	})
	return r, o
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
		r, _ := newFprobeRegistry(t)
		_, err := r.WriteDynamicEvents([]byte(tt.def + "\n"))
		got, _ := r.DynamicEvent(0)
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
	r, o := newFprobeRegistry(t)
	o.has[release.Fprobes] = false
	for _, def := range []string{"f vfs_read", "t sched_switch"} {
		if _, err := r.WriteDynamicEvents([]byte(def + "\n")); !errors.Is(err, syscall.EINVAL) || len(o.errors) > 0 {
			t.Errorf("%q: %v, %+v", def, err, o.errors)
		}
	}
}

// TestFprobeHit: hits are counted while the event is enabled.
func TestFprobeHit(t *testing.T) {
	r, o := newFprobeRegistry(t)
	if _, err := r.WriteDynamicEvents([]byte("f:a vfs_read n=$arg3\n")); err != nil {
		t.Fatal(err)
	}
	tf := r.list[0].(*traceFprobe)
	at := o.kernel.Symbol("vfs_read")
	hit := func() {
		tf.entered(&abi.Trap{Mem: tracingtest.Memory{}, Regs: &abi.Regs{IP: at, DX: 7}, Preempt: 1, Now: func() int64 { return 0 }})
	}
	hit()
	a := o.event(t, "fprobes", "a")
	a.enable(t, true)
	hit()
	a.enable(t, false)
	hit()
	if want := "a: (vfs_read+0x0/0x310) n=0x7\n"; a.committed != 1 || a.line() != want {
		t.Errorf("%d entries, the last is %q, want %q", a.committed, a.line(), want)
	}
}

func FuzzFprobeDefinition(f *testing.F) {
	for _, seed := range []string{"f vfs_read", "f3:g/a vfs_*%return $retval", "t:a x $arg1 $arg*", "f !vfs_read", "t %", "f vfs_read +8(%di)", "f[ [", "-:a", "f:a. vfs_open a=$retvalx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r, _ := newFprobeRegistry(t)
		_, err := r.WriteDynamicEvents([]byte(line + "\n"))
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("an error without errno: %v", err)
		}
		for _, d := range r.list {
			if d.line() == "" {
				t.Error("a probe that is not listed")
			}
		}
		if err := r.ReleaseAll(); err != nil {
			t.Error(err)
		}
	})
}

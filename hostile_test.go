package kprobefs_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// patience is how long a call may take that only a hang takes longer. It allows for a
// handler that uses up its instructions, under the race detector on a busy machine.
const patience = time.Minute

// within fails the test unless f returns.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not return", what)
	}
}

// handlerPlaces are where FuzzHandler sets its probe: a handler there is called as at
// a breakpoint, as at an fentry site, and at a return.
var handlerPlaces = []string{"inside", "entry", "return"}

// FuzzHandler has a probe whose handler consists of arbitrary bytes. The kernel may panic,
// or what runs in it may end. But the call of the probed function ends with its context,
// the probes are still listed unless the kernel has panicked, and the machine can be closed.
func FuzzHandler(f *testing.F) {
	for which := range handlerPlaces {
		for _, code := range []string{
			"\x31\xc0\xc3",                         // xor eax, eax; ret
			"\xeb\xfe",                             // jmp .
			"\x0f\x0b",                             // ud2
			"\xcc\xc3",                             // int3; ret
			"\xfa\xf4",                             // cli; hlt
			"\xc6\x04\x25\x00\x00\x00\x00\x01",     // movb $1, 0
			"\x48\xc7\xc4\x00\x00\x00\x00\x50",     // mov $0, rsp; push rax
			"\xe8\xfb\xff\xff\xff",                 // call .
			"\x65\x48\x8b\x04\x25\x00\x00\x00\x00", // mov gs:0, rax; and what follows
			"\xff\xe7",                             // jmp *rdi
			"\x0f\x01\xc1\xc3",                     // vmcall; ret
			"\x48\xcf",                             // iretq
			"\xc7\x46\x08\x00\x00\x00\x00\x31\xc0\xc3\x48\x89\x7e\x98\xb8\x01\x00\x00\x00\xc3", // regs changed
			"\x48\x8b\x46\x98\x48\xc7\x00\x00\x00\x00\x00\xc3",                                 // the return address is 0
		} {
			f.Add(uint8(which), []byte(code))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, code []byte) {
		if len(code) > abi.PageSize {
			t.Skip("longer than a page")
		}
		c := &caller{bootFor(t), t}
		load(t, c.Kernel, "kprobe_handlers")
		place := handlerPlaces[int(which)%len(handlerPlaces)]
		_, _ = c.hit(place, c.code(code))
		if !panicked(c.Kernel) && list(c.Kernel) == "" {
			t.Errorf("a probe at the %s is no longer listed", place)
		}
	})
}

// TestHandlerSleeps: a handler that sleeps is reported, and its task goes on when it wakes
// up; where a breakpoint counts as an NMI, that is a bug which ends the task.
func TestHandlerSleeps(t *testing.T) {
	const report = "BUG: scheduling while atomic: load/0/"
	onEachCaller(t, func(t *testing.T, c *caller) {
		c.Kprobes.SetOptimization(false)
		nmi := len(c.Machine.Symbols().LookupName("irqentry_nmi_exit")) > 0
		reports := func() (n int, log string) {
			log = strings.Join(logOf(c.Kernel), "\n")
			return strings.Count(log, report), log
		}
		for _, place := range []string{"entry", "return", "inside"} {
			// A handler's sleep can leave its thread with a preempt count of -1, at which the
			// next one is not reported. A sleep of the thread itself sets the count anew.
			if _, err := c.Machine.Call(t.Context(), "msleep", 1); err != nil {
				t.Fatal(err)
			}
			before, _ := reports()
			got, err := c.hit(place, c.symbol("kprobe_handlers_sleep"))
			if ends := place == "inside" && nmi; ends != (err != nil) || !ends && got != 10 {
				t.Errorf("%s: the call gives %d, %v", place, got, err)
			}
			after, log := reports()
			if panicked(c.Kernel) || after <= before || nmi && place == "inside" && !strings.Contains(log, "kernel BUG at ") {
				t.Fatalf("%s: panic %q, log:\n%s", place, c.Machine.Panic(), log)
			}
			if list(c.Kernel) == "" {
				t.Errorf("%s: the probe is no longer listed", place)
			}
		}
	})
}

// bootFor boots a kernel and closes it at the test's end, which must not take long.
func bootFor(t *testing.T) *kprobefs.Kernel {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { within(t, "Close", func() { _ = s.Close() }) })
	return s
}

// panicked reports whether the kernel has panicked.
func panicked(s *kprobefs.Kernel) bool {
	select {
	case <-s.Machine.Died():
		return true
	default:
		return false
	}
}

// code puts bytes into executable memory, behind them int3s up to the page's end.
func (c *caller) code(b []byte) uint64 {
	at, err := c.Machine.AllocModule(1)
	if err != nil {
		c.t.Fatal(err)
	}
	page := append(append(make([]byte, 0, abi.PageSize), b...), strings.Repeat("\xcc", abi.PageSize-len(b))...)
	if err := c.Machine.MapModule(at, page, image.Read|image.Exec); err != nil {
		c.t.Fatal(err)
	}
	return at
}

// hit registers a probe with the handler and calls the probed function.
func (c *caller) hit(place string, handler uint64) (ret uint64, err error) {
	var p uint64
	switch place {
	case "return":
		p = c.kretprobe("int_sqrt", 4, 0)
		c.put(p+rpHandler, handler)
		c.does(0, "register_kretprobe", p)
	case "inside":
		p = c.kprobe("int_sqrt", c.inside("int_sqrt"), "", "")
		c.put(p+kpPre, handler)
		c.does(0, "register_kprobe", p)
	default:
		p = c.kprobe("int_sqrt", 0, "", "")
		c.put(p+kpPre, handler)
		c.does(0, "register_kprobe", p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	within(c.t, "the call", func() { ret, err = c.Machine.Call(ctx, "int_sqrt", 100) })
	return ret, err
}

// FuzzParameters loads a module that has a parameter of each kind with arbitrary
// arguments. It is loaded or refused with an errno, and the kernel lives.
func FuzzParameters(f *testing.F) {
	object := needDebianModules(f)["args.ko"]
	for _, args := range []string{
		"", "number=-5 count=7 far=0x10 mask=0xffff", "number=99999999999", "list=1,2,3,4", "list=1,2,3,4,5", "list=,", "text=12345678",
		"on off=N", "word=\"two words\"", "word=\"", "even=3", "even=4 outer=-1", "octet=256 port=-1", "unknown=1", "number", "=", "-- number=1",
		"dyndbg=+p", "little=0b1 wide=18446744073709551616", "word", "list", strings.Repeat("x", 5000), "number=1\x00count=2", "on=maybe",
	} {
		f.Add(args)
	}
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, args string) {
		name, err := s.Modules.Insert(ctx, object, module.Options{Args: args})
		var errno syscall.Errno
		switch {
		case err == nil:
			if err := s.Modules.Delete(ctx, name); err != nil {
				t.Fatalf("Delete: %v", err)
			}
		case !errors.As(err, &errno):
			t.Fatalf("an error without errno: %v", err)
		}
		if got := s.Modules.List(); len(got) != 0 || panicked(s) {
			t.Fatalf("%q: %v; listed is %+v, panic %q", args, err, got, s.Machine.Panic())
		}
	})
}

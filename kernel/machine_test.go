package kernel

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	guestimage "github.com/kprobefs/kprobefs/kernel/guest"
)

// testPatience is how long a test waits for what should happen at once, on a machine
// with a load of 20 and under the race detector. It only turns a hang into a failure:
// no test's result depends on it.
const testPatience = time.Minute

// testMachine is a machine with the guest of 6.1, with helpers for tests.
type testMachine struct {
	*Machine
	t *testing.T
}

func boot(t *testing.T, cpus int) *testMachine {
	t.Helper()
	m, err := Boot(Options{Image: guestimage.Image("6.1"), CPUs: cpus, Seed: 1, Release: "6.1.0-test", Version: "Linux version 6.1.0-test", Cmdline: "quiet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testMachine{m, t}
}

// coreCode writes instructions over a function of core text that only tests call, and
// returns its address.
func (m *testMachine) coreCode(code ...byte) uint64 {
	m.t.Helper()
	s := m.allSyms.LookupName("int_sqrt")
	if len(s) == 0 || s[0].Size < uint64(len(code)) {
		m.t.Fatalf("the guest has no int_sqrt of %d bytes: %v", len(code), s)
	}
	if err := m.Poke(abi.Patch{Addr: s[0].Addr, Bytes: code}); err != nil {
		m.t.Fatal(err)
	}
	return s[0].Addr
}

// slotCode writes instructions into a new slot.
func (m *testMachine) slotCode(code ...byte) uint64 {
	m.t.Helper()
	a, err := m.AllocSlot(len(code))
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.Poke(abi.Patch{Addr: a, Bytes: code}); err != nil {
		m.t.Fatal(err)
	}
	return a
}

// page returns a page of guest memory that nothing else uses.
func (m *testMachine) page() uint64 {
	m.t.Helper()
	a, err := m.Call(context.Background(), "get_zeroed_page", 0xcc0)
	if err != nil || a == 0 {
		m.t.Fatalf("no page: %#x, %v", a, err)
	}
	return a
}

// begin calls the function at addr on a vCPU's thread; the channel gets the result.
func (m *testMachine) begin(cpu int, addr uint64, args ...uint64) <-chan error {
	c := make(chan error, 1)
	go func() {
		_, err := m.CallOn(context.Background(), cpu, addr, 1, args...)
		c <- err
	}()
	return c
}

// onVCPU runs f on the goroutine of a vCPU while it is outside guest code, as
// hypercalls run, with the registers of the guest's kernel thread load/cpu.
func (m *testMachine) onVCPU(cpu int, f func(v *vcpu)) {
	m.t.Helper()
	if err := m.tryOnVCPU(cpu, f); err != nil {
		m.t.Fatal(err)
	}
}

// tryOnVCPU is onVCPU for an f that may break the guest; it returns the error of the
// guest's call.
func (m *testMachine) tryOnVCPU(cpu int, f func(v *vcpu)) error {
	m.t.Helper()
	done := make(chan struct{})
	addr := m.coreCode(0x0f, 0x0b, 0xc3) // ud2; ret
	m.SetHandlers(Handlers{Fault: func(tr *abi.Trap) bool {
		if tr.Regs.IP != addr {
			return false
		}
		v := m.cpus[tr.CPU]
		m.SetHandlers(Handlers{})
		state, regs := v.cpu.State, v.regs
		f(v)
		v.cpu.State, v.regs = state, regs
		tr.Regs.IP += 2
		close(done)
		return true
	}})
	ended := m.begin(cpu, addr)
	within(m.t, "the function on the vCPU", done)
	return within(m.t, "the guest's function", ended)
}

// within receives from a channel, and fails the test after testPatience.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(testPatience):
		t.Fatalf("%s: not in %v\n%s", what, testPatience, stacks())
		panic("not reached")
	}
}

// soon waits until ok returns true.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(testPatience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in %v\n%s", what, testPatience, stacks())
		}
	}
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// machineGoroutines counts the goroutines that run code of a machine or its host.
func machineGoroutines() int {
	n := 0
	for g := range strings.SplitSeq(stacks(), "\n\n") {
		if strings.Contains(g, "kprobefs/kernel.(*Machine).") || strings.Contains(g, "kprobefs/kernel.(*vcpu).") || strings.Contains(g, "kprobefs/kernel/host.") {
			n++
		}
	}
	return n
}

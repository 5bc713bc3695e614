package bpf

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// taskMemory is memory in which each task has the same flags.
type taskMemory struct {
	abi.Memory
	flags uint32
}

func (m taskMemory) ReadAt(addr uint64, b []byte) error {
	copy(b, binary.LittleEndian.AppendUint32(nil, m.flags))
	return nil
}

// TestSendSignal checks who gets a signal: no task of the kernel's, none that exits, and not init; with interrupts off one at a time.
func TestSendSignal(t *testing.T) {
	const task = 0xffff888000001000
	type sent struct {
		task   uint64
		nr     int
		thread bool
	}
	var got []sent
	s := New(Config{Now: func() int64 { return 0 }, Signal: func(task uint64, nr int, thread bool) { got = append(got, sent{task, nr, thread}) }})
	for _, c := range []struct {
		what  string
		flags uint32
		pid   int32
		nr    uint64
		off   bool
		want  []error
		sends int
	}{
		{"a process", 0, 10, 9, false, []error{nil, nil}, 2},
		{"none", 0, 10, 0, false, []error{nil}, 0},
		{"the last", 0, 10, 64, false, []error{nil}, 1},
		{"after the last", 0, 10, 65, false, []error{syscall.EINVAL}, 0},
		{"a kernel thread", taskKernel, 10, 9, false, []error{syscall.EPERM}, 0},
		{"a kernel thread, and no signal", taskKernel, 10, 65, false, []error{syscall.EPERM}, 0},
		{"one that exits", taskExiting, 10, 9, false, []error{syscall.EPERM}, 0},
		{"init", 0, 1, 9, false, []error{syscall.EPERM}, 0},
		{"with interrupts off", 0, 10, 9, true, []error{nil, syscall.EBUSY}, 1},
		{"with interrupts off, no signal", 0, 10, 65, true, []error{syscall.EINVAL, syscall.EINVAL}, 0},
	} {
		got = nil
		h := Hit{PID: c.pid, Trap: &abi.Trap{Task: task, Mem: taskMemory{flags: c.flags}, IRQsOff: c.off}}
		r := run{sys: s, hit: &h}
		for n, want := range c.want {
			if ret := sendSignal(n == 0)(&r, &[numArgs]uint64{c.nr}); ret != errno(want) {
				t.Errorf("%s: call %d returned %d, want %v", c.what, n, int64(ret), want)
			}
		}
		if len(got) != c.sends {
			t.Errorf("%s: sent %v, want %d", c.what, got, c.sends)
		}
		for n, g := range got {
			if want := (sent{task, int(c.nr), n == 0}); g != want {
				t.Errorf("%s: sent %v, want %v", c.what, g, want)
			}
		}
	}
}

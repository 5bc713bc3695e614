package exports_test

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/exports"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// noted is a Machine that only records the calls.
type noted struct{ calls [][3]uint64 }

func (n *noted) Handler(_ *abi.Trap, fn, first, third uint64) (uint64, error) {
	n.calls = append(n.calls, [3]uint64{fn, first, third})
	return 0, nil
}

type world struct {
	*kprobetest.Kernel
	k *kprobes.Kprobes
	e *exports.Exports
	m noted
}

// Addresses of the tests' structs, on a stack, which is the only data of the test
// kernel.
const (
	at    = kprobetest.Stack + 0x100
	array = kprobetest.Stack + 0x300
	name  = kprobetest.Stack + 0x400
	nodes = kprobetest.Stack + 0x800
)

func newWorld() *world {
	w := &world{Kernel: kprobetest.New()}
	w.Site(w.Func(0x1000, "vfs_read", 0x0f, 0x1f, 0x44, 0, 0, 0x41, 0x57, 0x41, 0x56, 0x55, 0xc3))
	w.Func(0x2000, "arch_rethook_trampoline", 0xc3)
	w.k = kprobes.New(w.Config())
	w.e = exports.New(exports.Config{Kprobes: w.k, Machine: &w.m, Memory: w.Kernel})
	return w
}

// probe returns the bytes of a struct kretprobe. The first 128 are a struct kprobe.
func probe(symbol, addr uint64, offset uint32, pre, post uint64, flags uint32, maxactive int32) []byte {
	b := make([]byte, 168)
	le := binary.LittleEndian
	le.PutUint64(b[40:], addr)
	le.PutUint64(b[48:], symbol)
	le.PutUint32(b[56:], offset)
	le.PutUint64(b[64:], pre)
	le.PutUint64(b[72:], post)
	le.PutUint32(b[120:], flags)
	le.PutUint64(b[128:], 0x111) // handler
	le.PutUint64(b[136:], 0x222) // entry_handler
	le.PutUint32(b[144:], uint32(maxactive))
	return b
}

func (w *world) list() string {
	var b []byte
	for i := range kprobes.Buckets {
		for _, r := range w.k.Bucket(nil, i) {
			b = r.Append(b, false)
		}
	}
	return string(b)
}

// TestRequest: a struct's fields are read and updated, and its handlers are called
// with its address.
func TestRequest(t *testing.T) {
	w := newWorld()
	write := func(at uint64, b []byte) {
		t.Helper()
		if err := w.WriteAt(at, b); err != nil {
			t.Fatal(err)
		}
	}
	want := func(errno syscall.Errno, nr, addr, arg uint64) {
		t.Helper()
		if got := w.e.Request(nr, addr, arg); got != -int64(errno) {
			t.Errorf("request %d: %d, want %d", nr, got, -int64(errno))
		}
	}
	word := func(at uint64) uint64 { v, _ := w.ReadU64(at); return v }
	write(name, []byte("vfs_read\x00"))
	write(at, probe(name, 0, 5, 0xaaa, 0xbbb, 2, 0))
	want(0, abi.ProbeRegister, at, 0)
	if got := w.list(); !strings.Contains(got, "k  vfs_read+0x5    [DISABLED]") || word(at+40) != kprobetest.Text+0x1005 || word(at+120) != 2 {
		t.Errorf("list %q, addr %#x, flags %#x", got, word(at+40), word(at+120))
	}
	want(0, abi.ProbeEnable, at, 0)
	tr := w.Trap(0, kprobetest.Text+0x1005)
	w.k.Int3(tr)
	tr.Regs.IP += 3 // after the copy, at the slot's int3
	w.k.Int3(tr)
	if calls := [][3]uint64{{0xaaa, at, 0}, {0xbbb, at, 0}}; len(w.m.calls) != 2 || w.m.calls[0] != calls[0] || w.m.calls[1] != calls[1] {
		t.Errorf("calls %x", w.m.calls)
	}
	write(array, binary.LittleEndian.AppendUint64(nil, at))
	want(0, abi.ProbeUnregister, array, 1)
	want(syscall.EINVAL, abi.ProbeDisable, at, 0)

	write(at, probe(name, 0, 0, 0, 0, 0, -5))
	want(0, abi.RetprobeRegister, at, nodes)
	if got := w.list(); !strings.Contains(got, "r  vfs_read+0x0") || uint32(word(at+144)) != 10 {
		t.Errorf("list %q, maxactive %d", got, uint32(word(at+144)))
	}
	want(0, abi.RetprobeUnregister, array, 1)
	write(at, probe(name, 0, 0, 0, 0, 0, 1<<30))
	want(syscall.ENOMEM, abi.RetprobeRegister, at, nodes)
	want(syscall.EINVAL, 99, at, 0)
	want(syscall.EINVAL, abi.ProbeUnregister, array, 1<<40)
	want(syscall.EFAULT, abi.ProbeUnregister, 0x10, 1)
	if got := w.list(); got != "" {
		t.Errorf("list %q", got)
	}
}

// FuzzRequest: with any contents of the structs, a request succeeds or returns an
// errno, and registered probes can be unregistered.
func FuzzRequest(f *testing.F) {
	for _, b := range [][]byte{
		probe(name, 0, 0, 1, 0, 0, 0), probe(name, 0, 5, 1, 2, 2, 3),
		probe(0, kprobetest.Text+0x1000, 7, 0, 0, 0xff, -1), probe(at, 1, 0, 0, 0, 0, 1<<30),
	} {
		f.Add(b, uint64(at), uint64(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, addr, arg uint64) {
		w := newWorld()
		if len(b) > array-at || w.WriteAt(at, b) != nil || w.WriteAt(name, []byte("vfs_read\x00")) != nil {
			t.Skip()
		}
		structs := []uint64{at, addr}
		for i, p := range structs {
			_ = w.WriteU64(array+8*uint64(i), p)
		}
		for nr := range uint64(8) {
			for _, p := range structs {
				if ret := w.e.Request(nr, p, arg%0x10000); ret > 0 || ret < -4095 {
					t.Fatalf("request %d gives %d", nr, ret)
				}
			}
		}
		for i, p := range structs { // a registration may have overwritten the array
			_ = w.WriteU64(array+8*uint64(i), p)
			w.e.Request(abi.ProbeUnregister, array+8*uint64(i), 1)
		}
		if got := w.list(); got != "" {
			t.Errorf("list %q", got)
		}
	})
}

package kprobes_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
)

// TestShortWords: the words that 5.10 accepts for kprobes/enabled (script
// enabled_words).
func TestShortWords(t *testing.T) {
	short := newOldWorld(t, release.Linux5_10).k
	for _, c := range []struct {
		words   string
		on, bad bool
	}{
		{"1 y Y 1garbage yes", true, false},
		{"0 n N 01 no never", false, false},
		{"t T on oN true f of off false 2 x", false, true},
	} {
		for _, w := range strings.Fields(c.words) {
			on, err := short.ParseEnabled([]byte(w))
			if errors.Is(err, syscall.EINVAL) != c.bad || on != c.on {
				t.Errorf("%q: %v, %v", w, on, err)
			}
		}
	}
	if _, err := short.ParseEnabled(nil); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an empty word: %v", err)
	}
	if on, err := newWorld(t).k.ParseEnabled([]byte("on")); err != nil || !on {
		t.Errorf("6.1's on: %v, %v", on, err)
	}
}

// TestAnyAddress: unmapped addresses on 6.1 and on 5.10, where the highest ones are
// taken for errnos (script events_far_addresses).
func TestAnyAddress(t *testing.T) {
	for _, c := range []struct {
		addr       uint64
		early, ret error // of a kprobe and a return probe on 5.10
	}{
		{0x400000, syscall.EINVAL, syscall.ENOENT},
		{^uint64(0), syscall.EPERM, syscall.EPERM},
		{^uint64(11), syscall.ENOMEM, syscall.ENOMEM},
		{^uint64(4095), syscall.EINVAL, syscall.ENOENT},
	} {
		for _, v := range []release.Version{release.Linux6_1, release.Linux5_10} {
			want, wantRet := error(syscall.ENOENT), error(syscall.ENOENT)
			if v == release.Linux5_10 {
				want, wantRet = c.early, c.ret
			}
			w := newOldWorld(t, v)
			if err := w.k.Register(&kprobes.Kprobe{Addr: c.addr}); !errors.Is(err, want) {
				t.Errorf("%s: %#x: %v, want %v", v, c.addr, err, want)
			}
			if err := w.k.RegisterRetprobe(&kprobes.Retprobe{Kprobe: kprobes.Kprobe{Addr: c.addr}}); !errors.Is(err, wantRet) {
				t.Errorf("%s: return probe at %#x: %v, want %v", v, c.addr, err, wantRet)
			}
		}
	}
}

// TestReturns510: on 5.10 return handlers run with interrupts off and with the
// trampoline as regs->ip. The call still returns to its caller.
func TestReturns510(t *testing.T) {
	const slot = kprobetest.Stack + 0x2000
	w := newOldWorld(t, release.Linux5_10)
	saw := ""
	rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "vfs_read"}, Handler: func(ri *kprobes.Instance, h *kprobes.Hit) int {
		saw = fmt.Sprintf("off %v, ip %#x, from %#x", h.IRQsOff, h.Regs.IP, ri.RetAddr)
		return 0
	}}
	if err := w.k.RegisterRetprobe(rp); err != nil {
		t.Fatal(err)
	}
	w.WriteU64(slot, 0xabc)
	tr := w.Trap(0, vfsReadAt)
	tr.Regs.IP = vfsReadAt
	w.k.Ftrace(tr)
	tr.RegsAddr = slot - abi.RegsSize
	w.k.Rethook(tr)
	if want := fmt.Sprintf("off true, ip %#x, from 0xabc", uint64(trampoline)); saw != want {
		t.Errorf("the handler saw %q, want %q", saw, want)
	}
	if tr.IRQsOff || tr.Regs.IP != 0xabc {
		t.Errorf("afterwards: off %v, ip %#x", tr.IRQsOff, tr.Regs.IP)
	}
}

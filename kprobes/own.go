package kprobes

import "github.com/kprobefs/kprobefs/kernel/abi"

// ownCode is the code that kernels before 5.11 have for jprobes and return probes,
// in a slot of its own: three places with an int3 each, that Int3 knows.
//
//	entry:                the handler of a jprobe whose handler is a Go function
//	jprobe_return:        where each handler of a jprobe ends
//	kretprobe_trampoline: a nop with a probe, that hooked calls return to
//
// It is empty where the release has none of it.
type ownCode struct {
	abi.Range
}

const (
	ownEntry      = 0 // int3; call jprobe_return; ud2
	ownReturn     = 8
	ownReturnEnd  = 9 // behind jprobe_return's int3: ud2
	ownTrampoline = 16
	ownSize       = 24

	nop = 0x90
)

// ownText is what the slot holds; behind what never goes on there is a ud2.
var ownText = []byte{
	int3, 0xe8, ownReturn - 6, 0, 0, 0, 0x0f, 0x0b,
	int3, 0x0f, 0x0b, int3, int3, int3, int3, int3,
	int3, 0x0f, 0x0b, int3, int3, int3, int3, int3,
}

// writeOwn makes the code, if the release has it.
func (k *Kprobes) writeOwn() error {
	if !k.cfg.Jprobes && !k.cfg.TrampolineProbe {
		return nil
	}
	addr, err := k.cfg.Slots.Alloc(ownSize)
	if err != nil {
		return err
	}
	if err := k.cfg.Text.Poke(abi.Patch{Addr: addr, Bytes: ownText}); err != nil {
		return err
	}
	k.own.Range = abi.Range{Start: addr, End: addr + ownSize}
	if k.cfg.TrampolineProbe {
		k.trampoline.Store(addr + ownTrampoline)
	}
	return nil
}

// OwnCode is where the code lies that this release has besides the guest's, and
// its symbols; nothing on 6.1.
func (k *Kprobes) OwnCode() (at abi.Range, syms []abi.Symbol) {
	add := func(off uint64, name string) {
		syms = append(syms, abi.Symbol{Addr: k.own.Start + off, Type: 't', Name: name})
	}
	if k.cfg.Jprobes {
		add(ownReturn, "jprobe_return")
		add(ownReturnEnd, "jprobe_return_end")
	}
	if k.cfg.TrampolineProbe {
		add(ownTrampoline, "kretprobe_trampoline")
	}
	return k.own.Range, syms
}

// int3Own handles the int3 at addr in the own code. False: the CPU should not be there.
func (k *Kprobes) int3Own(c *ctlblk, addr uint64, t *abi.Trap) bool {
	switch addr - k.own.Start {
	case ownEntry:
		return k.jprobeEntry(c, t)
	case ownReturn:
		return k.jprobeReturn(c, t)
	case ownTrampoline:
		return k.cfg.TrampolineProbe && k.trampolineHit(c, t)
	}
	return false
}

// overlayOwn writes the trampoline's nop over its int3, in p, which begins at addr.
func (k *Kprobes) overlayOwn(addr uint64, p []byte) {
	if k.cfg.TrampolineProbe {
		overlay(p, addr, k.own.Start+ownTrampoline, []byte{nop})
	}
}

// TrampolineProbe is the address of kretprobe_trampoline; 0: the release has none.
func (k *Kprobes) TrampolineProbe() uint64 {
	if !k.cfg.TrampolineProbe {
		return 0
	}
	return k.own.Start + ownTrampoline
}

// JprobeReturn is the address of jprobe_return, which the handler of a jprobe
// calls in place of returning; 0: there are no jprobes.
func (k *Kprobes) JprobeReturn() uint64 {
	if !k.cfg.Jprobes {
		return 0
	}
	return k.own.Start + ownReturn
}

// stackBytes reads up to n bytes of the stack from sp into p: no more than its
// task's stack has, or than can be read.
func stackBytes(t *abi.Trap, p []byte) int {
	sp, n := t.Regs.SP, len(p)
	if base, err := t.Mem.ReadU64(t.Task + abi.TaskStack); err == nil && base <= sp && sp < base+abi.ThreadSize {
		n = min(n, int(base+abi.ThreadSize-sp))
	}
	if t.Mem.ReadAt(sp, p[:n]) == nil {
		return n
	}
	n = min(n, int(abi.PageSize-sp%abi.PageSize))
	if t.Mem.ReadAt(sp, p[:n]) == nil {
		return n
	}
	return 0
}

// StackArg is the n-th (from 0) of the words that a function which has just been
// entered finds on its stack behind the return address: its seventh argument on,
// and structures that are passed by value. The error is EFAULT.
func (h *Hit) StackArg(n int) (uint64, error) { return h.Mem.ReadU64(h.Regs.SP + 8*uint64(n+1)) }

// addPreempt changes the guest's preempt_count, where there is a guest.
func addPreempt(t *abi.Trap, n int32) {
	if t.AddPreempt != nil {
		t.AddPreempt(n)
	}
}

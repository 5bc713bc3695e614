package kprobes

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// ownCode is the code that kernels before 5.11 have for jprobes and return probes,
// in a slot of its own: three places with an int3 each, that Int3 knows, and the
// functions for jprobes that modules call, which ask as register_kprobe does. It
// is empty where the release has none of it.
type ownCode struct {
	abi.Range
	jprobeReturn uint64 // where each handler of a jprobe ends
	jprobeEntry  uint64 // the handler of a jprobe whose handler is a Go function
	trampoline   uint64 // a nop with a probe, that hooked calls return to
	syms         []abi.Symbol
}

const (
	ownSize  = 96
	ownAlign = 8
	nop      = 0x90
	callSize = 5
)

// ud2 stands where execution never goes on.
var ud2 = []byte{0x0f, 0x0b}

// ownWriter puts pieces of code into the slot.
type ownWriter struct {
	base uint64
	code []byte
	syms []abi.Symbol
}

// begin gives the address of the next piece, and names it if name is not "".
func (w *ownWriter) begin(name string) uint64 {
	for len(w.code)%ownAlign != 0 {
		w.code = append(w.code, int3)
	}
	if name != "" {
		w.name(name)
	}
	return w.base + uint64(len(w.code))
}

func (w *ownWriter) name(name string) {
	w.syms = append(w.syms, abi.Symbol{Addr: w.base + uint64(len(w.code)), Type: 't', Name: name})
}

func (w *ownWriter) emit(b ...byte) { w.code = append(w.code, b...) }

// jump is a jump (e9) or a call (e8).
func (w *ownWriter) jump(opcode byte, to uint64) {
	from := w.base + uint64(len(w.code)) + callSize
	w.code = binary.LittleEndian.AppendUint32(append(w.code, opcode), uint32(to-from))
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
	w := &ownWriter{base: addr}
	own := ownCode{Range: abi.Range{Start: addr, End: addr + ownSize}}
	if k.cfg.Jprobes {
		own.jprobeEntry = w.begin("") // int3; call jprobe_return
		own.jprobeReturn = own.jprobeEntry + ownAlign
		w.emit(int3)
		w.jump(0xe8, own.jprobeReturn)
		w.emit(ud2...)
		w.begin("jprobe_return")
		w.emit(int3)
		w.name("jprobe_return_end")
		w.emit(ud2...)
		k.writeJprobeCalls(w)
	}
	if k.cfg.TrampolineProbe {
		own.trampoline = w.begin("kretprobe_trampoline")
		w.emit(append([]byte{int3}, ud2...)...)
		k.trampoline.Store(own.trampoline)
	}
	own.syms = w.syms
	k.own = own
	return k.cfg.Text.Poke(abi.Patch{Addr: addr, Bytes: w.code})
}

// writeJprobeCalls makes register_jprobe and its kin, by the guest's
// probe_request(nr, probe, arg), and by its functions for kprobes.
func (k *Kprobes) writeJprobeCalls(w *ownWriter) {
	request, unregister, unregisterAll := k.symbol("probe_request"), k.symbol("unregister_kprobe"), k.symbol("unregister_kprobes")
	if request == 0 || unregister == 0 || unregisterAll == 0 {
		return // a kernel without modules
	}
	w.begin("register_jprobe")
	w.emit(0x48, 0x89, 0xfe)                   // mov %rdi,%rsi
	w.emit(0xbf, abi.JprobeRegister, 0, 0, 0)  // mov $nr,%edi
	w.emit(0x31, 0xd2)                         // xor %edx,%edx
	w.jump(0xe9, request)                      //
	w.begin("register_jprobes")                //
	w.emit(0x89, 0xf2)                         // mov %esi,%edx
	w.emit(0x48, 0x89, 0xfe)                   // mov %rdi,%rsi
	w.emit(0xbf, abi.JprobesRegister, 0, 0, 0) // mov $nr,%edi
	w.jump(0xe9, request)                      //
	w.begin("unregister_jprobe")               // a jprobe begins with its kprobe
	w.jump(0xe9, unregister)
	w.begin("unregister_jprobes")
	w.jump(0xe9, unregisterAll)
}

// symbol is the address of the first symbol of a name; 0: there is none.
func (k *Kprobes) symbol(name string) uint64 {
	if syms := k.cfg.Symbols.LookupName(name); len(syms) > 0 {
		return syms[0].Addr
	}
	return 0
}

// OwnCode is where the code lies that this release has besides the guest's, and
// its symbols; nothing on 6.1.
func (k *Kprobes) OwnCode() (at abi.Range, syms []abi.Symbol) { return k.own.Range, k.own.syms }

// int3Own handles the int3 at addr in the own code. False: the CPU should not be there.
func (k *Kprobes) int3Own(c *ctlblk, addr uint64, t *abi.Trap) bool {
	switch addr {
	case k.own.jprobeEntry:
		return k.jprobeEntry(c, t)
	case k.own.jprobeReturn:
		return k.jprobeReturn(c, t)
	case k.own.trampoline:
		return k.trampolineHit(c, t)
	}
	return false
}

// overlayOwn writes the trampoline's nop over its int3, in p, which begins at addr.
func (k *Kprobes) overlayOwn(addr uint64, p []byte) {
	if k.own.trampoline != 0 {
		overlay(p, addr, k.own.trampoline, []byte{nop})
	}
}

// TrampolineProbe is the address of kretprobe_trampoline; 0: the release has none.
func (k *Kprobes) TrampolineProbe() uint64 { return k.own.trampoline }

// JprobeReturn is the address of jprobe_return, which the handler of a jprobe
// calls in place of returning; 0: there are no jprobes.
func (k *Kprobes) JprobeReturn() uint64 { return k.own.jprobeReturn }

// Features are what this release does otherwise than 6.1.
func (k *Kprobes) Features() Features { return k.cfg.Features }

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

package kprobes

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// releaseCode is the code that kernels before 5.11 have for jprobes and return
// probes, in a slot: three places with an int3 each, which Int3 recognizes, and the
// functions for jprobes that modules call, which make a request as register_kprobe
// does. It is empty on releases without them, and does not change once written.
type releaseCode struct {
	abi.Range
	jprobeReturn uint64 // the end of each jprobe's handler
	jprobeEntry  uint64 // the handler of a jprobe with a Go handler
	trampoline   uint64 // a nop with a probe, to which hooked calls return
	syms         []abi.Symbol
}

const (
	releaseCodeSize  = 96
	releaseCodeAlign = 8
	nop              = 0x90
	callSize         = 5
)

// ud2 follows code that does not return.
var ud2 = []byte{0x0f, 0x0b}

// codeWriter assembles code for the slot.
type codeWriter struct {
	base uint64
	code []byte
	syms []abi.Symbol
}

// begin returns the address of the next function, and adds a symbol if name is not "".
func (w *codeWriter) begin(name string) uint64 {
	for len(w.code)%releaseCodeAlign != 0 {
		w.code = append(w.code, int3)
	}
	if name != "" {
		w.name(name)
	}
	return w.base + uint64(len(w.code))
}

func (w *codeWriter) name(name string) {
	w.syms = append(w.syms, abi.Symbol{Addr: w.base + uint64(len(w.code)), Type: 't', Name: name})
}

func (w *codeWriter) emit(b ...byte) { w.code = append(w.code, b...) }

// jump emits a jump (e9) or a call (e8).
func (w *codeWriter) jump(opcode byte, to uint64) {
	from := w.base + uint64(len(w.code)) + callSize
	w.code = binary.LittleEndian.AppendUint32(append(w.code, opcode), uint32(to-from))
}

// writeReleaseCode creates the code if the release has it.
func writeReleaseCode(has release.Set, symbols Symbols, memory Slots, writes *textWrites) (own releaseCode, err error) {
	if has[release.NoJprobes] && has[release.TrampolineCode] {
		return own, nil
	}
	addr, err := memory.Alloc(releaseCodeSize)
	if err != nil {
		return own, err
	}
	w := &codeWriter{base: addr}
	own.Range = abi.Range{Start: addr, End: addr + releaseCodeSize}
	if !has[release.NoJprobes] {
		own.jprobeEntry = w.begin("") // int3; call jprobe_return
		own.jprobeReturn = own.jprobeEntry + releaseCodeAlign
		w.emit(int3)
		w.jump(0xe8, own.jprobeReturn)
		w.emit(ud2...)
		w.begin("jprobe_return")
		w.emit(int3)
		w.name("jprobe_return_end")
		w.emit(ud2...)
		w.jprobeCalls(symbols)
	}
	if !has[release.TrampolineCode] {
		own.trampoline = w.begin("kretprobe_trampoline")
		w.emit(append([]byte{int3}, ud2...)...)
	}
	own.syms = w.syms
	return own, writes.poke(nil, abi.Patch{Addr: addr, Bytes: w.code})
}

// jprobeCalls emits register_jprobe and its siblings. They call the guest's
// probe_request(nr, probe, arg), and its functions for kprobes.
func (w *codeWriter) jprobeCalls(symbols Symbols) {
	request, unregister, unregisterAll := addressOf(symbols, "probe_request"), addressOf(symbols, "unregister_kprobe"), addressOf(symbols, "unregister_kprobes")
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

// addressOf returns the address of the first symbol with a name, or 0.
func addressOf(symbols Symbols, name string) uint64 {
	if syms := symbols.LookupName(name); len(syms) > 0 {
		return syms[0].Addr
	}
	return 0
}

// overlay restores the trampoline's nop over its int3 in p, which begins at addr.
func (c *releaseCode) overlay(addr uint64, p []byte) {
	if c.trampoline != 0 {
		overlay(p, addr, c.trampoline, []byte{nop})
	}
}

// ReleaseCode returns the address range and the symbols of the code that this release
// has in addition to the guest's. On 6.1 both are empty.
func (k *Kprobes) ReleaseCode() (at abi.Range, syms []abi.Symbol) {
	return k.relCode.Range, k.relCode.syms
}

// int3ReleaseCode handles the int3 at addr in releaseCode. It returns false when the CPU
// should not be there.
func (hs *Hits) int3ReleaseCode(c *ctlblk, addr uint64, t *abi.Trap) bool {
	switch addr {
	case hs.relCode.jprobeEntry:
		return hs.jprobeEntry(c, t)
	case hs.relCode.jprobeReturn:
		return hs.jprobeReturn(c, t)
	case hs.relCode.trampoline:
		return hs.trampolineHit(c, t)
	}
	return false
}

// TrampolineProbe returns the address of kretprobe_trampoline, or 0 if the release
// has none.
func (k *Kprobes) TrampolineProbe() uint64 { return k.relCode.trampoline }

// JprobeReturn returns the address of jprobe_return, which the handler of a jprobe
// calls instead of returning, or 0 if there are no jprobes.
func (k *Kprobes) JprobeReturn() uint64 { return k.relCode.jprobeReturn }

// Has reports whether these kprobes do what a feature says.
func (k *Kprobes) Has(f release.Feature) bool { return k.has[f] }

// stackBytes reads up to n bytes of the stack from sp into p, but not beyond the end
// of the task's stack or of readable memory.
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

// StackArg returns the n-th (from 0) word above the return address on the stack of a
// function that has just been entered: its seventh argument and the following ones,
// and structures passed by value. It fails with EFAULT when the stack cannot be read.
func (h *Hit) StackArg(n int) (uint64, error) { return h.Mem.ReadU64(h.Regs.SP + 8*uint64(n+1)) }

// addPreempt changes the guest's preempt_count, if there is a guest.
func addPreempt(t *abi.Trap, n int32) {
	if t.AddPreempt != nil {
		t.AddPreempt(n)
	}
}

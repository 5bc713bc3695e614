package kprobes

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
)

const (
	int3     = 0xcc
	jmpSize  = trampoline.BranchSize
	slotSize = 16 // MAX_INSN_SIZE: a copy and its terminator
)

// slotCode is arch_specific_insn: the probed instruction and its copy in executable
// memory. It does not change once published.
type slotCode struct {
	slot  uint64 // address of the copy that an int3 follows
	boost uint64 // address of another copy, which a jump back follows, or 0
	orig  []byte // up to 16 bytes of the text at the probed address, without any probe
	insn  insn.Insn
	emul  insn.Emul
}

func (c *slotCode) carried() string {
	switch {
	case c.emul != insn.EmulNone:
		return c.emul.String()
	case c.boost != 0:
		return "boost"
	}
	return "step"
}

// within reports whether ip can be the address after the int3 that follows the copy.
func (c *slotCode) within(ip uint64) bool { return c.slot < ip && ip <= c.slot+slotSize }

// insnSlots makes the copies of probed instructions, in executable memory. It knows which
// functions an instruction is in, and what the text would be without probes, but no probes.
//
// Kprobes.mu guards it, and its methods are called with that lock.
type insnSlots struct {
	memory    Slots
	tables    interface{ ExTable(addr uint64) bool } // Tables
	has       release.Set
	noPreempt bool
	writes    *textWrites
	original  func(addr uint64, p []byte) error // Kprobes.original

	bounds boundaryCache
}

// prepare is arch_prepare_kprobe: it makes the point's copy of the instruction.
func (m *insnSlots) prepare(pt *point) error {
	if pt.has(FlagFtrace) {
		return nil
	}
	if m.has[release.InsnBoundary] {
		if err := m.bounds.check(pt.addr); err != nil {
			return err
		}
	}
	orig := make([]byte, slotSize)
	if err := readSome(m.original, pt.addr, &orig); err != nil {
		return err
	}
	in, err := insn.Decode(orig)
	switch {
	case err != nil && !m.has[release.InsnBoundary]:
		in = insn.Insn{Len: min(len(orig), insn.MaxLen)} // its copy will fault as the instruction itself would
	case err != nil:
		return errf(syscall.EILSEQ, "no instruction at %#x (%v)", pt.addr, err)
	}
	if m.has[release.NoTrapProbes] && in.Trap() {
		return errf(syscall.EILSEQ, "the instruction at %#x traps by itself", pt.addr)
	}
	if !insn.Copyable(in) {
		return errf(syscall.EINVAL, "the instruction at %#x cannot be copied", pt.addr)
	}
	emul, err := insn.Emulation(in, orig[:in.Len])
	if err != nil {
		return err
	}
	code := &slotCode{orig: orig, insn: in, emul: emul}
	if err := m.write(pt.addr, code); err != nil {
		return err
	}
	pt.code.Store(code)
	return nil
}

// boundaries records where the instructions of a function begin.
type boundaries struct {
	start uint64
	text  []byte // the bytes that were decoded
	at    []bool // by offset, as far as the function was decoded
}

// boundarySlots is the number of functions in the cache.
const (
	boundarySlots = 1 << boundaryBits
	boundaryBits  = 6
)

func boundarySlot(start uint64) uint64 { return abi.Hash64(start, boundaryBits) }

// boundaryCache answers whether an instruction begins at an address. It keeps the functions that
// were asked about last, with the text that was decoded: what it knows of one holds as long as
// the text is the same.
//
// Kprobes.mu guards it, and original is called with that lock.
type boundaryCache struct {
	symbols  Symbols
	original func(addr uint64, p []byte) error // Kprobes.original

	text  []byte // buffer of check
	known [boundarySlots]boundaries
}

// check is can_probe: it returns EILSEQ unless an instruction begins at addr,
// decoding from the start of its symbol.
func (c *boundaryCache) check(addr uint64) error {
	sym, off, ok := c.symbols.Lookup(addr)
	if !ok {
		return errf(syscall.EILSEQ, "no symbol at %#x", addr)
	}
	if off == 0 {
		return nil
	}
	start := addr - off
	text := append(c.text[:0], make([]byte, off+slotSize)...)
	c.text = text
	if err := readSome(c.original, start, &text); err != nil {
		return err
	}
	known := &c.known[boundarySlot(start)]
	if known.start == start && off < uint64(len(known.at)) && known.at[off] && bytes.Equal(known.text[:off], text[:off]) {
		return nil // the text has not changed since it was decoded
	}
	at, err := decodeTo(text, off, start)
	if err == nil {
		*known = c.decodeAll(start, max(sym.Size, off+1), at, text)
	}
	return err
}

// decodeTo marks where instructions begin, up to off. It returns EILSEQ when none begins at off.
func decodeTo(text []byte, off, start uint64) ([]bool, error) {
	at := make([]bool, off+1)
	pos := uint64(0)
	for pos < off {
		at[pos] = true
		in, err := insn.Decode(text[pos:])
		if err != nil {
			return nil, errf(syscall.EILSEQ, "no instruction at %#x, before %#x (%v)", start+pos, start+off, err)
		}
		pos += uint64(in.Len)
	}
	if pos > off {
		return nil, errf(syscall.EILSEQ, "%#x is inside an instruction", start+off)
	}
	at[pos] = true
	return at, nil
}

// decodeAll continues to the end of the function, or to the first undecodable bytes.
func (c *boundaryCache) decodeAll(start, size uint64, at []bool, text []byte) boundaries {
	all := make([]byte, size)
	if c.original(start, all) != nil {
		return boundaries{start, bytes.Clone(text), at}
	}
	for pos := len(at) - 1; ; {
		in, err := insn.Decode(all[pos:])
		if pos += in.Len; err != nil || pos >= len(all) {
			return boundaries{start, all, at}
		}
		for len(at) < pos {
			at = append(at, false)
		}
		at = append(at, true)
	}
}

// readSome reads original text into p, and shortens p when the text ends before.
func readSome(original func(addr uint64, p []byte) error, addr uint64, p *[]byte) error {
	b := *p
	for len(b) > 0 {
		err := original(addr, b)
		if err == nil {
			*p = b
			return nil
		}
		if len(b) <= slotSize {
			b = b[:len(b)-1]
		} else {
			b = b[:len(b)-slotSize]
		}
	}
	return errf(syscall.EILSEQ, "no text at %#x", addr)
}

// Original reads text at addr as it would be without probes: with the instructions
// that breakpoints and jumps replaced, and nops at fentry sites. It fails with EFAULT
// where there is no text.
func (k *Kprobes) Original(addr uint64, p []byte) error {
	k.mu.look()
	defer k.mu.Unlock()
	return k.original(addr, p)
}

// original is recover_probed_instruction, with nops at fentry sites. The caller holds mu.
func (k *Kprobes) original(addr uint64, p []byte) error {
	if err := k.cfg.Text.Read(addr, p); err != nil {
		return err
	}
	end := addr + uint64(len(p))
	for _, pt := range k.table.within(addr-maxOptimized, end) {
		if c := pt.code.Load(); c != nil {
			overlay(p, addr, pt.addr, c.patched(pt))
		}
	}
	k.overlayFtrace(addr, p)
	k.relCode.overlay(addr, p)
	return nil
}

// patched returns the original bytes that the probe at pt may have overwritten.
func (c *slotCode) patched(pt *point) []byte {
	if pt.out.Load() != 0 {
		return c.orig[:min(jmpSize, len(c.orig))]
	}
	return c.orig[:1]
}

// overlay copies b, the bytes at address at, over the part of p that it covers; p
// begins at addr.
func overlay(p []byte, addr, at uint64, b []byte) {
	if at < addr {
		skip := addr - at
		if skip >= uint64(len(b)) {
			return
		}
		b, at = b[skip:], addr
	}
	if at-addr < uint64(len(p)) {
		copy(p[at-addr:], b)
	}
}

// overlayFtrace writes nops over armed fentry sites (calls, e8).
func (k *Kprobes) overlayFtrace(addr uint64, p []byte) {
	for i := 0; ; i++ {
		n := bytes.IndexByte(p[i:], 0xe8)
		if n < 0 {
			return
		}
		if i += n; k.cfg.Tables.FtraceSite(addr + uint64(i)) {
			overlay(p, addr, addr+uint64(i), []byte(abi.Nop5))
		}
	}
}

// write allocates and fills the slot: the copy and an int3 and, if the instruction
// can be boosted, another copy and a jump back. Linux makes only one of the two, and so
// cannot step a boosted probe that gets a post-handler later.
func (m *insnSlots) write(addr uint64, c *slotCode) error {
	size := slotSize
	if m.canBoost(addr, c) {
		size *= 2
	}
	slot, err := m.memory.Alloc(size)
	if err != nil {
		return err
	}
	b, err := c.copies(addr, slot, size)
	if err == nil {
		err = m.writes.poke(nil, abi.Patch{Addr: slot, Bytes: b})
	}
	if err != nil {
		m.memory.Free(slot)
		return err
	}
	c.slot = slot
	if size > slotSize {
		c.boost = slot + slotSize
	}
	return nil
}

func (m *insnSlots) canBoost(addr uint64, c *slotCode) bool {
	return m.noPreempt && c.emul == insn.EmulNone && c.insn.Len+jmpSize <= insn.MaxLen &&
		!m.tables.ExTable(addr) && insn.CanBoost(c.insn, m.has[release.BoostGroups])
}

// copies returns the contents of a slot of the given size.
func (c *slotCode) copies(addr, slot uint64, size int) ([]byte, error) {
	raw := c.orig[:c.insn.Len]
	b, err := Relocate(make([]byte, 0, size), raw, c.insn, addr, slot)
	if err != nil || size == slotSize {
		return append(b, int3), err
	}
	for len(b) < slotSize {
		b = append(b, int3)
	}
	if b, err = Relocate(b, raw, c.insn, addr, slot+slotSize); err != nil {
		return nil, err
	}
	back, err := trampoline.Jump(slot+uint64(len(b)), addr+uint64(len(raw)))
	return append(b, back...), err
}

// Relocate appends to b the instruction raw, decoded as in, moved from address from to
// address to. It fails with EINVAL when the RIP-relative operand is out of reach.
func Relocate(b, raw []byte, in insn.Insn, from, to uint64) ([]byte, error) {
	start := len(b)
	b = append(b, raw...)
	if !in.RIPRelative() {
		return b, nil
	}
	disp := in.Disp + int64(from-to)
	if disp != int64(int32(disp)) {
		return nil, errf(syscall.EINVAL, "the operand of the instruction at %#x is out of reach from %#x", from, to)
	}
	binary.LittleEndian.PutUint32(b[start+in.DispOff:], uint32(disp))
	return b, nil
}

// free frees the point's copy. No vCPU may be in it.
func (m *insnSlots) free(pt *point) {
	if c := pt.code.Load(); c != nil {
		m.memory.Free(c.slot)
		pt.code.Store(nil)
	}
}

// Package record is the file format of what a real processor did: an
// instruction, the state before, the state after or the fault. The code of forms
// whose name begins with SEQ is several instructions, executed until the
// processor leaves them.
// kernel/cpu's tests replay such a file; the programs below this folder make it.
//
// # The stage
//
// The instruction stands at CodeAddr. Data is one page at PageAddr with no page
// before and behind it, filled with Filler but for a window of WindowSize bytes,
// in the middle of the page (WindowMid), at its end (WindowEnd) or at its start
// (WindowStart). GS's base is GSBase. Nothing outside the window changes. A fault's error code is as in
// kernel mode: the user bit is clear.
//
// # The file
//
// gzip of Magic and any number of forms, each a string (the form's name, for
// example "LOCK ADD m32,r32"), a uvarint (the number of cases) and the cases.
// A string is a uvarint length and its bytes; words are little-endian.
//
// Registers and window before the instruction come from a generator of
// pseudo-random edge cases (Derive), seeded with the form's name and the case's
// number; only what differs from that is written:
//
//	code      string
//	window    byte: 0 WindowMid, 1 WindowEnd, 2 WindowStart
//	flags     u16, RFLAGS before
//	registers u16 mask of those that are not derived, a u64 for each
//	memory    byte n, then n times byte offset and u64
//	system    only in forms whose name begins with SYS: u32 mask of those that
//	          are not 0, a u64 for each
//
// and of the state after it only what differs from before:
//
//	outcome   byte: 0xff, or the vector; with #PF and #GP the error code
//	          (uvarint), with #PF CR2 (u64)
//	rip       varint, from CodeAddr
//	flags     u16
//	registers u16 mask of those that changed, a u64 for each
//	memory    byte n, then n times byte offset, byte length and the bytes
//	system    as before the instruction, those that changed
//
// SYS forms are recorded at privilege level 0, with CS 10 and SS 18, and with a
// GDT that lies, in GDTCopies copies, at GDTAddr: GDT. Its descriptors have their
// accessed bits set. In other forms system registers are unknown.
package record

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
	"strings"
)

// The stage of every case.
const (
	Magic       = "kprobefs cpu record 1\n"
	CodeAddr    = 0x20000100
	PageAddr    = 0x10000000
	PageSize    = 4096
	WindowSize  = 64
	WindowMid   = PageAddr + 0x800
	WindowStart = PageAddr
	WindowEnd   = PageAddr + PageSize - WindowSize
	GSBase      = 0x08000000
	Filler      = 0xa5
	NoVector    = 0xff

	GDTAddr   = 0x180000
	GDTCopies = 4 // a page each
)

// GDT is the first descriptors of each copy: null, unused, code, data.
func GDT() [4]uint64 { return [4]uint64{0, 0, 0x00af9b000000ffff, 0x00cf93000000ffff} }

// windows are the places of the window, by the number in the file.
var windows = []uint64{WindowMid, WindowEnd, WindowStart}

// IsSequence says whether a form's cases are several instructions each.
func IsSequence(form string) bool { return strings.HasPrefix(form, "SEQ ") }

// State is a processor's state around one instruction.
type State struct {
	R     [16]uint64 // rax rcx rdx rbx rsp rbp rsi rdi r8..r15
	RIP   uint64
	Flags uint16
	Mem   [WindowSize]byte
	Sys   [NSys]uint64
}

// System registers, State.Sys.
const (
	CR0 = iota
	CR2
	CR3
	CR4
	CR8
	FSBase
	GSBaseReg
	KernelGSBase
	LStar
	Star
	SFMask
	GDTBase
	GDTLimit
	IDTBase
	IDTLimit
	ES
	CS
	SS
	DS
	FS
	GS
	NSys
)

// IsSystem says whether a form's cases are recorded with system registers.
func IsSystem(form string) bool { return strings.HasPrefix(form, "SYS ") }

// Case is one instruction, or one sequence.
type Case struct {
	Code   []byte
	Window uint64 // WindowMid, WindowEnd or WindowStart
	Before State
	After  State
	Vector uint8  // NoVector: none
	Code32 uint64 // error code of #PF and #GP
	CR2    uint64 // of #PF
}

// Form is the cases of one form of an instruction.
type Form struct {
	Name  string
	Cases []Case
}

// Rand is splitmix64.
type Rand uint64

// Next gives 64 bits.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// N gives a number in [0, n).
func (r *Rand) N(n int) int {
	hi, _ := bits.Mul64(r.Next(), uint64(n))
	return int(hi)
}

// edges are the values at which something changes.
var edges = [...]uint64{
	0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
	0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffffe, 0xffffffffffffff80, 0xffffffff80000000, 0x5555555555555555,
}

// Value gives a random value with many edges among them.
func (r *Rand) Value() uint64 {
	switch r.N(4) {
	case 0:
		return edges[r.N(len(edges))]
	case 1:
		return edges[r.N(len(edges))] + uint64(r.N(9)) - 4
	case 2:
		return r.Next() >> r.N(64)
	}
	return r.Next()
}

// Derive gives the registers and the window that case number i of a form begins
// with, unless the file says otherwise.
func Derive(form string, i int) (s State) {
	h := fnv.New64a()
	h.Write([]byte(form))
	r := Rand(h.Sum64() + uint64(i))
	r.Next()
	for j := range s.R {
		s.R[j] = r.Value()
	}
	for j := 0; j < WindowSize; j += 8 {
		binary.LittleEndian.PutUint64(s.Mem[j:], r.Value())
	}
	s.RIP = CodeAddr
	return s
}

// Write writes forms.
func Write(w io.Writer, forms []Form) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(z)
	b.WriteString(Magic)
	var buf []byte
	for _, f := range forms {
		buf = appendString(buf[:0], []byte(f.Name))
		buf = binary.AppendUvarint(buf, uint64(len(f.Cases)))
		for i := range f.Cases {
			buf = f.Cases[i].append(buf, f.Name, i)
		}
		if _, err := b.Write(buf); err != nil {
			return err
		}
	}
	return errors.Join(b.Flush(), z.Close())
}

func appendString(b, s []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (c *Case) append(b []byte, form string, i int) []byte {
	derived := Derive(form, i)
	b = appendString(b, c.Code)
	b = append(b, byte(slices.Index(windows, c.Window)))
	b = binary.LittleEndian.AppendUint16(b, c.Before.Flags)
	b = appendRegs(b, &derived.R, &c.Before.R)
	b = appendWords(b, &derived.Mem, &c.Before.Mem)
	if IsSystem(form) {
		b = appendSys(b, &derived.Sys, &c.Before.Sys)
	}
	b = append(b, c.Vector)
	if c.Vector == 13 || c.Vector == 14 {
		b = binary.AppendUvarint(b, c.Code32)
	}
	if c.Vector == 14 {
		b = binary.LittleEndian.AppendUint64(b, c.CR2)
	}
	b = binary.AppendVarint(b, int64(c.After.RIP-CodeAddr))
	b = binary.LittleEndian.AppendUint16(b, c.After.Flags)
	b = appendRegs(b, &c.Before.R, &c.After.R)
	b = appendRuns(b, &c.Before.Mem, &c.After.Mem)
	if IsSystem(form) {
		b = appendSys(b, &c.Before.Sys, &c.After.Sys)
	}
	return b
}

func appendRegs(b []byte, old, cur *[16]uint64) []byte {
	mask := uint16(0)
	for i := range cur {
		if old[i] != cur[i] {
			mask |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint16(b, mask)
	for i := range cur {
		if mask>>i&1 != 0 {
			b = binary.LittleEndian.AppendUint64(b, cur[i])
		}
	}
	return b
}

func appendSys(b []byte, old, cur *[NSys]uint64) []byte {
	mask := uint32(0)
	for i := range cur {
		if old[i] != cur[i] {
			mask |= 1 << i
		}
	}
	b = binary.LittleEndian.AppendUint32(b, mask)
	for i := range cur {
		if mask>>i&1 != 0 {
			b = binary.LittleEndian.AppendUint64(b, cur[i])
		}
	}
	return b
}

func appendWords(b []byte, old, cur *[WindowSize]byte) []byte {
	n := len(b)
	b = append(b, 0)
	for i := 0; i < WindowSize; i += 8 {
		if [8]byte(old[i:]) != [8]byte(cur[i:]) {
			b[n]++
			b = append(append(b, byte(i)), cur[i:i+8]...)
		}
	}
	return b
}

func appendRuns(b []byte, old, cur *[WindowSize]byte) []byte {
	n := len(b)
	b = append(b, 0)
	for i := 0; i < WindowSize; i++ {
		if old[i] == cur[i] {
			continue
		}
		end := i + 1
		for end < WindowSize && old[end] != cur[end] {
			end++
		}
		b[n]++
		b = append(append(b, byte(i), byte(end-i)), cur[i:end]...)
		i = end
	}
	return b
}

// Read reads forms one after the other; yield returns false to stop.
func Read(r io.Reader, yield func(Form) bool) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	d := &reader{r: bufio.NewReader(z)}
	if magic := d.bytes(len(Magic)); d.err != nil || string(magic) != Magic {
		return fmt.Errorf("not a record of this version: %w", errors.Join(d.err, errFormat))
	}
	for {
		if _, err := d.r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		f := Form{Name: string(d.string())}
		n := d.uvarint()
		for i := 0; i < int(n) && d.err == nil; i++ {
			f.Cases = append(f.Cases, d.readCase(f.Name, i))
		}
		if d.err != nil {
			return fmt.Errorf("form %q: %w", f.Name, d.err)
		}
		if !yield(f) {
			return nil
		}
	}
}

var errFormat = errors.New("bad record")

// reader keeps the first error; all its values are zero from then on.
type reader struct {
	r   *bufio.Reader
	err error
}

func (d *reader) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *reader) bytes(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.fail(err)
		clear(b)
	}
	return b
}

func (d *reader) byte() byte  { return d.bytes(1)[0] }
func (d *reader) u16() uint16 { return binary.LittleEndian.Uint16(d.bytes(2)) }
func (d *reader) u64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *reader) uvarint() uint64 {
	v, err := binary.ReadUvarint(d.r)
	if err != nil {
		d.fail(err)
	}
	return v
}

func (d *reader) string() []byte {
	n := d.uvarint()
	if n > 256 {
		d.fail(errFormat)
		return nil
	}
	return d.bytes(int(n))
}

func (d *reader) readCase(form string, i int) Case {
	c := Case{Before: Derive(form, i), Code: d.string()}
	c.Window = windows[int(d.byte())%len(windows)]
	c.Before.Flags = d.u16()
	d.regs(&c.Before.R)
	for range d.byte() {
		at, word := d.byte(), d.bytes(8)
		d.patch(&c.Before.Mem, at, word)
	}
	if IsSystem(form) {
		d.sys(&c.Before.Sys)
	}
	c.After = c.Before
	c.Vector = d.byte()
	if c.Vector == 13 || c.Vector == 14 {
		c.Code32 = d.uvarint()
	}
	if c.Vector == 14 {
		c.CR2 = d.u64()
	}
	rip, err := binary.ReadVarint(d.r)
	if err != nil {
		d.fail(err)
	}
	c.After.RIP = CodeAddr + uint64(rip)
	c.After.Flags = d.u16()
	d.regs(&c.After.R)
	for range d.byte() {
		at, n := d.byte(), d.byte()
		d.patch(&c.After.Mem, at, d.bytes(int(n)))
	}
	if IsSystem(form) {
		d.sys(&c.After.Sys)
	}
	return c
}

func (d *reader) regs(r *[16]uint64) {
	for i, mask := 0, d.u16(); i < 16; i++ {
		if mask>>i&1 != 0 {
			r[i] = d.u64()
		}
	}
}

func (d *reader) sys(r *[NSys]uint64) {
	for i, mask := 0, binary.LittleEndian.Uint32(d.bytes(4)); i < NSys; i++ {
		if mask>>i&1 != 0 {
			r[i] = d.u64()
		}
	}
}

func (d *reader) patch(m *[WindowSize]byte, at byte, b []byte) {
	if int(at)+len(b) > WindowSize {
		d.fail(errFormat)
		return
	}
	copy(m[at:], b)
}

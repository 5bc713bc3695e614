package image

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/insn"
)

// Source is linked text and data from which Sites.Read reads tables: the core
// kernel's image, or a relocated module.
type Source interface {
	// Table returns the contents and the address of a table's section; both are zero
	// if there is no such table.
	Table(section string) (addr uint64, b []byte, err error)
	// Code returns n bytes of text, or nil if they are not all text.
	Code(addr, n uint64) []byte
	// CString returns the string at addr, or "".
	CString(addr uint64) string
}

// entry is one entry of a table of relative pointers.
type entry struct {
	addr uint64
	b    []byte
}

// rel32 and rel64 return the address that a field, which is relative to its own
// address, points to.
func (e entry) rel32(off int) uint64 {
	return e.addr + uint64(off) + uint64(int64(int32(binary.LittleEndian.Uint32(e.b[off:]))))
}

func (e entry) rel64(off int) uint64 {
	return e.addr + uint64(off) + binary.LittleEndian.Uint64(e.b[off:])
}

// reader fills Sites from a Source.
type reader struct {
	Source
	*Sites
	noKprobe []uint64
}

// Read fills the lists of sites, each sorted by address, and returns the addresses of
// _kprobe_blacklist in the table's order. It returns an error if a site is not in
// text.
func (s *Sites) Read(src Source) (noKprobe []uint64, err error) {
	r := reader{Source: src, Sites: s}
	for _, step := range []struct {
		section string
		size    int
		take    func(entry) error
	}{
		{"__mcount_loc", 8, r.mcount},
		{"__jump_table", 16, r.jump},
		{".static_call_sites", 8, r.staticCall},
		{"__bug_table", 12, r.bug},
		{"__ex_table", 12, r.exTable},
		{".smp_locks", 4, r.smpLock},
		{"_kprobe_blacklist", 8, r.blacklisted},
	} {
		if err := r.table(step.section, step.size, step.take); err != nil {
			return nil, err
		}
	}
	s.sort()
	return r.noKprobe, nil
}

// sort sorts the lists by address.
func (s *Sites) sort() {
	slices.Sort(s.Mcount)
	slices.SortStableFunc(s.Jumps, func(a, b Jump) int { return cmp.Compare(a.Code, b.Code) })
	slices.SortStableFunc(s.StaticCalls, func(a, b StaticCall) int { return cmp.Compare(a.Addr, b.Addr) })
	slices.SortStableFunc(s.Bugs, func(a, b Bug) int { return cmp.Compare(a.Addr, b.Addr) })
	slices.SortStableFunc(s.ExTable, func(a, b Ex) int { return cmp.Compare(a.Insn, b.Insn) })
	slices.Sort(s.SMPLocks)
}

// table calls take for each entry of size bytes.
func (r *reader) table(section string, size int, take func(entry) error) error {
	addr, b, err := r.Table(section)
	if err != nil {
		return err
	}
	if len(b)%size != 0 {
		return fmt.Errorf("%s: %#x bytes at %#x", section, len(b), addr)
	}
	for off := 0; off < len(b); off += size {
		if err := take(entry{addr + uint64(off), b[off : off+size]}); err != nil {
			return fmt.Errorf("entry at %#x of %s: %w", addr+uint64(off), section, err)
		}
	}
	return nil
}

// inText fails if the n bytes at addr are not text.
func (r *reader) inText(addr, n uint64) error {
	if r.Code(addr, n) == nil {
		return fmt.Errorf("%#x is not in text", addr)
	}
	return nil
}

func (r *reader) mcount(e entry) error {
	a := binary.LittleEndian.Uint64(e.b)
	if a == 0 { // of a weak function that another one has replaced
		return nil
	}
	r.Mcount = append(r.Mcount, a)
	return r.inText(a, 5)
}

func (r *reader) jump(e entry) error {
	key := e.rel64(8)
	j := Jump{Code: e.rel32(0), Target: e.rel32(4), Key: key &^ 3, Branch: key&1 != 0}
	if err := r.inText(j.Code, 2); err != nil {
		return err
	}
	i, err := insn.Decode(r.upTo(j.Code, insn.MaxLen))
	if err != nil || i.Len != 2 && i.Len != 5 {
		return fmt.Errorf("no jump label at %#x", j.Code)
	}
	j.Len = i.Len
	r.Jumps = append(r.Jumps, j)
	return nil
}

// upTo returns at most n bytes of text at addr.
func (r *reader) upTo(addr, n uint64) []byte {
	for ; n > 0; n-- {
		if b := r.Code(addr, n); b != nil {
			return b
		}
	}
	return nil
}

func (r *reader) staticCall(e entry) error {
	key := e.rel32(4)
	c := StaticCall{Addr: e.rel32(0), Key: key &^ 3, Tail: key&1 != 0}
	r.StaticCalls = append(r.StaticCalls, c)
	return r.inText(c.Addr, 5)
}

func (r *reader) bug(e entry) error {
	b := Bug{
		Addr: e.rel32(0), File: r.CString(e.rel32(4)),
		Line: binary.LittleEndian.Uint16(e.b[8:]), Flags: binary.LittleEndian.Uint16(e.b[10:]),
	}
	r.Bugs = append(r.Bugs, b)
	return r.inText(b.Addr, 2)
}

func (r *reader) exTable(e entry) error {
	x := Ex{Insn: e.rel32(0), Fixup: e.rel32(4), Type: int32(binary.LittleEndian.Uint32(e.b[8:]))}
	r.ExTable = append(r.ExTable, x)
	return cmp.Or(r.inText(x.Insn, 1), r.inText(x.Fixup, 1))
}

func (r *reader) smpLock(e entry) error {
	a := e.rel32(0)
	r.SMPLocks = append(r.SMPLocks, a)
	return r.inText(a, 1)
}

func (r *reader) blacklisted(e entry) error {
	a := binary.LittleEndian.Uint64(e.b)
	r.noKprobe = append(r.noKprobe, a)
	return r.inText(a, 1)
}

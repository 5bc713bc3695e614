// Package image reads the guest kernel's ELF file: segments, symbols, and the tables
// that Linux keeps about its text (fentry sites, jump labels, static calls, bugs,
// exception fixups, LOCK prefixes, functions that must not be probed). It finds these
// by the start and stop symbols that Linux has for them.
//
// Tables looks addresses up in them.
//
// The file is untrusted: tables are checked against the loaded segments. The image is
// not relocated; it is linked at its address.
package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
)

// maxSize is the maximum size of an image in memory: the kernel mapping of x86-64,
// 512 MB.
const maxSize = 512 << 20

// Perm are the permissions of a segment's pages, with the bits of kernel/mem.
type Perm uint8

// Bits of Perm.
const (
	Read  Perm = 1
	Write Perm = 2
	Exec  Perm = 4
)

// Segment is a loadable segment. Its physical address is Addr - abi.KernelBase.
type Segment struct {
	Addr    uint64 // in the kernel mapping, even for the per-CPU template, whose symbols begin at 0
	MemSize uint64 // bytes; those after Data are zero
	Data    []byte
	Perm    Perm
}

// Jump is a jump label: an entry of __jump_table.
type Jump struct {
	Code   uint64 // address of the nop or jmp
	Target uint64
	Key    uint64 // address of the static_key
	Branch bool   // the key's low bit: the site is the likely branch
	Len    int    // 2 or 5 bytes
}

// StaticCall is a 5-byte call site: an entry of .static_call_sites.
type StaticCall struct {
	Addr uint64
	Key  uint64 // address of the static_call_key
	Tail bool   // a jmp
}

// Bug is an entry of __bug_table: a ud2 of BUG or WARN.
type Bug struct {
	Addr  uint64
	File  string
	Line  uint16
	Flags uint16 // BUGFLAG_*: 1 warning, 2 once, 4 done
}

// Ex is an entry of __ex_table.
type Ex struct {
	Insn  uint64 // instruction that may fault
	Fixup uint64 // address to continue at
	Type  int32  // EX_TYPE_* and its operands
}

// Image is a loaded ELF.
type Image struct {
	Entry       uint64
	Segments    []Segment // by address
	Symbols     []abi.Symbol
	Mcount      []uint64 // the 5-byte fentry sites, sorted
	Jumps       []Jump   // by Code
	StaticCalls []StaticCall
	Bugs        []Bug
	ExTable     []Ex
	SMPLocks    []uint64
	NoKprobe    []uint64 // _kprobe_blacklist, in the table's order
	Frames      Frames   // stack frames of C functions
	Exports     []string // exported symbols (__ksymtab_strings)

	Text        abi.Range // _stext, _etext
	InitText    abi.Range // _sinittext, _einittext
	KprobesText abi.Range
	NoinstrText abi.Range
	EntryText   abi.Range
	Thunk       abi.Range // __indirect_thunk_start, __indirect_thunk_end
	Percpu      abi.Range // __per_cpu_start, __per_cpu_end: from 0
	PercpuLoad  uint64    // __per_cpu_load: address of the template
}

// loader is an Image that is being read.
type loader struct {
	Image
	addr map[string]uint64 // symbols by name; the first one if there are several
}

// Load reads an ELF executable for x86-64. The segments' data refer to b, which must
// not be changed afterwards. Load returns ENOEXEC for an invalid file.
func Load(b []byte) (*Image, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
	}
	l := &loader{}
	for _, step := range []func() error{
		func() error { return l.header(f) },
		func() error { return l.segments(f, b) },
		func() error { return l.symbols(f) },
		func() error { l.frames(f); return nil },
		l.ranges, l.tables, l.exports,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("kernel image: %w: %w", syscall.ENOEXEC, err)
		}
	}
	return &l.Image, nil
}

func (l *loader) header(f *elf.File) error {
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || f.Machine != elf.EM_X86_64 || f.Type != elf.ET_EXEC {
		return fmt.Errorf("%v %v %v, not an x86-64 executable", f.Class, f.Machine, f.Type)
	}
	l.Entry = f.Entry
	return nil
}

func (l *loader) segments(f *elf.File, b []byte) error {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Memsz == 0 {
			continue
		}
		s, err := segment(&p.ProgHeader, b)
		if err != nil {
			return err
		}
		l.Segments = append(l.Segments, s)
	}
	slices.SortFunc(l.Segments, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := 1; i < len(l.Segments); i++ {
		if prev := &l.Segments[i-1]; prev.Addr+prev.MemSize > l.Segments[i].Addr {
			return fmt.Errorf("segments overlap at %#x", l.Segments[i].Addr)
		}
	}
	if len(l.Segments) == 0 {
		return errors.New("no segments")
	}
	return nil
}

// segment checks a program header. A segment outside of the kernel mapping is per-CPU
// data, linked at 0: it is loaded at its physical address.
func segment(p *elf.ProgHeader, b []byte) (Segment, error) {
	addr := p.Vaddr
	if addr < abi.KernelBase {
		addr = abi.KernelBase + p.Paddr
	}
	size := uint64(len(b))
	switch {
	case p.Filesz > p.Memsz || p.Off > size || p.Filesz > size-p.Off:
		return Segment{}, fmt.Errorf("segment at %#x: %#x bytes at %#x of the file, %#x in memory", p.Vaddr, p.Filesz, p.Off, p.Memsz)
	case addr < abi.TextBase || addr-abi.KernelBase > maxSize || p.Memsz > maxSize || addr-abi.KernelBase+p.Memsz > maxSize:
		return Segment{}, fmt.Errorf("segment at %#x, %#x bytes: outside of the kernel's addresses", addr, p.Memsz)
	}
	perm := Read
	if p.Flags&elf.PF_W != 0 {
		perm |= Write
	}
	if p.Flags&elf.PF_X != 0 {
		perm |= Exec
	}
	return Segment{Addr: addr, MemSize: p.Memsz, Data: b[p.Off : p.Off+p.Filesz : p.Off+p.Filesz], Perm: perm}, nil
}

// symbols reads the symbol table, without the symbols that kallsyms omits.
func (l *loader) symbols(f *elf.File) error {
	syms, err := f.Symbols()
	if err != nil {
		return err
	}
	l.addr = make(map[string]uint64, len(syms))
	l.Symbols = make([]abi.Symbol, 0, len(syms))
	for i := range syms {
		s := &syms[i]
		if s.Section == elf.SHN_UNDEF || s.Name == "" {
			continue
		}
		switch elf.ST_TYPE(s.Info) {
		case elf.STT_FILE, elf.STT_SECTION:
			continue
		}
		if _, dup := l.addr[s.Name]; !dup {
			l.addr[s.Name] = s.Value
		}
		if ignored(s.Name) {
			continue
		}
		l.Symbols = append(l.Symbols, abi.Symbol{Addr: s.Value, Type: letter(f, s), Name: s.Name})
	}
	l.Symbols = kallsyms.Sorted(l.Symbols)
	return nil
}

// ignored reports whether scripts/kallsyms omits a symbol of that name.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".L") || strings.HasPrefix(name, "$") ||
		strings.HasPrefix(name, "__crc_") || strings.HasPrefix(name, "__kstrtab_") || strings.HasPrefix(name, "__kstrtabns_")
}

// letter returns nm's letter, or A for per-CPU symbols, which kallsyms shows as
// absolute.
func letter(f *elf.File, s *elf.Symbol) byte {
	if s.Value < abi.KernelBase {
		return 'A'
	}
	bind := elf.ST_BIND(s.Info)
	if bind == elf.STB_WEAK {
		if elf.ST_TYPE(s.Info) == elf.STT_OBJECT {
			return 'V'
		}
		return 'W'
	}
	c := sectionLetter(f, s.Section)
	if bind == elf.STB_GLOBAL {
		c -= 'a' - 'A'
	}
	return c
}

func sectionLetter(f *elf.File, i elf.SectionIndex) byte {
	if int(i) >= len(f.Sections) {
		return 'a' // SHN_ABS and the like
	}
	switch s := f.Sections[i]; {
	case s.Flags&elf.SHF_EXECINSTR != 0:
		return 't'
	case s.Type == elf.SHT_NOBITS:
		return 'b'
	case s.Flags&elf.SHF_WRITE != 0:
		return 'd'
	}
	return 'r'
}

// bounds returns the range between two symbols. It is empty if the image has neither.
func (l *loader) bounds(start, end string) (abi.Range, error) {
	a, okA := l.addr[start]
	b, okB := l.addr[end]
	if okA != okB || a > b {
		return abi.Range{}, fmt.Errorf("%s is %#x, %s is %#x", start, a, end, b)
	}
	return abi.Range{Start: a, End: b}, nil
}

func (l *loader) ranges() error {
	if _, ok := l.addr["_stext"]; !ok {
		return errors.New("no _stext")
	}
	for _, r := range []struct {
		to         *abi.Range
		start, end string
	}{
		{&l.Text, "_stext", "_etext"},
		{&l.InitText, "_sinittext", "_einittext"},
		{&l.KprobesText, "__kprobes_text_start", "__kprobes_text_end"},
		{&l.NoinstrText, "__noinstr_text_start", "__noinstr_text_end"},
		{&l.EntryText, "__entry_text_start", "__entry_text_end"},
		{&l.Thunk, "__indirect_thunk_start", "__indirect_thunk_end"},
		{&l.Percpu, "__per_cpu_start", "__per_cpu_end"},
	} {
		var err error
		if *r.to, err = l.bounds(r.start, r.end); err != nil {
			return err
		}
	}
	l.PercpuLoad = l.addr["__per_cpu_load"]
	return nil
}

// Bytes returns the n bytes that the image loads at addr, or nil if it does not load
// all of them. The slice must not be modified.
func (m *Image) Bytes(addr, n uint64) []byte {
	for i := range m.Segments {
		s := &m.Segments[i]
		if off := addr - s.Addr; addr >= s.Addr && off <= uint64(len(s.Data)) && n <= uint64(len(s.Data))-off {
			return s.Data[off : off+n]
		}
	}
	return nil
}

// cstring returns the string at addr, or "".
func (m *Image) cstring(addr uint64) string {
	for i := range m.Segments {
		s := &m.Segments[i]
		if off := addr - s.Addr; addr >= s.Addr && off < uint64(len(s.Data)) {
			if n := bytes.IndexByte(s.Data[off:], 0); n >= 0 {
				return string(s.Data[off : off+uint64(n)])
			}
		}
	}
	return ""
}

// tableBounds are the start and stop symbols of the core kernel's tables, by section.
var tableBounds = map[string][2]string{
	"__mcount_loc":       {"__start_mcount_loc", "__stop_mcount_loc"},
	"__jump_table":       {"__start___jump_table", "__stop___jump_table"},
	".static_call_sites": {"__start_static_call_sites", "__stop_static_call_sites"},
	"__bug_table":        {"__start___bug_table", "__stop___bug_table"},
	"__ex_table":         {"__start___ex_table", "__stop___ex_table"},
	".smp_locks":         {"__smp_locks", "__smp_locks_end"},
	"_kprobe_blacklist":  {"__start_kprobe_blacklist", "__stop_kprobe_blacklist"},
}

func (l *loader) tables() error {
	var s Sites
	noKprobe, err := s.Read(l)
	l.Mcount, l.Jumps, l.StaticCalls, l.Bugs, l.ExTable, l.SMPLocks = s.Mcount, s.Jumps, s.StaticCalls, s.Bugs, s.ExTable, s.SMPLocks
	l.NoKprobe = noKprobe
	return err
}

// Table returns the table of that section and its address.
func (l *loader) Table(section string) (addr uint64, b []byte, err error) {
	names := tableBounds[section]
	r, err := l.bounds(names[0], names[1])
	if err != nil || r.Start == r.End {
		return 0, nil, err
	}
	if b = l.Bytes(r.Start, r.End-r.Start); b == nil {
		return 0, nil, fmt.Errorf("%s..%s: %#x bytes at %#x", names[0], names[1], r.End-r.Start, r.Start)
	}
	return r.Start, b, nil
}

// Code returns the n bytes at addr, or nil if not all of them are text.
func (l *loader) Code(addr, n uint64) []byte {
	for i := range l.Segments {
		s := &l.Segments[i]
		if s.Perm&Exec != 0 && addr >= s.Addr && addr-s.Addr <= uint64(len(s.Data)) && n <= uint64(len(s.Data))-(addr-s.Addr) {
			return s.Data[addr-s.Addr:][:n]
		}
	}
	return nil
}

// CString returns the string at addr, or "".
func (l *loader) CString(addr uint64) string { return l.cstring(addr) }

// exports reads the zero-terminated names in __ksymtab_strings.
func (l *loader) exports() error {
	r, err := l.bounds("__start___ksymtab_strings", "__stop___ksymtab_strings")
	if err != nil || r.Start == r.End {
		return err
	}
	b := l.Bytes(r.Start, r.End-r.Start)
	if b == nil {
		return fmt.Errorf("__ksymtab_strings: %#x bytes at %#x", r.End-r.Start, r.Start)
	}
	for name := range bytes.SplitSeq(b, []byte{0}) {
		if len(name) > 0 {
			l.Exports = append(l.Exports, string(name))
		}
	}
	return nil
}

// LoadWith reads an ELF executable for x86-64 whose symbols come from elsewhere: kernels are shipped
// without a symbol table. symbols gets the segments; those that it returns are in kallsyms' order.
// patch may change the segments' text, of which it gets a copy, before the tables are read. Errors of
// the two are returned as they are, and others wrap ENOEXEC.
func LoadWith(b []byte, symbols func([]Segment) ([]abi.Symbol, error), patch func(*Image, func(name string) uint64) error) (*Image, error) {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%w: not a whole ELF file: %w", syscall.ENOEXEC, err)
	}
	l := &loader{}
	if err := cmp.Or(l.header(f), l.segments(f, b)); err != nil {
		return nil, fmt.Errorf("kernel image: %w: %w", syscall.ENOEXEC, err)
	}
	if l.Symbols, err = symbols(l.Segments); err != nil {
		return nil, err
	}
	l.addr = make(map[string]uint64, len(l.Symbols))
	for _, s := range l.Symbols {
		if _, dup := l.addr[s.Name]; !dup {
			l.addr[s.Name] = s.Addr
		}
	}
	l.Symbols = kallsyms.Sized(l.Symbols)
	if err := l.ranges(); err != nil {
		return nil, fmt.Errorf("kernel image: %w: %w", syscall.ENOEXEC, err)
	}
	for i := range l.Segments {
		if s := &l.Segments[i]; s.Perm&Exec != 0 {
			s.Data = bytes.Clone(s.Data)
		}
	}
	if err := patch(&l.Image, func(name string) uint64 { return l.addr[name] }); err != nil {
		return nil, err
	}
	if err := l.tables(); err != nil {
		return nil, fmt.Errorf("kernel image: %w: %w", syscall.ENOEXEC, err)
	}
	return &l.Image, nil
}

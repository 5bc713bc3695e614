package doorbell

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// ErrText says that not all syscall instructions of a file can be replaced.
var ErrText = errors.New("a syscall instruction cannot be replaced")

// maxText is the largest size in bytes of a file's text that is disassembled.
const maxText = 256 << 20

// Text has the executable segments of a file, and their syscall instructions.
type Text struct {
	Segments []Segment
	sites    []site
}

// Segment is a part of the file that is mapped for execution.
type Segment struct {
	Offset, Addr, Size uint64 // in the file; where it is mapped, without the load bias; in bytes
}

// site is a syscall instruction.
type site struct {
	at         uint64 // its address
	start, end uint64 // of the instructions that are replaced
	number     int    // of the call, or -1 where that is not known
	stays      bool   // the instruction itself is not replaced
	before     []piece
	after      []piece
	was        []byte // what is replaced
}

// piece is an instruction that moves.
type piece struct {
	addr uint64
	code []byte
	rel  int // where its 32-bit displacement from rip is, or 0
}

// jumpLen is the length in bytes of a jump with a 32-bit displacement.
const jumpLen = 5

// Read finds the syscall instructions of an ELF file. It fails with ErrText, wrapped, where
// it cannot find or replace them all.
func Read(r io.ReaderAt) (*Text, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	if f.Machine != elf.EM_X86_64 || f.Class != elf.ELFCLASS64 {
		return &Text{}, nil // its calls are not mirrored either
	}
	t := &Text{}
	var known functions
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X == 0 {
			continue
		}
		code, err := content(p, p.Filesz)
		if err != nil {
			return nil, err
		}
		t.Segments = append(t.Segments, Segment{p.Off, p.Vaddr, p.Filesz})
		if !bytes.Contains(code, syscallInsn) {
			continue
		}
		if known == nil {
			known = findFunctions(f)
		}
		s := sweep{base: p.Vaddr, code: code, targets: newBits(len(code)), known: newBits(len(code)), sections: executableSections(f)}
		if err := s.run(known); err != nil {
			return nil, err
		}
		t.sites = append(t.sites, s.sites...)
	}
	slices.SortFunc(t.sites, func(a, b site) int { return cmp.Compare(a.at, b.at) })
	return t, nil
}

// content reads size bytes, which a damaged file may not have: then it takes no memory for them.
func content(r io.ReaderAt, size uint64) ([]byte, error) {
	switch {
	case size > maxText:
		return nil, fmt.Errorf("%d bytes of text: %w", size, ErrText)
	case size == 0:
		return nil, nil
	}
	if _, err := r.ReadAt(make([]byte, 1), int64(size-1)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	b := make([]byte, size)
	if n, err := r.ReadAt(b, 0); uint64(n) != size {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return b, nil
}

// bits is a set of offsets in a segment.
type bits []uint64

func newBits(size int) bits { return make(bits, size/64+1) }

func (b bits) add(at int) {
	if at >= 0 && at/64 < len(b) {
		b[at/64] |= 1 << (at % 64)
	}
}

func (b bits) has(at int) bool { return at >= 0 && at/64 < len(b) && b[at/64]>>(at%64)&1 != 0 }

// span is a part of a file's addresses. Where it ends may not be known: then end is start.
type span struct{ start, end uint64 }

// functions are the places of a file's functions, as its tables tell of them: one for each start, in order.
type functions []span

// findFunctions finds the functions of a file by its unwind tables, symbols and sections, or by Go's tables.
func findFunctions(f *elf.File) functions {
	var all functions
	for _, p := range f.Progs {
		if p.Type != elf.PT_GNU_EH_FRAME {
			continue
		}
		if b, err := content(p, p.Filesz); err == nil {
			all = append(all, frames(p.Vaddr, b)...)
		}
	}
	if s := f.Section(".eh_frame"); s != nil && s.Size <= maxText {
		if b, err := s.Data(); err == nil {
			all = append(all, descriptions(s.Addr, b)...)
		}
	}
	for _, of := range []func() ([]elf.Symbol, error){f.Symbols, f.DynamicSymbols} {
		symbols, err := of()
		if err != nil {
			continue
		}
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
				all = append(all, span{s.Value, s.Value + s.Size})
			}
		}
	}
	for _, s := range executableSections(f) { // such as .init, which no table tells of
		all = append(all, span{s.start, s.start})
	}
	all = append(all, goFunctions(f)...)
	// Of those that begin at one place, the longest is the first.
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	return slices.CompactFunc(all, func(a, b span) bool { return a.start == b.start })
}

// executableSections returns the sections that have code. A file may have none.
func executableSections(f *elf.File) (all []span) {
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 {
			all = append(all, span{s.Addr, s.Addr + s.Size})
		}
	}
	return all
}

// frames returns the functions in the table of .eh_frame_hdr, which is at addr. It does not say where they end.
func frames(addr uint64, b []byte) (all functions) {
	// version, encodings of the pointer to .eh_frame, of the count, and of the table
	const version, pcrel4, udata4, datarel4 = 1, 0x1b, 0x03, 0x3b
	const head, row = 12, 8
	if len(b) < head || b[0] != version || b[1] != pcrel4 || b[2] != udata4 || b[3] != datarel4 {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b[8:]))
	for rows := b[head:]; n > 0 && len(rows) >= row; n, rows = n-1, rows[row:] {
		start := addr + uint64(int64(int32(binary.LittleEndian.Uint32(rows))))
		all = append(all, span{start, start})
	}
	return all
}

// descriptions returns the functions of .eh_frame, which is at addr.
func descriptions(addr uint64, b []byte) (all functions) {
	const pcrel4 = 0x1b
	encodings := map[int]byte{} // of addresses, by the place of the common part
	for at := 0; at+12 <= len(b); {
		size := int(binary.LittleEndian.Uint32(b[at:]))
		if size < 4 || at+4+size > len(b) { // the end, or a 64-bit one
			break
		}
		entry := b[at+4 : at+4+size]
		common := int(binary.LittleEndian.Uint32(entry))
		switch {
		case common == 0:
			encodings[at] = encoding(entry)
		case len(entry) >= 12 && encodings[at+4-common] == pcrel4:
			place := addr + uint64(at+8)
			start := place + uint64(int64(int32(binary.LittleEndian.Uint32(entry[4:]))))
			all = append(all, span{start, start + uint64(binary.LittleEndian.Uint32(entry[8:]))})
		}
		at += 4 + size
	}
	return all
}

// encoding returns how a common information entry has addresses encoded, or 0 if it does not say so.
func encoding(entry []byte) byte {
	const head = 5 // an id and the version
	if len(entry) < head {
		return 0
	}
	augmentation, data, ok := bytes.Cut(entry[head:], []byte{0})
	// The two factors and the return address have a byte each, and so has the length.
	const factors = 4
	if !ok || len(augmentation) == 0 || augmentation[0] != 'z' || len(data) < factors {
		return 0
	}
	data = data[factors:]
	for _, what := range augmentation[1:] {
		if len(data) == 0 {
			return 0
		}
		const absolute = 0x0f // the part of an encoding that says how long an address is
		switch what {
		case 'R':
			return data[0]
		case 'L':
			data = data[1:]
		case 'P': // the personality routine
			n, known := map[byte]int{0: 8, 3: 4, 4: 8, 0xb: 4, 0xc: 8}[data[0]&absolute]
			if !known || len(data) < 1+n {
				return 0
			}
			data = data[1+n:]
		}
	}
	return 0
}

// goFunctions returns the functions of a Go program, which has no unwind tables of C.
func goFunctions(f *elf.File) (all functions) {
	defer func() {
		if recover() != nil { // a damaged table
			all = nil
		}
	}()
	table, text := f.Section(".gopclntab"), f.Section(".text")
	if table == nil || text == nil || table.Size > maxText {
		return nil
	}
	b, err := table.Data()
	if err != nil {
		return nil
	}
	symbols, err := gosym.NewTable(nil, gosym.NewLineTable(b, text.Addr))
	if err != nil {
		return nil
	}
	for _, f := range symbols.Funcs {
		all = append(all, span{f.Entry, f.Entry})
	}
	return all
}

// sweep is the disassembly of a segment's functions that have bytes of a syscall instruction.
type sweep struct {
	base    uint64
	code    []byte
	targets bits // places to which a branch leads from these functions
	known   bits // places of the two bytes that are within instructions that were decoded
	sites   []site
	around  []around

	sections []span // those that have code, or none
}

// around is a syscall instruction with those before it, of which the last ends where it begins.
type around struct {
	at     int
	before []int // where they begin
}

var syscallInsn = []byte{0x0f, 0x05}

func (s *sweep) run(known functions) error {
	told := s.told(known)
	for from, done := 0, 0; ; from++ {
		n := bytes.Index(s.code[from:], syscallInsn)
		if n < 0 {
			break
		}
		from += n
		if s.isData(from) {
			continue
		}
		if from >= done {
			at, size, end := s.bounds(known, from)
			switch {
			case at < 0:
				return fmt.Errorf("bytes of one at %#x, where there is no known function: %w", s.base+uint64(from), ErrText)
			case told && size > 0 && from >= at+size:
				if !s.reaches(at+size, from) {
					continue // a table between functions
				}
				first := len(s.around)
				s.function(at, end) // such as clone(2) for the child, of which unwind tables do not tell
				if slices.ContainsFunc(s.around[first:], func(a around) bool { return a.at >= at+size && s.number(a) < 0 }) {
					return fmt.Errorf("bytes of one at %#x, where code or data can be: %w", s.base+uint64(from), ErrText)
				}
				done = end
			case told && size > 0:
				s.function(at, at+size)
				done = at + size
			default:
				s.function(at, end)
				done = end
			}
		}
		if !s.known.has(from) {
			return fmt.Errorf("bytes of one at %#x, which cannot be decoded: %w", s.base+uint64(from), ErrText)
		}
	}
	for _, a := range s.around {
		site, ok := s.choose(a)
		if !ok {
			return fmt.Errorf("at %#x: %w", s.base+uint64(a.at), ErrText)
		}
		site.was = slices.Clone(s.code[site.start-s.base : site.end-s.base])
		s.sites = append(s.sites, site)
	}
	return s.entered()
}

// isData reports whether a place is in a section that has no code: linkers of old put tables and code into one segment.
func (s *sweep) isData(place int) bool {
	addr := s.base + uint64(place)
	return len(s.sections) > 0 && !slices.ContainsFunc(s.sections, func(a span) bool { return addr >= a.start && addr < a.end })
}

// told reports whether the tables tell of most code, so that what they do not tell of can be data.
func (s *sweep) told(known functions) bool {
	covered, all := uint64(0), uint64(0)
	for _, a := range s.sections {
		if a.start >= s.base && a.start < s.base+uint64(len(s.code)) {
			all += a.end - a.start
		}
	}
	last := s.base
	for _, f := range known {
		if f.start >= s.base && f.start < s.base+uint64(len(s.code)) && f.end > last {
			covered += f.end - max(f.start, last)
			last = f.end
		}
	}
	return all > 0 && covered >= all/4*3
}

// reaches reports whether the bytes from a place on, if they were instructions, would have one begin at another place.
func (s *sweep) reaches(from, place int) bool {
	for from < place {
		i, err := insn.Decode(s.code[from:])
		if err != nil {
			return false
		}
		from += i.Len
	}
	return from == place
}

// bounds returns where the function begins in which a place is, or which is the last before it, how many bytes it has,
// 0 if that is not known, and where the next one begins. at is -1 if none is known.
func (s *sweep) bounds(known functions, place int) (at, size, end int) {
	addr := s.base + uint64(place)
	i, _ := slices.BinarySearchFunc(known, addr+1, func(f span, addr uint64) int { return cmp.Compare(f.start, addr) })
	if i == 0 || known[i-1].start < s.base {
		return -1, 0, 0
	}
	f := known[i-1]
	at, end = int(f.start-s.base), len(s.code)
	if i < len(known) && known[i].start < s.base+uint64(end) {
		end = int(known[i].start - s.base)
	}
	if f.end > f.start {
		size = int(min(f.end-f.start, uint64(end-at)))
	}
	return at, size, end
}

// function decodes the instructions of a function, up to one that is none.
func (s *sweep) function(at, end int) {
	var before []int
	for at < end {
		i, err := insn.Decode(s.code[at:end])
		if err != nil {
			return
		}
		for j := at; j < at+i.Len; j++ {
			if s.code[j] == syscallInsn[0] {
				s.known.add(j)
			}
		}
		if rel, ok := i.RelBranch(); ok {
			s.targets.add(at + i.Len + int(rel))
		}
		if n := len(s.around); isSyscall(s.code[at:], &i) && (n == 0 || s.around[n-1].at < at) { // not a second time
			const most = 16
			s.around = append(s.around, around{at, slices.Clone(before[max(len(before)-most, 0):])})
		}
		before = append(before, at)
		at += i.Len
	}
}

// entered fails if a jump of another function, such as a part that is seldom executed and stands
// elsewhere, leads into what is replaced. These have 32-bit displacements.
func (s *sweep) entered() error {
	inner := map[int]bool{}
	for _, o := range s.sites {
		for at := o.start + 1; at < o.end; at++ {
			inner[int(at-s.base)] = true
		}
	}
	if len(inner) == 0 {
		return nil
	}
	for i := 1; i+4 < len(s.code); i++ {
		if s.code[i] != 0xe9 && (s.code[i]&0xf0 != 0x80 || s.code[i-1] != 0x0f) {
			continue
		}
		to := i + 5 + int(int32(binary.LittleEndian.Uint32(s.code[i+1:])))
		if to >= 0 && to < len(s.code) && inner[to] {
			return fmt.Errorf("at %#x, to which there is a jump: %w", s.base+uint64(to), ErrText)
		}
	}
	return nil
}

func isSyscall(b []byte, i *insn.Insn) bool {
	return i.Map == insn.Map0F && i.Opcode == 0x05 && i.Len == len(syscallInsn) && bytes.HasPrefix(b, syscallInsn)
}

// choose decides what is replaced. The jump is written at once if it is in one page: a tracer that is killed between
// two pages would leave half of it, at which the program would crash. A site that has no such place is refused.
func (s *sweep) choose(a around) (site, bool) {
	at := s.base + uint64(a.at)
	if n := len(a.before); n > 0 {
		from := a.before[n-1]
		// mov $nr,%eax alone makes room for the jump.
		if nr, ok := movEAX(s.code[from:a.at]); ok && s.free(from, a.at) && inPage(s.base+uint64(from)) {
			return site{at: at, start: s.base + uint64(from), end: at, number: nr, stays: true}, true
		}
	}
	o := site{at: at, start: at, end: at + uint64(len(syscallInsn)), number: s.number(a)}
	if s.extend(&o, a.at) {
		return o, true
	}
	for n := len(a.before) - 1; n >= 0; n-- {
		p, _, ok := s.piece(a.before[n])
		if !ok {
			break
		}
		o.before = append([]piece{p}, o.before...)
		o.start = p.addr
		if s.extend(&o, a.at) {
			return o, true
		}
	}
	return o, false
}

// extend adds instructions after a syscall instruction until there is room for the jump. It returns false where that
// cannot be, or no jump can be where the site begins.
func (s *sweep) extend(o *site, at int) bool {
	from, to := int(o.start-s.base), at+len(syscallInsn)
	o.after = nil
	for to-from < jumpLen {
		p, n, ok := s.piece(to)
		if !ok {
			return false
		}
		o.after = append(o.after, p)
		to += n
	}
	o.end = s.base + uint64(to)
	return s.free(from, to) && inPage(o.start)
}

// inPage reports whether a jump at an address is in one page.
func inPage(addr uint64) bool { return addr%abi.PageSize <= abi.PageSize-jumpLen }

// free reports whether no branch leads between the first byte and the end.
func (s *sweep) free(from, to int) bool {
	for i := from + 1; i < to; i++ {
		if s.targets.has(i) {
			return false
		}
	}
	return true
}

// movEAX returns the constant that an instruction moves to eax.
func movEAX(b []byte) (n int, ok bool) {
	if len(b) != jumpLen || b[0] != 0xb8 {
		return 0, false
	}
	v := binary.LittleEndian.Uint32(b[1:])
	return int(v), v < Calls
}

// number returns the number that eax has at a syscall instruction, or -1 if that cannot be told from
// the instructions before it.
func (s *sweep) number(a around) int {
	for n, next := len(a.before)-1, a.at; n >= 0 && !s.targets.has(next); n-- {
		from := a.before[n]
		b := s.code[from:next]
		if nr, ok := movEAX(b); ok {
			return nr
		}
		i, err := insn.Decode(b)
		switch {
		case err != nil:
			return -1
		case bytes.Equal(b, []byte{0x31, 0xc0}): // xor %eax,%eax
			return 0
		case !keepsRAX(&i):
			return -1
		}
		next = from
	}
	return -1
}

// keepsRAX reports whether an instruction is one of those that are known not to change rax.
func keepsRAX(i *insn.Insn) bool {
	const rax = 0
	reg, rm := i.Reg(), i.RM()
	memory := i.Mod() != 3
	switch i.Map {
	case insn.Map1:
		switch i.Opcode {
		case 0x89, 0x31, 0x29, 0x01, 0x09, 0x21: // to a register or memory
			return memory || rm != rax
		case 0x8b, 0x8d, 0x33, 0x63: // to a register
			return reg != rax
		case 0xc7, 0x83, 0x81:
			return memory || rm != rax
		case 0x39, 0x3b, 0x85, 0x84: // cmp, test
			return true
		}
		if i.Opcode > 0xb8 && i.Opcode <= 0xbf || i.Opcode == 0xb8 && i.REX&insn.RexB != 0 { // mov of a constant
			return true
		}
	case insn.Map0F:
		switch i.Opcode {
		case 0x1f, 0x11, 0x29, 0x10, 0x28, 0x6f, 0x7f: // nop, moves of vectors
			return true
		}
	}
	return false
}

// piece returns an instruction that means the same elsewhere, and its length.
func (s *sweep) piece(at int) (p piece, n int, ok bool) {
	if at >= len(s.code) {
		return p, 0, false
	}
	i, err := insn.Decode(s.code[at:])
	if err != nil || !movable(&i) || isSyscall(s.code[at:], &i) {
		return p, 0, false
	}
	p = piece{addr: s.base + uint64(at), code: slices.Clone(s.code[at : at+i.Len])}
	if i.RIPRelative() {
		p.rel = i.DispOff
	}
	return p, i.Len, true
}

// movable reports whether an instruction does not transfer control.
func movable(i *insn.Insn) bool {
	if _, branches := i.RelBranch(); branches || i.Trap() || i.IndirectJump() {
		return false
	}
	switch i.Map {
	case insn.Map1:
		switch i.Opcode {
		case 0xc2, 0xc3, 0xca, 0xcb, 0xcc, 0xcd, 0xcf, 0xf1, 0xf4, 0xff, 0xe8, 0xc8, 0xc9:
			return false
		}
	case insn.Map0F:
		switch i.Opcode {
		case 0x0b, 0x34, 0x05, 0x07, 0x35, 0xb9, 0xff:
			return false
		}
	}
	return true
}

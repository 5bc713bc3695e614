package vmlinux

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
)

// The kernel's symbols lie compressed in its read-only data, in tables without a name in the file:
// names as sequences of tokens, markers that say where each 256th name begins, the tokens and their
// index, the addresses relative to a base. They are found by what must be true of them, the tokens
// first: the digits' are the digits, since each is used and none is worth a longer token.

const (
	tokens      = 256
	markerNames = 256     // names between two markers
	maxSymbols  = 4 << 20 // a distribution's kernel has 0.15 million
)

// tables are kallsyms' tables in a segment.
type tables struct {
	data    []byte
	token   [tokens]string
	start   int // offset of kallsyms_token_table
	markers []uint32
	names   int // offset of kallsyms_names
	count   int // kallsyms_num_syms
	after   int // offset of what follows kallsyms_token_index
	before  int // offset of kallsyms_num_syms
}

// ownSymbols returns the symbols of an image's kallsyms tables.
func ownSymbols(segments []image.Segment) ([]abi.Symbol, error) {
	for i := range segments {
		if syms := symbolsIn(segments[i].Data); syms != nil {
			return syms, nil
		}
	}
	return nil, fmt.Errorf("%w: its kallsyms tables are not found (a kernel without CONFIG_KALLSYMS?); give its System.map with --symbols", ErrFormat)
}

// digits is how the tokens of the digits are stored.
var digits = []byte("0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00")

// maxTokenTables is how many tables of tokens are looked at: data may look like one by chance.
const maxTokenTables = 16

func symbolsIn(data []byte) []abi.Symbol {
	for at, tried := 0, 0; tried < maxTokenTables; {
		i := bytes.Index(data[at:], digits)
		if i < 0 {
			return nil
		}
		at += i
		if t := tablesAt(data, at); t != nil {
			tried++
			if !t.findTables(t.start) {
				at++
				continue
			}
			if syms := t.symbols(); syms != nil {
				return syms
			}
		}
		at++
	}
	return nil
}

// tablesAt returns the tokens, and their index, of which the digits' are at an offset, or nil
// if none are there.
func tablesAt(data []byte, at int) *tables {
	end := at // of the first token, after the others before the one of 0
	for range '0' - 1 {
		if end--; end <= 0 || data[end] != 0 {
			return nil
		}
		for end > 0 && data[end-1] != 0 {
			end--
		}
	}
	if end -= 2; end < 0 || data[end+1] != 0 {
		return nil
	}
	// What is before the first token need not be 0, but the table is aligned.
	for start := end &^ 7; start >= 0 && end-start < maxToken && bytes.IndexByte(data[start:end+1], 0) < 0; start -= 8 {
		if t := tokensAt(data, start); t != nil {
			return t
		}
	}
	return nil
}

// maxToken bounds the length of a token, in bytes.
const maxToken = 1024

// tokensAt returns the tokens that begin at an offset, or nil if their index does not follow.
func tokensAt(data []byte, start int) *tables {
	t := &tables{data: data, start: start}
	var index [tokens]uint16
	pos := start
	for i := range t.token {
		n := bytes.IndexByte(data[pos:min(pos+maxToken, len(data))], 0)
		if n < 1 || pos-start > 1<<16-1 {
			return nil
		}
		index[i] = uint16(pos - start)
		t.token[i] = string(data[pos : pos+n])
		pos += n + 1
	}
	pos = aligned(pos)
	if pos+2*tokens > len(data) {
		return nil
	}
	for i, want := range index {
		if binary.LittleEndian.Uint16(data[pos+2*i:]) != want {
			return nil
		}
	}
	t.after = aligned(pos + 2*tokens)
	return t
}

// aligned rounds up to the alignment of the tables.
func aligned(n int) int { return (n + 7) &^ 7 }

// findTables finds markers and names before the tokens, which begin at end. Kernels since 6.2, and
// updates of older ones, have the sequence numbers of the sorted names between: three bytes a symbol.
func (t *tables) findTables(end int) bool {
	if t.markersBefore(end) && t.findNames(0) {
		return true
	}
	for at := end - 8; at > 16 && end-at < 3*maxSymbols; at -= 8 {
		n := (end - at) / 3 // at most 2 too many
		if t.markersBefore(at) && len(t.markers) == (n+markerNames-1)/markerNames && t.findNames(n) {
			return true
		}
	}
	return false
}

// markersBefore reads the markers that end at an offset, after which the tables are aligned.
func (t *tables) markersBefore(end int) bool {
	if end >= 8 && binary.LittleEndian.Uint32(t.data[end-4:]) == 0 { // padding
		end -= 4
	}
	last := uint32(maxSymbols * 16)
	for off := end - 4; off >= 0; off -= 4 {
		v := binary.LittleEndian.Uint32(t.data[off:])
		if v >= last || off < end-8 && last-v > markerNames*512 {
			return false
		}
		if last = v; v == 0 {
			t.markers = t.markers[:0]
			for ; off < end; off += 4 {
				t.markers = append(t.markers, binary.LittleEndian.Uint32(t.data[off:]))
			}
			t.names = end - 4*len(t.markers) // for findNames: the end of the names
			return len(t.markers) > 1
		}
	}
	return false
}

// findNames finds the names, which end where the markers begin, by the number of symbols before them:
// it is known but for 2, or not at all.
func (t *tables) findNames(known int) bool {
	end := t.names
	most := len(t.markers) * markerNames
	lastBlock := int(t.markers[len(t.markers)-1])
	for start := (end - lastBlock) &^ 7; start >= 8 && end-start-lastBlock < markerNames*512; start -= 8 {
		n := int(binary.LittleEndian.Uint32(t.data[start-8:]))
		if n > most || n <= most-markerNames || binary.LittleEndian.Uint32(t.data[start-4:]) != 0 || known != 0 && known-n > 3 {
			continue
		}
		if stop, ok := t.walk(start, n); ok && stop <= end && end-stop < 8 {
			t.names, t.count, t.before = start, n, start-8
			return true
		}
	}
	return false
}

// walk goes over n names from an offset, and returns the one after them.
func (t *tables) walk(off, n int) (end int, ok bool) {
	start := off
	for i := range n {
		if i%markerNames == 0 && uint32(off-start) != t.markers[i/markerNames] {
			return 0, false
		}
		size, at := t.nameAt(off)
		if off = at + size; size == 0 || off > len(t.data) {
			return 0, false
		}
	}
	return off, true
}

// nameAt returns the number of tokens of the name at an offset, and where they begin: since 6.1 long
// names have a length of two bytes.
func (t *tables) nameAt(off int) (n, at int) {
	if off+1 >= len(t.data) {
		return 0, off
	}
	if n = int(t.data[off]); n&0x80 != 0 {
		return n&0x7f | int(t.data[off+1])<<7, off + 2
	}
	return n, off + 1
}

// symbols decodes the names and the addresses.
func (t *tables) symbols() []abi.Symbol {
	addrs := t.addresses()
	if addrs == nil {
		return nil
	}
	syms := make([]abi.Symbol, 0, t.count)
	off := t.names
	var name []byte
	for i := range t.count {
		n, at := t.nameAt(off)
		name = name[:0]
		for _, c := range t.data[at : at+n] {
			name = append(name, t.token[c]...)
		}
		if off = at + n; len(name) < 2 {
			return nil
		}
		syms = append(syms, abi.Symbol{Addr: addrs[i], Type: name[0], Name: string(name[1:])})
	}
	return syms
}

// addresses returns the symbols' addresses. Up to 6.3 offsets and base lie before the number of
// symbols, since 6.4 after the tokens' index.
func (t *tables) addresses() []uint64 {
	size := aligned(4 * t.count)
	if base := t.before - 8; base-size >= 0 {
		if a := t.relative(base-size, base); a != nil {
			return a
		}
	}
	if t.after+size+8 <= len(t.data) {
		return t.relative(t.after, t.after+size)
	}
	return nil
}

// relative returns addresses from offsets and a base. An offset below 0 is relative to the base, others
// are absolute: the values of per-CPU symbols.
func (t *tables) relative(offsets, base int) []uint64 {
	from := binary.LittleEndian.Uint64(t.data[base:])
	if from < abi.KernelBase {
		return nil
	}
	addrs := make([]uint64, t.count)
	for i := range addrs {
		if v := int32(binary.LittleEndian.Uint32(t.data[offsets+4*i:])); v < 0 {
			addrs[i] = from - 1 - uint64(int64(v))
		} else {
			addrs[i] = uint64(v)
		}
	}
	text := 0
	for _, a := range addrs {
		if a >= abi.TextBase {
			text++
		}
	}
	if 2*text < t.count {
		return nil
	}
	return addrs
}

// mapSymbols parses a System.map or a copy of /proc/kallsyms: "ADDRESS LETTER NAME" lines.
func mapSymbols(b []byte) ([]abi.Symbol, error) {
	var syms []abi.Symbol
	n := 0
	for line := range bytes.Lines(b) {
		n++
		f := bytes.Fields(line)
		if len(f) > 3 || len(f) == 0 { // of a module, or empty
			continue
		}
		var addr uint64
		if _, err := fmt.Sscanf(string(f[0]), "%x", &addr); err != nil || len(f) < 3 || len(f[1]) != 1 {
			return nil, fmt.Errorf("%w: line %d of the symbols is not \"ADDRESS LETTER NAME\"", ErrFormat, n)
		}
		syms = append(syms, abi.Symbol{Addr: addr, Type: f[1][0], Name: string(f[2])})
	}
	if !slices.ContainsFunc(syms, func(s abi.Symbol) bool { return s.Addr != 0 && s.Name == "_stext" }) {
		return nil, fmt.Errorf("%w: the symbols have no address of _stext (Debian's System.map is a stub; /proc/kallsyms needs root)", ErrFormat)
	}
	return syms, nil
}

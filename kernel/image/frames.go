package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// Frames returns the distance from the stack pointer to the return address for each
// address in C code. It is made from the call frame information in .eh_frame, which
// the guest is built with but does not load, and serves as Linux's ORC tables do.
//
// Only frames relative to the stack pointer are supported: the guest is built without
// frame pointers.
type Frames struct {
	rows func() []frameRow // by address; nil means none
}

// frameRow is valid from addr up to the next row.
type frameRow struct {
	addr uint64
	size int32 // bytes from the stack pointer to the end of the return address, 0 if unknown
}

// Size returns the number of bytes from the stack pointer at addr to the end of the
// return address of addr's function. It returns false if addr is not in C code.
func (f *Frames) Size(addr uint64) (uint64, bool) {
	if f.rows == nil {
		return 0, false
	}
	rows := f.rows()
	i := sort.Search(len(rows), func(i int) bool { return rows[i].addr > addr }) - 1
	if i < 0 || rows[i].size == 0 {
		return 0, false
	}
	return uint64(rows[i].size), true
}

// ReadFrames reads an .eh_frame section that is linked at addr. It supports only the
// forms that gcc emits for the guest's sources.
func ReadFrames(addr uint64, b []byte) (Frames, error) {
	r := frameReader{b: b, base: addr}
	rows, err := r.read()
	if err != nil {
		return Frames{}, fmt.Errorf(".eh_frame at %#x: %w", r.pos, err)
	}
	return newFrames(rows), nil
}

func newFrames(rows []frameRow) Frames { return Frames{func() []frameRow { return rows }} }

// frames has .eh_frame, if there is one, read when it is needed first: that takes a tenth
// of the time from the start of the program to its files, and only stack traces need it.
// An image whose .eh_frame cannot be read has none; a test looks at the guest's.
func (l *loader) frames(f *elf.File) {
	s := f.Section(".eh_frame")
	if s == nil {
		return
	}
	l.Frames = Frames{sync.OnceValue(func() []frameRow {
		b, err := s.Data()
		if err != nil {
			return nil
		}
		f, err := ReadFrames(s.Addr, b)
		if err != nil {
			return nil
		}
		return f.rows()
	})}
}

// frameReader reads the entries of an .eh_frame.
type frameReader struct {
	b    []byte
	base uint64
	pos  int // offset of the current entry
	rows []frameRow
}

var errFrame = errors.New("unsupported call frame information")

func (r *frameReader) read() ([]frameRow, error) {
	for r.pos+4 <= len(r.b) {
		n := int(binary.LittleEndian.Uint32(r.b[r.pos:]))
		if n == 0 { // end of one object file's entries
			r.pos += 4
			continue
		}
		if n < 4 || n > len(r.b)-r.pos-4 {
			return nil, errFrame
		}
		body := r.b[r.pos+4 : r.pos+4+n]
		id := binary.LittleEndian.Uint32(body)
		if id != 0 {
			if err := r.fde(body, int(id)); err != nil {
				return nil, err
			}
		}
		r.pos += 4 + n
	}
	slices.SortFunc(r.rows, func(a, b frameRow) int {
		// A function may begin where another one ends.
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.size, b.size))
	})
	return r.rows, nil
}

// cie is the only common information entry that gcc emits: version 1, augmentation
// "zR", 4-byte pc-relative addresses; at function entry the CFA is rsp + 8.
var cie = []byte{1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, cfaDef, regRSP, 8, cfaOffset | 16, 1}

// Opcodes of call frame instructions, and registers.
const (
	cfaAdvance   = 0x40 // low 6 bits: bytes
	cfaOffset    = 0x80 // low 6 bits: register
	cfaRestore   = 0xc0
	cfaNop       = 0x00
	cfaAdvance1  = 0x02
	cfaAdvance2  = 0x03
	cfaAdvance4  = 0x04
	cfaRemember  = 0x0a
	cfaRestoreSt = 0x0b
	cfaDef       = 0x0c
	cfaDefOffset = 0x0e

	regRSP = 7
)

// fde reads the entry of one function. id is the distance back to its CIE in bytes.
func (r *frameReader) fde(body []byte, id int) error {
	at := r.pos + 4 - id // of the CIE
	if at < 0 || at+8+len(cie) > len(r.b) || string(r.b[at+8:at+8+len(cie)]) != string(cie) || len(body) < 13 {
		return errFrame
	}
	addr := r.base + uint64(r.pos+8) + uint64(int64(int32(binary.LittleEndian.Uint32(body[4:]))))
	end := addr + uint64(binary.LittleEndian.Uint32(body[8:]))
	if body[12] != 0 { // augmentation data
		return errFrame
	}
	f := frameProgram{addr: addr, size: 8, rows: r.rows}
	f.row()
	if err := f.run(body[13:]); err != nil {
		return err
	}
	r.rows = append(f.rows, frameRow{end, 0})
	return nil
}

// frameProgram executes the call frame instructions of a function.
type frameProgram struct {
	addr  uint64
	size  uint64
	saved []uint64
	rows  []frameRow
}

func (f *frameProgram) row() {
	if n := len(f.rows); n > 0 && f.rows[n-1].addr == f.addr {
		f.rows = f.rows[:n-1]
	}
	f.rows = append(f.rows, frameRow{f.addr, int32(min(f.size, 1<<20))})
}

func (f *frameProgram) run(p []byte) error {
	for len(p) > 0 {
		op := p[0]
		p = p[1:]
		width := 0
		switch op & 0xc0 {
		case cfaAdvance:
			f.addr += uint64(op &^ 0xc0)
			continue
		case cfaOffset: // where a register is saved
			_, n := binary.Uvarint(p)
			if n <= 0 {
				return errFrame
			}
			p = p[n:]
			continue
		case cfaRestore:
			continue
		}
		switch op {
		case cfaNop:
		case cfaAdvance1:
			width = 1
		case cfaAdvance2:
			width = 2
		case cfaAdvance4:
			width = 4
		case cfaRemember:
			f.saved = append(f.saved, f.size)
		case cfaRestoreSt:
			if len(f.saved) == 0 {
				return errFrame
			}
			f.size, f.saved = f.saved[len(f.saved)-1], f.saved[:len(f.saved)-1]
			f.row()
		case cfaDefOffset:
			v, n := binary.Uvarint(p)
			if n <= 0 {
				return errFrame
			}
			f.size, p = v, p[n:]
			f.row()
		default:
			return errFrame
		}
		if width > len(p) {
			return errFrame
		}
		var b [4]byte
		copy(b[:], p[:width])
		f.addr += uint64(binary.LittleEndian.Uint32(b[:]))
		p = p[width:]
	}
	return nil
}

package module

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"syscall"
)

// relaSize is the size of an Elf64_Rela, bytes.
const relaSize = 24

// relocate applies the SHT_RELA sections of all loaded sections. values are the values
// of the symbols by their ELF index. The error is ENOEXEC if a value does not fit or a
// relocation's type is unknown.
func (o *object) relocate(at *[areas]placed, values []uint64) error {
	for i := range o.sections {
		r := &o.sections[i]
		if r.Type != elf.SHT_RELA && r.Type != elf.SHT_REL || int(r.Info) >= len(o.sections) {
			continue
		}
		s := &o.sections[r.Info]
		text := s.own
		if s.area != noArea {
			text = at[s.area].bytes[s.off : s.off+s.Size]
		}
		if text == nil {
			continue // not loaded
		}
		if r.Type == elf.SHT_REL {
			return fmt.Errorf("%s: relocations without addends: %w", r.Name, syscall.ENOEXEC)
		}
		for b := r.data; len(b) >= relaSize; b = b[relaSize:] {
			rel := relocation{
				off: binary.LittleEndian.Uint64(b), info: binary.LittleEndian.Uint64(b[8:]),
				addend: binary.LittleEndian.Uint64(b[16:]),
			}
			i := int(rel.symbol())
			if i >= len(values) {
				return fmt.Errorf("symbol %d of %d: %w", i, len(values), syscall.ENOEXEC)
			}
			if err := rel.apply(text, s.addr, values[i]); err != nil {
				return fmt.Errorf("%s: %w: %w", s.Name, syscall.ENOEXEC, err)
			}
		}
	}
	return nil
}

// relocation is an Elf64_Rela.
type relocation struct{ off, info, addend uint64 }

func (r relocation) symbol() uint32 { return uint32(r.info >> 32) }

// apply writes one relocation into text, a section at address addr.
func (r relocation) apply(text []byte, addr, value uint64) error {
	kind := elf.R_X86_64(uint32(r.info))
	v, place := value+r.addend, addr+r.off
	size, fits := 4, true
	switch kind {
	case elf.R_X86_64_NONE:
		return nil
	case elf.R_X86_64_64:
		size = 8
	case elf.R_X86_64_PC64:
		size, v = 8, v-place
	case elf.R_X86_64_32:
		fits = v == uint64(uint32(v))
	case elf.R_X86_64_32S:
		fits = v == uint64(int64(int32(v)))
	case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
		v -= place // a module is near the kernel: no procedure linkage table
		fits = v == uint64(int64(int32(v)))
	default:
		return fmt.Errorf("unknown relocation type %d", uint32(kind))
	}
	if r.off > uint64(len(text)) || uint64(len(text))-r.off < uint64(size) {
		return fmt.Errorf("a relocation at %#x of %#x bytes", r.off, len(text))
	}
	if !fits {
		return fmt.Errorf("overflow in relocation type %d val %x", uint32(kind), value+r.addend)
	}
	if size == 8 {
		binary.LittleEndian.PutUint64(text[r.off:], v)
	} else {
		binary.LittleEndian.PutUint32(text[r.off:], uint32(v))
	}
	return nil
}

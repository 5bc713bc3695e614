package source

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Bounds for objects of modules.
const (
	mostObjects     = 16              // whose lines are kept
	mostObjectLines = 1 << 19         // of one
	mostTime        = 5 * time.Second // in which one is read: some milliseconds are usual
	mostRelocations = 16 << 20        // bytes of them in one, which is as long as an object can be
)

// Modules has the lines of modules, which it reads from the objects in machine/modules. Only debug
// information that is not compressed is read; the emulated kernel loads no other.
type Modules struct {
	find Finder
	seed maphash.Seed

	mu    sync.Mutex
	known []*loaded // the latest last
}

// loaded is an object where it was loaded.
type loaded struct {
	table
	module string
	key    uint64 // over the object and the addresses of its sections
}

// NewModules returns the lines of modules. Their sources are read by find.
func NewModules(find Finder) *Modules { return &Modules{find: find, seed: maphash.MakeSeed()} }

// Add gives instructions of modules' functions their lines. It returns how many functions have lines now. A
// module without debug information, or whose files may not be read, has none.
func (m *Modules) Add(read look.ReadFile, functions []look.Function) (n int) {
	for _, f := range functions {
		if f.Module == "" || len(f.Instructions) == 0 || strings.Trim(f.Instructions[0].Address, "0") == "" { // hidden
			continue
		}
		if o := m.object(read, f.Module); o != nil && o.add(f) {
			n++
		}
	}
	return n
}

// object returns the lines of a module, or nil.
func (m *Modules) object(read look.ReadFile, module string) *loaded {
	if strings.ContainsAny(module, "/\x00") {
		return nil
	}
	b, err := read("machine/modules/" + module + ".ko")
	if err != nil {
		return nil
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	bases, key := m.bases(read, module, f), maphash.Hash{}
	key.SetSeed(m.seed)
	_, _ = key.Write(b)
	for _, base := range bases {
		maphash.WriteComparable(&key, base)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, o := range m.known {
		if o.module == module && o.key == key.Sum64() {
			return o
		}
	}
	o := &loaded{table: table{functions: map[string][]uint64{}, files: map[int]file{}, find: m.find}, module: module, key: key.Sum64()}
	if err := o.readObject(f, bases); err != nil {
		o.rows = nil // none rather than half of them; it is not read again
	}
	m.known = slices.DeleteFunc(m.known, func(old *loaded) bool { return old.module == module })
	if m.known = append(m.known, o); len(m.known) > mostObjects {
		m.known = slices.Delete(m.known, 0, 1)
	}
	return o
}

// bases returns where the sections of an object with instructions are, by their numbers; 0 for others.
func (m *Modules) bases(read look.ReadFile, module string, f *elf.File) []uint64 {
	bases := make([]uint64, len(f.Sections))
	for i, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR == 0 || strings.ContainsAny(s.Name, "/\x00") {
			continue
		}
		text, err := read("sys/module/" + module + "/sections/" + s.Name)
		if err != nil {
			continue
		}
		bases[i], _ = strconv.ParseUint(strings.TrimSpace(string(text)), 0, 64) // else 0
	}
	return bases
}

// readObject reads the functions and the lines of an object.
func (o *loaded) readObject(f *elf.File, bases []uint64) error {
	symbols, err := f.Symbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && int(s.Section) < len(bases) && bases[s.Section] != 0 {
			o.functions[s.Name] = append(o.functions[s.Name], bases[s.Section]+s.Value)
		}
	}
	sections, err := debugSections(f, symbols, bases)
	if err != nil {
		return err
	}
	d, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], sections["line"], nil, sections["ranges"], sections["str"])
	if err != nil {
		return err
	}
	for _, name := range []string{"addr", "line_str", "rnglists", "str_offsets"} {
		if err := d.AddSection(".debug_"+name, sections[name]); err != nil {
			return err
		}
	}
	return o.read(d, bounds{lines: mostObjectLines, bytes: max(len(sections["info"]), 1), until: time.Now().Add(mostTime)})
}

// wanted are the sections that lines are read from.
var wanted = []string{"abbrev", "addr", "info", "line", "line_str", "ranges", "rnglists", "str", "str_offsets"}

// debugSections returns the sections of debug information of an object, relocated to where its
// instructions are.
func debugSections(f *elf.File, symbols []elf.Symbol, bases []uint64) (map[string][]byte, error) {
	all, left := map[string][]byte{}, uint64(mostRelocations)
	for i, s := range f.Sections {
		name, ok := strings.CutPrefix(s.Name, ".debug_")
		if !ok || !slices.Contains(wanted, name) || s.Type == elf.SHT_NOBITS || s.Flags&elf.SHF_COMPRESSED != 0 || all[name] != nil {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return nil, err
		}
		for _, r := range f.Sections {
			if r.Type == elf.SHT_RELA && int(r.Info) == i {
				if r.Size > left {
					return nil, errDamaged
				}
				left -= r.Size
				if err := relocate(b, r, symbols, bases); err != nil {
					return nil, fmt.Errorf("%s: %w", r.Name, err)
				}
			}
		}
		all[name] = b
	}
	return all, nil
}

// relocate applies relocations: those that debug information has are addresses and offsets.
func relocate(b []byte, r *elf.Section, symbols []elf.Symbol, bases []uint64) error {
	data, err := r.Data()
	if err != nil {
		return err
	}
	for ; len(data) >= relaSize; data = data[relaSize:] {
		off, info, value := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]), binary.LittleEndian.Uint64(data[16:])
		if n := elf.R_SYM64(info); n > 0 {
			if int(n) > len(symbols) {
				return errDamaged
			}
			s := symbols[n-1]
			value += s.Value
			if int(s.Section) < len(bases) {
				value += bases[s.Section]
			}
		}
		switch t := elf.R_X86_64(elf.R_TYPE64(info)); {
		case t == elf.R_X86_64_NONE:
		case t == elf.R_X86_64_64 && off <= uint64(len(b)) && uint64(len(b))-off >= 8:
			binary.LittleEndian.PutUint64(b[off:], value)
		case (t == elf.R_X86_64_32 || t == elf.R_X86_64_32S) && off <= uint64(len(b)) && uint64(len(b))-off >= 4:
			binary.LittleEndian.PutUint32(b[off:], uint32(value))
		case t == elf.R_X86_64_64 || t == elf.R_X86_64_32 || t == elf.R_X86_64_32S:
			return errDamaged
		default: // of calls and the like: nothing that is read here
		}
	}
	return nil
}

// relaSize is the size of Elf64_Rela, bytes.
const relaSize = 24

package module

import (
	"debug/elf"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// Static is a module as it lies in memory once it has been loaded, for questions about its text: no
// machine runs it.
type Static struct {
	Name     string
	Segments []image.Segment // its areas; the text may be changed until Finish
	Sites    *image.Sites    // set by Finish
	Symbols  []abi.Symbol    // those that stay when init is done, set by Finish
	Areas    []abi.Range     // of core

	object *object
	module *module
	symbol func(string) (uint64, bool)
}

// PlaceStatic lays a module out from an address on, and relocates it. symbol returns the addresses of
// the kernel's symbols; for those that it does not have the module's address is taken. It fails with
// ENOEXEC when ko is no module.
func PlaceStatic(ko []byte, base uint64, symbol func(name string) (addr uint64, ok bool)) (*Static, error) {
	o, err := parse(ko)
	if err != nil {
		return nil, err
	}
	m := &module{exports: map[string]uint64{}}
	m.name = o.name()
	if err := o.layout(&m.at, false, false); err != nil {
		return nil, err
	}
	s := &Static{Name: m.name, object: o, module: m, symbol: symbol}
	var bases [areas]uint64
	next := base
	for a := range m.at {
		if m.at[a].size == 0 {
			continue
		}
		bases[a], m.at[a].start = next, next
		next += m.at[a].pages() * abi.PageSize
	}
	o.place(&m.at, bases)
	if err := s.relocate(base); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	for a := range m.at {
		if p := &m.at[a]; p.size > 0 {
			p.bytes = append(p.bytes, make([]byte, p.pages()*abi.PageSize-p.size)...) // the last symbol extends to there
			if a+1 < len(m.at) && p.start+p.pages()*abi.PageSize == m.at[a+1].start { // an instruction may extend to the next page
				p.bytes = append(p.bytes, m.at[a+1].bytes[:min(insn.MaxLen, len(m.at[a+1].bytes))]...)
			}
			s.Segments = append(s.Segments, image.Segment{Addr: p.start, MemSize: p.pages() * abi.PageSize, Data: p.bytes, Perm: perms[a]})
		}
	}
	s.Areas = m.coreRanges()
	return s, nil
}

func (s *Static) relocate(base uint64) error {
	o := s.object
	values := make([]uint64, len(o.symbols)+1)
	for i := range o.symbols {
		sym := &o.symbols[i]
		values[i+1] = base
		if sym.Section == elf.SHN_UNDEF {
			if addr, ok := s.symbol(sym.Name); ok {
				values[i+1] = addr
			}
			continue
		}
		v, err := o.define(sym)
		if err != nil {
			return fmt.Errorf("%w: %w", syscall.ENOEXEC, err)
		}
		values[i+1] = v
	}
	o.values = values
	return o.relocate(&s.module.at, values)
}

// Section returns the address and the contents of a section, which are zero if it is not loaded.
func (s *Static) Section(name string) (addr uint64, b []byte) {
	addr, b, _ = source{s.module, s.object}.Table(name)
	return addr, b
}

// Finish reads the module's tables once its text has been patched, and its symbols.
func (s *Static) Finish() error {
	key := func(name string) uint64 { addr, _ := s.symbol(name); return addr }
	if err := s.module.tables(s.object, false, key); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	s.Sites, s.Symbols = s.module.sites, s.module.core
	return nil
}

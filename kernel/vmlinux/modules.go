package vmlinux

import (
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// moduleBase is where the first module is laid out, as by module_alloc without KASLR.
const moduleBase = 0xffffffffc0000000

// moduleTables are the sections of a module that stand for what the kernel has between two symbols.
var moduleTables = map[string]string{
	"__retpoline_sites": ".retpoline_sites", "__return_sites": ".return_sites", "__alt_instructions": ".altinstructions", "__parainstructions": ".parainstructions",
	"__start_mcount_loc": "__mcount_loc", "__start_static_call_sites": ".static_call_sites", "__start___jump_table": "__jump_table", "__ibt_endbr_seal": ".ibt_endbr_seal",
}

// moduleEnds are the symbols at the ends of these tables.
var moduleEnds = map[string]string{
	"__retpoline_sites_end": "__retpoline_sites", "__return_sites_end": "__return_sites", "__alt_instructions_end": "__alt_instructions", "__parainstructions_end": "__parainstructions",
	"__stop_mcount_loc": "__start_mcount_loc", "__stop_static_call_sites": "__start_static_call_sites", "__stop___jump_table": "__start___jump_table", "__ibt_endbr_seal_end": "__ibt_endbr_seal",
}

// AddModule adds a module, a .ko file that may be compressed, as it is when its init function has
// returned. It returns the module's name. It fails with an ErrFormat when the file is no module, and
// with EEXIST when the module has been added.
func (k *Kernel) AddModule(ko []byte) (name string, err error) {
	if compression(ko) != nil {
		if ko, err = decompress(ko); err != nil {
			return "", err
		}
	}
	base := uint64(moduleBase)
	for i := range k.Image.Segments {
		if s := &k.Image.Segments[i]; s.Addr >= base {
			base = (s.Addr + s.MemSize + abi.PageSize - 1) &^ (abi.PageSize - 1)
		}
	}
	symbol := func(name string) (uint64, bool) {
		syms := k.Symbols.LookupName(name)
		if len(syms) == 0 {
			return 0, false
		}
		return syms[0].Addr, true
	}
	s, err := module.PlaceStatic(ko, base, symbol)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if last := s.Segments[len(s.Segments)-1]; last.Addr+last.MemSize > moduleBase+maxModules {
		return "", fmt.Errorf("%w: there is no room for the module %s", ErrFormat, s.Name)
	}
	addr := func(name string) uint64 {
		if start, ok := moduleEnds[name]; ok {
			at, b := s.Section(moduleTables[start])
			return at + uint64(len(b))
		}
		if section, ok := moduleTables[name]; ok {
			at, _ := s.Section(section)
			return at
		}
		at, _ := symbol(name)
		return at
	}
	whole := &image.Image{Segments: append(append([]image.Segment(nil), s.Segments...), k.Image.Segments...)}
	if err := k.patch(whole, addr); err != nil {
		return "", fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := s.Finish(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if err := k.Symbols.AddModule(s.Name, s.Areas, s.Symbols); err != nil {
		return "", err
	}
	if err := k.Tables.AddModule(s.Sites); err != nil {
		return "", err
	}
	k.Tables.InitDone(s.Name)
	k.Image.Segments = append(k.Image.Segments, s.Segments...)
	if k.modules == nil {
		k.modules, k.ModuleBTF = map[string]*module.Static{}, map[string][]byte{}
	}
	k.modules[s.Name] = s
	if b := section(ko, ".BTF"); b != nil {
		k.ModuleBTF[s.Name] = b
	}
	return s.Name, nil
}

// ModuleSection returns where a section of a module that has been added is, and its size in bytes; 0 if
// there is none of that name.
func (k *Kernel) ModuleSection(name, section string) (addr, size uint64) {
	s := k.modules[name]
	if s == nil {
		return 0, 0
	}
	addr, b := s.Section(section)
	return addr, uint64(len(b))
}

// maxModules is the room for modules, in bytes.
const maxModules = 0x3f000000

// Package kallsyms looks up the kernel's symbols by name and by address, and lists
// them as /proc/kallsyms does: the core kernel's in kallsyms order, then
// each module's, newest module first.
//
// A look-up reads an immutable snapshot and takes no lock, so a trap handler on a
// vCPU may use it. Adding and removing a module creates a new snapshot.
//
// Sizes are not the ELF file's: as on Linux, a symbol extends to the next one
// with a higher address, padding included.
package kallsyms

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Table holds the symbols of one machine.
type Table struct {
	mu   sync.Mutex // serializes writers
	snap atomic.Pointer[snapshot]
}

// snapshot is immutable: the core kernel's symbols, then modules', newest
// first. freed are functions of modules' init text that is no longer there.
type snapshot struct{ tables, freed []*symbols }

// symbols are the symbols of the core kernel or of a module. They are immutable.
type symbols struct {
	module string
	listed []abi.Symbol        // in /proc/kallsyms' order
	all    []abi.Symbol        // by address, aliases in the order of listed
	byName func() []abi.Symbol // all by name, symbols of one name in the order of all; made by the first call
}

// New returns a table of the core kernel's symbols, which must have an empty Module.
// It sorts a copy of them (Sort) and sets the sizes.
func New(syms []abi.Symbol) *Table {
	t := &Table{}
	t.snap.Store(&snapshot{tables: []*symbols{newSymbols("", Sorted(syms))}})
	return t
}

// Sorted returns symbols of the core kernel as a Table has them: sorted (Sort), and with
// sizes.
func Sorted(syms []abi.Symbol) []abi.Symbol {
	all := slices.Clone(syms)
	Sort(all)
	setSizes(all, nil)
	return all
}

// Sized returns symbols of the core kernel that are in kallsyms' order already, with sizes.
func Sized(syms []abi.Symbol) []abi.Symbol {
	all := slices.Clone(syms)
	slices.SortStableFunc(all, byAddr)
	setSizes(all, nil)
	return all
}

// NewSized returns a table of such symbols.
func NewSized(syms []abi.Symbol) *Table {
	t := &Table{}
	t.snap.Store(&snapshot{tables: []*symbols{newSymbols("", syms)}})
	return t
}

// NewText returns the table of a kernel without CONFIG_KALLSYMS_ALL: only symbols in
// the given ranges of text. Of the symbols at the end of a range only _etext and
// _einittext are kept, with size 0.
func NewText(syms []abi.Symbol, text ...abi.Range) *Table {
	var kept []abi.Symbol
	for _, s := range syms {
		if slices.ContainsFunc(text, func(r abi.Range) bool { return r.Contains(s.Addr) || r.End == s.Addr && isEnd(s.Name) }) {
			kept = append(kept, s)
		}
	}
	t := New(kept)
	all := t.snap.Load().tables[0].all
	for i := range all {
		if slices.ContainsFunc(text, func(r abi.Range) bool { return r.End == all[i].Addr }) {
			all[i].Size = 0
		}
	}
	t.snap.Store(&snapshot{tables: []*symbols{newSymbols("", all)}})
	return t
}

func isEnd(name string) bool { return name == "_etext" || name == "_einittext" }

// Sort sorts symbols into kallsyms order: by address, then weak symbols last, section
// bounds (__start_, __stop_, __end_) last, by the number of leading underscores, and
// by name.
func Sort(syms []abi.Symbol) { sortBy(syms, kallsymsOrder) }

func kallsymsOrder(a, b *abi.Symbol) int {
	if a.Addr != b.Addr {
		return cmp.Compare(a.Addr, b.Addr)
	}
	return cmp.Or(
		cmp.Compare(btoi(a.Type == 'W' || a.Type == 'w'), btoi(b.Type == 'W' || b.Type == 'w')),
		cmp.Compare(btoi(isBound(a.Name)), btoi(isBound(b.Name))),
		cmp.Compare(underscores(a.Name), underscores(b.Name)),
		strings.Compare(a.Name, b.Name),
	)
}

// sortBy sorts symbols and keeps the order of equal ones. A symbol is large, so numbers
// are sorted in its place.
func sortBy(syms []abi.Symbol, compare func(a, b *abi.Symbol) int) {
	order := make([]int32, len(syms))
	sorted := true
	for i := range order {
		order[i] = int32(i)
		sorted = sorted && (i == 0 || compare(&syms[i-1], &syms[i]) <= 0)
	}
	if sorted {
		return
	}
	slices.SortFunc(order, func(a, b int32) int {
		if c := compare(&syms[a], &syms[b]); c != 0 {
			return c
		}
		return cmp.Compare(a, b)
	})
	was := slices.Clone(syms)
	for i, from := range order {
		syms[i] = was[from]
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func isBound(name string) bool {
	return strings.HasPrefix(name, "__start_") || strings.HasPrefix(name, "__stop_") || strings.HasPrefix(name, "__end_")
}

func underscores(name string) int { return len(name) - len(strings.TrimLeft(name, "_")) }

// setSizes sets the sizes of sorted symbols. A symbol in one of the areas ends at the
// area's end at the latest. Outside of areas the last symbol has size 0.
func setSizes(all []abi.Symbol, areas []abi.Range) {
	var next uint64 // the lowest address above the current one
	for i := len(all) - 1; i >= 0; i-- {
		s := &all[i]
		if i+1 < len(all) && all[i+1].Addr != s.Addr {
			next = all[i+1].Addr
		}
		end := next
		for _, a := range areas {
			if a.Contains(s.Addr) && (end == 0 || end > a.End) {
				end = a.End
			}
		}
		s.Size = 0
		if end > s.Addr {
			s.Size = end - s.Addr
		}
	}
}

// newSymbols indexes a list of symbols, given in the order of /proc/kallsyms.
func newSymbols(module string, listed []abi.Symbol) *symbols {
	s := &symbols{module: module, listed: listed, all: listed}
	if !slices.IsSortedFunc(listed, byAddr) {
		s.all = slices.Clone(listed)
		slices.SortStableFunc(s.all, byAddr)
	}
	s.byName = sync.OnceValue(func() []abi.Symbol {
		named := slices.Clone(s.all)
		sortBy(named, func(a, b *abi.Symbol) int { return strings.Compare(a.Name, b.Name) })
		return named
	})
	return s
}

// named returns the symbols of a name.
func (s *symbols) named(name string) []abi.Symbol {
	all := s.byName()
	from := sort.Search(len(all), func(i int) bool { return all[i].Name >= name })
	to := from
	for to < len(all) && all[to].Name == name {
		to++
	}
	return all[from:to:to]
}

func byAddr(a, b abi.Symbol) int { return cmp.Compare(a.Addr, b.Addr) }

// AddModule adds a module's symbols, in the order of its symbol table. areas are its
// parts of memory: a symbol ends at the next one in its area, or at the area's end.
// It returns EEXIST if the module was added before.
func (t *Table) AddModule(name string, areas []abi.Range, syms []abi.Symbol) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if find(t.snap.Load().tables, name) >= 0 {
		return fmt.Errorf("module %s was added before: %w", name, syscall.EEXIST)
	}
	t.set(name, areas, syms)
	return nil
}

// SetModule sets a module's symbols, replacing those that it had.
func (t *Table) SetModule(name string, areas []abi.Range, syms []abi.Symbol) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(name, areas, syms)
}

// set publishes a module's symbols in the order of its symbol table. The caller holds
// mu.
func (t *Table) set(name string, areas []abi.Range, syms []abi.Symbol) {
	all := slices.Clone(syms)
	slices.SortStableFunc(all, byAddr)
	setSizes(all, areas)
	size := make(map[uint64]uint64, len(all))
	for _, s := range all {
		size[s.Addr] = s.Size
	}
	all = slices.Clone(syms)
	for i := range all {
		all[i].Module, all[i].Size = name, size[all[i].Addr]
	}
	tables := slices.Clone(t.snap.Load().tables)
	if i := find(tables, name); i >= 0 {
		tables[i] = newSymbols(name, all)
	} else {
		tables = slices.Insert(tables, 1, newSymbols(name, all))
	}
	t.snap.Store(&snapshot{tables: tables, freed: t.snap.Load().freed})
}

// Keep has Lookup find the functions that contain addrs for as long as the module is
// there, unless others come to their place. It is called before SetModule takes their
// symbols away: what ftrace keeps of init text that is freed while anybody uses it.
func (t *Table) Keep(module string, addrs []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var kept []abi.Symbol
	for _, a := range addrs {
		if sym, _, ok := t.Lookup(a); ok {
			kept = append(kept, sym)
		}
	}
	old := t.snap.Load()
	t.snap.Store(&snapshot{tables: old.tables, freed: append(slices.Clip(old.freed), newSymbols(module, kept))})
}

// RemoveModule removes a module's symbols, if there are any.
func (t *Table) RemoveModule(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.snap.Load()
	if i := find(old.tables, name); i >= 0 {
		freed := slices.DeleteFunc(slices.Clone(old.freed), func(s *symbols) bool { return s.module == name })
		t.snap.Store(&snapshot{tables: slices.Delete(slices.Clone(old.tables), i, i+1), freed: freed})
	}
}

// find returns the index of a module's symbols, or -1.
func find(tables []*symbols, module string) int {
	for i := 1; i < len(tables); i++ {
		if tables[i].module == module {
			return i
		}
	}
	return -1
}

// LookupName returns all symbols of that name, the core kernel's first (Linux's
// kallsyms_lookup_name returns the first one), or for "module:name" only that
// module's. The slice must not be modified.
func (t *Table) LookupName(name string) []abi.Symbol {
	tables := t.snap.Load().tables
	if mod, sym, ok := strings.Cut(name, ":"); ok {
		if i := find(tables, mod); i >= 0 {
			return tables[i].named(sym)
		}
		return nil
	}
	var found []abi.Symbol
	for _, s := range tables {
		if syms := s.named(name); len(found) == 0 {
			found = syms
		} else if len(syms) > 0 {
			found = append(found, syms...)
		}
	}
	return found
}

// Lookup returns the symbol that contains addr, the first one if there are aliases,
// and addr's offset in it. It never returns absolute (per-CPU) symbols.
func (t *Table) Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool) {
	now := t.snap.Load()
	for _, tables := range [][]*symbols{now.tables, now.freed} {
		for _, s := range tables {
			if sym, offset, ok = s.lookup(addr); ok {
				return sym, offset, true
			}
		}
	}
	return abi.Symbol{}, 0, false
}

func (s *symbols) lookup(addr uint64) (abi.Symbol, uint64, bool) {
	i := sort.Search(len(s.all), func(i int) bool { return s.all[i].Addr > addr }) - 1
	if i < 0 {
		return abi.Symbol{}, 0, false
	}
	at := s.all[i].Addr
	for i > 0 && s.all[i-1].Addr == at {
		i--
	}
	sym := s.all[i]
	if sym.Type == 'A' || addr-at >= sym.Size {
		return abi.Symbol{}, 0, false
	}
	return sym, addr - at, true
}

// Core returns the core kernel's i-th symbol, in the order of /proc/kallsyms, and whether
// there is one.
func (t *Table) Core(i uint64) (abi.Symbol, bool) {
	tables := t.snap.Load().tables
	if len(tables) == 0 || i >= uint64(len(tables[0].listed)) {
		return abi.Symbol{}, false
	}
	return tables[0].listed[i], true
}

// All returns all symbols in the order of /proc/kallsyms, in a new slice.
func (t *Table) All() []abi.Symbol {
	var all []abi.Symbol
	for _, s := range t.snap.Load().tables {
		all = append(all, s.listed...)
	}
	return all
}

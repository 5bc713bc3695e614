package image

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Symbols is the part of kallsyms that Tables needs.
type Symbols interface {
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Tables holds what Linux looks up about an address before it patches text there, for
// the kernel and for modules. Look-ups take no lock.
type Tables struct {
	mu      sync.Mutex // serializes writers
	snap    atomic.Pointer[[]*Sites]
	booted  atomic.Bool
	smpAlts atomic.Bool
	core    *Image
}

// Sites describes the text of the kernel or of a module. The lists are sorted by
// address, except for the blacklist.
type Sites struct {
	Module      string
	Text        []abi.Range
	InitText    abi.Range // its sites are valid until InitDone, the core kernel's until Booted
	Mcount      []uint64
	Jumps       []Jump
	StaticCalls []StaticCall
	Bugs        []Bug
	ExTable     []Ex
	SMPLocks    []uint64
	Blacklist   []abi.Range
	Frames      Frames

	initDone atomic.Bool
}

// NewTables returns the tables of an image. syms has the image's symbols and is not
// used after NewTables returns. Until Booted is called, init text is text.
func NewTables(m *Image, syms Symbols) *Tables {
	t := &Tables{core: m}
	t.snap.Store(&[]*Sites{{
		Text:     []abi.Range{m.Text},
		InitText: m.InitText,
		Mcount:   m.Mcount, Jumps: m.Jumps, StaticCalls: m.StaticCalls,
		Bugs: m.Bugs, ExTable: m.ExTable, SMPLocks: m.SMPLocks,
		Blacklist: blacklist(m, syms),
		Frames:    m.Frames,
	}})
	return t
}

// Booted marks the kernel's init text, and the sites in it, as freed.
func (t *Tables) Booted() {
	t.booted.Store(true)
	t.sites()[0].initDone.Store(true)
}

// SetSMPAlternatives sets whether Linux keeps its list of LOCK prefixes, as it does
// while one of several possible CPUs is online. Otherwise SMPLock is always false.
func (t *Tables) SetSMPAlternatives(on bool) { t.smpAlts.Store(on) }

func (t *Tables) sites() []*Sites { return *t.snap.Load() }

// AddModule adds a module's sites and keeps s. It returns EEXIST if the module was
// added before.
func (t *Tables) AddModule(s *Sites) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.sites()
	if findSites(old, s.Module) >= 0 {
		return fmt.Errorf("module %s was added before: %w", s.Module, syscall.EEXIST)
	}
	s.sort()
	sites := append(slices.Clip(old), s)
	t.snap.Store(&sites)
	return nil
}

// InitDone marks a module's init text, and the sites in it, as freed.
func (t *Tables) InitDone(module string) {
	if i := findSites(t.sites(), module); i >= 0 {
		t.sites()[i].initDone.Store(true)
	}
}

// RemoveModule removes a module's sites, if there are any.
func (t *Tables) RemoveModule(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.sites()
	if i := findSites(old, name); i >= 0 {
		sites := slices.Delete(slices.Clone(old), i, i+1)
		t.snap.Store(&sites)
	}
}

// findSites returns the index of a module's sites, or -1.
func findSites(sites []*Sites, module string) int {
	for i := 1; i < len(sites); i++ {
		if sites[i].Module == module {
			return i
		}
	}
	return -1
}

// live reports whether addr is not in freed init text, where another module may be
// loaded by now.
func (s *Sites) live(addr uint64) bool { return !s.initDone.Load() || !s.InitText.Contains(addr) }

// holds reports whether addr is in the text, or in init text that is not yet freed.
func (s *Sites) holds(addr uint64) bool {
	return s.InitText.Contains(addr) && !s.initDone.Load() ||
		slices.ContainsFunc(s.Text, func(r abi.Range) bool { return r.Contains(addr) && s.live(addr) })
}

// KernelText is kernel_text_address: it reports whether addr is in core text, in init
// text that is not yet freed, or in the text of a module.
func (t *Tables) KernelText(addr uint64) bool {
	return slices.ContainsFunc(t.sites(), func(s *Sites) bool { return s.holds(addr) })
}

// FrameSize is Frames.Size of the kernel or module whose text contains addr. It also
// knows the kernel's freed init text, which the boot task still returns through.
func (t *Tables) FrameSize(addr uint64) (uint64, bool) {
	sites := t.sites()
	for i, s := range sites {
		if s.holds(addr) || i == 0 && s.InitText.Contains(addr) {
			return s.Frames.Size(addr)
		}
	}
	return 0, false
}

// JumpLabel reports whether a jump label overlaps [start, end).
func (t *Tables) JumpLabel(start, end uint64) bool {
	for _, s := range t.sites() {
		for i := from(s.Jumps, start, 5, func(j *Jump) uint64 { return j.Code }); i < len(s.Jumps) && s.Jumps[i].Code < end; i++ {
			if j := &s.Jumps[i]; j.Code+uint64(j.Len) > start && s.live(j.Code) {
				return true
			}
		}
	}
	return false
}

// from returns the index of the first site that may overlap a range from start on;
// size is the maximum size of a site in bytes.
func from[T any](sites []T, start, size uint64, addr func(*T) uint64) int {
	return sort.Search(len(sites), func(i int) bool { return addr(&sites[i])+size > start })
}

// Jumps returns the branches of a static key, in the kernel and in modules, without those
// in freed init text.
func (t *Tables) Jumps(key uint64) (list []Jump) {
	for _, s := range t.sites() {
		for _, j := range s.Jumps {
			if j.Key == key && s.live(j.Code) {
				list = append(list, j)
			}
		}
	}
	return list
}

// StaticCalls returns the sites of a static call, as Jumps does.
func (t *Tables) StaticCalls(key uint64) (list []StaticCall) {
	for _, s := range t.sites() {
		for _, c := range s.StaticCalls {
			if c.Key == key && s.live(c.Addr) {
				list = append(list, c)
			}
		}
	}
	return list
}

// StaticCall reports whether a 5-byte static call site overlaps [start, end).
func (t *Tables) StaticCall(start, end uint64) bool {
	for _, s := range t.sites() {
		i := from(s.StaticCalls, start, 5, func(c *StaticCall) uint64 { return c.Addr })
		for ; i < len(s.StaticCalls) && s.StaticCalls[i].Addr < end; i++ {
			if s.live(s.StaticCalls[i].Addr) {
				return true
			}
		}
	}
	return false
}

// SMPLock reports whether a LOCK prefix that may be patched is in [start, end).
func (t *Tables) SMPLock(start, end uint64) bool {
	if !t.smpAlts.Load() {
		return false
	}
	for _, s := range t.sites() {
		i := from(s.SMPLocks, start, 1, func(a *uint64) uint64 { return *a })
		for i < len(s.SMPLocks) && !s.live(s.SMPLocks[i]) {
			i++
		}
		if i < len(s.SMPLocks) && s.SMPLocks[i] < end {
			return true
		}
	}
	return false
}

// Bug reports whether the ud2 of a BUG or WARN is at addr.
func (t *Tables) Bug(addr uint64) bool {
	_, ok := t.FindBug(addr)
	return ok
}

// FindBug is find_bug: it returns the bug table's entry for addr. Linux's table keeps the entries of
// the kernel's freed init text.
func (t *Tables) FindBug(addr uint64) (Bug, bool) {
	for n, s := range t.sites() {
		i := from(s.Bugs, addr, 1, func(b *Bug) uint64 { return b.Addr })
		if i < len(s.Bugs) && s.Bugs[i].Addr == addr && (n == 0 || s.live(addr)) {
			return s.Bugs[i], true
		}
	}
	return Bug{}, false
}

// ExTable reports whether a fault at addr has a fixup.
func (t *Tables) ExTable(addr uint64) bool {
	for _, s := range t.sites() {
		i := from(s.ExTable, addr, 1, func(x *Ex) uint64 { return x.Insn })
		if i < len(s.ExTable) && s.ExTable[i].Insn == addr && s.live(addr) {
			return true
		}
	}
	return false
}

// EntryText reports whether addr is in .entry.text, where probes are not optimized.
func (t *Tables) EntryText(addr uint64) bool { return t.core.EntryText.Contains(addr) }

// Thunk reports whether addr is in the indirect thunks or at their end, as Linux's
// comparison does.
func (t *Tables) Thunk(addr uint64) bool {
	r := t.core.Thunk
	return r.Start != r.End && r.Start <= addr && addr <= r.End
}

// FtraceSite reports whether an fentry site begins at addr.
func (t *Tables) FtraceSite(addr uint64) bool {
	for _, s := range t.sites() {
		if _, ok := slices.BinarySearch(s.Mcount, addr); ok && s.live(addr) {
			return true
		}
	}
	return false
}

// FtraceOverlap reports whether a 5-byte fentry site overlaps [start, end).
func (t *Tables) FtraceOverlap(start, end uint64) bool {
	for _, s := range t.sites() {
		i := from(s.Mcount, start, 5, func(a *uint64) uint64 { return *a })
		for ; i < len(s.Mcount) && s.Mcount[i] < end; i++ {
			if s.live(s.Mcount[i]) {
				return true
			}
		}
	}
	return false
}

// Blacklist returns the ranges that must not be probed, in the order of Linux's list:
// NOKPROBE_SYMBOL functions, __kprobes, noinstr and entry text, then
// modules'. A symbol for which several of these apply is listed several times.
func (t *Tables) Blacklist() []abi.Range {
	var all []abi.Range
	for _, s := range t.sites() {
		all = append(all, s.Blacklist...)
	}
	return all
}

// blacklist is populate_kprobe_blacklist: each range is a whole symbol.
func blacklist(m *Image, syms Symbols) []abi.Range {
	var list []abi.Range
	for _, addr := range m.NoKprobe {
		if sym, off, ok := syms.Lookup(addr); ok {
			list = append(list, abi.Range{Start: addr, End: addr + sym.Size - off})
		}
	}
	for _, area := range []abi.Range{m.KprobesText, m.NoinstrText, m.EntryText} {
		list = append(list, areaBlacklist(area, syms)...)
	}
	return list
}

// areaBlacklist is kprobe_add_area_blacklist: the symbols of an area.
func areaBlacklist(area abi.Range, syms Symbols) []abi.Range {
	var list []abi.Range
	for addr := area.Start; addr < area.End; {
		sym, off, ok := syms.Lookup(addr)
		if !ok || sym.Size == off {
			break
		}
		end := addr + sym.Size - off
		list = append(list, abi.Range{Start: addr, End: end})
		addr = end
	}
	return list
}

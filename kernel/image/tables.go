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

// Symbols is what Tables needs of kallsyms.
type Symbols interface {
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Tables says what kprobes must know of an address: what Linux asks its own
// tables before it patches text. Questions take no lock. Modules come and go.
type Tables struct {
	mu      sync.Mutex // serializes writers
	snap    atomic.Pointer[[]*Sites]
	booted  atomic.Bool
	smpAlts atomic.Bool
	core    *Image
}

// Sites is one object's text and what is special in it, each list sorted by
// address but the blacklist.
type Sites struct {
	Module      string
	Text        []abi.Range
	InitText    abi.Range // its sites count only until InitDone, the core's until Booted
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

// NewTables makes the tables of an image. syms, which has the image's symbols,
// is read at once only. The machine is booting: init text counts as text.
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

// Booted ends booting: init text is freed, its sites no longer count.
func (t *Tables) Booted() {
	t.booted.Store(true)
	t.sites()[0].initDone.Store(true)
}

// SetSMPAlternatives says whether Linux would still remember its LOCK prefixes,
// as it does when one CPU of several possible ones is online. Else SMPLock is
// always false.
func (t *Tables) SetSMPAlternatives(on bool) { t.smpAlts.Store(on) }

func (t *Tables) sites() []*Sites { return *t.snap.Load() }

// AddModule adds a module's sites, which Tables keeps. EEXIST if it is there.
func (t *Tables) AddModule(s *Sites) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.sites()
	if findSites(old, s.Module) >= 0 {
		return fmt.Errorf("module %s is known: %w", s.Module, syscall.EEXIST)
	}
	s.sort()
	sites := append(slices.Clip(old), s)
	t.snap.Store(&sites)
	return nil
}

// InitDone says that a module's init text is gone.
func (t *Tables) InitDone(module string) {
	if i := findSites(t.sites(), module); i >= 0 {
		t.sites()[i].initDone.Store(true)
	}
}

// RemoveModule forgets a module; unknown names do nothing.
func (t *Tables) RemoveModule(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.sites()
	if i := findSites(old, name); i >= 0 {
		sites := slices.Delete(slices.Clone(old), i, i+1)
		t.snap.Store(&sites)
	}
}

// findSites gives the index of a module's sites, -1: none.
func findSites(sites []*Sites, module string) int {
	for i := 1; i < len(sites); i++ {
		if sites[i].Module == module {
			return i
		}
	}
	return -1
}

// live says whether addr is not in init text that is gone. Where a module's was,
// another module may lie.
func (s *Sites) live(addr uint64) bool { return !s.initDone.Load() || !s.InitText.Contains(addr) }

// holds says whether addr is in the object's text, or in its init text while that is
// there.
func (s *Sites) holds(addr uint64) bool {
	return s.InitText.Contains(addr) && !s.initDone.Load() ||
		slices.ContainsFunc(s.Text, func(r abi.Range) bool { return r.Contains(addr) && s.live(addr) })
}

// KernelText is kernel_text_address: core text, init text while it is there,
// and modules' text.
func (t *Tables) KernelText(addr uint64) bool {
	return slices.ContainsFunc(t.sites(), func(s *Sites) bool { return s.holds(addr) })
}

// FrameSize is Frames.Size for the code at addr, in the kernel or a module, also in
// init text of the kernel that is being left.
func (t *Tables) FrameSize(addr uint64) (uint64, bool) {
	sites := t.sites()
	for i, s := range sites {
		if s.holds(addr) || i == 0 && s.InitText.Contains(addr) {
			return s.Frames.Size(addr)
		}
	}
	return 0, false
}

// JumpLabel says whether a jump label overlaps [start, end).
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

// from gives the index of the first site that a range from start could
// overlap, if none is longer than size bytes.
func from[T any](sites []T, start, size uint64, addr func(*T) uint64) int {
	return sort.Search(len(sites), func(i int) bool { return addr(&sites[i])+size > start })
}

// StaticCall says whether a 5-byte static call site overlaps [start, end).
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

// SMPLock says whether a LOCK prefix that may be patched lies in [start, end).
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

// Bug says whether addr is exactly the ud2 of a BUG or WARN.
func (t *Tables) Bug(addr uint64) bool {
	_, ok := t.FindBug(addr)
	return ok
}

// FindBug is find_bug: the bug table's entry for addr.
func (t *Tables) FindBug(addr uint64) (Bug, bool) {
	for _, s := range t.sites() {
		i := from(s.Bugs, addr, 1, func(b *Bug) uint64 { return b.Addr })
		if i < len(s.Bugs) && s.Bugs[i].Addr == addr && s.live(addr) {
			return s.Bugs[i], true
		}
	}
	return Bug{}, false
}

// ExTable says whether a fault at addr has a fixup.
func (t *Tables) ExTable(addr uint64) bool {
	for _, s := range t.sites() {
		i := from(s.ExTable, addr, 1, func(x *Ex) uint64 { return x.Insn })
		if i < len(s.ExTable) && s.ExTable[i].Insn == addr && s.live(addr) {
			return true
		}
	}
	return false
}

// EntryText says whether addr is in .entry.text, where nothing is optimized.
func (t *Tables) EntryText(addr uint64) bool { return t.core.EntryText.Contains(addr) }

// Thunk says whether addr is in the indirect thunks; the end counts, as Linux's
// comparison has it.
func (t *Tables) Thunk(addr uint64) bool {
	r := t.core.Thunk
	return r.Start != r.End && r.Start <= addr && addr <= r.End
}

// FtraceSite says whether addr is exactly a fentry site.
func (t *Tables) FtraceSite(addr uint64) bool {
	for _, s := range t.sites() {
		if _, ok := slices.BinarySearch(s.Mcount, addr); ok && s.live(addr) {
			return true
		}
	}
	return false
}

// FtraceOverlap says whether a 5-byte fentry site overlaps [start, end).
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

// Blacklist gives the ranges that refuse probes in the order in which Linux
// fills its list: NOKPROBE_SYMBOL functions, __kprobes, noinstr and entry text,
// then modules'. A symbol that is in several of them appears several times.
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

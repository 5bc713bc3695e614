package kprobes

import (
	"slices"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Record is a line of kprobes/list.
type Record struct {
	Addr   uint64
	Ret    bool // a return probe
	Jprobe bool
	Symbol abi.Symbol
	Offset uint64 // from Symbol
	Known  bool   // Symbol was found
	Flags  Flags  // Gone and Disabled are the kprobe's, Optimized and Ftrace the aggregate's
	bare   bool   // the release has no column for the flags
}

// bucketText is the text of one bucket of kprobes/list, as it was last made.
type bucketText struct {
	text    []byte
	hide    bool   // addresses are zeros
	changes uint64 // of the probes' lock, when it was made; 0 if text is not to be used again
}

// listing makes the lines of kprobes/list, and keeps the text of each bucket.
//
// Kprobes.mu guards it, and its methods are called with that lock.
type listing struct {
	symbols Symbols
	bare    bool // the release has no column for the flags

	texts [Buckets]bucketText
}

// AppendList appends the text of one bucket of the table, 0 to Buckets-1, to b: one
// record of the seq_file. A read sees each bucket in one state. With hide addresses are
// zeros.
//
// The text is made again only when it may be another: a reader of many probes gets each
// bucket that does not fit into its read a second time.
func (k *Kprobes) AppendList(b []byte, i int, hide bool) []byte {
	k.mu.look()
	defer k.mu.Unlock()
	return append(b, k.listing.text(i, k.table.buckets[i], k.mu.changes, hide)...)
}

// text returns the text of bucket i, which has these points after so many changes. If a
// symbol in it may go, or come, with a module, it is not used again.
func (l *listing) text(i int, points []*point, changes uint64, hide bool) []byte {
	t := &l.texts[i]
	if t.changes == changes && t.hide == hide {
		return t.text
	}
	t.text, t.hide, t.changes = t.text[:0], hide, changes
	for _, pt := range slices.Backward(points) {
		for _, p := range pt.list.Load().probes {
			t.text = l.record(pt, p).Append(t.text, hide)
		}
		if pt.place == nil {
			t.changes = 0
		}
	}
	return t.text
}

// Bucket appends the lines of one bucket to records, like AppendList.
func (k *Kprobes) Bucket(records []Record, i int) []Record {
	k.mu.look()
	defer k.mu.Unlock()
	for _, pt := range slices.Backward(k.table.buckets[i]) {
		for _, p := range pt.list.Load().probes {
			records = append(records, k.listing.record(pt, p))
		}
	}
	return records
}

func (l *listing) record(pt *point, p *Kprobe) Record {
	r := Record{Addr: pt.addr, Ret: p.ret != nil, Jprobe: p.jp != nil, bare: l.bare, Flags: p.State()&(FlagGone|FlagDisabled) | pt.State()&(FlagOptimized|FlagFtrace)}
	if p.has(FlagGone) {
		r.Flags &^= FlagDisabled
	}
	if r.bare {
		r.Flags = 0
	}
	if pl := l.placeOf(pt); pl != nil {
		r.Symbol, r.Offset, r.Known = pl.symbol, pl.offset, true
	}
	return r
}

// place is the symbol of an address, and the offset from it.
type place struct {
	symbol abi.Symbol
	offset uint64
}

// placeOf returns where pt is, or nil if that has no name. The names of the core kernel
// never change, so they are looked up once.
func (l *listing) placeOf(pt *point) *place {
	if pt.place != nil {
		return pt.place
	}
	sym, offset, ok := l.symbols.Lookup(pt.addr)
	if !ok {
		return nil
	}
	pl := &place{sym, offset}
	if sym.Module == "" && pt.addr < abi.ModulesBase {
		pt.place = pl
	}
	return pl
}

// Kind returns the letter in the line's second column.
func (r Record) Kind() byte {
	switch {
	case r.Ret:
		return 'r'
	case r.Jprobe:
		return 'j'
	}
	return 'k'
}

// Append adds the line's text to b as report_probe prints it. The address in the third
// column, which is there when no symbol is known, is never hidden.
func (r Record) Append(b []byte, hide bool) []byte {
	b = appendAddr(b, r.Addr, hide)
	b = append(b, ' ', ' ', r.Kind(), ' ', ' ')
	if r.Known {
		b = append(b, r.Symbol.Name...)
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, r.Offset, 16)
		b = append(b, "  "...)
		if r.Symbol.Module == "" {
			b = append(b, ' ')
		}
		b = append(b, r.Symbol.Module...)
	} else {
		b = append(b, hexText(r.Addr)...)
	}
	if !r.bare {
		b = append(b, ' ')
		b = r.Flags.append(b)
	}
	return append(b, '\n')
}

// String formats the flags as kprobes/list shows them.
func (f Flags) String() string { return string(f.append(nil)) }

func (f Flags) append(b []byte) []byte {
	for _, t := range [...]struct {
		flag Flags
		text string
	}{{FlagGone, "[GONE]"}, {FlagDisabled, "[DISABLED]"}, {FlagOptimized, "[OPTIMIZED]"}, {FlagFtrace, "[FTRACE]"}} {
		if f&t.flag != 0 {
			b = append(b, t.text...)
		}
	}
	return b
}

func hexText(addr uint64) string { return "0x" + strconv.FormatUint(addr, 16) }

// appendAddr prints an address as %px does, or zeros if it is to be hidden.
func appendAddr(b []byte, addr uint64, hide bool) []byte {
	if hide {
		addr = 0
	}
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[addr>>shift&15])
	}
	return b
}

// PointInfo describes a probed address.
type PointInfo struct {
	Addr      uint64
	Flags     Flags  // the aggregate's
	Armed     bool   // its int3, jump or fentry call is in the text
	Slot      uint64 // address of the stepped copy; 0 at an fentry site
	Length    int    // of the probed instruction, in bytes
	Carried   string // how the instruction is executed: "step", "boost", or the kind of emulation
	Boost     uint64 // address of the copy with a jump back, which needs no step; 0 without one
	Detour    uint64 // address of the copied instructions in its detour; 0 without a detour
	Buffer    uint64 // address of the detour's buffer, which begins with the call of the handlers; 0 without a detour
	BufferLen int    // of that buffer, in bytes
	NotJump   error  // why it cannot be optimized; nil if it can be
	Probes    []Record
	Missed    []uint64 // for each of Probes
	HasPost   bool
	Aggregate bool
	History   []Change // the latest, the oldest first
	Before    int      // number of changes before these
}

// Points returns all probed addresses in the table's order, except those without
// probes that the optimizer has not yet dropped.
func (k *Kprobes) Points() []PointInfo {
	k.mu.look()
	defer k.mu.Unlock()
	var infos []PointInfo
	k.table.each(func(pt *point) {
		if !pt.unused() {
			infos = append(infos, k.info(pt))
		}
	})
	return infos
}

// TableSize returns the number of addresses in the table: the ones of Points, and those
// without probes whose jump is still to be removed.
func (k *Kprobes) TableSize() int {
	k.mu.look()
	defer k.mu.Unlock()
	return len(k.table.sorted)
}

func (k *Kprobes) info(pt *point) PointInfo {
	list := pt.list.Load()
	i := PointInfo{
		Addr: pt.addr, Flags: pt.State(), Armed: pt.armed, Detour: pt.out.Load(),
		NotJump: pt.noOpt, HasPost: list.post, Aggregate: pt.aggr.Load(), Carried: "ftrace",
	}
	i.History, i.Before = pt.past.list()
	if c := pt.code.Load(); c != nil {
		i.Slot, i.Boost, i.Length, i.Carried = c.slot, c.boost, c.insn.Len, c.carried()
	}
	if d := pt.detour; d != nil && i.Detour != 0 {
		i.Buffer, i.BufferLen = d.Addr, len(d.Code)
	}
	for _, p := range list.probes {
		i.Probes = append(i.Probes, k.listing.record(pt, p))
		i.Missed = append(i.Missed, p.Missed())
	}
	return i
}

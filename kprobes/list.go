package kprobes

import (
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Record is a line of kprobes/list.
type Record struct {
	Addr   uint64
	Ret    bool // a return probe
	Jprobe bool
	Symbol abi.Symbol
	Offset uint64 // in Symbol
	Known  bool   // Symbol was found
	Flags  Flags  // Gone and Disabled are the kprobe's, Optimized and Ftrace its point's
	bare   bool   // the release has no column for them
}

// Bucket gives the lines of one bucket of the table, 0 to Buckets-1: one record
// of the seq_file. A file is consistent within a bucket.
func (k *Kprobes) Bucket(i int) []Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for pt := k.table.heads[i].Load(); pt != nil; pt = pt.next.Load() {
		n += len(pt.list.Load().probes)
	}
	records := make([]Record, 0, n)
	for pt := k.table.heads[i].Load(); pt != nil; pt = pt.next.Load() {
		for _, p := range pt.list.Load().probes {
			records = append(records, k.record(pt, p))
		}
	}
	return records
}

func (k *Kprobes) record(pt *Point, p *Kprobe) Record {
	r := Record{Addr: pt.addr, Ret: p.ret != nil, Jprobe: p.jp != nil, bare: k.cfg.HideFlags == AllFlags, Flags: p.State()&(FlagGone|FlagDisabled) | pt.State()&(FlagOptimized|FlagFtrace)}
	if p.has(FlagGone) {
		r.Flags &^= FlagDisabled
	}
	r.Flags &^= k.cfg.HideFlags
	r.Symbol, r.Offset, r.Known = k.cfg.Symbols.Lookup(pt.addr)
	return r
}

// Kind is the letter of the line's second column.
func (r Record) Kind() byte {
	switch {
	case r.Ret:
		return 'r'
	case r.Jprobe:
		return 'j'
	}
	return 'k'
}

// Append adds the line's text to b, as report_probe prints it. The address of
// the third column, there when no symbol is known, is never hidden.
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
		b = append(b, r.Flags.String()...)
	}
	return append(b, '\n')
}

// String is the flags as kprobes/list shows them.
func (f Flags) String() string {
	var s strings.Builder
	for _, t := range [...]struct {
		flag Flags
		text string
	}{{FlagGone, "[GONE]"}, {FlagDisabled, "[DISABLED]"}, {FlagOptimized, "[OPTIMIZED]"}, {FlagFtrace, "[FTRACE]"}} {
		if f&t.flag != 0 {
			s.WriteString(t.text)
		}
	}
	return s.String()
}

func hexText(addr uint64) string { return "0x" + strconv.FormatUint(addr, 16) }

// appendAddr is %px, or what stands in its place for those who may not see it.
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

// PointInfo is what is known of a probed address.
type PointInfo struct {
	Addr      uint64
	Flags     Flags  // the point's own
	Armed     bool   // its int3, jump or fentry call is in the text
	Slot      uint64 // where its instruction is stepped; 0: at an fentry site
	Length    int    // of the probed instruction, bytes
	Carried   string // how the instruction is carried out: "step", "boost", or the kind of emulation
	Detour    uint64 // the copied instructions of its detour; 0: it has none
	NotJump   error  // why it cannot be optimized; nil: it can
	Probes    []Record
	Missed    []uint64 // of each of Probes
	HasPost   bool
	Aggregate bool
}

// Points gives all probed addresses in the table's order, those without probes
// that the optimizer has not yet dropped left out.
func (k *Kprobes) Points() []PointInfo {
	k.mu.Lock()
	defer k.mu.Unlock()
	var infos []PointInfo
	k.Each(func(pt *Point) {
		if !pt.Unused() {
			infos = append(infos, k.info(pt))
		}
	})
	return infos
}

func (k *Kprobes) info(pt *Point) PointInfo {
	list := pt.list.Load()
	i := PointInfo{
		Addr: pt.addr, Flags: pt.State(), Armed: pt.armed, Detour: pt.out.Load(),
		NotJump: pt.noOpt, HasPost: list.post, Aggregate: pt.aggr.Load(), Carried: "ftrace",
	}
	if c := pt.code.Load(); c != nil {
		i.Slot, i.Length, i.Carried = c.slot, c.insn.Len, c.carried()
	}
	for _, p := range list.probes {
		i.Probes = append(i.Probes, k.record(pt, p))
		i.Missed = append(i.Missed, p.Missed())
	}
	return i
}

package hist

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

func uintText(v uint64) string { return strconv.FormatUint(v, 10) }

// Tables returns the text of the file hist: the table of each hist trigger.
func (h *Hists) Tables(f File) string {
	var b []byte
	for _, t := range h.of(f) {
		if b != nil {
			b = append(b, "\n\n"...)
		}
		b = append(append(append(b, "# event histogram\n#\n# trigger info: "...), t.Text()...), "#\n\n"...)
		b = t.hist.appendTable(b)
	}
	return string(b)
}

// appendTable is print_entries and the totals.
func (d *histogram) appendTable(b []byte) []byte {
	entries := d.table.Entries()
	d.sortEntries(entries)
	totals := make([]total, d.nVals)
	for i := range entries {
		for k, v := range entries[i].Sums {
			totals[k].sum += v
			totals[k].max = max(totals[k].max, v)
		}
	}
	for i := range entries {
		b = d.appendEntry(b, &entries[i], totals)
	}
	for _, x := range d.actions {
		b = d.appendSnapshot(b, x)
	}
	return fmt.Appendf(b, "\nTotals:\n    Hits: %d\n    Entries: %d\n    Dropped: %d\n", d.table.Hits.Load(), len(entries), d.table.Drops.Load())
}

// sortEntries is tracing_map_sort_entries: it sorts by the first sort key and then by
// the second. Like the kernel, which looks for duplicates that way, it first sorts by
// the bytes of the keys; this determines the order of elements with equal sort keys.
func (d *histogram) sortEntries(entries []tracingmap.Entry) {
	slices.SortFunc(entries, func(x, y tracingmap.Entry) int { return bytes.Compare(x.Key, y.Key) })
	first := d.comparer(d.sort[0])
	sort := tracingmap.Sort[tracingmap.Entry]
	if d.hists.conf.Has[release.SortTwo] {
		sort = tracingmap.SortTwo[tracingmap.Entry]
	}
	sort(entries, first)
	if len(d.sort) == 1 {
		return
	}
	second := d.comparer(d.sort[1])
	for start := 0; start < len(entries); {
		end := start + 1
		for end < len(entries) && first(&entries[start], &entries[end]) == 0 {
			end++
		}
		sort(entries[start:end], second)
		start = end
	}
}

func (d *histogram) comparer(k sortKey) func(x, y *tracingmap.Entry) int {
	f := d.sorted(k)
	sum := d.sumIndex(f)
	compare := func(x, y *tracingmap.Entry) int { return compareKeys(f, x.Key[f.offset:], y.Key[f.offset:]) }
	if sum >= 0 {
		compare = func(x, y *tracingmap.Entry) int { return cmp.Compare(x.Sums[sum], y.Sums[sum]) }
	}
	if k.descending {
		return func(x, y *tracingmap.Entry) int { return -compare(x, y) }
	}
	return compare
}

// sumIndex returns the index of a value in an element's sums, or -1 if it is a key.
func (d *histogram) sumIndex(f *histField) int {
	for i, x := range d.fields[:d.nVals] {
		if x == f {
			return i
		}
	}
	return -1
}

// compareKeys compares one key of two elements according to its type.
func compareKeys(f *histField, x, y []byte) int {
	switch {
	case f.flags&flagStacktrace != 0:
		return 0
	case f.event != nil && f.event.IsText():
		return bytes.Compare(field.CutNUL(x[:f.size]), field.CutNUL(y[:f.size]))
	}
	a, b := binary.LittleEndian.Uint64(x), binary.LittleEndian.Uint64(y)
	m := field.Number{Size: 8, Signed: f.signed}
	if f.event != nil && f.flags&flagCPU == 0 {
		m = f.event.Number
	}
	if a, b = m.Extend(a), m.Extend(b); m.Signed {
		return cmp.Compare(int64(a), int64(b))
	}
	return cmp.Compare(a, b)
}

// total is hist_val_stat: the reference for .percent and .graph.
type total struct{ sum, max uint64 }

// percentOf is __get_percentage, in hundredths of a percent; ok is false if the total
// is 0.
func percentOf(v, total uint64) (uint64, bool) {
	if total > 0 && v < math.MaxUint64/10000 {
		return v * 10000 / total, true
	}
	if total /= 10000; total > 0 {
		return v / total, true
	}
	return 0, v == 0
}

// barLength is the length of a bar in characters.
const barLength = 20

// appendShare appends the text of .percent or .graph for a value.
func appendShare(b []byte, f *histField, v uint64, total total) []byte {
	if f.flags&flagPercent != 0 {
		if p, ok := percentOf(v, total.sum); ok {
			return fmt.Appendf(b, "  %s (%%): %3d.%02d", f.fieldName(0), p/100, p%100)
		}
		return fmt.Appendf(b, "  %s (%%):[ERROR]", f.fieldName(0))
	}
	bar := "[ERROR]"
	if p, ok := percentOf(v, total.max); ok {
		n := min(int(p)*barLength/10000, barLength)
		bar = strings.Repeat("#", n) + strings.Repeat(" ", barLength-n)
	}
	return fmt.Appendf(b, "  %s: %20s", f.fieldName(0), bar)
}

// appendEntry is hist_trigger_entry_print.
func (d *histogram) appendEntry(b []byte, e *tracingmap.Entry, totals []total) []byte {
	b = d.appendKey(b, e.Key, &e.Comm)
	if !d.attrs.noHitcount {
		b = fmt.Appendf(b, " hitcount: %10d", e.Sums[0])
	}
	for i, f := range d.fields[1:d.nVals] {
		switch {
		case f.flags&(flagVar|flagExpr) != 0:
		case f.flags&(flagPercent|flagGraph) != 0:
			b = appendShare(b, f, e.Sums[i+1], totals[i+1])
		case f.flags&flagHex != 0:
			b = fmt.Appendf(b, "  %s: %10x", f.fieldName(0), e.Sums[i+1])
		default:
			b = fmt.Appendf(b, "  %s: %10d", f.fieldName(0), e.Sums[i+1])
		}
	}
	for _, x := range d.actions {
		if x.handler != handlerMatch && x.does != doesSnapshot {
			b = d.appendTrack(b, x, e)
		}
	}
	return append(b, '\n')
}

// appendTrack is track_data_print.
func (d *histogram) appendTrack(b []byte, x *action, e *tracingmap.Entry) []byte {
	word := "max"
	if x.handler == handlerChange {
		word = "changed"
	}
	b = fmt.Appendf(b, "\n\t%s: %10d", word, e.Vars[x.track.varIdx])
	for _, v := range d.saveVars {
		if v.value.flags&flagString != 0 {
			b = fmt.Appendf(b, "  %s: %-*s", v.field.varName, savedTextColumn, field.CutNUL(e.TextAt(v.field.textIdx)))
		} else {
			b = fmt.Appendf(b, "  %s: %10d", v.field.varName, e.Vars[v.field.varIdx])
		}
	}
	return b
}

// appendSnapshot is track_data_snapshot_print.
func (d *histogram) appendSnapshot(b []byte, x *action) []byte {
	if x.does != doesSnapshot {
		return b
	}
	d.table.Lock()
	s := x.snap
	d.table.Unlock()
	if !s.taken {
		return b
	}
	b = append(b, "\nSnapshot taken (see tracing/snapshot).  Details:\n"...)
	b = fmt.Appendf(b, "\ttriggering value { %s }: %10d", x.handlerText(), s.value)
	b = append(b, "\ttriggered by event with key: "...)
	return append(d.appendKey(b, s.key[:d.keySize], &s.comm), '\n')
}

// appendKey is hist_trigger_print_key.
func (d *histogram) appendKey(b, key []byte, name *[abi.TaskCommLen]byte) []byte {
	b = append(b, "{ "...)
	multiline := false
	for i, f := range d.fields[d.nVals:] {
		if i > 0 {
			b = append(b, ", "...)
		}
		if f.flags&flagStacktrace != 0 && f.flags&(flagHex|flagSym|flagSymOffset|flagExecname|flagSyscall) == 0 {
			b = d.appendStack(b, f, key[f.offset:f.offset+f.size])
			multiline = true
			continue
		}
		b = append(append(b, f.fieldName(0)...), ": "...)
		b = d.appendKeyValue(b, f, key[f.offset:f.offset+f.size], name)
	}
	if !multiline {
		b = append(b, ' ')
	}
	return append(b, '}')
}

func (d *histogram) appendKeyValue(b []byte, f *histField, key []byte, name *[abi.TaskCommLen]byte) []byte {
	v := binary.LittleEndian.Uint64(key)
	h := d.hists
	switch {
	case f.flags&flagHex != 0:
		return fmt.Appendf(b, "%x", v)
	case f.flags&(flagSym|flagSymOffset) != 0:
		return h.appendSymbol(b, v, f.flags&flagSymOffset != 0)
	case f.flags&flagExecname != 0:
		return fmt.Appendf(b, "%-16s[%10d]", field.CutNUL(name[:]), v)
	case f.flags&flagSyscall != 0:
		return fmt.Appendf(b, "%-30s[%3d]", h.syscallName(v), v)
	case f.flags&flagLog2 != 0:
		return fmt.Appendf(b, "~ 2^%-2d", v)
	case f.flags&flagBucket != 0:
		return fmt.Appendf(b, "~ %d-%d", v, v+f.buckets-1)
	case f.flags&flagString != 0:
		return fmt.Appendf(b, "%-50s", field.CutNUL(key))
	}
	return fmt.Appendf(b, "%10d", v)
}

// appendSymbol appends the text of .sym or .sym-offset for an address.
func (h *Hists) appendSymbol(b []byte, addr uint64, offset bool) []byte {
	sym, off, ok := h.conf.Symbols.Lookup(addr)
	if offset {
		return fmt.Appendf(b, "[%x] %-55s", addr, output.AppendSprint(nil, sym, off, addr, ok))
	}
	text := string(output.AppendSprint(nil, sym, off, addr, ok))
	if ok {
		text = sym.Name
		if sym.Module != "" {
			text += " [" + sym.Module + "]"
		}
	}
	return fmt.Appendf(b, "[%x] %-45s", addr, text)
}

// appendStack is hist_trigger_stacktrace_print.
func (d *histogram) appendStack(b []byte, f *histField, stack []byte) []byte {
	b = append(b, f.showKey(d.hists.conf.Has[release.CommonStacktrace])...)
	if f.isCommonStack() {
		b = append(b, ":\n"...)
	}
	for ; len(stack) >= 8; stack = stack[8:] {
		ip := binary.LittleEndian.Uint64(stack)
		if ip == 0 {
			break
		}
		sym, offset, ok := d.hists.conf.Symbols.Lookup(ip)
		b = append(b, strings.Repeat(" ", 9)...)
		b = append(output.AppendSprint(b, sym, offset, ip, ok), '\n')
	}
	return b
}

// syscallNames are the system calls whose metadata on Linux has another name than the
// call itself.
var syscallNames = map[string]string{
	"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname", "newfstatat": "newfstatat", "umount2": "umount",
	"sendfile": "sendfile64",
}

// syscallName returns the text of .syscall for a number.
func (h *Hists) syscallName(nr uint64) string {
	if nr >= uint64(len(h.conf.Syscalls)) || h.conf.Syscalls[nr] == "" {
		return "unknown_syscall"
	}
	name := h.conf.Syscalls[nr]
	if other, ok := syscallNames[name]; ok {
		name = other
	}
	return "sys_" + name
}

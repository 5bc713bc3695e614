package machinefs

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kprobes"
)

// probes is the directory machine/probes: a file for each probed address.
type probes struct{ c Config }

// Rows lists the addresses in the order of kprobes/list.
func (p probes) Rows() []*seqfile.Row {
	points := p.c.Points()
	rows := make([]*seqfile.Row, 0, len(points))
	for _, pt := range points {
		rows = append(rows, &seqfile.Row{
			Name: p.c.place(pt.Addr), Mode: 0o444, Gen: pt.Addr,
			Open: p.c.openShown(func(hide bool) (string, error) { return p.c.point(pt.Addr, hide) }),
		})
	}
	return rows
}

// place returns the name of an address: SYMBOL+0xOFFSET, MODULE:SYMBOL+0xOFFSET, or
// 0xADDRESS.
func (c Config) place(addr uint64) string {
	s, off, ok := c.Symbols.Lookup(addr)
	if !ok {
		return fmt.Sprintf("%#x", addr)
	}
	name := fmt.Sprintf("%s+%#x", s.Name, off)
	if s.Module != "" {
		name = s.Module + ":" + name
	}
	return name
}

func (c Config) point(addr uint64, hide bool) (string, error) {
	for _, pt := range c.Points() {
		if pt.Addr != addr {
			continue
		}
		text := PointText(pt, c.place(addr))
		if hide {
			text = hideAddresses(text)
		}
		return text, nil
	}
	return "", fmt.Errorf("nothing is probed at %#x any more: %w", addr, syscall.ENOENT)
}

// probed describes all probed addresses, with an empty line between them. A reader of many
// probes needs one file only, and gets all of them as they were at one time.
func (c Config) probed(hide bool) (string, error) {
	points := c.Points()
	text := make([]byte, 0, 256*len(points))
	for i, pt := range points {
		if i > 0 {
			text = append(text, '\n')
		}
		text = appendPoint(text, pt, c.place(pt.Addr))
	}
	if hide {
		return hideAddresses(string(text)), nil
	}
	return string(text), nil
}

// PointText describes one probed address.
func PointText(pt kprobes.PointInfo, place string) string {
	return string(appendPoint(nil, pt, place))
}

// appendPoint appends the description of a probed address. There may be very many of them, so what
// each has is not formatted by fmt.
func appendPoint(b []byte, pt kprobes.PointInfo, place string) []byte {
	row := func(name, value string) {
		b = append(b, (name + ":            ")[:13]...) // "carried out" is the longest name
		b = append(append(b, value...), '\n')
	}
	row("address", hex16(pt.Addr))
	row("symbol", place)
	row("armed", yesNo(pt.Armed))
	row("flags", orNone(pt.Flags.String()))
	row("carried out", pt.Carried)
	if pt.Slot != 0 {
		row("slot", hex16(pt.Slot)+" ("+strconv.Itoa(pt.Length)+" bytes)")
	}
	switch {
	case pt.Detour != 0:
		row("jump", "yes; its detour has the replaced instructions at "+hex16(pt.Detour))
	case pt.NotJump != nil:
		row("jump", "no: "+pt.NotJump.Error())
	default:
		row("jump", "no")
	}
	for i, p := range pt.Probes {
		row("probe", string(p.Kind())+" missed "+strconv.FormatUint(pt.Missed[i], 10)+" "+orNone(p.Flags.String()))
	}
	if pt.Before > 0 {
		row("history", strconv.Itoa(pt.Before)+" changes before these")
	}
	for _, c := range pt.History {
		row("history", fmt.Sprintf("%d.%06d %s", c.At/1e9, c.At%1e9/1e3, c.What))
	}
	return b
}

// hex16 returns an address as %016x does.
func hex16(addr uint64) string {
	const digits = "0123456789abcdef"
	var text [16]byte
	for i := range text {
		text[i] = digits[addr>>(60-4*i)&15]
	}
	return string(text[:])
}

// QueuesText describes the optimizer's queues. place names an address.
func QueuesText(q kprobes.Queues, place func(addr uint64) string) string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s "+format+"\n", append([]any{name + ":"}, args...)...)
	}
	row("on", "%s", yesNo(q.On))
	row("scheduled", "%s", yesNo(q.Scheduled))
	for _, list := range []struct {
		name  string
		addrs []uint64
	}{{"to jump", q.Jumps}, {"to int3", q.Breakpoints}} {
		row(list.name, "%d", len(list.addrs))
		for _, addr := range list.addrs {
			fmt.Fprintf(&b, "%-12s %s\n", "", place(addr))
		}
	}
	row("to free", "%d", q.Garbage)
	return b.String()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

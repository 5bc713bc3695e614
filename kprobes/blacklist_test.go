package kprobes

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// listed has ranges and functions of 16 bytes.
type listed struct {
	ranges []abi.Range
	syms   map[string]uint64
}

func (l listed) Blacklist() []abi.Range { return l.ranges }

func (l listed) LookupName(name string) []abi.Symbol {
	if addr, ok := l.syms[name]; ok {
		return []abi.Symbol{{Addr: addr, Size: 16, Name: name}}
	}
	return nil
}

func (l listed) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	for name, at := range l.syms {
		if at <= addr && addr < at+16 {
			return abi.Symbol{Addr: at, Size: 16, Name: name}, addr - at, true
		}
	}
	return abi.Symbol{}, 0, false
}

// TestBlacklistCovers: a part that gcc split off a listed function is covered with it, and is no line.
func TestBlacklistCovers(t *testing.T) {
	l := listed{
		ranges: []abi.Range{{Start: 0x100, End: 0x110}, {Start: 0x900, End: 0x910}},
		syms:   map[string]uint64{"do_int3": 0x100, "do_int3.part.0": 0x200, "other": 0x300, "other.cold": 0x400, ".dot": 0x500},
	}
	b := blacklist{tables: l, symbols: l}
	for addr, want := range map[uint64]bool{0x100: true, 0x10f: true, 0x110: false, 0x200: true, 0x300: false, 0x400: false, 0x500: false, 0x905: true} {
		sym, _, _ := l.Lookup(addr)
		if got := b.covers(addr, sym); got != want {
			t.Errorf("%#x (%s): %v", addr, sym.Name, got)
		}
	}
	got := b.records()
	if len(got) != 2 || got[0].Symbol != "do_int3" || got[1].Symbol != "0x900" {
		t.Errorf("lines %+v", got)
	}
}

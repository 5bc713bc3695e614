package kprobes

import (
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// checkAddress is check_kprobe_address_safe: it returns EINVAL when addr must not be probed,
// and ENOENT when it is in a module that is being unloaded.
func (k *Kprobes) checkAddress(addr uint64) error {
	sym, _, _ := k.cfg.Symbols.Lookup(addr)
	switch t := k.cfg.Tables; {
	case !t.KernelText(addr):
		return errf(syscall.EINVAL, "%#x is not in kernel text", addr)
	case k.blacklist.covers(addr, sym):
		return errf(syscall.EINVAL, "%s is blacklisted", sym.Name)
	case t.JumpLabel(addr, addr+1):
		return errf(syscall.EINVAL, "%#x is in a jump label", addr)
	case t.StaticCall(addr, addr+1):
		return errf(syscall.EINVAL, "%#x is in a static call", addr)
	case t.Bug(addr):
		return errf(syscall.EINVAL, "%#x is a BUG or WARN", addr)
	case !k.has[release.ProbesSwitchTo] && sym.Name == "__switch_to":
		return errf(syscall.EINVAL, "__switch_to runs on two stacks")
	case strings.HasPrefix(sym.Name, "__cfi_"), strings.HasPrefix(sym.Name, "__pfx_"):
		return errf(syscall.EINVAL, "%s is no code", sym.Name)
	case sym.Module != "" && k.cfg.Going != nil && k.cfg.Going(sym.Module):
		return errf(syscall.ENOENT, "the module %s is being unloaded", sym.Module)
	}
	return nil
}

// blacklist is what must not be probed, because the handling of a probe runs through it. Its methods may be
// called with any lock: the ranges come from Tables, which change with modules only.
type blacklist struct {
	tables  interface{ Blacklist() []abi.Range } // Tables
	symbols Symbols
}

// covers is within_kprobe_blacklist. A function that gcc split off another one
// (nmi_handle.part.0) is blacklisted with it, though the file kprobes/blacklist does
// not list it.
func (l *blacklist) covers(addr uint64, sym abi.Symbol) bool {
	ranges := l.tables.Blacklist()
	if inRanges(ranges, addr) {
		return true
	}
	base, _, derived := strings.Cut(sym.Name, ".")
	if !derived || base == "" {
		return false
	}
	syms := l.symbols.LookupName(base)
	return len(syms) > 0 && inRanges(ranges, syms[0].Addr)
}

func inRanges(ranges []abi.Range, addr uint64) bool {
	for _, r := range ranges {
		if r.Contains(addr) {
			return true
		}
	}
	return false
}

// BlacklistRecord is a line of kprobes/blacklist.
type BlacklistRecord struct {
	abi.Range
	Symbol string // the start as %ps shows it: "name", "name [module]", or the address
}

// Blacklist returns the lines of kprobes/blacklist in the kernel's order.
func (k *Kprobes) Blacklist() []BlacklistRecord { return k.blacklist.records() }

func (l *blacklist) records() []BlacklistRecord {
	ranges := l.tables.Blacklist()
	records := make([]BlacklistRecord, len(ranges))
	for i, r := range ranges {
		records[i] = BlacklistRecord{Range: r, Symbol: l.symbolText(r.Start)}
	}
	return records
}

// symbolText formats an address as %ps does.
func (l *blacklist) symbolText(addr uint64) string {
	sym, _, ok := l.symbols.Lookup(addr)
	switch {
	case !ok:
		return hexText(addr)
	case sym.Module != "":
		return sym.Name + " [" + sym.Module + "]"
	}
	return sym.Name
}

// Append adds the line's text to b as kprobe_blacklist_seq_show prints it; if hide is
// set, the addresses are zeros.
func (r BlacklistRecord) Append(b []byte, hide bool) []byte {
	b = append(b, "0x"...)
	b = appendAddr(b, r.Start, hide)
	b = append(b, "-0x"...)
	b = appendAddr(b, r.End, hide)
	b = append(b, '\t')
	b = append(b, r.Symbol...)
	return append(b, '\n')
}

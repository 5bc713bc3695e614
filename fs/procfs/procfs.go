// Package procfs is the part of /proc in the tree: kallsyms, modules, version, cmdline, kmsg,
// and the files of /proc/sys that act on kprobes.
package procfs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Module is a line of /proc/modules.
type Module struct {
	Name   string
	Size   uint64 // bytes
	Refs   int
	Users  []string // modules that use it
	State  string   // Live, Loading, Unloading
	Addr   uint64
	Taints string // "OE", or "" if there are none
	// Permanent modules have an init function and no exit function.
	Permanent bool
}

// Config has the contents of the files.
type Config struct {
	Symbols func() []abi.Symbol // in the order of kallsyms
	Modules func() []Module     // newest first
	Version string              // of /proc/version, without a newline
	Cmdline string              // of /proc/cmdline, without a newline
	// ShowAddr is kallsyms_show_value: whether the opener of a file sees addresses.
	ShowAddr func(c *seqfile.Caller) bool
	Log      Log // of /proc/kmsg
}

// Proc is the directory that stands for /proc.
func Proc(c Config) *seqfile.Row {
	return &seqfile.Row{
		Name: "proc", Mode: 0o555, Kind: seqfile.Proc, At: "/proc",
		Dir: seqfile.Table{
			{Name: "kallsyms", Mode: 0o444, FOps: abi.FOpsSeq, Open: c.openKallsyms},
			{Name: "modules", Mode: 0o444, FOps: abi.FOpsSeq, Open: c.openModules},
			{Name: "version", Mode: 0o444, FOps: abi.FOpsSeq, Open: line(c.Version)},
			{Name: "cmdline", Mode: 0o444, FOps: abi.FOpsSeq, Open: line(c.Cmdline)},
			{Name: "kmsg", Mode: 0o400, FOps: abi.FOpsDev, Open: openKmsg(c.Log)},
		},
	}
}

func line(text string) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return seqfile.OpenSingle(func() (string, error) { return text + "\n", nil })
}

// openKallsyms is kallsyms_open: a record is a symbol.
func (c Config) openKallsyms(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
	hide := !c.ShowAddr(&o.Caller)
	var syms []abi.Symbol
	return &seqfile.Seq{Show: func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i == 0 || syms == nil {
			syms = c.Symbols()
		}
		if i >= int64(len(syms)) {
			return b, false, nil
		}
		return AppendSymbol(b, syms[i], hide), true, nil
	}}, nil
}

// AppendSymbol adds a line of /proc/kallsyms, as s_show prints it.
func AppendSymbol(b []byte, s abi.Symbol, hide bool) []byte {
	addr := s.Addr
	if hide {
		addr = 0
	}
	b = fmt.Appendf(b, "%016x %c %s", addr, s.Type, s.Name)
	if s.Module != "" {
		b = fmt.Appendf(b, "\t[%s]", s.Module)
	}
	return append(b, '\n')
}

// openModules is modules_open: a record is a module.
func (c Config) openModules(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
	hide := !c.ShowAddr(&o.Caller)
	return &seqfile.Seq{Show: func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		mods := c.Modules()
		if i >= int64(len(mods)) {
			return b, false, nil
		}
		return mods[i].Append(b, hide), true, nil
	}}, nil
}

// Append adds the module's line, as m_show prints it.
func (m Module) Append(b []byte, hide bool) []byte {
	addr := m.Addr
	if hide {
		addr = 0
	}
	holders := slices.Clone(m.Users)
	if m.Permanent {
		holders = append(holders, "[permanent]")
	}
	users := "-"
	if len(holders) > 0 {
		users = strings.Join(holders, ",") + ","
	}
	b = fmt.Appendf(b, "%s %d %d %s %s 0x%016x", m.Name, m.Size, m.Refs, users, m.State, addr)
	if m.Taints != "" {
		b = fmt.Appendf(b, " (%s)", m.Taints)
	}
	return append(b, '\n')
}

// ShowValue is kallsyms_show_value for a caller, given kernel.kptr_restrict and
// kernel.perf_event_paranoid. With 0, everybody sees addresses if perf may use them;
// with 1 (and otherwise with 0), callers with CAP_SYSLOG do; with any other value
// nobody does.
func ShowValue(kptrRestrict, perfEventParanoid int, c *seqfile.Caller) bool {
	switch kptrRestrict {
	case 0:
		return perfEventParanoid <= 1 || c.Capable(seqfile.CapSyslog)
	case 1:
		return c.Capable(seqfile.CapSyslog)
	}
	return false
}

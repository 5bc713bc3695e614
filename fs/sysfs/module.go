// Package sysfs is the part of /sys in the tree that tells about modules. Files that
// modules make there are guest code.
package sysfs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/guestfs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// Config has what the files show.
type Config struct {
	Modules func() []module.Info // newest first
	Files   *guestfs.Files       // what guest code has made
	// ShowAddr is kallsyms_show_value: whether the opener of a file sees addresses.
	ShowAddr func(c *seqfile.Caller) bool
	Printk   func(level int, format string, args ...any)
}

// Sizes of files, bytes.
const (
	attrSize    = 4096
	sectionSize = 19 // of an address and a newline
)

// Modules is the directory /sys/module.
func Modules(c Config) *seqfile.Row {
	return &seqfile.Row{
		Name: "module", Mode: 0o755, Kind: seqfile.Sysfs, At: "/sys/module",
		Dir: c.Files.Over("/sys/module", func() []*seqfile.Row {
			var rows []*seqfile.Row
			for _, m := range slices.Backward(c.Modules()) {
				rows = append(rows, c.module(m))
			}
			return rows
		}),
	}
}

// module is the directory of a module. Its parameters, and what the module itself adds,
// are guest code.
func (c Config) module(m module.Info) *seqfile.Row {
	at := "/sys/module/" + m.Name
	rows := []*seqfile.Row{
		attr("coresize", fmt.Sprintf("%d\n", m.Core)),
		attr("initsize", fmt.Sprintf("%d\n", m.Size-m.Core)),
		attr("initstate", initState(m.State)+"\n"),
		attr("refcnt", fmt.Sprintf("%d\n", m.Refs)),
		attr("taint", m.Letters+"\n"),
		{Name: "uevent", Mode: 0o200, Size: attrSize, Open: opens(c.uevent(m.Name))},
	}
	if m.Srcversion != "" {
		rows = append(rows, attr("srcversion", m.Srcversion+"\n"))
	}
	if m.Version != "" {
		rows = append(rows, attr("version", m.Version+"\n"))
	}
	rows = append(rows,
		&seqfile.Row{Name: "holders", Mode: 0o755, Dir: holders(m)},
		&seqfile.Row{Name: "notes", Mode: 0o755, Dir: notes(m)},
		&seqfile.Row{Name: "sections", Mode: 0o755, Dir: c.sections(m)},
	)
	for _, r := range rows {
		r.Gen = m.ID
	}
	return &seqfile.Row{Name: m.Name, Mode: 0o755, At: at, Gen: m.ID, Dir: c.Files.Over(at, func() []*seqfile.Row { return rows })}
}

// initState is the text of initstate.
func initState(s module.State) string {
	switch s {
	case module.Coming:
		return "coming"
	case module.Going:
		return "going"
	case module.Live:
	}
	return "live"
}

// Types is the directory /sys/kernel/btf, with the kernel's types.
func Types(raw []byte) *seqfile.Row {
	return directory("btf", &seqfile.Row{
		Name: "vmlinux", Mode: 0o444, Size: uint64(len(raw)), FOps: abi.FOpsSeq, Open: opens(readOnly(string(raw))),
	})
}

// attr is a text that everybody may read.
func attr(name, text string) *seqfile.Row {
	return &seqfile.Row{Name: name, Mode: 0o444, Size: attrSize, FOps: abi.FOpsSeq, Open: opens(readOnly(text))}
}

// opens opens v for what it can do; other directions fail with EACCES, also for root.
func opens(v seqfile.Value) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		if o.Reads() && v.Get == nil || o.Writes() && v.Set == nil {
			return nil, fmt.Errorf("the attribute cannot be opened so: %w", syscall.EACCES)
		}
		return v, nil
	}
}

func readOnly(text string) seqfile.Value {
	return seqfile.Value{Get: func(context.Context) (string, error) { return text, nil }}
}

// holders has a link to each module that uses this one.
func holders(m module.Info) seqfile.Table {
	table := seqfile.Table{}
	for _, user := range m.Users {
		table = append(table, &seqfile.Row{Name: user, Mode: 0o777, Link: "../../" + user})
	}
	return table
}

func notes(m module.Info) seqfile.Table {
	table := seqfile.Table{}
	for _, s := range m.Sections {
		if s.Note != nil {
			table = append(table, &seqfile.Row{Name: s.Name, Mode: 0o444, Size: uint64(len(s.Note)), Open: opens(readOnly(string(s.Note)))})
		}
	}
	return table
}

// sections has a file with the address of each section. It shows zeros to an opener who
// may not see addresses.
func (c Config) sections(m module.Info) seqfile.Table {
	table := seqfile.Table{}
	for _, s := range m.Sections {
		table = append(table, &seqfile.Row{
			Name: s.Name, Mode: 0o400, Size: sectionSize,
			Open: func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
				addr := s.Addr
				if !c.ShowAddr(&o.Caller) {
					addr = 0
				}
				return readOnly(fmt.Sprintf("0x%016x\n", addr)), nil
			},
		})
	}
	return table
}

// actions are what may be written to uevent.
var actions = []string{"add", "remove", "change", "move", "online", "offline", "bind", "unbind"}

// uevent takes the name of an event. Nobody listens to events here.
func (c Config) uevent(name string) seqfile.Value {
	return seqfile.Value{Set: func(_ context.Context, p []byte) (int, error) {
		action, _, _ := strings.Cut(strings.TrimSuffix(string(p), "\n"), " ")
		if slices.Contains(actions, action) {
			return len(p), nil
		}
		c.Printk(4, "synth uevent: /module/%s: unknown uevent action string", name)
		return 0, fmt.Errorf("%q is no action: %w", action, syscall.EINVAL)
	}}
}

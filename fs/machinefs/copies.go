package machinefs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// copies is the directory machine/copies: a file for each name of a function, with the code
// outside of the function that executes its probed instructions. Its functions are in the order
// of those in the file of machine/text, so a reader finds out which one is meant without
// addresses, which may be hidden.
type copies struct{ c Config }

var _ seqfile.Finder = copies{}

// Rows lists the functions that are probed.
func (d copies) Rows() []*seqfile.Row {
	var rows []*seqfile.Row
	seen := map[string]bool{}
	for _, pt := range d.c.Points() {
		if s, _, ok := d.c.Symbols.Lookup(pt.Addr); ok && isFunction(s) && !seen[s.Name] {
			seen[s.Name] = true
			rows = append(rows, d.row(s))
		}
	}
	return rows
}

// Find returns the file of a function, also if it is not probed: then the file has the name only.
func (d copies) Find(name string) *seqfile.Row {
	if r := text(d).Find(name); r != nil {
		return d.row(abi.Symbol{Name: name, Addr: r.Gen})
	}
	return nil
}

func (d copies) row(s abi.Symbol) *seqfile.Row {
	return &seqfile.Row{Name: s.Name, Mode: 0o444, Gen: s.Addr, Open: d.c.openShown(func(hide bool) (string, error) {
		return d.c.copiesOf(s.Name, hide)
	})}
}

// copiesOf returns the copies of all functions of a name.
func (c Config) copiesOf(name string, hide bool) (string, error) {
	points := c.Points()
	var b strings.Builder
	for _, s := range c.Symbols.LookupName(name) {
		if !isFunction(s) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%s\n", s.Name, moduleText(s))
		for _, pt := range points {
			if pt.Addr < s.Addr || pt.Addr-s.Addr >= s.Size {
				continue
			}
			if err := c.copiesAt(&b, pt, pt.Addr-s.Addr, hide); err != nil {
				return "", err
			}
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("%s is gone: %w", name, syscall.ENOENT)
	}
	return b.String(), nil
}

// copiesAt writes how the probes at an offset are carried out, and the code for that: the slot with
// the copy that is stepped, the one that jumps back by itself, the detour up to the copied
// instructions, and these with the jump back.
func (c Config) copiesAt(b *strings.Builder, pt kprobes.PointInfo, off uint64, hide bool) error {
	fmt.Fprintf(b, "+%#x armed %s flags %s carried %s\n", off, yesNo(pt.Armed), orNone(pt.Flags.String()), pt.Carried)
	for _, part := range []struct {
		what string
		addr uint64
		size int
	}{
		{"slot", pt.Slot, pt.Length + 1},   // an int3 follows
		{"boost", pt.Boost, pt.Length + 5}, // a jump follows
		{"detour", pt.Buffer, int(pt.Detour - pt.Buffer)},
		{"copied", pt.Detour, pt.BufferLen - int(pt.Detour-pt.Buffer)},
	} {
		if part.addr == 0 || part.size <= 0 {
			continue
		}
		code := make([]byte, part.size)
		switch err := c.Read(part.addr, code); {
		case errors.Is(err, syscall.EFAULT):
			continue // the probe has gone since Points, and its code with it
		case err != nil:
			return err
		}
		fmt.Fprintf(b, "+%#x %s\n", off, part.what)
		b.WriteString(Disassemble(part.addr, code, code, c.name, hide))
	}
	return nil
}

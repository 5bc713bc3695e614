// Package machinefs is the directory machine: what the emulated kernel has to
// show and Linux has not. text/ holds the bytes of each function as they are
// now, disassembled; probes/ tells of each probed address how its probes are
// carried out and why not better; load/ calls functions of the kernel as often
// as one likes.
package machinefs

import (
	"context"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Symbols finds functions: *kallsyms.Table.
type Symbols interface {
	All() []abi.Symbol
	LookupName(name string) []abi.Symbol
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Config ties the files to the machine.
type Config struct {
	Symbols Symbols
	// Read gives the bytes at an address as they are now.
	Read func(addr uint64, p []byte) error
	// Original gives them as they are without probes.
	Original func(addr uint64, p []byte) error
	// Points gives what is probed.
	Points func() []kprobes.PointInfo
	// CPUs is the number of vCPUs.
	CPUs int
	// CallOn calls a function on a kernel thread of a vCPU, count times with the
	// same arguments, and gives its last result.
	CallOn func(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error)
	// About is the text of the file kernel: what machine this is.
	About func() string
	// More are further rows: modules/, clock, ...
	More []*seqfile.Row
}

// Machine is the directory machine.
func Machine(c Config) *seqfile.Row {
	return &seqfile.Row{
		Name: "machine", Mode: 0o755, Kind: seqfile.Ours, At: "/machine",
		Dir: append(seqfile.Table{
			{Name: "kernel", Mode: 0o444, Open: seqfile.OpenSingle(func() (string, error) { return c.About(), nil })},
			{Name: "text", Mode: 0o755, Dir: text{c}},
			{Name: "probes", Mode: 0o755, Dir: probes{c}},
			{Name: "load", Mode: 0o755, Dir: seqfile.Table{
				{Name: "call", Mode: 0o600, Open: seqfile.Opens((&load{c: c}).file())},
			}},
		}, c.More...),
	}
}

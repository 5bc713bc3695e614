// Package machinefs is the directory machine: files about the emulated kernel that
// Linux does not have. text/ has the current code of each function, disassembled;
// probes/ says for each probed address how its probes are implemented and why not
// faster, and probed says it for all of them; copies/ has the code outside of a function that
// executes its probed instructions; writes tells who has written which file of the tree; load/ calls functions of the kernel; modules/ loads and unloads modules, with
// the arguments that modprobe.conf has for them. run stops the machine, steps it and lets it go on.
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
	// Read reads the current bytes at an address.
	Read func(addr uint64, p []byte) error
	// Original reads the bytes without probes.
	Original func(addr uint64, p []byte) error
	// Points returns the probed addresses.
	Points func() []kprobes.PointInfo
	// Queues returns the state of the optimizer.
	Queues func() kprobes.Queues
	// ShowAddr is kallsyms_show_value: whether the opener of a file sees addresses.
	ShowAddr func(c *seqfile.Caller) bool
	// CPUs is the number of vCPUs.
	CPUs int
	// CallOn calls a function on a kernel thread of a vCPU, count times with the same
	// arguments, and returns its last result.
	CallOn func(ctx context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error)
	// Now is the machine's time in nanoseconds, by which calls are measured; nil means the host's.
	Now func() int64
	// Call calls what an expression says, and returns the text to be read: the file call. It is given for
	// a kernel that is not booted, which is not stopped and has no image for gdb. nil means the guest.
	Call func(ctx context.Context, text string) (string, error)
	// Debugger stops the machine: the file run.
	Debugger Debugger
	// Timeline takes the machine back. If it is nil, it cannot go back.
	Timeline Timeline
	// Image is the guest's kernel as an ELF file with symbols: the file vmlinux.
	Image []byte
	// Writes is the record that the file writes shows.
	Writes *seqfile.Writes
	// About returns the text of the file kernel, a description of the machine.
	About func() string
	// More are additional rows: modules/, clock, ... The command adds attach.
	More []*seqfile.Row
}

// Machine is the directory machine.
func Machine(c Config) *seqfile.Row {
	return &seqfile.Row{
		Name: "machine", Mode: 0o755, Kind: seqfile.Ours, At: "/machine", UsableAfterPanic: true,
		Dir: append(seqfile.Table{
			{Name: "kernel", Mode: 0o444, Open: seqfile.OpenSingle(func() (string, error) { return c.About(), nil })},
			{Name: "writes", Mode: 0o400, Open: seqfile.OpenSingle(c.Writes.Show)},
			{Name: "text", Mode: 0o755, Dir: text{c}},
			{Name: "probes", Mode: 0o755, Dir: probes{c}},
			{Name: "probed", Mode: 0o444, Open: c.openShown(c.probed)},
			{Name: "copies", Mode: 0o755, Dir: copies{c}},
			{Name: "optimizer", Mode: 0o444, Open: seqfile.OpenSingle(func() (string, error) { return QueuesText(c.Queues(), c.place), nil })},
			{Name: "load", Mode: 0o755, Dir: seqfile.Table{
				{Name: "call", Mode: 0o600, Open: seqfile.Opens((&load{c: c}).file())},
			}},
		}, append(c.ofKernel(), c.More...)...),
	}
}

// ofKernel are the files that one kind of kernels has.
func (c Config) ofKernel() []*seqfile.Row {
	if c.Call != nil {
		return []*seqfile.Row{{Name: "call", Mode: 0o600, Open: (&calls{call: c.Call}).open}}
	}
	return []*seqfile.Row{
		{Name: "vmlinux", Mode: 0o400, Size: uint64(len(c.Image)), WithoutGuest: true, Mappable: true, Open: seqfile.Opens(image(c.Image))},
		c.runFile(),
	}
}

// openShown is the Open of a file with one record that contains addresses. As in
// kprobes/list, the credentials of the opener and the sysctls at the time of the read
// decide whether they are hidden.
func (c Config) openShown(show func(hide bool) (string, error)) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(ctx context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		opener := o.Cred(seqfile.CapSyslog)
		return seqfile.OpenSingle(func() (string, error) { return show(!c.ShowAddr(opener)) })(ctx, o)
	}
}

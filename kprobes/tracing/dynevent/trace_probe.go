package dynevent

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// probeEvent is the part that events of kprobes, uprobes and fprobes have in common;
// they differ in the location of their probes.
type probeEvent struct {
	event
	reg      *Registry
	ret      bool        // entries have __probe_func and __probe_ret_ip, not __probe_ip
	args     []probe.Arg // of its first probe; all probes have the same names and types
	argsSize int
}

// headSize returns the size of an entry before the arguments.
func (ev *probeEvent) headSize() int {
	if ev.ret {
		return field.HeaderSize + 16
	}
	return field.HeaderSize + 8
}

// Fields implements Class.
func (ev *probeEvent) Fields() []field.Field {
	head := []field.Field{field.New("unsigned long __probe_ip", 8, 8, false)}
	if ev.ret {
		head = []field.Field{field.New("unsigned long __probe_func", 8, 8, false), field.New("unsigned long __probe_ret_ip", 16, 8, false)}
	}
	return append(head, probe.Fields(ev.args, ev.headSize())...)
}

// PrintFmt implements Class.
func (ev *probeEvent) PrintFmt() string {
	format, values := probe.PrintFmt(ev.args)
	if ev.ret {
		return `"(%lx <- %lx)` + format + `", REC->__probe_func, REC->__probe_ret_ip` + values
	}
	return `"(%lx)` + format + `", REC->__probe_ip` + values
}

// Print is print_kprobe_event, print_kretprobe_event and the fprobe versions.
func (ev *probeEvent) Print(symbols Printer, b, entry []byte) []byte {
	b = append(append(b, ev.name...), ": ("...)
	ip := binary.LittleEndian.Uint64(entry[8:])
	if ev.ret {
		b = symbols.AppendSymbol(b, binary.LittleEndian.Uint64(entry[16:]), true)
		b = symbols.AppendSymbol(append(b, " <- "...), ip, false)
	} else {
		b = symbols.AppendSymbol(b, ip, true)
	}
	b = probe.AppendArgs(append(b, ')'), entry, ev.args, ev.headSize(), ev.reg.conf.Symbols)
	return append(b, '\n')
}

// record adds the arguments to an entry and commits it.
func (ev *probeEvent) record(en *probe.Entry, trap *abi.Trap, args []probe.Arg) {
	if !en.StoreArgs(trap, args, ev.argsSize) {
		ev.Discard(trap)
		return
	}
	ev.Commit(trap)
}

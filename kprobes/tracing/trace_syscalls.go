package tracing

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// syscallGroup is the group of the events sys_enter_NAME and sys_exit_NAME.
const syscallGroup = "syscalls"

// syscallEvent is the event of one system call (syscall_metadata): it is hit when the
// tracepoint sys_enter or sys_exit is hit with its number.
type syscallEvent struct {
	*Event
	staticFormat
	tp   *tracepoint
	call string // "sys_openat"
	exit bool
	args int
}

var _ eventClass = (*syscallEvent)(nil)

// newSyscallEvent creates the event if the kernel has the system call.
func (t *Tracer) newSyscallEvent(f staticFormat) {
	name, exit := strings.CutPrefix(f.name, "sys_exit_")
	point := "sys_exit"
	if !exit {
		name, point = strings.TrimPrefix(f.name, "sys_enter_"), "sys_enter"
	}
	nr := slices.Index(t.conf.Syscalls, name)
	tp := t.tracepoint(point)
	if nr < 0 || tp == nil {
		return
	}
	ev := &syscallEvent{staticFormat: f, tp: tp, call: "sys_" + name, exit: exit, args: len(f.members) - 1}
	ev.Event = t.newEvent(f.group, f.name, f.id, ev)
	if tp.calls == nil {
		tp.calls = make([]*syscallEvent, len(t.conf.Syscalls))
	}
	tp.calls[nr] = ev
}

func (ev *syscallEvent) fields() []field.Field { return ev.members }
func (ev *syscallEvent) printFmt() string      { return ev.text }
func (ev *syscallEvent) enable() error         { return ev.tp.use(1) }
func (ev *syscallEvent) disable()              { _ = ev.tp.use(-1) }

// hit records the number and the arguments, or the result. data is the data of the
// tracepoint: the number, then these. It runs in handler context.
func (ev *syscallEvent) hit(trap *abi.Trap, data []byte) {
	words := data[8:]
	if len(words) < 8*ev.args {
		return
	}
	en := ev.begin(trap)
	if en == nil {
		return
	}
	en.Buf[2], en.Buf[3] = ev.tracer.traceContextHere(trap)
	en.Word(uint64(binary.LittleEndian.Uint32(data)))
	en.N += copy(en.Buf[en.N:], words[:8*ev.args])
	ev.commit(trap, en)
}

// print is print_syscall_enter and print_syscall_exit.
func (ev *syscallEvent) print(_ *Array, b, entry []byte) []byte {
	b = append(b, ev.call...)
	if ev.exit {
		return fmt.Appendf(b, " -> 0x%x\n", binary.LittleEndian.Uint64(entry[16:]))
	}
	b = append(b, '(')
	for i, f := range ev.members[1:] {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = fmt.Appendf(b, "%s: %x", f.Name(), binary.LittleEndian.Uint64(entry[f.Offset:]))
	}
	return append(b, ")\n"...)
}

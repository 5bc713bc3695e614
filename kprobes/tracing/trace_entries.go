package tracing

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// IDs of the events of group ftrace: enum trace_type.
const (
	typeStack     = ftracer.TypeStack
	typePrint     = 5
	typeBprint    = 6
	typeUserStack = 12
	typeBputs     = 14
)

// ownEvents creates the events of group ftrace. They can be neither enabled nor
// filtered, only found in the buffer and listed.
func (t *Tracer) ownEvents() {
	for _, own := range []struct {
		name  string
		id    uint16
		class eventClass
	}{
		{"kernel_stack", typeStack, stackClass{own{}, "<stack trace>", field.New("int size", 8, 4, true), false}},
		{"print", typePrint, printClass{}},
		{"user_stack", typeUserStack, stackClass{own{}, "<user stack trace>", field.New("unsigned int tgid", 8, 4, false), true}},
		{"raw_data", t.conf.rawDataID, rawDataClass{}},
		{"bprint", typeBprint, bprintClass{}},
		{"bputs", typeBputs, bputsClass{}},
	} {
		e := t.newEvent("ftrace", own.name, own.id, own.class)
		e.Internal = true
		if own.id == typeStack {
			e.size = 16
		}
	}
}

// listedClass is the class of the events of group ftrace that belong to tracers which are not
// here, or not on Debian's kernels. Their files can be read, as tools do that save the formats
// of the group; nothing records them.
type listedClass struct {
	own
	staticFormat
}

func (c listedClass) fields() []field.Field            { return c.members }
func (c listedClass) printFmt() string                 { return c.text }
func (listedClass) print(_ *Array, b, _ []byte) []byte { return append(b, '\n') }

// own is embedded in the classes of group ftrace: they cannot be enabled.
type own struct{}

func (own) enable() error { return nil }
func (own) disable()      {}

// Task is the task that writes to a file, as far as an entry records it.
type Task struct {
	PID, TGID int32
	CPU       int
	Comm      func() string
}

// TaskCPU returns the vCPU of the task whose write has the context ctx.
func (a *Array) TaskCPU(ctx context.Context) int {
	return min(a.tracer.conf.Files.TaskCPU(ctx), a.buffer.CPUs()-1)
}

// markerMax is TRACE_BUF_SIZE: how many bytes one write to trace_marker or
// trace_marker_raw records; rawMax is RAW_DATA_MAX_SIZE: larger raw writes are refused.
const (
	markerMax = 1024
	rawMax    = 3 * 1024
	rawMin    = 13 // bytes that every entry has room for
)

// markerMax returns how long the data of such an entry may be after head bytes: usual
// on 6.1, otherwise what fits in an entry.
func (t *Tracer) markerMax(head, usual int) int {
	if t.conf.has[release.LongMarkers] {
		return ring.MaxData - head
	}
	return usual
}

// WriteMarker is tracing_mark_write: the text becomes an entry, cut to its maximum
// (markerMax). It fails with EINVAL if the option markers is off, and with EBADF if
// recording is off.
func (a *Array) WriteMarker(task Task, data []byte) (int, error) {
	if !a.has(optMarkers) {
		return 0, fmt.Errorf("markers are off: %w", syscall.EINVAL)
	}
	data = data[:min(len(data), a.tracer.markerMax(18, markerMax))]
	entry := make([]byte, 16, 16+len(data)+2)
	binary.LittleEndian.PutUint64(entry[8:], a.tracer.markerIP())
	entry = append(entry, data...)
	size := 16 + len(data) + 2
	buffer := a.markerTriggers(task, entry)
	if len(data) > 0 && data[len(data)-1] != '\n' {
		entry = append(entry, '\n')
	}
	if err := a.writeEntry(buffer, task, typePrint, append(entry, 0)[:size]); err != nil {
		return 0, err
	}
	return len(data), nil
}

// WriteRawMarker is tracing_mark_raw_write: a number of 4 bytes and data. It fails with
// EINVAL if there are fewer than 4 bytes or more than there is room for, and otherwise
// as WriteMarker does.
func (a *Array) WriteRawMarker(task Task, data []byte) (int, error) {
	if !a.has(optMarkers) || len(data) < 4 || len(data) > a.tracer.markerMax(12, rawMax) {
		return 0, fmt.Errorf("a raw marker of %d bytes: %w", len(data), syscall.EINVAL)
	}
	if !a.tracer.conf.has[release.LongMarkers] {
		data = data[:min(len(data), markerMax)]
	}
	entry := make([]byte, 12+max(len(data), rawMin))
	copy(entry[8:], data)
	if err := a.writeEntry(a.buffer, task, a.tracer.conf.rawDataID, entry); err != nil {
		return 0, err
	}
	return len(data), nil
}

// writeEntry puts an entry of a task's system call into the buffer.
func (a *Array) writeEntry(buffer *ring.Buffer, task Task, id uint16, entry []byte) error {
	binary.LittleEndian.PutUint16(entry, id)
	binary.LittleEndian.PutUint32(entry[4:], uint32(task.PID))
	if !buffer.Write(task.CPU, a.now(), entry) {
		return fmt.Errorf("nothing is recorded: %w", syscall.EBADF)
	}
	if a.tracer.savesNames.Load() {
		var name cmdlines.Comm
		copy(name[:abi.TaskCommLen-1], task.Comm())
		a.tracer.cmdlines.Save(task.PID, &name)
	}
	if a.has(optRecordTGID) {
		a.tracer.tgids.Save(task.PID, task.TGID)
	}
	return nil
}

// markerName is the kernel function that the entries of trace_marker name as their
// origin.
const markerName = "tracing_mark_write"

// snapshotIP is the address in entries that say why no snapshot was taken. It stands
// for a function that the guest does not have, snapshotName.
const (
	snapshotIP   = 1
	snapshotName = "tracing_snapshot_instance_cond"
)

// markerIP returns the address of markerName, or 0 if the guest has no such function.
func (t *Tracer) markerIP() uint64 {
	if syms := t.conf.Symbols.LookupName(markerName); len(syms) > 0 {
		return syms[0].Addr + syms[0].Size - 1
	}
	return 0
}

// printClass is the class of the event print, which trace_marker writes.
type printClass struct{ own }

func (printClass) fields() []field.Field {
	return []field.Field{field.New("unsigned long ip", 8, 8, false), field.New("char buf[]", 16, 0, true)}
}

func (printClass) printFmt() string { return `"%ps: %s", (void *)REC->ip, REC->buf` }

func (printClass) print(a *Array, b, entry []byte) []byte {
	switch ip := binary.LittleEndian.Uint64(entry[8:]); ip {
	case 0:
		b = append(b, markerName...)
	case snapshotIP:
		b = append(b, snapshotName...)
	default:
		b = a.appendSymbol(b, ip, a.has(optSymOffset))
	}
	return printClass{}.message(append(b, ": "...), entry)
}

// message is trace_print_printk_msg_only.
func (printClass) message(b, entry []byte) []byte {
	text, _, _ := bytes.Cut(entry[16:], []byte{0})
	return append(b, text...)
}

// raw is trace_print_raw.
func (printClass) raw(b, entry []byte) []byte {
	return printClass{}.message(fmt.Appendf(b, "# %x ", binary.LittleEndian.Uint64(entry[8:])), entry)
}

// rawDataClass is the class of the event raw_data, which trace_marker_raw writes.
type rawDataClass struct{ own }

func (rawDataClass) fields() []field.Field {
	return []field.Field{field.New("unsigned int id", 8, 4, false), field.New("char buf[]", 12, 0, true)}
}

func (rawDataClass) printFmt() string { return `"id:%04x %08x", REC->id, (int)REC->buf[0]` }

func (c rawDataClass) print(_ *Array, b, entry []byte) []byte { return c.raw(b, entry) }

func (rawDataClass) raw(b, entry []byte) []byte {
	b = fmt.Appendf(b, "# %x buf:", binary.LittleEndian.Uint32(entry[8:]))
	for _, c := range entry[12:] {
		b = fmt.Appendf(b, " %02x", c)
	}
	return append(b, '\n')
}

// stackClass is the class of the events kernel_stack and user_stack: the stack trace of
// a hit.
type stackClass struct {
	own
	title string
	first field.Field // the field before the addresses
	user  bool
}

// stackCallers is FTRACE_STACK_ENTRIES: the number of addresses that the format file
// declares. An entry of kernel_stack has as many as it needs.
const stackCallers = 8

func (c stackClass) fields() []field.Field {
	return []field.Field{c.first, field.New("unsigned long caller[8]", 16, 8*stackCallers, false)}
}

func (c stackClass) printFmt() string {
	const three = `"\t=> %ps\n\t=> %ps\n\t=> %ps\n" `
	text := three + three + `"\t=> %ps\n\t=> %ps\n"`
	for i := range stackCallers {
		text += ", (void *)REC->caller[" + strconv.Itoa(i) + "]"
	}
	return text
}

// appendUser is seq_print_user_ip: where an address is in the file that is mapped there, if file finds one.
func (a *Array) appendUser(b []byte, ip uint64, file func(ip uint64) (path string, start uint64)) []byte {
	path, start := file(ip)
	if path != "" {
		b = fmt.Appendf(b, "%s[+%#x]", path, ip-start)
	}
	if path == "" || a.has(optSymAddr) {
		b = fmt.Appendf(b, " <%016x>", ip)
	}
	return b
}

// print is trace_stack_print, or trace_user_stack_print.
func (c stackClass) print(a *Array, b, entry []byte) []byte {
	b = append(append(b, c.title...), '\n')
	file := func(uint64) (string, uint64) { return "", 0 }
	if c.user && a.has(optSymUserobj) {
		file = a.tracer.conf.Host.UserMappings(int32(binary.LittleEndian.Uint32(entry[8:])))
	}
	for callers := entry[16:]; len(callers) >= 8; callers = callers[8:] {
		ip := binary.LittleEndian.Uint64(callers)
		if ip == 0 || ip == 1<<64-1 && !c.user {
			break
		}
		b = append(b, " => "...)
		if c.user {
			b = append(a.appendUser(b, ip, file), '\n')
			continue
		}
		b = append(a.appendSymbol(b, ip, a.has(optSymOffset)), '\n')
	}
	return b
}

package tracing

import (
	"encoding/binary"
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

const (
	softirqOffset   = 256 // SOFTIRQ_OFFSET: a softirq is running
	tifNeedResched  = 1 << 3
	threadInfoFlags = 0 // offset of thread_info.flags in task_struct
)

// entry is an event's entry under construction. Each vCPU has maxNesting of them.
type entry struct {
	probe.Entry
	pointed [filter.MaxPointed]byte
	subject filter.Subject // the entry as filters and triggers see it
}

// probeEntry returns the part of an entry that package dynevent fills in.
func (en *entry) probeEntry() *probe.Entry {
	if en == nil {
		return nil
	}
	return &en.Entry
}

// begin starts the entry of a hit, in handler context: it fills in struct trace_entry
// without the pid. It returns nil if no array records the event, and perf does not use it. The caller adds the
// fields and calls commit or discard.
func (e *Event) begin(trap *abi.Trap) *entry {
	if !e.wantsHit() {
		return nil
	}
	return e.tracer.newEntry(trap, e.ID)
}

// wantsHit reports whether an array or perf would do anything with a hit now.
func (e *Event) wantsHit() bool {
	if e.perf.Load() != nil {
		return true
	}
	files := e.files.Load()
	if files == nil {
		return false
	}
	for _, f := range *files {
		if f.array.recording() || f.atHit.Load() != nil {
			return true
		}
	}
	return false
}

func (t *Tracer) newEntry(trap *abi.Trap, id uint16) *entry {
	c := t.scratch(trap)
	if c.depth == maxNesting {
		return nil
	}
	e := &c.entries[c.depth]
	c.depth++
	e.N = field.HeaderSize
	flags, preempt := t.traceContext(trap)
	binary.LittleEndian.PutUint16(e.Buf[:], id)
	e.Buf[2], e.Buf[3] = flags, preempt
	return e
}

// lastEntry returns the entry that was started last.
func (t *Tracer) lastEntry(trap *abi.Trap) *entry {
	c := t.scratch(trap)
	return &c.entries[c.depth-1]
}

// discard drops the entry that was started last.
func (t *Tracer) discard(trap *abi.Trap) { t.scratch(trap).depth-- }

// traceContext is tracing_gen_ctx_dec: it returns the five columns between CPU and
// time. The kernel subtracts one from the packed word to undo its own preempt_disable.
// An int3's handler has not called that, so the subtraction borrows from the flags next
// to the count and clears TRACE_FLAG_IRQS_OFF: such hits show as "..Zff".
func (t *Tracer) traceContext(trap *abi.Trap) (flags, preempt byte) {
	flags, preempt = t.traceContextHere(trap)
	if !t.conf.has[release.MigrateDisableColumn] {
		return flags, preempt
	}
	packed := uint32(flags)<<16 | uint32(preempt)
	packed--
	return byte(packed >> 16), byte(packed)
}

// traceContextHere is tracing_gen_ctx: the same without the subtraction.
func (t *Tracer) traceContextHere(trap *abi.Trap) (flags, preempt byte) {
	if trap.Vector == abi.VecBP || trap.IRQsOff || trap.Regs.Flags&abi.FlagIF == 0 {
		flags |= field.FlagIRQsOff // an int3 comes through an interrupt gate
	}
	if trap.Preempt&abi.NMIMask != 0 {
		flags |= field.FlagNMI
	}
	if trap.Preempt&abi.HardirqMask != 0 {
		flags |= field.FlagHardirq
	}
	if trap.Preempt&softirqOffset != 0 {
		flags |= field.FlagSoftirq
	}
	if trap.Preempt&abi.SoftirqMask > softirqOffset && t.conf.has[release.MigrateDisableColumn] {
		flags |= field.FlagBHOff
	}
	if v, err := trap.Mem.ReadU64(trap.Task + threadInfoFlags); err == nil && v&tifNeedResched != 0 {
		flags |= field.FlagNeedResched | field.FlagPreemptNeeded
	}
	if !t.conf.has[release.PreemptCount] {
		return flags, 0
	}
	return flags, byte(min(trap.Preempt&abi.PreemptMask, 0xf))
}

// commit passes a hit to the arrays that record the event, and to perf. It runs in handler
// context.
func (e *Event) commit(trap *abi.Trap, en *entry) {
	t := e.tracer
	defer t.discard(trap)
	pid := cmdlines.PID(trap)
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(pid))
	c := t.scratch(trap)
	c.read.Load(trap)
	s := &en.subject // field by field: assigning a struct with pointers is slower while the garbage collector runs
	s.Entry, s.CPU, s.Comm, s.Trap, s.Pointed = en.Buf[:en.N], trap.CPU, (*[abi.TaskCommLen]byte)(&c.read), trap, &en.pointed
	saved := false
	if files := e.files.Load(); files != nil {
		for _, f := range *files {
			if f.take(trap, s) && !saved {
				saved = true
				t.saveCmdline(c, pid)
			}
		}
	}
	if users := e.perf.Load(); users != nil {
		en.Buf[2], en.Buf[3] = t.traceContextHere(trap) // perf_trace_buf_update
		e.perfHit(trap, s, users, pid)
	}
}

// take is what trace_event_buffer_commit and its callers do with a hit: triggers,
// filter, and the array's buffer. Triggers that do not need the entry run first, so
// that what they switch already applies to this hit. For the others the entry is
// reserved before they run, so that it precedes what they record, unless a filter makes
// the kernel use trace_buffered_event. It returns true if the entry is in the buffer
// and its task's name should be saved.
func (f *EventFile) take(trap *abi.Trap, s *filter.Subject) bool {
	triggers := f.atHit.Load()
	cond := triggers != nil && (*triggers).NeedsEntry()
	if triggers != nil && !cond {
		(*triggers).Run(trap, nil)
	}
	a := f.array
	on := a.recording()
	if !cond && !on {
		return false
	}
	clock := a.clock.Load()
	now := clock.read(a.tracer, trap.Now())
	swaps := a.buffer.Swaps()
	recorded := false
	if cond {
		direct := f.filter.Load() == nil || a.timestamps.Load() > 0
		if direct {
			recorded = on && f.records(s) && a.snapshots.reservedIn(swaps).Commit(trap.CPU, now, s.Entry)
		}
		s.Time, s.Nanoseconds = now, clock.inNS
		if (*triggers).Run(trap, s) {
			defer (*triggers).After(s)
		}
		if direct && !recorded {
			return false
		}
		on = on && a.recording() // a trace_buffered_event is only committed now, after a trigger may have switched recording off
	}
	if !recorded && !(on && f.records(s) && a.snapshots.reservedIn(swaps).Commit(trap.CPU, now, s.Entry)) {
		return false
	}
	if a.has(optStacktrace) {
		a.recordStack(trap, a.tracer.unwindEvent(trap, f.Event), now, s.Entry[2], s.Entry[3])
	}
	if a.has(optUserStacktrace) {
		a.recordUserStack(trap, now, s.Entry[2], s.Entry[3])
	}
	if a.has(optRecordTGID) {
		a.tracer.saveTGID(trap)
	}
	return a.has(optRecordCmd)
}

// records reports whether the file records a hit while its array is recording.
func (f *EventFile) records(s *filter.Subject) bool {
	pid := int32(binary.LittleEndian.Uint32(s.Entry[4:]))
	return f.flags.Load()&fileSoftDisabled == 0 && !f.array.pids.ignores(pid) && f.filter.Load().Passes(s)
}

// saveTGID saves which process the task belongs to.
func (t *Tracer) saveTGID(trap *abi.Trap) {
	if v, err := trap.Mem.ReadU64(trap.Task + abi.TaskTGID); err == nil {
		t.tgids.Save(cmdlines.PID(trap), int32(uint32(v)))
	}
}

// saveCmdline saves the name of the task, unless it is the one that this vCPU saved
// last.
func (t *Tracer) saveCmdline(c *cpuScratch, pid int32) {
	if pid == c.pid && c.read == c.name {
		return
	}
	if t.cmdlines.Save(pid, &c.read) {
		c.pid, c.name = pid, c.read
	}
}

// recordOwn writes an entry of group ftrace to a's buffer. It runs in handler context.
func (a *Array) recordOwn(trap *abi.Trap, en *probe.Entry, pid int32) bool {
	t := a.tracer
	binary.LittleEndian.PutUint32(en.Buf[4:], uint32(pid))
	if !a.buffer.Commit(trap.CPU, a.clock.Load().read(t, trap.Now()), en.Buf[:en.N]) {
		return false
	}
	if a.has(optRecordTGID) {
		t.saveTGID(trap)
	}
	a.saveName(trap)
	return true
}

// saveName saves the name of the task. It runs in handler context.
func (a *Array) saveName(trap *abi.Trap) {
	if !a.has(optRecordCmd) {
		return
	}
	c := &a.tracer.cpus[trap.CPU]
	c.read.Load(trap)
	a.tracer.saveCmdline(c, cmdlines.PID(trap))
}

// line is an entry's position in the reading, for print_trace_line.
type line struct {
	ring.Record
	index int   // from 0
	next  int64 // time of the next entry, or Time if there is none
	dump  bool  // it goes to the kernel's log, which always has the columns of latency-format
}

// appendHeader appends the header of trace: the tracer, the counts and the names of the
// columns. from is the buffer that is shown.
func (a *Array) appendHeader(b []byte, from *ring.Buffer) []byte {
	b = fmt.Appendf(b, "# tracer: %s\n#\n", a.currentTracer())
	if a.printsGraph() {
		return a.ftrace.AppendGraphHeader(b, from)
	}
	entries, overrun := from.Totals()
	switch {
	case !a.has(optContextInfo):
	case a.has(optLatencyFormat):
		if entries > 0 {
			b = a.appendLatencyHeader(b, entries, overrun)
		}
	case !a.has(optVerbose):
		b = fmt.Appendf(b, "# entries-in-buffer/entries-written: %d/%d   #P:%d\n#\n", entries, entries+overrun, from.CPUs())
		b = a.columns(nil).AppendHeader(b)
	}
	return b
}

// appendLatencyHeader is print_trace_header and print_lat_help_header. The values are
// 0, because there is no latency tracer.
func (a *Array) appendLatencyHeader(b []byte, entries, overrun uint64) []byte {
	b = a.appendLatencyTitle(b, entries, overrun)
	if a.has(optVerbose) {
		return b
	}
	return a.columns(nil).AppendLatencyHeader(b)
}

// appendLatencyTitle is print_trace_header.
func (a *Array) appendLatencyTitle(b []byte, entries, overrun uint64) []byte {
	b = fmt.Appendf(b, "# %s latency trace v1.1.5 on %s\n", a.currentTracer(), a.tracer.conf.Release)
	b = append(b, "# --------------------------------------------------------------------\n"...)
	b = fmt.Appendf(b, "# latency: 0 us, #%d/%d, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:%d)\n",
		entries, entries+overrun, a.buffer.CPUs())
	return append(b, "#    -----------------\n#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n#    -----------------\n#\n"...)
}

// lineMax is the maximum length of a line where TRACE_SEQ_BUFFER_SIZE is 8 KiB less a
// header, that is, on releases with LongMarkers.
const lineMax = 8155

// appendLine is print_trace_line. Raw data that are too long for a line are cut, and
// the newline is missing: trace_marker of 6.12.
func (a *Array) appendLine(b []byte, l line, clock *traceClock) []byte {
	start := len(b)
	b = a.appendWhole(b, l, clock)
	over := len(b) - start - lineMax
	isRaw := len(l.Data) >= field.HeaderSize && binary.LittleEndian.Uint16(l.Data) == a.tracer.conf.rawDataID
	if over <= 0 || !isRaw || !a.tracer.conf.has[release.LongMarkers] {
		return b
	}
	const digits = len(" 00")
	over-- // the newline
	return b[:len(b)-1-(over+digits-1)/digits*digits]
}

func (a *Array) appendWhole(b []byte, l line, clock *traceClock) []byte {
	d := l.Data
	if len(d) < field.HeaderSize {
		return b
	}
	id := binary.LittleEndian.Uint16(d)
	pid := int32(binary.LittleEndian.Uint32(d[4:]))
	e := a.tracer.events.get(id)
	if e != nil && len(d) < e.size {
		e = nil
	}
	if a.has(optPrintk) && a.has(optPrintkMsgOnly) && e != nil {
		if m, ok := e.class.(messageClass); ok {
			return m.message(b, d)
		}
	}
	switch {
	case a.has(optBin):
		return a.appendBinary(b, l, pid, e)
	case a.has(optHex):
		return a.appendHex(b, l, pid, e)
	case a.has(optRaw):
		return a.appendRaw(b, l, pid, e)
	}
	if a.has(optContextInfo) {
		if l.dump || a.has(optLatencyFormat) {
			x := a.context(l, pid)
			b = a.columns(clock).AppendLatency(b, &x)
		} else {
			x := a.context(l, pid)
			b = a.columns(clock).AppendTask(b, &x)
		}
	}
	if e == nil {
		return fmt.Appendf(b, "Unknown type %d\n", id)
	}
	if a.has(optFields) {
		return e.appendFields(b, d)
	}
	return e.class.print(a, b, d) //nolint:forbidigo // an entry's line, not the builtin
}

// columns returns the columns that lines show; clock may be nil for their header.
func (a *Array) columns(clock *traceClock) output.Columns {
	return output.Columns{
		TGID: a.has(optRecordTGID), IRQInfo: a.has(optIRQInfo), Verbose: a.has(optVerbose),
		MigrateDisable: a.tracer.conf.has[release.MigrateDisableColumn], Nanoseconds: clock != nil && clock.inNS,
	}
}

// context returns what the columns of a line show.
func (a *Array) context(l line, pid int32) output.Context {
	return output.Context{
		Comm: a.tracer.cmdlines.Find(pid), PID: pid, TGID: a.tracer.tgids.Find(pid), CPU: l.CPU, Flags: l.Data[2], Preempt: l.Data[3],
		Time: l.Time, Index: l.index, Since: l.Time - a.timeStart.Load(), Delta: l.next - l.Time,
	}
}

// appendBinary is print_bin_fmt: the line under the option bin.
func (a *Array) appendBinary(b []byte, l line, pid int32, e *Event) []byte {
	if a.has(optContextInfo) {
		b = binary.LittleEndian.AppendUint32(b, uint32(pid))
		b = binary.LittleEndian.AppendUint32(b, uint32(l.CPU))
		b = binary.LittleEndian.AppendUint64(b, uint64(l.Time))
	}
	if c, ok := classOf(e).(binaryClass); ok {
		return c.binary(b, l.Data)
	}
	return appendType(b, binary.LittleEndian.Uint16(l.Data), e)
}

// appendHex is print_hex_fmt: the line under the option hex.
func (a *Array) appendHex(b []byte, l line, pid int32, e *Event) []byte {
	if a.has(optContextInfo) {
		b = fmt.Appendf(b, "%08x %08x %016x ", uint32(pid), uint32(l.CPU), uint64(l.Time))
	}
	if c, ok := classOf(e).(hexClass); ok {
		return append(c.hex(b, l.Data), '\n')
	}
	return append(appendType(b, binary.LittleEndian.Uint16(l.Data), e), '\n')
}

// appendRaw is print_raw_fmt: the line under the option raw.
func (a *Array) appendRaw(b []byte, l line, pid int32, e *Event) []byte {
	if a.has(optContextInfo) {
		b = fmt.Appendf(b, "%d %d %d ", pid, l.CPU, uint64(l.Time))
	}
	if c, ok := classOf(e).(rawClass); ok {
		return c.raw(b, l.Data)
	}
	return appendType(b, binary.LittleEndian.Uint16(l.Data), e)
}

// messageClass is an event that the option printk-msg-only shows as its text only.
type messageClass interface {
	message(b, entry []byte) []byte
}

// rawClass, hexClass and binaryClass are events that have a format of their own for the
// options raw, hex and bin. Other events only show their number.
type (
	rawClass    interface{ raw(b, entry []byte) []byte }
	hexClass    interface{ hex(b, entry []byte) []byte }
	binaryClass interface{ binary(b, entry []byte) []byte }
)

func classOf(e *Event) eventClass {
	if e == nil {
		return nil
	}
	return e.class
}

// appendType is trace_nop_print; it also prints entries whose event is gone.
func appendType(b []byte, id uint16, e *Event) []byte {
	if e == nil {
		return fmt.Appendf(b, "%d ?\n", id)
	}
	return fmt.Appendf(b, "type: %d\n", id)
}

// appendSymbol is seq_print_ip_sym: "sym+0x1/0x20 [module]", without offset only the
// name, or the address in hex if it belongs to no symbol.
func (a *Array) appendSymbol(b []byte, addr uint64, offset bool) []byte {
	if addr == 0 {
		return append(b, '0')
	}
	sym, off, ok := a.tracer.conf.Symbols.Lookup(addr)
	switch {
	case ok && sym.Name == a.tracer.conf.kretprobed && (off == 0 || !a.tracer.conf.has[release.KretprobedFirstByte]):
		b = append(b, "[unknown/kretprobe'd]"...)
	case ok && !offset:
		b = append(b, sym.Name...)
	default:
		b = output.AppendSprint(b, sym, off, addr, ok)
	}
	if a.has(optSymAddr) {
		b = fmt.Appendf(b, " <%016x>", addr)
	}
	return b
}

// HeaderPage returns the text of events/header_page: the layout of a page of the
// buffer.
func (a *Array) HeaderPage() string {
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	return field.New(" u64 timestamp", 0, 8, false).String() + field.New(" local_t commit", 8, 8, true).String() +
		field.New(" int overwrite", 8, 1, true).String() + field.New(" char data", ring.PageHeader, a.buffer.PageBytes()-ring.PageHeader, !a.tracer.conf.has[release.UnsignedChar]).String()
}

// lineEnv is what print formats show of an array's symbols and addresses.
type lineEnv struct{ array *Array }

func (e lineEnv) AppendSymbol(b []byte, addr uint64, offset bool) []byte {
	return e.array.appendSymbol(b, addr, offset)
}

func (e lineEnv) AppendPointer(b []byte, addr uint64) []byte {
	if !e.array.has(optHashPtr) || !e.array.tracer.conf.has[release.HashPtrOption] {
		return fmt.Appendf(b, "%016x", addr)
	}
	return append(b, output.HashedPointer(addr, e.array.tracer.conf.Machine.HashPtr)...)
}

func (e lineEnv) Memory() abi.Memory { return e.array.tracer.conf.Memory }

// appendFields is print_event_fields, for the option fields: it prints the members of
// the entry by name instead of the event's print format.
func (e *Event) appendFields(b, entry []byte) []byte {
	if e.Internal {
		return fmt.Appendf(b, "UNKNOWN TYPE %d\n", e.ID)
	}
	return output.AppendMembers(append(append(b, e.Name...), ':'), entry, e.fields)
}

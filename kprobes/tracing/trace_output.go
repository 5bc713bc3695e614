package tracing

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Bits of trace_entry.flags.
const (
	flagIRQsOff       = 0x01
	flagNeedResched   = 0x04
	flagHardirq       = 0x08
	flagSoftirq       = 0x10
	flagPreemptNeeded = 0x20
	flagNMI           = 0x40
	flagBHOff         = 0x80
)

const (
	softirqOffset   = 256 // SOFTIRQ_OFFSET: a softirq is running
	tifNeedResched  = 1 << 3
	threadInfoFlags = 0 // offset of thread_info.flags in task_struct
)

// subject is a hit as filters and triggers see it.
type subject struct {
	filter.Subject
	time          int64 // of the array's clock
	inNanoseconds bool
}

// entry is an event's entry under construction. Each vCPU has maxNesting of them.
type entry struct {
	buf    [ring.MaxData]byte
	n      int
	unused int // bytes that were reserved for its strings and not used

	attached []byte // for an eprobe: the entry of the event that it is attached to

	kept []byte // for a return probe: the arguments that it saved, 8 bytes each

	pointed [filter.MaxPointed]byte
	subject subject // the entry as filters and triggers see it
}

// begin starts the entry of a hit, in handler context: it fills in struct trace_entry
// without the pid. It returns nil if no array records the event. The caller adds the
// fields and calls commit or discard.
func (e *Event) begin(trap *abi.Trap) *entry {
	if !e.wantsHit() {
		return nil
	}
	return e.tracer.newEntry(trap, e.ID)
}

// beginInside is begin for a hit inside the hits of depth other events, whose entries
// are reserved with preemption off.
func (e *Event) beginInside(trap *abi.Trap, depth uint32) *entry {
	trap.Preempt += depth
	defer func() { trap.Preempt -= depth }()
	return e.begin(trap)
}

// wantsHit reports whether an array would do anything with a hit now.
func (e *Event) wantsHit() bool {
	files := e.files.Load()
	if files == nil {
		return false
	}
	for _, f := range *files {
		if f.array.recording() || f.triggers.Load() != nil {
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
	e.n = field.HeaderSize
	flags, preempt := t.traceContext(trap)
	binary.LittleEndian.PutUint16(e.buf[:], id)
	e.buf[2], e.buf[3] = flags, preempt
	return e
}

// discard drops the entry that was started last.
func (t *Tracer) discard(trap *abi.Trap) { t.scratch(trap).depth-- }

func (e *entry) word(v uint64) {
	binary.LittleEndian.PutUint64(e.buf[e.n:], v)
	e.n += 8
}

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
		flags |= flagIRQsOff // an int3 comes through an interrupt gate
	}
	if trap.Preempt&abi.NMIMask != 0 {
		flags |= flagNMI
	}
	if trap.Preempt&abi.HardirqMask != 0 {
		flags |= flagHardirq
	}
	if trap.Preempt&softirqOffset != 0 {
		flags |= flagSoftirq
	}
	if trap.Preempt&abi.SoftirqMask > softirqOffset && t.conf.has[release.MigrateDisableColumn] {
		flags |= flagBHOff
	}
	if v, err := trap.Mem.ReadU64(trap.Task + threadInfoFlags); err == nil && v&tifNeedResched != 0 {
		flags |= flagNeedResched | flagPreemptNeeded
	}
	if !t.conf.has[release.PreemptCount] {
		return flags, 0
	}
	return flags, byte(min(trap.Preempt&abi.PreemptMask, 0xf))
}

// commit passes a hit to the arrays that record the event. It runs in handler context.
func (e *Event) commit(trap *abi.Trap, en *entry) {
	t := e.tracer
	defer t.discard(trap)
	pid := t.currentPID(trap)
	binary.LittleEndian.PutUint32(en.buf[4:], uint32(pid))
	c := t.scratch(trap)
	c.read.load(trap)
	s := &en.subject // field by field: assigning a struct with pointers is slower while the garbage collector runs
	s.Entry, s.CPU, s.Comm, s.Trap, s.Pointed = en.buf[:en.n], trap.CPU, (*[abi.TaskCommLen]byte)(&c.read), trap, &en.pointed
	saved := false
	for _, f := range *e.files.Load() {
		if f.take(trap, s) && !saved {
			saved = true
			t.saveCmdline(c, pid)
		}
	}
}

// take is what trace_event_buffer_commit and its callers do with a hit: triggers,
// filter, and the array's buffer. Triggers that do not need the entry run first, so
// that what they switch already applies to this hit. For the others the entry is
// reserved before they run, so that it precedes what they record, unless a filter makes
// the kernel use trace_buffered_event. It returns true if the entry is in the buffer
// and its task's name should be saved.
func (f *EventFile) take(trap *abi.Trap, s *subject) bool {
	triggers := f.triggers.Load()
	cond := triggers != nil && triggers.cond
	if triggers != nil && !cond {
		triggers.run(trap, nil)
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
			recorded = on && f.records(s) && a.reservedIn(swaps).Commit(trap.CPU, now, s.Entry)
		}
		s.time, s.inNanoseconds = now, clock.inNS
		if triggers.run(trap, s) {
			defer triggers.after(s)
		}
		if direct && !recorded {
			return false
		}
		on = on && a.recording() // a trace_buffered_event is only committed now, after a trigger may have switched recording off
	}
	if !recorded && !(on && f.records(s) && a.reservedIn(swaps).Commit(trap.CPU, now, s.Entry)) {
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
func (f *EventFile) records(s *subject) bool {
	return f.flags.Load()&fileSoftDisabled == 0 && !f.array.ignores(s.pid()) && f.filter.Load().Passes(&s.Subject)
}

func (t *Tracer) currentPID(trap *abi.Trap) int32 {
	v, err := trap.Mem.ReadU64(trap.Task + abi.TaskPID)
	if err != nil {
		return 0
	}
	return int32(uint32(v))
}

// saveTGID saves which process the task belongs to.
func (t *Tracer) saveTGID(trap *abi.Trap) {
	if v, err := trap.Mem.ReadU64(trap.Task + abi.TaskTGID); err == nil {
		t.tgids.save(t.currentPID(trap), int32(uint32(v)))
	}
}

// saveCmdline saves the name of the task, unless it is the one that this vCPU saved
// last.
func (t *Tracer) saveCmdline(c *cpuScratch, pid int32) {
	if pid == c.pid && c.read == c.name {
		return
	}
	if t.cmdlines.save(pid, &c.read) {
		c.pid, c.name = pid, c.read
	}
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
	entries, overrun := from.Totals()
	switch {
	case !a.has(optContextInfo):
	case a.has(optLatencyFormat):
		if entries > 0 {
			b = a.appendLatencyHeader(b, entries, overrun)
		}
	case !a.has(optVerbose):
		b = fmt.Appendf(b, "# entries-in-buffer/entries-written: %d/%d   #P:%d\n#\n", entries, entries+overrun, from.CPUs())
		b = a.appendColumns(b)
	}
	return b
}

// appendColumns is print_func_help_header and print_func_help_header_irq.
func (a *Array) appendColumns(b []byte) []byte {
	tgid, gap, bar := "", "", ""
	if a.has(optRecordTGID) {
		tgid, gap, bar = "   TGID   ", "          ", "     |    "
	}
	if !a.has(optIRQInfo) {
		b = fmt.Appendf(b, "#           TASK-PID    %s CPU#     TIMESTAMP  FUNCTION\n", tgid)
		return fmt.Appendf(b, "#              | |      %s   |         |         |\n", bar)
	}
	columns, bars, time := contextColumns[:], "|||||", "  "
	if !a.tracer.conf.has[release.MigrateDisableColumn] {
		columns, bars, time = fourColumns[:], "||||", "   "
	}
	for _, row := range columns {
		b = append(append(append(append(b, "#                            "...), gap...), row...), '\n')
	}
	b = fmt.Appendf(b, "#           TASK-PID    %s CPU#  %s%sTIMESTAMP  FUNCTION\n", tgid, bars, time)
	return fmt.Appendf(b, "#              | |      %s   |   %s%s   |         |\n", bar, bars, time)
}

var fourColumns = [...]string{
	"    _-----=> irqs-off", "   / _----=> need-resched", "  | / _---=> hardirq/softirq",
	"  || / _--=> preempt-depth", "  ||| /     delay",
}

var contextColumns = [...]string{
	"    _-----=> irqs-off/BH-disabled", "   / _----=> need-resched", "  | / _---=> hardirq/softirq",
	"  || / _--=> preempt-depth", "  ||| / _-=> migrate-disable", "  |||| /     delay",
}

// appendLatencyHeader is print_trace_header and print_lat_help_header. The values are
// 0, because there is no latency tracer.
func (a *Array) appendLatencyHeader(b []byte, entries, overrun uint64) []byte {
	b = fmt.Appendf(b, "# %s latency trace v1.1.5 on %s\n", a.currentTracer(), a.tracer.conf.Release)
	b = append(b, "# --------------------------------------------------------------------\n"...)
	b = fmt.Appendf(b, "# latency: 0 us, #%d/%d, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:%d)\n",
		entries, entries+overrun, a.buffer.CPUs())
	b = append(b, "#    -----------------\n#    | task: -0 (uid:0 nice:0 policy:0 rt_prio:0)\n#    -----------------\n#\n"...)
	if a.has(optVerbose) {
		return b
	}
	if !a.tracer.conf.has[release.MigrateDisableColumn] {
		return append(b, fourLatencyColumns...)
	}
	return append(b, latencyColumns...)
}

const fourLatencyColumns = "" +
	"#                    _------=> CPU#            \n" +
	"#                   / _-----=> irqs-off        \n" +
	"#                  | / _----=> need-resched    \n" +
	"#                  || / _---=> hardirq/softirq \n" +
	"#                  ||| / _--=> preempt-depth   \n" +
	"#                  |||| /     delay            \n" +
	"#  cmd     pid     ||||| time  |   caller      \n" +
	"#     \\   /        |||||  \\    |   /         \n"

const latencyColumns = "" +
	"#                    _------=> CPU#            \n" +
	"#                   / _-----=> irqs-off/BH-disabled\n" +
	"#                  | / _----=> need-resched    \n" +
	"#                  || / _---=> hardirq/softirq \n" +
	"#                  ||| / _--=> preempt-depth   \n" +
	"#                  |||| / _-=> migrate-disable \n" +
	"#                  ||||| /     delay           \n" +
	"#  cmd     pid     |||||| time  |   caller     \n" +
	"#     \\   /        ||||||  \\    |    /       \n"

// lineMax is the maximum length of a line where TRACE_SEQ_BUFFER_SIZE is 8 KiB less a
// header, that is, on releases with LongMarkers.
const lineMax = 8155

// appendLine is print_trace_line. Raw data that are too long for a line are cut, and
// the newline is missing: trace_marker of 6.12.
func (a *Array) appendLine(b []byte, l line, clock *traceClock) []byte {
	start := len(b)
	b = a.appendWhole(b, l, clock)
	over := len(b) - start - lineMax
	isRaw := len(l.Data) >= field.HeaderSize && binary.LittleEndian.Uint16(l.Data) == a.tracer.conf.rawDataID()
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
	e := (*a.tracer.events.Load())[id]
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
			b = a.appendLatencyContext(b, l, pid, clock)
		} else {
			b = a.appendTaskContext(b, l, pid, clock)
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

// appendTaskContext is trace_print_context.
func (a *Array) appendTaskContext(b []byte, l line, pid int32, clock *traceClock) []byte {
	comm := a.tracer.cmdlines.find(pid)
	name := comm.text()
	b = append(append(appendBlanks(b, 16-len(name)), name...), '-')
	begin := len(b)
	b = strconv.AppendInt(b, int64(pid), 10)
	b = append(appendBlanks(b, begin+7-len(b)), ' ')
	if a.has(optRecordTGID) {
		if tgid := a.tracer.tgids.find(pid); tgid != 0 {
			b = fmt.Appendf(b, "(%7d) ", tgid)
		} else {
			b = append(b, "(-------) "...)
		}
	}
	b = append(appendUint(append(b, '['), uint64(l.CPU), 3, '0'), "] "...)
	if a.has(optIRQInfo) {
		b = a.tracer.appendContext(b, l.Data[2], l.Data[3])
	}
	return appendTime(b, l.Time, clock)
}

// appendLatencyContext is trace_print_lat_context.
func (a *Array) appendLatencyContext(b []byte, l line, pid int32, clock *traceClock) []byte {
	name := a.tracer.cmdlines.find(pid)
	comm := name.String()
	since, delta := l.Time-a.timeStart.Load(), l.next-l.Time
	if clock.inNS {
		since, delta = usecs(since), usecs(delta)
	}
	if a.has(optVerbose) {
		b = fmt.Appendf(b, "%16s %7d %3d %d %08x %08x ", comm, pid, l.CPU, l.Data[2], l.Data[3], l.index)
		if clock.inNS {
			return fmt.Appendf(b, "[%08x] %d.%03dms (+%d.%03dms): ",
				usecs(l.Time), since/1000, since%1000, delta/1000, delta%1000)
		}
		return fmt.Appendf(b, "[%016x] %d (+%d): ", uint64(l.Time), since, delta)
	}
	b = fmt.Appendf(b, "%8.8s-%-7d %3d", comm, pid, l.CPU)
	b = a.tracer.appendContext(b, l.Data[2], l.Data[3])
	if !clock.inNS {
		return fmt.Appendf(b, " %4d: ", since)
	}
	return fmt.Appendf(b, " %4dus%c: ", since, delayMark(l.next-l.Time))
}

func usecs(ns int64) int64 { return (ns + 500) / 1000 }

// delayMark is trace_find_mark: a mark for the time until the next entry.
func delayMark(ns int64) byte {
	for _, m := range delayMarks {
		if ns > m.longer {
			return m.mark
		}
	}
	return ' '
}

var delayMarks = [...]struct {
	longer int64
	mark   byte
}{{1e9, '$'}, {1e8, '@'}, {1e7, '*'}, {1e6, '#'}, {1e5, '!'}, {1e4, '+'}}

// appendContext is trace_print_lat_fmt: the five columns.
func (t *Tracer) appendContext(b []byte, flags, preempt byte) []byte {
	has := func(bits byte) bool { return flags&bits == bits }
	irqs, resched, irq := byte('.'), byte('.'), byte('.')
	switch {
	case has(flagIRQsOff | flagBHOff):
		irqs = 'D'
	case has(flagIRQsOff):
		irqs = 'd'
	case has(flagBHOff):
		irqs = 'b'
	}
	switch {
	case has(flagNeedResched | flagPreemptNeeded):
		resched = 'N'
	case has(flagNeedResched):
		resched = 'n'
	case has(flagPreemptNeeded):
		resched = 'p'
	}
	switch {
	case has(flagNMI | flagHardirq):
		irq = 'Z'
	case has(flagNMI):
		irq = 'z'
	case has(flagHardirq | flagSoftirq):
		irq = 'H'
	case has(flagHardirq):
		irq = 'h'
	case has(flagSoftirq):
		irq = 's'
	}
	b = append(b, irqs, resched, irq, nibble(preempt&0xf))
	if !t.conf.has[release.MigrateDisableColumn] {
		return b
	}
	return append(b, nibble(preempt>>4))
}

func nibble(n byte) byte {
	if n == 0 {
		return '.'
	}
	return "0123456789abcdef"[n]
}

// appendTime is trace_print_time.
func appendTime(b []byte, time int64, clock *traceClock) []byte {
	if !clock.inNS {
		return append(appendUint(append(b, ' '), uint64(time), 12, ' '), ": "...)
	}
	return append(appendSeconds(append(b, ' '), time), ": "...)
}

// appendSeconds appends a time in nanoseconds as seconds, 5 columns wide.
func appendSeconds(b []byte, ns int64) []byte {
	usec := (uint64(ns) + 500) / 1000
	return appendUint(append(appendUint(b, usec/1e6, 5, ' '), '.'), usec%1e6, 6, '0')
}

// appendUint is %*d, padded with blanks or zeroes.
func appendUint(b []byte, v uint64, width int, pad byte) []byte {
	var digits [20]byte
	d := strconv.AppendUint(digits[:0], v, 10)
	for n := len(d); n < width; n++ {
		b = append(b, pad)
	}
	return append(b, d...)
}

func appendBlanks(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
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
		b = appendSprint(b, sym, off, addr, ok)
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

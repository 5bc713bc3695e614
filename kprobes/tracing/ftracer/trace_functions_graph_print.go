package ftracer

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// AppendGraphHeader is print_graph_headers_flags: the names of the columns. What is before
// them is the array's header. from is the buffer that is shown.
func (a *Array) AppendGraphHeader(b []byte, from *ring.Buffer) []byte {
	if !a.trace.ContextInfo() {
		return b
	}
	latency := a.trace.LatencyFormat()
	if latency {
		entries, overrun := from.Totals()
		if entries == 0 {
			return b
		}
		b = a.trace.AppendTitle(b, entries, overrun)
	}
	has := a.Option
	names, bars, before := "", "", 0
	column := func(on bool, name, bar string, width int) {
		if on {
			names, bars, before = names+name, bars+bar, before+width
		}
	}
	column(has(graphAbstime), "     TIME       ", "      |         ", 16)
	column(has(graphCPUColumn), " CPU", " |  ", 4)
	column(has(graphProc), "  TASK/PID       ", "   |    |        ", 17)
	if latency {
		for _, row := range [...]string{"  _-----=> irqs-off        ", " / _----=> need-resched    ", "| / _---=> hardirq/softirq ", "|| / _--=> preempt-depth   ", "||| /                      "} {
			b = fmt.Appendf(b, "#%*s%s\n", before, "", row)
		}
	}
	column(latency, "||||   ", "||||   ", 0)
	column(has(graphDuration), "  DURATION   ", "   |   |      ", 0)
	return fmt.Appendf(b, "#%s               FUNCTION CALLS\n#%s               |   |   |   |\n", names, bars)
}

// GraphPrinter is fgraph_data: what a reader of trace or trace_pipe has printed, while
// the tracer is function_graph.
type GraphPrinter struct {
	array *Array
	cpus  []graphCPU
	width int // of a vCPU's number
}

type graphCPU struct {
	known     bool
	pid       int32 // of the last line, if there was one
	depth     int
	functions [maxGraph]uint64 // those that are entered, by their depth
}

// NewGraphPrinter returns a printer that has printed nothing.
func (a *Array) NewGraphPrinter() *GraphPrinter {
	n := a.tracer.conf.CPUs
	return &GraphPrinter{array: a, cpus: make([]graphCPU, n), width: len(strconv.Itoa(n - 1))}
}

// Followers gives the entry of the same vCPU after the one that is printed, and takes it.
type Followers interface {
	After() (ring.Record, bool)
	Take()
}

// Append is print_graph_function. It returns false if the entry is to be printed as
// without the tracer.
func (p *GraphPrinter) Append(b []byte, l ring.Record, next Followers) ([]byte, bool) {
	if !p.array.trace.IsEntry(l.Data) {
		return b, false
	}
	switch id := binary.LittleEndian.Uint16(l.Data); id {
	case TypeStack, TypeFunction:
		return b, false
	case typeGraphEnt:
		return p.entry(b, l, next), true
	case typeGraphRet:
		return p.exit(b, l), true
	default:
		return p.comment(b, l), true
	}
}

// graphExit is an entry of funcgraph_exit.
type graphExit struct {
	function, overrun uint64
	depth             int
	duration          int64
}

func (p *GraphPrinter) readExit(d []byte) graphExit {
	word := binary.LittleEndian.Uint64
	x := graphExit{function: word(d[8:]), duration: int64(word(d[32:]) - word(d[24:]))}
	if p.array.tracer.conf.Has[release.GraphDepthFirst] {
		x.depth, x.overrun = int(int32(binary.LittleEndian.Uint32(d[16:]))), uint64(binary.LittleEndian.Uint32(d[20:]))
	} else {
		x.depth, x.overrun = int(int32(binary.LittleEndian.Uint32(d[40:]))), word(d[16:])
	}
	return x
}

// at is what is known of a vCPU at some depth; nil if it is none that can be.
func (c *graphCPU) at(depth int) *uint64 {
	if depth < 0 || depth >= maxGraph {
		return nil
	}
	return &c.functions[depth]
}

// entry is print_graph_entry: a function without lines in between is one line.
func (p *GraphPrinter) entry(b []byte, l ring.Record, next Followers) []byte {
	function, depth := binary.LittleEndian.Uint64(l.Data[8:]), int(int32(binary.LittleEndian.Uint32(l.Data[16:])))
	c := p.cpu(l.CPU)
	b = p.prologue(b, l)
	if r, ok := next.After(); ok && len(r.Data) >= 40 && binary.LittleEndian.Uint16(r.Data) == typeGraphRet && p.leaf(l.Data, r.Data) {
		x := p.readExit(r.Data)
		next.Take()
		c.depth = depth - 1
		if at := c.at(depth); at != nil {
			*at = 0
		}
		b = p.duration(b, x.duration)
		return append(p.symbol(indent(b, depth), function), "();\n"...)
	}
	c.depth = depth
	if at := c.at(depth); at != nil {
		*at = function
	}
	b = p.noDuration(b)
	return append(p.symbol(indent(b, depth), function), "() {\n"...)
}

// leaf reports whether ret is the exit of the entry ent.
func (p *GraphPrinter) leaf(ent, ret []byte) bool {
	return p.array.trace.IsEntry(ret) && string(ent[4:16]) == string(ret[4:16]) // the pid and the function
}

// exit is print_graph_return.
func (p *GraphPrinter) exit(b []byte, l ring.Record) []byte {
	x := p.readExit(l.Data)
	c := p.cpu(l.CPU)
	c.depth = x.depth - 1
	entered := false
	if at := c.at(x.depth); at != nil {
		entered = *at == x.function
		*at = 0
	}
	b = p.prologue(b, l)
	b = indent(p.duration(b, x.duration), x.depth)
	if entered && !p.has(graphTail) {
		b = append(b, "}\n"...)
	} else {
		b = append(p.symbol(append(b, "} /* "...), x.function), " */\n"...)
	}
	if p.has(graphOverrun) {
		b = fmt.Appendf(b, " (Overruns: %d)\n", x.overrun)
	}
	return b
}

// comment is print_graph_comment: an event.
func (p *GraphPrinter) comment(b []byte, l ring.Record) []byte {
	depth := p.cpu(l.CPU).depth
	b = p.prologue(b, l)
	b = p.noDuration(b)
	if depth > 0 {
		b = indent(b, depth+1)
	}
	b = p.array.trace.AppendText(append(b, "/* "...), l.Data)
	if n := len(b); b[n-1] == '\n' {
		b = b[:n-1]
	}
	return append(b, " */\n"...)
}

// has reports whether an option of function_graph is set.
func (p *GraphPrinter) has(option int) bool { return p.array.options[option].Load() }

func (p *GraphPrinter) cpu(n int) *graphCPU { return &p.cpus[n] }

func (p *GraphPrinter) symbol(b []byte, addr uint64) []byte {
	if sym, _, ok := p.array.tracer.conf.Symbols.Lookup(addr); ok {
		return append(b, sym.Name...)
	}
	return fmt.Appendf(b, "0x%x", addr)
}

// indent appends two blanks for each level.
func indent(b []byte, depth int) []byte {
	for range 2 * depth {
		b = append(b, ' ')
	}
	return b
}

// prologue is print_graph_prologue: the columns before the duration, and three lines
// before when the vCPU runs another task than at its last line. Lines that tell of
// interrupts are missing, as on Linux, where no function of __irqentry_text is traced.
func (p *GraphPrinter) prologue(b []byte, l ring.Record) []byte {
	a, c := p.array, p.cpu(l.CPU)
	pid := int32(binary.LittleEndian.Uint32(l.Data[4:]))
	if c.known && c.pid != pid {
		const bar = " ------------------------------------------\n"
		b = p.number(append(b, bar...), l.CPU)
		b = p.task(append(p.task(b, c.pid), " => "...), pid)
		b = append(append(append(b, '\n'), bar...), '\n')
	}
	c.known, c.pid = true, pid
	if !a.trace.ContextInfo() {
		return b
	}
	if p.has(graphAbstime) {
		b = fmt.Appendf(b, "%5d.%06d |  ", l.Time/1e9, l.Time%1e9/1e3)
	}
	if p.has(graphCPUColumn) {
		b = p.number(b, l.CPU)
	}
	if p.has(graphProc) {
		b = append(p.task(b, pid), " | "...)
	}
	if a.trace.LatencyFormat() {
		b = append(a.trace.AppendFlags(append(b, ' '), l.Data[2], l.Data[3]), " | "...)
	}
	return b
}

func (p *GraphPrinter) number(b []byte, cpu int) []byte {
	return fmt.Appendf(b, " %*d) ", p.width, cpu)
}

// task is print_graph_proc: a task's name and pid in the middle of 14 columns.
func (p *GraphPrinter) task(b []byte, pid int32) []byte {
	comm := p.array.tracer.conf.Names.Find(pid)
	name := field.CutNUL(comm[:])
	text := fmt.Sprintf("%s-%d", name[:min(len(name), 7)], pid)
	blanks := max(0, 14-len(text))
	return fmt.Appendf(b, "%*s%s%*s", blanks/2, "", text, blanks-blanks/2, "")
}

func (p *GraphPrinter) showsDuration() bool {
	return p.has(graphDuration) && p.array.trace.ContextInfo()
}

// noDuration leaves the column of durations empty.
func (p *GraphPrinter) noDuration(b []byte) []byte {
	if p.showsDuration() {
		b = append(b, "              |  "...)
	}
	return b
}

// duration is print_graph_duration: a mark for a long one, then microseconds in seven
// digits.
func (p *GraphPrinter) duration(b []byte, ns int64) []byte {
	if !p.showsDuration() {
		return b
	}
	mark := byte(' ')
	if p.has(graphOverhead) {
		mark = output.DelayMark(ns)
	}
	text := strconv.FormatInt(ns/1000, 10)
	if n := len(text); n < 7 {
		text += "." + fmt.Sprintf("%03d", ns%1000)[:min(3, 7-n)]
	}
	return fmt.Appendf(b, "%c %s us %*s|  ", mark, text, max(0, 8-len(text)), "")
}

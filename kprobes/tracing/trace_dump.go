package tracing

import "strings"

// dumpLine is TRACE_MAX_PRINT: what the log takes of an entry, bytes.
const dumpLine = 1000

// dump is ftrace_dump, in atomic Go: recording stops, and what the global buffer
// holds, of one vCPU or with -1 of all, goes to the kernel's log as lines of
// latency-format. Who reads trace afterwards finds it gone.
func (t *Tracer) dump(cpu int) {
	if !t.dumping.CompareAndSwap(false, true) {
		return
	}
	defer t.dumping.Store(false)
	const emerg = 0
	a, printk := t.global, t.conf.Machine.Printk
	a.buffer.disabled.Store(true)
	printk(emerg, "Dumping ftrace buffer:")
	var text []byte
	into, clock, n := make([]byte, 0, pageSize), a.clock.Load(), 0
	for ; ; n++ {
		r, lost, ok := a.buffer.Consume(cpu, into)
		if !ok {
			break
		}
		if n == 0 {
			printk(emerg, "%s", dumpRule)
		}
		text = appendLost(text[:0], r.CPU, lost)
		text = a.appendLine(text, line{Record: r, index: 1, next: r.Time, dump: true}, clock)
		printk(emerg, "%s", text[:min(len(text), dumpLine)])
	}
	if n == 0 {
		printk(emerg, "   (ftrace buffer empty)")
	} else {
		printk(emerg, "%s", dumpRule)
	}
}

var dumpRule = strings.Repeat("-", 33)

package tracing

import (
	"strings"

	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// dumpLine is TRACE_MAX_PRINT: how many bytes of an entry go to the log.
const dumpLine = 1000

// dump is ftrace_dump. It runs in handler context: recording stops, and the contents of
// the global buffer, of one vCPU or of all if cpu is -1, go to the kernel's log as
// lines of latency-format. They are consumed: a later read of trace does not show them.
func (t *Tracer) dump(cpu int) {
	if !t.dumping.CompareAndSwap(false, true) {
		return
	}
	defer t.dumping.Store(false)
	const emerg = 0
	a, printk := t.global, t.conf.Machine.Printk
	a.buffer.SetOn(false)
	printk(emerg, "Dumping ftrace buffer:")
	var text []byte
	into, clock, n := make([]byte, 0, ring.PageSize), a.clock.Load(), 0
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

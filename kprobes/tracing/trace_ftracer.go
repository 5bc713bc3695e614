package tracing

import (
	"encoding/binary"
	"slices"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Ftrace returns the tracers of functions, for the files that exist once.
func (t *Tracer) Ftrace() *ftracer.Tracers { return t.ftrace }

// Ftrace returns the array's tracers of functions.
func (a *Array) Ftrace() *ftracer.Array { return a.ftrace }

func (t *Tracer) newFtrace() *ftracer.Tracers {
	return ftracer.New(ftracer.Config{
		Mutex: &t.mu, Has: &t.conf.has, Symbols: t.conf.Symbols, CPUs: t.conf.Machine.CPUs(), Names: &t.cmdlines, Functions: t.conf.Functions,
		Unwind: t.conf.Unwinder.Unwind, Printk: t.conf.Machine.Printk, Room: t.checkText, Dump: t.dump, WatchSwitches: t.watchSwitches,
	})
}

// newFunctionEvents creates the events whose entries the tracers of functions write.
func (t *Tracer) newFunctionEvents() {
	for _, e := range t.ftrace.Events() {
		t.newEvent("ftrace", e.Name, e.ID, functionClass{Class: e.Class}).Internal = true
	}
}

// functionClass is the class of an event of package ftracer.
type functionClass struct {
	own
	ftracer.Class
}

func (c functionClass) fields() []field.Field                  { return c.Fields() }
func (c functionClass) printFmt() string                       { return c.PrintFmt() }
func (c functionClass) print(a *Array, b, entry []byte) []byte { return c.Print(a.ftrace, b, entry) }

// watchSwitches adds d to the arrays for which each sched_switch is passed to SchedSwitch. The
// caller holds mu.
func (t *Tracer) watchSwitches(d int) error {
	tp := t.schedSwitch()
	if tp == nil {
		return nil
	}
	tp.watchers += d
	tp.nextPID.Store(0)
	if i := slices.IndexFunc(tp.event.members, func(f field.Field) bool { return f.Name() == "next_pid" }); i >= 0 && tp.watchers > 0 {
		tp.nextPID.Store(int32(tp.event.members[i].Offset))
	}
	return tp.use(d)
}

// schedSwitch returns the tracepoint of the event sched_switch, or nil.
func (t *Tracer) schedSwitch() *tracepoint {
	for _, tp := range t.tracepoints {
		if tp.event != nil && tp.event.Name == "sched_switch" {
			return tp
		}
	}
	return nil
}

// ModuleComing registers the probes that wait for a module, and traces functions of the
// module that set_ftrace_filter waits for.
func (t *Tracer) ModuleComing(module string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.definitions.ModuleComing(module)
	for _, a := range t.arrays {
		a.ftrace.ModuleComing(module)
	}
	for _, s := range t.perfFunctions {
		t.sayFunctions(s.update())
	}
	t.ftrace.ModuleComing(module)
}

// ModuleGoing is ftrace_release_mod: functions that are about to be unloaded leave the filters.
func (t *Tracer) ModuleGoing(areas []abi.Range) {
	t.mu.Lock()
	defer t.mu.Unlock()
	goes := func(site uint64, _ bool) bool {
		return slices.ContainsFunc(areas, func(r abi.Range) bool { return r.Contains(site) })
	}
	for _, a := range t.arrays {
		a.ftrace.ModuleGoing(goes)
	}
	for _, s := range t.perfFunctions {
		s.filter.Forget(goes)
		s.notrace.Forget(goes)
	}
}

func (t *Tracer) sayFunctions(err error) {
	if err != nil {
		t.conf.Machine.Printk(4, "ftrace: %v", err)
	}
}

// functionTrace is an Array as its tracers of functions see it.
type functionTrace struct{ a *Array }

var _ ftracer.Trace = functionTrace{}

func (x functionTrace) Recording() bool                 { return x.a.recording() }
func (x functionTrace) SetRecording(on bool)            { x.a.buffer.SetOn(on) }
func (x functionTrace) TracesFunctions() bool           { return x.a.has(optFunctionTrace) }
func (x functionTrace) PrintsParent() bool              { return x.a.has(optPrintParent) }
func (x functionTrace) ContextInfo() bool               { return x.a.has(optContextInfo) }
func (x functionTrace) LatencyFormat() bool             { return x.a.has(optLatencyFormat) }
func (x functionTrace) IgnoresFunctions(pid int32) bool { return x.a.pids.ignoresFunctions(pid) }
func (x functionTrace) AllocSnapshot() error            { return x.a.allocSnapshot() }
func (x functionTrace) Snapshot(trap *abi.Trap)         { x.a.takeSnapshot(snapshotHit{trap, false}, false) }
func (x functionTrace) Discard(trap *abi.Trap)          { x.a.tracer.discard(trap) }

func (x functionTrace) Begin(trap *abi.Trap, id uint16) *probe.Entry {
	en := x.a.tracer.newEntry(trap, id)
	if en == nil {
		return nil
	}
	en.Buf[2], en.Buf[3] = x.a.tracer.traceContextHere(trap)
	return &en.Entry
}

func (x functionTrace) Commit(trap *abi.Trap, en *probe.Entry, pid int32) bool {
	return x.a.recordOwn(trap, en, pid)
}

func (x functionTrace) RecordStack(trap *abi.Trap, flags, preempt byte) {
	x.a.recordStack(trap, x.a.tracer.unwindFunction(trap), x.a.now(), flags, preempt)
}

func (x functionTrace) RecordStackAlone(trap *abi.Trap) {
	x.a.saveName(trap)
	flags, preempt := x.a.tracer.traceContextHere(trap)
	x.RecordStack(trap, flags, preempt)
}

func (x functionTrace) Event(group, name string) ftracer.EventFile {
	if f := x.a.findFile(group, name, false); f != nil {
		return triggerFile{f}
	}
	return nil
}

func (x functionTrace) event(data []byte) *Event {
	if len(data) < field.HeaderSize {
		return nil
	}
	e := x.a.tracer.events.get(binary.LittleEndian.Uint16(data))
	if e == nil || len(data) < e.size {
		return nil
	}
	return e
}

func (x functionTrace) IsEntry(data []byte) bool { return x.event(data) != nil }

func (x functionTrace) AppendText(b, entry []byte) []byte {
	e := x.event(entry)
	if e == nil {
		return b
	}
	if m, ok := e.class.(messageClass); ok {
		return m.message(b, entry)
	}
	return e.class.print(x.a, b, entry) //nolint:forbidigo // an entry's line, not the builtin
}

func (x functionTrace) AppendSymbol(b []byte, addr uint64, offset bool) []byte {
	return x.a.appendSymbol(b, addr, offset)
}

func (x functionTrace) AppendTitle(b []byte, entries, overrun uint64) []byte {
	return x.a.appendLatencyTitle(b, entries, overrun)
}

func (x functionTrace) AppendFlags(b []byte, flags, preempt byte) []byte {
	return x.a.columns(nil).AppendFlags(b, flags, preempt)
}

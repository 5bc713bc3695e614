package tracing

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Definitions returns the definitions of dynamic events: the files kprobe_events,
// uprobe_events, synthetic_events and dynamic_events.
func (t *Tracer) Definitions() *dynevent.Registry { return t.definitions }

func (t *Tracer) newDefinitions() *dynevent.Registry {
	c := dynevent.Config{
		Mutex: &t.mu, Events: definer{t}, Kprobes: t.conf.Kprobes, Symbols: t.conf.Symbols, Sites: t.conf.Sites, Machine: t.conf.Machine,
		Has: &t.conf.has, Rules: probe.NewRules(t.conf.Linux, &t.conf.has, t.conf.BTF), Filters: &t.filters, Modules: t.conf.Modules, BTF: t.conf.BTF,
		Host: t.conf.Host,
	}
	if t.conf.Tracepoints != nil {
		c.Tracepoints = t.conf.Tracepoints
	}
	if t.conf.Functions != nil {
		c.Functions = fprobeFunctions{t}
	}
	return dynevent.New(c)
}

// definedClass is the class of an event of package dynevent.
type definedClass struct{ dynevent.Class }

func (c definedClass) fields() []field.Field { return c.Fields() }
func (c definedClass) printFmt() string      { return c.PrintFmt() }
func (c definedClass) enable() error         { return c.Enable() }
func (c definedClass) disable()              { c.Disable() }

func (c definedClass) print(a *Array, b, entry []byte) []byte { return c.Print(lineEnv{a}, b, entry) }

// definer is the Tracer as package dynevent sees it.
type definer struct{ tracer *Tracer }

var _ dynevent.Events = definer{}

func (d definer) New(group, name string, class dynevent.Class) dynevent.Event {
	e := d.tracer.newEvent(group, name, 0, definedClass{class})
	if e == nil {
		return nil
	}
	return definedEvent{e}
}

func (d definer) NewLocal(group, name string, class dynevent.Class) dynevent.Event {
	return definedEvent{d.tracer.newLocalEvent(group, name, definedClass{class})}
}

func (d definer) Forget(e dynevent.Event) { d.tracer.forgetEvent(e.(definedEvent).event) }

func (d definer) Find(group, name string) dynevent.Event {
	if e := d.tracer.namesInUse[eventName{group, name}]; e != nil {
		return definedEvent{e}
	}
	return nil
}

func (d definer) LogError(subsystem, text, command string, column int) {
	d.tracer.global.logError(subsystem, text, command, column)
}

func (d definer) Room(bytes int) error {
	return d.tracer.checkRoom(bytes + fileBytes*len(d.tracer.arrays))
}

// ResetCleared is tracing_reset_all_online_cpus.
func (d definer) ResetCleared() {
	for _, a := range d.tracer.arrays {
		if !a.clearTrace {
			continue
		}
		a.clearTrace = false
		a.reset()
		if s := a.snapshots.buffer.Load(); s != nil {
			s.Reset(-1)
		}
	}
}

// definedEvent is an Event as package dynevent sees it.
type definedEvent struct{ event *Event }

func (e definedEvent) Class() dynevent.Class {
	if c, ok := e.event.class.(definedClass); ok {
		return c.Class
	}
	return nil
}

func (e definedEvent) IgnoresEnable() bool               { return e.event.Internal }
func (e definedEvent) Members() map[string]*field.Member { return e.event.entryMembers() }
func (e definedEvent) Wanted() bool                      { return e.event.wanted() }
func (e definedEvent) Commit(trap *abi.Trap)             { e.event.commit(trap, e.event.tracer.lastEntry(trap)) }
func (e definedEvent) Discard(trap *abi.Trap)            { e.event.tracer.discard(trap) }
func (e definedEvent) Begin(trap *abi.Trap) *probe.Entry { return e.event.begin(trap).probeEntry() }

// BeginInside is begin for a hit inside the hits of depth other events, whose entries are
// reserved with preemption off.
func (e definedEvent) BeginInside(trap *abi.Trap, depth uint32) *probe.Entry {
	trap.Preempt += depth
	defer func() { trap.Preempt -= depth }()
	return e.Begin(trap)
}

func (e definedEvent) Attach(f *filter.Filter, hit func(trap *abi.Trap, entry []byte)) (func(), error) {
	return e.event.tracer.global.files[e.event].triggers.Attach(f, hit)
}

// fprobeFunctions are the functions that fprobes listen to.
type fprobeFunctions struct{ tracer *Tracer }

func (f fprobeFunctions) Match(pattern string) (sites []uint64, named int, err error) {
	set := ftracer.Set{}
	if err := set.Change(f.tracer.ftrace, pattern, nil); err != nil {
		return nil, 0, err
	}
	return set.Wanted(f.tracer.ftrace), set.Len(), nil
}

func (f fprobeFunctions) Listen(hit func(trap *abi.Trap)) dynevent.Listener {
	return f.tracer.conf.Functions.Listen(ftracer.Handler{Function: "fprobe_handler", Hit: hit, Regs: true, Allocated: true})
}

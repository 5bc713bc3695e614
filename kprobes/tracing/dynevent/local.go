package dynevent

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Local is a probe that perf_event_open(2) makes for one descriptor. No file of the tracer shows
// it.
type Local struct {
	Return bool
	User   bool   // a uprobe; as one of uprobe_events it has no hits
	Name   string // of a kprobe's function, or "" if At is an address; of a uprobe's file
	At     uint64 // the offset in it
}

// NewLocal is create_local_trace_kprobe and create_local_trace_uprobe. It returns the event, and
// release, which removes the probe when the event is off. It fails with EADDRNOTAVAIL if several
// functions have the name, and with the errors of register_kprobe. Whether a uprobe's file is one
// has been checked. The caller holds Config.Mutex.
func (r *Registry) NewLocal(l Local) (e Event, release func(), err error) {
	if l.User {
		ev := &uprobeEvent{probeEvent: probeEvent{reg: r, ret: l.Return}, local: l}
		ev.createLocal(r, uprobeGroup, fmt.Sprintf("%s:0x%x", l.Name, l.At), ev)
		return ev.Event, func() {}, nil
	}
	ev := &kprobeEvent{probeEvent: probeEvent{reg: r, ret: l.Return}}
	ev.createLocal(r, defaultGroup, l.Name, ev)
	tk := &traceKprobe{reg: r, event: ev, hits: make([]hitCounter, r.conf.Machine.CPUs())}
	tk.place = place{symbol: l.Name, offset: uint32(l.At)}
	if l.Name == "" {
		tk.place = place{addr: l.At, byAddr: true}
	}
	if err := tk.ambiguous(); err != nil {
		return nil, nil, err
	}
	if err := r.registerKprobe(tk); err != nil {
		return nil, nil, err
	}
	ev.probes = append(ev.probes, tk)
	return ev.Event, func() { r.unregisterKprobe(tk) }, nil
}

// ambiguous fails with EADDRNOTAVAIL if several functions have the probe's symbol.
func (tk *traceKprobe) ambiguous() error {
	if tk.reg.conf.Has[release.EarlySymbols] && !tk.byAddr && len(tk.reg.conf.Symbols.LookupName(tk.symbol)) > 1 {
		return fmt.Errorf("several functions %s: %w", tk.symbol, syscall.EADDRNOTAVAIL)
	}
	return nil
}

// createLocal creates an event that only perf uses.
func (e *event) createLocal(r *Registry, group, name string, class Class) {
	e.Event, e.group, e.name = r.conf.Events.NewLocal(group, name, class), group, name
}

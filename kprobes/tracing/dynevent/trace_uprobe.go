package dynevent

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

const uprobeGroup = "uprobes"

// traceUprobe is trace_uprobe: one line of uprobe_events. The programs that it would
// probe belong to the host, in which kprobefs cannot set breakpoints. Definitions are
// accepted and refused as on Linux, and their events have all files, but an event that
// is enabled logs that it will have no hits.
type traceUprobe struct {
	reg          *Registry
	event        *uprobeEvent
	path         string
	offset, refs uint64
	args         []probe.Arg
}

// uprobeEvent is the event of one or more uprobes.
type uprobeEvent struct {
	probeEvent
	probes []*traceUprobe
	local  Local // of an event that only perf uses
}

// Probe implements Probe: bpf_get_uprobe_info.
func (ev *uprobeEvent) Probe() Local {
	if len(ev.probes) == 0 {
		return ev.local
	}
	return Local{Return: ev.ret, User: true, Name: ev.probes[0].path, At: ev.probes[0].offset}
}

var (
	_ Class    = (*uprobeEvent)(nil)
	_ dynEvent = (*traceUprobe)(nil)
)

// WriteUprobeEvents handles a write to uprobe_events: definitions and deletions, one in
// each line.
func (r *Registry) WriteUprobeEvents(data []byte) (int, error) {
	return r.runCommands(data, func(line string) error {
		if strings.HasPrefix(line, "-") {
			return r.release(line, isUprobe)
		}
		return r.createOne(line, r.createUprobe)
	})
}

func isUprobe(d dynEvent) bool {
	_, ok := d.(*traceUprobe)
	return ok
}

// ReleaseUprobes deletes all uprobes, as an open of uprobe_events with O_TRUNC does. If
// one of their events is enabled, it deletes nothing and returns EBUSY.
func (r *Registry) ReleaseUprobes() error { return r.releaseAll(isUprobe) }

// UprobeEvents returns the lines of uprobe_events, the oldest first.
func (r *Registry) UprobeEvents() []string { return r.uprobes((*traceUprobe).line) }

// UprobeProfile returns the lines of uprobe_profile: file, event, hits.
func (r *Registry) UprobeProfile() []string { return r.uprobes((*traceUprobe).profile) }

func (r *Registry) uprobes(line func(*traceUprobe) string) []string {
	r.conf.Mutex.Lock()
	defer r.conf.Mutex.Unlock()
	var lines []string
	for _, d := range r.list {
		if u, ok := d.(*traceUprobe); ok {
			lines = append(lines, line(u))
		}
	}
	return lines
}

// createUprobe is __trace_uprobe_create:
//
//	p|r[:[GROUP/][EVENT]] PATH:OFFSET[%return][(REF)] [ARG...]
//
// It returns false if the line is not such a definition. The caller holds mu.
func (r *Registry) createUprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	head := argv[0]
	if head[0] != 'p' && head[0] != 'r' || len(argv) < 2 || len(head) > 1 && head[1] != ':' && !kstrtox.DigitFirst(head[1:]) {
		return false, nil
	}
	colon := strings.LastIndexByte(argv[1], ':')
	if colon < 0 || !strings.Contains(argv[1], "/") || !kstrtox.DigitFirst(argv[1][colon+1:]) {
		return false, nil
	}
	u := &traceUprobe{reg: r, path: argv[1][:colon]}
	d := definition{group: uprobeGroup, Definition: probe.Definition{Return: head[0] == 'r', User: true, Rules: r.conf.Rules}}
	derr, err := u.parse(&d, argv, colon)
	if derr == nil && err == nil {
		derr, err = u.register(&d)
	}
	if derr == nil {
		return true, err
	}
	return true, r.refuse("trace_uprobe", derr, argv)
}

func (u *traceUprobe) parse(d *definition, argv []string, colon int) (*probe.Error, error) {
	regular, err := u.reg.conf.Host.RegularFile(u.path)
	if err != nil {
		return probe.NewError(errFileNotFound.Because(err), 1, 0), nil
	}
	if !regular {
		return probe.NewError(errNoRegularFile, 1, 0), nil
	}
	if derr := u.parseOffset(d, argv[1][colon+1:], colon+1); derr != nil {
		return derr, nil
	}
	head := argv[0]
	if len(head) > 1 && head[1] == ':' {
		if derr := u.reg.parseName(head, 1, &d.group, &d.name); derr != nil {
			return derr, nil
		}
	}
	if d.name == "" {
		base := path.Base(u.path)
		if i := strings.IndexAny(base, ".-_"); i >= 0 {
			base = base[:i]
		}
		d.name = fmt.Sprintf("p_%s_0x%x", base, u.offset)
		d.name = d.name[:min(len(d.name), probe.MaxNameLen-1)]
	}
	derr, err := d.ParseArgs(argv[2:])
	u.args = d.Args
	return derr, err
}

// parseOffset parses "OFFSET[%return]" or "OFFSET(REF)" at column at.
func (u *traceUprobe) parseOffset(d *definition, text string, at int) *probe.Error {
	fail := func(e probe.Reason, offset int) *probe.Error { return probe.NewError(e, 1, offset) }
	if number, ref, found := strings.Cut(text, "("); found {
		refAt := at + len(number) + 1
		digits, rest, closed := strings.Cut(ref, ")")
		switch {
		case !closed:
			return fail(errRefCntOpen, refAt+len(ref))
		case rest != "":
			return fail(errBadRefCntSuffix, refAt+len(digits)+1)
		}
		n, err := kstrtox.ParseUint(digits, 0, math.MaxUint64)
		if err != nil {
			return fail(errBadRefCnt, refAt)
		}
		u.refs, text = n, number
	}
	if number, suffix, found := strings.Cut(text, "%"); found {
		if suffix != "return" {
			return fail(errBadAddrSuffix, at+len(number))
		}
		d.Return, text = true, number
	}
	n, err := kstrtox.ParseUint(text, 0, math.MaxUint64)
	if err != nil {
		return fail(errBadUprobeOffs.Because(err), at)
	}
	u.offset = n
	return nil
}

// register is register_trace_uprobe.
func (u *traceUprobe) register(d *definition) (*probe.Error, error) {
	r := u.reg
	for _, x := range r.list {
		old, ok := x.(*traceUprobe)
		if !ok || old.path != u.path || old.offset != u.offset || old.event.group == d.group && old.event.name == d.name {
			continue
		}
		if old.refs != u.refs {
			r.conf.Machine.Printk(4, "trace_kprobe: Reference counter offset mismatch.")
			return nil, fmt.Errorf("%s: another reference counter: %w", u.path, syscall.EINVAL)
		}
	}
	old := r.conf.Events.Find(d.group, d.name)
	ev, ours := classOf(old).(*uprobeEvent)
	if old != nil {
		if !ours {
			return probe.NewError(errEventExists, 0, 0), nil
		}
		if derr := ev.accepts(u, d); derr != nil {
			return derr, nil
		}
	} else {
		ev = &uprobeEvent{probeEvent: probeEvent{reg: r, ret: d.Return, args: d.Args}}
		if !ev.create(r, d.group, d.name, ev) {
			return nil, fmt.Errorf("uprobe %s: %w", d.name, syscall.ENODEV)
		}
	}
	u.event = ev
	ev.probes = append(ev.probes, u)
	r.list = append(r.list, u)
	return nil, nil
}

// accepts reports whether another probe may join the event.
func (ev *uprobeEvent) accepts(u *traceUprobe, d *definition) *probe.Error {
	if ev.ret != d.Return {
		return probe.NewError(errDiffProbeType, 0, 0)
	}
	if i := probe.DifferentArg(ev.args, u.args); i >= 0 {
		return probe.NewError(errDiffArgType, i+2, 0)
	}
	for _, p := range ev.probes {
		if p.path == u.path && p.offset == u.offset && probe.SameTexts(p.args, u.args) {
			return probe.NewError(errSameProbe, 0, 0)
		}
	}
	return nil
}

func (u *traceUprobe) place() string {
	text := fmt.Sprintf("%s:0x%016x", u.path, u.offset)
	if u.refs != 0 {
		text += fmt.Sprintf("(0x%x)", u.refs)
	}
	return text
}

// line returns the uprobe's line of uprobe_events.
func (u *traceUprobe) line() string {
	kind := "p"
	if u.event.ret {
		kind = "r"
	}
	return fmt.Sprintf("%s:%s/%s %s%s\n", kind, u.event.group, u.event.name, u.place(), probe.Texts(u.args))
}

func (u *traceUprobe) profile() string {
	return fmt.Sprintf("  %s %-44s %15d\n", u.path, u.event.name, 0)
}

// matches is trace_uprobe_match.
func (u *traceUprobe) matches(group, event string, argv []string) bool {
	return u.event.named(group, event) && probe.Matches(argv, u.place(), u.args)
}

func (u *traceUprobe) busy() error { return u.event.busy() }

func (u *traceUprobe) release() error {
	ev := u.event
	if len(ev.probes) == 1 {
		if err := u.busy(); err != nil {
			return err
		}
		u.reg.conf.Events.Forget(ev.Event)
	}
	ev.probes = slices.DeleteFunc(ev.probes, func(p *traceUprobe) bool { return p == u })
	return nil
}

// Kind implements Class.
func (ev *uprobeEvent) Kind() Kind { return Uprobe }

// Enable logs once that there will be no hits.
func (ev *uprobeEvent) Enable() error {
	if !ev.reg.uprobesTold {
		ev.reg.uprobesTold = true
		ev.reg.conf.Machine.Printk(4, "trace_uprobe: the host's programs are not probed here: there will be no hits of %s/%s", ev.group, ev.name)
	}
	return nil
}

// Disable implements Class.
func (ev *uprobeEvent) Disable() {}

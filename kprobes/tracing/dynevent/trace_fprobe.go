package dynevent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

const (
	fprobeGroup = "fprobes"
	tprobeGroup = "tracepoints"
	// probestub is the prefix of the functions that tracepoints call for fprobes.
	probestub = "__probestub_"
)

// traceFprobe is trace_fprobe: a line of dynamic_events that starts with f or t. From
// its definition on it listens to the functions that a name or pattern matches, or to
// the stub of a tracepoint.
type traceFprobe struct {
	reg       *Registry
	event     *fprobeEvent
	symbol    string
	maxActive int
	args      []probe.Arg
	entryArgs []int  // the arguments that are saved for the return
	stub      uint64 // the tracepoint whose stub it enabled, or 0

	on       atomic.Bool // the event is enabled
	listener Listener
	rethook  *kprobes.Rethook // of a return probe
}

// fprobeEvent is the event of one or more fprobes.
type fprobeEvent struct {
	probeEvent
	tracepoint bool
	probes     []*traceFprobe // guarded by Config.Mutex
}

var (
	_ Class    = (*fprobeEvent)(nil)
	_ dynEvent = (*traceFprobe)(nil)
)

// createFprobe is trace_fprobe_create:
//
//	f[MAXACTIVE][:[GROUP/][EVENT]] SYM[%return] [ARG...]
//	t[:[GROUP/][EVENT]] TRACEPOINT [ARG...]
//
// It returns false if the line is not such a definition. The caller holds mu.
func (r *Registry) createFprobe(line string) (bool, error) {
	argv := kstrtox.ArgvSplit(line)
	head := argv[0]
	if head[0] != 'f' && head[0] != 't' || len(argv) < 2 {
		return false, nil
	}
	d := definition{group: fprobeGroup, Definition: probe.Definition{Fprobe: true, Rules: r.conf.Rules}}
	tracepoint := head[0] == 't'
	if tracepoint {
		d.group, d.Hidden = tprobeGroup, 1 // the stub's first argument is the data pointer of the tracepoint's probe
	}
	derr, err := r.parseFprobe(&d, tracepoint, argv)
	if before := d.Preceding(derr); before != nil {
		_ = r.refuse("trace_fprobe", before, argv)
	}
	if derr == nil && err == nil {
		tf := &traceFprobe{reg: r, symbol: d.symbol, maxActive: d.maxActive, args: d.Args, entryArgs: d.EntryArgs}
		derr, err = tf.register(&d, tracepoint)
	}
	if derr == nil {
		return true, err
	}
	return true, r.refuse("trace_fprobe", derr, argv)
}

// parseFprobe parses the words of a definition and finds errors in the same order as
// Linux.
func (r *Registry) parseFprobe(d *definition, tracepoint bool, argv []string) (*probe.Error, error) {
	head := argv[0]
	colon := strings.IndexByte(head, ':')
	if derr := d.parseMaxActive(head, colon); derr != nil {
		return derr, nil
	}
	if derr := d.parseFunction(argv, tracepoint); derr != nil {
		return derr, nil
	}
	if !d.Return && d.maxActive != 0 {
		return probe.NewError(errMaxActNoKprobe, 0, 1), nil
	}
	if derr := r.parseName(head, colon, &d.group, &d.name); derr != nil {
		return derr, nil
	}
	if d.name == "" {
		d.name = r.fprobeName(d, tracepoint)
	}
	d.Fentry = !d.Return
	if r.conf.BTF != nil {
		d.Proto = fprobeProto(r.conf.BTF(), d.symbol, tracepoint)
	}
	return d.ParseArgs(argv[2:])
}

// parseFunction is parse_symbol_and_return. An argument $retval makes it a return
// probe, too.
func (d *definition) parseFunction(argv []string, tracepoint bool) *probe.Error {
	fail := func(e probe.Reason, offset int) *probe.Error { return probe.NewError(e, 1, offset) }
	d.symbol = argv[1]
	if i := strings.IndexByte(argv[1], '%'); i >= 0 {
		if tracepoint || argv[1][i:] != "%return" {
			return fail(errBadAddrSuffix, i)
		}
		d.symbol, d.Return = argv[1][:i], true
	}
	if tracepoint {
		word := func(r rune) bool { return r != '_' && (r > 0x7f || !kstrtox.IsAlpha(byte(r)) && (r < '0' || '9' < r)) }
		if i := strings.IndexFunc(d.symbol, word); i >= 0 {
			return fail(errBadTPName, i)
		}
		return nil
	}
	d.Return = d.Return || slices.ContainsFunc(argv[2:], hasRetval)
	return nil
}

// hasRetval reports whether an argument contains $retval.
func hasRetval(word string) bool {
	_, rest, found := strings.Cut(word, "$retval")
	return found && (rest == "" || rest[0] != '_' && !kstrtox.IsAlpha(rest[0]) && !kstrtox.DigitFirst(rest))
}

// fprobeName makes a name for an event that was given none.
func (r *Registry) fprobeName(d *definition, tracepoint bool) string {
	name := d.symbol
	switch {
	case tracepoint && kstrtox.DigitFirst(name):
		name = "_" + name
	case tracepoint:
	case d.Return:
		name += "__exit"
	default:
		name += "__entry"
	}
	return r.conf.Rules.SanitizeEventName(name[:min(len(name), probe.MaxNameLen-1)])
}

// fprobeProto returns the prototype of a function, or of a tracepoint.
func fprobeProto(types *btf.Types, symbol string, tracepoint bool) *btf.Func {
	if !tracepoint {
		return types.Func(symbol)
	}
	stub := types.Func(probestub + symbol)
	if stub == nil || len(stub.Params) == 0 {
		return nil
	}
	return &btf.Func{Name: stub.Name, Return: stub.Return, Params: stub.Params[1:]}
}

// register is register_trace_fprobe: the probe gets a new event or joins the event of
// its name.
func (tf *traceFprobe) register(d *definition, tracepoint bool) (*probe.Error, error) {
	r := tf.reg
	named := r.conf.Events.Find(d.group, d.name)
	old, ours := classOf(named).(*fprobeEvent)
	if named != nil {
		if !ours {
			return probe.NewError(errEventExists, 0, 0), nil
		}
		if derr := old.accepts(tf, d.Return, tracepoint); derr != nil {
			return derr, nil
		}
		tf.event = old
	} else {
		tf.event = &fprobeEvent{probeEvent: probeEvent{reg: r, ret: d.Return, args: d.Args, argsSize: d.ArgsSize}, tracepoint: tracepoint}
		if !tf.event.create(r, d.group, d.name, tf.event) {
			return probe.NewError(errFailRegProbe.Because(syscall.ENODEV), 1, 0), nil
		}
	}
	if err := tf.attach(); err != nil {
		if old == nil {
			r.conf.Events.Forget(tf.event.Event)
		}
		if errors.Is(err, syscall.EEXIST) { // error_log does not report it
			return nil, err
		}
		return registerError(err), nil
	}
	tf.event.probes = append(tf.event.probes, tf)
	r.list = append(r.list, tf)
	return nil, nil
}

// accepts reports whether another probe may join the event.
func (ev *fprobeEvent) accepts(tf *traceFprobe, ret, tracepoint bool) *probe.Error {
	if ev.ret != ret || ev.tracepoint != tracepoint {
		return probe.NewError(errDiffProbeType, 0, 0)
	}
	if i := probe.DifferentArg(ev.args, tf.args); i >= 0 {
		return probe.NewError(errDiffArgType, i+2, 0)
	}
	for _, p := range ev.probes {
		if p.symbol == tf.symbol && probe.SameTexts(p.args, tf.args) {
			return probe.NewError(errSameProbe, 0, 0)
		}
	}
	return nil
}

// attach is __register_trace_fprobe. A tracepoint that does not exist may come with a
// module: its probe waits. It fails with EINVAL if no function matches, and with EEXIST
// if another probe is at the tracepoint.
func (tf *traceFprobe) attach() error {
	if err := probe.Resolve(tf.args, tf.reg.conf.Symbols); err != nil {
		return err
	}
	tf.on.Store(tf.event.Wanted())
	if !tf.event.tracepoint {
		return tf.listen(tf.symbol)
	}
	if tf.reg.conf.Tracepoints == nil {
		return nil
	}
	addr, ok := tf.reg.conf.Tracepoints.Tracepoint(tf.symbol)
	if !ok {
		return nil
	}
	if tf.reg.probestubs[addr] {
		return fmt.Errorf("there is a probe at tracepoint %s: %w", tf.symbol, syscall.EEXIST)
	}
	if err := tf.listen(probestub + tf.symbol); err != nil {
		return err
	}
	if err := tf.reg.conf.Tracepoints.SetProbestub(addr, true); err != nil {
		tf.detach()
		return err
	}
	tf.stub = addr
	tf.reg.probestubs[addr] = true
	return nil
}

// listen is register_fprobe; pattern is as in set_ftrace_filter.
func (tf *traceFprobe) listen(pattern string) error {
	r := tf.reg
	if pattern == "" {
		return fmt.Errorf("no function: %w", syscall.EINVAL)
	}
	sites, named, err := r.conf.Functions.Match(pattern)
	if err != nil {
		return err
	}
	hit := tf.entered
	if tf.event.ret {
		calls := tf.maxActive
		if calls == 0 {
			calls = named * 2 * r.conf.Machine.CPUs()
		}
		if tf.rethook, err = r.conf.Kprobes.NewRethook(calls, uint64(8+8*len(tf.entryArgs)), tf.returned); err != nil {
			return err
		}
		hit = tf.hook
	}
	tf.listener = r.conf.Functions.Listen(hit)
	if err := tf.listener.Set(sites); err != nil {
		tf.detach()
		return err
	}
	return nil
}

// detach is __unregister_trace_fprobe.
func (tf *traceFprobe) detach() {
	if tf.stub != 0 {
		_ = tf.reg.conf.Tracepoints.SetProbestub(tf.stub, false) // cannot fail: the same text was patched before
		delete(tf.reg.probestubs, tf.stub)
		tf.stub = 0
	}
	if tf.listener != nil {
		if err := tf.listener.Set(nil); err != nil {
			tf.reg.conf.Machine.Printk(4, "ftrace: %v", err)
		}
		tf.listener = nil
	}
	if tf.rethook != nil {
		tf.rethook.Stop()
	}
}

// line returns the probe's line of dynamic_events.
func (tf *traceFprobe) line() string {
	kind, place := "f", tf.symbol
	switch {
	case tf.event.tracepoint:
		kind = "t"
	case tf.event.ret:
		place += "%return"
		if tf.maxActive != 0 {
			kind += strconv.Itoa(tf.maxActive)
		}
	}
	return fmt.Sprintf("%s:%s/%s %s%s\n", kind, tf.event.group, tf.event.name, place, probe.Texts(tf.args))
}

// matches is trace_fprobe_match: "%return" is not compared.
func (tf *traceFprobe) matches(group, event string, argv []string) bool {
	return tf.event.named(group, event) && probe.Matches(argv, tf.symbol, tf.args)
}

func (tf *traceFprobe) busy() error { return tf.event.busy() }

// release is unregister_trace_fprobe. It fails with EBUSY if this is the event's last
// probe and the event is enabled or has something attached.
func (tf *traceFprobe) release() error {
	ev := tf.event
	if len(ev.probes) == 1 {
		if err := tf.busy(); err != nil {
			return err
		}
		if tf.reg.hasEprobes(ev.Event) {
			return ev.busyError()
		}
		tf.reg.conf.Events.Forget(ev.Event)
	}
	tf.detach()
	ev.probes = slices.DeleteFunc(ev.probes, func(p *traceFprobe) bool { return p == tf })
	return nil
}

// Kind implements Class.
func (ev *fprobeEvent) Kind() Kind {
	if ev.ret {
		return Fexit
	}
	return Fentry
}

// Enable implements Class.
func (ev *fprobeEvent) Enable() error {
	for _, tf := range ev.probes {
		tf.on.Store(true)
	}
	return nil
}

// Disable implements Class.
func (ev *fprobeEvent) Disable() {
	for _, tf := range ev.probes {
		tf.on.Store(false)
	}
}

// entered is fentry_dispatcher. It runs in handler context.
func (tf *traceFprobe) entered(trap *abi.Trap) {
	if !tf.on.Load() {
		return
	}
	if en := tf.event.Begin(trap); en != nil {
		en.Word(trap.Regs.IP)
		trap.Regs.IP++ // as in a kprobe's handler: ipPast
		tf.event.record(en, trap, tf.args)
	}
}

// hook is fprobe_handler and trace_fprobe_entry_handler of a return probe: it saves the
// function's address and arguments. It runs in handler context.
func (tf *traceFprobe) hook(trap *abi.Trap) {
	if !tf.on.Load() {
		return
	}
	ri := tf.rethook.Get(trap)
	if ri == nil {
		return
	}
	binary.LittleEndian.PutUint64(ri.Data, trap.Regs.IP)
	probe.KeepEntryArgs(ri.Data[8:], trap, tf.entryArgs)
	tf.rethook.Hook(ri, trap)
}

// returned is fexit_dispatcher. It runs in handler context. The kernel's preemption
// count is one higher here than in a return probe's handler.
func (tf *traceFprobe) returned(ri *kprobes.Instance, trap *abi.Trap) {
	if !tf.on.Load() {
		return
	}
	trap.Preempt++
	if en := tf.event.Begin(trap); en != nil {
		en.Word(binary.LittleEndian.Uint64(ri.Data))
		en.Word(trap.Regs.IP)
		en.Kept = ri.Data[8:]
		tf.event.record(en, trap, tf.args)
	}
	trap.Preempt--
}

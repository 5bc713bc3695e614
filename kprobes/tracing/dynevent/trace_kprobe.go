package dynevent

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

const (
	defaultGroup = "kprobes"
	maxMaxActive = 4096 // KRETPROBE_MAXACTIVE_MAX
)

// place is the location of a probe in its definition: a symbol and an offset, or an
// address.
type place struct {
	symbol string // "SYM" or "MOD:SYM"
	offset uint32
	addr   uint64
	byAddr bool
}

// symbolName is trace_kprobe_symbol.
func (p *place) symbolName() string {
	if p.byAddr {
		return "unknown"
	}
	return p.symbol
}

// placeText returns the place as the listing shows it. An address is the probe's
// itself, which is after an endbr64: hash_ptr of 6.12.
func (tk *traceKprobe) placeText() string {
	switch {
	case tk.byAddr && tk.registered:
		return "0x" + output.HashedPointer(tk.kprobe().Addr, tk.reg.conf.Machine.HashPtr)
	case tk.byAddr:
		return "0x" + output.HashedPointer(tk.addr, tk.reg.conf.Machine.HashPtr)
	case tk.offset != 0:
		return fmt.Sprintf("%s+%d", tk.symbol, tk.offset)
	}
	return tk.symbol
}

// hitCounter is the per-CPU counter trace_kprobe.nhit.
type hitCounter struct {
	n atomic.Uint64
	_ [56]byte
}

// traceKprobe is trace_kprobe: one line of kprobe_events. Several may belong to one
// event.
type traceKprobe struct {
	reg   *Registry
	event *kprobeEvent
	place
	args       []probe.Arg
	entryArgs  []int            // the arguments that a return probe saves at the entry
	ret        kprobes.Retprobe // of a "p" definition only its Kprobe is used
	registered bool
	hits       []hitCounter
}

// kprobeEvent is the event of one or more probes.
type kprobeEvent struct {
	probeEvent
	probes []*traceKprobe // guarded by Config.Mutex
}

var _ Class = (*kprobeEvent)(nil)

// newKprobeEvent is register_kprobe_event. It returns nil if no event ID is left.
func (r *Registry) newKprobeEvent(d definition) *kprobeEvent {
	ev := &kprobeEvent{probeEvent: probeEvent{reg: r, ret: d.Return, args: d.Args, argsSize: d.ArgsSize}}
	if !ev.create(r, d.group, d.name, ev) {
		return nil
	}
	return ev
}

// parseName parses the "[GROUP/]NAME" behind the colon of a definition's first word. A
// group that is not given stays as it is; so do both if colon is negative.
func (r *Registry) parseName(head string, colon int, group, name *string) *probe.Error {
	if colon < 0 {
		return nil
	}
	given, n, derr := r.conf.Rules.ParseEventName(head[colon+1:], colon+1)
	if derr != nil {
		return derr
	}
	*name = n
	if given != "" {
		*group = given
	}
	return nil
}

// Probe implements Probe: bpf_get_kprobe_info.
func (ev *kprobeEvent) Probe() Local {
	switch {
	case len(ev.probes) == 0:
		return Local{Return: ev.ret}
	case ev.probes[0].byAddr:
		return Local{Return: ev.ret, At: ev.probes[0].addr}
	}
	return Local{Return: ev.ret, Name: ev.probes[0].symbol, At: uint64(ev.probes[0].offset)}
}

// Kind implements Class.
func (ev *kprobeEvent) Kind() Kind {
	if ev.ret {
		return Kretprobe
	}
	return Kprobe
}

// Enable is enable_trace_kprobe: it enables all probes or, if one fails, none.
func (ev *kprobeEvent) Enable() error {
	for _, tk := range ev.probes {
		if err := tk.enable(); err != nil {
			ev.Disable()
			return err
		}
	}
	return nil
}

// Disable implements Class.
func (ev *kprobeEvent) Disable() {
	for _, tk := range ev.probes {
		tk.disable()
	}
}

// accepts reports whether another probe may join the event.
func (ev *kprobeEvent) accepts(tk *traceKprobe, d definition) *probe.Error {
	if ev.ret != d.Return {
		return probe.NewError(errDiffProbeType, 0, 0)
	}
	if i := probe.DifferentArg(ev.args, tk.args); i >= 0 {
		return probe.NewError(errDiffArgType, i+2, 0)
	}
	for _, p := range ev.probes {
		if p.symbolName() == tk.symbolName() && p.offset == tk.offset && probe.SameTexts(p.args, tk.args) {
			return probe.NewError(errSameProbe, 0, 0)
		}
	}
	return nil
}

func (tk *traceKprobe) kprobe() *kprobes.Kprobe { return &tk.ret.Kprobe }

// line returns the probe's line of kprobe_events: trace_kprobe_show.
func (tk *traceKprobe) line() string {
	kind := "p"
	if tk.event.ret {
		kind = "r"
		if tk.ret.MaxActive != 0 {
			kind += strconv.Itoa(tk.ret.MaxActive)
		}
	}
	return fmt.Sprintf("%s:%s/%s %s%s\n", kind, tk.event.group, tk.event.name, tk.placeText(), probe.Texts(tk.args))
}

// profile returns the probe's line of kprobe_profile.
func (tk *traceKprobe) profile() string {
	missed := tk.kprobe().Missed()
	if tk.event.ret {
		missed += tk.ret.Missed()
	}
	return fmt.Sprintf("  %-44s %15d %15d\n", tk.event.name, tk.hitCount(), missed)
}

func (tk *traceKprobe) hitCount() (n uint64) {
	for i := range tk.hits {
		n += tk.hits[i].n.Load()
	}
	return n
}

// matches is trace_kprobe_match.
func (tk *traceKprobe) matches(group, event string, argv []string) bool {
	return tk.event.named(group, event) && probe.Matches(argv, tk.placeText(), tk.args)
}

// definition is a parsed definition.
type definition struct {
	place
	probe.Definition
	maxActive   int
	group, name string
}

// errCanceled is ECANCELED: the words are not a definition of a kprobe, and error_log
// gets no entry.
var errCanceled = errors.New("no definition of a kprobe")

// define is __trace_kprobe_create: it parses a definition and registers its probe. The
// first result is an error for error_log. The caller holds mu.
func (r *Registry) define(argv []string) (*probe.Error, error) {
	d, derr, err := r.parseDefinition(argv)
	if before := d.Preceding(derr); before != nil {
		_ = r.refuse("trace_kprobe", before, argv)
	}
	if derr != nil || err != nil {
		return derr, err
	}
	tk := &traceKprobe{reg: r, place: d.place, args: d.Args, hits: make([]hitCounter, r.conf.Machine.CPUs())}
	tk.ret.MaxActive = d.maxActive
	tk.entryArgs = d.EntryArgs
	return r.register(tk, d), nil
}

// parseDefinition parses
//
//	p[:[GROUP/][EVENT]] [MOD:]SYM[+OFFSET]|ADDR [ARG...]
//	r[MAXACTIVE][:[GROUP/][EVENT]] [MOD:]SYM[+0]|ADDR [ARG...]
//
// A symbol with "%return" turns a p into an r. The checks are in the kernel's order, so
// of several errors the same one is reported.
func (r *Registry) parseDefinition(argv []string) (d definition, _ *probe.Error, _ error) {
	head := argv[0]
	if head[0] != 'p' && head[0] != 'r' || len(argv) < 2 {
		return d, nil, errCanceled
	}
	d.Return, d.group, d.Rules = head[0] == 'r', defaultGroup, r.conf.Rules
	colon := strings.IndexByte(head, ':')
	if derr := d.parseMaxActive(head, colon); derr != nil {
		return d, derr, nil
	}
	if derr, err := r.parsePlace(&d, argv); derr != nil || err != nil {
		return d, derr, err
	}
	if derr := r.parseName(head, colon, &d.group, &d.name); derr != nil {
		return d, derr, nil
	}
	if d.name == "" {
		d.name = r.eventNameFor(&d)
	}
	derr, err := d.ParseArgs(argv[2:])
	return d, derr, err
}

// parseMaxActive parses the digits between r and the colon. Anything that does not
// start with a digit is ignored: "r-1:" and "pp:" are accepted.
func (d *definition) parseMaxActive(head string, colon int) *probe.Error {
	if len(head) < 2 || head[1] < '0' || '9' < head[1] {
		return nil
	}
	if !d.Return && !d.Fprobe { // an fprobe is only known to be a return probe later
		return probe.NewError(errMaxActNoKprobe, 0, 1)
	}
	digits := head[1:]
	if colon >= 0 {
		digits = head[1:colon]
	}
	n, err := kstrtox.ParseUint(digits, 0, math.MaxUint32)
	if err != nil || n == 0 || len(digits) > probe.MaxNameLen-1 {
		return probe.NewError(errBadMaxAct, 0, 1)
	}
	if n > maxMaxActive {
		return probe.NewError(errMaxActTooBig, 0, 1)
	}
	d.maxActive = int(n)
	return nil
}

func (r *Registry) parsePlace(d *definition, argv []string) (*probe.Error, error) {
	fail := func(e probe.Reason, offset int) (*probe.Error, error) {
		return probe.NewError(e, 1, offset), nil
	}
	addr, err := kstrtox.ParseUint(argv[1], 0, math.MaxUint64)
	if err == nil {
		d.addr, d.byAddr, d.NoSymbol = addr, true, true
		return nil, nil
	}
	if strings.Contains(argv[1], "/") && strings.Contains(argv[1], ":") {
		return nil, errCanceled // a uprobe's PATH:OFFSET
	}
	place := argv[1]
	if i := strings.IndexByte(place, '%'); i >= 0 {
		if place[i:] != "%return" {
			return fail(errBadAddrSuffix, i)
		}
		d.Return, place = true, place[:i]
	}
	symbol, offset, err := probe.SplitSymbolOffset(place)
	if err != nil || offset < 0 || offset > math.MaxUint32 {
		return fail(errBadProbeAddr, 0)
	}
	d.symbol, d.offset = symbol, uint32(offset)
	err = r.conf.Kprobes.OnFuncEntry(0, symbol, d.offset)
	inside := d.Return && symbol != "" && errors.Is(err, syscall.EINVAL)
	if inside && !r.conf.Has[release.SymbolEINVAL] { // before it is asked how many functions have the name
		return fail(errBadRetprobe, 0)
	}
	if !strings.Contains(symbol, ":") && r.conf.Has[release.EarlySymbols] {
		switch n := len(r.conf.Symbols.LookupName(symbol)); {
		case n > 1:
			return fail(errNonUniqSymbol, 0)
		case n == 0 && r.conf.Has[release.SymbolEINVAL]:
			return fail(errBadProbeAddr, 0)
		case n == 0:
			return fail(errNoProbeAddr, 0)
		}
	}
	if inside {
		return fail(errBadRetprobe, 0)
	}
	d.Fentry = err == nil && !d.Return
	if r.conf.BTF != nil && err == nil {
		d.Proto = r.conf.BTF().Func(symbol)
	}
	return nil, nil
}

// eventNameFor makes a name for an event that was given none.
func (r *Registry) eventNameFor(d *definition) string {
	kind := 'p'
	if d.Return {
		kind = 'r'
	}
	name := fmt.Sprintf("%c_%s_%d", kind, d.symbol, d.offset)
	if d.byAddr {
		name = fmt.Sprintf("%c_0x%s", kind, output.HashedPointer(d.addr, r.conf.Machine.HashPtr))
	}
	return r.conf.Rules.SanitizeEventName(name[:min(len(name), probe.MaxNameLen-1)])
}

// register is register_trace_kprobe: the probe gets a new event or joins the event of
// its name. The caller holds mu.
func (r *Registry) register(tk *traceKprobe, d definition) *probe.Error {
	named := r.conf.Events.Find(d.group, d.name)
	old, ours := classOf(named).(*kprobeEvent)
	if named != nil && !ours {
		return probe.NewError(errEventExists, 0, 0)
	}
	if old != nil {
		if derr := old.accepts(tk, d); derr != nil {
			return derr
		}
		tk.event = old
	} else if tk.event = r.newKprobeEvent(d); tk.event == nil {
		r.conf.Machine.Printk(4, "trace_kprobe: Failed to register probe event(%d)", -int(syscall.ENODEV))
		return probe.NewError(errFailRegProbe.Because(syscall.ENODEV), 1, 0)
	}
	err := r.registerKprobe(tk)
	if errors.Is(err, syscall.ENOENT) && !r.moduleExists(tk) {
		r.conf.Machine.Printk(4, "trace_kprobe: This probe might be able to register after target module is loaded. Continue.")
		err = nil
	}
	if err != nil {
		if old == nil {
			r.conf.Events.Forget(tk.event.Event)
		}
		return registerError(err)
	}
	tk.event.probes = append(tk.event.probes, tk)
	r.kprobes = append(r.kprobes, tk)
	r.list = append(r.list, tk)
	return nil
}

// registerError returns the entry of error_log for an error of register_kprobe.
func registerError(err error) *probe.Error {
	reason := errFailRegProbe
	switch {
	case errors.Is(err, syscall.EILSEQ):
		reason = errBadInsnBoundary
	case errors.Is(err, syscall.ENOENT):
		reason = errNoProbeAddr
	}
	return probe.NewError(reason.Because(err), 1, 0)
}

// moduleExists is trace_kprobe_module_exist: whether the module that the symbol names is
// loaded, so that a symbol that was not found is an error. An address may belong to a
// module that is not loaded yet.
func (r *Registry) moduleExists(tk *traceKprobe) bool {
	if tk.byAddr {
		return false
	}
	module, _, found := strings.Cut(tk.symbol, ":")
	return !found || r.conf.Modules.Loaded(module)
}

// registerKprobe is __register_trace_kprobe. The probe is disabled at first unless its
// event is enabled.
func (r *Registry) registerKprobe(tk *traceKprobe) error {
	if r.withinNotrace(tk) {
		name := tk.symbolName()
		if r.conf.Has[release.NotraceAtAddress] {
			name = r.nameAt(tk)
		}
		r.conf.Machine.Printk(4, "trace_kprobe: Could not probe notrace function %s", name)
		return fmt.Errorf("%s has no fentry site: %w", tk.symbolName(), syscall.EINVAL)
	}
	if err := probe.Resolve(tk.args, r.conf.Symbols); err != nil {
		return err
	}
	if !tk.byAddr && tk.symbol == "" { // kprobes would treat the empty symbol as no symbol
		return fmt.Errorf("no symbol: %w", syscall.ENOENT)
	}
	p := tk.kprobe()
	p.SymbolName, p.Offset, p.Addr = tk.symbol, tk.offset, tk.addr
	p.Flags = 0
	if !tk.event.Wanted() {
		p.Flags = kprobes.FlagDisabled
	}
	var err error
	if tk.event.ret {
		tk.ret.Handler = func(ri *kprobes.Instance, h *kprobes.Hit) int { return tk.returned(ri, h) }
		tk.ret.EntryHandler, tk.ret.DataSize = nil, uint64(8*len(tk.entryArgs))
		if len(tk.entryArgs) > 0 {
			tk.ret.EntryHandler = func(ri *kprobes.Instance, h *kprobes.Hit) int { return tk.keep(ri, h) }
		}
		err = r.conf.Kprobes.RegisterRetprobe(&tk.ret)
	} else {
		p.PreHandler = func(h *kprobes.Hit) int { return tk.entered(h) }
		err = r.conf.Kprobes.Register(p)
	}
	tk.registered = err == nil
	return err
}

func (r *Registry) unregisterKprobe(tk *traceKprobe) {
	if !tk.registered {
		return
	}
	tk.registered = false
	if tk.event.ret {
		r.conf.Kprobes.UnregisterRetprobe(&tk.ret)
	} else {
		r.conf.Kprobes.Unregister(tk.kprobe())
	}
	tk.kprobe().Addr = 0
}

// withinNotrace is within_notrace_func: a function without an fentry site must not be
// traced (CONFIG_KPROBE_EVENTS_ON_NOTRACE is off). A part of a function ("x.part.0")
// counts as that function.
func (r *Registry) withinNotrace(tk *traceKprobe) bool {
	addr := tk.addr
	if !tk.byAddr {
		syms := r.conf.Symbols.LookupName(tk.symbol)
		if len(syms) == 0 {
			return false
		}
		addr = syms[0].Addr + uint64(tk.offset)
	}
	sym, notrace := r.notraceFunc(addr)
	if !notrace {
		return false
	}
	base, _, suffixed := strings.Cut(sym.Name, ".")
	if !suffixed {
		return true
	}
	syms := r.conf.Symbols.LookupName(base)
	if len(syms) == 0 {
		return true
	}
	_, notrace = r.notraceFunc(syms[0].Addr)
	return notrace
}

// nameAt returns what the kernel's %ps prints for the probe's address.
func (r *Registry) nameAt(tk *traceKprobe) string {
	addr := tk.addr
	if !tk.byAddr {
		addr = r.conf.Symbols.LookupName(tk.symbol)[0].Addr + uint64(tk.offset)
	}
	sym, _, ok := r.conf.Symbols.Lookup(addr)
	if !ok {
		return fmt.Sprintf("0x%x", addr)
	}
	return sym.Name
}

func (r *Registry) notraceFunc(addr uint64) (abi.Symbol, bool) {
	sym, _, ok := r.conf.Symbols.Lookup(addr)
	if addr == 0 || !ok {
		return sym, false
	}
	return sym, !r.conf.Sites.FtraceOverlap(sym.Addr, sym.Addr+sym.Size)
}

// busy is trace_kprobe_is_busy.
func (tk *traceKprobe) busy() error { return tk.event.busy() }

// release is unregister_trace_kprobe. It fails with EBUSY if the event is enabled and
// this is its last probe. The caller holds mu.
func (tk *traceKprobe) release() error {
	r, e := tk.reg, tk.event
	if len(e.probes) == 1 {
		if err := e.busy(); err != nil {
			return err
		}
		r.conf.Events.Forget(e.Event)
	}
	r.unregisterKprobe(tk)
	e.probes = slices.DeleteFunc(e.probes, func(p *traceKprobe) bool { return p == tk })
	r.kprobes = slices.DeleteFunc(r.kprobes, func(p *traceKprobe) bool { return p == tk })
	return nil
}

// ModuleComing is trace_kprobe_module_callback: it registers the kprobes that wait for
// the module, or whose text was unloaded with it. The caller holds Config.Mutex.
func (r *Registry) ModuleComing(module string) {
	for _, tk := range r.kprobes {
		if tk.byAddr || !strings.HasPrefix(tk.symbol, module+":") {
			continue
		}
		r.unregisterKprobe(tk)
		if err := r.registerKprobe(tk); err != nil {
			var errno syscall.Errno
			errors.As(err, &errno)
			r.conf.Machine.Printk(4, "trace_kprobe: Failed to re-register probe %s on %s: %d", tk.event.name, module, -int(errno))
		}
	}
}

// enable is __enable_trace_kprobe. It does nothing for a probe that waits for its
// module or whose text is gone.
func (tk *traceKprobe) enable() error {
	if !tk.registered || tk.gone() {
		return nil
	}
	return tk.reg.conf.Kprobes.Enable(tk.kprobe())
}

func (tk *traceKprobe) disable() {
	if tk.registered {
		_ = tk.reg.conf.Kprobes.Disable(tk.kprobe()) // like the kernel, ignore the error
	}
}

func (tk *traceKprobe) gone() bool { return tk.kprobe().State()&kprobes.FlagGone != 0 }

// entered is kprobe_dispatcher. It runs in handler context.
func (tk *traceKprobe) entered(h *kprobes.Hit) int {
	tk.hits[h.CPU].n.Add(1)
	if en := tk.event.Begin(h.Trap); en != nil {
		en.Word(h.Probe.Addr)
		tk.event.record(en, h.Trap, tk.args)
	}
	return 0
}

// keep is trace_kprobe_entry_handler. It runs in handler context.
func (tk *traceKprobe) keep(ri *kprobes.Instance, h *kprobes.Hit) int {
	probe.KeepEntryArgs(ri.Data, h.Trap, tk.entryArgs)
	return 0
}

// returned is kretprobe_dispatcher. It runs in handler context.
func (tk *traceKprobe) returned(ri *kprobes.Instance, h *kprobes.Hit) int {
	tk.hits[h.CPU].n.Add(1)
	if en := tk.event.Begin(h.Trap); en != nil {
		en.Word(tk.kprobe().Addr)
		en.Word(ri.RetAddr)
		en.Kept = ri.Data
		tk.event.record(en, h.Trap, tk.args)
	}
	return 0
}

// Parse parses a line of kprobe_events that defines a kprobe, and registers nothing. It fails with the
// *probe.Error that error_log would show, or with another error where it shows none.
func (r *Registry) Parse(line string) (*probe.Definition, error) {
	argv := kstrtox.ArgvSplit(line)
	if len(argv) == 0 {
		return nil, fmt.Errorf("an empty line: %w", syscall.EINVAL)
	}
	d, derr, err := r.parseDefinition(argv)
	switch {
	case derr != nil:
		derr.Reason = r.releaseError(derr.Reason)
		return nil, derr
	case errors.Is(err, errCanceled):
		return nil, fmt.Errorf("%q is no definition: %w", line, syscall.EINVAL)
	}
	return &d.Definition, err
}

// RegisterError returns what error_log shows when register_kprobe or register_kretprobe has failed with
// err for a definition.
func (r *Registry) RegisterError(err error) *probe.Error {
	derr := registerError(err)
	derr.Reason = r.releaseError(derr.Reason)
	return derr
}

package hist

import (
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// The error_log texts for actions.
const (
	errTooManyFieldVars = "Too many field variables defined"
	errNoEventFile      = "Event file not found"
	errNoHist           = "Matching event histogram not found"
	errNoFieldHist      = "Couldn't create histogram for field"
	errNoSynthEvent     = "Couldn't find synthetic event"
	errSynthType        = "Param type doesn't match synthetic event field type"
	errSynthCount       = "Param count doesn't match synthetic event field count"
	errFieldVarParse    = "Couldn't parse field variable"
	errFieldVarFind     = "Couldn't create or find variable"
	errNotVar           = "For onmax(x) or onchange(x), x must be a variable"
	errOnVarNotFound    = "Couldn't find onmax or onchange variable"
	errFieldVar         = "Couldn't create field variable"
	errTooManyParams    = "Too many action params"
	errParamNotFound    = "Couldn't find param"
	errParam            = "Invalid action param"
	errNoAction         = "No action found"
	errTooManySaves     = "Can't have more than one save() action per hist"
	errActionMismatch   = "Handler doesn't support action"
	errNoParen          = "No closing paren found"
	errNoSubsystem      = "Missing subsystem"
	errBadEvent         = "Invalid subsystem or event name"
)

const (
	maxActions      = 8
	trackMax        = "__max"
	trackChange     = "__change"
	synthFieldVar   = "synthetic_"
	savedTextColumn = 32
)

// handler is the condition of an action.
type handler byte

const (
	handlerMatch handler = iota
	handlerMax
	handlerChange
)

// actionKind is the kind of an action.
type actionKind byte

const (
	doesTrace actionKind = iota
	doesSave
	doesSnapshot
)

// action is action_data: HANDLER.ACTION.
type action struct {
	handler       handler
	does          actionKind
	system, event string // of onmatch
	varText       string // of onmax and onchange
	name          string // of the action
	keyword       bool   // it is written as trace(EVENT,...)
	synthName     string
	params        []string

	synth *dynevent.SynthEvent
	args  []*histField // references to variables, one for each field of synth

	ref   *histField // reference to the variable of onmax or onchange
	track *histField // the largest value, or the last one
	snap  snapshotTrack
}

// snapshotTrack is track_data: the values at the last snapshot, for all keys together.
type snapshotTrack struct {
	taken bool
	value uint64
	key   [maxKeySize + 8]byte
	comm  [abi.TaskCommLen]byte
}

// fieldVar is field_var: a variable that is created for a field.
type fieldVar struct {
	field *histField // the variable
	value *histField // its value
}

// parseActions is parse_actions.
func (p *parser) parseActions() error {
	for _, text := range p.data.attrs.actions {
		word, rest, _ := strings.Cut(text, "(")
		var x *action
		var err error
		if word == "onmatch" {
			x, err = p.parseMatch(rest)
		} else {
			x, err = p.parseTrack(word, rest)
		}
		if err != nil {
			return err
		}
		p.data.actions = append(p.data.actions, x)
	}
	return nil
}

// parseMatch is onmatch_parse: "SYSTEM.EVENT).ACTION".
func (p *parser) parseMatch(text string) (*action, error) {
	match, rest, closed := strings.Cut(text, ")")
	if !closed {
		return nil, p.fail(errNoParen, match)
	}
	system, event, found := strings.Cut(match, ".")
	if !found {
		return nil, p.fail(errNoSubsystem, system)
	}
	if p.file.Array().File(system, event, true) == nil {
		return nil, p.fail(errBadEvent, event)
	}
	x := &action{handler: handlerMatch, system: system, event: event}
	return x, p.parseAction(x, rest)
}

// parseTrack is track_data_parse: "$VAR).ACTION".
func (p *parser) parseTrack(word, text string) (*action, error) {
	name, rest, closed := strings.Cut(text, ")")
	if !closed {
		return nil, p.quiet(syscall.EINVAL)
	}
	x := &action{handler: handlerMax, varText: name}
	if word == "onchange" {
		x.handler = handlerChange
	}
	return x, p.parseAction(x, rest)
}

// parseAction is action_parse: ".ACTION(PARAMS)".
func (p *parser) parseAction(x *action, text string) error {
	_, rest, dot := strings.Cut(text, ".")
	name, rest, paren := strings.Cut(rest, "(")
	if !dot || !paren {
		return p.fail(errNoAction, "")
	}
	params, _, closed := strings.Cut(rest, ")")
	x.name = name
	switch {
	case strings.HasPrefix(name, "save"):
		x.does = doesSave
	case strings.HasPrefix(name, "snapshot"):
		x.does = doesSnapshot
		if !closed {
			return p.fail(errNoParen, params)
		}
	default:
		x.keyword = strings.HasPrefix(name, "trace")
		x.synthName = name
	}
	if x.does != doesSnapshot {
		if err := p.parseParams(x, params); err != nil {
			return err
		}
	}
	if x.does != doesTrace && x.handler == handlerMatch {
		return p.fail(errActionMismatch, name)
	}
	return nil
}

// parseParams is parse_action_params. Each parameter has at least two bytes.
func (p *parser) parseParams(x *action, text string) error {
	for i, param := range strings.Split(text, ",") {
		if len(x.params) == dynevent.MaxSynthFields {
			return p.fail(errTooManyParams, "")
		}
		param = kstrtox.Strip(param)
		if len(param) < 2 {
			return p.fail(errParam, param)
		}
		if i == 0 && x.keyword {
			x.synthName = param
		} else {
			x.params = append(x.params, param)
		}
	}
	return nil
}

// createActions is create_actions.
func (p *parser) createActions() error {
	for _, x := range p.data.actions {
		if x.handler != handlerMatch {
			if err := p.createTrack(x); err != nil {
				return err
			}
		}
		var err error
		switch x.does {
		case doesTrace:
			err = p.createTrace(x)
		case doesSave:
			err = p.createSave(x)
		case doesSnapshot:
			if err = p.file.Array().HoldSnapshot(); err == nil {
				p.data.snapshots = p.file.Array()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createTrack is track_data_create.
func (p *parser) createTrack(x *action) error {
	name, ok := strings.CutPrefix(x.varText, "$")
	if !ok {
		return p.fail(errNotVar, x.varText)
	}
	v := p.data.findVar(name)
	if v == nil {
		return p.fail(errOnVarNotFound, name)
	}
	ref, err := p.reference(v, p.data, "", "")
	if err != nil {
		return err
	}
	x.ref = ref
	x.track = &histField{flags: flagVar, varName: trackMax, typ: "u64", size: 8}
	if x.handler == handlerChange {
		x.track.varName = trackChange
	}
	return nil
}

// createSave is the save() of action_create.
func (p *parser) createSave(x *action) error {
	if len(p.data.saveVars) > 0 {
		return p.failWith(syscall.EEXIST, errTooManySaves, "")
	}
	for i, param := range x.params {
		v, err := p.createFieldVar(param)
		if err != nil {
			_ = p.fail(errFieldVar, param)
			return err
		}
		p.data.saveVars = append(p.data.saveVars, v)
		x.params[i] = v.field.varName
	}
	return nil
}

// createFieldVar is create_field_var: it creates a variable named after a field of this
// event, with the field as its value.
func (p *parser) createFieldVar(name string) (fieldVar, error) {
	d := p.data
	if len(d.fieldVars) == dynevent.MaxSynthFields {
		return fieldVar{}, p.fail(errTooManyFieldVars, name)
	}
	value, err := p.parseAtom(name, 0, "")
	if err != nil {
		_ = p.fail(errFieldVarParse, name)
		return fieldVar{}, err
	}
	if strings.Count(name, ".") > 1 {
		name, _, _ = strings.Cut(name, ".") // as the kernel's parser does
	}
	if d.findVar(name) != nil || p.inFile(name) {
		return fieldVar{}, p.fail(errFieldVarFind, name)
	}
	// The kernel leaves the variable unsigned, even if the field is signed.
	v := &histField{flags: flagVar | value.flags&(flagString|flagStacktrace), varName: name, typ: value.typ, size: value.size}
	d.giveText(v)
	return fieldVar{v, value}, nil
}

// createTrace is trace_action_create: each parameter becomes a reference to a variable;
// if it names a field, a variable is created for it.
func (p *parser) createTrace(x *action) error {
	synth := p.hists.conf.Synth(x.synthName)
	if synth == nil {
		return p.fail(errNoSynthEvent, x.synthName)
	}
	synth.Hold(1)
	x.synth = synth
	for i, text := range x.params {
		system, event, param := "", "", text
		if parts := strings.SplitN(text, ".", 3); len(parts) == 3 {
			system, event, param = parts[0], parts[1], parts[2]
		} else if len(parts) == 2 {
			return p.quiet(syscall.EINVAL)
		}
		v, hist, err := p.traceParam(x, system, event, param)
		if err != nil {
			return err
		}
		if i >= synth.NumFields() || !synth.Takes(i, v.typ, v.size, v.signed) {
			return p.fail(errSynthType, param)
		}
		ref, err := p.reference(v, hist, system, event)
		if err != nil {
			return err
		}
		x.args = append(x.args, ref)
	}
	if len(x.args) != synth.NumFields() {
		return p.fail(errSynthCount, synth.Name())
	}
	return nil
}

// traceParam finds or creates the variable of a parameter.
func (p *parser) traceParam(x *action, system, event, param string) (*histField, *histogram, error) {
	ours := system == "" || p.isOwn(system, event)
	name, isVar := strings.CutPrefix(param, "$")
	if isVar && ours {
		if v := p.data.findVar(name); v != nil {
			return v, p.data, nil
		}
	}
	if !isVar && ours {
		if v, err := p.createFieldVar(param); err == nil {
			p.data.fieldVars = append(p.data.fieldVars, v)
			return v.field, p.data, nil
		}
	}
	if system == "" && x.handler == handlerMatch {
		system, event = x.system, x.event
	}
	if isVar {
		if v, hist := p.findVar(system, event, name); v != nil {
			return v, hist, nil
		}
		return nil, nil, p.fail(errParamNotFound, name)
	}
	if event == "" {
		return nil, nil, p.quiet(syscall.EINVAL)
	}
	return p.createFieldHist(system, event, param)
}

// createFieldHist is create_field_var_hist: an existing trigger cannot get another
// variable, so a new trigger with the same keys is created for the field.
func (p *parser) createFieldHist(system, event, field string) (*histField, *histogram, error) {
	d := p.data
	if len(d.fieldHists) == dynevent.MaxSynthFields {
		return nil, nil, p.fail(errTooManyFieldVars, field)
	}
	f := p.file.Array().File(system, event, true)
	if f == nil {
		return nil, nil, p.fail(errNoEventFile, field)
	}
	list := p.hists.of(f)
	i := slices.IndexFunc(list, func(t *Trigger) bool { return sameKeys(t.hist, d) })
	if i < 0 {
		return nil, nil, p.fail(errNoHist, field)
	}
	like := list[i]
	name := synthFieldVar + field
	for _, t := range d.fieldHists {
		if v := t.hist.findVar(name); t.file == f && v != nil {
			return v, t.hist, nil
		}
	}
	var keys []string
	for _, k := range like.hist.fields[like.hist.nVals:] {
		keys = append(keys, k.fieldName(0))
	}
	text := "keys=" + strings.Join(keys, ",") + ":" + name + "=" + field
	if like.filter != nil {
		text += " if " + like.filter.Text
	}
	sub := &parser{hists: p.hists, file: f, fields: f.Members(), command: p.command, reportTo: p.reportTo}
	if err := sub.run(text, false); err != nil {
		return nil, nil, p.fail(errNoFieldHist, field)
	}
	v, hist := p.hists.findVar(f, name)
	if v == nil {
		return nil, nil, p.fail(errNoHist, field)
	}
	for _, t := range p.hists.of(f) {
		if t.hist == hist {
			d.fieldHists = append(d.fieldHists, t)
		}
	}
	return v, hist, nil
}

// sameKeys is compatible_keys.
func sameKeys(a, b *histogram) bool {
	return slices.EqualFunc(a.fields[a.nVals:], b.fields[b.nVals:], func(x, y *histField) bool {
		return x.typ == y.typ && x.size == y.size && x.signed == y.signed
	})
}

// dropActions undoes createActions.
func (d *histogram) dropActions() {
	d.dropUses()
	for _, t := range d.fieldHists {
		d.hists.remove(t)
	}
	d.fieldHists = nil
}

// refuse undoes createActions for a trigger that is not taken.
func (d *histogram) refuse() {
	if !d.hists.conf.Has[release.KeepFieldHists] {
		d.dropActions()
		return
	}
	d.dropUses()
	for _, t := range d.fieldHists {
		t.hist.hold(false)
	}
}

// dropUses lets go of what actions use: synthetic events and the snapshot.
func (d *histogram) dropUses() {
	for _, x := range d.actions {
		if x.synth != nil {
			x.synth.Hold(-1)
			x.synth = nil
		}
	}
	if d.snapshots != nil {
		d.snapshots.FreeSnapshot()
		d.snapshots = nil
	}
}

// same is actions_match.
func (x *action) same(y *action) bool {
	return x.handler == y.handler && x.does == y.does && x.name == y.name && x.synthName == y.synthName &&
		slices.Equal(x.params, y.params) && x.system == y.system && x.event == y.event && x.varText == y.varText
}

// text returns the action as the trigger shows it.
func (x *action) text() string {
	b := ":" + x.handlerText() + "."
	switch {
	case x.does == doesSnapshot:
		return b + "snapshot()"
	case x.does == doesSave:
		return b + "save(" + strings.Join(x.params, ",") + ")"
	case x.keyword:
		return b + "trace(" + strings.Join(append([]string{x.synthName}, x.params...), ",") + ")"
	}
	return b + x.synthName + "(" + strings.Join(x.params, ",") + ")"
}

func (x *action) handlerText() string {
	switch x.handler {
	case handlerMax:
		return "onmax(" + x.varText + ")"
	case handlerChange:
		return "onchange(" + x.varText + ")"
	case handlerMatch:
	}
	return "onmatch(" + x.system + "." + x.event + ")"
}

// act is one of hist_trigger_actions. It runs in handler context.
func (h *Hit) act(x *action, e *tracingmap.Elt) {
	if x.handler != handlerMatch && !h.track(x, e) {
		return
	}
	switch x.does {
	case doesTrace:
		h.trace(x)
	case doesSave:
		m := h.data.table
		m.Lock()
		for _, v := range h.data.saveVars {
			h.setVar(e, v.field, v.value, h.valueOrZero(v.value))
		}
		m.Unlock()
	case doesSnapshot:
		h.data.file.Array().Snapshot(h.Trap)
	}
}

// track reports whether the variable of onmax or onchange is larger than all previous
// values or different from the last one, and saves it. There is one saved value for
// each key, and a single one for snapshots.
func (h *Hit) track(x *action, e *tracingmap.Elt) bool {
	m := h.data.table
	m.Lock()
	defer m.Unlock()
	value := h.refs[x.ref.refIdx]
	last := e.Vars[x.track.varIdx]
	if x.does == doesSnapshot {
		last = x.snap.value
	}
	if x.handler == handlerMax && value <= last || x.handler == handlerChange && value == last {
		return false
	}
	if x.does != doesSnapshot {
		e.Vars[x.track.varIdx], e.Set[x.track.varIdx] = value, true
		return true
	}
	x.snap.taken, x.snap.value, x.snap.key, x.snap.comm = true, value, h.key, e.Comm
	return true
}

// trace is action_trace: it hits a synthetic event.
func (h *Hit) trace(x *action) {
	depth := uint32(2) // an entry is reserved, in which others may nest
	if h.hists.conf.Has[release.HistHoldsPreempt] {
		depth++
	}
	h.args = x.args
	x.synth.Hit(h.Trap, depth, h)
}

// Number returns the value of the variable that is parameter i of an action.
func (h *Hit) Number(i int) uint64 { return h.refs[h.args[i].refIdx] }

// Text returns the string that is parameter i of an action, without its NUL.
func (h *Hit) Text(i int) []byte { return h.text(h.args[i]) }

// PutStack writes the stack that is parameter i of an action into room, its length first,
// and returns how many bytes that takes.
func (h *Hit) PutStack(i int, room []byte) int { return h.putStack(room, h.args[i]) }

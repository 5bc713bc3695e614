package tracing

import (
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// The error_log texts for actions.
const (
	histErrTooManyFieldVars = "Too many field variables defined"
	histErrNoEventFile      = "Event file not found"
	histErrNoHist           = "Matching event histogram not found"
	histErrNoFieldHist      = "Couldn't create histogram for field"
	histErrNoSynthEvent     = "Couldn't find synthetic event"
	histErrSynthType        = "Param type doesn't match synthetic event field type"
	histErrSynthCount       = "Param count doesn't match synthetic event field count"
	histErrFieldVarParse    = "Couldn't parse field variable"
	histErrFieldVarFind     = "Couldn't create or find variable"
	histErrNotVar           = "For onmax(x) or onchange(x), x must be a variable"
	histErrOnVarNotFound    = "Couldn't find onmax or onchange variable"
	histErrFieldVar         = "Couldn't create field variable"
	histErrTooManyParams    = "Too many action params"
	histErrParamNotFound    = "Couldn't find param"
	histErrParam            = "Invalid action param"
	histErrNoAction         = "No action found"
	histErrTooManySaves     = "Can't have more than one save() action per hist"
	histErrActionMismatch   = "Handler doesn't support action"
	histErrNoParen          = "No closing paren found"
	histErrNoSubsystem      = "Missing subsystem"
	histErrBadEvent         = "Invalid subsystem or event name"
)

const (
	histActionsMax  = 8
	synthFieldsMax  = 64 // SYNTH_FIELDS_MAX
	trackMax        = "__max"
	trackChange     = "__change"
	synthFieldVar   = "synthetic_"
	savedTextColumn = 32
)

// histHandler is the condition of an action.
type histHandler byte

const (
	handlerMatch histHandler = iota
	handlerMax
	handlerChange
)

// histDoes is the kind of an action.
type histDoes byte

const (
	doesTrace histDoes = iota
	doesSave
	doesSnapshot
)

// histAction is action_data: HANDLER.ACTION.
type histAction struct {
	handler       histHandler
	does          histDoes
	system, event string // of onmatch
	varText       string // of onmax and onchange
	name          string // of the action
	keyword       bool   // it is written as trace(EVENT,...)
	synthName     string
	params        []string

	synth *synthEvent
	args  []*histField // references to variables, one for each field of synth

	ref   *histField // reference to the variable of onmax or onchange
	track *histField // the largest value, or the last one
	snap  snapshotTrack
}

// snapshotTrack is track_data: the values at the last snapshot, for all keys together.
type snapshotTrack struct {
	taken bool
	value uint64
	key   [histKeySize + 8]byte
	comm  [abi.TaskCommLen]byte
}

// fieldVar is field_var: a variable that is created for a field.
type fieldVar struct {
	field *histField // the variable
	value *histField // its value
}

// parseActions is parse_actions.
func (p *histParser) parseActions() error {
	for _, text := range p.data.attrs.actions {
		word, rest, _ := strings.Cut(text, "(")
		var x *histAction
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
func (p *histParser) parseMatch(text string) (*histAction, error) {
	match, rest, closed := strings.Cut(text, ")")
	if !closed {
		return nil, p.fail(histErrNoParen, match)
	}
	system, event, found := strings.Cut(match, ".")
	if !found {
		return nil, p.fail(histErrNoSubsystem, system)
	}
	if p.file.array.findAnyFile(system, event) == nil {
		return nil, p.fail(histErrBadEvent, event)
	}
	x := &histAction{handler: handlerMatch, system: system, event: event}
	return x, p.parseAction(x, rest)
}

// parseTrack is track_data_parse: "$VAR).ACTION".
func (p *histParser) parseTrack(word, text string) (*histAction, error) {
	name, rest, closed := strings.Cut(text, ")")
	if !closed {
		return nil, p.quiet(syscall.EINVAL)
	}
	x := &histAction{handler: handlerMax, varText: name}
	if word == "onchange" {
		x.handler = handlerChange
	}
	return x, p.parseAction(x, rest)
}

// parseAction is action_parse: ".ACTION(PARAMS)".
func (p *histParser) parseAction(x *histAction, text string) error {
	_, rest, dot := strings.Cut(text, ".")
	name, rest, paren := strings.Cut(rest, "(")
	if !dot || !paren {
		return p.fail(histErrNoAction, "")
	}
	params, _, closed := strings.Cut(rest, ")")
	x.name = name
	switch {
	case strings.HasPrefix(name, "save"):
		x.does = doesSave
	case strings.HasPrefix(name, "snapshot"):
		x.does = doesSnapshot
		if !closed {
			return p.fail(histErrNoParen, params)
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
		return p.fail(histErrActionMismatch, name)
	}
	return nil
}

// parseParams is parse_action_params. Each parameter has at least two bytes.
func (p *histParser) parseParams(x *histAction, text string) error {
	for i, param := range strings.Split(text, ",") {
		if len(x.params) == synthFieldsMax {
			return p.fail(histErrTooManyParams, "")
		}
		param = kstrtox.Strip(param)
		if len(param) < 2 {
			return p.fail(histErrParam, param)
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
func (p *histParser) createActions() error {
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
			if err = p.file.array.condSnapshotEnable(); err == nil {
				p.data.snapshots = p.file.array
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createTrack is track_data_create.
func (p *histParser) createTrack(x *histAction) error {
	name, ok := strings.CutPrefix(x.varText, "$")
	if !ok {
		return p.fail(histErrNotVar, x.varText)
	}
	v := p.data.findVar(name)
	if v == nil {
		return p.fail(histErrOnVarNotFound, name)
	}
	ref, err := p.reference(v, p.data, "", "")
	if err != nil {
		return err
	}
	x.ref = ref
	x.track = &histField{flags: histVar, varName: trackMax, typ: "u64", size: 8}
	if x.handler == handlerChange {
		x.track.varName = trackChange
	}
	return nil
}

// createSave is the save() of action_create.
func (p *histParser) createSave(x *histAction) error {
	if len(p.data.saveVars) > 0 {
		return p.failWith(syscall.EEXIST, histErrTooManySaves, "")
	}
	for i, param := range x.params {
		v, err := p.createFieldVar(param)
		if err != nil {
			_ = p.fail(histErrFieldVar, param)
			return err
		}
		p.data.saveVars = append(p.data.saveVars, v)
		x.params[i] = v.field.varName
	}
	return nil
}

// createFieldVar is create_field_var: it creates a variable named after a field of this
// event, with the field as its value.
func (p *histParser) createFieldVar(name string) (fieldVar, error) {
	d := p.data
	if len(d.fieldVars) == synthFieldsMax {
		return fieldVar{}, p.fail(histErrTooManyFieldVars, name)
	}
	value, err := p.parseAtom(name, 0, "")
	if err != nil {
		_ = p.fail(histErrFieldVarParse, name)
		return fieldVar{}, err
	}
	if strings.Count(name, ".") > 1 {
		name, _, _ = strings.Cut(name, ".") // as the kernel's parser does
	}
	if d.findVar(name) != nil || d.file.findVar(name) != nil {
		return fieldVar{}, p.fail(histErrFieldVarFind, name)
	}
	// The kernel leaves the variable unsigned, even if the field is signed.
	v := &histField{flags: histVar | value.flags&(histString|histStacktrace), varName: name, typ: value.typ, size: value.size}
	d.giveText(v)
	return fieldVar{v, value}, nil
}

// createTrace is trace_action_create: each parameter becomes a reference to a variable;
// if it names a field, a variable is created for it.
func (p *histParser) createTrace(x *histAction) error {
	synth := p.file.tracer.synthEvent(x.synthName)
	if synth == nil {
		return p.fail(histErrNoSynthEvent, x.synthName)
	}
	synth.refs++
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
		if i >= len(synth.fields) || !synth.fields[i].takes(v) {
			return p.fail(histErrSynthType, param)
		}
		ref, err := p.reference(v, hist, system, event)
		if err != nil {
			return err
		}
		x.args = append(x.args, ref)
	}
	if len(x.args) != len(synth.fields) {
		return p.fail(histErrSynthCount, synth.Name)
	}
	return nil
}

// traceParam finds or creates the variable of a parameter.
func (p *histParser) traceParam(x *histAction, system, event, param string) (*histField, *histData, error) {
	ours := system == "" || system == p.file.Group && event == p.file.Name
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
		return nil, nil, p.fail(histErrParamNotFound, name)
	}
	if event == "" {
		return nil, nil, p.quiet(syscall.EINVAL)
	}
	return p.createFieldHist(system, event, param)
}

// createFieldHist is create_field_var_hist: an existing trigger cannot get another
// variable, so a new trigger with the same keys is created for the field.
func (p *histParser) createFieldHist(system, event, field string) (*histField, *histData, error) {
	d := p.data
	if len(d.fieldHists) == synthFieldsMax {
		return nil, nil, p.fail(histErrTooManyFieldVars, field)
	}
	f := p.file.array.findAnyFile(system, event)
	if f == nil {
		return nil, nil, p.fail(histErrNoEventFile, field)
	}
	i := slices.IndexFunc(f.triggerList(), func(t *trigger) bool { return t.hist != nil && sameKeys(t.hist, d) })
	if i < 0 {
		return nil, nil, p.fail(histErrNoHist, field)
	}
	like := f.triggerList()[i]
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
	sub := &histParser{file: f, fields: f.entryMembers(), command: p.command, reportTo: p.reportTo}
	if err := sub.run(like.command, text, false); err != nil {
		return nil, nil, p.fail(histErrNoFieldHist, field)
	}
	v, hist := f.findVarData(name)
	if v == nil {
		return nil, nil, p.fail(histErrNoHist, field)
	}
	for _, t := range f.triggerList() {
		if t.hist == hist {
			d.fieldHists = append(d.fieldHists, t)
		}
	}
	return v, hist, nil
}

// sameKeys is compatible_keys.
func sameKeys(a, b *histData) bool {
	return slices.EqualFunc(a.fields[a.nVals:], b.fields[b.nVals:], func(x, y *histField) bool {
		return x.typ == y.typ && x.size == y.size && x.signed == y.signed
	})
}

// dropActions undoes createActions.
func (d *histData) dropActions() {
	for _, x := range d.actions {
		if x.synth != nil {
			x.synth.refs--
			x.synth = nil
		}
	}
	if d.snapshots != nil {
		d.snapshots.condSnapshot, d.snapshots = false, nil
	}
	if d.file.tracer.conf.has[release.KeepFieldHists] {
		return
	}
	for _, t := range d.fieldHists {
		t.file.removeTrigger(func(x *trigger) bool { return x == t })
	}
	d.fieldHists = nil
}

// same is actions_match.
func (x *histAction) same(y *histAction) bool {
	return x.handler == y.handler && x.does == y.does && x.name == y.name && x.synthName == y.synthName &&
		slices.Equal(x.params, y.params) && x.system == y.system && x.event == y.event && x.varText == y.varText
}

// text returns the action as the trigger shows it.
func (x *histAction) text() string {
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

func (x *histAction) handlerText() string {
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
func (h *histHit) act(x *histAction, e *tracingmap.Elt) {
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
		h.data.file.array.takeSnapshot(triggerHit{h.Trap, true}, true)
	}
}

// track reports whether the variable of onmax or onchange is larger than all previous
// values or different from the last one, and saves it. There is one saved value for
// each key, and a single one for snapshots.
func (h *histHit) track(x *histAction, e *tracingmap.Elt) bool {
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
func (h *histHit) trace(x *histAction) {
	depth := uint32(2) // an entry is reserved, in which others may nest
	if h.tracer.conf.has[release.HistHoldsPreempt] {
		depth++
	}
	en := x.synth.beginInside(h.Trap, depth)
	if en == nil {
		return
	}
	if x.synth.put(en, h, x.args) {
		x.synth.commit(h.Trap, en)
	} else {
		h.tracer.discard(h.Trap)
	}
}

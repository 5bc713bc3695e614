package tracing

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// parseExpr is parse_expr. Operators of equal precedence associate to the left, so the
// last one of the lowest precedence is the root. ops counts them.
func (p *histParser) parseExpr(text string, flags histFlags, varName string, ops *int) (*histField, error) {
	op, at := rootOperator(text)
	if op == 0 {
		return p.parseAtom(text, flags, varName)
	}
	if *ops++; *ops > histOpsMax {
		return nil, p.fail(histErrTooManyOps, text)
	}
	if op == '_' {
		return p.parseMinus(text, flags, varName, ops)
	}
	left, right := text[:at], text[at+1:]
	if left == "" || right == "" {
		return nil, p.quiet(syscall.EINVAL)
	}
	a, err := p.parseOperand(left, ops)
	if err != nil {
		return nil, err
	}
	b, err := p.parseOperand(right, ops)
	if err != nil {
		return nil, err
	}
	return p.combine(op, a, b, right, flags, varName)
}

// rootOperator is contains_operator: it returns 0 if there is no operator. A minus that
// is the first byte and also the last minus is unary; the one in ".sym-offset" does not
// count.
func rootOperator(s string) (op byte, at int) {
	minus, plus := strings.LastIndexByte(s, '-'), strings.LastIndexByte(s, '+')
	if minus == 0 {
		return '_', 0
	}
	if minus >= 4 && strings.HasPrefix(s[minus-4:], ".sym-offset") {
		minus = strings.LastIndexByte(s[:minus], '-')
	}
	at = max(minus, plus)
	if at < 0 {
		at = max(strings.LastIndexByte(s, '*'), strings.LastIndexByte(s, '/'))
	}
	if at < 0 {
		return 0, 0
	}
	return s[at], at
}

func (p *histParser) parseOperand(text string, ops *int) (*histField, error) {
	f, err := p.parseExpr(text, 0, "", ops)
	if err != nil {
		return nil, err
	}
	if f.flags&histString != 0 {
		return nil, p.fail(histErrStringOperand, text)
	}
	return f, nil
}

// parseMinus is parse_unary, which accepts only "-(EXPRESSION)".
func (p *histParser) parseMinus(text string, flags histFlags, varName string, ops *int) (*histField, error) {
	_, inner, found := strings.Cut(text, "(")
	if !found {
		return nil, p.quiet(syscall.EINVAL)
	}
	end := strings.LastIndexByte(inner, ')')
	if end < 0 {
		return nil, p.quiet(syscall.EINVAL)
	}
	if end != len(inner)-1 {
		return nil, p.fail(histErrUnaryMinus, inner)
	}
	a, err := p.parseExpr(inner[:end], 0, "", ops)
	if err != nil {
		return nil, err
	}
	if a.flags&histString != 0 {
		return nil, p.fail(histErrStringOperand, text)
	}
	f := &histField{flags: flags | histExpr | a.flags&(histTimestamp|histUsecs), varName: varName, op: '_', typ: a.typ, size: a.size, signed: a.signed}
	f.operands[0] = a
	a.once = true
	f.name = f.exprText()
	return f, nil
}

// combine creates the node of an operator, or, if both operands are numbers, a number.
func (p *histParser) combine(op byte, a, b *histField, right string, flags histFlags, varName string) (*histField, error) {
	if a.timeUnit() != b.timeUnit() {
		return nil, p.fail(histErrTimestamps, "")
	}
	f := &histField{op: op, varName: varName, typ: a.typ, size: a.size, signed: a.signed}
	f.operands = [2]*histField{a, b}
	f.flags = flags | histExpr | (a.flags|b.flags)&(histTimestamp|histUsecs)
	a.once, b.once = true, true
	if divisor := b.constantOf(); op == '/' && divisor != nil {
		if *divisor == 0 {
			return nil, p.failWith(syscall.EDOM, histErrDivisionByZero, right)
		}
		if f.constant = *divisor; *divisor&(*divisor-1) != 0 && *divisor <= 1<<histDivShift {
			f.mult = 1 << histDivShift / *divisor
		}
	}
	if a.flags&histConst != 0 && b.flags&histConst != 0 {
		f.constant = f.calculate(a.constant, b.constant)
		f.flags = f.flags&^histExpr | histConst
		f.operands, f.op = [2]*histField{}, 0
		return f, nil
	}
	f.name = f.exprText()
	return f, nil
}

// timeUnit distinguishes time stamps in microseconds from all other values; a reference
// has the unit of its variable.
func (f *histField) timeUnit() bool {
	if f.refVar != nil {
		return f.refVar.flags&histUsecs != 0
	}
	return f.flags&histUsecs != 0
}

// constantOf returns the constant value of a field, or nil. A variable that was
// assigned a number counts as constant.
func (f *histField) constantOf() *uint64 {
	switch {
	case f.flags&histConst != 0:
		return &f.constant
	case f.refVar != nil && f.refVar.flags&histConst != 0:
		return &f.refVar.constant
	}
	return nil
}

// calculate applies the operator. A division by a number that is not a power of 2 is a
// multiplication that rounds up, as on Linux.
func (f *histField) calculate(a, b uint64) uint64 {
	switch f.op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	}
	switch {
	case f.constant != 0:
		b = f.constant
	case b == 0:
		return math.MaxUint64
	}
	if f.mult != 0 && a < 1<<histDivShift {
		return (a*f.mult + 1<<histDivShift - 1) >> histDivShift
	}
	return a / b
}

// exprText is expr_str: it returns the name of an expression.
func (f *histField) exprText() string {
	operand := func(x *histField) string {
		switch {
		case x.flags&histVarRef != 0:
			return "$" + x.fieldName(0)
		case x.flags&histConst != 0:
			return uintText(x.constant)
		}
		return x.fieldName(0) + x.modifier()
	}
	if f.op == '_' {
		return "-(" + operand(f.operands[0]) + ")"
	}
	return operand(f.operands[0]) + string(f.op) + operand(f.operands[1])
}

// parseAtom is parse_atom: a number, a variable, or a field.
func (p *histParser) parseAtom(text string, flags histFlags, varName string) (*histField, error) {
	if kstrtox.DigitFirst(text) {
		n, err := kstrtox.ParseUint(text, 0, math.MaxUint64)
		if err != nil {
			return nil, p.fail(histErrExpectNumber, text)
		}
		return &histField{flags: flags | histConst, constant: n, varName: varName, typ: "u64", size: 8}, nil
	}
	var system, event string
	ref := text
	if parts := strings.SplitN(text, ".", 3); len(parts) == 3 {
		system, event, ref = parts[0], parts[1], parts[2]
	}
	if local, ok := p.localVar(system, event, ref); ok {
		ref = local
	} else if strings.HasPrefix(ref, "$") {
		switch f, err := p.parseRef(system, event, ref[1:]); {
		case err != nil:
			return nil, err
		case f != nil && varName != "":
			alias := &histField{flags: flags | histAlias, varName: varName, typ: f.typ, size: f.size, signed: f.signed, name: f.name, ref: f.ref, refVar: f.refVar, refIdx: f.refIdx}
			alias.operands[0] = f
			alias.flags |= f.flags & (histString | histTimestamp | histUsecs)
			return alias, nil
		case f != nil:
			return f, nil
		}
	}
	return p.parseField(ref, flags, varName)
}

// localVar is local_field_var_ref: a reference to a variable to which the command
// itself assigns a plain field stands for that field.
func (p *histParser) localVar(system, event, ref string) (string, bool) {
	if !strings.HasPrefix(ref, "$") || system != "" && (system != p.file.Group || event != p.file.Name) {
		return "", false
	}
	for _, v := range p.data.attrs.vars {
		if v.name == ref[1:] {
			if op, _ := rootOperator(v.expr); op != 0 || strings.HasPrefix(v.expr, "$") {
				continue
			}
			return v.expr, true
		}
	}
	return "", false
}

// parseRef is parse_var_ref. It returns nil without an error if there is no such
// variable, which the caller reports in error_log.
func (p *histParser) parseRef(system, event, name string) (*histField, error) {
	v, hist := p.findVar(system, event, name)
	if v == nil {
		_ = p.fail(histErrVarNotFound, name)
		return nil, nil
	}
	return p.reference(v, hist, system, event)
}

// reference is create_var_ref.
func (p *histParser) reference(v *histField, hist *histData, system, event string) (*histField, error) {
	d := p.data
	for _, r := range d.refs {
		if r.refVar == v {
			return r, nil
		}
	}
	if len(d.refs) == histVarsMax {
		return nil, p.quiet(syscall.EINVAL)
	}
	r := &histField{
		flags: histVarRef | v.flags&(histTimestamp|histUsecs|histString), name: v.varName, typ: v.typ, size: v.size, signed: v.signed,
		ref: hist, refVar: v, refIdx: len(d.refs), system: system, group: event,
	}
	d.refs = append(d.refs, r)
	return r, nil
}

// findVar is find_event_var: it looks for the variable in the given event, in the event
// that an action's handler names, and then everywhere.
func (p *histParser) findVar(system, event, name string) (*histField, *histData) {
	a := p.file.array
	if system != "" {
		if f := a.findFile(system, event); f != nil {
			return f.findVarData(name)
		}
		return nil, nil
	}
	var found *histField
	var data *histData
	for _, x := range p.data.actions {
		if x.handler != handlerMatch {
			continue
		}
		f := a.findFile(x.system, x.event)
		if f == nil {
			continue
		}
		if v, d := f.findVarData(name); v != nil {
			if found != nil {
				_ = p.fail(histErrVarNotUnique, name)
				return nil, nil
			}
			found, data = v, d
		}
	}
	if found != nil {
		return found, data
	}
	for _, f := range a.files {
		if v, d := f.findVarData(name); v != nil {
			if found != nil {
				_ = p.fail(histErrVarNotUnique, name)
				return nil, nil
			}
			found, data = v, d
		}
	}
	return found, data
}

func (f *EventFile) findVarData(name string) (*histField, *histData) {
	for _, t := range f.triggerList() {
		if t.hist != nil {
			if v := t.hist.findVar(name); v != nil {
				return v, t.hist
			}
		}
	}
	return nil, nil
}

// parseField is parse_field and create_hist_field: FIELD[.MODIFIER].
func (p *histParser) parseField(text string, flags histFlags, varName string) (*histField, error) {
	name, modifier, modified := strings.Cut(text, ".")
	f := &histField{flags: flags, varName: varName}
	if modified {
		if err := p.parseModifier(f, name, modifier); err != nil {
			return nil, err
		}
	}
	switch name {
	case "common_timestamp":
		f.flags |= histTimestamp
		p.data.timed = true
		p.data.usecs = p.data.usecs || f.flags&histUsecs != 0
	case "common_cpu":
		f.flags |= histCPU
	default:
		f.event = p.fields[name]
		switch {
		case name == histCommonStack && p.file.tracer.conf.has[release.CommonStacktrace]:
			f.flags |= histStacktrace
		case f.event != nil && f.event.Size > 0:
		case name == "cpu" || name == "CPU":
			f.flags |= histCPU
			f.cpu = name
		case name == "hitcount" && p.file.tracer.conf.has[release.CommonStacktrace]:
			f.flags |= histHitcount
		case name == "stacktrace" && p.file.tracer.conf.has[release.CommonStacktrace]:
			f.flags |= histStacktrace
			f.event = &field.Member{Name: name}
		default:
			return nil, p.fail(histErrFieldNotFound, name)
		}
	}
	return p.shape(f)
}

// parseModifier parses the word after a field's dot.
func (p *histParser) parseModifier(f *histField, name, modifier string) error {
	bad := func(at string) error { return p.fail(histErrModifier, at) }
	if rest, ok := strings.CutPrefix(modifier, "bucket"); ok {
		rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, "s"), "=")
		if !ok {
			return bad(rest)
		}
		n, err := kstrtox.ParseUint(rest, 0, math.MaxUint64)
		if err != nil || n == 0 {
			return bad(rest)
		}
		f.flags |= histBucket
		f.buckets = n
		return nil
	}
	for _, m := range histModifiers {
		if m.name != modifier || m.flag == histBucket || m.flag == histStacktrace && !p.file.tracer.conf.has[release.CommonStacktrace] {
			continue
		}
		if m.flag == histExecname && name != "common_pid" || m.flag&(histPercent|histGraph) != 0 && f.flags&(histVar|histKey) != 0 {
			return bad(modifier)
		}
		f.flags |= m.flag
		return nil
	}
	return bad(modifier)
}

// shape sets the type of the field's value. It fails with ENOMEM, as the kernel does,
// if no function can read such a member.
func (p *histParser) shape(f *histField) (*histField, error) {
	common := p.file.tracer.conf.has[release.CommonStacktrace]
	switch {
	case f.flags&histStacktrace != 0:
		f.typ, f.size, f.name = histStackType, histStackSize, histCommonStack
		return f, nil
	case f.flags&histTimestamp != 0:
		f.typ, f.size = "u64", 8
	case f.flags&histCPU != 0:
		f.typ, f.size = "unsigned int", 4
	case f.flags&histHitcount != 0:
		f.typ, f.size = "u64", 8
	case common && f.event.IsStack():
		f.typ, f.size = histStackType, histStackSize
		f.flags |= histStacktrace
	case f.event.IsText():
		f.typ, f.size = f.event.Type, tracingmap.TextSize
		f.flags |= histString
		if f.event.Kind == field.CharArray {
			f.size = f.event.Size
		}
	default:
		f.typ, f.size, f.signed = f.event.Type, f.event.Size, f.event.Signed
		if s := f.size; f.event.Kind == field.Array || s != 1 && s != 2 && s != 4 && s != 8 {
			return nil, p.quiet(syscall.ENOMEM)
		}
	}
	if f.flags&(histLog2|histBucket) != 0 && f.flags&histHitcount == 0 {
		inner := *f
		inner.flags &^= histLog2 | histBucket | histVar
		f.operands[0] = &inner
		f.flags &^= histString | histStacktrace
	}
	return f, nil
}

// histHit is the state of one hit of a histogram, scratch memory of the trap side. Each
// vCPU has one for each entry that may be under construction.
type histHit struct {
	*subject
	data   *histData
	tracer *Tracer
	key    [histKeySize + 8]byte
	values [histValsMax + 2*histVarsMax]uint64 // of the fields; unused for strings
	refs   [histVarsMax]uint64
	texts  [histVarsMax][tracingmap.TextSize]byte // of references to strings
}

// value is hist_field.fn: it returns the value of a number.
func (h *histHit) value(f *histField) uint64 {
	switch {
	case f.flags&histHitcount != 0:
		return 1
	case f.flags&histConst != 0:
		return f.constant
	case f.flags&(histVarRef|histAlias) != 0:
		return h.refs[f.refIdx]
	case f.flags&histStacktrace != 0:
		return 0 // on Linux this is an address
	case f.op == '_':
		return -h.value(f.operands[0])
	case f.op != 0:
		return f.calculate(h.value(f.operands[0]), h.value(f.operands[1]))
	case f.flags&histLog2 != 0:
		return uint64(log2Ceil(h.value(f.operands[0])))
	case f.flags&histBucket != 0:
		v := h.value(f.operands[0])
		return v - v%f.buckets
	case f.flags&histTimestamp != 0:
		if h.data.usecs && h.inNanoseconds {
			return uint64(h.time) / 1000
		}
		return uint64(h.time)
	case f.flags&histCPU != 0:
		return uint64(h.CPU)
	case f.flags&histString != 0:
		return uint64(f.event.Offset) // on Linux this is an address
	}
	if !f.event.Within(h.Entry) {
		return 0
	}
	return f.event.Load(h.Entry)
}

// log2Ceil is ilog2(roundup_pow_of_two(v)). If there is no such power it is 0, as with
// the kernel's shift.
func log2Ceil(v uint64) int {
	if v <= 1 || v > 1<<63 {
		return 0
	}
	return bits.Len64(v - 1)
}

// text returns the string of a field, without its NUL.
func (h *histHit) text(f *histField) []byte {
	switch {
	case f.flags&(histVarRef|histAlias) != 0:
		return field.CutNUL(h.texts[f.refIdx][:])
	}
	return f.event.Text(h.Entry)
}

// stack returns the stack trace of the hit, without the two functions that record it.
func (h *histHit) stack() []uint64 {
	if isTask(h.Trap) {
		return nil
	}
	ips := h.tracer.unwindHandler(h.Trap, h.data.file.Event)
	return ips[min(2, len(ips)):]
}

// putStack writes the stack of a field into room, its length first, and returns how
// many bytes that takes. A variable always gets the stack of the hit, even if a field
// is assigned to it. A key of a field gets the stack in the field; a field that is not
// a stack has none (the kernel uses its value as a location then).
func (h *histHit) putStack(room []byte, f *histField) int {
	var stack []byte
	switch {
	case f.flags&(histVarRef|histAlias) != 0:
		stack = h.texts[f.refIdx][:]
	case f.isCommonStack() || f.flags&histKey == 0:
		ips := h.stack()
		n := min(len(ips), histDepth)
		binary.LittleEndian.PutUint64(room, uint64(n))
		for i, ip := range ips[:n] {
			binary.LittleEndian.PutUint64(room[8+8*i:], ip)
		}
		return 8 + 8*n
	case f.event != nil && f.event.IsStack() && f.event.Within(h.Entry):
		stack = field.StackAt(h.Entry, f.event.Offset)
	}
	n := 0
	if len(stack) >= 8 {
		n = int(min(binary.LittleEndian.Uint64(stack), uint64(len(stack)/8-1), histDepth))
		copy(room[8:], stack[8:8+8*n])
	}
	binary.LittleEndian.PutUint64(room, uint64(n))
	return 8 + 8*n
}

// isCommonStack reports whether the field is the stack of the hit rather than of a member.
func (f *histField) isCommonStack() bool { return f.event == nil && f.cpu == "" }

// holdsStack reports whether the field is a stack or a variable that holds one.
func (f *histField) holdsStack() bool {
	if f.refVar != nil {
		return f.refVar.holdsStack()
	}
	return f.flags&histStacktrace != 0
}

// hitHist is event_hist_trigger. It runs in handler context.
func (t *Tracer) hitHist(d *histData, s *subject) {
	c := t.scratch(s.Trap)
	h := &c.hists[max(c.depth, 1)-1]
	h.subject, h.data, h.tracer = s, d, t
	clear(h.key[:])
	for _, f := range d.fields[d.nVals:] {
		h.putKey(f)
	}
	if !h.resolve(false) {
		return
	}
	for i, f := range d.fields[:d.nVals] {
		if f.flags&histVar == 0 || f.flags&histString == 0 {
			h.values[i] = h.value(f)
		}
	}
	m := d.table
	m.Lock()
	e, isNew := m.Lookup(h.key[:], true)
	if e != nil {
		h.update(e, isNew)
	}
	m.Unlock()
	if e != nil && len(d.actions) > 0 && h.resolve(true) {
		for _, x := range d.actions {
			h.act(x, e)
		}
	}
}

// putKey writes a key's value at its offset.
func (h *histHit) putKey(f *histField) {
	at := h.key[f.offset : f.offset+f.size]
	switch {
	case f.flags&histStacktrace != 0:
		var stack [8 + histStackSize]byte
		n := h.putStack(stack[:], f)
		copy(at, stack[8:n])
	case f.flags&histString != 0:
		s := h.text(f)
		copy(at, s[:min(len(s), f.size-1)])
	default:
		binary.LittleEndian.PutUint64(at, h.value(f))
	}
}

// resolve is resolve_var_refs: it reads the referenced variables from the elements of
// the same key. It is called for the variables of other triggers before this trigger's
// element is updated (self is false), and for its own afterwards. It returns false if a
// variable is not set.
func (h *histHit) resolve(self bool) bool {
	d := h.data
	for i, r := range d.refs {
		if (r.ref == d) != self {
			continue
		}
		m := r.ref.table
		if m == nil {
			return false
		}
		m.Lock()
		e, _ := m.Lookup(h.key[:], false)
		ok := e != nil && e.Set[r.refVar.varIdx]
		if ok {
			h.refs[i] = e.Vars[r.refVar.varIdx]
			if r.flags&histString != 0 || r.holdsStack() {
				copy(h.texts[i][:], e.TextAt(r.refVar.textIdx))
			}
			if r.once && !self {
				e.Set[r.refVar.varIdx] = false
			}
		}
		m.Unlock()
		if !ok {
			return false
		}
	}
	return true
}

// update is hist_trigger_elt_update.
func (h *histHit) update(e *tracingmap.Elt, isNew bool) {
	d := h.data
	if isNew && h.Comm != nil {
		e.Comm = *h.Comm
	}
	for i, f := range d.fields[:d.nVals] {
		if f.flags&histVar == 0 {
			e.Sums[i] += h.values[i]
			continue
		}
		h.setVar(e, f, f, h.values[i])
	}
	for _, v := range d.fieldVars {
		h.setVar(e, v.field, v.value, h.valueOrZero(v.value))
	}
}

func (h *histHit) valueOrZero(f *histField) uint64 {
	if f.flags&histString != 0 {
		return 0
	}
	return h.value(f)
}

// setVar sets a variable of an element to the value of a field.
func (h *histHit) setVar(e *tracingmap.Elt, v, from *histField, value uint64) {
	if from.flags&histString != 0 {
		room := e.TextAt(v.textIdx)
		s := h.text(from)
		n := copy(room[:min(from.size, tracingmap.TextSize)-1], s)
		clear(room[n:])
	} else if from.holdsStack() {
		h.putStack(e.TextAt(v.textIdx), from)
	}
	e.Vars[v.varIdx] = value
	e.Set[v.varIdx] = true
}

package hist

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// parseExpr is parse_expr. Operators of equal precedence associate to the left, so the
// last one of the lowest precedence is the root. ops counts them.
func (p *parser) parseExpr(text string, flags flagSet, varName string, ops *int) (*histField, error) {
	op, at := rootOperator(text)
	if op == 0 {
		return p.parseAtom(text, flags, varName)
	}
	if *ops++; *ops > maxOps {
		return nil, p.fail(errTooManyOps, text)
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

func (p *parser) parseOperand(text string, ops *int) (*histField, error) {
	f, err := p.parseExpr(text, 0, "", ops)
	if err != nil {
		return nil, err
	}
	if f.flags&flagString != 0 {
		return nil, p.fail(errStringOperand, text)
	}
	return f, nil
}

// parseMinus is parse_unary, which accepts only "-(EXPRESSION)".
func (p *parser) parseMinus(text string, flags flagSet, varName string, ops *int) (*histField, error) {
	_, inner, found := strings.Cut(text, "(")
	if !found {
		return nil, p.quiet(syscall.EINVAL)
	}
	end := strings.LastIndexByte(inner, ')')
	if end < 0 {
		return nil, p.quiet(syscall.EINVAL)
	}
	if end != len(inner)-1 {
		return nil, p.fail(errUnaryMinus, inner)
	}
	a, err := p.parseExpr(inner[:end], 0, "", ops)
	if err != nil {
		return nil, err
	}
	if a.flags&flagString != 0 {
		return nil, p.fail(errStringOperand, text)
	}
	f := &histField{flags: flags | flagExpr | a.flags&(flagTimestamp|flagUsecs), varName: varName, op: '_', typ: a.typ, size: a.size, signed: a.signed}
	f.operands[0] = a
	a.once = true
	f.name = f.exprText()
	return f, nil
}

// combine creates the node of an operator, or, if both operands are numbers, a number.
func (p *parser) combine(op byte, a, b *histField, right string, flags flagSet, varName string) (*histField, error) {
	if a.timeUnit() != b.timeUnit() {
		return nil, p.fail(errTimestamps, "")
	}
	f := &histField{op: op, varName: varName, typ: a.typ, size: a.size, signed: a.signed}
	f.operands = [2]*histField{a, b}
	f.flags = flags | flagExpr | (a.flags|b.flags)&(flagTimestamp|flagUsecs)
	a.once, b.once = true, true
	if divisor := b.constantOf(); op == '/' && divisor != nil {
		if *divisor == 0 {
			return nil, p.failWith(syscall.EDOM, errDivisionByZero, right)
		}
		if f.constant = *divisor; *divisor&(*divisor-1) != 0 && *divisor <= 1<<divShift {
			f.mult = 1 << divShift / *divisor
		}
	}
	if a.flags&flagConst != 0 && b.flags&flagConst != 0 {
		f.constant = f.calculate(a.constant, b.constant)
		f.flags = f.flags&^flagExpr | flagConst
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
		return f.refVar.flags&flagUsecs != 0
	}
	return f.flags&flagUsecs != 0
}

// constantOf returns the constant value of a field, or nil. A variable that was
// assigned a number counts as constant.
func (f *histField) constantOf() *uint64 {
	switch {
	case f.flags&flagConst != 0:
		return &f.constant
	case f.refVar != nil && f.refVar.flags&flagConst != 0:
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
	if f.mult != 0 && a < 1<<divShift {
		return (a*f.mult + 1<<divShift - 1) >> divShift
	}
	return a / b
}

// exprText is expr_str: it returns the name of an expression.
func (f *histField) exprText() string {
	operand := func(x *histField) string {
		switch {
		case x.flags&flagVarRef != 0:
			return "$" + x.fieldName(0)
		case x.flags&flagConst != 0:
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
func (p *parser) parseAtom(text string, flags flagSet, varName string) (*histField, error) {
	if kstrtox.DigitFirst(text) {
		n, err := kstrtox.ParseUint(text, 0, math.MaxUint64)
		if err != nil {
			return nil, p.fail(errExpectNumber, text)
		}
		return &histField{flags: flags | flagConst, constant: n, varName: varName, typ: "u64", size: 8}, nil
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
			alias := &histField{flags: flags | flagAlias, varName: varName, typ: f.typ, size: f.size, signed: f.signed, name: f.name, ref: f.ref, refVar: f.refVar, refIdx: f.refIdx}
			alias.operands[0] = f
			alias.flags |= f.flags & (flagString | flagTimestamp | flagUsecs)
			return alias, nil
		case f != nil:
			return f, nil
		}
	}
	return p.parseField(ref, flags, varName)
}

// localVar is local_field_var_ref: a reference to a variable to which the command
// itself assigns a plain field stands for that field.
func (p *parser) localVar(system, event, ref string) (string, bool) {
	if !strings.HasPrefix(ref, "$") || system != "" && !p.isOwn(system, event) {
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
func (p *parser) parseRef(system, event, name string) (*histField, error) {
	v, hist := p.findVar(system, event, name)
	if v == nil {
		_ = p.fail(errVarNotFound, name)
		return nil, nil
	}
	return p.reference(v, hist, system, event)
}

// reference is create_var_ref.
func (p *parser) reference(v *histField, hist *histogram, system, event string) (*histField, error) {
	d := p.data
	for _, r := range d.refs {
		if r.refVar == v {
			return r, nil
		}
	}
	if len(d.refs) == maxVars {
		return nil, p.quiet(syscall.EINVAL)
	}
	r := &histField{
		flags: flagVarRef | v.flags&(flagTimestamp|flagUsecs|flagString), name: v.varName, typ: v.typ, size: v.size, signed: v.signed,
		ref: hist, refVar: v, refIdx: len(d.refs), system: system, group: event,
	}
	d.refs = append(d.refs, r)
	return r, nil
}

// isOwn reports whether these are the names of the event of the command.
func (p *parser) isOwn(system, event string) bool {
	ours, name := p.file.Title()
	return system == ours && event == name
}

// inFile reports whether a trigger of the file sets a variable of that name.
func (p *parser) inFile(name string) bool {
	v, _ := p.hists.findVar(p.file, name)
	return v != nil
}

// findVar is find_event_var: it looks for the variable in the given event, in the event
// that an action's handler names, and then everywhere.
func (p *parser) findVar(system, event, name string) (*histField, *histogram) {
	a := p.file.Array()
	if system != "" {
		return p.hists.findVar(a.File(system, event, false), name)
	}
	var files []File
	for _, x := range p.data.actions {
		if x.handler == handlerMatch {
			files = append(files, a.File(x.system, x.event, false))
		}
	}
	if v, d, unique := p.findUnique(files, name); v != nil || !unique {
		return v, d
	}
	files = nil
	for _, t := range p.hists.all {
		if t.file.Array() == a && !slices.Contains(files, t.file) {
			files = append(files, t.file)
		}
	}
	v, d, _ := p.findUnique(files, name)
	return v, d
}

// findUnique looks for a variable in several files. unique is false if more than one has
// it, which error_log says.
func (p *parser) findUnique(files []File, name string) (found *histField, data *histogram, unique bool) {
	for _, f := range files {
		v, d := p.hists.findVar(f, name)
		if v == nil {
			continue
		}
		if found != nil {
			_ = p.fail(errVarNotUnique, name)
			return nil, nil, false
		}
		found, data = v, d
	}
	return found, data, true
}

// parseField is parse_field and create_hist_field: FIELD[.MODIFIER].
func (p *parser) parseField(text string, flags flagSet, varName string) (*histField, error) {
	name, modifier, modified := strings.Cut(text, ".")
	f := &histField{flags: flags, varName: varName}
	if modified {
		if err := p.parseModifier(f, name, modifier); err != nil {
			return nil, err
		}
	}
	switch name {
	case "common_timestamp":
		f.flags |= flagTimestamp
		p.data.timed = true
		p.data.usecs = p.data.usecs || f.flags&flagUsecs != 0
	case "common_cpu":
		f.flags |= flagCPU
	default:
		f.event = p.fields[name]
		switch {
		case name == commonStack && p.hists.conf.Has[release.CommonStacktrace]:
			f.flags |= flagStacktrace
		case f.event != nil && f.event.Size > 0:
		case name == "cpu" || name == "CPU":
			f.flags |= flagCPU
			f.cpu = name
		case name == "hitcount" && p.hists.conf.Has[release.CommonStacktrace]:
			f.flags |= flagHitcount
		case name == "stacktrace" && p.hists.conf.Has[release.CommonStacktrace]:
			f.flags |= flagStacktrace
			f.event = &field.Member{Name: name}
		default:
			return nil, p.fail(errFieldNotFound, name)
		}
	}
	return p.shape(f)
}

// parseModifier parses the word after a field's dot.
func (p *parser) parseModifier(f *histField, name, modifier string) error {
	bad := func(at string) error { return p.fail(errModifier, at) }
	if rest, ok := strings.CutPrefix(modifier, "bucket"); ok {
		rest, ok = strings.CutPrefix(strings.TrimPrefix(rest, "s"), "=")
		if !ok {
			return bad(rest)
		}
		n, err := kstrtox.ParseUint(rest, 0, math.MaxUint64)
		if err != nil || n == 0 {
			return bad(rest)
		}
		f.flags |= flagBucket
		f.buckets = n
		return nil
	}
	for _, m := range modifiers {
		if m.name != modifier || m.flag == flagBucket || m.flag == flagStacktrace && !p.hists.conf.Has[release.CommonStacktrace] {
			continue
		}
		if m.flag == flagExecname && name != "common_pid" || m.flag&(flagPercent|flagGraph) != 0 && f.flags&(flagVar|flagKey) != 0 {
			return bad(modifier)
		}
		f.flags |= m.flag
		return nil
	}
	return bad(modifier)
}

// shape sets the type of the field's value. It fails with ENOMEM, as the kernel does,
// if no function can read such a member.
func (p *parser) shape(f *histField) (*histField, error) {
	common := p.hists.conf.Has[release.CommonStacktrace]
	switch {
	case f.flags&flagStacktrace != 0:
		f.typ, f.size, f.name = dynevent.StackType, dynevent.StackSize, commonStack
		return f, nil
	case f.flags&flagTimestamp != 0:
		f.typ, f.size = "u64", 8
	case f.flags&flagCPU != 0:
		f.typ, f.size = "unsigned int", 4
	case f.flags&flagHitcount != 0:
		f.typ, f.size = "u64", 8
	case common && f.event.IsStack():
		f.typ, f.size = dynevent.StackType, dynevent.StackSize
		f.flags |= flagStacktrace
	case f.event.IsText():
		f.typ, f.size = f.event.Type, tracingmap.TextSize
		f.flags |= flagString
		if f.event.Kind == field.CharArray {
			f.size = f.event.Size
		}
	default:
		f.typ, f.size, f.signed = f.event.Type, f.event.Size, f.event.Signed
		if s := f.size; f.event.Kind == field.Array || s != 1 && s != 2 && s != 4 && s != 8 {
			return nil, p.quiet(syscall.ENOMEM)
		}
	}
	if f.flags&(flagLog2|flagBucket) != 0 && f.flags&flagHitcount == 0 {
		inner := *f
		inner.flags &^= flagLog2 | flagBucket | flagVar
		f.operands[0] = &inner
		f.flags &^= flagString | flagStacktrace
	}
	return f, nil
}

// Hit is the state of one hit of a histogram, scratch memory of the trap side. Each
// vCPU has one for each entry that may be under construction.
type Hit struct {
	*filter.Subject
	data   *histogram
	hists  *Hists
	args   []*histField // of the action that runs
	key    [maxKeySize + 8]byte
	values [maxVals + 2*maxVars]uint64 // of the fields; unused for strings
	refs   [maxVars]uint64
	texts  [maxVars][tracingmap.TextSize]byte // of references to strings
}

// value is hist_field.fn: it returns the value of a number.
func (h *Hit) value(f *histField) uint64 {
	switch {
	case f.flags&flagHitcount != 0:
		return 1
	case f.flags&flagConst != 0:
		return f.constant
	case f.flags&(flagVarRef|flagAlias) != 0:
		return h.refs[f.refIdx]
	case f.flags&flagStacktrace != 0:
		return 0 // on Linux this is an address
	case f.op == '_':
		return -h.value(f.operands[0])
	case f.op != 0:
		return f.calculate(h.value(f.operands[0]), h.value(f.operands[1]))
	case f.flags&flagLog2 != 0:
		return uint64(log2Ceil(h.value(f.operands[0])))
	case f.flags&flagBucket != 0:
		v := h.value(f.operands[0])
		return v - v%f.buckets
	case f.flags&flagTimestamp != 0:
		if h.data.usecs && h.Nanoseconds {
			return uint64(h.Time) / 1000
		}
		return uint64(h.Time)
	case f.flags&flagCPU != 0:
		return uint64(h.CPU)
	case f.flags&flagString != 0:
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
func (h *Hit) text(f *histField) []byte {
	switch {
	case f.flags&(flagVarRef|flagAlias) != 0:
		return field.CutNUL(h.texts[f.refIdx][:])
	}
	return f.event.Text(h.Entry)
}

// stack returns the stack trace of the hit, without the two functions that record it.
func (h *Hit) stack() []uint64 {
	return h.data.file.Stack(h.Trap)
}

// putStack writes the stack of a field into room, its length first, and returns how
// many bytes that takes. A variable always gets the stack of the hit, even if a field
// is assigned to it. A key of a field gets the stack in the field; a field that is not
// a stack has none (the kernel uses its value as a location then).
func (h *Hit) putStack(room []byte, f *histField) int {
	var stack []byte
	switch {
	case f.flags&(flagVarRef|flagAlias) != 0:
		stack = h.texts[f.refIdx][:]
	case f.isCommonStack() || f.flags&flagKey == 0:
		ips := h.stack()
		n := min(len(ips), stackDepth)
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
		n = int(min(binary.LittleEndian.Uint64(stack), uint64(len(stack)/8-1), stackDepth))
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
	return f.flags&flagStacktrace != 0
}

// Hit is event_hist_trigger: it counts a hit that passes the filter. It runs in handler
// context.
func (t *Trigger) Hit(s *filter.Subject) {
	if t.paused.Load() || !t.filter.Passes(s) {
		return
	}
	d := t.hist
	h := t.hists.conf.Scratch(s.Trap)
	h.Subject, h.data, h.hists = s, d, t.hists
	clear(h.key[:])
	for _, f := range d.fields[d.nVals:] {
		h.putKey(f)
	}
	if !h.resolve(false) {
		return
	}
	for i, f := range d.fields[:d.nVals] {
		if f.flags&flagVar == 0 || f.flags&flagString == 0 {
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
func (h *Hit) putKey(f *histField) {
	at := h.key[f.offset : f.offset+f.size]
	switch {
	case f.flags&flagStacktrace != 0:
		var stack [8 + dynevent.StackSize]byte
		n := h.putStack(stack[:], f)
		copy(at, stack[8:n])
	case f.flags&flagString != 0:
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
func (h *Hit) resolve(self bool) bool {
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
			if r.flags&flagString != 0 || r.holdsStack() {
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
func (h *Hit) update(e *tracingmap.Elt, isNew bool) {
	d := h.data
	if isNew && h.Comm != nil {
		e.Comm = *h.Comm
	}
	for i, f := range d.fields[:d.nVals] {
		if f.flags&flagVar == 0 {
			e.Sums[i] += h.values[i]
			continue
		}
		h.setVar(e, f, f, h.values[i])
	}
	for _, v := range d.fieldVars {
		h.setVar(e, v.field, v.value, h.valueOrZero(v.value))
	}
}

func (h *Hit) valueOrZero(f *histField) uint64 {
	if f.flags&flagString != 0 {
		return 0
	}
	return h.value(f)
}

// setVar sets a variable of an element to the value of a field.
func (h *Hit) setVar(e *tracingmap.Elt, v, from *histField, value uint64) {
	if from.flags&flagString != 0 {
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

package tracing

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/tracingmap"
)

// Limits of a histogram.
const (
	histValsMax   = 3 // TRACING_MAP_VALS_MAX, including hitcount
	histKeysMax   = 3
	histVarsMax   = 16
	histSortMax   = 2
	histBits      = 11 // TRACING_MAP_BITS_DEFAULT: 2048 elements
	histBitsMin   = 7
	histBitsMax   = 17
	histDepth     = 16            // HIST_STACKTRACE_DEPTH
	histStackSize = histDepth * 8 // bytes
	histKeySize   = tracingmap.TextSize + histStackSize
	histDivShift  = 20 // HIST_DIV_SHIFT
	histOpsMax    = 3  // operators of an expression
)

// histStackType is the type of a stack trace; histCommonStack is the field name of a
// hit's own.
const (
	histStackType   = "unsigned long[]"
	histCommonStack = "common_stacktrace"
)

// The error_log texts for hist triggers that are refused.
const (
	histErrDuplicateVar   = "Variable already defined"
	histErrVarNotUnique   = "Variable name not unique, need to use fully qualified name (subsys.event.var) for variable"
	histErrTooManyVars    = "Too many variables defined"
	histErrMalformed      = "Malformed assignment"
	histErrNamedMismatch  = "Named hist trigger doesn't match existing named trigger (includes variables)"
	histErrExists         = "Hist trigger already exists"
	histErrNotThere       = "Can't clear or continue a nonexistent hist trigger"
	histErrNoHitcount     = "Non-hitcount value is required for 'nohitcount'"
	histErrClock          = "Couldn't set trace_clock"
	histErrModifier       = "Invalid field modifier"
	histErrTooManyOps     = "Too many subexpressions (3 max)"
	histErrTimestamps     = "Timestamp units in expression don't match"
	histErrRefKey         = "Using variable references in keys not supported"
	histErrVarNotFound    = "Couldn't find variable"
	histErrFieldNotFound  = "Couldn't find field"
	histErrEmpty          = "Empty assignment"
	histErrSortModifier   = "Invalid sort modifier"
	histErrEmptySort      = "Empty sort field"
	histErrTooManySort    = "Too many sort fields (Max = 2)"
	histErrSortField      = "Sort field must be a key or a val"
	histErrStringOperand  = "String type can not be an operand in expression"
	histErrExpectNumber   = "Expecting numeric literal"
	histErrUnaryMinus     = "Unary minus not supported in sub-expressions"
	histErrDivisionByZero = "Division by zero"
)

// histFlags is hist_field_flags.
type histFlags uint32

const (
	histHitcount histFlags = 1 << iota
	histKey
	histString
	histHex
	histSym
	histSymOffset
	histExecname
	histSyscall
	histStacktrace
	histLog2
	histTimestamp
	histUsecs
	histVar
	histExpr
	histVarRef
	histCPU
	histAlias
	histBucket
	histConst
	histPercent
	histGraph
)

// histModifiers are listed in the order in which a field shows them.
var histModifiers = [...]struct {
	flag histFlags
	name string
}{
	{histHex, "hex"},
	{histSym, "sym"},
	{histSymOffset, "sym-offset"},
	{histExecname, "execname"},
	{histSyscall, "syscall"},
	{histLog2, "log2"},
	{histBucket, "buckets"},
	{histUsecs, "usecs"},
	{histStacktrace, "stacktrace"},
	{histPercent, "percent"},
	{histGraph, "graph"},
}

// histField is hist_field: a key, a value, a variable, or an operand of an expression.
type histField struct {
	flags  histFlags
	event  *field.Member // nil if it is not a member of the entry
	cpu    string        // the alias that was written for common_cpu
	name   string        // of an expression or a reference
	typ    string
	size   int
	signed bool
	offset int // of a key: its offset in the element's key

	varName string // the variable that is assigned; only with histVar
	varIdx  int
	textIdx int // of a string variable: the index of its text in the element

	op       byte // + - * / or '_': unary minus
	operands [2]*histField
	constant uint64
	mult     uint64 // division by a constant is a multiplication by this; 0 if it is a real division
	buckets  uint64

	ref           *histData // of a reference: the histogram that sets the variable
	refVar        *histField
	refIdx        int // index in histData.refs
	once          bool
	system, group string // qualifiers of the name
}

// histSortKey is a sort key.
type histSortKey struct {
	idx        int // index in fields without the variables
	descending bool
}

// histData is hist_trigger_data: a hist trigger and its table, unless it shares the
// table of another trigger of its name.
type histData struct {
	file    *EventFile
	attrs   histAttrs
	fields  []*histField // hitcount, values, variables, keys
	nVals   int          // number of fields before the keys
	nVars   int
	nTexts  int
	keySize int
	sort    []histSortKey
	refs    []*histField
	actions []*histAction

	fieldVars []fieldVar // set at each hit, for actions
	saveVars  []fieldVar // set by save()
	timed     bool       // it uses time stamps
	usecs     bool
	remove    bool

	bytes      int        // size of the table
	snapshots  *Array     // the array whose snapshots its action takes, or nil
	fieldHists []*trigger // created on other events for onmatch's parameters

	table  *tracingmap.Map
	shared int // number of triggers that use it; guarded by Tracer.mu
}

// stamps returns how many users of time stamps the histogram counts as: 0 or 1.
func (d *histData) stamps() int32 {
	if d.timed {
		return 1
	}
	return 0
}

// histAttrs is hist_trigger_attrs: the parts of the command.
type histAttrs struct {
	keys, vals, sort, name, clock string
	hasVals, hasSort              bool
	assignments                   []string
	actions                       []string
	bits                          int
	pause, cont, clear            bool
	noHitcount                    bool // the table does not show hitcount
	vars                          []histAssignment
}

// histAssignment is VAR=EXPRESSION.
type histAssignment struct{ name, expr string }

// histParser parses one command.
type histParser struct {
	file    *EventFile
	command string // the command as error_log shows it
	fields  map[string]*field.Member
	data    *histData
	// reportTo is the file whose error_log is written: that of the command, even while
	// a trigger is created on another event.
	reportTo *EventFile
}

// fail adds an entry to error_log with the caret at the first occurrence of at in the
// command, and returns EINVAL.
func (p *histParser) fail(text, at string) error { return p.failWith(syscall.EINVAL, text, at) }

func (p *histParser) failWith(errno syscall.Errno, text, at string) error {
	e := p.reportTo
	e.array.logError("hist:"+e.Group+":"+e.Name, text, p.command, max(strings.Index(p.command, at), 0))
	return fmt.Errorf("%s: %s (%q): %w", p.command, text, at, errno)
}

// quiet returns an error that error_log does not report.
func (p *histParser) quiet(errno syscall.Errno) error { return fmt.Errorf("%s: %w", p.command, errno) }

// parseHistTrigger is event_hist_trigger_parse:
//
//	keys=FIELDS[:vals=FIELDS][:sort=FIELDS][:size=N][:VAR=EXPR]...[:pause|cont|clear][:name=NAME][:clock=CLOCK][:HANDLER.ACTION]... [if FILTER]
func parseHistTrigger(f *EventFile, c *triggerCommand, args string, remove bool) error {
	p := &histParser{file: f, fields: f.entryMembers(), command: "hist:" + args, reportTo: f}
	return p.run(c, args, remove)
}

func (p *histParser) run(c *triggerCommand, args string, remove bool) error {
	f := p.file
	if args == "" {
		return errTrigger(args)
	}
	text, filter, err := splitHistFilter(args)
	if err != nil {
		return err
	}
	d := &histData{file: f, remove: remove}
	p.data = d
	if err := p.parseAttrs(text); err != nil {
		return err
	}
	if err := p.parse(); err != nil {
		return err
	}
	t := &trigger{command: c, file: f, hist: d}
	t.count.Store(unlimited)
	if filter != "" {
		if err := t.parseFilter("if " + filter); err != nil {
			return err
		}
	}
	if remove {
		return p.remove(t)
	}
	if p.update(t) {
		return nil
	}
	return p.add(t)
}

// splitHistFilter splits off the filter: the text after the first "if" between blanks.
func splitHistFilter(args string) (text, filter string, err error) {
	for i := 0; ; {
		n := strings.Index(args[i:], "if")
		if n < 0 {
			return args, "", nil
		}
		at := i + n
		switch {
		case at == 0:
			return "", "", errTrigger(args)
		case args[at-1] != ' ' && args[at-1] != '\t':
			i = at + 1
		case at+2 >= len(args)-1:
			return "", "", errTrigger(args)
		case args[at+2] != ' ' && args[at+2] != '\t':
			i = at + 1
		default:
			return kstrtox.Strip(args[:at-1]), args[at+3:], nil
		}
	}
}

// parseAttrs is parse_hist_trigger_attrs.
func (p *histParser) parseAttrs(text string) error {
	a := &p.data.attrs
	a.bits, a.clock = histBits, "global"
	for _, part := range strings.Split(text, ":") {
		name, rhs, assigns := strings.Cut(part, "=")
		switch {
		case assigns && rhs == "":
			return p.fail(histErrEmpty, part)
		case assigns:
			if err := p.assign(name, rhs, part); err != nil {
				return err
			}
		case part == "pause":
			a.pause = true
		case part == "cont" || part == "continue":
			a.cont = true
		case part == "clear":
			a.clear = true
		case (part == "nohitcount" || part == "NOHC") && p.file.tracer.conf.has[release.NoHitcount]:
			a.noHitcount = true
		case strings.HasPrefix(part, "onmatch(") || strings.HasPrefix(part, "onmax(") || strings.HasPrefix(part, "onchange("):
			if len(a.actions) == histActionsMax {
				return p.quiet(syscall.EINVAL)
			}
			a.actions = append(a.actions, part)
		default:
			return p.quiet(syscall.EINVAL)
		}
	}
	if a.keys == "" {
		return p.quiet(syscall.EINVAL)
	}
	return nil
}

// assign is parse_assignment.
func (p *histParser) assign(name, rhs, part string) error {
	a := &p.data.attrs
	switch name {
	case "key", "keys":
		a.keys = rhs
	case "val", "vals", "values":
		a.vals, a.hasVals = rhs, true
	case "sort":
		a.sort, a.hasSort = rhs, true
	case "name":
		a.name = rhs
	case "clock":
		a.clock = kstrtox.Strip(rhs)
	case "size":
		n, err := kstrtox.ParseUint(rhs, 0, math.MaxUint64)
		if err != nil {
			return p.quiet(syscall.EINVAL)
		}
		a.bits = bits.Len64(n - 1)
		if n == 0 || a.bits < histBitsMin || a.bits > histBitsMax {
			return p.quiet(syscall.EINVAL)
		}
	default:
		if len(a.assignments) == histVarsMax {
			return p.fail(histErrTooManyVars, part)
		}
		a.assignments = append(a.assignments, part)
	}
	return nil
}

// parse is create_hist_data.
func (p *histParser) parse() error {
	for _, step := range [...]func() error{p.parseActions, p.parseVars, p.addVals, p.addVars, p.addKeys, p.addSort} {
		if err := step(); err != nil {
			return err
		}
	}
	if d := p.data; d.attrs.noHitcount && d.nVals-d.nVars == 1 {
		return p.failWith(syscall.ENOENT, histErrNoHitcount, "")
	}
	p.data.attrs.vars = nil // actions do not see them
	return nil
}

// parseVars is parse_var_defs.
func (p *histParser) parseVars() error {
	a := &p.data.attrs
	for _, text := range a.assignments {
		for _, part := range strings.Split(text, ",") {
			name, expr, found := strings.Cut(part, "=")
			switch {
			case !found:
				return p.fail(histErrMalformed, name)
			case len(a.vars) == histVarsMax:
				return p.fail(histErrTooManyVars, name)
			}
			a.vars = append(a.vars, histAssignment{name, expr})
		}
	}
	return nil
}

// addVals is create_val_fields: hitcount always comes first.
func (p *histParser) addVals() error {
	d := p.data
	d.fields = []*histField{{flags: histHitcount, typ: "u64", size: 8}}
	d.nVals = 1
	if !d.attrs.hasVals {
		return nil
	}
	words := strings.Split(d.attrs.vals, ",")
	for i, word := range words {
		if i == histValsMax || d.nVals == histValsMax {
			if rest := strings.Join(words[i:], ","); rest != "hitcount" {
				return p.quiet(syscall.EINVAL)
			}
			return nil
		}
		if word == "hitcount" {
			continue
		}
		if err := p.addVal("", word, 0); err != nil {
			return err
		}
	}
	return nil
}

// notInVals returns the modifiers that neither a value nor a variable may have.
func (t *Tracer) notInVals(flags histFlags) histFlags {
	if flags&histVar != 0 {
		return histPercent | histGraph | histBucket | histLog2
	}
	if t.conf.has[release.PlainVals] {
		return histPercent | histGraph | histBucket | histLog2 | histSym | histSymOffset | histSyscall | histStacktrace
	}
	return histBucket | histLog2 | histSym | histSymOffset | histSyscall | histStacktrace
}

// addVal is __create_val_field.
func (p *histParser) addVal(varName, word string, flags histFlags) error {
	d := p.data
	f, err := p.parseExpr(word, flags, varName, new(int))
	if err != nil {
		return err
	}
	if f.flags&p.file.tracer.notInVals(f.flags) != 0 {
		return p.fail(histErrModifier, word)
	}
	d.fields = append(d.fields, f)
	d.nVals++
	return nil
}

// addVars is create_var_fields.
func (p *histParser) addVars() error {
	d := p.data
	for i, v := range d.attrs.vars {
		if !d.remove && (d.findVar(v.name) != nil || d.file.findVar(v.name) != nil) {
			return p.fail(histErrDuplicateVar, v.name)
		}
		d.nVars++
		if err := p.addVal(v.name, v.expr, histVar); err != nil {
			return err
		}
		f := d.fields[len(d.fields)-1]
		d.giveText(f)
		d.attrs.vars[i].expr = leftmost(v.expr)
	}
	return nil
}

// giveText assigns one of the element's texts to a variable that holds a string or a
// stack.
func (d *histData) giveText(v *histField) {
	if v.flags&histString != 0 || v.holdsStack() {
		v.textIdx = d.nTexts
		d.nTexts++
	}
}

// leftmost returns what the kernel's parser leaves of an expression: it replaces each
// operator by a NUL, so that a later "$VAR" refers to the first operand.
func leftmost(expr string) string {
	for {
		op, at := rootOperator(expr)
		if op == 0 || op == '_' {
			return expr
		}
		expr = expr[:at]
	}
}

// addKeys is create_key_fields.
func (p *histParser) addKeys() error {
	d := p.data
	for i, word := range strings.Split(d.attrs.keys, ",") {
		if i == histKeysMax {
			return p.quiet(syscall.EINVAL)
		}
		f := &histField{flags: histKey | histStacktrace, size: histStackSize}
		if p.file.tracer.conf.has[release.CommonStacktrace] {
			f.name = histCommonStack
		}
		if word != "stacktrace" && (word != histCommonStack || !p.file.tracer.conf.has[release.CommonStacktrace]) {
			var err error
			if f, err = p.parseExpr(word, histKey, "", new(int)); err != nil {
				return err
			}
			if f.hasRefs(0) {
				return p.fail(histErrRefKey, word)
			}
		}
		f.size = (f.size + 7) &^ 7
		f.offset = d.keySize
		d.keySize += f.size
		d.fields = append(d.fields, f)
		if d.keySize > histKeySize {
			return p.quiet(syscall.EINVAL)
		}
	}
	return nil
}

// hasRefs is field_has_hist_vars.
func (f *histField) hasRefs(level int) bool {
	if f == nil || level > 3 {
		return false
	}
	return f.flags&(histVar|histVarRef) != 0 || f.operands[0].hasRefs(level+1) || f.operands[1].hasRefs(level+1)
}

// addSort is create_sort_keys.
func (p *histParser) addSort() error {
	d := p.data
	d.sort = []histSortKey{{}}
	if !d.attrs.hasSort {
		return nil
	}
	d.sort = nil
	words := strings.Split(d.attrs.sort, ",")
	for i, word := range words {
		name, order, ordered := strings.Cut(word, ".")
		switch {
		case word != "" && i == histSortMax-1 && len(words) > histSortMax:
			return p.fail(histErrTooManySort, "sort=")
		case name == "":
			return p.fail(histErrEmptySort, "sort=")
		}
		idx := d.sortIndex(name)
		if idx < 0 {
			return p.fail(histErrSortField, name)
		}
		if ordered && order != "ascending" && order != "descending" {
			return p.fail(histErrSortModifier, order)
		}
		d.sort = append(d.sort, histSortKey{idx, order == "descending"})
	}
	return nil
}

// sortIndex returns the index of a key or value by its name, or -1.
func (d *histData) sortIndex(name string) int {
	if name == "hitcount" {
		return 0
	}
	idx := 0
	for _, f := range d.fields[1:] {
		if f.flags&histVar != 0 {
			continue
		}
		idx++
		if f.fieldName(0) == name {
			return idx
		}
	}
	return -1
}

// sorted returns the field of a sort key.
func (d *histData) sorted(k histSortKey) *histField {
	idx := 0
	for _, f := range d.fields {
		if f.flags&histVar != 0 {
			continue
		}
		if idx == k.idx {
			return f
		}
		idx++
	}
	return d.fields[0]
}

// findVar returns the variable of that name that the trigger sets.
func (d *histData) findVar(name string) *histField {
	for _, f := range d.fields {
		if f.flags&histVar != 0 && f.varName == name {
			return f
		}
	}
	return nil
}

// findVar is find_file_var: it returns the variable of that name that one of the file's
// triggers sets.
func (f *EventFile) findVar(name string) *histField {
	for _, t := range f.triggerList() {
		if t.hist != nil {
			if v := t.hist.findVar(name); v != nil {
				return v
			}
		}
	}
	return nil
}

// remove removes the trigger that matches t. It fails with EBUSY if another trigger
// refers to one of its variables.
func (p *histParser) remove(t *trigger) error {
	fits := func(x *trigger) bool { return x.hist != nil && x.likeHist(t, t.namedHist(), false) }
	list := p.file.triggerList()
	i := slices.IndexFunc(list, fits)
	if i < 0 {
		return nil
	}
	if list[i].hist.referred() {
		return p.quiet(syscall.EBUSY)
	}
	found := list[i]
	p.file.removeTrigger(func(x *trigger) bool { return x == found })
	return nil
}

// referred is check_var_refs: whether a trigger of this array refers to one of the
// variables.
func (d *histData) referred() bool {
	for _, f := range d.file.array.files {
		for _, t := range f.triggerList() {
			if t.hist == nil || t.hist == d {
				continue
			}
			for _, r := range t.hist.refs {
				if r.ref == d {
					return true
				}
			}
		}
	}
	return false
}

// ClearTriggers removes the hist triggers, as an open of the file trigger with O_TRUNC
// does, unless another trigger refers to one of them. Other triggers stay.
func (f *EventFile) ClearTriggers() {
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	isHist := func(t *trigger) bool { return t.hist != nil }
	for _, t := range f.triggerList() {
		if t.hist != nil && t.hist.referred() {
			return
		}
	}
	for slices.ContainsFunc(f.triggerList(), isHist) {
		f.removeTrigger(isHist)
	}
}

// update is existing_hist_update_only: pause, cont and clear act on the existing
// trigger that matches t.
func (p *histParser) update(t *trigger) bool {
	a := &p.data.attrs
	named := t.namedHist()
	if a.name != "" && named == nil {
		return false
	}
	for _, old := range p.file.triggerList() {
		if old.hist == nil || !old.likeHist(t, named, false) {
			continue
		}
		switch {
		case a.pause:
			old.paused.Store(true)
		case a.cont:
			old.paused.Store(false)
		case a.clear:
			old.hist.table.Clear()
		default:
			continue
		}
		return true
	}
	return false
}

// add is hist_register_trigger and the steps after it.
func (p *histParser) add(t *trigger) error {
	d, f := p.data, p.file
	a := &d.attrs
	named := t.namedHist()
	if named != nil && !named.likeHist(t, named, true) {
		return p.fail(histErrNamedMismatch, "name="+a.name)
	}
	for _, old := range f.triggerList() {
		if (a.name == "" || named != nil) && old.hist != nil && old.likeHist(t, named, false) {
			return p.failWith(syscall.EEXIST, histErrExists, "")
		}
	}
	if a.cont || a.clear {
		return p.failWith(syscall.ENOENT, histErrNotThere, "")
	}
	if d.timed {
		if err := f.array.setClock(a.clock); err != nil {
			return p.fail(histErrClock, a.clock)
		}
	}
	t.name = a.name
	t.paused.Store(a.pause)
	if named != nil {
		t.hist = named.hist
		return f.addTrigger(t)
	}
	if err := p.createActions(); err != nil {
		d.dropActions()
		return err
	}
	if err := d.makeTable(); err != nil {
		d.dropActions()
		return err
	}
	return f.addTrigger(t)
}

// makeTable is tracing_map_init: it allocates the whole table, so that hits need no
// memory. It fails with ENOMEM if all tables together would be too large.
func (d *histData) makeTable() error {
	vars := 0
	number := func(f *histField) {
		f.varIdx = vars
		vars++
	}
	for _, f := range d.fields[:d.nVals] {
		if f.flags&histVar != 0 {
			number(f)
		}
	}
	for _, v := range d.fieldVars {
		number(v.field)
	}
	for _, v := range d.saveVars {
		number(v.field)
	}
	for _, x := range d.actions {
		if x.track != nil {
			number(x.track)
		}
	}
	size := tracingmap.Bytes(d.attrs.bits, d.keySize, d.nVals, vars, d.nTexts)
	if have := d.file.tracer.histBytes(); size > maxHistBytes-have {
		return fmt.Errorf("a table of %d bytes beside %d: %w", size, have, syscall.ENOMEM)
	}
	if err := d.file.tracer.checkRoom(size); err != nil {
		return err
	}
	d.table = tracingmap.New(d.attrs.bits, d.keySize, d.nVals, vars, d.nTexts)
	d.bytes = size
	return nil
}

// maxHistBytes is the limit for the tables of all histograms.
const maxHistBytes = 512 << 20

// histBytes returns the size of the tables of all histograms. The caller holds mu.
func (t *Tracer) histBytes() (sum int) {
	seen := map[*histData]bool{}
	for _, a := range t.arrays {
		for _, f := range a.files {
			for _, x := range f.triggerList() {
				if x.hist != nil && !seen[x.hist] {
					seen[x.hist] = true
					sum += x.hist.bytes
				}
			}
		}
	}
	return sum
}

// namedHist is find_named_trigger: it returns the first trigger of all events that has
// the name.
func (t *trigger) namedHist() *trigger {
	name := t.hist.attrs.name
	if name == "" {
		return nil
	}
	for _, a := range t.file.tracer.arrays {
		for _, f := range a.newestFirst() {
			for _, x := range f.triggerList() {
				if x.hist != nil && x.name == name {
					return x
				}
			}
		}
	}
	return nil
}

// likeHist is hist_trigger_match: whether the existing trigger t matches the new one x.
// named is the trigger whose table x shares.
func (t *trigger) likeHist(x *trigger, named *trigger, anyFilter bool) bool {
	a, b := t.hist, x.hist
	switch {
	case named != nil && t != named && a != named.hist, named == nil && t.name != "":
		return false
	case a.nVals != b.nVals || len(a.fields) != len(b.fields) || !slices.Equal(a.sort, b.sort):
		return false
	case !anyFilter && t.filterText() != x.filterText():
		return false
	}
	for i, f := range a.fields {
		g := b.fields[i]
		if f.flags != g.flags || !sameMember(f, g) || f.offset != g.offset || f.size != g.size || f.signed != g.signed || f.varName != g.varName {
			return false
		}
	}
	return slices.EqualFunc(a.actions, b.actions, (*histAction).same)
}

// sameMember is compatible_field: whether members of the entries of two events have the
// same type. Their offsets do not matter: a named histogram reads all entries at the
// offsets of its first event.
func sameMember(f, g *histField) bool {
	a, b := f.event, g.event
	if a == nil || b == nil {
		return a == b && f.cpu == g.cpu
	}
	return a == b || a.Name == b.Name && a.Type == b.Type && a.Size == b.Size && a.Signed == b.Signed
}

func (t *trigger) filterText() string {
	if t.filter == nil {
		return ""
	}
	return t.filter.Text
}

// histText is event_hist_trigger_print.
func (t *trigger) histText() string {
	d, common := t.hist, t.file.tracer.conf.has[release.CommonStacktrace]
	var b strings.Builder
	b.WriteString("hist:")
	if t.name != "" {
		b.WriteString("name=" + t.name + ":")
	}
	list := func(prefix string, fields []*histField, show func(*histField, bool) string) {
		for i, f := range fields {
			b.WriteString([]string{prefix, ","}[min(i, 1)])
			b.WriteString(show(f, common))
		}
	}
	list("keys=", d.fields[d.nVals:], (*histField).showKey)
	vals := []string{"hitcount"}
	if d.attrs.noHitcount {
		vals = nil
	}
	var vars []*histField
	for _, f := range d.fields[1:d.nVals] {
		if f.flags&histVar != 0 {
			vars = append(vars, f)
		} else {
			vals = append(vals, f.show(common))
		}
	}
	b.WriteString(":vals=" + strings.Join(vals, ","))
	list(":", vars, (*histField).show)
	d.writeSort(&b, common)
	fmt.Fprintf(&b, ":size=%d", 1<<d.attrs.bits)
	if d.timed {
		b.WriteString(":clock=" + d.attrs.clock)
	}
	if d.attrs.noHitcount {
		b.WriteString(":nohitcount")
	}
	for _, x := range d.actions {
		b.WriteString(x.text())
	}
	if t.filter != nil {
		b.WriteString(" if " + t.filter.Text)
	}
	if t.paused.Load() {
		return b.String() + " [paused]\n"
	}
	return b.String() + " [active]\n"
}

// writeSort writes the sort keys of a histogram as its trigger shows them.
func (d *histData) writeSort(b *strings.Builder, common bool) {
	for i, k := range d.sort {
		b.WriteString([]string{":sort=", ","}[min(i, 1)])
		if k.idx == 0 {
			b.WriteString("hitcount")
		} else {
			b.WriteString(d.sorted(k).show(common))
		}
		if k.descending {
			b.WriteString(".descending")
		}
	}
}

// show is hist_field_print. common says that a stack trace shows as common_stacktrace.
func (f *histField) show(common bool) string {
	text := ""
	if f.flags&histVar != 0 {
		text = f.varName + "="
	}
	name := f.fieldName(0)
	switch {
	case f.flags&histCPU != 0 && f.flags&histStacktrace == 0:
		text += "common_cpu"
	case f.flags&histConst != 0:
		text += fmt.Sprint(f.constant)
	case f.flags&histStacktrace != 0 && !common:
		return text + "stacktrace"
	case f.flags&histStacktrace != 0:
		return text + name
	case f.flags&(histVarRef|histAlias) != 0:
		text += "$" + name
	default:
		text += name
	}
	if f.flags&(histVarRef|histExpr) == 0 {
		text += f.modifier()
	}
	return text
}

// showKey is show for a key, which includes the modifier of a member that is used as a
// stack.
func (f *histField) showKey(common bool) string {
	if f.flags&histStacktrace != 0 && !f.isCommonStack() {
		return f.fieldName(0) + f.modifier()
	}
	return f.show(common)
}

// modifier returns the modifier after the field's name.
func (f *histField) modifier() string {
	if f.flags&histStacktrace != 0 {
		return ".stacktrace" // hides the other modifiers
	}
	for _, m := range histModifiers {
		if f.flags&m.flag == 0 {
			continue
		}
		if m.flag == histBucket {
			return fmt.Sprintf(".%s=%d", m.name, f.buckets)
		}
		return "." + m.name
	}
	return ""
}

// fieldName is hist_field_name.
func (f *histField) fieldName(level int) string {
	switch {
	case level > 1:
		return ""
	case f.event != nil:
		return f.event.Name
	case f.cpu != "":
		return f.cpu
	case f.flags&histStacktrace != 0:
		return f.name
	case f.flags&histHitcount != 0 && f.flags&(histLog2|histBucket) != 0:
		return ""
	case f.flags&(histLog2|histAlias|histBucket) != 0 && f.operands[0] != nil:
		return f.operands[0].fieldName(level + 1)
	case f.flags&histCPU != 0:
		return "common_cpu"
	case f.flags&(histExpr|histVarRef) != 0 && f.system != "":
		return f.system + "." + f.group + "." + f.name
	case f.flags&(histExpr|histVarRef) != 0:
		return f.name
	case f.flags&histTimestamp != 0:
		return "common_timestamp"
	case f.flags&histHitcount != 0:
		return "hitcount"
	}
	return ""
}

// syscallNames are the system calls whose metadata on Linux has another name than the
// call itself.
var syscallNames = map[string]string{
	"stat": "newstat", "fstat": "newfstat", "lstat": "newlstat", "uname": "newuname", "newfstatat": "newfstatat", "umount2": "umount",
	"sendfile": "sendfile64",
}

// syscallName returns the text of .syscall for a number.
func (t *Tracer) syscallName(nr uint64) string {
	if nr >= uint64(len(t.conf.Syscalls)) || t.conf.Syscalls[nr] == "" {
		return "unknown_syscall"
	}
	name := t.conf.Syscalls[nr]
	if other, ok := syscallNames[name]; ok {
		name = other
	}
	return "sys_" + name
}

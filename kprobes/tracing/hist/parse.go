package hist

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// parser parses one command.
type parser struct {
	hists   *Hists
	file    File
	command string // the command as error_log shows it
	fields  map[string]*field.Member
	data    *histogram
	// reportTo is the file whose error_log is written: the command's, even while
	// a trigger is created on another event.
	reportTo File
}

// fail adds an entry to error_log with the caret at the first occurrence of at in the
// command, and returns EINVAL.
func (p *parser) fail(text, at string) error { return p.failWith(syscall.EINVAL, text, at) }

func (p *parser) failWith(errno syscall.Errno, text, at string) error {
	group, event := p.reportTo.Title()
	p.reportTo.Array().LogError("hist:"+group+":"+event, text, p.command, max(strings.Index(p.command, at), 0))
	return fmt.Errorf("%s: %s (%q): %w", p.command, text, at, errno)
}

// quiet returns an error that error_log does not report.
func (p *parser) quiet(errno syscall.Errno) error { return fmt.Errorf("%s: %w", p.command, errno) }

// Parse is event_hist_trigger_parse: it adds the trigger that the text after "hist:"
// describes to a file, removes it, or pauses, continues or clears it:
//
//	keys=FIELDS[:vals=FIELDS][:sort=FIELDS][:size=N][:VAR=EXPR]...[:pause|cont|clear][:name=NAME][:clock=CLOCK][:HANDLER.ACTION]... [if FILTER]
func (h *Hists) Parse(f File, args string, remove bool) error {
	p := &parser{hists: h, file: f, fields: f.Members(), command: "hist:" + args, reportTo: f}
	return p.run(args, remove)
}

func (p *parser) run(args string, remove bool) error {
	if args == "" {
		return errArgs(args)
	}
	text, filter, err := splitFilter(args)
	if err != nil {
		return err
	}
	d := &histogram{hists: p.hists, file: p.file, remove: remove}
	p.data = d
	if err := p.parseAttrs(text); err != nil {
		return err
	}
	if err := p.parse(); err != nil {
		return err
	}
	t := &Trigger{hists: p.hists, file: p.file, hist: d}
	if filter != "" {
		if t.filter, err = p.file.ParseFilter(filter); err != nil {
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

// errArgs returns EINVAL for an error that the kernel does not describe.
func errArgs(args string) error {
	return fmt.Errorf("trigger argument %q: %w", args, syscall.EINVAL)
}

// splitFilter splits off the filter: the text after the first "if" between blanks.
func splitFilter(args string) (text, filter string, err error) {
	for i := 0; ; {
		n := strings.Index(args[i:], "if")
		if n < 0 {
			return args, "", nil
		}
		at := i + n
		switch {
		case at == 0:
			return "", "", errArgs(args)
		case args[at-1] != ' ' && args[at-1] != '\t':
			i = at + 1
		case at+2 >= len(args)-1:
			return "", "", errArgs(args)
		case args[at+2] != ' ' && args[at+2] != '\t':
			i = at + 1
		default:
			return kstrtox.Strip(args[:at-1]), args[at+3:], nil
		}
	}
}

// parseAttrs is parse_hist_trigger_attrs.
func (p *parser) parseAttrs(text string) error {
	a := &p.data.attrs
	a.bits, a.clock = defaultBits, "global"
	for _, part := range strings.Split(text, ":") {
		name, rhs, assigns := strings.Cut(part, "=")
		switch {
		case assigns && rhs == "":
			return p.fail(errEmpty, part)
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
		case (part == "nohitcount" || part == "NOHC") && p.hists.conf.Has[release.NoHitcount]:
			a.noHitcount = true
		case strings.HasPrefix(part, "onmatch(") || strings.HasPrefix(part, "onmax(") || strings.HasPrefix(part, "onchange("):
			if len(a.actions) == maxActions {
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
func (p *parser) assign(name, rhs, part string) error {
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
		if n == 0 || a.bits < minBits || a.bits > maxBits {
			return p.quiet(syscall.EINVAL)
		}
	default:
		if len(a.assignments) == maxVars {
			return p.fail(errTooManyVars, part)
		}
		a.assignments = append(a.assignments, part)
	}
	return nil
}

// parse is create_hist_data.
func (p *parser) parse() error {
	for _, step := range [...]func() error{p.parseActions, p.parseVars, p.addVals, p.addVars, p.addKeys, p.addSort} {
		if err := step(); err != nil {
			return err
		}
	}
	if d := p.data; d.attrs.noHitcount && d.nVals-d.nVars == 1 {
		return p.failWith(syscall.ENOENT, errNoHitcount, "")
	}
	p.data.attrs.vars = nil // actions do not see them
	return nil
}

// parseVars is parse_var_defs.
func (p *parser) parseVars() error {
	a := &p.data.attrs
	for _, text := range a.assignments {
		for _, part := range strings.Split(text, ",") {
			name, expr, found := strings.Cut(part, "=")
			switch {
			case !found:
				return p.fail(errMalformed, name)
			case len(a.vars) == maxVars:
				return p.fail(errTooManyVars, name)
			}
			a.vars = append(a.vars, assignment{name, expr})
		}
	}
	return nil
}

// addVals is create_val_fields: hitcount always comes first.
func (p *parser) addVals() error {
	d := p.data
	d.fields = []*histField{{flags: flagHitcount, typ: "u64", size: 8}}
	d.nVals = 1
	if !d.attrs.hasVals {
		return nil
	}
	words := strings.Split(d.attrs.vals, ",")
	for i, word := range words {
		if i == maxVals || d.nVals == maxVals {
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
func (h *Hists) notInVals(flags flagSet) flagSet {
	if flags&flagVar != 0 {
		return flagPercent | flagGraph | flagBucket | flagLog2
	}
	if h.conf.Has[release.PlainVals] {
		return flagPercent | flagGraph | flagBucket | flagLog2 | flagSym | flagSymOffset | flagSyscall | flagStacktrace
	}
	return flagBucket | flagLog2 | flagSym | flagSymOffset | flagSyscall | flagStacktrace
}

// addVal is __create_val_field.
func (p *parser) addVal(varName, word string, flags flagSet) error {
	d := p.data
	f, err := p.parseExpr(word, flags, varName, new(int))
	if err != nil {
		return err
	}
	if f.flags&p.hists.notInVals(f.flags) != 0 {
		return p.fail(errModifier, word)
	}
	d.fields = append(d.fields, f)
	d.nVals++
	return nil
}

// addVars is create_var_fields.
func (p *parser) addVars() error {
	d := p.data
	for i, v := range d.attrs.vars {
		if !d.remove && (d.findVar(v.name) != nil || p.inFile(v.name)) {
			return p.fail(errDuplicateVar, v.name)
		}
		d.nVars++
		if err := p.addVal(v.name, v.expr, flagVar); err != nil {
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
func (d *histogram) giveText(v *histField) {
	if v.flags&flagString != 0 || v.holdsStack() {
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
func (p *parser) addKeys() error {
	d := p.data
	for i, word := range strings.Split(d.attrs.keys, ",") {
		if i == maxKeys {
			return p.quiet(syscall.EINVAL)
		}
		f := &histField{flags: flagKey | flagStacktrace, size: dynevent.StackSize}
		if p.hists.conf.Has[release.CommonStacktrace] {
			f.name = commonStack
		}
		if word != "stacktrace" && (word != commonStack || !p.hists.conf.Has[release.CommonStacktrace]) {
			var err error
			if f, err = p.parseExpr(word, flagKey, "", new(int)); err != nil {
				return err
			}
			if f.hasRefs(0) {
				return p.fail(errRefKey, word)
			}
		}
		f.size = (f.size + 7) &^ 7
		f.offset = d.keySize
		d.keySize += f.size
		d.fields = append(d.fields, f)
		if d.keySize > maxKeySize {
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
	return f.flags&(flagVar|flagVarRef) != 0 || f.operands[0].hasRefs(level+1) || f.operands[1].hasRefs(level+1)
}

// addSort is create_sort_keys.
func (p *parser) addSort() error {
	d := p.data
	d.sort = []sortKey{{}}
	if !d.attrs.hasSort {
		return nil
	}
	d.sort = nil
	words := strings.Split(d.attrs.sort, ",")
	for i, word := range words {
		name, order, ordered := strings.Cut(word, ".")
		switch {
		case word != "" && i == maxSort-1 && len(words) > maxSort:
			return p.fail(errTooManySort, "sort=")
		case name == "":
			return p.fail(errEmptySort, "sort=")
		}
		idx := d.sortIndex(name)
		if idx < 0 {
			return p.fail(errSortField, name)
		}
		if ordered && order != "ascending" && order != "descending" {
			return p.fail(errSortModifier, order)
		}
		d.sort = append(d.sort, sortKey{idx, order == "descending"})
	}
	return nil
}

// sortIndex returns the index of a key or value by its name, or -1.
func (d *histogram) sortIndex(name string) int {
	if name == "hitcount" {
		return 0
	}
	idx := 0
	for _, f := range d.fields[1:] {
		if f.flags&flagVar != 0 {
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
func (d *histogram) sorted(k sortKey) *histField {
	idx := 0
	for _, f := range d.fields {
		if f.flags&flagVar != 0 {
			continue
		}
		if idx == k.idx {
			return f
		}
		idx++
	}
	return d.fields[0]
}

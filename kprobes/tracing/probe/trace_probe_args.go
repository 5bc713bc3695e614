// Package probe is kernel/trace/trace_probe.c and trace_probe_tmpl.h: what definitions of
// kprobes, uprobes, fprobes and eprobes have in common. It parses the arguments
// ("NAME=FETCHARG:TYPE") into small programs, runs these at a hit to fill in an entry,
// and shows the values in a line.
//
// It knows the words of a definition, the release that judges them (Rules), registers,
// memory and symbols of a hit, and members of entries (package field). It does not know
// where a probe is or how it gets there, nor events, arrays and recording. Why words are
// refused it says by an Error, with the word and the column for error_log.
//
// trace_probe_args.go and trace_btf.go parse arguments, trace_probe_tmpl.go fetches and
// shows them, names.go has the names of events, and errors.go the reasons.
package probe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

const (
	maxTraceArgs = 128 // MAX_TRACE_ARGS: further arguments are ignored
	maxArgName   = 32  // MAX_ARG_NAME_LEN
	maxArgText   = 63  // MAX_ARGSTR_LEN
	maxArray     = 64  // MAX_ARRAY_LEN
	maxFetchOps  = 15  // FETCH_INSN_MAX without the final FETCH_OP_END
	maxStackNth  = abi.ThreadSize / 8
)

// Rules are how the kernel of a release parses definitions.
type Rules struct {
	linux release.Version
	has   *release.Set
	types func() *btf.Types // of the kernel's functions, or nil
}

// NewRules returns the rules of a release. has are its features, types the types of the
// kernel's functions, or nil if it has none.
func NewRules(linux release.Version, has *release.Set, types func() *btf.Types) *Rules {
	return &Rules{linux, has, types}
}

// Definition is what the arguments of a definition depend on, and what ParseArgs makes of
// them.
type Definition struct {
	Rules    *Rules
	Return   bool // it is a return probe
	NoSymbol bool // it is given by address
	Fentry   bool // it is at a function's first instruction, where $argN is available
	User     bool // it is a uprobe
	Fprobe   bool // it is an fprobe, which has no registers

	Fields map[string]*field.Member // of an eprobe: the fields of the event that it is attached to
	Proto  *btf.Func                // of the function at whose entry or exit the probe is
	Hidden uint64                   // number of arguments of the function before Proto's

	Args      []Arg
	ArgsSize  int     // size of the arguments in an entry, without strings
	EntryArgs []int   // the arguments of the function that a return probe saves
	first     *Reason // the entry of error_log that precedes one about an argument
}

// fetchType is struct fetch_type: how a fetched value is stored and printed.
type fetchType struct {
	name   string // in a definition
	decl   string // in a format file
	size   int    // bytes in the entry
	signed bool
	text   bool   // a __data_loc: the location of the string in the entry
	format string // in a format file
	hex    bool
	symbol bool
	char   bool
}

// fetchTypes is probe_fetch_types without the types that only uprobes have.
var fetchTypes = makeFetchTypes()

func makeFetchTypes() []fetchType {
	var types []fetchType
	for _, name := range []string{"string", "ustring", "symstr"} {
		types = append(types, fetchType{name: name, decl: "__data_loc char[]", size: 4, signed: true, text: true, format: `\"%s\"`})
	}
	for size := 1; size <= 8; size *= 2 {
		long := ""
		if size == 8 {
			long = "L"
		}
		bits := strconv.Itoa(size * 8)
		types = append(types,
			fetchType{name: "u" + bits, decl: "u" + bits, size: size, format: "%" + long + "u"},
			fetchType{name: "s" + bits, decl: "s" + bits, size: size, signed: true, format: "%" + long + "d"},
			fetchType{name: "x" + bits, decl: "u" + bits, size: size, hex: true, format: "0x%" + long + "x"})
	}
	types = append(types, fetchType{name: "char", decl: "u8", size: 1, char: true, format: "'%c'"})
	return append(types, fetchType{name: "symbol", decl: "u64", size: 8, symbol: true, format: "%pS"})
}

// findFetchType is find_fetch_type. A bitfield is stored as the unsigned number that
// contains it. It returns nil if there is no such type.
func findFetchType(name string) *fetchType {
	if strings.HasPrefix(name, "b") {
		_, bits, _ := strings.Cut(name, "/")
		n, err := kstrtox.ParseUint(bits, 0, 64)
		if err != nil {
			return nil
		}
		name = "u" + strconv.FormatUint(n, 10)
	}
	i := slices.IndexFunc(fetchTypes, func(t fetchType) bool { return t.name == name })
	if i < 0 {
		return nil
	}
	return &fetchTypes[i]
}

// Arg is struct probe_arg: an argument of a definition.
type Arg struct {
	name   string
	text   string // as it was written, without NAME=
	typ    *fetchType
	count  int  // number of elements of an array; 0 if it is not an array
	sized  bool // the file format shows the number of elements
	offset int  // offset behind the first argument in the entry
	column int  // column of FETCHARG in its word, for errors
	code   fetchCode
}

// size returns the size of the argument in the entry, without strings.
func (a *Arg) size() int { return a.typ.size * max(a.count, 1) }

// definition returns the argument as the listing shows it.
func (a *Arg) definition() string { return a.name + "=" + a.text }

// sameArg reports whether two probes of one event count as the same in this argument.
func sameArg(a, b *Arg) bool {
	return a.name == b.name && a.typ == b.typ && a.count == b.count
}

// reservedFields is reserved_field_names.
var reservedFields = []string{
	"common_type", "common_flags", "common_preempt_count", "common_pid", "common_tgid",
	"__probe_ip", "__probe_ret_ip", "__probe_func",
}

// parseArg is traceprobe_parse_probe_arg: "[NAME=]FETCHARG[:TYPE]". before are the
// preceding arguments of the definition.
func (d *Definition) parseArg(word string, before []Arg) (a Arg, _ *argError) {
	name, body, named := strings.Cut(word, "=")
	start := len(name) + 1
	switch {
	case !named:
		name, body, start = d.generateName(word, len(before)+1), word, 0
	case len(name) > maxArgName:
		return a, failArg(errArgNameTooLong, 0)
	case name == "":
		return a, failArg(errNoArgName, 0)
	}
	if !GoodName(name, false) {
		return a, failArg(errBadArgName, 0)
	}
	same := func(b Arg) bool { return b.name == name }
	if slices.Contains(reservedFields, name) || slices.ContainsFunc(before, same) {
		return a, failArg(errUsedArgName, 0)
	}
	a = Arg{name: name, text: body, sized: !d.Rules.has[release.UnsizedArrays]}
	return a, d.parseArgBody(&a, body, start)
}

// parseArgBody is traceprobe_parse_probe_arg_body: FETCHARG[:TYPE], at offset in its
// word.
func (d *Definition) parseArgBody(a *Arg, body string, offset int) *argError {
	switch {
	case len(body) > maxArgText:
		return failArg(errArgTooLong, offset)
	case body == "":
		return failArg(errNoArgBody, offset)
	}
	fetch, typ, typed := strings.Cut(body, ":")
	at := offset // offset of the type, for errors
	if typed {
		at += len(fetch) + 1
		base, array, isArray := strings.Cut(typ, "[")
		if isArray {
			if err := a.parseArray(array, at+len(base)+1); err != nil {
				return err
			}
		}
		typ = base
	}
	if err := a.findType(fetch, typ, typed, at, d); err != nil {
		return err
	}
	p := &fetchParser{d: d, code: &a.code, typed: typed}
	if err := p.parse(fetch, offset); err != nil {
		return err
	}
	typ, err := p.applyType(a, typ, offset)
	if err != nil {
		return err
	}
	if d.Rules.has[release.DerefColumn] {
		at += p.moved
		offset += p.moved
	}
	a.column = offset
	return p.finish(a, typ, offset, at)
}

// parseArray parses "N]" at offset.
func (a *Arg) parseArray(s string, offset int) *argError {
	n, rest, closed := strings.Cut(s, "]")
	switch {
	case !closed:
		return failArg(errArrayNoClose, offset+len(s))
	case rest != "":
		return failArg(errBadArraySuffix, offset+len(n)+1)
	}
	count, err := kstrtox.ParseUint(n, 0, math.MaxUint32)
	switch {
	case err != nil || count == 0:
		return failArg(errBadArrayNum, offset)
	case count > maxArray:
		return failArg(errArrayTooBig, offset)
	}
	a.count = int(count)
	return nil
}

func (a *Arg) findType(fetch, typ string, typed bool, at int, d *Definition) *argError {
	switch {
	case d.Fields == nil && (fetch == "$comm" || fetch == "$COMM") || strings.HasPrefix(fetch, `\"`):
		if (a.count != 0 || typed && typ != "string") && d.Rules.has[release.LogStringType] {
			return failArg(errStringType, at)
		}
		if a.count != 0 || typed && typ != "string" {
			return errQuietArg
		}
		typ = "string"
	case !typed:
		typ = "x64"
	}
	a.typ = findFetchType(typ)
	if a.typ == nil || a.typ.char && !d.Rules.has[release.CharType] || !d.Rules.has[release.Symstr] && typ == "symstr" || d.User && d.Rules.has[release.NoUprobeSymbols] && (a.typ.symbol || typ == "symstr") {
		return failArg(errBadType, at)
	}
	return nil
}

// fetchParser builds the program of one argument. slots counts the operations like the
// kernel, which limits them.
type fetchParser struct {
	d     *Definition
	code  *fetchCode
	slots int
	moved int // columns by which dereferences shift the carets (DerefColumn)
	typed bool

	last   *btf.Member // the type of the value, if it is known
	member bool        // last is a member of a structure
}

func (p *fetchParser) take(offset int) *argError {
	if p.slots == maxFetchOps {
		return failArg(errTooManyOps, offset)
	}
	p.slots++
	return nil
}

// source sets the source of the program's value.
func (p *fetchParser) source(op fetchOp, value uint64) *argError {
	p.code.source, p.code.value = op, value
	return p.take(0)
}

// deref adds a load at an offset from the value.
func (p *fetchParser) deref(user bool, by int64, offset int) *argError {
	if err := p.take(offset); err != nil {
		return err
	}
	p.code.derefs = append(p.code.derefs, deref{uint64(by), user})
	return nil
}

// parse is parse_probe_arg.
func (p *fetchParser) parse(arg string, offset int) *argError {
	kind := byte(0)
	if arg != "" {
		kind = arg[0]
	}
	switch kind {
	case '$':
		return p.parseVariable(arg[1:], offset)
	case '%':
		if p.d.Fields != nil || p.d.Fprobe {
			p.d.first = &errBadVar
			return failArg(errBadFetchArg, offset)
		}
		if i := slices.Index(registerNames[:], arg[1:]); i >= 0 {
			return p.source(fetchReg, uint64(i))
		}
		return failArg(errBadRegName, offset)
	case '@':
		return p.parseMemory(arg[1:], offset)
	case '+', '-':
		return p.parseDeref(arg, offset)
	case '\\':
		return p.parseImmediate(arg[1:], offset)
	}
	if p.d.Rules.types != nil && (kstrtox.IsAlpha(kind) || kind == '_') {
		return p.parseBTF(arg, offset)
	}
	return failArg(errBadFetchArg, offset)
}

// parseVariable is parse_probe_vars.
func (p *fetchParser) parseVariable(name string, offset int) *argError {
	if p.d.Fields != nil {
		if p.d.Rules.has[release.FieldBadVar] && !p.d.hasField(name) {
			return failArg(errBadVar, offset)
		}
		p.code.symbol = name // looked up after the whole argument is parsed
		return p.source(fetchField, 0)
	}
	stack, isStack := strings.CutPrefix(name, "stack")
	nth, isArg := strings.CutPrefix(name, "arg")
	switch {
	case strings.HasPrefix(name, "retval") && p.d.Rules.types != nil && p.d.returns():
		return p.parseBTF("$"+name, offset)
	case strings.HasPrefix(name, "retval") && p.d.Rules.types != nil, name == "retval" && !p.d.Return:
		return failArg(errRetvalOnProbe, offset)
	case name == "retval":
		return p.source(fetchRetval, 0)
	case name == "stack":
		return p.source(fetchStackPointer, 0)
	case isStack && kstrtox.DigitFirst(stack):
		n, err := kstrtox.ParseUint(stack, 10, math.MaxUint64)
		switch {
		case err != nil:
			return failArg(errBadVar, offset)
		case n > maxStackNth:
			return failArg(errBadStackNum, offset)
		}
		return p.source(fetchStack, n)
	case name == "comm" || name == "COMM":
		return p.source(fetchComm, 0)
	case isArg && (p.d.Fentry || p.d.Rules.types != nil):
		n, err := kstrtox.ParseUint(nth, 10, math.MaxUint64)
		switch {
		case err != nil:
			return failArg(errBadVar, offset)
		case n == 0 || n > maxStackNth:
			return failArg(errBadArgNum, offset)
		case !p.d.atFunction():
			return failArg(errNotAtEntry, offset)
		}
		return p.source(p.d.argSource(), n-1+p.d.Hidden)
	}
	return failArg(errBadVar, offset)
}

// parseMemory parses what follows an "@": an address or a symbol.
func (p *fetchParser) parseMemory(place string, offset int) *argError {
	switch {
	case kstrtox.DigitFirst(place):
		addr, err := kstrtox.ParseUint(place, 0, math.MaxUint64)
		if err != nil {
			return failArg(errBadMemAddr, offset).because(err)
		}
		if err := p.source(fetchImmediate, addr); err != nil {
			return err
		}
	case strings.HasPrefix(place, "+") && p.d.User:
		at, err := kstrtox.ParseUint(place[1:], 0, math.MaxUint64)
		if err != nil {
			return failArg(errBadFileOffs, offset)
		}
		if err := p.source(fetchImmediate, at); err != nil {
			return err
		}
	case strings.HasPrefix(place, "+"):
		return failArg(errFileOnKprobe, offset)
	case p.d.User:
		return failArg(errSymOnUprobe, offset)
	default:
		p.code.symbol, p.code.hasSymbol = place, true
		if err := p.source(fetchImmediate, 0); err != nil {
			return err
		}
		if err := p.take(offset); err != nil {
			return err
		}
	}
	return p.deref(false, 0, offset)
}

// parseDeref parses "+|-[u]OFFSET(FETCHARG)". As in the kernel, columns inside the
// parentheses are one too low after a "u".
func (p *fetchParser) parseDeref(arg string, offset int) *argError {
	user := strings.HasPrefix(arg[1:], "u")
	if user {
		arg = arg[:1] + arg[2:]
	}
	arg = strings.TrimPrefix(arg, "+")
	number, inner, open := strings.Cut(arg, "(")
	if !open {
		return failArg(errDerefNeedBrace, offset)
	}
	by, err := kstrtox.ParseInt(number, 0)
	if err != nil {
		return failArg(errBadDerefOffs, offset).because(err)
	}
	width := len(number) + 1
	if number[0] != '-' {
		width++
	}
	offset += width
	end := strings.LastIndexByte(inner, ')')
	if end < 0 {
		return failArg(errDerefOpenBrace, offset+len(inner))
	}
	if err := p.parse(inner[:end], offset); err != nil {
		return err
	}
	if p.code.source == fetchComm || p.code.source == fetchData {
		return failArg(errCommCantDeref, offset)
	}
	p.moved, p.last = width, nil // the shift of inner dereferences does not count
	return p.deref(user, by, offset)
}

// parseImmediate parses what follows a backslash: a number or a string.
func (p *fetchParser) parseImmediate(s string, offset int) *argError {
	if text, ok := strings.CutPrefix(s, `"`); ok {
		if !strings.HasSuffix(text, `"`) && !(text == "" && !p.d.Rules.has[release.ClosedStrings]) {
			return failArg(errImmStrNoClose, offset+2+len(text))
		}
		p.code.data = append([]byte(strings.TrimSuffix(text, `"`)), 0)
		return p.source(fetchData, 0)
	}
	var v uint64
	var n int64
	err := fmt.Errorf("%q is no number: %w", s, syscall.EINVAL)
	switch {
	case kstrtox.DigitFirst(s):
		v, err = kstrtox.ParseUint(s, 0, math.MaxUint64)
	case strings.HasPrefix(s, "-"):
		n, err = kstrtox.ParseInt(s, 0)
		v = uint64(n)
	case strings.HasPrefix(s, "+"):
		n, err = kstrtox.ParseInt(s[1:], 0)
		v = uint64(n)
	}
	if err != nil {
		return failArg(errBadImm, offset+1).because(err)
	}
	return p.source(fetchImmediate, v)
}

// finish is the second half of traceprobe_parse_probe_arg_body: it determines how the
// value is stored in the entry. If a number or a string is read from memory, the last
// load and the store are one operation.
func (p *fetchParser) finish(a *Arg, typ string, offset, at int) *argError {
	c := p.code
	c.size, c.count = a.typ.size, a.count
	if err := p.finishStore(a, offset, at); err != nil {
		return err
	}
	if strings.HasPrefix(typ, "b") {
		if !p.parseBitfield(typ, a.typ.size*8) {
			return failArg(errBadBitfield, at)
		}
	}
	if a.count == 0 {
		return nil
	}
	if c.store != storeMemory && c.store != storeString && c.store != storeUserString {
		return failArg(errBadString, at)
	}
	return p.take(offset)
}

func (p *fetchParser) finishStore(a *Arg, offset, at int) *argError {
	c := p.code
	var last *deref
	if n := len(c.derefs); n > 0 {
		last = &c.derefs[n-1]
	}
	fromUser := last != nil && last.user
	keep := last == nil // the store is a separate operation
	switch {
	case a.typ.name == "symstr":
		if fromUser || last == nil && !c.source.isRegister() {
			return failArg(errBadSymString, at)
		}
		c.store, keep = storeSymbol, true
	case a.typ.text:
		if last == nil && p.last == nil && c.source != fetchImmediate && c.source != fetchComm && c.source != fetchData && c.source != fetchField {
			return failArg(errBadString, at)
		}
		keep = keep || a.count != 0
		c.store = storeString
		if a.typ.name == "ustring" || fromUser && !keep {
			c.store = storeUserString
		}
	case last == nil:
		c.store = storeRaw
	case fromUser:
		c.store = storeUserMemory
	default:
		c.store = storeMemory
	}
	if keep {
		return p.take(offset)
	}
	c.storeAt = last.by
	c.derefs = c.derefs[:len(c.derefs)-1]
	return nil
}

// parseBitfield parses b<width>@<offset>/<size of the number in bits>.
func (p *fetchParser) parseBitfield(typ string, bits int) bool {
	width, rest := kstrtox.SimpleUint(typ[1:], 0)
	from, ok := strings.CutPrefix(rest, "@")
	if width == 0 || !ok {
		return false
	}
	first, rest := kstrtox.SimpleUint(from, 0)
	if rest == from || !strings.HasPrefix(rest, "/") || p.take(0) != nil {
		return false
	}
	if width > uint64(bits) || first > uint64(bits)-width {
		return false
	}
	p.code.bitfield = true
	p.code.left = uint(uint64(bits) - width - first)
	p.code.right = uint(uint64(bits) - width)
	return true
}

// resolve is traceprobe_update_arg: it looks up the symbol of an "@SYM". It fails with
// ENOENT if there is no such symbol.
func (c *fetchCode) resolve(symbols Symbols) error {
	if !c.hasSymbol {
		return nil
	}
	name, offset, err := SplitSymbolOffset(c.symbol)
	if err != nil {
		return err
	}
	syms := symbols.LookupName(name)
	if name == "" || len(syms) == 0 {
		return fmt.Errorf("no symbol %q: %w", name, syscall.ENOENT)
	}
	c.value = syms[0].Addr + uint64(offset)
	return nil
}

// SameTexts reports whether the arguments of two probes were written the same.
func SameTexts(a, b []Arg) bool {
	return slices.EqualFunc(a, b, func(a, b Arg) bool { return a.text == b.text })
}

// Resolve looks up the symbols that arguments name. It fails with ENOENT if one is not
// there.
func Resolve(args []Arg, symbols Symbols) error {
	for i := range args {
		if err := args[i].code.resolve(symbols); err != nil {
			return err
		}
	}
	return nil
}

// Fields returns the members of an entry that hold arguments; base is the offset of
// the first one.
func Fields(args []Arg, base int) []field.Field {
	var fields []field.Field
	for i := range args {
		a := &args[i]
		decl := a.typ.decl + " " + a.name
		switch {
		case a.count != 0 && a.typ.text:
			decl = fmt.Sprintf("%s[%d] %s", a.typ.decl, a.count, a.name)
		case a.count != 0 && a.sized:
			decl += fmt.Sprintf("[%d]", a.count)
		case a.count != 0:
			decl += "[]"
		}
		fields = append(fields, field.New(decl, base+a.offset, a.size(), a.typ.signed))
	}
	return fields
}

// PrintFmt is the part of print fmt that print_probe_args writes: the format and
// its arguments.
func PrintFmt(args []Arg) (format, values string) {
	for i := range args {
		a := &args[i]
		value := func(index string) string {
			if a.typ.text {
				return ", __get_str(" + a.name + index + ")"
			}
			return ", REC->" + a.name + index
		}
		format += " " + a.name + "="
		if a.count == 0 {
			format += a.typ.format
			values += value("")
			continue
		}
		format += "{" + strings.TrimSuffix(strings.Repeat(a.typ.format+",", a.count), ",") + "}"
		for n := range a.count {
			values += value("[" + strconv.Itoa(n) + "]")
		}
	}
	return format, values
}

// DifferentArg is trace_probe_compare_arg_type: it returns the first argument whose
// name or type differs or that only one of the probes has, or -1.
func DifferentArg(a, b []Arg) int {
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	for i := range a {
		if !sameArg(&a[i], &b[i]) {
			return i
		}
	}
	return -1
}

// maxArgsSize is MAX_PROBE_EVENT_SIZE: the limit for the arguments of an event in an
// entry, without the strings.
const maxArgsSize = 3072

// ParseArgs parses the arguments of a definition, the words from the third on, into Args,
// ArgsSize and EntryArgs. Those after the 128th are ignored. Of the errors, the first one
// is for error_log, after what Preceding returns; the second one is not reported there
// (E2BIG, EINVAL).
func (d *Definition) ParseArgs(words []string) (*Error, error) {
	if len(words) > maxTraceArgs && d.Rules.has[release.ArgsE2BIG] {
		return nil, fmt.Errorf("%d arguments: %w", len(words), syscall.E2BIG)
	}
	given := len(words)
	words, derr := d.expandArgs(words)
	if derr != nil {
		return derr, nil
	}
	if len(words) > max(given, maxTraceArgs) {
		return nil, fmt.Errorf("%d arguments: %w", len(words), syscall.E2BIG)
	}
	for i, word := range words[:min(len(words), maxTraceArgs)] {
		a, err := d.parseArg(word, d.Args)
		switch {
		case err == errQuietArg:
			return nil, fmt.Errorf("argument %q: %w", word, err.Errno)
		case err != nil:
			return &Error{err.Reason, i + 2, err.offset}, nil
		}
		if d.Fields != nil {
			if err := a.code.resolveField(d.Fields); err != nil {
				return &Error{err.Reason, i + 2, err.offset}, nil
			}
		}
		a.offset = d.ArgsSize
		d.ArgsSize += a.size()
		if d.ArgsSize > maxArgsSize && d.Rules.has[release.ArgsSizeLimit] {
			return &Error{errEventTooBig, i + 2, a.column}, nil
		}
		d.Args = append(d.Args, a)
	}
	d.keepArgs()
	return nil, nil
}

// resolveField is trace_eprobe_tp_arg_update: it looks up the field that the argument
// starts with.
func (c *fetchCode) resolveField(fields map[string]*field.Member) *argError {
	if c.source != fetchField {
		return nil
	}
	f := fields[c.symbol]
	switch {
	case f != nil && f.Offset >= field.HeaderSize:
		c.field = f
	case c.symbol == "comm" || c.symbol == "COMM":
		c.source = fetchComm
	default:
		return failArg(errBadAttachArg, 0)
	}
	return nil
}

// hasField reports whether the $NAME of an eprobe is a field of its event.
func (d *Definition) hasField(name string) bool {
	c := fetchCode{source: fetchField, symbol: name}
	return c.resolveField(d.Fields) == nil
}

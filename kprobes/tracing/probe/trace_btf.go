package probe

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
)

// returns reports whether the probe is known to be on a function's return. On a kernel
// with types, a return probe given by address is not.
func (d *Definition) returns() bool { return d.Return && (d.Rules.types == nil || !d.NoSymbol) }

// atFunction reports whether the probe is at a function's entry or on its return, so that
// the function's arguments can be fetched.
func (d *Definition) atFunction() bool { return d.Fentry || d.returns() }

// argSource returns where the probe finds an argument: a return probe saves it at the
// entry.
func (d *Definition) argSource() fetchOp {
	if d.Return {
		return fetchEntryArg
	}
	return fetchArg
}

// expandArgs is traceprobe_expand_meta_args and traceprobe_expand_dentry_args: $arg*
// becomes the names of all arguments, $argN the name of one, and WHAT:%pd and WHAT:%pD
// the name of a dentry and of a file. If no word names an argument, the words are
// changed in place, and error_log shows them changed.
func (d *Definition) expandArgs(words []string) ([]string, *Error) {
	if d.Rules.types == nil || d.User || d.Fields != nil {
		return words, nil
	}
	out := words
	if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "$arg") }) {
		out = nil
		for i, word := range words {
			names, err := d.expandNames(word, slices.ContainsFunc(words[:i], isAllArgs))
			if err != nil {
				return nil, &Error{*err, i + 2, 0}
			}
			out = append(out, names...)
		}
	}
	for i, word := range out {
		out[i] = d.expandDentry(word)
	}
	return out, nil
}

func isAllArgs(word string) bool { return strings.HasPrefix(word, "$arg*") }

// expandNames expands one word; again says that a word before it was $arg*.
func (d *Definition) expandNames(word string, again bool) ([]string, *Reason) {
	nth, isArg := strings.CutPrefix(word, "$arg")
	star := isAllArgs(word)
	switch {
	case !isArg:
		return []string{word}, nil
	case star && again:
		return nil, &errDoubleArgs
	case !d.atFunction():
		return nil, &errNotAtEntry
	case star && d.params() == nil:
		d.first = &errNoSupBTFArg
		return nil, &errBadVar
	case d.params() == nil:
		return []string{word}, nil
	case star:
		var names []string
		for _, p := range d.params() {
			names = append(names, p.Name)
		}
		return names, nil
	}
	n, rest := kstrtox.SimpleUint(nth, 10)
	switch {
	case rest == nth:
		return nil, &errBadVar
	case rest != "" && rest[0] != ':':
		return nil, &errBadVarENOENT
	case n == 0:
		return nil, &errBadArgNum
	case n > uint64(len(d.params())):
		return nil, &errNoBTFArg
	}
	return []string{d.params()[n-1].Name + rest}, nil
}

// params returns the function's arguments, or nil if it has none or they are not known.
func (d *Definition) params() []btf.Param {
	if d.Proto == nil {
		return nil
	}
	return d.Proto.Params
}

// expandDentry expands one word.
func (d *Definition) expandDentry(word string) string {
	what, isFile := strings.CutSuffix(word, ":%pD")
	if !isFile {
		var isDentry bool
		if what, isDentry = strings.CutSuffix(word, ":%pd"); !isDentry {
			return word
		}
	}
	types := d.Rules.types()
	name, body, named := strings.Cut(what, "=")
	if !named {
		name, body = "", what
	} else {
		name += "="
	}
	if isFile {
		body = fmt.Sprintf("+0x%x(%s)", types.Offset("file", "f_path", "dentry"), body)
	}
	return fmt.Sprintf("%s+0x0(+0x%x(%s)):string", name, types.Offset("dentry", "d_name", "name"), body)
}

// generateName is generate_probe_arg_name: an argument that is just a variable is named
// after it, others are numbered.
func (d *Definition) generateName(word string, n int) string {
	if d.Rules.types != nil && (kstrtox.IsAlpha(word[0]) || word[0] == '_') {
		if name, _, _ := strings.Cut(word, ":"); GoodName(name, false) {
			return name
		}
	}
	return fmt.Sprintf("arg%d", n)
}

// splitField is split_next_field: it splits off the part before the first "." or "->".
// at is where the rest begins, or -1.
func splitField(s string) (name string, at int, arrow bool, bad bool) {
	i := strings.IndexAny(s, ".-")
	switch {
	case i < 0:
		return s, -1, false, false
	case s[i] == '.':
		return s[:i], i + 1, false, false
	case strings.HasPrefix(s[i:], "->"):
		return s[:i], i + 2, true, false
	}
	return s, i, false, true
}

// parseBTF is parse_btf_arg: the argument of that name, or $retval, and what it
// points to.
func (p *fetchParser) parseBTF(arg string, offset int) *argError {
	d := p.d
	if !d.atFunction() {
		return failArg(errNoSupBTFArg, offset)
	}
	name, at, arrow, bad := splitField(arg)
	switch {
	case bad:
		return failArg(errBadHyphen, offset+at)
	case at >= 0 && !arrow:
		return failArg(errNoSupDot, offset+at)
	}
	typ, err := p.variable(name, offset)
	switch {
	case err != nil:
		return err
	case at < 0:
		p.last = &btf.Member{Type: typ}
		return nil
	}
	return p.parseFields(arg[at:], offset+at, typ)
}

// variable parses the first part: the variable that the value comes from.
func (p *fetchParser) variable(name string, offset int) (*btf.Type, *argError) {
	d := p.d
	if name == "$retval" {
		if d.Proto == nil {
			return nil, p.source(fetchRetval, 0)
		}
		if d.Proto.Return.Kind == btf.Void {
			return nil, failArg(errNoRetval, offset)
		}
		return d.Proto.Return, p.source(fetchRetval, 0)
	}
	if d.params() == nil {
		return nil, failArg(errNoBTFEntry, offset)
	}
	for i, param := range d.params() {
		if param.Name == name {
			return param.Type, p.source(d.argSource(), uint64(i)+d.Hidden)
		}
	}
	return nil, failArg(errNoBTFArg, offset)
}

// parseFields is parse_btf_field: FIELD[.FIELD]...[->FIELD...]. Each arrow is a load.
func (p *fetchParser) parseFields(s string, offset int, typ *btf.Type) *argError {
	for {
		if typ == nil || typ.Kind != btf.Pointer {
			return failArg(errNoPtrStruct, offset)
		}
		typ = typ.Elem
		bit := 0
		var m btf.Member
		for {
			name, at, arrow, bad := splitField(s)
			if bad {
				return failArg(errBadHyphen, offset+at)
			}
			if typ.Kind != btf.Struct {
				return failArg(errBadBTFType, offset)
			}
			var ok bool
			if m, ok = typ.Member(name); !ok {
				return failArg(errNoBTFField, offset)
			}
			typ, bit = m.Type, bit+m.Bit
			if at < 0 {
				s = ""
				break
			}
			s, offset = s[at:], offset+at
			if arrow {
				break
			}
		}
		if err := p.deref(false, int64(bit/8), offset); err != nil {
			return err
		}
		if s == "" {
			m.Bit = bit
			p.last, p.member = &m, true
			return nil
		}
	}
}

// applyType applies a value's own type to an argument: it is the argument's type if
// none was written, and a string is read from where a char * points, or a number of 8
// bytes. It returns the
// type as if it had been written.
func (p *fetchParser) applyType(a *Arg, typ string, offset int) (string, *argError) {
	m := p.last
	if m == nil || m.Type == nil {
		return typ, nil
	}
	if a.typ.text && a.typ.name != "symstr" {
		address := m.Type.Kind == btf.Int && m.Type.Size == 8 && m.Bits == 0
		if !address && !m.Type.IsChars() {
			return typ, failArg(errBadTypeString, offset)
		}
		if p.member && (address || m.Type.Kind == btf.Pointer) {
			return typ, p.deref(a.typ.name == "ustring", 0, offset)
		}
		return typ, nil
	}
	if p.typed || a.typ.text {
		return typ, nil
	}
	typ = typeName(m)
	a.typ = findFetchType(typ)
	return typ, nil
}

// typeName is fetch_type_from_btf_type.
func typeName(m *btf.Member) string {
	t := m.Type
	switch {
	case t.Kind == btf.Enum:
		return "s" + strconv.Itoa(8*t.Size)
	case t.Kind != btf.Int:
		return "x64"
	case m.Bits != 0:
		return fmt.Sprintf("b%d@%d/%d", m.Bits, m.Bit%8, 8*t.Size)
	case t.Signed:
		return "s" + strconv.Itoa(8*t.Size)
	}
	return "u" + strconv.Itoa(8*t.Size)
}

// keepArgs determines which of the function's arguments a return probe saves, and tells
// each probe argument where they are.
func (d *Definition) keepArgs() {
	for i := range d.Args {
		c := &d.Args[i].code
		if c.source != fetchEntryArg {
			continue
		}
		at := uint64(math.MaxUint64)
		for n, kept := range d.EntryArgs {
			if uint64(kept) == c.value {
				at = uint64(n)
			}
		}
		if at == math.MaxUint64 {
			at = uint64(len(d.EntryArgs))
			d.EntryArgs = append(d.EntryArgs, int(c.value))
		}
		c.value = at
	}
}

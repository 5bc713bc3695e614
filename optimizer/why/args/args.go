// Package args says what the arguments of a kprobe's definition fetch: which register has which
// parameter at the function's entry, and which member of which structure an offset reads. It knows that
// from the kernel's types (BTF). What it warns of, Linux does not refuse: 5.10 and 6.1 look at no types,
// and 6.12 looks at none for registers and for offsets that are written as numbers.
package args

import (
	"fmt"
	"math"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kprobes/tracing/probe"
)

// Hold is what a register has at a function's entry.
type Hold struct {
	Where     string `json:"where"`     // "%di", or "8(%sp)"
	Parameter string `json:"parameter"` // its declaration: "struct file *file"
}

// Argument is what one argument of a definition fetches.
type Argument struct {
	Name      string   `json:"name"`
	Text      string   `json:"text"`                // FETCHARG[:TYPE]
	Where     string   `json:"where,omitempty"`     // the register that the value or the address comes from
	Parameter string   `json:"parameter,omitempty"` // what that has: the declaration of a parameter, or the type of the result
	Reads     string   `json:"reads,omitempty"`     // what is read, as an expression of C: "file->f_path.dentry"
	Member    string   `json:"member,omitempty"`    // its declaration
	Warnings  []string `json:"warnings,omitempty"`
}

// Place is where the probe is in the function.
type Place struct {
	Return bool   // it is a return probe
	Entry  bool   // it is at the first instruction that is not endbr64, or a return probe
	Offset uint64 // in bytes
}

// registers are those that have the first six words of the parameters.
var registers = []string{"%di", "%si", "%dx", "%cx", "%r8", "%r9"}

// where returns where the n-th word of the parameters is at the entry, counted from 0.
func where(n int) string {
	if n < len(registers) {
		return registers[n]
	}
	return fmt.Sprintf("%d(%%sp)", 8*(n-len(registers)+1))
}

// words returns which parameter is in the n-th word, as Linux counts the words for $argN: six registers,
// then the stack. -1 is none. A structure of up to 16 bytes has as many words as it needs; a larger one
// is on the stack.
func words(fn *btf.Func) []int {
	regs, stack := []int{}, []int{}
	for i := range fn.Params {
		t := fn.Params[i].Type
		n := 1
		if t.Kind == btf.Struct || t.Kind == btf.Int {
			n = max(1, min((t.Size+7)/8, maxWords))
		}
		to := &regs
		if n > 2 && t.Kind == btf.Struct || len(regs)+n > len(registers) {
			to = &stack
		}
		for range n {
			*to = append(*to, i)
		}
	}
	for len(regs) < len(registers) && len(stack) > 0 {
		regs = append(regs, -1)
	}
	return append(regs, stack...)
}

// maxWords bounds the size of a parameter: types may be hostile.
const maxWords = 64

// Entry returns what the registers have at a function's entry.
func Entry(fn *btf.Func) (all []Hold) {
	last := -1
	for n, i := range words(fn) {
		switch {
		case i < 0:
		case i == last:
			all[len(all)-1].Where += "," + where(n)
		default:
			all = append(all, Hold{where(n), fn.Params[i].Declaration()})
		}
		last = i
	}
	return all
}

// Prototype returns a function's declaration.
func Prototype(fn *btf.Func) string {
	var params []string
	for i := range fn.Params {
		params = append(params, fn.Params[i].Declaration())
	}
	if params == nil {
		params = []string{"void"}
	}
	return fmt.Sprintf("%s %s(%s)", result(fn), fn.Name, strings.Join(params, ", "))
}

func result(fn *btf.Func) string {
	if fn.Result != "" {
		return fn.Result
	}
	return fn.Return.Declaration("")
}

// Describe says what the arguments of a definition fetch. fn may be nil: then only where the values come
// from is said.
func Describe(fn *btf.Func, at Place, fetches []probe.Fetch) []Argument {
	var all []Argument
	for i := range fetches {
		d := describer{fn: fn, place: at, fetch: &fetches[i], a: Argument{Name: fetches[i].Name, Text: fetches[i].Text}}
		d.describe()
		all = append(all, d.a)
	}
	return all
}

type describer struct {
	fn    *btf.Func
	place Place
	fetch *probe.Fetch
	a     Argument
}

func (d *describer) warn(format string, args ...any) {
	d.a.Warnings = append(d.a.Warnings, fmt.Sprintf(format, args...))
}

// value is a variable of C.
type value struct {
	expr, decl string
	typ        *btf.Type // nil if it is not known
}

func (d *describer) describe() {
	v := d.source()
	for _, off := range d.fetch.Loads {
		if v = d.load(v, off, 8); v.typ == nil {
			return
		}
	}
	switch d.fetch.Access {
	case probe.ReadsNumber:
		d.load(v, d.fetch.At, d.fetch.Size)
	case probe.ReadsString:
		d.string(v)
	case probe.NoAccess, probe.ReadsAddress: // the value itself is shown
	}
}

// source says where the value comes from, and returns what it is.
func (d *describer) source() value {
	word := -1
	switch d.fetch.Source {
	case probe.FromReturn:
		d.a.Where = "%ax"
		return d.result()
	case probe.FromArg:
		word = d.fetch.Arg
		d.a.Where = where(word)
	case probe.FromRegister:
		d.a.Where = "%" + d.fetch.Register
		for n, r := range registers {
			if r == d.a.Where {
				word = n
			}
		}
		if d.place.Return && d.a.Where == "%ax" {
			return d.result()
		}
	case probe.FromOther:
		return value{}
	}
	if d.fn == nil || word < 0 {
		return value{}
	}
	all := words(d.fn)
	if word >= len(all) || all[word] < 0 {
		if d.fetch.Source == probe.FromArg {
			d.warn("%s has %s: %s has none of them", d.fn.Name, counted(len(d.fn.Params)), d.a.Where)
		}
		return value{}
	}
	p := &d.fn.Params[all[word]]
	d.a.Parameter = p.Declaration()
	if d.fetch.Source == probe.FromRegister {
		switch {
		case d.place.Return:
			d.warn("%s has it at the entry of %s; when the function returns, the register may have any value", d.a.Where, d.fn.Name)
		case !d.place.Entry:
			d.warn("%s has it at the entry of %s; the instructions before +%#x may have changed the register", d.a.Where, d.fn.Name, d.place.Offset)
		}
	}
	if p.Type.Kind == btf.Struct { // a part of it is in the register
		return value{}
	}
	return value{p.Name, d.a.Parameter, p.Type}
}

func counted(n int) string {
	switch n {
	case 0:
		return "no parameters"
	case 1:
		return "one parameter"
	}
	return fmt.Sprintf("%d parameters", n)
}

// result is what the function returns.
func (d *describer) result() value {
	if d.fn == nil {
		return value{}
	}
	if d.fn.Return.Kind == btf.Void {
		d.warn("%s returns nothing (void)", d.fn.Name)
		return value{}
	}
	d.a.Parameter = result(d.fn)
	return value{"retval", d.a.Parameter, d.fn.Return}
}

// load says what lies at an offset from an address, and returns it. size is how many bytes are read.
func (d *describer) load(v value, off int64, size int) value {
	m, rest := d.at(v, off)
	if m.typ == nil {
		return m
	}
	d.a.Reads, d.a.Member = m.expr, m.decl
	has := sizeOf(m.typ)
	switch {
	case rest > 0:
		d.warn("%s is %d bytes after the beginning of %s, which has %d bytes", offset(off), rest, m.expr, has)
		return value{}
	case has > 0 && size > has && !d.fetch.Bits:
		d.warn("%d bytes are read, and %s has %d; %s reads it alone", size, m.expr, has, typeFor(m.typ))
	}
	return m
}

// typeFor returns the type that an argument needs to read a number.
func typeFor(t *btf.Type) string {
	if t.Signed {
		return fmt.Sprintf(":s%d", 8*sizeOf(t))
	}
	return fmt.Sprintf(":u%d", 8*sizeOf(t))
}

// string says what a string is read from.
func (d *describer) string(v value) {
	m, rest := d.at(v, d.fetch.At)
	if m.typ == nil {
		return
	}
	d.a.Reads, d.a.Member = m.expr, m.decl
	switch {
	case m.typ.IsChars() && m.typ.Kind == btf.Pointer:
		d.warn("%s is a pointer to text, whose own bytes are read as text; +0(...) around the argument reads the text", m.expr)
	case m.typ.Kind != btf.Int || m.typ.Size != 1:
		d.warn("%s is no text", m.expr)
	case rest > 0:
		d.warn("%s is inside of %s", offset(d.fetch.At), m.expr)
	}
}

func offset(off int64) string { return fmt.Sprintf("%+#x", off) }

// at returns what lies at an offset from the address that v has, and how many bytes after its beginning
// that is.
func (d *describer) at(v value, off int64) (m value, rest int64) {
	switch {
	case v.typ == nil:
		return value{}, 0
	case v.typ.Kind == btf.Int && v.typ.Size == 8: // an address as a number
		return value{}, 0
	case v.typ.Kind == btf.Array: // a pointer to its first element, where an argument is an array
		v.typ = &btf.Type{Kind: btf.Pointer, Elem: v.typ.Elem}
	case v.typ.Kind != btf.Pointer:
		d.warn("%s (%s) is no address", v.expr, v.decl)
		return value{}, 0
	}
	elem := v.typ.Elem
	switch {
	case elem.Kind == btf.Void, elem.Kind == btf.Proto, elem.Kind == btf.Struct && len(elem.Members) == 0:
		return value{}, 0 // not known
	case elem.Kind == btf.Struct && (off < 0 || off >= int64(elem.Size) && covering(elem, off) == nil):
		d.warn("%s is outside of %s, which has %d bytes", offset(off), elem.Declaration(""), elem.Size)
		return value{}, 0
	case elem.Kind == btf.Struct:
		return d.member(v, elem, off)
	}
	size := int64(sizeOf(elem))
	if size == 0 {
		return value{}, 0
	}
	index := off / size
	if rest = off % size; rest < 0 {
		index, rest = index-1, rest+size
	}
	m = value{"*" + v.expr, elem.Declaration(""), elem}
	if index != 0 {
		m.expr = fmt.Sprintf("%s[%d]", v.expr, index)
	}
	return m, rest
}

// maxNesting bounds how deep structures lie in structures: types may be hostile.
const maxNesting = 64

// member finds the number, pointer or text at an offset in the structure that v points to.
func (d *describer) member(v value, t *btf.Type, off int64) (value, int64) {
	expr, sep := v.expr, "->"
	if strings.HasPrefix(expr, "*") {
		expr = "(" + expr + ")"
	}
	decl := ""
	whole, begin := t, off
	for range maxNesting {
		if t.Kind == btf.Array {
			size := int64(sizeOf(t.Elem))
			if size == 0 {
				return value{}, 0
			}
			if t.Elem.Kind != btf.Int || t.Elem.Size != 1 || off != 0 { // text is named as a whole
				expr = fmt.Sprintf("%s[%d]", expr, off/size)
			}
			t, off = t.Elem, off%size
			continue
		}
		if t.Kind != btf.Struct {
			return value{expr, decl, t}, off
		}
		m := covering(t, off)
		if m == nil {
			d.warn("no member of %s is at %s%s", whole.Declaration(""), offset(begin), before(whole, begin))
			return value{}, 0
		}
		if m.Name != "" {
			expr, sep = expr+sep+m.Name, "."
			decl = m.Declaration()
		}
		if m.Bits != 0 { // the offset is a byte's
			return value{expr, decl, m.Type}, 0
		}
		t, off = m.Type, off-int64(m.Bit/8)
	}
	return value{}, 0
}

// covering returns the member of a structure that has the byte at an offset, of several in a union the
// first, or nil.
func covering(t *btf.Type, off int64) *btf.Member {
	for i := range t.Members {
		m := &t.Members[i]
		size := int64(sizeOf(m.Type))
		if m.Bits != 0 {
			size = int64(m.Bit%8+m.Bits+7) / 8
		}
		if m.Type.Kind == btf.Array && m.Type.Count == 0 { // a flexible array at the end
			size = math.MaxInt32
		}
		if at := int64(m.Bit / 8); at <= off && off < at+size {
			return m
		}
	}
	return nil
}

// before names the last member of a structure that begins before an offset.
func before(t *btf.Type, off int64) string {
	var last *btf.Member
	for i := range t.Members {
		if m := &t.Members[i]; int64(m.Bit/8) <= off && m.Name != "" && (last == nil || m.Bit >= last.Bit) {
			last = m
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("; %s at +%#x has %d bytes", last.Name, last.Bit/8, sizeOf(last.Type))
}

// sizeOf returns the size of a type in bytes, 0 if it has none.
func sizeOf(t *btf.Type) int {
	n := 1
	for range maxNesting {
		if t.Kind != btf.Array {
			break
		}
		if t.Count == 0 || n > maxArray/t.Count {
			return 0
		}
		n *= t.Count
		t = t.Elem
	}
	switch t.Kind {
	case btf.Pointer:
		return 8 * n
	case btf.Int, btf.Struct, btf.Enum:
		return t.Size * n
	default:
		return 0
	}
}

// maxArray bounds the number of an array's elements: types may be hostile.
const maxArray = 1 << 28

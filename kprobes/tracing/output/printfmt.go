package output

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// Format is the text after "print fmt: " in an event's file format. It describes
// in C how an entry becomes text: a printk format, and expressions over the fields of
// the entry. It is parsed once and run for each line of trace.
type Format struct {
	pieces []formatPiece
}

// formatPiece is literal text followed by at most one conversion.
type formatPiece struct {
	text string
	verb byte   // 0 if there is no conversion
	conv string // the text between % and the verb
	arg  expr
}

// expr is an expression of a print format.
type expr func(*state) value

// Env is what a Format shows that is not in the entry.
type Env interface {
	// appendSymbol appends the symbol of an address, with the offset if that is asked for:
	// %pS and %ps.
	AppendSymbol(b []byte, addr uint64, offset bool) []byte
	// appendPointer appends an address as %p does.
	AppendPointer(b []byte, addr uint64) []byte
	// memory returns the kernel's memory for the strings of %s, or nil.
	Memory() abi.Memory
}

// state is the input of an expression.
type state struct {
	env   Env
	entry []byte
}

// value is the result of an expression: a number, or bytes that end at the first 0.
type value struct {
	n     uint64
	text  []byte
	isStr bool
	scale uint64 // of a pointer: the size of what it points to; 0 means 1
}

// structPageSize is sizeof(struct page), bytes.
const structPageSize = 64

// constants are constants that print formats refer to by name.
var constants = map[string]uint64{
	"vmemmap_base":                 0xffffea0000000000,
	"IOPRIO_CLASS_NONE":            0,
	"IOPRIO_CLASS_RT":              1,
	"IOPRIO_CLASS_BE":              2,
	"IOPRIO_CLASS_IDLE":            3,
	"IOPRIO_CLASS_INVALID":         7,
	"TCP_ESTABLISHED":              1,
	"TCP_SYN_SENT":                 2,
	"TCP_SYN_RECV":                 3,
	"TCP_FIN_WAIT1":                4,
	"TCP_FIN_WAIT2":                5,
	"TCP_TIME_WAIT":                6,
	"TCP_CLOSE":                    7,
	"TCP_CLOSE_WAIT":               8,
	"TCP_LAST_ACK":                 9,
	"TCP_LISTEN":                   10,
	"TCP_CLOSING":                  11,
	"TCP_NEW_SYN_RECV":             12,
	"HRTIMER_MODE_ABS":             0,
	"HRTIMER_MODE_REL":             1,
	"HRTIMER_MODE_ABS_PINNED":      2,
	"HRTIMER_MODE_REL_PINNED":      3,
	"HRTIMER_MODE_ABS_SOFT":        4,
	"HRTIMER_MODE_REL_SOFT":        5,
	"HRTIMER_MODE_ABS_PINNED_SOFT": 6,
	"HRTIMER_MODE_REL_PINNED_SOFT": 7,
	"HRTIMER_MODE_ABS_HARD":        8,
	"HRTIMER_MODE_REL_HARD":        9,
	"HRTIMER_MODE_ABS_PINNED_HARD": 10,
	"HRTIMER_MODE_REL_PINNED_HARD": 11,
}

// ParseFormat parses a print format over the common fields and others. It fails with an
// error that says what is not understood.
func ParseFormat(text string, fields []field.Field) (*Format, error) {
	p := &parser{text: text, fields: map[string]field.Field{}}
	for _, f := range append(field.Common[:], fields...) {
		p.fields[f.Name()] = f
	}
	format, err := p.quoted()
	if err != nil {
		return nil, err
	}
	var args []expr
	for p.next(",") {
		args = append(args, p.expression())
	}
	if p.err == nil && p.skip() != 0 {
		p.fail("more than a format and its arguments")
	}
	if p.err != nil {
		return nil, p.err
	}
	return splitFormat(format, args)
}

// splitFormat pairs the conversions of a format with their arguments.
func splitFormat(format string, args []expr) (*Format, error) {
	f := &Format{}
	for {
		text, rest, found := strings.Cut(format, "%")
		if !found {
			f.pieces = append(f.pieces, formatPiece{text: text})
			break
		}
		if strings.HasPrefix(rest, "%") {
			f.pieces = append(f.pieces, formatPiece{text: text + "%"})
			format = rest[1:]
			continue
		}
		n := strings.IndexAny(rest, "diuxXopsc")
		if n < 0 || len(args) == 0 {
			return nil, fmt.Errorf("conversion %%%s without a verb or an argument", rest)
		}
		piece := formatPiece{text: text, conv: rest[:n], verb: rest[n], arg: args[0]}
		format, args = rest[n+1:], args[1:]
		if piece.verb == 'p' { // %ps, %pI4, ...
			n := 0
			for n < len(format) && kstrtox.IsAlnum(format[n]) {
				n++
			}
			piece.conv, format = format[:n], format[n:]
		}
		f.pieces = append(f.pieces, piece)
	}
	if len(args) > 0 {
		return nil, fmt.Errorf("%d arguments are left over", len(args))
	}
	return f, nil
}

// Append appends the text of an entry.
func (f *Format) Append(b, entry []byte, env Env) []byte {
	s := &state{env: env, entry: entry}
	for i := range f.pieces {
		p := &f.pieces[i]
		b = append(b, p.text...)
		if p.verb != 0 {
			b = p.convert(s, b)
		}
	}
	return b
}

func (p *formatPiece) convert(s *state, b []byte) []byte {
	v := p.arg(s)
	switch p.verb {
	case 'p':
		return s.pointer(b, p.conv, v)
	case 's':
		if !v.isStr {
			v.text = s.kernelString(v.n)
		}
		return append(b, kstrtox.CString(v.text)...)
	case 'c':
		return append(b, byte(v.n))
	}
	flags := strings.TrimRight(p.conv, "hlLzjt")
	n := sized(v.n, p.conv[len(flags):], p.verb)
	if p.verb == 'd' || p.verb == 'i' {
		return fmt.Appendf(b, "%"+flags+"d", int64(n))
	}
	verb := p.verb
	if verb == 'u' {
		verb = 'd'
	}
	return fmt.Appendf(b, "%"+flags+string(verb), n)
}

// sized truncates n according to the length modifier of a conversion.
func sized(n uint64, length string, verb byte) uint64 {
	signed := verb == 'd' || verb == 'i'
	bits := 32
	switch length {
	case "hh":
		bits = 8
	case "h":
		bits = 16
	case "l", "ll", "L", "z", "j", "t":
		return n
	}
	shift := 64 - bits
	if signed {
		return uint64(int64(n<<shift) >> shift)
	}
	return n << shift >> shift
}

// pointer is %p with its extensions.
func (s *state) pointer(b []byte, kind string, v value) []byte {
	switch kind {
	case "S":
		return s.env.AppendSymbol(b, v.n, true)
	case "s":
		return s.env.AppendSymbol(b, v.n, false)
	case "I4":
		var ip [4]byte
		copy(ip[:], v.text)
		return netip.AddrFrom4(ip).AppendTo(b)
	case "I6c":
		var ip [16]byte
		copy(ip[:], v.text)
		return netip.AddrFrom16(ip).AppendTo(b)
	}
	return s.env.AppendPointer(b, v.n)
}

// kernelString returns the string at an address in the kernel's read-only data.
func (s *state) kernelString(addr uint64) []byte {
	if addr == 0 {
		return []byte("(null)")
	}
	var b [256]byte
	if m := s.env.Memory(); m == nil || !abi.ReadString(m, addr, b[:]) {
		return fmt.Appendf(nil, "[UNSAFE-MEMORY]")
	}
	return []byte(kstrtox.CString(b[:]))
}

// parser parses the C of print formats as far as 6.1 uses it: its operators,
// casts, and the helpers whose names start with two underscores.
type parser struct {
	text   string
	pos    int
	fields map[string]field.Field
	err    error
}

func (p *parser) fail(what string) expr {
	if p.err == nil {
		p.err = fmt.Errorf("print format, column %d: %s", p.pos, what)
	}
	p.pos = len(p.text)
	return func(*state) value { return value{} }
}

// skip skips blanks and returns the next byte, or 0 at the end.
func (p *parser) skip() byte {
	for p.pos < len(p.text) && p.text[p.pos] == ' ' {
		p.pos++
	}
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

// next consumes token if it is the next one.
func (p *parser) next(token string) bool {
	p.skip()
	if !strings.HasPrefix(p.text[p.pos:], token) {
		return false
	}
	p.pos += len(token)
	return true
}

func (p *parser) expect(token string) {
	if !p.next(token) {
		p.fail("no " + token)
	}
}

// quoted parses a string literal.
func (p *parser) quoted() (string, error) {
	p.skip()
	q, err := strconv.QuotedPrefix(p.text[p.pos:])
	if err != nil {
		p.fail("no string")
		return "", p.err
	}
	p.pos += len(q)
	return strconv.Unquote(q)
}

func (p *parser) word() string {
	start := p.pos
	for p.pos < len(p.text) && isNameByte(p.text[p.pos]) {
		p.pos++
	}
	return p.text[start:p.pos]
}

func isNameByte(c byte) bool { return kstrtox.IsAlnum(c) || c == '_' }

func truth(v value) bool { return v.isStr || v.n != 0 }

func number(b bool) value {
	if b {
		return value{n: 1}
	}
	return value{}
}

// expression parses a conditional expression.
func (p *parser) expression() expr {
	cond := p.binary(0)
	if !p.next("?") {
		return cond
	}
	yes := p.expression()
	p.expect(":")
	no := p.expression()
	return func(s *state) value {
		if truth(cond(s)) {
			return yes(s)
		}
		return no(s)
	}
}

// binaryOps are C's binary operators by increasing precedence. An operator precedes
// those that are a prefix of it.
var binaryOps = [...][]struct {
	token string
	do    func(a, b value) value
}{
	{{"||", func(a, b value) value { return number(truth(a) || truth(b)) }}},
	{{"&&", func(a, b value) value { return number(truth(a) && truth(b)) }}},
	{{"|", func(a, b value) value { return value{n: a.n | b.n} }}},
	{{"^", func(a, b value) value { return value{n: a.n ^ b.n} }}},
	{{"&", func(a, b value) value { return value{n: a.n & b.n} }}},
	{{"==", func(a, b value) value { return number(a.n == b.n) }}, {"!=", func(a, b value) value { return number(a.n != b.n) }}},
	{
		{"<<", func(a, b value) value { return value{n: a.n << b.n} }},
		{">>", func(a, b value) value { return value{n: a.n >> b.n} }},
		{"<=", func(a, b value) value { return number(a.n <= b.n) }},
		{">=", func(a, b value) value { return number(a.n >= b.n) }},
		{"<", func(a, b value) value { return number(a.n < b.n) }},
		{">", func(a, b value) value { return number(a.n > b.n) }},
	},
	{{"+", func(a, b value) value { return value{n: a.n + max(a.scale, 1)*b.n} }}, {"-", func(a, b value) value { return value{n: a.n - b.n} }}},
	{
		{"*", func(a, b value) value { return value{n: a.n * b.n} }},
		{"/", func(a, b value) value { return value{n: a.n / max(b.n, 1)} }},
		{"%", func(a, b value) value { return value{n: a.n % max(b.n, 1)} }},
	},
}

func (p *parser) binary(level int) expr {
	if level == len(binaryOps) {
		return p.unary()
	}
	left := p.binary(level + 1)
next:
	for p.err == nil {
		p.skip()
		for _, op := range binaryOps[level] {
			rest := p.text[p.pos:]
			if !strings.HasPrefix(rest, op.token) || len(op.token) == 1 && len(rest) > 1 && strings.ContainsAny(op.token, "|&<>") && rest[1] == rest[0] {
				continue
			}
			p.pos += len(op.token)
			a, b := left, p.binary(level+1)
			left = func(s *state) value { return op.do(a(s), b(s)) }
			continue next
		}
		break
	}
	return left
}

func (p *parser) unary() expr {
	switch c := p.skip(); {
	case c == '!':
		p.pos++
		x := p.unary()
		return func(s *state) value { return number(!truth(x(s))) }
	case c == '~':
		p.pos++
		x := p.unary()
		return func(s *state) value { return value{n: ^x(s).n} }
	case c == '-':
		p.pos++
		x := p.unary()
		return func(s *state) value { return value{n: -x(s).n} }
	case c == '(':
		return p.paren()
	case c == '"':
		text, _ := p.quoted()
		return func(*state) value { return value{text: []byte(text), isStr: true} }
	case '0' <= c && c <= '9':
		return p.constant()
	}
	return p.named()
}

// castTypes are the types of casts, with the element size of pointers.
var castTypes = map[string]struct {
	bits  int
	scale uint64
}{
	"long": {64, 0}, "unsigned long": {64, 0}, "unsigned long long": {64, 0}, "long long": {64, 0}, "u64": {64, 0},
	"void *": {64, 0}, "struct page *": {64, structPageSize}, "gfp_t": {32, 0}, "unsigned int": {32, 0}, "u32": {32, 0},
}

// paren parses a cast, or an expression in parentheses.
func (p *parser) paren() expr {
	p.pos++
	if end := strings.IndexByte(p.text[p.pos:], ')'); end >= 0 {
		if cast, ok := castTypes[strings.TrimSpace(p.text[p.pos:p.pos+end])]; ok {
			p.pos += end + 1
			x := p.unary()
			mask := ^uint64(0) >> (64 - cast.bits)
			return func(s *state) value {
				v := x(s)
				v.n, v.scale = v.n&mask, cast.scale
				return v
			}
		}
	}
	x := p.expression()
	p.expect(")")
	return x
}

// constant parses a number with its suffix.
func (p *parser) constant() expr {
	w := p.word()
	n, err := strconv.ParseUint(strings.TrimRight(w, "uUlL"), 0, 64)
	if err != nil {
		return p.fail("number " + w)
	}
	return func(*state) value { return value{n: n} }
}

// named parses what starts with a name: a field, a helper or a constant.
func (p *parser) named() expr {
	name := p.word()
	switch name {
	case "REC":
		p.expect("->")
		return p.member(p.word())
	case "__get_str":
		p.expect("(")
		p.skip()
		f, ok := p.fields[p.word()]
		p.expect(")")
		if !ok {
			return p.fail("no such field")
		}
		return func(s *state) value {
			text, _ := field.StringAt(s.entry, f.Offset)
			return value{text: text, isStr: true}
		}
	case "__print_flags":
		return p.flags()
	case "__print_symbolic":
		return p.symbolic()
	}
	if n, ok := constants[name]; ok {
		return func(*state) value { return value{n: n} }
	}
	return p.fail("unknown name " + name)
}

// member parses REC->name or REC->name[i].
func (p *parser) member(name string) expr {
	f, ok := p.fields[name]
	if !ok {
		return p.fail("no field " + name)
	}
	_, dims, array := strings.Cut(f.Decl, "[")
	if !array {
		return func(s *state) value { return value{n: f.Load(s.entry)} }
	}
	if !p.next("[") {
		return func(s *state) value { return value{text: s.entry[f.Offset : f.Offset+f.Size], isStr: true} }
	}
	i, err := strconv.Atoi(p.word())
	p.expect("]")
	count, err2 := strconv.Atoi(strings.TrimSuffix(dims, "]"))
	if err != nil || err2 != nil || i >= count {
		return p.fail("index of " + name)
	}
	size := f.Size / count
	load := field.Number{Offset: f.Offset + i*size, Size: size, Signed: f.Signed}
	return func(s *state) value { return value{n: load.Load(s.entry)} }
}

// bitName is a pair of __print_flags and __print_symbolic.
type bitName struct {
	value uint64
	name  string
}

// pairs parses the rest of a helper's arguments: {value, "name"}, ...
func (p *parser) pairs() (list []bitName) {
	for p.err == nil && p.next(",") {
		p.expect("{")
		v := p.expression()
		p.expect(",")
		name, _ := p.quoted()
		p.expect("}")
		list = append(list, bitName{v(&state{}).n, name})
	}
	p.expect(")")
	return list
}

// flags is __print_flags: the names of the bits that are set, and the remaining bits in
// hex.
func (p *parser) flags() expr {
	p.expect("(")
	x := p.expression()
	p.expect(",")
	delim, _ := p.quoted()
	list := p.pairs()
	return func(s *state) value {
		v := x(s).n
		text := []byte{}
		add := func(name string) {
			if len(text) > 0 {
				text = append(text, delim...)
			}
			text = append(text, name...)
		}
		for _, f := range list {
			if v != 0 && v&f.value == f.value {
				add(f.name)
				v &^= f.value
			}
		}
		if v != 0 {
			add(fmt.Sprintf("%#x", v))
		}
		return value{text: text, isStr: true}
	}
}

// symbolic is __print_symbolic: the name of the value, or the value in hex.
func (p *parser) symbolic() expr {
	p.expect("(")
	x := p.expression()
	list := p.pairs()
	return func(s *state) value {
		v := x(s).n
		for _, f := range list {
			if f.value == v {
				return value{text: []byte(f.name), isStr: true}
			}
		}
		return value{text: fmt.Appendf(nil, "%#x", v), isStr: true}
	}
}

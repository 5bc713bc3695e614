package filter

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// operand is what a filter may name: a member of the entry, or the CPU or the task's
// name at the hit.
type operand struct {
	source source
	kind   field.Kind
	field.Number
}

type source byte

const (
	fromMember source = iota
	fromCPU
	fromComm
)

// Error says why a filter was refused: the text and the column (in bytes, from 0) that
// the file then shows, and the errno. For some errors the kernel returns values of its own
// enumeration as errnos.
type Error struct {
	Text  string
	Pos   int
	Errno syscall.Errno
}

// Error returns the reason with its place.
func (e *Error) Error() string { return fmt.Sprintf("%s at %d: %v", e.Text, e.Pos, e.Errno) }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// errorOnly is the text of a refusal for which the kernel gives no reason.
const errorOnly = "Error"

// show is append_filter_err: it returns the text of the file filter after a refusal.
func (e *Error) show(text string) string {
	if e.Text == errorOnly {
		return text + "\nError: (0)\n"
	}
	return fmt.Sprintf("%s\n%s^\nparse_error: %s\n", text, strings.Repeat(" ", min(e.Pos, len(text))), e.Text)
}

// maxOperand is MAX_FILTER_STR_VAL; maxNumber is the limit for the digits of a number.
const (
	maxOperand = 256
	maxNumber  = 24
)

// Rules are what a release's filters can say of its kernel. The zero value is the least.
type Rules struct {
	UserStrings bool    // FIELD.ustring, the string at an address of user memory
	Symbols     Symbols // what FIELD.function compares with; nil if there is no such thing
	CPUs        int     // how many there are, for CPUS{LIST}; 0 if there is no such thing
}

// Symbols are the kernel's symbols.
type Symbols interface {
	LookupName(name string) []abi.Symbol
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Parse parses a filter:
//
//	FIELD ==|!=|<|<=|>|>=|& NUMBER
//	FIELD[.ustring] ==|!=|~ "TEXT"
//	FIELD.function ==|!= SYMBOL|ADDRESS
//	FIELD ==|!=|& CPUS{LIST}
//
// joined by && and ||, grouped by parentheses, each negated by "!".
//
// The Error says where the text is wrong; its errno is EINVAL or 1, 2 or 3.
func (r *Rules) Parse(text string, fields Fields) (*Filter, *Error) {
	if err := checkParens(text); err != nil {
		return nil, err
	}
	p := &parser{rules: r, text: text, fields: fields}
	n, err := p.parseOr()
	switch {
	case err != nil:
		return nil, err
	case n == nil && p.terms == 0:
		return nil, &Error{"No filter found", len(text), syscall.EINVAL}
	}
	return &Filter{text, n}, nil
}

// checkParens is calc_stack: quotes and parentheses must be balanced and not empty. The
// kernel returns its results -1, -2 and -3 as errnos.
func checkParens(text string) *Error {
	var open []int
	quote, something := -1, false
	for i := range len(text) {
		c := text[i]
		switch {
		case quote >= 0:
			if c == text[quote] {
				quote = -1
			}
		case c == '"' || c == '\'':
			quote, something = i, true
		case c == '(':
			open = append(open, i)
		case c == ')' && len(open) == 0:
			return &Error{"Too few '('", i, syscall.Errno(1)}
		case c == ')':
			open = open[:len(open)-1]
		case !kstrtox.IsSpace(c):
			something = true
		}
	}
	switch {
	case quote >= 0:
		return &Error{"Missing matching quote", quote, syscall.Errno(3)}
	case len(open) > 0:
		return &Error{"Too many '('", open[len(open)-1], syscall.Errno(2)}
	case !something:
		return &Error{errorOnly, 0, syscall.EINVAL}
	}
	return nil
}

// parser is predicate_parse and parse_pred over a text whose parentheses are
// balanced. The size of a page limits their nesting.
type parser struct {
	rules  *Rules
	text   string
	fields Fields
	pos    int
	terms  int // number of predicates so far

	functions *[]FunctionTerm // set by ParseFunctions
	wrong     bool            // one of these is not allowed
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (p *parser) peek() byte {
	for p.pos < len(p.text) && kstrtox.IsSpace(p.text[p.pos]) {
		p.pos++
	}
	return p.at(p.pos)
}

func (p *parser) at(i int) byte {
	if i < len(p.text) {
		return p.text[i]
	}
	return 0
}

// operator consumes "&&" or "||" and reports whether it did.
func (p *parser) operator(c byte) bool {
	if p.peek() != c || p.at(p.pos+1) != c {
		return false
	}
	p.pos += 2
	return true
}

func (p *parser) parseOr() (*node, *Error) { return p.parseList('|', p.parseAnd) }

func (p *parser) parseAnd() (*node, *Error) { return p.parseList('&', p.parseTerm) }

// parseList parses operands between operators. A text must not end with an operator
// (6.1.192 refuses it; 6.1.176 accepted it).
func (p *parser) parseList(op byte, operand func() (*node, *Error)) (*node, *Error) {
	list := &node{op: op}
	for {
		n, err := operand()
		if err != nil {
			return nil, err
		}
		switch {
		case n != nil:
			list.operands = append(list.operands, n)
		case p.terms > 0:
			return nil, &Error{"Meaningless filter expression", len(p.text), syscall.EINVAL}
		}
		if !p.operator(op) {
			break
		}
	}
	switch len(list.operands) {
	case 0:
		return nil, nil
	case 1:
		return list.operands[0], nil
	}
	return list, nil
}

// parseTerm parses any "!" and then a predicate or a group. It returns nil at the end
// of the text.
func (p *parser) parseTerm() (*node, *Error) {
	not := false
	for p.peek() == '!' && p.at(p.pos+1) != '=' {
		not = !not
		p.pos++
	}
	if p.peek() == 0 {
		return nil, nil
	}
	n, err := p.parseOperand()
	if err != nil || n == nil {
		return nil, err
	}
	n.not = n.not != not
	return n, p.checkEnd()
}

// checkEnd checks that an operator, a closing parenthesis or the end follows an
// operand.
func (p *parser) checkEnd() *Error {
	c := p.peek()
	if c == 0 || c == ')' || (c == '&' || c == '|') && p.at(p.pos+1) == c {
		return nil
	}
	return &Error{"Too many terms in predicate expression", p.pos, syscall.Errno(1)}
}

func (p *parser) parseOperand() (*node, *Error) {
	if p.peek() != '(' {
		pred, err := p.parsePredicate()
		p.terms++
		return &node{pred: pred}, err
	}
	p.pos++
	n, err := p.parseOr()
	if err == nil && p.peek() == ')' {
		p.pos++
	}
	return n, err
}

// operators are listed in the order in which they are tried.
var operators = [...]string{"~", "!=", "==", "<=", "<", ">=", ">", "&"}

// parsePredicate is parse_pred. Its columns count from 1.
func (p *parser) parsePredicate() (pred predicate, _ *Error) {
	fail := func(text string, at int) (predicate, *Error) {
		return pred, &Error{text, at + 1, syscall.EINVAL}
	}
	start := p.pos
	for isWord(p.at(p.pos)) {
		p.pos++
	}
	name := p.text[start:p.pos]
	if name == "" {
		return pred, &Error{errorOnly, 0, syscall.Errno(1)}
	}
	var ok bool
	if pred.field, ok = p.fields.find(name); !ok {
		return fail("Field not found", p.pos)
	}
	function := false
	switch {
	case p.rules.UserStrings && p.take(".ustring"):
		pred.user = true
	case p.rules.Symbols != nil && p.take(".function"):
		function = true
	}
	p.peek()
	i := slices.IndexFunc(operators[:], func(op string) bool { return strings.HasPrefix(p.text[p.pos:], op) })
	if i < 0 {
		return fail("Invalid operator", p.pos)
	}
	pred.op = operators[i]
	p.pos += len(pred.op)
	switch c := p.peek(); {
	case p.functions != nil:
		return p.parseFunctionTerm(name, pred)
	case function:
		return p.parseFunction(pred)
	case p.rules.CPUs > 0 && p.take(cpusWord):
		return p.parseCPUs(pred)
	case c == '"' || c == '\'':
		return p.parseString(pred, c)
	case c == '-' || '0' <= c && c <= '9':
		return p.parseNumber(pred)
	}
	return fail("Invalid value (did you forget quotes)?", p.pos)
}

// take consumes a text if it comes next.
func (p *parser) take(text string) bool {
	if !strings.HasPrefix(p.text[p.pos:], text) {
		return false
	}
	p.pos += len(text)
	return true
}

// parseFunction parses the symbol, or an address in it, with which FIELD.function is
// compared: all up to the next blank.
func (p *parser) parseFunction(pred predicate) (predicate, *Error) {
	fail := func(text string, at int) (predicate, *Error) {
		return pred, &Error{text, at + 1, syscall.EINVAL}
	}
	start := p.pos
	if pred.field.source != fromMember || pred.field.Size != 8 {
		return fail("Illegal operation for field type", start)
	}
	if pred.op != "==" && pred.op != "!=" {
		return fail("Invalid operator", start)
	}
	for p.pos < len(p.text) && !kstrtox.IsSpace(p.text[p.pos]) {
		p.pos++
	}
	word := p.text[start:p.pos]
	var addr uint64
	if c := p.at(start); '0' <= c && c <= '9' {
		var err error
		if addr, err = kstrtox.ParseUint(word, 0, math.MaxUint64); err != nil {
			return fail("Invalid value (did you forget quotes)?", p.pos)
		}
	} else if named := p.rules.Symbols.LookupName(word); len(named) > 0 {
		addr = named[0].Addr
	}
	sym, _, ok := p.rules.Symbols.Lookup(addr)
	if !ok {
		return fail("Function not found", p.pos)
	}
	pred.value, pred.size = sym.Addr, sym.Size
	return pred, nil
}

const cpusWord = "CPUS"

// parseCPUs parses what follows CPUS: {LIST}. Of one CPU, the value is its number.
func (p *parser) parseCPUs(pred predicate) (predicate, *Error) {
	fail := func(text string, at int) (predicate, *Error) {
		return pred, &Error{text, at + 1, syscall.EINVAL}
	}
	if pred.field.isText() || pred.op != "==" && pred.op != "!=" && pred.op != "&" {
		return fail("Illegal operation for field type", p.pos-len(cpusWord))
	}
	if !p.take("{") {
		return fail("Missing '{'", p.pos+1)
	}
	n := strings.IndexByte(p.text[p.pos:], '}')
	if n < 0 {
		return fail("Missing '}'", len(p.text))
	}
	list := p.text[p.pos : p.pos+n]
	p.pos += n
	set, ok := kstrtox.ParseList(list, p.rules.CPUs)
	if !ok || list == "" {
		return fail("Invalid cpulist", p.pos)
	}
	p.pos++
	if i := slices.Index(set, true); i >= 0 && !slices.Contains(set[i+1:], true) {
		pred.value = uint64(i)
		if pred.op == "&" {
			pred.op = "=="
		}
		return pred, nil
	}
	pred.cpus = set
	return pred, nil
}

func isWord(c byte) bool {
	return kstrtox.IsAlnum(c) || c == '_'
}

// parseString parses a value in quotes; checkParens has checked that the quotes are
// closed.
func (p *parser) parseString(pred predicate, quote byte) (predicate, *Error) {
	start := p.pos
	switch {
	case pred.op != "==" && pred.op != "!=" && pred.op != "~":
		return pred, &Error{"Illegal operation for field type", start + 1, syscall.EINVAL}
	case !pred.field.isText():
		return pred, &Error{"Expecting numeric field", start + 1, syscall.EINVAL}
	}
	p.pos += 1 + strings.IndexByte(p.text[start+1:], quote)
	value := p.text[start+1 : p.pos]
	if len(value) >= maxOperand {
		return pred, &Error{"Operand too long", p.pos + 1, syscall.EINVAL}
	}
	p.pos++
	pred.match = Exact(value)
	if pred.op == "~" {
		pred.match = NewPattern(value)
	}
	return pred, nil
}

func (p *parser) parseNumber(pred predicate) (predicate, *Error) {
	start := p.pos
	switch {
	case pred.field.isText():
		return pred, &Error{"Expecting string field", start + 1, syscall.EINVAL}
	case pred.op == "~":
		return pred, &Error{"Illegal operation for field type", start + 1, syscall.EINVAL}
	}
	if p.at(p.pos) == '-' {
		p.pos++
	}
	for c := p.at(p.pos); kstrtox.IsAlnum(c); c = p.at(p.pos) {
		p.pos++
	}
	digits := p.text[start:p.pos]
	if len(digits) >= maxNumber {
		return pred, &Error{"Operand too long", p.pos + 1, syscall.EINVAL}
	}
	var err error
	if pred.field.Signed {
		var v int64
		v, err = kstrtox.ParseInt(digits, 0)
		pred.value = uint64(v)
	} else {
		pred.value, err = kstrtox.ParseUint(digits, 0, math.MaxUint64)
	}
	if err != nil {
		return pred, &Error{"Illegal integer value", start + 1, syscall.EINVAL}
	}
	return pred, nil
}

// Fields are the members of an entry by name (field.Members). Besides them a filter may
// name the CPU (CPU, cpu, common_cpu) and the task (COMM, comm).
type Fields map[string]*field.Member

// find returns the field of that name. A member hides the CPU and the task's name.
func (fs Fields) find(name string) (operand, bool) {
	if m := fs[name]; m != nil {
		return operand{fromMember, m.Kind, m.Number}, true
	}
	switch name {
	case "CPU", "cpu", "common_cpu":
		return operand{source: fromCPU, Number: field.Number{Signed: true}}, true
	case "COMM", "comm":
		return operand{source: fromComm}, true
	}
	return operand{}, false
}

package tracing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kstrtox"
)

// eventFilter is event_filter: the text of an event's file filter and, unless the text
// was refused, the parsed filter.
type eventFilter struct {
	text string
	root *filterNode // nil lets all entries pass
}

// filterNode is an operator of a filter (&& or ||) with its operands, or a predicate.
type filterNode struct {
	op       byte // '&', '|', or 0 for a predicate
	not      bool
	operands []*filterNode
	pred     predicate
}

// predicate compares one field of an entry with a value.
type predicate struct {
	field filterField
	op    string
	value uint64
	match stringMatch
}

// filterField is a field that a filter may name: a member of the entry, or the CPU or
// the task's name at the hit.
type filterField struct {
	kind   fieldKind
	offset int
	size   int
	signed bool
}

type fieldKind byte

const (
	memberField fieldKind = iota
	cpuField
	commField
	textField  // a __data_loc
	charField  // a char NAME[SIZE]
	ptrField   // a const char *
	arrayField // any other array, which the kernel cannot compare
)

func (f *filterField) isText() bool {
	return f.kind == commField || f.kind == textField || f.kind == charField || f.kind == ptrField
}

// stringMatch is struct regex: a pattern for strings.
type stringMatch struct {
	kind    matchKind
	pattern string
	not     bool
}

type matchKind byte

const (
	matchFull matchKind = iota
	matchFront
	matchMiddle
	matchEnd
	matchGlob
)

// filterSubject is the hit that a filter is applied to.
type filterSubject struct {
	entry []byte
	cpu   int
	comm  *comm

	// For triggers.
	trap          *abi.Trap
	time          int64 // of the array's clock
	inNanoseconds bool
	pointed       *[maxPointed]byte // buffer for a string that an entry points to
}

// maxPointed is how many bytes of such a string are compared.
const maxPointed = 256

// pid returns the task of the hit.
func (s *filterSubject) pid() int32 { return int32(binary.LittleEndian.Uint32(s.entry[4:])) }

// passes says whether an entry may be recorded. It runs in handler context.
func (f *eventFilter) passes(s *filterSubject) bool {
	return f == nil || f.root == nil || f.root.holds(s)
}

func (n *filterNode) holds(s *filterSubject) bool {
	switch n.op {
	case '&':
		for _, x := range n.operands {
			if !x.holds(s) {
				return n.not
			}
		}
		return !n.not
	case '|':
		for _, x := range n.operands {
			if x.holds(s) {
				return !n.not
			}
		}
		return n.not
	}
	return n.pred.holds(s) != n.not
}

func (p *predicate) holds(s *filterSubject) bool {
	switch p.field.kind {
	case commField:
		return p.match.matches(s.comm[:abi.TaskCommLen-1]) == (p.op != "!=")
	case textField:
		text, n := stringAt(s.entry, p.field.offset)
		text = text[:max(n-1, 0)]
		return p.match.matches(text) == (p.op != "!=")
	case charField:
		room := s.entry[p.field.offset:]
		if p.field.size > 0 { // 0 means the whole string
			room = room[:min(p.field.size, len(room))]
		}
		return p.match.matches(room) == (p.op != "!=")
	case ptrField:
		return p.holdsPointed(s)
	case arrayField:
		return p.op == "!="
	case cpuField:
		return compareSigned(int64(s.cpu), p.op, int64(int32(p.value)))
	case memberField:
	}
	v, want := p.field.load(s.entry), p.field.extend(p.value)
	if p.field.signed {
		return compareSigned(int64(v), p.op, int64(want))
	}
	return compareUnsigned(v, p.op, want)
}

// holdsPointed is filter_pred_pchar: the field is the address of a kernel string. A
// string that cannot be read matches nothing.
func (p *predicate) holdsPointed(s *filterSubject) bool {
	if s.trap == nil || s.pointed == nil {
		return false
	}
	b := s.pointed
	addr := p.field.load(s.entry)
	if addr>>47 == 0 || !readString(s.trap.Mem, addr, b[:]) { // user strings have a type of their own
		return false
	}
	n := bytes.IndexByte(b[:], 0)
	if n < 0 {
		n = len(b)
	}
	return p.match.matches(b[:n]) == (p.op != "!=")
}

// load returns the field of an entry, extended to 64 bits.
func (f *filterField) load(entry []byte) uint64 {
	var b [8]byte
	copy(b[:f.size], entry[f.offset:])
	return f.extend(binary.LittleEndian.Uint64(b[:]))
}

// extend truncates v to the field's size and extends it according to the field's
// signedness.
func (f *filterField) extend(v uint64) uint64 {
	shift := 64 - 8*f.size
	if f.signed {
		return uint64(int64(v<<shift) >> shift)
	}
	return v << shift >> shift
}

func compareSigned(v int64, op string, want int64) bool {
	switch op {
	case "<":
		return v < want
	case "<=":
		return v <= want
	case ">":
		return v > want
	case ">=":
		return v >= want
	}
	return compareUnsigned(uint64(v), op, uint64(want))
}

func compareUnsigned(v uint64, op string, want uint64) bool {
	switch op {
	case "==":
		return v == want
	case "!=":
		return v != want
	case "<":
		return v < want
	case "<=":
		return v <= want
	case ">":
		return v > want
	case ">=":
		return v >= want
	case "&":
		return v&want != 0
	}
	return false
}

// matches compares the text in room with the pattern; room is the whole array, not only
// the text. As in the kernel, a pattern for the end is compared with the end of the
// array, not of the text: for a task's name these are bytes up to the 15th.
func (m *stringMatch) matches(room []byte) bool {
	text := room
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	return m.holds(text, room) != m.not
}

func (m *stringMatch) holds(name, room []byte) bool {
	switch m.kind {
	case matchFront:
		return len(name) >= len(m.pattern) && string(name[:len(m.pattern)]) == m.pattern
	case matchEnd:
		end := len(room)
		return len(m.pattern) <= end && string(room[end-len(m.pattern):]) == m.pattern
	case matchMiddle:
		for i := 0; i+len(m.pattern) <= len(name); i++ {
			if string(name[i:i+len(m.pattern)]) == m.pattern {
				return true
			}
		}
		return false
	case matchGlob:
		return globMatch(m.pattern, name)
	case matchFull:
	}
	return string(name) == m.pattern
}

// newStringMatch is filter_parse_regex: it determines the kind of the pattern after
// "~".
func newStringMatch(pattern string) stringMatch {
	m := stringMatch{}
	pattern, m.not = strings.CutPrefix(pattern, "!")
	inner := strings.TrimSuffix(strings.TrimPrefix(pattern, "*"), "*")
	starts, ends := strings.HasPrefix(pattern, "*"), len(pattern) > 1 && strings.HasSuffix(pattern, "*")
	switch {
	case strings.ContainsAny(inner, `*[?\`):
		m.kind, inner = matchGlob, pattern
	case starts && ends:
		m.kind = matchMiddle
	case starts:
		m.kind = matchEnd
	case ends:
		m.kind = matchFront
	}
	m.pattern = inner
	return m
}

// globMatch is glob_match: "*" matches any text, "?" any byte, "[a-z]" and "[!a-z]" one
// byte in or not in a set, and "\" takes the next byte literally. After a mismatch,
// only the last "*" needs to be tried again.
func globMatch(pattern string, s []byte) bool {
	star, resume := -1, 0
	for p, i := 0, 0; ; {
		if p < len(pattern) && pattern[p] == '*' {
			p++
			star, resume = p, i
			continue
		}
		if p == len(pattern) && i == len(s) {
			return true
		}
		if p < len(pattern) && i < len(s) {
			if n, ok := globByte(pattern[p:], s[i]); ok {
				p, i = p+n, i+1
				continue
			}
		}
		if star < 0 || resume >= len(s) {
			return false
		}
		resume++
		p, i = star, resume
	}
}

// globByte compares one byte with the start of the pattern and returns the length of
// that part of the pattern.
func globByte(pattern string, c byte) (n int, ok bool) {
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		if n, ok, valid := globSet(pattern, c); valid {
			return n, ok
		}
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	}
	return 1, pattern[0] == c
}

// globSet compares c with a set in brackets; valid is false if the bracket is not
// closed.
func globSet(pattern string, c byte) (n int, ok, valid bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '!'
	if not {
		i++
	}
	for first := i; i < len(pattern); {
		if pattern[i] == ']' && i > first {
			return i + 1, ok != not, true
		}
		low, high := pattern[i], pattern[i]
		i++
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			high = pattern[i+1]
			i += 2
		}
		ok = ok || low <= c && c <= high
	}
	return 0, false, false
}

// filterError says why a filter was refused: the text and the column that the file then
// shows, and the errno. For some errors the kernel returns values of its own
// enumeration as errnos.
type filterError struct {
	text  string
	pos   int
	errno syscall.Errno
}

func (e *filterError) Error() string { return fmt.Sprintf("%s at %d: %v", e.text, e.pos, e.errno) }
func (e *filterError) Unwrap() error { return e.errno }

// errorOnly is the text of a refusal for which the kernel gives no reason.
const errorOnly = "Error"

// show is append_filter_err: it returns the text of the file filter after a refusal.
func (e *filterError) show(text string) string {
	if e.text == errorOnly {
		return text + "\nError: (0)\n"
	}
	return fmt.Sprintf("%s\n%s^\nparse_error: %s\n", text, strings.Repeat(" ", min(e.pos, len(text))), e.text)
}

// maxOperand is MAX_FILTER_STR_VAL; maxNumber is the limit for the digits of a number.
const (
	maxOperand = 256
	maxNumber  = 24
)

// parseFilter parses a filter:
//
//	FIELD ==|!=|<|<=|>|>=|& NUMBER
//	FIELD ==|!=|~ "TEXT"
//
// joined by && and ||, grouped by parentheses, each negated by "!".
func parseFilter(text string, fields map[string]filterField) (*filterNode, *filterError) {
	if err := checkParens(text); err != nil {
		return nil, err
	}
	p := &filterParser{text: text, fields: fields}
	n, err := p.parseOr()
	switch {
	case err != nil:
		return nil, err
	case n == nil && p.terms == 0:
		return nil, &filterError{"No filter found", len(text), syscall.EINVAL}
	}
	return n, nil
}

// checkParens is calc_stack: quotes and parentheses must be balanced and not empty. The
// kernel returns its results -1, -2 and -3 as errnos.
func checkParens(text string) *filterError {
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
			return &filterError{"Too few '('", i, syscall.Errno(1)}
		case c == ')':
			open = open[:len(open)-1]
		case !kstrtox.IsSpace(c):
			something = true
		}
	}
	switch {
	case quote >= 0:
		return &filterError{"Missing matching quote", quote, syscall.Errno(3)}
	case len(open) > 0:
		return &filterError{"Too many '('", open[len(open)-1], syscall.Errno(2)}
	case !something:
		return &filterError{errorOnly, 0, syscall.EINVAL}
	}
	return nil
}

// filterParser is predicate_parse and parse_pred over a text whose parentheses are
// balanced. The size of a page limits their nesting.
type filterParser struct {
	text   string
	fields map[string]filterField
	pos    int
	terms  int // number of predicates so far
}

// peek skips blanks and returns the next byte, or 0 at the end.
func (p *filterParser) peek() byte {
	for p.pos < len(p.text) && kstrtox.IsSpace(p.text[p.pos]) {
		p.pos++
	}
	return p.at(p.pos)
}

func (p *filterParser) at(i int) byte {
	if i < len(p.text) {
		return p.text[i]
	}
	return 0
}

// operator consumes "&&" or "||" and says whether it did.
func (p *filterParser) operator(c byte) bool {
	if p.peek() != c || p.at(p.pos+1) != c {
		return false
	}
	p.pos += 2
	return true
}

func (p *filterParser) parseOr() (*filterNode, *filterError) { return p.parseList('|', p.parseAnd) }

func (p *filterParser) parseAnd() (*filterNode, *filterError) { return p.parseList('&', p.parseTerm) }

// parseList parses operands between operators. A text must not end with an operator
// (6.1.192 refuses it; 6.1.176 accepted it).
func (p *filterParser) parseList(op byte, operand func() (*filterNode, *filterError)) (*filterNode, *filterError) {
	list := &filterNode{op: op}
	for {
		n, err := operand()
		if err != nil {
			return nil, err
		}
		switch {
		case n != nil:
			list.operands = append(list.operands, n)
		case p.terms > 0:
			return nil, &filterError{"Meaningless filter expression", len(p.text), syscall.EINVAL}
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
func (p *filterParser) parseTerm() (*filterNode, *filterError) {
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
func (p *filterParser) checkEnd() *filterError {
	c := p.peek()
	if c == 0 || c == ')' || (c == '&' || c == '|') && p.at(p.pos+1) == c {
		return nil
	}
	return &filterError{"Too many terms in predicate expression", p.pos, syscall.Errno(1)}
}

func (p *filterParser) parseOperand() (*filterNode, *filterError) {
	if p.peek() != '(' {
		pred, err := p.parsePredicate()
		p.terms++
		return &filterNode{pred: pred}, err
	}
	p.pos++
	n, err := p.parseOr()
	if err == nil && p.peek() == ')' {
		p.pos++
	}
	return n, err
}

// filterOps are listed in the order in which they are tried.
var filterOps = [...]string{"~", "!=", "==", "<=", "<", ">=", ">", "&"}

// parsePredicate is parse_pred. Its columns count from 1.
func (p *filterParser) parsePredicate() (pred predicate, _ *filterError) {
	fail := func(text string, at int) (predicate, *filterError) {
		return pred, &filterError{text, at + 1, syscall.EINVAL}
	}
	start := p.pos
	for isWord(p.at(p.pos)) {
		p.pos++
	}
	name := p.text[start:p.pos]
	if name == "" {
		return pred, &filterError{errorOnly, 0, syscall.Errno(1)}
	}
	var ok bool
	if pred.field, ok = p.fields[name]; !ok {
		return fail("Field not found", p.pos)
	}
	p.peek()
	i := slices.IndexFunc(filterOps[:], func(op string) bool { return strings.HasPrefix(p.text[p.pos:], op) })
	if i < 0 {
		return fail("Invalid operator", p.pos)
	}
	pred.op = filterOps[i]
	p.pos += len(pred.op)
	switch c := p.peek(); {
	case c == '"' || c == '\'':
		return p.parseString(pred, c)
	case c == '-' || '0' <= c && c <= '9':
		return p.parseNumber(pred)
	}
	return fail("Invalid value (did you forget quotes)?", p.pos)
}

func isWord(c byte) bool {
	return kstrtox.IsAlpha(c) || '0' <= c && c <= '9' || c == '_'
}

// parseString parses a value in quotes; checkParens has checked that the quotes are
// closed.
func (p *filterParser) parseString(pred predicate, quote byte) (predicate, *filterError) {
	start := p.pos
	switch {
	case pred.op != "==" && pred.op != "!=" && pred.op != "~":
		return pred, &filterError{"Illegal operation for field type", start + 1, syscall.EINVAL}
	case !pred.field.isText():
		return pred, &filterError{"Expecting numeric field", start + 1, syscall.EINVAL}
	}
	p.pos += 1 + strings.IndexByte(p.text[start+1:], quote)
	value := p.text[start+1 : p.pos]
	if len(value) >= maxOperand {
		return pred, &filterError{"Operand too long", p.pos + 1, syscall.EINVAL}
	}
	p.pos++
	pred.match = stringMatch{pattern: value}
	if pred.op == "~" {
		pred.match = newStringMatch(value)
	}
	return pred, nil
}

func (p *filterParser) parseNumber(pred predicate) (predicate, *filterError) {
	start := p.pos
	switch {
	case pred.field.isText():
		return pred, &filterError{"Expecting string field", start + 1, syscall.EINVAL}
	case pred.op == "~":
		return pred, &filterError{"Illegal operation for field type", start + 1, syscall.EINVAL}
	}
	if p.at(p.pos) == '-' {
		p.pos++
	}
	for c := p.at(p.pos); isWord(c) && c != '_'; c = p.at(p.pos) {
		p.pos++
	}
	digits := p.text[start:p.pos]
	if len(digits) >= maxNumber {
		return pred, &filterError{"Operand too long", p.pos + 1, syscall.EINVAL}
	}
	var err error
	if pred.field.signed {
		var v int64
		v, err = kstrtox.ParseInt(digits, 0)
		pred.value = uint64(v)
	} else {
		pred.value, err = kstrtox.ParseUint(digits, 0, math.MaxUint64)
	}
	if err != nil {
		return pred, &filterError{"Illegal integer value", start + 1, syscall.EINVAL}
	}
	return pred, nil
}

// filterFields returns the fields that a filter of the event may name.
func (e *Event) filterFields() map[string]filterField {
	fields := map[string]filterField{
		"CPU": {kind: cpuField, signed: true}, "cpu": {kind: cpuField, signed: true}, "common_cpu": {kind: cpuField, signed: true},
		"COMM": {kind: commField}, "comm": {kind: commField},
	}
	for _, f := range append(commonFields[:], e.fields...) {
		kind, name := memberField, f.decl[strings.LastIndexByte(f.decl, ' ')+1:]
		switch {
		case strings.HasPrefix(f.decl, "const char * ") || strings.HasPrefix(f.decl, "char * "):
			kind = ptrField
		case strings.HasPrefix(f.decl, "__data_loc ") && strings.Contains(f.decl, "char"):
			kind = textField
		case strings.HasPrefix(f.decl, "__data_loc "): // of a stack, for example
		case strings.HasSuffix(name, "]"):
			kind = arrayField
			if strings.HasPrefix(strings.TrimPrefix(f.decl, "unsigned "), "char ") {
				kind = charField
			}
			name, _, _ = strings.Cut(name, "[")
		}
		fields[name] = filterField{kind, f.offset, f.size, f.signed}
	}
	return fields
}

// FilterText returns the text of the event's file filter. It fails with ENODEV if the
// event is gone.
func (f *EventFile) FilterText() (string, error) {
	if f.gone.Load() {
		return "", f.goneError()
	}
	if filter := f.filter.Load(); filter != nil {
		return filter.text + "\n", nil
	}
	return "none\n", nil
}

// SetFilter handles a write to the event's file filter; "0" removes the filter. If a
// text is refused, the file shows it with the reason, and all entries pass. It fails
// with EINVAL for a page or more, with ENODEV if the event is gone, and with the
// parser's errnos.
func (f *EventFile) SetFilter(data []byte) error {
	text, err := filterText(data)
	if err != nil {
		return err
	}
	f.tracer.mu.Lock()
	defer f.tracer.mu.Unlock()
	if f.gone.Load() {
		return f.goneError()
	}
	if kstrtox.Strip(text) == "0" {
		f.filter.Store(nil)
		return nil
	}
	root, ferr := parseFilter(text, f.filterFields())
	if ferr != nil {
		f.refuseFilter(text, ferr)
		return fmt.Errorf("filter %q: %w", text, ferr)
	}
	f.filter.Store(&eventFilter{text, root})
	return nil
}

// filterText returns the filter in a write, without trailing blanks.
func filterText(data []byte) (string, error) {
	if len(data) >= abi.PageSize {
		return "", fmt.Errorf("a filter of %d bytes: %w", len(data), syscall.EINVAL)
	}
	text := kstrtox.CString(data)
	for text != "" && kstrtox.IsSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text, nil
}

func (f *EventFile) refuseFilter(text string, err *filterError) {
	f.array.logError("event filter parse error", err.text, text, err.pos)
	f.filter.Store(&eventFilter{text: err.show(text)})
}

// systemFilterText is the constant text of a subsystem's file filter.
const systemFilterText = `### global filter ###
# Use this to set filters for multiple events.
# Only events with the given fields will be affected.
# If no events are modified, an error message will be displayed here
`

// SystemFilterText returns the text of a subsystem's file filter. It fails with ENODEV
// if the subsystem is gone.
func (a *Array) SystemFilterText(name string) (string, error) {
	if _, err := a.SystemEnableText(name); err != nil {
		return "", err
	}
	return systemFilterText, nil
}

// SetSystemFilter handles a write to a subsystem's file filter, which sets the filter
// of each event. The files of events that refuse it show the reason; the write succeeds
// nevertheless. It fails with EINVAL for a page or more, and with ENODEV if the
// subsystem is gone.
func (a *Array) SetSystemFilter(name string, data []byte) error {
	text, err := filterText(data)
	if err != nil {
		return err
	}
	a.tracer.mu.Lock()
	defer a.tracer.mu.Unlock()
	s := a.tracer.subsystems[name]
	if s == nil {
		return fmt.Errorf("subsystem %s is gone: %w", name, syscall.ENODEV)
	}
	for _, e := range s.events {
		if !e.Internal {
			a.files[e].setFromSystem(text)
		}
	}
	return nil
}

func (f *EventFile) setFromSystem(text string) {
	if kstrtox.Strip(text) == "0" {
		f.filter.Store(nil)
		return
	}
	root, err := parseFilter(text, f.filterFields())
	if err != nil {
		f.refuseFilter(text, errBadSubsysFilter)
		return
	}
	f.filter.Store(&eventFilter{text, root})
}

var errBadSubsysFilter = &filterError{"Couldn't find or set field in one of a subsystem's events", 0, syscall.EINVAL}

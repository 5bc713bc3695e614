package filter

import (
	"strings"
	"syscall"
)

// FunctionTerm is a term of a filter of ftrace:function.
type FunctionTerm struct {
	Not   bool     // "ip != ..."
	Words []string // as in set_ftrace_filter
}

// ParseFunctions parses a filter of ftrace:function, as perf_event_open(2) has it:
//
//	ip ==|!= WORDS
//
// with blanks or commas between the words, joined by && and || and grouped as Parse does. The
// kernel takes the terms one by one, whatever joins them; it accepts what could be decided by
// any of them alone ("a || b && c"), and neither "!" nor the rest (TestFunctions).
func (r *Rules) ParseFunctions(text string, fields Fields) ([]FunctionTerm, *Error) {
	var terms []FunctionTerm
	p := &parser{rules: r, text: text, fields: fields, functions: &terms}
	if err := checkParens(text); err != nil {
		return nil, err
	}
	n, err := p.parseOr()
	switch {
	case err != nil:
		return nil, err
	case n == nil || p.wrong || !n.alone(decides, decides):
		return nil, &Error{errorOnly, 0, syscall.EINVAL}
	}
	return terms, nil
}

// Where a filter's evaluation goes on behind a term that holds, or does not.
type way uint8

const (
	decides way = iota // the filter holds, or does not
	next               // to the next term
	further            // to one behind that
)

// alone is is_or for all terms below n: whether a term that is not followed by the next one
// decides.
func (n *node) alone(holds, fails way) bool {
	if n.not {
		return false
	}
	behind := func(w way) way { // of a term that others of the list follow
		if w == next {
			return further
		}
		return w
	}
	for i, o := range n.operands {
		h, f := holds, fails
		switch {
		case i == len(n.operands)-1:
		case n.op == '|':
			h, f = behind(holds), next
		default:
			h, f = next, behind(fails)
		}
		if !o.alone(h, f) {
			return false
		}
	}
	return n.op != 0 || holds != further && fails != further
}

// parseFunctionTerm parses the rest of a predicate of ftrace:function: the value ends where a
// parenthesis is closed, or with & or |. A quote ends nothing, and is left over when there is one.
func (p *parser) parseFunctionTerm(name string, pred predicate) (predicate, *Error) {
	if name != "ip" {
		return pred, &Error{"Only 'ip' field is supported for function trace", p.pos + 1, syscall.EINVAL}
	}
	start, ends := p.pos, ")&|"
	if c := p.at(p.pos); c == '"' || c == '\'' {
		start, ends = p.pos+1, string(c)
	}
	p.pos = len(p.text)
	if n := strings.IndexAny(p.text[start:], ends); n >= 0 {
		p.pos = start + n
	}
	words := strings.Fields(strings.ReplaceAll(p.text[start:p.pos], ",", " "))
	if pred.op != "==" && pred.op != "!=" || len(words) == 0 {
		// It is only looked at when the whole has been parsed.
		p.wrong = true
	}
	*p.functions = append(*p.functions, FunctionTerm{pred.op == "!=", words})
	return pred, nil
}

package vm

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Expression is a call as a user writes it: NAME(ARG, ...). An ARG is
//
//	123, -1, 0x7f, 'c'  a number
//	"text"              a buffer with the text and a NUL, with \n, \x00, \" as in Go
//	{de ad be ef}       a buffer with these bytes
//	[64]                a buffer of 64 bytes that are zero
//	name                the address of the kernel's symbol
type Expression struct {
	Call
	Name string
	text string
	syms Symbols
}

// Symbols finds symbols of the kernel.
type Symbols interface {
	LookupName(name string) []abi.Symbol
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// maxBuffer is how large a buffer of an expression may be, in bytes.
const maxBuffer = 1 << 20

// ParseCall parses an expression. It fails with EINVAL for a wrong one, and with ENOENT for a symbol
// that the kernel does not have.
func ParseCall(text string, syms Symbols) (Expression, error) {
	e := Expression{text: strings.TrimSpace(text), syms: syms}
	name, rest, ok := strings.Cut(e.text, "(")
	rest, closed := strings.CutSuffix(rest, ")")
	e.Name = strings.TrimSpace(name)
	if !ok || !closed || e.Name == "" {
		return e, fmt.Errorf("%q is not FUNCTION(ARGUMENT, ...): %w", text, syscall.EINVAL)
	}
	var err error
	if e.Function, err = symbol(syms, e.Name); err != nil {
		return e, err
	}
	for rest = strings.TrimSpace(rest); rest != ""; {
		var a Arg
		if a, rest, err = argument(rest, syms); err != nil {
			return e, err
		}
		e.Args = append(e.Args, a)
		if rest = strings.TrimSpace(rest); rest == "" {
			break
		}
		after, comma := strings.CutPrefix(rest, ",")
		if rest = strings.TrimSpace(after); !comma || rest == "" {
			return e, fmt.Errorf("%q: a comma and an argument are expected: %w", text, syscall.EINVAL)
		}
	}
	if len(e.Args) > maxArgs {
		return e, fmt.Errorf("%d arguments, where %d are possible: %w", len(e.Args), maxArgs, syscall.EINVAL)
	}
	return e, nil
}

func symbol(syms Symbols, name string) (uint64, error) {
	found := syms.LookupName(name)
	if len(found) == 0 {
		return 0, fmt.Errorf("the kernel has no symbol %q: %w", name, syscall.ENOENT)
	}
	return found[0].Addr, nil
}

// argument parses the argument with which text begins.
func argument(text string, syms Symbols) (a Arg, rest string, err error) {
	bad := func(what string) (Arg, string, error) {
		return Arg{}, "", fmt.Errorf("%q: %s: %w", text, what, syscall.EINVAL)
	}
	switch text[0] {
	case '"', '\'':
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return bad("the quotation does not end, or has a wrong escape")
		}
		s, err := strconv.Unquote(quoted)
		if err != nil {
			return bad("not a text")
		}
		if text[0] == '\'' {
			// strconv takes two quotes with nothing between them.
			r, size := utf8.DecodeRuneInString(s)
			if size == 0 {
				return bad("a character is expected between the quotes")
			}
			return Arg{Value: uint64(r)}, text[len(quoted):], nil
		}
		return Arg{Buffer: append([]byte(s), 0)}, text[len(quoted):], nil
	case '{', '[':
		end := strings.IndexAny(text, "]}")
		if end < 0 || text[end] != text[0]+2 { // in ASCII both pairs are two apart
			return bad("the bracket is not closed")
		}
		b, err := buffer(text[0], text[1:end])
		if err != nil {
			return bad(err.Error())
		}
		return Arg{Buffer: b}, text[end+1:], nil
	}
	word := text
	if i := strings.IndexByte(text, ','); i >= 0 {
		word, rest = text[:i], text[i:]
	}
	word = strings.TrimSpace(word)
	if v, err := strconv.ParseUint(word, 0, 64); err == nil {
		return Arg{Value: v}, rest, nil
	}
	if v, err := strconv.ParseInt(word, 0, 64); err == nil {
		return Arg{Value: uint64(v)}, rest, nil
	}
	v, err := symbol(syms, strings.TrimPrefix(word, "&"))
	return Arg{Value: v}, rest, err
}

// buffer parses what is between brackets.
func buffer(kind byte, text string) ([]byte, error) {
	if kind == '[' {
		n, err := strconv.ParseUint(strings.TrimSpace(text), 0, 64)
		if err != nil || n == 0 || n > maxBuffer {
			return nil, fmt.Errorf("a buffer has 1 to %d bytes", maxBuffer)
		}
		return make([]byte, n), nil
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil || len(b) == 0 {
		return nil, fmt.Errorf("bytes are pairs of hexadecimal digits")
	}
	return b, nil
}

// Show writes the result: the value, and the buffers that have changed.
func (e *Expression) Show(r Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s = %s\n", e.text, e.value(r))
	for i, b := range r.Buffers {
		if b == nil || string(b) == string(e.Args[i].Buffer) {
			continue
		}
		for line := range strings.Lines(hex.Dump(b)) {
			fmt.Fprintf(&out, "  argument %d  %s", i+1, line)
		}
	}
	return out.String()
}

// value writes rax: as a number, and as what it points to.
func (e *Expression) value(r Result) string {
	for i, a := range e.Args {
		if off := r.AX - r.Addrs[i]; a.Buffer != nil && off <= uint64(len(a.Buffer)) {
			return fmt.Sprintf("%#x (argument %d+%d)", r.AX, i+1, off)
		}
	}
	if s, off, ok := e.syms.Lookup(r.AX); ok && r.AX >= abi.TextBase {
		return fmt.Sprintf("%#x (%s+%#x)", r.AX, s.Name, off)
	}
	if r.AX <= math.MaxUint32 && int32(r.AX) < 0 {
		return fmt.Sprintf("%d (%#x, as int %d)", r.AX, r.AX, int32(r.AX))
	}
	return fmt.Sprintf("%d (%#x)", int64(r.AX), r.AX)
}

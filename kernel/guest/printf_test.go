package guest_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
)

// A conversion is one of printf's that Go's fmt has too.
type conversion struct {
	flags            string
	width, precision int // -1 if there is none
	length           string
	verb             byte
}

func (c conversion) String() string {
	s := "%" + c.flags
	if c.width >= 0 {
		s += fmt.Sprint(c.width)
	}
	if c.precision >= 0 {
		s += fmt.Sprintf(".%d", c.precision)
	}
	return s + c.length + string(c.verb)
}

// conversionOf makes a conversion of random numbers. Left out is what is different in C and
// Go: prefixes, signs of unsigned numbers, zeros on the left beside a precision, and 0
// with the precision 0.
func conversionOf(flags, width, precision, form uint8) conversion {
	lengths, verbs := []string{"", "hh", "h", "l", "ll", "z", "L"}, "diuxXo"
	c := conversion{width: -1, precision: -1, length: lengths[int(form)/len(verbs)%len(lengths)], verb: verbs[int(form)%len(verbs)]}
	if width%4 != 0 {
		c.width = int(width)
	}
	if precision%4 != 0 {
		c.precision = 1 + int(precision)%60
	}
	for i, flag := range "-+ 0" {
		signed := c.verb == 'd' || c.verb == 'i'
		if flags>>i&1 != 0 && (signed || flag == '-' || flag == '0') && (flag != '0' || c.precision < 0) {
			c.flags += string(flag)
		}
	}
	return c
}

// want is what Go prints for the conversion of v.
func (c conversion) want(v uint64) string {
	signed := c.verb == 'd' || c.verb == 'i'
	bits := map[string]int{"": 32, "hh": 8, "h": 16}[c.length]
	if bits != 0 {
		v = v << (64 - bits) >> (64 - bits)
		if signed {
			v = uint64(int64(v<<(64-bits)) >> (64 - bits))
		}
	}
	same := c
	same.length = ""
	if c.verb == 'i' || c.verb == 'u' {
		same.verb = 'd'
	}
	if signed {
		return fmt.Sprintf(same.String(), int64(v))
	}
	return fmt.Sprintf(same.String(), v)
}

// FuzzNumbers compares the guest's conversions of numbers with Go's.
func FuzzNumbers(f *testing.F) {
	s := boot(f, 1).scratch()
	for i := range uint8(42) {
		f.Add(i, i*5, i*3, i, uint64(i)*0x123456789abcdef)
	}
	f.Add(uint8(1), uint8(9), uint8(0), uint8(0), uint64(math.MaxUint64))
	f.Add(uint8(8), uint8(30), uint8(0), uint8(18), uint64(1)<<63)
	f.Fuzz(func(t *testing.T, flags, width, precision, form uint8, v uint64) {
		s.t = t
		c := conversionOf(flags, width, precision, form)
		want := c.want(v)
		n := s.call("snprintf", s.a, 400, s.str(s.b, c.String()), v)
		if got := s.string(s.a); got != want || i32(n) != len(want) {
			t.Errorf("%s of %#x is %q (%d), want %q", c, v, got, i32(n), want)
		}
	})
}

// follows has the letters behind %p that follow pointers in what theirs points to, so that
// a format of random letters ends as a null dereference does on Linux.
const follows = "VgCfdDG"

// FuzzFormat gives the guest formats of any letters, and memory of any contents as their
// pointers. The text must end within its buffer.
func FuzzFormat(f *testing.F) {
	s := boot(f, 1).scratch()
	for _, format := range []string{
		"%s %d%%%5.3x|%-*.*s", "%pI6c %pISpfsc %pM %*ph", "%*pbl %*pE %pUb %ptR %pR %pa", "%n%d", "%99999999d%.99999x", "%", "%p4cc%pNF%pe%px%pK",
	} {
		f.Add(format, []byte("contents \x00\x01\xff"), uint16(40))
	}
	f.Fuzz(func(t *testing.T, format string, contents []byte, size uint16) {
		s.t = t
		if len(format) > 200 || len(contents) > 2000 || strings.ContainsAny(format, follows) || strings.Contains(format, "*") || hasLongNumber(format) {
			return // it ends a guest, or takes long, on Linux too
		}
		n := uint64(size % 2000)
		s.put(s.a, bytes.Repeat([]byte{0xa5}, 2100))
		s.put(s.c, append(bytes.Clone(contents), make([]byte, 2100-len(contents))...))
		// A va_list whose arguments are all in memory, more than a format of this length takes.
		list := s.c + 4096
		s.put64(list, 48|48<<32)
		s.put64(list+8, list+32)
		for i := range uint64(200) {
			s.put64(list+32+8*i, s.c)
		}
		length := i32(s.call("vsnprintf", s.a, n, s.str(s.b, strings.ReplaceAll(format, "\x00", "")), list))
		got := make([]byte, 2100)
		if err := s.Mem().ReadAt(s.a, got); err != nil {
			t.Fatal(err)
		}
		if end := bytes.IndexByte(got[:n], 0); n != 0 && end < 0 || length < 0 {
			t.Errorf("%q into %d bytes has no end, or %d as its length", format, n, length)
		}
		if rest := got[n:]; !bytes.Equal(rest, bytes.Repeat([]byte{0xa5}, len(rest))) {
			t.Errorf("%q writes behind its %d bytes", format, n)
		}
	})
}

// hasLongNumber reports whether s has a number of more than 4 digits.
func hasLongNumber(s string) bool {
	run := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			run = 0
		} else if run++; run > 4 {
			return true
		}
	}
	return false
}

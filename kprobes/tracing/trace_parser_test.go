package tracing

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
)

// TestNextWord: what of a write is taken, as set_event took it on Linux.
func TestNextWord(t *testing.T) {
	for _, c := range []struct {
		data, word string
		used       int
		err        error
	}{
		{"a", "a", 1, nil},
		{"a\n", "a", 2, nil},
		{"a b", "a", 2, nil},
		{"a !a\n\n", "a", 2, nil},
		{" \n\ta\r\nb", "a", 5, nil},
		{" b ", "b", 3, nil},
		{"a\x00b", "a", 2, nil},
		{"\x000", "", 1, nil},
		{"", "", 0, nil},
		{"  \n", "", 3, nil},
		{"! a", "!", 2, nil},
		{strings.Repeat("a", 7) + " b", "aaaaaaa", 8, nil},
		{strings.Repeat("a", 8), "", 0, syscall.EINVAL},
	} {
		word, used, err := nextWord([]byte(c.data), 8)
		if word != c.word || used != c.used || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %d, %v; want %q, %d, %v", c.data, word, used, err, c.word, c.used, c.err)
		}
	}
}

// TestParseUintBoth: an overflow is reported before the garbage after the number.
func TestParseUintBoth(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit uint64
		err   error
	}{
		{"18446744073709551616 x", math.MaxUint64, syscall.ERANGE},
		{"18446744073709551615 x", math.MaxUint64, syscall.EINVAL},
		{"300x", 255, syscall.EINVAL},
		{"300", 255, syscall.ERANGE},
		{"0x1ffffffffffffffffg", math.MaxUint64, syscall.ERANGE},
	} {
		if v, err := parseUint(c.text, 0, c.limit); !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v; want %v", c.text, v, err, c.err)
		}
	}
}

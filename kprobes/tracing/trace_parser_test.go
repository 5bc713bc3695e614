package tracing

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// TestNextWord: the words of a write, as set_event on Linux splits it.
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

package tracing

import (
	"fmt"
	"syscall"
)

// nextWord is trace_get_user, for the files that take a list of words: one
// write gives one word, and says how much of the write that was; a program that
// has more writes the rest anew. Blanks in front belong to the word, as does the
// one blank or NUL behind it. "": nothing but blanks, or a NUL. EINVAL: a word
// that does not fit into size bytes with its NUL.
func nextWord(data []byte, size int) (word string, used int, err error) {
	i := 0
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	start := i
	for i < len(data) && !isSpace(data[i]) && data[i] != 0 {
		i++
	}
	if i-start >= size {
		return "", 0, fmt.Errorf("a word of %d bytes: %w", i-start, syscall.EINVAL)
	}
	return string(data[start:i]), min(i+1, len(data)), nil
}

// Package share chooses a part of many things to check, others for each commit.
package share

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
)

// Share chooses one of N things by a text, such as a commit, and each thing's name. It is
// a flag's value, TEXT/N. The zero value chooses all.
type Share struct {
	Text string
	N    uint32
}

// OfCommit returns the share that a commit has of tests, one in n: make says which commit in KPROBEFS_COMMIT. Without one
// it has all.
func OfCommit(n uint32) Share {
	commit := os.Getenv("KPROBEFS_COMMIT")
	if commit == "" {
		return Share{}
	}
	return Share{Text: commit, N: n}
}

// String returns TEXT/N.
func (s *Share) String() string { return fmt.Sprintf("%s/%d", s.Text, s.N) }

// Set takes TEXT/N.
func (s *Share) Set(text string) error {
	before, after, _ := strings.Cut(text, "/")
	n, err := strconv.ParseUint(after, 10, 32)
	if err != nil || n == 0 {
		return errors.New("it is TEXT/N, with N from 1 up")
	}
	s.Text, s.N = before, uint32(n)
	return nil
}

// Has reports whether the thing with this name is chosen.
func (s *Share) Has(name string) bool {
	if s.N < 2 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(s.Text + "/" + name))
	return h.Sum32()%s.N == 0
}

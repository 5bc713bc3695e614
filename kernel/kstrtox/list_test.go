package kstrtox

import (
	"fmt"
	"testing"
)

// TestParseList has what Linux 6.12 takes and refuses with two CPUs, and some with more.
func TestParseList(t *testing.T) {
	for _, c := range []struct {
		list string
		n    int
		want string
	}{
		{"", 2, "[false false]"},
		{",", 2, "[false false]"},
		{"0", 2, "[true false]"},
		{" 1 ,", 2, "[false true]"},
		{"0-1", 2, "[true true]"},
		{"0 1", 2, "[true true]"},
		{"0\t,,1", 2, "[true true]"},
		{"00", 2, "[true false]"},
		{"N-N", 2, "[false true]"},
		{"0-N", 2, "[true true]"},
		{"All", 2, "[true true]"},
		{"all:1/2", 2, "[true false]"},
		{"all:0/2", 2, "[false false]"},
		{"1-7:2/3", 8, "[false true true false true true false true]"},
		{"2", 2, ""},
		{"0-3", 2, ""},
		{"1-0", 2, ""},
		{"0:1/2", 2, ""},
		{"0-1:", 2, ""},
		{"0-1:1/0", 2, ""},
		{"all:2/1", 2, ""},
		{"0-all", 2, ""},
		{"none", 2, ""},
		{"-1", 2, ""},
		{"+0", 2, ""},
		{"0x1", 2, ""},
		{"0--1", 2, ""},
		{"0-1-1", 2, ""},
		{"4294967296", 2, ""},
		{"18446744073709551616", 2, ""},
	} {
		set, ok := ParseList(c.list, c.n)
		if got := fmt.Sprint(set); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q of %d: %s, %v, want %q", c.list, c.n, got, ok, c.want)
		}
	}
}

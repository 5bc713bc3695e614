package main

import (
	"slices"
	"strings"
	"testing"
)

var small = graph{
	".":             {"kprobes", "kernel", "fs"},
	"fs":            {"kprobes", "kernel/abi"},
	"kprobes":       {"kernel/abi"},
	"kernel":        {"kernel/abi"},
	"kernel/abi":    nil,
	"cmd/kprobefs":  {".", "fs"},
	"unknown/thing": nil,
}

func TestUpwards(t *testing.T) {
	if up := small.upwards(); len(up) != 0 {
		t.Errorf("%q", up)
	}
	wrong := graph{"kernel": {"kprobes"}, "kprobes": {"fs"}, "fs": nil}
	if up := wrong.upwards(); !slices.Equal(up, []string{"kernel imports kprobes", "kprobes imports fs"}) {
		t.Errorf("%q", up)
	}
}

// TestDirect: an import that follows from others is not drawn.
func TestDirect(t *testing.T) {
	if got := small.direct("."); !slices.Equal(got, []string{"kernel", "fs"}) {
		t.Errorf("%q", got)
	}
}

// TestDraw: the drawing does not depend on the map's order, and has each package
// once.
func TestDraw(t *testing.T) {
	first := draw(small)
	for range 20 {
		if string(draw(small)) != string(first) {
			t.Fatal("two drawings differ")
		}
	}
	for name := range small {
		if n := strings.Count(string(first), ">"+label(name)+"</text>"); n != 1 {
			t.Errorf("%s is drawn %d times", name, n)
		}
	}
}

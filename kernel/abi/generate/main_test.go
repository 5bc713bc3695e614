package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGenerated: the files that C and Go have are what the tables say.
func TestGenerated(t *testing.T) {
	files, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 5 {
		t.Errorf("%d files", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the tables say: go generate ./kernel/abi", name)
		}
	}
}

// TestOneSource: no number of the table is written elsewhere, neither in the guest's headers nor in
// package abi.
func TestOneSource(t *testing.T) {
	text, err := os.ReadFile("../numbers.txt")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := parseNumbers(string(text))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range groups {
		for _, n := range g.rows {
			names[n.inC], names[n.inGo] = true, true
		}
	}
	delete(names, "")
	if len(names) < 200 {
		t.Errorf("the table has %d names", len(names))
	}
	defined := regexp.MustCompile(`(?m)^(?:#define (\w+) |\t(\w+) += )`)
	for _, pattern := range []string{"../*.go", "../../guest/include/*/*.h", "../../guest/*/*.c", "../../guest/*/*/*.c"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(text, []byte(mark)) {
				continue
			}
			for _, m := range defined.FindAllStringSubmatch(string(text), -1) {
				if name := m[1] + m[2]; names[name] && strings.Contains(name, "") {
					t.Errorf("%s defines %s, which is in numbers.txt", file, name)
				}
			}
		}
	}
}

// TestBadTables: a row that means nothing is refused.
func TestBadTables(t *testing.T) {
	for _, text := range []string{"x\n\n# g\nA B\n", "x\n\n# g\nA B many\n", "x\n\nA B 1\n"} {
		if g, err := parseNumbers(text); err == nil {
			t.Errorf("%q: %v", text, g)
		}
	}
	for _, text := range []string{"read 0\n", "0\n", "99999 far\n"} {
		if c, err := parseCalls(text); err == nil {
			t.Errorf("%q: %v", text, c)
		}
	}
}

package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// syscallNames returns the names of the guest's system calls by number.
func syscallNames(t *testing.T) map[uint64]string {
	t.Helper()
	b, err := os.ReadFile("../../kernel/guest/include/asm/syscalls_64.h")
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64]string{}
	for _, m := range regexp.MustCompile(`__SYSCALL\((\d+), sys_(\w+)\)`).FindAllStringSubmatch(string(b), -1) {
		nr, _ := strconv.ParseUint(m[1], 10, 64)
		names[nr] = m[2]
	}
	return names
}

// TestMirroredCallsList: the document lists the calls that are mirrored, and the guest has
// each of them.
func TestMirroredCallsList(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/mirrored-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(b)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && !strings.Contains(cells[2], "-") && cells[2] != " calls " {
			listed = append(listed, strings.Fields(cells[2])...)
		}
	}
	names := syscallNames(t)
	var want []string
	for _, nr := range mirroredNumbers() {
		if names[nr] == "" {
			t.Errorf("the guest has no call %d", nr)
		}
		want = append(want, names[nr])
	}
	slices.Sort(listed)
	slices.Sort(want)
	if !slices.Equal(listed, want) {
		t.Errorf("listed: %q\nmirrored: %q", listed, want)
	}
}

package calls

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// syscallNames returns the names of the guest's system calls by number.
func syscallNames(t *testing.T) map[uint64]string {
	t.Helper()
	b, err := os.ReadFile("../../../kernel/guest/include/asm/syscalls_64.h")
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
	b, err := os.ReadFile("../../../docs/reference/mirrored-calls.md")
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
	for _, nr := range Numbers() {
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

// TestEachCallIsListed: each number of the x86-64 table is mirrored, or the document says how
// the call is seen, or why not.
func TestEachCallIsListed(t *testing.T) {
	const lastOf612 = 462 // mseal
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Skip("no go command to find the list of numbers: ", err)
	}
	table, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "unix/zsysnum_linux_amd64.go"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../../docs/reference/mirrored-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]int{}
	for line := range strings.Lines(string(doc)) {
		for _, cell := range strings.Split(line, "|") {
			if words := strings.Fields(cell); strings.HasPrefix(line, "| ") && !strings.ContainsAny(cell, ",.:;`") {
				for _, w := range words {
					listed[w]++
				}
			}
		}
	}
	names := syscallNames(t)
	n := 0
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s*= (\d+)`).FindAllStringSubmatch(string(table), -1) {
		nr, _ := strconv.ParseUint(m[2], 10, 64)
		if nr > lastOf612 {
			continue
		}
		n++
		name := names[nr] // the guest's, which is that of Linux's function
		if name == "" {
			name = strings.ToLower(m[1])
		}
		if listed[name] == 0 {
			t.Errorf("%s (%d) is not in the document", name, nr)
		}
		mirrored := slices.Contains(Numbers(), nr)
		if mirrored && names[nr] == "" {
			t.Errorf("the guest has no call %d", nr)
		}
	}
	if n < 370 {
		t.Errorf("%d numbers in the table", n)
	}
}

// TestEachCallOnce: no number is in two rows.
func TestEachCallOnce(t *testing.T) {
	if len(Rows) != len(table) {
		t.Errorf("%d numbers in %d rows", len(Rows), len(table))
	}
}

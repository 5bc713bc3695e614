package calls

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// update is what "make mirrored-calls" sets.
var update = flag.Bool("update", false, "write the page instead of comparing it")

const page = "../../../docs/reference/mirrored-calls.md"

// listed returns the page with the lists that follow from the table: a line for each subject, and no call that is
// mirrored among those that are not.
func listed(text string, names map[uint64]string) string {
	const head = "| what for | calls |\n| --- | --- |\n"
	before, rest, _ := strings.Cut(text, head)
	_, after, _ := strings.Cut(rest, "\n\n")
	bySubject := map[Subject][]uint64{}
	mirrored := map[string]bool{}
	for _, c := range table {
		bySubject[c.For] = append(bySubject[c.For], c.Guest)
		mirrored[names[c.Guest]] = c.For != 0
	}
	var lists, others strings.Builder
	for s, text := range subjects[1:] {
		calls := bySubject[Subject(1+s)]
		slices.Sort(calls)
		fmt.Fprintf(&lists, "| %s |", text)
		for _, nr := range calls {
			lists.WriteString(" " + names[nr])
		}
		lists.WriteString(" |\n")
	}
	for line := range strings.Lines(after) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || cells[2] == " calls " || strings.Contains(cells[2], "-") {
			others.WriteString(line)
			continue
		}
		calls := slices.DeleteFunc(strings.Fields(cells[2]), func(name string) bool { return mirrored[name] })
		if cells[2] = " " + strings.Join(calls, " ") + " "; len(calls) > 0 {
			others.WriteString(strings.Join(cells, "|"))
		}
	}
	return before + head + lists.String() + "\n" + others.String()
}

// TestMirroredCallsList: the document lists the calls that are mirrored, the guest has each of them, and each has a
// line that it belongs to.
func TestMirroredCallsList(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	names := syscallNames(t)
	for _, c := range table {
		if names[c.Guest] == "" {
			t.Errorf("the guest has no call %d", c.Guest)
		}
		if (c.For == 0) != (c.By == Supervisor) {
			t.Errorf("%s: what it is for is %d", names[c.Guest], c.For)
		}
	}
	want := listed(string(b), names)
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("%s is not what the table says; make mirrored-calls writes it:\n%s", page, diff)
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
	doc, err := os.ReadFile(page)
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
		name := names[nr] // the guest's, which Linux's function has
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

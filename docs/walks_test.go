package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	walkStart = regexp.MustCompile(`(?m)^<!-- walk(?:: at most (\d+))? -->$`)
	walkHop   = regexp.MustCompile("(?m)^\\d+\\. `([^`]+)` `(\\w+)`")
)

// TestWalks: each step of the walks in architecture.md names a file and a function
// that is defined there, and a walk is not longer than its comment says.
func TestWalks(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	starts := walkStart.FindAllSubmatchIndex(page, -1)
	if len(starts) != 3 {
		t.Fatalf("%d walks, want 3", len(starts))
	}
	for _, at := range starts {
		text := string(page[at[1]:])
		text, _, _ = strings.Cut(strings.TrimSpace(text), "\n\n")
		hops := walkHop.FindAllStringSubmatch(text, -1)
		if len(hops) < 10 || len(hops) != strings.Count(text, "\n")+1 {
			t.Errorf("%d steps in %d lines", len(hops), strings.Count(text, "\n")+1)
		}
		if at[2] >= 0 {
			if most, _ := strconv.Atoi(string(page[at[2]:at[3]])); len(hops) > most {
				t.Errorf("%d steps, at most %d", len(hops), most)
			}
		}
		for _, hop := range hops {
			if err := defines(hop[1], hop[2]); err != nil {
				t.Error(err)
			}
		}
	}
}

// defines returns nil if a file of the project defines a function, in Go, C or
// assembly.
func defines(file, name string) error {
	b, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		return err
	}
	form := `(?m)^func (?:\([^)]*\) )?` + name + `\b`
	switch filepath.Ext(file) {
	case ".c":
		form = `(?m)^(?:[\w *]*\b)?` + name + `\(|^SYSCALL_DEFINE\d\(` + name
	case ".S":
		form = `(?m)^SYM_FUNC_START ` + name + `$`
	}
	if !regexp.MustCompile(form).Match(b) {
		return &missing{file, name}
	}
	return nil
}

type missing struct{ file, name string }

func (m *missing) Error() string { return m.file + " defines no " + m.name }

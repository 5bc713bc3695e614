package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	walkStart = regexp.MustCompile(`(?m)^<!-- walk: at most (\d+) steps, (\d+) changes of package, (\d+) of part -->$`)
	walkHop   = regexp.MustCompile("(?m)^\\d+\\. `([^`]+)` `(\\w+)`")
)

// TestWalks: each step of the walks in architecture.md names a file and a function
// that is defined there, and a walk has as many steps and changes of room as its comment allows.
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
		for i, is := range []struct {
			what string
			n    int
		}{{"steps", len(hops)}, {"changes of package", changes(hops, roomOf)}, {"changes of part", changes(hops, partOf)}} {
			if most, _ := strconv.Atoi(string(page[at[2+2*i]:at[3+2*i]])); is.n > most {
				t.Errorf("%s: %d %s, at most %d", hops[0][2], is.n, is.what, most)
			}
		}
		for _, hop := range hops {
			if err := defines(hop[1], hop[2]); err != nil {
				t.Error(err)
			}
		}
	}
}

// changes counts the steps that are in another room than the one before.
func changes(hops [][]string, room func(file string) string) (n int) {
	for i := 1; i < len(hops); i++ {
		if room(hops[i][1]) != room(hops[i-1][1]) {
			n++
		}
	}
	return n
}

// guestDir is where the guest's source is, which is one package of the map.
const guestDir = "kernel/guest"

// roomOf returns the package of the map that a file belongs to.
func roomOf(file string) string {
	if strings.HasPrefix(file, guestDir+"/") {
		return guestDir
	}
	return path.Dir(file)
}

// partOf returns the part of the program that a file belongs to, as architecture.md lists them.
func partOf(file string) string {
	dir := path.Dir(file)
	for _, part := range []struct{ name, dirs string }{
		{"the machine", "kernel"}, {"probes", "kprobes optimizer"}, {"files", "fs sysctl"}, {"exec", "internal/exec"},
	} {
		for _, d := range strings.Fields(part.dirs) {
			if dir == d || strings.HasPrefix(dir, d+"/") {
				return part.name
			}
		}
	}
	return dir
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

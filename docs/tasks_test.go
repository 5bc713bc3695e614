package docs

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// How many files CONTRIBUTING.md lets a task have.
const (
	taskFiles  = 4
	widerFiles = 8 // what a task of widerTasks has
)

// widerTasks are the tasks that touch several parts of the program.
var widerTasks = []string{"a tracepoint", "a release"}

// TestTasks: no task of CONTRIBUTING.md's table needs more files than that. That the files which it names are there is
// TestFilesNamed's.
func TestTasks(t *testing.T) {
	b, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(b), "| you add | files | where |\n|---|---|---|\n")
	if !found {
		t.Fatal("no table of tasks")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	tasks := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			t.Fatalf("%d cells: %s", len(cells), line)
		}
		tasks++
		task := strings.TrimSpace(cells[1])
		words := strings.Fields(cells[2]) // "3 or 4"
		n, err := strconv.Atoi(words[len(words)-1])
		if err != nil {
			t.Errorf("%s: %v", task, err)
		}
		most := taskFiles
		if slices.Contains(widerTasks, task) {
			most = widerFiles
		}
		if n > most {
			t.Errorf("%s: %d files, at most %d", task, n, most)
		}
	}
	if tasks < 10 {
		t.Errorf("%d tasks", tasks)
	}
}

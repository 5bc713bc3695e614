package knobs

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Cell identifies the calls of one name in a case on a file.
type Cell struct{ File, Case, Call string }

// String returns the cell as docs/reference/differences.md writes it.
func (c Cell) String() string { return c.File + " | " + c.Case + " | " + c.Call }

// Table holds the results of each cell.
type Table struct {
	Results map[Cell][]string
	Order   []Cell // in order of occurrence
}

// Parse parses the output of Record.
func Parse(r io.Reader) (*Table, error) {
	t := &Table{Results: map[Cell][]string{}}
	var at Cell
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		file, isFile := strings.CutPrefix(line, "== ")
		row, isRow := strings.CutPrefix(line, "\t")
		switch {
		case isFile:
			at = Cell{File: file}
		case !isRow:
			at.Case = line
		default:
			call, result, ok := strings.Cut(row, "\t")
			if !ok || at.File == "" || at.Case == "" {
				return nil, fmt.Errorf("table: %q", line)
			}
			at.Call = call
			t.add(at, result)
		}
	}
	return t, lines.Err()
}

func (t *Table) add(c Cell, result string) {
	if t.Results[c] == nil {
		t.Order = append(t.Order, c)
	}
	t.Results[c] = append(t.Results[c], result)
}

// Differ returns the cells of t that got lacks, or has with other results.
func (t *Table) Differ(got *Table) []Cell {
	var list []Cell
	for _, c := range t.Order {
		if !slices.Equal(t.Results[c], got.Results[c]) {
			list = append(list, c)
		}
	}
	return list
}

// Package source finds the lines of C that instructions were compiled from, in debug information (DWARF):
// of the kernel in its file, of modules in the objects that were loaded. It adds them to functions of
// package look.
//
// Whether the file is of the kernel that runs is seen from each function's address: one at another
// address has no lines. Where the text of lines is read is said by who asks (Finder), since an object may
// name any file.
package source

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Bounds of what is read: files may be anything.
const (
	mostLines  = 4 << 20 // of a kernel: entries of its table
	mostFile   = 4 << 20 // bytes of a source file
	mostLength = 200     // characters of a line that is shown
)

var errNoLines = errors.New("it has no debug information (DWARF): build it with -g")

// Finder reads a source by the name that the compiler has noted, or returns nil. It also returns the name
// that is shown.
type Finder func(name string) (text []byte, short string)

// table has the lines of a kernel or of a module, and where its functions are.
type table struct {
	functions map[string][]uint64
	rows      []row // by address
	names     []string

	find  Finder
	mu    sync.Mutex
	files map[int]file // sources that were looked for
}

// row says that instructions from an address on are of a line. A line of 0 is none.
type row struct {
	addr uint64
	file int32 // in names
	line int32
}

// file is a source.
type file struct {
	short string
	lines [][]byte // nil if it was not found
}

// bounds limit the reading of debug information.
type bounds struct {
	lines int       // at most
	bytes int       // that all entries have at least, or 0 if the file is trusted
	until time.Time // if it is not
}

var (
	errDamaged = errors.New("the debug information is damaged")
	errLong    = errors.New("reading the debug information takes too long")
)

func (b bounds) passed() bool { return !b.until.IsZero() && time.Now().After(b.until) }

// read reads the lines of all units.
func (t *table) read(d *dwarf.Data, b bounds) error {
	numbers, seen := map[string]int32{}, map[int64]bool{}
	r := d.Reader()
	for entries := 0; ; entries++ {
		unit, err := r.Next()
		switch {
		case err != nil || unit == nil:
			slices.SortStableFunc(t.rows, func(a, b row) int { return cmp.Compare(a.addr, b.addr) })
			return err
		case b.bytes > 0 && entries > b.bytes: // the same again and again
			return errDamaged
		case b.passed():
			return errLong
		case unit.Tag != dwarf.TagCompileUnit && unit.Tag != dwarf.TagPartialUnit:
			continue
		}
		if b.bytes == 0 { // else the way to the next unit may be made one in a circle
			r.SkipChildren()
		}
		offset, ok := unit.Val(dwarf.AttrStmtList).(int64)
		if !ok || seen[offset] {
			continue
		}
		seen[offset] = true
		lines, err := d.LineReader(unit)
		if err == nil && lines != nil {
			err = t.readUnit(lines, numbers, b)
		}
		if err != nil {
			return err
		}
	}
}

// readUnit reads the lines of a unit. numbers are the names'.
func (t *table) readUnit(lines *dwarf.LineReader, numbers map[string]int32, b bounds) error {
	for {
		var e dwarf.LineEntry
		if err := lines.Next(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		x := row{addr: e.Address}
		if !e.EndSequence && e.File != nil {
			n, known := numbers[e.File.Name]
			if !known {
				n = int32(len(t.names))
				numbers[e.File.Name], t.names = n, append(t.names, e.File.Name)
			}
			x.file, x.line = n, int32(e.Line)
		}
		switch t.rows = append(t.rows, x); {
		case len(t.rows) > b.lines:
			return fmt.Errorf("it has more than %d lines", b.lines)
		case len(t.rows)%1024 == 0 && b.passed():
			return errLong
		}
	}
}

// at returns the line of an address.
func (t *table) at(addr uint64) (r row, ok bool) {
	i, _ := slices.BinarySearchFunc(t.rows, addr+1, func(r row, addr uint64) int { return cmp.Compare(r.addr, addr) })
	if i == 0 {
		return r, false
	}
	r = t.rows[i-1]
	return r, r.line > 0
}

// add gives a function's instructions their lines: those at which another line begins. It reports whether
// the function is this one.
func (t *table) add(f look.Function) bool {
	if len(f.Instructions) == 0 {
		return false
	}
	begin, err := strconv.ParseUint(f.Instructions[0].Address, 16, 64)
	if err != nil || !slices.Contains(t.functions[f.Name], begin) {
		return false
	}
	var last row
	found := false
	for i := range f.Instructions {
		in := &f.Instructions[i]
		r, ok := t.at(begin + in.Offset)
		if ok && (r.file != last.file || r.line != last.line) {
			in.Source = t.source(int(r.file), int(r.line))
			found = true
		}
		last = r
	}
	return found
}

// source returns a line. Its text is "" if the source is not found.
func (t *table) source(of, line int) *look.Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, read := t.files[of]
	if !read {
		text, short := t.find(t.names[of])
		f.short = short
		if text != nil {
			f.lines = bytes.Split(text, []byte{'\n'})
		}
		t.files[of] = f
	}
	s := &look.Source{File: f.short, Line: line}
	if line <= len(f.lines) {
		s.Text = strings.ToValidUTF8(strings.TrimSpace(string(f.lines[line-1])), "?")
	}
	if len(s.Text) > mostLength {
		s.Text = strings.ToValidUTF8(s.Text[:mostLength], "") + "..."
	}
	return s
}

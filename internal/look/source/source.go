// Package source finds the lines of C that instructions were compiled from, in the debug information
// (DWARF) of a kernel's file. It adds them to functions of package look.
//
// Whether the file is of the kernel that runs is seen from each function's address: one at another
// address has no lines. Modules have none either. Their text is shown where the sources are found: by
// the names that the compiler has noted, or in one of the directories above the file.
package source

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Bounds of what is read: files may be anything.
const (
	mostLines  = 4 << 20 // of a kernel: entries of its table
	mostFile   = 4 << 20 // bytes of a source file
	mostLength = 200     // characters of a line that is shown
)

// Kernel has the lines of a kernel's file.
type Kernel struct {
	near      string // where the file is
	functions map[string]uint64
	rows      []row // by address
	names     []string

	mu    sync.Mutex
	files map[int][][]byte // lines of sources that were read; nil if they are not there
}

// row says that instructions from an address on are of a line. A line of 0 is none.
type row struct {
	addr uint64
	file int32 // in names
	line int32
}

// Open reads the debug information of a kernel's file.
func Open(name string) (*Kernel, error) {
	f, err := elf.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	k := &Kernel{near: filepath.Dir(abs), functions: map[string]uint64{}, files: map[int][][]byte{}}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			k.functions[s.Name] = s.Value
		}
	}
	if err := k.readFrom(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

var errNoLines = errors.New("it has no debug information (DWARF): build it with -g")

func (k *Kernel) readFrom(f *elf.File) error {
	if f.Section(".debug_line") == nil && f.Section(".zdebug_line") == nil {
		return errNoLines
	}
	d, err := f.DWARF()
	if err != nil {
		return err
	}
	if err := k.read(d); err != nil {
		return err
	}
	if len(k.rows) == 0 {
		return errNoLines
	}
	return nil
}

// read reads the tables of lines of all units.
func (k *Kernel) read(d *dwarf.Data) error {
	numbers := map[string]int32{}
	r := d.Reader()
	for {
		unit, err := r.Next()
		if err != nil || unit == nil {
			slices.SortStableFunc(k.rows, func(a, b row) int { return cmp.Compare(a.addr, b.addr) })
			return err
		}
		r.SkipChildren()
		lines, err := d.LineReader(unit)
		if err != nil {
			return err
		}
		if lines == nil {
			continue
		}
		for {
			var e dwarf.LineEntry
			if err := lines.Next(&e); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return err
			}
			x := row{addr: e.Address}
			if !e.EndSequence && e.File != nil {
				n, known := numbers[e.File.Name]
				if !known {
					n = int32(len(k.names))
					numbers[e.File.Name], k.names = n, append(k.names, e.File.Name)
				}
				x.file, x.line = n, int32(e.Line)
			}
			if k.rows = append(k.rows, x); len(k.rows) > mostLines {
				return fmt.Errorf("it has more than %d lines", mostLines)
			}
		}
	}
}

// at returns the line of an address.
func (k *Kernel) at(addr uint64) (r row, ok bool) {
	i, _ := slices.BinarySearchFunc(k.rows, addr+1, func(r row, addr uint64) int { return cmp.Compare(r.addr, addr) })
	if i == 0 {
		return r, false
	}
	r = k.rows[i-1]
	return r, r.line > 0
}

// Add gives instructions of functions their lines: those at which another line begins. It returns how
// many functions have lines now.
func (k *Kernel) Add(functions []look.Function) (n int) {
	for _, f := range functions {
		if f.Module != "" || len(f.Instructions) == 0 {
			continue
		}
		begin, err := strconv.ParseUint(f.Instructions[0].Address, 16, 64)
		if at := k.functions[f.Name]; err != nil || at == 0 || at != begin {
			continue
		}
		n++
		var last row
		for i := range f.Instructions {
			in := &f.Instructions[i]
			r, ok := k.at(begin + in.Offset)
			if ok && (r.file != last.file || r.line != last.line) {
				in.Source = &look.Source{File: k.short(int(r.file)), Line: int(r.line), Text: k.text(int(r.file), int(r.line))}
			}
			last = r
		}
	}
	return n
}

// short returns a source's name as it is below the directories that the file is in.
func (k *Kernel) short(file int) string {
	name := k.names[file]
	for dir := k.near; dir != "/"; dir = filepath.Dir(dir) {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			return rest
		}
	}
	return name
}

// text returns a line of a source, or "" if it is not found.
func (k *Kernel) text(file, line int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	lines, read := k.files[file]
	if !read {
		lines = k.find(k.names[file])
		k.files[file] = lines
	}
	if line > len(lines) {
		return ""
	}
	text := strings.ToValidUTF8(strings.TrimSpace(string(lines[line-1])), "?")
	if len(text) > mostLength {
		text = strings.ToValidUTF8(text[:mostLength], "") + "..."
	}
	return text
}

// find reads a source.
func (k *Kernel) find(name string) [][]byte {
	places := []string{name}
	if !filepath.IsAbs(name) {
		places = nil
		for dir := k.near; ; dir = filepath.Dir(dir) {
			places = append(places, filepath.Join(dir, name))
			if dir == "/" {
				break
			}
		}
	}
	for _, place := range places {
		if info, err := os.Stat(place); err != nil || !info.Mode().IsRegular() || info.Size() > mostFile {
			continue
		}
		if b, err := os.ReadFile(place); err == nil {
			return bytes.Split(b, []byte{'\n'})
		}
	}
	return nil
}

package source

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Kernel has the lines of a kernel's file.
type Kernel struct{ table }

// Open reads the debug information of a kernel's file. Its sources are found by the names that the
// compiler has noted, or in one of the directories above the file.
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
	k := &Kernel{table{functions: map[string][]uint64{}, files: map[int]file{}, find: above(filepath.Dir(abs))}}
	symbols, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			k.functions[s.Name] = append(k.functions[s.Name], s.Value)
		}
	}
	if err := k.readFrom(f); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

func (k *Kernel) readFrom(f *elf.File) error {
	if f.Section(".debug_line") == nil && f.Section(".zdebug_line") == nil {
		return errNoLines
	}
	d, err := f.DWARF()
	if err != nil {
		return err
	}
	if err := k.read(d, bounds{lines: mostLines}); err != nil {
		return err
	}
	if len(k.rows) == 0 {
		return errNoLines
	}
	return nil
}

// Add gives instructions of the kernel's functions their lines. It returns how many functions have lines
// now.
func (k *Kernel) Add(functions []look.Function) (n int) {
	for _, f := range functions {
		if f.Module == "" && k.add(f) {
			n++
		}
	}
	return n
}

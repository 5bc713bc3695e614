package source

import (
	"errors"
	"os"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Lines has the lines of a kernel, if its file is known, and of its modules.
type Lines struct {
	kernel  *Kernel
	modules *Modules
}

// New reads what is named: a kernel's file with debug information, and directories with sources of modules.
// find makes the Finder of the directories.
func New(names []string, find func(dirs []string) Finder) (*Lines, error) {
	l, dirs := &Lines{}, []string(nil)
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			dirs = append(dirs, name)
			continue
		case l.kernel != nil:
			return nil, errTwo
		}
		if l.kernel, err = Open(name); err != nil {
			return nil, err
		}
	}
	l.modules = NewModules(find(dirs))
	return l, nil
}

var errTwo = errors.New("two files are named, but there is one kernel: name directories for modules")

// Add gives instructions of functions their lines; read reads the files of the tree that they are from. It
// returns how many functions have lines now.
func (l *Lines) Add(read look.ReadFile, functions []look.Function) (n int) {
	if l.kernel != nil {
		n = l.kernel.Add(functions)
	}
	return n + l.modules.Add(read, functions)
}

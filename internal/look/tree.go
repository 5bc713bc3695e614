package look

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files returns a ReadFile for a tree that is mounted at a directory.
func Files(tree string) ReadFile {
	return func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(tree, name)) }
}

// FunctionNames returns the names of a mounted tree's functions that begin with a prefix.
func FunctionNames(tree, prefix string) ([]string, error) {
	d, err := os.Open(filepath.Join(tree, "machine/text"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	slices.Sort(names)
	return names, err
}

// CheckTraceOptions fails if a mounted tree's trace has not the format that is read here. The error
// says how to change that.
func CheckTraceOptions(tree string) error {
	option, off, err := OtherFormat(Files(tree))
	if err != nil || option == "" {
		return err
	}
	return fmt.Errorf("the trace has another format, because of the option %s; echo %s > %s", option, off, filepath.Join(tree, "tracing/trace_options"))
}

// Trace reads the entries that are in a mounted tree's tracing/trace at the start, and returns the
// latest limit of them. Reading can be traced itself, so what is added meanwhile is left out.
func Trace(tree string, limit int) ([]Entry, error) {
	if err := CheckTraceOptions(tree); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(tree, "tracing/trace"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return latest(f, limit)
}

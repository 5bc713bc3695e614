package source

import (
	"io"
	"os"
	"path/filepath"
	"strings"
)

// above finds sources of relative names in a directory and those above it, and others where they say.
func above(near string) Finder {
	return func(name string) ([]byte, string) {
		short := name
		places := []string{name}
		if !filepath.IsAbs(name) {
			places = nil
		}
		for dir := near; ; dir = filepath.Dir(dir) {
			if rest, ok := strings.CutPrefix(name, dir+"/"); ok && short == name {
				short = rest
			}
			if !filepath.IsAbs(name) {
				places = append(places, filepath.Join(dir, name))
			}
			if dir == "/" {
				break
			}
		}
		for _, place := range places {
			if b := readSource(os.Open, place); b != nil {
				return b, short
			}
		}
		return nil, short
	}
}

// Anywhere finds a source where its name says. It is for who reads with a user's own rights what only that
// user sees.
func Anywhere(name string) ([]byte, string) {
	if !filepath.IsAbs(name) {
		return nil, name
	}
	return readSource(os.Open, name), name
}

// Within finds sources in directories, and nowhere else, whatever their names or links in there say: under
// the longest end of the name that is there, as the sources may have been elsewhere when they were compiled.
func Within(dirs []string) Finder {
	return func(name string) ([]byte, string) {
		for _, dir := range dirs {
			root, err := os.OpenRoot(dir)
			if err != nil {
				continue
			}
			b, short := endOf(root, dir, name)
			_ = root.Close()
			if b != nil {
				return b, short
			}
		}
		return nil, name
	}
}

// endOf reads the longest end of a name that is in a directory.
func endOf(root *os.Root, dir, name string) ([]byte, string) {
	rest, within := strings.CutPrefix(name, dir+"/")
	rest = strings.TrimLeft(rest, "/")
	for {
		if b := readSource(root.Open, rest); b != nil {
			return b, rest
		}
		_, after, more := strings.Cut(rest, "/")
		if within || !more {
			return nil, name
		}
		rest = after
	}
}

// readSource reads a regular file, or returns nil.
func readSource(open func(string) (*os.File, error), name string) []byte {
	f, err := open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > mostFile {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(f, mostFile))
	if err != nil {
		return nil
	}
	return b
}

package proc

import (
	"errors"
	"strconv"
	"strings"
)

// Mapping is a line of /proc/TID/maps.
type Mapping struct {
	Start, End, Offset uint64
	Perms              string // rwxp, or s for a shared one
	Dev                string // of the file, as the host's kernel writes it
	Ino                uint64 // 0 if there is no file
	Path               string
}

// ParseMapping parses a line of /proc/TID/maps. It returns false for other lines.
func ParseMapping(line string) (m Mapping, ok bool) {
	f := strings.Fields(line) // start-end perms offset dev inode path
	if len(f) < 5 || len(f[1]) != 4 {
		return m, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	var errs [4]error
	m.Start, errs[0] = strconv.ParseUint(from, 16, 64)
	m.End, errs[1] = strconv.ParseUint(to, 16, 64)
	m.Offset, errs[2] = strconv.ParseUint(f[2], 16, 64)
	m.Perms, m.Dev = f[1], f[3]
	m.Ino, errs[3] = strconv.ParseUint(f[4], 10, 64)
	if len(f) > 5 { // a path may have blanks
		path := strings.TrimSuffix(line, "\n")
		for _, field := range f[:5] {
			path = strings.TrimPrefix(strings.TrimLeft(path, " "), field)
		}
		m.Path = strings.TrimLeft(path, " ")
	}
	return m, errors.Join(errs[:]...) == nil
}

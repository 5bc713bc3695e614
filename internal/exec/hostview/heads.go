package hostview

import (
	"bytes"
	"syscall"

	"golang.org/x/sys/unix"
)

// Heads returns the beginnings of a program and of its chain of interpreters, and the
// error of the first that cannot be read. It does not read files of ours: they are not
// programs, and reading one would be a request that the guest sees.
func Heads(tid int, path string, ours []string) (all [][]byte, err error) {
	for range 4 {
		if Below(path, ours) {
			return all, syscall.EACCES
		}
		head, err := Head(path)
		if err != nil {
			return all, err
		}
		all = append(all, head)
		line, ok := bytes.CutPrefix(head, []byte("#!"))
		if !ok {
			break
		}
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := bytes.Fields(line)
		if len(words) == 0 {
			break
		}
		path, _ = View{}.Path(tid, FileName{Dir: unix.AT_FDCWD, Text: string(words[0])}, ours)
	}
	return all, nil
}

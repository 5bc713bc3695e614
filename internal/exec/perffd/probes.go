package perffd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/sysfs"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kprobes/tracing/dynevent"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// perfProbe returns the probe that an attr for a device of PerfTypes describes. Its strings are in
// the memory of the thread tid; a function's name has less than most bytes.
func perfProbe(tid int, pmu string, a *perf.Attr, most int) (dynevent.Local, error) {
	const retprobe = 1 // format/retprobe; nobody looks at the other bits
	l := dynevent.Local{Return: a.Config&retprobe != 0, User: pmu == sysfs.UprobePMU, At: a.Config2}
	if l.User {
		most = unix.PathMax
	}
	if a.Config1 != 0 {
		name, err := readText(tid, a.Config1, most)
		if err != nil {
			return l, err
		}
		l.Name = name
	}
	switch {
	case l.User && l.Name == "", l.Name == "" && l.At == 0:
		return l, fmt.Errorf("a probe nowhere: %w", syscall.EINVAL)
	case l.User:
		return l, checkProgram(tid, l.Name, l.At)
	}
	return l, nil
}

// checkProgram fails with EINVAL if the file that a thread calls path is not a regular one, or
// shorter than offset.
func checkProgram(tid int, path string, offset uint64) error {
	from := "cwd"
	if filepath.IsAbs(path) {
		from = "root"
	}
	st, err := os.Stat(proc.Path(tid, from) + "/" + path)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular() || offset > uint64(st.Size()):
		return fmt.Errorf("%s+%#x is nothing to probe: %w", path, offset, syscall.EINVAL)
	}
	return nil
}

// readText reads a string of less than most bytes from a thread's memory. It fails with EFAULT, and
// with E2BIG if the string is longer.
func readText(tid int, addr uint64, most int) (string, error) {
	b := proc.ReadMemory(tid, addr, make([]byte, most))
	text, _, ended := bytes.Cut(b, []byte{0})
	switch {
	case ended:
		return string(text), nil
	case len(b) < most:
		return "", fmt.Errorf("a string at %#x: %w", addr, syscall.EFAULT)
	}
	return "", fmt.Errorf("a string of %d bytes: %w", most, syscall.E2BIG)
}

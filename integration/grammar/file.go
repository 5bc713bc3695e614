package grammar

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// store opens a file of tracefs for writing, writes once, and returns the number of
// bytes or an errno. Empty data is not written, since FUSE does not pass empty writes
// on.
func store(name string, flags int, data string) string {
	fd, err := unix.Open(tracefs+name, unix.O_WRONLY|flags, 0)
	if err != nil {
		return "open " + errno(err)
	}
	defer unix.Close(fd)
	if data == "" {
		return "0"
	}
	room := append([]byte(data), make([]byte, 64)...) // so that a probe sees the end of the text
	n, err := unix.Write(fd, room[:len(data)])
	if err != nil {
		return errno(err)
	}
	return strconv.Itoa(n)
}

// load returns the contents of a file of tracefs, or an errno.
func load(name string) string {
	fd, err := unix.Open(tracefs+name, unix.O_RDONLY, 0)
	if err != nil {
		return "open " + errno(err) + "\n"
	}
	defer unix.Close(fd)
	var all []byte
	b := make([]byte, 1<<16)
	for {
		n, err := unix.Read(fd, b)
		if err != nil {
			return string(all) + errno(err) + "\n"
		}
		if n == 0 {
			return string(all)
		}
		all = append(all, b[:n]...)
	}
}

// read makes one read(2) of a file of tracefs.
func read(name string, count int) {
	fd, err := unix.Open(tracefs+name, unix.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Read(fd, make([]byte, count)) // the trace shows its result
}

func errno(err error) string {
	if e, ok := err.(unix.Errno); ok { //nolint:errorlint // functions of unix return errnos only
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
		return "errno " + strconv.Itoa(int(e))
	}
	return err.Error()
}

// cString returns the address of a zero-terminated copy of s.
func cString(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }

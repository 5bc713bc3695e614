package grammar

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// store opens a file of tracefs for writing, writes once, and gives what came of
// it: a number of bytes or an errno. Nothing is not written: FUSE does not ask.
func store(name string, flags int, data string) string {
	fd, err := unix.Open(tracefs+name, unix.O_WRONLY|flags, 0)
	if err != nil {
		return "open " + errno(err)
	}
	defer unix.Close(fd)
	if data == "" {
		return "0"
	}
	room := append([]byte(data), make([]byte, 64)...) // so that a probe sees where a text ends
	n, err := unix.Write(fd, room[:len(data)])
	if err != nil {
		return errno(err)
	}
	return strconv.Itoa(n)
}

// load is what a file of tracefs has, or an errno.
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
	_, _ = unix.Read(fd, make([]byte, count)) // what it did the trace tells
}

func errno(err error) string {
	if e, ok := err.(unix.Errno); ok { //nolint:errorlint // unix.Read and its like return nothing else
		if name := unix.ErrnoName(e); name != "" {
			return name
		}
		return "errno " + strconv.Itoa(int(e))
	}
	return err.Error()
}

// cString is the address of a text as system calls take it.
func cString(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }

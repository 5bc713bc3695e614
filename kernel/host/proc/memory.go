package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// ReadMemory fills b with a thread's memory at addr as far as that can be read, and returns what
// has been filled.
func ReadMemory(tid int, addr uint64, b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	// A transfer ends at the first page that is not mapped.
	remote := []unix.RemoteIovec{}
	for rest := len(b); rest > 0; {
		n := min(rest, os.Getpagesize()-int(addr)&(os.Getpagesize()-1))
		remote = append(remote, unix.RemoteIovec{Base: uintptr(addr), Len: n})
		addr, rest = addr+uint64(n), rest-n
	}
	n, err := unix.ProcessVMReadv(tid, local, remote, 0)
	if err != nil || n < 0 {
		return nil
	}
	return b[:n]
}

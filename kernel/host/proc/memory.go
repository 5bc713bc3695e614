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

// ReadParts fills each of into with a thread's memory at the same element of addrs. It fails with EFAULT if
// that cannot be read.
func ReadParts(tid int, addrs []uint64, into [][]byte) error {
	const most = 1024 // UIO_MAXIOV
	for len(addrs) > 0 {
		n := min(len(addrs), most)
		local, remote, size := make([]unix.Iovec, n), make([]unix.RemoteIovec, n), 0
		for i, b := range into[:n] {
			remote[i] = unix.RemoteIovec{Base: uintptr(addrs[i]), Len: len(b)}
			local[i].SetLen(len(b))
			if len(b) > 0 {
				local[i].Base = &b[0]
			}
			size += len(b)
		}
		got, err := unix.ProcessVMReadv(tid, local, remote, 0)
		if err != nil {
			return err
		}
		if got < size {
			return unix.EFAULT
		}
		addrs, into = addrs[n:], into[n:]
	}
	return nil
}

package gdbstub

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// maxFiles is how many files a client may have open.
const maxFiles = 64

// Errors of file operations, as the protocol numbers them.
const (
	fileNotFound = "F-1,2"    // ENOENT
	fileBadFD    = "F-1,9"    // EBADF
	fileInvalid  = "F-1,16"   // EINVAL
	fileTooMany  = "F-1,17"   // ENFILE, 23 in Linux
	fileReadOnly = "F-1,1e"   // EROFS
	fileUnknown  = "F-1,270f" // EUNKNOWN
)

// file answers vFile:OPERATION:ARGS. Files cannot be written.
func (c *client) file(p string) string {
	operation, args, _ := strings.Cut(p, ":")
	switch operation {
	case "setfs": // whose files: there are only ours
		return "F0"
	case "open":
		return c.openFile(args)
	}
	fields := strings.Split(args, ",")
	n, err := strconv.ParseUint(fields[0], 16, 16)
	if err != nil {
		return fileInvalid
	}
	b, open := c.files[int(n)]
	switch {
	case !open:
		return fileBadFD
	case operation == "close":
		delete(c.files, int(n))
		return "F0"
	case operation == "fstat":
		s := stat(len(b))
		return fmt.Sprintf("F%x;%s", len(s), s)
	case operation == "pread" && len(fields) == 3:
		count, err := strconv.ParseUint(fields[1], 16, 64)
		off, err2 := strconv.ParseUint(fields[2], 16, 64)
		if err != nil || err2 != nil {
			return fileInvalid
		}
		b = b[min(off, uint64(len(b))):]
		b = b[:min(count, uint64(len(b)), maxPacket/2)]
		return fmt.Sprintf("F%x;%s", len(b), b)
	case operation == "pwrite":
		return fileReadOnly
	}
	return fileUnknown
}

// openFile answers vFile:open:NAME,FLAGS,MODE.
func (c *client) openFile(args string) string {
	const writes = 1 | 2 | 8 | 0x200 | 0x400 // O_WRONLY, O_RDWR, O_APPEND, O_CREAT, O_TRUNC of the protocol
	fields := strings.Split(args, ",")
	name, err := hex.DecodeString(fields[0])
	if err != nil || len(fields) != 3 {
		return fileInvalid
	}
	flags, err := strconv.ParseUint(fields[1], 16, 32)
	switch {
	case err != nil:
		return fileInvalid
	case flags&writes != 0:
		return fileReadOnly
	case len(c.files) >= maxFiles:
		return fileTooMany
	}
	text, err := c.inTime(func() (string, error) {
		b, err := c.conf.Files(string(name))
		return string(b), err
	})
	if err != nil {
		return fileNotFound
	}
	fd := 0
	for _, taken := c.files[fd]; taken; _, taken = c.files[fd] {
		fd++
	}
	c.files[fd] = []byte(text)
	return fmt.Sprintf("F%x", fd)
}

// stat is the protocol's struct stat of a regular file: numbers with their highest byte first.
func stat(size int) []byte {
	const regular, readable = 0o100000, 0o400
	b := make([]byte, 64)
	binary.BigEndian.PutUint32(b[8:], regular|readable)
	binary.BigEndian.PutUint32(b[12:], 1)
	binary.BigEndian.PutUint64(b[28:], uint64(size))
	binary.BigEndian.PutUint64(b[36:], 4096)
	binary.BigEndian.PutUint64(b[44:], uint64(size+511)/512)
	return b
}

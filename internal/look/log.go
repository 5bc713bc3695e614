package look

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LogRecord is a record of dev/kmsg.
type LogRecord struct {
	Usec int64 // microseconds since boot
	Text string
}

// OpenLog opens dev/kmsg of a mounted tree, with flags of open(2).
func OpenLog(tree string, flags int) (int, error) {
	path := filepath.Join(tree, "dev/kmsg")
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// ReadLog passes the records to f, until there are no more or f fails. Records that have
// been overwritten are left out.
func ReadLog(fd int, f func(LogRecord) error) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EPIPE):
			continue
		case errors.Is(err, unix.EAGAIN), err == nil && n == 0:
			return nil
		case err != nil:
			return fmt.Errorf("dev/kmsg: %w", err)
		}
		if err := f(parseLogRecord(buf[:n])); err != nil {
			return err
		}
	}
}

// parseLogRecord reads "PRIORITY,NUMBER,MICROSECONDS,FLAGS;TEXT\n", in whose text \xNN stands
// for a byte.
func parseLogRecord(b []byte) (r LogRecord) {
	head, text, _ := bytes.Cut(bytes.TrimSuffix(b, []byte("\n")), []byte(";"))
	if fields := strings.Split(string(head), ","); len(fields) > 2 {
		r.Usec, _ = strconv.ParseInt(fields[2], 10, 64)
	}
	var out strings.Builder
	for len(text) > 0 {
		if len(text) >= 4 && text[0] == '\\' && text[1] == 'x' {
			if c, err := strconv.ParseUint(string(text[2:4]), 16, 8); err == nil && (c == '\n' || c == '\t' || c == '\\' || c >= 0x80) {
				out.WriteByte(byte(c))
				text = text[4:]
				continue
			}
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	r.Text = out.String()
	return r
}

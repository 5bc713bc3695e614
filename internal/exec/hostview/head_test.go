package hostview

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestHead: the beginnings of programs are read. Other files are not opened: opening
// a FIFO would block.
func TestHead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	long := bytes.Repeat([]byte("x"), 2*headSize)
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(at(name), long, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("program", at("link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		err  error
	}{
		{at("program"), nil},
		{at("link"), nil},
		{at("text"), syscall.EACCES},
		{at("fifo"), syscall.EACCES},
		{at("none"), syscall.ENOENT},
		{dir, syscall.EACCES},
		{"/dev/null", syscall.EACCES},
		{"/proc/self/status", syscall.EACCES},
	} {
		head, err := Head(tt.path)
		if err != tt.err || err == nil && !bytes.Equal(head, long[:headSize]) { //nolint:errorlint // an errno, not wrapped
			t.Errorf("%s: %d bytes, %v, want %v", tt.path, len(head), err, tt.err)
		}
	}
}

package hostview

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

func TestBelow(t *testing.T) {
	dirs := []string{"/sys/kernel/debug", "/dev/kmsg"}
	for path, want := range map[string]bool{
		"/sys/kernel/debug/kprobes/enabled": true,
		"/sys/kernel/debug":                 true,
		"/dev/kmsg":                         true,
		"/sys/kernel/debugger":              false,
		"/sys/kernel":                       false,
		"pipe:[12]":                         false,
	} {
		if got := Below(path, dirs); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestFollow: symbolic links in a path are resolved. Files of the mount are not
// accessed.
func TestFollow(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, link, ours := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "ours")
	in := filepath.Join(ours, "file")
	if err := os.Mkdir(ours, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, in} {
		if err := os.WriteFile(f, nil, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range [][2]string{{file, link}, {in, link + "-in"}} {
		if err := os.Symlink(l[0], l[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path string
		mode       uint64
	}{
		{file, file, syscall.S_IFREG | 0o640},
		{link, file, syscall.S_IFREG | 0o640},
		{link + "-in", in, abi.CallModeNone},
		{file + "-not", file + "-not", abi.CallModeNone},
	} {
		if path, mode := (View{}).follow(c.name, []string{ours}); path != c.path || mode != c.mode {
			t.Errorf("%s leads to %s, mode %#o; want %s, %#o", c.name, path, mode, c.path, c.mode)
		}
	}
}

package hostview

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// TestCanAsk: what needs another program's answer is not asked.
func TestCanAsk(t *testing.T) {
	for _, tt := range []struct {
		file host.File
		want bool
	}{
		{host.File{Mode: unix.S_IFIFO}, true},
		{host.File{Mode: unix.S_IFSOCK}, true},
		{host.File{Mode: unix.S_IFREG}, false},
		{host.File{Mode: unix.S_IFDIR}, false},
		{host.File{Mode: unix.S_IFCHR, Rdev: 1<<20 | 3}, true},
		{host.File{Mode: unix.S_IFCHR, Rdev: 136 << 20}, true},
		{host.File{Mode: unix.S_IFCHR, Rdev: 10<<20 | 229}, false}, // /dev/fuse
		{host.File{Mode: 0o600, Name: "anon_inode:[eventfd]"}, true},
		{host.File{Mode: 0o600, Name: "anon_inode:[io_uring]"}, false},
		{host.File{Mode: 0o600, Name: "anon_inode:[eventpoll]"}, false},
	} {
		if got := CanAsk(tt.file); got != tt.want {
			t.Errorf("%+v: %v", tt.file, got)
		}
	}
}

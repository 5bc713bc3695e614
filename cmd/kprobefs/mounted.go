package main

import (
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Programs that look for "tracefs" in /proc/mounts, and find a FUSE of another type,
// mount a tracefs themselves: the host's, which would hide ours. So the supervisor
// answers a mount(2) of tracefs or debugfs on one of our mount points with success,
// without mounting anything: ours is there already.

// mounted reports whether a mount(2) asks for what is mounted already.
func (s *supervisor) mounted(n *seccompNotif) bool {
	const other = unix.MS_REMOUNT | unix.MS_BIND | unix.MS_MOVE | unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE
	tid, target, kind, flags := int(n.pid), n.args[1], n.args[2], n.args[3]
	if flags&other != 0 || kind == 0 || target == 0 {
		return false
	}
	switch string(readString(tid, kind)) {
	case "tracefs", "debugfs":
	default:
		return false
	}
	path := string(readString(tid, target))
	from := "root"
	if !filepath.IsAbs(path) {
		from = "cwd"
	}
	// In another namespace or root the command's path may mean another place.
	there, err := placeOf(proc.Path(tid, from+"/"+path))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.dirs, func(dir string) bool {
		here, err := placeOf(dir)
		tracing, terr := placeOf(filepath.Join(dir, "tracing"))
		return err == nil && here == there || terr == nil && tracing == there
	})
}

// place identifies a directory, whatever its name.
type place struct{ dev, ino uint64 }

func placeOf(path string) (place, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return place{}, err
	}
	return place{uint64(st.Dev), st.Ino}, nil //nolint:unconvert // Dev is narrower on some architectures
}

// succeed answers a call with 0, without making it.
func succeed(listener int, id uint64) {
	r := seccompNotifResp{id: id}
	_ = seccompIoctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

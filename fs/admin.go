package fs

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// mayMount reports whether this process mounts with mount(2): root, and an ordinary user who has been
// given CAP_SYS_ADMIN, as a container's user is by ambient capabilities or by those in the program's
// file. Root without it fails, and is told why.
func mayMount() bool {
	if os.Geteuid() == 0 {
		return true
	}
	_, data, err := capabilities()
	return err == nil && data[0].Permitted&(1<<unix.CAP_SYS_ADMIN) != 0
}

// asAdmin calls f with CAP_SYS_ADMIN in effect, if this process may have it. A file's capabilities
// need not be in effect at the start (setcap cap_sys_admin=p): then only f has it.
func asAdmin(f func() error) error {
	header, data, err := capabilities()
	if err != nil {
		return f()
	}
	raised := data
	raised[0].Effective |= data[0].Permitted & (1 << unix.CAP_SYS_ADMIN)
	if raised == data {
		return f()
	}
	runtime.LockOSThread() // a thread has its own
	defer runtime.UnlockOSThread()
	if err := unix.Capset(&header, &raised[0]); err != nil {
		return f()
	}
	defer func() { _ = unix.Capset(&header, &data[0]) }() // to give away what one has never fails
	return f()
}

// capabilities returns this thread's. All have the same outside of asAdmin.
func capabilities() (unix.CapUserHeader, [2]unix.CapUserData, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return header, data, err
}

package integration

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bpfVar makes the test binary the client of TestBPFOfReleases.
const bpfVar = "KPROBEFS_INTEGRATION_BPF"

// bpfClient looks an element of no map up, as root and without capabilities, and prints the errnos.
func bpfClient() int {
	lookUp := func() error {
		attr := make([]byte, 120)
		attr[0], attr[1], attr[2] = 0xff, 0xff, 0xf // a descriptor that is not open
		if _, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_LOOKUP_ELEM, uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr))); e != 0 {
			return e
		}
		return nil
	}
	runtime.LockOSThread()
	fmt.Println(errno(lookUp()))
	none := [2]unix.CapUserData{}
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(errno(lookUp()))
	return 0
}

// TestBPFOfReleases: 2.6 has no bpf(2). Up to 5.10 a command needs a capability, since
// kernel.unprivileged_bpf_disabled is 2 on Debian's kernels; later ones ask for it only where something is made.
func TestBPFOfReleases(t *testing.T) {
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for release, want := range map[string]string{
		"2.6.32": "ENOSYS\nENOSYS\n", "4.15": "EBADF\nEPERM\n", "5.10": "EBADF\nEPERM\n", "6.1": "EBADF\nEBADF\n", "6.12": "EBADF\nEBADF\n",
	} {
		t.Run(release, func(t *testing.T) {
			got, status := asUser(nil).exec(t, publicDir(t), []string{bpfVar + "=1"}, []string{"--cpus", "1", "--release", release}, self)
			if got != want || status != 0 {
				t.Errorf("%q, exit status %d, want %q", got, status, want)
			}
		})
	}
}

//go:build !amd64

package mirror

import "golang.org/x/sys/unix"

// canRing reports whether this machine has syscall instructions that can be replaced.
const canRing = false

func instructionOf(int) (uint64, error) { return 0, unix.ENOSYS }

func stackOf(int) (uint64, error) { return 0, unix.ENOSYS }

func goTo(int, uint64) error { return unix.ENOSYS }

func setCall(int, uint64) error { return unix.ENOSYS }

func setResult(int, int64) error { return unix.ENOSYS }

//go:build !amd64

package registers

import (
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// read fails: the frames of another processor are not those of an x86-64.
func read(int, *abi.Regs) error { return syscall.ENOTSUP }

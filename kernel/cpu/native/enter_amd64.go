package native

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
)

// leftOffset is where enter finds the budget.
const leftOffset = unsafe.Offsetof(core.CPU{}.Left) //nolint:unused // const_leftOffset in enter_amd64.s

// enter executes translated code, and returns the exit.
//
//go:noescape
func enter(c *core.CPU, code uintptr) uint64

// Error says why this host cannot execute translated code: nil if it can. It tries it
// once.
var Error = sync.OnceValue(func() error {
	if !cpu.X86.HasSSE42 || !cpu.X86.HasPOPCNT {
		return errors.New("this processor is older than x86-64-v2")
	}
	w, x, err := mapCode(4096)
	if err == nil {
		err = errors.Join(unix.Munmap(w), unix.Munmap(x))
	}
	return err
})

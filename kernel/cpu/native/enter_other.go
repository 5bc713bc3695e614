//go:build !amd64

package native

import (
	"errors"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
)

// Error says why this host cannot execute translated code: nil if it can.
func Error() error {
	return errors.New("it makes x86-64 instructions, which this host does not execute")
}

// enter is never called, since there is an Error.
func enter(*core.CPU, uintptr) uint64 { return 0 }

//go:build !amd64

package cpu

import (
	"errors"
	"sync/atomic"
)

// NativeError says why this host cannot translate guest code: nil if it can.
func NativeError() error {
	return errors.New("it makes x86-64 instructions, which this host does not execute")
}

type (
	translation  struct{}
	translations struct {
		gen  atomic.Uint64
		full atomic.Uint64
	}
)

func (*translations) drop(*translation) {}
func (*Cache) acknowledge(*CPU)         {}
func (*block) translated() *translation { return nil }
func (*CPU) Call(uint64) (bool, uint64) { return false, 0 }
func translatable(*op) bool             { return true }
func countEntry(_ *CPU, o *op) *op      { return o.next() }

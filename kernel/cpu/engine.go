package cpu

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Engine is what executes the guest's code.
type Engine uint8

// Engines.
const (
	Auto   Engine = iota // Native where that is possible, else Interp
	Native               // blocks that are entered often are translated to instructions of the host
	Interp               // all blocks are interpreted
)

var engineNames = [...]string{"auto", "native", "interp"}

func (e Engine) String() string { return engineNames[e] }

// ParseEngine returns the engine of a name: auto, native or interp. It fails with
// EINVAL for another name.
func ParseEngine(name string) (Engine, error) {
	for i, n := range engineNames {
		if n == name {
			return Engine(i), nil
		}
	}
	return 0, fmt.Errorf("unknown engine %q; there are auto, native and interp: %w", name, syscall.EINVAL)
}

// Resolve returns Native or Interp: e itself, or what Auto is on this host. It fails
// if e is Native and the host cannot have it; the error says why.
func (e Engine) Resolve() (Engine, error) {
	if e == Interp {
		return Interp, nil
	}
	err := NativeError()
	switch {
	case err == nil:
		return Native, nil
	case e == Auto:
		return Interp, nil
	}
	return 0, fmt.Errorf("the native engine: %w: %w", syscall.ENOTSUP, err)
}

// hot is how often a block is entered before it is translated, maxCode the bytes of
// translated code that a cache holds at most.
const (
	hot     = 24
	maxCode = 8 << 20
)

// NewCache returns an empty cache for m's code, which it executes with an engine. It
// learns of changes from m. If the engine is Native and the host cannot have it, all
// is interpreted.
func NewCache(m *mem.Memory, e Engine) *Cache {
	c := &Cache{mem: m, first: 1, hot: hot, code: maxCode, blocks: map[uint64]*block{}, lines: map[uint64][]*block{}}
	if e, err := e.Resolve(); err == nil && e == Native {
		c.first = 2
	}
	m.OnText(c.invalidate)
	return c
}

// join has the cache know a vCPU that uses it.
func (c *Cache) join(v *CPU) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cpus = append(c.cpus, v)
}

package cpu

import (
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/cpu/interp"
	"github.com/kprobefs/kprobefs/kernel/cpu/native"
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
	err := native.Error()
	switch {
	case err == nil:
		return Native, nil
	case e == Auto:
		return Interp, nil
	}
	return 0, fmt.Errorf("the native engine: %w: %w", syscall.ENOTSUP, err)
}

// A Cache holds the decoded blocks of one machine, and their translations.
type Cache struct {
	blocks *interp.Cache
	hot    *translator // nil with Interp
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
func NewCache(m *mem.Memory, e Engine) *Cache { return cacheWith(m, e, hot, maxCode) }

// SetBreaks makes addrs the addresses before whose instructions Run ends, with Breakpoint. No vCPU of
// the machine may be in Run. An address inside an instruction has no effect.
func (c *Cache) SetBreaks(addrs []uint64) { c.blocks.SetBreaks(addrs) }

func cacheWith(m *mem.Memory, e Engine, hot uint64, maxCode int) *Cache {
	if e, err := e.Resolve(); err != nil || e == Interp {
		return &Cache{blocks: interp.NewCache(m, nil, 0)}
	}
	t := &translator{code: native.New(maxCode)}
	t.clear()
	t.blocks = interp.NewCache(m, t, hot)
	return &Cache{blocks: t.blocks, hot: t}
}

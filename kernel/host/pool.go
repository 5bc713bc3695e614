package host

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Pool allocates runs of pages, first fit, from RAM that the guest does not use: for
// buffers of host calls and for executable slots.
type Pool struct {
	base uint64 // physical

	mu   sync.Mutex
	used []bool
	hint int // all pages below it are used
}

// NewPool manages [base, base+pages*PageSize), physical addresses.
func NewPool(base uint64, pages int) *Pool {
	return &Pool{base: base, used: make([]bool, pages)}
}

// Alloc returns the physical address of n contiguous pages, which are not cleared, or
// ENOMEM.
func (p *Pool) Alloc(n int) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	run := 0
	for i := p.hint; i < len(p.used); i++ {
		if p.used[i] {
			run = 0
			continue
		}
		if run++; run == n {
			first := i - n + 1
			p.mark(first, n, true)
			if first == p.hint {
				p.hint = i + 1
			}
			return p.base + uint64(first)*abi.PageSize, nil
		}
	}
	return 0, fmt.Errorf("%d pages of host buffers: %w", n, syscall.ENOMEM)
}

// Free frees n pages.
func (p *Pool) Free(pa uint64, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := int((pa - p.base) / abi.PageSize)
	p.mark(first, n, false)
	p.hint = min(p.hint, first)
}

func (p *Pool) mark(first, n int, used bool) {
	for i := first; i < first+n; i++ {
		p.used[i] = used
	}
}

package host

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Pool hands out pages of the RAM that the guest was not told of: buffers of
// host calls, and executable slots. Pieces are runs of pages, first fit.
type Pool struct {
	base uint64 // physical

	mu   sync.Mutex
	used []bool
	hint int // no free page lies below it
}

// NewPool manages [base, base+pages*PageSize), physical addresses.
func NewPool(base uint64, pages int) *Pool {
	return &Pool{base: base, used: make([]bool, pages)}
}

// Alloc gives the physical address of n pages in a row, whatever they hold;
// ENOMEM when there is no such run.
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

// Free gives n pages back.
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

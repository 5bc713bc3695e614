package page

import (
	"context"
	"sync"
	"time"
)

// leastAge is how long what was read is shown to all who ask. A person does not see a difference.
const leastAge = 100 * time.Millisecond

// share is how much longer than reading takes what was read is shown: so reading takes a twentieth
// of the time at most, however many look.
const share = 20

// mostAge bounds how old it gets where reading takes long, of very many probes or on a busy host.
const mostAge = 3 * time.Second

// pause returns how long to wait after something that took so long.
func pause(least, took time.Duration) time.Duration {
	return min(max(least, share*took), mostAge)
}

// cached is an answer that is shared by all viewers.
type cached[T any] struct {
	mu      sync.Mutex
	v       T
	of      Machine
	changes uint64    // Page.changes before it was read
	until   time.Time // when it is old
}

// get returns what was read last, or reads it again if that is old, of another machine, or from
// before a change.
func (c *cached[T]) get(ctx context.Context, p *Page, read func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes, m := p.changes.Load(), p.conf.Machine()
	if c.of == m && c.changes == changes && time.Now().Before(c.until) {
		return c.v, nil
	}
	begin := time.Now()
	v, err := read(ctx)
	if err != nil {
		return v, err
	}
	end := time.Now()
	c.v, c.of, c.changes, c.until = v, m, changes, end.Add(pause(leastAge, end.Sub(begin)))
	return v, nil
}

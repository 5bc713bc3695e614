package machinefs

import (
	"context"
	"strings"
	"sync"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// calls is the file machine/call: a write of 'strlen("abc")' calls the function, and a read returns what
// the last write through the same descriptor, or else the last one of all, has given.
type calls struct {
	call func(ctx context.Context, text string) (string, error)

	mu   sync.Mutex
	last string
}

func (c *calls) open(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	var own *string
	return seqfile.Value{
		KeepPos: true,
		Get: func(context.Context) (string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if own != nil {
				return *own, nil
			}
			return c.last, nil
		},
		Set: func(ctx context.Context, p []byte) (int, error) {
			text, err := c.call(ctx, strings.TrimSpace(string(p)))
			if err != nil {
				text = "error: " + err.Error() + "\n"
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			own, c.last = &text, text
			return len(p), err
		},
	}, nil
}

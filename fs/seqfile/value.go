package seqfile

import (
	"context"
	"fmt"
	"syscall"
)

// Value is a file whose text is produced at each read and cut at the position:
// simple_read_from_buffer, as for debugfs' bool files and most small files of tracefs.
type Value struct {
	// Get returns the text. If it is nil, reads fail with EINVAL.
	Get func(ctx context.Context) (string, error)
	// Set handles a write; the position is ignored. If it is nil, writes fail with
	// EINVAL.
	Set func(ctx context.Context, p []byte) (int, error)
	// KeepPos says that a write does not move the position, as for the bool files of
	// debugfs.
	KeepPos bool
}

var (
	_ File      = Value{}
	_ PosKeeper = Value{}
)

// KeepsPos returns KeepPos.
func (v Value) KeepsPos() bool { return v.KeepPos }

// Read returns the text from off on.
func (v Value) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if v.Get == nil {
		return 0, fmt.Errorf("the file has no read: %w", syscall.EINVAL)
	}
	if off < 0 {
		return 0, fmt.Errorf("read before the start: %w", syscall.EINVAL)
	}
	text, err := v.Get(ctx)
	if err != nil || off >= int64(len(text)) {
		return 0, err
	}
	return copy(p, text[off:]), nil
}

// Write calls Set.
func (v Value) Write(ctx context.Context, p []byte, _ int64) (int, error) {
	if v.Set == nil {
		return 0, fmt.Errorf("the file has no write: %w", syscall.EINVAL)
	}
	return v.Set(ctx, p)
}

// Release does nothing: a Value has no state.
func (Value) Release() {}

// Bool is a Value that shows "1\n" or "0\n".
func Bool(get func() bool, set func(ctx context.Context, p []byte) (int, error)) Value {
	return Value{
		Get: func(context.Context) (string, error) {
			if get() {
				return "1\n", nil
			}
			return "0\n", nil
		},
		Set: set,
	}
}

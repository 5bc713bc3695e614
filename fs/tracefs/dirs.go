package tracefs

import (
	"context"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// settling opens a file whose writes, and whose emptying, define and delete
// events: the directories that come and go by it do so before the call returns.
func settling(t *tracing.Tracer, open func(context.Context, *seqfile.OpenInfo) (seqfile.File, error)) func(context.Context, *seqfile.OpenInfo) (seqfile.File, error) {
	return func(ctx context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		f, err := open(ctx, o)
		if o.Writes() {
			t.SettleDirs(ctx)
		}
		if s, ok := f.(*seqfile.Seq); ok && s.Store != nil {
			write := s.Store
			s.Store = func(ctx context.Context, p []byte, pos int64) (int, error) {
				defer t.SettleDirs(ctx)
				return write(ctx, p, pos)
			}
		}
		return f, err
	}
}

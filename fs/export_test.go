package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// NewFace gives what a mount of root would serve, for tests that make the
// requests themselves.
func NewFace(t *Tree, root *seqfile.Row) fuse.RawFileSystem { return newFace(t, root) }

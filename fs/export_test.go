package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// NewFilesystem returns the filesystem of a mount of root, for tests that make the
// requests themselves.
func NewFilesystem(t *Tree, root *seqfile.Row) fuse.RawFileSystem { return newFilesystem(t, root) }

package wire

import (
	"fmt"
	"path"
	"strconv"
	"syscall"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/bpffs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// pinned are the files of the tree's bpffs, for a thread that names one in a call of bpf(2).
type pinned struct {
	tree *fs.Tree
	tid  int
}

var _ perffd.BPFFiles = (*pinned)(nil)

func (p *pinned) caller() *seqfile.Caller {
	return p.tree.Thread(p.tid, uint32(hostview.FSID(p.tid, "Uid")), uint32(hostview.FSID(p.tid, "Gid")))
}

// inTree returns the path of a file of the bpffs in the tree.
func inTree(at string) string { return path.Join("/", hostview.BPFFS, at) }

// Pin implements perffd.BPFFiles.
func (p *pinned) Pin(at string, object any) error {
	c := p.caller()
	dir, err := p.tree.MayMake(c, inTree(at))
	if err != nil {
		return err
	}
	d, ok := dir.(*bpffs.Dir)
	if !ok {
		return fmt.Errorf("%s: %w", at, syscall.EPERM)
	}
	text, _ := proc.Status(p.tid, "Umask")
	mask, err := strconv.ParseUint(text, 8, 32)
	if err != nil {
		mask = 0
	}
	return d.Pin(c, path.Base(at), uint32(mask), object)
}

// Pinned implements perffd.BPFFiles.
func (p *pinned) Pinned(at string, flags uint32) (any, error) {
	dir, err := p.tree.MayOpen(p.caller(), inTree(at), flags)
	if err != nil {
		return nil, err
	}
	if d, ok := dir.(*bpffs.Dir); ok {
		if object := d.Object(path.Base(at)); object != nil {
			return object, nil
		}
	}
	return nil, fmt.Errorf("%s keeps nothing: %w", at, syscall.EACCES)
}

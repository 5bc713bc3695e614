package procfs

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/sysctl"
)

// Sys is the directory that stands for /proc/sys, with a file for each row of
// the table.
func Sys(t *sysctl.Table) *seqfile.Row {
	root := &seqfile.Row{Name: "sys", Mode: 0o555, Kind: seqfile.ProcSys, At: "/proc/sys", Dir: seqfile.Table{}}
	for _, r := range t.Rows() {
		dir, name := root, r.Path
		for {
			first, rest, more := strings.Cut(name, "/")
			if !more {
				break
			}
			dir, name = subdir(dir, first), rest
		}
		dir.Dir = append(dir.Dir.(seqfile.Table), &seqfile.Row{
			Name: name, Mode: r.Mode, FOps: abi.FOpsProcSys, Open: seqfile.Opens(knob{r}),
		})
	}
	return root
}

// subdir returns the directory of that name in dir, and creates it if necessary.
func subdir(dir *seqfile.Row, name string) *seqfile.Row {
	if r := seqfile.Find(dir.Dir, name); r != nil {
		return r
	}
	r := &seqfile.Row{Name: name, Mode: 0o555, Dir: seqfile.Table{}}
	dir.Dir = append(dir.Dir.(seqfile.Table), r)
	return r
}

// knob is a file of /proc/sys. It checks the mode at each call, not only at open:
// another user cannot write through a descriptor that root has opened.
type knob struct{ row sysctl.Row }

var _ seqfile.File = knob{}

// Bits of a class in the mode.
const (
	mayWrite = 2
	mayRead  = 4
)

// permission is sysctl_perm for a file of root.
func (k knob) permission(c *seqfile.Caller, want uint32) error {
	mode := k.row.Mode
	if c.UID == 0 {
		mode >>= 6
	}
	if mode&want != want {
		return fmt.Errorf("%s: uid %d: %w", k.row.Path, c.UID, syscall.EPERM)
	}
	return nil
}

// Read is proc_sys_read.
func (k knob) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if err := k.permission(seqfile.CallerOf(ctx), mayRead); err != nil {
		return 0, err
	}
	return copy(p, k.row.Proc.Read(len(p), off)), nil
}

// Write is proc_sys_write.
func (k knob) Write(ctx context.Context, p []byte, off int64) (int, error) {
	c := seqfile.CallerOf(ctx)
	if err := k.permission(c, mayWrite); err != nil {
		return 0, err
	}
	return k.row.Proc.Write(sysctl.Caller{Comm: c.Comm(), SysAdmin: c.Capable(seqfile.CapSysAdmin)}, p, off)
}

// Release does nothing: the value lives in the table.
func (knob) Release() {}

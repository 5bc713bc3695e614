package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// exec --attach has a supervisor of its own, as every exec, which shares a socket with the
// process that serves the tree (server.go). It opens machine/attach and writes the number of
// a descriptor there; the serving process takes a copy of the descriptor
// (pidfd_getfd(2)), which is the socket. So who may attach is a matter of the file's
// permissions, no name is left anywhere, and either side notices the end of the other by
// the socket's. The tracing thread is in the serving process (package mirror), and lets a
// command's threads go when their supervisor has gone.

// AttachFile is the name of the file in machine/.
const AttachFile = "attach"

// WithAttach returns a tree with the file, and with what more adds to machine/.
func (c *Server) WithAttach(tree seqfile.Dir, more ...func(machine []*seqfile.Row) []*seqfile.Row) seqfile.Dir {
	attach := &seqfile.Row{Name: AttachFile, Mode: 0o200, Open: seqfile.Opens(attaching{c})}
	var rows seqfile.Table
	for _, r := range tree.Rows() {
		if r.Name == "machine" {
			machine := *r
			inside := append(slices.Clone(r.Dir.Rows()), attach)
			for _, add := range more {
				inside = add(inside)
			}
			machine.Dir = seqfile.Table(inside)
			r = &machine
		}
		rows = append(rows, r)
	}
	return rows
}

// attaching is the file machine/attach.
type attaching struct{ c *Server }

func (attaching) Read(context.Context, []byte, int64) (int, error) { return 0, unix.EINVAL }

// Write takes the number of a descriptor of the caller, which is a socket. It fails with
// EXDEV if the caller is in another PID namespace, whose numbers mean others here, or has no
// mount namespace of its own.
func (f attaching) Write(ctx context.Context, p []byte, _ int64) (int, error) {
	fd, err := strconv.Atoi(strings.TrimSpace(string(p)))
	if err != nil || fd < 0 {
		return 0, fmt.Errorf("%q is no descriptor: %w", p, unix.EINVAL)
	}
	by := seqfile.CallerOf(ctx)
	if by.TID <= 0 || !hostview.SameSpace(by.TID, "pid") {
		return 0, fmt.Errorf("a supervisor in another PID namespace: %w", unix.EXDEV)
	}
	if hostview.SameSpace(by.TID, "mnt") {
		return 0, fmt.Errorf("a supervisor in the mount namespace of the serving process: %w", unix.EXDEV)
	}
	pid, err := proc.Process(by.TID)
	if err != nil {
		return 0, err
	}
	socket, err := hostview.Borrow(by.TID, fd)
	if err != nil {
		return 0, err
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_SEQPACKET {
		err = unix.ESOCKTNOSUPPORT
	}
	if err == nil {
		err = f.c.Connect(socket, pid)
	}
	if err != nil {
		_ = unix.Close(socket)
		return 0, err
	}
	return len(p), nil
}

func (attaching) Release() {}

// hello answers the first question: the file gets a hello. With calls to be seen it returns
// the file that has the shared word, which the supervisor can only read.
func (c *conn) hello(q *Question, f *os.File) (state *os.File, err error) {
	h := c.machine
	h.Maps = perffd.Mappable()
	if q.Mirror == MirrorAll || q.Mirror == MirrorStops || q.Mirror == MirrorChanges {
		blind, err := c.join(q.Mirror)
		if err != nil {
			return nil, err
		}
		if blind != nil {
			h.Blind = blind.Error()
		} else {
			h.Plain = q.Mirror != MirrorChanges && c.Mirror.Plain()
		}
		if state, err = os.Open("/proc/self/fd/" + strconv.Itoa(int(c.memory.Fd()))); err != nil {
			return nil, err
		}
	}
	return state, json.NewEncoder(f).Encode(h)
}

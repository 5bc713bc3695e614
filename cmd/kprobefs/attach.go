package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// exec --attach has a supervisor of its own, as every exec, which shares a socket with the
// process that serves the tree (calls.go). It opens machine/attach and writes the number of
// a descriptor there; the serving process takes a copy of the descriptor
// (pidfd_getfd(2)), which is the socket. So who may attach is a matter of the file's
// permissions, no name is left anywhere, and either side notices the end of the other by
// the socket's. The tracing thread is in the serving process (mirror.go), and lets a
// command's threads go when their supervisor has gone.

// attachFile is the name of the file in machine/.
const attachFile = "attach"

// withAttach returns a tree with the file, and what exec needs besides.
func (c *callServer) withAttach(tree seqfile.Dir) seqfile.Dir {
	attach := &seqfile.Row{Name: attachFile, Mode: 0o200, Open: seqfile.Opens(attaching{c})}
	var rows seqfile.Table
	for _, r := range tree.Rows() {
		if r.Name == "machine" {
			machine := *r
			machine.Dir = seqfile.Table(c.withConfig(withStandIn(append(slices.Clone(r.Dir.Rows()), attach), tree)))
			r = &machine
		}
		rows = append(rows, r)
	}
	return rows
}

// attaching is the file machine/attach.
type attaching struct{ c *callServer }

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
	if by.TID <= 0 || !sameSpace(by.TID, "pid") {
		return 0, fmt.Errorf("a supervisor in another PID namespace: %w", unix.EXDEV)
	}
	if sameSpace(by.TID, "mnt") {
		return 0, fmt.Errorf("a supervisor in the mount namespace of the serving process: %w", unix.EXDEV)
	}
	pid, err := proc.Process(by.TID)
	if err != nil {
		return 0, err
	}
	socket, err := borrow(by.TID, fd)
	if err != nil {
		return 0, err
	}
	kind, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_SEQPACKET {
		err = unix.ESOCKTNOSUPPORT
	}
	if err == nil {
		err = f.c.connect(socket, pid)
	}
	if err != nil {
		_ = unix.Close(socket)
		return 0, err
	}
	return len(p), nil
}

func (attaching) Release() {}

// hello is what a supervisor learns first.
type hello struct {
	Release string // as --release and --config say
	Config  []string
	Blind   string // why reads, writes and the like are not seen, or ""
}

// hello answers the first question: the file gets a hello. With calls to be seen it returns
// the file that has the shared word, which the supervisor can only read.
func (c *callConn) hello(q *question, f *os.File) (state *os.File, err error) {
	h := hello{Release: c.release, Config: c.config}
	if q.Mirror == mirrorAll || q.Mirror == mirrorChanges {
		blind, err := c.join(q.Mirror)
		if err != nil {
			return nil, err
		}
		if blind != nil {
			h.Blind = blind.Error()
		}
		if state, err = os.Open("/proc/self/fd/" + strconv.Itoa(int(c.memory.Fd()))); err != nil {
			return nil, err
		}
	}
	return state, json.NewEncoder(f).Encode(h)
}

// hello asks for what a supervisor has to know. mirror is as --mirror says.
func (c *callClient) hello(mirror string) (h hello, err error) {
	f, err := questionFile()
	if err != nil {
		return h, err
	}
	defer f.Close()
	r := c.ask(&callMessage{ID: c.ownIDs.Add(1), Question: &question{Do: doHello, Mirror: mirror}}, f, untilAnswered)
	if r.Errno != 0 {
		return h, r.Errno
	}
	if r.file != nil {
		defer r.file.Close()
		state, err := sharedWord(r.file, unix.PROT_READ)
		if err != nil {
			return h, err
		}
		c.state.Store(state)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return h, err
	}
	return h, json.NewDecoder(f).Decode(&h)
}

// untilAnswered is the goOn of a question that is not given up.
func untilAnswered() bool { return true }

// attach connects a supervisor with the process that serves a tree.
func attach(tree string) (*callClient, error) {
	calls, theirs, err := newCallClient()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	// Where Yama lets only ancestors take descriptors.
	if unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) == nil {
		defer func() { _ = unix.Prctl(unix.PR_SET_PTRACER, 0, 0, 0, 0) }()
	}
	f, err := os.OpenFile(filepath.Join(tree, "machine", attachFile), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(int(theirs.Fd())))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		calls.close()
		return nil, attachError(tree, err)
	}
	return calls, nil
}

// attachError says what to do about an error of attach.
func attachError(tree string, err error) error {
	why := ""
	switch {
	case errors.Is(err, syscall.EACCES):
		why = ": only the user who has mounted it, and root, may attach"
	case errors.Is(err, syscall.EPERM):
		why = ": the serving process may not take a descriptor of ours (pidfd_getfd(2)); it and exec must be of one user"
	case errors.Is(err, syscall.EXDEV):
		why = ": its serving process is in another PID namespace"
	case errors.Is(err, syscall.ENOENT):
		why = ": it is no whole tree, or of an older kprobefs"
	}
	return fmt.Errorf("--attach %s: %w%s", tree, errnoOf(err), why)
}

// checkTree checks whether commands can attach to the tree at a directory, and returns its
// real path.
func checkTree(dir string) (string, error) {
	dir, err := absolute(dir)
	if err != nil {
		return "", err
	}
	if !fs.Ours(dir) {
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", fmt.Errorf("--attach: %w", err)
		}
	}
	switch { // reading a file would be seen by probes
	case !fs.Ours(dir):
		return "", fmt.Errorf("--attach %s: no kprobefs is mounted there: %w", dir, syscall.EINVAL)
	case !slices.Contains(fs.LiveMounts(), dir):
		return "", fmt.Errorf("--attach %s: no answer: %w", dir, syscall.ETIMEDOUT)
	}
	return dir, nil
}

// checkAttach checks --attach: flags that describe a machine are those of another one.
func (f *execFlags) checkAttach(flags *pflag.FlagSet) (err error) {
	if f.attach == "" {
		return nil
	}
	if f.keep != "" {
		return misused(fmt.Errorf("--keep is for a new tree, and --attach for one that stays anyway: %w", syscall.EINVAL))
	}
	machine := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&machineFlags{}).addTo(machine)
	machine.VisitAll(func(m *pflag.Flag) {
		if flags.Changed(m.Name) && err == nil {
			err = misused(fmt.Errorf("--%s is for a new kernel, and --attach for one that runs: %w", m.Name, syscall.EINVAL))
		}
	})
	if err == nil {
		f.attach, err = checkTree(f.attach)
	}
	return err
}

// keepNew is the value of --keep without one.
const keepNew = "a new directory"

// keepTree mounts a tree that outlives the command, and has the command attach to it.
func (p *program) keepTree(f *execFlags, command string) (err error) {
	if st, err := os.Stat(command); f.keep == keepNew && err == nil && st.IsDir() {
		return misused(fmt.Errorf("--keep: %s is no command but a directory; where the tree is to be, write --keep=%s: %w", command, command, syscall.EISDIR))
	}
	m := &mountFlags{machineFlags: f.machineFlags, page: f.page, readyFD: -1}
	if f.keep != keepNew {
		f.attach, err = absolute(f.keep)
	} else if dir, held, terr := tempDir(); terr != nil {
		err = terr
	} else {
		defer held.Close() // the daemon has its own by then
		removeAbandoned(dir)
		f.attach = dir
		m.remove = true
		defer func() {
			if err != nil {
				_ = os.Remove(f.attach)
			}
		}()
	}
	if err != nil {
		return err
	}
	if err := needProc(); err != nil {
		return err
	}
	if err := p.background(m, f.attach); err != nil {
		var e *exitError
		return &exitError{err: err, said: errors.As(err, &e) && e.said} // with the status of exec
	}
	if m.remove {
		fmt.Fprintf(os.Stderr, "kprobefs: the tree is at %s and stays there until 'kprobefs umount %s'\n", f.attach, f.attach)
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/module"
)

// Some system calls of the command are about the kernel: they load and unload modules and
// read its log. The supervisor does not let the host's kernel have them. It asks the
// process that serves the files, over the socket of the other calls, and passes a file
// with what is too long for a message.

// question is such a call. The caller's permission has been checked.
type question struct {
	Do    string // one of the words below
	Args  int    // init: how many bytes of the file are the arguments; the object follows
	Flags uint32 // init: those of finit_module(2); delete: those of delete_module(2)
	Name  string // delete: of the module
	// actFor: the thread whose requests are those of the message's thread from now on; 0
	// ends that.
	Thread int
	// own: what the mount options of tracefs or debugfs (Name) say.
	Own fs.Ownership
	// syslog: the arguments. The file is for the text.
	Action, Size int
	Null         bool
	// hello: as --mirror says.
	Mirror string
	// perf: the arguments but for the attr, which is the file. perfMap: those of mmap(2).
	Perf           *kprobefs.PerfOpen
	FD             int
	Length, Offset uint64
	Writable       bool
	// bpf: the arguments; the file is the caller's memory. setBPF: of the program, beside FD.
	BPF     *kprobefs.BPFCall
	Program int
	Site    uint64 // userProbe: the instruction after the call
}

// What is asked.
const (
	doHello      = "hello" // the first question; the file is for a hello, and the answer comes with the shared word
	doInit       = "init"
	doDelete     = "delete"
	doSyslog     = "syslog"
	doActFor     = "actFor"
	doOwn        = "own"
	doPerf       = "perf"       // perf_event_open(2); the answer comes with a descriptor
	doBPF        = "bpf"        // bpf(2); the answer comes with what to write, and with a descriptor
	doSetBPF     = "setBPF"     // PERF_EVENT_IOC_SET_BPF
	doUserProbe  = "userProbe"  // a uprobe in the caller is hit
	doMap        = "map"        // mmap(2) of such a descriptor is about to be made
	doMade       = "made"       // the file is for the entries of modules, as JSON
	doBackground = "background" // the supervisor goes to the background: the answer is whether the machine has panicked
	doCancel     = "cancel"     // the question with the same ID needs no answer any more
)

// Flags of finit_module(2).
const (
	ignoreModversions = 1
	ignoreVermagic    = 2
	compressedFile    = 4
)

// reply is the answer to a question.
type reply struct {
	ID    uint64
	Ret   int
	Errno syscall.Errno
	Oops  bool // the caller would have been killed
	Host  bool // the call is the host's to answer
	Gives bool // a file to give came with it
	// Wrote: what is to be written into the caller's memory, whether the call fails or not, came with
	// it in a file, as JSON.
	Wrote bool

	file   *os.File // what to give
	writes []kprobefs.BPFWrite
}

// passedFDs returns the files that came with a message.
func passedFDs(oob []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) == 0 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil
	}
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "question"))
	}
	return files
}

// first returns the first of files, or nil, and closes the others.
func first(files []*os.File) *os.File {
	if len(files) == 0 {
		return nil
	}
	for _, f := range files[1:] {
		_ = f.Close()
	}
	return files[0]
}

// question answers a question in a goroutine of its own.
func (c *callConn) question(m *callMessage, f *os.File) {
	c.askedMu.Lock()
	defer c.askedMu.Unlock()
	if m.Question.Do == doCancel {
		if cancel := c.asked[m.ID]; cancel != nil {
			cancel()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.asked[m.ID] = cancel
	c.work.Go(func() {
		r := reply{ID: m.ID}
		var err error
		var give *os.File
		var rights []byte
		switch {
		case m.Question.Do == doBackground:
			r.Ret, err = c.goBackground(ctx)
		case c.activity.Load() == nil || f == nil && needsFile[m.Question.Do]:
			err = unix.ENOSYS
		case m.Question.Do == doHello:
			give, err = c.hello(m.Question, f)
		case m.Question.Do == doPerf:
			give, err = c.perf(m, f)
		case m.Question.Do == doBPF:
			give, err = c.bpf(m, f, &r)
		default:
			r.Ret, err = c.answer(ctx, m, f)
		}
		if f != nil {
			_ = f.Close()
		}
		if err != nil {
			r.Errno, r.Oops, r.Host = errnoOf(err), errors.Is(err, kprobefs.ErrOops), errors.Is(err, kprobefs.ErrNotOurs)
		}
		var fds []int
		if give != nil {
			fds = append(fds, int(give.Fd()))
			r.Gives = true
			defer give.Close()
		}
		if wrote := r.wrote(); wrote != nil {
			fds = append(fds, int(wrote.Fd()))
			r.Wrote = true
			defer wrote.Close()
		}
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		c.askedMu.Lock()
		delete(c.asked, m.ID)
		c.askedMu.Unlock()
		cancel()
		b, _ := json.Marshal(r)
		_ = unix.Sendmsg(c.socket, b, rights, nil, 0)
	})
}

// wrote returns a file with what is to be written into the caller's memory, or nil if that is nothing. If there
// can be no file, the call fails.
func (r *reply) wrote() *os.File {
	if len(r.writes) == 0 {
		return nil
	}
	b, err := json.Marshal(r.writes)
	if err != nil {
		r.Errno = unix.EIO
		return nil
	}
	f, err := questionFile(string(b))
	if err != nil {
		r.Errno = unix.ENOMEM
		return nil
	}
	return f
}

// needsFile has the questions that come with a file.
var needsFile = map[string]bool{doHello: true, doInit: true, doPerf: true, doMade: true, doSyslog: true, doBPF: true}

// errnoOf returns the errno of a call's error.
func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return unix.EINTR
	}
	return unix.EIO
}

func (c *callConn) answer(ctx context.Context, m *callMessage, f *os.File) (ret int, err error) {
	a, q := c.activity.Load(), m.Question
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	switch q.Do {
	case doInit:
		b, err := io.ReadAll(f)
		if err != nil || len(b) < q.Args {
			return 0, errors.Join(err, unix.EIO)
		}
		return 0, a.InitModule(ctx, by, b[q.Args:], module.Options{
			Args: string(b[:q.Args]), IgnoreVermagic: q.Flags&ignoreVermagic != 0, IgnoreModversions: q.Flags&ignoreModversions != 0,
		})
	case doDelete:
		return 0, a.DeleteModule(ctx, by, q.Name, q.Flags&unix.O_TRUNC != 0)
	case doActFor:
		if t := c.tree.Load(); t != nil {
			t.ActFor(q.Thread, m.TID)
		}
		return 0, nil
	case doOwn:
		if t := c.tree.Load(); t != nil {
			t.SetOwnership(map[string]seqfile.Kind{traceFS: seqfile.Tracefs, debugFS: seqfile.Debugfs}[q.Name], q.Own)
		}
		return 0, nil
	case doMap:
		return 0, a.PerfMap(m.PID, q.FD, q.Length, q.Offset, q.Writable)
	case doUserProbe:
		return 0, a.UserProbe(by, q.Site)
	case doSetBPF:
		return 0, c.setBPF(m)
	case doMade:
		return 0, json.NewEncoder(f).Encode(madeEntries(c.entries.Load().All()))
	case doSyslog:
		text, ret, err := a.Syslog(ctx, q.Action, q.Size, q.Null)
		if err == nil && len(text) > 0 {
			_, err = f.WriteAt(text, 0)
		}
		return ret, err
	}
	return 0, unix.ENOSYS
}

// perf answers a perf_event_open(2).
func (c *callConn) perf(m *callMessage, f *os.File) (*os.File, error) {
	if m.Question.Perf == nil {
		return nil, unix.EINVAL
	}
	attr, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	o := *m.Question.Perf
	o.Attr = attr
	by := host.Caller{TID: m.TID, PID: m.PID, Comm: func() string { return m.Comm }}
	return c.activity.Load().PerfOpen(by, o)
}

// watch tells the supervisors when modules have made or removed files of a machine.
func (c *callServer) watch(e *kernel.Entries) {
	c.entries.Store(e)
	changed, _ := json.Marshal(reply{ID: entriesChanged})
	e.Watch(func([]string) {
		for _, conn := range c.all() {
			conn.say(changed)
		}
	})
}

// say sends a message, unless the supervisor has gone, or has many such to read.
func (c *callConn) say(b []byte) {
	c.joining.Lock()
	defer c.joining.Unlock()
	if !c.over {
		_ = unix.Sendmsg(c.socket, b, nil, nil, unix.MSG_DONTWAIT)
	}
}

// entriesChanged is the ID of a reply that answers no question.
const entriesChanged = 0

// made asks what modules have made. It fails with EIO if the server has gone.
func (c *callClient) made() (list []madeEntry, err error) {
	f, err := questionFile()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := &callMessage{ID: c.ownIDs.Add(1), Question: &question{Do: doMade}}
	if r := c.ask(m, f, untilAnswered); r.Errno != 0 {
		return nil, r.Errno
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return list, json.NewDecoder(f).Decode(&list)
}

// ask sends a question with a file, which may be nil, and waits for the answer. While it
// waits it asks at intervals whether to go on; when not, the question is cancelled. It
// fails with EIO if the server has gone.
func (c *callClient) ask(m *callMessage, f *os.File, goOn func() bool) reply {
	gone := reply{ID: m.ID, Errno: unix.EIO}
	done := make(chan reply, 1)
	c.mu.Lock()
	if c.asked == nil {
		c.mu.Unlock()
		return gone
	}
	c.asked[m.ID] = done
	c.mu.Unlock()
	if err := c.send(m, f); err != nil {
		c.mu.Lock()
		delete(c.asked, m.ID)
		c.mu.Unlock()
		return gone
	}
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for asked := false; ; {
		select {
		case r, ok := <-done:
			if !ok {
				return gone
			}
			return r
		case <-tick.C:
			if !asked && !goOn() {
				asked = true
				_ = c.send(&callMessage{ID: m.ID, Question: &question{Do: doCancel}}, nil)
			}
		}
	}
}

// askInterval is how often it is checked whether a caller still waits.
const askInterval = 50 * time.Millisecond

func (c *callClient) send(m *callMessage, f *os.File) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if f != nil {
		rights = unix.UnixRights(int(f.Fd()))
	}
	return unix.Sendmsg(c.socket, b, rights, nil, 0)
}

// replied hands an answer, and the file that came with it, to who has asked.
func (c *callClient) replied(b []byte, files []*os.File) {
	var r reply
	if json.Unmarshal(b, &r) != nil {
		return
	}
	if r.Gives && len(files) > 0 {
		r.file, files = files[0], files[1:]
	}
	for _, f := range files {
		if r.Wrote && json.NewDecoder(f).Decode(&r.writes) != nil {
			r.Errno = unix.EIO
		}
		_ = f.Close()
	}
	if r.ID == entriesChanged {
		select {
		case c.changed <- struct{}{}:
		default: // it will be looked anyway
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.asked[r.ID]; w != nil {
		w <- r
		delete(c.asked, r.ID)
	}
}

// questionFile returns a file in memory with contents.
func questionFile(parts ...string) (*os.File, error) {
	fd, err := unix.MemfdCreate("question", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "question")
	_, err = io.WriteString(f, strings.Join(parts, ""))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

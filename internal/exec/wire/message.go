// Package wire is what a supervisor and the process that serves the files say to each other.
//
// A supervisor reports what its command does outside our files to the process that
// serves them, which makes the guest do the same. The two share a socket, with one
// packet and one answer for each call, and a word of memory that says which calls
// somebody could see: other calls are not sent. A serving process may have several
// supervisors, each with a mount namespace of its own (attach.go).
//
// Some system calls of the command are about the kernel: they load and unload modules and
// read its log. The supervisor does not let the host's kernel have them. It asks the
// process that serves the files, over the socket of the other calls, and passes a file
// with what is too long for a message.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/activity"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// Message is a call that a thread of the command is about to make.
type Message struct {
	ID       uint64
	TID, PID int
	Comm     string
	Nr       uint64 // the number on x86-64
	Args     [6]uint64
	Text     [6][]byte   // what the arguments point to, or nil
	Vector   [6][][]byte // arrays of strings
	Mode     uint64
	Ours     bool // the name is below our files, so that the call comes as a request, too
	Head     [][]byte
	HeadErr  syscall.Errno // for the file after those in Head

	Question *Question // if it is not a call for the guest to repeat; Nr and Args describe the call that it is asked for
}

// MaxPacket is the largest size of a message in bytes.
const MaxPacket = 128 << 10

// syscall converts the call to the guest's form.
func (m *Message) syscall() host.Syscall {
	s := host.Syscall{Nr: m.Nr, Args: m.Args, Mode: m.Mode, Head: m.Head, HeadErr: m.HeadErr}
	for i := range m.Args {
		if m.Text[i] != nil {
			text := string(m.Text[i])
			s.Text[i] = &text
		}
		if m.Vector[i] == nil {
			continue
		}
		s.Vector[i] = []string{}
		for _, v := range m.Vector[i] {
			s.Vector[i] = append(s.Vector[i], string(v))
		}
	}
	return s
}

// fork returns the call if it creates a process or a thread.
func (m *Message) fork() (f host.Fork, ok bool) { return activity.PlainFork(m.Nr, m.Args, m.Text[0]) }

// Question is such a call. The caller's permission has been checked.
type Question struct {
	Do    string // one of the words below
	Args  int    // init: how many bytes of the file are the arguments; the object follows
	Flags uint32 // init: of finit_module(2); delete: of delete_module(2)
	Name  string // delete: of the module
	// actFor: the thread whose requests count as the message's thread's from now on; 0
	// ends that.
	Thread int
	// own: what the mount options of tracefs or debugfs (Name) say.
	Own fs.Ownership
	// syslog: the arguments. The file is for the text.
	Action, Size int
	Null         bool
	// hello: as --mirror says.
	Mirror string
	// perf: the arguments but for the attr, which is the file. perfMap: the arguments of mmap(2).
	Perf           *perffd.OpenArgs
	FD             int
	Length, Offset uint64
	Writable       bool
	// bpf: the arguments; the file is the caller's memory. setBPF: of the program, beside FD.
	BPF     *perffd.BPFCall
	Program int
	Site    uint64 // userProbe: the instruction after the call
}

// What is asked.
const (
	doHello      = "hello" // the first question; the file is for a hello, and the answer comes with the shared word
	DoInit       = "init"
	DoDelete     = "delete"
	DoSyslog     = "syslog"
	DoActFor     = "actFor"
	DoOwn        = "own"
	DoPerf       = "perf"       // perf_event_open(2); the answer comes with a descriptor
	DoBPF        = "bpf"        // bpf(2); the answer comes with what to write, and with a descriptor
	DoSetBPF     = "setBPF"     // PERF_EVENT_IOC_SET_BPF
	DoFDInfo     = "fdinfo"     // what /proc/PID/fdinfo/FD says of a descriptor of bpf(2), of process Thread; the file is for the text
	DoUserProbe  = "userProbe"  // a uprobe in the caller is hit
	DoMap        = "map"        // mmap(2) of such a descriptor, or of one of bpf(2), is about to be made; the answer may come with the memory
	doMade       = "made"       // the file is for the entries of modules, as JSON
	doBackground = "background" // the supervisor goes to the background: the answer is whether the machine has panicked
	doCancel     = "cancel"     // the question with the same ID needs no answer any more
)

// needsFile has the questions that come with a file.
var needsFile = map[string]bool{doHello: true, DoInit: true, DoPerf: true, doMade: true, DoSyslog: true, DoBPF: true, DoFDInfo: true}

// Reply is the answer to a question.
type Reply struct {
	ID    uint64
	Ret   int
	Errno syscall.Errno
	Oops  bool // the caller would have been killed
	Host  bool // the call is the host's to answer
	Gives bool // a file to give came with it
	// Wrote: what is to be written into the caller's memory, whether the call fails or not, came with
	// it in a file, as JSON.
	Wrote bool
	At    []int // the numbers of the descriptors in Given, whose files came last

	File   *os.File          `json:"-"` // what to give
	Writes []perffd.BPFWrite `json:"-"`
	Given  []perffd.BPFGiven `json:"-"` // to give with these numbers
}

// wrote returns a file with what is to be written into the caller's memory, or nil if that is nothing. If there
// can be no file, the call fails.
func (r *Reply) wrote() *os.File {
	if len(r.Writes) == 0 {
		return nil
	}
	b, err := json.Marshal(r.Writes)
	if err != nil {
		r.Errno = unix.EIO
		return nil
	}
	f, err := File(string(b))
	if err != nil {
		r.Errno = unix.ENOMEM
		return nil
	}
	return f
}

// Hello is what a supervisor learns first.
type Hello struct {
	Release string // as --release and --config say
	Config  []string
	Shown   Shown  // the kernel's file whose tree it is
	Blind   string // why reads, writes and the like are not seen, or ""
	Plain   bool   // the serving process needs not to be told of calls that are plain (calls.Row.Plain)
	Maps    bool   // descriptors of perf_event_open(2) and bpf(2) can be mapped as they are
}

// Shown names the kernel of a file, whose tree is served. Both names are empty for an emulated kernel.
type Shown struct {
	Release string // uname -r
	Banner  string // /proc/version, without the newline
}

// sharedWord maps the first word of a file.
func sharedWord(f *os.File, prot int) (*atomic.Uint32, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return (*atomic.Uint32)(unsafe.Pointer(&b[0])), nil
}

// Threads counts events of threads: a byte for each number that a thread can have, in a file of which few
// pages are used.
type Threads []byte

// maxThread is above the largest number of a thread.
const maxThread = 1 << 22

// Count counts an event of a thread.
func (t Threads) Count(tid int) {
	if tid > 0 && tid < len(t) {
		t[tid]++ // the thread has stopped: nobody reads it
	}
}

// Changed reports whether a thread's number differs from that in seen, and copies it there.
func (t Threads) Changed(tid int, seen Threads) bool {
	if tid <= 0 || tid >= len(t) || tid >= len(seen) {
		return false
	}
	n := t[tid]
	changed := n != seen[tid]
	seen[tid] = n
	return changed
}

// threadsIn maps the counts that follow the first page of a file or, if f is nil, counts that nobody shares.
func threadsIn(f *os.File, prot int) (Threads, error) {
	if f == nil {
		return unix.Mmap(-1, 0, maxThread, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	}
	return unix.Mmap(int(f.Fd()), int64(os.Getpagesize()), maxThread, prot, unix.MAP_SHARED)
}

// What --mirror takes.
const (
	MirrorAll     = "all"
	MirrorStops   = "stops" // all, by a stop at each call
	MirrorChanges = "changes"
	MirrorNone    = "none"
)

// Entry is a file, directory or symbolic link of a module.
type Entry struct {
	Path string // in the guest, where the command looks for it
	Dir  bool
	Link string // target of a symbolic link
	Ino  uint64 // differs between an entry and a later one with its path
}

// elsewhere are the directories whose files are at their places anyway.
var elsewhere = []string{hostview.DebugfsDir, hostview.TracefsDir, "/sys/module"}

// entriesOf returns the entries that are not there from the start.
func entriesOf(all []*kernel.Entry) []Entry {
	list := []Entry{}
	for _, e := range all {
		if !e.AtBoot && !hostview.Below(e.Path, elsewhere) {
			list = append(list, Entry{e.Path, e.Mode&unix.S_IFMT == unix.S_IFDIR, e.Link, e.Ino})
		}
	}
	return list
}

// Flags of finit_module(2).
const (
	IgnoreModversions = 1
	IgnoreVermagic    = 2
	CompressedFile    = 4
)

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

// ErrnoOf returns the errno of a call's error.
func ErrnoOf(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return unix.EINTR
	}
	return unix.EIO
}

// entriesChanged is the ID of a reply that answers no question.
const entriesChanged = 0

// File returns a file in memory with contents.
func File(parts ...string) (*os.File, error) {
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

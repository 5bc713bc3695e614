// Package seqfile says what a file of the tree is, without saying how it is
// mounted: a Row names it, Open gives a File, a File answers read(2) and
// write(2) at a position. Directories are lists of rows, which may change while
// they are looked at.
//
// It also holds the ways in which the kernel lets a file be read, each with its
// own rules for positions and short reads: Seq is seq_file, Value is
// simple_read_from_buffer. Packages above it choose one and hand in what to show.
//
// The package knows nothing of FUSE; package fs serves its rows, and tests call
// them.
package seqfile

import (
	"context"
	"syscall"
)

// Kind is the filesystem of Linux that a directory and what is below it stand
// for. It decides the errnos of refused operations, the block size, and who may
// change modes. 0 takes the parent's.
type Kind uint8

// The filesystems that the tree has parts of.
const (
	Inherit Kind = iota // as the directory above
	Ours                // what Linux does not have: the root, machine/
	Debugfs
	Tracefs
	Proc
	ProcSys // /proc/sys
	Devtmpfs
)

// Row is one file or directory.
type Row struct {
	Name string
	// Mode holds the permission bits (0400); the type follows from Dir.
	Mode     uint32
	UID, GID uint32

	// Dir makes the row a directory.
	Dir  Dir
	Kind Kind
	// OneLink is for a directory that has one link whatever is in it.
	OneLink bool
	// At is where the directory stands in the guest ("/sys/kernel/debug/kprobes");
	// "" puts it below its parent's place.
	At string
	// OthersRead lets everybody read the files of the directory, and of those below
	// it, that their owner may read.
	OthersRead bool

	// Open is f_op->open of a file: checks of the mode bits are over, the flags
	// are as the caller gave them (O_TRUNC included: this is the place to clear).
	Open func(ctx context.Context, o *OpenInfo) (File, error)
	// SetAttr is asked before the mode or the owner changes; nil: they may.
	SetAttr func(c *Caller) error
	// FOps is the guest's file operations that a call on the file goes through
	// (abi.FOps*).
	FOps uint64

	// Gen tells files apart that bear the same name one after the other: a row
	// with another Gen is another inode.
	Gen uint64
}

// IsDir says whether the row is a directory.
func (r *Row) IsDir() bool { return r.Dir != nil }

// FileMode is st_mode: type and permission bits.
func (r *Row) FileMode() uint32 {
	if r.IsDir() {
		return syscall.S_IFDIR | r.Mode
	}
	return syscall.S_IFREG | r.Mode
}

// Dir is what a directory holds at the moment, in the order of creation.
// Rows that stay the same keep their name and Gen; the pointer may change.
type Dir interface {
	Rows() []*Row
}

// Finder is a Dir that finds one row faster than by going through all.
type Finder interface {
	Find(name string) *Row // nil: none
}

// Creator is a Dir in which files can be created by open(O_CREAT).
type Creator interface {
	Create(ctx context.Context, o *OpenInfo, name string) (File, error)
}

// Unlinker is a Dir whose files can be removed.
type Unlinker interface {
	Unlink(ctx context.Context, name string) error
}

// Mkdirer is a Dir in which mkdir(2) and rmdir(2) work, as tracefs' instances.
type Mkdirer interface {
	Mkdir(ctx context.Context, name string) error
	Rmdir(ctx context.Context, name string) error
}

// Table is a directory that does not change.
type Table []*Row

// Rows gives the table itself.
func (t Table) Rows() []*Row { return t }

// DirFunc is a directory whose rows are made anew at each look.
type DirFunc func() []*Row

// Rows calls the function.
func (f DirFunc) Rows() []*Row { return f() }

var (
	_ Dir = Table(nil)
	_ Dir = DirFunc(nil)
)

// Find gives d's row of that name, or nil.
func Find(d Dir, name string) *Row {
	if f, ok := d.(Finder); ok {
		return f.Find(name)
	}
	for _, r := range d.Rows() {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// File is an open file: what struct file and its private data are. Calls may
// come at the same time from several threads.
type File interface {
	// Read is f_op->read at off: it fills p from the front and returns how many
	// bytes; 0 is the end. It returns EINTR when ctx ends while it waits.
	Read(ctx context.Context, p []byte, off int64) (int, error)
	// Write is f_op->write at off. It may take fewer bytes than it is given.
	Write(ctx context.Context, p []byte, off int64) (int, error)
	// Release is the end of the last reference.
	Release()
}

// As finds a File that is a T, such as a Flusher: f, or the one that it wraps.
// A File that wraps another gives it by Unwrap() File.
func As[T any](f File) (as T, ok bool) {
	for {
		if as, ok = f.(T); ok {
			return as, true
		}
		w, wraps := f.(interface{ Unwrap() File })
		if !wraps {
			return as, false
		}
		f = w.Unwrap()
	}
}

// Flusher is a File that acts, and may fail, at close(2): f_op->flush.
type Flusher interface {
	Flush(ctx context.Context) error
}

// PosKeeper is a File that can say whether writes leave the position where it is.
type PosKeeper interface {
	KeepsPos() bool
}

// Seeker is a File with an llseek of its own, as far as a FUSE daemon is asked:
// SEEK_END, SEEK_DATA and SEEK_HOLE (SEEK_SET and SEEK_CUR are only seen by the
// position of the next read). It returns the new position.
type Seeker interface {
	Seek(off int64, whence int) (int64, error)
}

// Poller is a File with a poll of its own. Others are ready for all at any time.
type Poller interface {
	// Poll is f_op->poll: what is ready now, and a channel that gets a value, or
	// is closed, when that may have changed. end is called when nobody looks at
	// the channel any more.
	Poll() (ready uint32, changed <-chan struct{}, end func())
}

// What a Poller tells: POLLIN and so on of poll(2).
const (
	PollIn     = 0x0041 // POLLIN, POLLRDNORM
	PollOut    = 0x0104 // POLLOUT, POLLWRNORM
	PollLost   = 0x000a // POLLERR, POLLPRI
	PollNone   = 0x0028 // POLLERR, POLLNVAL: the file is not for this
	PollAlways = PollIn | PollOut
)

// Whence values of lseek(2) that reach a Seeker.
const (
	SeekEnd  = 2
	SeekData = 3
	SeekHole = 4
)

// Caller is who makes a system call. Its functions are asked only when the
// answer matters, since each looks into the host's /proc.
type Caller struct {
	PID, TID int // process and thread; 0: not to be seen from here
	UID, GID uint32
	// FileFlags is f_flags of the open file at this call: fcntl(2) may have
	// changed them since the open. 0 in calls that are not on an open file.
	FileFlags uint32
	// CommFunc gives current->comm; nil: unknown.
	CommFunc func() string
	// CapableFunc says whether a capability (CAP_*) is effective; nil: root has all.
	CapableFunc func(capability int) bool
	// GroupsFunc gives the supplementary groups; nil: none.
	GroupsFunc func() []uint32
}

// Comm is the caller's current->comm.
func (c *Caller) Comm() string {
	if c.CommFunc == nil {
		return "unknown"
	}
	return c.CommFunc()
}

// Capabilities that files of the tree ask for.
const (
	CapDACOverride   = 1
	CapDACReadSearch = 2
	CapFowner        = 3
	CapSysAdmin      = 21
	CapSyslog        = 34
)

// Capable is capable(): whether the caller has a capability.
func (c *Caller) Capable(capability int) bool {
	if c.CapableFunc == nil {
		return c.UID == 0
	}
	return c.CapableFunc(capability)
}

// Cred is f_cred of a file that the caller opens now, as far as one capability
// goes: it answers for that one as the caller is at this moment, whoever reads
// the file later and whether the opener still lives. It has no other.
func (c *Caller) Cred(capability int) *Caller {
	has := c.Capable(capability)
	return &Caller{
		PID: c.PID, TID: c.TID, UID: c.UID, GID: c.GID,
		CapableFunc: func(c int) bool { return has && c == capability },
	}
}

// OpenInfo is what an open(2) brings with it.
type OpenInfo struct {
	Caller
	Flags uint32 // O_RDONLY, O_TRUNC, O_APPEND, O_NONBLOCK, ...
}

// Reads and Writes say for what the file is opened. Access mode 3 does neither,
// as in Linux.
func (o *OpenInfo) Reads() bool {
	return o.Flags&syscall.O_ACCMODE == syscall.O_RDONLY || o.Flags&syscall.O_ACCMODE == syscall.O_RDWR
}

// Writes says whether the file is opened for writing.
func (o *OpenInfo) Writes() bool {
	return o.Flags&syscall.O_ACCMODE == syscall.O_WRONLY || o.Flags&syscall.O_ACCMODE == syscall.O_RDWR
}

// Truncates says whether the open empties the file.
func (o *OpenInfo) Truncates() bool { return o.Flags&syscall.O_TRUNC != 0 }

// Nonblock says whether reads return EAGAIN instead of waiting.
func (o *OpenInfo) Nonblock() bool { return o.Flags&syscall.O_NONBLOCK != 0 }

type callerKey struct{}

// WithCaller hands the caller of a request down to File's methods.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf gives the caller of the request that ctx belongs to: root of an
// unknown process when none was set.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// Opens is a Row's Open for a file that keeps nothing between open and close.
func Opens(f File) func(context.Context, *OpenInfo) (File, error) {
	return func(context.Context, *OpenInfo) (File, error) { return f, nil }
}

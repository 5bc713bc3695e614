// Package seqfile defines the files of the tree, independently of how it is mounted: a
// Row has a name, its Open returns a File, and a File handles read(2) and write(2) at a
// position. Directories are lists of rows, which may change while they are read.
//
// It also has the kernel's ways to implement read, each with its own rules for
// positions and short reads: Seq is seq_file, Value is simple_read_from_buffer.
// Packages above choose one and supply the contents.
//
// The package does not depend on FUSE; package fs serves its rows, and tests call them
// directly.
package seqfile

import (
	"context"
	"syscall"
)

// Kind is the filesystem of Linux that a directory and everything below it belong to.
// It decides the errnos of refused operations, the block size, and whether modes can be
// changed. 0 inherits the parent's.
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
	Sysfs
	BPFFS
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
	// Eventfs is set for a directory of eventfs: its link count is always 1, and what is made
	// in it belongs to whom the uppermost of these directories belonged to when it was made.
	Eventfs bool
	// At is the path of the directory in the guest ("/sys/kernel/debug/kprobes"); ""
	// means its place below its parent.
	At string
	// OthersRead allows everybody to read the files in and below the directory that
	// their owner may read.
	OthersRead bool

	// UsableAfterPanic means that the file, or the files in and below the directory,
	// do not depend on code of the guest: they work after its kernel has died. It does not
	// hold for what is below and has an At of its own.
	UsableAfterPanic bool

	// WithoutGuest means that calls on the file do not go through the guest at all, so that
	// it works while a debugger has stopped the machine.
	WithoutGuest bool

	// Mappable allows mmap(2) of a file that is WithoutGuest.
	Mappable bool

	// Open is f_op->open of a file: mode bits have been checked, and the flags are as
	// the caller passed them (including O_TRUNC, which Open has to handle).
	Open func(ctx context.Context, o *OpenInfo) (File, error)
	// SetAttr is called before the mode or the owner changes. If it is nil, they may
	// change.
	SetAttr func(c *Caller) error
	// Keep is called when the mode or the owner has changed, for a directory that can give the file another name; it may
	// be nil.
	Keep func(mode, uid, gid uint32)
	// Guest is set for a file that is the guest's own, such as a module's: calls on it are
	// system calls of the guest alone. Open is for those who make no system calls.
	Guest bool
	// Paged is set for a file whose open files are Splicers.
	Paged bool
	// Link is the target of a symbolic link, which has no Open.
	Link string
	// Size is st_size, bytes.
	Size uint64
	// FOps is the guest's file operations that a call on the file goes through
	// (abi.FOps*).
	FOps uint64

	// Gen distinguishes successive files of the same name: a row with another Gen is
	// another inode.
	Gen uint64
}

// IsDir reports whether the row is a directory.
func (r *Row) IsDir() bool { return r.Dir != nil }

// FileMode is st_mode: type and permission bits.
func (r *Row) FileMode() uint32 {
	if r.IsDir() {
		return syscall.S_IFDIR | r.Mode
	}
	if r.Link != "" {
		return syscall.S_IFLNK | r.Mode
	}
	return syscall.S_IFREG | r.Mode
}

// Dir returns the current rows of a directory, in the order of creation. Rows that stay
// the same keep their name and Gen; the pointer may change.
type Dir interface {
	Rows() []*Row
}

// Finder is a Dir that can find a row by name without listing all.
type Finder interface {
	Find(name string) *Row // nil if there is none
}

// Counter is a Dir that can count its directories without listing all rows.
type Counter interface {
	Dirs() int
}

// Dirs returns the number of directories in d.
func Dirs(d Dir) (n int) {
	if c, ok := d.(Counter); ok {
		return c.Dirs()
	}
	for _, r := range d.Rows() {
		if r.IsDir() {
			n++
		}
	}
	return n
}

// Creator is a Dir in which files can be created by open(O_CREAT).
type Creator interface {
	Create(ctx context.Context, o *OpenInfo, name string) (File, error)
}

// Unlinker is a Dir whose files can be removed.
type Unlinker interface {
	Unlink(ctx context.Context, name string) error
}

// Mkdirer is a Dir in which mkdir(2) and rmdir(2) work, like instances of tracefs.
type Mkdirer interface {
	Mkdir(ctx context.Context, name string) error
	Rmdir(ctx context.Context, name string) error
}

// Maker is a Dir in which users make directories and symbolic links of their own, and name files anew.
type Maker interface {
	// Make makes a directory with a mode or, if there is a target, a symbolic link.
	Make(ctx context.Context, name string, mode uint32, target string) error
	// Rename is renameat2(2); into is the directory of the new name.
	Rename(ctx context.Context, name string, into Dir, to string, flags uint32) error
}

// Table is a directory that does not change.
type Table []*Row

// Rows returns the table itself.
func (t Table) Rows() []*Row { return t }

// DirFunc is a directory whose rows are created at each call.
type DirFunc func() []*Row

// Rows calls the function.
func (f DirFunc) Rows() []*Row { return f() }

var (
	_ Dir = Table(nil)
	_ Dir = DirFunc(nil)
)

// Find returns d's row of that name, or nil.
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

// File is an open file: struct file and its private data. Several threads may call it
// at the same time.
type File interface {
	// Read is f_op->read at off: it fills p from the front and returns how many bytes;
	// 0 is the end. It fails with EINTR if ctx ends while it waits.
	Read(ctx context.Context, p []byte, off int64) (int, error)
	// Write is f_op->write at off. It may consume fewer bytes than it is given.
	Write(ctx context.Context, p []byte, off int64) (int, error)
	// Release is called after the last reference is gone.
	Release()
}

// As returns a File as a T, such as a Flusher: f itself, or one that it wraps. A File
// that wraps another has the method Unwrap() File.
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

// Seeker is a File with its own llseek, as far as the kernel asks a FUSE server:
// SEEK_END, SEEK_DATA and SEEK_HOLE (SEEK_SET and SEEK_CUR only change the position of
// the next read). Seek returns the new position.
type Seeker interface {
	Seek(off int64, whence int) (int64, error)
}

// Splicer is a File from which splice(2) and sendfile(2) read. Its Row is Paged.
type Splicer interface {
	// Splice fills b, one page of the host's page cache, from where the last call has
	// ended, and returns 0 at the end.
	Splice(ctx context.Context, b []byte) (int, error)
}

// SpliceChecker is a Splicer that may have to wait, or that does not take each length. The
// host's kernel tells FUSE neither of SPLICE_F_NONBLOCK nor of the length: who looks at a
// program's calls asks before (fs.CheckSplice).
type SpliceChecker interface {
	// CheckSplice returns EAGAIN if Splice has nothing to return at once, and EINVAL if
	// there is no splice(2) of length bytes.
	CheckSplice(length int) error
}

// PageSplicer is a File from which splice(2) fills the pages of a pipe in part. The host's
// kernel cannot ask FUSE for that: who makes the call for a program does (fs.SplicePage).
type PageSplicer interface {
	// SplicePage fills b, room for one page at most. It does not wait: EAGAIN says that
	// splice(2) would. 0 is its result when nothing has been moved before.
	SplicePage(b []byte) (int, error)
}

// Poller is a File with its own poll. Other files are always ready.
type Poller interface {
	// Poll is f_op->poll: it returns the events that are ready now, and a channel that
	// gets a value or is closed when that may have changed. The caller calls end when
	// it no longer uses the channel.
	Poll() (ready uint32, changed <-chan struct{}, end func())
}

// The events that a Poller returns, as in poll(2).
const (
	PollIn     = 0x0041 // POLLIN, POLLRDNORM
	PollOut    = 0x0104 // POLLOUT, POLLWRNORM
	PollLost   = 0x000a // POLLERR, POLLPRI
	PollNone   = 0x0028 // POLLERR, POLLNVAL: the file cannot be polled
	PollAlways = PollIn | PollOut
)

// Whence values of lseek(2) that reach a Seeker.
const (
	SeekEnd  = 2
	SeekData = 3
	SeekHole = 4
)

// Caller is the process that makes a system call. Its functions are called only when
// needed, because each reads the host's /proc.
type Caller struct {
	PID, TID int // process and thread, or 0 if not visible here
	UID, GID uint32
	// Recorded means that PID and TID are numbers of the machine's own, by which the host knows nobody.
	Recorded bool
	// FileFlags is f_flags of the open file at this call: fcntl(2) may have
	// changed them since the open. 0 in calls that are not on an open file.
	FileFlags uint32
	// CommFunc returns current->comm; it may be nil.
	CommFunc func() string
	// CapableFunc reports whether a capability (CAP_*) is effective. If it is nil, root
	// has all.
	CapableFunc func(capability int) bool
	// GroupsFunc returns the supplementary groups; it may be nil.
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

// Cred is f_cred of a file that the caller opens now, reduced to one capability: it
// keeps the answer of this moment, even if someone else reads the file later or the
// opener has exited. It has no other capability.
func (c *Caller) Cred(capability int) *Caller {
	has := c.Capable(capability)
	return &Caller{
		PID: c.PID, TID: c.TID, UID: c.UID, GID: c.GID,
		CapableFunc: func(c int) bool { return has && c == capability },
	}
}

// OpenInfo is the input of an open(2).
type OpenInfo struct {
	Caller
	Flags uint32 // O_RDONLY, O_TRUNC, O_APPEND, O_NONBLOCK, ...
}

// Reads reports whether the file is opened for reading. Access mode 3 neither reads nor
// writes, as on Linux.
func (o *OpenInfo) Reads() bool {
	return o.Flags&syscall.O_ACCMODE == syscall.O_RDONLY || o.Flags&syscall.O_ACCMODE == syscall.O_RDWR
}

// Writes reports whether the file is opened for writing.
func (o *OpenInfo) Writes() bool {
	return o.Flags&syscall.O_ACCMODE == syscall.O_WRONLY || o.Flags&syscall.O_ACCMODE == syscall.O_RDWR
}

// Truncates reports whether the open empties the file.
func (o *OpenInfo) Truncates() bool { return o.Flags&syscall.O_TRUNC != 0 }

type callerKey struct{}

// WithCaller passes the caller of a request to File's methods.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller of the request that ctx belongs to, or root of an unknown
// process if none was set.
func CallerOf(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// Opens is a Row's Open for a file without state between open and close.
func Opens(f File) func(context.Context, *OpenInfo) (File, error) {
	return func(context.Context, *OpenInfo) (File, error) { return f, nil }
}

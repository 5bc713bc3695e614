package supervise

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/internal/exec/notify"
	"github.com/kprobefs/kprobefs/internal/exec/wire"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Identity is what uname(2) says of the emulated kernel.
type Identity struct {
	Release, Version string
	Linux            release.Version
	Hosts            bool // uname(2) tells the host's release
}

// numbers returns the numbers of the calls that are answered.
func (k Identity) numbers() []uint32 {
	var all []uint32
	for nr := range kernelCalls {
		if nr != unix.SYS_UNAME || !k.Hosts {
			all = append(all, uint32(nr))
		}
	}
	slices.Sort(all)
	return all
}

// asks reports what a caller asks, and returns the answer. A caller whose task has died in
// the kernel is killed, as on Linux.
func (s *supervisor) asks(c *notify.Caller, q *wire.Question, f *os.File) (int, syscall.Errno) {
	r := s.askOf(c, q, f)
	return r.Ret, r.Errno
}

// askOf is asks with all of the answer.
func (s *supervisor) askOf(c *notify.Caller, q *wire.Question, f *os.File) wire.Reply {
	m := &wire.Message{ID: c.ID, Question: q}
	if c.Arch == unix.AUDIT_ARCH_X86_64 {
		m.Nr, m.Args = uint64(c.Nr), c.Args
	}
	if !c.Take(func(tid int) {
		m.TID = tid
		m.PID, _ = s.groups.Of(tid)
		m.Comm, _ = proc.Comm(tid)
	}) {
		return wire.Reply{ID: c.ID, Errno: unix.ESRCH}
	}
	r := s.Calls.Ask(m, f, func() bool { return c.Waits() && (q.Do != wire.DoSyslog || !c.SignalPending()) })
	if q.Do == wire.DoInit || q.Do == wire.DoDelete {
		s.Made.Sync()
	}
	if r.Oops {
		c.Kill()
	}
	return r
}

// maxObject is the largest size of a module's file in bytes; maxArguments the largest size of its
// arguments. elfHeader is the size of an ELF header.
const (
	maxObject    = 16 << 20
	maxArguments = 2 << 20
	elfHeader    = 64
)

// initModule is init_module(2).
func (s *supervisor) initModule(c *notify.Caller) (int, syscall.Errno) {
	if !c.Capable(unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	size := c.Args[1]
	switch {
	case size < elfHeader:
		return 0, unix.ENOEXEC
	case size > maxObject:
		return 0, unix.ENOMEM
	}
	var object []byte
	if !c.Take(func(tid int) { object = proc.ReadMemory(tid, c.Args[0], make([]byte, size)) }) || uint64(len(object)) < size {
		return 0, unix.EFAULT
	}
	return s.load(c, object, c.Args[2], 0)
}

// load asks for a module to be loaded.
func (s *supervisor) load(c *notify.Caller, object []byte, args uint64, flags uint32) (int, syscall.Errno) {
	text, errno := "", syscall.Errno(0)
	if !c.Take(func(tid int) { text, errno = readArguments(tid, args) }) {
		return 0, unix.ESRCH
	}
	if errno != 0 && bytes.HasPrefix(object, []byte("\x7fELF")) {
		return 0, errno // otherwise the kernel does not come to the arguments
	}
	f, err := wire.File(text, string(object))
	if err != nil {
		return 0, unix.ENOMEM
	}
	defer f.Close()
	return s.asks(c, &wire.Question{Do: wire.DoInit, Args: len(text), Flags: flags}, f)
}

// readArguments is strndup_user: it fails with EFAULT, and with EINVAL if the string is
// too long.
func readArguments(tid int, addr uint64) (string, syscall.Errno) {
	var text []byte
	for len(text) <= maxArguments {
		b := proc.ReadMemory(tid, addr+uint64(len(text)), make([]byte, unix.PathMax))
		if part, _, ended := bytes.Cut(b, []byte{0}); ended {
			return string(append(text, part...)), 0
		}
		if len(b) < unix.PathMax {
			return "", unix.EFAULT
		}
		text = append(text, b...)
	}
	return "", unix.EINVAL
}

// finitModule is finit_module(2).
func (s *supervisor) finitModule(c *notify.Caller) (int, syscall.Errno) {
	flags := uint32(c.Args[2])
	if !c.Capable(unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	known := uint32(wire.IgnoreModversions | wire.IgnoreVermagic)
	if s.Kernel.Linux.Has(release.CompressedModules) {
		known |= wire.CompressedFile
	}
	if flags&^known != 0 {
		return 0, unix.EINVAL
	}
	object, errno := readObject(c, int(int32(c.Args[0])))
	switch {
	case errno != 0:
		return 0, errno
	case flags&wire.CompressedFile != 0: // CONFIG_MODULE_DECOMPRESS is off
		return 0, unix.EOPNOTSUPP
	}
	return s.load(c, object, c.Args[1], flags)
}

// readObject is kernel_read_file_from_fd: it returns the contents of a caller's file. It
// fails with EBADF if that cannot be read, EINVAL if it is empty or not a regular file,
// ETXTBSY if it is open for writing, and EFBIG.
func readObject(c *notify.Caller, fd int) ([]byte, syscall.Errno) {
	if fd < 0 {
		return nil, unix.EBADF
	}
	local, err := c.Borrow(fd)
	if err != nil {
		return nil, unix.EBADF
	}
	defer unix.Close(local)
	flags, err := unix.FcntlInt(uintptr(local), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_PATH != 0 || flags&unix.O_ACCMODE == unix.O_WRONLY {
		return nil, unix.EBADF
	}
	var st unix.Stat_t
	if err := unix.Fstat(local, &st); err != nil {
		return nil, wire.ErrnoOf(err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, unix.EINVAL
	case flags&unix.O_ACCMODE == unix.O_RDWR:
		return nil, unix.ETXTBSY
	case st.Size == 0:
		return nil, unix.EINVAL
	case st.Size > maxObject:
		return nil, unix.EFBIG
	}
	b := make([]byte, st.Size)
	for n := 0; n < len(b); {
		k, err := unix.Pread(local, b[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && k == 0 {
			err = io.ErrUnexpectedEOF // it was truncated
		}
		if err != nil {
			return nil, wire.ErrnoOf(err)
		}
		n += k
	}
	return b, 0
}

// deleteModule is delete_module(2).
func (s *supervisor) deleteModule(c *notify.Caller) (int, syscall.Errno) {
	if !c.Capable(unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	const nameLen = 64 - 8 - 1 // MODULE_NAME_LEN, less the final zero
	var b []byte
	if !c.Take(func(tid int) { b = proc.ReadMemory(tid, c.Args[0], make([]byte, nameLen)) }) {
		return 0, unix.ESRCH
	}
	name, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < nameLen {
		return 0, unix.EFAULT
	}
	return s.asks(c, &wire.Question{Do: wire.DoDelete, Name: string(name), Flags: uint32(c.Args[1])}, nil)
}

// syslog is syslog(2). It needs CAP_SYSLOG, because kernel.dmesg_restrict is 1 on Debian.
func (s *supervisor) syslog(c *notify.Caller) (int, syscall.Errno) {
	if !c.Capable(unix.CAP_SYSLOG, unix.CAP_SYS_ADMIN) {
		return 0, unix.EPERM
	}
	q := &wire.Question{Do: wire.DoSyslog, Action: int(int32(c.Args[0])), Null: c.Args[1] == 0, Size: int(int32(c.Args[2]))}
	f, err := wire.File()
	if err != nil {
		return 0, unix.ENOMEM
	}
	defer f.Close()
	ret, errno := s.asks(c, q, f)
	if errno != 0 {
		return 0, errno
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return 0, wire.ErrnoOf(err)
	}
	if !c.Write(c.Args[1], text) {
		return 0, unix.EFAULT
	}
	return ret, 0
}

// uname is uname(2): the release and the version are the emulated kernel's.
func (s *supervisor) uname(c *notify.Caller) (int, syscall.Errno) {
	u, err := unameOf(c)
	if err != nil {
		return 0, wire.ErrnoOf(err)
	}
	names := []string{
		unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Nodename[:]), s.Kernel.Release, s.Kernel.Version,
		unix.ByteSliceToString(u.Machine[:]), unix.ByteSliceToString(u.Domainname[:]),
	}
	persona := ""
	if c.Take(func(tid int) { persona, _ = proc.Read(tid, "personality") }) && strings.HasSuffix(strings.TrimSpace(persona), "08") { // PER_LINUX32
		names[4] = "i686"
	}
	b := make([]byte, c.Uname.Names*c.Uname.Length)
	for i, name := range names[:c.Uname.Names] {
		copy(b[i*c.Uname.Length:(i+1)*c.Uname.Length-1], name)
	}
	if !c.Write(c.Args[0], b) {
		return 0, unix.EFAULT
	}
	return 0, 0
}

// unameOf returns what the host's kernel says in a caller's UTS namespace.
func unameOf(c *notify.Caller) (u unix.Utsname, err error) {
	var space *os.File
	own := false
	waits := c.Take(func(tid int) {
		if own = hostview.SameSpace(tid, "uts"); !own {
			space, err = hostview.OpenHandle(proc.Path(tid, "ns/uts"), unix.O_RDONLY)
		}
	})
	if space != nil {
		defer space.Close()
	}
	switch {
	case err != nil:
		return u, err
	case !waits:
		return u, unix.ESRCH
	case own:
		return u, unix.Uname(&u)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- errors.Join(unix.Setns(int(space.Fd()), unix.CLONE_NEWUTS), unix.Uname(&u))
	}()
	return u, <-done
}

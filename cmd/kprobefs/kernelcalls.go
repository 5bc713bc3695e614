package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host/proc"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// answeredCalls are the system calls about the kernel that the supervisor answers for the
// emulated one: none of them reaches the host's kernel. uname(2) is one of them unless
// --uname=host.
var answeredCalls = map[int32]func(*supervisor, *seccompNotif) (int, syscall.Errno){
	unix.SYS_INIT_MODULE:   (*supervisor).initModule,
	unix.SYS_FINIT_MODULE:  (*supervisor).finitModule,
	unix.SYS_DELETE_MODULE: (*supervisor).deleteModule,
	unix.SYS_SYSLOG:        (*supervisor).syslog,
	unix.SYS_UNAME:         (*supervisor).uname,
}

// identity is what uname(2) says of the emulated kernel.
type identity struct {
	release, version string
	linux            release.Version
	hosts            bool // uname(2) tells the host's release
}

// numbers returns the numbers of the calls that are answered.
func (k identity) numbers() []uint32 {
	var all []uint32
	for nr := range answeredCalls {
		if nr != unix.SYS_UNAME || !k.hosts {
			all = append(all, uint32(nr))
		}
	}
	slices.Sort(all)
	return all
}

// answerKernel answers a call of answeredCalls.
func (s *supervisor) answerKernel(n *seccompNotif) {
	ret, errno := answeredCalls[n.nr](s, n)
	r := seccompNotifResp{id: n.id, val: int64(ret), err: -int32(errno)}
	_ = seccompIoctl(s.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// asks reports what a caller asks, and returns the answer. A caller whose task has died in
// the kernel is killed, as on Linux.
func (s *supervisor) asks(n *seccompNotif, q *question, f *os.File) (int, syscall.Errno) {
	r := s.askOf(n, q, f)
	return r.Ret, r.Errno
}

// askOf is asks with all of the answer.
func (s *supervisor) askOf(n *seccompNotif, q *question, f *os.File) reply {
	tid := int(n.pid)
	m := &callMessage{ID: n.id, TID: tid, Question: q}
	m.PID, _ = s.groups.of(tid)
	m.Comm, _ = proc.Comm(tid)
	r := s.calls.ask(m, f, func() bool {
		return s.stillAsks(n.id) && (q.Do != doSyslog || !signalPending(tid))
	})
	if q.Do == doInit || q.Do == doDelete {
		s.made.sync()
	}
	if r.Oops && s.stillAsks(n.id) {
		_ = unix.Kill(m.PID, unix.SIGKILL)
	}
	return r
}

// stillAsks reports whether the caller of a notification still waits for its answer.
func (s *supervisor) stillAsks(id uint64) bool {
	return seccompIoctl(s.listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// status returns a field of a thread's /proc/TID/status that is a hexadecimal number.
func status(tid int, field string) uint64 {
	text, _ := proc.Status(tid, field)
	n, _ := strconv.ParseUint(text, 16, 64)
	return n
}

// signalPending reports whether a thread has a signal that it neither blocks nor ignores.
func signalPending(tid int) bool {
	return (status(tid, "SigPnd")|status(tid, "ShdPnd"))&^(status(tid, "SigBlk")|status(tid, "SigIgn")) != 0
}

// capable reports whether a thread has one of the capabilities in this process's user
// namespace, whose root is that of the emulated kernel.
func capable(tid int, caps ...int) bool {
	set := status(tid, "CapEff")
	for _, c := range caps {
		if set&(1<<c) != 0 {
			return sameSpace(tid, "user")
		}
	}
	return false
}

// maxObject is the largest size of a module's file in bytes; maxArguments that of its
// arguments. elfHeader is the size of an ELF header.
const (
	maxObject    = 16 << 20
	maxArguments = 2 << 20
	elfHeader    = 64
)

// initModule is init_module(2).
func (s *supervisor) initModule(n *seccompNotif) (int, syscall.Errno) {
	tid := int(n.pid)
	if !capable(tid, unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	size := n.args[1]
	switch {
	case size < elfHeader:
		return 0, unix.ENOEXEC
	case size > maxObject:
		return 0, unix.ENOMEM
	}
	object := proc.ReadMemory(tid, n.args[0], make([]byte, size))
	if uint64(len(object)) < size {
		return 0, unix.EFAULT
	}
	return s.load(n, object, n.args[2], 0)
}

// load asks for a module to be loaded.
func (s *supervisor) load(n *seccompNotif, object []byte, args uint64, flags uint32) (int, syscall.Errno) {
	text, errno := readArguments(int(n.pid), args)
	if errno != 0 && bytes.HasPrefix(object, []byte("\x7fELF")) {
		return 0, errno // otherwise the kernel does not come to the arguments
	}
	f, err := questionFile(text, string(object))
	if err != nil {
		return 0, unix.ENOMEM
	}
	defer f.Close()
	return s.asks(n, &question{Do: doInit, Args: len(text), Flags: flags}, f)
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
func (s *supervisor) finitModule(n *seccompNotif) (int, syscall.Errno) {
	tid, flags := int(n.pid), uint32(n.args[2])
	if !capable(tid, unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	known := uint32(ignoreModversions | ignoreVermagic)
	if s.kernel.linux.Has(release.CompressedModules) {
		known |= compressedFile
	}
	if flags&^known != 0 {
		return 0, unix.EINVAL
	}
	object, errno := readObject(tid, int(int32(n.args[0])))
	switch {
	case errno != 0:
		return 0, errno
	case flags&compressedFile != 0: // CONFIG_MODULE_DECOMPRESS is off
		return 0, unix.EOPNOTSUPP
	}
	return s.load(n, object, n.args[1], flags)
}

// readObject is kernel_read_file_from_fd: it returns the contents of a thread's file. It
// fails with EBADF if that cannot be read, EINVAL if it is empty or not a regular file,
// ETXTBSY if it is open for writing, and EFBIG.
func readObject(tid, fd int) ([]byte, syscall.Errno) {
	if fd < 0 {
		return nil, unix.EBADF
	}
	local, err := borrow(tid, fd)
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
		return nil, errnoOf(err)
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
			return nil, errnoOf(err)
		}
		n += k
	}
	return b, 0
}

// deleteModule is delete_module(2).
func (s *supervisor) deleteModule(n *seccompNotif) (int, syscall.Errno) {
	tid := int(n.pid)
	if !capable(tid, unix.CAP_SYS_MODULE) {
		return 0, unix.EPERM
	}
	const nameLen = 64 - 8 - 1 // MODULE_NAME_LEN, less the final zero
	b := proc.ReadMemory(tid, n.args[0], make([]byte, nameLen))
	name, _, ended := bytes.Cut(b, []byte{0})
	if !ended && len(b) < nameLen {
		return 0, unix.EFAULT
	}
	return s.asks(n, &question{Do: doDelete, Name: string(name), Flags: uint32(n.args[1])}, nil)
}

// syslog is syslog(2). It needs CAP_SYSLOG, because kernel.dmesg_restrict is 1 on Debian.
func (s *supervisor) syslog(n *seccompNotif) (int, syscall.Errno) {
	tid := int(n.pid)
	if !capable(tid, unix.CAP_SYSLOG, unix.CAP_SYS_ADMIN) {
		return 0, unix.EPERM
	}
	q := &question{Do: doSyslog, Action: int(int32(n.args[0])), Null: n.args[1] == 0, Size: int(int32(n.args[2]))}
	f, err := questionFile()
	if err != nil {
		return 0, unix.ENOMEM
	}
	defer f.Close()
	ret, errno := s.asks(n, q, f)
	if errno != 0 {
		return 0, errno
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return 0, errnoOf(err)
	}
	if !writeMemory(tid, n.args[1], text) {
		return 0, unix.EFAULT
	}
	return ret, 0
}

// uname is uname(2): the release and the version are the emulated kernel's.
func (s *supervisor) uname(n *seccompNotif) (int, syscall.Errno) {
	tid := int(n.pid)
	u, err := unameOf(tid)
	if err != nil {
		return 0, errnoOf(err)
	}
	const fieldLen = 65
	b := make([]byte, 6*fieldLen)
	for i, field := range [][fieldLen]byte{u.Sysname, u.Nodename, {}, {}, u.Machine, u.Domainname} {
		copy(b[i*fieldLen:], field[:])
	}
	copy(b[2*fieldLen:3*fieldLen-1], s.kernel.release)
	copy(b[3*fieldLen:4*fieldLen-1], s.kernel.version)
	if persona, _ := os.ReadFile(proc.Path(tid, "personality")); bytes.HasSuffix(bytes.TrimSpace(persona), []byte("08")) { // PER_LINUX32
		copy(b[4*fieldLen:5*fieldLen], "i686\x00\x00")
	}
	if !writeMemory(tid, n.args[0], b) {
		return 0, unix.EFAULT
	}
	return 0, 0
}

// unameOf returns what the host's kernel says in a thread's UTS namespace.
func unameOf(tid int) (u unix.Utsname, err error) {
	if sameSpace(tid, "uts") {
		return u, unix.Uname(&u)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- func() error {
			ns, err := os.Open(proc.Path(tid, "ns/uts"))
			if err != nil {
				return err
			}
			defer ns.Close()
			return errors.Join(unix.Setns(int(ns.Fd()), unix.CLONE_NEWUTS), unix.Uname(&u))
		}()
	}()
	return u, <-done
}

// writeMemory writes into a thread's memory. It returns false if not all could be written.
func writeMemory(tid int, addr uint64, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMWritev(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	return err == nil && n == len(b)
}

package main

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// mirroredCall is a call that is mirrored.
type mirroredCall struct {
	host  uint64 // its number on this machine
	guest uint64 // its number on x86-64
	args  [6]argument
	opens func(args [6]uint64) bool // reports whether the result is a descriptor; nil means that it never is
	pair  int                       // 1 + the argument that points to two new descriptors, or 0

	sleeps bool // when a signal ends the call, it returns errRestartBlock
}

// argument says what an argument is.
type argument struct {
	kind argKind
	size int // of memory: the argument with its size, or with a pointer to that, or the size in bytes of a record
}

type argKind int

const (
	isValue       argKind = iota
	isFD                  // a descriptor
	isDir                 // the descriptor of the directory in which a name is looked up
	isName                // a file's name
	isLink                // the same; it is not followed if it is a symbolic link
	isAtFlags             // flags, of which AT_SYMLINK_NOFOLLOW says that the name is not followed
	isIn                  // memory that the call reads
	isOut                 // memory that the call writes; the result is the number of bytes
	isInRecord            // memory of a certain size that the call reads
	isOutRecord           // the same that the call writes if it succeeds
	isInOutRecord         // the same that it reads, and writes if it succeeds
	isOutSized            // memory that the call writes if it succeeds; its size is an int to which another argument points
	isInVector            // an array of struct iovec, with memory that the call reads
	isOutVector
	isInMessage // a struct msghdr, with memory that the call reads
	isOutMessage
)

// The arguments of the rows below.
var (
	value   = argument{}
	fd      = argument{kind: isFD}
	dirFD   = argument{kind: isDir}
	name    = argument{kind: isName}
	link    = argument{kind: isLink}
	atFlags = argument{kind: isAtFlags}
)

func in(size int) argument           { return argument{isIn, size} }
func out(size int) argument          { return argument{isOut, size} }
func outRecord(bytes int) argument   { return argument{isOutRecord, bytes} }
func inRecord(bytes int) argument    { return argument{isInRecord, bytes} }
func inOutRecord(bytes int) argument { return argument{isInOutRecord, bytes} }
func outSized(size int) argument     { return argument{isOutSized, size} }
func inVector(length int) argument   { return argument{isInVector, length} }
func outVector(length int) argument  { return argument{isOutVector, length} }

// duplicates reports whether an fcntl(2) makes a descriptor.
func duplicates(args [6]uint64) bool {
	return args[1] == unix.F_DUPFD || args[1] == unix.F_DUPFD_CLOEXEC
}

func always([6]uint64) bool { return true }

// Sizes in bytes of x86-64's structures.
const (
	sizeofStat     = 144
	sizeofStatx    = 256
	sizeofTimespec = 16
	sizeofPair     = 8 // two descriptors
	sizeofUtsname  = 6 * 65
	sizeofRlimit   = 16
	sizeofInt      = 4
	sizeofRusage   = 144
)

// mirroredCalls are all calls that are mirrored, but for those of openCalls.
var mirroredCalls = append([]mirroredCall{
	{host: unix.SYS_READ, guest: abi.SysRead, args: [6]argument{fd, out(2), value}},
	{host: unix.SYS_WRITE, guest: abi.SysWrite, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_PREAD64, guest: abi.SysPread64, args: [6]argument{fd, out(2), value, value}},
	{host: unix.SYS_PWRITE64, guest: abi.SysPwrite64, args: [6]argument{fd, in(2), value, value}},
	{host: unix.SYS_CLOSE, guest: abi.SysClose, args: [6]argument{fd}},
	{host: unix.SYS_LSEEK, guest: abi.SysLseek, args: [6]argument{fd, value, value}},
	{host: unix.SYS_READV, guest: abi.SysReadv, args: [6]argument{fd, outVector(2), value}},
	{host: unix.SYS_WRITEV, guest: abi.SysWritev, args: [6]argument{fd, inVector(2), value}},
	{host: unix.SYS_PREADV, guest: abi.SysPreadv, args: [6]argument{fd, outVector(2), value, value, value}},
	{host: unix.SYS_PWRITEV, guest: abi.SysPwritev, args: [6]argument{fd, inVector(2), value, value, value}},
	{host: unix.SYS_PREADV2, guest: abi.SysPreadv2, args: [6]argument{fd, outVector(2), value, value, value, value}},
	{host: unix.SYS_PWRITEV2, guest: abi.SysPwritev2, args: [6]argument{fd, inVector(2), value, value, value, value}},

	{host: unix.SYS_FSTAT, guest: abi.SysNewfstat, args: [6]argument{fd, outRecord(sizeofStat)}},
	{host: sysFstatat, guest: abi.SysNewfstatat, args: [6]argument{dirFD, name, outRecord(sizeofStat), atFlags}},
	{host: unix.SYS_STATX, guest: abi.SysStatx, args: [6]argument{dirFD, name, atFlags, value, outRecord(sizeofStatx)}},
	{host: unix.SYS_FACCESSAT, guest: abi.SysFaccessat, args: [6]argument{dirFD, name, value}},
	{host: unix.SYS_FACCESSAT2, guest: abi.SysFaccessat2, args: [6]argument{dirFD, name, value, atFlags}},
	{host: unix.SYS_READLINKAT, guest: abi.SysReadlinkat, args: [6]argument{dirFD, link, out(3), value}},
	{host: unix.SYS_GETDENTS64, guest: abi.SysGetdents64, args: [6]argument{fd, out(2), value}},

	{host: unix.SYS_DUP, guest: abi.SysDup, args: [6]argument{fd}, opens: always},
	{host: unix.SYS_DUP3, guest: abi.SysDup3, args: [6]argument{fd, fd, value}},
	{host: unix.SYS_FCNTL, guest: abi.SysFcntl, args: [6]argument{fd, value, value}, opens: duplicates},
	{host: unix.SYS_PIPE2, guest: abi.SysPipe2, args: [6]argument{outRecord(sizeofPair), value}, pair: 1},

	{host: unix.SYS_FSYNC, guest: abi.SysFsync, args: [6]argument{fd}},
	{host: unix.SYS_FDATASYNC, guest: abi.SysFdatasync, args: [6]argument{fd}},
	{host: unix.SYS_TRUNCATE, guest: abi.SysTruncate, args: [6]argument{name, value}},
	{host: unix.SYS_FTRUNCATE, guest: abi.SysFtruncate, args: [6]argument{fd, value}},
	{host: unix.SYS_FCHMOD, guest: abi.SysFchmod, args: [6]argument{fd, value}},
	{host: unix.SYS_FCHMODAT, guest: abi.SysFchmodat, args: [6]argument{dirFD, name, value}},
	{host: unix.SYS_FCHOWN, guest: abi.SysFchown, args: [6]argument{fd, value, value}},
	{host: unix.SYS_FCHOWNAT, guest: abi.SysFchownat, args: [6]argument{dirFD, name, value, value, atFlags}},
	{host: unix.SYS_UTIMENSAT, guest: abi.SysUtimensat, args: [6]argument{dirFD, name, inRecord(2 * sizeofTimespec), atFlags}},

	{host: unix.SYS_GETPID, guest: abi.SysGetpid},
	{host: unix.SYS_GETTID, guest: abi.SysGettid},
	{host: unix.SYS_GETPPID, guest: abi.SysGetppid},
	{host: unix.SYS_GETUID, guest: abi.SysGetuid},
	{host: unix.SYS_GETGID, guest: abi.SysGetgid},
	{host: unix.SYS_GETEUID, guest: abi.SysGeteuid},
	{host: unix.SYS_GETEGID, guest: abi.SysGetegid},
	{host: unix.SYS_UMASK, guest: abi.SysUmask, args: [6]argument{value}},
	{host: unix.SYS_UNAME, guest: abi.SysNewuname, args: [6]argument{outRecord(sizeofUtsname)}},
	{host: unix.SYS_GETRANDOM, guest: abi.SysGetrandom, args: [6]argument{out(1), value, value}},
	{host: unix.SYS_PRLIMIT64, guest: abi.SysPrlimit64, args: [6]argument{value, value, inRecord(sizeofRlimit), outRecord(sizeofRlimit)}},
	{host: unix.SYS_IOCTL, guest: abi.SysIoctl, args: [6]argument{fd, value, value}},
	{host: unix.SYS_SCHED_YIELD, guest: abi.SysSchedYield},

	{host: unix.SYS_SOCKET, guest: abi.SysSocket, args: [6]argument{value, value, value}, opens: always},
	{host: unix.SYS_SOCKETPAIR, guest: abi.SysSocketpair, args: [6]argument{value, value, value, outRecord(sizeofPair)}, pair: 4},
	{host: unix.SYS_BIND, guest: abi.SysBind, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_LISTEN, guest: abi.SysListen, args: [6]argument{fd, value}},
	{host: unix.SYS_ACCEPT, guest: abi.SysAccept, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}, opens: always},
	{host: unix.SYS_ACCEPT4, guest: abi.SysAccept4, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt), value}, opens: always},
	{host: unix.SYS_CONNECT, guest: abi.SysConnect, args: [6]argument{fd, in(2), value}},
	{host: unix.SYS_SENDTO, guest: abi.SysSendto, args: [6]argument{fd, in(2), value, value, in(5), value}},
	{host: unix.SYS_RECVFROM, guest: abi.SysRecvfrom, args: [6]argument{fd, out(2), value, value, outSized(5), inOutRecord(sizeofInt)}},
	{host: unix.SYS_SENDMSG, guest: abi.SysSendmsg, args: [6]argument{fd, {kind: isInMessage}, value}},
	{host: unix.SYS_RECVMSG, guest: abi.SysRecvmsg, args: [6]argument{fd, {kind: isOutMessage}, value}},
	{host: unix.SYS_SHUTDOWN, guest: abi.SysShutdown, args: [6]argument{fd, value}},
	{host: unix.SYS_GETSOCKNAME, guest: abi.SysGetsockname, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}},
	{host: unix.SYS_GETPEERNAME, guest: abi.SysGetpeername, args: [6]argument{fd, outSized(2), inOutRecord(sizeofInt)}},
	{host: unix.SYS_SETSOCKOPT, guest: abi.SysSetsockopt, args: [6]argument{fd, value, value, in(4), value}},
	{host: unix.SYS_GETSOCKOPT, guest: abi.SysGetsockopt, args: [6]argument{fd, value, value, outSized(4), inOutRecord(sizeofInt)}},

	{host: unix.SYS_NANOSLEEP, guest: abi.SysNanosleep, args: [6]argument{inRecord(sizeofTimespec), value}, sleeps: true},
	{host: unix.SYS_CLOCK_NANOSLEEP, guest: abi.SysClockNanosleep, args: [6]argument{value, value, inRecord(sizeofTimespec), value}, sleeps: true},
	{host: unix.SYS_WAIT4, guest: abi.SysWait4, args: [6]argument{value, outRecord(sizeofInt), value, outRecord(sizeofRusage)}},
}, oldMirroredCalls...)

// mirroredRows has the rows by their numbers on this machine.
var mirroredRows = func() map[uint64]*mirroredCall {
	rows := map[uint64]*mirroredCall{}
	for i := range mirroredCalls {
		rows[mirroredCalls[i].host] = &mirroredCalls[i]
	}
	return rows
}()

// mirroredNumbers returns the numbers on x86-64 of the calls that are mirrored.
func mirroredNumbers() []uint64 {
	all := []uint64{abi.SysOpen, abi.SysOpenat, abi.SysOpenat2}
	for _, c := range mirroredCalls {
		all = append(all, c.guest)
	}
	return all
}

// maxMirrored is how many bytes of a call's data the guest gets.
const maxMirrored = 16 << 10

// maxVectorLen is UIO_MAXIOV, the largest number of parts that a call takes.
const maxVectorLen = 1024

// callMemory collects what the arguments of a thread's call point to.
type callMemory struct {
	host.Memory
	tid     int
	written []writtenPart
	// present, if not nil, returns how many of n bytes from addr on can be read without
	// waiting. Then nothing else is read, and absent says that something was not.
	present func(addr uint64, n int) int
	absent  bool
}

// writtenPart is memory that a call may write.
type writtenPart struct {
	at, size int
	addr     uint64
	record   bool // it is written whole, or not at all
}

// add makes room for size bytes of the thread's memory, of which the first have the content b.
func (m *callMemory) add(b []byte, size int) (at int) {
	m.Data = append(m.Data, make([]byte, -len(m.Data)&7)...)
	at = len(m.Data)
	m.Data = append(m.Data, b[:min(len(b), size)]...)
	m.Data = append(m.Data, make([]byte, size-min(len(b), size))...)
	return at
}

// left limits a size to the room that is left.
func (m *callMemory) left(size uint64) int {
	return int(min(size, uint64(max(maxMirrored-len(m.Data), 0))))
}

// tail is how much is read of the memory after that which a call reads, in bytes: a probe
// may read a string there, which ends somewhere.
const tail = 256

// read adds memory that the call reads, and reports whether there is any.
func (m *callMemory) read(addr, size uint64) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	b := m.get(addr, n, n+tail)
	if len(b) == 0 {
		return 0, false
	}
	return m.add(b, max(n, len(b))), true
}

// get reads n bytes of the program's memory, or up to most.
func (m *callMemory) get(addr uint64, n, most int) []byte {
	if m.present != nil {
		if most = m.present(addr, most); most < n {
			m.absent = true
			return nil
		}
	}
	return readMemory(m.tid, addr, make([]byte, most))
}

// write adds memory that the call writes.
func (m *callMemory) write(addr, size uint64, record bool) (at int, ok bool) {
	n := m.left(size)
	if n == 0 || addr == 0 {
		return 0, false
	}
	at = m.add(nil, n)
	m.written = append(m.written, writtenPart{at: at, size: n, addr: addr, record: record})
	return at, true
}

// readRecord adds a record that the call reads and writes.
func (m *callMemory) readRecord(addr, size uint64) (at int, ok bool) {
	if at, ok = m.read(addr, size); ok {
		m.written = append(m.written, writtenPart{at: at, size: int(size), addr: addr, record: true})
	}
	return at, ok
}

// writeSized adds memory that the call writes, whose size is an int in the program's memory.
func (m *callMemory) writeSized(addr, size uint64) (at int, ok bool) {
	if addr == 0 || size == 0 {
		return 0, false
	}
	b := m.get(size, sizeofInt, sizeofInt)
	if len(b) < sizeofInt {
		return 0, false
	}
	return m.write(addr, uint64(binary.NativeEndian.Uint32(b)), true)
}

// message adds a struct msghdr and the memory that it refers to.
func (m *callMemory) message(addr uint64, writes bool) (at int, ok bool) {
	// Where the fields of struct msghdr are, and its size.
	const name, nameLen, iov, iovLen, control, controlLen, size = 0, 8, 16, 24, 32, 40, 56
	b := m.get(addr, size, size)
	if len(b) < size {
		return 0, false
	}
	field := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	at = m.add(b, size)
	part := func(off int, n uint64) {
		to, ok := 0, false
		if writes {
			to, ok = m.write(field(off), n, true)
		} else {
			to, ok = m.read(field(off), n)
		}
		if ok {
			m.Refs = append(m.Refs, host.Ref{At: at + off, To: to})
		}
	}
	if to, ok := m.vector(field(iov), field(iovLen), writes); ok {
		m.Refs = append(m.Refs, host.Ref{At: at + iov, To: to})
	}
	part(name, uint64(binary.NativeEndian.Uint32(b[nameLen:])))
	part(control, field(controlLen))
	if writes {
		m.written = append(m.written, writtenPart{at: at + nameLen, size: sizeofInt, addr: addr + nameLen, record: true},
			writtenPart{at: at + controlLen, size: size - controlLen, addr: addr + controlLen, record: true})
	}
	return at, true
}

// vector adds an array of struct iovec and the memory that it refers to.
func (m *callMemory) vector(addr, length uint64, writes bool) (at int, ok bool) {
	const size = 16
	if length == 0 || length > maxVectorLen {
		return 0, false
	}
	n := int(length * size)
	b := m.get(addr, n, n)
	if len(b) < n {
		return 0, false
	}
	at = m.add(b, len(b))
	for i := 0; i < len(b); i += size {
		base, n := binary.NativeEndian.Uint64(b[i:]), binary.NativeEndian.Uint64(b[i+8:])
		var to int
		if writes {
			to, ok = m.write(base, n, false)
		} else {
			to, ok = m.read(base, n)
		}
		if !ok {
			to = at // the guest's own address, of which it uses nothing
		}
		if base != 0 {
			m.Refs = append(m.Refs, host.Ref{At: at + i, To: to})
		}
	}
	return at, true
}

// named reports whether an argument is a file's name. To look that up may take long.
func (c *mirroredCall) named() bool {
	return slices.ContainsFunc(c.args[:], func(a argument) bool { return a.kind == isName || a.kind == isLink })
}

// arguments adds what the arguments of a call point to.
func (m *callMemory) arguments(row *mirroredCall, args [6]uint64) {
	for i, a := range row.args {
		m.argument(a, i, args)
	}
}

// argument adds what an argument points to.
func (m *callMemory) argument(a argument, i int, args [6]uint64) {
	var at int
	var ok bool
	switch a.kind {
	case isIn:
		at, ok = m.read(args[i], args[a.size])
	case isOut:
		at, ok = m.write(args[i], args[a.size], false)
	case isInRecord:
		at, ok = m.read(args[i], uint64(a.size))
	case isOutRecord:
		at, ok = m.write(args[i], uint64(a.size), true)
	case isInOutRecord:
		at, ok = m.readRecord(args[i], uint64(a.size))
	case isOutSized:
		at, ok = m.writeSized(args[i], args[a.size])
	case isInVector, isOutVector:
		at, ok = m.vector(args[i], args[a.size], a.kind == isOutVector)
	case isInMessage, isOutMessage:
		at, ok = m.message(args[i], a.kind == isOutMessage)
	case isName, isLink:
		var text []byte
		if text = readString(m.tid, args[i]); text != nil {
			at, ok = m.add(append(text, 0), len(text)+1), true
		}
	case isValue, isFD, isDir, isAtFlags:
	}
	if ok {
		m.Args[i] = 1 + at
	}
}

// changed returns what the call has written: ret bytes in all, or whole records.
func (m *callMemory) changed(ret int64) (all []host.Written) {
	for _, w := range m.written {
		n := int64(w.size)
		if !w.record {
			n = min(n, ret)
			ret -= n
		}
		if ret < 0 || n <= 0 {
			continue
		}
		all = append(all, host.Written{At: w.at, Data: m.get(w.addr, int(n), int(n))})
	}
	return all
}

// awaitChanged is changed in another thread than the tracing one, which may wait for memory.
func (m *callMemory) awaitChanged(ret int64) []host.Written {
	m.present = nil
	return m.changed(ret)
}

// path resolves the name among the arguments: mode is that of the file. ours reports whether
// it is below one of dirs.
func (c *mirroredCall) path(tid int, args [6]uint64, dirs []string) (mode uint64, ours bool) {
	of := tracedCall{name: -1, dir: -1}
	for i, a := range c.args {
		switch a.kind {
		case isDir:
			of.dir = i
		case isName, isLink:
			of.name, of.made = i, of.made || a.kind == isLink
		case isAtFlags:
			of.made = of.made || args[i]&unix.AT_SYMLINK_NOFOLLOW != 0
		case isValue, isFD, isIn, isOut, isInRecord, isOutRecord, isInOutRecord, isOutSized,
			isInVector, isOutVector, isInMessage, isOutMessage:
		}
	}
	if of.name < 0 {
		return 0, false
	}
	text := readString(tid, args[of.name])
	if len(text) == 0 {
		return 0, false
	}
	path, mode := hostPath(tid, &of, args, string(text), dirs)
	return mode, below(path, dirs)
}

package hostview

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Files knows what the descriptors of the command's processes refer to, by
// /proc/TID/fd. A descriptor may be another file at each call, since not all calls that
// open and close files are seen; it is looked at each time, and what does not change is
// remembered.
type Files struct {
	known  map[int]map[int]*knownFile // by process and descriptor
	mounts map[uint64]bool            // by mnt_id: whether it is one of ours
	dirs   []string                   // where those are
	looked time.Time                  // when mounts was read
	server int                        // the supervisor, which sees all mounts
}

type knownFile struct {
	link string // what /proc/TID/fd/N refers to
	file host.File
	ours bool

	crowded    bool // an epoll file with more than MaxInterest descriptors
	connecting bool // a socket of TCP that is about to be connected, when it was looked at last
}

// NewFiles returns what is known of the descriptors of a command with this supervisor: nothing yet.
func NewFiles(server int) *Files {
	return &Files{server: server, known: map[int]map[int]*knownFile{}, mounts: map[uint64]bool{}}
}

// Forget is called when a process ends.
func (f *Files) Forget(pid int) { delete(f.known, pid) }

// Closed is called when a descriptor is closed.
func (f *Files) Closed(pid, fd int) { delete(f.known[pid], fd) }

// Of returns what a descriptor refers to: the zero File if it is not open. ours reports
// whether it is a file that some kprobefs serves.
func (f *Files) Of(tid, pid, fd int) (file host.File, ours bool) {
	if fd < 0 {
		return host.File{}, false
	}
	path := proc.Path(tid, "fd/"+strconv.Itoa(fd))
	var b [unix.PathMax]byte
	n, err := unix.Readlink(path, b[:])
	if err != nil {
		return host.File{}, false
	}
	k := f.known[pid][fd]
	switch {
	case k == nil || k.link != string(b[:n]):
		k = f.look(tid, pid, fd, path, string(b[:n]))
		if k == nil {
			return host.File{}, false
		}
		if f.known[pid] == nil {
			f.known[pid] = map[int]*knownFile{}
		}
		f.known[pid][fd] = k
	case !k.ours && k.file.Mode&unix.S_IFMT == unix.S_IFREG:
		k.file.Pos, k.file.Flags, _ = Fdinfo(tid, fd)
	case k.connecting:
		k.file.Rdev, k.file.Sock = socketOf(pid, fd)
	}
	return k.told(), k.ours
}

// told returns the file. What is said of a socket is said once, since it does not stay so.
func (k *knownFile) told() host.File {
	file := k.file
	if file.Sock.State != 0 {
		k.connecting = file.Sock.State == synSent
	}
	k.file.Sock = host.Sock{}
	return file
}

const synSent = 2 // TCP_SYN_SENT

// Sock is Of for a call that changes what a socket of TCP is: the host's kernel is asked what it is now.
func (f *Files) Sock(tid, pid, fd int) (file host.File, ours bool) {
	file, ours = f.Of(tid, pid, fd)
	if k := f.known[pid][fd]; k != nil && IsTCP(file) && file.Sock.State == 0 {
		k.file.Rdev, k.file.Sock = socketOf(pid, fd)
		file = k.told()
	}
	return file, ours
}

// Connecting reports whether a descriptor is a socket of TCP that is about to be connected.
func (f *Files) Connecting(pid, fd int) bool {
	k := f.known[pid][fd]
	return k != nil && k.connecting
}

// IsTCP reports whether a file is a socket of TCP.
func IsTCP(f host.File) bool {
	family := f.Rdev >> 24
	return f.Mode&unix.S_IFMT == unix.S_IFSOCK && (family == unix.AF_INET || family == unix.AF_INET6) && f.Rdev&0xffff == unix.IPPROTO_TCP
}

// look finds out about a file. It does not access files of ours: that would be a request
// to this very process.
func (f *Files) look(tid, pid, fd int, path, link string) *knownFile {
	k := &knownFile{link: link}
	var mount uint64
	k.file.Pos, k.file.Flags, mount = Fdinfo(tid, fd)
	if k.ours = f.isOurs(tid, mount); k.ours {
		return k
	}
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &st) != nil {
		return nil
	}
	k.file.Name, k.file.Mode = link, uint64(st.Mode)
	k.file.Rdev = uint64(st.Rdev_major)<<20 | uint64(st.Rdev_minor)
	if st.Mode&unix.S_IFMT == unix.S_IFSOCK {
		k.file.Rdev, k.file.Sock = socketOf(pid, fd)
		k.file.Flags |= uint64(CloseOnExec(tid, fd)) // the end of a connection is told of
	}
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{uint64(st.Dev_major), uint64(st.Dev_minor), st.Ino, uint64(st.Mode)})
	_, _ = h.Write([]byte(link))
	k.file.ID = h.Sum64() | 1
	return k
}

// socketOf returns the Rdev of a process's socket, or 0 if it cannot be had, and what the host's kernel says of one of
// TCP.
func socketOf(pid, fd int) (kind uint64, sock host.Sock) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, sock
	}
	defer unix.Close(process)
	s, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return 0, sock
	}
	defer unix.Close(s)
	kind = socketKind(s)
	if IsTCP(host.File{Mode: unix.S_IFSOCK, Rdev: kind}) {
		sock = tcpSock(s)
	}
	return kind, sock
}

// socketKind returns the Rdev of a socket of our own.
func socketKind(s int) uint64 {
	option := func(name int) uint64 {
		v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, name)
		if err != nil {
			return 0
		}
		return uint64(v)
	}
	return option(unix.SO_DOMAIN)<<24 | option(unix.SO_TYPE)&0xff<<16 | option(unix.SO_PROTOCOL)&0xffff
}

// tcpSock returns what the host's kernel says of a socket of TCP of our own.
func tcpSock(s int) (sock host.Sock) {
	info, err := unix.GetsockoptTCPInfo(s, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return sock
	}
	sock.State, sock.Srtt = uint32(info.State), 8*info.Rtt
	sock.Acked, sock.Rcvd = info.Bytes_acked, info.Bytes_received
	if unread, err := unix.IoctlGetInt(s, unix.TIOCINQ); err == nil {
		sock.Unread = uint32(unread)
	}
	if a, err := unix.Getsockname(s); err == nil {
		sock.Local = sockAddr(a)
	}
	if a, err := unix.Getpeername(s); err == nil {
		sock.Peer = sockAddr(a)
	}
	return sock
}

func sockAddr(a unix.Sockaddr) (at host.SockAddr) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		copy(at.IP[:], a.Addr[:])
		at.Port = uint16(a.Port)
	case *unix.SockaddrInet6:
		at.IP, at.Port = a.Addr, uint16(a.Port)
	}
	return at
}

// mountsAge is how long a mount that is not ours is taken for that: its number can be
// used again.
const mountsAge = time.Second

// isOurs reports whether a mount has files that some kprobefs serves.
func (f *Files) isOurs(tid int, mount uint64) bool {
	if ours, known := f.mounts[mount]; known && (ours || time.Since(f.looked) < mountsAge) {
		return ours
	}
	if !f.readMounts(tid) {
		return true // better not seen than asked by ourselves
	}
	if _, known := f.mounts[mount]; !known { // pipes and the like
		f.mounts[mount] = false
	}
	return f.mounts[mount]
}

// Ours returns the directories in which files are that some kprobefs serves.
func (f *Files) Ours() []string {
	if time.Since(f.looked) >= mountsAge {
		f.readMounts(f.server)
	}
	return f.dirs
}

func (f *Files) readMounts(tid int) bool {
	mounts, err := Mounts(tid)
	if err != nil {
		return false
	}
	clear(f.mounts)
	f.dirs, f.looked = nil, time.Now()
	for _, m := range mounts {
		ours := m.Kind == FuseType
		f.mounts[m.ID] = ours
		if ours {
			f.dirs = append(f.dirs, Unescape(m.Point))
		}
	}
	return true
}

// MaxPolled is how many descriptors of one call the guest is told of, and MaxInterest how many
// an epoll file may have to be looked at: the host's kernel lists all of them each time.
const (
	MaxPolled   = 16
	MaxInterest = 256
)

// Interest is a descriptor for which an epoll file waits.
type Interest struct {
	FD   int
	Data uint64 // what the program is told with its events
}

// Interest returns the descriptors for which an epoll file waits, if it is one that has not
// too many.
func (f *Files) Interest(tid, pid, fd int) (all []Interest, ok bool) {
	k := f.known[pid][fd]
	if k == nil || k.file.Name != "anon_inode:[eventpoll]" || k.crowded {
		return nil, false
	}
	all = interestOf(tid, fd)
	k.crowded = len(all) > MaxInterest
	return all, !k.crowded
}

// interestOf returns the descriptors for which an epoll file of a thread's process waits.
func interestOf(tid, fd int) (all []Interest) {
	text, err := os.ReadFile(proc.Path(tid, "fdinfo/"+strconv.Itoa(fd)))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line) // tfd: 5 events: 19 data: 7 ...
		if len(f) < 6 || string(f[0]) != "tfd:" || string(f[4]) != "data:" {
			continue
		}
		target, err := strconv.Atoi(string(f[1]))
		data, derr := strconv.ParseUint(string(f[5]), 16, 64)
		if err == nil && derr == nil {
			all = append(all, Interest{target, data})
		}
	}
	return all
}

// CanAsk reports whether a file can be asked without any program's help whether it is
// ready: not a file of a FUSE server, which may be one that is held.
func CanAsk(f host.File) bool {
	switch f.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK:
		return true
	case unix.S_IFCHR:
		const memory, terminal, console, pty, lastPty = 1, 4, 5, 136, 143
		major := f.Rdev >> 20
		return major == memory || major == terminal || major == console || major >= pty && major <= lastPty
	}
	switch f.Name {
	case "anon_inode:[eventfd]", "anon_inode:[timerfd]", "anon_inode:[pidfd]", "anon_inode:inotify":
		return true
	}
	return false
}

// Ready finds out for what a process's descriptors are ready. Those that cannot be asked keep
// what they have.
func Ready(pid int, all []host.Polled) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	for i := range all {
		if !CanAsk(all[i].File) {
			continue
		}
		if events, ok := ReadyFD(process, all[i].FD); ok {
			all[i].Ready = events
		}
	}
}

// ReadyFD returns for what a descriptor of a process, which a pidfd stands for, is ready.
func ReadyFD(process, fd int) (ready uint32, ok bool) {
	const rdNorm, rdBand, wrNorm, wrBand = 0x40, 0x80, 0x100, 0x200
	const events = unix.POLLIN | unix.POLLPRI | unix.POLLOUT | unix.POLLRDHUP | rdNorm | rdBand | wrNorm | wrBand
	own, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(own)
	p := []unix.PollFd{{Fd: int32(own), Events: events}}
	_, err = unix.Poll(p, 0)
	return uint32(uint16(p[0].Revents)), err == nil
}

package main

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// mirrorFiles knows what the descriptors of the command's processes refer to, by
// /proc/TID/fd. A descriptor may be another file at each call, since not all calls that
// open and close files are seen; it is looked at each time, and what does not change is
// remembered.
type mirrorFiles struct {
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

	crowded bool // an epoll file with more than maxInterest descriptors
}

func newMirrorFiles(server int) *mirrorFiles {
	return &mirrorFiles{server: server, known: map[int]map[int]*knownFile{}, mounts: map[uint64]bool{}}
}

func (f *mirrorFiles) forget(pid int) { delete(f.known, pid) }

func (f *mirrorFiles) closed(pid, fd int) { delete(f.known[pid], fd) }

// of returns what a descriptor refers to: the zero File if it is not open. ours reports
// whether it is a file that some kprobefs serves.
func (f *mirrorFiles) of(tid, pid, fd int) (file host.File, ours bool) {
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
	if k == nil || k.link != string(b[:n]) {
		k = f.look(tid, pid, fd, path, string(b[:n]))
		if k == nil {
			return host.File{}, false
		}
		if f.known[pid] == nil {
			f.known[pid] = map[int]*knownFile{}
		}
		f.known[pid][fd] = k
	} else if !k.ours && k.file.Mode&unix.S_IFMT == unix.S_IFREG {
		k.file.Pos, k.file.Flags, _ = fdinfo(tid, fd)
	}
	return k.file, k.ours
}

// look finds out about a file. It does not access files of ours: that would be a request
// to this very process.
func (f *mirrorFiles) look(tid, pid, fd int, path, link string) *knownFile {
	k := &knownFile{link: link}
	var mount uint64
	k.file.Pos, k.file.Flags, mount = fdinfo(tid, fd)
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
		k.file.Rdev = socketKind(pid, fd)
	}
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{uint64(st.Dev_major), uint64(st.Dev_minor), st.Ino, uint64(st.Mode)})
	_, _ = h.Write([]byte(link))
	k.file.ID = h.Sum64() | 1
	return k
}

// socketKind returns the Rdev of a process's socket, or 0 if it cannot be had.
func socketKind(pid, fd int) uint64 {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(process)
	s, err := unix.PidfdGetfd(process, fd, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(s)
	option := func(name int) uint64 {
		v, err := unix.GetsockoptInt(s, unix.SOL_SOCKET, name)
		if err != nil {
			return 0
		}
		return uint64(v)
	}
	return option(unix.SO_DOMAIN)<<24 | option(unix.SO_TYPE)&0xff<<16 | option(unix.SO_PROTOCOL)&0xffff
}

// fdinfo returns the position, the flags and the mount of an open file.
func fdinfo(tid, fd int) (pos int64, flags, mount uint64) {
	in, err := unix.Open(proc.Path(tid, "fdinfo/"+strconv.Itoa(fd)), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0, 0
	}
	defer unix.Close(in)
	var b [512]byte
	n, _ := unix.Read(in, b[:])
	for line := range bytes.Lines(b[:max(n, 0)]) {
		name, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		text := string(bytes.TrimSpace(value))
		switch string(name) {
		case "pos":
			pos, _ = strconv.ParseInt(text, 10, 64)
		case "flags":
			flags, _ = strconv.ParseUint(text, 8, 64)
		case "mnt_id":
			mount, _ = strconv.ParseUint(text, 10, 64)
		}
	}
	return pos, flags &^ unix.O_CLOEXEC, mount
}

// mountsAge is how long a mount that is not ours is taken for that: its number can be
// used again.
const mountsAge = time.Second

// isOurs reports whether a mount has files that some kprobefs serves.
func (f *mirrorFiles) isOurs(tid int, mount uint64) bool {
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

// ours returns the directories in which files are that some kprobefs serves.
func (f *mirrorFiles) ours() []string {
	if time.Since(f.looked) >= mountsAge {
		f.readMounts(f.server)
	}
	return f.dirs
}

func (f *mirrorFiles) readMounts(tid int) bool {
	mounts, err := mountsOfThread(tid)
	if err != nil {
		return false
	}
	clear(f.mounts)
	f.dirs, f.looked = nil, time.Now()
	for _, m := range mounts {
		ours := m.kind == fuseType
		f.mounts[m.id] = ours
		if ours {
			f.dirs = append(f.dirs, unescape(m.point))
		}
	}
	return true
}

// interruptible reports whether a thread can be stopped without effect. A stop ends
// some calls with EINTR (signal(7)), and interrupts a request of a FUSE file.
func interruptible(tid int) bool {
	if where, err := proc.Read(tid, "wchan"); err == nil && (where == "request_wait_answer" || strings.HasPrefix(where, "fuse_")) {
		return false
	}
	text, err := proc.Read(tid, "syscall")
	if err != nil {
		return true
	}
	number, _, _ := strings.Cut(text, " ")
	nr, err := strconv.Atoi(number)
	return err != nil || !endedByStop[nr] && !oldEndedByStop[nr]
}

// endedByStop are the calls that a stop ends.
var endedByStop = map[int]bool{
	unix.SYS_EPOLL_PWAIT: true, unix.SYS_EPOLL_PWAIT2: true, unix.SYS_SEMOP: true, unix.SYS_SEMTIMEDOP: true,
	unix.SYS_RT_SIGTIMEDWAIT: true, unix.SYS_IO_GETEVENTS: true, unix.SYS_IO_PGETEVENTS: true,
	unix.SYS_MSGRCV: true, unix.SYS_MSGSND: true, unix.SYS_IO_URING_ENTER: true,
	unix.SYS_RECVMSG: true, unix.SYS_RECVFROM: true, unix.SYS_SENDMSG: true, unix.SYS_SENDTO: true,
	unix.SYS_ACCEPT: true, unix.SYS_ACCEPT4: true, unix.SYS_CONNECT: true, unix.SYS_RECVMMSG: true, unix.SYS_SENDMMSG: true,
}

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A call that waits for files (poll, select, epoll_wait) asks each of them whether it is
// ready, before it waits and after that. The guest's files know nothing of that, so they
// are told: each descriptor is looked at when the call begins, and again when it has ended.

// waitKind says how a call names the descriptors that it waits for.
type waitKind int

const (
	waitsNot    waitKind = iota
	waitsArray           // an array of struct pollfd, and its length
	waitsSets            // the number of bits of three sets, and these
	waitsTarget          // the third argument, if epoll_ctl(2) does something with it
	waitsEvents          // those of the epoll file that is the first argument
)

// maxPolled is how many descriptors of one call the guest is told of, and maxInterest how many
// an epoll file may have to be looked at: the host's kernel lists all of them each time.
const (
	maxPolled   = 16
	maxInterest = 256
)

// A pollWait is what a call waits for.
type pollWait struct {
	kind     waitKind
	polled   []host.Polled
	interest []interest // of an epoll file
}

// interest is a descriptor for which an epoll file waits.
type interest struct {
	fd   int
	data uint64 // what the program is told with its events
}

// sizeofPollFD and sizeofEpollEvent are sizes in bytes of x86-64's structures.
const (
	sizeofPollFD     = 8
	sizeofEpollEvent = 12
)

// wait finds out what a call waits for. It returns nil for other calls.
func (m *mirror) wait(t *tracee, row *mirroredCall, c *host.Mirror) *pollWait {
	if row.waits == waitsNot {
		return nil
	}
	w := &pollWait{kind: row.waits}
	switch row.waits {
	case waitsArray:
		n := int(min(c.Args[1], maxPolled))
		b := m.inMemory(t, c.Args[0], n*sizeofPollFD)
		for ; len(b) >= sizeofPollFD; b = b[sizeofPollFD:] {
			m.add(t, w, int(int32(binary.NativeEndian.Uint32(b))))
		}
	case waitsSets:
		for fd := range m.setFDs(t, c.Args) {
			m.add(t, w, fd)
		}
	case waitsTarget:
		target := int(int32(c.Args[2]))
		all, ok := t.space.files.interest(t, int(int32(c.Args[0])))
		known := slices.ContainsFunc(all, func(i interest) bool { return i.fd == target })
		if !ok || known == (c.Args[1] != unix.EPOLL_CTL_ADD) {
			m.add(t, w, target)
		}
	case waitsEvents:
		epoll := int(int32(c.Args[0]))
		var ok bool
		if w.interest, ok = t.space.files.interest(t, epoll); ok {
			c.Ready = m.readyEvents(t, epoll, w.interest)
		}
		c.Polled = make([]host.Polled, maxPolled)
		for i := range c.Polled {
			c.Polled[i].FD = -1 // those that are ready come at the end
		}
		return w
	case waitsNot:
	}
	ask(t.pid, w.polled)
	c.Polled = w.polled
	return w
}

// readyEvents asks an epoll file whether it has events, if all its descriptors can be asked
// and are not too many to look at each.
func (m *mirror) readyEvents(t *tracee, epoll int, all []interest) uint32 {
	const most = 64
	if len(all) > most {
		return 0
	}
	for _, i := range all {
		if file, ours := t.space.files.of(t.tid, t.pid, i.fd); ours || !canAsk(file) {
			return 0
		}
	}
	process, err := unix.PidfdOpen(t.pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(process)
	events, _ := askFD(process, epoll)
	return events
}

// inMemory reads the program's memory if it is in RAM.
func (m *mirror) inMemory(t *tracee, addr uint64, n int) []byte {
	memory := m.memory(t)
	return memory.get(addr, n, n)
}

// setFDs returns the descriptors in the sets of a select(2), each once, in their order.
func (m *mirror) setFDs(t *tracee, args [6]uint64) func(yield func(int) bool) {
	const most = 1024
	n := int(min(args[0], most))
	all := make([]byte, (n+63)/64*8)
	for _, addr := range args[1:4] {
		for i, b := range m.inMemory(t, addr, len(all)) {
			all[i] |= b
		}
	}
	return func(yield func(int) bool) {
		for fd := range n {
			if all[fd/8]>>(fd%8)&1 != 0 && !yield(fd) {
				return
			}
		}
	}
}

// add adds a descriptor, unless it is not open, or a file of ours.
func (m *mirror) add(t *tracee, w *pollWait, fd int) {
	if len(w.polled) == maxPolled || w.has(fd) {
		return
	}
	if file, ours := t.space.files.of(t.tid, t.pid, fd); !ours && file.ID != 0 {
		w.polled = append(w.polled, host.Polled{FD: fd, File: file})
	}
}

// ended says what the descriptors of a call are ready for when it has returned ret.
func (m *mirror) ended(t *tracee, w *pollWait, ret int64) []host.Polled {
	if w == nil || w.kind == waitsTarget {
		return nil
	}
	if w.kind == waitsEvents {
		m.find(t, w, ret)
	}
	ask(t.pid, w.polled)
	return w.polled
}

// find adds the descriptors of which epoll_wait(2) has told the program. Of several for which
// it is told the same, it is one that is ready.
func (m *mirror) find(t *tracee, w *pollWait, ret int64) {
	w.polled = []host.Polled{}
	b := m.inMemory(t, t.args[1], int(min(max(ret, 0), maxPolled))*sizeofEpollEvent)
	for ; len(b) >= sizeofEpollEvent; b = b[sizeofEpollEvent:] {
		events, data := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint64(b[4:])
		var same []host.Polled
		for _, i := range w.interest {
			if i.data != data || w.has(i.fd) {
				continue
			}
			if file, ours := t.space.files.of(t.tid, t.pid, i.fd); !ours {
				same = append(same, host.Polled{FD: i.fd, File: file, Ready: events})
			}
		}
		if len(same) > 1 {
			ask(t.pid, same)
		}
		if i := slices.IndexFunc(same, func(p host.Polled) bool { return p.Ready&events != 0 }); i >= 0 {
			w.polled = append(w.polled, same[i])
		}
	}
}

func (w *pollWait) has(fd int) bool {
	return slices.ContainsFunc(w.polled, func(p host.Polled) bool { return p.FD == fd })
}

// interest returns the descriptors for which an epoll file waits, if it is one that has not
// too many.
func (f *mirrorFiles) interest(t *tracee, fd int) (all []interest, ok bool) {
	k := f.known[t.pid][fd]
	if k == nil || k.file.Name != "anon_inode:[eventpoll]" || k.crowded {
		return nil, false
	}
	all = interestOf(t.tid, fd)
	k.crowded = len(all) > maxInterest
	return all, !k.crowded
}

// interestOf returns the descriptors for which an epoll file of a thread's process waits.
func interestOf(tid, fd int) (all []interest) {
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
			all = append(all, interest{target, data})
		}
	}
	return all
}

// canAsk reports whether a file can be asked without any program's help whether it is
// ready: not a file of a FUSE server, which may be one that is held.
func canAsk(f host.File) bool {
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

// ask finds out for what a process's descriptors are ready. Those that cannot be asked keep
// what they have.
func ask(pid int, all []host.Polled) {
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(process)
	for i := range all {
		if !canAsk(all[i].File) {
			continue
		}
		if events, ok := askFD(process, all[i].FD); ok {
			all[i].Ready = events
		}
	}
}

// askFD returns for what a descriptor of a process, which a pidfd stands for, is ready.
func askFD(process, fd int) (ready uint32, ok bool) {
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

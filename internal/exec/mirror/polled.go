package mirror

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// A call that waits for files (poll, select, epoll_wait) asks each of them whether it is
// ready, before it waits and after that. The guest's files know nothing of that, so they
// are told: each descriptor is looked at when the call begins, and again when it has ended.

// A pollWait is what a call waits for.
type pollWait struct {
	kind     calls.WaitKind
	polled   []host.Polled
	interest []hostview.Interest // of an epoll file
}

// wait finds out what a call waits for. It returns nil for other calls.
func (m *Mirror) wait(t *tracee, row *calls.Row, c *host.Mirror) *pollWait {
	if row.Waits == calls.WaitsNot {
		return nil
	}
	w := &pollWait{kind: row.Waits}
	switch row.Waits {
	case calls.WaitsArray:
		n := int(min(c.Args[1], hostview.MaxPolled))
		b := m.inMemory(t, c.Args[0], n*calls.SizeofPollFD)
		for ; len(b) >= calls.SizeofPollFD; b = b[calls.SizeofPollFD:] {
			m.add(t, w, int(int32(binary.NativeEndian.Uint32(b))))
		}
	case calls.WaitsSets:
		for fd := range m.setFDs(t, c.Args) {
			m.add(t, w, fd)
		}
	case calls.WaitsTarget:
		target := int(int32(c.Args[2]))
		all, ok := t.space.files.Interest(t.tid, t.pid, int(int32(c.Args[0])))
		known := slices.ContainsFunc(all, func(i hostview.Interest) bool { return i.FD == target })
		if !ok || known == (c.Args[1] != unix.EPOLL_CTL_ADD) {
			m.add(t, w, target)
		}
	case calls.WaitsEvents:
		epoll := int(int32(c.Args[0]))
		var ok bool
		if w.interest, ok = t.space.files.Interest(t.tid, t.pid, epoll); ok {
			c.Ready = m.readyEvents(t, epoll, w.interest)
		}
		c.Polled = make([]host.Polled, hostview.MaxPolled)
		for i := range c.Polled {
			c.Polled[i].FD = -1 // those that are ready come at the end
		}
		return w
	case calls.WaitsNot:
	}
	hostview.Ready(t.pid, w.polled)
	c.Polled = w.polled
	return w
}

// readyEvents asks an epoll file whether it has events, if all its descriptors can be asked
// and are not too many to look at each.
func (m *Mirror) readyEvents(t *tracee, epoll int, all []hostview.Interest) uint32 {
	const most = 64
	if len(all) > most {
		return 0
	}
	for _, i := range all {
		if file, ours := t.space.files.Of(t.tid, t.pid, i.FD); ours || !hostview.CanAsk(file) {
			return 0
		}
	}
	process, err := unix.PidfdOpen(t.pid, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(process)
	events, _ := hostview.ReadyFD(process, epoll)
	return events
}

// inMemory reads the program's memory if it is in RAM.
func (m *Mirror) inMemory(t *tracee, addr uint64, n int) []byte {
	memory := m.memory(t)
	return memory.get(addr, n, n)
}

// setFDs returns the descriptors in the sets of a select(2), each once, in their order.
func (m *Mirror) setFDs(t *tracee, args [6]uint64) func(yield func(int) bool) {
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
func (m *Mirror) add(t *tracee, w *pollWait, fd int) {
	if len(w.polled) == hostview.MaxPolled || w.has(fd) {
		return
	}
	if file, ours := t.space.files.Of(t.tid, t.pid, fd); !ours && file.ID != 0 {
		w.polled = append(w.polled, host.Polled{FD: fd, File: file})
	}
}

// pollResult says what the descriptors of a call are ready for when it has returned ret.
func (m *Mirror) pollResult(t *tracee, w *pollWait, ret int64) []host.Polled {
	if w == nil || w.kind == calls.WaitsTarget {
		return nil
	}
	if w.kind == calls.WaitsEvents {
		m.find(t, w, ret)
	}
	for i := range w.polled {
		p := &w.polled[i]
		p.File.Sock = host.Sock{}
		if t.space.files.Connecting(t.pid, p.FD) {
			p.File, _ = t.space.files.Of(t.tid, t.pid, p.FD)
		}
	}
	hostview.Ready(t.pid, w.polled)
	return w.polled
}

// find adds the descriptors of which epoll_wait(2) has told the program. Of several for which
// it is told the same, it is one that is ready.
func (m *Mirror) find(t *tracee, w *pollWait, ret int64) {
	w.polled = []host.Polled{}
	b := m.inMemory(t, t.args[1], int(min(max(ret, 0), hostview.MaxPolled))*calls.SizeofEpollEvent)
	for ; len(b) >= calls.SizeofEpollEvent; b = b[calls.SizeofEpollEvent:] {
		events, data := binary.NativeEndian.Uint32(b), binary.NativeEndian.Uint64(b[4:])
		var same []host.Polled
		for _, i := range w.interest {
			if i.Data != data || w.has(i.FD) {
				continue
			}
			if file, ours := t.space.files.Of(t.tid, t.pid, i.FD); !ours {
				same = append(same, host.Polled{FD: i.FD, File: file, Ready: events})
			}
		}
		if len(same) > 1 {
			hostview.Ready(t.pid, same)
		}
		if i := slices.IndexFunc(same, func(p host.Polled) bool { return p.Ready&events != 0 }); i >= 0 {
			w.polled = append(w.polled, same[i])
		}
	}
}

func (w *pollWait) has(fd int) bool {
	return slices.ContainsFunc(w.polled, func(p host.Polled) bool { return p.FD == fd })
}

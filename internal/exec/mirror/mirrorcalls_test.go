package mirror

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/calls"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// TestCallMemory: what the arguments of calls on sockets point to is read before the call
// and after it, and pointers in it lead to the copies.
func TestCallMemory(t *testing.T) {
	text, name, control := []byte("text"), []byte("name of 16 bytes"), []byte("12345678")
	parts := []unix.Iovec{{Base: &text[0], Len: 2}, {Base: &text[2], Len: 2}}
	msg := unix.Msghdr{Name: &name[0], Namelen: 16, Iov: &parts[0], Iovlen: 2, Control: &control[0], Controllen: 8}
	at := func(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }
	row := func(nr uint64) *calls.Row { return calls.Rows[nr] }

	m := callMemory{tid: unix.Gettid()}
	m.arguments(row(unix.SYS_SENDMSG), [6]uint64{3, at(unsafe.Pointer(&msg))})
	head := m.Data[m.Args[1]-1:]
	follow := func(place int) []byte {
		for _, r := range m.Refs {
			if r.At == place {
				return m.Data[r.To:]
			}
		}
		t.Fatalf("nothing refers from %d: %v", place, m.Refs)
		return nil
	}
	place := m.Args[1] - 1
	if n := binary.NativeEndian.Uint32(head[8:]); n != 16 || !bytes.HasPrefix(follow(place), name) || !bytes.HasPrefix(follow(place+32), control) {
		t.Errorf("the message is %x", m.Data)
	}
	var vector int
	for _, r := range m.Refs {
		if r.At == place+16 {
			vector = r.To
		}
	}
	if !bytes.HasPrefix(follow(vector), text[:2]) || !bytes.HasPrefix(follow(vector+16), text[2:]) {
		t.Errorf("the message's text is in %x", m.Data)
	}

	// recvmsg(2) changes the text, the address and the sizes.
	m = callMemory{tid: unix.Gettid()}
	m.arguments(row(unix.SYS_RECVMSG), [6]uint64{3, at(unsafe.Pointer(&msg))})
	copy(text, "TEX")
	msg.Namelen, msg.Flags = 2, unix.MSG_TRUNC
	after := slices.Clone(m.Data)
	for _, w := range m.awaitChanged(3) {
		copy(after[w.At:], w.Data)
	}
	place = m.Args[1] - 1
	if binary.NativeEndian.Uint32(after[place+8:]) != 2 || binary.NativeEndian.Uint32(after[place+48:]) != unix.MSG_TRUNC || !bytes.Contains(after, []byte("TE")) || bytes.Contains(after, []byte("TEXt")) {
		t.Errorf("after recvmsg(2): %x", after)
	}

	// The size of an address is read, and is changed when the call succeeds.
	size := uint32(16)
	m = callMemory{tid: unix.Gettid()}
	m.arguments(row(unix.SYS_ACCEPT), [6]uint64{3, at(unsafe.Pointer(&name[0])), at(unsafe.Pointer(&size))})
	size = 4
	if changed := m.awaitChanged(-11); len(changed) != 0 {
		t.Errorf("a call that failed has changed %v", changed)
	}
	want := []host.Written{{At: m.Args[1] - 1, Data: name}, {At: m.Args[2] - 1, Data: []byte{4, 0, 0, 0}}}
	if changed := m.awaitChanged(5); !slices.EqualFunc(changed, want, func(a, b host.Written) bool { return a.At == b.At && bytes.Equal(a.Data, b.Data) }) {
		t.Errorf("accept(2) has changed %v, want %v", changed, want)
	}

	// Sizes and addresses that are not valid.
	for _, args := range [][6]uint64{{3, 0, 0}, {3, 1, 1}, {3, 8, at(unsafe.Pointer(&size))}} {
		for _, nr := range []uint64{unix.SYS_ACCEPT, unix.SYS_RECVMSG, unix.SYS_SENDMSG, unix.SYS_GETSOCKNAME} {
			m := callMemory{tid: unix.Gettid()}
			m.arguments(row(nr), args)
			_ = m.awaitChanged(0)
		}
	}
}

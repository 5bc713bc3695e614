package hostview

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// TestCanAsk: what needs another program's answer is not asked.
func TestCanAsk(t *testing.T) {
	for _, tt := range []struct {
		file host.File
		want bool
	}{
		{host.File{Mode: unix.S_IFIFO}, true},
		{host.File{Mode: unix.S_IFSOCK}, true},
		{host.File{Mode: unix.S_IFREG}, false},
		{host.File{Mode: unix.S_IFDIR}, false},
		{host.File{Mode: unix.S_IFCHR, Rdev: 1<<20 | 3}, true},
		{host.File{Mode: unix.S_IFCHR, Rdev: 136 << 20}, true},
		{host.File{Mode: unix.S_IFCHR, Rdev: 10<<20 | 229}, false}, // /dev/fuse
		{host.File{Mode: 0o600, Name: "anon_inode:[eventfd]"}, true},
		{host.File{Mode: 0o600, Name: "anon_inode:[io_uring]"}, false},
		{host.File{Mode: 0o600, Name: "anon_inode:[eventpoll]"}, false},
	} {
		if got := CanAsk(tt.file); got != tt.want {
			t.Errorf("%+v: %v", tt.file, got)
		}
	}
}

// TestSock: what is said of a socket of TCP changes as it does, and is said only when it is asked for or new.
func TestSock(t *testing.T) {
	const established, closeWait, listening = 1, 8, 10
	f, pid, tid := NewFiles(os.Getpid()), os.Getpid(), unix.Gettid()
	config := net.ListenConfig{}
	config.SetMultipathTCP(false)
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listener.(*net.TCPListener)
	defer l.Close()
	out, err := net.DialTCP("tcp", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	fd := func(c syscall.Conn) (n int) {
		raw, err := c.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { n = int(fd) })
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if file, _ := f.Sock(tid, pid, fd(l)); file.Sock.State != listening || file.Flags&unix.O_CLOEXEC == 0 {
		t.Errorf("the listener: %+v", file)
	}
	file, _ := f.Of(tid, pid, fd(out))
	port := func(a net.Addr) uint16 { return uint16(a.(*net.TCPAddr).Port) }
	want := host.Sock{State: established, Local: file.Sock.Local, Peer: file.Sock.Peer, Srtt: file.Sock.Srtt, Acked: file.Sock.Acked}
	if file.Sock != want || !IsTCP(file) || file.Sock.Local.Port != port(out.LocalAddr()) || file.Sock.Peer.Port != port(l.Addr()) || file.Sock.Peer.IP[0] != 127 {
		t.Errorf("a connection: %+v", file)
	}
	if file, _ = f.Of(tid, pid, fd(out)); file.Sock.State != 0 || !IsTCP(file) {
		t.Errorf("said again: %+v", file)
	}
	if _, err := in.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := in.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // both have come
		t.Fatal(err)
	}
	if file, _ = f.Sock(tid, pid, fd(out)); file.Sock.State != closeWait || file.Sock.Unread != 2 {
		t.Errorf("ended by the other side: %+v", file)
	}
}

// TestConnecting: of a socket that is about to be connected it is said until it is connected.
func TestConnecting(t *testing.T) {
	f, pid, tid := NewFiles(os.Getpid()), os.Getpid(), unix.Gettid()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	k := &knownFile{file: host.File{ID: 1, Mode: unix.S_IFSOCK, Rdev: unix.AF_INET<<24 | unix.SOCK_STREAM<<16 | unix.IPPROTO_TCP}, connecting: true}
	if k.link, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s)); err != nil {
		t.Fatal(err)
	}
	f.known[pid] = map[int]*knownFile{s: k}
	if file, _ := f.Of(tid, pid, s); file.Sock.State != 7 || f.Connecting(pid, s) {
		t.Errorf("%+v", file)
	}
	if file, _ := f.Of(tid, pid, s); file.Sock.State != 0 {
		t.Errorf("said again: %+v", file)
	}
}

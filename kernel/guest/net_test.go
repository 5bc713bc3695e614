package guest_test

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Memory of a TCP test: an address, a buffer for each side, and structs.
type sockets struct {
	*machine
	a, b *task // two tasks, so that one can wait for the other
	mem  uint64
}

const sockStream, afInet = 1, 2

func (m *machine) sockets() *sockets {
	return &sockets{m, m.task("server"), m.task("client"), m.zalloc(8192)}
}

// addr is a sockaddr_in in kernel memory.
func (s *sockets) addr(ip [4]byte, port uint16) uint64 {
	p := binary.LittleEndian.AppendUint16(nil, afInet)
	p = binary.BigEndian.AppendUint16(p, port)
	p = append(p, ip[:]...)
	a := s.mem + 64
	s.put(a, append(p, make([]byte, 8)...))
	return a
}

var localhost = [4]byte{127, 0, 0, 1}

func (s *sockets) create(k *task) uint64 {
	s.t.Helper()
	if e := k.call("sock_create", afInet, sockStream, 0, s.mem); e != 0 {
		s.t.Fatalf("sock_create: %d", int32(e))
	}
	return s.u64(s.mem)
}

func (s *sockets) listener(port uint16) uint64 {
	s.t.Helper()
	sock := s.create(s.a)
	if e := s.a.call("kernel_bind", sock, s.addr([4]byte{}, port), 16); e != 0 {
		s.t.Fatalf("bind: %d", int32(e))
	}
	if e := s.a.call("kernel_listen", sock, 8); e != 0 {
		s.t.Fatalf("listen: %d", int32(e))
	}
	return sock
}

// Offsets in struct msghdr and struct kvec are as in kernel/guest/include:
// msg_name, msg_namelen, msg_iter (40 bytes), msg_flags.
const msghdrSize = 64

func (s *sockets) message(n int) (msg, vec, buf uint64) {
	msg = s.zalloc(msghdrSize)
	vec = s.zalloc(16)
	buf = s.zalloc(n)
	s.put64(vec, buf)
	s.put64(vec+8, uint64(n))
	return msg, vec, buf
}

func (s *sockets) send(k *task, sock uint64, p []byte) <-chan uint64 {
	msg, vec, buf := s.message(max(len(p), 1))
	s.put(buf, p)
	return k.start("kernel_sendmsg", sock, msg, vec, 1, uint64(len(p)))
}

func (s *sockets) receive(k *task, sock uint64, n int) []byte {
	s.t.Helper()
	var got []byte
	for len(got) < n {
		msg, vec, buf := s.message(n - len(got))
		// msg_iter: ITER_KVEC over vec.
		const iter = 16
		s.put(msg+iter, []byte{1})
		s.put64(msg+iter+16, uint64(n-len(got)))
		s.put64(msg+iter+24, vec)
		s.put64(msg+iter+32, 1)
		r := int64(int32(k.call("sock_recvmsg", sock, msg, 0)))
		if r < 0 {
			s.t.Fatalf("recvmsg: %d", r)
		}
		if r == 0 {
			break
		}
		got = append(got, s.bytes(buf, int(r))...)
	}
	return got
}

func TestTCP(t *testing.T) {
	m := watch(t, 2)
	s := m.sockets()
	l := s.listener(7777)
	accepted := s.a.start("kernel_accept", l, s.mem+8, 0)
	c := s.create(s.b)
	if e := s.b.call("kernel_connect", c, s.addr(localhost, 7777), 16, 0); e != 0 {
		t.Fatalf("connect: %d", int32(e))
	}
	if e := wait(t, "accept", accepted); e != 0 {
		t.Fatalf("accept: %d", int32(e))
	}
	srv := s.u64(s.mem + 8)
	r := rand.New(rand.NewSource(1))
	for _, n := range []int{1, 100, 8192, 20000, 300000} {
		p := make([]byte, n)
		r.Read(p)
		sent := s.send(s.b, c, p)
		if got := s.receive(s.a, srv, n); !bytes.Equal(got, p) {
			t.Fatalf("%d bytes: %d came, and others", n, len(got))
		}
		if v := wait(t, "send", sent); int(v) != n {
			t.Errorf("sendmsg(%d) = %d", n, int32(v))
		}
		// And back.
		sent = s.send(s.a, srv, p)
		if got := s.receive(s.b, c, n); !bytes.Equal(got, p) {
			t.Fatalf("%d bytes back: %d came, and others", n, len(got))
		}
		wait(t, "send back", sent)
	}
	// One side closes; the other one can still send.
	if e := s.b.call("kernel_sock_shutdown", c, 1); e != 0 {
		t.Errorf("shutdown: %d", int32(e))
	}
	if got := s.receive(s.a, srv, 10); len(got) != 0 {
		t.Errorf("%d bytes after the end", len(got))
	}
	wait(t, "send", s.send(s.a, srv, []byte("bye")))
	if got := s.receive(s.b, c, 3); string(got) != "bye" {
		t.Errorf("got %q", got)
	}
	if v := int32(wait(t, "send", s.send(s.b, c, []byte("x")))); v != -int32(syscall.EPIPE) {
		t.Errorf("send after shutdown: %d", v)
	}
	s.a.call("sock_release", srv)
	s.b.call("sock_release", c)
	s.a.call("sock_release", l)
}

func TestTCPRefusals(t *testing.T) {
	m := watch(t, 1)
	s := m.sockets()
	errno := func(v uint64) syscall.Errno { return syscall.Errno(-int32(v)) }
	c := s.create(s.b)
	if e := errno(s.b.call("kernel_connect", c, s.addr(localhost, 9), 16, 0)); e != syscall.ECONNREFUSED {
		t.Errorf("connect without a listener: %v", e)
	}
	if e := errno(s.b.call("kernel_connect", c, s.addr([4]byte{8, 8, 8, 8}, 9), 16, 0)); e != syscall.ENETUNREACH {
		t.Errorf("connect out: %v", e)
	}
	if e := errno(s.b.call("sock_create", 99, sockStream, 0, s.mem)); e != syscall.EAFNOSUPPORT {
		t.Errorf("socket of family 99: %v", e)
	}
	if e := errno(s.b.call("sock_create", afInet, 2, 0, s.mem)); e != syscall.ESOCKTNOSUPPORT {
		t.Errorf("datagram socket: %v", e)
	}
	if e := errno(s.b.call("sock_create", afInet, sockStream, 17, s.mem)); e != syscall.EPROTONOSUPPORT {
		t.Errorf("stream of UDP: %v", e)
	}
	l := s.listener(5555)
	other := s.create(s.a)
	if e := errno(s.a.call("kernel_bind", other, s.addr(localhost, 5555), 16)); e != syscall.EADDRINUSE {
		t.Errorf("second bind: %v", e)
	}
	if e := errno(s.a.call("kernel_bind", other, s.addr([4]byte{10, 0, 0, 1}, 1), 16)); e != syscall.EADDRNOTAVAIL {
		t.Errorf("bind to another's address: %v", e)
	}
	const nonblock = syscall.O_NONBLOCK
	if e := errno(s.a.call("kernel_accept", l, s.mem, nonblock)); e != syscall.EAGAIN {
		t.Errorf("accept of nothing: %v", e)
	}
	// Closing a listener closes its connections that were not accepted.
	if e := s.b.call("kernel_connect", c, s.addr(localhost, 5555), 16, 0); e != 0 {
		t.Fatalf("connect: %v", errno(e))
	}
	s.a.call("sock_release", l)
	if got := s.receive(s.b, c, 1); len(got) != 0 {
		t.Errorf("read %q of a closed listener", got)
	}
	s.b.call("sock_release", c)
	s.a.call("sock_release", other)
}

// Sockets by system calls, and as files.
func TestSocketCalls(t *testing.T) {
	m := watch(t, 2)
	s := m.sockets()
	user := s.userPage(s.a)
	call := func(name string, args ...uint64) int64 { return s.a.syscall(name, args...) }
	l := call("socket", afInet, sockStream, 0)
	if l < 0 {
		t.Fatalf("socket: %d", l)
	}
	s.put(user, s.bytes(s.addr(localhost, 6666), 16))
	if e := call("bind", uint64(l), user, 16); e != 0 {
		t.Fatalf("bind: %d", e)
	}
	if e := call("listen", uint64(l), 4); e != 0 {
		t.Fatalf("listen: %d", e)
	}
	c := call("socket", afInet, sockStream, 0)
	if e := call("connect", uint64(c), user, 16); e != 0 {
		t.Fatalf("connect: %d", e)
	}
	s.put(user+64, []byte{16, 0, 0, 0})
	a := call("accept4", uint64(l), user+32, user+64, 0)
	if a < 0 {
		t.Fatalf("accept4: %d", a)
	}
	if got := s.bytes(user+36, 4); !bytes.Equal(got, localhost[:]) {
		t.Errorf("accept4 returned the address %v", got)
	}
	s.put(user+128, []byte("over the wire"))
	if n := call("sendto", uint64(c), user+128, 13, 0, 0, 0); n != 13 {
		t.Errorf("sendto: %d", n)
	}
	if n := call("recvfrom", uint64(a), user+256, 100, 0, 0, 0); n != 13 || string(s.bytes(user+256, 13)) != "over the wire" {
		t.Errorf("recvfrom: %d, %q", n, s.bytes(user+256, 13))
	}
	if n := call("write", uint64(a), user+128, 4); n != 4 {
		t.Errorf("write: %d", n)
	}
	if n := call("read", uint64(c), user+512, 100); n != 4 || string(s.bytes(user+512, 4)) != "over" {
		t.Errorf("read: %d, %q", n, s.bytes(user+512, 4))
	}
	if n := call("recvfrom", uint64(c), user+512, 1, 0x40, 0, 0); n != -int64(syscall.EAGAIN) {
		t.Errorf("recvfrom of nothing: %d", n)
	}
	if n := call("shutdown", uint64(c), 2); n != 0 {
		t.Errorf("shutdown: %d", n)
	}
	for _, fd := range []int64{a, c, l} {
		if n := call("close", uint64(fd)); n != 0 {
			t.Errorf("close(%d): %d", fd, n)
		}
	}
	s.a.call("task_work_run")
	if n := call("listen", uint64(l), 4); n != -int64(syscall.EBADF) {
		t.Errorf("listen on a closed descriptor: %d", n)
	}
}

// userPage maps a writable page of user memory.
func (m *machine) userPage(k *task) uint64 {
	m.t.Helper()
	const at = abi.UserBase + 0x3000_0000
	page := m.call("__get_free_pages", 0xcc0|0x100, 0)
	if e := m.Mem().Map(at, page-abi.DirectMap, 1, 3); e != nil {
		m.t.Fatal(e)
	}
	return at
}

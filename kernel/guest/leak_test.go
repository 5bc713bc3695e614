package guest_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// leaks checks that no pages stay allocated after f has run many times.
func (m *machine) leaks(k *task, f func(i int)) {
	m.t.Helper()
	const warm, rounds, slack = 40, 400, 24
	settle := func() uint64 {
		// Freed inodes, dentries and files wait for RCU.
		k.call("rcu_barrier")
		time.Sleep(20 * time.Millisecond)
		k.call("rcu_barrier")
		return m.call("nr_free_pages")
	}
	for i := range warm {
		f(i)
	}
	// What is leaked is missing after each batch. Slabs that are partly used on another CPU than before, and
	// kernel threads that free late on a busy host, are seen in one.
	lost := uint64(0)
	for range 3 {
		before := settle()
		for i := range rounds {
			f(i)
		}
		after := settle()
		for range 20 {
			if after+slack >= before {
				return
			}
			after = settle()
		}
		lost += before - after
	}
	m.t.Errorf("%d pages are leaked after 3 times %d rounds", lost, rounds)
}

func TestNoLeakOfFiles(t *testing.T) {
	m := boot(t, 2)
	k := m.task("sh")
	v := &vfs{m, k, m.userPage(k)}
	long := strings.Repeat("n", 60)
	m.leaks(k, func(i int) {
		p := fmt.Sprintf("/ram/%s%d", long, i)
		fd := v.mustOpen(p, syscall.O_RDWR|syscall.O_CREAT)
		v.write(fd, "some content")
		k.syscall("unlink", v.path(p))
		v.close(fd)
		if e := k.syscall("pipe2", v.user, 0); e != 0 {
			t.Fatal(e)
		}
		r, w := int64(v.u32(v.user)), int64(v.u32(v.user+4))
		v.write(w, "left in the pipe")
		v.close(r)
		v.close(w)
	})
}

func TestNoLeakOfSockets(t *testing.T) {
	m := boot(t, 2)
	s := m.sockets()
	l := s.listener(4444)
	msg, vec, _ := s.message(100)
	m.leaks(s.a, func(int) {
		c := s.create(s.b)
		if e := s.b.call("kernel_connect", c, s.addr(localhost, 4444), 16, 0); e != 0 {
			t.Fatalf("connect: %d", int32(e))
		}
		if e := s.a.call("kernel_accept", l, s.mem+8, 0); e != 0 {
			t.Fatalf("accept: %d", int32(e))
		}
		srv := s.u64(s.mem + 8)
		s.b.call("kernel_sendmsg", c, msg, vec, 1, 100)
		if got := s.a.call("sock_recvmsg", srv, s.receiver(100), 0); got != 100 {
			t.Fatalf("recvmsg: %d", int32(got))
		}
		s.b.call("sock_release", c)
		s.a.call("sock_release", srv)
	})
}

func TestNoLeakOfHostCalls(t *testing.T) {
	m := boot(t, 2)
	k := m.task("sh")
	m.leaks(k, func(i int) {
		f := &hostFile{path: "/sys/kernel/debug/kprobes/list", mode: syscall.S_IFREG | 0o400, data: "line\n"}
		if fd := m.open(f, syscall.O_RDONLY); fd < 0 {
			t.Fatalf("open: %d", fd)
		}
		m.do(f, abi.SysRead, host.Call{Count: 100})
		m.do(f, abi.SysNewfstatat, host.Call{})
		m.do(f, abi.HostFilpClose, host.Call{})
		m.do(f, abi.HostRelease, host.Call{})
	})
}

// receiver returns a msghdr for n bytes, which it reuses.
func (s *sockets) receiver(n int) uint64 {
	const at, iter = 2048, 16
	msg, vec, buf := s.mem+at, s.mem+at+128, s.mem+at+256
	s.put64(vec, buf)
	s.put64(vec+8, uint64(n))
	s.put(msg, make([]byte, msghdrSize))
	s.put(msg+iter, []byte{1})
	s.put64(msg+iter+16, uint64(n))
	s.put64(msg+iter+24, vec)
	s.put64(msg+iter+32, 1)
	return msg
}

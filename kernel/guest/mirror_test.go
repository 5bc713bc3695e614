package guest_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
)

// mirrored returns a call on descriptor 3 that the host makes with a result.
func mirrored(nr uint64, f host.File, ret int64, data string) *host.Mirror {
	return &host.Mirror{
		Syscall: host.Syscall{Nr: nr, Args: [6]uint64{3, 0x1000, 100, 0}},
		Files:   [abi.MirrorFiles]host.Descriptor{{Arg: 1, File: f}},
		Memory:  host.Memory{Data: append([]byte(data), make([]byte, 100)...), Args: [6]int{1: 1}},
		Reached: func() {}, Made: func() host.Made { return host.Made{Ret: ret} },
	}
}

// TestMirrorKinds: a mirrored call comes to the operation of the file's kind, and
// returns the host's result, whatever it is. What prepares it is not seen.
func TestMirrorKinds(t *testing.T) {
	m := boot(t, 2)
	by := named(6000, "cat")
	regular := host.File{ID: 1, Name: "/etc/passwd", Mode: syscall.S_IFREG | 0o644, Flags: syscall.O_RDWR}
	pipe := host.File{ID: 2, Name: "pipe:[1]", Mode: syscall.S_IFIFO | 0o600, Flags: syscall.O_RDWR}
	socket := func(id, family, typ uint64) host.File {
		return host.File{ID: id, Name: "socket:[1]", Mode: syscall.S_IFSOCK | 0o777, Rdev: family<<24 | typ<<16, Flags: syscall.O_RDWR}
	}
	const stream, datagram, raw = syscall.SOCK_STREAM, syscall.SOCK_DGRAM, syscall.SOCK_RAW
	device := func(id, minor uint64) host.File {
		return host.File{ID: id, Name: "/dev/x", Mode: syscall.S_IFCHR | 0o666, Rdev: 1<<20 | minor, Flags: syscall.O_RDWR}
	}
	terminal := host.File{ID: 9, Name: "/dev/pts/1", Mode: syscall.S_IFCHR | 0o620, Rdev: 136<<20 | 1, Flags: syscall.O_RDWR}
	for _, tt := range []struct {
		name string
		nr   uint64
		file host.File
		ret  int64
		want string
	}{
		{"regular", abi.SysRead, regular, 100, "ksys_read vfs_read generic_file_read_iter"},
		{"at its end", abi.SysRead, regular, 0, "ksys_read vfs_read generic_file_read_iter"},
		{"written", abi.SysWrite, regular, 7, "ksys_write vfs_write generic_file_write_iter"},
		{"at a position", abi.SysPread64, regular, 5, "vfs_read generic_file_read_iter"},
		{"pipe", abi.SysRead, pipe, 3, "vfs_read pipe_read"},
		{"interrupted", abi.SysRead, pipe, -512, "vfs_read pipe_read"},
		{"no reader", abi.SysWrite, pipe, -int64(syscall.EPIPE), "vfs_write pipe_write"},
		{"pipe at a position", abi.SysPread64, pipe, -int64(syscall.ESPIPE), "__x64_sys_pread64"},
		{"TCP", abi.SysWrite, socket(21, syscall.AF_INET, stream), 9, "vfs_write sock_write_iter inet_sendmsg tcp_sendmsg_locked"},
		{"UDP", abi.SysRead, socket(22, syscall.AF_INET, datagram), 9, "vfs_read sock_read_iter inet_recvmsg udp_recvmsg"},
		{"raw", abi.SysRead, socket(23, syscall.AF_INET, raw), 9, "sock_recvmsg raw_recvmsg"},
		{"TCP, IPv6", abi.SysRead, socket(24, syscall.AF_INET6, stream), 9, "sock_recvmsg inet6_recvmsg tcp_recvmsg"},
		{"UDP, IPv6", abi.SysWrite, socket(25, syscall.AF_INET6, datagram), 9, "sock_write_iter inet6_sendmsg udpv6_sendmsg"},
		{"UNIX", abi.SysRead, socket(26, syscall.AF_UNIX, stream), 9, "unix_stream_recvmsg unix_stream_read_generic"},
		{"UNIX packets", abi.SysWrite, socket(27, syscall.AF_UNIX, syscall.SOCK_SEQPACKET), 9, "unix_seqpacket_sendmsg unix_dgram_sendmsg"},
		{"netlink", abi.SysWrite, socket(28, syscall.AF_NETLINK, raw), 9, "netlink_sendmsg"},
		{"another family", abi.SysRead, socket(29, syscall.AF_PACKET, raw), 9, "sock_read_iter sock_recvmsg"},
		{"unknown socket", abi.SysWrite, socket(30, 0, 0), 9, "sock_write_iter"},
		{"bind", abi.SysBind, socket(21, syscall.AF_INET, stream), -int64(syscall.EADDRINUSE), "__sys_bind inet_bind inet_csk_get_port"},
		{"listen", abi.SysListen, socket(21, syscall.AF_INET, stream), 0, "__sys_listen inet_listen inet_csk_get_port"},
		{"refused", abi.SysConnect, socket(21, syscall.AF_INET, stream), -int64(syscall.ECONNREFUSED), "__inet_stream_connect tcp_v4_connect"},
		{"connect", abi.SysConnect, socket(24, syscall.AF_INET6, stream), 0, "__sys_connect_file tcp_v6_connect"},
		{"not accepted", abi.SysAccept, socket(21, syscall.AF_INET, stream), -int64(syscall.EAGAIN), "do_accept inet_csk_accept"},
		{"accept of another family", abi.SysAccept, socket(29, syscall.AF_PACKET, raw), -int64(syscall.EOPNOTSUPP), "do_accept"},
		{"shutdown", abi.SysShutdown, socket(27, syscall.AF_UNIX, syscall.SOCK_SEQPACKET), 0, "unix_shutdown"},
		{"option", abi.SysSetsockopt, socket(21, syscall.AF_INET, stream), 0, "__sys_setsockopt sock_common_setsockopt"},
		{"not a socket", abi.SysListen, pipe, -int64(syscall.ENOTSOCK), "__sys_listen"},
		{"closed", abi.SysClose, socket(26, syscall.AF_UNIX, stream), 0, "sock_close unix_release_sock"},
		{"null", abi.SysWrite, device(4, 3), 9, "vfs_write write_null"},
		{"zero", abi.SysRead, device(5, 5), 9, "vfs_read read_zero"},
		{"urandom", abi.SysRead, device(6, 9), 9, "vfs_read urandom_read_iter"},
		{"terminal", abi.SysWrite, terminal, 9, "vfs_write tty_write"},
		{"not told", abi.SysClose, host.File{}, -int64(syscall.EBADF), "close_fd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := mirrored(tt.nr, tt.file, tt.ret, "\x02\x00written text") // or an address of AF_INET
			if tt.nr == abi.SysBind || tt.nr == abi.SysConnect {
				call.Args[2] = 16
			}
			if tt.nr == abi.SysAccept {
				call.Args[1], call.Memory.Args[1] = 0, 0
			}
			if tt.file.ID == 0 {
				call.Files, call.Memory, call.Args[0] = [abi.MirrorFiles]host.Descriptor{}, host.Memory{}, 77
			}
			var got int64
			var err error
			seen := sees(t, m, func() { got, err = m.Host().Mirror(by, call) })
			if err != nil || got != tt.ret {
				t.Errorf("result %d, %v; the host's is %d", got, err, tt.ret)
			}
			for _, f := range strings.Fields(tt.want) {
				if seen[f].n != 1 {
					t.Errorf("%s was called %d times", f, seen[f].n)
				}
			}
			if tt.nr == abi.SysAccept { // it makes a file
				return
			}
			for _, f := range []string{"alloc_file_pseudo", "alloc_empty_file", "__d_alloc", "new_inode_pseudo"} {
				if seen[f].n > 0 {
					t.Errorf("%s is seen", f)
				}
			}
		})
	}
}

// TestMirrorWaits: a call that waits for files asks each by its own function, which returns for
// what the host has told that it is ready: once if one is, otherwise before the wait and after.
func TestMirrorWaits(t *testing.T) {
	const in, out, anything = 1, 4, 0x41
	pipe := host.File{ID: 1, Name: "pipe:[1]", Mode: syscall.S_IFIFO | 0o600}
	tcp := host.File{ID: 2, Name: "socket:[1]", Mode: syscall.S_IFSOCK | 0o777, Rdev: syscall.AF_INET<<24 | syscall.SOCK_STREAM<<16, Flags: syscall.O_RDWR}
	epoll := host.File{ID: 3, Name: "anon_inode:[eventpoll]", Mode: 0o600, Flags: syscall.O_RDWR}
	pollfds := string([]byte{5, 0, 0, 0, in, 0, 0, 0, 6, 0, 0, 0, in, 0, 0, 0})
	sets := string([]byte{1 << 5, 0, 0, 0, 0, 0, 0, 0})
	waits := func(ready uint32) []host.Polled {
		return []host.Polled{{FD: 5, File: pipe, Ready: ready}, {FD: 6, File: tcp, Ready: out}}
	}
	m := boot(t, 2)
	by := named(6000, "cat")
	for _, tt := range []struct {
		name   string
		nr     uint64
		args   [6]uint64
		data   string
		files  bool // an epoll file is the first argument
		polled []host.Polled
		after  []host.Polled
		ret    int64
		want   map[string]int
	}{
		{
			name: "poll, ready", nr: abi.SysPoll, args: [6]uint64{0, 2, ^uint64(0)}, data: pollfds, polled: waits(anything), ret: 1,
			want: map[string]int{"do_sys_poll": 1, "pipe_poll": 1, "sock_poll": 1, "tcp_poll": 1, "__pollwait": 1, "schedule_hrtimeout_range": 0},
		},
		{
			name: "poll, later", nr: abi.SysPoll, args: [6]uint64{0, 2, 100}, data: pollfds, polled: waits(0), after: waits(anything), ret: 1,
			want: map[string]int{"pipe_poll": 2, "tcp_poll": 2, "__pollwait": 2, "schedule_hrtimeout_range": 1, "poll_freewait": 1},
		},
		{
			name: "poll, at once", nr: abi.SysPoll, args: [6]uint64{0, 2, 0}, data: pollfds, polled: waits(0), after: waits(0),
			want: map[string]int{"pipe_poll": 1, "tcp_poll": 1, "__pollwait": 0, "schedule_hrtimeout_range": 0},
		},
		{
			name: "poll of descriptors that are not told of", nr: abi.SysPoll, args: [6]uint64{0, 2, 0}, data: strings.ReplaceAll(pollfds, "\x05", "\x77"), polled: waits(0), ret: 1,
			want: map[string]int{"pipe_poll": 0, "tcp_poll": 1},
		},
		{
			name: "select", nr: abi.SysSelect, args: [6]uint64{6, 0, 0, 0, 0}, data: sets, polled: waits(0)[:1], after: waits(in)[:1], ret: 1,
			want: map[string]int{"core_sys_select": 1, "do_select": 1, "pipe_poll": 2, "schedule_hrtimeout_range": 1},
		},
		{
			name: "epoll_wait", nr: abi.SysEpollWait, args: [6]uint64{3, 0, 4, ^uint64(0)}, data: pollfds, files: true, polled: []host.Polled{{FD: -1}, {FD: -1}}, after: waits(in)[:1], ret: 1,
			want: map[string]int{"do_epoll_wait": 1, "pipe_poll": 1, "tcp_poll": 0, "schedule_hrtimeout_range": 1},
		},
		{
			name: "epoll_wait for nothing", nr: abi.SysEpollWait, args: [6]uint64{3, 0, 4, 0}, data: pollfds, files: true, polled: []host.Polled{{FD: -1}, {FD: -1}}, after: []host.Polled{},
			want: map[string]int{"do_epoll_wait": 1, "pipe_poll": 0, "schedule_hrtimeout_range": 0},
		},
		{
			name: "epoll_ctl", nr: abi.SysEpollCtl, args: [6]uint64{3, 1, 5, 0}, data: pollfds, files: true, polled: waits(in)[:1],
			want: map[string]int{"do_epoll_ctl": 1, "pipe_poll": 1, "ep_ptable_queue_proc": 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := 0
			if tt.files {
				at = 1
			}
			if tt.nr == abi.SysEpollCtl {
				at = 3
			}
			if tt.nr == abi.SysSelect {
				at = 1
			}
			call := &host.Mirror{
				Syscall: host.Syscall{Nr: tt.nr, Args: tt.args},
				Memory:  host.Memory{Data: []byte(tt.data)},
				Polled:  tt.polled,
				Reached: func() {}, Made: func() host.Made { return host.Made{Ret: tt.ret, Polled: tt.after} },
			}
			call.Memory.Args[at] = 1
			if tt.files {
				call.Files[0] = host.Descriptor{Arg: 1, File: epoll}
			}
			var got int64
			var err error
			seen := sees(t, m, func() { got, err = m.Host().Mirror(by, call) })
			if err != nil || got != tt.ret {
				t.Errorf("result %d, %v; the host's is %d", got, err, tt.ret)
			}
			for f, n := range tt.want {
				if seen[f].n != n {
					t.Errorf("%s was called %d times, not %d", f, seen[f].n, n)
				}
			}
		})
	}
}

// TestMirrorOrder: the beginning is over before the host makes the call, and its end
// comes after that. The task sleeps meanwhile, and others run.
func TestMirrorOrder(t *testing.T) {
	m := boot(t, 1)
	made, reached := make(chan struct{}), make(chan struct{})
	call := mirrored(abi.SysRead, host.File{ID: 1, Name: "pipe:[1]", Mode: syscall.S_IFIFO}, 4, "")
	call.Reached = func() { close(reached) }
	call.Made = func() host.Made { <-made; return host.Made{Ret: 4, Written: []host.Written{{Data: []byte("text")}}} }
	done := make(chan int64)
	go func() {
		ret, _ := m.Host().Mirror(named(6001, "cat"), call)
		done <- ret
	}()
	<-reached
	other := mirrored(abi.SysWrite, host.File{ID: 1, Name: "pipe:[1]", Mode: syscall.S_IFIFO, Flags: syscall.O_WRONLY}, 4, "text")
	if ret, err := m.Host().Mirror(named(6002, "echo"), other); ret != 4 || err != nil {
		t.Errorf("write: %d, %v", ret, err)
	}
	select {
	case ret := <-done:
		t.Errorf("the read returned %d before the host made it", ret)
	case <-time.After(20 * time.Millisecond):
	}
	close(made)
	if ret := <-done; ret != 4 {
		t.Errorf("read: %d", ret)
	}
}

// TestStartMirror: a call that is begun and ended in two steps is the same as one made by
// Mirror. A suspended one holds up nobody, and what cannot be done without waiting is
// refused.
func TestStartMirror(t *testing.T) {
	m := boot(t, 1)
	cat, echo := named(6010, "cat"), named(6011, "echo")
	file := host.File{ID: 1, Name: "/etc/passwd", Mode: syscall.S_IFREG | 0o644, Flags: syscall.O_RDWR}
	if _, ok := m.Host().StartMirror(cat, mirrored(abi.SysRead, file, 4, ""), func(int64) {}); ok {
		t.Fatal("a call was begun by a thread that has no task")
	}
	for _, c := range []host.Caller{cat, echo} {
		if _, err := m.Host().Mirror(c, mirrored(abi.SysRead, file, 0, "")); err != nil {
			t.Fatal(err)
		}
	}
	call := mirrored(abi.SysRead, file, 0, "")
	begin := func() (*host.MirrorRun, <-chan int64) {
		t.Helper()
		for late := time.Now().Add(10 * time.Second); time.Now().Before(late); {
			ended := make(chan int64, 1)
			if run, _ := m.Host().StartMirror(cat, call, func(ret int64) { ended <- ret }); run != nil {
				return run, ended
			} // otherwise the vCPU is busy, or an interrupt came first
		}
		t.Fatal("no call was begun")
		return nil, nil
	}
	call.Made = func() host.Made { return host.Made{} }
	for _, wait := range []time.Duration{0, 20 * time.Millisecond} { // the guest's tick comes meanwhile, and the task sleeps
		seen := sees(t, m, func() {
			run, ended := begin()
			if _, ok := m.Host().StartMirror(cat, call, func(int64) {}); ok {
				t.Error("a thread is in two calls")
			}
			if wait > 0 {
				if ret, err := m.Host().Mirror(echo, mirrored(abi.SysWrite, file, 7, "text")); ret != 7 || err != nil {
					t.Errorf("another call meanwhile: %d, %v", ret, err)
				}
			}
			time.Sleep(wait)
			go run.End(host.Made{Ret: 5, Written: []host.Written{{Data: []byte("bytes")}}})
			select {
			case ret := <-ended:
				if ret != 5 {
					t.Errorf("after %v: result %d", wait, ret)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the call has not ended")
			}
		})
		if seen["vfs_read"].n < 1 {
			t.Errorf("after %v: vfs_read was not called", wait)
		}
	}
}

// TestMirrorDescriptors: what a descriptor is may change from call to call, and threads
// that are told with many of them do not use up the guest's memory.
func TestMirrorDescriptors(t *testing.T) {
	m := boot(t, 1)
	by := named(6003, "cat")
	kinds := []uint64{syscall.S_IFREG, syscall.S_IFIFO, syscall.S_IFSOCK, syscall.S_IFDIR, syscall.S_IFCHR}
	for i := range 3000 {
		f := host.File{ID: uint64(1 + i%7), Name: "/tmp/f", Mode: kinds[i%len(kinds)], Flags: uint64(i % 3), Rdev: uint64(i)}
		call := mirrored(slices.Repeat([]uint64{abi.SysRead, abi.SysWrite}, 1)[i%2], f, int64(i%4)-1, "text")
		call.Args[0] = uint64(i % 500)
		if ret, err := m.Host().Mirror(by, call); ret != int64(i%4)-1 || err != nil {
			t.Fatalf("call %d: %d, %v", i, ret, err)
		}
	}
}

// TestMirrorSocketpair: both sockets are at the host's descriptors, and are those of which
// the next calls tell.
func TestMirrorSocketpair(t *testing.T) {
	m := boot(t, 1)
	by := named(6006, "cat")
	ends := [2]host.File{}
	for i := range ends {
		ends[i] = host.File{ID: 50 + uint64(i), Name: "socket:[1]", Mode: syscall.S_IFSOCK | 0o777, Rdev: syscall.AF_UNIX<<24 | syscall.SOCK_STREAM<<16, Flags: syscall.O_RDWR}
	}
	call := &host.Mirror{
		Syscall: host.Syscall{Nr: abi.SysSocketpair, Args: [6]uint64{syscall.AF_UNIX, syscall.SOCK_STREAM, 0, 0x1000}},
		Memory:  host.Memory{Data: make([]byte, 8), Args: [6]int{3: 1}},
		Reached: func() {}, Made: func() host.Made {
			return host.Made{Files: ends, Written: []host.Written{{Data: []byte{40, 0, 0, 0, 41, 0, 0, 0}}}}
		},
	}
	seen := sees(t, m, func() {
		if ret, err := m.Host().Mirror(by, call); ret != 0 || err != nil {
			t.Error(ret, err)
		}
	})
	if seen["unix_create1"].n != 2 || seen["unix_socketpair"].n != 1 || seen["fd_install"].n != 2 {
		t.Error(seen)
	}
	for i, f := range ends {
		read := mirrored(abi.SysRead, f, 5, "")
		read.Args[0] = 40 + uint64(i)
		seen := sees(t, m, func() { _, _ = m.Host().Mirror(by, read) })
		if seen["unix_stream_recvmsg"].n != 1 || seen["sock_close"].n != 0 {
			t.Errorf("descriptor %d: %v", 40+i, seen)
		}
	}

	// A family that has no pairs: nothing is left of the two sockets.
	const refused = -int64(syscall.EOPNOTSUPP)
	call.Args[0], call.Made = syscall.AF_INET, func() host.Made { return host.Made{Ret: refused} }
	seen = sees(t, m, func() {
		if ret, err := m.Host().Mirror(by, call); ret != refused || err != nil {
			t.Error(ret, err)
		}
	})
	if seen["sock_no_socketpair"].n != 1 || seen["inet_release"].n != 2 || seen["fd_install"].n != 0 {
		t.Errorf("a refused pair: %v", seen)
	}
}

// States of TCP beside the ones in net_events_test.go.
const finWait1, finWait2, closeWait, lastAck = 4, 5, 8, 9

// TestMirrorTCP: a socket of the host goes from the state that it has to the one of which the host's kernel tells, through
// those between them.
func TestMirrorTCP(t *testing.T) {
	const connectionReset = -int64(syscall.ECONNRESET)
	for _, tt := range []struct {
		name        string
		first, last uint32 // the state when it is seen first, and the one of which the call at its end tells
		nr          uint64
		ret         int64
		unread      uint32
		want        []uint32
	}{
		{"the other side ends", established, closeWait, abi.SysRead, 0, 0, []uint32{established, closeWait}},
		{"reset", established, closed, abi.SysRead, connectionReset, 0, []uint32{established, closed}},
		{"reset at its end", closeWait, closed, abi.SysWrite, -int64(syscall.EPIPE), 0, []uint32{closeWait, closed}},
		{"connected", synSent, established, abi.SysWrite, -int64(syscall.EIO), 0, []uint32{synSent, established}},
		{"connected, and ended by the other side", synSent, closeWait, abi.SysRead, 0, 0, []uint32{synSent, established, closeWait}},
		{"refused", synSent, closed, abi.SysRead, -int64(syscall.ECONNREFUSED), 0, []uint32{synSent, closed}},
		{"nothing new", established, established, abi.SysRead, 5, 0, nil},
		{"closed", established, established, abi.SysClose, 0, 0, []uint32{established, finWait1, finWait2, closed}},
		{"closed with data that nobody reads", established, established, abi.SysClose, 0, 7, []uint32{established, closed}},
		{"closed after the other side", established, closeWait, abi.SysClose, 0, 0, []uint32{established, closeWait, lastAck, closed}},
		{"closed while it connects", synSent, synSent, abi.SysClose, 0, 0, []uint32{synSent, closed}},
		{"closed listener", listening, listening, abi.SysClose, 0, 0, []uint32{listening, closed}},
	} {
		for _, family := range []uint64{syscall.AF_INET, syscall.AF_INET6} {
			t.Run(fmt.Sprint(tt.name, " ", family), func(t *testing.T) {
				m := boot(t, 1)
				by := named(6020, "nc")
				f := host.File{ID: 5, Name: "socket:[1]", Mode: syscall.S_IFSOCK | 0o777, Rdev: family<<24 | syscall.SOCK_STREAM<<16 | syscall.IPPROTO_TCP, Flags: syscall.O_RDWR}
				f.Sock = host.Sock{State: tt.first, Local: host.SockAddr{IP: [16]byte{127, 0, 0, 1}, Port: 4000}, Peer: host.SockAddr{IP: [16]byte{127, 0, 0, 1}, Port: 4001}}
				r := m.record("inet_sock_set_state")
				if _, err := m.Host().Mirror(by, mirrored(abi.SysWrite, f, 3, "abc")); err != nil {
					t.Fatal(err)
				}
				if n := len(r.of("inet_sock_set_state")); n != 0 {
					t.Errorf("%d changes when it is seen first", n)
				}
				f.Sock.State, f.Sock.Unread = tt.last, tt.unread
				call := mirrored(tt.nr, f, tt.ret, "")
				if tt.nr != abi.SysClose {
					call.Files[0].File.Sock = host.Sock{}
					call.Made = func() host.Made { return host.Made{Ret: tt.ret, Files: [abi.MirrorFiles]host.File{f}} }
				}
				if ret, err := m.Host().Mirror(by, call); ret != tt.ret || err != nil {
					t.Error(ret, err)
				}
				var got []uint32
				for _, rec := range r.of("inet_sock_set_state") {
					from, to := binary.LittleEndian.Uint32(rec[16:]), binary.LittleEndian.Uint32(rec[20:])
					if len(got) == 0 {
						got = append(got, from)
					}
					got = append(got, to)
					if sport := binary.LittleEndian.Uint16(rec[24:]); sport != 4000 {
						t.Errorf("port %d", sport)
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("states %d, want %d", got, tt.want)
				}
			})
		}
	}
}

// TestMirrorTCPShared: a process that forks gives up a connection when the child has, too.
func TestMirrorTCPShared(t *testing.T) {
	m := boot(t, 1)
	parent := named(6030, "server")
	f := host.File{ID: 6, Name: "socket:[2]", Mode: syscall.S_IFSOCK | 0o777, Rdev: syscall.AF_INET<<24 | syscall.SOCK_STREAM<<16 | syscall.IPPROTO_TCP, Flags: syscall.O_RDWR}
	f.Sock = host.Sock{State: established, Local: host.SockAddr{Port: 4000}, Peer: host.SockAddr{Port: 4001}}
	if _, err := m.Host().Mirror(parent, mirrored(abi.SysWrite, f, 3, "abc")); err != nil {
		t.Fatal(err)
	}
	child := named(6031, "server")
	if _, err := m.Host().Fork(t.Context(), parent, host.Fork{Nr: abi.SysFork, Child: child}); err != nil {
		t.Fatal(err)
	}
	r := m.record("inet_sock_set_state")
	if _, err := m.Host().Mirror(parent, mirrored(abi.SysClose, f, 0, "")); err != nil {
		t.Fatal(err)
	}
	if n := len(r.of("inet_sock_set_state")); n != 0 {
		t.Errorf("%d changes when the parent closes its descriptor", n)
	}
	if err := m.Host().ExitBy(t.Context(), child, 0, abi.SysExitGroup); err != nil {
		t.Fatal(err)
	}
	if n := len(r.of("inet_sock_set_state")); n != 3 {
		t.Errorf("%d changes at the end of the child, want FIN_WAIT1, FIN_WAIT2 and CLOSE", n)
	}
}

// TestMirrorOpen: an open has the host's result, and its file the host's descriptor.
func TestMirrorOpen(t *testing.T) {
	m := boot(t, 1)
	by := named(6004, "cat")
	open := func(name string, mode uint64, made host.Made) (int64, map[string]sighting) {
		call := &host.Mirror{
			Syscall: host.Syscall{Nr: abi.SysOpenat, Args: [6]uint64{0xffffff9c}, Text: [6]*string{1: &name}, Mode: mode},
			Reached: func() {}, Made: func() host.Made { return made },
		}
		var ret int64
		var err error
		seen := sees(t, m, func() { ret, err = m.Host().Mirror(by, call) })
		if err != nil {
			t.Fatal(err)
		}
		return ret, seen
	}
	f := host.File{ID: 77, Name: "/etc/passwd", Mode: syscall.S_IFREG | 0o644}
	ret, seen := open("/etc/passwd", f.Mode, host.Made{Ret: 19, Files: [abi.MirrorFiles]host.File{f}})
	if ret != 19 || seen["do_sys_openat2"].n != 1 || seen["fd_install"].n != 1 || seen["filp_close"].n != 0 {
		t.Errorf("open: %d, %v", ret, seen)
	}
	read := mirrored(abi.SysRead, f, 5, "")
	read.Args[0] = 19
	seen = sees(t, m, func() { _, _ = m.Host().Mirror(by, read) })
	if seen["generic_file_read_iter"].n != 1 {
		t.Errorf("the read of the open file: %v", seen)
	}
	for _, tt := range []struct {
		mode uint64
		ret  int64
	}{{abi.CallModeNone, -int64(syscall.ENOENT)}, {abi.CallModeNone, -int64(syscall.ENOTDIR)}, {f.Mode, -int64(syscall.EACCES)}, {abi.CallModeNone, 20}} {
		if ret, _ := open("/etc/other", tt.mode, host.Made{Ret: tt.ret}); ret != tt.ret {
			t.Errorf("mode %o: %d, want %d", tt.mode, ret, tt.ret)
		}
	}
}

// BenchmarkMirror is a read whose result is there at once.
func BenchmarkMirror(b *testing.B) {
	m := boot(b, 2)
	by := named(6005, "cat")
	f := host.File{ID: 1, Name: "/dev/zero", Mode: syscall.S_IFCHR | 0o666, Rdev: 1<<20 | 5}
	b.Run("waiting", func(b *testing.B) {
		for b.Loop() {
			if ret, err := m.Host().Mirror(by, mirrored(abi.SysRead, f, 100, "")); ret != 100 || err != nil {
				b.Fatal(ret, err)
			}
		}
	})
	b.Run("stepwise", func(b *testing.B) {
		for b.Loop() {
			ended := make(chan struct{})
			run, ok := m.Host().StartMirror(by, mirrored(abi.SysRead, f, 100, ""), func(int64) { close(ended) })
			if run != nil {
				run.End(host.Made{Ret: 100})
			}
			if ok {
				<-ended
			}
		}
	})
}

package guest_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// recorder keeps the records of some tracepoints.
type recorder struct {
	*machine
	mu      sync.Mutex
	records map[string][][]byte
}

// record switches tracepoints on, of the names those that the release has.
func (m *machine) record(names string) *recorder {
	m.t.Helper()
	r := &recorder{machine: m, records: map[string][][]byte{}}
	byAddr := map[uint64]string{}
	for _, name := range strings.Fields(names) {
		if addr, ok := m.Tracepoint(name); ok {
			byAddr[addr] = name
		}
	}
	m.SetHandlers(kernel.Handlers{Tracepoint: func(tr *abi.Trap) {
		r.mu.Lock()
		defer r.mu.Unlock()
		name := byAddr[tr.Arg]
		r.records[name] = append(r.records[name], slices.Clone(tr.Data))
	}})
	for addr := range byAddr {
		if err := m.SetTracepoint(addr, true); err != nil {
			m.t.Fatal(err)
		}
	}
	return r
}

func (r *recorder) of(name string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records[name])
}

// until waits for a record.
func (r *recorder) until(name string) {
	r.t.Helper()
	for end := time.Now().Add(patience); len(r.of(name)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("no %s after %v", name, patience)
		}
	}
}

// TestNetworkEvents: a connection whose first SYN is lost, because the listener's queue is
// full, and one that is refused, in the events of packets and of TCP.
func TestNetworkEvents(t *testing.T) {
	for _, release := range []string{"5.10", "6.1", "6.12"} {
		t.Run(release, func(t *testing.T) { networkEvents(t, release) })
	}
}

func networkEvents(t *testing.T, release string) {
	m := bootRelease(t, release, 2, nil)
	s := m.sockets()
	r := m.record("inet_sock_set_state tcp_retransmit_skb tcp_cong_state_set kfree_skb consume_skb net_dev_queue net_dev_start_xmit net_dev_xmit netif_rx netif_receive_skb")
	l := s.create(s.a)
	if e := s.a.call("kernel_bind", l, s.addr([4]byte{}, 4242), 16); e != 0 {
		t.Fatalf("bind: %d", int32(e))
	}
	if e := s.a.call("kernel_listen", l, 0); e != 0 {
		t.Fatalf("listen: %d", int32(e))
	}
	first, second := s.create(s.b), s.create(s.b)
	addr := s.addr(localhost, 4242)
	if e := s.b.call("kernel_connect", first, addr, 16, 0); e != 0 {
		t.Fatalf("connect: %d", int32(e))
	}
	if n := len(r.of("tcp_retransmit_skb")); n != 0 {
		t.Errorf("%d segments retransmitted while none was lost", n)
	}
	connected := s.b.start("kernel_connect", second, addr, 16, 0)
	r.until("tcp_retransmit_skb")
	if e := s.a.call("kernel_accept", l, s.mem+8, 0); e != 0 {
		t.Fatalf("accept: %d", int32(e))
	}
	if e := wait(t, "connect", connected); e != 0 {
		t.Fatalf("second connect: %d", int32(e))
	}
	refused := s.create(s.b)
	if e := int32(s.b.call("kernel_connect", refused, s.addr(localhost, 9), 16, 0)); e != -111 {
		t.Errorf("connect without a listener: %d", e)
	}
	for _, sock := range []uint64{first, second, refused, l, s.u64(s.mem + 8)} {
		s.a.call("sock_release", sock)
	}
	t.Run("states", func(t *testing.T) { r.states(t) })
	t.Run("loss", func(t *testing.T) { r.loss(t, release) })
	t.Run("packets", func(t *testing.T) { r.packets(t, release) })
}

const (
	established, synSent, synRecv, closed, listening = 1, 2, 3, 7, 10
	caOpen, caLoss                                   = 0, 4
)

// states checks how often the states followed each other. Which way the ends close depends
// on which is first.
func (r *recorder) states(t *testing.T) {
	got := map[[2]uint32]int{}
	for _, rec := range r.of("inet_sock_set_state") {
		change := [2]uint32{binary.LittleEndian.Uint32(rec[16:]), binary.LittleEndian.Uint32(rec[20:])}
		got[change]++
		sport, dport := binary.LittleEndian.Uint16(rec[24:]), binary.LittleEndian.Uint16(rec[26:])
		family, protocol := binary.LittleEndian.Uint16(rec[28:]), binary.LittleEndian.Uint16(rec[30:])
		if family != 2 || protocol != 6 {
			t.Errorf("family %d, protocol %d", family, protocol)
		}
		switch change {
		case [2]uint32{closed, listening}:
			if sport != 4242 || dport != 0 {
				t.Errorf("the listener's ports are %d, %d", sport, dport)
			}
		case [2]uint32{synSent, established}:
			v6 := fmt.Sprintf("%x %v", rec[56:68], rec[68:72])
			if sport == 0 || dport != 4242 || [4]byte(rec[36:40]) != localhost || v6 != "00000000000000000000ffff [127 0 0 1]" {
				t.Errorf("a client's ports are %d, %d, its peer's address %v, %s", sport, dport, rec[36:40], v6)
			}
		}
	}
	for change, want := range map[[2]uint32]int{
		{closed, listening}: 1, {closed, synSent}: 3, {listening, synRecv}: 2,
		{synRecv, established}: 2, {synSent, established}: 2, {synSent, closed}: 1,
	} {
		if got[change] != want {
			t.Errorf("%d changes of state from %d to %d, want %d", got[change], change[0], change[1], want)
		}
	}
}

func (r *recorder) loss(t *testing.T, release string) {
	for _, rec := range r.of("tcp_retransmit_skb") {
		if state := binary.LittleEndian.Uint32(rec[24:]); state != synSent {
			t.Errorf("a segment is retransmitted in state %d", state)
		}
		if port := binary.LittleEndian.Uint16(rec[30:]); port != 4242 {
			t.Errorf("a segment is retransmitted to port %d", port)
		}
	}
	var states []byte
	for _, rec := range r.of("tcp_cong_state_set") {
		states = append(states, rec[62])
	}
	if release == "5.10" {
		return // it has no such event
	}
	// Each timeout begins the loss anew.
	if n := len(states); n < 2 || states[n-1] != caOpen || slices.ContainsFunc(states[:n-1], func(s byte) bool { return s != caLoss }) {
		t.Errorf("states of congestion control: %v", states)
	}
}

// packets checks that each packet that is sent comes back, with its header taken off, and
// what becomes of it.
func (r *recorder) packets(t *testing.T, release string) {
	sent := r.of("net_dev_xmit")
	for _, name := range []string{"net_dev_queue", "net_dev_start_xmit", "netif_rx", "netif_receive_skb"} {
		recs := r.of(name)
		if len(recs) != len(sent) || len(recs) == 0 {
			t.Errorf("%d of %s, %d of net_dev_xmit", len(recs), name, len(sent))
			continue
		}
		for i, rec := range recs {
			n := binary.LittleEndian.Uint32(rec[16:])
			if name == "net_dev_start_xmit" {
				n = binary.LittleEndian.Uint32(rec[36:])
				if at, th := binary.LittleEndian.Uint32(rec[44:]), binary.LittleEndian.Uint32(rec[52:]); at != 14 || th != 34 || rec[48] != 1 {
					t.Errorf("headers at %d, %d", at, th)
				}
				if p := binary.LittleEndian.Uint16(rec[30:]); p != 0x800 {
					t.Errorf("protocol %#x", p)
				}
			}
			want := binary.LittleEndian.Uint32(sent[i][16:])
			if strings.HasPrefix(name, "netif") {
				n += 14
			}
			if want < 54 || n != want {
				t.Errorf("%s %d: %d bytes, net_dev_xmit says %d", name, i, n, want)
			}
		}
	}
	for _, rec := range sent {
		loc := binary.LittleEndian.Uint32(rec[24:])
		if name := string(rec[loc&0xffff:][:loc>>16]); name != "lo\x00" {
			t.Errorf("sent on %q", name)
		}
	}
	if len(r.of("consume_skb")) == 0 {
		t.Error("no packet was consumed")
	}
	r.dropped(t, release)
}

// dropped checks where the packet without a socket was dropped, and why.
func (r *recorder) dropped(t *testing.T, release string) {
	at := map[string]int{"6.1": 28, "6.12": 36}[release]
	noSocket := map[string]uint32{"6.1": 2, "6.12": 3}[release]
	found := false
	for _, rec := range r.of("kfree_skb") {
		sym, _, _ := r.Symbols().Lookup(binary.LittleEndian.Uint64(rec[16:]))
		found = found || sym.Name == "tcp_v4_rcv" && (at == 0 || binary.LittleEndian.Uint32(rec[at:]) == noSocket)
	}
	if !found {
		t.Errorf("no packet was dropped in tcp_v4_rcv: %d records", len(r.of("kfree_skb")))
	}
}

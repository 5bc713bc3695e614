package gdbstub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
)

// patience only turns a hang into a failure.
const patience = time.Minute

func boot(t testing.TB) *kernel.Machine {
	t.Helper()
	m, err := kernel.Boot(kernel.Options{Image: guest.Image("6.1"), CPUs: 2, Seed: 1, Cmdline: "quiet"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// session is a client of a stub, as gdb is one.
type session struct {
	t    testing.TB
	m    *kernel.Machine
	conn net.Conn
	r    *bufio.Reader
	acks bool
}

// attach serves a client of m over a pipe.
func attach(t testing.TB, m *kernel.Machine) *session {
	t.Helper()
	return attachTo(t, m, Config{})
}

// attachTo does the same with what else the stub is to know.
func attachTo(t testing.TB, m *kernel.Machine, c Config) *session {
	t.Helper()
	near, far := net.Pipe()
	c.Machine = m.Debugger
	c.Commands = []Command{{Name: "list", Help: "a list", Run: func() (string, error) { return strings.Repeat("0123456789", 2000), nil }}}
	s := New(c)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.ServeConn(far)
	}()
	t.Cleanup(func() {
		_ = near.Close()
		<-served
		if stop, stopped := m.Debugger().Stopped(); stopped {
			t.Errorf("after the client has gone the machine is stopped %s", stop.Why)
		}
	})
	return &session{t: t, m: m, conn: near, r: bufio.NewReader(near), acks: true}
}

// write sends bytes.
func (s *session) write(p []byte) {
	s.t.Helper()
	_ = s.conn.SetDeadline(time.Now().Add(patience))
	if _, err := s.conn.Write(p); err != nil {
		s.t.Fatal(err)
	}
}

// begin sends a packet.
func (s *session) begin(packet string) {
	s.t.Helper()
	s.write(frame([]byte(packet)))
	if s.acks {
		if b, err := s.r.ReadByte(); b != '+' || err != nil {
			s.t.Fatalf("%s: %q %v instead of an acknowledgement", packet, b, err)
		}
	}
}

// reply receives a packet.
func (s *session) reply() string {
	s.t.Helper()
	e, err := readEvent(s.r)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.acks {
		_, _ = s.conn.Write([]byte("+")) // fails after the reply to D
	}
	return string(e.packet)
}

func (s *session) ask(packet string) string {
	s.t.Helper()
	s.begin(packet)
	return s.reply()
}

// want checks a reply's beginning.
func (s *session) want(packet, reply string) string {
	s.t.Helper()
	got := s.ask(packet)
	if !strings.HasPrefix(got, reply) || reply == "" && got != "" {
		s.t.Errorf("%s: %q, want %q", packet, got, reply)
	}
	return got
}

func (s *session) symbol(name string) uint64 {
	s.t.Helper()
	syms := s.m.Symbols().LookupName(name)
	if len(syms) == 0 {
		s.t.Fatal("no", name)
	}
	return syms[0].Addr
}

// register reads a register.
func (s *session) register(name string) uint64 {
	s.t.Helper()
	for i, r := range registers {
		if r.name == name {
			b, err := hex.DecodeString(s.ask(fmt.Sprintf("p%x", i)))
			if err != nil {
				s.t.Fatal(name, err)
			}
			return binary.LittleEndian.Uint64(append(b, make([]byte, 8)...))
		}
	}
	s.t.Fatal("no register", name)
	return 0
}

// call has the guest call a function on a vCPU.
func (s *session) call(cpu int, name string, args ...uint64) <-chan error {
	done := make(chan error, 1)
	addr := s.symbol(name)
	go func() {
		_, err := s.m.CallOn(s.t.Context(), cpu, addr, 1, args...)
		done <- err
	}()
	return done
}

func (s *session) ended(done <-chan error) {
	s.t.Helper()
	select {
	case err := <-done:
		if err != nil {
			s.t.Error(err)
		}
	case <-time.After(patience):
		s.t.Fatal("the call does not end")
	}
}

func TestHandshake(t *testing.T) {
	s := attach(t, boot(t))
	s.want("qSupported:multiprocess+;swbreak+;hwbreak+;xmlRegisters=i386", "PacketSize=4000;QStartNoAckMode+;qXfer:features:read+")
	s.want("vMustReplyEmpty", "")
	s.want("QStartNoAckMode", ok)
	s.acks = false
	s.want("?", "T02thread:")
	s.want("qfThreadInfo", "m1,2")
	s.want("qsThreadInfo", "l")
	s.want("qC", "QC")
	s.want("qAttached", "1")
	s.want("vCont?", "vCont;c;C;s;S;t")
	s.want("Hg2", ok)
	s.want("Hg3", bad)
	s.want("T2", ok)
	s.want("T9", bad)
	if info, _ := hex.DecodeString(s.ask("qThreadExtraInfo,2")); !strings.HasPrefix(string(info), "CPU 1, ") {
		t.Errorf("thread 2 is %q", info)
	}
	var xml strings.Builder
	for {
		part := s.ask(fmt.Sprintf("qXfer:features:read:target.xml:%x,100", xml.Len()))
		xml.WriteString(part[1:])
		if part[0] == 'l' {
			break
		}
	}
	if xml.String() != targetXML || !strings.Contains(targetXML, `name="rip"`) {
		t.Error("the target description is not what is served")
	}
	size := 0
	for _, r := range registers {
		size += 2 * r.size()
	}
	if got := len(s.ask("g")); got != size {
		t.Errorf("g: %d digits, want %d", got, size)
	}
}

// TestBreakAndStep: a breakpoint stops the vCPU that comes to it, is not in the text, and single steps
// lead through an int3 of a probe into what the probe's handler makes of it.
func TestBreakAndStep(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	s.want("qSupported:swbreak+", "PacketSize")
	s.want("?", "T02")
	addr := s.symbol("int_sqrt")
	text := s.ask(fmt.Sprintf("m%x,10", addr))
	s.want(fmt.Sprintf("Z0,%x,1", addr), ok)
	s.begin("vCont;c")
	done := s.call(1, "int_sqrt", 144)
	if got := s.reply(); !strings.HasPrefix(got, "T05swbreak:;thread:2;") {
		t.Fatal(got)
	}
	if got := s.ask(fmt.Sprintf("m%x,10", addr)); got != text {
		t.Errorf("the text is %s, and was %s", got, text)
	}
	if ip, di := s.register("rip"), s.register("rdi"); ip != addr || di != 144 {
		t.Errorf("rip %#x, rdi %d", ip, di)
	}
	sp := s.register("rsp")
	s.want(fmt.Sprintf("z0,%x,1", addr), ok)
	s.want("vCont;s:2;c", "T05thread:2;")
	if ip := s.register("rip"); ip <= addr || ip > addr+15 {
		t.Errorf("after a step rip is %#x", ip)
	}
	// The rest of the function, as gdb's range of a line.
	s.want(fmt.Sprintf("vCont;r%x,%x:2", addr, addr+s.size("int_sqrt")), "T05thread:2;")
	if ip, ax := s.register("rip"), s.register("rax"); ip >= addr && ip < addr+s.size("int_sqrt") || ax != 12 || s.register("rsp") != sp+8 {
		t.Errorf("after the function rip is %#x and rax %d", ip, ax)
	}
	s.want("P0=2a00000000000000", ok)
	if ax := s.register("rax"); ax != 42 {
		t.Errorf("rax is %d", ax)
	}
	s.begin("c")
	s.ended(done)
	s.write([]byte{3})
	if got := s.reply(); !strings.HasPrefix(got, "T02thread:") {
		t.Error(got)
	}
	s.want("D", ok)
}

func (s *session) size(name string) uint64 { return s.m.Symbols().LookupName(name)[0].Size }

// TestStepOverProbe: a step of an int3 goes where the probes' handler says, as one instruction.
func TestStepOverProbe(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	addr := s.symbol("int_sqrt")
	slot, err := m.AllocSlot(16)
	if err != nil {
		t.Fatal(err)
	}
	hits := 0
	m.SetHandlers(kernel.Handlers{Int3: func(tr *abi.Trap) bool {
		if tr.Regs.IP != addr+1 {
			return false
		}
		hits++
		tr.Regs.IP = slot
		return true
	}})
	if err := m.Poke(abi.Patch{Addr: slot, Bytes: []byte{0xb8, 7, 0, 0, 0, 0xc3}}, abi.Patch{Addr: addr, Bytes: []byte{0xcc}}); err != nil { // mov $7,%eax; ret
		t.Fatal(err)
	}
	s.want("?", "T02")
	s.want(fmt.Sprintf("Z1,%x,1", addr), ok)
	s.begin("vCont;c")
	done := s.call(0, "int_sqrt", 144)
	if got := s.reply(); !strings.HasPrefix(got, "T05thread:1;") || hits != 0 {
		t.Fatal(got, hits)
	}
	if got := s.ask(fmt.Sprintf("m%x,1", addr)); got != "cc" {
		t.Errorf("the probe's breakpoint is not seen: %s", got)
	}
	s.want(fmt.Sprintf("P10=%016x", swapped(addr+1)), ok) // as gdb does at an int3 that it takes for its own
	if ip := s.register("rip"); ip != addr {
		t.Errorf("rip is %#x, inside the probed instruction", ip)
	}
	s.want(fmt.Sprintf("Z0,%x,1", addr+1), ok)
	s.want("vCont;c:1", "T05thread:1;")
	s.want(fmt.Sprintf("z0,%x,1", addr+1), ok)
	if ip := s.register("rip"); ip != slot || hits != 1 {
		t.Errorf("after the int3 rip is %#x, and the slot %#x; %d hits", ip, slot, hits)
	}
	s.want("s", "T05thread:1;")
	if ip, ax := s.register("rip"), s.register("rax"); ip != slot+5 || ax != 7 {
		t.Errorf("rip is %#x, rax %d", ip, ax)
	}
	s.begin("c")
	s.ended(done)
	s.write([]byte{3})
	s.reply()
}

// swapped is a register's value as 16 digits of a packet.
func swapped(v uint64) uint64 { return bits.ReverseBytes64(v) }

// TestWatch: gdb is told which memory was accessed.
func TestWatch(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	page, err := m.Call(t.Context(), "get_zeroed_page", 0xcc0)
	if err != nil {
		t.Fatal(err)
	}
	s.want("?", "T02")
	s.want(fmt.Sprintf("Z2,%x,4", page+64), ok)
	s.begin("vCont;c")
	done := s.call(1, "memset", page, 1, 100)
	got := s.reply()
	if !strings.HasPrefix(got, fmt.Sprintf("T05watch:%x", page+64)) || !strings.Contains(got, "thread:2;") {
		t.Error(got)
	}
	s.want(fmt.Sprintf("z2,%x,4", page+64), ok)
	s.begin("c")
	s.ended(done)
	s.write([]byte{3})
	s.reply()
}

func TestMemory(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	page, err := m.Call(t.Context(), "get_zeroed_page", 0xcc0)
	if err != nil {
		t.Fatal(err)
	}
	s.want("?", "T02")
	s.want(fmt.Sprintf("M%x,4:01020304", page), ok)
	s.want(fmt.Sprintf("X%x,3:#$}", page+4), ok)
	s.want(fmt.Sprintf("m%x,8", page), "0102030423247d00")
	s.want("m10,8", faulted)
	s.want("mffffffffffffffff,8", faulted)
	s.want("M10,1:00", faulted)
	s.want("m8000000000000000,1", faulted)
	if got := len(s.ask(fmt.Sprintf("m%x,ffffff", page))); got == 0 || got > maxPacket {
		t.Errorf("a long read has %d digits", got)
	}
	addr := s.symbol("int_sqrt")
	before := s.ask(fmt.Sprintf("m%x,2", addr))
	s.want(fmt.Sprintf("M%x,2:0f0b", addr), ok)
	s.want(fmt.Sprintf("m%x,2", addr), "0f0b")
	s.want(fmt.Sprintf("M%x,2:%s", addr, before), ok)
	s.want("vCont;c:7", bad)
	s.want("vCont;x", bad)
	s.want("Z0,zz,1", bad)
	s.want("Z0,10,1", faulted)
	s.want("Z7,10,1", notKnown)
	s.want("Z2,10,0", bad)
	s.want("p1000", bad)
	s.want("G00", ok)
	s.want("qRcmd,"+hex.EncodeToString([]byte("nonsense")), "O")
	if got := s.reply(); got != ok {
		t.Error(got)
	}
}

// testFiles has a file with what a packet has to escape.
func testFiles(name string) ([]byte, error) {
	if name != "/kernel" {
		return nil, syscall.ENOENT
	}
	return []byte(strings.Repeat("*#$}\x00kernel", 2000)), nil
}

// testPast has none.
type testPast struct{}

func (testPast) BackStep(context.Context, int) error { return syscall.ERANGE }

func (testPast) BackStop(ctx context.Context, breaks []uint64, _ []kernel.Watchpoint) (kernel.Stop, error) {
	if len(breaks) > 0 { // until the client has enough of it
		<-ctx.Done()
	}
	return kernel.Stop{}, syscall.ERANGE
}

// TestFiles: a client reads the kernel's file through its connection, and no other one.
func TestFiles(t *testing.T) {
	s := attachTo(t, boot(t), Config{Image: "/kernel", Files: testFiles})
	s.want("qXfer:exec-file:read:1:0,fff", "l/kernel")
	name := hex.EncodeToString([]byte("/kernel"))
	s.want("vFile:setfs:0", "F0")
	s.want("vFile:open:"+name+",0,0", "F0")
	want, _ := testFiles("/kernel")
	if got := s.ask("vFile:fstat:0"); !strings.HasPrefix(got, "F40;") || len(got) != 68 || binary.BigEndian.Uint64([]byte(got)[4+28:]) != uint64(len(want)) {
		t.Errorf("fstat: %q", got)
	}
	var got []byte
	for {
		reply := s.ask(fmt.Sprintf("vFile:pread:0,fff0,%x", len(got)))
		n, data, _ := strings.Cut(reply[1:], ";")
		if n != fmt.Sprintf("%x", len(data)) {
			t.Fatalf("%q... with %d bytes", n, len(data))
		}
		if data == "" {
			break
		}
		got = append(got, data...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes are read, of %d", len(got), len(want))
	}
	for packet, want := range map[string]string{
		"vFile:pwrite:0,0,xx": fileReadOnly, "vFile:pread:0,ff,ffffffffffffffff": "F0;", "vFile:pread:0,zz,0": fileInvalid, "vFile:pread:7,1,1": fileBadFD,
		"vFile:open:" + name + ",1,0": fileReadOnly, "vFile:open:2f,0,0": fileNotFound, "vFile:open:zz,0,0": fileInvalid, "vFile:readlink:00": fileUnknown, "vFile:unlink:0": fileUnknown,
	} {
		if got := s.ask(packet); got != want {
			t.Errorf("%s: %q, want %q", packet, got, want)
		}
	}
	s.want("vFile:close:0", "F0")
	s.want("vFile:close:0", fileBadFD)
	for range maxFiles {
		s.want("vFile:open:"+name+",0,0", "F")
	}
	s.want("vFile:open:"+name+",0,0", fileTooMany)
}

// TestNoPast: where nothing is before, the machine stays; a way back can be interrupted.
func TestNoPast(t *testing.T) {
	s := attach(t, boot(t))
	s.want("bs", notKnown)
	s = attachTo(t, boot(t), Config{Past: testPast{}})
	if got := s.ask("qSupported"); !strings.Contains(got, ";ReverseStep+;ReverseContinue+") {
		t.Error(got)
	}
	s.want("?", "T02")
	s.want("bs", "T05"+historyBegins)
	s.want("bc", "T05"+historyBegins)
	s.want("bx", notKnown)
	s.want(fmt.Sprintf("Z0,%x,1", s.symbol("int_sqrt")), ok)
	s.begin("bc")
	s.write([]byte{3})
	if got := s.reply(); !strings.HasPrefix(got, "T02") {
		t.Error(got)
	}
}

func TestMonitor(t *testing.T) {
	s := attach(t, boot(t))
	s.begin("qRcmd," + hex.EncodeToString([]byte("help")))
	if text, _ := hex.DecodeString(s.reply()[1:]); !strings.Contains(string(text), "list: a list\n") {
		t.Errorf("%q", text)
	}
	if got := s.reply(); got != ok {
		t.Error(got)
	}
	s.begin("qRcmd," + hex.EncodeToString([]byte("list")))
	n := 0
	for {
		got := s.reply()
		if got == ok {
			break
		}
		n += (len(got) - 1) / 2
	}
	if n != 20000 {
		t.Errorf("%d bytes", n)
	}
}

// TestDetach: k and D remove the breakpoints and let the machine run; so does a connection that ends.
func TestDetach(t *testing.T) {
	m := boot(t)
	for _, how := range []string{"k", "D", "vKill;1", ""} {
		s := attach(t, m)
		s.want("?", "T02")
		s.want(fmt.Sprintf("Z0,%x,1", s.symbol("int_sqrt")), ok)
		s.want("vCont;s:1", "T05")
		if how == "" {
			_ = s.conn.Close()
		} else {
			s.begin(how)
			_, _ = io.Copy(io.Discard, s.r)
		}
		s.ended(s.call(1, "int_sqrt", 144))
	}
}

// TestStranger: a request of a browser is not read.
func TestStranger(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	go func() { _, _ = s.conn.Write([]byte("POST / HTTP/1.1\r\n\r\n" + string(frame([]byte("?"))))) }()
	if b, err := s.r.ReadByte(); err == nil {
		t.Errorf("there is a reply: %q", b)
	}
	if _, stopped := m.Debugger().Stopped(); stopped {
		t.Error("the machine is stopped")
	}
}

// TestMachineEnds: the client of a machine that closes is told so.
func TestMachineEnds(t *testing.T) {
	m := boot(t)
	s := attach(t, m)
	s.want("?", "T02")
	s.begin("c")
	go m.Close()
	if got := s.reply(); got != "X09" {
		t.Error(got)
	}
}

// TestPanic: a panic of the guest stops it for the client, who can still read its state.
func TestPanic(t *testing.T) {
	m := boot(t)
	near, far := net.Pipe()
	go New(Config{Machine: m.Debugger}).ServeConn(far)
	s := &session{t: t, m: m, conn: near, r: bufio.NewReader(near), acks: true}
	defer near.Close()
	s.want("?", "T02")
	s.begin("c")
	s.call(1, "panic", s.symbol("linux_banner"))
	if got := s.reply(); !strings.HasPrefix(got, "T06thread:2;") {
		t.Error(got)
	}
	if len(s.ask("g")) < 100 {
		t.Error("no registers")
	}
	s.want("c", "T06")
	s.want("s", "T06")
}

func TestListen(t *testing.T) {
	for _, addr := range []string{"", "1234", ":1234", "0.0.0.0:1234", "[::]:0", "example.com:1", "192.0.2.1:80", "127.0.0.2:1"} {
		if l, err := Listen(addr); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%q: %v, %v", addr, l, err)
		}
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := Listen(l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port that is taken: %v", err)
	}
	path := filepath.Join(t.TempDir(), "gdb")
	u, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if _, err := Listen("unix:" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a socket that is served: %v", err)
	}
	u.(*net.UnixListener).SetUnlinkOnClose(false)
	u.Close()
	if u, err = Listen("unix:" + path); err != nil {
		t.Fatalf("a socket that is left: %v", err)
	}
	m := boot(t)
	s := New(Config{Machine: m.Debugger})
	served := make(chan error, 1)
	go func() { served <- s.Serve(u) }()
	first, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	c := &session{t: t, m: m, conn: first, r: bufio.NewReader(first), acks: true}
	c.want("?", "T02")
	second, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("there are two clients")
	}
	s.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, stopped := m.Debugger().Stopped(); stopped {
		t.Error("the machine is stopped after Close")
	}
}

// FuzzPackets: whatever a client sends, the machine runs when it has gone.
func FuzzPackets(f *testing.F) {
	for _, seed := range []string{
		"$?#3f", "+$g#67", "$vCont;s:1;c#c1", "$m0,ffffffffffffffff#00", "$qXfer:features:read:target.xml:ffffffffffffffff,1#00",
		"$Hg-1#00\x03$c#63\x03$D#44", "$Z0,ffffffff81000000,1#00$Z2,ffffffff81000000,100000#00$vCont;c#a8\x03", "$}}}}#", "$$$$###", "$P10=00#00", "$G" + strings.Repeat("00", 600) + "#00",
		"$T#54$T-1#b2", "$qRcmd,zz#00$qRcmd,#00", "$vCont;r0,0#00$vCont;t#00$vCont;#00", "$X0,5:}#00", "$bs#d5$bc#c5", "$vFile:open:2f6b65726e656c,0,0#00$vFile:pread:0,fff,ffffffffffffffff#00$vFile:close:0#00", "$k#6b", "$C05;zz#00$S#53$sff#00",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	m := boot(f)
	f.Fuzz(func(t *testing.T, sent []byte, framed bool) {
		if framed { // with a right check sum: more of them are looked at
			sent = append(frame([]byte("?")), frame(sent)...)
		}
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			New(Config{Machine: m.Debugger, Image: "/kernel", Files: testFiles, Past: testPast{}}).ServeConn(far)
		}()
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, near)
		}()
		_ = near.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = near.Write(sent)
		_ = near.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatalf("the stub does not end after %q", sent)
		}
		<-read
		if stop, stopped := m.Debugger().Stopped(); stopped && stop.Why != kernel.StopPanic {
			t.Fatalf("the machine is stopped after %q", sent)
		}
	})
}

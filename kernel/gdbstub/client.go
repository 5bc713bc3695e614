package gdbstub

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Bounds of a client's tables.
const (
	maxBreaks  = 4096
	maxWatches = 64
	maxWatched = 1 << 20 // bytes of one watchpoint
)

// sendPatience is how long a client may take to read a reply.
const sendPatience = 10 * time.Second

// Replies.
const (
	ok       = "OK"
	bad      = "E01" // the packet cannot be understood, or there is no such thing
	faulted  = "E14" // EFAULT
	noRoom   = "E28" // ENOSPC
	notKnown = ""    // the packet is not supported
)

// client is a connection.
type client struct {
	conf   Config
	d      *kernel.Debugger
	conn   net.Conn
	events chan event
	gone   chan struct{} // closed when loop has returned

	noAck       bool // after QStartNoAckMode
	noAckNext   bool // once that is answered
	swbreak     bool // the client takes swbreak and hwbreak in stop replies
	hwbreak     bool
	attached    bool           // the client has been told that the machine is stopped
	cpu         int            // what Hg has chosen
	stepCPU     int            // what Hc has chosen, or -1
	breaks      map[uint64]int // kinds as bits
	skipped     map[int]uint64 // by vCPU: the int3 that gdb has gone over; see setState
	watches     map[watch]bool
	watchList   []watch // as the machine has them
	breaksDirty bool
	watchDirty  bool
	files       map[int][]byte // that are open, by their numbers
}

// watch is a watchpoint; kind is the packet's: 2 write, 3 read, 4 both.
type watch struct {
	kind      int
	addr, len uint64
}

// errGone ends a client.
var errGone = errors.New("the client has gone")

// loop answers packets until the client goes or the machine ends.
func (c *client) loop() {
	for {
		select {
		case <-c.d.Ended():
			if !c.follow() {
				return
			}
		case e := <-c.events:
			if c.event(e) != nil {
				return
			}
		}
	}
}

func (c *client) event(e event) error {
	switch {
	case e.err != nil:
		return e.err
	case e.interrupt: // while the machine is stopped for the client
		return nil
	case e.packet == nil:
		return c.ack('-')
	}
	if err := c.ack('+'); err != nil {
		return err
	}
	reply, err := c.answer(string(e.packet))
	if err != nil {
		return err
	}
	if err := c.send(reply); err != nil {
		return err
	}
	c.noAck = c.noAckNext
	return nil
}

func (c *client) ack(b byte) error {
	if c.noAck {
		return nil
	}
	return c.write([]byte{b})
}

func (c *client) send(reply string) error { return c.write(frame([]byte(reply))) }

func (c *client) write(p []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(sendPatience)); err != nil {
		return err
	}
	_, err := c.conn.Write(p)
	return err
}

// letGo removes what the client has set, and lets the machine run if the client has stopped it.
func (c *client) letGo() {
	c.d.Breakpoints("gdb", nil)
	if len(c.watchList) > 0 {
		c.d.Watchpoints(nil)
	}
	if c.attached {
		c.attached = false
		c.d.Continue()
	}
}

// answer carries out a packet and returns the reply.
func (c *client) answer(p string) (string, error) {
	if p == "" {
		return notKnown, nil
	}
	args := p[1:]
	switch p[0] {
	case '?':
		c.d.Interrupt()
		return c.stopReply(), nil
	case 'g':
		return c.readAll(), nil
	case 'G':
		return c.writeAll(args), nil
	case 'p':
		return c.readOne(args), nil
	case 'P':
		return c.writeOne(args), nil
	case 'm':
		return c.readMemory(args), nil
	case 'M', 'X':
		return c.writeMemory(args, p[0] == 'X'), nil
	case 'Z', 'z':
		return c.point(args, p[0] == 'Z'), nil
	case 'H':
		return c.choose(args), nil
	case 'T':
		if cpu, err := c.thread(args); err == nil && cpu >= 0 && c.started(cpu) {
			return ok, nil
		}
		return bad, nil
	case 'c', 'C', 's', 'S':
		return c.resumeOld(p[0], args)
	case 'b':
		return c.back(p)
	case 'v':
		return c.answerV(p)
	case 'q', 'Q':
		return c.query(p)
	case 'D':
		c.letGo()
		if err := c.send(ok); err != nil {
			return "", err
		}
		return "", errGone
	case 'k':
		return "", errGone
	}
	return notKnown, nil
}

// answerV carries out a packet that begins with v.
func (c *client) answerV(p string) (string, error) {
	switch name, args, _ := strings.Cut(p, ";"); name {
	case "vCont?":
		return "vCont;c;C;s;S;t;r", nil
	case "vCont":
		return c.resume(args)
	case "vKill":
		c.letGo()
		if err := c.send(ok); err != nil {
			return "", err
		}
		return "", errGone
	default:
		if operation, found := strings.CutPrefix(p, "vFile:"); found && c.conf.Files != nil {
			return c.file(operation), nil
		}
	}
	return notKnown, nil
}

// query carries out a packet that begins with q or Q.
func (c *client) query(p string) (string, error) {
	name, args, _ := strings.Cut(p, ":")
	switch {
	case name == "qSupported":
		features := strings.Split(args, ";")
		c.swbreak, c.hwbreak = slices.Contains(features, "swbreak+"), slices.Contains(features, "hwbreak+")
		return fmt.Sprintf("PacketSize=%x;QStartNoAckMode+;qXfer:features:read+;qXfer:exec-file:read+;vContSupported+;swbreak+;hwbreak+%s", maxPacket, c.reverse()), nil
	case p == "QStartNoAckMode":
		c.noAckNext = true
		return ok, nil
	case name == "qXfer":
		return c.transfer(args), nil
	case p == "qfThreadInfo":
		return c.threads(), nil
	case p == "qsThreadInfo":
		return "l", nil
	case strings.HasPrefix(p, "qThreadExtraInfo,"):
		return c.threadInfo(p[len("qThreadExtraInfo,"):]), nil
	case p == "qC":
		return fmt.Sprintf("QC%x", c.cpu+1), nil
	case name == "qAttached":
		return "1", nil
	case name == "qSymbol":
		return ok, nil
	case strings.HasPrefix(p, "qRcmd,"):
		return c.monitor(p[len("qRcmd,"):])
	}
	return notKnown, nil
}

// transfer answers qXfer:features:read:target.xml:OFFSET,LENGTH and qXfer:exec-file:read:PID:OFFSET,LENGTH.
func (c *client) transfer(args string) string {
	if where, found := strings.CutPrefix(args, "features:read:target.xml:"); found {
		return piece(targetXML, where)
	}
	if where, found := strings.CutPrefix(args, "exec-file:read:"); found && c.conf.Files != nil {
		_, where, _ = strings.Cut(where, ":")
		return piece(c.conf.Image, where)
	}
	return notKnown
}

// piece returns a part of a text, as qXfer has it.
func piece(text, where string) string {
	off, n, err := twoNumbers(where)
	switch size := uint64(len(text)); {
	case err != nil || off > size:
		return bad
	case off == size:
		return "l"
	default:
		n = min(n, size-off, maxPacket/2)
		if off+n == size {
			return "l" + text[off:]
		}
		return "m" + text[off:off+n]
	}
}

// started reports whether the guest has started a vCPU. gdb's thread N is vCPU N-1.
func (c *client) started(cpu int) bool {
	if cpu < 0 || cpu >= c.d.CPUs() {
		return false
	}
	s, err := c.d.State(cpu)
	return errors.Is(err, kernel.ErrRunning) || err == nil && s.Started
}

// threads lists the vCPUs.
func (c *client) threads() string {
	var ids []string
	for i := range c.d.CPUs() {
		if c.started(i) {
			ids = append(ids, fmt.Sprintf("%x", i+1))
		}
	}
	return "m" + strings.Join(ids, ",")
}

// threadInfo says what a vCPU executes.
func (c *client) threadInfo(id string) string {
	cpu, err := c.thread(id)
	if err != nil || cpu < 0 {
		return bad
	}
	s, err := c.d.State(cpu)
	if err != nil {
		return hex.EncodeToString(fmt.Appendf(nil, "CPU %d", cpu))
	}
	return hex.EncodeToString(fmt.Appendf(nil, "CPU %d, %s/%d", cpu, s.Comm, s.PID))
}

// thread returns the vCPU of a thread's number, or -1 for any or all.
func (c *client) thread(id string) (int, error) {
	if id == "-1" || id == "0" || id == "" {
		return -1, nil
	}
	n, err := strconv.ParseUint(id, 16, 16)
	if err != nil || n == 0 || int(n) > c.d.CPUs() {
		return 0, fmt.Errorf("no thread %q: %w", id, syscall.ESRCH)
	}
	return int(n) - 1, nil
}

// choose answers H.
func (c *client) choose(args string) string {
	if args == "" {
		return bad
	}
	cpu, err := c.thread(args[1:])
	switch {
	case err != nil:
		return bad
	case args[0] == 'c':
		c.stepCPU = cpu
	case args[0] == 'g':
		if cpu >= 0 {
			c.cpu = cpu
		}
	default:
		return bad
	}
	return ok
}

func (c *client) readAll() string {
	s, err := c.d.State(c.cpu)
	if err != nil {
		return bad
	}
	var b strings.Builder
	for i := range registers {
		b.WriteString(registers[i].encode(&s))
	}
	return b.String()
}

func (c *client) writeAll(args string) string {
	s, err := c.d.State(c.cpu)
	if err != nil {
		return bad
	}
	for i := range registers {
		n := 2 * registers[i].size()
		if len(args) < n {
			break // what is not said stays
		}
		if !registers[i].decode(&s, args[:n]) {
			return bad
		}
		args = args[n:]
	}
	return c.setState(s)
}

// setState changes the registers of the chosen vCPU.
//
// gdb takes an int3 in memory at which it has a breakpoint for a permanent breakpoint of the program, and goes over
// it by adding 1 to rip. Here it is a probe's, and what follows is the rest of an instruction. So rip stays, and
// the vCPU executes the int3 when it goes on.
func (c *client) setState(s kernel.CPUState) string {
	delete(c.skipped, c.cpu)
	if old, err := c.d.State(c.cpu); err == nil && s.RIP == old.RIP+1 && c.breaks[old.RIP] != 0 && c.isInt3(old.RIP) {
		s.RIP = old.RIP
		c.skipped[c.cpu] = old.RIP
		if s == old {
			return ok // a deterministic machine's registers cannot be changed
		}
	}
	if err := c.d.SetState(c.cpu, s); err != nil {
		return bad
	}
	return ok
}

func (c *client) isInt3(addr uint64) bool {
	const int3 = 0xcc
	var b [1]byte
	return c.d.Read(addr, b[:]) == nil && b[0] == int3
}

func (c *client) readOne(args string) string {
	n, err := strconv.ParseUint(args, 16, 16)
	if err != nil || n >= uint64(len(registers)) {
		return bad
	}
	s, err := c.d.State(c.cpu)
	if err != nil {
		return bad
	}
	return registers[n].encode(&s)
}

func (c *client) writeOne(args string) string {
	number, value, _ := strings.Cut(args, "=")
	n, err := strconv.ParseUint(number, 16, 16)
	if err != nil || n >= uint64(len(registers)) {
		return bad
	}
	s, err := c.d.State(c.cpu)
	if err != nil || !registers[n].decode(&s, value) {
		return bad
	}
	return c.setState(s)
}

// twoNumbers parses A,B in hexadecimal.
func twoNumbers(s string) (a, b uint64, err error) {
	first, second, found := strings.Cut(s, ",")
	if !found {
		return 0, 0, syscall.EINVAL
	}
	if a, err = strconv.ParseUint(first, 16, 64); err != nil {
		return 0, 0, err
	}
	b, err = strconv.ParseUint(second, 16, 64)
	return a, b, err
}

// readMemory answers m with the bytes up to the first one that is not mapped.
func (c *client) readMemory(args string) string {
	addr, n, err := twoNumbers(args)
	if err != nil {
		return bad
	}
	p := make([]byte, min(n, (maxPacket-1)/2))
	got := 0
	for got < len(p) {
		at := addr + uint64(got)
		piece := min(len(p)-got, int(mem.PageSize-at&mem.PageMask))
		if c.d.Read(at, p[got:got+piece]) != nil {
			break
		}
		got += piece
	}
	if got == 0 && n > 0 {
		return faulted
	}
	return hex.EncodeToString(p[:got])
}

// writeMemory answers M (hexadecimal) and X (binary).
func (c *client) writeMemory(args string, binary bool) string {
	where, data, found := strings.Cut(args, ":")
	addr, n, err := twoNumbers(where)
	if !found || err != nil {
		return bad
	}
	p := []byte(data)
	if !binary {
		if p, err = hex.DecodeString(data); err != nil {
			return bad
		}
	}
	switch {
	case uint64(len(p)) != n:
		return bad
	case n == 0:
		return ok
	case c.d.Write(addr, p) != nil:
		return faulted
	}
	return ok
}

// point answers Z (set) and z. The machine gets the changes when it goes on.
func (c *client) point(args string, set bool) string {
	kind, where, found := strings.Cut(args, ",")
	where, _, _ = strings.Cut(where, ";") // conditions are gdb's own
	addr, n, err := twoNumbers(where)
	if !found || err != nil || len(kind) != 1 {
		return bad
	}
	switch k := int(kind[0] - '0'); k {
	case 0, 1:
		return c.breakpoint(addr, k, set)
	case 2, 3, 4:
		return c.watchpoint(watch{k, addr, n}, set)
	}
	return notKnown
}

func (c *client) breakpoint(addr uint64, kind int, set bool) string {
	bit := 1 << kind
	switch {
	case !set:
		if c.breaks[addr] &^= bit; c.breaks[addr] == 0 {
			delete(c.breaks, addr)
		}
	case c.d.Read(addr, make([]byte, 1)) != nil:
		return faulted
	case len(c.breaks) >= maxBreaks:
		return noRoom
	default:
		c.breaks[addr] |= bit
	}
	c.breaksDirty = true
	return ok
}

func (c *client) watchpoint(w watch, set bool) string {
	switch {
	case w.len == 0 || w.len > maxWatched || w.addr+w.len < w.addr:
		return bad
	case !set:
		delete(c.watches, w)
	case len(c.watches) == maxWatches:
		return noRoom
	default:
		c.watches[w] = true
	}
	c.watchDirty = true
	return ok
}

// putPoints tells the machine what to stop at.
func (c *client) putPoints() {
	if c.breaksDirty {
		c.d.Breakpoints("gdb", slices.Collect(maps.Keys(c.breaks)))
		c.breaksDirty = false
	}
	if !c.watchDirty {
		return
	}
	c.watchDirty = false
	c.d.Watchpoints(c.points())
}

// points returns what the client watches, in the order of watchList.
func (c *client) points() (list []kernel.Watchpoint) {
	c.watchList = nil
	access := map[int]mem.Perm{2: mem.Write, 3: mem.Read, 4: mem.Read | mem.Write}
	for w := range c.watches {
		c.watchList = append(c.watchList, w)
		list = append(list, kernel.Watchpoint{Addr: w.addr, Len: w.len, Access: access[w.kind]})
	}
	return list
}

// monitor answers qRcmd.
func (c *client) monitor(args string) (string, error) {
	line, err := hex.DecodeString(args)
	if err != nil {
		return bad, nil
	}
	text, err := c.inTime(func() (string, error) { return c.command(strings.TrimSpace(string(line))) })
	if err != nil {
		text = err.Error() + "\n"
	}
	const piece = (maxPacket - 1) / 2
	for len(text) > 0 {
		n := min(len(text), piece)
		if err := c.send("O" + hex.EncodeToString([]byte(text[:n]))); err != nil {
			return "", err
		}
		text = text[n:]
	}
	return ok, nil
}

// commandPatience is how long a command may take: it may need a lock that is held by who waits for a vCPU that is
// stopped.
const commandPatience = time.Second

// inTime returns the result of f, or an error if that takes too long.
func (c *client) inTime(f func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := f()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-time.After(commandPatience):
		return "", errors.New("probes are being changed, which has to wait until the machine goes on; try again after that")
	}
}

func (c *client) command(name string) (string, error) {
	help := "help: print this list\n"
	for _, m := range c.conf.Commands {
		if m.Name == name {
			return m.Run()
		}
		help += m.Name + ": " + m.Help + "\n"
	}
	if name == "help" || name == "" {
		return help, nil
	}
	return "", fmt.Errorf("there is no command %q; help lists them", name)
}

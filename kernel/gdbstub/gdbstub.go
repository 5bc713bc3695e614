// Package gdbstub serves gdb's remote serial protocol for a machine: the guest's registers and memory, and a
// thread for each vCPU.
//
// Breakpoints are kernel.Debugger's: the stub does not write them into the guest's text. So the memory
// that gdb reads is what the guest sees, with the int3s and jumps of probes, and a step over one of these
// executes it: gdb then is in the slot or the detour.
//
// There is one client at a time. It stops the machine when it asks why that has stopped; when it detaches, kills
// or just goes away, its breakpoints go with it and the machine runs on.
//
// All of gdb's threads stop and go together (all-stop). What a client sends is not to be trusted: packets and
// tables are bounded, and nothing in them ends the machine or the program.
package gdbstub

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel"
)

// Command is one of gdb's monitor commands.
type Command struct {
	Name, Help string
	Run        func() (string, error)
}

// Config says what is served.
type Config struct {
	// Machine returns what stops the machine that runs now: one that has panicked may be replaced.
	Machine func() *kernel.Debugger
	// Commands are the monitor commands beside help.
	Commands []Command
	// Past takes the machine back. It is nil if the machine is not deterministic.
	Past Past
	// Image is the name of the kernel's file, which gdb reads if it has been told none, and Files returns the contents of
	// that and of others (target:NAME). Files may be nil.
	Image string
	Files func(name string) ([]byte, error)
}

// Past takes a machine back in time: after that Machine returns one that is stopped at an earlier moment. When that goes on, it does
// again what the first one has done.
type Past interface {
	// BackStep goes to before the last instruction of a vCPU.
	BackStep(ctx context.Context, cpu int) error
	// BackStop goes to where a breakpoint was hit the last time, or before the last access to watched memory.
	BackStop(ctx context.Context, breaks []uint64, watches []kernel.Watchpoint) (kernel.Stop, error)
}

// Server serves clients, one after the other.
type Server struct {
	conf Config

	mu       sync.Mutex
	listener net.Listener
	conn     net.Conn // the client's, or nil
	closed   bool
	done     sync.WaitGroup
}

// New returns a server without clients.
func New(c Config) *Server { return &Server{conf: c} }

// Listen opens the socket that an address names: 127.0.0.1:PORT, [::1]:PORT, localhost:PORT or unix:PATH. A
// debugger may do everything in the guest, so other addresses are refused with EINVAL. Only its owner may
// connect to a socket in the file system; one that nobody serves any more is replaced.
func Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "127.0.0.1" && host != "::1" && host != "localhost" {
		return nil, fmt.Errorf("the address for gdb is %q, and has to be 127.0.0.1:PORT, [::1]:PORT or unix:PATH: who connects may do everything in the emulated kernel: %w", addr, syscall.EINVAL)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program has the port of %s: choose another one, or 0 for a free one: %w", addr, syscall.EADDRINUSE)
	}
	if err != nil {
		return nil, fmt.Errorf("the address for gdb: %w", err)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another program serves the socket %s: %w", path, syscall.EADDRINUSE)
		}
		_ = os.Remove(path)
	}
	old := syscall.Umask(0o077)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if errors.Is(err, syscall.ENOENT) {
		return nil, fmt.Errorf("the directory %s is not there: make it, or name another path for gdb's socket: %w", filepath.Dir(path), syscall.ENOENT)
	}
	if err != nil {
		return nil, fmt.Errorf("the socket for gdb: %w", err)
	}
	return l, nil
}

// Serve accepts clients until Close. A client that comes while there is another one is sent away.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		if !s.take(conn) {
			_ = conn.Close()
			continue
		}
		s.done.Go(func() {
			s.serve(conn)
			s.mu.Lock()
			s.conn = nil
			s.mu.Unlock()
		})
	}
}

// take makes conn the client's connection if there is no other.
func (s *Server) take(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.conn != nil {
		return false
	}
	s.conn = conn
	return true
}

// Close ends Serve and the client's connection, and waits until the machine runs again.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	if s.listener != nil {
		_ = s.listener.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// ServeConn serves one client, and returns when that has gone.
func (s *Server) ServeConn(conn net.Conn) { s.serve(conn) }

func (s *Server) serve(conn net.Conn) {
	c := &client{conf: s.conf, d: s.conf.Machine(), conn: conn, events: make(chan event), gone: make(chan struct{}), breaks: map[uint64]int{}, skipped: map[int]uint64{}, watches: map[watch]bool{}, files: map[int][]byte{}}
	go c.read()
	c.loop()
	close(c.gone)
	_ = conn.Close()
	c.letGo()
}

// errStranger ends a connection that does not begin with the protocol. A browser can be made to connect to any
// local port, and to send packets in the body of a request.
var errStranger = errors.New("the client does not speak gdb's protocol")

// greets reports whether a client begins as one of the protocol does.
func greets(r *bufio.Reader) bool {
	b, err := r.Peek(1)
	return err == nil && strings.IndexByte("+-$\x03", b[0]) >= 0
}

// read hands what the client sends to loop.
func (c *client) read() {
	r := bufio.NewReader(c.conn)
	stranger := !greets(r)
	for {
		var e event
		err := errStranger
		if !stranger {
			e, err = readEvent(r)
		}
		if errors.Is(err, errSum) || errors.Is(err, errLong) {
			e.packet, err = nil, nil
			e.err = nil
		}
		if err != nil {
			e.err = err
		}
		select {
		case c.events <- e:
		case <-c.gone:
			return
		}
		if e.err != nil {
			return
		}
	}
}

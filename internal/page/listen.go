package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	mostConns  = 64               // connections at the same time
	maxHeader  = 16 << 10         // of a request: its first line and its headers, bytes
	headerTime = 5 * time.Second  // in which they must have come; the whole request has twice as long
	answerTime = 20 * time.Second // in which the answer must have been read
	idleTime   = 30 * time.Second // without a request
)

// sendBuffer is how much the host's kernel keeps of an answer that is not read, bytes. It would be
// megabytes for each connection otherwise.
const sendBuffer = 128 << 10

// unixPrefix begins an address that is a path.
const unixPrefix = "unix:"

// Listen listens at an address: HOST:PORT of the loopback interface, or unix:PATH.
func Listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(path)
	}
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is no address: write 127.0.0.1:PORT, or unix:PATH: %w", addr, syscall.EINVAL)
	case !isLoopback(host):
		return nil, fmt.Errorf("%q can be reached from elsewhere, so it is refused: write 127.0.0.1:PORT or unix:PATH, and let a tunnel (ssh -L, kubectl port-forward) bring it to another machine: %w", addr, syscall.EINVAL)
	}
	return listenTCP(addr)
}

// ListenHealth listens where Health answers: at HOST:PORT of any interface, or unix:PATH.
func ListenHealth(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return listenUnix(path)
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("%q is no address: write :PORT, HOST:PORT, or unix:PATH: %w", addr, syscall.EINVAL)
	}
	return listenTCP(addr)
}

func listenTCP(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("another program has the port of %s: name another one, or port 0 for any that is free: %w", addr, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("only root may have the port of %s: name one above 1023: %w", addr, syscall.EACCES)
	}
	return l, err
}

// listenUnix listens at a path, for this user alone. A socket that was left there by a program that
// has ended is replaced.
func listenUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, fmt.Errorf("unix: needs a path: unix:/run/kprobefs.sock: %w", syscall.EINVAL)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s is there and is no socket: name another path: %w", path, syscall.EEXIST)
		}
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("another program listens at %s: name another path: %w", path, syscall.EADDRINUSE)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	switch dir := filepath.Dir(path); {
	case errors.Is(err, syscall.ENOENT):
		return nil, fmt.Errorf("the directory %s is not there: make it, or name another path: %w", dir, syscall.ENOENT)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may make no socket in %s: name another path: %w", dir, syscall.EACCES)
	case err != nil:
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// URL returns where a browser finds the page that is served at a port.
func URL(l net.Listener, token string) string {
	return "http://" + l.Addr().String() + "/?token=" + token
}

// Cookie returns the name of the cookie of a page that is served at l.
func Cookie(l net.Listener) string {
	name := "kprobefs-"
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return name + fmt.Sprint(a.Port)
	}
	return name + "socket"
}

// Server serves a page.
type Server struct {
	http http.Server
	done chan struct{}
}

// Serve serves h at l until Close. It bounds the number of connections, the size of requests, and the
// time that clients take for them.
func Serve(l net.Listener, h http.Handler) *Server {
	return serve(l, h, headerTime, answerTime, idleTime)
}

func serve(l net.Listener, h http.Handler, header, answer, idle time.Duration) *Server {
	s := &Server{done: make(chan struct{}), http: http.Server{
		Handler: h, ReadHeaderTimeout: header, ReadTimeout: 2 * header, WriteTimeout: answer, IdleTimeout: idle,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(io.Discard, "", 0), // of clients that do not speak HTTP
		ConnContext: withConn, ConnState: noteState,
	}}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(&bounded{Listener: l})
	}()
	return s
}

// closeTime bounds how long Close waits for requests.
const closeTime = 200 * time.Millisecond

// Close ends all connections and gives the address back.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what takes longer is cut off
	_ = s.http.Close()
	<-s.done
}

// bounded is a listener with at most mostConns connections. When there are more, the oldest one ends
// that has not shown the token: who opens many and sends nothing on them keeps nobody else out. If all
// have shown it, the oldest ends that waits for its next request, as browsers keep some. If each is in
// a request, a new one is closed at once: a client that waits would not know why.
type bounded struct {
	net.Listener
	mu    sync.Mutex
	conns []*boundedConn // the oldest first
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		own := &boundedConn{Conn: c, of: b, left: make(chan struct{})}
		if !b.enter(own) {
			_ = c.Close()
			continue
		}
		if s, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
			_ = s.SetWriteBuffer(sendBuffer)
		}
		return own, nil
	}
}

// enter gives a connection a place, another one's if need be. It waits until that one has left, so that
// there are never more.
func (b *bounded) enter(c *boundedConn) bool {
	if old := b.oldest(); old != nil {
		_ = old.Conn.Close() // its server sees that, and calls Close
		select {
		case <-old.left:
		case <-time.After(leaveTime): // it is at work
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) >= mostConns {
		return false
	}
	b.conns = append(b.conns, c)
	return true
}

// leaveTime bounds how long a new connection waits for the place of another one.
const leaveTime = 10 * time.Millisecond

// oldest returns the connection whose place a new one gets, if all places are taken, or nil.
func (b *bounded) oldest() *boundedConn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) < mostConns {
		return nil
	}
	i := slices.IndexFunc(b.conns, func(c *boundedConn) bool { return !c.known.Load() && !c.ends })
	if i < 0 {
		i = slices.IndexFunc(b.conns, func(c *boundedConn) bool { return c.idle.Load() && !c.ends })
	}
	if i < 0 {
		return nil
	}
	b.conns[i].ends = true
	return b.conns[i]
}

// boundedConn is a connection that gives its place back.
type boundedConn struct {
	net.Conn
	of    *bounded
	left  chan struct{} // closed by Close
	leave sync.Once
	known atomic.Bool // a request has shown the token
	idle  atomic.Bool // it is in no request
	ends  bool        // for a new one; bounded.mu guards it
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.leave.Do(func() {
		c.of.mu.Lock()
		c.of.conns = slices.DeleteFunc(c.of.conns, func(other *boundedConn) bool { return other == c })
		c.of.mu.Unlock()
		close(c.left)
	})
	return err
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// noteState notes whether a connection is in a request.
func noteState(c net.Conn, state http.ConnState) {
	if own, ok := c.(*boundedConn); ok {
		own.idle.Store(state == http.StateIdle)
	}
}

// showed notes that a request's connection is one of somebody who knows the token.
func showed(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*boundedConn); ok {
		c.known.Store(true)
	}
}

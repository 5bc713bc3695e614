package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs/internal/page"
)

// pageFlags are the flags of the page (package page).
type pageFlags struct {
	addr      string
	write     bool
	tokenFile string
}

func (f *pageFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "http", "", "serve a page that shows the probes, the text, the trace and the machine, and /metrics, at 127.0.0.1:PORT (0 means any) or unix:PATH; its URL, which has a token, is printed on standard error")
	flags.BoolVar(&f.write, "http-write", false, "let the page switch and define probes")
	flags.StringVar(&f.tokenFile, "http-token-file", "", "the page's token is in this file; without it, a new token is written there, for its owner alone")
}

// args returns the flags as arguments for another process of this program.
func (f *pageFlags) args() []string {
	if f.addr == "" {
		return nil
	}
	args := []string{"--http", f.addr}
	if f.write {
		args = append(args, "--http-write")
	}
	if f.tokenFile != "" {
		args = append(args, "--http-token-file", f.tokenFile)
	}
	return args
}

// parse checks the flags. Names of files become absolute ones: the program in the background is in
// another directory.
func (f *pageFlags) parse() (err error) {
	if f.addr == "" && (f.write || f.tokenFile != "") {
		return misused(fmt.Errorf("--http-write and --http-token-file are about the page: give its address with --http: %w", syscall.EINVAL))
	}
	if path, ok := strings.CutPrefix(f.addr, "unix:"); ok && path != "" {
		if path, err = filepath.Abs(path); err != nil {
			return err
		}
		f.addr = "unix:" + path
	}
	if f.tokenFile != "" {
		f.tokenFile, err = filepath.Abs(f.tokenFile)
	}
	return err
}

// leastToken is how long the token in a file must be: a short one can be guessed.
const leastToken = 16

// token returns the page's token: from the file, or a new one.
func (f *pageFlags) token() (string, error) {
	if f.tokenFile == "" {
		return page.NewToken(), nil
	}
	b, err := os.ReadFile(f.tokenFile)
	token := strings.TrimSpace(string(b))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.newToken()
	case err != nil:
		return "", err
	case len(token) < leastToken || strings.ContainsAny(token, " \n\t&#%+"):
		return "", fmt.Errorf("%s: a token has at least %d letters and digits and no blanks; without the file a new one is made", f.tokenFile, leastToken)
	}
	return token, nil
}

// newToken writes a new token into the file, which must not be there, not as a link to elsewhere
// either.
func (f *pageFlags) newToken() (string, error) {
	file, err := os.OpenFile(f.tokenFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	token := page.NewToken()
	_, err = file.WriteString(token + "\n")
	return token, errors.Join(err, file.Close())
}

// pageServer serves the page of what is mounted.
type pageServer struct {
	listener net.Listener
	token    string
	write    bool
	machine  atomic.Pointer[page.Machine]
	server   *page.Server
}

// newPageServer listens, or returns nil if no page is asked for. Clients wait until serve.
func newPageServer(f *pageFlags) (*pageServer, error) {
	if f.addr == "" {
		return nil, nil
	}
	token, err := f.token()
	if err != nil {
		return nil, fmt.Errorf("--http-token-file: %w", err)
	}
	l, err := page.Listen(f.addr)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	return &pageServer{listener: l, token: token, write: f.write}, nil
}

// show has the page show a machine.
func (s *pageServer) show(sys system) error {
	if s == nil {
		return nil
	}
	m, ok := sys.(page.Machine)
	if !ok {
		return fmt.Errorf("--http: this machine has no page: %w", errors.ErrUnsupported)
	}
	s.machine.Store(&m)
	return nil
}

// serve begins to answer. It returns where the page is.
func (s *pageServer) serve() string {
	h := page.New(page.Config{
		Machine: func() page.Machine { return *s.machine.Load() },
		Token:   s.token, Cookie: page.Cookie(s.listener), Write: s.write, Program: programVersion(),
	})
	s.server = page.Serve(s.listener, h)
	return s.where()
}

// where says how the page is reached.
func (s *pageServer) where() string {
	if a := s.listener.Addr(); a.Network() == "unix" {
		return fmt.Sprintf("curl --unix-socket %s 'http://localhost/?token=%s'", a, s.token)
	}
	return page.URL(s.listener, s.token)
}

// close ends all connections.
func (s *pageServer) close() {
	switch {
	case s == nil:
	case s.server != nil:
		s.server.Close()
	default:
		_ = s.listener.Close()
	}
}

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

	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/internal/look"
	"github.com/kprobefs/kprobefs/internal/look/source"
	"github.com/kprobefs/kprobefs/internal/page"
)

// pageFlags are the flags of the page (package page).
type pageFlags struct {
	addr      string
	write     bool
	tokenFile string
	health    string
	source    string
}

func (f *pageFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "http", "", "serve a page that shows the probes, the text, the trace and the machine, and /metrics, at 127.0.0.1:PORT (0 means any) or unix:PATH; its URL, which has a token, is printed on standard error")
	flags.BoolVar(&f.write, "http-write", false, "let the page switch and define probes")
	flags.StringVar(&f.tokenFile, "http-token-file", "", "the page's token is in this file; without it, a new token is written there, for its owner alone")
	flags.StringVar(&f.source, "http-source", "", "the page shows the lines of C of functions, by the debug information of this file, which is the kernel with -g")
	flags.StringVar(&f.health, "health", "", "answer /healthz and /readyz, and nothing else, at HOST:PORT or unix:PATH; :PORT is for all who reach this host, such as a kubelet")
}

// args returns the flags as arguments for another process of this program.
func (f *pageFlags) args() []string {
	var args []string
	if f.health != "" {
		args = append(args, "--health", f.health)
	}
	if f.addr == "" {
		return args
	}
	args = append(args, "--http", f.addr)
	if f.write {
		args = append(args, "--http-write")
	}
	if f.tokenFile != "" {
		args = append(args, "--http-token-file", f.tokenFile)
	}
	if f.source != "" {
		args = append(args, "--http-source", f.source)
	}
	return args
}

// parse checks the flags. Names of files become absolute ones: the program in the background is in
// another directory.
func (f *pageFlags) parse() (err error) {
	if f.addr == "" && (f.write || f.tokenFile != "" || f.source != "") {
		return cli.Misused(fmt.Errorf("--http-write, --http-token-file and --http-source are about the page: give its address with --http: %w", syscall.EINVAL))
	}
	for _, addr := range []*string{&f.addr, &f.health} {
		if path, ok := strings.CutPrefix(*addr, "unix:"); ok && path != "" {
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
			*addr = "unix:" + path
		}
	}
	for _, name := range []*string{&f.tokenFile, &f.source} {
		if *name != "" {
			if *name, err = filepath.Abs(*name); err != nil {
				return err
			}
		}
	}
	return nil
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

// pageServer serves the page of what is mounted, and tells whether it works.
type pageServer struct {
	listener net.Listener // of the page, or nil
	health   net.Listener // of /healthz and /readyz alone, or nil
	token    string
	write    bool
	source   *source.Kernel // of the functions' lines, or nil
	machine  atomic.Pointer[page.Machine]
	servers  []*page.Server
}

// newPageServer listens, or returns nil if nothing is asked for. Clients wait until serve.
func newPageServer(f *pageFlags) (*pageServer, error) {
	if f.addr == "" && f.health == "" {
		return nil, nil
	}
	s := &pageServer{write: f.write}
	if err := s.listen(f); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *pageServer) listen(f *pageFlags) (err error) {
	if f.health != "" {
		if s.health, err = page.ListenHealth(f.health); err != nil {
			return fmt.Errorf("--health: %w", err)
		}
	}
	if f.addr == "" {
		return nil
	}
	if f.source != "" {
		if s.source, err = source.Open(f.source); err != nil {
			return fmt.Errorf("--http-source: %w", err)
		}
	}
	if s.token, err = f.token(); err != nil {
		return fmt.Errorf("--http-token-file: %w", err)
	}
	if s.listener, err = page.Listen(f.addr); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	return nil
}

// show has the page show a machine.
func (s *pageServer) show(sys boot.System) error {
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

// serve begins to answer. It returns where the page is, or "" if there is none.
func (s *pageServer) serve() string {
	machine := func() page.Machine { return *s.machine.Load() }
	if s.health != nil {
		s.servers = append(s.servers, page.Serve(s.health, page.Health(machine)))
	}
	if s.listener == nil {
		return ""
	}
	h := page.New(page.Config{
		Machine: machine,
		Token:   s.token, Cookie: page.Cookie(s.listener), Write: s.write, Source: s.addSource, Program: programVersion(),
	})
	s.servers = append(s.servers, page.Serve(s.listener, h))
	return s.where()
}

// addSource adds the lines of C, if they are known.
func (s *pageServer) addSource(functions []look.Function) {
	if s.source != nil {
		s.source.Add(functions)
	}
}

// where says how the page is reached.
func (s *pageServer) where() string {
	if a := s.listener.Addr(); a.Network() == "unix" {
		return fmt.Sprintf("curl --unix-socket %s 'http://localhost/?token=%s'", a, s.token)
	}
	return page.URL(s.listener, s.token)
}

// close ends all connections and gives the addresses back.
func (s *pageServer) close() {
	if s == nil {
		return
	}
	for _, server := range s.servers {
		server.Close()
	}
	for _, l := range []net.Listener{s.listener, s.health} {
		if l != nil {
			_ = l.Close() // a server has closed its own
		}
	}
}

package served

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

// PageFlags are the flags of the page (package page).
type PageFlags struct {
	Addr      string // of the page, or ""
	write     bool
	tokenFile string
	Health    string // of /healthz and /readyz alone, or ""
	source    []string
}

// AddTo adds the flags to a command's.
func (f *PageFlags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Addr, "http", "", "serve a page that shows the probes, the text, the trace and the machine, and /metrics, at 127.0.0.1:PORT (0 means any) or unix:PATH; its URL, which has a token, is printed on standard error")
	flags.BoolVar(&f.write, "http-write", false, "let the page switch and define probes")
	flags.StringVar(&f.tokenFile, "http-token-file", "", "the page's token is in this file; without it, a new token is written there, for its owner alone")
	flags.StringArrayVar(&f.source, "http-source", nil, "the page shows the lines of C of functions, by the debug information of this file, which is the kernel with -g; of a directory, modules' sources are shown, whose lines are known if they were built with -g (can be repeated)")
	flags.StringVar(&f.Health, "health", "", "answer /healthz and /readyz, and nothing else, at HOST:PORT or unix:PATH; :PORT is for all who reach this host, such as a kubelet")
}

// Args returns the flags as arguments for another process of this program.
func (f *PageFlags) Args() []string {
	var args []string
	if f.Health != "" {
		args = append(args, "--health", f.Health)
	}
	if f.Addr == "" {
		return args
	}
	args = append(args, "--http", f.Addr)
	if f.write {
		args = append(args, "--http-write")
	}
	if f.tokenFile != "" {
		args = append(args, "--http-token-file", f.tokenFile)
	}
	for _, name := range f.source {
		args = append(args, "--http-source", name)
	}
	return args
}

// Parse checks the flags. Names of files become absolute ones: the program in the background is in
// another directory.
func (f *PageFlags) Parse() (err error) {
	if f.Addr == "" && (f.write || f.tokenFile != "" || len(f.source) > 0) {
		return cli.Misused(fmt.Errorf("--http-write, --http-token-file and --http-source are about the page: give its address with --http: %w", syscall.EINVAL))
	}
	for _, addr := range []*string{&f.Addr, &f.Health} {
		if path, ok := strings.CutPrefix(*addr, "unix:"); ok && path != "" {
			if path, err = filepath.Abs(path); err != nil {
				return err
			}
			*addr = "unix:" + path
		}
	}
	names := []*string{&f.tokenFile}
	for i := range f.source {
		names = append(names, &f.source[i])
	}
	for _, name := range names {
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
func (f *PageFlags) token() (string, error) {
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
func (f *PageFlags) newToken() (string, error) {
	file, err := os.OpenFile(f.tokenFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the directory %s is not there: make it, or name another file: %w", filepath.Dir(f.tokenFile), syscall.ENOENT)
	}
	if err != nil {
		return "", err
	}
	token := page.NewToken()
	_, err = file.WriteString(token + "\n")
	return token, errors.Join(err, file.Close())
}

// PageServer serves the page of what is mounted, and tells whether it works.
type PageServer struct {
	listener net.Listener // of the page, or nil
	health   net.Listener // of /healthz and /readyz alone, or nil
	token    string
	program  string
	write    bool
	source   *source.Lines
	machine  atomic.Pointer[page.Machine]
	servers  []*page.Server
}

// NewPageServer listens, or returns nil if nothing is asked for. Clients wait until Serve. program is the name
// and version that the page tells.
func NewPageServer(f *PageFlags, program string) (*PageServer, error) {
	if f.Addr == "" && f.Health == "" {
		return nil, nil
	}
	s := &PageServer{write: f.write, program: program}
	if err := s.listen(f); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *PageServer) listen(f *PageFlags) (err error) {
	if f.Health != "" {
		if s.health, err = page.ListenHealth(f.Health); err != nil {
			return fmt.Errorf("--health: %w", err)
		}
	}
	if f.Addr == "" {
		return nil
	}
	// An object may name any file, and who sees the page need not be allowed to read it.
	if s.source, err = source.New(f.source, source.Within); err != nil {
		return fmt.Errorf("--http-source: %w", err)
	}
	if s.token, err = f.token(); err != nil {
		return fmt.Errorf("--http-token-file: %w", err)
	}
	if s.listener, err = page.Listen(f.Addr); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	return nil
}

// Show has the page show a machine.
func (s *PageServer) Show(sys boot.System) error {
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

// Serve begins to answer. It returns where the page is, or "" if there is none.
func (s *PageServer) Serve() string {
	machine := func() page.Machine { return *s.machine.Load() }
	if s.health != nil {
		s.servers = append(s.servers, page.Serve(s.health, page.Health(machine)))
	}
	if s.listener == nil {
		return ""
	}
	h := page.New(page.Config{
		Machine: machine,
		Token:   s.token, Cookie: page.Cookie(s.listener), Write: s.write, Source: func(read look.ReadFile, functions []look.Function) { s.source.Add(read, functions) }, Program: s.program,
	})
	s.servers = append(s.servers, page.Serve(s.listener, h))
	return s.where()
}

// where says how the page is reached.
func (s *PageServer) where() string {
	if a := s.listener.Addr(); a.Network() == "unix" {
		return fmt.Sprintf("curl --unix-socket %s 'http://localhost/?token=%s'", a, s.token)
	}
	return page.URL(s.listener, s.token)
}

// Close ends all connections and gives the addresses back.
func (s *PageServer) Close() {
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

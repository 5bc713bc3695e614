package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/gdbstub"
)

// gdbServer serves gdb for the machine that runs now.
type gdbServer struct {
	kernel atomic.Pointer[kprobefs.Kernel]
	server *gdbstub.Server
}

// use makes sys the machine that the next client gets.
func (g *gdbServer) use(sys system) {
	if g != nil {
		k, _ := sys.(*kprobefs.Kernel)
		g.kernel.Store(k)
	}
}

// absoluteSocket makes the path of unix:PATH absolute.
func absoluteSocket(addr string) (string, error) {
	path, ok := strings.CutPrefix(addr, "unix:")
	if !ok {
		return addr, nil
	}
	path, err := filepath.Abs(path)
	return "unix:" + path, err
}

// listenForGDB opens the socket of --gdb. Clients are served once begin is called.
func listenForGDB(addr string, log *logrus.Logger) (begin func(system) *gdbServer, end func(), err error) {
	if addr == "" {
		return func(system) *gdbServer { return nil }, func() {}, nil
	}
	l, err := gdbstub.Listen(addr)
	if err != nil {
		err = fmt.Errorf("--gdb: %w", err)
		if errors.Is(err, syscall.EINVAL) {
			err = misused(err)
		}
		return nil, nil, err
	}
	g := &gdbServer{}
	g.server = gdbstub.New(gdbstub.Config{
		Machine: func() *kernel.Debugger { return g.kernel.Load().Machine.Debugger() },
		Commands: []gdbstub.Command{
			{Name: "list", Help: "the probes, as kprobes/list shows them", Run: g.list},
			{Name: "probes", Help: "how each probed address is carried out, and its history, as machine/probed shows it", Run: g.probes},
		},
	})
	begin = func(sys system) *gdbServer {
		if g.use(sys); g.kernel.Load() == nil {
			return nil // a tree without a machine
		}
		log.WithField("addr", l.Addr().String()).Info("serving gdb")
		go func() {
			if err := g.server.Serve(l); err != nil {
				log.WithField("err", err).Error("gdb is not served any more")
			}
		}()
		return g
	}
	end = func() {
		g.server.Close()
		_ = l.Close()
	}
	return begin, end, nil
}

func (g *gdbServer) list() (string, error) {
	b, err := g.kernel.Load().ReadFile("kprobes/list")
	return string(b), err
}

func (g *gdbServer) probes() (string, error) {
	k := g.kernel.Load()
	var b strings.Builder
	for i, pt := range k.Kprobes.Points() {
		if i > 0 {
			b.WriteByte('\n')
		}
		place := fmt.Sprintf("%#x", pt.Addr)
		if s, off, ok := k.Machine.Symbols().Lookup(pt.Addr); ok {
			place = fmt.Sprintf("%s+%#x", s.Name, off)
		}
		b.WriteString(machinefs.PointText(pt, place))
	}
	return b.String(), nil
}

package served

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/internal/boot"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/gdbstub"
)

// gdbServer serves gdb for the machine that runs now.
type gdbServer struct {
	kernel func() *kprobefs.Kernel
	server *gdbstub.Server
}

// GDBFlag is the flag --gdb of mount and exec.
type GDBFlag struct {
	GDB string // the address at which gdb is served, or ""
}

// AddTo adds the flag to a command's.
func (f *GDBFlag) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.GDB, "gdb", "", "let gdb attach to the emulated kernel at `ADDR`: 127.0.0.1:PORT, [::1]:PORT or unix:PATH ('target remote ADDR' in gdb, which gets the kernel's symbols by that)")
}

// Args returns the flag as arguments for another process of this program.
func (f *GDBFlag) Args() []string {
	if f.GDB == "" {
		return nil
	}
	return []string{"--gdb", f.GDB}
}

// Running is the machine that the next client of gdb gets.
type Running struct {
	atomic.Pointer[kprobefs.Kernel]
}

// Use makes sys that machine. It reports false if sys has none.
func (n *Running) Use(sys boot.System) bool {
	b, ok := sys.(*boot.Booted)
	if ok {
		n.Store(b.Kernel)
	}
	return ok
}

// Parse makes the path of unix:PATH absolute: the program that serves is in another directory.
func (f *GDBFlag) Parse() error {
	path, ok := strings.CutPrefix(f.GDB, "unix:")
	if !ok {
		return nil
	}
	path, err := filepath.Abs(path)
	f.GDB = "unix:" + path
	return err
}

// ListenForGDB opens the socket of --gdb. Clients are served once begin is called with what returns the machine that runs
// now and, if that is deterministic, its past.
func ListenForGDB(addr string, log *logrus.Logger) (begin func(func() *kprobefs.Kernel, gdbstub.Past), end func(), err error) {
	if addr == "" {
		return func(func() *kprobefs.Kernel, gdbstub.Past) {}, func() {}, nil
	}
	l, err := gdbstub.Listen(addr)
	if err != nil {
		err = fmt.Errorf("--gdb: %w", err)
		if errors.Is(err, syscall.EINVAL) {
			err = cli.Misused(err)
		}
		return nil, nil, err
	}
	g := &gdbServer{}
	begin = func(k func() *kprobefs.Kernel, past gdbstub.Past) {
		g.kernel = k
		g.server = gdbstub.New(gdbstub.Config{
			Machine: func() *kernel.Debugger { return g.kernel().Machine.Debugger() },
			Past:    past,
			Commands: []gdbstub.Command{
				{Name: "list", Help: "the probes, as kprobes/list shows them", Run: g.list},
				{Name: "probes", Help: "how each probed address is carried out, and its history, as machine/probed shows it", Run: g.probes},
				{Name: "modules", Help: "gdb's commands that load the symbols of the modules", Run: g.modules},
			},
			Image: imageFile,
			Files: g.file,
		})
		log.WithField("addr", l.Addr().String()).Info("serving gdb")
		go func() {
			if err := g.server.Serve(l); err != nil {
				log.WithField("err", err).Error("gdb is not served any more")
			}
		}()
	}
	end = func() {
		if g.server != nil {
			g.server.Close()
		}
		_ = l.Close()
	}
	return begin, end, nil
}

// imageFile is the name of the kernel's image among the files that gdb may read.
const imageFile = "/machine/vmlinux"

// file returns a file for gdb, which reads the image and the modules (target:/machine/...) through its connection.
func (g *gdbServer) file(name string) ([]byte, error) {
	if name != imageFile && filepath.Dir(name) != "/machine/modules" {
		return nil, syscall.ENOENT
	}
	return g.kernel().ReadFile(strings.TrimPrefix(name, "/"))
}

// modules returns an add-symbol-file for each module, with the addresses that /sys/module/NAME/sections has.
func (g *gdbServer) modules() (string, error) {
	var b strings.Builder
	for _, m := range g.kernel().Modules.List() {
		text, rest := "", ""
		for _, s := range m.Sections {
			switch {
			case s.Name == ".text":
				text = fmt.Sprintf(" %#x", s.Addr)
			case s.Addr != 0 && s.Note == nil && s.Name != ".symtab" && s.Name != ".strtab":
				rest += fmt.Sprintf(" -s %s %#x", s.Name, s.Addr)
			}
		}
		fmt.Fprintf(&b, "add-symbol-file target:/machine/modules/%s%s%s\n", m.Name+".ko", text, rest)
	}
	if b.Len() == 0 {
		return "no modules are loaded\n", nil
	}
	return b.String(), nil
}

func (g *gdbServer) list() (string, error) {
	b, err := g.kernel().ReadFile("kprobes/list")
	return string(b), err
}

func (g *gdbServer) probes() (string, error) {
	k := g.kernel()
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

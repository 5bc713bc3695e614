package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kprobes"
)

// childVar makes this process a server for the benchmarks; its value says which.
const childVar = "KPROBEFS_BENCH_SERVE"

var errNoChild = errors.New("not a server")

// serveAsChild serves a tree until the end of stdin, if childVar is set.
func serveAsChild() error {
	serve := map[string]func(dir string) error{"go-fuse": serveGoFuse, "system": serveSystem}[os.Getenv(childVar)]
	if serve == nil {
		return errNoChild
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return serve(os.Args[1])
}

// plainFS is a minimal file system with the file kprobes/enabled: node 1 is the root,
// 2 the directory, 3 the file. As in kprobefs, nothing is cached and FLUSH is
// answered.
type plainFS struct{ fuse.RawFileSystem }

func (plainFS) attr(node uint64, a *fuse.Attr) {
	*a = fuse.Attr{Ino: node, Nlink: 1, Mode: syscall.S_IFDIR | 0o755}
	if node == 3 {
		a.Mode = syscall.S_IFREG | 0o600
	}
}

// Lookup finds the one path.
func (p plainFS) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if want := map[uint64]string{1: "kprobes", 2: "enabled"}[h.NodeId]; name != want {
		return fuse.ENOENT
	}
	out.NodeId = h.NodeId + 1
	p.attr(out.NodeId, &out.Attr)
	return fuse.OK
}

// GetAttr returns the modes.
func (p plainFS) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	p.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

// Open bypasses the page cache, as kprobefs does.
func (plainFS) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return fuse.OK
}

// Read returns two bytes.
func (plainFS) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	if in.Offset > 0 {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData([]byte("1\n")), fuse.OK
}

// Write accepts everything.
func (plainFS) Write(_ <-chan struct{}, _ *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return uint32(len(data)), fuse.OK
}

// Flush succeeds.
func (plainFS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func serveGoFuse(dir string) error {
	s, err := fuse.NewServer(plainFS{fuse.NewDefaultRawFileSystem()}, dir, &fuse.MountOptions{AllowOther: true, DirectMountStrict: true, MaxWrite: 1<<20 - 4096})
	if err != nil {
		return err
	}
	go s.Serve()
	_, _ = bufio.NewReader(os.Stdin).ReadString(0) // until it ends
	return unix.Unmount(dir, unix.MNT_DETACH)
}

// serveSystem mounts a complete kprobefs and registers probes on command.
func serveSystem(dir string) error {
	s, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		return err
	}
	defer s.Close()
	mnt, err := fs.New(s.Machine.Host(), nil).Mount(&seqfile.Row{Name: "/", Mode: 0o755, Dir: s.Tree(), Kind: seqfile.Ours, At: "/"}, dir, fs.MountOptions{})
	if err != nil {
		return err
	}
	defer mnt.End(time.Second)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		answer, err := obey(s, in.Text())
		if err != nil {
			answer = "error: " + err.Error()
		}
		_, _ = fmt.Fprintln(os.Stdout, answer)
	}
	return nil
}

func obey(s *kprobefs.Kernel, command string) (string, error) {
	name, arg, _ := strings.Cut(command, " ")
	switch name {
	case "register":
		n, err := strconv.Atoi(arg)
		if err != nil {
			return "", err
		}
		took, err := registerMany(s, n)
		return fmt.Sprint(float64(took) / float64(n)), err
	case "wait":
		s.Kprobes.WaitOptimizer()
		return "done", nil
	}
	return "", fmt.Errorf("command %q: %w", name, syscall.EINVAL)
}

// registerMany registers n probes, one by one, at n addresses all over the kernel.
func registerMany(s *kprobefs.Kernel, n int) (time.Duration, error) {
	addrs, err := probeable(s, n)
	if err != nil {
		return 0, err
	}
	ps := make([]kprobes.Kprobe, n)
	start := time.Now()
	for i := range ps {
		ps[i].Addr = addrs[i]
		ps[i].PreHandler = func(*kprobes.Hit) int { return 0 }
		if err := s.Kprobes.Register(&ps[i]); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// probeable returns n addresses that can be probed: the first instruction of each
// function, then the second ones, and so on.
func probeable(s *kprobefs.Kernel, n int) ([]uint64, error) {
	var addrs []uint64
	for _, sym := range s.Machine.Symbols().All() {
		for _, at := range instructions(s, sym) {
			p := kprobes.Kprobe{Addr: at, Flags: kprobes.FlagDisabled}
			if s.Kprobes.Register(&p) != nil {
				continue
			}
			s.Kprobes.Unregister(&p)
			if addrs = append(addrs, at); len(addrs) == n {
				s.Kprobes.WaitOptimizer()
				return addrs, nil
			}
		}
	}
	return nil, fmt.Errorf("%d addresses can be probed, not %d: %w", len(addrs), n, syscall.ENOSPC)
}

func instructions(s *kprobefs.Kernel, sym abi.Symbol) (addrs []uint64) {
	if tab := s.Machine.Tables(); sym.Size == 0 || !tab.KernelText(sym.Addr) || !tab.KernelText(sym.Addr+sym.Size-1) {
		return nil
	}
	text := make([]byte, sym.Size)
	if s.Machine.Read(sym.Addr, text) != nil {
		return nil
	}
	for off := 0; off < len(text); {
		in, err := insn.Decode(text[off:])
		if err != nil {
			break
		}
		addrs = append(addrs, sym.Addr+uint64(off))
		off += in.Len
	}
	return addrs
}

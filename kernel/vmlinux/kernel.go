package vmlinux

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Options say what Load cannot find in the file.
type Options struct {
	Symbols []byte // a System.map, or a copy of /proc/kallsyms; nil means the kernel's own tables
	CPU     CPU    // nil means DefaultCPU
	K8Nops  bool   // the processor is an AMD one of family 15, where kernels before 5.13 write other nops
}

// Kernel is a kernel as it is after boot.
type Kernel struct {
	*image.Tables
	Image   *image.Image
	Symbols *kallsyms.Table
	Release string          // uname -r: "6.1.0-50-amd64"
	Banner  string          // /proc/version
	Linux   release.Version // the emulated version whose rules hold: the newest that is not newer
	Preempt bool            // CONFIG_PREEMPTION, as its banner says
	BTF     []byte          // the types of its functions, as the kernel's build writes them; nil if it has none

	ModuleBTF map[string][]byte // the same of modules, by their names

	modules  map[string]*module.Static
	features Features // of the processor
	k8       bool     // see Options.K8Nops
}

// Load reads a kernel (see Unpack). It fails with an ErrFormat.
func Load(b []byte, o Options) (*Kernel, error) {
	files, err := Unpack(b)
	if err != nil {
		return nil, err
	}
	if o.CPU == nil {
		o.CPU = DefaultCPU()
	}
	symbols := func(segments []image.Segment) ([]abi.Symbol, error) {
		if o.Symbols != nil {
			syms, err := mapSymbols(o.Symbols)
			return unslid(syms, segments), err
		}
		syms, err := ownSymbols(segments)
		if err != nil && files.Map != nil {
			if syms, merr := mapSymbols(files.Map); merr == nil {
				return syms, nil
			}
		}
		return syms, err
	}
	k := &Kernel{BTF: section(files.ELF, ".BTF"), k8: o.K8Nops}
	var unknown error // what is wrong with its version
	m, err := image.LoadWith(files.ELF, symbols, func(m *image.Image, addr func(string) uint64) error {
		if unknown = k.readBanner(m); unknown != nil {
			return unknown
		}
		k.features = o.CPU.Features(k.Linux)
		return k.patch(m, addr)
	})
	if err != nil {
		if o.Symbols != nil && unknown == nil {
			err = fmt.Errorf("%w (do the symbols belong to this image?)", err)
		}
		if !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return nil, err
	}
	k.Image, k.Symbols = m, kallsyms.NewSized(m.Symbols)
	if err := k.checkSymbols(); err != nil {
		return nil, err
	}
	k.Tables = image.NewTables(m, k.Symbols)
	k.Booted()
	return k, nil
}

// patch changes text as the kernel does it at boot, in an image whose symbols addr finds.
func (k *Kernel) patch(m *image.Image, addr func(name string) uint64) error {
	p := &patcher{m: m, addr: addr, features: k.features, k8: k.k8, int3: k.Linux >= release.Linux6_1, jumpsOver: k.Linux >= release.Linux6_12, voluntary: strings.Contains(k.Banner, " PREEMPT_DYNAMIC")}
	return p.apply()
}

// section returns a section of an ELF file, or nil if it has none of that name.
func section(b []byte, name string) []byte {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil
	}
	s := f.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Offset > uint64(len(b)) || s.FileSize > uint64(len(b))-s.Offset {
		return nil
	}
	return b[s.Offset : s.Offset+s.FileSize]
}

// HasSymbols reports whether an ELF image has kallsyms tables.
func HasSymbols(elf []byte) bool {
	_, err := image.LoadWith(elf, ownSymbols, func(*image.Image, func(string) uint64) error { return errHasSymbols })
	return errors.Is(err, errHasSymbols)
}

var errHasSymbols = errors.New("it has symbols")

// unslid takes back what KASLR has added to the addresses in a copy of /proc/kallsyms.
func unslid(syms []abi.Symbol, segments []image.Segment) []abi.Symbol {
	var slide uint64
	for _, s := range syms {
		if s.Name == "_text" && s.Addr > segments[0].Addr {
			slide = s.Addr - segments[0].Addr
		}
	}
	for i := range syms {
		if slide != 0 && syms[i].Addr >= abi.KernelBase+slide {
			syms[i].Addr -= slide
		}
	}
	return syms
}

// banners are what linux_banner is in the kernel's read-only data: since 6.1 a text without the number of the build
// stands there as well, and may come first.
var banners = []*regexp.Regexp{
	regexp.MustCompile(`Linux version ((\d+)\.(\d+)[^ ]*) [^\n\x00]* #\d[^\n\x00]*\n`),
	regexp.MustCompile(`Linux version ((\d+)\.(\d+)[^ ]*) [^\n\x00]*\n`),
}

// findBanner returns linux_banner with its release, and the first two numbers of that, or nil.
func findBanner(in *image.Image) [][]byte {
	for _, banner := range banners {
		for i := range in.Segments {
			if m := banner.FindSubmatch(in.Segments[i].Data); m != nil {
				return m
			}
		}
	}
	return nil
}

// readBanner finds the release.
func (k *Kernel) readBanner(in *image.Image) error {
	if m := findBanner(in); m != nil {
		k.Release, k.Banner = string(m[1]), string(bytes.TrimSuffix(m[0], []byte("\n")))
		k.Preempt = bytes.Contains(m[0], []byte(" PREEMPT"))
		var major, minor uint32
		if _, err := fmt.Sscanf(string(m[2])+" "+string(m[3]), "%d %d", &major, &minor); err != nil {
			return fmt.Errorf("%w: the image has no version: %w", ErrFormat, err)
		}
		for _, v := range release.Versions {
			if major<<16|minor<<8 >= uint32(v) && v > k.Linux {
				k.Linux = v
			}
		}
		if k.Linux < release.Linux5_10 {
			return fmt.Errorf("%w: Linux %s is older than 5.10, whose tables are known", ErrFormat, k.Release)
		}
		return nil
	}
	return fmt.Errorf("%w: the image has no version text", ErrFormat)
}

// checkSymbols sees whether the symbols belong to the image: of functions with an fentry site some
// must begin at most 4 bytes before it.
func (k *Kernel) checkSymbols() error {
	match := 0
	for _, site := range k.Image.Mcount {
		if _, off, ok := k.Symbols.Lookup(site); ok && off <= 4 {
			match++
		}
	}
	if n := len(k.Image.Mcount); n > 0 && match < n/2 {
		return fmt.Errorf("%w: the symbols do not belong to the image: of %d fentry sites %d are at a function", ErrFormat, n, match)
	}
	return nil
}

// Read copies text.
func (k *Kernel) Read(addr uint64, p []byte) error {
	for i := range k.Image.Segments {
		s := &k.Image.Segments[i]
		if off := addr - s.Addr; s.Perm&image.Exec != 0 && addr >= s.Addr && off <= uint64(len(s.Data)) && uint64(len(p)) <= uint64(len(s.Data))-off {
			copy(p, s.Data[off:])
			return nil
		}
	}
	return fmt.Errorf("no text at %#x: %w", addr, syscall.EFAULT)
}

// Lookup returns the symbol that contains an address, as kallsyms does.
func (k *Kernel) Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool) {
	return k.Symbols.Lookup(addr)
}

// LookupName returns the symbols of a name.
func (k *Kernel) LookupName(name string) []abi.Symbol { return k.Symbols.LookupName(name) }

// All returns all symbols, in kallsyms' order.
func (k *Kernel) All() []abi.Symbol { return k.Symbols.All() }

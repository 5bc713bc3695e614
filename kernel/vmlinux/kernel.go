package vmlinux

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"regexp"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Options say what Load cannot find in the file.
type Options struct {
	Symbols  []byte   // a System.map, or a copy of /proc/kallsyms; nil means the kernel's own tables
	Features Features // of the processor; nil means DefaultFeatures
	K8Nops   bool     // the processor is an AMD one of family 15, where kernels before 5.13 write other nops
}

// Kernel is a kernel as it is after boot.
type Kernel struct {
	*image.Tables
	Image   *image.Image
	Symbols *kallsyms.Table
	Release string          // uname -r: "6.1.0-50-amd64"
	Linux   release.Version // the emulated version whose rules hold: the newest that is not newer
	Preempt bool            // CONFIG_PREEMPTION, as its banner says
	BTF     []byte          // the types of its functions, as the kernel's build writes them; nil if it has none

	ModuleBTF map[string][]byte // the same of modules, by their names

	options Options
}

// Load reads a kernel (see Unpack). It fails with an ErrFormat.
func Load(b []byte, o Options) (*Kernel, error) {
	files, err := Unpack(b)
	if err != nil {
		return nil, err
	}
	if o.Features == nil {
		o.Features = DefaultFeatures
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
	m, err := image.LoadWith(files.ELF, symbols, func(m *image.Image, addr func(string) uint64) error {
		return (&patcher{m: m, addr: addr, features: o.Features, k8: o.K8Nops}).apply()
	})
	if err != nil {
		if o.Symbols != nil {
			err = fmt.Errorf("%w (do the symbols belong to this image?)", err)
		}
		if !errors.Is(err, ErrFormat) {
			err = fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return nil, err
	}
	k := &Kernel{Image: m, Symbols: kallsyms.NewSized(m.Symbols), BTF: section(files.ELF, ".BTF"), ModuleBTF: map[string][]byte{}, options: o}
	if err := k.readBanner(); err != nil {
		return nil, err
	}
	if err := k.checkSymbols(); err != nil {
		return nil, err
	}
	k.Tables = image.NewTables(m, k.Symbols)
	k.Booted()
	return k, nil
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

// banner is linux_banner and what follows it in the kernel's read-only data.
var banner = regexp.MustCompile(`Linux version ((\d+)\.(\d+)[^ ]*) [^\n\x00]*\n`)

// readBanner finds the release.
func (k *Kernel) readBanner() error {
	for i := range k.Image.Segments {
		m := banner.FindSubmatch(k.Image.Segments[i].Data)
		if m == nil {
			continue
		}
		k.Release = string(m[1])
		k.Preempt = bytes.Contains(m[0], []byte(" PREEMPT"))
		var major, minor uint32
		if _, err := fmt.Sscanf(string(m[2])+" "+string(m[3]), "%d %d", &major, &minor); err != nil {
			break
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

// checkSymbols sees whether the symbols are those of the image: of functions with an fentry site some
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

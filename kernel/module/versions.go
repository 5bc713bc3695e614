package module

import (
	"bytes"
	_ "embed" // crcs-6.1
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// OwnLayout is the version of struct module (module_layout) in modules that are built with
// the guest's own headers. These modules have the name of a distribution's kernel in
// vermagic, whose headers declare more; that kernel refuses them by this number.
const OwnLayout uint32 = 0x6b70726f // "kpro"

// own reports whether the object was built with the guest's own headers: it says so by the
// version of struct module, or, as modules without that struct do, by vermagic.
func (l *Loader) own(o *object) bool {
	return o.crcs["module_layout"] == OwnLayout || slices.Contains(l.conf.Own, strings.TrimRight(o.info["vermagic"], " "))
}

// ABI describes a distribution's kernels of one release whose modules can be loaded.
type ABI struct {
	uname *regexp.Regexp // of uname -r
	flags string         // the rest of vermagic
	table func() map[string]map[string]uint32
}

// Debian61 describes Debian 12's kernels 6.1.0-NN-amd64. NN changes when the interface
// for modules does.
var Debian61 = &ABI{
	uname: regexp.MustCompile(`^6\.1\.0-\d+-amd64$`),
	flags: "SMP preempt mod_unload modversions",
	table: sync.OnceValue(func() map[string]map[string]uint32 { return parseCRCs(crcs61) }),
}

// NewestDebian61 returns uname -r of the newest of the kernels whose CRCs are known: the
// last word of the table's first line.
func NewestDebian61() string {
	kernels, _, _ := strings.Cut(crcs61, "\n")
	return kernels[strings.LastIndexByte(kernels, ' ')+1:]
}

// crcs61 has the CRCs in Debian's Module.symvers of the symbols that the guest
// exports. Command gencrcs writes it, which needs Debian's headers.
//
//go:embed crcs-6.1
var crcs61 string

// parseCRCs reads a table whose first line names kernels and whose others are a symbol
// and its CRC in each, in hexadecimal; = is the kernel's before, - none.
func parseCRCs(text string) map[string]map[string]uint32 {
	of := map[string]map[string]uint32{}
	var kernels []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if kernels == nil {
			kernels = words[1:]
			for _, k := range kernels {
				of[k] = map[string]uint32{}
			}
			continue
		}
		var crc uint64
		for i, w := range words[1:] {
			if w == "-" {
				continue
			}
			if w != "=" {
				crc, _ = strconv.ParseUint(w, 16, 32) // a test reads all of them
			}
			of[kernels[i]][words[0]] = uint32(crc)
		}
	}
	return of
}

// checkVermagic is the part of check_modinfo about vermagic. It fails with ENOEXEC.
func (l *Loader) checkVermagic(m *module, o *object, opts Options) error {
	magic := o.info["vermagic"]
	if opts.IgnoreVermagic {
		magic = ""
	}
	switch v := strings.TrimRight(magic, " "); {
	case magic == "" && (l.conf.ABI != nil || opts.IgnoreVermagic):
		l.force(m, "bad vermagic")
	case !slices.Contains(l.conf.Own, v) && v != l.conf.Vermagic && (l.own(o) || !l.conf.ABI.accepts(v, o)):
		l.conf.Machine.Printk(3, "%s: version magic '%s' should be '%s'", m.name, magic, l.conf.Vermagic+" ")
		return fmt.Errorf("%s was built for %q: %w", m.name, v, syscall.ENOEXEC)
	}
	return nil
}

// force is try_to_force_load, as with Debian's CONFIG_MODULE_FORCE_LOAD=y: it lets a
// module pass that cannot be checked, and notes the taint.
func (l *Loader) force(m *module, reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.forced {
		l.conf.Machine.Printk(4, "%s: %s: kernel tainted.", m.name, reason)
	}
	l.forced, m.forced = true, true
	l.distrustLocks()
}

// accepts reports whether the object may be for this kernel (same_magic). As on Linux,
// the CRCs distinguish kernels of the same configuration, if the object has any.
func (a *ABI) accepts(vermagic string, o *object) bool {
	_, flags, _ := strings.Cut(vermagic, " ")
	return a != nil && o.crcs != nil && flags == a.flags
}

// readVersions takes __versions: a CRC in eight bytes and a name in 56, for each symbol.
func (o *object) readVersions() {
	const size, nameOff = 64, 8
	i := slices.IndexFunc(o.sections, func(s section) bool { return s.Name == "__versions" })
	if i < 0 {
		return
	}
	o.crcs = map[string]uint32{}
	for b := o.sections[i].data; len(b) >= size; b = b[size:] {
		name, _, _ := bytes.Cut(b[nameOff:size], []byte{0})
		o.crcs[string(name)] = uint32(binary.LittleEndian.Uint64(b))
	}
}

// agrees is check_version: it reports whether the object's CRC of a symbol is the one of the
// kernel that its vermagic names, or of this one if that is none of Debian's 6.1. It is
// true if the CRCs of that kernel are not known, or if the object has none for the symbol.
func (l *Loader) agrees(m *module, o *object, symbol string) bool {
	if l.conf.ABI == nil || l.own(o) {
		return true
	}
	uname, _, _ := strings.Cut(o.info["vermagic"], " ")
	if !l.conf.ABI.uname.MatchString(uname) {
		uname, _, _ = strings.Cut(l.conf.Vermagic, " ")
	}
	want, known := l.conf.ABI.table()[uname][symbol]
	if known && o.crcs == nil {
		l.force(m, symbol)
		return true
	}
	got, given := o.crcs[symbol]
	if !known || !given || got == want {
		return true
	}
	l.conf.Machine.Printk(4, "%s: disagrees about version of symbol %s", m.name, symbol)
	return false
}

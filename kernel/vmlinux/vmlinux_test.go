package vmlinux

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// bzImage returns a bzImage with a payload.
func bzImage(payload []byte) []byte {
	b := make([]byte, 5*512)
	b[setupSects] = 4
	copy(b[headerMagic:], "HdrS")
	binary.LittleEndian.PutUint16(b[bootProtocol:], 0x20f)
	binary.LittleEndian.PutUint32(b[payloadOffset:], 0)
	binary.LittleEndian.PutUint32(b[payloadLength:], uint32(len(payload)))
	return append(b, payload...)
}

// ar returns an ar archive of one member.
func ar(name string, b []byte) []byte {
	return append(fmt.Appendf([]byte("!<arch>\n"), "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, 0, 0, 0, "100644", len(b)), b...)
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

func zstded(b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(b, nil)
}

func TestUnpack(t *testing.T) {
	elf := []byte("\x7fELF and more")
	size := []byte{14, 0, 0, 0}
	for name, b := range map[string][]byte{
		"ELF": elf, "ELF, gzip": gzipped(elf), "ELF, zstd": zstded(elf),
		"bzImage, gzip": bzImage(append(gzipped(elf), size...)), "bzImage, zstd": bzImage(append(zstded(elf), size...)), "bzImage of ELF": bzImage(elf),
	} {
		if f, err := Unpack(b); err != nil || !bytes.Equal(f.ELF, elf) {
			t.Errorf("%s: %q, %v", name, f.ELF, err)
		}
	}
	truncated := bzImage(append(gzipped(elf), size...))
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"nothing":                  {nil, "neither a bzImage"},
		"text":                     {[]byte("root:x:0:0"), "neither a bzImage"},
		"a truncated bzImage":      {truncated[:len(truncated)-8], "truncated"},
		"a payload of noise":       {bzImage([]byte("noise noise noise")), "no compression that the kernel's build uses"},
		"a broken payload":         {bzImage([]byte("\x1f\x8b\x08\x00 broken")), "cannot be unpacked"},
		"a broken LZO":             {bzImage([]byte(lzopMagic + "........")), "cannot be unpacked"},
		"compressed twice":         {gzipped(gzipped(elf)), "compressed twice"},
		"a truncated RPM":          {[]byte(rpmMagic + "..."), "truncated"},
		"an empty archive":         {[]byte("!<arch>\n"), "no data.tar"},
		"a truncated archive":      {ar("data.tar", []byte("x"))[:40], "no data.tar"},
		"a package without kernel": {ar("data.tar", make([]byte, 1024)), "no kernel"},
	} {
		if _, err := Unpack(c.b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestBomb: what unpacks to too much is refused without the memory.
func TestBomb(t *testing.T) {
	if _, err := readUpTo(zeros{}, 10, 1<<20); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// TestTruncatedStream cuts files whose compression says where they end.
func TestTruncatedStream(t *testing.T) {
	elf := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(elf)
	copy(elf, "\x7fELF")
	for name, b := range map[string][]byte{"gzip": gzipped(elf), "zstd": zstded(elf), "lz4": lz4ed(elf)} {
		if files, err := Unpack(b); err != nil || !bytes.Equal(files.ELF, elf) {
			t.Errorf("%s: %d bytes, %v", name, len(files.ELF), err)
		}
		if files, err := Unpack(b[:len(b)/2]); !errors.Is(err, ErrFormat) {
			t.Errorf("half of %s: %d bytes, %v", name, len(files.ELF), err)
		}
	}
}

// TestLegacyLZ4 unpacks a stream as the kernel's build makes it, which has no end mark.
func TestLegacyLZ4(t *testing.T) {
	elf := append([]byte("\x7fELF"), make([]byte, 1<<20)...)
	if files, err := Unpack(lz4ed(elf, lz4.LegacyOption(true))); err != nil || !bytes.Equal(files.ELF, elf) {
		t.Errorf("%d bytes, %v", len(files.ELF), err)
	}
}

func lz4ed(b []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(options...); err != nil {
		panic(err)
	}
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// layout is how a kernel lays out its kallsyms tables.
type layout struct{ addressesLast, sequence bool }

// encode returns kallsyms' tables of symbols, with a token for each byte.
func encode(syms []abi.Symbol, l layout) []byte {
	const base = abi.TextBase
	align := func(b []byte) []byte { return append(b, make([]byte, aligned(len(b))-len(b))...) }
	var names, addrs []byte
	var markers []uint32
	for i, s := range syms {
		if i%markerNames == 0 {
			markers = append(markers, uint32(len(names)))
		}
		text := string(s.Type) + s.Name
		if len(text) < 0x80 {
			names = append(names, byte(len(text)))
		} else {
			names = append(names, byte(len(text))|0x80, byte(len(text)>>7))
		}
		names = append(names, text...)
		off := uint32(s.Addr)
		if s.Addr >= base {
			off = uint32(-1 - int32(s.Addr-base))
		}
		addrs = binary.LittleEndian.AppendUint32(addrs, off)
	}
	addrs = binary.LittleEndian.AppendUint64(align(addrs), base)
	b := make([]byte, 64)
	if !l.addressesLast {
		b = append(b, addrs...)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(syms)))
	b = align(append(b, names...))
	for _, m := range markers {
		b = binary.LittleEndian.AppendUint32(b, m)
	}
	b = align(b)
	if l.sequence {
		for i := range syms {
			b = append(b, byte(i>>16), byte(i>>8), byte(i))
		}
		b = align(b)
	}
	var index []byte
	var table []byte
	for i := range tokens {
		index = binary.LittleEndian.AppendUint16(index, uint16(len(table)))
		if i == 0 { // an empty token would be none
			table = append(table, 'x')
		}
		table = append(table, max(1, byte(i)), 0)
	}
	b = align(append(align(b), table...))
	b = align(append(b, index...))
	if l.addressesLast {
		b = append(b, addrs...)
	}
	return append(b, make([]byte, 64)...)
}

// symbolsOf returns n symbols; some are per CPU, and one has a long name.
func symbolsOf(n int) []abi.Symbol {
	syms := []abi.Symbol{{Addr: 0x40, Type: 'A', Name: "per_cpu"}, {Addr: abi.TextBase, Type: 'T', Name: "_stext"}}
	for i := range n - 2 {
		syms = append(syms, abi.Symbol{Addr: abi.TextBase + 16*uint64(i+1), Type: 't', Name: fmt.Sprintf("function_%d", i)})
	}
	syms[n-1].Name = strings.Repeat("long_name_", 20)
	return syms
}

func TestOwnSymbols(t *testing.T) {
	for _, l := range []layout{{}, {sequence: true}, {addressesLast: true}, {addressesLast: true, sequence: true}} {
		for _, n := range []int{300, 512, 513, 5000} {
			want := symbolsOf(n)
			got := symbolsIn(encode(want, l))
			if !slices.Equal(got, want) {
				t.Errorf("%+v, %d symbols: %d found", l, n, len(got))
			}
		}
	}
	if got := symbolsIn(bytes.Repeat(digits, 1000)); got != nil {
		t.Errorf("%d symbols in noise", len(got))
	}
}

func TestMapSymbols(t *testing.T) {
	syms, err := mapSymbols([]byte("0000000000000040 A per_cpu\nffffffff81000000 T _stext\nffffffffa0000000 t of_module\t[m]\n"))
	if err != nil || len(syms) != 2 {
		t.Error(syms, err)
	}
	for name, text := range map[string]string{
		"Debian's stub": "ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n",
		"hidden":        "0000000000000000 T _stext\n",
		"other":         "hello world\n",
		"empty":         "",
	} {
		if _, err := mapSymbols([]byte(text)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	slid := unslid([]abi.Symbol{{Addr: abi.TextBase + 0x200000, Name: "_text"}, {Addr: 0x40, Name: "per_cpu"}}, []image.Segment{{Addr: abi.TextBase}})
	if slid[0].Addr != abi.TextBase || slid[1].Addr != 0x40 {
		t.Error(slid)
	}
}

// site is a patcher with n bytes of text at TextBase.
func site(code []byte) (*patcher, uint64) {
	m := &image.Image{Segments: []image.Segment{{Addr: abi.TextBase, Data: bytes.Clone(code), MemSize: uint64(len(code)), Perm: image.Read | image.Exec}}}
	return &patcher{m: m, addr: func(string) uint64 { return 0 }, features: DefaultCPU().Features(release.Linux6_1)}, abi.TextBase
}

func TestPadding(t *testing.T) {
	p, _ := site(nil)
	for _, c := range []struct{ in, want string }{
		{"\x90", "\x90"},
		{"\x90\x90\x90", "\x0f\x1f\x00"},
		{"\x55\x90\x90\x55", "\x55\x66\x90\x55"},
		{strings.Repeat("\x90", 9), "\x0f\x1f\x84\x00\x00\x00\x00\x00\x90"},
	} {
		b := []byte(c.in)
		if p.padNops(b); string(b) != c.want {
			t.Errorf("% x: % x, want % x", c.in, b, c.want)
		}
	}
	p.jumpsOver = true // as Debian's 6.12 does
	for n, want := range map[int]string{9: "\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", 12: "\xeb\x0a" + strings.Repeat("\xcc", 10), 41: "\xeb\x27" + strings.Repeat("\xcc", 39)} {
		b := bytes.Repeat([]byte{opNop}, n)
		if p.padNops(b); string(b) != want {
			t.Errorf("%d bytes: % x, want % x", n, b, want)
		}
	}
}

func TestRelocated(t *testing.T) {
	p, at := site(nil)
	call := []byte{opCall, 0, 1, 0, 0}
	if b := p.relocated(call, at+0x1000, at, false); rel32(at+5, b[1:]) != at+0x1000+5+0x100 {
		t.Errorf("% x", b)
	}
	jmp := []byte{opJmp, 0, 0xf0, 0xff, 0xff} // to at+0x1005-0x1000
	if b := p.relocated(jmp, at+0x1000, at, false); !bytes.Equal(b, []byte{0xeb, 3, 0x0f, 0x1f, 0}) {
		t.Errorf("% x", b)
	}
	if b := p.relocated(jmp, at+0x1000, at, true); !bytes.Equal(b, []byte{0xeb, 3, 0xcc, 0xcc, 0xcc}) {
		t.Errorf("% x", b)
	}
}

// TestParavirt: the last entry of a module's table has no padding.
func TestParavirt(t *testing.T) {
	const call, table, ops, implementation = abi.TextBase, abi.TextBase + 0x1000, abi.TextBase + 0x2000, abi.TextBase + 0x100
	for _, n := range []uint64{16, 12} {
		entry := binary.LittleEndian.AppendUint64(nil, call)
		entry = append(entry, 1, 7, 1, 0, 0, 0, 0, 0)[:n]
		p, _ := site([]byte("\xff\x14\x25\x00\x00\x00\x00"))
		p.m.Segments = append(p.m.Segments,
			image.Segment{Addr: table, Data: entry, MemSize: n, Perm: image.Read},
			image.Segment{Addr: ops, Data: binary.LittleEndian.AppendUint64(make([]byte, 8), implementation), MemSize: 16, Perm: image.Read})
		p.addr = func(name string) uint64 {
			return map[string]uint64{"__parainstructions": table, "__parainstructions_end": table + n, "pv_ops": ops, "_paravirt_nop": 1}[name]
		}
		if err := p.paravirt(); err != nil {
			t.Fatal(err)
		}
		if b := p.m.Segments[0].Data; string(b) != "\xe8\xfb\x00\x00\x00\x66\x90" {
			t.Errorf("an entry of %d bytes: % x", n, b)
		}
	}
}

// TestGuest loads the guest's image as a kernel's: its symbol table as a System.map.
func TestGuest(t *testing.T) {
	b := guest.Image("6.1")
	m, err := image.Load(b)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range m.Symbols {
		fmt.Fprintf(&text, "%016x %c %s\n", s.Addr, s.Type, s.Name)
	}
	if _, err := Load(b, Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "--symbols") {
		t.Errorf("an image without kallsyms tables: %v", err)
	}
	k, err := Load(b, Options{Symbols: []byte(text.String())})
	if err != nil && !strings.Contains(err.Error(), "no version text") {
		t.Fatal(err)
	}
	if err == nil && len(k.LookupName("vfs_read")) != 1 {
		t.Error("no vfs_read")
	}
	other := strings.NewReplacer("0 t ", "8 t ", "0 T ", "8 T ").Replace(text.String())
	if _, err := Load(b, Options{Symbols: []byte(other)}); !errors.Is(err, ErrFormat) {
		t.Errorf("symbols of another image: %v", err)
	}
}

func FuzzUnpack(f *testing.F) {
	elf := []byte("\x7fELF")
	for _, b := range [][]byte{elf, gzipped(elf), zstded(elf), bzImage(gzipped(elf)), ar("data.tar", make([]byte, 1024)), []byte("\xfd7zXZ\x00"), []byte("\x02\x21\x4c\x18"), []byte("BZh9"), lzoped(elf, 100, false), lzmaed(f, elf), rpm(archive(f, "./boot/vmlinuz-6.1", string(elf)))} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := Unpack(b); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}

func FuzzSymbols(f *testing.F) {
	f.Add(encode(symbolsOf(300), layout{}), 100, byte(1))
	f.Add(encode(symbolsOf(300), layout{addressesLast: true, sequence: true}), 3000, byte(255))
	f.Fuzz(func(_ *testing.T, b []byte, at int, v byte) {
		if len(b) > 0 && at >= 0 {
			b[at%len(b)] ^= v
		}
		symbolsIn(b)
	})
}

// FuzzLoad changes bytes of the guest's image and of the entries of its tables.
func FuzzLoad(f *testing.F) {
	b := guest.Image("6.1")
	m, err := image.Load(b)
	if err != nil {
		f.Fatal(err)
	}
	var text strings.Builder
	for _, s := range m.Symbols {
		fmt.Fprintf(&text, "%016x %c %s\n", s.Addr, s.Type, s.Name)
	}
	symbols := []byte(text.String())
	f.Add(uint32(0x40), uint64(1), uint16(0))
	f.Add(uint32(0x100000), uint64(1<<40), uint16(300))
	f.Fuzz(func(t *testing.T, at uint32, v uint64, symbol uint16) {
		c := bytes.Clone(b)
		off := int(at) % (len(c) - 8)
		binary.LittleEndian.PutUint64(c[off:], binary.LittleEndian.Uint64(c[off:])^v)
		s := bytes.Clone(symbols)
		s[int(symbol)*16%len(s)] ^= byte(v)
		if _, err := Load(c, Options{Symbols: s}); err != nil && !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
}

// TestKernel loads the kernel that KPROBEFS_KERNEL names.
func TestKernel(t *testing.T) {
	file := os.Getenv("KPROBEFS_KERNEL")
	if file == "" {
		t.Skip("KPROBEFS_KERNEL names no kernel")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Load(b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.LookupName("vfs_read")) == 0 || len(k.Image.Mcount) < 10000 {
		t.Errorf("%s: %d fentry sites", k.Release, len(k.Image.Mcount))
	}
}

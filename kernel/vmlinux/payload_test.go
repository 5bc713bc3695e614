package vmlinux

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/ulikunitz/xz/lzma"
)

// lzopOutput is what lzop 1.04 -9 makes of lzopInput, as the kernel's build calls it.
const lzopOutput = "894c5a4f000d0a1a0a104020a00940030903000009000081a46b08bdc00000000005742e62696e555606670000080c000001403bc70e24347f454c4674686520717569636b2062726f776e20666f78206a756d7073206f766572207803076c617a7920646f673b2020000000000000c0b00000ee000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff11000000000000"

func lzopInput() []byte {
	b := []byte("\x7fELF" + strings.Repeat("the quick brown fox jumps over the lazy dog; ", 40))
	for i := range 256 {
		b = append(b, byte(i))
	}
	return b
}

// lzoped returns an lzop file with blocks of n bytes that are not compressed, or, with literals, of LZO1X
// that has no matches.
func lzoped(b []byte, n int, literals bool) []byte {
	out := []byte(lzopMagic + "\x10\x40\x20\xa0\x09\x40\x03\x09")
	out = append(binary.BigEndian.AppendUint32(out, 0), make([]byte, 4+4+4+1+4)...)
	for len(b) > 0 {
		size := min(n, len(b))
		block := b[:size]
		b = b[size:]
		if literals { // a run of 18 and more bytes: 0, its length in units of 255, the rest, and the end mark
			rest := size - 18
			packed := []byte{0}
			for ; rest > 255; rest -= 255 {
				packed = append(packed, 0)
			}
			packed = append(append(packed, byte(rest)), block...)
			block = append(packed, 0x11, 0, 0)
		}
		out = binary.BigEndian.AppendUint32(out, uint32(size))
		out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
		out = append(out, block...)
	}
	return append(out, 0, 0, 0, 0)
}

func lzmaed(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := lzma.NewWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestPayloads unpacks LZO and LZMA as the kernel's build wraps them: the stream, and its unpacked size
// in 4 bytes.
func TestPayloads(t *testing.T) {
	input := lzopInput()
	real, err := hex.DecodeString(lzopOutput)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(input)))
	payloads := map[string][]byte{"lzop": real, "lzop, stored": lzoped(input, 700, false), "LZMA": lzmaed(t, input)}
	for name, b := range payloads {
		if files, err := Unpack(bzImage(append(bytes.Clone(b), size...))); err != nil || !bytes.Equal(files.ELF, input) {
			t.Errorf("%s: %d bytes, %v", name, len(files.ELF), err)
		}
		if files, err := Unpack(b); err != nil || !bytes.Equal(files.ELF, input) {
			t.Errorf("%s, alone: %d bytes, %v", name, len(files.ELF), err)
		}
		for n := 9; n < len(b); n += 1 + n/20 { // every end
			if files, err := Unpack(b[:n]); !errors.Is(err, ErrFormat) {
				t.Errorf("%d bytes of %s: %d bytes, %v", n, name, len(files.ELF), err)
			}
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"a block that grows":            {lzoped(input, 700, true), "a block of lzop"},
		"a block of a gigabyte":         {append(lzoped(nil, 1, false)[:38], 0x40, 0, 0, 0, 0, 0, 0, 1, 0), "a block of lzop"},
		"a block that is no LZO":        {append(lzoped(nil, 1, false)[:38], 0, 0, 1, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff), "cannot be unpacked"},
		"a dictionary of two gigabytes": {[]byte("\x5d\x00\x00\x00\x80\xff\xff\xff\xff\xff\xff\xff\xff\x00"), "cannot be unpacked"},
	} {
		if files, err := Unpack(c.b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d bytes, %v, want %q", name, len(files.ELF), err, c.says)
		}
	}
}

// rpm returns an RPM package with a payload.
func rpm(payload []byte) []byte {
	header := func(entries, data int) []byte {
		b := append([]byte(rpmHeader), 1, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, uint32(entries))
		b = binary.BigEndian.AppendUint32(b, uint32(data))
		return append(b, make([]byte, 16*entries+data)...)
	}
	b := append([]byte(rpmMagic), make([]byte, rpmLead-4)...)
	b = append(b, header(2, 37)...)
	b = append(b, make([]byte, -len(b)&7)...)
	return append(append(b, header(5, 123)...), payload...)
}

// archive returns a cpio archive of files, with their names and contents in turn.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := cpio.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&cpio.Header{Name: files[i], Mode: 0o100644, Size: int64(len(files[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRPM(t *testing.T) {
	const kernel = "\x7fELF and more"
	modules := archive(t, "./etc/x", "x", "./lib/modules/6.1/System.map", "map", "./lib/modules/6.1/vmlinuz", string(bzImage([]byte(kernel))))
	for name, payload := range map[string][]byte{"plain": modules, "gzip": gzipped(modules), "zstd": zstded(modules), "LZMA": lzmaed(t, modules)} {
		if files, err := Unpack(rpm(payload)); err != nil || string(files.ELF) != kernel || string(files.Map) != "map" {
			t.Errorf("%s: %q, %v", name, files, err)
		}
	}
	boot := archive(t, "./boot/System.map-6.1", "map", "./boot/vmlinuz-6.1", kernel)
	if files, err := Unpack(rpm(boot)); err != nil || string(files.ELF) != kernel || string(files.Map) != "map" {
		t.Errorf("boot: %q, %v", files, err)
	}
	negative := bytes.Replace(archive(t, "./boot/vmlinuz-6.1", "kernel"), []byte("00000006"), []byte("-0000006"), 1)
	whole, plain := rpm(gzipped(modules)), rpm(modules)
	for name, c := range map[string]struct {
		b    []byte
		says string
	}{
		"without a kernel":        {rpm(archive(t, "./etc/x", "x")), "no kernel"},
		"with a link as a kernel": {rpm(archive(t, "./lib/modules/6.1/vmlinuz", "")), "no kernel"},
		"with a package in it":    {rpm(archive(t, "./boot/vmlinuz-6.1", string(rpm(boot)))), "neither a bzImage"},
		"without an end":          {plain[:bytes.Index(plain, []byte(kernel))], "the package is truncated"},
		"of its lead only":        {whole[:rpmLead], "no header at 96"},
		"without its headers' end": {
			append(bytes.Clone(whole[:rpmLead]), append([]byte(rpmHeader+"\x01\x00\x00\x00\x00"), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)...),
			"its header ends",
		},
		"with noise":             {rpm([]byte("noise noise")), "cannot be unpacked"},
		"with a negative length": {rpm(negative), "has -6 bytes"},
	} {
		if files, err := Unpack(c.b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("a package %s: %q, %v, want %q", name, files, err, c.says)
		}
	}
}

// TestPackageLimit: a package that unpacks to too much on the way to its kernel is refused.
func TestPackageLimit(t *testing.T) {
	_, err := io.Copy(io.Discard, &limited{zeros{}, 1 << 20})
	if !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// TestRewrapped wraps the ELF image of the kernel that KPROBEFS_KERNEL names again, compressed by each
// of the programs that the kernel's build calls and that are here.
func TestRewrapped(t *testing.T) {
	file := os.Getenv("KPROBEFS_KERNEL")
	if file == "" {
		t.Skip("KPROBEFS_KERNEL names no kernel")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files, err := Unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.AppendUint32(nil, uint32(len(files.ELF)))
	for _, command := range []string{"gzip -n -1", "bzip2 -1", "lzma -1", "xz --check=crc32 --x86 --lzma2=preset=1", "lzop -1", "lz4 -l -1 - -", "zstd -1"} {
		words := strings.Fields(command)
		t.Run(words[0], func(t *testing.T) {
			if _, err := exec.LookPath(words[0]); err != nil {
				t.Skip(err)
			}
			cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
			cmd.Stdin = bytes.NewReader(files.ELF)
			payload, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			image := bzImage(append(payload, size...))
			got, err := Unpack(image)
			if err != nil || !bytes.Equal(got.ELF, files.ELF) {
				t.Fatalf("%d bytes of %d, %v", len(got.ELF), len(files.ELF), err)
			}
			if f, err := elf.NewFile(bytes.NewReader(got.ELF)); err != nil || f.Machine != elf.EM_X86_64 {
				t.Error(err)
			}
			for _, n := range []int{len(image) / 3, len(image) - 5} {
				if _, err := Unpack(image[:n]); !errors.Is(err, ErrFormat) {
					t.Errorf("%d of %d bytes: %v", n, len(image), err)
				}
			}
		})
	}
}

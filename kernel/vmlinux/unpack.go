package vmlinux

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz/lzma"
)

// ErrFormat means that a file is no kernel that this package can read. Errors that wrap it say what
// was found, and what to give.
var ErrFormat = errors.New("no x86-64 kernel")

// maxUnpacked bounds what a payload unpacks to, in bytes. Distributions' kernels have 70 MB.
const maxUnpacked = 512 << 20

// maxDictionary bounds the memory of xz, LZMA and zstd, in bytes. The kernel's build uses 32 MiB, 64 MiB
// and 128 MiB.
const maxDictionary = 128 << 20

// Files are what was found in a file: the kernel's ELF image, and its System.map, nil if there is none.
type Files struct{ ELF, Map []byte }

// Unpack returns the kernel in a bzImage, in an ELF file, in either compressed as a whole, or in a
// Debian or RPM package. It fails with an ErrFormat.
func Unpack(b []byte) (Files, error) {
	switch {
	case bytes.HasPrefix(b, []byte(arMagic)):
		return unpackDeb(b)
	case bytes.HasPrefix(b, []byte(rpmMagic)):
		return unpackRPM(b)
	}
	return unpackKernel(b)
}

// unpackKernel is Unpack for what is no package. A package may have no package in it.
func unpackKernel(b []byte) (Files, error) {
	switch {
	case bytes.HasPrefix(b, []byte("\x7fELF")):
		return Files{ELF: b}, nil
	case len(b) > setupEnd && string(b[headerMagic:headerMagic+4]) == "HdrS":
		return unpackBzImage(b)
	}
	if compression(b) == nil {
		return Files{}, fmt.Errorf("%w: neither a bzImage, nor ELF, nor a Debian or RPM package", ErrFormat)
	}
	inner, err := decompress(b)
	if err != nil {
		return Files{}, err
	}
	if compression(inner) != nil {
		return Files{}, fmt.Errorf("%w: compressed twice", ErrFormat)
	}
	return unpackKernel(inner)
}

// Offsets in the setup header of a bzImage: Documentation/x86/boot.rst.
const (
	setupSects    = 0x1f1
	headerMagic   = 0x202
	bootProtocol  = 0x206
	payloadOffset = 0x248
	payloadLength = 0x24c
	setupEnd      = 0x250
	withPayload   = 0x208 // the first protocol that says where the payload is
)

func unpackBzImage(b []byte) (Files, error) {
	if v := binary.LittleEndian.Uint16(b[bootProtocol:]); v < withPayload {
		return Files{}, fmt.Errorf("%w: boot protocol %#x does not say where the payload is", ErrFormat, v)
	}
	sects := uint64(b[setupSects])
	if sects == 0 {
		sects = 4
	}
	start := (sects+1)*512 + uint64(binary.LittleEndian.Uint32(b[payloadOffset:]))
	n := uint64(binary.LittleEndian.Uint32(b[payloadLength:]))
	if start > uint64(len(b)) || n > uint64(len(b))-start || n < 4 {
		return Files{}, fmt.Errorf("%w: the bzImage is truncated: its payload has %d bytes at %d of %d", ErrFormat, n, start, len(b))
	}
	payload := b[start : start+n]
	if bytes.HasPrefix(payload, []byte("\x7fELF")) {
		return Files{ELF: payload}, nil
	}
	// The build appends the unpacked size.
	elf, err := decompress(payload[:n-4])
	if err != nil {
		return Files{}, err
	}
	if !bytes.HasPrefix(elf, []byte("\x7fELF")) {
		return Files{}, fmt.Errorf("%w: the payload of the bzImage is not ELF", ErrFormat)
	}
	return Files{ELF: elf}, nil
}

// opener returns what a compressed stream holds.
type opener func(io.Reader) (io.Reader, error)

// compression returns how b is compressed, or nil if it is not.
func compression(b []byte) opener {
	for _, c := range []struct {
		magic string
		open  opener
	}{
		{"\x1f\x8b", func(r io.Reader) (io.Reader, error) {
			z, err := gzip.NewReader(r)
			if err == nil {
				z.Multistream(false)
			}
			return z, err
		}},
		{"\xfd7zXZ\x00", func(r io.Reader) (io.Reader, error) {
			z, err := xz.NewReader(r, maxDictionary)
			if err == nil {
				z.Multistream(false)
			}
			return z, err
		}},
		{"\x28\xb5\x2f\xfd", func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxDictionary), zstd.WithDecoderConcurrency(1))
		}},
		{"\x02\x21\x4c\x18", func(r io.Reader) (io.Reader, error) { return endless{lz4.NewReader(r)}, nil }},
		{"\x04\x22\x4d\x18", func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }},
		{"BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
		{lzopMagic, newLzop},
		{"\x5d\x00\x00", func(r io.Reader) (io.Reader, error) {
			return lzma.ReaderConfig{DictCap: maxDictionary}.NewReader(r)
		}},
	} {
		if bytes.HasPrefix(b, []byte(c.magic)) {
			return c.open
		}
	}
	return nil
}

// endless reads a stream that has no end mark, as the legacy lz4 stream in a bzImage: it ends where
// its bytes do.
type endless struct{ r io.Reader }

func (e endless) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// decompress unpacks a payload.
func decompress(b []byte) ([]byte, error) {
	open := compression(b)
	if open == nil {
		return nil, fmt.Errorf("%w: the payload begins with % x, which is no compression that the kernel's build uses", ErrFormat, b[:min(6, len(b))])
	}
	r, err := open(bytes.NewReader(b))
	if err != nil {
		return nil, asFormat(err)
	}
	return readAll(r, len(b))
}

// readAll reads up to maxUnpacked bytes of what a stream of n bytes unpacks to.
func readAll(r io.Reader, n int) ([]byte, error) { return readUpTo(r, n, maxUnpacked) }

func readUpTo(r io.Reader, n, most int) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(min(10*n, most))
	got, err := io.Copy(&out, io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, asFormat(err)
	}
	if got > int64(most) {
		return nil, fmt.Errorf("%w: it unpacks to more than %d MiB", ErrFormat, most>>20)
	}
	return out.Bytes(), nil
}

func asFormat(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: the payload cannot be unpacked: %w", ErrFormat, err)
}

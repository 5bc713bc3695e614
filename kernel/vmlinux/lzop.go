package vmlinux

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/anchore/go-lzo"
)

// lzopMagic begins what lzop writes, which the kernel's build calls for LZO.
const lzopMagic = "\x89LZO\x00\r\n\x1a\n"

// Flags in a header of lzop.
const (
	lzopAdlerD = 0x001 // each block has a checksum of what it unpacks to,
	lzopAdlerC = 0x002 // and of what is packed
	lzopCRCD   = 0x100
	lzopCRCC   = 0x200
	lzopFilter = 0x800 // the header has a filter
)

// lzopFilters is the version from which on the header has a level and a second word of the time.
const lzopFilters = 0x0940

// maxBlock bounds a block of lzop, in bytes. It writes blocks of 256 KiB; the format has up to 64 MiB.
const maxBlock = 64 << 20

// lzopReader unpacks what lzop has written: blocks of LZO1X. Checksums are not looked at.
type lzopReader struct {
	r     io.Reader
	flags uint32
	block []byte // what is left of the current block
	end   bool
}

func newLzop(r io.Reader) (io.Reader, error) {
	z := &lzopReader{r: r}
	if err := z.header(); err != nil {
		return nil, err
	}
	return z, nil
}

// skip skips n bytes.
func (z *lzopReader) skip(n int) error {
	_, err := io.CopyN(io.Discard, z.r, int64(n))
	return err
}

func (z *lzopReader) number(n int) (uint32, error) {
	b := make([]byte, 4)
	_, err := io.ReadFull(z.r, b[4-n:])
	return binary.BigEndian.Uint32(b), err
}

func (z *lzopReader) header() error {
	if err := z.skip(len(lzopMagic)); err != nil {
		return err
	}
	version, err := z.number(2)
	if err != nil {
		return err
	}
	skip := 2 + 1 // the library's version, the method
	if version >= lzopFilters {
		skip += 2 + 1 // the version that is needed, the level
	}
	if err := z.skip(skip); err != nil {
		return err
	}
	if z.flags, err = z.number(4); err != nil {
		return err
	}
	skip = 4 + 4 // mode, time
	if z.flags&lzopFilter != 0 {
		skip += 4
	}
	if version >= lzopFilters {
		skip += 4
	}
	if err := z.skip(skip); err != nil {
		return err
	}
	name, err := z.number(1)
	if err != nil {
		return err
	}
	return z.skip(int(name) + 4) // and the checksum
}

// Read implements io.Reader.
func (z *lzopReader) Read(p []byte) (int, error) {
	for len(z.block) == 0 {
		if z.end {
			return 0, io.EOF
		}
		if err := z.next(); err != nil {
			return 0, noEnd(err)
		}
	}
	n := copy(p, z.block)
	z.block = z.block[n:]
	return n, nil
}

// noEnd makes the end of the file an error: a stream ends with a block of size 0.
func noEnd(err error) error {
	if err == io.EOF { //nolint:errorlint // io.CopyN and io.ReadFull return it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

// next unpacks the next block.
func (z *lzopReader) next() error {
	size, err := z.number(4)
	if err != nil {
		return err
	}
	if size == 0 {
		z.end = true
		return nil
	}
	packed, err := z.number(4)
	if err != nil {
		return err
	}
	if size > maxBlock || packed > size {
		return fmt.Errorf("%w: a block of lzop has %d bytes, packed %d", ErrFormat, size, packed)
	}
	sums := 0
	for _, flag := range []uint32{lzopAdlerD, lzopCRCD} {
		if z.flags&flag != 0 {
			sums++
		}
	}
	for _, flag := range []uint32{lzopAdlerC, lzopCRCC} {
		if z.flags&flag != 0 && packed < size {
			sums++
		}
	}
	if err := z.skip(4 * sums); err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(z.r, int64(packed)))
	if err != nil {
		return err
	}
	if len(b) < int(packed) {
		return io.ErrUnexpectedEOF
	}
	if z.block = b; packed == size { // stored
		return nil
	}
	z.block = make([]byte, size)
	n, err := lzo.Decompress(b, z.block)
	if err == nil && n != int(size) {
		err = fmt.Errorf("%w: a block of lzop has %d bytes, not %d", ErrFormat, n, size)
	}
	return err
}

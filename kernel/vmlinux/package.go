package vmlinux

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// maxPackage bounds what a package unpacks to up to its kernel, in bytes.
const maxPackage = 4 << 30

// members are the files of a package. Their names begin with "/".
type members interface {
	io.Reader // of the current file
	next() (name string, size int64, err error)
}

// find finds the kernel and its System.map. System.map lies before the kernel in packages that have
// both.
func find(m members, kind string) (Files, error) {
	var found Files
	for {
		name, size, err := m.next()
		switch {
		case errors.Is(err, io.EOF):
			return Files{}, fmt.Errorf("%w: the %s package has no kernel (boot/vmlinuz-* or lib/modules/*/vmlinuz); if it is a meta package, the one that it depends on has the kernel", ErrFormat, kind)
		case err != nil:
			return Files{}, asFormat(err)
		case size < 0:
			return Files{}, fmt.Errorf("%w: the %s package is broken: %s has %d bytes", ErrFormat, kind, name, size)
		}
		inModules := strings.HasPrefix(name, "/lib/modules/") || strings.HasPrefix(name, "/usr/lib/modules/")
		switch {
		case size == 0: // a link
		case strings.HasPrefix(name, "/boot/System.map-"), inModules && path.Base(name) == "System.map":
			if found.Map, err = member(m, name, size); err != nil {
				return Files{}, err
			}
		case strings.HasPrefix(name, "/boot/vmlinuz-"), inModules && path.Base(name) == "vmlinuz":
			image, err := member(m, name, size)
			if err != nil {
				return Files{}, err
			}
			inner, err := unpackKernel(image)
			inner.Map = found.Map
			return inner, err
		}
	}
}

// member returns the current file of a package.
func member(m members, name string, size int64) ([]byte, error) {
	b, err := readAll(m, int(min(size, maxUnpacked)/10))
	if err == nil && int64(len(b)) < size {
		err = fmt.Errorf("%w: the package is truncated: %s has %d bytes of %d", ErrFormat, name, len(b), size)
	}
	return b, err
}

// limited is a stream of which not more than left bytes are read.
type limited struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("%w: the package unpacks to more than %d GiB", ErrFormat, int64(maxPackage)>>30)
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// stream returns what b holds, which may be compressed.
func stream(b []byte) (io.Reader, error) {
	r := io.Reader(bytes.NewReader(b))
	if open := compression(b); open != nil {
		var err error
		if r, err = open(r); err != nil {
			return nil, asFormat(err)
		}
	}
	return &limited{r, maxPackage}, nil
}

// arMagic begins an ar archive, such as a Debian package, and arHeader is the size of a member's header.
const (
	arMagic  = "!<arch>\n"
	arHeader = 60
)

// unpackDeb finds the kernel in a Debian package's data.tar.
func unpackDeb(b []byte) (Files, error) {
	for off := len(arMagic); off+arHeader <= len(b); {
		name := strings.TrimRight(string(b[off:off+16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(b[off+48 : off+58])))
		off += arHeader
		if err != nil || size < 0 || size > len(b)-off {
			return Files{}, fmt.Errorf("%w: the Debian package is truncated", ErrFormat)
		}
		if strings.HasPrefix(name, "data.tar") {
			r, err := stream(b[off : off+size])
			if err != nil {
				return Files{}, err
			}
			return find(tarMembers{tar.NewReader(r)}, "Debian")
		}
		off += size + size&1
	}
	return Files{}, fmt.Errorf("%w: the Debian package has no data.tar", ErrFormat)
}

type tarMembers struct{ *tar.Reader }

func (t tarMembers) next() (string, int64, error) {
	h, err := t.Next()
	if err != nil {
		return "", 0, err
	}
	return path.Clean("/" + h.Name), h.Size, nil
}

// rpmMagic begins an RPM package, rpmLead is the size of what it begins, and rpmHeader the magic number
// of the two headers that follow: of the signature, which is aligned to 8 bytes, and of the package.
const (
	rpmMagic  = "\xed\xab\xee\xdb"
	rpmLead   = 96
	rpmHeader = "\x8e\xad\xe8"
)

// unpackRPM finds the kernel in an RPM package's payload, a cpio archive.
func unpackRPM(b []byte) (Files, error) {
	signature, err := rpmHeaderEnd(b, rpmLead)
	if err != nil {
		return Files{}, err
	}
	at, err := rpmHeaderEnd(b, (signature+7)&^7)
	if err != nil {
		return Files{}, err
	}
	r, err := stream(b[at:])
	if err != nil {
		return Files{}, err
	}
	return find(cpioMembers{cpio.NewReader(r)}, "RPM")
}

// rpmHeaderEnd returns where a header ends: magic number, version, 4 bytes, the number of entries of
// 16 bytes in its index, and the size of their data.
func rpmHeaderEnd(b []byte, at int) (int, error) {
	const fixed = 16
	if at+fixed > len(b) || string(b[at:at+3]) != rpmHeader {
		return 0, fmt.Errorf("%w: the RPM package is truncated or broken: no header at %d", ErrFormat, at)
	}
	end := uint64(at) + fixed + 16*uint64(binary.BigEndian.Uint32(b[at+8:])) + uint64(binary.BigEndian.Uint32(b[at+12:]))
	if end > uint64(len(b)) {
		return 0, fmt.Errorf("%w: the RPM package is truncated: its header ends at %d of %d", ErrFormat, end, len(b))
	}
	return int(end), nil
}

type cpioMembers struct{ *cpio.Reader }

func (c cpioMembers) next() (string, int64, error) {
	h, err := c.Next()
	if err != nil {
		return "", 0, err
	}
	return path.Clean("/" + h.Name), h.Size, nil
}

// Package journal is the format of the files in which a run of a deterministic machine is kept: what the machine
// was booted with, and everything that came from outside, in its order, with the instant at which the machine took
// it. The same machine that is given the same events comes to the same state.
//
// A file is a line with its version, and frames: length, kind, payload, checksum. The first frame is the Header, the
// last one, if the run has ended in order, an End with a hash of the machine's state. Between them are Entries.
// The whole may be compressed by gzip, as snapshots are.
package journal

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// Version is the version of the format, and of what the entries mean.
const Version = 1

// magic is the beginning of the first line.
const magic = "kprobefs journal "

// Header says which machine the events are for. All members must be equal where the file is played.
type Header struct {
	Program string   // its version
	Image   string   // SHA-256 of the guest's kernel
	Release string   // of Linux
	Config  []string // the kernel's configuration, NAME=VALUE
	CPUs    int
	Locked  string // the lockdown
	Seed    uint64
	Wall    int64 // at boot, nanoseconds since 1970
	UID     uint32
	GID     uint32 // the user who serves the files is root to them
	Modules []Module
}

// Module is a module that was loaded before the files were there.
type Module struct {
	Args string
	File []byte
}

// Kind is the kind of an Entry.
type Kind byte

// Kinds.
const (
	Request   Kind = 'R' // a request for a file
	Interrupt Kind = 'I' // the request in hand was interrupted
	Answer    Kind = 'A' // a request has been answered
	End       Kind = 'E'
	header    Kind = 'H'
)

// Entry is an event.
type Entry struct {
	Kind Kind
	// Position is how many instructions the machine had retired.
	Position uint64
	Unique   uint64 // the number of the request
	Data     []byte // of a Request: as the host's kernel has sent it
	Caller   Caller // of a Request
	Hash     uint64 // of an Answer, over its status and data
	State    string // of the End: a hash of the machine's state
}

// Caller is who makes a request.
type Caller struct {
	TID, PID uint32 // numbers of the machine's own
	Comm     string
	Caps     uint64 // the effective capabilities
	Visible  bool   // Caps is known
	Inside   bool   // it is in the user namespace of the files
	Groups   []uint32
}

// Errors of a Reader. Both are about the file, not about who reads it.
var (
	ErrFormat  = errors.New("the file is damaged, or no journal")
	ErrVersion = errors.New("the file has another version")
)

// Limits of what a Reader accepts.
const (
	maxFrame  = 64 << 20
	maxGroups = 1 << 16
)

// Writer writes a journal.
type Writer struct{ w io.Writer }

// NewWriter begins a journal.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if _, err := fmt.Fprintf(w, "%s%d\n", magic, Version); err != nil {
		return nil, err
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(frame(header, b))
	return &Writer{w}, err
}

// Append adds an entry, with one write.
func (w *Writer) Append(e Entry) error {
	_, err := w.w.Write(frame(e.Kind, e.payload()))
	return err
}

// frame is length, kind, payload, and a checksum of the last two.
func frame(k Kind, payload []byte) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, len(payload)+9), uint32(len(payload)))
	b = append(append(b, byte(k)), payload...)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}

func (e Entry) payload() []byte {
	b := binary.LittleEndian.AppendUint64(nil, e.Position)
	b = binary.LittleEndian.AppendUint64(b, e.Unique)
	switch e.Kind {
	case Request:
		b = e.Caller.append(b)
		b = append(b, e.Data...)
	case Answer:
		b = binary.LittleEndian.AppendUint64(b, e.Hash)
	case End:
		b = append(b, e.State...)
	case Interrupt, header:
	}
	return b
}

// append adds the caller: numbers, then what has a length.
func (c Caller) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, c.TID)
	b = binary.LittleEndian.AppendUint32(b, c.PID)
	b = binary.LittleEndian.AppendUint64(b, c.Caps)
	flags := byte(0)
	if c.Visible {
		flags |= 1
	}
	if c.Inside {
		flags |= 2
	}
	comm := c.Comm[:min(len(c.Comm), 255)]
	b = append(b, flags, byte(len(comm)))
	b = append(b, comm...)
	groups := c.Groups[:min(len(c.Groups), maxGroups)]
	b = binary.LittleEndian.AppendUint32(b, uint32(len(groups)))
	for _, g := range groups {
		b = binary.LittleEndian.AppendUint32(b, g)
	}
	return b
}

// Reader reads a journal.
type Reader struct {
	r      io.Reader
	Header Header
}

// NewReader reads the begin of a journal. It fails with ErrFormat or ErrVersion.
func NewReader(r io.Reader) (*Reader, error) {
	first := make([]byte, len(magic))
	if _, err := io.ReadFull(r, first); err != nil || string(first) != magic {
		return nil, fmt.Errorf("it does not begin with %q: %w", magic, ErrFormat)
	}
	var digits []byte
	for b := make([]byte, 1); len(digits) < 10; digits = append(digits, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, fmt.Errorf("the first line has no end: %w", ErrFormat)
		}
		if b[0] == '\n' {
			break
		}
	}
	if string(digits) != fmt.Sprint(Version) {
		return nil, fmt.Errorf("version %q, this program reads %d: %w", digits, Version, ErrVersion)
	}
	j := &Reader{r: r}
	k, payload, err := j.frame()
	if err != nil || k != header {
		return nil, fmt.Errorf("there is no header: %w", errors.Join(ErrFormat, err))
	}
	if err := json.Unmarshal(payload, &j.Header); err != nil {
		return nil, fmt.Errorf("the header: %w: %w", ErrFormat, err)
	}
	return j, nil
}

// Next returns the next entry, or io.EOF at the end. io.ErrUnexpectedEOF means that the file
// ends inside an entry, as happens when its program was killed.
func (j *Reader) Next() (Entry, error) {
	k, payload, err := j.frame()
	if err != nil {
		return Entry{}, err
	}
	return decode(k, payload)
}

func (j *Reader) frame() (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(j.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("an entry of %d bytes: %w", n, ErrFormat)
	}
	rest, err := io.ReadAll(io.LimitReader(j.r, int64(n)+4)) // grows as the bytes come, not to what a damaged length says
	if err != nil {
		return 0, nil, err
	}
	if len(rest) < int(n)+4 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	sum := crc32.Update(crc32.ChecksumIEEE(head[4:]), crc32.IEEETable, rest[:n])
	if binary.LittleEndian.Uint32(rest[n:]) != sum {
		return 0, nil, fmt.Errorf("the checksum of an entry is wrong: %w", ErrFormat)
	}
	return Kind(head[4]), rest[:n], nil
}

// decode parses a frame.
func decode(k Kind, payload []byte) (e Entry, err error) {
	b := buffer{b: payload}
	e.Kind, e.Position, e.Unique = k, b.u64(), b.u64()
	switch k {
	case Request:
		e.Caller = b.caller()
		e.Data = b.rest()
	case Answer:
		e.Hash = b.u64()
	case End:
		e.State = string(b.rest())
	case Interrupt:
	default:
		return Entry{}, fmt.Errorf("an entry of the unknown kind %q: %w", byte(k), ErrFormat)
	}
	if b.short || len(b.b) > 0 {
		return Entry{}, fmt.Errorf("an entry of the kind %q has the wrong length: %w", byte(k), ErrFormat)
	}
	return e, nil
}

// buffer reads a payload from its beginning.
type buffer struct {
	b     []byte // not read yet
	short bool   // more was asked for than there was
}

func (b *buffer) take(n int) []byte {
	if n > len(b.b) {
		b.short, b.b = true, nil
		return make([]byte, min(n, 8))
	}
	p := b.b[:n]
	b.b = b.b[n:]
	return p
}

func (b *buffer) u32() uint32 { return binary.LittleEndian.Uint32(b.take(4)) }
func (b *buffer) u64() uint64 { return binary.LittleEndian.Uint64(b.take(8)) }

func (b *buffer) rest() []byte { return b.take(len(b.b)) }

func (b *buffer) caller() (c Caller) {
	c.TID, c.PID, c.Caps = b.u32(), b.u32(), b.u64()
	flags := b.take(2)
	c.Visible, c.Inside = flags[0]&1 != 0, flags[0]&2 != 0
	c.Comm = string(b.take(int(flags[1])))
	n := b.u32()
	if n > maxGroups || int(n)*4 > len(b.b) {
		b.short = true
		return c
	}
	for range n {
		c.Groups = append(c.Groups, b.u32())
	}
	return c
}

// maxPlain bounds a journal that was compressed, bytes: few of them can stand for very many.
const maxPlain = 4 << 30

// plain reads r, which may be compressed by gzip.
func plain(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if begin, _ := b.Peek(2); !bytes.Equal(begin, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return &bounded{z: z, left: maxPlain}, nil
}

// bounded reads what was compressed. Its errors are the file's.
type bounded struct {
	z    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("it is longer than %d bytes: %w", int64(maxPlain), ErrFormat)
	}
	n, err := b.z.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF): // a part of a copy; a program that is killed leaves nothing compressed
		err = fmt.Errorf("a part of the compressed file is missing: %w", ErrFormat)
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return n, err
}

// ReadAll reads a whole journal, which may be compressed by gzip. cut reports that it ends inside an entry,
// which is left out.
func ReadAll(r io.Reader) (h Header, entries []Entry, cut bool, err error) {
	r, err = plain(r)
	if err != nil {
		return h, nil, false, err
	}
	j, err := NewReader(r)
	if err != nil {
		return h, nil, false, err
	}
	for {
		e, err := j.Next()
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return j.Header, entries, true, nil
		case errors.Is(err, io.EOF):
			return j.Header, entries, false, nil
		case err != nil:
			return h, nil, false, fmt.Errorf("after %d entries: %w", len(entries), err)
		}
		entries = append(entries, e)
	}
}

package bpf

import (
	"bytes"
	"syscall"
)

// iterBuffer is how much a program may write until it is read: the buffer of bpf_seq_read, bytes.
const iterBuffer = 8 * pageSize

// seqBuffer is the buffer of struct seq_file.
type seqBuffer struct {
	b    []byte
	read int // from the front
	full bool
}

// unread returns what was written and not read.
func (q *seqBuffer) unread() []byte { return q.b[q.read:] }

// take reads into p, and returns how much.
func (q *seqBuffer) take(p []byte) int {
	n := copy(p, q.unread())
	q.read += n
	return n
}

func (q *seqBuffer) reset() { q.b, q.read, q.full = q.b[:0], 0, false }

// mark returns how much was written, and back forgets what was written since.
func (q *seqBuffer) mark() int     { return len(q.b) }
func (q *seqBuffer) back(mark int) { q.b, q.full = q.b[:mark], false }

// overflowed is seq_has_overflowed.
func (q *seqBuffer) overflowed() bool { return q.full }

// write is seq_write: all or nothing. It fails with EOVERFLOW.
func (q *seqBuffer) write(data []byte) error {
	if q.full || len(q.b)+len(data) >= iterBuffer {
		q.full = true
		return syscall.EOVERFLOW
	}
	q.b = append(q.b, data...)
	return nil
}

// seq returns the buffer of the iterator that runs the program, to which a helper's first argument points.
func (r *run) seq(addr uint64) *seqBuffer {
	if r.hit.seq == nil || addr != iterSeqAddr {
		r.end("no struct seq_file")
		return nil
	}
	return r.hit.seq
}

// seqWrite is bpf_seq_write.
func (r *run) seqWrite(a *[numArgs]uint64) uint64 {
	q, n := r.seq(a[0]), int(uint32(a[2]))
	data := []byte{}
	if n > 0 {
		data = r.fetch(a[1], n)
	}
	if q == nil || data == nil {
		return 0
	}
	return errno(q.write(data))
}

// seqPrintf is bpf_seq_printf.
func (r *run) seqPrintf(a *[numArgs]uint64) uint64 {
	q, format := r.seq(a[0]), r.fetch(a[1], int(uint32(a[2])))
	if q == nil || format == nil {
		return 0
	}
	args, ok := r.words(a[3], a[4])
	text, _, ended := bytes.Cut(format, []byte{0})
	if !ok || !ended {
		return errno(syscall.EINVAL)
	}
	out, err := r.format(string(text), args)
	if err != nil {
		return errno(err)
	}
	return errno(q.write([]byte(out)))
}

package seqfile

import (
	"context"
	"fmt"
	"sync"
	"syscall"
)

// PageSize is the size in bytes of a Seq's buffer.
const PageSize = 4096

// ShowFunc appends the text of record i (from 0) to b, like start, next and show of
// seq_operations. more is false if there is no record i; a record may be empty. It is
// called again for a record that did not fit.
type ShowFunc func(ctx context.Context, b []byte, i int64) (text []byte, more bool, err error)

// WriteFunc is f_op->write.
type WriteFunc func(ctx context.Context, p []byte, off int64) (int, error)

// Seq is an open seq_file: read(2) renders as many whole records as fit into one page,
// at least one, whatever size it asked for; text that it did not return stays for the
// next read. Between reads only the record's number is kept, so a file that changes
// under a reader neither tears nor repeats a record. A read that returns the last of
// the remaining text renders the next record at once, even if it has no room for it: a
// loop of read -r that deletes each event it reads sees this on Linux too.
type Seq struct {
	Show  ShowFunc
	Store WriteFunc // if nil, writes fail with EINVAL
	Close func()    // may be nil

	mu    sync.Mutex
	index int64  // the next record
	pos   int64  // the file position that index and left belong to
	left  []byte // rendered text that is not yet read
	size  int    // size of the kernel's buffer, bytes
	buf   []byte // for left, and for the record after it, which may not fit
}

var (
	_ File   = (*Seq)(nil)
	_ Seeker = (*Seq)(nil)
)

// OpenSeq is a Row's Open for records that do not depend on the opener.
func OpenSeq(show ShowFunc) func(context.Context, *OpenInfo) (File, error) {
	return func(context.Context, *OpenInfo) (File, error) { return &Seq{Show: show}, nil }
}

// OpenSingle is single_open: one record, rendered at the first read.
func OpenSingle(show func() (string, error)) func(context.Context, *OpenInfo) (File, error) {
	return OpenSeq(func(_ context.Context, b []byte, i int64) ([]byte, bool, error) {
		if i > 0 {
			return b, false, nil
		}
		s, err := show()
		return append(b, s...), true, err
	})
}

// Read is seq_read.
func (s *Seq) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read before the start: %w", syscall.EINVAL)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if off == 0 {
		s.rewind()
	}
	if off != s.pos {
		if err := s.traverse(ctx, off); err != nil {
			return 0, err
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	n := s.take(p)
	if len(s.left) > 0 {
		return n, nil
	}
	// Like seq_read, it keeps an error after some bytes for the next read.
	if err := s.fill(ctx, len(p)-n); err != nil {
		if n > 0 {
			return n, nil
		}
		return 0, err
	}
	return n + s.take(p[n:]), nil
}

func (s *Seq) rewind() {
	s.index, s.pos, s.left = 0, 0, nil
}

// take moves rendered text to p.
func (s *Seq) take(p []byte) int {
	n := copy(p, s.left)
	s.left = s.left[n:]
	s.pos += int64(n)
	return n
}

// fill renders the next record that is not empty and then those that fit into the page
// with it, until there are want bytes.
func (s *Seq) fill(ctx context.Context, want int) error {
	b := s.buf[:0]
	for len(b) == 0 {
		text, more, err := s.Show(ctx, b[:0], s.index)
		if err != nil || !more {
			return err
		}
		b = text
		s.index++
	}
	// A buffer that is too small for a record is doubled until the record and one more
	// byte fit.
	s.size = max(s.size, PageSize)
	for s.size <= len(b) {
		s.size *= 2
	}
	end := len(b)
	for end < want {
		text, more, err := s.Show(ctx, b[:end], s.index)
		if err != nil || !more {
			break
		}
		b = text
		if len(text) >= s.size {
			break
		}
		end = len(text)
		s.index++
	}
	s.buf, s.left = b, b[:end]
	return nil
}

// traverse renders everything from the first record on, up to off.
func (s *Seq) traverse(ctx context.Context, off int64) error {
	s.rewind()
	for s.pos < off {
		if err := s.fill(ctx, 1); err != nil {
			return err
		}
		if len(s.left) == 0 {
			s.pos = off // past the end: reads return 0
			return nil
		}
		n := min(int64(len(s.left)), off-s.pos)
		s.left = s.left[n:]
		s.pos += n
	}
	return nil
}

// Write calls Store.
func (s *Seq) Write(ctx context.Context, p []byte, off int64) (int, error) {
	if s.Store == nil {
		return 0, fmt.Errorf("the file has no write: %w", syscall.EINVAL)
	}
	return s.Store(ctx, p, off)
}

// Seek is seq_lseek: it supports only SEEK_SET and SEEK_CUR.
func (s *Seq) Seek(int64, int) (int64, error) {
	return 0, fmt.Errorf("seq_lseek: %w", syscall.EINVAL)
}

// Release calls Close.
func (s *Seq) Release() {
	if s.Close != nil {
		s.Close()
	}
}

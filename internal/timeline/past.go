package timeline

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kprobefs/kprobefs/fs/journal"
)

// packed is how many entries are compressed together.
const packed = 2048

// past is what has come to a machine, in its order. A machine that is used for long has much of it, and needs it
// only to go back or to be saved, so it is compressed, but for the latest: requests are much alike.
type past struct {
	blocks   [][]byte // journals of packed entries each
	latest   []journal.Entry
	requests int
}

// add adds an entry.
func (p *past) add(e journal.Entry) {
	p.latest = append(p.latest, e)
	if e.Kind == journal.Request {
		p.requests++
	}
	if len(p.latest) < 2*packed {
		return
	}
	if b, err := pack(journal.Header{}, differences(p.latest[:packed])); err == nil { // else they stay as they are
		p.blocks = append(p.blocks, b)
		p.latest = append([]journal.Entry(nil), p.latest[packed:]...)
	}
}

// len returns how many entries there are.
func (p *past) len() int { return len(p.blocks)*packed + len(p.latest) }

// all returns all entries. It panics if what add has compressed is not what it was.
func (p *past) all() []journal.Entry {
	entries := make([]journal.Entry, 0, p.len())
	for i, b := range p.blocks {
		_, some, cut, err := journal.ReadAll(bytes.NewReader(b))
		if err != nil || cut || len(some) != packed {
			panic(fmt.Sprintf("block %d of the past: %d entries, %v", i, len(some), err))
		}
		sums(some)
		entries = append(entries, some...)
	}
	return append(entries, p.latest...)
}

// uniqueAt is where the data of a request has its number, which is its entry's (struct fuse_in_header).
const uniqueAt = 8

// differences returns entries whose numbers are differences: positions and numbers of requests from the entry
// before, and the number in the data of a request from the one of its entry. One cat has the same as
// the next one, so they take a third of the room when they are compressed. All wrap, so any can be had back.
func differences(entries []journal.Entry) []journal.Entry {
	all := slices.Clone(entries)
	var position, unique uint64
	for i := range all {
		e := &all[i]
		e.Data = bytes.Clone(e.Data)
		addUnique(e, -e.Unique)
		e.Position, position = e.Position-position, e.Position
		e.Unique, unique = e.Unique-unique, e.Unique
	}
	return all
}

// sums is the inverse of differences, in place.
func sums(entries []journal.Entry) {
	var position, unique uint64
	for i := range entries {
		e := &entries[i]
		position, unique = position+e.Position, unique+e.Unique
		e.Position, e.Unique = position, unique
		addUnique(e, unique)
	}
}

// addUnique adds to the number in the data of a request.
func addUnique(e *journal.Entry, n uint64) {
	if e.Kind == journal.Request && len(e.Data) >= uniqueAt+8 {
		at := e.Data[uniqueAt:]
		binary.NativeEndian.PutUint64(at, binary.NativeEndian.Uint64(at)+n)
	}
}

// pack returns a journal that is compressed.
func pack(h journal.Header, entries []journal.Entry) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err := write(z, h, entries); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()), nil
}

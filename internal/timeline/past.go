package timeline

import (
	"bytes"
	"compress/gzip"
	"fmt"

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
	if b, err := pack(journal.Header{}, p.latest[:packed]); err == nil { // else they stay as they are
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
		entries = append(entries, some...)
	}
	return append(entries, p.latest...)
}

// pack returns a journal that is compressed.
func pack(h journal.Header, entries []journal.Entry) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
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

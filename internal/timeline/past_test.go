package timeline

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kprobefs/kprobefs/fs/journal"
)

// TestPast: what is compressed of the past is what it was, and takes a small part of the memory.
func TestPast(t *testing.T) {
	var p past
	var want []journal.Entry
	size := 0
	for i := range 5*packed + 7 {
		e := journal.Entry{Kind: journal.Request, Position: uint64(1000 * i), Unique: uint64(2 * i), Data: bytes.Repeat([]byte{byte(i)}, 80), Caller: journal.Caller{TID: 1000, PID: 1000, Comm: fmt.Sprintf("cat%d", i%3), Groups: []uint32{1, 2}}}
		if i%2 == 1 {
			e = journal.Entry{Kind: journal.Answer, Position: uint64(1000 * i), Unique: uint64(2*i - 2), Hash: uint64(i) * 0x9e3779b97f4a7c15}
		}
		p.add(e)
		want = append(want, e)
	}
	if diff := cmp.Diff(want, p.all(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if p.len() != len(want) || p.requests != (len(want)+1)/2 || len(p.latest) >= 2*packed {
		t.Errorf("%d entries, %d requests, %d of them as they were", p.len(), p.requests, len(p.latest))
	}
	for _, b := range p.blocks {
		size += len(b)
	}
	if n := len(p.blocks) * packed; size > 40*n {
		t.Errorf("%d entries take %d bytes", n, size)
	}
}

// TestPastOfCats: programs that do the same again and again take little memory: a request and its answer need not
// have more than 16 bytes.
func TestPastOfCats(t *testing.T) {
	var p past
	var want []journal.Entry
	for i := range uint64(2 * packed) {
		cat, request := i/8, i%8
		e := journal.Entry{Kind: journal.Request, Position: 20_000*cat + 2_500*request + cat%3, Unique: 4 + 2*i, Caller: journal.Caller{TID: uint32(1000 + cat), PID: uint32(1000 + cat), Comm: "cat", Caps: 1<<41 - 1, Visible: true}}
		e.Data = make([]byte, 56+8*request)
		binary.NativeEndian.PutUint64(e.Data[uniqueAt:], e.Unique)
		binary.NativeEndian.PutUint64(e.Data[40:], 7+cat) // the open file
		a := journal.Entry{Kind: journal.Answer, Position: e.Position + 2_100, Unique: e.Unique, Hash: 0x9e3779b97f4a7c15}
		want = append(want, e, a)
		p.add(e)
		p.add(a)
	}
	if diff := cmp.Diff(want, p.all(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	size := 0
	for _, b := range p.blocks {
		size += len(b)
	}
	if n := len(p.blocks) * packed; len(p.blocks) == 0 || size > 8*n {
		t.Errorf("%d entries take %d bytes", n, size)
	}
}

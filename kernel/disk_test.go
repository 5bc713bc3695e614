package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// TestDiskRequests: the disk keeps what is written, and does nothing of a request that is not
// whole.
func TestDiskRequests(t *testing.T) {
	m := boot(t, 1)
	page, call := m.page(), m.coreCode(vmcallCode...)
	data := page + 2048
	type segment struct{ addr, size uint64 }
	do := func(kind, count uint32, sector uint64, segments ...segment) (status uint32) {
		t.Helper()
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint32(b, count)
		b = binary.LittleEndian.AppendUint64(b, sector)
		b = append(b, make([]byte, 8)...)
		for _, s := range segments {
			b = binary.LittleEndian.AppendUint64(b, s.addr)
			b = binary.LittleEndian.AppendUint64(b, s.size)
		}
		if err := m.mem.WriteAt(page, b); err != nil {
			t.Fatal(err)
		}
		if v, err := m.CallOn(context.Background(), 0, call, 1, abi.HCDisk, page, 0, 0); v != 0 || err != nil {
			t.Fatalf("%#x, %v", v, err)
		}
		var done [8]byte
		if err := m.mem.ReadAt(page+abi.DiskStatus, done[:]); err != nil {
			t.Fatal(err)
		}
		if done[4] != 1 {
			t.Error("the request is not done")
		}
		return binary.LittleEndian.Uint32(done[:])
	}
	want := bytes.Repeat([]byte("sector"), 171)[:1024]
	if err := m.mem.WriteAt(data, want); err != nil {
		t.Fatal(err)
	}
	if s := do(1, 2, 10, segment{data, 512}, segment{data + 512, 512}); s != 0 {
		t.Errorf("write: %d", s)
	}
	for _, c := range []struct {
		name     string
		count    uint32
		sector   uint64
		segments []segment
	}{
		{"behind the end", 1, diskSectors, []segment{{data, 512}}},
		{"across the end", 1, diskSectors - 1, []segment{{data, 1024}}},
		{"a sector that overflows", 1, 1 << 61, []segment{{data, 512}}},
		{"too many segments", abi.DiskMaxSegments + 1, 0, []segment{{data, 512}}},
		{"a size that overflows", 1, 10, []segment{{data, ^uint64(0)}}},
		{"memory that is not there", 1, 10, []segment{{1 << 40, 512}}},
		{"text", 1, 10, []segment{{abi.TextBase, 512}}},
	} {
		if s := do(0, c.count, c.sector, c.segments...); s != 1 {
			t.Errorf("%s: status %d", c.name, s)
		}
	}
	if err := m.mem.WriteAt(data, make([]byte, len(want))); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if s := do(0, 1, 10, segment{data, 1024}); s != 0 {
		t.Errorf("read: %d", s)
	}
	if err := m.mem.ReadAt(data, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %q, %v", got[:20], err)
	}
}

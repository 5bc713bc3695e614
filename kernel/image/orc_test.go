package image

import (
	"encoding/binary"
	"testing"
)

func TestReadORC(t *testing.T) {
	const base, text = 0xffffffffc0002000, 0xffffffffc0000000
	var ips, entries []byte
	for _, e := range []struct {
		at  uint64
		off int16
		reg byte
	}{{text + 0x10, 16, orcSP}, {text, 8, orcSP}, {text + 0x18, 8, 4}, {text + 0x20, 0, 0}, {text + 0x20, 8, orcSP}, {text + 0x30, -8, orcSP}} {
		ips = binary.LittleEndian.AppendUint32(ips, uint32(e.at-base-uint64(len(ips))))
		entries = append(binary.LittleEndian.AppendUint16(entries, uint16(e.off)), 0, 0, e.reg|0xf0, 0)
		entries = entries[:len(entries):len(entries)]
	}
	f, err := ReadORC(base, ips, entries)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at, size uint64
		known    bool
	}{
		{text - 1, 0, false},
		{text, 8, true},
		{text + 0xf, 8, true},
		{text + 0x10, 16, true},
		{text + 0x18, 0, false}, // relative to rbp
		{text + 0x20, 8, true},  // where one function ends and another one begins
		{text + 0x30, 0, false},
	} {
		if size, known := f.Size(tt.at); size != tt.size || known != tt.known {
			t.Errorf("%#x: %d, %t; want %d, %t", tt.at, size, known, tt.size, tt.known)
		}
	}
	if _, err := ReadORC(base, ips, entries[:len(entries)-1]); err == nil {
		t.Error("tables of different lengths are read")
	}
	if _, err := ReadORC(base, ips[:len(ips)-1], entries); err == nil {
		t.Error("a cut table is read")
	}
}

package image

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// Sizes of entries of 6.1's unwind tables in bytes: of .orc_unwind_ip, a relative
// address, and of .orc_unwind (struct orc_entry).
const (
	orcIPLen = 4
	orcLen   = 6
)

// orcSP is ORC_REG_SP: the frame is at an offset from the stack pointer.
const orcSP = 5

// ReadORC reads the unwind tables of a module: .orc_unwind_ip, which is at addr, and
// .orc_unwind. Frames that are not relative to the stack pointer are unknown.
func ReadORC(addr uint64, ips, entries []byte) (Frames, error) {
	n := len(ips) / orcIPLen
	if len(ips)%orcIPLen != 0 || len(entries) != n*orcLen {
		return Frames{}, fmt.Errorf("%d bytes of .orc_unwind for %d of .orc_unwind_ip", len(entries), len(ips))
	}
	rows := make([]frameRow, 0, n)
	for i := range n {
		ip, e := ips[i*orcIPLen:], entries[i*orcLen:]
		row := frameRow{addr: addr + uint64(i*orcIPLen) + uint64(int64(int32(binary.LittleEndian.Uint32(ip))))}
		off := int16(binary.LittleEndian.Uint16(e))
		if e[4]&0xf == orcSP && off > 0 {
			row.size = int32(off)
		}
		rows = append(rows, row)
	}
	// A function may begin where another one ends: the known size is last, and is used.
	slices.SortFunc(rows, func(a, b frameRow) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.size, b.size)) })
	return newFrames(rows), nil
}

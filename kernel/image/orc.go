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

// orcSP is the register (ORC_REG_SP) that a frame must be found by.
const orcSP = 5

// ReadORC reads the unwind tables of a module: ips lie at addr, and entries has one
// entry for each. Places that are not found by the stack pointer are unknown.
func ReadORC(addr uint64, ips, entries []byte) (Frames, error) {
	n := len(ips) / orcIPLen
	if len(ips)%orcIPLen != 0 || len(entries) != n*orcLen {
		return Frames{}, fmt.Errorf("%d bytes of .orc_unwind for %d of .orc_unwind_ip", len(entries), len(ips))
	}
	var f Frames
	for i := range n {
		ip, e := ips[i*orcIPLen:], entries[i*orcLen:]
		row := frameRow{addr: addr + uint64(i*orcIPLen) + uint64(int64(int32(binary.LittleEndian.Uint32(ip))))}
		off := int16(binary.LittleEndian.Uint16(e))
		if e[4]&0xf == orcSP && off > 0 {
			row.size = int32(off)
		}
		f.rows = append(f.rows, row)
	}
	// One function may begin where another ends: what is known counts.
	slices.SortFunc(f.rows, func(a, b frameRow) int { return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.size, b.size)) })
	return f, nil
}

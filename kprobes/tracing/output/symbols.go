package output

import (
	"fmt"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// AppendSprint is sprint_symbol: it appends "sym+0x1/0x20 [module]", where addr is
// offset bytes after the start of sym, or the address if it belongs to no symbol (ok
// is false). It runs in handler context and allocates nothing if b has room.
func AppendSprint(b []byte, sym abi.Symbol, offset, addr uint64, ok bool) []byte {
	if !ok {
		return strconv.AppendUint(append(b, "0x"...), addr, 16)
	}
	b = strconv.AppendUint(append(append(b, sym.Name...), "+0x"...), offset, 16)
	b = strconv.AppendUint(append(b, "/0x"...), sym.Size, 16)
	if sym.Module != "" {
		b = append(append(append(b, " ["...), sym.Module...), ']')
	}
	return b
}

// HashedPointer is %p: it hides the address behind a hash, but gives the same text for
// the same address. NULL and error pointers are not hidden.
func HashedPointer(addr uint64, hash func(addr uint64) uint32) string {
	if addr == 0 || addr > maxErrPtr {
		return fmt.Sprintf("%016x", addr)
	}
	return fmt.Sprintf("%016x", hash(addr))
}

// maxErrPtr is the last address that is not an error pointer: -MAX_ERRNO is the first.
const maxErrPtr = ^uint64(4095)

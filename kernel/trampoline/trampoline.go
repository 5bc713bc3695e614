// Package trampoline emits and names the code between patched text and those who listen
// there: the detours of optimized probes, the trampolines of fentry sites, and the
// functions that hooked calls return to.
//
// A detour is made of a template of this package, since each has its probe's instructions
// in it. An fentry site's trampoline is a copy of a function of the guest (Caller), in
// which a call and a load are directed elsewhere. What hooked calls return to is the
// guest's function itself. All of it is guest code like any other: no engine knows it.
package trampoline

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"
)

// Functions of the guest.
const (
	Optimized = "optimized_callback"      // what a detour calls: (op, pt_regs *)
	Rethook   = "arch_rethook_trampoline" // what hooked calls return to
	Kretprobe = "kretprobe_trampoline"    // the same, in 5.10 and before
)

const (
	opCall = 0xe8
	opJump = 0xe9
	opRet  = 0xc3

	// BranchSize is the length of a call and of a jump in bytes.
	BranchSize = 5
)

// Jump returns the five bytes of a jump from one address to another. It fails with
// ERANGE when that is too far.
func Jump(from, to uint64) ([]byte, error) { return branch(opJump, from, to) }

// branch returns a jump or a call.
func branch(opcode byte, from, to uint64) ([]byte, error) {
	rel := int64(to - from - BranchSize)
	if rel < math.MinInt32 || rel > math.MaxInt32 {
		return nil, fmt.Errorf("no branch reaches from %#x to %#x: %w", from, to, syscall.ERANGE)
	}
	return binary.LittleEndian.AppendUint32([]byte{opcode}, uint32(rel)), nil
}

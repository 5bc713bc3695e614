package interp

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// cENTRY is the code of the op that stands before a block's first instruction.
const cENTRY = decode.FETCH + 1

// cBREAK is the code of the op that stands for the instructions of a block that begins at a breakpoint
// of a debugger.
const cBREAK = decode.FETCH + 2

// An Op is one instruction of a block. Ops of a block stand one after the other,
// and each executes by calling fn, which returns the op to go on with.
type Op struct {
	fn   Handler
	link unsafe.Pointer // *Op, atomic: head of the block at the branch's target, once known
	decode.Inst
	off uint16 // bytes from the block's start to the instruction
	n   uint16 // instructions from the block's start to this one's end
}

const opSize = unsafe.Sizeof(Op{})

// Next is the op that stands after o in its block.
func (o *Op) Next() *Op { return (*Op)(unsafe.Add(unsafe.Pointer(o), opSize)) }

// after is the op n places after o.
func (o *Op) after(n uintptr) *Op { return (*Op)(unsafe.Add(unsafe.Pointer(o), n*opSize)) }

// head is the slot before the first instruction of o's block: its imm is the
// block's address.
func (o *Op) head() *Op {
	n := uintptr(o.n)
	if o.Code == decode.FETCH || o.Code == cBREAK {
		n++
	}
	return (*Op)(unsafe.Add(unsafe.Pointer(o), -int(n*opSize)))
}

// RIP is the address of the instruction.
func (o *Op) RIP() uint64 { return o.head().Imm + uint64(o.off) }

// end is the address of the instruction after it.
func (o *Op) end() uint64 { return o.RIP() + uint64(o.Len) }

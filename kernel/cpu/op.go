package cpu

import (
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// Codes of ops that are no instructions.
const (
	cFETCH = decode.Codes + iota // the block ends here; goes on at Imm without retiring anything
	cENTRY                       // stands before a block's first instruction
)

// An op is one instruction of a block. Ops of a block stand one after the other,
// and each executes by calling fn, which returns the op to go on with.
type op struct {
	fn   func(*CPU, *op) *op
	link unsafe.Pointer // *op, atomic: head of the block at the branch's target, once known
	decode.Inst
	off uint16 // bytes from the block's start to the instruction
	n   uint16 // instructions from the block's start to this one's end
}

const opSize = unsafe.Sizeof(op{})

// next is the op that stands after o in its block.
func (o *op) next() *op { return (*op)(unsafe.Add(unsafe.Pointer(o), opSize)) }

// after is the op n places after o.
func (o *op) after(n uintptr) *op { return (*op)(unsafe.Add(unsafe.Pointer(o), n*opSize)) }

// head is the slot before the first instruction of o's block: its imm is the
// block's address.
func (o *op) head() *op {
	n := uintptr(o.n)
	if o.Code == cFETCH {
		n++
	}
	return (*op)(unsafe.Add(unsafe.Pointer(o), -int(n*opSize)))
}

// rip is the address of the instruction.
func (o *op) rip() uint64 { return o.head().Imm + uint64(o.off) }

// end is the address of the instruction after it.
func (o *op) end() uint64 { return o.rip() + uint64(o.Len) }

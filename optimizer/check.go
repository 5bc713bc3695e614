package optimizer

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Reason tells why an address cannot be optimized.
type Reason uint8

// The reasons, in the order in which they are checked.
const (
	NoSymbol     Reason = iota + 1 // the address is in no function
	EntryText                      // entry code, whose stack is not usable
	TooShort                       // the function ends within the jump
	ExTable                        // an instruction of the function has an exception table entry
	Undecodable                    // the function has bytes that are not an instruction
	IndirectJump                   // the function jumps through a register, memory or a thunk
	NotBoundary                    // the address is inside an instruction, which kernels up to 4.15 allow
	JumpInto                       // the function jumps into the bytes that would be replaced
	NotCopyable                    // an instruction to be replaced cannot run at another address
	NotBoostable                   // no jump may follow the copy of an instruction to be replaced
	PastEnd                        // the replaced instructions extend beyond the text
	FtraceSite                     // an fentry site is among the replaced bytes
	SMPLock                        // a lock prefix that is patched at boot is among them
	JumpLabel                      // a jump label is among them
	StaticCall                     // a static call is among them
	TooFar                         // there is no memory for the detour within reach
	NoCallback                     // the kernel has no optimized_callback
)

// reasons holds the errno and the text of each.
var reasons = [...]struct {
	errno syscall.Errno
	text  string
}{
	NoSymbol:     {syscall.EILSEQ, "no symbol there"},
	EntryText:    {syscall.EILSEQ, "entry text"},
	TooShort:     {syscall.EILSEQ, "the function ends within five bytes"},
	ExTable:      {syscall.EILSEQ, "the function has an exception table entry"},
	Undecodable:  {syscall.EILSEQ, "the function has an undecodable instruction"},
	IndirectJump: {syscall.EILSEQ, "the function has an indirect jump"},
	NotBoundary:  {syscall.EILSEQ, "inside an instruction"},
	JumpInto:     {syscall.EILSEQ, "the function jumps into the region"},
	NotCopyable:  {syscall.EINVAL, "an instruction in the region cannot be copied"},
	NotBoostable: {syscall.EINVAL, "an instruction in the region cannot be executed out of line without a step"},
	PastEnd:      {syscall.EINVAL, "the region ends behind the text"},
	FtraceSite:   {syscall.EBUSY, "an ftrace site in the region"},
	SMPLock:      {syscall.EBUSY, "a lock prefix in the region"},
	JumpLabel:    {syscall.EBUSY, "a jump label in the region"},
	StaticCall:   {syscall.EBUSY, "a static call in the region"},
	TooFar:       {syscall.ERANGE, "no detour buffer within reach"},
	NoCallback:   {syscall.ENOENT, "no optimized_callback"},
}

// String describes the reason.
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasons) {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasons[r].text
}

// Refusal is the error of Prepare: why the probe stays a breakpoint. Linux reports
// none.
type Refusal struct {
	Reason Reason
	Addr   uint64 // the instruction concerned, or 0
	Cause  error  // may be nil
}

// Error describes the reason and the address.
func (r *Refusal) Error() string {
	s := r.Reason.String()
	if r.Addr != 0 {
		s = fmt.Sprintf("%s, at %#x", s, r.Addr)
	}
	if r.Cause != nil {
		s += ": " + r.Cause.Error()
	}
	return s
}

// Unwrap returns the errno that Linux's functions pass on for this reason.
func (r *Refusal) Unwrap() error { return reasons[r.Reason].errno }

func refuse(reason Reason, addr uint64) error { return &Refusal{Reason: reason, Addr: addr} }

// checkFunction is can_optimize: it returns nil when no other code in the function
// makes a jump at addr unsafe.
func (o *Optimizer) checkFunction(addr uint64, read original) error {
	sym, off, ok := o.cfg.Symbols.Lookup(addr)
	switch {
	case !ok:
		return refuse(NoSymbol, 0)
	case o.cfg.Tables.EntryText(addr):
		return refuse(EntryText, 0)
	case sym.Size < off+jumpSize:
		return refuse(TooShort, 0)
	}
	start := addr - off
	text := append(o.text[:0], make([]byte, sym.Size+insn.MaxLen)...)
	o.text = text
	if read(start, text) != nil {
		text = text[:sym.Size]
		if read(start, text) != nil {
			return refuse(Undecodable, start)
		}
	}
	known := &o.known[abi.Hash64(start, knownBits)]
	if known.start != start || !bytes.Equal(known.text, text) {
		*known = o.walk(start, start+sym.Size, bytes.Clone(text))
	}
	return known.check(addr)
}

// function is the result of decoding a whole function.
type function struct {
	start  uint64
	text   []byte
	starts []uint64 // addresses of its instructions
	jumps  []jump   // up to the first instruction that prevents optimization
	stop   error    // what prevents the optimization of all its instructions
}

// jump is a relative jump: its address and its target.
type jump struct{ at, to uint64 }

// knownFunctions is the number of functions in the cache.
const knownFunctions = 1 << knownBits

const knownBits = 6

// walk decodes each instruction of the function, including padding.
func (o *Optimizer) walk(start, end uint64, text []byte) function {
	f := function{start: start, text: text}
	for at := start; at < end; {
		if o.cfg.Tables.ExTable(at) {
			f.stop = refuse(ExTable, at)
			break
		}
		in, err := insn.Decode(text[at-start:])
		if err != nil {
			f.stop = refuse(Undecodable, at)
			break
		}
		f.starts = append(f.starts, at)
		next := at + uint64(in.Len)
		rel, jumps := in.RelJump()
		to := next + uint64(rel)
		if in.IndirectJump() || jumps && o.cfg.Tables.Thunk(to) {
			f.stop = refuse(IndirectJump, at)
			break
		}
		if jumps {
			f.jumps = append(f.jumps, jump{at, to})
		}
		at = next
	}
	return f
}

// check returns nil when a jump is safe at addr. A jump to the byte after it counts as
// one into it, as in Linux.
func (f *function) check(addr uint64) error {
	for _, j := range f.jumps {
		if addr < j.to && j.to <= addr+jumpSize {
			return refuse(JumpInto, j.at)
		}
	}
	if f.stop != nil {
		return f.stop
	}
	if _, ok := slices.BinarySearch(f.starts, addr); !ok {
		return refuse(NotBoundary, addr) // a probe at the containing instruction would continue inside the jump
	}
	return nil
}

// region returns the instructions that a jump at addr replaces: at least five bytes of
// whole instructions that can run in a detour.
func (o *Optimizer) region(addr uint64, read original) (orig []byte, ins []insn.Insn, err error) {
	text := make([]byte, jumpSize-1+insn.MaxLen)
	for read(addr, text) != nil {
		if text = text[:len(text)-1]; len(text) < jumpSize {
			return nil, nil, refuse(PastEnd, addr)
		}
	}
	size := 0
	for size < jumpSize {
		at := addr + uint64(size)
		in, err := insn.Decode(text[size:])
		switch {
		case err != nil:
			return nil, nil, refuse(NotCopyable, at)
		case !insn.Copyable(in):
			return nil, nil, refuse(NotCopyable, at)
		case o.cfg.Tables.ExTable(at), !insn.CanBoost(in, o.has[release.BoostGroups]):
			return nil, nil, refuse(NotBoostable, at)
		}
		ins = append(ins, in)
		size += in.Len
	}
	return text[:size], ins, o.checkSites(addr, addr+uint64(size))
}

// checkSites refuses text that other code of the kernel patches.
func (o *Optimizer) checkSites(start, end uint64) error {
	switch t := o.cfg.Tables; {
	case t.FtraceOverlap(start, end):
		return refuse(FtraceSite, start)
	case t.SMPLock(start, end):
		return refuse(SMPLock, start)
	case t.JumpLabel(start, end):
		return refuse(JumpLabel, start)
	case t.StaticCall(start, end):
		return refuse(StaticCall, start)
	}
	return nil
}

package optimizer

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/insn"
)

// Reason is why an address cannot be optimized.
type Reason uint8

// The reasons, in the order in which they are looked for.
const (
	NoSymbol     Reason = iota + 1 // no function there
	EntryText                      // entry code, whose stack is not usable
	TooShort                       // the function ends within the jump
	ExTable                        // an instruction of the function may fault and be fixed up
	Undecodable                    // something in the function is no instruction
	IndirectJump                   // the function jumps through a register or memory, or by a thunk
	NotBoundary                    // the address is inside an instruction, which kernels up to 4.15 allow
	JumpInto                       // the function jumps into the bytes that would be replaced
	NotCopyable                    // an instruction to be replaced cannot run elsewhere
	NotBoostable                   // an instruction to be replaced cannot be followed by a jump
	PastEnd                        // the replaced instructions end behind the text
	FtraceSite                     // an fentry site is among the bytes
	SMPLock                        // a lock prefix that boots patch is
	JumpLabel                      // a jump label is
	StaticCall                     // a static call is
	TooFar                         // no memory for the detour within reach
	NoCallback                     // the kernel has no optimized_callback
)

// reasons gives each its errno and words.
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

// String says it in words.
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasons) {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasons[r].text
}

// Refusal is the error of Prepare: why the probe stays a breakpoint. Linux
// refuses silently.
type Refusal struct {
	Reason Reason
	Addr   uint64 // the instruction that it is about; 0: none in particular
	Cause  error  // or nil
}

// Error says what and where.
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

// Unwrap gives the errno that Linux's functions pass on for this reason.
func (r *Refusal) Unwrap() error { return reasons[r.Reason].errno }

func refuse(reason Reason, addr uint64) error { return &Refusal{Reason: reason, Addr: addr} }

// checkFunction is can_optimize: nil when a jump at addr is safe from the rest
// of its function.
func (o *Optimizer) checkFunction(addr uint64) error {
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
	if o.k.Original(start, text) != nil {
		text = text[:sym.Size]
		if o.k.Original(start, text) != nil {
			return refuse(Undecodable, start)
		}
	}
	known := &o.known[start*0x61C8864680B583EB>>58]
	if known.start != start || !bytes.Equal(known.text, text) {
		*known = o.walk(start, start+sym.Size, bytes.Clone(text))
	}
	return known.check(addr)
}

// function is what a look at all of a function has found.
type function struct {
	start  uint64
	text   []byte
	starts []uint64 // where its instructions begin
	jumps  []jump   // up to what refuses
	stop   error    // what keeps all of its instructions from being optimized
}

// jump is a relative jump, at an address, to another.
type jump struct{ at, to uint64 }

// knownFunctions is how many functions are remembered.
const knownFunctions = 64

// walk looks at each instruction of the function, padding included.
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

// check is nil when a jump may stand at addr. A jump to the byte behind it counts
// as one into it, as in Linux.
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
		return refuse(NotBoundary, addr) // a probe at the instruction goes on behind it: in the jump
	}
	return nil
}

// region is the instructions that a jump at addr replaces: at least five bytes
// of whole ones that may run in a detour.
func (o *Optimizer) region(addr uint64) (orig []byte, ins []insn.Insn, err error) {
	text := make([]byte, jumpSize-1+insn.MaxLen)
	for o.k.Original(addr, text) != nil {
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
		case o.cfg.Tables.ExTable(at), !insn.CanBoost(in, text[size:size+in.Len]):
			return nil, nil, refuse(NotBoostable, at)
		}
		ins = append(ins, in)
		size += in.Len
	}
	return text[:size], ins, o.checkSites(addr, addr+uint64(size))
}

// checkSites refuses text that something else rewrites.
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

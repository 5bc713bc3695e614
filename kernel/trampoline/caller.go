package trampoline

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"
)

// A Caller is a function of the guest that fentry sites call. Its text from Name to the
// symbol Name_end is what is copied; a ret follows.
type Caller struct {
	Name string
	call string // symbol of the instruction that calls the listener
	op   string // of the one that loads the ftrace_ops' address, or "" if there is none
}

// The guest's callers.
var (
	Ftrace        = Caller{"ftrace_caller", "ftrace_call", "ftrace_op"}
	FtraceRegs    = Caller{"ftrace_regs_caller", "ftrace_regs_call", ""}                           // kprobes' own
	FtraceOpsRegs = Caller{"ftrace_ops_regs_caller", "ftrace_ops_regs_call", "ftrace_ops_regs_op"} // where functions of modules listen
)

// loadSize is the length of the instruction at a Caller's op, and loadDisp where in it the
// displacement is: mov disp32(%rip),%rdx.
const (
	loadSize = 7
	loadDisp = 3
)

// Template is a Caller in a guest. The members are addresses; Load is 0 if the Caller has
// no op.
type Template struct{ Start, End, Call, Load uint64 }

// Find returns the template of a Caller, by the addresses of the guest's symbols (0: there
// is no such symbol). It fails with ENOENT when the guest lacks one.
func (c Caller) Find(symbol func(name string) uint64) (Template, error) {
	t := Template{Start: symbol(c.Name), End: symbol(c.Name + "_end"), Call: symbol(c.call)}
	has := t.Start != 0 && t.Call >= t.Start && t.Call+BranchSize <= t.End
	if c.op != "" {
		t.Load = symbol(c.op)
		has = has && t.Load >= t.Start && t.Load+loadSize <= t.End
	}
	if !has {
		return Template{}, fmt.Errorf("the guest lacks the symbols for a copy of %s: %w", c.Name, syscall.ENOENT)
	}
	return t, nil
}

// Size is the length of a copy's code in bytes. What is behind it is data.
func (t Template) Size() int { return int(t.End-t.Start) + 1 }

// Copy returns a copy of the template, whose bytes are text (from Start to End), for the
// address at: its call leads to target, and op is the address of the ftrace_ops, which is
// put behind the code. It fails with ERANGE when the target is too far.
func (t Template) Copy(text []byte, at, target, op uint64) ([]byte, error) {
	code := append(bytes.Clone(text), opRet)
	off := t.Call - t.Start
	call, err := branch(opCall, at+off, target)
	if err != nil {
		return nil, err
	}
	copy(code[off:], call)
	if t.Load != 0 {
		load := t.Load - t.Start
		binary.LittleEndian.PutUint32(code[load+loadDisp:], uint32(uint64(len(code))-load-loadSize))
		code = binary.LittleEndian.AppendUint64(code, op)
	}
	return code, nil
}

// Extent is the length in bytes of what Copy returns.
func (t Template) Extent() int {
	if t.Load != 0 {
		return t.Size() + 8
	}
	return t.Size()
}

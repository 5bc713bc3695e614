package why

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/optimizer"
	"github.com/kprobefs/kprobefs/optimizer/why/args"
)

// Answer is a Verdict in words, as --json has it.
type Answer struct {
	Probe       string        `json:"probe"`                 // as it was asked
	Kernel      string        `json:"kernel"`                // uname -r
	Address     string        `json:"address,omitempty"`     // of the probe, in hexadecimal
	Place       string        `json:"place,omitempty"`       // SYMBOL+OFFSET
	Accepted    bool          `json:"accepted"`              // Linux takes the probe
	Errno       string        `json:"errno,omitempty"`       // with which it does not
	Refused     string        `json:"refused,omitempty"`     // why it does not
	Instruction *Instruction  `json:"instruction,omitempty"` // that is probed
	Kind        string        `json:"kind,omitempty"`        // how it is carried out: ftrace, step, boost, or the kind of emulation
	Optimized   bool          `json:"optimized"`             // the breakpoint becomes a jump
	OptErrno    string        `json:"opt_errno,omitempty"`   // of the functions that decide that
	NotJump     string        `json:"not_jump,omitempty"`    // the rule that decided
	Offending   *Instruction  `json:"offending,omitempty"`   // the instruction that it is about
	Region      []Instruction `json:"region,omitempty"`      // what the jump replaces
	Detour      int           `json:"detour_bytes,omitempty"`
	Nearest     []Nearest     `json:"nearest,omitempty"` // places that would do
	Similar     []string      `json:"similar,omitempty"` // names, where the function does not exist

	ErrorLog  *Log            `json:"error_log,omitempty"` // what the file error_log shows of a line that is refused
	Function  string          `json:"function,omitempty"`  // the function's declaration, of a line of kprobe_events
	Entry     []args.Hold     `json:"entry,omitempty"`     // what the registers have at its entry
	Arguments []args.Argument `json:"arguments,omitempty"` // what the arguments fetch
	NoTypes   string          `json:"no_types,omitempty"`  // why Function and Entry are not known

	starts []uint64                              // of the instructions of the function that contains the place
	show   func(addr uint64) (Instruction, bool) // disassembles one of them
}

// Instruction is one of the kernel's text.
type Instruction struct {
	Address string `json:"address"`
	Place   string `json:"place"`
	Bytes   string `json:"bytes"`
	Text    string `json:"text"` // in AT&T's syntax
}

// Nearest is a place near the one that was asked about.
type Nearest struct {
	Place string `json:"place"`
	Kind  string `json:"kind"` // ftrace, breakpoint or jump
}

// rules are the sentences for the reasons of package optimizer.
var rules = map[optimizer.Reason]string{
	optimizer.NoSymbol:     "the address is in no function, so that it cannot be known what jumps there",
	optimizer.EntryText:    "it is entry code, where the stack may not be usable",
	optimizer.TooShort:     "the function ends within the five bytes of the jump",
	optimizer.ExTable:      "an instruction of the function may fault and has an entry in the exception table",
	optimizer.Undecodable:  "the function has bytes that are no instruction",
	optimizer.IndirectJump: "the function has an indirect jump, or a jump to a thunk that counts as one, whose targets are not known",
	optimizer.NotBoundary:  "no instruction begins there",
	optimizer.JumpInto:     "the function jumps to one of the five bytes after the address, where the jump would be",
	optimizer.NotCopyable:  "an instruction that the jump would replace cannot be copied",
	optimizer.NotBoostable: "an instruction that the jump would replace cannot run in the detour: no jump may follow it",
	optimizer.PastEnd:      "the instructions that the jump would replace end beyond the text",
	optimizer.FtraceSite:   "the jump would overwrite an fentry site",
	optimizer.SMPLock:      "the jump would overwrite a lock prefix that is patched",
	optimizer.JumpLabel:    "the jump would overwrite a jump label, which is patched",
	optimizer.StaticCall:   "the jump would overwrite a static call, which is patched",
	optimizer.TooFar:       "there is no memory for the detour within reach",
	optimizer.NoCallback:   "the kernel has no optimized_callback",
}

// Rule returns the sentence for a reason of package optimizer, "" if it has none.
func Rule(r optimizer.Reason) string { return rules[r] }

// Explain puts a verdict into words, and looks for places that would do where the probe is refused or
// stays a breakpoint.
func (a *Asker) Explain(kernel string, p Probe, v Verdict) Answer {
	r := Answer{Probe: p.Text, Kernel: kernel, Accepted: v.Err == nil}
	if v.Addr != 0 {
		r.Address = fmt.Sprintf("%#x", v.Addr)
	}
	if v.Symbol.Name != "" {
		r.Place = place(v.Symbol, v.Offset)
		if in, ok := a.instruction(a.containing(v)); ok {
			r.Instruction = &in
		}
		r.starts, r.show = a.boundaries(v.Symbol), a.instruction
	}
	r.ErrorLog = v.Log
	if v.Err != nil {
		r.Errno, r.Refused = unix.ErrnoName(v.Errno()), sentence(v.Err)
		switch {
		case v.Words:
		case v.Symbol.Name == "" && p.Symbol != "":
			r.Similar = a.similar(p.Symbol)
		default:
			r.Nearest = a.nearest(v)
		}
		return r
	}
	r.Kind = v.Carried
	a.describe(&r, p, v)
	if v.Ftrace {
		return r
	}
	if v.NotJump == nil {
		r.Optimized, r.Detour = true, v.Detour.Size
		for at := v.Addr; at < v.Addr+uint64(len(v.Region)); {
			in, _ := a.instruction(at)
			r.Region = append(r.Region, in)
			at += uint64(max(1, len(in.Bytes)/2))
		}
		return r
	}
	r.OptErrno, r.NotJump = unix.ErrnoName(v.OptErrno()), v.NotJump.Error()
	var refusal *optimizer.Refusal
	if errors.As(v.NotJump, &refusal) {
		r.NotJump = Rule(refusal.Reason)
		if in, ok := a.instruction(refusal.Addr); ok && refusal.Addr != 0 {
			r.Offending = &in
		}
	}
	r.Nearest = a.nearest(v)
	return r
}

// sentence returns an error without its errno's text.
func sentence(err error) string {
	var errno syscall.Errno
	s := err.Error()
	if errors.As(err, &errno) {
		s = strings.TrimSuffix(s, ": "+errno.Error())
	}
	return s
}

func place(s abi.Symbol, off uint64) string { return fmt.Sprintf("%s+%#x", s.Name, off) }

// instruction disassembles the one at an address.
func (a *Asker) instruction(addr uint64) (Instruction, bool) {
	b, in := a.insnAt(addr)
	if len(b) == 0 {
		return Instruction{}, false
	}
	i := Instruction{Address: fmt.Sprintf("%#x", addr), Bytes: hex.EncodeToString(b), Text: a.disassemble(addr, b, in)}
	if s, off, ok := a.kernel.Lookup(addr); ok {
		i.Place = place(s, off)
	}
	return i, true
}

// disassemble returns AT&T's form of an instruction; x86asm does not know all.
func (a *Asker) disassemble(addr uint64, b []byte, in insn.Insn) string {
	switch {
	case string(b) == "\xf3\x0f\x1e\xfa":
		return "endbr64"
	case in.Int3():
		return "int3"
	}
	known, err := x86asm.Decode(b, 64)
	if err != nil || known.Op == 0 || known.Len != len(b) {
		return ".byte 0x" + strings.Join(strings.Fields(fmt.Sprintf("% x", b)), ",0x")
	}
	text := x86asm.GNUSyntax(known, addr, nil)
	if rel, ok := in.RelBranch(); ok {
		to := addr + uint64(len(b)) + uint64(rel)
		if s, off, ok := a.kernel.Lookup(to); ok {
			text = strings.Replace(text, fmt.Sprintf("%#x", to), place(s, off), 1)
		}
	}
	return text
}

// nearest returns the function's entry and the next places on both sides that take a probe, and those
// where it becomes a jump.
func (a *Asker) nearest(v Verdict) []Nearest {
	const most = 4096 // bytes of a function that are looked at on each side
	if v.Symbol.Size == 0 || v.Offset >= v.Symbol.Size {
		return nil
	}
	starts := a.boundaries(v.Symbol)
	i, _ := slices.BinarySearch(starts, v.Addr)
	var found []Nearest
	seen := map[uint64]bool{v.Addr: true}
	add := func(addr uint64) (taken, jump bool) {
		w := a.At(addr)
		if w.Err != nil {
			return false, false
		}
		kind := "breakpoint"
		switch {
		case w.Ftrace:
			kind = "ftrace"
		case w.NotJump == nil:
			kind = "jump"
		}
		if !seen[w.Addr] {
			seen[w.Addr] = true
			found = append(found, Nearest{place(w.Symbol, w.Offset), kind})
		}
		return true, kind == "jump" || kind == "ftrace"
	}
	search := func(step func(int) int) {
		wantTaken := v.Err != nil
		for j := step(i); j >= 0 && j < len(starts); j = step(j) {
			if d := int64(starts[j] - v.Addr); d > most || d < -most {
				return
			}
			w := a.At(starts[j])
			jump := w.Err == nil && (w.NotJump == nil || w.Ftrace)
			if jump || wantTaken && w.Err == nil {
				add(starts[j])
				wantTaken = false
			}
			if jump {
				return
			}
		}
	}
	add(v.Symbol.Addr)
	search(func(j int) int { return j - 1 })
	if i < len(starts) && starts[i] != v.Addr {
		i-- // the one after the address is the first
	}
	search(func(j int) int { return j + 1 })
	slices.SortStableFunc(found, func(x, y Nearest) int { return cmp.Compare(offset(x.Place), offset(y.Place)) })
	return found
}

func offset(place string) uint64 {
	_, off, _ := strings.Cut(place, "+0x")
	n, _ := strconv.ParseUint(off, 16, 64)
	return n
}

// boundaries returns the addresses of a function's instructions, without the padding after them.
func (a *Asker) boundaries(s abi.Symbol) []uint64 {
	const most = 64 << 10
	var all []uint64
	end := s.Addr + min(s.Size, most)
	for at := s.Addr; at < end; {
		b, in := a.insnAt(at)
		if len(b) == 0 {
			break
		}
		if !in.Int3() {
			all = append(all, at)
		}
		at += uint64(len(b))
	}
	return all
}

// containing returns the address of the instruction that contains a place.
func (a *Asker) containing(v Verdict) uint64 {
	starts := a.boundaries(v.Symbol)
	i, at := slices.BinarySearch(starts, v.Addr)
	if at || i == 0 || v.Err == nil {
		return v.Addr
	}
	if b, _ := a.insnAt(starts[i-1]); starts[i-1]+uint64(len(b)) <= v.Addr {
		return v.Addr // padding
	}
	return starts[i-1]
}

// similar returns up to eight functions whose names are like one that does not exist: the parts that a
// compiler has made of it (name.isra.0, name.cold), those that contain it, and those with a typing error.
func (a *Asker) similar(name string) []string {
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	var parts, contain, near []string
	seen := map[string]bool{}
	for _, s := range a.kernel.All() {
		n := s.Name
		if strings.IndexByte("tTwW", s.Type) < 0 || seen[n] {
			continue
		}
		switch seen[n] = true; {
		case strings.HasPrefix(n, name+"."):
			parts = append(parts, n)
		case len(name) >= 4 && strings.Contains(n, name):
			contain = append(contain, n)
		case mistyped(n, name):
			near = append(near, n)
		}
	}
	slices.SortStableFunc(contain, func(x, y string) int { return cmp.Compare(len(x), len(y)) })
	found := slices.Concat(parts, near, contain)
	return found[:min(len(found), 8)]
}

// mistyped reports whether one letter has been changed, added, left out, or exchanged with the next.
func mistyped(a, b string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	if len(a)-len(b) > 1 || a == b {
		return false
	}
	i := 0
	for i < len(b) && a[i] == b[i] {
		i++
	}
	if len(a) > len(b) {
		return a[i+1:] == b[i:]
	}
	if a[i+1:] == b[i+1:] {
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// Cell returns a verdict in a word, for a table of kernels.
func Cell(v Verdict) string {
	switch {
	case v.Err != nil:
		return unix.ErrnoName(v.Errno())
	case v.Ftrace:
		return "ftrace"
	case v.NotJump == nil:
		return "jump"
	}
	return "breakpoint"
}

package machinefs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// maxFunction limits the disassembly of a symbol in bytes: the last symbol of the text
// may be followed by a large gap.
const maxFunction = 64 << 10

// text is the directory machine/text: a file for each name of a function.
type text struct{ c Config }

var _ seqfile.Finder = text{}

// Rows lists the functions.
func (t text) Rows() []*seqfile.Row {
	var rows []*seqfile.Row
	seen := map[string]bool{}
	for _, s := range t.c.Symbols.All() {
		if isFunction(s) && !seen[s.Name] {
			seen[s.Name] = true
			rows = append(rows, t.row(s))
		}
	}
	return rows
}

// Find returns the file of a function.
func (t text) Find(name string) *seqfile.Row {
	for _, s := range t.c.Symbols.LookupName(name) {
		if isFunction(s) && s.Name == name {
			return t.row(s)
		}
	}
	return nil
}

func (t text) row(s abi.Symbol) *seqfile.Row {
	return &seqfile.Row{Name: s.Name, Mode: 0o444, Gen: s.Addr, Open: t.c.openShown(func(hide bool) (string, error) {
		return t.c.functions(s.Name, hide)
	})}
}

func isFunction(s abi.Symbol) bool {
	return strings.IndexByte("tTwW", s.Type) >= 0 && s.Size > 0 && !strings.Contains(s.Name, "/")
}

// functions disassembles all functions of that name.
func (c Config) functions(name string, hide bool) (string, error) {
	var b strings.Builder
	for _, s := range c.Symbols.LookupName(name) {
		if !isFunction(s) {
			continue
		}
		size := min(s.Size, maxFunction)
		now, was := make([]byte, size), make([]byte, size)
		if err := c.Read(s.Addr, now); err != nil {
			return "", err
		}
		if err := c.Original(s.Addr, was); err != nil {
			return "", err
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%s\n", s.Name, moduleText(s))
		b.WriteString(Disassemble(s.Addr, now, was, c.name, hide))
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("%s is gone: %w", name, syscall.ENOENT)
	}
	return b.String(), nil
}

func moduleText(s abi.Symbol) string {
	if s.Module == "" {
		return ""
	}
	return " [" + s.Module + "]"
}

// name resolves addresses in operands for x86asm.
func (c Config) name(addr uint64) (string, uint64) {
	s, _, ok := c.Symbols.Lookup(addr)
	if !ok {
		return "", 0
	}
	return s.Name, s.Addr
}

// Disassemble prints the text at addr: one line for each original instruction (address,
// offset, bytes, instruction). If the bytes have changed, the line starts with a star
// and shows the instruction that is there now, followed by "was:" and the original
// ones. With hide, addresses are zeros, also in the bytes of instructions; offsets,
// names and distances remain.
func Disassemble(addr uint64, now, was []byte, name func(uint64) (string, uint64), hide bool) string {
	l := listing{addr: addr, now: now, was: was, name: name, hide: hide}
	if hide {
		l.absolute = absolute(was)
	}
	for off := 0; off < len(was); {
		n := length(was[off:])
		if !bytes.Equal(now[off:off+n], was[off:off+n]) {
			off += l.patched(off)
			continue
		}
		fmt.Fprintf(&l.b, "  %s\n", l.line(now, off, off+n))
		off += n
	}
	return l.b.String()
}

// listing is a disassembly under construction.
type listing struct {
	addr     uint64
	now, was []byte
	name     func(uint64) (string, uint64)
	hide     bool
	absolute []bool // bytes of was that belong to addresses
	b        strings.Builder
}

// line prints the address, the offset, the bytes up to end, and the instruction of p at
// off.
func (l *listing) line(p []byte, off, end int) string {
	addr := l.addr + uint64(off)
	if l.hide {
		addr = 0
	}
	return fmt.Sprintf("%016x  +%#-6x %-30s %s", addr, off, l.hex(p, off, end), l.instruction(p, off))
}

// patched prints a changed instruction and returns how many original bytes it covers.
func (l *listing) patched(off int) int {
	live := length(l.now[off:])
	end := off
	var old []string
	for end < len(l.was) && (end < off+live || end == off) {
		n := length(l.was[end:])
		old = append(old, l.hex(l.was, end, end+n)+" "+l.instruction(l.was, end))
		end += n
	}
	fmt.Fprintf(&l.b, "* %s  # was: %s\n", l.line(l.now, off, end), strings.Join(old, "; "))
	return end - off
}

func (l *listing) hex(p []byte, off, end int) string {
	shown := bytes.Clone(p[off:end])
	for i := range shown {
		// Code written over an instruction contains distances only, no addresses.
		if l.hide && l.absolute[off+i] && p[off+i] == l.was[off+i] {
			shown[i] = 0
		}
	}
	return hexBytes(shown)
}

func (l *listing) instruction(p []byte, off int) string {
	text := instruction(p[off:], l.addr+uint64(off), l.name)
	if l.hide {
		return hideAddresses(text)
	}
	return text
}

// number matches what may be an address in the text of these files: 16 digits, or an
// operand.
var number = regexp.MustCompile(`\$?-?0x[0-9a-f]+|\b[0-9a-f]{16}\b`)

// hideAddresses replaces the kernel's addresses by zeros.
func hideAddresses(text string) string {
	return number.ReplaceAllStringFunc(text, func(s string) string {
		digits, immediate := strings.CutPrefix(s, "$")
		digits, negative := strings.CutPrefix(digits, "-")
		digits, operand := strings.CutPrefix(digits, "0x")
		v, err := strconv.ParseUint(digits, 16, 64)
		if negative {
			v = -v
		}
		if !immediate {
			v = displacement(v)
		}
		switch {
		case err != nil || !isAddress(v):
			return s
		case immediate:
			return "$0x0"
		case operand:
			return "0x0"
		}
		return strings.Repeat("0", len(s))
	})
}

// displacement sign-extends the displacement of a memory operand, which x86asm returns
// as 32 bits if there is no base register.
func displacement(v uint64) uint64 {
	if v>>32 == 0 {
		return uint64(int64(int32(v)))
	}
	return v
}

// isAddress reports whether a number is in the kernel's half of the address space and not
// so close to its end that it is more likely a negative number.
func isAddress(v uint64) bool { return v >= 0xffff800000000000 && v < 0xffffffffff000000 }

// absolute says which bytes of the instructions are addresses, as immediates or in
// memory operands.
func absolute(p []byte) []bool {
	hidden := make([]bool, len(p))
	for off := 0; off < len(p); off += length(p[off:]) {
		n := length(p[off:])
		in, err := x86asm.Decode(p[off:min(len(p), off+15)], 64)
		if err != nil || in.Len != n {
			continue
		}
		for _, arg := range in.Args {
			v, ok := constant(arg)
			if !ok || !isAddress(v) {
				continue
			}
			le := binary.LittleEndian.AppendUint64(nil, v)
			for _, size := range []int{8, 4} {
				if i := bytes.LastIndex(p[off:off+n], le[:size]); i >= 0 {
					for j := range size {
						hidden[off+i+j] = true
					}
					break
				}
			}
		}
	}
	return hidden
}

// constant returns the number in an operand that does not depend on the instruction's
// address.
func constant(arg x86asm.Arg) (uint64, bool) {
	switch arg := arg.(type) {
	case x86asm.Imm:
		return uint64(arg), true
	case x86asm.Mem:
		return displacement(uint64(arg.Disp)), arg.Base != x86asm.RIP
	}
	return 0, false
}

// length returns an instruction's length, or 1 for invalid bytes.
func length(p []byte) int {
	in, err := insn.Decode(p[:min(len(p), 15)])
	if err != nil || in.Len == 0 || in.Len > len(p) {
		return 1
	}
	return in.Len
}

func instruction(p []byte, pc uint64, name func(uint64) (string, uint64)) string {
	in, err := x86asm.Decode(p[:min(len(p), 15)], 64)
	if err != nil || in.Op == 0 || in.Len != length(p) {
		return "(bad)"
	}
	return x86asm.GNUSyntax(in, pc, name)
}

func hexBytes(p []byte) string { return fmt.Sprintf("% x", p) }

package machinefs

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// maxFunction is how much of a symbol is disassembled, bytes: the last symbol of
// text may reach far.
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

// Find gives the file of a function.
func (t text) Find(name string) *seqfile.Row {
	for _, s := range t.c.Symbols.LookupName(name) {
		if isFunction(s) && s.Name == name {
			return t.row(s)
		}
	}
	return nil
}

func (t text) row(s abi.Symbol) *seqfile.Row {
	return &seqfile.Row{Name: s.Name, Mode: 0o444, Gen: s.Addr, Open: seqfile.OpenSingle(func() (string, error) {
		return t.c.functions(s.Name)
	})}
}

func isFunction(s abi.Symbol) bool {
	return strings.IndexByte("tTwW", s.Type) >= 0 && s.Size > 0 && !strings.Contains(s.Name, "/")
}

// functions disassembles all functions of that name.
func (c Config) functions(name string) (string, error) {
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
		b.WriteString(Disassemble(s.Addr, now, was, c.name))
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

// name is what x86asm asks for addresses in operands.
func (c Config) name(addr uint64) (string, uint64) {
	s, _, ok := c.Symbols.Lookup(addr)
	if !ok {
		return "", 0
	}
	return s.Name, s.Addr
}

// Disassemble prints text that stands at addr: one line for each instruction of
// what it was (address, offset, bytes, instruction). Where the bytes are other
// ones now, the line begins with a star and tells both: the instruction that is
// there, and behind "was:" the ones that it stands for.
func Disassemble(addr uint64, now, was []byte, name func(uint64) (string, uint64)) string {
	var b strings.Builder
	for off := 0; off < len(was); {
		n := length(was[off:])
		if bytes.Equal(now[off:off+n], was[off:off+n]) {
			fmt.Fprintf(&b, "  %016x  +%#-6x %-30s %s\n", addr+uint64(off), off, hexBytes(now[off:off+n]), instruction(now[off:], addr+uint64(off), name))
			off += n
			continue
		}
		off += patched(&b, addr, off, now, was, name)
	}
	return b.String()
}

// patched prints a changed instruction and gives how many bytes of the old ones
// it covers.
func patched(b *strings.Builder, addr uint64, off int, now, was []byte, name func(uint64) (string, uint64)) int {
	live := length(now[off:])
	end := off
	var old []string
	for end < len(was) && (end < off+live || end == off) {
		n := length(was[end:])
		old = append(old, hexBytes(was[end:end+n])+" "+instruction(was[end:], addr+uint64(end), name))
		end += n
	}
	fmt.Fprintf(b, "* %016x  +%#-6x %-30s %s  # was: %s\n", addr+uint64(off), off,
		hexBytes(now[off:end]), instruction(now[off:], addr+uint64(off), name), strings.Join(old, "; "))
	return end - off
}

// length gives an instruction's length; 1 for bytes that are none.
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

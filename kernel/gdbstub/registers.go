package gdbstub

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel"
)

// register is a register as gdb numbers it: by its place in the table.
type register struct {
	name, kind string
	bits       int
	get        func(s *kernel.CPUState) uint64 // nil for one that the machine does not have
	set        func(s *kernel.CPUState, v uint64)
}

func (r *register) size() int { return r.bits / 8 }

// segments are the places of cs, ss, ds, es, fs and gs in CPUState.Seg.
var segments = []struct {
	name  string
	place int
}{{"cs", 1}, {"ss", 2}, {"ds", 3}, {"es", 0}, {"fs", 4}, {"gs", 5}}

// generalRegisters are the general registers in gdb's order, with their numbers in instructions.
var generalRegisters = []struct {
	name string
	nr   int
}{
	{"rax", 0},
	{"rbx", 3},
	{"rcx", 1},
	{"rdx", 2},
	{"rsi", 6},
	{"rdi", 7},
	{"rbp", 5},
	{"rsp", 4},
	{"r8", 8},
	{"r9", 9},
	{"r10", 10},
	{"r11", 11},
	{"r12", 12},
	{"r13", 13},
	{"r14", 14},
	{"r15", 15},
}

// registers are all registers: first those that gdb demands of each x86-64, in its order.
var registers = allRegisters()

func allRegisters() []register {
	var all []register
	for _, g := range generalRegisters {
		kind := "int64"
		if g.name == "rsp" || g.name == "rbp" {
			kind = "data_ptr"
		}
		all = append(all, register{
			g.name, kind, 64,
			func(s *kernel.CPUState) uint64 { return s.R[g.nr] }, func(s *kernel.CPUState, v uint64) { s.R[g.nr] = v },
		})
	}
	all = append(all,
		register{"rip", "code_ptr", 64, func(s *kernel.CPUState) uint64 { return s.RIP }, func(s *kernel.CPUState, v uint64) { s.RIP = v }},
		register{"eflags", "x64_eflags", 32, func(s *kernel.CPUState) uint64 { return s.RFlags }, func(s *kernel.CPUState, v uint64) { s.RFlags = v }},
	)
	for _, g := range segments {
		all = append(all, register{g.name, "int32", 32, func(s *kernel.CPUState) uint64 { return uint64(s.Seg[g.place]) }, nil})
	}
	for i := range 8 {
		all = append(all, register{fmt.Sprintf("st%d", i), "i387_ext", 80, nil, nil})
	}
	for _, name := range []string{"fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"} {
		all = append(all, register{name, "int", 32, nil, nil})
	}
	return append(all,
		register{"fs_base", "int64", 64, func(s *kernel.CPUState) uint64 { return s.FSBase }, func(s *kernel.CPUState, v uint64) { s.FSBase = v }},
		register{"gs_base", "int64", 64, func(s *kernel.CPUState) uint64 { return s.GSBase }, func(s *kernel.CPUState, v uint64) { s.GSBase = v }},
		register{"k_gs_base", "int64", 64, func(s *kernel.CPUState) uint64 { return s.KernelGSBase }, func(s *kernel.CPUState, v uint64) { s.KernelGSBase = v }},
		register{"cr0", "int64", 64, func(s *kernel.CPUState) uint64 { return s.CR0 }, nil},
		register{"cr2", "int64", 64, func(s *kernel.CPUState) uint64 { return s.CR2 }, nil},
		register{"cr3", "int64", 64, func(s *kernel.CPUState) uint64 { return s.CR3 }, nil},
		register{"cr4", "int64", 64, func(s *kernel.CPUState) uint64 { return s.CR4 }, nil},
		register{"cr8", "int64", 64, func(s *kernel.CPUState) uint64 { return s.CR8 }, nil},
		register{"efer", "int64", 64, func(s *kernel.CPUState) uint64 { return s.EFER }, nil},
	)
}

// targetXML is the target description.
var targetXML = describe()

// flagNames are the bits of eflags.
var flagNames = []struct {
	name       string
	start, end int
}{
	{"CF", 0, 0},
	{"", 1, 1},
	{"PF", 2, 2},
	{"AF", 4, 4},
	{"ZF", 6, 6},
	{"SF", 7, 7},
	{"TF", 8, 8},
	{"IF", 9, 9},
	{"DF", 10, 10},
	{"OF", 11, 11},
	{"IOPL", 12, 13},
	{"NT", 14, 14},
	{"RF", 16, 16},
	{"VM", 17, 17},
	{"AC", 18, 18},
	{"VIF", 19, 19},
	{"VIP", 20, 20},
	{"ID", 21, 21},
}

func describe() string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?>
<!DOCTYPE target SYSTEM "gdb-target.dtd">
<target version="1.0">
<architecture>i386:x86-64</architecture>
<feature name="org.gnu.gdb.i386.core">
<flags id="x64_eflags" size="4">
`)
	for _, f := range flagNames {
		fmt.Fprintf(&b, "<field name=%q start=\"%d\" end=\"%d\"/>\n", f.name, f.start, f.end)
	}
	b.WriteString("</flags>\n")
	for i, r := range registers {
		switch r.name {
		case "fs_base":
			b.WriteString("</feature>\n<feature name=\"org.gnu.gdb.i386.segments\">\n")
		case "k_gs_base":
			b.WriteString("</feature>\n<feature name=\"kprobefs.system\">\n")
		}
		fmt.Fprintf(&b, "<reg name=%q bitsize=\"%d\" type=%q regnum=\"%d\"/>\n", r.name, r.bits, r.kind, i)
	}
	b.WriteString("</feature>\n</target>\n")
	return b.String()
}

// encode returns a register's value in hexadecimal, or x for each digit of a register that is not there.
func (r *register) encode(s *kernel.CPUState) string {
	if r.get == nil {
		return strings.Repeat("xx", r.size())
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], r.get(s))
	return hex.EncodeToString(b[:r.size()])
}

// decode sets a register to a value in hexadecimal. A register that cannot be changed stays as it is. It
// returns false if the value is none.
func (r *register) decode(s *kernel.CPUState, text string) bool {
	if r.set == nil {
		return true
	}
	if strings.Trim(text, "x") == "" {
		return text != ""
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != r.size() {
		return false
	}
	var word [8]byte
	copy(word[:], b)
	r.set(s, binary.LittleEndian.Uint64(word[:]))
	return true
}

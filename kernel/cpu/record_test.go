package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/record"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Recording is not part of a build: another processor leaves other values in
// undefined flags, and so makes another file.
//
//go:generate go run ./record/generate -o testdata/native.gz
//go:generate go run ./record/generate -machine record/generate/machine -o testdata/system.gz

// stage is where recorded instructions are replayed.
type stage struct {
	mem  *mem.Memory
	cpu  *CPU
	page []byte // the data page
	poke []byte
}

func newStage(t testing.TB) *stage {
	t.Helper()
	m, err := mem.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	if err := m.Map(record.CodeAddr&^(mem.PageSize-1), 0x1000, 1, mem.Read|mem.Exec); err != nil {
		t.Fatal(err)
	}
	code := m.Phys(0x1000, mem.PageSize)
	for i := range code {
		code[i] = hlt // wherever a branch goes
	}
	if err := m.Map(record.PageAddr, 0x2000, 1, mem.Read|mem.Write); err != nil {
		t.Fatal(err)
	}
	if err := m.Map(record.GDTAddr, 0x4000, record.GDTCopies, mem.Read|mem.Write); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(record.GDTCopies) {
		for j, d := range record.GDT() {
			binary.LittleEndian.PutUint64(m.Phys(0x4000+i<<12+uint64(j)*8, 8), d)
		}
	}
	return &stage{mem: m, cpu: newCPU(t, m, 0, newCache(m)), page: m.Phys(0x2000, record.PageSize), poke: make([]byte, 256)}
}

// filler is the data page outside of the window.
var filler = bytes.Repeat([]byte{record.Filler}, record.PageSize)

// run executes a case; the result has the case's form, so that they compare.
// The code goes on to a hlt. budget is how many instructions each Run may
// execute: with 1 they are executed one by one, with enough as blocks.
func (s *stage) run(t testing.TB, c *record.Case, budget uint64, system bool) record.Case {
	t.Helper()
	got := *c
	copy(s.page, filler)
	window := s.page[c.Window-record.PageAddr:][:record.WindowSize]
	copy(window, c.Before.Mem[:])
	for i := copy(s.poke, c.Code); i < len(s.poke); i++ {
		s.poke[i] = hlt
	}
	if err := s.mem.PokeText(record.CodeAddr, s.poke); err != nil {
		t.Fatal(err)
	}
	s.cpu.GoOn(record.CodeAddr, uint64(c.Before.Flags))
	s.cpu.R, s.cpu.GSBase = c.Before.R, record.GSBase
	if system {
		s.cpu.setSystem(&c.Before.Sys)
	}

	exit := s.execute(t, c, budget)
	got.After.R, got.After.RIP, got.After.Flags = s.cpu.R, s.cpu.RIP, uint16(s.cpu.RFlags)
	copy(got.After.Mem[:], window)
	got.Vector, got.Code32, got.CR2 = record.NoVector, 0, 0
	switch {
	case exit.Reason == Budget, exit.Reason == Pause:
	case exit.Reason == Halt:
		got.After.RIP--
	case exit.Reason == Trap && exit.Vector == abi.VecPF && exit.Code&core.FaultFetch != 0 && exit.Addr == s.cpu.RIP:
		s.cpu.CR2 = c.Before.Sys[record.CR2] // a branch has gone where nothing is
	case exit.Reason == Trap:
		got.Vector, got.Code32 = exit.Vector, exit.Code
		if exit.Vector == abi.VecPF {
			got.CR2 = exit.Addr
		}
	default:
		t.Errorf("% x: exit %+v", c.Code, exit)
	}
	if system {
		s.cpu.getSystem(&got.After.Sys)
	}
	copy(window, filler)
	if !bytes.Equal(s.page, filler) {
		t.Errorf("% x: memory outside of the window changed", c.Code)
	}
	return got
}

// setSystem and getSystem copy the system registers. CR3 and CR4's value are the
// recording machine's; the interpreter takes what it is given.
func (c *CPU) setSystem(s *[record.NSys]uint64) {
	c.CR0, c.CR2, c.CR3, c.CR4, c.CR8 = s[record.CR0], s[record.CR2], s[record.CR3], s[record.CR4], s[record.CR8]
	c.FSBase, c.GSBase, c.KernelGSBase = s[record.FSBase], s[record.GSBaseReg], s[record.KernelGSBase]
	c.LStar, c.Star, c.SFMask = s[record.LStar], s[record.Star], s[record.SFMask]
	c.GDT = Table{Base: s[record.GDTBase], Limit: s[record.GDTLimit]}
	c.IDT = Table{Base: s[record.IDTBase], Limit: s[record.IDTLimit]}
	for i := range c.Seg {
		c.Seg[i] = uint16(s[record.ES+i])
	}
}

func (c *CPU) getSystem(s *[record.NSys]uint64) {
	s[record.CR0], s[record.CR2], s[record.CR3], s[record.CR4], s[record.CR8] = c.CR0, c.CR2, c.CR3, c.CR4, c.CR8
	s[record.FSBase], s[record.GSBaseReg], s[record.KernelGSBase] = c.FSBase, c.GSBase, c.KernelGSBase
	s[record.LStar], s[record.Star], s[record.SFMask] = c.LStar, c.Star, c.SFMask
	s[record.GDTBase], s[record.GDTLimit] = c.GDT.Base, c.GDT.Limit
	s[record.IDTBase], s[record.IDTLimit] = c.IDT.Base, c.IDT.Limit
	for i := range c.Seg {
		s[record.ES+i] = uint64(c.Seg[i])
	}
}

// hlt is what surrounds the recorded instruction.
const hlt = 0xf4

// execute runs until the code is left, or an exit.
func (s *stage) execute(t testing.TB, c *record.Case, budget uint64) Exit {
	t.Helper()
	for range 1000 {
		exit, retired := s.cpu.Run(budget)
		if exit.Reason != Budget {
			return exit
		}
		if retired != budget {
			t.Errorf("% x: %d instructions retired, budget %d", c.Code, retired, budget)
		}
		if s.cpu.RIP-record.CodeAddr >= uint64(len(c.Code)) || loops(c) {
			return exit
		}
	}
	t.Errorf("% x: does not end", c.Code)
	return Exit{}
}

// loops says whether a branch of the case goes into the instruction itself.
func loops(c *record.Case) bool {
	return c.Vector == record.NoVector && c.After.RIP-record.CodeAddr < uint64(len(c.Code))
}

// Flags, by the letters of the manuals.
const (
	flagsShift = abi.FlagAF
	flagsMul   = abi.FlagSF | abi.FlagZF | abi.FlagAF | abi.FlagPF
	flagsDiv   = flagsMul | abi.FlagCF | abi.FlagOF
	flagsScan  = abi.FlagCF | abi.FlagOF | abi.FlagSF | abi.FlagAF | abi.FlagPF
	flagsCount = abi.FlagOF | abi.FlagSF | abi.FlagAF | abi.FlagPF
)

// undefinedFlags are the flags that the manuals leave undefined after an
// instruction, whatever its operands.
var undefinedFlags = map[string]uint16{
	"AND": abi.FlagAF, "OR": abi.FlagAF, "XOR": abi.FlagAF, "TEST": abi.FlagAF,
	"SEQ":  abi.FlagAF,
	"ANDN": abi.FlagAF | abi.FlagPF, "BEXTR": abi.FlagAF | abi.FlagSF | abi.FlagPF, "BZHI": abi.FlagAF | abi.FlagPF,
	"BLSR": abi.FlagAF | abi.FlagPF, "BLSMSK": abi.FlagAF | abi.FlagPF, "BLSI": abi.FlagAF | abi.FlagPF,
	"MUL": flagsMul, "IMUL": flagsMul, "DIV": flagsDiv, "IDIV": flagsDiv,
	"BSF": flagsScan, "BSR": flagsScan, "TZCNT": flagsCount, "LZCNT": flagsCount,
	"BT": flagsCount, "BTS": flagsCount, "BTR": flagsCount, "BTC": flagsCount,
}

// undefinedShift are those after a shift or rotation by a count that is not 0:
// always, and unless the count is 1.
var undefinedShift = map[string]struct{ always, not1 uint16 }{
	"SHL": {abi.FlagAF, abi.FlagOF}, "SHR": {abi.FlagAF, abi.FlagOF}, "SAR": {abi.FlagAF, abi.FlagOF},
	"SHLD": {abi.FlagAF, abi.FlagOF}, "SHRD": {abi.FlagAF, abi.FlagOF},
	"ROL": {0, abi.FlagOF}, "ROR": {0, abi.FlagOF}, "RCL": {0, abi.FlagOF}, "RCR": {0, abi.FlagOF},
}

// undefined gives the flags that a case leaves undefined.
func undefined(form string, c *record.Case) uint16 {
	op, _, _ := strings.Cut(strings.TrimPrefix(form, "LOCK "), " ")
	if c.Vector != record.NoVector {
		return 0
	}
	shift, ok := undefinedShift[op]
	if !ok {
		return undefinedFlags[op]
	}
	count, width := shiftCount(c)
	switch {
	case count == 0:
		return 0
	case count == 1:
		return shift.always
	case count >= width && (op == "SHL" || op == "SHR"):
		return shift.always | shift.not1 | abi.FlagCF
	}
	return shift.always | shift.not1
}

// shiftCount gives a shift's count as the processor masks it, and the width.
func shiftCount(c *record.Case) (count, width int) {
	i, err := insn.Decode(c.Code)
	if err != nil {
		return 0, 0
	}
	width = 32
	switch {
	case i.Map == insn.Map1 && i.Opcode&1 == 0:
		width = 8
	case i.REX&insn.RexW != 0:
		width = 64
	case i.Prefixes&insn.OpSize != 0:
		width = 16
	}
	switch {
	case i.ImmSize > 0:
		count = int(i.Imm)
	case i.Map == insn.Map1 && i.Opcode&2 == 0:
		count = 1
	default:
		count = int(c.Before.R[1])
	}
	if width == 64 {
		return count & 63, width
	}
	return count & 31, width
}

// diff says how the outcome differs from the recorded one; "" if it does not.
func diff(form string, c, got *record.Case) string {
	var b strings.Builder
	say := func(what string, got, want any) {
		if got != want {
			fmt.Fprintf(&b, " %s %#x, recorded %#x;", what, got, want)
		}
	}
	say("vector", got.Vector, c.Vector)
	say("error code", got.Code32, c.Code32)
	say("CR2", got.CR2, c.CR2)
	say("rip", got.After.RIP, c.After.RIP)
	mask := ^undefined(form, c)
	say("flags", got.After.Flags&mask, c.After.Flags&mask)
	for i := range c.After.R {
		say(fmt.Sprintf("r%d", i), got.After.R[i], c.After.R[i])
	}
	if record.IsSystem(form) {
		for i := range c.After.Sys {
			say(fmt.Sprintf("system register %d", i), got.After.Sys[i], c.After.Sys[i])
		}
	}
	say("memory", string(got.After.Mem[:]), string(c.After.Mem[:]))
	return b.String()
}

// budgets are how cases are executed: one instruction a Run, as blocks, and
// sequences also with Runs that end somewhere inside.
var budgets = []uint64{1, 10000, 2, 3, 5}

// check runs a case with several budgets.
func (s *stage) check(t *testing.T, form string, c *record.Case) string {
	n := 2
	switch {
	case record.IsSequence(form):
		n = len(budgets)
	case loops(c):
		n = 1
	}
	for _, budget := range budgets[:n] {
		got := s.run(t, c, budget, record.IsSystem(form))
		if d := diff(form, c, &got); d != "" {
			return fmt.Sprintf(" with budget %d:%s", budget, d)
		}
	}
	return ""
}

// replay executes a file of recorded cases.
func replay(t *testing.T, file string) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	s := newStage(t)
	forms, cases := 0, 0
	err = record.Read(f, func(form record.Form) bool {
		forms++
		cases += len(form.Cases)
		if len(form.Cases) < 200 {
			t.Errorf("%s: only %d cases", form.Name, len(form.Cases))
		}
		bad := 0
		for i := 0; i < len(form.Cases); i += replayStride {
			c := &form.Cases[i]
			d := s.check(t, form.Name, c)
			if d == "" {
				continue
			}
			if bad++; bad == 1 {
				t.Errorf("%s, case %d, % x, flags %#x:%s", form.Name, i, c.Code, c.Before.Flags, d)
			}
		}
		if bad > 1 {
			t.Errorf("%s: %d of %d cases differ", form.Name, bad, len(form.Cases))
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d forms, %d cases", forms, cases)
	if forms == 0 {
		t.Error("nothing recorded")
	}
}

// TestRecorded holds the interpreter against what a processor did.
func TestRecorded(t *testing.T) { replay(t, "testdata/native.gz") }

// TestRecordedSystem does so for privileged instructions.
func TestRecordedSystem(t *testing.T) { replay(t, "testdata/system.gz") }

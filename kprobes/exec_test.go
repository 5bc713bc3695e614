package kprobes_test

import (
	"encoding/binary"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/mem"
	"github.com/kprobefs/kprobefs/kprobes"
	"github.com/kprobefs/kprobefs/kprobes/kprobetest"
	"github.com/kprobefs/kprobefs/optimizer"
)

const (
	execData  = kprobetest.Text + kprobetest.TextSize // one writable page after text
	execStack = abi.DirectMap + 0x80000
	execLeaf  = kprobetest.Text + 0x400
	execDone  = kprobetest.Text + 0x500 // hlt
	execFunc  = kprobetest.Text + 0x1000
)

// saveRegs pushes the registers as the guest's rethook trampoline does, exitRegs pops
// them.
var (
	saveRegs = []byte{
		0x6a, 0x18, 0x54, 0x9c, 0x48, 0x83, 0xec, 0x18, 0x57, 0x56, 0x52, 0x51, 0x50, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52,
		0x41, 0x53, 0x53, 0x55, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x48, 0x89, 0xe7,
	}
	exitRegs = []byte{
		0x48, 0x8b, 0x94, 0x24, 0x90, 0, 0, 0, 0x48, 0x89, 0x94, 0x24, 0xa0, 0, 0, 0, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d,
		0x41, 0x5c, 0x5d, 0x5b, 0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x58, 0x59, 0x5a, 0x5e, 0x5f, 0x48, 0x83, 0xc4, 0x28, 0x9d,
	}
)

func hypercall(n byte) []byte { return []byte{0xb8, n, 0, 0, 0, 0x0f, 0x01, 0xc1} }

// board is a processor that executes the text of a kprobetest.Kernel, with w's
// probes.
type board struct {
	*world
	t     *testing.T
	mem   *mem.Memory
	cpu   *cpu.CPU
	trap  abi.Trap
	start cpu.State
}

// boardText implements kprobes.Text on a board's memory.
type boardText struct{ m *mem.Memory }

func (b boardText) Read(addr uint64, p []byte) error { return b.m.ReadAt(addr, p) }

func (b boardText) Poke(patches ...abi.Patch) error {
	for _, p := range patches {
		if err := b.m.PokeText(p.Addr, p.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// boardSites implements kprobes.Ftrace: armed fentry sites call the stub at
// Text+0x600.
type boardSites struct{ boardText }

func (s boardSites) Arm(addr uint64) error {
	rel := uint32(kprobetest.Text + 0x600 - (addr + 5))
	return s.Poke(abi.Patch{Addr: addr, Bytes: binary.LittleEndian.AppendUint32([]byte{0xe8}, rel)})
}

func (s boardSites) ArmIPModify(addr uint64) error { return s.Arm(addr) }

func (s boardSites) Disarm(addr uint64) error {
	return s.Poke(abi.Patch{Addr: addr, Bytes: []byte{0x0f, 0x1f, 0x44, 0, 0}})
}

func newBoard(t *testing.T, code []byte, boost bool) *board {
	t.Helper()
	m, err := mem.New(1 << 22)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	k := kprobetest.New()
	k.Site(k.Func(0x1000, "f", code...))
	trampolineCode := append([]byte{0x68, 0x00, 0x01, 0x00, 0x81}, saveRegs...)
	trampolineCode = append(append(trampolineCode, hypercall(abi.HCRethook)...), append(exitRegs, 0xc3)...)
	k.Func(0x100, "arch_rethook_trampoline", trampolineCode...)
	k.Func(0x200, "optimized_callback", slices.Concat([]byte{0x48, 0x8b, 0x7f, 0x08}, hypercall(abi.HCOptimized), []byte{0xc3})...) // mov 8(rdi),rdi
	k.Func(0x400, "leaf", 0x48, 0x8d, 0x44, 0x07, 0x03, 0xc3)                                                                       // lea 3(rdi,rax),rax
	k.Func(0x500, "done", 0xf4)
	k.Func(0x600, "ftrace_caller", append(append([]byte{0x50}, hypercall(abi.HCFtrace)...), 0x58, 0xc3)...)
	for _, r := range []struct {
		va, pa, n uint64
		p         mem.Perm
	}{
		{kprobetest.Text, 0x100000, kprobetest.TextSize, mem.Read | mem.Exec},
		{execData, 0x110000, abi.PageSize, mem.Read | mem.Write},
		{kprobetest.Slots, 0x200000, kprobetest.SlotSize, mem.Read | mem.Exec},
		{execStack, 0x120000, 4 * abi.PageSize, mem.Read | mem.Write},
	} {
		if err := m.Map(r.va, r.pa, r.n/abi.PageSize, r.p); err != nil {
			t.Fatal(err)
		}
	}
	text := boardText{m}
	if err := text.Poke(abi.Patch{Addr: kprobetest.Text, Bytes: k.Bytes(kprobetest.Text, kprobetest.TextSize)}); err != nil {
		t.Fatal(err)
	}
	c, err := cpu.New(m, 0, cpu.NewCache(m, cpu.Auto))
	if err != nil {
		t.Fatal(err)
	}
	b := &board{trap: abi.Trap{Regs: new(abi.Regs)}, t: t, mem: m, cpu: c}
	b.world = &world{Kernel: k, o: optimizer.New(optimizer.Config{Symbols: k, Tables: k, Slots: k})}
	b.k = kprobes.New(kprobes.Config{
		Text: text, Symbols: k, Tables: k, Ftrace: boardSites{text}, Slots: k, Machine: k, Optimizer: b.o, NoPreempt: boost,
	})
	b.start = b.cpu.State
	return b
}

// run calls the function with random registers made from seed, and returns when it
// has returned, or fails. step, if not nil, is called with each instruction's
// address.
func (b *board) run(seed int64, step func(ip uint64)) (cpu.State, string) {
	r := rand.New(rand.NewSource(seed))
	data := make([]byte, abi.PageSize)
	r.Read(data)
	if err := b.mem.WriteAt(execData, data); err != nil {
		b.t.Fatal(err)
	}
	c := b.cpu
	c.State = b.start
	for i := range c.R {
		c.R[i] = r.Uint64()
	}
	c.R[4] = execStack + 0x2000
	if err := b.mem.WriteU64(c.R[4], execDone); err != nil {
		b.t.Fatal(err)
	}
	c.RIP, c.RFlags = execFunc, 0x202|uint64(r.Intn(0x1000))&0x8d5
	budget := uint64(1)
	if step == nil {
		budget = 1000
	}
	for range 20000 {
		if step != nil {
			step(c.RIP)
		}
		e, _ := c.Run(budget)
		switch {
		case e.Reason == cpu.Halt:
			if err := b.mem.ReadAt(execData, data); err != nil {
				b.t.Fatal(err)
			}
			c.TSC = 0
			return c.State, string(data)
		case e.Reason == cpu.Budget:
		case e.Reason == cpu.Hypercall:
			b.hypercall()
		case e.Reason == cpu.Trap && e.Vector == abi.VecBP && b.int3():
		default:
			for _, i := range b.k.Points() {
				b.t.Logf("+%#x %+v", i.Addr-execFunc, i)
			}
			b.t.Fatalf("exit %+v at %#x", e, c.RIP)
		}
	}
	b.t.Fatal("the function does not return")
	panic("unreachable")
}

func (b *board) readRegs(r *abi.Regs)  { r.Set(&b.cpu.R, b.cpu.RIP, b.cpu.RFlags) }
func (b *board) writeRegs(r *abi.Regs) { b.cpu.GoOn(r.Get(&b.cpu.R)) }

func (b *board) int3() bool {
	t := &b.trap
	t.Mem, t.RegsAddr = b.mem, 0
	b.readRegs(t.Regs)
	ok := b.k.Int3(t)
	b.writeRegs(t.Regs)
	return ok
}

func (b *board) hypercall() {
	c, t := b.cpu, &b.trap
	t.Mem = b.mem
	switch c.R[0] {
	case abi.HCOptimized:
		t.Arg, t.RegsAddr = c.R[7], c.R[6]
		b.withRegs(b.k.Optimized)
	case abi.HCRethook:
		t.RegsAddr = c.R[7]
		b.withRegs(b.k.Rethook)
	case abi.HCFtrace:
		b.readRegs(t.Regs)
		sp := t.Regs.SP
		ax, _ := b.mem.ReadU64(sp)
		back, _ := b.mem.ReadU64(sp + 8)
		t.Regs.AX, t.Regs.SP, t.Regs.IP = ax, sp+16, back-5
		b.k.Ftrace(t)
		b.mem.WriteU64(sp, t.Regs.AX)
		b.mem.WriteU64(sp+8, t.Regs.IP)
		t.Regs.SP, t.Regs.IP, t.Regs.AX = sp, c.RIP, 0
		b.writeRegs(t.Regs)
	}
	c.R[0] = 0xdead // a C function may clobber it
}

// withRegs lets f work on the pt_regs at trap.RegsAddr.
func (b *board) withRegs(f func(*abi.Trap)) {
	t := &b.trap
	raw := make([]byte, abi.RegsSize)
	if err := b.mem.ReadAt(t.RegsAddr, raw); err != nil {
		b.t.Fatal(err)
	}
	if _, err := binary.Decode(raw, binary.LittleEndian, t.Regs); err != nil {
		b.t.Fatal(err)
	}
	f(t)
	if _, err := binary.Encode(raw, binary.LittleEndian, t.Regs); err != nil {
		b.t.Fatal(err)
	}
	if err := b.mem.WriteAt(t.RegsAddr, raw); err != nil {
		b.t.Fatal(err)
	}
}

// writeFunc returns a function of about n random instructions and their offsets.
func writeFunc(r *rand.Rand, n int) (code []byte, starts []int) {
	pos := func() uint64 { return execFunc + uint64(len(code)) }
	rel := func(to, size uint64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(to-(pos()+size))) }
	emit := func(parts ...[]byte) {
		starts = append(starts, len(code))
		for _, p := range parts {
			code = append(code, p...)
		}
	}
	reg := func() byte { return [...]byte{0, 1, 2, 3, 6, 7}[r.Intn(6)] } // not rsp, rbp
	modrm := func() byte { return 0xc0 | reg()<<3 | reg() }
	one := func() {
		slot := uint64(r.Intn(100)) * 8
		switch r.Intn(16) {
		case 0:
			emit([]byte{0x48, []byte{0x01, 0x29, 0x31, 0x21, 0x09, 0x39, 0x85, 0x11}[r.Intn(8)], modrm()})
		case 1:
			emit([]byte{0x48, 0x8b, reg()<<3 | 5}, rel(execData+slot, 7)) // mov data(%rip),reg
		case 2:
			emit([]byte{0x48, 0x01, reg()<<3 | 5}, rel(execData+slot, 7)) // add reg,data(%rip)
		case 3:
			emit([]byte{0x48, 0x81, 0x05 | byte(r.Intn(8))<<3}, rel(execData+slot, 11), []byte{1, 2, 3, 4}) // op $imm32,data(%rip)
		case 4:
			emit([]byte{0x48, 0xc1, 0xe0 | reg(), byte(r.Intn(64))}) // shl
		case 5:
			emit([]byte{0x48, 0x8d, 0x44 | reg()<<3, 0x37, byte(r.Intn(256))}) // lea
		case 6:
			emit([]byte{0x0f, 0xb6, modrm()}) // movzx
		case 7:
			emit([]byte{0xb8 | reg(), 1, 2, 3, 4})
		case 8:
			emit([]byte{0xe8}, rel(execLeaf, 5))
		case 9:
			emit([]byte{0x9c}) // pushf; popf with other instructions between
			emit([]byte{0x48, 0xff, 0xc0 | reg()})
			emit([]byte{0x9d})
		case 10:
			emit([]byte{0x50 | reg()})
			emit([]byte{0xf7, 0xd0 | reg()})
			emit([]byte{0x58 | reg()})
		case 11:
			emit([]byte{0x70 | byte(r.Intn(16)), 4}) // jcc over one or the other
			emit([]byte{0x48, 0x89, modrm(), 0x90}[:3])
			emit([]byte{0x90})
		case 12:
			emit([]byte{0x0f, 0x80 | byte(r.Intn(16)), 3, 0, 0, 0})
			emit([]byte{0x48, 0x87, modrm()})
		case 13:
			emit([]byte{0xeb, 2})
			emit([]byte{0x90})
			emit([]byte{0x90})
		case 14:
			emit([]byte{0xfa})
			emit([]byte{0x0f, 0xaf, modrm()})
			emit([]byte{0xfb})
		case 15:
			emit([]byte{0x48, 0x0f, 0x40 | byte(r.Intn(16)), modrm()}) // cmov
		}
	}
	emit([]byte{0x0f, 0x1f, 0x44, 0, 0})
	emit([]byte{0x41, 0x57})
	emit([]byte{0x55})
	emit([]byte{0x48, 0x89, 0xe5})
	for range n {
		one()
	}
	emit([]byte{0xb9, 3, 0, 0, 0}) // mov $3,%ecx
	emit([]byte{0xff, 0xc3})
	emit([]byte{0xe2, 0xfc}) // loop
	emit([]byte{0x5d})
	emit([]byte{0x41, 0x5f})
	emit([]byte{0xc3})
	return code, starts
}

// TestProbedFunctionUnchanged runs random functions without probes, and with probes at many
// of their instructions. Registers, flags and memory must be the same afterwards, and
// a probe must be hit each time its instruction is executed.
func TestProbedFunctionUnchanged(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	jumps := 0
	for seed := range int64(rounds) {
		r := rand.New(rand.NewSource(seed))
		code, starts := writeFunc(r, 25)
		b := newBoard(t, code, seed%4 == 3)
		counts := map[uint64]int{}
		want, wantData := b.run(seed, func(ip uint64) { counts[ip]++ })
		hits := map[uint64]int{}
		posts := map[uint64]int{}
		for _, off := range starts {
			if r.Intn(3) == 0 {
				continue
			}
			p := &kprobes.Kprobe{Addr: execFunc + uint64(off), PreHandler: func(h *kprobes.Hit) int { hits[h.Probe.Addr]++; return 0 }}
			if r.Intn(4) == 0 {
				p.PostHandler = func(h *kprobes.Hit, _ uint64) { posts[h.Probe.Addr]++ }
			}
			b.register(t, p)
		}
		returns := 0
		if seed%2 == 0 {
			rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{Addr: execFunc}, Handler: func(*kprobes.Instance, *kprobes.Hit) int { returns++; return 0 }}
			if err := b.k.RegisterRetprobe(rp); err != nil {
				t.Fatal(err)
			}
		}
		if seed%3 != 0 {
			b.Advance(time.Second)
		}
		got, gotData := b.run(seed, nil)
		got.Seed = want.Seed
		if got != want || gotData != wantData {
			t.Fatalf("seed %d: code % x\ngot  %+v\nwant %+v\nmemory the same: %v", seed, code, got, want, gotData == wantData)
		}
		for _, i := range b.k.Points() {
			if i.Probes[len(i.Probes)-1].Ret {
				continue // there is no kprobe at this address
			}
			if hits[i.Addr] != counts[i.Addr] {
				t.Errorf("seed %d: +%#x was hit %d times, executed %d", seed, i.Addr-execFunc, hits[i.Addr], counts[i.Addr])
			}
			if i.HasPost && posts[i.Addr] != counts[i.Addr] {
				t.Errorf("seed %d: +%#x has %d post hits, executed %d", seed, i.Addr-execFunc, posts[i.Addr], counts[i.Addr])
			}
			if i.Flags&kprobes.FlagOptimized != 0 && seed%3 != 0 {
				jumps += hits[i.Addr]
			}
		}
		if returns != int(1-seed%2) {
			t.Errorf("seed %d: %d returns", seed, returns)
		}
	}
	if jumps < rounds/2 {
		t.Errorf("only %d hits came by a jump", jumps)
	}
}

package cpu

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/native"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// Where tests put things.
const (
	textVA  = abi.TextBase
	textPA  = 0x100000
	dataVA  = abi.DirectMap + 0x10000
	dataPA  = 0x10000
	stackVA = dataVA + 0x8000
	pages   = 16
)

// machine is a memory with 16 pages of text, 16 of data and nothing after them.
func machine(t testing.TB, code ...byte) *CPU {
	t.Helper()
	return machineWith(t, maxCode, code...)
}

// machineWith is machine with room for limit bytes of translated code.
func machineWith(t testing.TB, limit int, code ...byte) *CPU {
	t.Helper()
	m, err := mem.New(1 << 21)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	copy(m.Phys(textPA, pages<<12), code)
	for _, err := range []error{
		m.Map(textVA, textPA, pages, mem.Read|mem.Exec),
		m.Map(dataVA, dataPA, pages, mem.Read|mem.Write),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := newCPU(t, m, 0, cacheWith(m, testEngine, 1, limit))
	c.RIP = textVA
	c.R[4] = stackVA
	return c
}

// newCPU is New, which must not fail.
func newCPU(t testing.TB, m *mem.Memory, id int, cache *Cache) *CPU {
	t.Helper()
	c, err := New(m, id, cache)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func run(t testing.TB, c *CPU, budget uint64, reason Reason, retired uint64) Exit {
	t.Helper()
	e, n := c.Run(budget)
	if e.Reason != reason || n != retired {
		t.Fatalf("Run: %+v, %d retired, rip %#x; want reason %d, %d retired", e, n, c.RIP, reason, retired)
	}
	return e
}

func TestRun(t *testing.T) {
	// mov $10,%eax; 1: add %rax,%rbx; dec %eax; jnz 1b; int3
	code := []byte{0xb8, 10, 0, 0, 0, 0x48, 0x01, 0xc3, 0xff, 0xc8, 0x75, 0xf9, 0xcc}
	c := machine(t, code...)
	e := run(t, c, 1000, Trap, 32)
	if e.Vector != abi.VecBP || c.R[3] != 55 || c.R[0] != 0 || c.RIP != textVA+13 {
		t.Errorf("%+v rbx %d rax %d rip %#x", e, c.R[3], c.R[0], c.RIP)
	}
	if c.RFlags != 0x46 {
		t.Errorf("flags %#x", c.RFlags)
	}
}

func TestRunBudgetIsExact(t *testing.T) {
	code := []byte{0xb8, 10, 0, 0, 0, 0x48, 0x01, 0xc3, 0xff, 0xc8, 0x75, 0xf9, 0xcc}
	for n := range uint64(32) {
		c := machine(t, code...)
		c.Run(n)
		run(t, c, 1000, Trap, 32-n)
		one, left := machine(t, code...), n
		for ; left > 0; left-- {
			run(t, one, 1, Budget, 1)
		}
		if one.TSC != n {
			t.Fatalf("%d instructions, TSC %d", n, one.TSC)
		}
		run(t, one, 1000, Trap, 32-n)
		if one.State != c.State {
			t.Fatalf("budget %d: %+v and %+v", n, one.State, c.State)
		}
	}
}

func TestPoke(t *testing.T) {
	// inc %eax; inc %eax; int3, and the second becomes nops
	c := machine(t, 0xff, 0xc0, 0xff, 0xc0, 0xcc)
	run(t, c, 100, Trap, 3)
	if err := c.mem.PokeText(textVA+2, []byte{0x90, 0x90}); err != nil {
		t.Fatal(err)
	}
	c.RIP = textVA
	run(t, c, 100, Trap, 4)
	if c.R[0] != 3 {
		t.Errorf("eax %d", c.R[0])
	}
}

func TestPokeAcrossPages(t *testing.T) {
	c := machine(t)
	// mov $imm,%eax with its immediate in the next page; int3
	at := uint64(textVA + 4096 - 2)
	if err := c.mem.PokeText(at, []byte{0xb8, 1, 0, 0, 0, 0xcc}); err != nil {
		t.Fatal(err)
	}
	for i := byte(2); i < 5; i++ {
		c.RIP = at
		run(t, c, 100, Trap, 2)
		if c.R[0] != uint64(i-1) {
			t.Fatalf("eax %d, want %d", c.R[0], i-1)
		}
		at2 := at + 1
		if i == 3 {
			at2 = textVA + 4096 // the second page only
			c.mem.PokeText(at2, []byte{0, 0, 0})
			c.mem.PokeText(at+1, []byte{i})
			continue
		}
		c.mem.PokeText(at2, []byte{i})
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name       string
		code       []byte
		ax         uint64
		vector     uint8
		err, addr  uint64
		retired    uint64
		rip        uint64
		wantNoCode bool
	}{
		{"read", []byte{0x90, 0x48, 0x8b, 0x18}, 0x1234, abi.VecPF, 0, 0x1234, 1, textVA + 1, false},
		{"write", []byte{0x48, 0x89, 0x18}, 0x1234, abi.VecPF, 2, 0x1234, 0, textVA, false},
		{"write text", []byte{0x48, 0x89, 0x18}, textVA, abi.VecPF, 3, textVA, 0, textVA, false},
		{"not canonical", []byte{0x48, 0x89, 0x18}, 1 << 63, abi.VecGP, 0, 1 << 63, 0, textVA, false},
		{"crosses into nothing", []byte{0x48, 0x89, 0x18}, dataVA + pages<<12 - 3, abi.VecPF, 2, dataVA + pages<<12, 0, textVA, false},
		{"ud2", []byte{0x0f, 0x0b}, 0, abi.VecUD, 0, 0, 0, textVA, true},
		{"divide", []byte{0xf7, 0xf0}, 0, abi.VecDE, 0, 0, 0, textVA, true},
		{"jump to nothing", []byte{0xff, 0xe0}, 0x5000, abi.VecPF, 16, 0x5000, 1, 0x5000, false},
		{"jump to data", []byte{0xff, 0xe0}, dataVA, abi.VecPF, 17, dataVA, 1, dataVA, false},
		{"jump to no address", []byte{0xff, 0xe0}, 1 << 60, abi.VecGP, 0, 0, 0, textVA, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := machine(t, tt.code...)
			c.R[0] = tt.ax
			before := c.State
			e := run(t, c, 100, Trap, tt.retired)
			want := Exit{Reason: Trap, Vector: tt.vector, HasCode: !tt.wantNoCode, Code: tt.err, Addr: tt.addr}
			if e != want || c.RIP != tt.rip {
				t.Errorf("got %+v at %#x, want %+v", e, c.RIP, want)
			}
			if before.R != c.State.R || tt.vector == abi.VecPF && c.CR2 != tt.addr {
				t.Errorf("registers changed, or cr2 %#x", c.CR2)
			}
		})
	}
}

// TestDeliver goes through an interrupt gate and back with iretq.
func TestDeliver(t *testing.T) {
	// nop; hlt;   handler at 16: inc %ebx; iretq; at 32: add $8,%rsp; iretq
	c := machine(t, 0x90, 0xf4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0xff, 0xc3, 0x48, 0xcf, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		0x48, 0x83, 0xc4, 0x08, 0x48, 0xcf)
	gate := func(vector, to, kind uint64) {
		a := dataVA + 16*vector
		c.mem.WriteU64(a, to&0xffff|0x10<<16|kind<<40|to>>16&0xffff<<48)
		c.mem.WriteU64(a+8, to>>32)
	}
	gate(0x20, textVA+16, 0x8e)
	gate(14, textVA+32, 0x8f)
	c.IDT = Table{Base: dataVA, Limit: 0xfff}
	c.R[4] = stackVA - 4
	c.RFlags |= abi.FlagIF
	if err := c.Deliver(0x20, false, 0); err != nil {
		t.Fatal(err)
	}
	if c.R[4] != stackVA-16-40 || c.RFlags&abi.FlagIF != 0 || c.RIP != textVA+16 {
		t.Errorf("rsp %#x flags %#x rip %#x", c.R[4], c.RFlags, c.RIP)
	}
	run(t, c, 100, Halt, 4)
	if c.R[3] != 1 || c.R[4] != stackVA-4 || c.RFlags&abi.FlagIF == 0 {
		t.Errorf("rbx %d rsp %#x flags %#x", c.R[3], c.R[4], c.RFlags)
	}
	c.RIP = textVA
	if err := c.Deliver(14, true, 5); err != nil || c.RFlags&abi.FlagIF == 0 {
		t.Fatal(err)
	}
	if v, _ := c.mem.ReadU64(c.R[4]); v != 5 {
		t.Errorf("error code %d", v)
	}
	run(t, c, 100, Halt, 4)
	c.R[4] = 0x1000
	if err := c.Deliver(14, true, 5); err == nil || c.R[4] != 0x1000 {
		t.Errorf("bad stack: %v", err)
	}
	if err := c.Deliver(15, true, 5); err == nil {
		t.Error("no gate, no error")
	}
}

func TestIRQWindow(t *testing.T) {
	// sti; nop; hlt
	c := machine(t, 0xfb, 0x90, 0xf4)
	c.WantIRQ(true)
	run(t, c, 100, IRQWindow, 2)
	c.RIP, c.RFlags = textVA, core.FlagFixed
	run(t, c, 1, Budget, 1)
	if c.Interruptible() {
		t.Error("interruptible right after sti")
	}
	run(t, c, 100, IRQWindow, 1)
	// sti; hlt
	c = machine(t, 0xfb, 0xf4)
	c.WantIRQ(true)
	run(t, c, 100, Halt, 2)
	run(t, c, 100, IRQWindow, 0)
}

func TestSingleStep(t *testing.T) {
	// pushf; orl $0x100,(%rsp); popf; nop; nop
	c := machine(t, 0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d, 0x90, 0x90)
	e := run(t, c, 100, Trap, 4)
	if e.Vector != abi.VecDB || c.RIP != textVA+10 {
		t.Errorf("%+v at %#x", e, c.RIP)
	}
}

func TestKick(t *testing.T) {
	c := machine(t, 0xeb, 0xfe)
	c.Kick()
	run(t, c, 100, Kick, 0)
	done := make(chan Exit)
	go func() {
		e, _ := c.Run(1 << 60)
		done <- e
	}()
	c.Kick()
	if e := <-done; e.Reason != Kick {
		t.Errorf("%+v", e)
	}
}

func TestREP(t *testing.T) {
	// rep movsb; hlt
	c := machine(t, 0xf3, 0xa4, 0xf4)
	src, dst := uint64(dataVA+100), uint64(dataVA+5000)
	for i := range uint64(3000) {
		c.mem.WriteAt(src+i, []byte{byte(i * 7)})
	}
	c.R[1], c.R[6], c.R[7] = 3000, src, dst
	run(t, c, 100, Halt, 2)
	for i := range uint64(3000) {
		var b [1]byte
		c.mem.ReadAt(dst+i, b[:])
		if b[0] != byte(i*7) {
			t.Fatalf("byte %d is %d", i, b[0])
		}
	}
	if c.R[1] != 0 || c.R[6] != src+3000 || c.R[7] != dst+3000 {
		t.Errorf("rcx %d", c.R[1])
	}
	// Overlapping: each byte repeats the first.
	c.RIP, c.R[1], c.R[6], c.R[7] = textVA, 50, src, src+1
	c.mem.WriteAt(src, []byte{9})
	run(t, c, 100, Halt, 2)
	var b [51]byte
	c.mem.ReadAt(src, b[:])
	for i, v := range b {
		if v != 9 {
			t.Errorf("byte %d is %d", i, v)
		}
	}
	// Up to the end of memory, and not further.
	c.RIP, c.R[1], c.R[6], c.R[7] = textVA, 100, src, dataVA+pages<<12-30
	e := run(t, c, 100, Trap, 0)
	if e.Addr != dataVA+pages<<12 || c.R[1] != 70 || c.R[6] != src+30 || c.RIP != textVA {
		t.Errorf("%+v rcx %d", e, c.R[1])
	}
}

func FuzzRun(f *testing.F) {
	f.Add([]byte{0xf3, 0xa4, 0xf4}, uint64(1), uint64(dataVA))
	f.Add([]byte{0x0f, 0xc7, 0x08, 0xcf}, uint64(7), uint64(stackVA))
	f.Fuzz(func(t *testing.T, code []byte, seed, p uint64) {
		c := machine(t, code[:min(len(code), pages<<12)]...)
		c.Seed = seed
		for i := range c.R {
			if r := abi.SplitMix64(&c.Seed); r&3 == 0 {
				c.R[i] = r
			} else {
				c.R[i] = dataVA + r%(pages<<12)
			}
		}
		c.R[seed&15] = p
		c.IDT = Table{Base: dataVA, Limit: 0xfff}
		left := uint64(2000)
		for range 100 {
			e, n := c.Run(left)
			if n > left {
				t.Fatalf("%d of %d retired", n, left)
			}
			if left -= n; e.Reason == Budget || left == 0 {
				break
			}
			if e.Reason == Trap {
				c.RIP = textVA + abi.SplitMix64(&c.Seed)%uint64(len(code)+1)
			}
			c.Deliver(uint8(seed), seed&1 != 0, 0)
			if c.Place(decode.RegZero) != 0 || c.RFlags&^core.FlagMask != core.FlagFixed {
				t.Fatalf("zero %d flags %#x", c.Place(decode.RegZero), c.RFlags)
			}
		}
	})
}

// TestGS runs what a kernel does with segment bases: wrmsr, gs-relative access
// (also RIP-relative), swapgs, rdgsbase.
func TestGS(t *testing.T) {
	c := machine(t,
		0x0f, 0x30, // wrmsr
		0x65, 0x48, 0x8b, 0x1c, 0x25, 0x28, 0, 0, 0, // mov %gs:0x28,%rbx
		0x65, 0x48, 0x03, 0x1d, 0, 0, 0, 0, // add %gs:0(%rip),%rbx
		0x0f, 0x01, 0xf8, // swapgs
		0xf3, 0x48, 0x0f, 0xae, 0xce, // rdgsbase %rsi
		0xf4)
	base := uint64(dataVA)
	c.mem.WriteU64(base+0x28, 40)
	rip := uint64(textVA + 19)
	c.R[0], c.R[2], c.R[1] = base&0xffffffff, base>>32, 0xc0000101
	c.KernelGSBase = 77
	run(t, c, 2, Budget, 2)
	if c.R[3] != 40 {
		t.Errorf("rbx %d", c.R[3])
	}
	c.GSBase = base + 0x28 - rip
	run(t, c, 100, Halt, 4)
	if c.R[3] != 80 || c.R[6] != 77 || c.KernelGSBase != base+0x28-rip {
		t.Errorf("rbx %d rsi %d", c.R[3], c.R[6])
	}
}

// TestThunk is a retpoline: ret goes where nothing has called from.
func TestThunk(t *testing.T) {
	c := machine(t,
		0xe8, 1, 0, 0, 0, // call 1f
		0xf4,                         // hlt
		0xe8, 2, 0, 0, 0, 0x0f, 0x0b, // 1: call 2f; ud2
		0x48, 0x89, 0x04, 0x24, // 2: mov %rax,(%rsp)
		0xc3,                   // ret
		0x48, 0xff, 0xc3, 0xc3) // target: inc %rbx; ret
	c.R[0] = textVA + 18
	for i := range uint64(3) {
		c.RIP = textVA
		run(t, c, 100, Halt, 7)
		if c.R[3] != i+1 || c.R[4] != stackVA {
			t.Errorf("rbx %d rsp %#x", c.R[3], c.R[4])
		}
	}
}

// TestInterruptStack delivers on the stack that the gate's IST names.
func TestInterruptStack(t *testing.T) {
	// ltr %ax; hlt
	c := machine(t, 0x0f, 0x00, 0xd8, 0xf4)
	gdt, tss, idt := uint64(dataVA), uint64(dataVA+0x1000), uint64(dataVA+0x2000)
	c.GDT, c.IDT = Table{Base: gdt, Limit: 0x7f}, Table{Base: idt, Limit: 0xfff}
	c.mem.WriteU64(gdt+0x40, 0x67|tss&0xffffff<<16|0x89<<40|tss>>24&0xff<<56)
	c.mem.WriteU64(gdt+0x48, tss>>32)
	c.mem.WriteU64(tss+0x24+8, dataVA+0x6000) // IST 2
	c.mem.WriteU64(idt+8*16, textVA&0xffff|0x10<<16|2<<32|0x8e<<40|textVA>>16&0xffff<<48)
	c.mem.WriteU64(idt+8*16+8, textVA>>32)
	c.R[0] = 0x40
	run(t, c, 100, Halt, 2)
	if err := c.Deliver(8, true, 0); err != nil {
		t.Fatal(err)
	}
	if c.R[4] != dataVA+0x6000-48 || c.RIP != textVA {
		t.Errorf("rsp %#x rip %#x", c.R[4], c.RIP)
	}
	if sp, _ := c.mem.ReadU64(c.R[4] + 32); sp != stackVA {
		t.Errorf("old rsp %#x", sp)
	}
}

// testEngine is the engine of the tests' machines. The native one translates blocks
// when they are entered for the first time.
var testEngine = Interp

// newCache returns a cache with testEngine.
func newCache(m *mem.Memory) *Cache {
	return cacheWith(m, testEngine, 1, maxCode)
}

// TestMain runs the tests with each engine that this host has.
func TestMain(m *testing.M) {
	flag.Parse()
	if native.Error() == nil {
		testEngine = Native
	}
	code := m.Run()
	alone := func(name string) bool { f := flag.Lookup(name); return f != nil && f.Value.String() != "" }
	if testEngine == Native && !alone("test.fuzz") && !alone("test.bench") && !alone("test.list") {
		fmt.Println("the same with the interpreter:")
		testEngine = Interp
		code = max(code, m.Run())
	}
	os.Exit(code)
}

// TestGuardedTLB: what lies before and behind the TLBs cannot be accessed. A vCPU may
// still be told to forget what is in them when its memory has been closed.
func TestGuardedTLB(t *testing.T) {
	m, err := mem.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	c := newCPU(t, m, 0, newCache(m))
	faults := func(p unsafe.Pointer, off int) (fault bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { fault = recover() != nil }()
		seen = *(*byte)(unsafe.Add(p, off))
		return false
	}
	first, size := unsafe.Pointer(c.TLB.Read), int(2*unsafe.Sizeof(core.Pages{}))
	for _, off := range []int{-1 << 12, -1, size, size + 1<<12} {
		if !faults(first, off) {
			t.Errorf("the byte at %#x can be read", off)
		}
	}
	if unsafe.Add(first, size/2) != unsafe.Pointer(c.TLB.Write) || faults(first, 0) || faults(first, size-1) {
		t.Error("the TLBs are not what lies between the guards")
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	c.FlushTLB()
	c.FlushPage(0)
}

var seen byte

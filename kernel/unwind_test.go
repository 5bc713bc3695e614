package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// codeAt is an address in guest code with the size of its stack frame.
type codeAt struct{ at, size uint64 }

// ret returns a return address for it.
func (c codeAt) ret() uint64 { return c.at + 1 }

// deep returns a place in a function where something is on the stack.
func (m *testMachine) deep(sym string) codeAt {
	m.t.Helper()
	s := m.allSyms.LookupName(sym)
	if len(s) == 0 {
		m.t.Fatalf("the guest has no %s", sym)
	}
	for a := s[0].Addr; a < s[0].Addr+s[0].Size; a++ {
		if size, ok := m.tab.FrameSize(a); ok && size > 16 {
			return codeAt{a, size}
		}
	}
	m.t.Fatalf("%s has nothing on its stack", sym)
	return codeAt{}
}

// bareCode returns the address of a function in core text without frame information.
func (m *testMachine) bareCode() uint64 {
	m.t.Helper()
	for _, s := range m.img.Symbols {
		if _, ok := m.tab.FrameSize(s.Addr); !ok && m.img.Text.Contains(s.Addr) && !m.img.EntryText.Contains(s.Addr) && s.Size > 8 {
			return s.Addr
		}
	}
	m.t.Fatal("all code of the guest has frame information")
	return 0
}

// lastCall returns a place at the end of a function whose last instruction is a call
// of a noreturn function. The return address is in the next function, which has
// another stack frame.
func (m *testMachine) lastCall() codeAt {
	m.t.Helper()
	for _, s := range m.img.Symbols {
		last := s.Addr + s.Size - 1
		size, ok := m.tab.FrameSize(last)
		behind, _ := m.tab.FrameSize(last + 1)
		if ok && s.Size > 8 && size > 16 && size != behind && m.img.Text.Contains(last) {
			return codeAt{last, size}
		}
	}
	m.t.Fatal("no function of the guest ends with a call")
	return codeAt{}
}

// TestUnwindStacks unwinds made-up stacks: through calls, exceptions, and up to
// broken frames.
func TestUnwindStacks(t *testing.T) {
	m := boot(t, 1)
	a, b, c := m.deep("vfs_read"), m.deep("vfs_write"), m.deep("path_openat")
	gate, syscall := m.symbol("asm_exc_page_fault"), m.symbol("entry_SYSCALL_64_after_hwframe")
	bare, last := m.bareCode(), m.lastCall()
	page := m.page()
	slot := m.slotCode(0x90, 0x90)
	top := page + abi.PageSize // not on the test's stack
	type words map[uint64]uint64
	type frame struct{ ip, sp uint64 }
	regs := func(at, ip, cs, sp uint64) words {
		return words{at + abi.RegsIP: ip, at + abi.RegsCS: cs, at + abi.RegsSP: sp}
	}
	for _, tc := range []struct {
		name  string
		ip    uint64
		stack []words
		want  []frame // after the first frame
	}{
		{
			"calls", a.at,
			[]words{{a.size - 8: b.ret(), a.size + b.size - 8: c.ret()}},
			[]frame{{b.ret(), a.size}, {c.ret(), a.size + b.size}},
		},
		{
			"a call that is a function's last instruction", a.at,
			[]words{{a.size - 8: last.ret(), a.size + last.size - 8: c.ret()}},
			[]frame{{last.ret(), a.size}, {c.ret(), a.size + last.size}},
		},
		{"entered without frame information", bare, []words{{0: b.ret()}}, []frame{{b.ret(), 8}}},
		{"called without frame information", a.at, []words{{a.size - 8: bare + 1, a.size: b.ret()}}, []frame{{bare + 1, a.size}}},
		{
			"an exception in a function", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, b.at, abi.KernelCS, 1024), {1024 + b.size - 8: c.ret()}},
			[]frame{{gate + 1, a.size}, {b.at, 1024}, {c.ret(), 1024 + b.size}},
		},
		{
			"an exception at a function's first instruction", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, bare, abi.KernelCS, 1024), {1024: c.ret()}},
			[]frame{{gate + 1, a.size}, {bare, 1024}, {c.ret(), 1032}},
		},
		{
			"an exception in an exception", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, b.at, abi.KernelCS, 1024), {1024 + b.size - 8: gate + 1}, regs(1024+b.size, c.at, abi.KernelCS, 2048)},
			[]frame{{gate + 1, a.size}, {b.at, 1024}, {gate + 1, 1024 + b.size}, {c.at, 2048}},
		},
		{
			"an exception in a slot", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, slot, abi.KernelCS, 1024), {1024: c.ret()}},
			[]frame{{gate + 1, a.size}, {slot, 1024}},
		},
		{
			"an exception in user mode", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, b.at, 0x33, 1024), {1024 + b.size - 8: c.ret()}},
			[]frame{{gate + 1, a.size}},
		},
		{"an exception over data", a.at, []words{{a.size - 8: gate + 1}, regs(a.size, page, abi.KernelCS, 1024)}, []frame{{gate + 1, a.size}}},
		{
			"an exception over a stack that is not there", a.at,
			[]words{{a.size - 8: gate + 1}, regs(a.size, b.at, abi.KernelCS, 1<<63)},
			[]frame{{gate + 1, a.size}, {b.at, 1<<63 - page}},
		},
		{"a system call", a.at, []words{{a.size - 8: syscall + 1}, regs(a.size, b.at, abi.KernelCS, 1024)}, []frame{{syscall + 1, a.size}}},
		{"a return into data", a.at, []words{{a.size - 8: page}}, nil},
		{"a return to 0", a.at, []words{{a.size - 8: 0}}, nil},
		{"a return into a slot", a.at, []words{{a.size - 8: slot + 1, a.size: b.ret()}}, []frame{{slot + 1, a.size}}},
		{"it begins in data", page, []words{{0: a.ret()}}, nil},
		{"it begins at -1", ^uint64(0), []words{{0: a.ret()}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clear(m.mem.Phys(page-abi.DirectMap, abi.PageSize))
			for _, w := range tc.stack {
				for off, v := range w {
					if page+off >= top {
						t.Fatalf("%#x is not on the test's stack", off)
					}
					if v >= 1024 && v < abi.PageSize { // a stack pointer, not a segment
						v += page
					}
					if err := m.mem.WriteU64(page+off, v); err != nil {
						t.Fatal(err)
					}
				}
			}
			var ips, sps [32]uint64
			n := m.Unwind(0, tc.ip, 0, page, ips[:], sps[:])
			want := append([]frame{{tc.ip, 0}}, tc.want...)
			var got []frame
			for i := range n {
				got = append(got, frame{ips[i], sps[i] - page})
			}
			if !slices.Equal(got, want) {
				t.Errorf("%x\nwant %x", got, want)
			}
			for room := range n { // with less space than frames
				var few [32]uint64
				if k := m.Unwind(0, tc.ip, 0, page, few[:room], nil); k != room || !slices.Equal(few[:room], ips[:room]) {
					t.Errorf("with room for %d: %x", room, few[:k])
				}
			}
		})
	}
}

// TestUnwindHooked: Handlers.Return returns the original of a replaced return address
// and how to show it, Handlers.Last the function where stacks end.
func TestUnwindHooked(t *testing.T) {
	m := boot(t, 1)
	a, b, c := m.deep("vfs_read"), m.deep("vfs_write"), m.deep("path_openat")
	page, hook := m.page(), m.slotCode(0x90)
	const task = 0x1234
	var asked []uint64
	returns := func(show bool) func(of, slot, addr uint64) (uint64, uint64) {
		return func(of, slot, addr uint64) (shown, real uint64) {
			if of != task {
				t.Errorf("the return of task %#x is asked for", of)
			}
			if addr != hook {
				return addr, addr
			}
			asked = append(asked, slot-page)
			if show {
				return addr, b.ret()
			}
			return b.ret(), b.ret()
		}
	}
	gone := func(_, _, addr uint64) (shown, real uint64) { return addr, 0 }
	last := func(ip uint64) bool { return ip == hook }
	for _, tc := range []struct {
		name  string
		h     Handlers
		holds uint64 // in place of the return address
		want  []uint64
		asked []uint64
	}{
		{"not asked", Handlers{}, b.ret(), []uint64{a.at, b.ret(), c.ret()}, nil},
		{"looked up", Handlers{Return: returns(false)}, hook, []uint64{a.at, b.ret(), c.ret()}, []uint64{a.size - 8}},
		{"not hooked", Handlers{Return: returns(false)}, b.ret(), []uint64{a.at, b.ret(), c.ret()}, nil},
		{"shown", Handlers{Return: returns(true)}, hook, []uint64{a.at, hook, c.ret()}, []uint64{a.size - 8}},
		{"not known", Handlers{Return: gone}, hook, []uint64{a.at}, nil},
		{"the end", Handlers{Return: returns(true), Last: last}, hook, []uint64{a.at, hook}, []uint64{a.size - 8}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked = nil
			m.SetHandlers(tc.h)
			clear(m.mem.Phys(page-abi.DirectMap, abi.PageSize))
			for off, v := range map[uint64]uint64{a.size - 8: tc.holds, a.size + b.size - 8: c.ret()} {
				if err := m.mem.WriteU64(page+off, v); err != nil {
					t.Fatal(err)
				}
			}
			var ips [8]uint64
			n := m.Unwind(task, a.at, 0, page, ips[:], nil)
			if !slices.Equal(ips[:n], tc.want) || !slices.Equal(asked, tc.asked) {
				t.Errorf("%x, asked for %d\nwant %x, %d", ips[:n], asked, tc.want, tc.asked)
			}
		})
	}
}

// TestUnwindBroken: stacks with loops, unmapped ones, and ones with random contents
// do not write beyond the given space, and nothing is allocated.
func TestUnwindBroken(t *testing.T) {
	m := boot(t, 1)
	a, gate, page := m.deep("vfs_read"), m.symbol("asm_exc_page_fault"), m.page()
	put := func(off, v uint64) {
		if err := m.mem.WriteU64(page+off, v); err != nil {
			t.Fatal(err)
		}
	}
	put(a.size-8, gate+1)
	put(a.size+128, a.at)
	put(a.size+abi.RegsCS, abi.KernelCS)
	put(a.size+152, page) // a loop to the first frame
	var ips, sps [64]uint64
	if n := m.Unwind(0, a.at, 0, page, ips[:], sps[:]); n != len(ips) || ips[62] != a.at || sps[62] != page || ips[63] != gate+1 {
		t.Errorf("a loop has %d frames: %x", n, ips)
	}
	var got float64
	for range 10 { // AllocsPerRun counts the allocations of the vCPUs as well
		if got = testing.AllocsPerRun(20, func() { m.Unwind(0, a.at, 0, page, ips[:], sps[:]) }); got == 0 {
			break
		}
	}
	if got != 0 {
		t.Errorf("%v allocations", got)
	}

	rnd := rand.New(rand.NewPCG(3, 4))
	text := m.img.Text
	word := func() uint64 {
		switch rnd.IntN(5) {
		case 0:
			return gate + 1
		case 1:
			return page + rnd.Uint64N(abi.PageSize)
		case 2:
			return unmapped[rnd.IntN(len(unmapped))]
		case 3:
			return abi.KernelCS
		}
		return text.Start + rnd.Uint64N(text.End-text.Start)
	}
	deepest := 0
	const mark = 0x5a5a5a5a5a5a5a5a
	for range 3000 {
		for off := uint64(0); off < abi.PageSize; off += 8 {
			put(off, word())
		}
		for range 10 {
			for i := range ips {
				ips[i], sps[i] = mark, mark
			}
			ip, sp := word(), word()
			if rnd.IntN(2) == 0 {
				sp = page + 8*rnd.Uint64N(16)
			}
			room := rnd.IntN(len(ips) - 1)
			n := m.Unwind(rnd.Uint64(), ip, rnd.Uint64N(2), sp, ips[:room], sps[:room])
			if n > room || n == 0 && room > 0 || ips[room] != mark || sps[room] != mark || n > 0 && (ips[0] != ip || sps[0] != sp) {
				t.Fatalf("with room for %d at %#x, stack %#x: %d frames, %x", room, ip, sp, n, ips[:room+1])
			}
			deepest = max(deepest, n)
		}
	}
	if deepest < 5 {
		t.Errorf("no stack had more than %d frames: the test is too simple", deepest)
	}
}

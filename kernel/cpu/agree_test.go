package cpu

import (
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
)

// opcodes are what random programs are made of; each is followed by a ModRM
// byte (m), an immediate of 1 or 4 bytes (i, I) or both.
var opcodes = []struct {
	code string
	args string
}{
	{"\x89", "m"},
	{"\x8b", "m"},
	{"\x89", "m"},
	{"\x8b", "m"},
	{"\x88", "m"},
	{"\x8a", "m"},
	{"\xc7", "0I"},
	{"\xc6", "0i"},
	{"\x8d", "m"},
	{"\x0f\xb6", "m"},
	{"\x0f\xb7", "m"},
	{"\x0f\xbe", "m"},
	{"\x0f\xbf", "m"},
	{"\x63", "m"},
	{"\x01", "m"},
	{"\x03", "m"},
	{"\x29", "m"},
	{"\x2b", "m"},
	{"\x21", "m"},
	{"\x23", "m"},
	{"\x31", "m"},
	{"\x33", "m"},
	{"\x09", "m"},
	{"\x0b", "m"},
	{"\x39", "m"},
	{"\x3b", "m"},
	{"\x38", "m"},
	{"\x3a", "m"},
	{"\x85", "m"},
	{"\x84", "m"},
	{"\x83", "mi"},
	{"\x83", "mi"},
	{"\x81", "mI"},
	{"\x80", "mi"},
	{"\xc1", "mi"},
	{"\xc1", "mi"},
	{"\xd3", "m"},
	{"\xd1", "m"},
	{"\xf7", "m"},
	{"\xff", "0"},
	{"\xff", "1"},
	{"\x0f\xaf", "m"},
	{"\x6b", "mi"},
	{"\x0f\x94", "m"},
	{"\x0f\x9c", "m"},
	{"\x0f\x44", "m"},
	{"\x0f\x4c", "m"},
	{"\x11", "m"},
	{"\x1b", "m"},
	{"\x0f\xa3", "m"},
	{"\x0f\xba", "6i"},
	{"\x87", "m"},
	{"\x0f\xc1", "m"},
	{"\x0f\xb1", "m"},
	{"\x50", ""},
	{"\x53", ""},
	{"\x56", ""},
	{"\x5b", ""},
	{"\x5e", ""},
	{"\x58", ""},
	{"\x87", "m"},
	{"\x0f\xc1", "m"},
	{"\x90", ""},
	{"\x98", ""},
	{"\x99", ""},
	{"\xb8", "I"},
	{"\xbb", "I"},
	{"\xc9", ""},
	{"\xe8", "J"},
	{"\xc3", ""},
	{"\xeb", "j"},
	{"\x72", "j"},
	{"\x73", "j"},
	{"\x74", "j"},
	{"\x75", "j"},
	{"\x76", "j"},
	{"\x77", "j"},
	{"\x78", "j"},
	{"\x79", "j"},
	{"\x7a", "j"},
	{"\x70", "j"},
	{"\x7c", "j"},
	{"\x7d", "j"},
	{"\x7e", "j"},
	{"\x7f", "j"},
	{"\x74", "j"},
	{"\x75", "j"},
	{"\x0f\x01\xc1", ""}, // vmcall
	{"\xcc", ""},
}

// oddHook answers three of four hits, by what a register holds: a vmcall as one that returns
// something, an int3 as one that changes flags and goes on one byte further now and then.
type oddHook struct{ c *CPU }

func (h oddHook) OnHit(r Reason) bool {
	c := h.c
	if c.R[3]&3 == 3 {
		return false
	}
	c.R[0] += c.R[3]
	if r == Trap {
		c.GoOn(c.RIP+c.R[0]&1, c.RFlags^c.R[0]&core.FlagStatus)
	}
	return true
}

// randomProgram is n instructions whose branches go a little forward.
func randomProgram(r *rand.Rand, n int) []byte {
	var b []byte
	for range n {
		if r.IntN(40) == 0 {
			b = append(b, 0x65)
		}
		if r.IntN(20) == 0 {
			b = append(b, 0xf0)
		}
		if r.IntN(25) == 0 {
			b = append(b, 0x66)
		}
		if r.IntN(3) > 0 {
			b = append(b, []byte{0x48, 0x48, 0x48, 0x4c, 0x49, 0x41, 0x45, 0x40}[r.IntN(8)])
		}
		o := opcodes[r.IntN(len(opcodes))]
		b = append(b, o.code...)
		for _, a := range o.args {
			switch a {
			case 'i':
				b = append(b, byte(r.Uint32()))
			case 'I':
				b = append(b, byte(r.Uint32()), byte(r.IntN(3)), 0, byte(r.IntN(2)<<7))
			case 'j':
				b = append(b, byte(r.IntN(12)))
			case 'J':
				b = append(b, byte(r.IntN(12)), 0, 0, 0)
			default:
				m := byte(r.Uint32())
				if a != 'm' {
					m = m&^0x38 | byte(a-'0')<<3
				}
				b = append(b, m)
				if m < 0xc0 && m&7 == 4 {
					b = append(b, byte(r.Uint32()))
				}
				switch {
				case m>>6 == 1:
					b = append(b, byte(r.Uint32()))
				case m>>6 == 2 || m>>6 == 0 && m&7 == 5:
					b = append(b, byte(r.Uint32()), 0, 0, 0)
				}
			}
		}
	}
	return b
}

// TestFastAgrees runs random programs as kernels run, in blocks, and instruction by
// instruction through exec, which the recorded cases check. All that can be seen must be the same.
func TestFastAgrees(t *testing.T) {
	programs := uint64(5_000)
	switch {
	case os.Getenv("KPROBEFS_SOAK") != "":
		programs = 500_000 // 10,000,000 sequences are compared
	case testing.Short() || replayStride > 1:
		programs = 200
	}
	s := newSweep(t)
	for seed := range programs {
		s.agree(t, seed)
	}
}

func FuzzFastAgrees(f *testing.F) {
	s := newSweep(f)
	f.Fuzz(func(t *testing.T, seed uint64) { s.agree(t, seed) })
}

// agree runs a random program in 20 sequences of up to 60 instructions each. It is patched now
// and then between two of them, and the CPU that runs it in blocks is kicked.
func (s *sweep) agree(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	code := randomProgram(r, 60)
	s.poke(t, textVA, append(code, make([]byte, max(0, 1<<10-len(code)))...)) // nothing of the program before is left
	s.begin(r)
	for range 20 {
		e1, n1 := s.runKicked(uint64(1 + r.IntN(60)))
		e2, n2 := s.runSingle(n1, e1)
		if e1 != e2 || n1 != n2 || s.blocks.State != s.single.State {
			t.Fatalf("seed %d: % x\nblocks %+v %d %+v\nsingle %+v %d %+v", seed, code, e1, n1, s.blocks.State, e2, n2, s.single.State)
		}
		if e1.Reason == Trap { // skip what faulted
			s.blocks.RIP = textVA + (s.blocks.RIP+3-textVA)%uint64(len(code))
			s.single.RIP = s.blocks.RIP
		}
		if r.IntN(4) == 0 {
			s.poke(t, textVA+uint64(r.IntN(len(code))), randomProgram(r, 1))
		}
	}
	data := s.single.mem.Phys(dataPA, pages<<12)
	for i, v := range s.blocks.mem.Phys(dataPA, pages<<12) {
		if v != data[i] {
			t.Errorf("seed %d: % x\nbyte at %#x: %#x in blocks, %#x alone", seed, code, uint64(dataVA)+uint64(i), v, data[i])
		}
	}
}

// TestEachEncoding executes each opcode with some ModRM bytes, and with KPROBEFS_SOAK with
// each, in blocks and alone: a block ends where it must, and nowhere else.
func TestEachEncoding(t *testing.T) {
	heads := pairs([][]byte{nil, {0x66}, {0x48}, {0x4c}, {0xf3}, {0xf0}}, [][]byte{nil, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}})
	s := newSweep(t)
	for _, code := range encodings(heads, 11) {
		s.try(t, code)
	}
}

// pairs returns each of a followed by each of b.
func pairs(a, b [][]byte) (all [][]byte) {
	for _, x := range a {
		for _, y := range b {
			all = append(all, slices.Concat(x, y))
		}
	}
	return all
}

// encodings yields each head with each opcode and every stride-th ModRM byte, others for each
// opcode, and the number of head and opcode. With KPROBEFS_SOAK it yields all ModRM bytes, and
// fewer than usual where the tests are to be short.
func encodings(heads [][]byte, stride int) iter.Seq2[int, []byte] {
	switch {
	case os.Getenv("KPROBEFS_SOAK") != "":
		stride = 1
	case testing.Short() || replayStride > 1:
		stride = 83
	}
	return func(yield func(int, []byte) bool) {
		for i, head := range heads {
			for op := range 256 {
				at := i<<8 + op
				for modrm := at % stride; modrm < 256; modrm += stride {
					if !yield(at, slices.Concat(head, []byte{byte(op), byte(modrm)})) {
						return
					}
				}
			}
		}
	}
}

// sweep is two CPUs with memories of their own, which execute the same: one in blocks, the
// other one instruction at a time.
type sweep struct{ blocks, single *CPU }

func newSweep(t testing.TB) *sweep {
	s := &sweep{machine(t), machine(t)}
	for _, c := range []*CPU{s.blocks, s.single} {
		c.SetHook(oddHook{c})
	}
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() { // kicks
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.blocks.Kick()
			case <-stop:
				return
			}
		}
	}()
	return s
}

// poke writes to the text of both.
func (s *sweep) poke(t testing.TB, va uint64, b []byte) {
	t.Helper()
	for _, c := range []*CPU{s.blocks, s.single} {
		if err := c.mem.PokeText(va, b); err != nil {
			t.Fatal(err)
		}
	}
}

// begin gives both the same random data and registers, many of which point to the data.
func (s *sweep) begin(r *rand.Rand) {
	data := s.blocks.mem.Phys(dataPA, pages<<12)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], r.Uint64())
	}
	copy(s.single.mem.Phys(dataPA, pages<<12), data)
	st := State{RIP: textVA, RFlags: core.FlagFixed, GSBase: uint64(r.IntN(20))}
	for i := range st.R {
		switch r.IntN(8) {
		case 0:
			st.R[i] = r.Uint64()
		case 1:
			st.R[i] = uint64(r.IntN(100))
		default:
			st.R[i] = dataVA + uint64(r.IntN(pages<<12))
		}
	}
	st.R[4] = stackVA + uint64(r.IntN(300))
	s.blocks.State, s.single.State = st, st
}

// runKicked runs in blocks, until the budget is used up or something else happens than a kick.
func (s *sweep) runKicked(budget uint64) (e Exit, n uint64) {
	for {
		var some uint64
		e, some = s.blocks.Run(budget - n)
		n += some
		if e.Reason != Kick {
			return e, n
		}
	}
}

// runSingle runs n instructions one by one, and one more if the exit to come is its fault.
func (s *sweep) runSingle(n uint64, until Exit) (e Exit, done uint64) {
	for done < n || until.Reason != Budget {
		var one uint64
		e, one = s.single.Run(1)
		if done += one; e.Reason != Budget || done > n {
			return e, done
		}
	}
	return e, done
}

// try executes an instruction, the bytes after it being its operands or nops, some times in
// a block, and once alone.
func (s *sweep) try(t *testing.T, code []byte) {
	t.Helper()
	const times = 3 // translated code is entered, too
	text := append(slices.Clone(code), 0x10, 0, 0, 0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf4)
	begin := func(c *CPU) {
		clear(c.mem.Phys(dataPA, pages<<12))
		c.State = State{RIP: textVA, RFlags: core.FlagFixed}
		for i := range c.R {
			c.R[i] = dataVA + uint64(i)*0x100
		}
		c.R[1], c.R[4] = 3, stackVA
	}
	s.poke(t, textVA, text)
	begin(s.single)
	want, n := Exit{}, uint64(0)
	for want.Reason == Budget && n < 20 {
		var one uint64
		want, one = s.single.Run(1)
		n += one
	}
	for range times {
		begin(s.blocks)
		got, m := s.runKicked(20)
		if got != want || m != n || s.blocks.State != s.single.State {
			t.Fatalf("% x\nblocks %+v %d %+v\nalone %+v %d %+v", code, got, m, s.blocks.State, want, n, s.single.State)
		}
	}
}

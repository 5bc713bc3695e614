package cpu

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

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
	for seed := range uint64(200) {
		agree(t, seed)
	}
}

func FuzzFastAgrees(f *testing.F) {
	f.Fuzz(func(t *testing.T, seed uint64) { agree(t, seed) })
}

func agree(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	code := randomProgram(r, 60)
	blocks, single := machine(t, code...), machine(t, code...)
	data := blocks.mem.Phys(dataPA, pages<<12)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for i := range blocks.R {
		switch r.IntN(8) {
		case 0:
			blocks.R[i] = r.Uint64()
		case 1:
			blocks.R[i] = uint64(r.IntN(100))
		default:
			blocks.R[i] = dataVA + uint64(r.IntN(pages<<12))
		}
	}
	blocks.R[4] = stackVA + uint64(r.IntN(300))
	blocks.GSBase = uint64(r.IntN(20))
	single.State = blocks.State
	copy(single.mem.Phys(dataPA, pages<<12), data)

	for range 60 {
		budget := uint64(1 + r.IntN(60))
		e1, n1 := blocks.Run(budget)
		var e2 Exit
		var n2 uint64
		for n2 < budget {
			e, n := single.Run(1)
			if e2 = e; e.Reason != Budget {
				n2 += n
				break
			}
			n2 += n
		}
		for i, v := range single.mem.Phys(dataPA, pages<<12) {
			if v != data[i] {
				t.Errorf("byte at %#x: %#x in blocks, %#x alone", uint64(dataVA)+uint64(i), data[i], v)
			}
		}
		if t.Failed() || e1 != e2 || n1 != n2 || blocks.State != single.State {
			t.Fatalf("seed %d: % x\nblocks %+v %d %+v\nsingle %+v %d %+v", seed, code, e1, n1, blocks.State, e2, n2, single.State)
		}
		if e1.Reason == Trap { // skip what faulted
			blocks.RIP = textVA + (blocks.RIP+3-textVA)%uint64(len(code))
			single.RIP = blocks.RIP
		}
	}
}

// TestEachEncoding executes each opcode with some ModRM bytes, and with KPROBEFS_SOAK with
// each, in blocks and alone: a block ends where it must, and nowhere else.
func TestEachEncoding(t *testing.T) {
	prefixes := [][]byte{nil, {0x66}, {0x48}, {0x4c}, {0xf3}, {0xf0}}
	maps := [][]byte{nil, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}}
	stride := 11 // other bytes for each opcode
	switch {
	case os.Getenv("KPROBEFS_SOAK") != "":
		stride = 1
	case testing.Short() || replayStride > 1:
		stride = 83
	}
	s := newSweep(t)
	at := 0
	for _, p := range prefixes {
		for _, m := range maps {
			for op := range 256 {
				for modrm := at % stride; modrm < 256; modrm += stride {
					s.try(t, slices.Concat(p, m, []byte{byte(op), byte(modrm)}))
				}
				at++
			}
		}
	}
}

// sweep is two CPUs with memories of their own, which execute the same.
type sweep struct{ blocks, single *CPU }

func newSweep(t *testing.T) *sweep { return &sweep{machine(t), machine(t)} }

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
	if err := s.single.mem.PokeText(textVA, text); err != nil {
		t.Fatal(err)
	}
	begin(s.single)
	want, n := Exit{}, uint64(0)
	for want.Reason == Budget && n < 20 {
		var one uint64
		want, one = s.single.Run(1)
		n += one
	}
	if err := s.blocks.mem.PokeText(textVA, text); err != nil {
		t.Fatal(err)
	}
	for range times {
		begin(s.blocks)
		got, m := s.blocks.Run(20)
		if got != want || m != n || s.blocks.State != s.single.State {
			t.Fatalf("% x\nblocks %+v %d %+v\nalone %+v %d %+v", code, got, m, s.blocks.State, want, n, s.single.State)
		}
	}
}

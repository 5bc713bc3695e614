package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// Ways to make an address.
const (
	modeBase  = iota // base + displacement
	modeIndex        // and index << scale
	modeSeg          // and a segment's base
)

// forms has an encoding of each common form of instruction: rbx is the register operand,
// or the destination with rdx as the source, and memory is near rsi.
func forms() (all [][]byte) {
	for _, w := range []uint8{1, 2, 4, 8} {
		for mode := range 3 {
			add := func(memory bool, rm byte, immSize int, opcode ...byte) {
				if memory || mode == modeBase {
					all = append(all, encode(w, mode, memory, rm, immSize, opcode))
				}
			}
			odd := byte(1)
			if w == 1 {
				odd = 0
			}
			isz := int(min(w, 4))
			for c := decode.ADD; c <= decode.CMP; c++ {
				n := byte(c) << 3
				add(false, 0xd3, 0, n|odd)
				add(true, 0x58, 0, n|2|odd)
				add(true, 0x58, 0, n|odd)
				add(false, 0xc3|n, isz, 0x80|odd)
				add(true, 0x40|n, isz, 0x80|odd)
			}
			for _, op := range []byte{0x84, 0x88} { // test, mov
				add(false, 0xd3, 0, op|odd)
				add(true, 0x58, 0, op|odd)
			}
			add(true, 0x58, 0, 0x8a|odd)
			for _, op := range []byte{0xf6, 0xc6} {
				add(false, 0xc3, isz, op|odd)
				add(true, 0x40, isz, op|odd)
			}
			if w >= 4 {
				add(true, 0x58, 0, 0x8d)
			}
			for n := range byte(8) { // rol to sar
				add(false, 0xc3|n<<3, 1, 0xc0|odd)
				add(false, 0xc3|n<<3, 0, 0xd2|odd)
				add(true, 0x40|n<<3, 1, 0xc0|odd)
			}
			for i, memory := range []bool{false, true} {
				rm := []byte{0xda, 0x58}[i]
				if w <= 2 {
					add(memory, rm, 0, 0x0f, 0xb6|odd)
					add(memory, rm, 0, 0x0f, 0xbe|odd)
					add(memory, rm, 0, 0x48, 0x0f, 0xbe|odd)
				} else if w == 4 {
					add(memory, rm, 0, 0x48, 0x63)
				}
			}
		}
	}
	return append(all,
		[]byte{0x0f, 0x1f, 0x44, 0, 0},                         // nop
		[]byte{0x53}, []byte{0x54}, []byte{0x5b}, []byte{0x5c}, // push, pop
		[]byte{0x6a, 0x85}, []byte{0x9c}, []byte{0x9d}, []byte{0xc9},
		[]byte{0xe8, 2, 0, 0, 0}, []byte{0xeb, 2}, []byte{0xc3})
}

// encode puts prefixes before opcode and operands behind it.
func encode(w uint8, mode int, memory bool, rm byte, immSize int, opcode []byte) (b []byte) {
	extends := opcode[0] == 0x0f || opcode[0] == 0x48 // w is the source's
	if memory && mode == modeSeg {
		b = append(b, 0x65)
	}
	if w == 2 && !extends {
		b = append(b, 0x66)
	}
	if w == 8 {
		b = append(b, 0x48)
	}
	b = append(b, opcode...)
	switch {
	case !memory:
		b = append(b, rm)
	case mode == modeBase:
		b = append(b, rm|6, 0x10)
	default:
		b = append(b, rm|4, 0x8e, 0x10) // 0x10(%rsi,%rcx,4)
	}
	return append(b, []byte{0x85, 0x12, 0, 0x80}[:immSize]...)
}

// duel runs the same code in blocks and instruction by instruction.
type duel struct {
	r              *rand.Rand
	blocks, single *CPU
	data1, data2   []byte
}

func newDuel(t *testing.T) *duel {
	d := &duel{r: rand.New(rand.NewPCG(3, 4)), blocks: machine(t), single: machine(t)}
	d.data1 = d.blocks.mem.Phys(dataPA, pages<<12)
	d.data2 = d.single.mem.Phys(dataPA, pages<<12)
	for i := range d.data1 {
		d.data1[i] = byte(d.r.Uint32())
	}
	copy(d.data2, d.data1)
	return d
}

// value is a number that is often an edge of something.
func (d *duel) value() uint64 {
	v := []uint64{0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 63, 1<<63 - 1, ^uint64(0), 0x80001285}
	if n := d.r.IntN(2 * len(v)); n < len(v) {
		return v[n]
	}
	return d.r.Uint64() >> d.r.IntN(64)
}

// fight pokes code with a hlt behind it, and runs it some times.
func (d *duel) fight(t *testing.T, name string, code []byte) {
	t.Helper()
	code = append(code, 0xff, 0xc0, 0xf4, 0xf4)
	for _, c := range []*CPU{d.blocks, d.single} {
		if err := c.mem.PokeText(textVA, code); err != nil {
			t.Fatal(err)
		}
	}
	for range 12 {
		s := d.blocks.State
		for i := range s.R {
			s.R[i] = d.value()
		}
		if d.r.IntN(3) == 0 {
			s.R[3] = s.R[2]
		}
		s.R[4] = stackVA + uint64(d.r.IntN(100))
		if d.r.IntN(8) == 0 {
			s.R[4] = stackVA&^0xfff + uint64(d.r.IntN(16))
		}
		s.R[1] = uint64(d.r.IntN(70))
		s.R[6] = dataVA + uint64(d.r.IntN(pages<<12))
		if d.r.IntN(8) == 0 {
			s.R[6] = dataVA + uint64(d.r.IntN(3))<<12 - 0x10 - uint64(d.r.IntN(9))
		}
		s.GSBase = uint64(d.r.IntN(9))
		s.RIP, s.RFlags = textVA, core.FlagFixed|d.r.Uint64()&core.FlagStatus
		d.blocks.State, d.single.State = s, s
		for i := range d.blocks.TLB.Read {
			if d.r.IntN(4) == 0 {
				d.blocks.TLB.Read[i].Tag = 1
			}
			if d.r.IntN(4) == 0 {
				d.blocks.TLB.Write[i].Tag = 1
			}
		}
		e1, n1 := d.blocks.Run(100)
		e2, n2 := d.single.Run(1)
		for e2.Reason == Budget {
			e, n := d.single.Run(1)
			e2, n2 = e, n2+n
		}
		if e1 != e2 || n1 != n2 || d.blocks.State != d.single.State || !bytes.Equal(d.data1, d.data2) {
			t.Fatalf("%s: % x\nbefore %+v\nblocks %+v %d %+v\nsingle %+v %d %+v", name, code, s,
				e1, n1, d.blocks.State, e2, n2, d.single.State)
		}
	}
}

// TestForms runs common forms of instructions in blocks and one by one: each alone,
// before each conditional jump, and before some other.
func TestForms(t *testing.T) {
	d := newDuel(t)
	all := forms()
	for _, f := range all {
		d.fight(t, "one", f)
		for cc := range byte(16) {
			d.fight(t, "with a jump", append(bytes.Clone(f), 0x70|cc, 2))
		}
		for range 4 {
			d.fight(t, "two", append(bytes.Clone(f), all[d.r.IntN(len(all))]...))
		}
	}
}

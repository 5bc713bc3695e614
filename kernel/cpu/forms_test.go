package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// form is an encoding of one form of instruction: rbx is the register operand,
// or the destination with rdx as the source, and memory is near rsi.
type form struct {
	key  uint32
	code []byte
	cc   bool // it sets flags that a jump after it may be fused with
}

// forms has an encoding for each key that fast may know.
func forms() (all []form) {
	for _, w := range []uint8{1, 2, 4, 8} {
		for mode := range uint32(3) {
			add := func(c code, f uint32, cc bool, rm byte, immSize int, opcode ...byte) {
				k := uint32(c)<<8 | f<<4 | uint32(log2w(w))<<2 | mode
				memory := f >= fRM && f <= fMI
				if !memory && mode != modeBD {
					return
				}
				all = append(all, form{k, encode(w, mode, memory, rm, immSize, opcode), cc})
			}
			odd := byte(1)
			if w == 1 {
				odd = 0
			}
			isz := int(min(w, 4))
			for c := cADD; c <= cCMP; c++ {
				n := byte(c) << 3
				add(c, fRR, true, 0xd3, 0, n|odd)
				add(c, fRM, true, 0x58, 0, n|2|odd)
				add(c, fMR, true, 0x58, 0, n|odd)
				add(c, fRI, true, 0xc3|n, isz, 0x80|odd)
				add(c, fMI, true, 0x40|n, isz, 0x80|odd)
			}
			add(cTEST, fRR, true, 0xd3, 0, 0x84|odd)
			add(cTEST, fMR, true, 0x58, 0, 0x84|odd)
			add(cTEST, fRI, true, 0xc3, isz, 0xf6|odd)
			add(cTEST, fMI, true, 0x40, isz, 0xf6|odd)
			add(cMOV, fRR, false, 0xd3, 0, 0x88|odd)
			add(cMOV, fRM, false, 0x58, 0, 0x8a|odd)
			add(cMOV, fMR, false, 0x58, 0, 0x88|odd)
			add(cMOV, fRI, false, 0xc3, isz, 0xc6|odd)
			add(cMOV, fMI, false, 0x40, isz, 0xc6|odd)
			if w >= 4 {
				add(cLEA, fRM, false, 0x58, 0, 0x8d)
				for _, c := range []code{cSHL, cSHR, cSAR} {
					add(c, fRI, true, 0xc3|byte(c-cROL)<<3, 1, 0xc1)
					add(c, fRC, true, 0xc3|byte(c-cROL)<<3, 0, 0xd3)
				}
			}
			for i, f := range []uint32{fRR, fRM} {
				rm := []byte{0xda, 0x58}[i]
				if w <= 2 {
					add(cMOVZX, f, false, rm, 0, 0x0f, 0xb6|odd)
					add(kMOVSX32, f, false, rm, 0, 0x0f, 0xbe|odd)
					add(cMOVSX, f, false, rm, 0, 0x48, 0x0f, 0xbe|odd)
				} else if w == 4 {
					add(cMOVSX, f, false, rm, 0, 0x48, 0x63)
				}
			}
		}
	}
	short := func(c code, w uint8, code ...byte) {
		all = append(all, form{uint32(c)<<8 | uint32(log2w(w))<<2, code, false})
	}
	short(cNOP, 4, 0x0f, 0x1f, 0x44, 0, 0)
	short(cPUSH, 8, 0x53)
	short(cPUSH, 8, 0x54)
	short(cPOP, 8, 0x5b)
	short(cPOP, 8, 0x5c)
	short(cCALL, 8, 0xe8, 2, 0, 0, 0)
	short(cJMP, 8, 0xeb, 2)
	short(cRET, 8, 0xc3)
	return all
}

// encode puts prefixes before opcode and operands behind it.
func encode(w uint8, mode uint32, memory bool, rm byte, immSize int, opcode []byte) (b []byte) {
	extends := opcode[0] == 0x0f || opcode[0] == 0x48 // w is the source's
	if memory && mode == modeFull {
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
	case mode == modeBD:
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
		s.RIP, s.RFlags = textVA, flagFixed|d.r.Uint64()&flagStatus
		d.blocks.State, d.single.State = s, s
		for i := range d.blocks.rtlb {
			if d.r.IntN(4) == 0 {
				d.blocks.rtlb[i].tag = 1
			}
			if d.r.IntN(4) == 0 {
				d.blocks.wtlb[i].tag = 1
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

// TestForms runs each function of fast.go against exec, alone and fused.
func TestForms(t *testing.T) {
	d := newDuel(t)
	all := forms()
	seen := 0
	for _, f := range all {
		o, _ := decode(f.code, textVA)
		if k, ok := keyOf(&o); !ok || k != f.key {
			if fast(f.key) != nil {
				t.Errorf("% x has key %#x, want %#x", f.code, k, f.key)
			}
			continue
		}
		if fast(f.key) != nil {
			seen++
			d.fight(t, "one", f.code)
		}
		for cc := range uint32(16) {
			if f.cc && fast(f.key|cc<<20) != nil {
				seen++
				d.fight(t, "with a jump", append(bytes.Clone(f.code), 0x70|byte(cc), 2))
			}
		}
	}
	for _, f := range all {
		for _, g := range all {
			if fast2(uint64(f.key)<<32|uint64(g.key)) != nil {
				seen++
				d.fight(t, "two", append(bytes.Clone(f.code), g.code...))
			}
			for cc := range uint32(16) {
				if g.cc && cc > 0 && fast2(uint64(f.key)<<32|uint64(g.key|cc<<20)) != nil {
					seen++
					d.fight(t, "two with a jump", append(append(bytes.Clone(f.code), g.code...), 0x70|byte(cc), 2))
				}
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d functions seen", seen)
	}
}

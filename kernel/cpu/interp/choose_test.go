package interp

import (
	"math/rand/v2"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// TestSafe executes each instruction that is executed without something that catches its
// faults, with whatever in the registers.
func TestSafe(t *testing.T) {
	m, err := mem.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	c := new(CPU)
	if err := c.Init(m, 0, NewCache(m, nil, 0)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 8))
	codes := map[decode.Code]bool{}
	try := func(b []byte) {
		in, short := decode.Decode(b, 0x1000)
		ops := []Op{{}, {Inst: in, n: 1}, {Inst: decode.Inst{Code: decode.FETCH}, n: 1}}
		if o := &ops[1]; short || !safe(o) {
			return
		}
		codes[in.Code] = true
		for i := range c.R {
			c.R[i] = r.Uint64() >> r.IntN(64)
		}
		defer func() {
			if f := recover(); f != nil {
				t.Fatalf("% x, code %d: %+v", b[:in.Len], in.Code, f)
			}
		}()
		c.exec(&ops[1])
	}
	tail := []byte{0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 5}
	for _, prefix := range [][]byte{{}, {0x66}, {0xf3}, {0xf2}, {0x41}, {0x48}} {
		for _, opcodes := range [][]byte{{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}, {0xc4, 0xe2, 0x78}, {0xc4, 0xe2, 0x79}, {0xc4, 0xe2, 0x7a}, {0xc4, 0xe2, 0x7b}, {0xc4, 0xe3, 0x7b}} {
			for op := range 256 {
				for modrm := 0xc0; modrm < 256; modrm++ {
					b := append(append(append([]byte{}, prefix...), opcodes...), byte(op), byte(modrm))
					try(append(b, tail...))
				}
			}
		}
	}
	if len(codes) < 90 {
		t.Errorf("only %d codes cannot fault", len(codes))
	}
}

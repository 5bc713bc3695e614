package interp

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// BenchmarkExec executes instructions on registers that have no handler of their own.
func BenchmarkExec(b *testing.B) {
	m, err := mem.New(1 << 20)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	c := new(CPU)
	if err := c.Init(m, 0, NewCache(m, nil, 0)); err != nil {
		b.Fatal(err)
	}
	// bswap, shld, bts, popcnt, mul, movzx of a byte, add of bytes, cld, xchg, lahf, andn, cltd
	code := []byte("\x48\x0f\xc8\x48\x0f\xa4\xd8\x03\x48\x0f\xab\xd8\xf3\x48\x0f\xb8\xc3\x48\xf7\xe3\x66\x0f\xb6\xc3\x00\xd8\xfc\x48\x87\xd8\x9f\xc4\xe2\xe0\xf2\xc3\x99")
	var ops []Op
	for len(code) > 0 {
		in, _ := decode.Decode(code, 0)
		code = code[in.Len:]
		ops = append(ops, Op{Inst: in})
	}
	n := len(ops)
	ops = append(ops, Op{Inst: decode.Inst{Code: decode.FETCH}})
	for b.Loop() {
		for i := range n {
			c.exec(&ops[i])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/instruction")
}

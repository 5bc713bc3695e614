package interp

import (
	"sync/atomic"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// What instructions do is tested in the package above, with both engines.

// unable is a Translator that translates nothing.
type unable struct{ phase atomic.Uint64 }

func (*unable) Translatable(*decode.Inst) bool { return true }
func (*unable) Attend(*CPU)                    {}
func (u *unable) Phase() *atomic.Uint64        { return &u.phase }
func (*unable) Translate(*Block) Translation   { return nil }

// TestCacheIsBounded enters code at every byte.
func TestCacheIsBounded(t *testing.T) {
	const pages, textPA, textVA = 16, 0x100000, abi.TextBase
	for name, translator := range map[string]Translator{"interpreted": nil, "with a translator": &unable{}} {
		t.Run(name, func(t *testing.T) {
			m, err := mem.New(1 << 21)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Close() })
			if err := m.Map(textVA, textPA, pages, mem.Read|mem.Exec); err != nil {
				t.Fatal(err)
			}
			text := m.Phys(textPA, pages<<12)
			for i := range text {
				text[i] = 0x90
			}
			cache := NewCache(m, translator, 1)
			c := new(CPU)
			if err := c.Init(m, 0, cache); err != nil {
				t.Fatal(err)
			}
			for i := range uint64(pages<<12 - 5) {
				c.RIP = textVA + i
				if e, n := c.Run(5); e.Reason != core.Budget || n != 5 {
					t.Fatalf("%+v, %d retired", e, n)
				}
			}
			if cache.ops > maxOps || len(cache.blocks) == 0 {
				t.Errorf("%d ops in %d blocks", cache.ops, len(cache.blocks))
			}
			sum := 0
			for _, b := range cache.blocks {
				sum += len(b.ops)
			}
			if sum != cache.ops {
				t.Errorf("%d ops counted, %d there", cache.ops, sum)
			}
		})
	}
}

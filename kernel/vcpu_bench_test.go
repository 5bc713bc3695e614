package kernel

import (
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// bareVCPU is a vCPU with one page of code at TextBase and a stack, but no guest kernel.
func bareVCPU(tb testing.TB, code ...byte) *vcpu {
	tb.Helper()
	ram, err := mem.New(1 << 20)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { ram.Close() })
	m := &Machine{mem: ram, clock: NewRealClock(), allSyms: kallsyms.New(nil)}
	m.syms = m.allSyms
	m.tab = image.NewTables(&image.Image{}, m.syms)
	m.handlers.Store(&Handlers{})
	copy(ram.Phys(0, abi.PageSize), code)
	for _, err := range []error{
		ram.Map(abi.TextBase, 0, 1, mem.Read|mem.Exec),
		ram.Map(abi.DirectMap, abi.PageSize, 16, mem.Read|mem.Write),
	} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	c, err := cpu.New(ram, 0, cpu.NewCache(ram, cpu.Auto))
	if err != nil {
		tb.Fatal(err)
	}
	v := newVCPU(m, 0, c)
	m.cpus = []*vcpu{v}
	v.cpu.RIP = abi.TextBase
	v.cpu.R[4] = abi.DirectMap + 8*abi.PageSize
	return v
}

// BenchmarkInt3 measures a breakpoint with a Go handler that resumes after it: the
// machine's share of a probe's hit.
func BenchmarkInt3(b *testing.B) {
	v := bareVCPU(b, 0xcc, 0xeb, 0xfd) // int3; jmp
	hits := 0
	v.m.SetHandlers(Handlers{Int3: func(t *abi.Trap) bool {
		hits++
		return true
	}})
	for b.Loop() {
		v.step(1000)
	}
	if hits == 0 {
		b.Fatal("no hits")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(hits), "ns/hit")
}

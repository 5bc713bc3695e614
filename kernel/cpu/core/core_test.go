package core

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
)

// TestPlaces: the State begins as decode numbers registers, and the CPU with the State.
func TestPlaces(t *testing.T) {
	if unsafe.Offsetof(State{}.zero) != decode.RegZero*8 || unsafe.Offsetof(State{}.FSBase) != decode.RegFS*8 ||
		unsafe.Offsetof(State{}.GSBase) != decode.RegGS*8 || unsafe.Offsetof(CPU{}.State) != 0 {
		t.Error("the register file is not as Place expects")
	}
}

// TestPages: two pages with the same places are both found, and a third one drives out
// the older of them. An access that ends in another page finds nothing.
func TestPages(t *testing.T) {
	const a, b, c = 0xffffc9000003a000, 0xffff88800013a000, 0xffff88800023a000
	p := new(Pages)
	for i := range p {
		p[i].Tag = 1
	}
	found := func(pages ...uint64) {
		t.Helper()
		for _, page := range []uint64{a, b, c} {
			e := p.Find(page+8, page)
			if want := slices.Contains(pages, page); (e != nil) != want || want && e.Off != page>>12 {
				t.Errorf("page %#x: %+v, want it to be there: %v", page, e, want)
			}
			if p.Find(page-4, page) != nil {
				t.Errorf("an access from before page %#x into it is found", page)
			}
		}
	}
	found()
	p.Put(a+8, a>>12)
	p.Put(b, b>>12)
	found(a, b)
	p.Put(c, c>>12)
	found(b, c)
	tlb := TLB{Read: p, Write: new(Pages)}
	tlb.FlushPage(b + 16)
	found(c)
	tlb.Flush()
	found()
}

// TestNoTargets: in empty Targets no address is found, not even those that the entries have.
func TestNoTargets(t *testing.T) {
	a := new(Aside)
	a.ForgetTargets()
	for i := range a.Targets {
		for _, rip := range []uint64{NoRIP(i), uint64(i), 1 << 62, 1<<63 | uint64(i)} {
			for _, e := range a.Pair(rip) {
				if e.RIP == rip {
					t.Errorf("%#x is found in an empty table", rip)
				}
			}
		}
	}
}

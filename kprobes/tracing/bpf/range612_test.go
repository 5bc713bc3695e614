package bpf

import (
	"math"
	"testing"
)

func TestBounds612(t *testing.T) {
	masked := func(mask uint64) value {
		v := unknown()
		v.calculate(aluAND, constant(mask), false)
		return v
	}
	minus := func(v value, n uint64) value {
		v.calculate(aluSUB, constant(n), false)
		return v
	}
	for _, c := range []struct {
		name string
		v    value
		want string
	}{
		{"anything", unknown(), "scalar()"},
		{"a small number", constant(32767), "32767"},
		{"a number", constant(32768), "0x8000"},
		{"a negative number", constant(math.MaxUint64), "-1"},
		{"masked", masked(63), "scalar(smin=smin32=0,smax=umax=smax32=umax32=63,var_off=(0x0; 0x3f))"},
		{"less than 0", minus(masked(63), 100), "scalar(smin=smin32=-100,smax=smax32=-37,umin=0xffffffffffffff9c,umax=0xffffffffffffffdb,umin32=0xffffff9c,umax32=0xffffffdb,var_off=(0xffffffffffffff80; 0x7f))"},
		{"on both sides of 0", minus(masked(127), 100), "scalar(smin=smin32=-100,smax=smax32=27)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.v.text612(0); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestRefine(t *testing.T) {
	a, b := unknown(), unknown()
	b.calculate(aluAND, constant(7), false)
	refine(jmpJLT, &a, &b, false)
	a.syncAll()
	if a.umax != 6 {
		t.Errorf("less than a number up to 7 is up to %d", a.umax)
	}
	if got := holds(jmpJGT, &a, &b, false); got != -1 {
		t.Errorf("%d, want -1", got)
	}
	c := constant(9)
	if got := holds(jmpJLT, &a, &c, false); got != 1 {
		t.Errorf("%d, want 1", got)
	}
}

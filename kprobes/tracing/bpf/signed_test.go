package bpf

import (
	"math"
	"testing"
)

func TestSignedALU(t *testing.T) {
	const least = uint64(1 << 63)
	minus := func(n uint64) uint64 { return -n }
	for _, c := range []struct {
		name string
		code uint8
		off  int16
		a, b uint64
		want uint64
	}{
		{"move of 8 bits", classALU64 | aluMOV | srcX, 8, 1, 0x180, minus(0x80)},
		{"move of 16 bits", classALU64 | aluMOV | srcX, 16, 1, 0x17fff, 0x7fff},
		{"move of 32 bits", classALU64 | aluMOV | srcX, 32, 1, 0xffffffff, minus(1)},
		{"short move", classALU | aluMOV | srcX, 8, 1, 0x80, 0xffffff80},
		{"quotient", classALU64 | aluDIV | srcX, 1, minus(7), 2, minus(3)},
		{"remainder", classALU64 | aluMOD | srcX, 1, minus(7), 2, minus(1)},
		{"short quotient", classALU | aluDIV | srcX, 1, 0xfffffff9, 2, 0xfffffffd},
		{"quotient of nothing", classALU64 | aluDIV | srcX, 1, 7, 0, 0},
		{"remainder of nothing", classALU64 | aluMOD | srcX, 1, 7, 0, 7},
		{"short remainder of nothing", classALU | aluMOD | srcX, 1, minus(7), 1 << 32, 0xfffffff9},
		{"quotient without a place", classALU64 | aluDIV | srcX, 1, least, minus(1), least},
		{"its remainder", classALU64 | aluMOD | srcX, 1, least, minus(1), 0},
		{"short quotient without a place", classALU | aluDIV | srcX, 1, 1 << 31, minus(1), 1 << 31},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := signedALU(insn{code: c.code, off: c.off}, c.a, c.b); got != c.want {
				t.Errorf("got %#x, want %#x", got, c.want)
			}
		})
	}
}

func TestExtend(t *testing.T) {
	between := func(lo, hi int64) value {
		v := unknown()
		v.smin, v.smax = lo, hi
		v.sync()
		v.lowFromBounds()
		return v
	}
	for _, c := range []struct {
		name   string
		v      value
		bits   int
		lo, hi int64
	}{
		{"a number", constant(0x1ff), 8, -1, -1},
		{"what has the sign", between(0, 100), 8, 0, 100},
		{"both signs", between(0, 200), 8, math.MinInt8, math.MaxInt8},
		{"negative ones", between(-100, -3), 16, -100, -3},
		{"bits above that are the same", between(0x180, 0x1ff), 8, -128, -1},
		{"anything", unknown(), 32, math.MinInt32, math.MaxInt32},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.v.extend(c.bits)
			if c.v.smin != c.lo || c.v.smax != c.hi {
				t.Errorf("from %d to %d, want %d to %d", c.v.smin, c.v.smax, c.lo, c.hi)
			}
		})
	}
}

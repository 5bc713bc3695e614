package bpf

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
)

// some returns what is known of a few random numbers, and the numbers.
func some(r *rand.Rand) (v value, numbers []uint64) {
	number := func() uint64 { return r.Uint64() >> r.IntN(64) << r.IntN(20) }
	first := number()
	v = constant(first)
	numbers = []uint64{first}
	for range r.IntN(3) {
		n := number()
		o := constant(n)
		numbers = append(numbers, n)
		differ := first ^ n
		v.tnum = tnum{v.bits &^ differ &^ v.mask, v.mask | differ}
		v.span64 = hull(v.span64, o.span64)
		v.low = hull(v.low, o.low)
	}
	v.sync()
	return v, numbers
}

func hull[U uint32 | uint64, S int32 | int64](a, b span[U, S]) span[U, S] {
	return span[U, S]{min(a.umin, b.umin), max(a.umax, b.umax), min(a.smin, b.smin), max(a.smax, b.smax)}
}

// TestArithmetic: what is known of a result includes the results of all numbers that the operands can be.
func TestArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ops := []uint8{aluADD, aluSUB, aluMUL, aluDIV, aluMOD, aluAND, aluOR, aluXOR, aluLSH, aluRSH, aluARSH}
	for range 50_000 {
		op, narrow := ops[r.IntN(len(ops))], r.IntN(2) == 0
		a, as := some(r)
		b, bs := some(r)
		if op == aluLSH || op == aluRSH || op == aluARSH {
			n := r.Uint64N(32)
			b, bs = constant(n), []uint64{n}
		}
		sum := a
		sum.arithmetic(op, b, narrow)
		for _, x := range as {
			for _, y := range bs {
				n := alu64(op, x, y)
				if narrow {
					n = alu32(insn{code: classALU | op}, x, y)
				}
				is := constant(n)
				if !sum.covers(&is) {
					t.Fatalf("%#x %s %#x (narrow %v) is %#x, which is not in %s; %s, %s", x, aluNames[op>>4], y, narrow, n, sum.text(), a.text(), b.text())
				}
			}
		}
	}
}

// TestCompare: each number is in what is known on the way that the comparison has it go.
func TestCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		op, class := jmpJEQ+uint8(r.IntN(13))<<4, []uint8{classJMP, classJMP32}[r.IntN(2)]
		if op == jmpCALL || op == jmpEXIT {
			continue
		}
		narrow := class == classJMP32
		a, as := some(r)
		n := as[0] + r.Uint64N(3) - 1
		if !narrow && r.IntN(2) == 0 {
			n = uint64(int64(int32(r.Uint32())))
		}
		yes, no := a, a
		compared(&yes, &no, op, n, narrow)
		taken := a.taken(op, n, narrow)
		for _, x := range as {
			jumped := jumps(insn{code: class | op}, x, n)
			way := no
			if jumped {
				way = yes
			}
			is := constant(x)
			if taken >= 0 && jumped != (taken == 1) || !way.covers(&is) {
				t.Fatalf("%s %s %#x (narrow %v): %#x is not in %s, taken %d", a.text(), jmpNames[op>>4], n, narrow, x, way.text(), taken)
			}
		}
	}
}

// manyStates is a program of which many states with a full stack are kept.
func manyStates() []byte {
	var all []insn
	for off := int16(8); off <= stackSize; off += 8 {
		all = append(all, stx(sizeDW, 10, 1, -off))
	}
	return code(append(all, movK(7, 0), aluK(aluADD, 7, 1), jmpK(jmpJLT, 7, 2_000_000, -2), movK(0, 0), exit)...)
}

// TestStatesNeedMemory: a program is refused if there is no memory for what is kept of it.
func TestStatesNeedMemory(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	left := 16 << 20
	s.conf.Room = func(n int) error {
		if left -= n; left < 0 {
			return syscall.ENOMEM
		}
		return nil
	}
	prog := manyStates()
	load := func() error {
		_, _, err := c.call(s, cmdProgLoad, map[int]any{
			0: uint32(ProgKprobe), 4: uint32(len(prog) / insnSize), 8: c.put(prog), 16: c.put([]byte("GPL\x00")),
		})
		return err
	}
	if err := load(); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("without memory: %v", err)
	}
	left = 1 << 40
	if err := load(); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("with memory: %v", err)
	}
}

package trampoline_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insn"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kernel/trampoline"
)

// starts returns the offsets of the instructions of code, and fails the test if they do
// not end where it does.
func starts(t *testing.T, code []byte) (offs []int) {
	t.Helper()
	for at := 0; at < len(code); {
		in, err := insn.Decode(code[at:])
		if err != nil {
			t.Fatalf("at %d of % x: %v", at, code, err)
		}
		offs = append(offs, at)
		at += in.Len
		if at > len(code) {
			t.Fatalf("the last instruction of % x is longer", code)
		}
	}
	return offs
}

// target is where the branch at offset off of code at an address leads to.
func target(code []byte, at uint64, off int) uint64 {
	return at + uint64(off) + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[off+1:]))))
}

// TestImages: in each image, the templates of callers are what Copy takes them for, a
// copy's instructions are the template's but for the call and the load, and what detours
// call and hooked calls return to is there.
func TestImages(t *testing.T) {
	const at, listener, op = 0xffffffffa0001000, 0xffffffff81234560, 0xffffffffc0ffee00
	for _, v := range release.Versions {
		t.Run(v.String(), func(t *testing.T) {
			im, err := image.Load(guest.Image(v.String()))
			if err != nil {
				t.Fatal(err)
			}
			had := release.Rename(v)
			symbol := func(name string) uint64 {
				for _, s := range im.Symbols {
					if cmp.Or(had[s.Name], s.Name) == name {
						return s.Addr
					}
				}
				return 0
			}
			for _, name := range []string{trampoline.Optimized, release.Trampoline.Of(v)} {
				if symbol(name) == 0 {
					t.Errorf("no %s", name)
				}
			}
			for _, c := range []trampoline.Caller{trampoline.Ftrace, trampoline.FtraceRegs, trampoline.FtraceOpsRegs} {
				tp, err := c.Find(symbol)
				if err != nil {
					t.Error(err)
					continue
				}
				text := im.Bytes(tp.Start, tp.End-tp.Start+1)
				offs := starts(t, text)
				call := int(tp.Call - tp.Start)
				if !slices.Contains(offs, call) || text[call] != 0xe8 || text[len(text)-1] != 0xc3 {
					t.Errorf("%s: % x has no call at %d, or no ret at the end", c.Name, text, call)
				}
				code, err := tp.Copy(text[:len(text)-1], at, listener, op)
				if err != nil {
					t.Fatal(err)
				}
				if len(code) != tp.Extent() || !slices.Equal(starts(t, code[:tp.Size()]), offs) {
					t.Errorf("%s: the copy's instructions are others: % x", c.Name, code)
				}
				if to := target(code, at, call); to != listener {
					t.Errorf("%s: the copy calls %#x", c.Name, to)
				}
				want := bytes.Clone(text)
				copy(want[call:call+5], code[call:])
				if tp.Load != 0 {
					load := int(tp.Load - tp.Start)
					in, err := insn.Decode(text[load:])
					if err != nil || !slices.Contains(offs, load) || in.Len != 7 || in.DispOff != 3 || !in.RIPRelative() {
						t.Errorf("%s: no load at %d: %+v, %v", c.Name, load, in, err)
					}
					copy(want[load+3:load+7], code[load+3:])
					if d := load + 7 + int(int32(binary.LittleEndian.Uint32(code[load+3:]))); d != tp.Size() || binary.LittleEndian.Uint64(code[d:]) != op {
						t.Errorf("%s: the copy loads from %d", c.Name, d)
					}
				}
				if !bytes.Equal(code[:tp.Size()], want) {
					t.Errorf("%s: % x\nbecame % x", c.Name, want, code)
				}
				if _, err := tp.Copy(text[:len(text)-1], abi.DirectMap, listener, op); !errors.Is(err, syscall.ERANGE) {
					t.Errorf("%s: a copy that is too far away: %v", c.Name, err)
				}
			}
			callback := symbol(trampoline.Optimized)
			code, err := trampoline.Detour(at, op, callback)
			if err != nil {
				t.Fatal(err)
			}
			calls := 0
			for _, off := range starts(t, code) {
				if code[off] == 0xe8 && target(code, at, off) == callback {
					calls++
				}
			}
			if calls != 1 || len(code) != trampoline.DetourSize() || !bytes.Contains(code, binary.LittleEndian.AppendUint64([]byte{0x48, 0xbf}, op)) {
				t.Errorf("a detour with %d calls of the callback: % x", calls, code)
			}
		})
	}
}

// TestFind: a guest without one of the symbols has no template.
func TestFind(t *testing.T) {
	syms := map[string]uint64{"ftrace_caller": 0x1000, "ftrace_caller_end": 0x1040, "ftrace_call": 0x1010, "ftrace_op": 0x1009}
	for name := range syms {
		_, err := trampoline.Ftrace.Find(func(s string) uint64 {
			if s == name {
				return 0
			}
			return syms[s]
		})
		if !errors.Is(err, syscall.ENOENT) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if _, err := trampoline.Ftrace.Find(func(s string) uint64 { return syms[s] }); err != nil {
		t.Error(err)
	}
}

// TestJump is the reach of a jump.
func TestJump(t *testing.T) {
	const from = uint64(0xffffffff11000000)
	for _, tc := range []struct {
		to  uint64
		err error
	}{
		{from, nil},
		{from + 5 + 1<<31 - 1, nil},
		{from + 5 + 1<<31, syscall.ERANGE},
		{from + 5 - 1<<31, nil},
		{from + 4 - 1<<31, syscall.ERANGE},
	} {
		b, err := trampoline.Jump(from, tc.to)
		if !errors.Is(err, tc.err) || err == nil && (b[0] != 0xe9 || target(b, from, 0) != tc.to) {
			t.Errorf("to %#x: % x, %v", tc.to, b, err)
		}
	}
}

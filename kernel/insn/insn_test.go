package insn

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/arch/x86/x86asm"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decode decodes the instruction followed by other text, alone, and without its last
// byte.
func decode(t *testing.T, b []byte) Insn {
	t.Helper()
	i, err := Decode(append(bytes.Clone(b), 0xcc, 0x90, 0x05, 0x84))
	if err != nil {
		t.Fatalf("% x: %v", b, err)
	}
	if i.Len != len(b) {
		t.Fatalf("% x: length %d, want %d", b, i.Len, len(b))
	}
	if alone, err := Decode(b); err != nil || alone != i {
		t.Fatalf("% x: %+v, %v alone, %+v followed by text", b, alone, err, i)
	}
	if _, err := Decode(b[:len(b)-1]); !errors.Is(err, ErrTruncated) {
		t.Fatalf("% x without its last byte: %v", b, err)
	}
	return i
}

// TestVerdicts compares with what a running Linux decided about instructions of its
// text.
func TestVerdicts(t *testing.T) {
	data, err := os.ReadFile("testdata/verdicts.tsv")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 4 {
			t.Fatalf("row %q", line)
		}
		n++
		b := unhex(t, f[0])
		if want, _ := strconv.Atoi(f[1]); want != len(b) {
			t.Fatalf("row %q: %d bytes", line, len(b))
		}
		i := decode(t, b)
		if got := CanBoost(i, false); f[2] != "-" && got != (f[2] == "1") {
			t.Errorf("%s: CanBoost %v, Linux %s", f[0], got, f[2])
		}
		kind, err := Emulation(i, b)
		if err != nil || kind.String() != f[3] {
			t.Errorf("%s: emulation %v, %v, Linux %s", f[0], kind, err, f[3])
		}
		if !Copyable(i) {
			t.Errorf("%s: not copyable, but Linux registered it", f[0])
		}
	}
	if n < 1000 {
		t.Errorf("only %d rows", n)
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want Insn
	}{
		{"90", Insn{Map: Map1, Opcode: 0x90}},
		{"f3 0f 1e fa", Insn{Prefixes: Rep, Map: Map0F, Opcode: 0x1e, OpcodeOff: 2, HasModRM: true, ModRM: 0xfa}},
		{"0f 1f 44 00 00", Insn{Map: Map0F, Opcode: 0x1f, OpcodeOff: 1, HasModRM: true, ModRM: 0x44, HasSIB: true, DispOff: 4, DispSize: 1}},
		{"48 8b 05 70 ff ff ff", Insn{REX: 0x48, Map: Map1, Opcode: 0x8b, OpcodeOff: 1, HasModRM: true, ModRM: 5, DispOff: 3, DispSize: 4, Disp: -0x90}},
		{"65 48 8b 04 25 28 00 00 00", Insn{Prefixes: GS, REX: 0x48, Map: Map1, Opcode: 0x8b, OpcodeOff: 2, HasModRM: true, ModRM: 4, HasSIB: true, SIB: 0x25, DispOff: 5, DispSize: 4, Disp: 0x28}},
		{"f0 48 0f c7 4d f8", Insn{Prefixes: Lock, REX: 0x48, Map: Map0F, Opcode: 0xc7, OpcodeOff: 3, HasModRM: true, ModRM: 0x4d, DispOff: 5, DispSize: 1, Disp: -8}},
		{"b9 01 01 00 c0", Insn{Map: Map1, Opcode: 0xb9, ImmOff: 1, ImmSize: 4, Imm: -0x3ffffeff}},
		{"49 b8 88 77 66 55 44 33 22 81", Insn{REX: 0x49, Map: Map1, Opcode: 0xb8, OpcodeOff: 1, ImmOff: 2, ImmSize: 8, Imm: -0x7eddccbbaa998878}},
		{"66 b8 34 92", Insn{Prefixes: OpSize, Map: Map1, Opcode: 0xb8, OpcodeOff: 1, ImmOff: 2, ImmSize: 2, Imm: -0x6dcc}},
		{"66 48 b8 01 02 03 04 05 06 07 08", Insn{Prefixes: OpSize, REX: 0x48, Map: Map1, Opcode: 0xb8, OpcodeOff: 2, ImmOff: 3, ImmSize: 8, Imm: 0x0807060504030201}},
		{"48 a1 01 02 03 04 05 06 07 08", Insn{REX: 0x48, Map: Map1, Opcode: 0xa1, OpcodeOff: 1, DispOff: 2, DispSize: 8, Disp: 0x0807060504030201}},
		{"67 a1 01 02 03 84", Insn{Prefixes: AddrSize, Map: Map1, Opcode: 0xa1, OpcodeOff: 1, DispOff: 2, DispSize: 4, Disp: -0x7bfcfdff}},
		{"f6 c1 80", Insn{Map: Map1, Opcode: 0xf6, HasModRM: true, ModRM: 0xc1, ImmOff: 2, ImmSize: 1, Imm: -128}},
		{"f6 d9", Insn{Map: Map1, Opcode: 0xf6, HasModRM: true, ModRM: 0xd9}},
		{"66 f7 07 01 80", Insn{Prefixes: OpSize, Map: Map1, Opcode: 0xf7, OpcodeOff: 1, HasModRM: true, ModRM: 7, ImmOff: 3, ImmSize: 2, Imm: -0x7fff}},
		{"48 f7 f1", Insn{REX: 0x48, Map: Map1, Opcode: 0xf7, OpcodeOff: 1, HasModRM: true, ModRM: 0xf1}},
		{"48 c7 05 10 00 00 00 ff ff ff ff", Insn{REX: 0x48, Map: Map1, Opcode: 0xc7, OpcodeOff: 1, HasModRM: true, ModRM: 5, DispOff: 3, DispSize: 4, Disp: 16, ImmOff: 7, ImmSize: 4, Imm: -1}},
		{"66 e8 01 00 00 00", Insn{Prefixes: OpSize, Map: Map1, Opcode: 0xe8, OpcodeOff: 1, ImmOff: 2, ImmSize: 4, Imm: 1}},
		{"66 e9 fb ff ff ff", Insn{Prefixes: OpSize, Map: Map1, Opcode: 0xe9, OpcodeOff: 1, ImmOff: 2, ImmSize: 4, Imm: -5}},
		{"66 0f 84 fb ff ff ff", Insn{Prefixes: OpSize, Map: Map0F, Opcode: 0x84, OpcodeOff: 2, ImmOff: 3, ImmSize: 4, Imm: -5}},
		{"c8 10 20 01", Insn{Map: Map1, Opcode: 0xc8, ImmOff: 1, ImmSize: 3, Imm: 0x12010}},
		{"c2 08 80", Insn{Map: Map1, Opcode: 0xc2, ImmOff: 1, ImmSize: 2, Imm: -0x7ff8}},
		{"ea 01 02 03 04 05 06", Insn{Map: Map1, Opcode: 0xea, ImmOff: 1, ImmSize: 6, Imm: 0x060504030201}},
		{"0f 0f c1 9e", Insn{Map: Map0F, Opcode: 0x0f, OpcodeOff: 1, HasModRM: true, ModRM: 0xc1, ImmOff: 3, ImmSize: 1, Imm: -0x62}},
		{"0f 38 f0 06", Insn{Map: Map0F38, Opcode: 0xf0, OpcodeOff: 2, HasModRM: true, ModRM: 6}},
		{"66 0f 3a 0f c1 08", Insn{Prefixes: OpSize, Map: Map0F3A, Opcode: 0x0f, OpcodeOff: 3, HasModRM: true, ModRM: 0xc1, ImmOff: 5, ImmSize: 1, Imm: 8}},
		{"c5 f8 77", Insn{VEX: true, Map: Map0F, Opcode: 0x77, OpcodeOff: 2}},
		{"c4 e2 f1 f7 c2", Insn{VEX: true, REX: RexW, Map: Map0F38, Opcode: 0xf7, OpcodeOff: 3, HasModRM: true, ModRM: 0xc2}},
		{"c4 63 fb f0 c0 05", Insn{VEX: true, REX: RexW | RexR, Map: Map0F3A, Opcode: 0xf0, OpcodeOff: 3, HasModRM: true, ModRM: 0xc0, ImmOff: 5, ImmSize: 1, Imm: 5}},
		{"62 f1 7c 48 28 47 01", Insn{VEX: true, Map: Map0F, Opcode: 0x28, OpcodeOff: 4, HasModRM: true, ModRM: 0x47, DispOff: 6, DispSize: 1, Disp: 1}},
		{"8f ea 78 10 c1 01 02 03 04", Insn{VEX: true, Map: MapXOPA, Opcode: 0x10, OpcodeOff: 3, HasModRM: true, ModRM: 0xc1, ImmOff: 5, ImmSize: 4, Imm: 0x04030201}},
		{"8f 00", Insn{Map: Map1, Opcode: 0x8f, HasModRM: true}},
		{"0f 0b 78 65 6e 0f a2", Insn{ForcedEmul: true, Map: Map0F, Opcode: 0xa2, OpcodeOff: 6}},
		{"66 2e 0f 1f 84 00 00 00 00 00", Insn{Prefixes: OpSize | CS, Map: Map0F, Opcode: 0x1f, OpcodeOff: 3, HasModRM: true, ModRM: 0x84, HasSIB: true, DispOff: 6, DispSize: 4}},
		{"48 66 90", Insn{Prefixes: OpSize, Map: Map1, Opcode: 0x90, OpcodeOff: 2}},
	} {
		t.Run(c.hex, func(t *testing.T) {
			b := unhex(t, c.hex)
			c.want.Len = len(b)
			if got := decode(t, b); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	for hex, want := range map[string]error{
		"": ErrTruncated, "66": ErrTruncated, "48": ErrTruncated, "0f": ErrTruncated, "0f38": ErrTruncated,
		"8b": ErrTruncated, "8b04": ErrTruncated, "c5": ErrTruncated, "c4e2": ErrTruncated, "62f17c": ErrTruncated,
		"666666666666666666666666666666 90": ErrTruncated, // 16 bytes
		"0f38f7c0":                          ErrInvalid,   // shlx and friends need VEX
		"0f3af0c001":                        ErrInvalid,
		"c4e0f1f7c2":                        ErrInvalid, // no such map
		"62f07c482800":                      ErrInvalid,
		"c5f80bc0":                          ErrInvalid,
		"48ea0102030405060708":              ErrInvalid,
	} {
		if _, err := Decode(unhex(t, hex)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", hex, err, want)
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		hex      string
		copyable bool
		boost    bool
		kind     Emul
		errno    error
		indirect bool
		rel      int64 // 0: no relative branch
		ripRel   bool
	}{
		{hex: "cc", errno: syscall.EOPNOTSUPP},
		{hex: "0f 0b 6b 76 6d 0f a2", boost: false},
		{hex: "8e d0", boost: true},                 // mov %eax,%ss
		{hex: "8e d8", copyable: true, boost: true}, // mov %eax,%ds
		{hex: "17", boost: true},                    // pop %ss, of 32-bit mode
		{hex: "fa", copyable: true, boost: true, kind: EmulIF},
		{hex: "9d", copyable: true, boost: true, kind: EmulIF},
		{hex: "c3", copyable: true, boost: true, kind: EmulRet},
		{hex: "c2 10 00", copyable: true, boost: true, kind: EmulRet},
		{hex: "e8 00 01 00 00", copyable: true, kind: EmulCall, rel: 256},
		{hex: "eb fe", copyable: true, kind: EmulJmp, rel: -2},
		{hex: "e9 00 01 00 00", copyable: true, kind: EmulJmp, rel: 256},
		{hex: "74 05", copyable: true, kind: EmulJcc, rel: 5},
		{hex: "0f 8f 05 00 00 00", copyable: true, kind: EmulJcc, rel: 5},
		{hex: "e3 05", copyable: true, kind: EmulLoop, rel: 5},
		{hex: "ff d0", copyable: true, kind: EmulCallIndirect},
		{hex: "41 ff d3", copyable: true, kind: EmulCallIndirect},
		{hex: "ff e0", copyable: true, boost: true, kind: EmulJmpIndirect, indirect: true},
		{hex: "ff 10", copyable: true, errno: syscall.EOPNOTSUPP},
		{hex: "ff 24 c5 00 00 00 00", copyable: true, boost: true, errno: syscall.EOPNOTSUPP, indirect: true},
		{hex: "ff 1f", copyable: true, errno: syscall.EOPNOTSUPP},
		{hex: "ff 2f", copyable: true, errno: syscall.EOPNOTSUPP, indirect: true},
		{hex: "ff 37", copyable: true}, // push m
		{hex: "ff c0", copyable: true},
		{hex: "fe c0", copyable: true},
		{hex: "ea 00 00 00 00 00 00", copyable: true, boost: true, errno: syscall.EOPNOTSUPP, indirect: true},
		{hex: "48 cf", copyable: true, boost: true, errno: syscall.EOPNOTSUPP},
		{hex: "0f 01 c1", copyable: true, errno: syscall.EOPNOTSUPP}, // vmcall
		{hex: "0f 01 d9", copyable: true},                            // vmmcall
		{hex: "0f 01 00", copyable: true},                            // sgdt
		{hex: "0f 0b", copyable: true},
		{hex: "0f 05", copyable: true},
		{hex: "0f a2", copyable: true},
		{hex: "0f af c1", copyable: true, boost: true},
		{hex: "0f 94 c0", copyable: true, boost: true},
		{hex: "0f ae f0", copyable: true},
		{hex: "0f 38 f0 07", copyable: true},
		{hex: "48 c1 e0 03", copyable: true},
		{hex: "2e 89 c8", copyable: true},
		{hex: "67 8b 00", copyable: true},
		{hex: "48 8d 05 00 00 00 00", copyable: true, boost: true, ripRel: true},
		{hex: "48 8d 04 25 00 00 00 00", copyable: true, boost: true},
		{hex: "c5 f9 e8 c1", copyable: true}, // vpsubsb: not a call
		{hex: "c5 f9 6f c1", copyable: true, boost: true},
	} {
		t.Run(c.hex, func(t *testing.T) {
			b := unhex(t, c.hex)
			i := decode(t, b)
			if got := Copyable(i); got != c.copyable {
				t.Errorf("Copyable %v", got)
			}
			if got := CanBoost(i, false); got != c.boost {
				t.Errorf("CanBoost %v", got)
			}
			kind, err := Emulation(i, b)
			if kind != c.kind || !errors.Is(err, c.errno) {
				t.Errorf("Emulation %v, %v, want %v, %v", kind, err, c.kind, c.errno)
			}
			if got := i.IndirectJump(); got != c.indirect {
				t.Errorf("IndirectJump %v", got)
			}
			if got := i.RIPRelative(); got != c.ripRel {
				t.Errorf("RIPRelative %v", got)
			}
			rel, ok := i.RelBranch()
			if rel != c.rel || ok != (c.rel != 0) {
				t.Errorf("RelBranch %d, %v, want %d", rel, ok, c.rel)
			}
			if _, jump := i.RelJump(); jump != (ok && c.kind != EmulCall) {
				t.Errorf("RelJump %v", jump)
			}
		})
	}
}

// x86asmWrong reports whether the length that x86asm returns is known to be wrong, or
// differs from Linux's.
func x86asmWrong(i Insn, x x86asm.Inst, err error) bool {
	switch {
	case err != nil || x.Op == 0: // for an unknown opcode with a prefix it returns Len 1 and no error
		return true
	case i.VEX: // vzeroupper's length is wrong, and Prefix has c4 and c5
		return true
	case i.ForcedEmul: // a prefix in Linux's decoder only
		return true
	case i.Map == Map0F && (i.Opcode == 0x24 || i.Opcode == 0x26): // test registers: not in 64-bit mode
		return true
	case i.Map == Map0F && i.Opcode == 0xff: // ud0: has a ModRM byte on Intel, none on AMD and in Linux
		return true
	case i.Map == Map0F && i.Opcode&0xf0 == 0x80, i.Map == Map1 && (i.Opcode == 0xe8 || i.Opcode == 0xe9):
		return i.Prefixes&OpSize != 0 // rel16 on AMD, rel32 on Intel and in Linux
	}
	return false
}

// TestAgainstX86asm compares lengths for every opcode of the legacy maps with
// several prefixes and addressing forms.
func TestAgainstX86asm(t *testing.T) {
	tail := unhex(t, "11 22 33 44 55 66 77 88 99 aa")
	compared := 0
	for _, prefix := range []string{"", "66", "48", "67", "f3", "65 4c", "66 41"} {
		for _, escape := range []string{"", "0f", "0f 38", "0f 3a"} {
			for op := range 256 {
				for _, modrm := range []byte{0x00, 0x05, 0x44, 0x84, 0x04, 0x4d, 0xc1, 0xc8, 0xd0, 0xd9, 0xe2, 0xeb, 0xf4, 0xfd} {
					b := append(unhex(t, prefix+escape), byte(op), modrm)
					b = append(b, tail...)
					i, err := Decode(b)
					x, xerr := x86asm.Decode(b, 64)
					if escape == "" && op == 0x62 || x86asmWrong(i, x, xerr) { // 62: EVEX, its payload would be random
						continue
					}
					compared++
					if err != nil || x.Len != i.Len {
						t.Errorf("% x: %d bytes (%v), x86asm %d: %v", b, i.Len, err, x.Len, x)
					}
				}
			}
		}
	}
	if compared < 10000 {
		t.Errorf("only %d comparisons", compared)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{"90", "0f1f440000", "48c70510000000ffffffff", "c5f877", "62f17c48284701", "8fea7810c101020304", "0f0b78656e0fa2"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Decode(b)
		if err != nil {
			if i != (Insn{}) {
				t.Fatalf("%+v with %v", i, err)
			}
			return
		}
		if i.Len < 1 || i.Len > MaxLen || i.Len > len(b) {
			t.Fatalf("length %d", i.Len)
		}
		if again, err := Decode(b[:i.Len]); err != nil || again != i {
			t.Fatalf("alone: %+v, %v; before: %+v", again, err, i)
		}
		if i.DispSize > 0 && i.DispOff+i.DispSize > i.Len || i.ImmSize > 0 && i.ImmOff+i.ImmSize != i.Len {
			t.Fatalf("fields outside: %+v", i)
		}
		CanBoost(i, false)
		if _, err := Emulation(i, b); err != nil && !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Fatal(err)
		}
	})
}

// TestBoostGroups: what release.BoostGroups adds, and what traps.
func TestBoostGroups(t *testing.T) {
	for _, c := range []struct {
		code          string
		before, since bool
	}{
		{"c1 e0 04", false, true}, // shl $4,%eax
		{"d1 f8", false, true},    // sar %eax
		{"d1 f0", false, false},   // reg 6, which Intel reserves
		{"f7 d8", false, true},    // neg %eax
		{"f6 c1 10", false, true}, // test $16,%cl
		{"f7 c9", false, false},   // reg 1, which Intel reserves
		{"fe c0", false, true},    // inc %al
		{"ff c8", false, true},    // dec %eax
		{"ff e0", true, true},     // jmp *%rax
		{"ff d0", false, false},   // call *%rax
		{"ff 30", false, false},   // push (%rax)
		{"74 02", false, false},   // je
	} {
		i, err := Decode(code2bytes(t, c.code))
		if err != nil {
			t.Fatal(c.code, err)
		}
		if CanBoost(i, false) != c.before || CanBoost(i, true) != c.since {
			t.Errorf("%s: %v, %v; want %v, %v", c.code, CanBoost(i, false), CanBoost(i, true), c.before, c.since)
		}
	}
}

func TestTrap(t *testing.T) {
	for code, want := range map[string]bool{"cc": true, "cd 80": true, "f1": true, "0f 0b": true, "0f b9 cc": true, "0f ff c0": true, "90": false, "c3": false, "0f 05": false} {
		if i, err := Decode(code2bytes(t, code)); err != nil || i.Trap() != want {
			t.Errorf("%s: %v, %v", code, i.Trap(), err)
		}
	}
}

// code2bytes returns the bytes of a text in hexadecimal, and padding.
func code2bytes(t *testing.T, code string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return append(b, make([]byte, MaxLen)...)
}

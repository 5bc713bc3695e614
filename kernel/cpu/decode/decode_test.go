package decode

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/kernel/insn"
)

// TestDecodeLengths compares with the project's length decoder on random bytes,
// and with x86asm on what gcc made.
func TestDecodeLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 32)
	known := 0
	for range 300_000 {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		for i := range r.IntN(3) {
			b[i] = []byte{0x66, 0x48, 0xf3, 0x0f, 0x65, 0xf2, 0xc4, 0x4c}[r.IntN(8)]
		}
		o, short := Decode(b, 0)
		want, err := insn.Decode(b)
		if short || err != nil || o.Code == UD || o.Code == GP {
			continue
		}
		if known++; int(o.Len) != want.Len {
			t.Errorf("% x: %d bytes, insn says %d", b[:15], o.Len, want.Len)
		}
	}
	if known < 100_000 {
		t.Errorf("only %d instructions known", known)
	}
	files, err := filepath.Glob("../testdata/programs/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(text); {
			in, short := Decode(text[at:], 0)
			want, err := x86asm.Decode(text[at:], 64)
			if short || err != nil || int(in.Len) != want.Len {
				t.Fatalf("%s+%#x: %d bytes, x86asm says %d, %v", file, at, in.Len, want.Len, err)
			}
			at += want.Len
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x48, 0x8b, 0x05, 1, 2, 3, 4})
	f.Add([]byte{0xc4, 0xe2, 0x78, 0xf2, 0xc1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, short := Decode(b, 0x1000)
		if short && len(b) >= 15 {
			t.Fatalf("% x: 15 bytes are not enough", b)
		}
		if !short && (o.Len == 0 || int(o.Len) > min(15, len(b))) {
			t.Fatalf("% x: %d bytes", b, o.Len)
		}
	})
}

// TestTable: no row stands behind one that takes all its encodings, and each code has a
// row.
func TestTable(t *testing.T) {
	reached := map[*row]bool{}
	codes := map[Code]bool{}
	try := func(b []byte) {
		d := decoder{b: b, in: nothing}
		d.prefixes()
		d.opcode()
		if !d.over {
			codes[d.in.Code] = true
			reached[d.row] = true
		}
	}
	tail := []byte{0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 5}
	for _, prefix := range [][]byte{{}, {0x66}, {0xf3}, {0xf2}, {0x41}} {
		for _, m := range [][]byte{{}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}, {0xc4, 0xe2, 0x78}, {0xc4, 0xe2, 0x79}, {0xc4, 0xe2, 0x7a}, {0xc4, 0xe2, 0x7b}, {0xc4, 0xe3, 0x7b}} {
			for op := range 256 {
				for modrm := range 256 {
					b := append(append(append([]byte{}, prefix...), m...), byte(op), byte(modrm))
					try(append(b, tail...))
				}
			}
		}
	}
	for _, m := range []*opcodeMap{&oneByte, &map0f, &map0f38, &map0f3a} {
		for op, rows := range m.rows {
			for i, r := range rows {
				if !reached[r] {
					t.Errorf("row %d of opcode %#x, code %d, is for nothing", i, op, r.code)
				}
			}
		}
	}
	for i := range vexRows {
		if !reached[&vexRows[i]] {
			t.Errorf("row %d of VEX is for nothing", i)
		}
	}
	for c := range Codes {
		if !codes[c] && c != GP {
			t.Errorf("code %d has no row", c)
		}
	}
}

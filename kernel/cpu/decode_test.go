package cpu

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/kernel/insn"
)

func TestOpSize(t *testing.T) {
	if opSize != 48 || unsafe.Offsetof(State{}.zero) != regZero*8 || unsafe.Offsetof(State{}.FSBase) != regFS*8 ||
		unsafe.Offsetof(State{}.GSBase) != regGS*8 || unsafe.Offsetof(CPU{}.State) != 0 {
		t.Errorf("an op has %d bytes, or the register file is not as x expects", opSize)
	}
}

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
		o, short := decode(b, 0)
		want, err := insn.Decode(b)
		if short || err != nil || o.code == cUD || o.code == cGP {
			continue
		}
		if known++; int(o.len) != want.Len {
			t.Errorf("% x: %d bytes, insn says %d", b[:15], o.len, want.Len)
		}
	}
	if known < 100_000 {
		t.Errorf("only %d instructions known", known)
	}
	for _, p := range programs {
		text, err := os.ReadFile(filepath.Join("testdata/programs", p.name+".bin"))
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(text); {
			o, short := decode(text[at:], 0)
			want, err := x86asm.Decode(text[at:], 64)
			if short || err != nil || int(o.len) != want.Len {
				t.Fatalf("%s+%#x: %d bytes, x86asm says %d, %v", p.name, at, o.len, want.Len, err)
			}
			at += want.Len
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x48, 0x8b, 0x05, 1, 2, 3, 4})
	f.Add([]byte{0xc4, 0xe2, 0x78, 0xf2, 0xc1})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, short := decode(b, 0x1000)
		if short && len(b) >= 15 {
			t.Fatalf("% x: 15 bytes are not enough", b)
		}
		if !short && (o.len == 0 || int(o.len) > min(15, len(b))) {
			t.Fatalf("% x: %d bytes", b, o.len)
		}
	})
}

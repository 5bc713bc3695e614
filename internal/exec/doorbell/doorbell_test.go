package doorbell

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/arch/x86/x86asm"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// every has all numbers.
func every() *Set {
	var s Set
	for i := range s {
		s[i] = 0xff
	}
	return &s
}

// program builds testdata/sites.S.
func program(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("gcc is missing")
	}
	name := filepath.Join(t.TempDir(), "sites")
	if out, err := exec.Command("gcc", "-nostdlib", "-static", "-no-pie", "-o", name, "testdata/sites.S").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// TestNoTracer: a program that rings where nobody listens does what it does without.
func TestNoTracer(t *testing.T) {
	for name, rings := range map[string]*Set{"rings": every(), "silent": {}} {
		t.Run(name, func(t *testing.T) {
			program := program(t)
			if err := exec.Command(program).Run(); err != nil {
				t.Fatalf("the program as it was built: %v", err)
			}
			b, err := os.ReadFile(program)
			if err != nil {
				t.Fatal(err)
			}
			change(t, b, rings)
			if err := os.WriteFile(program, b, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := exec.Command(program).Run(); err != nil {
				t.Errorf("the changed program: %v; the status is 1 more than the number of kinds that are right", err)
			}
		})
	}
}

// change changes a program's file for calls that ring, of all of which it is made.
func change(t *testing.T, b []byte, rings *Set) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := Read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if len(text.sites) != 10 {
		t.Errorf("%d sites", len(text.sites))
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	room := symbols[slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "room" })]
	if text.Room(every()) > room.Size {
		t.Fatalf("%d bytes of room", text.Room(every()))
	}
	p, err := text.Program(0, room.Value, every())
	if err != nil {
		t.Fatal(err)
	}
	copy(p.Code, Sets(rings, &Set{}))
	at := func(addr uint64) []byte {
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr < p.Vaddr+p.Filesz {
				return b[p.Off+addr-p.Vaddr:]
			}
		}
		t.Fatalf("%#x is not in the file", addr)
		return nil
	}
	memory := func(addrs []uint64, into [][]byte) error {
		for i, addr := range addrs {
			copy(into[i], at(addr))
		}
		return nil
	}
	if err := p.Check(memory); err != nil {
		t.Error(err)
	}
	if found, _, err := text.Found(memory, 0); found != 0 || err != nil {
		t.Errorf("a room at %#x of a text that is not changed, %v", found, err)
	}
	checkPages(t, &p)
	copy(at(room.Value), p.Code)
	for _, one := range p.Patches {
		copy(at(one.Addr), one.Code)
	}
	if err := p.Check(memory); !errors.Is(err, ErrText) {
		t.Errorf("a text that is changed already: %v", err)
	}
	if found, calls, err := text.Found(memory, 0); found != room.Value || calls != *every() || err != nil {
		t.Errorf("the room at %#x of a changed text, %v, want %#x", found, err, room.Value)
	}
	last := p.Patches[len(p.Patches)-1]
	at(last.Addr)[1]++
	if _, _, err := text.Found(memory, 0); !errors.Is(err, ErrText) {
		t.Errorf("a text that somebody has changed further: %v", err)
	}
	at(last.Addr)[1]--
	for i := range text.sites {
		s := &text.sites[i]
		for addr := s.start - 1; addr <= s.end; addr++ {
			if got, want := text.Inside(0, addr, every()), addr > s.start && addr < s.end; got != want {
				t.Errorf("%#x is inside of %#x to %#x: %t", addr, s.start, s.end, got)
			}
		}
	}
}

// checkPages fails if a change is in two pages: a tracer that is killed could have written to one of them only.
func checkPages(t *testing.T, p *Program) {
	t.Helper()
	for _, one := range p.Patches {
		if last := one.Addr + uint64(len(one.Code)) - 1; one.Addr/abi.PageSize != last/abi.PageSize {
			t.Errorf("the change at %#x is in two pages", one.Addr)
		}
	}
}

// TestCode: the code of one site of each kind, as a disassembler has it.
func TestCode(t *testing.T) {
	constant := site{at: 0x1005, start: 0x1000, end: 0x1005, number: 39, stays: true}
	mmap := site{at: 0x1005, start: 0x1000, end: 0x1005, number: abi.SysMmap, stays: true}
	moved := piece{addr: 0x1002, code: []byte{0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff}}
	variable := site{at: 0x1000, start: 0x1000, end: 0x1008, number: -1, after: []piece{moved}}
	for _, c := range []struct {
		name string
		site site
		want string
	}{
		{"constant", constant, "bt; jae; mov; syscall; lea; jrcxz; jmp 0x1007; mov; jmp 0x1005; ud2; mov; mov"},
		{"mmap", mmap, "bt; jb; bt; jae; test; je; mov; syscall; lea; jrcxz; jmp 0x1007; mov; jmp 0x1005; ud2; mov; mov"},
		{"variable", variable, "mov; cmp; jae; bt; jae; cmp; jne; mov; syscall; lea; jrcxz; jmp; mov; jmp; cmp; jne; mov; syscall; lea; jrcxz; jmp; mov; jmp; lea; push; lea; syscall; lea; jrcxz; lea; jmp; pop; lea; syscall; cmp; jmp 0x1008; ud2; mov; mov"},
	} {
		text := Text{sites: []site{c.site}}
		const bias, room = 0x10000, 0x2000000
		p, err := text.Program(bias, room, every())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for at := headSize; at < len(p.Code); {
			i, err := x86asm.Decode(p.Code[at:], 64)
			if err != nil {
				t.Fatalf("%s: at %d: %v", c.name, at, err)
			}
			at += i.Len
			op := strings.ToLower(i.Op.String())
			if rel, ok := i.Args[0].(x86asm.Rel); ok && i.Len == jumpLen {
				op += " " + hex(uint64(room+at+int(rel))-bias)
			}
			if op == "syscall" {
				wantDeeper := uint64(0)
				if n := len(got); got[n-2] == "push" {
					wantDeeper = dropped
				}
				if place, deeper, ok := Place(p.Code[at:]); !ok || place != c.site.at+2+bias || deeper != wantDeeper {
					t.Errorf("%s: the call at %d is made at %#x, %d bytes deeper, %v", c.name, at, place, deeper, ok)
				}
			}
			got = append(got, op)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, text, c.want)
		}
		if text.Room(every()) < uint64(len(p.Code)) {
			t.Errorf("%s: %d bytes of code, room for %d", c.name, len(p.Code), text.Room(every()))
		}
		if _, err := text.Program(bias, 1<<40, every()); !errors.Is(err, ErrText) {
			t.Errorf("room that is too far away: %v", err)
		}
	}
}

func hex(v uint64) string {
	const digits = "0123456789abcdef"
	s := ""
	for ; v > 0; v /= 16 {
		s = digits[v%16:v%16+1] + s
	}
	return "0x" + s
}

// TestLibraries: each syscall instruction of the C library and its loader can be replaced, by a change of one page.
func TestLibraries(t *testing.T) {
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/bin/busybox"} {
		f, err := os.Open(name)
		if err != nil {
			t.Log(err)
			continue
		}
		text, err := Read(f)
		_ = f.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if p, err := text.Program(0, 1<<30, every()); err != nil {
			t.Error(err)
		} else {
			checkPages(t, &p)
		}
		unknown := 0
		for _, s := range text.sites {
			if s.number < 0 {
				unknown++
			}
		}
		t.Logf("%s: %d sites, of which %d have no constant number", name, len(text.sites), unknown)
	}
}

// TestPlace: what is no code of ours has no place, and what is cut off has none either.
func TestPlace(t *testing.T) {
	text := Text{sites: []site{{at: 0x1005, start: 0x1000, end: 0x1005, number: 39, stays: true}}}
	p, err := text.Program(0, 0x2000000, every())
	if err != nil {
		t.Fatal(err)
	}
	code := p.Code[headSize:]
	for n := range code {
		if at, _, ok := Place(code[:n]); ok {
			t.Errorf("%d bytes of %d: %#x", n, len(code), at)
		}
	}
	if _, _, ok := Place(append(make([]byte, PlaceSize), code...)); ok {
		t.Error("code of another call")
	}
	if _, _, ok := Place(nil); ok {
		t.Error("no code")
	}
}

// TestRefused: what cannot be replaced is refused.
func TestRefused(t *testing.T) {
	ret := []byte{0xc3}
	for name, code := range map[string][]byte{
		"a branch before and after": {0xeb, 0x00, 0x0f, 0x05, 0xeb, 0x00, 0xc3},
		"a branch to what follows":  {0x90, 0x0f, 0x05, 0x90, 0x90, 0x90, 0xeb, 0xfb, 0xc3},
		"nothing else":              {0x0f, 0x05, 0xc3},
		"no instruction before":     {0x62, 0, 0, 0, 0, 0x0f, 0x05},
	} {
		s := sweep{base: 0x1000, code: append(code, ret...), targets: newBits(len(code) + 1), known: newBits(len(code) + 1)}
		if err := s.run(functions{{0x1000, 0x1000}}); !errors.Is(err, ErrText) {
			t.Errorf("%s: %v, sites %v", name, err, s.sites)
		}
	}
	s := sweep{base: 0x1000, code: []byte{0x90, 0x0f, 0x05}, targets: newBits(3), known: newBits(3)}
	if err := s.run(nil); !errors.Is(err, ErrText) {
		t.Errorf("no function: %v", err)
	}
}

// TestData: the bytes of a syscall instruction in a table are no instruction, and are left alone. Where they can be
// one, the text is refused.
func TestData(t *testing.T) {
	const base = 0x1000
	call := []byte{0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3}          // getppid
	table := []byte{0x62, 0, 0, 0, 0, 0x0f, 0x05, 0, 0x62, 0}      // begins with what is no instruction
	both := []byte{0x90, 0x0f, 0x05, 0x90, 0x90, 0x90, 0x90, 0xc3} // can be one
	function := slices.Concat(call, bytes.Repeat([]byte{0x90}, 200), []byte{0xc3})
	size := uint64(len(function))
	everything, code := []span{{base, base + size + 8}}, []span{{base, base + size}}
	told, untold := functions{{base, base + size}}, functions{{base, base}}
	for name, c := range map[string]struct {
		after    []byte
		known    functions
		sections []span
		sites    int // 0: it is refused
	}{
		"a table":                                {table, told, everything, 1},
		"code or a table":                        {both, told, everything, 0},
		"code of which the tables do not tell":   {call, told, everything, 2},
		"a table after what has no known end":    {table, untold, everything, 0},
		"code after what has no known end":       {both, untold, everything, 2},
		"what can be code, in a section of data": {both, told, code, 1},
		"a table in a file without sections":     {table, told, nil, 0},
	} {
		text := slices.Concat(function, c.after)
		s := sweep{base: base, code: text, targets: newBits(len(text)), known: newBits(len(text)), sections: c.sections}
		err := s.run(c.known)
		switch {
		case c.sites == 0 && !errors.Is(err, ErrText):
			t.Errorf("%s: %v, %d sites", name, err, len(s.sites))
		case c.sites > 0 && (err != nil || len(s.sites) != c.sites):
			t.Errorf("%s: %v, %d sites, not %d", name, err, len(s.sites), c.sites)
		}
	}
}

// FuzzRead: no file does harm, and what is returned can be used.
func FuzzRead(f *testing.F) {
	if b, err := os.ReadFile("/lib64/ld-linux-x86-64.so.2"); err == nil {
		f.Add(b)
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		text, err := Read(bytes.NewReader(b))
		if err == nil {
			_, _ = text.Program(0x5000_0000_0000, 0x5000_1000_0000, every())
		}
	})
}

// TestErrandCode: an errand leaves each register as it was, and its code has room.
func TestErrandCode(t *testing.T) {
	const at, near, size, resume = 0x7f0000001000, 0x7f0000100000, 0x5000, 0x7f00deadbeef
	code, again, mapped := Errand(at, near, size, resume)
	if len(code) > ErrandSize {
		t.Errorf("%d bytes, of %d", len(code), ErrandSize)
	}
	var got []string
	for from := 0; from < len(code); {
		i, err := x86asm.Decode(code[from:], 64)
		if err != nil {
			t.Fatalf("at %d: %v", from, err)
		}
		switch uint64(at + from) {
		case again:
			got = append(got, "again:")
		case mapped:
			got = append(got, "mapped:")
		}
		got = append(got, strings.ToLower(i.String()))
		from += i.Len
		if i.Op == x86asm.JMP {
			break
		}
	}
	want := strings.Split("lea rsp, [rsp+reg(0)-0x80];pushfq;push rax;push rdi;push rsi;push rdx;push r10;push r8;push r9;again:;"+
		"mov rdi, 0x7f0000100000;mov rsi, 0x5000;mov edx, 0x5;mov r10l, 0x22;mov r8, -0x1;xor r9l, r9l;mov eax, 0x9;syscall;mapped:;"+
		"pop r9;pop r8;pop r10;pop rdx;pop rsi;pop rdi;pop rax;popfq;lea rsp, [rsp+reg(0)+0x80];jmp [rip]", ";")
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	if !bytes.Equal(code[len(code)-8:], []byte{0xef, 0xbe, 0xad, 0xde, 0x00, 0x7f, 0, 0}) {
		t.Errorf("goes on at % x", code[len(code)-8:])
	}
}

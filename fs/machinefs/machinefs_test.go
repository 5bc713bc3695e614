package machinefs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
	"github.com/kprobefs/kprobefs/kprobes"
)

const base = 0xffffffff81000000

// fn is nopl; push rbp; mov rsp,rbp; xor eax,eax; pop rbp; ret.
var fn = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0x5d, 0xc3}

func TestDisassemble(t *testing.T) {
	noName := func(uint64) (string, uint64) { return "", 0 }
	patch := func(off int, b ...byte) []byte {
		p := slices.Clone(fn)
		copy(p[off:], b)
		return p
	}
	for _, c := range []struct {
		name string
		now  []byte
		want []string // one for each line: star, offset, and what must be in it
	}{
		{"plain", fn, []string{"  +0x0 nopl", "  +0x5 push", "  +0x6 mov", "  +0x9 xor", "  +0xb pop", "  +0xc ret"}},
		{"int3", patch(6, 0xcc), []string{"  +0x0 nopl", "  +0x5 push", "* +0x6 int3 was: 48 89 e5 mov", "  +0x9 xor", "  +0xb pop", "  +0xc ret"}},
		{"jump", patch(5, 0xe9, 0xf6, 0x00, 0x00, 0x00), []string{"  +0x0 nopl", "* +0x5 jmp was: 55 push 48 89 e5 mov 31 c0 xor", "  +0xb pop", "  +0xc ret"}},
		{"ftrace", patch(0, 0xe8, 0, 1, 0, 0), []string{"* +0x0 call was: 0f 1f 44 00 00", "  +0x5 push", "  +0x6 mov", "  +0x9 xor", "  +0xb pop", "  +0xc ret"}},
	} {
		lines := strings.Split(strings.TrimSpace(Disassemble(base, c.now, fn, noName)+"x"), "\n")
		lines = lines[:len(lines)-1]
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d lines, want %d:\n%s", c.name, len(lines), len(c.want), strings.Join(lines, "\n"))
			continue
		}
		for i, l := range lines {
			f := strings.Fields(c.want[i])
			if strings.HasPrefix(c.want[i], "*") != strings.HasPrefix(l, "*") {
				t.Errorf("%s: %q, want %q", c.name, l, c.want[i])
			}
			for _, w := range f {
				if !strings.Contains(l, w) {
					t.Errorf("%s: %q lacks %q", c.name, l, w)
				}
			}
		}
	}
}

// Whatever the bytes are, the disassembly ends and tells each of them.
func FuzzDisassemble(f *testing.F) {
	f.Add(fn, fn)
	f.Add([]byte{0x0f}, []byte{0xcc})
	f.Fuzz(func(t *testing.T, now, was []byte) {
		n := min(len(now), len(was), 256)
		Disassemble(base, now[:n], was[:n], func(uint64) (string, uint64) { return "", 0 })
	})
}

func testConfig() Config {
	syms := kallsyms.New([]abi.Symbol{
		{Addr: base, Type: 'T', Name: "fn"},
		{Addr: base + uint64(len(fn)), Type: 't', Name: "twice"},
		{Addr: base + 2*uint64(len(fn)), Type: 't', Name: "twice"},
		{Addr: base + 3*uint64(len(fn)), Type: 'D', Name: "data"},
		{Addr: base + 4*uint64(len(fn)), Type: 'D', Name: "end"},
	})
	read := func(addr uint64, p []byte) error {
		for i := range p {
			p[i] = fn[(addr-base+uint64(i))%uint64(len(fn))]
		}
		return nil
	}
	return Config{
		Symbols: syms, Read: read, Original: read, CPUs: 2,
		About: func() string { return "a machine\n" },
		Points: func() []kprobes.PointInfo {
			return []kprobes.PointInfo{{
				Addr: base + 5, Armed: true, Flags: kprobes.FlagOptimized, Carried: "boost", Slot: 0xffffffffc0000000, Length: 1,
				NotJump: errors.New("too short"), Probes: []kprobes.Record{{Ret: true}}, Missed: []uint64{3},
			}}
		},
	}
}

func find(t *testing.T, c Config, path string) *seqfile.Row {
	t.Helper()
	r := Machine(c)
	for _, name := range strings.Split(path, "/") {
		if r = seqfile.Find(r.Dir, name); r == nil {
			t.Fatalf("no %s", path)
		}
	}
	return r
}

func open(t *testing.T, c Config, path string) seqfile.File {
	t.Helper()
	f, err := find(t, c, path).Open(context.Background(), &seqfile.OpenInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, f seqfile.File) string {
	t.Helper()
	p := make([]byte, 65536)
	n, err := f.Read(context.Background(), p, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(p[:n])
}

func TestText(t *testing.T) {
	c := testConfig()
	var names []string
	for _, r := range find(t, c, "text").Dir.Rows() {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"fn", "twice"}) {
		t.Errorf("text has %v", names)
	}
	if got := read(t, open(t, c, "text/twice")); strings.Count(got, "twice:\n") != 2 || strings.Count(got, "push") != 2 {
		t.Errorf("twice:\n%s", got)
	}
	if r := seqfile.Find(find(t, c, "text").Dir, "data"); r != nil {
		t.Error("data is no function")
	}
}

func TestProbes(t *testing.T) {
	got := read(t, open(t, testConfig(), "probes/fn+0x5"))
	for _, want := range []string{"ffffffff81000005", "armed:       yes", "[OPTIMIZED]", "boost", "no: too short", "r missed 3 -"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestLoad(t *testing.T) {
	c := testConfig()
	var mu sync.Mutex
	var calls []string
	c.CallOn = func(_ context.Context, cpu int, addr, count uint64, args ...uint64) (uint64, error) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, fmt.Sprintf("%d %#x %d %#x", cpu, addr, count, args))
		return 7, nil
	}
	f := open(t, c, "load/call")
	if _, err := f.Write(context.Background(), []byte("fn 10 0x10 -1 data\n"), 0); err != nil {
		t.Fatal(err)
	}
	slices.Sort(calls)
	want := []string{
		"0 0xffffffff81000000 10 [0x10 0xffffffffffffffff 0xffffffff81000027]",
		"1 0xffffffff81000000 10 [0x10 0xffffffffffffffff 0xffffffff81000027]",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls %q, want %q", calls, want)
	}
	if got := read(t, f); strings.Count(got, "10 calls") != 2 || !strings.Contains(got, "0x7") {
		t.Errorf("result %q", got)
	}
	for line, errno := range map[string]syscall.Errno{
		"":                 syscall.EINVAL,
		"fn":               syscall.EINVAL,
		"fn x":             syscall.EINVAL,
		"fn 0":             syscall.EINVAL,
		"fn 1 nowhere":     syscall.EINVAL,
		"fn 1 1 2 3 4 5 6": syscall.EINVAL,
		"nothing 1":        syscall.ENOENT,
		"twice 1":          syscall.EADDRNOTAVAIL,
		"data 1":           syscall.EINVAL,
	} {
		if _, err := f.Write(context.Background(), []byte(line), 0); !errors.Is(err, errno) {
			t.Errorf("%q: %v, want %v", line, err, errno)
		}
	}
}

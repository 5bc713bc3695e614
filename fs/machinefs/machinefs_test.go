package machinefs

import (
	"bytes"
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

// fn is: nopl; push rbp; mov rsp,rbp; xor eax,eax; pop rbp; ret.
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
		lines := strings.Split(strings.TrimSpace(Disassemble(base, c.now, fn, noName, false)+"x"), "\n")
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

// TestHidden: a reader who may not see addresses sees none, neither before an
// instruction nor in its bytes or operands, but sees offsets, names and distances.
func TestHidden(t *testing.T) {
	// The constants contain the address of data, base + 0x345678.
	text := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	lea := []byte{0x48, 0xc7, 0xc7, 0x78, 0x56, 0x34, 0x81}                      // mov $data,%rdi
	table := []byte{0x48, 0x8b, 0x04, 0xc5, 0x78, 0x56, 0x34, 0x81}              // mov data(,%rax,8),%rax
	movabs := []byte{0x48, 0xb8, 0x78, 0x56, 0x34, 0x81, 0xff, 0xff, 0xff, 0xff} // movabs $data,%rax
	errno := []byte{0x48, 0xc7, 0xc0, 0xea, 0xff, 0xff, 0xff}                    // mov $-22,%rax
	call := []byte{0xe8, 0xdb, 0xff, 0xff, 0xff}                                 // call base
	was := text(lea, table, movabs, errno, call, []byte{0xc3})
	name := func(uint64) (string, uint64) { return "", 0 }
	for _, now := range [][]byte{was, text([]byte{0xe9, 0, 1, 0, 0}, was[5:]), text([]byte{0xcc}, was[1:])} {
		shown, hidden := Disassemble(base, now, was, name, false), Disassemble(base, now, was, name, true)
		for _, leak := range []string{"78 56", "34 81", "81345678", "ffffffff8"} {
			if !strings.Contains(shown, leak) {
				t.Errorf("%q is not shown to privileged readers:\n%s", leak, shown)
			}
			if strings.Contains(hidden, leak) {
				t.Errorf("%q is shown:\n%s", leak, hidden)
			}
		}
		for _, want := range []string{"+0x0 ", "+0x7 ", "48 8b 04 c5 00 00 00 00", "ea ff ff ff", "$-0x16", "e8 db ff ff ff", "ret"} {
			if !strings.Contains(hidden, want) {
				t.Errorf("no %q in\n%s", want, hidden)
			}
		}
	}
	c := testConfig()
	c.ShowAddr = func(*seqfile.Caller) bool { return false }
	for _, path := range []string{"text/fn", "probes/fn+0x5"} {
		if got := read(t, open(t, c, path)); strings.Contains(got, "ffffffff") || !strings.Contains(got, "0000000000000000") {
			t.Errorf("%s shows addresses:\n%s", path, got)
		}
	}
}

// FuzzDisassemble: the disassembly of any bytes ends and covers all of them.
func FuzzDisassemble(f *testing.F) {
	f.Add(fn, fn)
	f.Add([]byte{0x0f}, []byte{0xcc})
	f.Fuzz(func(t *testing.T, now, was []byte) {
		n := min(len(now), len(was), 256)
		noName := func(uint64) (string, uint64) { return "", 0 }
		wantAllBytes(t, now[:n], was[:n], Disassemble(base, now[:n], was[:n], noName, false))
		hidden := Disassemble(base, now[:n], was[:n], noName, true)
		if strings.Count(hidden, "\n") != strings.Count(Disassemble(base, now[:n], was[:n], noName, false), "\n") || strings.Contains(hidden, fmt.Sprintf("%x", uint64(base))) {
			t.Errorf("without addresses:\n%s", hidden)
		}
	})
}

// wantAllBytes checks that the lines of a disassembly are contiguous, show the right
// bytes, and begin with a star if these have changed.
func wantAllBytes(t *testing.T, now, was []byte, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(now) == 0 {
		lines = nil
	}
	offset := func(i int) (off int) {
		if i == len(lines) {
			return len(now)
		}
		if _, err := fmt.Sscanf(lines[i][2:], "%x +%v", new(uint64), &off); err != nil {
			t.Fatalf("%q: %v", lines[i], err)
		}
		return off
	}
	for i, line := range lines {
		off, end := offset(i), offset(i+1)
		if i == 0 && off != 0 || off >= end || !strings.HasPrefix(line[2:], fmt.Sprintf("%016x  +%#x ", base+uint64(off), off)) {
			t.Fatalf("line %d is from %d to %d:\n%s", i, off, end, text)
		}
		if changed := !bytes.Equal(now[off:end], was[off:end]); strings.HasPrefix(line, "* ") != changed || !strings.Contains(line, fmt.Sprintf(" % x ", now[off:end])) {
			t.Errorf("%q: changed: %v, and the bytes are % x", line, changed, now[off:end])
		}
	}
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
		ShowAddr: func(*seqfile.Caller) bool { return true },
		About:    func() string { return "a machine\n" },
		Queues:   func() kprobes.Queues { return kprobes.Queues{On: true} },
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

// TestProbed: one file has what the files of machine/probes have.
func TestProbed(t *testing.T) {
	c := testConfig()
	one := c.Points()[0]
	other := one
	other.Addr = base
	c.Points = func() []kprobes.PointInfo { return []kprobes.PointInfo{one, other} }
	want := read(t, open(t, c, "probes/fn+0x5")) + "\n" + read(t, open(t, c, "probes/fn+0x0"))
	if got := read(t, open(t, c, "probed")); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	c.ShowAddr = func(*seqfile.Caller) bool { return false }
	if got := read(t, open(t, c, "probed")); strings.Contains(got, "ffffffff") {
		t.Errorf("addresses are shown:\n%s", got)
	}
}

// TestCopies: the file of a function has the code that executes its probed instructions.
func TestCopies(t *testing.T) {
	c := testConfig()
	memory := map[uint64][]byte{
		0xffffffffc0000000: {0x55, 0xcc},                                           // push %rbp; int3
		0xffffffffc0000100: {0x48, 0xbf, 5, 0, 0, 0x81, 0xff, 0xff, 0xff, 0xff},    // movabs $fn+5,%rdi
		0xffffffffc000010a: {0x55, 0x48, 0x89, 0xe5, 0x31, 0xc0, 0xe9, 0, 0, 0, 0}, // the instructions; jmp
	}
	text := c.Read
	c.Read = func(addr uint64, p []byte) error {
		if b, ok := memory[addr]; ok && len(p) == len(b) {
			copy(p, b)
			return nil
		}
		if addr >= 0xffffffffc0000000 {
			return fmt.Errorf("read of %d bytes at %#x: %w", len(p), addr, syscall.EFAULT)
		}
		return text(addr, p)
	}
	pt := c.Points()[0]
	pt.Buffer, pt.Detour, pt.BufferLen = 0xffffffffc0000100, 0xffffffffc000010a, 21
	gone := kprobes.PointInfo{Addr: base, Carried: "step", Slot: 0xffffffffc0001000, Length: 5}
	c.Points = func() []kprobes.PointInfo { return []kprobes.PointInfo{pt, gone} }
	if rows := find(t, c, "copies").Dir.Rows(); len(rows) != 1 || rows[0].Name != "fn" {
		t.Errorf("copies has %d files", len(rows))
	}
	got := read(t, open(t, c, "copies/fn"))
	for _, want := range []string{
		"fn:\n+0x5 armed yes flags [OPTIMIZED] carried boost\n+0x5 slot\n", "55 ", "int3", "+0x5 detour\n", "48 bf 05 00 00 81 ff ff ff ff ",
		"+0x5 copied\n", "jmpq", "+0x0 armed no flags - carried step\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "+0x0 slot") {
		t.Errorf("a slot that is gone is shown:\n%s", got)
	}
	if got := read(t, open(t, c, "copies/twice")); got != "twice:\n\ntwice:\n" {
		t.Errorf("functions without probes: %q", got)
	}
	c.ShowAddr = func(*seqfile.Caller) bool { return false }
	if got := read(t, open(t, c, "copies/fn")); strings.Contains(got, "ffffffff") || strings.Contains(got, "05 00 00 81") {
		t.Errorf("addresses are shown:\n%s", got)
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
		"fn 1_000":         syscall.EINVAL,
		"fn 0b1":           syscall.EINVAL,
		"fn 1 0o7":         syscall.EINVAL,
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

// FuzzCall: a line of machine/load/call is accepted or fails with an errno; if
// accepted, it calls an existing function a bounded number of times.
func FuzzCall(f *testing.F) {
	for _, s := range []string{"fn 1", "fn 0x10 1 -2 data", "twice 1", "data 1", "none 1", "fn 0", "fn 18446744073709551615", "fn 1 1 2 3 4 5 6", "fn", "", "fn\x001"} {
		f.Add(s)
	}
	c := testConfig()
	f.Fuzz(func(t *testing.T, line string) {
		addr, count, args, err := c.parseCall(line)
		var errno syscall.Errno
		switch {
		case err != nil && !errors.As(err, &errno):
			t.Errorf("%q: an error without errno: %v", line, err)
		case err == nil && (addr != base || count == 0 || count > maxCalls || len(args) > maxArgs):
			t.Errorf("%q calls %#x, %d times, with %d arguments", line, addr, count, len(args))
		}
	})
}

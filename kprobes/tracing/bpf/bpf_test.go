package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// fakeCaller is a process whose memory is one array, at base.
type fakeCaller struct {
	memory  []byte
	objects []any // from descriptor 3
	access  map[int]uint32
	pinned  any
}

const base = 0x10000

func (c *fakeCaller) Read(addr uint64, b []byte) error {
	if addr < base || addr-base+uint64(len(b)) > uint64(len(c.memory)) {
		return syscall.EFAULT
	}
	copy(b, c.memory[addr-base:])
	return nil
}

func (c *fakeCaller) Write(addr uint64, b []byte) {
	if addr >= base && addr-base+uint64(len(b)) <= uint64(len(c.memory)) {
		copy(c.memory[addr-base:], b)
	}
}

func (c *fakeCaller) Object(fd int) any {
	if fd < 3 || fd-3 >= len(c.objects) {
		return nil
	}
	return c.objects[fd-3]
}

// FreeFD implements Caller.
func (c *fakeCaller) FreeFD(first int) int { return max(first, len(c.objects)+3) }

// ObjectOf implements Caller: there is task 10 only.
func (c *fakeCaller) ObjectOf(pid, fd int) (any, error) {
	if pid != 10 {
		return nil, syscall.ENOENT
	}
	return c.Object(fd), nil
}

// TaskOf implements Caller: descriptor 100 is of task 11, 101 of one that has ended.
func (c *fakeCaller) TaskOf(fd int) (int32, error) {
	switch fd {
	case 100:
		return 11, nil
	case 101:
		return 0, syscall.ENOENT
	}
	return 0, syscall.EBADF
}

// Access implements Caller.
func (c *fakeCaller) Access(fd int) uint32 { return c.access[fd] }

// Pin implements Caller: there is one file.
func (c *fakeCaller) Pin(object any) error {
	if c.pinned != nil {
		return syscall.EEXIST
	}
	c.pinned = object
	return nil
}

// Pinned implements Caller.
func (c *fakeCaller) Pinned(uint32) (any, error) {
	if c.pinned == nil {
		return nil, syscall.ENOENT
	}
	return c.pinned, nil
}

// Task implements Caller.
func (c *fakeCaller) Task() Task {
	return Task{IDs: perf.IDs{PID: 10, TID: 11}, Comm: "fake", Addr: 0xffff888000001000}
}

// put appends to the memory, and returns where.
func (c *fakeCaller) put(b []byte) uint64 {
	at := uint64(len(c.memory))
	c.memory = append(c.memory, b...)
	return base + at
}

// call makes a call with fields of 4 and 8 bytes (uint32, uint64) at offsets of the attr.
func (c *fakeCaller) call(s *System, cmd uint32, fields map[int]any) (Result, []byte, error) {
	b := make([]byte, attrSize)
	for at, v := range fields {
		switch v := v.(type) {
		case uint32:
			binary.LittleEndian.PutUint32(b[at:], v)
		case uint64:
			binary.LittleEndian.PutUint64(b[at:], v)
		}
	}
	addr := c.put(b)
	r, err := s.Call(c, cmd, addr, attrSize)
	return r, c.memory[addr-base : addr-base+attrSize], err
}

// memory is shared memory of this process only.
type memory struct{ b []byte }

func (m *memory) Grow(n int) ([]byte, error) { m.b = make([]byte, n); return m.b, nil }
func (m *memory) Close()                     {}

// guest is the kernel's memory: 4096 bytes at an address.
type guest struct{ b [4096]byte }

const guestAt = 0xffff888000001000

func (g *guest) ReadAt(addr uint64, p []byte) error {
	if addr < guestAt || addr+uint64(len(p)) > guestAt+4096 {
		return syscall.EFAULT
	}
	copy(p, g.b[addr-guestAt:])
	return nil
}
func (g *guest) WriteAt(uint64, []byte) error { return syscall.EFAULT }
func (g *guest) ReadU64(addr uint64) (uint64, error) {
	var b [8]byte
	err := g.ReadAt(addr, b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}
func (g *guest) WriteU64(uint64, uint64) error { return syscall.EFAULT }

func newSystem() *System {
	return New(Config{CPUs: 4, Now: func() int64 { return 12345 }, Memory: func() (perf.Memory, error) { return &memory{}, nil }, Kernel: &guest{}})
}

// newMap makes a map, whose descriptor it returns.
func (c *fakeCaller) newMap(t testing.TB, s *System, kind MapType, key, value, entries, flags uint32) uint32 {
	t.Helper()
	r, _, err := c.call(s, cmdMapCreate, map[int]any{0: uint32(kind), 4: key, 8: value, 12: entries, 16: flags})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	return uint32(len(c.objects) + 2)
}

// code puts instructions together.
func code(all ...insn) (b []byte) {
	for _, i := range all {
		b = append(b, i.code, i.dst|i.src<<4)
		b = binary.LittleEndian.AppendUint16(b, uint16(i.off))
		b = binary.LittleEndian.AppendUint32(b, uint32(i.imm))
	}
	return b
}

func movK(dst uint8, imm int32) insn { return insn{code: classALU64 | aluMOV, dst: dst, imm: imm} }
func movX(dst, src uint8) insn       { return insn{code: classALU64 | aluMOV | srcX, dst: dst, src: src} }

func aluK(op, dst uint8, imm int32) insn {
	return insn{code: classALU64 | op, dst: dst, imm: imm}
}
func aluX(op, dst, src uint8) insn { return insn{code: classALU64 | op | srcX, dst: dst, src: src} }
func ldx(size, dst, src uint8, off int16) insn {
	return insn{code: classLDX | modeMEM | size, dst: dst, src: src, off: off}
}

func stx(size, dst, src uint8, off int16) insn {
	return insn{code: classSTX | modeMEM | size, dst: dst, src: src, off: off}
}

func st(size, dst uint8, off int16, imm int32) insn {
	return insn{code: classST | modeMEM | size, dst: dst, off: off, imm: imm}
}

func jmpK(op, dst uint8, imm int32, off int16) insn {
	return insn{code: classJMP | op, dst: dst, imm: imm, off: off}
}
func callHelper(nr int32) insn { return insn{code: classJMP | jmpCALL, imm: nr} }

var exit = insn{code: classJMP | jmpEXIT}

// loadMap is a 64-bit immediate with a map.
func loadMap(dst uint8, fd uint32) []insn {
	return []insn{{code: classLD | modeIMM | sizeDW, dst: dst, src: pseudoMapFD, imm: int32(fd)}, {}}
}

// load loads a program, and returns the last line of the log before the statistics.
func (c *fakeCaller) load(s *System, kind ProgType, license string, prog []byte) (*Prog, string, error) {
	const room = 1 << 16
	log := c.put(make([]byte, room))
	flags := uint32(0)
	if kind == ProgSyscall {
		flags = progSleepable
	}
	r, _, err := c.call(s, cmdProgLoad, map[int]any{
		0: uint32(kind), 4: uint32(len(prog) / insnSize), 8: c.put(prog), 16: c.put([]byte(license + "\x00")),
		24: uint32(logLevel1), 28: uint32(room), 32: log, 44: flags,
	})
	text, _, _ := bytes.Cut(c.memory[log-base:], []byte{0})
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	last := ""
	if len(lines) > 1 {
		last = lines[len(lines)-2]
	}
	p, _ := r.Object.(*Prog)
	return p, last, err
}

// run runs a program as for a hit.
func (s *System) runOnce(p *Prog, ctx []byte) uint64 {
	h := Hit{Trap: &abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Ctx: ctx, PID: 10, TID: 11, Comm: new([abi.TaskCommLen]byte)}
	copy(h.Comm[:], "fake")
	s.mem.Lock()
	defer s.mem.Unlock()
	return s.run.execute(p, 7, &h)
}

// TestVerifier: what Linux 6.1 says of these programs (internal/tools/clients has more, which are recorded).
func TestVerifier(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	hash := c.newMap(t, s, mapHash, 4, 8, 8, 0)
	look := func(then ...insn) []byte {
		return code(slices.Concat([]insn{st(sizeW, 10, -4, 1), movX(2, 10), aluK(aluADD, 2, -4)}, loadMap(1, hash), []insn{callHelper(1)}, then)...)
	}
	for _, tt := range []struct {
		name    string
		prog    []byte
		license string
		want    error
		log     string
	}{
		{"return 0", code(movK(0, 0), exit), "GPL", nil, ""},
		{"no result", code(exit), "GPL", syscall.EACCES, "R0 !read_ok"},
		{"no end", code(movK(0, 0)), "GPL", syscall.EINVAL, "last insn is not an exit or jmp"},
		{"not reached", code(movK(0, 0), exit, exit), "GPL", syscall.EINVAL, "unreachable insn 2"},
		{"jump away", code(jmpK(jmpJEQ, 1, 0, 9), movK(0, 0), exit), "GPL", syscall.EINVAL, "jump out of range from insn 0 to 10"},
		{"frame pointer", code(movK(10, 0), exit), "GPL", syscall.EACCES, "frame pointer is read only"},
		{"division", code(movK(0, 1), aluK(aluDIV, 0, 0), exit), "GPL", syscall.EINVAL, "div by zero"},
		{"null", look(ldx(sizeDW, 0, 0, 0), exit), "GPL", syscall.EACCES, "R0 invalid mem access 'map_value_or_null'"},
		{"not null", look(jmpK(jmpJEQ, 0, 0, 1), ldx(sizeDW, 0, 0, 0), exit), "GPL", nil, ""},
		{"after the value", look(jmpK(jmpJEQ, 0, 0, 1), ldx(sizeDW, 0, 0, 8), exit), "GPL", syscall.EACCES, "R0 min value is outside of the allowed memory range"},
		{"registers", code(ldx(sizeDW, 0, 1, 160), exit), "GPL", nil, ""},
		{"after the registers", code(ldx(sizeDW, 0, 1, 168), exit), "GPL", syscall.EACCES, "invalid bpf_context access off=168 size=8"},
		{"a number is no pointer", code(movK(1, 5), ldx(sizeDW, 0, 1, 0), exit), "GPL", syscall.EACCES, "R1 invalid mem access 'scalar'"},
		{"GPL only", code(callHelper(35), exit), "MIT", syscall.EINVAL, "cannot call GPL-restricted function from non-GPL compatible program"},
		{"no such helper", code(callHelper(9999), exit), "GPL", syscall.EINVAL, "invalid func unknown#9999"},
		{"a helper of packets", code(callHelper(26), exit), "GPL", syscall.EINVAL, "unknown func bpf_skb_load_bytes#26"},
		{"for ever", code(movK(0, 0), movK(2, 0), jmpK(jmpJEQ, 2, 0, -1), exit), "GPL", syscall.EINVAL, "infinite loop detected at insn 2"},
		{"bounded loop", code(movK(0, 0), aluK(aluADD, 0, 1), jmpK(jmpJLT, 0, 100, -2), exit), "GPL", nil, ""},
	} {
		_, log, err := c.load(s, ProgKprobe, tt.license, tt.prog)
		if !errors.Is(err, tt.want) || tt.want != nil && log != tt.log {
			t.Errorf("%s: %v, %q, want %v, %q", tt.name, err, log, tt.want, tt.log)
		}
	}
}

// TestExecute: programs that compute, count in maps, call one another and read the kernel's memory.
func TestExecute(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	hash := c.newMap(t, s, mapHash, 4, 8, 8, 0)
	perCPU := c.newMap(t, s, mapPerCPUArray, 4, 8, 1, 0)
	copy(s.conf.Kernel.(*guest).b[16:], "text of the kernel\x00")
	for _, tt := range []struct {
		name string
		prog []byte
		want uint64
	}{
		{"arithmetic", code(movK(0, 100), aluK(aluMUL, 0, 7), aluK(aluSUB, 0, 1), aluK(aluMOD, 0, 50), exit), 49},
		{"by zero", code(movK(0, 9), movK(1, 0), aluX(aluDIV, 0, 1), exit), 0},
		{"32 bits", code(movK(0, -1), insn{code: classALU | aluADD, dst: 0, imm: 2}, exit), 1},
		{"big endian", code(movK(0, 0x1234), insn{code: classALU | aluEND | srcX, dst: 0, imm: 16}, exit), 0x3412},
		{"registers", code(ldx(sizeDW, 0, 1, 112), exit), 0x70},
		{"stack", code(st(sizeDW, 10, -8, 77), ldx(sizeB, 0, 10, -8), exit), 77},
		{"function", code(movK(1, 20), insn{code: classJMP | jmpCALL, src: pseudoCall, imm: 1}, exit, movX(0, 1), aluK(aluADD, 0, 1), exit), 21},
		{"loop", code(movK(0, 0), movK(2, 0), aluX(aluADD, 0, 2), aluK(aluADD, 2, 1), jmpK(jmpJLT, 2, 11, -3), exit), 55},
		{"pid", code(callHelper(14), exit), 10<<32 | 11},
		{"time", code(callHelper(5), exit), 12345},
		{"cookie", code(callHelper(174), exit), 7},
		{"string", code(movX(1, 10), aluK(aluADD, 1, -32), movK(2, 32),
			insn{code: classLD | modeIMM | sizeDW, dst: 3, imm: 0x1010}, insn{imm: -0x7780}, // guestAt + 16
			callHelper(115), exit), 19},
		{"user space as the kernel", code(movX(1, 10), aluK(aluADD, 1, -8), movK(2, 8), movK(3, 64), callHelper(113), exit), errno(syscall.ERANGE)},
	} {
		p, log, err := c.load(s, ProgKprobe, "GPL", tt.prog)
		if err != nil {
			t.Errorf("%s: %v: %s", tt.name, err, log)
			continue
		}
		ctx := make([]byte, 168)
		ctx[112] = 0x70
		if got := s.runOnce(p, ctx); got != tt.want || p.warned.Load() {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
	count := code(slices.Concat([]insn{st(sizeW, 10, -4, 0), movX(2, 10), aluK(aluADD, 2, -4)}, loadMap(1, perCPU), []insn{
		callHelper(1), jmpK(jmpJEQ, 0, 0, 2), movK(1, 1),
		{code: classSTX | modeAtomic | sizeDW, dst: 0, src: 1, imm: aluADD},
		st(sizeW, 10, -4, 5), st(sizeDW, 10, -16, 99), movX(2, 10), aluK(aluADD, 2, -4), movX(3, 10), aluK(aluADD, 3, -16), movK(4, 0),
	},
		loadMap(1, hash), []insn{callHelper(2), movK(0, 0), exit})...)
	p, log, err := c.load(s, ProgKprobe, "GPL", count)
	if err != nil {
		t.Fatal(err, log)
	}
	for range 3 {
		s.runOnce(p, nil)
	}
	for fd, want := range map[uint32]uint64{hash: 99, perCPU: 3} {
		key := uint32(0)
		if fd == hash {
			key = 5
		}
		value := c.put(make([]byte, 32))
		if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: c.put(binary.LittleEndian.AppendUint32(nil, key)), 16: value}); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(c.memory[value-base:]); got != want {
			t.Errorf("map %d: %d, want %d", fd, got, want)
		}
	}
}

// TestMaps: the errnos of maps, and what they hold.
func TestMaps(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	for _, tt := range []struct {
		kind                       MapType
		key, value, entries, flags uint32
		want                       error
	}{
		{mapHash, 4, 8, 10, 0, nil},
		{mapHash, 0, 8, 10, 0, syscall.EINVAL},
		{mapHash, 4, 8, 0, 0, syscall.EINVAL},
		{mapHash, 4, 8, 10, 1 << 20, syscall.EINVAL},
		{mapArray, 8, 8, 10, 0, syscall.EINVAL},
		{mapArray, 4, 8, 10, flagNoPrealloc, syscall.EINVAL},
		{mapPerCPUArray, 4, 1 << 16, 10, 0, syscall.E2BIG},
		{mapRingbuf, 0, 0, 4096, 0, nil},
		{mapRingbuf, 0, 0, 4097, 0, syscall.EINVAL},
		{mapLPMTrie, 8, 4, 4, 0, syscall.EINVAL},
		{mapLPMTrie, 8, 4, 4, flagNoPrealloc, nil},
		{mapStackTrace, 4, 12, 4, 0, syscall.EINVAL},
		{mapQueue, 4, 8, 4, 0, syscall.EINVAL},
		{99, 4, 8, 4, 0, syscall.EINVAL},
		{mapArray, 4, 1 << 29, 1 << 10, 0, syscall.ENOMEM},
	} {
		_, _, err := c.call(s, cmdMapCreate, map[int]any{0: uint32(tt.kind), 4: tt.key, 8: tt.value, 12: tt.entries, 16: tt.flags})
		if !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	word := func(n uint32) uint64 { return c.put(binary.LittleEndian.AppendUint32(nil, n)) }
	hash := c.newMap(t, s, mapHash, 4, 4, 2, 0)
	update := func(fd, key, value uint32, flags uint64) error {
		_, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: word(key), 16: word(value), 24: flags})
		return err
	}
	for _, tt := range []struct {
		key   uint32
		flags uint64
		want  error
	}{
		{1, updateExist, syscall.ENOENT},
		{1, updateAny, nil},
		{1, updateNoExist, syscall.EEXIST},
		{2, updateNoExist, nil},
		{3, updateAny, syscall.E2BIG},
		{3, 8, syscall.EINVAL},
	} {
		if err := update(hash, tt.key, 10*tt.key, tt.flags); !errors.Is(err, tt.want) {
			t.Errorf("update of %d with %d: %v, want %v", tt.key, tt.flags, err, tt.want)
		}
	}
	lru := c.newMap(t, s, mapLRUHash, 4, 4, 2, 0)
	for key := range uint32(5) {
		if err := update(lru, key, key, 0); err != nil {
			t.Errorf("LRU: %v", err)
		}
	}
	var keys []uint32
	key, next := uint64(0), word(0)
	for {
		if _, _, err := c.call(s, cmdMapNextKey, map[int]any{0: lru, 8: key, 16: next}); err != nil {
			break
		}
		keys = append(keys, binary.LittleEndian.Uint32(c.memory[next-base:]))
		key = next
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []uint32{3, 4}) {
		t.Errorf("the LRU table has %v", keys)
	}
	trie := c.newMap(t, s, mapLPMTrie, 8, 4, 4, flagNoPrealloc)
	prefix := func(bits uint32, ip ...byte) uint64 {
		return c.put(append(binary.LittleEndian.AppendUint32(nil, bits), ip...))
	}
	for _, e := range []struct {
		at    uint64
		value uint32
	}{{prefix(8, 10, 0, 0, 0), 8}, {prefix(16, 10, 1, 0, 0), 16}} {
		if _, _, err := c.call(s, cmdMapUpdate, map[int]any{0: trie, 8: e.at, 16: word(e.value)}); err != nil {
			t.Fatal(err)
		}
	}
	value := word(0)
	if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: trie, 8: prefix(32, 10, 1, 2, 3), 16: value}); err != nil || c.memory[value-base] != 16 {
		t.Errorf("the longest prefix: %v, %d", err, c.memory[value-base])
	}
	queue := c.newMap(t, s, mapQueue, 0, 4, 2, 0)
	for n := range uint32(3) {
		_, _, err := c.call(s, cmdMapUpdate, map[int]any{0: queue, 16: word(n)})
		if (err == nil) != (n < 2) {
			t.Errorf("queue: %v", err)
		}
	}
	for n := range byte(2) {
		if _, _, err := c.call(s, cmdMapLookupAndDelete, map[int]any{0: queue, 16: value}); err != nil || c.memory[value-base] != n {
			t.Errorf("queue: %v, %d", err, c.memory[value-base])
		}
	}
}

// TestXlated: what others see of a program has the numbers of maps, and says where functions are.
func TestXlated(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	c.newMap(t, s, mapHash, 4, 4, 1, 0)
	fd := c.newMap(t, s, mapArray, 4, 8, 1, 0)
	prog := code(append(loadMap(1, fd), insn{code: classLD | modeIMM | sizeDW, dst: 2, src: pseudoMapValue, imm: int32(fd)}, insn{imm: 4},
		insn{code: classJMP | jmpCALL, src: pseudoCall, imm: 2}, movK(0, 0), exit, movK(0, 1), exit)...)
	p, log, err := c.load(s, ProgKprobe, "GPL", prog)
	if err != nil {
		t.Fatal(err, log)
	}
	id := c.objects[int(fd)-3].(*Map).id
	want := decode(code(append(loadMap(1, id), insn{code: classLD | modeIMM | sizeDW, dst: 2, src: pseudoMapValue, imm: int32(id)}, insn{imm: 4},
		insn{code: classJMP | jmpCALL, src: pseudoCall, off: 2, imm: 1}, movK(0, 0), exit, movK(0, 1), exit)...))
	if got := decode(p.xlated()); !slices.Equal(got, want) {
		t.Errorf("\n%v, want\n%v", got, want)
	}
}

// TestReferences: objects end with the last reference.
func TestReferences(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	hash := c.newMap(t, s, mapHash, 4, 8, 8, 0)
	p, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat(loadMap(1, hash), []insn{movK(0, 0), exit})...))
	if err != nil {
		t.Fatal(err, log)
	}
	m := c.objects[0].(*Map)
	s.Release(m)
	if s.byIndex[m.index] != m {
		t.Error("a map that a program uses is gone")
	}
	s.Release(p)
	if s.byIndex[m.index] != nil || len(s.maps.all)+len(s.progs.all) != 0 {
		t.Error("the map or the program is still there")
	}
}

// FuzzCall: no call panics, and no program that is let through is ended.
func FuzzCall(f *testing.F) {
	f.Add(uint32(ProgKprobe), code(movK(0, 0), exit))
	f.Add(uint32(ProgTracepoint), code(ldx(sizeDW, 0, 1, 8), exit))
	f.Add(uint32(ProgSocketFilter), code(callHelper(7), exit))
	f.Add(uint32(ProgSyscall), code(ldx(sizeDW, 2, 1, 8), stx(sizeDW, 1, 2, 0), st(sizeDW, 10, -8, 3), movX(2, 10), aluK(aluADD, 2, -8), movK(1, cmdMapFreeze), movK(3, 4), callHelper(helperSysBPF), exit))
	f.Add(uint32(ProgKprobe), code(slices.Concat([]insn{st(sizeW, 10, -4, 1), movX(2, 10), aluK(aluADD, 2, -4)}, loadMap(1, 3), []insn{callHelper(1), jmpK(jmpJEQ, 0, 0, 1), stx(sizeB, 0, 0, 1), movK(0, 0), exit})...))
	f.Add(uint32(ProgTracing), writesID(68))
	f.Add(uint32(ProgKprobe), code(ldx(sizeDW, 2, 1, 8), stx(sizeDW, 10, 2, -8), insn{code: classLDX | modeMEMSX | sizeH, dst: 3, src: 10, off: -8},
		insn{code: classALU64 | aluMOV | srcX, dst: 4, src: 3, off: 8}, insn{code: classALU64 | aluEND, dst: 3, imm: 32},
		insn{code: classALU | aluDIV | srcX, dst: 3, src: 4, off: 1}, aluK(aluADD, 4, 5), jmpK(jmpJGT, 4, 7, 1), movX(2, 4), movK(0, 0), exit))
	f.Fuzz(func(t *testing.T, kind uint32, prog []byte) {
		if ProgType(kind) == ProgTracing {
			fuzzIterator(t, prog)
			return
		}
		for _, v612 := range []bool{false, true} {
			fuzzProgram(t, ProgType(kind), prog, v612)
		}
	})
}

// fuzzProgram loads a program, and runs it if the verifier, a release's, lets it through.
func fuzzProgram(t *testing.T, kind ProgType, prog []byte, v612 bool) {
	s, c := newSystemWithTypes(t), &fakeCaller{}
	s.conf.Verifier612 = v612
	c.newMap(t, s, mapHash, 4, 24, 8, 0)
	c.newMap(t, s, mapArray, 4, 32, 8, 0)
	c.newMap(t, s, mapRingbuf, 0, 0, 4096, 0)
	c.newMap(t, s, mapStackTrace, 4, 128, 64, 0)
	c.newMap(t, s, mapBloomFilter, 0, 8, 64, 0)
	c.newTyped(t, s, mapSpec{kind: mapTaskStorage, key: 4, value: 8, flags: flagNoPrealloc})
	c.newMap(t, s, mapUserRingbuf, 0, 0, 4096, 0)
	c.newTyped(t, s, locked)
	c.newTyped(t, s, timed)
	c.newTyped(t, s, kept)
	if len(prog) > 400*insnSize {
		return
	}
	prog = prog[:len(prog)/insnSize*insnSize]
	p, _, err := c.load(s, kind, "GPL", prog)
	if err != nil {
		return
	}
	if p.kind == ProgSyscall {
		c.objects = append(c.objects, p)
		_, _, _ = c.call(s, cmdProgTestRun, map[int]any{0: uint32(len(c.objects) + 2), 40: uint32(64), 48: c.put(make([]byte, 64))})
	} else {
		s.runOnce(p, make([]byte, 168))
	}
	if p.warned.Load() {
		t.Error("the verifier let a program through that was ended")
	}
}

// FuzzCommand: no attr panics.
func FuzzCommand(f *testing.F) {
	f.Add(uint32(cmdMapCreate), []byte{1, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0})
	f.Add(uint32(cmdObjInfo), []byte{3, 0, 0, 0, 88, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Add(uint32(cmdObjPin), []byte{0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0})
	f.Add(uint32(cmdObjGet), []byte{0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0})
	f.Add(uint32(cmdTaskFDQuery), []byte{10, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})
	f.Add(uint32(cmdLinkCreate), []byte{9, 0, 0, 0, 0, 0, 0, 0, traceIter, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 16, 0, 0, 0})
	f.Add(uint32(cmdLinkUpdate), []byte{10, 0, 0, 0, 9, 0, 0, 0, 4, 0, 0, 0, 9, 0, 0, 0})
	f.Add(uint32(cmdIterCreate), []byte{10, 0, 0, 0})
	f.Fuzz(func(t *testing.T, cmd uint32, b []byte) {
		s, ids := newIterSystem(t)
		c := &fakeCaller{memory: make([]byte, 8192)}
		c.newMap(t, s, mapHash, 4, 8, 8, 0)
		c.newMap(t, s, mapArray, 4, 8, 8, flagMmapable)
		c.newMap(t, s, mapQueue, 0, 8, 8, 0)
		c.newMap(t, s, mapBloomFilter, 0, 8, 64, 0)
		c.newTyped(t, s, mapSpec{kind: mapTaskStorage, key: 4, value: 8, flags: flagNoPrealloc})
		if p, _, err := c.load(s, ProgSocketFilter, "GPL", code(movK(0, 0), exit)); err == nil {
			c.objects = append(c.objects, p)
		}
		if _, _, err := c.iterator(s, ids["bpf_map"], writesID(68)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			addr := c.put(b)
			r, err := s.Call(c, cmd, addr, uint32(len(b)))
			if err == nil && r.Object != nil {
				c.objects = append(c.objects, r.Object)
			}
			if it, ok := r.Object.(*Iterator); ok {
				_, _ = it.Read(Task{}, make([]byte, 64))
			}
		}
	})
}

// fuzzIterator runs a program as one of an iterator over maps.
func fuzzIterator(t *testing.T, prog []byte) {
	s, ids := newIterSystem(t)
	c := &fakeCaller{}
	c.newMap(t, s, mapHash, 4, 24, 8, 0)
	c.newMap(t, s, mapArray, 4, 32, 8, 0)
	p, link, err := c.iterator(s, ids["bpf_map"], prog[:min(len(prog), 400*insnSize)/insnSize*insnSize])
	if err != nil {
		return
	}
	it, err := s.iterate(c.objects[link-3].(*Link))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = it.Read(Task{}, make([]byte, pageSize))
	if p.warned.Load() {
		t.Error("the verifier let a program through that was ended")
	}
}

// FuzzBTF: no types panic.
func FuzzBTF(f *testing.F) {
	words := func(w ...uint32) (b []byte) {
		for _, v := range w {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	const names = "\x00x\x00int\x00.data\x00f\x00"
	intType := []uint32{3, btfInt << 24, 4, 0x01000020}
	f.Add(words(append(intType, 1, btfStruct<<24|1, 8, 1, 1, 0)...))
	f.Add(words(append(intType, 0, btfArray<<24, 0, 1, 1, 3, 1, btfTypedef<<24, 2)...))
	f.Add(words(append(intType, 0, btfFuncProto<<24|1, 1, 1, 1, 13, btfFunc<<24, 2, 1, btfDeclTag<<24, 3, 0xffffffff)...))
	f.Add(words(append(intType, 1, btfVar<<24, 1, 1, 7, btfDatasec<<24|1, 4, 2, 0, 4)...))
	f.Add(words(append(intType, 0, btfPtr<<24, 3, 0, btfConst<<24, 2, 1, btfEnum<<24|1, 4, 1, 5)...))
	f.Fuzz(func(t *testing.T, types []byte) {
		b := slices.Concat(words(0x0001eb9f, btfHeader, 0, uint32(len(types)), uint32(len(types)), uint32(len(names))), types, []byte(names))
		s, c := newSystem(), &fakeCaller{}
		log, at := c.put(make([]byte, 4096)), c.put(b)
		r, _, err := c.call(s, cmdBTFLoad, map[int]any{0: at, 8: log, 16: uint32(len(b)), 20: uint32(4096), 24: uint32(1)})
		if err == nil && r.Object == nil {
			t.Error("types are loaded, and there is nothing")
		}
		if err != nil {
			return
		}
		c.objects = append(c.objects, r.Object)
		for id := range uint32(8) { // maps with values of these types
			size := uint32(4)
			if _, n, ok := r.Object.(*BTF).types.sized(id); ok {
				size = uint32(min(n, 1<<16))
			}
			for _, kind := range []MapType{mapHash, mapArray} {
				_, _, _ = c.call(s, cmdMapCreate, map[int]any{0: uint32(kind), 4: uint32(4), 8: size, 12: uint32(1), 48: uint32(3), 52: uint32(1), 56: id})
			}
		}
	})
}

// TestBTFNames: a long name of many types takes no time and no memory.
func TestBTFNames(t *testing.T) {
	const count, length = 50_000, 1 << 20
	var types []byte
	for range count {
		for _, w := range []uint32{1, btfInt << 24, 4, 0x01000020} {
			types = binary.LittleEndian.AppendUint32(types, w)
		}
	}
	names := slices.Concat([]byte{0}, bytes.Repeat([]byte("x"), length), []byte{0})
	var b []byte
	for _, w := range []int{0x0001eb9f, btfHeader, 0, len(types), len(types), len(names)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(w))
	}
	b = slices.Concat(b, types, names)
	s, c := newSystem(), &fakeCaller{}
	room := uint32(1 << 28)
	fields := map[int]any{0: c.put(b), 8: uint64(base + 1<<40), 16: uint32(len(b)), 20: room, 24: uint32(1)}
	began := time.Now()
	if _, _, err := c.call(s, cmdBTFLoad, fields); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a log of 50 GB: %v, want ENOSPC", err)
	}
	if took := time.Since(began); took > 5*time.Second { // copying each name would be 50 GB
		t.Errorf("it took %v", took)
	}
}

// BenchmarkCount is what bpftrace makes of @ = count(): a look-up in a per-CPU hash table, and an addition.
func BenchmarkCount(b *testing.B) {
	s, c := newSystem(), &fakeCaller{}
	fd := c.newMap(b, s, mapPerCPUHash, 8, 8, 4096, 0)
	p, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat([]insn{
		movK(1, 0), stx(sizeDW, 10, 1, -8), movX(2, 10), aluK(aluADD, 2, -8),
	}, loadMap(1, fd), []insn{
		callHelper(1),
		movK(1, 1), jmpK(jmpJEQ, 0, 0, 3), ldx(sizeDW, 1, 0, 0), aluK(aluADD, 1, 1),
		{code: classJMP | jmpJA},
		stx(sizeDW, 10, 1, -16), movX(2, 10), aluK(aluADD, 2, -8), movX(3, 10), aluK(aluADD, 3, -16),
	}, loadMap(1, fd), []insn{
		movK(4, 0), callHelper(2), movK(0, 0), exit,
	})...))
	if err != nil {
		b.Fatal(err, log)
	}
	h := Hit{Trap: &abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Ctx: make([]byte, 168), Comm: new([abi.TaskCommLen]byte)}
	all := []Attached{{Prog: p}}
	for b.Loop() {
		s.RunArray(all, &h)
	}
}

// TestConcurrent: hits on two vCPUs, and calls of a process meanwhile; every hit is counted.
func TestConcurrent(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	fd := c.newMap(t, s, mapArray, 4, 8, 1, 0)
	p, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat([]insn{st(sizeW, 10, -4, 0), movX(2, 10), aluK(aluADD, 2, -4)}, loadMap(1, fd), []insn{
		callHelper(1), jmpK(jmpJEQ, 0, 0, 2), movK(1, 1), {code: classSTX | modeAtomic | sizeDW, dst: 0, src: 1, imm: aluADD}, movK(0, 0), exit,
	})...))
	if err != nil {
		t.Fatal(err, log)
	}
	const hits = 2000
	var work sync.WaitGroup
	for cpu := range 2 {
		work.Go(func() {
			h := Hit{Trap: &abi.Trap{CPU: cpu, Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Comm: new([abi.TaskCommLen]byte)}
			for range hits {
				s.RunArray([]Attached{{Prog: p}}, &h)
			}
		})
	}
	key := c.put(make([]byte, 4))
	value := c.put(make([]byte, 8))
	for range 200 {
		if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: key, 16: value}); err != nil {
			t.Fatal(err)
		}
		if q, _, err := c.load(s, ProgKprobe, "GPL", code(movK(0, 0), exit)); err == nil {
			s.Release(q)
		}
		c.memory = c.memory[:value+8-base]
	}
	work.Wait()
	if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: key, 16: value}); err != nil || binary.LittleEndian.Uint64(c.memory[value-base:]) != 2*hits {
		t.Errorf("%v: %d hits are counted, not %d", err, binary.LittleEndian.Uint64(c.memory[value-base:]), 2*hits)
	}
}

// TestKernelTypes asks for the kernel's types as bpftool does, and follows pointers in structures.
func TestKernelTypes(t *testing.T) {
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	comm := &btf.Array{Type: &btf.Int{Name: "char", Size: 1}, Index: number, Nelems: 16}
	task := &btf.Struct{Name: "task_struct", Size: 40}
	task.Members = []btf.Member{
		{Name: "pid", Type: number},
		{Name: "parent", Type: &btf.Pointer{Target: task}, Offset: 64},
		{Name: "comm", Type: comm, Offset: 128},
		{Name: "flag", Type: number, Offset: 256, BitfieldSize: 1},
	}
	raw := marshal(t, task)
	s := New(Config{CPUs: 1, Now: func() int64 { return 1 }, Types: raw, Kernel: &guest{}})
	c := &fakeCaller{}
	r, _, err := c.call(s, cmdBTFByID, map[int]any{0: uint32(1)})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	name := c.put(make([]byte, 16))
	ask := binary.LittleEndian.AppendUint64(make([]byte, 16), name)
	for _, room := range []struct {
		n    uint32
		want error
		text string
	}{{16, nil, "vmlinux"}, {8, nil, "vmlinux"}, {4, syscall.ENOSPC, "vml"}} {
		info := c.put(append(binary.LittleEndian.AppendUint32(slices.Clone(ask), room.n), 0, 0, 0, 0))
		_, _, err := c.call(s, cmdObjInfo, map[int]any{0: uint32(3), 4: uint32(32), 8: info})
		if !errors.Is(err, room.want) {
			t.Errorf("a name with room for %d: %v, want %v", room.n, err, room.want)
		}
		text, _, _ := bytes.Cut(c.memory[name-base:], []byte{0})
		if got := c.memory[info-base:]; string(text) != room.text || binary.LittleEndian.Uint32(got[8:]) != uint32(len(raw)) || binary.LittleEndian.Uint32(got[24:]) != 7 || got[28] != 1 {
			t.Errorf("room for %d: name %q, info %x", room.n, text, got[:32])
		}
	}
	sizes := map[int]uint8{1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
	for _, test := range []struct {
		size, off int
		then      []insn
		want      string
	}{
		{4, 0, nil, ""},
		{8, 8, []insn{ldx(0x00, 0, 0, 0)}, ""}, // parent->pid
		{1, 31, nil, ""},
		{4, 32, nil, ""},
		{8, 8, []insn{ldx(0x18, 0, 0, 4)}, "doesn't have field at offset 4"},
		{8, 0, nil, "access beyond the end of member pid (mend:4) in struct task_struct with off 0 size 8"},
		{4, 8, nil, "cannot access ptr member parent with moff 8 in struct task_struct with off 8 size 4"},
		{8, 40, nil, "access beyond struct task_struct at off 40 size 8"},
		{8, -8, nil, "R0 is ptr_task_struct invalid negative access: off=-8"},
		{4, 0, []insn{callHelper(158), st(0x00, 0, 0, 1)}, "only read is supported"},
	} {
		prog := append([]insn{callHelper(158), ldx(sizes[test.size], 0, 0, int16(test.off))}, test.then...)
		prog = append(prog, movK(0, 0), insn{code: classJMP | jmpEXIT})
		_, log, err := c.load(s, ProgKprobe, "GPL", code(prog...))
		if (err == nil) != (test.want == "") || !strings.Contains(log, test.want) {
			t.Errorf("%d bytes at %d: %v, %q, want %q", test.size, test.off, err, log, test.want)
		}
	}
}

// TestEndless: a program that the verifier would never let through ends nevertheless, by a loop, by calls in a loop, and
// where there is no instruction.
func TestEndless(t *testing.T) {
	s := newSystem()
	hit := Hit{Trap: &abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Comm: new([abi.TaskCommLen]byte)}
	jump := func(off int16) insn { return insn{code: classJMP | jmpJA, off: off} }
	for name, tt := range map[string]struct {
		insns  []insn
		starts []int
		why    string
	}{
		"a loop":          {[]insn{movK(0, 0), jump(-2), exit}, []int{0}, "too many instructions"},
		"calls in a loop": {[]insn{{code: classJMP | jmpCALL, src: pseudoCall, imm: 2}, jump(-2), exit, movK(0, 0), movK(0, 0), exit}, []int{0, 3}, "too many instructions"},
		"no end":          {[]insn{movK(0, 0)}, []int{0}, "jump out of range"},
		"a far jump":      {[]insn{jump(100), exit}, []int{0}, "jump out of range"},
		"no instruction":  {[]insn{{code: classJMP | jmpCALL, imm: 1 << 20}, exit}, []int{0}, "jump out of range"},
		"calls of itself": {[]insn{{code: classJMP | jmpCALL, src: pseudoCall, imm: -1}, exit}, []int{0}, "the call stack is too deep"},
	} {
		p := &Prog{sys: s, insns: tt.insns}
		p.translate(tt.starts)
		s.mem.Lock()
		s.run.begin(p, 0, &hit)
		s.run.steps(0)
		why := s.run.fault
		s.mem.Unlock()
		if why != tt.why {
			t.Errorf("%s: %q, want %q", name, why, tt.why)
		}
	}
}

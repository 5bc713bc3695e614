package bpf

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Types of testTypes, by their numbers.
const (
	typeInt = iota + 1
	typeLong
	typeProto
	typeMain
	typeCallback
	typeLock
	typeTimer
	typeLocked
	typeTimed
	typeTask
	typeTag
	typePointer
	typeKept
)

// testTypes are types in BTF: numbers, and the functions of a program.
func testTypes() []byte {
	const names = "\x00int\x00long\x00main\x00callback\x00bpf_spin_lock\x00bpf_timer\x00value\x00task_struct\x00kptr\x00"
	types := []uint32{
		1, btfInt << 24, 4, 1<<24 | 32,
		5, btfInt << 24, 8, 1<<24 | 64,
		0, btfFuncProto << 24, typeInt,
		10, btfFunc<<24 | 1, typeProto,
		15, btfFunc << 24, typeProto,
		24, btfStruct<<24 | 1, 4, 5, typeInt, 0,
		38, btfStruct<<24 | 2, 16, 5, typeLong, 0, 1, typeLong, 64,
		48, btfStruct<<24 | 2, 16, 5, typeLock, 0, 1, typeLong, 64,
		48, btfStruct<<24 | 2, 24, 5, typeTimer, 0, 1, typeLong, 128,
		54, btfStruct<<24 | 1, 8, 5, typeLong, 0,
		66, btfTypeTag << 24, typeTask,
		0, btfPtr << 24, typeTag,
		48, btfStruct<<24 | 2, 16, 5, typePointer, 0, 1, typeLong, 64,
	}
	var b []byte
	for _, w := range append([]uint32{0x0001eb9f, btfHeader, 0, uint32(4 * len(types)), uint32(4 * len(types)), uint32(len(names))}, types...) {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return append(b, names...)
}

// loadTypes loads testTypes, and returns their descriptor.
func (c *fakeCaller) loadTypes(t testing.TB, s *System) uint32 {
	t.Helper()
	b := testTypes()
	r, _, err := c.call(s, cmdBTFLoad, map[int]any{0: c.put(b), 16: uint32(len(b))})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	return uint32(len(c.objects) + 2)
}

// newTyped makes a map whose keys are of type int, and whose values of type long if m has no other.
func (c *fakeCaller) newTyped(t testing.TB, s *System, m mapSpec) uint32 {
	t.Helper()
	if m.btfValue == 0 {
		m.btfValue = typeLong
	}
	r, _, err := c.call(s, cmdMapCreate, map[int]any{
		0: uint32(m.kind), 4: uint32(m.key), 8: uint32(m.value), 12: uint32(m.entries), 16: m.flags,
		48: c.loadTypes(t, s), 52: uint32(typeInt), 56: m.btfValue,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	return uint32(len(c.objects) + 2)
}

// TestBloomFilter: what was pushed is found, and little else.
func TestBloomFilter(t *testing.T) {
	f := newBloom(1000, 0)
	value := func(n int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
	for n := range 1000 {
		f.add(value(n))
	}
	wrong := 0
	for n := range 11000 {
		switch has := f.has(value(n)); {
		case n < 1000 && !has:
			t.Errorf("%d is not found", n)
		case n >= 1000 && has:
			wrong++
		}
	}
	if wrong > 1000 {
		t.Errorf("%d of 10000 others are found", wrong)
	}
	for _, tt := range []struct {
		entries   int
		functions uint64
		want      int64
	}{{1, 1, 64}, {1000, 0, 8192}, {1 << 31, 15, 1 << 32}} {
		if got := bloomBits(tt.entries, tt.functions); got != tt.want {
			t.Errorf("%d values, %d functions: %d bits, want %d", tt.entries, tt.functions, got, tt.want)
		}
	}
}

// TestTaskStorage: programs and user space see the same values, which end with the task.
func TestTaskStorage(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	binary.LittleEndian.PutUint32(s.conf.Kernel.(*guest).b[abi.TaskPID:], 11)
	fd := c.newTyped(t, s, mapSpec{kind: mapTaskStorage, key: 4, value: 8, flags: flagNoPrealloc})
	p, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat([]insn{callHelper(158), movX(2, 0), movK(3, 0), movK(4, storageCreate)}, loadMap(1, fd), []insn{
		callHelper(156), jmpK(jmpJEQ, 0, 0, 3), ldx(sizeDW, 1, 0, 0), aluK(aluADD, 1, 1), stx(sizeDW, 0, 1, 0), movK(0, 0), exit,
	})...))
	if err != nil {
		t.Fatal(err, log)
	}
	h := NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Task{Addr: guestAt})
	for range 3 {
		s.RunArray([]Attached{{Prog: p}}, h)
	}
	value := c.put(make([]byte, 8))
	lookup := func(pidfd uint32) error {
		_, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: c.put(binary.LittleEndian.AppendUint32(nil, pidfd)), 16: value})
		return err
	}
	if err := lookup(100); err != nil || c.memory[value-base] != 3 {
		t.Errorf("after three runs: %d, %v", c.memory[value-base], err)
	}
	for pidfd, want := range map[uint32]error{101: syscall.ENOENT, 102: syscall.EBADF} {
		if err := lookup(pidfd); !errors.Is(err, want) {
			t.Errorf("descriptor %d: %v, want %v", pidfd, err, want)
		}
	}
	s.TaskExited(12)
	if err := lookup(100); err != nil {
		t.Errorf("another task has ended: %v", err)
	}
	s.TaskExited(11)
	if err := lookup(100); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("the task has ended: %v", err)
	}
}

// drainer loads a program that reads the records of a ring buffer of user space.
func (c *fakeCaller) drainer(t testing.TB, s *System, ring uint32) *Prog {
	t.Helper()
	prog := slices.Concat(loadMap(1, ring), []insn{
		{code: classLD | modeIMM | sizeDW, dst: 2, src: pseudoFunc, imm: 5},
		{},
		movK(3, 0), movK(4, 0), callHelper(helperRingDrain), exit,
		movX(6, 1), movX(3, 1), movX(1, 10), aluK(aluADD, 1, -8), movK(2, 8), movK(4, 0), movK(5, 0), callHelper(201),
		movX(1, 6), movX(3, 10), aluK(aluADD, 3, -8), movK(2, 0), movK(4, 8), movK(5, 0), callHelper(202),
		movX(1, 6), movK(2, 0), movK(3, 16), callHelper(203), jmpK(jmpJEQ, 0, 0, 1), ldx(sizeDW, 1, 0, 8),
		movK(0, 0), exit,
	})
	funcs := c.put(binary.LittleEndian.AppendUint32(nil, 0))
	for _, w := range []uint32{typeMain, 8, typeCallback} {
		c.put(binary.LittleEndian.AppendUint32(nil, w))
	}
	r, _, err := c.call(s, cmdProgLoad, map[int]any{
		0: uint32(ProgKprobe), 4: uint32(len(prog)), 8: c.put(code(prog...)), 16: c.put([]byte("GPL\x00" + string(make([]byte, 128)))),
		72: c.loadTypes(t, s), 76: uint32(funcInfoSize), 80: funcs, 88: uint32(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Object.(*Prog)
}

// TestUserRingbuf: what user space may map, and records up to a busy one and around the end.
func TestUserRingbuf(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	fd := c.newMap(t, s, mapUserRingbuf, 0, 0, 4096, 0)
	m := c.objects[fd-3].(*Map)
	for _, tt := range []struct {
		offset, size uint64
		writable     bool
		want         error
	}{
		{0, pageSize, true, syscall.EPERM},
		{0, pageSize, false, nil},
		{pageSize, 3 * pageSize, true, nil},
		{pageSize, 4 * pageSize, true, syscall.EINVAL},
		{pageSize, 1<<64 - 1, false, syscall.EINVAL},
	} {
		if err := m.MayMap(tt.size, tt.offset, tt.writable); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	p := c.drainer(t, s, fd)
	put := func(length, bits uint32) {
		produced := m.ring.word(ringProducer)
		binary.LittleEndian.PutUint32(m.ring.b[ringData+produced.Load()%4096:], length|bits)
		produced.Add(ringTotal(length))
	}
	for n := range 300 {
		put(40, 0)
		if n%60 == 59 {
			if got := s.runOnce(p, nil); got != 60 {
				t.Fatalf("%d records, want 60", got)
			}
		}
	}
	put(8, 0)
	put(8, ringDiscard)
	put(8, ringBusy)
	put(8, 0)
	if got := s.runOnce(p, nil); got != 1 || p.warned.Load() {
		t.Errorf("%d records before one that is busy, want 1", got)
	}
}

// FuzzUserRing: whatever user space writes into its ring buffer, a program that reads it is not ended.
func FuzzUserRing(f *testing.F) {
	f.Add(uint64(0), uint64(16), []byte{8, 0, 0, 0})
	f.Add(uint64(4088), uint64(4088+16), []byte{8, 0, 0, 0, 9})
	f.Add(uint64(1<<64-8), uint64(8), []byte{0xff, 0xff, 0xff, 0x3f})
	f.Fuzz(func(t *testing.T, consumed, produced uint64, records []byte) {
		s, c := newSystem(), &fakeCaller{}
		fd := c.newMap(t, s, mapUserRingbuf, 0, 0, 4096, 0)
		m := c.objects[fd-3].(*Map)
		m.ring.word(ringConsumer).Store(consumed)
		m.ring.word(ringProducer).Store(produced)
		copy(m.ring.b[ringData:], records)
		p := c.drainer(t, s, fd)
		s.runOnce(p, nil)
		if p.warned.Load() {
			t.Error("the program was ended")
		}
	})
}

// locked and timed are maps whose values have a lock, and a timer.
var (
	locked = mapSpec{kind: mapArray, key: 4, value: 16, entries: 1, btfValue: typeLocked}
	timed  = mapSpec{kind: mapHash, key: 4, value: 24, entries: 4, btfValue: typeTimed}
)

// TestSpecialFields: user space does not see locks and timers, and does not write them.
func TestSpecialFields(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	for fd, size := range map[uint32]int{c.newTyped(t, s, locked): 4, c.newTyped(t, s, timed): 16} {
		m := c.objects[fd-3].(*Map)
		value := slices.Repeat([]byte{0xff}, m.value)
		at, key := c.put(value), c.put(make([]byte, 4))
		if _, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: key, 16: at}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: key, 16: at}); err != nil {
			t.Fatal(err)
		}
		for n, b := range c.memory[at-base : at-base+uint64(m.value)] {
			if want := byte(0xff); b != want && n >= size || b != 0 && n < size {
				t.Errorf("byte %d of a value with %d of the kernel's is %#x", n, size, b)
			}
		}
	}
	for fd, want := range map[uint32]error{c.newMap(t, s, mapArray, 4, 16, 1, 0): syscall.EINVAL, c.newTyped(t, s, locked): nil} {
		_, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: c.put(make([]byte, 4)), 16: c.put(make([]byte, 24)), 24: uint64(updateLock)})
		if !errors.Is(err, want) {
			t.Errorf("an update with a lock of map %d: %v, want %v", fd, err, want)
		}
	}
}

// TestTimers: a timer runs once, not after it was cancelled, and keeps its program as long as somebody has its map.
func TestTimers(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	var waits []func(h *Hit)
	stopped := 0
	s.conf.After = func(_ int64, _ int, do func(h *Hit)) func() {
		waits = append(waits, do)
		return func() { stopped++ }
	}
	fd := c.newTyped(t, s, timed)
	counter := c.newMap(t, s, mapArray, 4, 8, 1, 0)
	key := c.put(make([]byte, 4))
	if _, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: key, 16: c.put(make([]byte, 24))}); err != nil {
		t.Fatal(err)
	}
	count := loadMap(1, counter)
	count[0].src = pseudoMapValue
	body := slices.Concat([]insn{st(sizeW, 10, -4, 0), movX(2, 10), aluK(aluADD, 2, -4)}, loadMap(1, fd), []insn{callHelper(1), jmpK(jmpJNE, 0, 0, 1), exit, movX(6, 0), movX(1, 6)},
		loadMap(2, fd), []insn{
			movK(3, 1), callHelper(169), movX(1, 6),
			{code: classLD | modeIMM | sizeDW, dst: 2, src: pseudoFunc, imm: 7},
			{},
			callHelper(helperSetCallback),
			movX(1, 6), movK(2, 1000), movK(3, 0), callHelper(171), exit,
		})
	begin := len(body)
	prog := slices.Concat(body, count, []insn{movK(2, 1), {code: classSTX | modeAtomic | sizeDW, dst: 1, src: 2, imm: aluADD}, movK(0, 0), exit})
	funcs := c.put(binary.LittleEndian.AppendUint32(nil, 0))
	for _, w := range []uint32{typeMain, uint32(begin), typeCallback} {
		c.put(binary.LittleEndian.AppendUint32(nil, w))
	}
	r, _, err := c.call(s, cmdProgLoad, map[int]any{
		0: uint32(ProgSchedCLS), 4: uint32(len(prog)), 8: c.put(code(prog...)), 16: c.put([]byte("GPL\x00" + string(make([]byte, 128)))),
		72: c.loadTypes(t, s), 76: uint32(funcInfoSize), 80: funcs, 88: uint32(2),
	})
	if err != nil {
		t.Fatal(err)
	}
	p := r.Object.(*Prog)
	fire := func(n int) {
		waits[n](&Hit{Trap: &abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Comm: new([abi.TaskCommLen]byte)})
	}
	counted := func() uint64 { return binary.LittleEndian.Uint64(c.objects[counter-3].(*Map).slot(0)) }
	if got := s.runOnce(p, nil); got != 0 || len(waits) != 1 {
		t.Fatalf("start: %d, %d wait", int64(got), len(waits))
	}
	fire(0)
	fire(0)
	if counted() != 1 || p.warned.Load() {
		t.Errorf("a timer that was started once has run %d times", counted())
	}
	update := func() {
		if _, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: key, 16: c.put(make([]byte, 24))}); err != nil {
			t.Fatal(err)
		}
	}
	update() // the timer ends
	s.runOnce(p, nil)
	update()
	fire(1)
	if counted() != 1 || stopped != 1 {
		t.Errorf("a timer of a value that was written ran: %d, %d stopped", counted(), stopped)
	}
	s.runOnce(p, nil)
	s.Release(p)
	fire(2)
	if counted() != 2 {
		t.Errorf("a timer whose program has no descriptor has run %d times", counted())
	}
	s.Release(c.objects[fd-3])
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.objects.Lock()
		left := len(s.progs.all)
		s.objects.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the program stays when nobody has the map of its timer")
		}
	}
}

// TestSyscallProgram: a program reads and writes its context, and updates a map by bpf(2) with what is on its stack.
func TestSyscallProgram(t *testing.T) {
	s, c := newSystem(), &fakeCaller{}
	fd := c.newMap(t, s, mapHash, 4, 8, 4, 0)
	p, log, err := c.load(s, ProgSyscall, "GPL", code(
		ldx(sizeDW, 7, 1, 0), stx(sizeDW, 1, 7, 8),
		st(sizeW, 10, -4, 1), st(sizeDW, 10, -16, 99), st(sizeDW, 10, -24, 0),
		movX(1, 10), aluK(aluADD, 1, -16), stx(sizeDW, 10, 1, -32), movX(1, 10), aluK(aluADD, 1, -4), stx(sizeDW, 10, 1, -40), stx(sizeDW, 10, 7, -48),
		movX(2, 10), aluK(aluADD, 2, -48), movK(3, 32), movK(1, cmdMapUpdate), callHelper(helperSysBPF), exit,
	))
	if err != nil {
		t.Fatal(err, log)
	}
	c.objects = append(c.objects, p)
	program := uint32(len(c.objects) + 2)
	for _, tt := range []struct {
		size uint32
		fd   uint32
		ret  uint32
		want error
	}{{16, fd, 0, nil}, {16, program, uint32(errno(syscall.EINVAL)), nil}, {8, fd, 0, syscall.EINVAL}} {
		ctx := c.put(binary.LittleEndian.AppendUint64(nil, uint64(tt.fd)))
		c.put(make([]byte, 8))
		_, attr, err := c.call(s, cmdProgTestRun, map[int]any{0: program, 40: tt.size, 48: ctx})
		if !errors.Is(err, tt.want) || err == nil && (binary.LittleEndian.Uint32(attr[4:]) != tt.ret || c.memory[ctx-base+8] != byte(tt.fd)) {
			t.Errorf("%+v: %v, returns %d, context %d", tt, err, int32(binary.LittleEndian.Uint32(attr[4:])), c.memory[ctx-base+8])
		}
	}
	value := c.put(make([]byte, 8))
	if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: c.put([]byte{1, 0, 0, 0}), 16: value}); err != nil || c.memory[value-base] != 99 {
		t.Errorf("the map has %d, %v", c.memory[value-base], err)
	}
}

// marshal returns types as the kernel has them in its BTF.
func marshal(t testing.TB, types ...btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// newSystemWithTypes returns a System whose kernel has a type task_struct.
func newSystemWithTypes(t testing.TB) *System {
	t.Helper()
	number := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	task := &btf.Struct{Name: "task_struct", Size: 16}
	task.Members = []btf.Member{{Name: "state", Type: number}, {Name: "parent", Type: &btf.Pointer{Target: task}, Offset: 64}}
	c := newSystem().conf
	c.Types = marshal(t, task)
	return New(c)
}

// kept is a map whose values have a pointer to a task.
var kept = mapSpec{kind: mapArray, key: 4, value: 16, entries: 1, btfValue: typeKept}

// TestKptr: a program keeps a task in a map, which user space does not see and forgets by writing the value.
func TestKptr(t *testing.T) {
	s, c := newSystemWithTypes(t), &fakeCaller{}
	binary.LittleEndian.PutUint64(s.conf.Kernel.(*guest).b[0x100:], 42)
	fd := c.newTyped(t, s, kept)
	value := loadMap(6, fd)
	value[0].src = pseudoMapValue
	p, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat(value, []insn{
		ldx(sizeDW, 7, 6, 0), jmpK(jmpJEQ, 7, 0, 2), ldx(sizeDW, 0, 7, 0), exit,
		callHelper(158), stx(sizeDW, 6, 0, 0), movK(0, 1), exit,
	})...))
	if err != nil {
		t.Fatal(err, log)
	}
	h := NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, Task{Addr: guestAt + 0x100})
	run := func() uint64 {
		s.mem.Lock()
		defer s.mem.Unlock()
		return s.runLocked(Attached{Prog: p}, h)
	}
	if first, second := run(), run(); first != 1 || second != 42 {
		t.Errorf("first %d, then %d", first, second)
	}
	key, at := c.put(make([]byte, 4)), c.put(slices.Repeat([]byte{0xff}, 16))
	if _, _, err := c.call(s, cmdMapLookup, map[int]any{0: fd, 8: key, 16: at}); err != nil || binary.LittleEndian.Uint64(c.memory[at-base:]) != 0 {
		t.Errorf("user space sees %#x, %v", c.memory[at-base:at-base+8], err)
	}
	if _, _, err := c.call(s, cmdMapUpdate, map[int]any{0: fd, 8: key, 16: at}); err != nil {
		t.Fatal(err)
	}
	if got := run(); got != 1 {
		t.Errorf("after an update: %d, want 1", got)
	}
	for _, tt := range []struct {
		then []insn
		want string
	}{
		{[]insn{movK(1, 5), stx(sizeDW, 6, 1, 0)}, "invalid kptr access, R1 type=scalar expected=ptr_task_struct or untrusted_ptr_task_struct"},
		{[]insn{ldx(sizeW, 1, 6, 4)}, "kptr access misaligned expected=0 off=4"},
		{[]insn{ldx(sizeDW, 1, 6, 0), ldx(sizeDW, 1, 1, 0)}, "R1 invalid mem access 'untrusted_ptr_or_null_'"},
	} {
		if _, log, err := c.load(s, ProgKprobe, "GPL", code(slices.Concat(value, tt.then, []insn{movK(0, 0), exit})...)); err == nil || log != tt.want {
			t.Errorf("%v, %q, want %q", err, log, tt.want)
		}
	}
}

// TestSectionSize: the size of a variable in a section is checked only if the variable stands before the section.
func TestSectionSize(t *testing.T) {
	const names = "\x00int\x00.data\x00x\x00"
	integer, variable := []uint32{1, btfInt << 24, 4, 1<<24 | 32}, []uint32{11, btfVar << 24, 1, 1}
	section := func(of uint32) []uint32 { return []uint32{5, btfDatasec<<24 | 1, 4, of, 0, 2} }
	for _, tt := range []struct {
		name  string
		types []uint32
		want  error
	}{
		{"before it", slices.Concat(integer, variable, section(2)), syscall.EINVAL},
		{"after it", slices.Concat(integer, section(3), variable), nil},
	} {
		var b []byte
		for _, w := range append([]uint32{0x0001eb9f, btfHeader, 0, uint32(4 * len(tt.types)), uint32(4 * len(tt.types)), uint32(len(names))}, tt.types...) {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		b = append(b, names...)
		s, c := newSystem(), &fakeCaller{}
		if _, _, err := c.call(s, cmdBTFLoad, map[int]any{0: c.put(b), 16: uint32(len(b))}); !errors.Is(err, tt.want) {
			t.Errorf("a variable %s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

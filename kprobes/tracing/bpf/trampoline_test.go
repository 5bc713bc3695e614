package bpf

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// fakeProbes has one function, at functionAt, and one tracepoint, and keeps who listens.
type fakeProbes struct {
	listeners map[*listener]bool
	raw       func(*Hit)
	modify    func(*Hit, *Args) uint64
}

type listener struct {
	sites []uint64
	exit  bool
	hit   func(*Hit, *Args)
}

const functionAt = 0xffffffff81000040

func (p *fakeProbes) Function(name string) uint64 {
	if name == "traced" || name == "wide" {
		return functionAt
	}
	return 0
}

func (p *fakeProbes) Site(addr uint64) (uint64, bool) { return addr, addr == functionAt }

func (p *fakeProbes) Listen(sites []uint64, at Moment, hit func(*Hit, *Args)) (func(), error) {
	l := &listener{sites, at != AtEntry, hit}
	p.listeners[l] = true
	return func() { delete(p.listeners, l) }, nil
}

func (p *fakeProbes) Modify(_ uint64, hit func(*Hit, *Args) uint64) (func(), error) {
	p.modify = hit
	return func() { p.modify = nil }, nil
}

func (p *fakeProbes) ListenTracepoint(name string, hit func(*Hit)) (func(), error) {
	if name != "point" {
		return nil, syscall.ENOENT
	}
	p.raw = hit
	return func() { p.raw = nil }, nil
}

// call is a call of the function with the arguments 1 to 6, which returns 77.
func (p *fakeProbes) call() {
	for l := range p.listeners {
		h := &Hit{Trap: &abi.Trap{Regs: &abi.Regs{AX: 77}, Mem: &guest{}}, Comm: new([abi.TaskCommLen]byte), Func: functionAt, Site: functionAt}
		l.hit(h, &Args{1, 2, 3, 4, 5, 6})
	}
}

// newTypes returns BTF with the functions traced(int, struct task_struct *) and wide, which has seven arguments, and
// with the tracepoint point(int); ids are its numbers by name.
func newTypes(t *testing.T) (raw []byte, ids map[string]uint32) {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	task := &btf.Struct{Name: "task_struct", Size: 4, Members: []btf.Member{{Name: "pid", Type: number}}}
	function := func(name string, params ...btf.FuncParam) btf.Type {
		return &btf.Func{Name: name, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: number, Params: params}}
	}
	arg := btf.FuncParam{Name: "n", Type: number}
	point := &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{{Type: &btf.Pointer{Target: &btf.Void{}}}, {Type: number}}}
	b, err := btf.NewBuilder(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids = map[string]uint32{}
	for _, of := range []btf.Type{
		function("traced", arg, btf.FuncParam{Name: "task", Type: &btf.Pointer{Target: task}}),
		function("wide", arg, arg, arg, arg, arg, arg, arg), function("absent"),
		&btf.Typedef{Name: "btf_trace_point", Type: &btf.Pointer{Target: point}}, task,
	} {
		id, err := b.Add(of)
		if err != nil {
			t.Fatal(err)
		}
		ids[of.TypeName()] = uint32(id)
	}
	if raw, err = b.Marshal(nil, nil); err != nil {
		t.Fatal(err)
	}
	return raw, ids
}

// tracingTest is a system with such types, and a map with one value.
type tracingTest struct {
	*fakeCaller
	probes *fakeProbes
	system *System
	ids    map[string]uint32
	m      uint32
	other  uint32 // the descriptor of the program that programs are for, or 0
}

func newTracingTest(t *testing.T) *tracingTest {
	t.Helper()
	raw, ids := newTypes(t)
	probes := &fakeProbes{listeners: map[*listener]bool{}}
	s := New(Config{CPUs: 1, Now: func() int64 { return 1 }, Types: raw, Kernel: &guest{}, Probes: probes, KprobeMulti: true})
	c := &tracingTest{fakeCaller: &fakeCaller{}, probes: probes, system: s, ids: ids}
	c.m = c.newMap(t, s, mapArray, 4, 8, 1, 0)
	return c
}

// program loads a program that adds what body leaves in r0 to the map's value. r6 is its context.
func (c *tracingTest) program(kind ProgType, attach uint32, of string, body ...insn) (fd uint32, log string, err error) {
	value := loadMap(7, c.m)
	value[0].src = pseudoMapValue
	all := append(append([]insn{movX(6, 1)}, value...), body...)
	all = append(all, ldx(0x18, 1, 7, 0), aluX(aluADD, 1, 0), stx(0x18, 7, 1, 0), movK(0, 0), insn{code: classJMP | jmpEXIT})
	text, size := c.put(make([]byte, 4096)), uint32(4096)
	raw := code(all...)
	r, _, err := c.call(c.system, cmdProgLoad, map[int]any{
		0: uint32(kind), 4: uint32(len(all)), 8: c.put(raw), 16: c.put([]byte("GPL\x00")), 24: uint32(1), 28: size, 32: text, 68: attach, 108: c.ids[of], 112: c.other,
	})
	log, _, _ = strings.Cut(string(c.memory[text-base:][:size]), "\x00")
	if err != nil {
		return 0, log, err
	}
	c.objects = append(c.objects, r.Object)
	return uint32(len(c.objects) + 2), log, nil
}

// sum returns the map's value and sets it to 0.
func (c *tracingTest) sum(t *testing.T) uint64 {
	t.Helper()
	m := c.objects[c.m-3].(*Map)
	v := m.slot(0)
	defer clear(v)
	return uint64(v[0]) | uint64(v[1])<<8
}

func (c *tracingTest) open(name string, fd uint32) (*Link, error) {
	at := uint64(0)
	if name != "" {
		at = c.put(append([]byte(name), make([]byte, pageSize)...))
	}
	r, _, err := c.call(c.system, cmdRawTracepointOpen, map[int]any{0: at, 8: fd})
	l, _ := r.Object.(*Link)
	return l, err
}

// TestFollowers attaches programs to the main function of another one.
func TestFollowers(t *testing.T) {
	c := newTracingTest(t)
	fd := c.followed(t, ProgSocketFilter)
	c.ids["f"], c.other = 3, fd
	of := c.objects[fd-3].(*Prog)
	run := func() {
		c.system.runOne(Attached{Prog: of}, NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: &guest{}, Now: c.system.conf.Now}, c.Task()))
	}
	for name, test := range map[string]struct {
		attach uint32
		body   insn
		want   uint64
	}{
		"before": {traceFentry, movK(0, 3), 3},
		"after":  {traceFexit, ldx(0x18, 0, 6, 8), 5}, // what it has returned
	} {
		fd, log, err := c.program(ProgTracing, test.attach, "f", test.body)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, log)
		}
		l, err := c.open("", fd)
		if err != nil {
			t.Fatal(err)
		}
		run()
		if got := c.sum(t); got != test.want {
			t.Errorf("%s: it has seen %d, want %d", name, got, test.want)
		}
		c.system.Release(l)
		run()
		if got := c.sum(t); got != 0 {
			t.Errorf("%s: it ran after it was detached", name)
		}
	}
	for id, want := range map[uint32]string{1: "is not a function", 9: "is invalid", 4: "Subprog g doesn't exist"} {
		c.ids["f"] = id
		if _, log, err := c.program(ProgTracing, traceFentry, "f", movK(0, 0)); !errors.Is(err, syscall.EINVAL) || !strings.Contains(log, want) {
			t.Errorf("type %d: %v, %q, want %q", id, err, log, want)
		}
	}
	if _, log, _ := c.program(ProgTracing, modifyReturn, "f", movK(0, 0)); !strings.Contains(log, "Only FENTRY/FEXIT") {
		t.Errorf("modify_return: %q", log)
	}
}

// followed loads a program that returns 5, with types of which number 3 is its function f, and 4 another one, g.
func (c *tracingTest) followed(t *testing.T, kind ProgType) (fd uint32) {
	t.Helper()
	words := func(w ...uint32) (b []byte) {
		for _, v := range w {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	const names = "\x00int\x00f\x00g\x00"
	types := words(1, btfInt<<24, 4, 0x01000020, 0, btfFuncProto<<24|1, 1, 5, 1, 5, btfFunc<<24, 2, 7, btfFunc<<24, 2)
	b := slices.Concat(words(0x0001eb9f, btfHeader, 0, uint32(len(types)), uint32(len(types)), uint32(len(names))), types, []byte(names))
	r, _, err := c.call(c.system, cmdBTFLoad, map[int]any{0: c.put(b), 16: uint32(len(b))})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	prog := code(movK(0, 5), exit)
	r, _, err = c.call(c.system, cmdProgLoad, map[int]any{
		0: uint32(kind), 4: uint32(2), 8: c.put(prog), 16: c.put([]byte("GPL\x00")),
		72: uint32(len(c.objects) + 2), 76: uint32(funcInfoSize), 80: c.put(words(0, 3)), 88: uint32(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.objects = append(c.objects, r.Object)
	return uint32(len(c.objects) + 2)
}

// TestTracing attaches programs to a function and to a tracepoint.
func TestTracing(t *testing.T) {
	c := newTracingTest(t)
	for name, test := range map[string]struct {
		attach uint32
		body   []insn
		want   uint64
	}{
		"first argument": {traceFentry, []insn{ldx(0x18, 0, 6, 0)}, 1},
		"result":         {traceFexit, []insn{ldx(0x18, 0, 6, 16)}, 77},
		"second at exit": {traceFexit, []insn{movX(1, 6), movK(2, 0), movX(3, 10), aluK(aluADD, 3, -8), callHelper(helperFuncArg), ldx(0x18, 0, 10, -8)}, 1},
		"no argument":    {traceFentry, []insn{movX(1, 6), movK(2, 2), movX(3, 10), aluK(aluADD, 3, -8), callHelper(helperFuncArg), aluK(aluMUL, 0, -1)}, uint64(syscall.EINVAL)},
		"no result yet":  {traceFentry, []insn{movX(1, 6), movX(2, 10), aluK(aluADD, 2, -8), callHelper(helperFuncRet), aluK(aluMUL, 0, -1)}, uint64(syscall.EOPNOTSUPP)},
		"their number":   {traceFentry, []insn{movX(1, 6), callHelper(helperFuncArgCnt)}, 2},
		"its address":    {traceFentry, []insn{movX(1, 6), callHelper(helperGetFuncIP), aluK(aluAND, 0, 0xff)}, 0x40},
		"not readable":   {traceFentry, []insn{ldx(0x18, 1, 6, 8), ldx(0x00, 0, 1, 0)}, 0}, // the second argument is no address
	} {
		t.Run(name, func(t *testing.T) {
			fd, log, err := c.program(ProgTracing, test.attach, "traced", test.body...)
			if err != nil {
				t.Fatalf("%v: %s", err, log)
			}
			l, err := c.open("", fd)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.open("", fd); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("attached again: %v, want EBUSY", err)
			}
			c.probes.call()
			if got := c.sum(t); got != test.want {
				t.Errorf("it has seen %d, want %d", got, test.want)
			}
			c.system.Release(l)
			c.probes.call()
			if got := c.sum(t); got != 0 || len(c.probes.listeners) > 0 {
				t.Errorf("it ran after it was detached: %d, %d listeners", got, len(c.probes.listeners))
			}
		})
	}
	fd, _, err := c.program(ProgRawTracepoint, 0, "", ldx(0x18, 0, 6, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.open("nothing", fd); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a tracepoint that there is not: %v, want ENOENT", err)
	}
	l, err := c.open("point", fd)
	if err != nil {
		t.Fatal(err)
	}
	c.probes.raw(&Hit{Trap: &abi.Trap{Regs: &abi.Regs{}, Mem: &guest{}}, Ctx: []byte{9, 0, 0, 0, 0, 0, 0, 0}, Comm: new([abi.TaskCommLen]byte)})
	if got := c.sum(t); got != 9 {
		t.Errorf("the raw tracepoint's argument is %d, want 9", got)
	}
	c.system.Release(l)
	if c.probes.raw != nil {
		t.Error("the raw tracepoint is still listened to")
	}
	if fd, _, err = c.program(ProgRawTracepoint, 0, "", ldx(0x18, 0, 6, 8)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.open("point", fd); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a second argument of one: %v, want EINVAL", err)
	}
}

// TestTracingRefused loads and attaches programs that are refused.
func TestTracingRefused(t *testing.T) {
	c := newTracingTest(t)
	for _, test := range []struct {
		attach uint32
		of     string
		errno  syscall.Errno
		log    string
		body   []insn
	}{
		{traceFentry, "none", syscall.EINVAL, "must provide btf_id", []insn{movK(0, 0)}},
		{traceFentry, "task_struct", syscall.EINVAL, "is not a function", []insn{movK(0, 0)}},
		{traceRawTP, "traced", syscall.EINVAL, "is not a typedef", []insn{movK(0, 0)}},
		{traceFentry, "absent", syscall.ENOENT, "The address of function absent cannot be found", []insn{movK(0, 0)}},
		{modifyReturn, "traced", syscall.EINVAL, "traced() is not modifiable", []insn{movK(0, 0)}},
		{traceFentry, "traced", syscall.EACCES, "func 'traced' doesn't have 3-th argument", []insn{ldx(0x18, 0, 6, 16)}},
		{traceFexit, "traced", syscall.EACCES, "func 'traced' doesn't have 4-th argument", []insn{ldx(0x18, 0, 6, 24)}},
		{traceFentry, "traced", syscall.EACCES, "offset 4 is not multiple of 8", []insn{ldx(0x00, 0, 6, 4)}},
		{traceFentry, "traced", syscall.EACCES, "access beyond struct task_struct at off 8 size 4", []insn{ldx(0x18, 1, 6, 8), ldx(0x00, 0, 1, 8)}},
		{traceRawTP, "btf_trace_point", errNotSupported, "supported only for fentry/fexit/fmod_ret", []insn{movX(1, 6), callHelper(helperGetFuncIP)}},
	} {
		_, log, err := c.program(ProgTracing, test.attach, test.of, test.body...)
		if !errors.Is(err, test.errno) || !strings.Contains(log, test.log) {
			t.Errorf("%s: %v, %q, want %v, %q", test.of, err, log, test.errno, test.log)
		}
	}
	fd, _, err := c.program(ProgTracing, traceFentry, "wide", movK(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.open("", fd); !errors.Is(err, errNotSupported) {
		t.Errorf("a function with seven arguments: %v, want ENOTSUPP", err)
	}
	for n := range maxTrampoline + 1 {
		fd, _, err := c.program(ProgTracing, traceFentry, "traced", movK(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.open("", fd); (err == nil) != (n < maxTrampoline) || err != nil && !errors.Is(err, syscall.E2BIG) {
			t.Fatalf("program %d at a function: %v", n, err)
		}
	}
}

// TestLinkOfNoEvent: a link of a perf event to another file is EBADF, by which libraries learn that there are such links.
func TestLinkOfNoEvent(t *testing.T) {
	c := newTracingTest(t)
	fd, _, err := c.program(ProgKprobe, 0, "", movK(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []uint32{c.m, 1} {
		if _, _, err := c.call(c.system, cmdLinkCreate, map[int]any{0: fd, 4: target, 8: uint32(attachPerfEvent)}); !errors.Is(err, syscall.EBADF) {
			t.Errorf("descriptor %d: %v, want EBADF", target, err)
		}
	}
}

// TestKprobeMulti attaches a program by a function's name and by its address, with cookies.
func TestKprobeMulti(t *testing.T) {
	c := newTracingTest(t)
	fd, log, err := c.program(ProgKprobe, traceKprobeMulti, "", movX(1, 6), callHelper(helperAttachCookie))
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	list := func(all ...uint64) uint64 {
		var b []byte
		for _, v := range all {
			for n := range 8 {
				b = append(b, byte(v>>(8*n)))
			}
		}
		return c.put(b)
	}
	name, other := c.put([]byte("traced\x00")), c.put([]byte("absent\x00"))
	c.put(make([]byte, pageSize)) // strings are read by pages
	for _, test := range []struct {
		what   string
		flags  uint32
		count  uint32
		names  uint64
		addrs  uint64
		cookie uint64
		want   error
	}{
		{"name", 0, 1, list(name), 0, list(5), nil},
		{"address", kprobeMultiReturn, 1, 0, list(functionAt), list(6), nil},
		{"without cookies", 0, 1, list(name), 0, 0, nil},
		{"other flags", 2, 1, list(name), 0, 0, syscall.EINVAL},
		{"none", 0, 0, list(name), 0, 0, syscall.EINVAL},
		{"both", 0, 1, list(name), list(functionAt), 0, syscall.EINVAL},
		{"too many", 0, maxKprobeMulti + 1, list(name), 0, 0, syscall.E2BIG},
		{"no function", 0, 2, list(name, other), 0, 0, syscall.ESRCH},
		{"twice", 0, 2, list(name, name), 0, 0, syscall.ESRCH},
		{"no entry", 0, 1, 0, list(functionAt + 1), 0, syscall.EINVAL},
		{"bad names", 0, 1, 8, 0, 0, syscall.EFAULT},
	} {
		r, _, err := c.call(c.system, cmdLinkCreate, map[int]any{0: fd, 8: uint32(traceKprobeMulti), 16: test.flags, 20: test.count, 24: test.names, 32: test.addrs, 40: test.cookie})
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.what, err, test.want)
		}
		if err != nil {
			continue
		}
		c.probes.call()
		want := uint64(0)
		if test.cookie != 0 {
			want = uint64(c.memory[test.cookie-base])
		}
		if got := c.sum(t); got != want {
			t.Errorf("%s: the cookie is %d, want %d", test.what, got, want)
		}
		for l := range c.probes.listeners {
			if l.exit != (test.flags != 0) || !slices.Equal(l.sites, []uint64{functionAt}) {
				t.Errorf("%s: it listens to %#x, returns %v", test.what, l.sites, l.exit)
			}
		}
		c.system.Release(r.Object)
	}
	c.system.conf.KprobeMulti = false
	if _, _, err := c.call(c.system, cmdLinkCreate, map[int]any{0: fd, 8: uint32(traceKprobeMulti)}); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("without fprobes: %v, want EOPNOTSUPP", err)
	}
}

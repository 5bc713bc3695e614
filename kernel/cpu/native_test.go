package cpu

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/cpu/record"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/native"
	"github.com/kprobefs/kprobefs/kernel/cpu/record/templates"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

// pair is an interpreter and the processor that the test runs on.
type pair struct {
	stage *stage
	r     *native.Runner
	// differing are the quirks that this processor has otherwise than the guest.
	differing []*quirk
}

// newPair skips the test where the processor cannot take part.
func newPair(t testing.TB) *pair {
	t.Helper()
	if runtime.GOARCH != "amd64" || !cpu.X86.HasBMI2 || !cpu.X86.HasADX {
		t.Skip("no x86-64 with BMI2 and ADX")
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip(err)
	}
	// Not t.TempDir: this may be a fuzz worker, which is killed.
	dir, err := os.MkdirTemp("", "native")
	if err != nil {
		t.Fatal(err)
	}
	file, err := native.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := native.Start(file)
	_ = os.RemoveAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &pair{stage: newStage(t), r: r}
	for i := range quirks {
		if q := &quirks[i]; q.onProcessor(t, r) != q.intel {
			p.differing = append(p.differing, q)
		}
	}
	p.stage.mem.Unmap(record.GDTAddr, record.GDTCopies) // user mode has none
	return p
}

// TestFormsNatively does a few cases of each form that the recordings have, with
// other numbers and so other operands, here and on this processor.
func TestFormsNatively(t *testing.T) {
	p := newPair(t)
	n := 16
	if testing.Short() || replayStride > 1 {
		n = 4
	}
	for _, f := range templates.Native() {
		for j := range n {
			p.form(t, f, 1000+j)
		}
	}
}

// TestEachEncodingNatively executes each opcode of each map, and of VEX with each of its
// prefixes and lengths, with prefixes and ModRM bytes of a stride, here and on this processor:
// what an encoding is not defined with is refused by both.
func TestEachEncodingNatively(t *testing.T) {
	prefixes := [][]byte{nil, {0x66}, {0xf2}, {0xf3}, {0x66, 0xf2}, {0x66, 0xf3}, {0x48}, {0xf3, 0x48}, {0xf0}}
	var vex [][]byte
	for m := byte(1); m <= 3; m++ {
		for low := range byte(8) { // L and pp
			vex = append(vex, []byte{0xc4, 0xe0 | m, 0x58 | low}, []byte{0xc4, 0xe0 | m, 0xf8 | low})
		}
	}
	heads := append(pairs(prefixes, [][]byte{nil, {0x0f}, {0x0f, 0x38}}), pairs(prefixes[:7], vex)...)
	p := newPair(t)
	for at, code := range encodings(heads, 23) {
		p.random(t, append(code, 0x24, 0x11, 0x22, 0x33, 0x44), uint64(at))
	}
}

// FuzzForms holds the interpreter against this processor: cases of the recorded
// forms that were not recorded.
func FuzzForms(f *testing.F) {
	all := templates.Native()
	for i := 0; i < len(all); i += 16 {
		f.Add(uint16(i), uint32(i)*7)
	}
	p := newPair(f)
	f.Fuzz(func(t *testing.T, form uint16, number uint32) {
		i := int(form) % len(all)
		for k := range 4 { // a native job is mostly waiting
			p.form(t, all[i], int(number)+k<<24)
		}
	})
}

func (p *pair) form(t *testing.T, f templates.Template, number int) {
	t.Helper()
	c := f.Case(number)
	if int64(c.Before.R[4])>>47 == 0 && p.r.Owns(c.Before.R[4]) {
		return
	}
	res, err := p.r.Run(&native.Job{Code: c.Code, Sequence: record.IsSequence(f.Name), Window: c.Window, Before: c.Before})
	if err != nil {
		t.Fatalf("%s, case %d, % x: %v", f.Name, number, c.Code, err)
	}
	if err := res.Settle(f.Name, &c); err != nil {
		t.Fatalf("%s, case %d, % x: %v", f.Name, number, c.Code, err)
	}
	o, _ := decode.Decode(c.Code, record.CodeAddr)
	e := executed{Inst: &o, bytes: c.Code, sp: c.Before.R[4]}
	if c.Vector != record.NoVector {
		e.exit = Exit{Reason: Trap, Vector: c.Vector}
	}
	if p.concerned(e) {
		return
	}
	if d := p.stage.check(t, f.Name, &c); d != "" {
		t.Errorf("%s, case %d, % x, flags %#x:%s", f.Name, number, c.Code, c.Before.Flags, d)
	}
}

// FuzzNative holds the interpreter against this processor with whatever bytes:
// instruction after instruction, as long as user mode may execute them.
func FuzzNative(f *testing.F) {
	for i, t := range templates.Native() {
		if i%8 == 0 {
			f.Add(t.Case(1).Code, uint64(i))
		}
	}
	p := newPair(f)
	f.Fuzz(p.random)
}

// maxRandom is how many bytes of a random program count.
const maxRandom = 200

// random executes a program in the interpreter, one instruction after the other,
// to see which way it goes, then on the processor, which must go the same way to
// the same state, and once more as blocks.
func (p *pair) random(t *testing.T, code []byte, seed uint64) {
	j := native.Job{Code: code[:min(len(code), maxRandom)], Window: record.WindowMid, Before: randomState(seed)}
	w, ok := p.walk(t, &j)
	if !ok || len(w.steps) == 0 {
		return
	}
	j.Steps = w.steps
	res, err := p.r.Run(&j)
	if err != nil {
		t.Fatalf("% x: %v", j.Code, err)
	}
	if d := w.differs(res); d != "" {
		t.Errorf("% x, seed %d: the interpreter has gone %s:%s", j.Code, seed, w.way(j.Code), d)
	}
	p.stage.begin(t, &j)
	e, left := Exit{}, w.retired
	for left > 0 && e.Reason != Trap { // as blocks
		var n uint64
		e, n = p.stage.cpu.Run(left)
		left -= n
	}
	if w.exit.Reason == Trap && e.Reason != Trap {
		e, _ = p.stage.cpu.Run(1)
	}
	if left > 0 || e.Reason == Trap && e != w.exit && !fetches(e, p.stage.cpu.RIP) {
		t.Errorf("% x, seed %d: in blocks it ends with %+v, %d instructions left, alone with %+v", j.Code, seed, e, left, w.exit)
	}
	if got := p.stage.now(); got != w.end {
		t.Errorf("% x, seed %d: after %d instructions in blocks %+v, alone %+v", j.Code, seed, w.retired, got, w.end)
	}
}

// randomState makes most registers point to the data page.
func randomState(seed uint64) (s record.State) {
	r := record.Rand(seed)
	for i := range s.R {
		switch r.N(8) {
		case 0, 1:
			s.R[i] = r.Value()
		case 2:
			s.R[i] = uint64(r.N(40))
		case 3:
			s.R[i] = record.PageAddr + record.PageSize - uint64(r.N(40))
		default:
			s.R[i] = record.WindowMid - 64 + uint64(r.N(192))
		}
	}
	s.R[4] = record.WindowMid - 32 + uint64(r.N(16))*8
	for i := 0; i < record.WindowSize; i += 8 {
		binary.LittleEndian.PutUint64(s.Mem[i:], r.Value())
	}
	s.RIP = record.CodeAddr
	s.Flags = uint16(r.Next())&0x8d5 | 0x202
	return s
}

// outcome is all of a state that can be compared.
type outcome struct {
	R     [16]uint64
	RIP   uint64
	Flags uint16
	Page  [record.PageSize]byte
}

// begin loads a job.
func (s *stage) begin(t testing.TB, j *native.Job) {
	t.Helper()
	copy(s.page, filler)
	copy(s.page[j.Window-record.PageAddr:], j.Before.Mem[:])
	for i := copy(s.poke, j.Code); i < len(s.poke); i++ {
		s.poke[i] = 0 // as in native's job
	}
	if err := s.mem.PokeText(record.CodeAddr, s.poke); err != nil {
		t.Fatal(err)
	}
	s.cpu.GoOn(record.CodeAddr, uint64(j.Before.Flags))
	s.cpu.R, s.cpu.GSBase = j.Before.R, record.GSBase
}

func (s *stage) now() (o outcome) {
	o.R, o.RIP, o.Flags = s.cpu.R, s.cpu.RIP, uint16(s.cpu.RFlags)&0xcd5|0x202
	copy(o.Page[:], s.page)
	return o
}

// fetches says whether an exit is that nothing can be fetched at rip.
func fetches(e Exit, rip uint64) bool {
	return e.Reason == Trap && e.Vector == abi.VecPF && e.Code&core.FaultFetch != 0 && e.Addr == rip
}

// walk is the way of a program through the interpreter.
type walk struct {
	steps   []native.Step
	mask    uint16 // flags that the last step leaves undefined
	retired uint64
	exit    Exit // of the last step
	end     outcome
}

// walk executes until the code is left, something stands there that is not for
// user mode, or an instruction faults. It says false where the processor would
// find something else than the stage.
func (p *pair) walk(t *testing.T, j *native.Job) (w walk, ok bool) {
	s := p.stage
	s.begin(t, j)
	w.end = s.now()
	for len(w.steps) < native.MaxSteps {
		at := s.cpu.RIP - record.CodeAddr
		if at >= uint64(len(j.Code)) {
			break
		}
		o, short := decode.Decode(s.poke[at:], s.cpu.RIP)
		if short || !userMode(&o, s.poke[at:]) || s.splits(&o) {
			break
		}
		step := native.Step{RIP: s.cpu.RIP, Rep: o.Flags&(decode.RepE|decode.RepNE) != 0 && isString(o.Code)}
		before := s.cpu.R
		exit, n := s.cpu.Run(1)
		if exit.Reason == Trap && exit.Vector == abi.VecPF && !fetches(exit, s.cpu.RIP) && (exit.Addr>>47 != 0 || p.r.Owns(exit.Addr)) {
			return w, false
		}
		if p.concerned(executed{&o, s.poke[at : at+uint64(o.Len)], exit, s.cpu.R[4]}) {
			break
		}
		if fetches(exit, s.cpu.RIP) {
			exit = Exit{} // a branch has gone where nothing is
		}
		w.exit, w.end = exit, s.now()
		w.retired += n
		if exit.Reason != Trap || n > 0 {
			w.mask = undefinedOf(&o, s.poke[at:], &before)
		} else {
			w.mask = 0
		}
		step.Mask, step.Flags = w.mask, w.end.Flags
		w.steps = append(w.steps, step)
		if exit.Reason == Trap {
			break
		}
	}
	return w, true
}

// differs says how the processor has gone another way.
func (w *walk) differs(r *native.Result) string {
	var b strings.Builder
	say := func(what string, got, want any) {
		if got != want {
			fmt.Fprintf(&b, " %s %#x, processor %#x;", what, got, want)
		}
	}
	vector, code, steps := uint8(record.NoVector), uint64(0), len(w.steps)
	cr2 := r.CR2
	if w.exit.Reason == Trap {
		vector, steps = w.exit.Vector, steps-1
		switch vector {
		case abi.VecPF:
			code, cr2 = w.exit.Code, w.exit.Addr
		case 13:
			code = w.exit.Code
		}
	}
	say("steps", steps, r.Steps)
	say("vector", vector, r.Vector)
	if r.Vector == 13 || r.Vector == abi.VecPF {
		say("error code", code, r.Error&^4)
		say("CR2", cr2, r.CR2)
	}
	say("rip", w.end.RIP, r.After.RIP)
	say("flags", w.end.Flags&^w.mask, r.After.Flags&^w.mask)
	for i, v := range r.After.R {
		say(fmt.Sprintf("r%d", i), w.end.R[i], v)
	}
	for i, v := range r.Page {
		say(fmt.Sprintf("byte %#x", record.PageAddr+i), w.end.Page[i], v)
	}
	return b.String()
}

// way shows the instructions.
func (w *walk) way(code []byte) string {
	var b strings.Builder
	for _, s := range w.steps {
		at := s.RIP - record.CodeAddr
		o, _ := decode.Decode(code[at:], s.RIP)
		fmt.Fprintf(&b, " [% x]", code[at:min(uint64(len(code)), at+uint64(o.Len))])
	}
	return b.String()
}

func isString(c decode.Code) bool { return c >= decode.MOVS && c <= decode.SCAS }

// userMode says whether an instruction does the same in user mode, and is defined: what
// processors do differently is a quirk.
func userMode(o *decode.Inst, b []byte) bool {
	if o.Seg == decode.RegFS { // the program's own
		return false
	}
	switch c := o.Code; {
	case c <= decode.CRC32:
	case c >= decode.PUSH && c <= decode.CMOV && c != decode.PUSHF && c != decode.POPF && c != decode.RETF && c != decode.IRET:
	case c >= decode.CLC && c <= decode.STD:
	case c == decode.NOP:
		return plainNop(b)
	case c == decode.PAUSE, isString(c), c >= decode.ANDN && c <= decode.ADOX:
	case c == decode.INT:
		return o.Imm == 3 && o.Len > 0 && b[o.Len-1] == 0xcc
	default:
		return false
	}
	switch o.Code {
	case decode.BSWAP: // undefined with 16 bits
		return o.W != 2
	case decode.SHLD, decode.SHRD: // undefined with more than 16
		return o.W != 2
	case decode.BSF, decode.BSR: // undefined where there is no bit
		return false
	case decode.MOV: // movdiri, which not all have
		return !movdiri(b)
	case decode.ENTER:
		return o.A == 0
	}
	return true
}

func hasPrefix(b []byte, p byte) bool {
	for ; decode.IsPrefix(b[0]); b = b[1:] {
		if b[0] == p {
			return true
		}
	}
	return false
}

func afterPrefixes(b []byte) []byte {
	for decode.IsPrefix(b[0]) {
		b = b[1:]
	}
	return b
}

func movdiri(b []byte) bool {
	b = afterPrefixes(b)
	return b[0] == 0x0f && b[1] == 0x38
}

// plainNop leaves out those that are something else to other processors.
func plainNop(b []byte) bool {
	b = afterPrefixes(b)
	return b[0] == 0x90 || b[0] == 0x0f && b[1] == 0x1f
}

// splits says whether a locked access may cross a line of the cache, for which
// the host's kernel may punish.
func (s *stage) splits(o *decode.Inst) bool {
	if o.Form&decode.HasMem == 0 || o.Flags&decode.Locked == 0 && o.Code != decode.XCHG {
		return false
	}
	if o.Code >= decode.BT && o.Code <= decode.BTC && o.Form&decode.SrcImm == 0 {
		return true
	}
	reg := func(r uint8) uint64 {
		switch {
		case r < 16:
			return s.cpu.R[r]
		case r == decode.RegGS:
			return s.cpu.GSBase
		}
		return 0
	}
	ea := reg(o.Base) + reg(o.Index)<<o.Scale + o.Disp
	if o.Flags&decode.Addr32 != 0 {
		ea = uint64(uint32(ea))
	}
	ea += reg(o.Seg)
	size := uint64(o.W)
	if o.Code == decode.CMPXCHG8B {
		size *= 2
	}
	return ea&63+size > 64
}

// codeNames are the names that the table of undefined flags has for codes.
var codeNames = map[decode.Code]string{
	decode.AND: "AND", decode.OR: "OR", decode.XOR: "XOR", decode.TEST: "TEST", decode.ANDN: "ANDN", decode.BEXTR: "BEXTR", decode.BZHI: "BZHI",
	decode.BLSR: "BLSR", decode.BLSMSK: "BLSMSK", decode.BLSI: "BLSI", decode.MUL: "MUL", decode.IMUL: "IMUL", decode.IMUL1: "IMUL", decode.DIV: "DIV", decode.IDIV: "IDIV",
	decode.TZCNT: "TZCNT", decode.LZCNT: "LZCNT", decode.BT: "BT", decode.BTS: "BTS", decode.BTR: "BTR", decode.BTC: "BTC",
	decode.SHL: "SHL", decode.SAL: "SHL", decode.SHR: "SHR", decode.SAR: "SAR", decode.SHLD: "SHLD", decode.SHRD: "SHRD",
	decode.ROL: "ROL", decode.ROR: "ROR", decode.RCL: "RCL", decode.RCR: "RCR",
}

func undefinedOf(o *decode.Inst, b []byte, before *[16]uint64) uint16 {
	c := record.Case{Code: b[:o.Len], Vector: record.NoVector}
	c.Before.R = *before
	return undefined(codeNames[o.Code], &c)
}

// TestWildBranches branches to addresses where nothing is, in each way and often enough that
// the branch is translated: each time it faults in the guest, or at the next fetch.
func TestWildBranches(t *testing.T) {
	s := newStage(t)
	for _, code := range [][]byte{{0xff, 0xd0}, {0xff, 0xe0}, {0xff, 0x14, 0x24}, {0xff, 0x24, 0x24}, {0xc3}} {
		for _, to := range []uint64{0, 1, 2, 1 << 20, 1 << 46, 1 << 47, 1 << 62, 1<<62 + 1, 1 << 63, 1<<64 - 1} {
			j := native.Job{Code: code, Window: record.WindowMid}
			j.Before.R[0], j.Before.R[4] = to, record.WindowMid+16
			binary.LittleEndian.PutUint64(j.Before.Mem[16:], to)
			for range 64 {
				s.begin(t, &j)
				e, n := s.cpu.Run(2)
				switch fetched := e.Vector == abi.VecPF && n == 1 && s.cpu.RIP == to; {
				case e.Reason != Trap, mem.Canonical(to) != fetched, !fetched && (e.Vector != abi.VecGP || n != 0):
					t.Fatalf("% x to %#x: %+v after %d instructions, rip %#x", code, to, e, n, s.cpu.RIP)
				}
			}
		}
	}
}

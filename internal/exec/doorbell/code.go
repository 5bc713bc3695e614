package doorbell

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Program is what a text is to be changed to in a process.
type Program struct {
	Code    []byte // for the room: sets of calls, and then instructions
	Patches []Patch
	// Moved is where a thread goes on whose call has returned to an instruction that is replaced, by the
	// address of that.
	Moved map[uint64]uint64
}

// Patch is new content of a text.
type Patch struct {
	Addr uint64
	Code []byte
	was  []byte
}

// Reader fills each of into with the bytes of a process's memory at the same element of addrs.
type Reader func(addrs []uint64, into [][]byte) error

// Check fails with ErrText if a process's memory is not what the file's text is.
func (p *Program) Check(memory Reader) error {
	return same(memory, p.Patches, func(i int) []byte { return p.Patches[i].was })
}

// same fails with ErrText if the memory at a patch is not what is wanted there.
func same(memory Reader, at []Patch, want func(i int) []byte) error {
	addrs, now := make([]uint64, len(at)), make([][]byte, len(at))
	for i := range at {
		addrs[i], now[i] = at[i].Addr, make([]byte, len(want(i)))
	}
	if err := memory(addrs, now); err != nil {
		return err
	}
	for i := range at {
		if !bytes.Equal(now[i], want(i)) {
			return fmt.Errorf("at %#x is another text: %w", at[i].Addr, ErrText)
		}
	}
	return nil
}

// The room begins with two sets of calls that ring: calls with a constant number, and all others. After them
// there is place for an errand, and the set of the calls that can ring at any time.
const (
	constantAt = 0
	variableAt = Calls / 8
	setsSize   = 2 * Calls / 8
	ringsAt    = setsSize + ErrandSize
	headSize   = ringsAt + Calls/8
)

// ErrandAt is where the place for an errand is in a room.
const ErrandAt = setsSize

// ErrandSize is more than the code of an errand takes, in bytes.
const ErrandSize = 128

// Errand returns code for the address at that maps size bytes of memory for a room, near an address, and
// goes on at resume, which its last 8 bytes hold, with the registers as they were: it needs no tracer to come to
// its end. mapped is the address after its syscall instruction. A thread that is there can go to again for another errand, whose
// code has replaced this one's.
func Errand(at, near, size, resume uint64) (code []byte, again, mapped uint64) {
	const private, anonymous, readExecute = 0x02, 0x20, 5
	a := assembler{addr: at}
	a.emit(0x48, 0x8d, 0x64, 0x24, 0x80)       // lea -128(%rsp),%rsp
	a.emit(0x9c)                               // pushf
	a.emit(0x50, 0x57, 0x56, 0x52)             // push %rax, %rdi, %rsi, %rdx
	a.emit(0x41, 0x52, 0x41, 0x50, 0x41, 0x51) // push %r10, %r8, %r9
	again = a.here()
	a.emit(0x48, 0xbf) // mov $near,%rdi
	a.imm64(near)
	a.emit(0x48, 0xbe) // mov $size,%rsi
	a.imm64(size)
	a.emit(0xba) // mov $prot,%edx
	a.imm32(readExecute)
	a.emit(0x41, 0xba) // mov $flags,%r10d
	a.imm32(private | anonymous)
	a.emit(0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff) // mov $-1,%r8
	a.emit(0x45, 0x31, 0xc9)                         // xor %r9d,%r9d
	a.emit(0xb8)                                     // mov $mmap,%eax
	a.imm32(abi.SysMmap)
	a.emit(syscallInsn...)
	mapped = a.here()
	a.emit(0x41, 0x59, 0x41, 0x58, 0x41, 0x5a) // pop %r9, %r8, %r10
	a.emit(0x5a, 0x5e, 0x5f, 0x58)             // pop %rdx, %rsi, %rdi, %rax
	a.emit(0x9d)                               // popf
	a.emit(0x48, 0x8d, 0xa4, 0x24)             // lea 128(%rsp),%rsp
	a.imm32(128)
	a.emit(0xff, 0x25) // jmp *0(%rip)
	a.imm32(0)
	a.imm64(resume)
	return a.code, again, mapped
}

// Sets returns the beginning of a room: which calls ring from now on. The calls of always that
// are not in calls ring only where a look at their arguments says so (looks).
func Sets(calls, always *Set) []byte {
	all := calls.Union(always)
	constant := all
	for nr := range uint64(Calls) {
		if looks[int(nr)] != nil && !calls.Has(nr) {
			constant[nr/8] &^= 1 << (nr % 8)
		}
	}
	return append(constant[:], all[:]...)
}

// movesStack are the calls that can return in a new thread with another stack, so that nothing can be kept on
// the stack meanwhile.
var movesStack = []uint32{abi.SysClone, abi.SysClone3}

// A look at an argument decides whether a call rings that rings always, but cannot be seen.
type look struct {
	test   []byte // an instruction
	silent byte   // the branch with which it is passed over
}

// looks are for mmap, mprotect and pkey_mprotect, of memory that is to be executed, and of open and
// openat, where somebody may be told of them: not of a directory, nor where a link is not followed.
var looks = map[int]*look{
	abi.SysMmap:         {testEDX(protExec), jzShort},
	abi.SysMprotect:     {testEDX(protExec), jzShort},
	abi.SysPkeyMprotect: {testEDX(protExec), jzShort},
	abi.SysOpen:         {testESI(quietFlags), jnzShort},
	abi.SysOpenat:       {testEDX(quietFlags), jnzShort},
}

// protExec is PROT_EXEC.
const protExec = 4

// quietFlags are O_DIRECTORY and O_NOFOLLOW, as they are on x86-64.
const quietFlags = 0x10000 | 0x20000

func testEDX(v uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{0xf7, 0xc2}, v) }
func testESI(v uint32) []byte { return binary.LittleEndian.AppendUint32([]byte{0xf7, 0xc6}, v) }

// maxCode is more than the code of one syscall instruction takes, in bytes.
const maxCode = 264

// Room returns the size in bytes of the memory that Program needs, which is 0 if nothing is to be changed.
func (t *Text) Room(calls *Set) (size uint64) {
	for i := range t.sites {
		if t.sites[i].wanted(calls) {
			size += maxCode
		}
	}
	if size > 0 {
		size += headSize
	}
	return size
}

// Spare returns where the pages of the text have bytes after its end that nothing uses, without the load bias: at
// least ErrandSize of them. They have to be 0 in memory.
func (t *Text) Spare() (addr uint64, ok bool) {
	for _, s := range t.Segments {
		end := (s.Addr + s.Size + 15) &^ 15
		if left := -end % abi.PageSize; left >= ErrandSize {
			return end, true
		}
	}
	return 0, false
}

// wanted reports whether a site is replaced for a set of calls.
func (s *site) wanted(calls *Set) bool { return s.number < 0 || calls.Has(uint64(s.number)) }

// Program returns the changes for a text that is mapped bias higher than its file says, with
// memory at room. calls are the numbers that are to ring at any time. It fails with ErrText
// where the room is too far away.
func (t *Text) Program(bias, room uint64, calls *Set) (Program, error) {
	a := assembler{addr: room, code: make([]byte, headSize), bias: bias}
	copy(a.code[ringsAt:], calls[:])
	p := Program{Moved: map[uint64]uint64{}}
	for i := range t.sites {
		s := &t.sites[i]
		if !s.wanted(calls) {
			continue
		}
		to := a.here()
		if s.stays {
			a.constant(s)
		} else {
			made := a.variable(s)
			if returns := s.at + uint64(len(syscallInsn)); returns < s.end {
				p.Moved[returns+bias] = made
			}
		}
		a.mark(s)
		jump := assembler{addr: s.start + bias}
		jump.jump(to)
		for at := s.start + jumpLen; at < s.end && at%abi.PageSize != 0; at++ { // up to the end of the page: see choose
			jump.emit(0xcc)
		}
		a.far = a.far || jump.far
		p.Patches = append(p.Patches, Patch{s.start + bias, jump.code, s.was})
	}
	if a.far {
		return Program{}, fmt.Errorf("the room at %#x: %w", room, ErrText)
	}
	p.Code = a.code
	return p, nil
}

// Found returns the room of a text that Program has changed in a process, and the calls that can ring
// there. The room is 0 if the text is what its file says. Found fails with ErrText where it is neither.
func (t *Text) Found(memory Reader, bias uint64) (room uint64, calls Set, err error) {
	addrs, now := make([]uint64, len(t.sites)), make([][]byte, len(t.sites))
	for i := range t.sites {
		addrs[i], now[i] = t.sites[i].start+bias, make([]byte, len(t.sites[i].was))
	}
	if err := memory(addrs, now); err != nil {
		return 0, calls, err
	}
	for i, b := range now {
		switch {
		case bytes.Equal(b, t.sites[i].was):
		case len(b) < jumpLen || b[0] != jmpNear:
			return 0, calls, fmt.Errorf("at %#x is another text: %w", addrs[i], ErrText)
		default: // the first one that is replaced has the first code of the room
			to := addrs[i] + jumpLen + uint64(int64(int32(binary.LittleEndian.Uint32(b[1:]))))
			return t.is(memory, bias, to-headSize)
		}
	}
	return 0, calls, nil
}

// is fails with ErrText unless the text is what Program has made of it, with this room.
func (t *Text) is(memory Reader, bias, room uint64) (_ uint64, calls Set, err error) {
	if err := memory([]uint64{room + ringsAt}, [][]byte{calls[:]}); err != nil {
		return 0, calls, err
	}
	p, err := t.Program(bias, room, &calls)
	if err != nil {
		return 0, calls, err
	}
	all := append([]Patch{{Addr: room + ringsAt, Code: p.Code[ringsAt:]}}, p.Patches...)
	return room, calls, same(memory, all, func(i int) []byte { return all[i].Code })
}

// Inside reports whether an address, in a process in which the text is mapped bias higher than its file says, is
// among the instructions that are replaced for a set of calls, and not the first of them: a thread that
// goes on there must not find them changed.
func (t *Text) Inside(bias, addr uint64, calls *Set) bool {
	addr -= bias
	i := sort.Search(len(t.sites), func(i int) bool { return t.sites[i].end > addr })
	return i < len(t.sites) && addr > t.sites[i].start && t.sites[i].wanted(calls)
}

// assembler appends instructions.
type assembler struct {
	addr uint64 // of the first
	bias uint64
	code []byte
	far  bool // a displacement does not fit
}

func (a *assembler) here() uint64 { return a.addr + uint64(len(a.code)) }

func (a *assembler) emit(b ...byte) { a.code = append(a.code, b...) }

func (a *assembler) imm64(v uint64) { a.code = binary.LittleEndian.AppendUint64(a.code, v) }

func (a *assembler) imm32(v uint32) { a.code = binary.LittleEndian.AppendUint32(a.code, v) }

// rel32 appends the displacement to an address from the end of an instruction that ends
// after more bytes.
func (a *assembler) rel32(to uint64, more int) {
	d := int64(to - (a.here() + 4 + uint64(more)))
	a.far = a.far || d < math.MinInt32 || d > math.MaxInt32
	a.imm32(uint32(d))
}

// jump appends jmp to.
func (a *assembler) jump(to uint64) {
	a.emit(jmpNear)
	a.rel32(to, 0)
}

// short appends a branch with an 8-bit displacement, which land sets.
func (a *assembler) short(opcode byte) (at int) {
	a.emit(opcode, 0)
	return len(a.code)
}

func (a *assembler) land(branches ...int) {
	for _, at := range branches {
		a.code[at-1] = byte(len(a.code) - at)
	}
}

// Opcodes of branches.
const (
	jmpNear    = 0xe9
	jmpShort   = 0xeb
	jncShort   = 0x73
	jzShort    = 0x74
	jnzShort   = 0x75
	jcShort    = 0x72
	jrcxzShort = 0xe3
)

// failed appends instructions that leave 0 in rcx if a ring has failed with ENOSYS, and do not
// change flags: lea 38(%rax),%rcx.
func (a *assembler) failed() { a.emit(0x48, 0x8d, 0x48, 38) }

// constant appends the code for mov $nr,%eax, after which the syscall instruction still stands.
func (a *assembler) constant(s *site) {
	nr := uint32(s.number)
	var ring, silent []int
	a.inSet(constantAt, nr)
	if look := looks[s.number]; look == nil {
		silent = append(silent, a.short(jncShort))
	} else {
		ring = append(ring, a.short(jcShort))
		a.inSet(variableAt, nr)
		silent = append(silent, a.short(jncShort))
		a.emit(look.test...)
		silent = append(silent, a.short(look.silent))
	}
	a.land(ring...)
	silent = append(silent, a.ring(nr))
	a.jump(s.at + uint64(len(syscallInsn)) + a.bias)
	a.land(silent...)
	a.emit(0xb8) // mov $nr,%eax
	a.imm32(nr)
	a.jump(s.at + a.bias)
}

// ring appends the ring for a call nr, without use of the stack, and a branch that is taken where nobody listens.
func (a *assembler) ring(nr uint32) (alone int) {
	a.emit(0xb8) // mov $Base+nr,%eax
	a.imm32(Base + nr)
	a.emit(syscallInsn...)
	a.failed()
	return a.short(jrcxzShort)
}

// inSet appends bt $nr%32,set+nr/32*4(%rip), which sets the carry flag if a number is in a set of the room.
func (a *assembler) inSet(set int, nr uint32) {
	a.emit(0x0f, 0xba, 0x25)
	a.rel32(a.addr+uint64(set)+uint64(nr/32*4), 1)
	a.emit(byte(nr % 32))
}

// drop is lea 136(%rsp),%rsp, which drops a number and the red zone above it.
var drop = binary.LittleEndian.AppendUint32([]byte{0x48, 0x8d, 0xa4, 0x24}, dropped)

const dropped = 136

// variable appends the code for a syscall instruction whose number is in eax. made is where that goes on after
// the call.
func (a *assembler) variable(s *site) (made uint64) {
	a.move(s.before)
	a.emit(0x89, 0xc1) // mov %eax,%ecx
	a.emit(0x81, 0xf9) // cmp $Calls,%ecx
	a.imm32(Calls)
	high := a.short(jncShort) // jae
	a.emit(0x0f, 0xa3, 0x0d)  // bt %ecx,set(%rip)
	a.rel32(a.addr+variableAt, 0)
	silent, rang := []int{a.short(jncShort)}, []int{}
	for _, nr := range movesStack {
		a.emit(0x81, 0xf9) // cmp $nr,%ecx
		a.imm32(nr)
		other := a.short(jnzShort)
		alone := a.ring(nr)
		rang = append(rang, a.short(jmpShort))
		a.land(alone)
		a.emit(0xb8) // mov $nr,%eax
		a.imm32(nr)
		silent = append(silent, a.short(jmpShort))
		a.land(other)
	}
	a.emit(0x48, 0x8d, 0x64, 0x24, 0x80) // lea -128(%rsp),%rsp
	a.emit(0x50)                         // push %rax
	a.emit(0x8d, 0x80)                   // lea Base(%rax),%eax
	a.imm32(Base)
	a.emit(syscallInsn...)
	a.failed()
	alone := a.short(jrcxzShort)
	a.emit(drop...)
	rang = append(rang, a.short(jmpShort))
	a.land(alone)
	a.emit(0x58)                   // pop %rax
	a.emit(0x48, 0x8d, 0xa4, 0x24) // lea 128(%rsp),%rsp
	a.imm32(128)
	a.land(append(silent, high)...)
	a.emit(syscallInsn...)
	a.land(rang...)
	made = a.here()
	a.move(s.after)
	a.jump(s.end + a.bias)
	return made
}

// mark appends what Place looks for: nothing comes to it, since the code of a syscall instruction ends with a jump.
func (a *assembler) mark(s *site) {
	a.emit(marker...)
	a.imm64(s.at + uint64(len(syscallInsn)) + a.bias)
}

// marker is what no text has by chance: ud2, a movabs to rax, and the beginning of one to rcx.
var marker = []byte("\x0f\x0b\x48\xb8kprobefs\x48\xb9")

// PlaceSize is how much of a program's memory Place looks at, in bytes.
const PlaceSize = maxCode

// Place returns where a call is made in a program's own text if it is made by code of Program: memory is what comes after the
// syscall instruction. It is the address after the one that was replaced. deeper is how many bytes the code has put on the stack.
func Place(memory []byte) (at, deeper uint64, ok bool) {
	memory = memory[:min(len(memory), PlaceSize)]
	i := bytes.Index(memory, marker)
	if i < 0 || i+len(marker)+8 > len(memory) {
		return 0, 0, false
	}
	var a assembler
	a.failed()
	a.emit(jrcxzShort)
	if rest, rang := bytes.CutPrefix(memory, a.code); rang && bytes.HasPrefix(rest[1:], drop) {
		deeper = dropped
	}
	return binary.LittleEndian.Uint64(memory[i+len(marker):]), deeper, true
}

// move appends instructions of the text.
func (a *assembler) move(all []piece) {
	for _, p := range all {
		if p.rel == 0 {
			a.emit(p.code...)
			continue
		}
		to := p.addr + a.bias + uint64(len(p.code)) + uint64(int64(int32(binary.LittleEndian.Uint32(p.code[p.rel:]))))
		a.emit(p.code[:p.rel]...)
		a.rel32(to, len(p.code)-p.rel-4)
		a.emit(p.code[p.rel+4:]...)
	}
}

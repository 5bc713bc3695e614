package probe

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ring"
)

// Symbols is kallsyms. Its look-ups take no lock.
type Symbols interface {
	LookupName(name string) []abi.Symbol // "symbol" or "module:symbol"
	Lookup(addr uint64) (sym abi.Symbol, offset uint64, ok bool)
}

// Entry is an entry under construction: its bytes, and what its arguments are
// fetched from besides the registers and memory of the hit.
type Entry struct {
	Buf    [ring.MaxData]byte
	N      int // bytes of Buf that are filled in
	unused int // bytes that were reserved for its strings and not used

	Attached []byte  // for an eprobe: the entry of the event that it is attached to
	Kept     []byte  // for a return probe: the arguments that it saved, 8 bytes each
	Symbols  Symbols // for arguments that are shown as symbols
}

// fetchCode is the program that fetches one argument: it takes a value from source,
// loads from memory any number of times, and stores the result in the entry. It is
// built when the probe is defined and runs in handler context: it allocates nothing and
// takes no lock, and unmapped memory only makes it fail.
type fetchCode struct {
	source fetchOp
	value  uint64 // the register, the number, ...
	data   []byte // the string of fetchData, with its NUL
	derefs []deref

	store    storeOp
	storeAt  uint64 // offset of the load that the store does
	size     int    // size of one element, bytes
	count    int    // number of elements of an array; 0 if it is not an array
	bitfield bool
	left     uint // shifts of a bitfield, bits
	right    uint

	symbol    string // SYM[+-OFFSET], whose address is value, or the name of field
	field     *field.Member
	hasSymbol bool
}

// fetchOp is the source of a value.
type fetchOp byte

const (
	fetchReg fetchOp = iota
	fetchStack
	fetchStackPointer
	fetchRetval
	fetchArg
	fetchEntryArg // saved by a return probe at the entry
	fetchImmediate
	fetchComm
	fetchData
	fetchField // field of the event that an eprobe is attached to
)

// isRegister reports whether symstr uses the value without a load.
func (o fetchOp) isRegister() bool {
	return o == fetchReg || o == fetchStack || o == fetchRetval || o == fetchArg || o == fetchEntryArg || o == fetchField
}

// storeOp is how a value is stored in the entry.
type storeOp byte

const (
	storeRaw storeOp = iota
	storeMemory
	storeUserMemory
	storeString
	storeUserString
	storeSymbol
)

// deref is one load of 8 bytes.
type deref struct {
	by   uint64
	user bool
}

// registerNames is regoffset_table.
var registerNames = [...]string{
	"r15", "r14", "r13", "r12", "r11", "r10", "r9", "r8", "bx", "cx", "dx", "si", "di", "bp", "ax",
	"orig_ax", "ip", "cs", "flags", "sp", "ss",
}

// register reads the register with that index in registerNames.
func register(r *abi.Regs, i uint64) uint64 {
	switch i {
	case 0:
		return r.R15
	case 1:
		return r.R14
	case 2:
		return r.R13
	case 3:
		return r.R12
	case 4:
		return r.R11
	case 5:
		return r.R10
	case 6:
		return r.R9
	case 7:
		return r.R8
	case 8:
		return r.BX
	case 9:
		return r.CX
	case 10:
		return r.DX
	case 11:
		return r.SI
	case 12:
		return r.DI
	case 13:
		return r.BP
	case 14:
		return r.AX
	case 15:
		return r.OrigAX
	case 16:
		return r.IP
	case 17:
		return r.CS
	case 18:
		return r.Flags
	case 19:
		return r.SP
	}
	return r.SS
}

const (
	maxString    = 4096 // MAX_STRING_SIZE, with the NUL
	registerArgs = 6
)

// fetchError is the reason why an argument has no value.
type fetchError byte

const (
	fetched  fetchError = iota
	faulted             // the memory cannot be read
	overflow            // the entry would not fit on a page: the kernel drops the hit
)

// stackNth is regs_get_kernel_stack_nth: it returns 0 outside the current stack.
func stackNth(t *abi.Trap, n uint64) uint64 {
	addr := t.Regs.SP + n*8
	if addr&^(abi.ThreadSize-1) != t.Regs.SP&^(abi.ThreadSize-1) {
		return 0
	}
	v, err := t.Mem.ReadU64(addr)
	if err != nil {
		return 0
	}
	return v
}

// start returns the value that the program starts with.
func (c *fetchCode) start(t *abi.Trap) uint64 {
	switch c.source {
	case fetchReg:
		return register(t.Regs, c.value)
	case fetchStack:
		return stackNth(t, c.value)
	case fetchStackPointer:
		return t.Regs.SP
	case fetchRetval:
		return t.Regs.ReturnValue()
	case fetchArg:
		return argument(t, c.value)
	case fetchComm:
		return t.Task + abi.TaskComm
	case fetchImmediate, fetchData, fetchField, fetchEntryArg:
	}
	return c.value
}

// argument is regs_get_kernel_argument, valid at a function's entry.
func argument(t *abi.Trap, n uint64) uint64 {
	if n < registerArgs {
		return t.Regs.Arg(int(n))
	}
	return stackNth(t, n-registerArgs+1) // the first one is above the return address
}

// KeepEntryArgs saves arguments of a function in room, 8 bytes each, for its return. It
// runs in handler context.
func KeepEntryArgs(room []byte, t *abi.Trap, args []int) {
	for i, n := range args {
		binary.LittleEndian.PutUint64(room[8*i:], argument(t, uint64(n)))
	}
}

// mayRead reports whether size bytes at addr may be read as user memory, or, if user is
// false, as memory of either kind: probe_mem_read decides by the address.
func mayRead(addr, size uint64, user bool) bool {
	if !user && addr >= abi.TaskSizeMax {
		return addr+size >= addr
	}
	return addr+size >= addr && addr+size <= abi.TaskSizeMax
}

func readWord(m abi.Memory, addr uint64, user bool) (uint64, bool) {
	if !mayRead(addr, 8, user) {
		return 0, false
	}
	v, err := m.ReadU64(addr)
	return v, err == nil
}

// StoreArgs is store_trace_args: it fetches the arguments into the entry, the numbers
// at their offsets and the strings after all of them. It returns false if the entry
// does not fit on a page.
func (e *Entry) StoreArgs(trap *abi.Trap, args []Arg, size int) bool {
	base := e.N
	e.unused = 0
	if base+size > len(e.Buf) {
		return false
	}
	clear(e.Buf[base : base+size])
	e.N += size
	for i := range args {
		a := &args[i]
		at := base + a.offset
		switch e.fetch(trap, &a.code, at) {
		case overflow:
			return false
		case faulted:
			clear(e.Buf[at : at+a.size()])
			if a.typ.text {
				field.PutDataLoc(e.Buf[at:], e.N, 0)
			}
		case fetched:
		}
	}
	if e.N+e.unused > len(e.Buf) {
		return false
	}
	clear(e.Buf[e.N : e.N+e.unused])
	e.N += e.unused
	return true
}

// fetch is process_fetch_insn; at is the offset of the value in the entry.
func (e *Entry) fetch(trap *abi.Trap, c *fetchCode, at int) fetchError {
	value := c.start(trap)
	if c.source == fetchField && !c.field.IsText() {
		value = c.field.Load(e.Attached)
	}
	if c.source == fetchEntryArg {
		value = binary.LittleEndian.Uint64(e.Kept[8*c.value:])
	}
	from := value // the address for the last load
	for _, d := range c.derefs {
		from = value + d.by
		var ok bool
		if value, ok = readWord(trap.Mem, from, d.user); !ok {
			return faulted
		}
	}
	for i := range max(c.count, 1) {
		if i > 0 && (c.store == storeString || c.store == storeUserString) {
			// An array of strings is an array of pointers to them.
			if len(c.derefs) == 0 {
				return faulted
			}
			var ok bool
			if value, ok = readWord(trap.Mem, from+8*uint64(i), c.derefs[len(c.derefs)-1].user); !ok {
				return faulted
			}
		} else if i > 0 {
			value += uint64(c.size)
		}
		if e.storeValue(trap, c, at+i*c.size, value) == overflow {
			return overflow
		}
	}
	return fetched
}

// storeValue stores one value, or the memory that it points to, in the entry.
func (e *Entry) storeValue(trap *abi.Trap, c *fetchCode, at int, value uint64) fetchError {
	addr := value + c.storeAt
	switch c.store {
	case storeRaw:
		field.PutUint(e.Buf[at:at+c.size], value)
	case storeMemory, storeUserMemory:
		dest := e.Buf[at : at+c.size]
		if !mayRead(addr, uint64(c.size), c.store == storeUserMemory) || trap.Mem.ReadAt(addr, dest) != nil {
			clear(dest)
		}
	case storeString, storeUserString:
		n, err := e.copyString(trap.Mem, c, addr)
		if err == overflow {
			return overflow
		}
		e.DataLoc(at, n)
	case storeSymbol:
		n, err := e.copySymbol(value)
		if err == overflow {
			return overflow
		}
		e.DataLoc(at, n)
		e.unused++
	}
	if c.bitfield {
		dest := e.Buf[at : at+c.size]
		shift := 64 - 8*uint(c.size)
		v := field.Uint(dest) << c.left << shift >> shift >> c.right
		field.PutUint(dest, v)
	}
	return fetched
}

// DataLoc writes a __data_loc for the string in the last n bytes of the entry; n is 0
// after a fault.
func (e *Entry) DataLoc(at, n int) {
	field.PutDataLoc(e.Buf[at:], e.N, n)
	e.N += n
}

// copyString reads a string into the room after the entry without extending the entry,
// and returns its length with the NUL, or 0 if it cannot be read. An empty string's in
// user memory is 0 as well: strncpy_from_user_nofault does not count its NUL.
func (e *Entry) copyString(m abi.Memory, c *fetchCode, addr uint64) (int, fetchError) {
	if c.source == fetchData {
		if e.N+len(c.data) > len(e.Buf) {
			return 0, overflow
		}
		return copy(e.Buf[e.N:], c.data), fetched
	}
	if c.source == fetchField && c.field.IsText() {
		return e.copyField(c.field)
	}
	for n := 0; n < maxString; {
		size := min(abi.PageSize-int(addr%abi.PageSize), maxString-n, len(e.Buf)-e.N-n)
		if size == 0 {
			break
		}
		part := e.Buf[e.N+n : e.N+n+size]
		if !mayRead(addr, uint64(size), c.store == storeUserString) || m.ReadAt(addr, part) != nil {
			return 0, faulted
		}
		if end := bytes.IndexByte(part, 0); n+end == 0 && addr < abi.TaskSizeMax {
			return 0, fetched
		} else if end >= 0 {
			return n + end + 1, fetched
		}
		n, addr = n+size, addr+uint64(size)
	}
	return 0, overflow
}

// copyField is copyString for a string in the attached event's entry.
func (e *Entry) copyField(f *field.Member) (int, fetchError) {
	text := f.Text(e.Attached)
	if e.N+len(text)+1 > len(e.Buf) {
		return 0, overflow
	}
	n := copy(e.Buf[e.N:], text)
	e.Buf[e.N+n] = 0
	return n + 1, fetched
}

// copySymbol writes the text of sprint_symbol after the entry. As in the kernel, the
// length does not include the NUL: the next string overwrites it and appears as a part
// of this one.
func (e *Entry) copySymbol(addr uint64) (int, fetchError) {
	sym, offset, ok := e.Symbols.Lookup(addr)
	if e.N+len(sym.Name)+len(sym.Module)+64 > len(e.Buf) {
		return 0, overflow
	}
	b := append(output.AppendSprint(e.Buf[e.N:e.N], sym, offset, addr, ok), 0)
	return len(b) - 1, fetched
}

// AppendArgs is print_probe_args: it appends " NAME=VALUE" for each argument; base is the
// offset of the first one in the entry.
func AppendArgs(b, entry []byte, args []Arg, base int, symbols Symbols) []byte {
	for i := range args {
		a := &args[i]
		b = append(append(append(b, ' '), a.name...), '=')
		if a.count == 0 {
			b = appendArg(b, entry, a.typ, base+a.offset, symbols)
			continue
		}
		for n := range a.count {
			b = append(b, "{,"[min(n, 1)])
			b = appendArg(b, entry, a.typ, base+a.offset+n*a.typ.size, symbols)
		}
		b = append(b, '}')
	}
	return b
}

func appendArg(b, entry []byte, typ *fetchType, at int, symbols Symbols) []byte {
	if typ.text {
		s, n := field.StringAt(entry, at)
		if n == 0 {
			return append(b, "(fault)"...)
		}
		s, _, _ = bytes.Cut(s, []byte{0})
		return append(append(append(b, '"'), s...), '"')
	}
	v := field.Uint(entry[at : at+typ.size])
	switch {
	case typ.symbol:
		sym, offset, ok := symbols.Lookup(v)
		return output.AppendSprint(b, sym, offset, v, ok)
	case typ.char:
		return append(append(append(b, '\''), byte(v)), '\'')
	case typ.hex:
		return strconv.AppendUint(append(b, "0x"...), v, 16)
	case typ.signed:
		shift := 64 - 8*typ.size
		return strconv.AppendInt(b, int64(v<<shift)>>shift, 10)
	}
	return strconv.AppendUint(b, v, 10)
}

// Word adds 8 bytes to the entry, for which there must be room.
func (e *Entry) Word(v uint64) {
	binary.LittleEndian.PutUint64(e.Buf[e.N:], v)
	e.N += 8
}

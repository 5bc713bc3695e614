package tracing

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
	"github.com/kprobefs/kprobefs/kprobes/tracing/output"
)

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
	taskSize     = 0x7ffffffff000 // TASK_SIZE_MAX: where user space ends
	maxString    = 4096           // MAX_STRING_SIZE, with the NUL
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

// mayRead reports whether size bytes at addr may be read as user memory, or, if user is
// false, as memory of either kind: probe_mem_read decides by the address.
func mayRead(addr, size uint64, user bool) bool {
	if !user && addr >= taskSize {
		return addr+size >= addr
	}
	return addr+size >= addr && addr+size <= taskSize
}

func readWord(m abi.Memory, addr uint64, user bool) (uint64, bool) {
	if !mayRead(addr, 8, user) {
		return 0, false
	}
	v, err := m.ReadU64(addr)
	return v, err == nil
}

// storeArgs is store_trace_args: it fetches the arguments into the entry, the numbers
// at their offsets and the strings after all of them. It returns false if the entry
// does not fit on a page.
func (t *Tracer) storeArgs(e *entry, trap *abi.Trap, args []probeArg, size int) bool {
	base := e.n
	e.unused = 0
	if base+size > len(e.buf) {
		return false
	}
	clear(e.buf[base : base+size])
	e.n += size
	for i := range args {
		a := &args[i]
		at := base + a.offset
		switch t.fetch(e, trap, &a.code, at) {
		case overflow:
			return false
		case faulted:
			clear(e.buf[at : at+a.size()])
			if a.typ.text {
				field.PutDataLoc(e.buf[at:], e.n, 0)
			}
		case fetched:
		}
	}
	if e.n+e.unused > len(e.buf) {
		return false
	}
	clear(e.buf[e.n : e.n+e.unused])
	e.n += e.unused
	return true
}

// fetch is process_fetch_insn; at is the offset of the value in the entry.
func (t *Tracer) fetch(e *entry, trap *abi.Trap, c *fetchCode, at int) fetchError {
	value := c.start(trap)
	if c.source == fetchField && !c.field.IsText() {
		value = c.field.Load(e.attached)
	}
	if c.source == fetchEntryArg {
		value = binary.LittleEndian.Uint64(e.kept[8*c.value:])
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
		if t.storeValue(e, trap, c, at+i*c.size, value) == overflow {
			return overflow
		}
	}
	return fetched
}

// storeValue stores one value, or the memory that it points to, in the entry.
func (t *Tracer) storeValue(e *entry, trap *abi.Trap, c *fetchCode, at int, value uint64) fetchError {
	addr := value + c.storeAt
	switch c.store {
	case storeRaw:
		field.PutUint(e.buf[at:at+c.size], value)
	case storeMemory, storeUserMemory:
		dest := e.buf[at : at+c.size]
		if !mayRead(addr, uint64(c.size), c.store == storeUserMemory) || trap.Mem.ReadAt(addr, dest) != nil {
			clear(dest)
		}
	case storeString, storeUserString:
		n, err := e.copyString(trap.Mem, c, addr)
		if err == overflow {
			return overflow
		}
		e.dataLoc(at, n)
	case storeSymbol:
		n, err := t.copySymbol(e, value)
		if err == overflow {
			return overflow
		}
		e.dataLoc(at, n)
		e.unused++
	}
	if c.bitfield {
		dest := e.buf[at : at+c.size]
		shift := 64 - 8*uint(c.size)
		v := field.Uint(dest) << c.left << shift >> shift >> c.right
		field.PutUint(dest, v)
	}
	return fetched
}

// dataLoc writes a __data_loc for the string in the last n bytes of the entry; n is 0
// after a fault.
func (e *entry) dataLoc(at, n int) {
	field.PutDataLoc(e.buf[at:], e.n, n)
	e.n += n
}

// copyString reads a string into the room after the entry without extending the entry,
// and returns its length with the NUL, or 0 if it cannot be read.
func (e *entry) copyString(m abi.Memory, c *fetchCode, addr uint64) (int, fetchError) {
	if c.source == fetchData {
		if e.n+len(c.data) > len(e.buf) {
			return 0, overflow
		}
		return copy(e.buf[e.n:], c.data), fetched
	}
	if c.source == fetchField && c.field.IsText() {
		return e.copyField(c.field)
	}
	for n := 0; n < maxString; {
		size := min(abi.PageSize-int(addr%abi.PageSize), maxString-n, len(e.buf)-e.n-n)
		if size == 0 {
			break
		}
		part := e.buf[e.n+n : e.n+n+size]
		if !mayRead(addr, uint64(size), c.store == storeUserString) || m.ReadAt(addr, part) != nil {
			return 0, faulted
		}
		if end := bytes.IndexByte(part, 0); end >= 0 {
			return n + end + 1, fetched
		}
		n, addr = n+size, addr+uint64(size)
	}
	return 0, overflow
}

// copyField is copyString for a string in the attached event's entry.
func (e *entry) copyField(f *field.Member) (int, fetchError) {
	text := f.Text(e.attached)
	if e.n+len(text)+1 > len(e.buf) {
		return 0, overflow
	}
	n := copy(e.buf[e.n:], text)
	e.buf[e.n+n] = 0
	return n + 1, fetched
}

// copySymbol writes the text of sprint_symbol after the entry. As in the kernel, the
// length does not include the NUL: the next string overwrites it and appears as a part
// of this one.
func (t *Tracer) copySymbol(e *entry, addr uint64) (int, fetchError) {
	sym, offset, ok := t.conf.Symbols.Lookup(addr)
	if e.n+len(sym.Name)+len(sym.Module)+64 > len(e.buf) {
		return 0, overflow
	}
	b := append(output.AppendSprint(e.buf[e.n:e.n], sym, offset, addr, ok), 0)
	return len(b) - 1, fetched
}

// appendArgs is print_probe_args.
func (t *Tracer) appendArgs(b, entry []byte, args []probeArg, base int) []byte {
	for i := range args {
		a := &args[i]
		b = append(append(append(b, ' '), a.name...), '=')
		if a.count == 0 {
			b = t.appendArg(b, entry, a.typ, base+a.offset)
			continue
		}
		for n := range a.count {
			b = append(b, "{,"[min(n, 1)])
			b = t.appendArg(b, entry, a.typ, base+a.offset+n*a.typ.size)
		}
		b = append(b, '}')
	}
	return b
}

func (t *Tracer) appendArg(b, entry []byte, typ *fetchType, at int) []byte {
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
		sym, offset, ok := t.conf.Symbols.Lookup(v)
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

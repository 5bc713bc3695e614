package tracing

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/cmdlines"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// printkFormat is a format or string of a module that its entries point to.
type printkFormat struct {
	addr uint64
	text string
}

// printk is called in handler context for what a module does with the trace buffer, by
// trace_printk, tracing_on and the like: trap.Arg is an abi.Trace* value, trap.Data the record.
func (t *Tracer) printk(trap *abi.Trap) {
	data := trap.Data[field.HeaderSize:]
	if len(data) < 8 {
		return
	}
	id := uint16(typePrint)
	switch trap.Arg {
	case abi.TraceFormat:
		t.addFormat(binary.LittleEndian.Uint64(data), string(data[8:]))
		return
	case abi.TraceOn, abi.TraceOff:
		t.global.setOn(trap.Arg == abi.TraceOn)
		return
	case abi.TraceIsOn:
		on := uint64(0)
		if t.global.On() {
			on = 1
		}
		binary.LittleEndian.PutUint64(data, on)
		return
	case abi.TraceBinary:
		id = typeBprint
	case abi.TraceString:
		id = typeBputs
	case abi.TraceText:
	default:
		return
	}
	a := t.global
	if !a.recording() || !a.has(optPrintk) {
		return
	}
	en := t.newEntry(trap, id)
	if en == nil {
		return
	}
	defer t.discard(trap)
	if en.N+len(data) > len(en.Buf) {
		return
	}
	en.N += copy(en.Buf[en.N:], data)
	a.recordOwn(trap, &en.Entry, cmdlines.PID(trap))
}

// addFormat adds a module's format. A reader has the list as it was.
func (t *Tracer) addFormat(addr uint64, text string) {
	t.formatsMu.Lock()
	defer t.formatsMu.Unlock()
	of := map[uint64]string{}
	if old := t.formats.Load(); old != nil {
		of = maps.Clone(old.text)
	}
	of[addr] = text
	var list []printkFormat
	if old := t.formats.Load(); old != nil {
		list = slices.Clone(old.list)
	}
	t.formats.Store(&printkFormats{of, append(list, printkFormat{addr, text})})
}

// printkFormats are the formats of modules, the oldest first.
type printkFormats struct {
	text map[uint64]string
	list []printkFormat
}

// formatAt returns the text at an address that an entry has.
func (t *Tracer) formatAt(addr uint64) string {
	if f := t.formats.Load(); f != nil {
		return f.text[addr]
	}
	return ""
}

// PrintkFormats returns the lines of printk_formats.
func (t *Tracer) PrintkFormats() []string {
	var lines []string
	f := t.formats.Load()
	if f == nil {
		return nil
	}
	escape := strings.NewReplacer("\n", `\n`, "\t", `\t`, `\`, `\\`, `"`, `\"`)
	for _, f := range f.list {
		lines = append(lines, fmt.Sprintf("0x%x : \"%s\"\n", f.addr, escape.Replace(f.text)))
	}
	return lines
}

// bprintClass is the class of the event bprint: a format and its arguments.
type bprintClass struct{ own }

func (bprintClass) fields() []field.Field {
	return []field.Field{field.New("unsigned long ip", 8, 8, false), field.New("const char * fmt", 16, 8, false), field.New("u32 buf[]", 24, 0, false)}
}

func (bprintClass) printFmt() string { return `"%ps: %s", (void *)REC->ip, REC->fmt` }

// print is trace_bprint_print.
func (c bprintClass) print(a *Array, b, entry []byte) []byte {
	b = a.appendSymbol(b, binary.LittleEndian.Uint64(entry[8:]), a.has(optSymOffset))
	return a.appendBinaryText(append(b, ": "...), entry)
}

// appendBinaryText is trace_print_bprintk_msg_only.
func (a *Array) appendBinaryText(b, entry []byte) []byte {
	f := binaryText{array: a, args: entry[24:]}
	return f.append(b, a.tracer.formatAt(binary.LittleEndian.Uint64(entry[16:])))
}

// raw is trace_bprint_raw.
func (bprintClass) raw(b, entry []byte) []byte {
	return fmt.Appendf(b, ": %x : ", binary.LittleEndian.Uint64(entry[8:]))
}

// bputsClass is the class of the event bputs: a string.
type bputsClass struct{ own }

func (bputsClass) fields() []field.Field {
	return []field.Field{field.New("unsigned long ip", 8, 8, false), field.New("const char * str", 16, 8, false)}
}

func (bputsClass) printFmt() string { return `"%ps: %s", (void *)REC->ip, REC->str` }

// print is trace_bputs_print.
func (bputsClass) print(a *Array, b, entry []byte) []byte {
	b = a.appendSymbol(b, binary.LittleEndian.Uint64(entry[8:]), a.has(optSymOffset))
	return append(append(b, ": "...), a.tracer.formatAt(binary.LittleEndian.Uint64(entry[16:]))...)
}

// binaryText is bstr_printf: it makes text of a format and of arguments that vbin_printf has
// stored, each aligned to its size, but at most to 4.
type binaryText struct {
	array *Array
	args  []byte
	at    int // offset in args
}

// conversion is one of a format's: its flags, width and precision.
type conversion struct {
	flags     string
	width     int
	precision int // -1 if there is none
	length    string
}

// word takes an argument of size bytes; 0 if there are no more.
func (f *binaryText) word(size int) uint64 {
	align := min(size, 4)
	at := (f.at + align - 1) &^ (align - 1)
	f.at = at + size
	if f.at > len(f.args) {
		return 0
	}
	var b [8]byte
	copy(b[:], f.args[at:f.at])
	return binary.LittleEndian.Uint64(b[:])
}

func (f *binaryText) text() string {
	if f.at > len(f.args) {
		return ""
	}
	s, _, _ := bytes.Cut(f.args[f.at:], []byte{0})
	f.at += len(s) + 1
	return string(s)
}

// append adds the text of the format to b.
func (f *binaryText) append(b []byte, format string) []byte {
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			return append(b, format...)
		}
		b = append(b, format[:i]...)
		var c conversion
		format = f.read(&c, format[i+1:])
		if format == "" {
			return b
		}
		verb := format[0]
		format = format[1:]
		switch verb {
		case '%':
			b = append(b, '%')
		case 'p':
			n := 0
			for n < len(format) && (format[n]|0x20 >= 'a' && format[n]|0x20 <= 'z' || format[n] >= '0' && format[n] <= '9') {
				n++
			}
			b = c.pad(b, f.pointer(format[:n]))
			format = format[n:]
		default:
			var ok bool
			if b, ok = f.value(b, c, verb); !ok {
				return b
			}
		}
	}
	return b
}

// read takes flags, width, precision and length, and returns what follows.
func (f *binaryText) read(c *conversion, s string) string {
	number := func() int {
		if strings.HasPrefix(s, "*") {
			s = s[1:]
			return int(int32(f.word(4)))
		}
		n := len(s) - len(strings.TrimLeft(s, "0123456789"))
		v, _ := strconv.Atoi(s[:n]) // no digits: 0
		s = s[n:]
		return v
	}
	rest := strings.TrimLeft(s, "-+ #0")
	c.flags, s = s[:len(s)-len(rest)], rest
	c.width, c.precision = number(), -1
	if c.width < 0 {
		c.width, c.flags = -c.width, c.flags+"-"
	}
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		c.precision = max(number(), 0)
	}
	c.width, c.precision = min(c.width, 1024), min(c.precision, 1024)
	rest = strings.TrimLeft(s, "hlLzt")
	c.length = s[:len(s)-len(rest)]
	return rest
}

// pad writes text in the conversion's width.
func (c *conversion) pad(b []byte, text string) []byte {
	fill := strings.Repeat(" ", max(c.width-len(text), 0))
	if strings.Contains(c.flags, "-") {
		return append(append(b, text...), fill...)
	}
	return append(append(b, fill...), text...)
}

// pointer is the text of a %p with its letters: of an address for those that need nothing
// else, or what was stored.
func (f *binaryText) pointer(letters string) string {
	if letters != "" && !strings.ContainsAny(letters[:1], "SsxKe") {
		return f.text()
	}
	addr := f.word(8)
	switch {
	case letters == "":
		if addr != 0 {
			addr = uint64(f.array.tracer.conf.Machine.HashPtr(addr))
		}
		return fmt.Sprintf("%016x", addr)
	case letters[0] == 'S':
		return string(f.array.appendSymbol(nil, addr, true))
	case letters[0] == 's':
		text := string(f.array.appendSymbol(nil, addr, false))
		if sym, _, ok := f.array.tracer.conf.Symbols.Lookup(addr); ok && sym.Module != "" && !strings.HasSuffix(text, "]") {
			text += " [" + sym.Module + "]"
		}
		return text
	}
	return fmt.Sprintf("%016x", addr)
}

// value writes a character, a string or a number. It returns false for anything else.
func (f *binaryText) value(b []byte, c conversion, verb byte) ([]byte, bool) {
	size := 4
	switch {
	case verb == 'c' || c.length == "hh":
		size = 1
	case c.length == "h":
		size = 2
	case c.length != "":
		size = 8
	}
	switch verb {
	case 'c':
		return c.pad(b, string([]byte{byte(f.word(1))})), true
	case 's':
		s := f.text()
		if c.precision >= 0 {
			s = s[:min(len(s), c.precision)]
		}
		return c.pad(b, s), true
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return c.number(b, f.word(size), size, verb), true
	}
	return b, false
}

// number writes an integer of size bytes.
func (c *conversion) number(b []byte, v uint64, size int, verb byte) []byte {
	flags, signed := c.flags, verb == 'd' || verb == 'i'
	if !signed {
		flags = strings.NewReplacer("+", "", " ", "").Replace(flags)
	}
	layout := "%" + flags
	if c.width > 0 {
		layout += strconv.Itoa(c.width)
	}
	if c.precision >= 0 {
		layout += "." + strconv.Itoa(c.precision)
	}
	if signed {
		return fmt.Appendf(b, layout+"d", int64(v)<<(64-8*size)>>(64-8*size))
	}
	return fmt.Appendf(b, layout+strings.Replace(string(verb), "u", "d", 1), v)
}

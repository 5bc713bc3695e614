package grammar

import (
	"fmt"
	"strconv"
)

// Operations of the table of values.
const (
	opSetup = "setup" // set the contents of kprobe_events
	opOn    = "on"    // arm events/kprobes/a
	opRead  = "read"  // read(2) with this count; the answer is what the event recorded
	opWrite = "write" // write(2) of the data to a file that accepts anything; the answer is what the event recorded
)

// values returns cases with probes on calls whose registers and user memory are
// known.
func values(g *gen) []Case {
	var cases []Case
	for range 150 {
		cases = append(cases, g.valuesOf("p:a vfs_read"+g.one("", "", "+5"), g.numberSource, func() Step {
			return Step{Op: opRead, Data: strconv.Itoa(g.one2(1, 1000))}
		}))
	}
	for range 60 {
		cases = append(cases, g.valuesOf("r:a vfs_read", func() string { return "$retval:" + g.goodType() }, func() Step {
			return Step{Op: opRead, Data: strconv.Itoa(g.one2(1, 1000))}
		}))
	}
	for range 150 {
		cases = append(cases, g.valuesOf("p:a vfs_write"+g.one("", "", "+5"), g.memorySource, func() Step {
			return Step{Op: opWrite, Data: g.bytes(g.one2(24, 60))}
		}))
	}
	return cases
}

// valuesOf is a case of a probe with some arguments, and two hits.
func (g *gen) valuesOf(head string, source func() string, hit func() Step) Case {
	for range g.one2(1, 5) {
		head += " " + source()
	}
	return Case{[]Step{{Op: opSetup, Data: head}, {Op: opOn}, hit(), hit()}}
}

// bytes is text as programs write it, and sometimes bytes that are not text.
func (g *gen) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.one2(' '+1, '~'))
		if g.percent(12) {
			b[i] = byte(g.IntN(256))
		}
		if b[i] == '\n' {
			b[i] = 0
		}
	}
	return string(b)
}

// numberSource is a fetch argument that has the count of a read, or is a constant.
func (g *gen) numberSource() string {
	source := g.one("%dx", "%dx", "$arg3", "$arg3", "$comm", `\`+strconv.Itoa(g.IntN(1<<20)), fmt.Sprintf(`\%#x`, g.Uint64()), `\-`+strconv.Itoa(g.IntN(1<<20)), `\"`+g.word("a str x_y, (fault) %d")+`"`)
	if source[0] == '$' && source[1] == 'c' || len(source) > 1 && source[1] == '"' {
		return source + g.one("", ":string")
	}
	if source[:1] == "$" {
		source = "$arg3" // at +5 the definition is refused: the case shows that too
	}
	return source + ":" + g.goodType()
}

// memorySource is a fetch argument that reads the data of a write.
func (g *gen) memorySource() string {
	at := g.one("+", "+u") + strconv.Itoa(g.IntN(16)) + "(" + g.one("%si", "%si", "$arg2") + ")"
	switch g.IntN(4) {
	case 0:
		return at + ":" + g.word("string ustring string ustring")
	case 1:
		return at + ":" + g.goodNumberType() + "[" + strconv.Itoa(g.one2(1, 4)) + "]"
	case 2:
		return "+0(+0(%si)):" + g.word("string ustring") // a fault, since this is not an address; with numbers it would show the buffer's old contents
	}
	return at + ":" + g.goodNumberType()
}

func (g *gen) goodType() string {
	if g.percent(10) {
		return g.word("symbol symstr")
	}
	return g.goodNumberType()
}

func (g *gen) goodNumberType() string {
	if g.percent(70) {
		return g.word("u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64")
	}
	bits := 8 << g.IntN(4)
	width := g.one2(1, bits)
	return fmt.Sprintf("b%d@%d/%d", width, g.IntN(bits-width+1), bits)
}

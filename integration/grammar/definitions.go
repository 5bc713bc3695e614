package grammar

import (
	"fmt"
	"strings"
)

// Operations of the table of definitions.
const (
	opKprobe  = "kprobe"  // write to kprobe_events, opened to append
	opTrunc   = "trunc"   // write to kprobe_events, opened with O_TRUNC
	opDynamic = "dynamic" // write to dynamic_events, opened to append
	opState   = "state"   // what the files show in the end
)

// definitions are more than 2,000 definitions, valid ones and broken ones.
func definitions(g *gen) []Case {
	var cases []Case
	add := func(n int, make func() []Step) {
		for range n {
			cases = append(cases, Case{append(make(), Step{Op: opState})})
		}
	}
	single := func(make func() string) func() []Step {
		return func() []Step { return []Step{{Op: opKprobe, Data: make()}} }
	}
	add(500, single(g.definition))
	add(350, single(g.argument))
	add(350, single(g.brokenArgument))
	add(200, single(g.brokenHead))
	add(100, single(g.brokenPlace))
	add(60, single(g.long))
	add(120, g.lines)
	add(180, g.sequence)
	return cases
}

// functions are in both kernels; at +0 and +5 they can be probed.
const functions = "vfs_read vfs_write vfs_open dput kfree getname filp_close kernel_clone do_exit tracefs_create_dir inet_csk_accept iput"

// definition is a whole one, now and then with one thing wrong.
func (g *gen) definition() string {
	words := append([]string{g.head(), g.place()}, g.args(g.IntN(4))...)
	return g.join(words)
}

// argument is a definition with one argument.
func (g *gen) argument() string {
	head := g.one("p", "p", "p:a", "r", "r:a")
	return head + " " + g.one("vfs_read", "vfs_read", "vfs_read", "vfs_read+5") + " " + g.arg()
}

// brokenArgument is a definition with changed bytes.
func (g *gen) brokenArgument() string {
	return g.one("p:a vfs_read ", "p:a vfs_read ", "r:a vfs_read ", "p:a vfs_write+5 %ax ") + g.mutate(g.arg(), "$%@+-(),:[]{}=\\\"'/#;.!*x09baus_ \t\r\x00\xa0\xff")
}

func (g *gen) brokenHead() string {
	return g.mutate(g.head(), ":/.-_!#;,=$%@+ \t\r09ax\x00\xa0\xff") + g.one(" ", " ", "  ", "\t", "") + g.word(functions) + g.one("", "", " %ax", " a=%ax")
}

func (g *gen) brokenPlace() string {
	return g.one("p", "r", "p:a") + " " + g.mutate(g.word(functions)+g.one("", "", "%return", "+0%return"), ":/.%+-$@!#~,^ \t\x00\xa0\xff")
}

// join joins words to a line, with the blanks that people and programs write.
func (g *gen) join(words []string) string {
	line := ""
	for i, w := range words {
		if i > 0 {
			line += g.blank()
		}
		line += w
	}
	if g.percent(4) {
		line = g.one(" ", "\t", "  ", "\v") + line
	}
	if g.percent(12) {
		line += g.one(" ", "\n", "\n\n", " # why", "#x", "\r\n", "\t", " \n", ";", "\x00", "\n#\n")
	}
	return line
}

func (g *gen) blank() string {
	if g.percent(90) {
		return " "
	}
	return g.one("  ", "\t", " \t ", "\v", "\f", "\r", "\xa0")
}

// head is the word before the probe's place.
func (g *gen) head() string {
	kind, maxactive := "p", ""
	if g.percent(35) {
		kind = "r"
	}
	if g.percent(3) {
		kind = g.word("pp pr rp P R q e s u f t - ! : p: r: # -p")
	}
	if kind == "r" && g.percent(40) || g.percent(3) {
		maxactive = g.word("1 2 10 16 4095 4096 4097 0 0x10 010 -1 +5 99999999999 1a 5. 00001 4294967296 x")
	}
	if g.percent(25) {
		return kind + maxactive
	}
	return kind + maxactive + ":" + g.name()
}

// name is GROUP/EVENT in one of its forms.
func (g *gen) name() string {
	event, group := g.identifier(), g.identifier()
	switch g.IntN(10) {
	case 0:
		return group + "/" + event
	case 1:
		return group + "/"
	case 2:
		return group + "." + event
	case 3:
		return group + g.word("/ . // ./ /. : -") + event + g.one("", "/", ".", "/x", ".x", ":")
	}
	return event
}

func (g *gen) identifier() string {
	switch g.IntN(14) {
	case 0:
		return g.word("1a a-b a+b -a a: %a $a @a é _ __ a1_B9 A a=b a,b a# \"a\" enable filter x/y 0 a;b a\\b")
	case 1:
		return strings.Repeat(g.one("a", "_", "Z"), g.one2(60, 68))
	}
	return g.word("a b c ev my_event e1 _x Probe p r group kprobes")
}

// one2 is a number from low to high.
func (g *gen) one2(low, high int) int { return low + g.IntN(high-low+1) }

// place is the place of a probe.
func (g *gen) place() string {
	switch g.IntN(20) {
	case 0:
		return g.word("notthere not_there+5 0x 0xzz vfs_ -vfs_read +5 %return 12ab = a=%ax $retval _sdata linux_proc_banner init_task name_show init_once " +
			"do_int3 asm_exc_int3 schedule _text _etext jiffies name_show+5 notthere%return")
	case 1:
		return g.word("nomod:func nomod:func+4 nomod:func%return nomod: :vfs_read nomod:a.b nomod:func+x nomod:func-1 a:b:c vmlinux:vfs_read "+
			"/bin/sh:0x10 a/b:1 a/b kernel:vfs_read nomod:func+4%return") + g.one("", "", "+0", "+1")
	case 2:
		return g.word(functions) + g.word("+1 +2 +3 +4 +0x1 +0x4 +01 +04 -1 -5 -0 + - +-5 ++5 +5+5 +5-5 +x +0x +08 +5x +4294967296 "+
			"-4294967291 +18446744073709551616 +0x100000000 +9223372036854775808 -9223372036854775808 +99999999999999999999 +268435456 +4294967295")
	case 3:
		return g.word(functions) + g.one("", "+0", "+5", "+1", "+x") + g.word("%return %Return %ret % %% %return+0 %returnx %return%return +0%return %symbol")
	case 4:
		return g.word("0 0x0 1234 00 0x1 -1 +1234 0xffffffff00000000 0xffffffffffffffff 18446744073709551615 18446744073709551616 0x10000000000000000 "+
			"0x1000 ffffffff81000000 0Xffff") + g.one("", "", "", "+5", "%return")
	case 5, 6, 7, 8:
		return g.word(functions) + g.word("+5 +0x5 +05 +0X5 +0 +0x0 +00 +000005 -0")
	}
	return g.word(functions)
}

func (g *gen) args(n int) []string {
	var args []string
	for range n {
		args = append(args, g.arg())
	}
	return args
}

// arg is [NAME=]FETCHARG[:TYPE].
func (g *gen) arg() string {
	arg := g.fetch(0)
	if g.percent(45) {
		arg = g.argName() + "=" + arg
	}
	if g.percent(55) {
		arg += ":" + g.typ()
	}
	return arg
}

func (g *gen) argName() string {
	switch g.IntN(10) {
	case 0:
		return g.word("arg1 arg2 arg3 common_pid common_type common_flags common_preempt_count common_tgid common_cpu __probe_ip __probe_func __probe_ret_ip " +
			"1x x-y x.y x/y $x %x x: _ __ é field count COMM CPU comm cpu")
	case 1:
		return strings.Repeat("n", g.one2(30, 34))
	case 2:
		return g.one("", "", "=", " ", "a=b", "\"a\"")
	}
	return g.word("x y z a b val path len ret flags2 X9 _n")
}

const registers = "%di %si %dx %cx %r8 %r9 %r10 %r11 %r12 %r13 %r14 %r15 %ax %bx %bp %sp %ip %flags %cs %ss %orig_ax"

// fetch is a FETCHARG. depth is the number of enclosing brackets.
func (g *gen) fetch(depth int) string {
	switch g.IntN(16) {
	case 0, 1, 2:
		return g.word(registers)
	case 3:
		return g.word("%rax %eax %al %rdi %r16 %r7 %gs %fs %ds %es %DI % %%di %ax5 %ax+5 %eflags %rip %pc")
	case 4:
		return g.word("$stack $stack0 $stack1 $stack10 $stack0x1 $stack511 $stack512 $stack2047 $stack2048 $stack2049 $stack-1 $stackx $stack1x $Stack $stack+1 " +
			"$stack99999999999999999999 $stack01")
	case 5:
		return g.word("$arg1 $arg2 $arg6 $arg7 $arg10 $arg0 $arg $arg-1 $argx $arg1x $arg2048 $arg2049 $arg4096 $arg01 $arg0x1 $args $arg* $arg99999999999999999999")
	case 6:
		return g.word("$retval $retval $retval0 $Retval $ret $retva $ $$ $1 $x $nosuch $common_pid $stac")
	case 7:
		return g.word("$comm $comm $COMM $Comm $comm1 $com $commx")
	case 8:
		return "@" + g.word("linux_proc_banner linux_proc_banner init_task jiffies vfs_read _sdata nosym linux_proc_banner. mod:sym :sym a:b") +
			g.one("", "", "", "+0", "+8", "-8", "+0x10", "+x", "+", "-", "+4+4", "+99999999999999999999", "-9223372036854775808")
	case 9:
		return g.word("@0xffffffff82000000 @0x0 @0 @1234 @0xzz @12ab @ @@ @+0 @+10 @+x @-5 @-x @18446744073709551615 @18446744073709551616 @0x @$stack @%ax @(init_task)")
	case 10:
		return `\` + g.one(g.number(), "-"+g.number(), "+"+g.number(), `"str"`, `"a"b"`, `"`, `""`, `"abc`, "", "x", `\`, `\1`, "'a'", `"`+strings.Repeat("s", g.one2(50, 64))+`"`)
	case 11:
		return g.word("ax stack retval comm 5 0x5 vfs_read (%ax) #x = ! * & ~ [0] a.b +x -x + - +0 -0 +u +u0 ++0(%ax) +-8(%ax) -+8(%ax) +0(%ax))")
	}
	if depth > 3 && g.percent(70) {
		return g.word(registers)
	}
	return g.deref(depth)
}

// deref is +|-[u]OFFSET(FETCHARG).
func (g *gen) deref(depth int) string {
	if depth == 0 && g.percent(6) { // very deep
		n := g.one2(9, 16)
		return strings.Repeat(g.one("+0(", "-8(", "+u0("), n) + "%ax" + strings.Repeat(")", n)
	}
	offset := g.one("0", "4", "8", "16", "0x10", g.number(), g.number())
	d := g.one("+", "+", "+", "-", "+u", "-u") + offset + "(" + g.fetch(depth+1) + ")"
	if g.percent(6) {
		return g.one(strings.TrimSuffix(d, ")"), d+")", strings.Replace(d, "(", "", 1), strings.Replace(d, "(", "((", 1), d+"x", d+"+1")
	}
	return d
}

// typ is a TYPE, with or without an array.
func (g *gen) typ() string {
	t := g.word("u8 u16 u32 u64 s8 s16 s32 s64 x8 x16 x32 x64 u8 s32 x64 string string ustring symbol symstr")
	switch g.IntN(12) {
	case 0, 1:
		t = g.bitfield()
	case 2:
		t = g.word("char u s x u7 u128 s4 x1 U8 u08 string8 str ustr symbol8 b u8u8 int long hex file u8; x64, string: %pd u8:u8 ptr")
	case 3:
		t = ""
	}
	if g.percent(25) {
		t += g.array()
	}
	return t
}

func (g *gen) bitfield() string {
	size := g.one("8", "16", "32", "64", "64", "32", "0", "12", "128", "", "0x10", "010", "8x", "x")
	width := g.one("1", "2", "4", "8", "16", "32", "63", "64", "65", "0", "0x4", "04", "", "x", "-1")
	offset := g.one("0", "0", "1", "3", "4", "8", "31", "32", "60", "64", "0x8", "", "x", "-1", "99999999999")
	b := "b" + width + g.one("@", "@", "@", "@", "@", "@", "@", "/", ":", "") + offset + g.one("/", "/", "/", "/", "/", "/", "/", "@", "") + size
	if g.percent(5) {
		b += g.one("/8", "@1", "x", " ")
	}
	return b
}

func (g *gen) array() string {
	n := g.one("1", "2", "3", "4", "8", "16", "63", "64", "65", "0", "-1", "+2", "0x4", "010", "x", "", "2x", " 2", "99999999999", "4294967296", "1 ")
	return g.one("[", "[", "[", "[", "[", "[", "[[", "(", "]", "") + n + g.one("]", "]", "]", "]", "]", "]", "", "]x", "][2]", "] ", ")")
}

// long is a line at one of the limits: number or length of arguments, names, strings,
// length of the line.
func (g *gen) long() string {
	switch g.IntN(6) {
	case 0: // the maximum number of arguments, or some more
		line := "p:a vfs_read"
		for i := range g.one2(124, 132) {
			line += fmt.Sprintf(" %s", g.one("%ax", "%di", fmt.Sprintf("n%d=%%si:u8", i)))
		}
		return line + g.one("", "", " bad")
	case 1: // a long line
		n := g.one2(4085, 4100)
		line := "p:a vfs_read"
		return line + strings.Repeat(" ", max(n-len(line)-4, 0)) + " %ax"
	case 2:
		n := g.one2(4085, 4100)
		return g.one("p:b vfs_write\n", "") + "p:a vfs_read " + strings.Repeat(g.one("#", " ", "#"), n) + g.one("", "\n", "\np:c vfs_open")
	case 3: // a long argument
		return "p:a vfs_read " + g.one("", "x=") + "+0(" + strings.Repeat("0", g.one2(50, 64)) + ")"
	case 4:
		return "p:a vfs_read " + g.one("", "x=") + `\"` + strings.Repeat("s", g.one2(56, 64)) + `"` + g.one("", ":string")
	}
	return g.word("p p:a r") + " " + strings.Repeat("f", g.one2(50, 140)) + g.one("", "+5", "%return", ":f", "+x")
}

// lines is several definitions in one write, or one definition in several writes.
func (g *gen) lines() []Step {
	var lines []string
	for range g.one2(2, 5) {
		lines = append(lines, g.line())
	}
	text := strings.Join(lines, g.one("\n", "\n", "\n", "\r\n", "\n\n", ";", "\n \n", "\n#\n", "\x00\n"))
	if g.percent(50) {
		text += "\n"
	}
	op := g.one(opKprobe, opKprobe, opKprobe, opTrunc, opDynamic)
	if g.percent(15) { // a line does not continue in the next write
		cut := g.IntN(len(text))
		return []Step{{Op: op, Data: text[:cut]}, {Op: op, Data: text[cut:]}}
	}
	return []Step{{Op: op, Data: text}}
}

// line is a short definition, a deletion, a comment or nothing.
func (g *gen) line() string {
	name := g.word("a b c g/a g/b")
	switch g.IntN(12) {
	case 0:
		return g.one("", " ", "#", "# p:x vfs_read", "\t#", "x", "p", "-", "-:")
	case 1, 2:
		return g.deletion()
	case 3:
		return "r:" + name + " " + g.word(functions)
	case 4:
		return "p:" + name + " " + g.word("vfs_read vfs_write notthere nomod:f vfs_read+1") + g.one(" #c", "", " bad", " x=%ax")
	}
	return "p:" + name + " " + g.word("vfs_read vfs_write vfs_open") + g.one("", "", "", "+5", " %ax", " x=%ax", " x=%bx", " x=%ax:u8", " y=%ax", " $comm", " x=%ax y=%bx")
}

// deletion is a line that deletes.
func (g *gen) deletion() string {
	name := g.word("a b c g/a g/b kprobes/a kprobes/ g/ none none/a g.a g a/ /a / a/b/c * a* -a A kprobes")
	tail := g.one("", "", "", "", " vfs_read", " vfs_write", " vfs_read+5", " vfs_read x=%ax", " vfs_read arg1=%ax", " x=%ax", " extra words", " #", " vfs_read %ax", " vfs_read ")
	return g.word("-: -: -: -: -: -: - -p: -r: -10: !p: !r: ! !: -:: :") + name + tail
}

// sequence is definitions and deletions of a few names, one after the other.
func (g *gen) sequence() []Step {
	var steps []Step
	for range g.one2(3, 8) {
		steps = append(steps, Step{Op: g.one(opKprobe, opKprobe, opKprobe, opKprobe, opKprobe, opKprobe, opDynamic, opDynamic, opTrunc), Data: g.line()})
	}
	return steps
}

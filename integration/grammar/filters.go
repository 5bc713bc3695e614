package grammar

import "strings"

// opFilter writes to the file filter of events/kprobes/a, and then makes reads with
// the counts in readCounts. The answer tells which reads were recorded.
const opFilter = "filter"

// filtered is the event that filters are tested with. It has fields of all kinds.
const filtered = `p:a vfs_read n=$arg3:u32 s=$arg3:s8 h=$arg3:s16 big=$arg3:x64 bit=$arg3:b4@2/16 c=$comm t=\"hello" arr=+0(%si):u8[2] sym=%ip:symbol neg=\-5:s32`

// readCounts are the counts of the reads that filters are tested with.
var readCounts = [...]int{1, 2, 5, 10, 100, 127, 128, 200, 255, 256, 300}

// filters are more than 500 filters.
func filters(g *gen) []Case {
	var cases []Case
	add := func(n int, make func() string) {
		for range n {
			steps := []Step{{Op: opSetup, Data: filtered}, {Op: opOn}, {Op: opFilter, Data: make()}}
			cases = append(cases, Case{steps})
		}
	}
	const alphabet = "()&|!=<>~\"'* \t09xnsc_-+.,#@\n\x00"
	add(130, func() string { return g.predicate() })
	add(150, func() string { return g.expression(0) })
	add(120, func() string { return g.mutate(g.predicate(), alphabet) })
	add(130, func() string { return g.mutate(g.expression(0), alphabet) })
	return cases
}

// predicate is FIELD OP VALUE.
func (g *gen) predicate() string {
	if g.percent(35) {
		return g.textField() + g.space() + g.word("== != ~ ~ ~ < & = =~") + g.space() + g.text()
	}
	field := g.word("n n n s s h big bit sym neg common_pid common_type common_flags common_preempt_count __probe_ip CPU cpu common_cpu arr")
	if g.percent(5) {
		field = g.word("nosuch c t N n1 n.x 0 1 - common comm COMM __probe_func common_tgid n[0] arr[0] *")
	}
	op := g.word("== == != < <= > >= & &")
	if g.percent(6) {
		op = g.word("= === !== =! <> => =< ! && || ~ !~ & | ^ + - << >>")
	}
	value := g.one("1", "2", "5", "10", "100", "-1", "127", "128", "-128", "200", "-56", "255", "256", "0x80", "0", "010", "0xff", "-5", "300", g.number())
	if g.percent(6) {
		value = g.one(`"5"`, "'x'", "", "x", "5x", "5.0", "-", "--5", "+5", "5 5", "1-", "(5)", "n", "$n", "~5", "!5", "0x", "5u", "5 # x", "5;")
	}
	return field + g.space() + op + g.space() + value
}

func (g *gen) textField() string { return g.word("c t c t COMM comm c t n") }

// text is a quoted value, mostly a pattern for "player" or "hello".
func (g *gen) text() string {
	text := g.one("player", "hello", "play*", "*er", "*lay*", "h?llo", "h*o", "[a-h]ello", "[!h]ello", "*", "", "**", "*l*l*", "!hello", "!*lo", "play", "hell", "Hello", `h\ello`, `\*`,
		"he[l]lo", "he[lo", "*ll?", "?*", "hello*", "*hello", "pl*y*r", "p[k-m]ayer", "*[r]", "a b", strings.Repeat("x", g.one2(250, 260)), "h*", "?????", "p??y*")
	quote := g.one(`"`, `"`, `"`, "'")
	if g.percent(8) {
		return g.one(text, quote+text, text+quote, `"`+text+`'`, quote+quote, quote+text+quote+quote, "5")
	}
	return quote + text + quote
}

func (g *gen) space() string {
	if g.percent(70) {
		return " "
	}
	return g.one("", "", "  ", "\t", "\n")
}

// expression joins predicates.
func (g *gen) expression(depth int) string {
	var b strings.Builder
	for i := range g.one2(1, 4-min(depth, 2)) {
		if i > 0 {
			op := g.one("&&", "||")
			if g.percent(5) {
				op = g.one("&", "|", "and", ",", "&&&", "|||", "&& ||", "!", "")
			}
			b.WriteString(g.space() + op + g.space())
		}
		b.WriteString(g.one("", "", "", "", "", "!", "! ", "!!"))
		if depth < 4 && g.percent(35) {
			b.WriteString("(" + g.one("", " ") + g.expression(depth+1) + g.one("", " ") + ")")
		} else {
			b.WriteString(g.predicate())
		}
	}
	if g.percent(4) {
		b.WriteString(g.one(" ", "\n", " &&", "||", "!", "(", ")", "()", " # x"))
	}
	return b.String()
}

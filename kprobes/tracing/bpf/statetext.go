package bpf

import (
	"fmt"
	"math"
	"strings"
)

// text is print_verifier_state: what registers and slots of a function hold, all or those that were looked at since the last time.
func (v *verifier) text(f *function, frame int, all bool) string {
	var b strings.Builder
	if frame > 0 {
		fmt.Fprintf(&b, " frame%d:", frame)
	}
	for r := range f.regs {
		reg := &f.regs[r]
		if reg.typ != regNone && (all || v.shownRegs&(1<<r) != 0) {
			fmt.Fprintf(&b, " R%d%s=%s", r, reg.live, v.valueText(reg, frame))
		}
	}
	for n := 0; n < len(f.stack); n++ {
		sl := &f.stack[n]
		if sl.kind == ([8]slotKind{}) || !all && v.shownStack&(1<<n) == 0 {
			continue
		}
		if v.v612 && sl.kind[7] == slotDynptr && n+1 < len(f.stack) { // the second slot stands for both
			n++
			sl = &f.stack[n]
		}
		fmt.Fprintf(&b, " fp%d%s=%s", -8*(n+1), sl.live, v.slotText(sl, frame))
	}
	for n, r := range f.refs {
		if n == 0 {
			fmt.Fprintf(&b, " refs=%d", r.id)
		} else {
			fmt.Fprintf(&b, ",%d", r.id)
		}
	}
	if f.callback {
		b.WriteString(" cb")
	}
	if f.async > 0 {
		b.WriteString(" async_cb")
	}
	return b.String()
}

// valueText returns what a register holds in a function, in the release's words.
func (v *verifier) valueText(n *value, frame int) string {
	if v.v612 {
		return n.text612(frame)
	}
	return n.text()
}

// slotText returns what a slot holds.
func (v *verifier) slotText(sl *slot, frame int) string {
	if v.v612 {
		return sl.text612(frame)
	}
	return sl.text()
}

// String returns the suffix of a register.
func (l liveness) String() string {
	text := ""
	if l != 0 {
		text = "_"
	}
	if l&liveRead != 0 {
		text += "r"
	}
	if l&liveWritten != 0 {
		text += "w"
	}
	if l&liveDone != 0 {
		text += "D"
	}
	return text
}

// text returns what a slot holds: a number, the type of a pointer, or what each byte is.
func (sl *slot) text() string {
	if !sl.spilled() {
		text := make([]byte, 8)
		for n, k := range sl.kind {
			text[n] = "?rm0d"[k]
		}
		return string(text)
	}
	if sl.typ != regScalar {
		return regNames[sl.typ]
	}
	text := ""
	if sl.precise {
		text = "P"
	}
	if sl.isConst() {
		text += fmt.Sprint(int64(sl.bits))
	}
	return text
}

// text returns what a register holds.
func (v *value) text() string {
	text := ""
	if v.typ == regScalar && v.precise {
		text = "P"
	}
	switch {
	case v.typ == regScalar && v.isConst():
		return text + fmt.Sprint(int64(v.bits))
	case v.typ == regStack && v.isConst():
		return fmt.Sprint(regNames[v.typ], int64(v.bits)+int64(v.off))
	}
	return text + v.typeName() + "(" + strings.Join(v.facts(), ",") + ")"
}

// typeName returns the type of a register, with the name of the structure that it points to.
func (v *value) typeName() string {
	if v.to != nil {
		return regNames[v.typ] + v.to.TypeName()
	}
	return regNames[v.typ]
}

func (v *value) facts() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if v.id != 0 {
		add("id=%d", v.id)
	}
	if v.ref != 0 {
		add("ref_obj_id=%d", v.ref)
	}
	if v.typ != regScalar {
		add("off=%d", v.off)
	}
	switch v.typ {
	case regMap, regMapValue, regMapValueOrNull, regKey:
		add("ks=%d,vs=%d", v.m.key, v.m.value)
	default:
	}
	if v.isConst() {
		add("imm=%x", v.bits)
		return all
	}
	return append(all, v.bounds()...)
}

// bounds returns the bounds that say more than others.
func (v *value) bounds() (all []string) {
	add := func(say bool, format string, n any) {
		if say {
			all = append(all, fmt.Sprintf(format, n))
		}
	}
	add(v.smin != int64(v.umin) && v.smin != math.MinInt64, "smin=%d", v.smin)
	add(v.smax != int64(v.umax) && v.smax != math.MaxInt64, "smax=%d", v.smax)
	add(v.umin != 0, "umin=%d", v.umin)
	add(v.umax != math.MaxUint64, "umax=%d", v.umax)
	add(v.tnum != anyNumber, "var_off=%v", v.tnum)
	add(int64(v.low.smin) != v.smin && v.low.smin != math.MinInt32, "s32_min=%d", v.low.smin)
	add(int64(v.low.smax) != v.smax && v.low.smax != math.MaxInt32, "s32_max=%d", v.low.smax)
	add(uint64(v.low.umin) != v.umin && v.low.umin != 0, "u32_min=%d", int32(v.low.umin)) // Linux prints them with a sign
	add(uint64(v.low.umax) != v.umax && v.low.umax != math.MaxUint32, "u32_max=%d", int32(v.low.umax))
	return all
}

// showAll has the next line with a state say all of it, and seen says that all of it was said.
func (v *verifier) showAll() { v.shownRegs, v.shownStack = math.MaxUint32, math.MaxUint64 }

func (v *verifier) shown() bool {
	return v.shownRegs|uint32(v.shownStack)|uint32(v.shownStack>>32) != 0
}

// logState says what has changed: at the end of the instruction's line, or in a line of its own if something was said since.
func (v *verifier) logState(s *state) {
	const column, tab = 40, 8
	l := v.log
	text := v.text(s.top(), len(s.frames)-1, false)
	if l.insnEnd > 0 && l.insnEnd == len(l.text) {
		l.reset(l.insnEnd - 1)
		pad := max(l.insnLen+tab/2, column)
		pad = (pad+tab-1)/tab*tab - l.insnLen
		l.printf("%*s%s\n", pad, ";", text)
	} else {
		l.printf("%d:%s\n", v.at, text)
	}
	v.shownRegs, v.shownStack = 0, 0
}

// logInsn says which instruction follows.
func (v *verifier) logInsn(s *state) {
	if !v.log.verbose() {
		return
	}
	if v.log.detailed() && v.arrived {
		v.log.printf("\nfrom %d to %d:%s\n", v.prev, s.pc, v.text(s.top(), len(s.frames)-1, true))
		v.arrived = false
	}
	if v.shown() {
		v.logState(s)
	}
	v.line(s.pc)
	begin := len(v.log.text)
	v.log.printf("%d: %s\n", s.pc, v.insnText(s.pc))
	v.log.insnEnd = len(v.log.text)
	v.log.insnLen = v.log.insnEnd - begin
}

// insnText returns an instruction with its code.
func (v *verifier) insnText(n int) string {
	i := v.prog.insns[n]
	var next insn
	if i.wideLoad() {
		next = v.prog.insns[n+1]
		if wide, ok := v.prog.wide[n]; ok && i.src != pseudoFunc {
			i.imm, next.imm = int32(wide), int32(wide>>32)
		}
	}
	text := i.text(next)
	if v.v612 {
		text = i.text612(next)
	}
	if i.code == classJMP|jmpCALL && i.src == pseudoKfuncCall {
		text = fmt.Sprintf("call %s#%d", v.kernelFunctionName(i), i.imm)
	}
	if strings.HasPrefix(text, "BUG_") {
		return text
	}
	return fmt.Sprintf("(%02x) %s", i.code, text)
}

// line says which line of the source an instruction is of, if it is another one than the last: verbose_linfo.
func (v *verifier) line(insn int) {
	p := v.prog
	if p.lines.size == 0 || v.log.off() {
		return
	}
	n := p.lines.count() - 1
	for n > 0 && int(p.lines.word(n, 0)) > insn {
		n--
	}
	const columnBits = 10
	file, number := p.lines.word(n, 4), p.lines.word(n, 12)>>columnBits
	if v.lineSaid == n+1 || v.v612 && v.lineSaid > 0 && file == p.lines.word(v.lineSaid-1, 4) && number == p.lines.word(v.lineSaid-1, 12)>>columnBits {
		return
	}
	v.lineSaid = n + 1
	text := strings.TrimLeft(p.btf.types.nameAt(p.lines.word(n, 8)), " \t\n\v\f\r")
	if !v.v612 {
		v.log.printf("; %s\n", text)
		return
	}
	name := ""
	if file != 0 {
		name = p.btf.types.nameAt(file)
	}
	v.log.printf("; %s @ %s:%d\n", text, name[strings.LastIndexByte(name, '/')+1:], number)
}

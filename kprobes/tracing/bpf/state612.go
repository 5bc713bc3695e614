package bpf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The states of registers and slots in 6.12's words: print_verifier_state.

// unsignedText and signedText print a number, in base 16 if it is not small.
func unsignedText(n uint64) string {
	if n <= math.MaxUint16 {
		return strconv.FormatUint(n, 10)
	}
	return fmt.Sprintf("%#x", n)
}

func signedText(n int64) string {
	if isPlain(n) {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%#x", uint64(n))
}

// isPlain reports whether a number with a sign is printed in base 10.
func isPlain(n int64) bool { return n >= -math.MaxInt16-1 && n <= math.MaxInt16 }

// text612 returns what each byte is, with the number or pointer that is stored in some.
func (sl *slot) text612(frame int) string {
	text := ""
	for _, k := range sl.kind {
		if sl.spilled() && k == slotSpill {
			return text + sl.value.text612(frame)
		}
		text += string("?rm0d"[k])
	}
	if sl.kind[7] == slotDynptr {
		return sl.dynptrText()
	}
	return text
}

// dynptrText returns what a dynptr is of.
func (sl *slot) dynptrText() string {
	switch {
	case sl.dynptr != dynptrRing:
		return fmt.Sprintf("dynptr_local(id=%d)", sl.id)
	case sl.ref != 0:
		return fmt.Sprintf("dynptr_ringbuf(id=%d,ref_id=%d)", sl.id, sl.ref)
	}
	return fmt.Sprintf("dynptr_ringbuf(ref_id=%d)", sl.id)
}

// text612 returns what a register holds in a function.
func (v *value) text612(frame int) string {
	precise := ""
	if v.typ == regScalar && v.precise {
		precise = "P"
	}
	name := v.typeName612()
	switch {
	case v.typ == regScalar && v.isConst():
		return precise + signedText(int64(v.bits))
	case v.typ == regStack:
		if int(v.frame) != frame {
			name += fmt.Sprintf("[%d]", v.frame)
		}
		if v.isConst() {
			return name + signedText(int64(v.bits)+int64(v.off))
		}
	}
	return precise + name + "(" + strings.Join(v.facts612(), ",") + ")"
}

// typeName returns the name of a type, as the release does.
func (v *verifier) typeName(t regType) string {
	if v.v612 {
		reg := value{typ: t}
		return reg.typeName612()
	}
	return regNames[t]
}

// bitsText returns what is known of a number's bits, as the release does.
func (v *verifier) bitsText(t tnum) string {
	if v.v612 && t.isConst() {
		return unsignedText(t.bits)
	}
	return t.String()
}

// typeName612 returns the type of a register in 6.12's words.
func (v *value) typeName612() string {
	switch v.typ {
	case regRecord:
		return "ringbuf_mem"
	case regRecordOrNull:
		return "ringbuf_mem_or_null"
	default:
		return v.typeName()
	}
}

func (v *value) facts612() (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch {
	case v.id != 0 && v.plus:
		add("id=%d%+d", v.id, v.off)
	case v.id != 0:
		add("id=%d", v.id)
	}
	if v.ref != 0 {
		add("ref_obj_id=%d", v.ref)
	}
	switch v.typ {
	case regMap, regMapValue, regMapValueOrNull, regKey:
		if v.m.name != "" {
			add("map=%s", v.m.name)
		}
		add("ks=%d,vs=%d", v.m.key, v.m.value)
	default:
	}
	if v.typ != regScalar && v.off != 0 {
		add("off=%s", signedText(int64(v.off)))
	}
	switch v.typ {
	case regRecord, regRecordOrNull, regMem, regMemOrNull:
		add("sz=%s", unsignedText(uint64(uint32(v.size))))
	default:
	}
	switch {
	case !v.isConst():
		all = append(all, v.bounds612()...)
		if v.tnum != anyNumber {
			add("var_off=%v", v.tnum)
		}
	case v.bits != 0:
		add("imm=%s", signedText(int64(v.bits)))
	}
	return all
}

// bounds612 returns the bounds that say something: print_scalar_ranges. Those of one kind that are the same stand together.
func (v *value) bounds612() (all []string) {
	type end struct {
		name   string
		n      uint64
		signed bool
		said   bool
	}
	low := func(n int32) uint64 {
		if isPlain(int64(n)) {
			return uint64(int64(n))
		}
		return uint64(uint32(n))
	}
	ends := []end{
		{"smin", uint64(v.smin), true, v.smin == math.MinInt64},
		{"smax", uint64(v.smax), true, v.smax == math.MaxInt64},
		{"umin", v.umin, false, v.umin == 0},
		{"umax", v.umax, false, v.umax == math.MaxUint64},
		{"smin32", low(v.low.smin), true, v.low.smin == math.MinInt32},
		{"smax32", low(v.low.smax), true, v.low.smax == math.MaxInt32},
		{"umin32", uint64(v.low.umin), false, v.low.umin == 0},
		{"umax32", uint64(v.low.umax), false, v.low.umax == math.MaxUint32},
	}
	negative := func(e *end) bool { return e.signed && int64(e.n) < 0 }
	for n := range ends {
		e := &ends[n]
		if e.said {
			continue
		}
		text := e.name + "="
		for m := n + 2; m < len(ends); m += 2 {
			if o := &ends[m]; !o.said && o.n == e.n && negative(o) == negative(e) {
				text, o.said = text+o.name+"=", true
			}
		}
		if e.signed {
			text += signedText(int64(e.n))
		} else {
			text += unsignedText(e.n)
		}
		all = append(all, text)
	}
	return all
}

//go:build ignore

// gen writes fast.go: a function for each common form of instruction. They
// differ in widths, operands and conditions only, and Go has no other way to
// have them without asking at run time.
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"log"
	"os"
	"strings"
)

var (
	out   bytes.Buffer
	cases bytes.Buffer
	made  = map[string]function{}
)

type function struct{ key, body string }

// fn writes one function and its line in the chooser.
func fn(name, key, body string) {
	body = strings.TrimSpace(body)
	made[name] = function{key, body}
	fmt.Fprintf(&out, "func %s(c *CPU, o *op) *op {\n%s\n}\n\n", name, body)
	fmt.Fprintf(&cases, "case %s: return %s\n", key, name)
}

// pairs writes functions that do two instructions, or an instruction and a fused
// one: each of first with each of second.
func pairs(cases *bytes.Buffer, first, second string) {
	for _, a := range strings.Fields(first) {
		for _, b := range strings.Fields(second) {
			fa, fb := made[a], made[b]
			if fa.key == "" || fb.key == "" {
				log.Fatal("no ", a, " or ", b)
			}
			name := a + strings.ToUpper(b[:1]) + b[1:]
			if _, ok := made[name]; ok {
				continue
			}
			made[name] = function{"", ""}
			one, ok := strings.CutSuffix(fa.body, next)
			if !ok {
				log.Fatal(a, " ends otherwise")
			}
			two := strings.ReplaceAll(fb.body, "c.br = brSlow\n", "c.br = brSlowNext\n")
			two = strings.ReplaceAll(two, "c.br = brSlowCross\n", "c.br = brSlowNextCross\n")
			fmt.Fprintf(&out, "func %s(c *CPU, o *op) *op {\n{\n%s}\no = o.next()\n%s\n}\n\n", name, one, two)
			fmt.Fprintf(cases, "case uint64(%s)<<32|uint64(%s): return %s\n", fa.key, fb.key, name)
		}
	}
}

func key(code, form string, w width, mode string) string {
	if mode == "" {
		mode = "modeBD"
	}
	return fmt.Sprintf("uint32(%s)<<8|%s<<4|%d<<2|%s", code, form, w.log, mode)
}

type width struct {
	log  int
	u, s string // types
	bits int
}

var (
	w8  = width{0, "uint8", "int8", 8}
	w16 = width{1, "uint16", "int16", 16}
	w32 = width{2, "uint32", "int32", 32}
	w64 = width{3, "uint64", "int64", 64}
)

var modes = []struct{ name, short, ea string }{
	{"modeBD", "", "c.x(o.base) + o.disp"},
	{"modeBIS", "X", "c.x(o.base) + c.x(o.index)<<(o.scale&3) + o.disp"},
	{"modeFull", "S", "c.x(o.base) + c.x(o.index)<<(o.scale&3) + o.disp + c.x(o.seg)"},
}

// access gives p, the place of the operand in RAM.
func access(tlb string, w width, ea string) string {
	return fmt.Sprintf(`va := %s
	e := &c.%s[va>>12&tlbMask]
	if e.tag != (va+%d)&^0xfff {
		c.br = brSlow
		return nil
	}
	p := (*%s)(unsafe.Add(nil, va+e.off))
	`, ea, tlb, w.bits/8-1, w.u)
}

func reg(field string, w width) string {
	if w.bits == 64 {
		return "c.R[o." + field + "&15]"
	}
	return w.u + "(c.R[o." + field + "&15])"
}

func imm(w width) string {
	if w.bits == 64 {
		return "o.imm"
	}
	return w.u + "(o.imm)"
}

func setReg(field string, w width, v string) string {
	r := "c.R[o." + field + "&15]"
	switch w.bits {
	case 64:
		return r + " = " + v
	case 32:
		return r + " = uint64(" + v + ")"
	}
	return fmt.Sprintf("%s = %s&^%#x | uint64(%s)", r, r, 1<<w.bits-1, v)
}

func flags(kind string, w width, res, src string) string {
	u := func(v string) string {
		if w.bits == 64 || v == "0" {
			return v
		}
		return "uint64(" + v + ")"
	}
	s := fmt.Sprintf("c.ccOp = %s|%d\nc.ccRes = %s\n", kind, w.log, u(res))
	if kind != "ccLogic" {
		s += fmt.Sprintf("c.ccSrc = %s\n", u(src))
	}
	return s
}

const next = "return o.next()"

// operands gives the code that makes a and b of a form; dst is a variable of
// memory or a register.
func operands(form string, w width, ea string, write bool) (pre, a, b string) {
	tlb := "rtlb"
	if write {
		tlb = "wtlb"
	}
	switch form {
	case "fRR":
		return "", reg("a", w), reg("b", w)
	case "fRI":
		return "", reg("a", w), imm(w)
	case "fRM":
		return access("rtlb", w, ea), reg("a", w), "*p"
	case "fMR":
		return access(tlb, w, ea), "*p", reg("b", w)
	case "fMI":
		return access(tlb, w, ea), "*p", imm(w)
	}
	panic(form)
}

func store(form string, w width, v string) string {
	if form[1] == 'M' {
		return "*p = " + v
	}
	return setReg("a", w, v)
}

var aluOps = []struct{ name, code, op, kind string }{
	{"add", "cADD", "+", "ccAdd"},
	{"sub", "cSUB", "-", "ccSub"},
	{"and", "cAND", "&", "ccLogic"},
	{"or", "cOR", "|", "ccLogic"},
	{"xor", "cXOR", "^", "ccLogic"},
	{"cmp", "cCMP", "-", "ccSub"},
	{"test", "cTEST", "&", "ccLogic"},
}

var conds = []struct {
	n         int
	name      string
	cmp, test string // of a, b; of r
	add       string
}{
	{2, "B", "a < b", "", "r < a"},
	{3, "AE", "a >= b", "", "r >= a"},
	{4, "E", "a == b", "r == 0", "r == 0"},
	{5, "NE", "a != b", "r != 0", "r != 0"},
	{6, "BE", "a <= b", "", ""},
	{7, "A", "a > b", "", ""},
	{8, "S", "S(r) < 0", "S(r) < 0", "S(r) < 0"},
	{9, "NS", "S(r) >= 0", "S(r) >= 0", "S(r) >= 0"},
	{12, "L", "S(a) < S(b)", "S(r) < 0", ""},
	{13, "GE", "S(a) >= S(b)", "S(r) >= 0", ""},
	{14, "LE", "S(a) <= S(b)", "S(r) <= 0", ""},
	{15, "G", "S(a) > S(b)", "S(r) > 0", ""},
}

// take goes to the target of branch j.
const take = `t := (*op)(atomic.LoadPointer(&j.link))
	left := c.left - int64(j.n)
	if left < t.need() {
		c.br = brCross
		return nil
	}
	c.left = left
	return t.next()`

func alu() {
	for _, op := range aluOps {
		for _, form := range []string{"fRR", "fRI", "fRM", "fMR", "fMI"} {
			for _, w := range []width{w8, w16, w32, w64} {
				for _, m := range modes[:] {
					mem := strings.Contains(form, "M")
					readOnly := op.name == "cmp" || op.name == "test"
					if op.name == "test" && form == "fRM" || // the same as fMR
						!mem && m.short != "" || mem && m.name == "modeBIS" || w.bits == 16 && !readOnly {
						continue
					}
					pre, a, b := operands(form, w, m.ea, !readOnly)
					body := pre
					if op.kind == "ccSub" || op.kind == "ccAdd" {
						body += "b := " + b + "\n"
						b = "b"
					}
					body += fmt.Sprintf("r := %s %s %s\n", a, op.op, b)
					if !readOnly {
						body += store(form, w, "r") + "\n"
					}
					body += flags(op.kind, w, "r", "b") + next
					fn(fmt.Sprintf("%s%s%d%s", op.name, form[1:], w.bits, m.short), key(op.code, form, w, m.name), body)
				}
			}
		}
	}
}

// fused is an instruction that sets flags and a jcc as one.
func fused() {
	type class struct {
		op    string
		forms string
	}
	for _, op := range aluOps {
		if op.name == "or" || op.name == "xor" {
			continue
		}
		forms := []string{"fRR", "fRI"}
		if op.name == "cmp" {
			forms = []string{"fRR", "fRI", "fRM", "fMR", "fMI"}
		} else if op.name == "test" {
			forms = []string{"fRR", "fRI", "fMI"}
		}
		for _, form := range forms {
			for _, w := range []width{w8, w16, w32, w64} {
				readOnly := op.name == "cmp" || op.name == "test"
				if w.bits < 32 && !readOnly || w.bits == 16 && form != "fRR" && form != "fRI" && form != "fMI" {
					continue
				}
				for _, cc := range conds {
					e := cc.test
					if op.kind == "ccSub" {
						e = cc.cmp
					} else if op.kind == "ccAdd" {
						e = cc.add
					}
					if e == "" {
						continue
					}
					e = strings.ReplaceAll(e, "S(", w.s+"(")
					pre, a, b := operands(form, w, modes[0].ea, false)
					body := pre + fmt.Sprintf("a, b := %s, %s\nr := a %s b\n", a, b, op.op)
					if !readOnly {
						body += store(form, w, "r") + "\n"
					}
					body += flags(op.kind, w, "r", "b")
					body += fmt.Sprintf("if !(%s) {\nreturn o.after(2)\n}\nj := o.next()\n%s", e, take)
					name := fmt.Sprintf("%s%s%dJ%s", op.name, form[1:], w.bits, cc.name)
					fn(name, fmt.Sprintf("%s|%d<<20", key(op.code, form, w, ""), cc.n), body)
				}
			}
		}
	}
}

func moves() {
	fn("movRR64", key("cMOV", "fRR", w64, ""), "c.R[o.a&15] = c.R[o.b&15]\n"+next)
	fn("movRR32", key("cMOV", "fRR", w32, ""), "c.R[o.a&15] = uint64(uint32(c.R[o.b&15]))\n"+next)
	fn("movRR8", key("cMOV", "fRR", w8, ""), setReg("a", w8, reg("b", w8))+"\n"+next)
	fn("movRI64", key("cMOV", "fRI", w64, ""), "c.R[o.a&15] = o.imm\n"+next)
	fn("movRI32", key("cMOV", "fRI", w32, ""), "c.R[o.a&15] = uint64(uint32(o.imm))\n"+next)
	fn("movRI8", key("cMOV", "fRI", w8, ""), setReg("a", w8, imm(w8))+"\n"+next)
	for _, m := range modes {
		for _, w := range []width{w8, w16, w32, w64} {
			fn(fmt.Sprintf("movRM%d%s", w.bits, m.short), key("cMOV", "fRM", w, m.name),
				access("rtlb", w, m.ea)+setReg("a", w, "*p")+"\n"+next)
			fn(fmt.Sprintf("movMR%d%s", w.bits, m.short), key("cMOV", "fMR", w, m.name),
				access("wtlb", w, m.ea)+"*p = "+reg("b", w)+"\n"+next)
			fn(fmt.Sprintf("movMI%d%s", w.bits, m.short), key("cMOV", "fMI", w, m.name),
				access("wtlb", w, m.ea)+"*p = "+imm(w)+"\n"+next)
			if w.bits < 32 {
				fn(fmt.Sprintf("movzxRM%d%s", w.bits, m.short), key("cMOVZX", "fRM", w, m.name),
					access("rtlb", w, m.ea)+"c.R[o.a&15] = uint64(*p)\n"+next)
			}
			if w.bits < 64 {
				fn(fmt.Sprintf("movsx64RM%d%s", w.bits, m.short), key("cMOVSX", "fRM", w, m.name),
					access("rtlb", w, m.ea)+"c.R[o.a&15] = uint64("+w.s+"(*p))\n"+next)
			}
			if w.bits < 32 {
				fn(fmt.Sprintf("movsx32RM%d%s", w.bits, m.short), key("kMOVSX32", "fRM", w, m.name),
					access("rtlb", w, m.ea)+"c.R[o.a&15] = uint64(uint32("+w.s+"(*p)))\n"+next)
			}
		}
	}
	for _, w := range []width{w8, w16, w32} {
		if w.bits < 32 {
			fn(fmt.Sprintf("movzxRR%d", w.bits), key("cMOVZX", "fRR", w, ""), "c.R[o.a&15] = uint64("+reg("b", w)+")\n"+next)
			fn(fmt.Sprintf("movsx32RR%d", w.bits), key("kMOVSX32", "fRR", w, ""),
				"c.R[o.a&15] = uint64(uint32("+w.s+"(c.R[o.b&15])))\n"+next)
		}
		fn(fmt.Sprintf("movsx64RR%d", w.bits), key("cMOVSX", "fRR", w, ""), "c.R[o.a&15] = uint64("+w.s+"(c.R[o.b&15]))\n"+next)
	}
	for i, m := range modes[:2] {
		fn("lea64"+m.short, key("cLEA", "fRM", w64, m.name), "c.R[o.a&15] = "+modes[i].ea+"\n"+next)
		fn("lea32"+m.short, key("cLEA", "fRM", w32, m.name), "c.R[o.a&15] = uint64(uint32("+modes[i].ea+"))\n"+next)
	}
}

func shifts() {
	for _, w := range []width{w32, w64} {
		count := w.bits - 1
		for _, s := range []struct{ name, code, kind, t, op string }{
			{"shl", "cSHL", "ccShl", w.u, "<<"},
			{"shr", "cSHR", "ccShr", w.u, ">>"},
			{"sar", "cSAR", "ccShr", w.s, ">>"},
		} {
			do := fmt.Sprintf("h := %s(c.R[o.a&15]) %s (n - 1 & %d)\nr := %s(h %s 1)\n", s.t, s.op, count, w.u, s.op) +
				setReg("a", w, "r") + "\n" + flags(s.kind, w, "r", w.u+"(h)") + next
			// The chooser has masked the count, which is not 0.
			fn(fmt.Sprintf("%sRI%d", s.name, w.bits), key(s.code, "fRI", w, ""), "n := uint8(o.imm)\n"+do)
			// A count of 0 leaves the flags alone, but clears the upper half.
			zero := "return o.next()"
			if w.bits == 32 {
				zero = "c.R[o.a&15] = uint64(uint32(c.R[o.a&15]))\n" + zero
			}
			fn(fmt.Sprintf("%sRC%d", s.name, w.bits), key(s.code, "fRC", w, ""),
				fmt.Sprintf("n := uint8(c.R[1]) & %d\nif n == 0 {\n%s\n}\n", count, zero)+do)
		}
	}
}

// flow is what moves the stack and jumps.
func flow() {
	fn("nop", key("cNOP", "fRR", w32, ""), next)
	fn("pushReg", key("cPUSH", "fRR", w64, ""), access("wtlb", w64, "c.R[4] - 8")+
		"*p = c.R[o.b&15]\nc.R[4] = va\n"+next)
	fn("popReg", key("cPOP", "fRR", w64, ""), access("rtlb", w64, "c.R[4]")+
		"c.R[4] = va + 8\nc.R[o.a&15] = *p\n"+next)
	fn("jmp", key("cJMP", "fRR", w64, ""), "j := o\n"+take)
	fn("call", key("cCALL", "fRR", w64, ""), access("wtlb", w64, "c.R[4] - 8")+
		"j := o\n"+strings.Replace(strings.Replace(take, "brCross", "brSlowCross", 1),
		"c.left = left", "c.left = left\n*p = j.disp\nc.R[4] = va", 1))
	fn("ret", key("cRET", "fRR", w64, ""), access("rtlb", w64, "c.R[4]")+
		`to := *p
		j := &c.jc[jcHash(to)]
		left := c.left - int64(o.n)
		if j.rip != to || left < j.head.need() {
			c.br = brSlow
			return nil
		}
		c.R[4] = va + 8 + o.imm
		c.left = left
		return j.head.next()`)
}

func main() {
	log.SetFlags(0)
	out.WriteString(`// Code generated by gen.go. DO NOT EDIT.

package cpu

import (
	"sync/atomic"
	"unsafe"
)

`)
	flow()
	moves()
	alu()
	shifts()
	fused()
	var two bytes.Buffer
	common := "movRR64 movRM64 movMR64 movRM32 movRI32 addRI64 lea64 xorRR32 "
	pairs(&two, common+"movzxRM8", common+"movRR32 movMR32 addRR64 movRM64S")
	pairs(&two, "movRR64 movRM64 movRM32 movRM64S movzxRM8 movMR8 addRI64 addRR64 lea64 xorRR32",
		"testRR64JE testRR64JNE testRR32JE testRR32JNE testRR32JS testRR8JE testRR8JNE cmpRR64JE cmpRR64JNE cmpRR64JB "+
			"cmpRR64JA cmpRR64JAE cmpRR64JBE cmpRR64JG cmpRR64JLE cmpRI64JE cmpRI64JNE cmpRI32JE cmpRI32JNE cmpRI32JA "+
			"cmpRI32JLE cmpRI32JG cmpRI64JA cmpRI64JBE cmpMI8JNE cmpMI8JE")
	pairs(&two, "movRR64 movRR32 xorRR64 xorRR32 addRR64 movRM64 movRM32", "shlRI64 shrRI64 shrRI32 andRI32 xorRR64 xorRR32 addRR64 subRR64 subRI64")
	pairs(&two, "shlRI64 shrRI64 shrRI32 andRI32 addRR64 addRI64 movzxRR8 orRR64",
		"xorRR64 xorRR32 addRR64 movRR64 movRR32 movzxRR8 orRR64 subRR64 lea64 movMR64 movMR8")
	pairs(&two, "nop pushReg movRR64 movRR32 movRI32 movRI64 xorRR32 lea64 movRM64 movMR64 addRI64 subRI64 popReg movRM64S",
		"pushReg popReg call jmp ret")
	pairs(&two, "nop pushReg popReg subRI64", common+"subRI64 movRR32 movRI64 movRM64S testRR64JE testRR64JNE cmpRI64JBE cmpRI64JA")
	pairs(&two, common+"movRM64S", "subRI64 movRI64")
	fmt.Fprintf(&out, `// fast2 is the function for two in a row.
func fast2(key uint64) func(*CPU, *op) *op {
	switch key {
	%s}
	return nil
}

`, &two)
	fmt.Fprintf(&out, `// fast is the function for a form of instruction, nil if exec must do it.
func fast(key uint32) func(*CPU, *op) *op {
	switch key {
	%s}
	return nil
}
`, &cases)
	src, err := format.Source(out.Bytes())
	if err != nil {
		os.WriteFile("/tmp/fast.go", out.Bytes(), 0o644)
		log.Fatal(err)
	}
	if err := os.WriteFile("fast.go", src, 0o644); err != nil {
		log.Fatal(err)
	}
}

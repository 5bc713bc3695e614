package cpu

import (
	"encoding/hex"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A super is a longer run of instructions that one function executes, in one
// page of memory and where nothing is unusual; else it gives up, and they are
// executed one by one. Here are the ways in and out of the code that saves all
// registers as pt_regs: what an optimized probe's detour, an armed fentry site
// and a hooked return do around their callback.
type super struct {
	text string // the instructions in hex; .. is any byte
	fn   func(*CPU, *op) *op

	want, any []byte
	ops       int
}

// supers are told by their bytes. How many ops of a block fn goes by is written
// in it.
var supers = []*super{
	// A detour: push $ss; push %rsp; pushf; sub $24,%rsp; pushes; mov %rsp,%rsi;
	// cld; movabs $op,%rdi
	{text: "6a.. 54 9c 4883ec18 57 56 52 51 50 4150 4151 4152 4153 53 55 4154 4155 4156 4157 4889e6 fc 48bf................", ops: 22, fn: saveDetour},
	// mov 144(%rsp),%rdx; mov %rdx,160(%rsp); pops; add $40,%rsp; popf
	{text: "488b942490000000 48899424a0000000 415f 415e 415d 415c 5d 5b 415b 415a 4159 4158 58 59 5a 5e 5f 4883c428 9d", ops: 19, fn: restoreDetour},
	// ftrace_regs_caller, to its call
	{text: "9c 4881eca8000000" + savesText + "488b8424a8000000 4889842490000000 488d8424b8000000 4889842498000000 " +
		"48c7842488000000........ 48c78424a0000000........ 48c7442478........ 488bbc24b0000000 4883ef05 4889bc2480000000 488bb424b8000000 4889e2 fc", ops: 30, fn: saveFtrace},
	// and behind it, to its ret
	{text: "488b842480000000 48898424b0000000 488b842490000000 48898424a8000000" + restoresText + "4881c4a8000000 9d", ops: 21, fn: restoreFtrace},
	// arch_rethook_trampoline, to its call
	{text: "68........ 6a.. 54 9c 4881ec90000000" + savesText + "4889e7 fc", ops: 22, fn: saveRethook},
	// and behind it, to its ret
	{text: restoresText + "4881c4a0000000 9d", ops: 17, fn: restoreRethook},
	// kprobe_ftrace_handler: mov $1,%ecx; add %ecx,%gs:__preempt_count;
	// xor %r10d,%r10d; xor %r8d,%r8d; mov $nr,%eax; and its vmcall
	{text: "b901000000 65010d........ 4531d2 4531c0 b8........ 0f01c1", ops: 5, fn: disableFtrace},
	// optimized_callback: xor %edx,%edx too
	{text: "b901000000 65010d........ 4531d2 4531c0 b8........ 31d2 0f01c1", ops: 6, fn: disableDetour},
	// sub %ecx,%gs:__preempt_count; ret
	{text: "65290d........ c3", ops: 1, fn: enablePreempt},
	// arch_rethook_trampoline_callback: addq $16,152(%rdi); mov $1,%ecx; and cs, ip
	// and orig_ax; add %ecx,%gs:__preempt_count; %rdx, %r10 and %r8 cleared;
	// mov $nr,%eax; mov %rdx,%rsi
	{text: "4883879800000010 b901000000 48c78788000000........ 48c78780000000........ 48c74778........" +
		"65010d........ 31d2 4531d2 4531c0 b8........ 4889d6", ops: 11, fn: fixRethook},
	// sub %ecx,%gs:__preempt_count; mov 144(%rdi),%rax; mov %rax,160(%rdi)
	{text: "65290d........ 488b8790000000 488987a0000000", ops: 3, fn: fixFlags},
}

// All but rsp: stored at and loaded from the stack pointer upwards.
const (
	savesText = " 4c893c24 4c89742408 4c896c2410 4c89642418 48896c2420 48895c2428 4c895c2430 4c89542438" +
		" 4c894c2440 4c89442448 4889442450 48894c2458 4889542460 4889742468 48897c2470 "
	restoresText = " 4c8b3c24 4c8b742408 4c8b6c2410 4c8b642418 488b6c2420 488b5c2428 4c8b5c2430 4c8b542438" +
		" 4c8b4c2440 4c8b442448 488b442450 488b4c2458 488b542460 488b742468 488b7c2470 "
)

// supersBy holds them by their first byte.
var supersBy = func() (by [256][]*super) {
	for _, s := range supers {
		s.parse()
		by[s.want[0]] = append(by[s.want[0]], s)
	}
	return by
}()

func (s *super) parse() {
	text := strings.ReplaceAll(s.text, " ", "")
	s.want, _ = hex.DecodeString(strings.ReplaceAll(text, ".", "0"))
	s.any = make([]byte, len(s.want))
	for i := range s.any {
		if text[2*i] == '.' {
			s.any[i] = 0xff
		}
	}
}

func (s *super) matches(text []byte) bool {
	if len(text) < len(s.want) {
		return false
	}
	for i, b := range s.want {
		if (text[i]^b)&^s.any[i] != 0 {
			return false
		}
	}
	return true
}

// superAt is the super that text, a block's from one of its instructions on,
// begins with, where it lies within the next n ops; else nil.
func superAt(text []byte, n int) *super {
	if len(text) == 0 {
		return nil
	}
	for _, s := range supersBy[text[0]] {
		if n > s.ops && s.matches(text) {
			return s
		}
	}
	return nil
}

// Where the words of pt_regs lie.
const (
	ptFlags = 144
	ptSP    = 152
	ptSS    = 160
	ptSize  = 168
)

func word(p unsafe.Pointer, off uintptr) *uint64 { return (*uint64)(unsafe.Add(p, off)) }

// saveRegs puts r15 to rdi where pt_regs has them.
func (c *CPU) saveRegs(p unsafe.Pointer) {
	w, r := (*[15]uint64)(p), &c.R
	w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7] = r[15], r[14], r[13], r[12], r[5], r[3], r[11], r[10]
	w[8], w[9], w[10], w[11], w[12], w[13], w[14] = r[9], r[8], r[0], r[1], r[2], r[6], r[7]
}

func (c *CPU) restoreRegs(p unsafe.Pointer) {
	w, r := (*[15]uint64)(p), &c.R
	r[15], r[14], r[13], r[12], r[5], r[3], r[11], r[10] = w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]
	r[9], r[8], r[0], r[1], r[2], r[6], r[7] = w[8], w[9], w[10], w[11], w[12], w[13], w[14]
}

// popFlags takes v as popf does; false: that needs a look at interrupts, and
// nothing was done.
func (c *CPU) popFlags(v uint64) bool {
	if (v^c.RFlags)&(flagIF|flagTF) != 0 {
		return false
	}
	c.RFlags = c.RFlags&^flagMask | v&flagMask
	c.ccOp = ccNone
	return true
}

func (c *CPU) giveUp() *op {
	c.br = brSlow
	return nil
}

// Supers go on to each other without the loop in between. Where that is not
// possible, they return the op that the loop is to execute.

// sameFunc says whether two functions are one.
func sameFunc(a, b func(*CPU, *op) *op) bool {
	return *(*unsafe.Pointer)(unsafe.Pointer(&a)) == *(*unsafe.Pointer)(unsafe.Pointer(&b))
}

// callInto is the call j, and first if the callee begins with it.
func (c *CPU) callInto(j *op, first func(*CPU, *op) *op) *op {
	va := c.R[4] - 8
	p := c.Window(va, 8)
	if p == nil || !sameFunc(j.fn, call) {
		return j
	}
	t := (*op)(atomic.LoadPointer(&j.link))
	left := c.left - int64(j.n)
	if left < t.need() {
		return j
	}
	c.left = left
	*word(p, 0) = j.disp
	c.R[4] = va
	return c.do(t.next(), first)
}

// answer is the vmcall o, if the hook answers it.
func (c *CPU) answer(o *op) *op {
	if c.hook == nil || o.code != cVMCALL {
		return o
	}
	c.RIP = o.disp
	if !c.hook(Hypercall) {
		return o
	}
	return o.next()
}

// back is the ret o, and either function if the caller goes on with it.
func (c *CPU) back(o *op, one, other func(*CPU, *op) *op) *op {
	if !sameFunc(o.fn, ret) {
		return o
	}
	n := ret(c, o)
	if n == nil {
		return o
	}
	if sameFunc(n.fn, one) {
		return c.do(n, one)
	}
	return c.do(n, other)
}

// do is o, if f executes it.
func (c *CPU) do(o *op, f func(*CPU, *op) *op) *op {
	if sameFunc(o.fn, f) {
		if n := f(c, o); n != nil {
			return n
		}
	}
	return o
}

func saveDetour(c *CPU, o *op) *op {
	old := c.R[4]
	sp := old - ptSize
	p := c.Window(sp, ptSize)
	if p == nil {
		return c.giveUp()
	}
	c.settle()
	*word(p, ptSS) = o.imm
	*word(p, ptSP) = old - 8
	*word(p, ptFlags) = c.RFlags &^ flagRF
	c.saveRegs(p)
	c.ccOp, c.ccRes, c.ccSrc = ccSub|3, sp+120, 24
	c.RFlags &^= flagDF
	c.R[4], c.R[6], c.R[7] = sp, sp, o.after(21).imm
	return c.callInto(o.after(22), disableDetour)
}

func restoreDetour(c *CPU, o *op) *op {
	sp := c.R[4]
	p := c.Window(sp, ptSize)
	if p == nil {
		return c.giveUp()
	}
	v := *word(p, ptFlags)
	if !c.popFlags(v) {
		return c.giveUp()
	}
	*word(p, ptSS) = v
	c.restoreRegs(p)
	c.R[4] = sp + ptSize
	return o.after(19)
}

func saveFtrace(c *CPU, o *op) *op {
	sp := c.R[4] - 8 - ptSize
	p := c.Window(sp, ptSize+24)
	if p == nil {
		return c.giveUp()
	}
	c.settle()
	v := c.RFlags &^ flagRF
	c.saveRegs(p)
	*word(p, 120) = o.after(23).imm // orig_ax
	site := *word(p, ptSize+8) - 5
	*word(p, 128) = site
	*word(p, 136) = o.after(21).imm // cs
	*word(p, ptFlags) = v
	*word(p, ptSP) = sp + ptSize + 16
	*word(p, ptSS) = o.after(22).imm
	*word(p, ptSize) = v
	c.ccOp, c.ccRes, c.ccSrc = ccSub|3, site, 5
	c.RFlags &^= flagDF
	c.R[0], c.R[2], c.R[4], c.R[6], c.R[7] = sp+ptSize+16, sp, sp, *word(p, ptSize+16), site
	return c.callInto(o.after(30), disableFtrace)
}

func restoreFtrace(c *CPU, o *op) *op {
	sp := c.R[4]
	p := c.Window(sp, ptSize+16)
	if p == nil {
		return c.giveUp()
	}
	v := *word(p, ptFlags)
	if !c.popFlags(v) {
		return c.giveUp()
	}
	*word(p, ptSize+8) = *word(p, 128)
	*word(p, ptSize) = v
	c.restoreRegs(p)
	c.R[4] = sp + ptSize + 8
	return o.after(21)
}

func saveRethook(c *CPU, o *op) *op {
	old := c.R[4]
	sp := old - ptSize - 8
	p := c.Window(sp, ptSize+8)
	if p == nil {
		return c.giveUp()
	}
	c.settle()
	c.saveRegs(p)
	*word(p, ptFlags) = c.RFlags &^ flagRF
	*word(p, ptSP) = old - 16
	*word(p, ptSS) = o.after(1).imm
	*word(p, ptSize) = o.imm
	c.ccOp, c.ccRes, c.ccSrc = ccSub|3, sp, 144
	c.RFlags &^= flagDF
	c.R[4], c.R[7] = sp, sp
	return c.callInto(o.after(22), fixRethook)
}

func restoreRethook(c *CPU, o *op) *op {
	sp := c.R[4]
	e := &c.rtlb[sp>>12&tlbMask] // nothing is written
	if e.tag != (sp+ptSize-1)&^0xfff {
		return c.giveUp()
	}
	p := unsafe.Add(nil, sp+e.off)
	if !c.popFlags(*word(p, ptSS)) {
		return c.giveUp()
	}
	c.restoreRegs(p)
	c.R[4] = sp + ptSize
	return o.after(17)
}

// word32 is the 32-bit word that o works on, in a writable page; else nil.
func (c *CPU) word32(o *op) *uint32 {
	return (*uint32)(c.Window(c.x(o.seg)+o.disp, 4))
}

func disableFtrace(c *CPU, o *op) *op {
	if !c.disablePreempt(o) {
		return c.giveUp()
	}
	return c.answer(o.after(5))
}

func disableDetour(c *CPU, o *op) *op {
	if !c.disablePreempt(o) {
		return c.giveUp()
	}
	c.R[2] = 0
	return c.answer(o.after(6))
}

func (c *CPU) disablePreempt(o *op) bool {
	p := c.word32(o.after(1))
	if p == nil {
		return false
	}
	*p++
	c.R[0], c.R[1], c.R[8], c.R[10] = uint64(uint32(o.after(4).imm)), 1, 0, 0
	c.ccOp, c.ccRes, c.ccSrc = ccLogic|2, 0, 0
	return true
}

func enablePreempt(c *CPU, o *op) *op {
	if !c.subtract(o) {
		return c.giveUp()
	}
	return c.back(o.next(), restoreDetour, restoreFtrace)
}

func (c *CPU) subtract(o *op) bool {
	p := c.word32(o)
	if p == nil {
		return false
	}
	n := uint32(c.R[1])
	*p -= n
	c.ccOp, c.ccRes, c.ccSrc = ccSub|2, uint64(*p), uint64(n)
	return true
}

func fixRethook(c *CPU, o *op) *op {
	regs := c.Window(c.R[7], ptSize)
	p := c.word32(o.after(5))
	if p == nil || regs == nil {
		return c.giveUp()
	}
	*word(regs, ptSP) += 16
	*word(regs, 136) = o.after(2).imm
	*word(regs, 128) = o.after(3).imm
	*word(regs, 120) = o.after(4).imm
	*p++
	c.R[0], c.R[1], c.R[2], c.R[6], c.R[8], c.R[10] = uint64(uint32(o.after(9).imm)), 1, 0, 0, 0, 0
	c.ccOp, c.ccRes, c.ccSrc = ccLogic|2, 0, 0
	return c.answer(o.after(11))
}

func fixFlags(c *CPU, o *op) *op {
	regs := c.Window(c.R[7], ptSize)
	if regs == nil || !c.subtract(o) {
		return c.giveUp()
	}
	c.R[0] = *word(regs, ptFlags)
	*word(regs, ptSS) = c.R[0]
	return c.back(o.after(3), restoreRethook, restoreRethook)
}

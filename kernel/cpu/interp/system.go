package interp

import (
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/cpu/core"
	"github.com/kprobefs/kprobefs/kernel/cpu/decode"
	"github.com/kprobefs/kprobefs/kernel/mem"
)

const (
	segCS = 1
	segSS = 2
)

// leaveWith is the execution of an instruction that ends Run.
func leaveWith(why core.Reason) Handler {
	return func(c *CPU, o *Op) *Op {
		e := core.Exit{Reason: why}
		if why == core.Trap {
			e.Vector = uint8(o.Imm)
		}
		return c.leave(o, e)
	}
}

// undefined is for what is no instruction: #UD.
func (c *CPU) undefined(*Op) { c.ud() }

// protected is for what always gives #GP(0).
func (c *CPU) protected(*Op) { c.gp(0) }

func (c *CPU) sti(o *Op) *Op {
	if c.RFlags&flagIF == 0 {
		c.RFlags |= flagIF
		c.Shadow = true
	}
	return c.look(o)
}

func (c *CPU) rdtsc(o *Op) {
	t := c.now(o)
	c.R[0], c.R[2] = t&mask(4), t>>32
	if o.Code == decode.RDTSCP {
		c.R[1] = c.TSCAux & mask(4)
	}
}

func (c *CPU) rdrand(o *Op) {
	c.setReg(o.A, o.W, c.random())
	c.setStatus(flagStatus, flagCF)
}

// loadTable reads the operand of lgdt and lidt.
func (c *CPU) loadTable(o *Op) core.Table {
	va := c.ea(o)
	t := core.Table{Limit: c.load(va, 2, stk(o)), Base: c.load(va+2, 8, stk(o))}
	c.canonical(t.Base)
	return t
}

// storeTable writes the operand of sgdt and sidt.
func (c *CPU) storeTable(o *Op, t core.Table) {
	va := c.ea(o)
	c.canWrite(va, 10, stk(o))
	c.store(va, t.Limit, 2, stk(o))
	c.store(va+2, t.Base, 8, stk(o))
}

func (c *CPU) popSeg(o *Op) *Op {
	return c.setSegReg(o, uint16(c.load(c.R[4], o.W, true)), uint64(o.W))
}

// loadFarPointer is lss, lfs and lgs.
func (c *CPU) loadFarPointer(o *Op) *Op {
	va := c.ea(o)
	off, sel := c.load(va, o.W, stk(o)), uint16(c.load(va+uint64(o.W), 2, stk(o)))
	to := *o
	to.A = uint8(o.Imm)
	next := c.setSegReg(&to, sel, 0)
	c.setReg(o.A, o.W, off)
	if next == nil {
		return c.look(o)
	}
	return o.Next()
}

func (c *CPU) writeBase(o *Op) {
	v := c.getReg(o.A, o.W)
	c.canonical(v)
	if o.B == decode.RegFS {
		c.FSBase = v
	} else {
		c.GSBase = v
	}
}

// now is the time stamp counter: it counts instructions.
func (c *CPU) now(o *Op) uint64 {
	n := uint64(1)
	if !c.single {
		n = uint64(o.n)
	}
	return c.TSC + uint64(c.total-c.Left-c.more) + n
}

// random returns the next number of rdrand and rdseed.
func (c *CPU) random() uint64 { return abi.SplitMix64(&c.Seed) }

// setFlags is what popf and iret do with the flags they read.
func (c *CPU) setFlags(v uint64, w uint8) {
	m := flagMask & mask(w)
	c.Settle()
	c.RFlags = c.RFlags&^m | v&m | flagFixed
}

func (c *CPU) retf(o *Op) *Op {
	w := uint64(o.W)
	rip := c.load(c.R[4], o.W, true)
	cs := uint16(c.load(c.R[4]+w, o.W, true))
	if cs&^3 == 0 {
		c.gp(0)
	}
	c.canonical(rip)
	c.R[4] += 2*w + o.Imm
	c.Seg[segCS] = cs
	return c.jump(rip)
}

// iret pops all five words, as it always does in 64-bit mode. It stays at
// privilege level 0 whatever the selectors say.
func (c *CPU) iret(o *Op) *Op {
	w := uint64(o.W)
	var f [5]uint64
	for i := range f {
		f[i] = c.load(c.R[4]+uint64(i)*w, o.W, true)
	}
	if uint16(f[1])&^3 == 0 {
		c.gp(0)
	}
	c.canonical(f[0])
	c.setFlags(f[2], o.W)
	c.RIP, c.R[4] = f[0], f[3]
	c.Seg[segCS], c.Seg[segSS] = uint16(f[1]), uint16(f[4])
	c.br = brLook
	return nil
}

// debugReg: 4 and 5 are other names of 6 and 7.
func debugReg(n uint8) uint8 {
	n &= 7
	if n == 4 || n == 5 {
		n += 2
	}
	return n
}

func (c *CPU) moveCR(o *Op) {
	n := o.A
	if o.Code == decode.MOVFROMCR {
		n = o.B
	}
	var cr *uint64
	switch n {
	case 0:
		cr = &c.CR0
	case 2:
		cr = &c.CR2
	case 3:
		cr = &c.CR3
	case 4:
		cr = &c.CR4
	case 8:
		cr = &c.CR8
	default:
		c.ud()
		return
	}
	if o.Code == decode.MOVFROMCR {
		c.R[o.A&15] = *cr
		return
	}
	v := c.R[o.B&15]
	switch {
	case n == 0 && (v>>32 != 0 || v&(1<<31|1) == 1<<31), n == 8 && v > 15:
		c.gp(0)
	}
	*cr = v
	if n != 2 && n != 8 {
		c.FlushTLB()
	}
}

// Model-specific registers.
const (
	msrTSC        = 0x10
	msrAPICBase   = 0x1b
	msrSpecCtrl   = 0x48
	msrPredCmd    = 0x49
	msrMiscEnable = 0x1a0
	msrPAT        = 0x277
	msrEFER       = 0xc0000080
	msrStar       = 0xc0000081
	msrLStar      = 0xc0000082
	msrCStar      = 0xc0000083
	msrSFMask     = 0xc0000084
	msrFSBase     = 0xc0000100
	msrGSBase     = 0xc0000101
	msrKernelGS   = 0xc0000102
	msrTSCAux     = 0xc0000103
)

// msrAddr is where an MSR is kept; nil when there is none of this number.
// address: it holds an address, which must be canonical.
func (c *CPU) msrAddr(n uint32) (p *uint64, address bool) {
	switch n {
	case msrTSC:
		return &c.TSC, false
	case msrAPICBase:
		return &c.APICBase, false
	case msrSpecCtrl:
		return &c.SpecCtrl, false
	case msrMiscEnable:
		return &c.MiscEnable, false
	case msrPAT:
		return &c.PAT, false
	case 0x174, 0x175, 0x176: // SYSENTER
		return &c.SysenterMSR[n-0x174], n != 0x174
	case msrEFER:
		return &c.EFER, false
	case msrStar:
		return &c.Star, false
	case msrLStar:
		return &c.LStar, true
	case msrCStar:
		return &c.CStar, true
	case msrSFMask:
		return &c.SFMask, false
	case msrFSBase:
		return &c.FSBase, true
	case msrGSBase:
		return &c.GSBase, true
	case msrKernelGS:
		return &c.KernelGSBase, true
	case msrTSCAux:
		return &c.TSCAux, false
	}
	return nil, false
}

func (c *CPU) msr(o *Op) {
	n := uint32(c.R[1])
	if n == msrPredCmd && o.Code == decode.WRMSR {
		return
	}
	p, address := c.msrAddr(n)
	if p == nil {
		c.gp(0)
		return
	}
	if o.Code == decode.RDMSR {
		v := *p
		if n == msrTSC {
			v = c.now(o)
		}
		c.R[0], c.R[2] = v&mask(4), v>>32
		return
	}
	v := c.R[0]&mask(4) | c.R[2]<<32
	if address {
		c.canonical(v)
	}
	if n == msrTSC {
		v -= c.now(o) - c.TSC
	}
	*p = v
}

// cpuid answers for a processor that has what is implemented here.
func (c *CPU) cpuid(*Op) {
	var a, b, cx, d uint32
	text := func(s string) (r [4]uint32) {
		for i := range r {
			for j := range 4 {
				r[i] |= uint32(s[4*i+j]) << (8 * j)
			}
		}
		return r
	}
	switch leaf := uint32(c.R[0]); leaf {
	case 0:
		a, b, d, cx = 7, 0x756e6547, 0x49656e69, 0x6c65746e // GenuineIntel
	case 1:
		a = 0x000306c3
		b = uint32(c.id)<<24 | 8<<8
		cx = 1<<13 | 1<<20 | 1<<22 | 1<<23 | 1<<30 | 1<<31           // cx16 crc32 movbe popcnt rdrand hypervisor
		d = 1<<3 | 1<<4 | 1<<5 | 1<<8 | 1<<9 | 1<<13 | 1<<15 | 1<<19 // pse tsc msr cx8 apic pge cmov clflush
		d |= 1<<6 | 1<<16                                            // pae pat
	case 7:
		if uint32(c.R[1]) == 0 {
			b = 1<<0 | 1<<3 | 1<<8 | 1<<9 | 1<<18 | 1<<19 | 1<<20 | 1<<23 | 1<<24 // fsgsbase bmi1 bmi2 erms rdseed adx smap clflushopt clwb
			cx = 1<<22 | 1<<27                                                    // rdpid movdiri
			d = 1<<4 | 1<<14                                                      // fsrm serialize
		}
	case 0x40000000:
		a = leaf
		t := text("kprobefs\x00\x00\x00\x00\x00\x00\x00\x00")
		b, cx, d = t[0], t[1], t[2]
	case 0x80000000:
		a = 0x80000008
	case 0x80000001:
		cx = 1<<0 | 1<<5 | 1<<8           // lahf lzcnt prefetchw
		d = 1<<11 | 1<<20 | 1<<27 | 1<<29 // syscall nx rdtscp lm
	case 0x80000002, 0x80000003, 0x80000004:
		name := "kprobefs emulated processor                     "
		t := text(name[(leaf-0x80000002)*16:])
		a, b, cx, d = t[0], t[1], t[2], t[3]
	case 0x80000008:
		a = 0x3028
	}
	c.R[0], c.R[3], c.R[1], c.R[2] = uint64(a), uint64(b), uint64(cx), uint64(d)
}

// descriptor reads an entry of the GDT; !ok: there is none.
func (c *CPU) descriptor(sel uint16) (d uint64, ok bool) {
	off := uint64(sel &^ 7)
	if off == 0 || sel&4 != 0 || off+7 > c.GDT.Limit {
		return 0, false
	}
	return c.load(c.GDT.Base+off, 8, false), true
}

// descBase is the base address in a descriptor of 8 bytes.
func descBase(d uint64) uint64 { return d>>16&0xffffff | d>>56<<24 }

func (c *CPU) loadTR(sel uint16) {
	d, ok := c.descriptor(sel)
	if !ok || d>>40&0x1f != 9 && d>>40&0x1f != 11 {
		c.gp(uint64(sel &^ 3))
	}
	if d>>47&1 == 0 {
		c.throw(vecNP, true, uint64(sel&^3), 0)
	}
	high := c.load(c.GDT.Base+uint64(sel&^7)+8, 8, false)
	c.TSS = descBase(d) | high<<32
	c.TR = sel
}

// setSegReg loads segment register o.a, and pops pop bytes. A machine whose
// guest has not loaded a GDT takes any selector.
func (c *CPU) setSegReg(o *Op, sel uint16, pop uint64) *Op {
	var base uint64
	if sel&^3 != 0 && c.GDT.Limit != 0 {
		d, ok := c.descriptor(sel)
		if !ok || d>>44&1 == 0 {
			c.gp(uint64(sel &^ 3))
		}
		if d>>47&1 == 0 {
			c.throw(vecNP, true, uint64(sel&^3), 0)
		}
		base = descBase(d)
	}
	c.R[4] += pop
	c.Seg[o.A] = sel
	switch o.A {
	case 4:
		c.FSBase = base
	case 5:
		c.GSBase = base
	case segSS:
		c.Shadow = true
		return c.look(o)
	}
	return o.Next()
}

// inspect is lar, lsl, verr and verw.
func (c *CPU) inspect(o *Op) {
	d, ok := c.descriptor(uint16(c.src(o, 2)))
	kind := d >> 40 & 0x1f
	switch o.Code {
	case decode.VERR:
		ok = ok && kind&0x10 != 0 && (kind&8 == 0 || kind&2 != 0)
	case decode.VERW:
		ok = ok && kind&0x18 == 0x10 && kind&2 != 0
	case decode.LAR:
		if ok = ok && kind != 0; ok {
			c.setReg(o.A, o.W, d>>32&0xffff00&mask(o.W))
		}
	case decode.LSL:
		if ok = ok && kind != 0; ok {
			limit := d&0xffff | d>>48&15<<16
			if d>>55&1 != 0 {
				limit = limit<<12 | 0xfff
			}
			c.setReg(o.A, o.W, limit)
		}
	}
	c.setStatus(flagZF, b2u(ok)*flagZF)
}

// isFault says whether the frame of a vector has RF set, so that the
// instruction's breakpoint does not hit again.
func isFault(vector uint8) bool {
	switch vector {
	case abi.VecDE, 5, abi.VecUD, 7, vecTS, vecNP, vecSS, abi.VecGP, abi.VecPF, 16, 17, 19:
		return true
	}
	return false
}

// gate is an interrupt or trap gate of the IDT.
func (c *CPU) gate(vector uint8) (rip uint64, cs uint16, ist uint8, masks bool) {
	off := uint64(vector) * 16
	if off+15 > c.IDT.Limit {
		c.gp(uint64(vector)<<3 | 2)
	}
	lo, hi := c.load(c.IDT.Base+off, 8, false), c.load(c.IDT.Base+off+8, 8, false)
	kind := lo >> 40 & 0x1f
	if kind != 14 && kind != 15 {
		c.gp(uint64(vector)<<3 | 2)
	}
	if lo>>47&1 == 0 {
		c.throw(vecNP, true, uint64(vector)<<3|2, 0)
	}
	rip = lo&0xffff | lo>>32&0xffff0000 | hi<<32
	if !mem.Canonical(rip) {
		c.gp(0)
	}
	return rip, uint16(lo >> 16), uint8(lo >> 32 & 7), kind == 14
}

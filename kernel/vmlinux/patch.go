package vmlinux

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/kprobefs/kprobefs/kernel/image"
	"github.com/kprobefs/kprobefs/kernel/insn"
)

// patcher changes text as the kernel does it at boot.
type patcher struct {
	m        *image.Image
	addr     func(name string) uint64
	features Features
	k8       bool // see Options.K8Nops
	int3     bool // an int3 follows an indirect jump, as in 6.1 and later

	jumpsOver bool // of long paddings, as in 6.12
	voluntary bool // see preemptCalls
}

// Instructions that are written.
const (
	opCall = 0xe8
	opJmp  = 0xe9
	opRet  = 0xc3
	opInt3 = 0xcc
	opNop  = 0x90
)

// nops are the long forms of nop, by their size in bytes, k8Nops the ones of old AMD processors, and
// longNops 6.12's.
var (
	nops = [][]byte{
		nil,
		{0x90},
		{0x66, 0x90},
		{0x0f, 0x1f, 0x00},
		{0x0f, 0x1f, 0x40, 0x00},
		{0x0f, 0x1f, 0x44, 0x00, 0x00},
		{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
		{0x0f, 0x1f, 0x80, 0, 0, 0, 0},
		{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
	}
	k8Nops = [][]byte{
		nil,
		{0x90},
		{0x66, 0x90},
		{0x66, 0x66, 0x90},
		{0x66, 0x66, 0x66, 0x90},
		{0x66, 0x66, 0x90, 0x66, 0x90},
		{0x66, 0x66, 0x90, 0x66, 0x66, 0x90},
		{0x66, 0x66, 0x66, 0x90, 0x66, 0x66, 0x90},
		{0x66, 0x66, 0x66, 0x90, 0x66, 0x66, 0x66, 0x90},
	}
	longNops = append(nops[:len(nops):len(nops)], [][]byte{
		{0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
		{0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
		{0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0},
	}...)
)

// pad fills b with nops, the longest first. 6.12 jumps over what is longer than one.
func (p *patcher) pad(b []byte) {
	all := nops
	switch {
	case p.k8:
		all = k8Nops
	case p.jumpsOver:
		all = longNops
	}
	if n := len(b); p.jumpsOver && n >= len(all) && n < 128 {
		copy(b, bytes.Repeat([]byte{opInt3}, n))
		b[0], b[1] = 0xeb, byte(n-2)
		return
	}
	for len(b) > 0 {
		n := min(len(b), len(all)-1)
		copy(b, all[n])
		b = b[n:]
	}
}

// text returns n bytes of text that may be changed.
func (p *patcher) text(addr, n uint64) ([]byte, error) {
	for i := range p.m.Segments {
		s := &p.m.Segments[i]
		if off := addr - s.Addr; s.Perm&image.Exec != 0 && addr >= s.Addr && off <= uint64(len(s.Data)) && n <= uint64(len(s.Data))-off {
			return s.Data[off : off+n], nil
		}
	}
	return nil, fmt.Errorf("%w: a table of its boot-time patches names %#x, which is not text", ErrFormat, addr)
}

// table returns the bytes between two symbols, which may be absent, and their address.
func (p *patcher) table(start, stop string) (uint64, []byte) {
	a, b := p.addr(start), p.addr(stop)
	if a == 0 || b <= a {
		return 0, nil
	}
	return a, p.m.Bytes(a, b-a)
}

// apply patches in the order of the kernel: paravirt calls, indirect branches, return sites,
// alternatives, endbr64 that no indirect branch needs, constants of boot; then fentry sites, static calls
// and jump labels.
func (p *patcher) apply() error {
	for _, f := range []func() error{p.paravirt, p.retpolines, p.returns, p.alternatives, p.sealEndbr, p.runtimeConstants, p.fentry, p.staticCalls, p.jumpLabels} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func rel32(at uint64, b []byte) uint64 {
	return at + uint64(int64(int32(binary.LittleEndian.Uint32(b))))
}

// branch writes a call or jmp of 5 bytes.
func branch(b []byte, op byte, at, to uint64) {
	b[0] = op
	binary.LittleEndian.PutUint32(b[1:], uint32(to-at-5))
}

// Features that choose more than alternatives: their numbers are the same in all releases.
var (
	featureRetpoline = everywhere["retpoline"]
	featureLfence    = everywhere["retpoline_lfence"]
	featureRethunk   = everywhere["rethunk"]
)

// thunkSize is the distance of the thunks of __x86_indirect_thunk_array, which has one for each
// register, in the order of their numbers.
const thunkSize = 32

// retpolines is apply_retpolines: a branch to a thunk becomes the indirect branch that it stands for,
// where the processor needs no thunk.
func (p *patcher) retpolines() error {
	lfence := p.features.Has(featureLfence)
	thunks := p.addr("__x86_indirect_thunk_array")
	if p.features.Has(featureRetpoline) && !lfence || thunks == 0 {
		return nil
	}
	at, b := p.table("__retpoline_sites", "__retpoline_sites_end")
	for i := 0; i+4 <= len(b); i += 4 {
		site := rel32(at+uint64(i), b[i:])
		t, err := p.text(site, 5)
		if err != nil {
			return err
		}
		if t[0] == 0x0f || t[0] == prefixCS {
			if t, err = p.text(site, 6); err != nil {
				return err
			}
		}
		p.retpoline(site, t, thunks, lfence)
	}
	return nil
}

// prefixCS is before a branch to the thunk of r8 to r15 to make room for the prefix that these need.
const prefixCS = 0x2e

// retpoline writes one of them: call, jmp or jcc. A jcc becomes the opposite one over a jmp.
func (p *patcher) retpoline(site uint64, t []byte, thunks uint64, lfence bool) {
	n := len(t)
	to := rel32(site+uint64(n), t[n-4:]) - thunks
	if to%thunkSize != 0 || to/thunkSize > 15 {
		return
	}
	reg := byte(to / thunkSize)
	var code []byte
	modrm := byte(0xe0)
	switch op := t[n-5]; {
	case n == 6 && t[0] == 0x0f && op&0xf0 == 0x80:
		code = []byte{0x70 | op&0xf ^ 1, byte(n - 2)}
	case op == opCall:
		modrm = 0xd0
	case op != opJmp:
		return
	}
	if lfence {
		code = append(code, 0x0f, 0xae, 0xe8)
	}
	if reg >= 8 {
		code = append(code, 0x41)
	}
	if code = append(code, 0xff, modrm|reg&7); len(code) > n {
		return // it does not fit: the thunk, itself an alternative, does it
	}
	if len(code) < n && modrm == 0xe0 && p.int3 { // against speculation past the jump
		code = append(code, opInt3)
	}
	p.pad(t[copy(t, code):])
}

// returnThunks are the thunks of processors whose rets are not safe, by the feature that chooses one.
var returnThunks = []struct{ feature, thunk string }{
	{"srso_alias", "srso_alias_return_thunk"}, {"srso", "srso_return_thunk"}, {"unret", "retbleed_return_thunk"},
}

// returns makes "jmp __x86_return_thunk" a ret, where the processor needs no thunk, and a jmp to the
// thunk that it needs otherwise.
func (p *patcher) returns() error {
	thunk := uint64(0)
	if p.features.Has(featureRethunk) {
		for _, r := range returnThunks {
			if p.features.Has(everywhere[r.feature]) && thunk == 0 {
				thunk = p.addr(r.thunk)
			}
		}
		if thunk == 0 {
			return nil
		}
	}
	at, b := p.table("__return_sites", "__return_sites_end")
	for i := 0; i+4 <= len(b); i += 4 {
		site := rel32(at+uint64(i), b[i:])
		t, err := p.text(site, 5)
		if err != nil {
			return err
		}
		if t[0] != opJmp {
			continue
		}
		if thunk != 0 {
			branch(t, opJmp, site, thunk)
			continue
		}
		copy(t, []byte{opRet, opInt3, opInt3, opInt3, opInt3})
	}
	return nil
}

// fentry makes the calls of __fentry__ nops.
func (p *patcher) fentry() error {
	_, b := p.table("__start_mcount_loc", "__stop_mcount_loc")
	for i := 0; i+8 <= len(b); i += 8 {
		at := binary.LittleEndian.Uint64(b[i:])
		if at == 0 { // of a weak function that another one has replaced
			continue
		}
		t, err := p.text(at, 5)
		if err != nil {
			return err
		}
		copy(t, nops[5])
	}
	return nil
}

// altShape is the layout of struct alt_instr.
type altShape struct {
	size, lens int // of an entry; where its two lengths are
	flags      int // where the flags are, or 0: bit 15 of the feature inverts
}

// altShapes are the layouts of 6.1 (12 bytes), 5.10 (13, with a third length) and 6.3 and later (14).
var altShapes = []altShape{{12, 10, 0}, {14, 12, 10}, {13, 10, 0}}

// shape returns the layout that fits a table: with it all entries are text.
func (p *patcher) shape(at uint64, b []byte) (altShape, error) {
	for _, s := range altShapes {
		if len(b)%s.size != 0 {
			continue
		}
		fits := true
		for i := 0; i < len(b) && fits; i += s.size {
			e := b[i : i+s.size]
			n, r := uint64(e[s.lens]), uint64(e[s.lens+1])
			_, err := p.text(rel32(at+uint64(i), e), n)
			if err == nil && r > 0 {
				_, err = p.text(rel32(at+uint64(i)+4, e[4:]), r)
			}
			fits = err == nil && r <= n && n > 0
		}
		if fits {
			return s, nil
		}
	}
	return altShape{}, fmt.Errorf("%w: the layout of its alternatives is not known", ErrFormat)
}

// alternatives is apply_alternatives: an instruction whose processor has the feature is replaced,
// others are only padded with long nops.
func (p *patcher) alternatives() error {
	at, b := p.table("__alt_instructions", "__alt_instructions_end")
	if b == nil {
		return nil
	}
	s, err := p.shape(at, b)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += s.size {
		if err := p.alternative(at+uint64(i), b[i:i+s.size], s); err != nil {
			return err
		}
	}
	return nil
}

func (p *patcher) alternative(at uint64, e []byte, s altShape) error {
	site, from := rel32(at, e), rel32(at+4, e[4:])
	feature := binary.LittleEndian.Uint16(e[8:])
	not := feature&0x8000 != 0
	direct := false
	if s.flags != 0 {
		flags := binary.LittleEndian.Uint16(e[s.flags:])
		not, direct = flags&1 != 0, flags&2 != 0
	}
	n, r := uint64(e[s.lens]), uint64(e[s.lens+1])
	t, err := p.text(site, n)
	if err != nil {
		return err
	}
	if p.features.Has(int(feature&0x7fff)) == not {
		p.padNops(t)
		return nil
	}
	with, err := p.text(from, r)
	if err != nil {
		return err
	}
	var b []byte
	if direct {
		if b = p.directCall(site, t); b == nil {
			return nil
		}
	} else {
		b = p.relocated(with, from, site, s.flags != 0)
	}
	copy(t, b)
	if len(b) < len(t) {
		p.pad(t[len(b):])
	}
	p.padNops(t)
	return nil
}

// directCall returns a call of the function whose address the operand of an indirect call has.
func (p *patcher) directCall(site uint64, t []byte) []byte {
	if len(t) < 6 || t[0] != 0xff || t[1] != 0x14 && t[1] != 0x15 {
		return nil
	}
	i, err := insn.Decode(t)
	if err != nil {
		return nil
	}
	slot := uint64(i.Disp)
	if i.RIPRelative() {
		slot += site + uint64(i.Len)
	}
	to := p.pointer(slot)
	switch to {
	case 0:
		return nil
	case p.addr("nop_func"):
		return []byte{}
	}
	b := make([]byte, 5)
	branch(b, opCall, site, to)
	return b
}

// pointer returns what the 8 bytes of data at an address point to, or 0.
func (p *patcher) pointer(addr uint64) uint64 {
	if b := p.m.Bytes(addr, 8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// relocated returns a replacement that is moved. Its first instruction may be a relative branch, of
// which a jmp becomes as short as it can; what is left of it are nops, or int3 in later kernels.
func (p *patcher) relocated(b []byte, from, to uint64, int3 bool) []byte {
	b = append([]byte(nil), b...)
	if len(b) == 5 && b[0] == opCall {
		branch(b, opCall, to, from+5+uint64(int64(int32(binary.LittleEndian.Uint32(b[1:])))))
	}
	if len(b) >= 5 && b[0] == opJmp {
		target := from + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(b[1:]))))
		if d := int64(target - to - 2); d <= 127 && (d >= 0 || int3 && d >= -128) { // before, a jump back stays long
			b[0], b[1] = 0xeb, byte(d)
			if p.pad(b[2:5]); int3 {
				copy(b[2:5], []byte{opInt3, opInt3, opInt3})
			}
		} else {
			branch(b, opJmp, to, target)
		}
	}
	return b
}

// padNops joins the one-byte nops of a range to longer ones.
func (p *patcher) padNops(t []byte) {
	for i := 0; i < len(t); {
		if t[i] == opNop {
			n := i
			for n < len(t) && t[n] == opNop {
				n++
			}
			if n-i > 1 {
				p.pad(t[i:n])
			}
			i = n
			continue
		}
		in, err := insn.Decode(t[i:])
		if err != nil {
			return
		}
		i += in.Len
	}
}

// natives are the operations that kernels before 5.12 write as instructions, by the functions that
// implement them.
var natives = map[string][]byte{
	"native_save_fl":              {0x9c, 0x58},       // pushf; pop %rax
	"native_restore_fl":           {0x57, 0x9d},       // push %rdi; popf
	"native_irq_disable":          {0xfa},             // cli
	"native_irq_enable":           {0xfb},             // sti
	"native_wbinvd":               {0x0f, 0x09},       // wbinvd
	"native_read_cr2":             {0x0f, 0x20, 0xd0}, // mov %cr2,%rax
	"__native_read_cr3":           {0x0f, 0x20, 0xd8}, // mov %cr3,%rax
	"native_write_cr3":            {0x0f, 0x22, 0xdf}, // mov %rdi,%cr3
	"native_swapgs":               {0x0f, 0x01, 0xf8}, // swapgs
	"_paravirt_ident_64":          {0x48, 0x89, 0xf8}, // mov %rdi,%rax
	"__native_queued_spin_unlock": {0xc6, 0x07, 0x00}, // movb $0,(%rdi)
	"__native_vcpu_is_preempted":  {0x31, 0xc0},       // xor %eax,%eax
}

// paravirt makes the indirect calls of pv_ops direct ones, or nothing, up to 6.1; later kernels have
// alternatives for it. An entry has the address, the number of the operation and the length.
func (p *patcher) paravirt() error {
	_, b := p.table("__parainstructions", "__parainstructions_end")
	ops, nothing := p.addr("pv_ops"), p.addr("_paravirt_nop")
	native := map[uint64][]byte{}
	if p.addr("native_usergs_sysret64") != 0 || p.addr("paravirt_patch_default") != 0 {
		for name, code := range natives {
			native[p.addr(name)] = code
			native[p.addr("__raw_callee_save_"+name)] = code
		}
	}
	const size, needed = 16, 10 // a module's last entry has no padding
	for i := 0; i+needed <= len(b); i += size {
		site, op, n := binary.LittleEndian.Uint64(b[i:]), uint64(b[i+8]), uint64(b[i+9])
		t, err := p.text(site, n)
		if err != nil {
			return err
		}
		to := p.pointer(ops + 8*op)
		switch {
		case to == 0:
			continue
		case len(native[to]) > 0 && uint64(len(native[to])) <= n:
			p.pad(t[copy(t, native[to]):])
		case n < 5 && to != nothing:
			continue
		case to == nothing:
			p.pad(t)
		default:
			branch(t, opCall, site, to)
			p.pad(t[5:])
		}
	}
	return nil
}

var (
	endbr       = []byte{0xf3, 0x0f, 0x1e, 0xfa}
	endbrPoison = []byte{0x66, 0x0f, 0x1f, 0x00} // gen_endbr_poison: nopw (%rax)
)

// sealEndbr is apply_seal_endbr: a function whose address nobody takes loses its endbr64, on each
// processor.
func (p *patcher) sealEndbr() error {
	at, b := p.table("__ibt_endbr_seal", "__ibt_endbr_seal_end")
	for i := 0; i+4 <= len(b); i += 4 {
		t, err := p.text(rel32(at+uint64(i), b[i:]), uint64(len(endbr)))
		if err != nil {
			return err
		}
		if bytes.Equal(t, endbr) {
			copy(t, endbrPoison)
		}
	}
	return nil
}

// userPtrMax is USER_PTR_MAX of a processor without five levels of page tables.
const userPtrMax = 0x7ffffffff000

// runtimeConstants is runtime_const_init of the one constant that does not depend on the machine's memory.
func (p *patcher) runtimeConstants() error {
	at, b := p.table("__start_runtime_ptr_USER_PTR_MAX", "__stop_runtime_ptr_USER_PTR_MAX")
	for i := 0; i+4 <= len(b); i += 4 {
		t, err := p.text(rel32(at+uint64(i), b[i:]), 8)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(t, userPtrMax)
	}
	return nil
}

// preemptCalls are the static calls that preempt_dynamic_init switches for preempt=voluntary, which
// distributions build as the default, and the functions that they call then; "" means none.
var preemptCalls = map[string]string{
	"preempt_schedule": "", "preempt_schedule_notrace": "", "irqentry_exit_cond_resched": "",
	"might_resched": "__cond_resched", "cond_resched": "__cond_resched",
}

// switched returns what boot makes of static calls: by their keys, the functions. The kernel's trampolines
// of them are changed.
func (p *patcher) switched() (map[uint64]uint64, error) {
	if !p.voluntary {
		return nil, nil
	}
	to := map[uint64]uint64{}
	for name, function := range preemptCalls {
		key := p.addr("__SCK__" + name)
		if key == 0 {
			continue
		}
		to[key] = 0
		if function != "" {
			to[key] = p.addr(function)
		}
		tramp := p.addr("__SCT__" + name)
		if tramp == 0 {
			continue
		}
		t, err := p.text(tramp, 5)
		if err != nil {
			return nil, err
		}
		if to[key] == 0 {
			copy(t, []byte{opRet, opInt3, opInt3, opInt3, opInt3})
		} else {
			branch(t, opJmp, tramp, to[key])
		}
	}
	return to, nil
}

// staticCalls is static_call_init: a site calls its function, or nothing.
func (p *patcher) staticCalls() error {
	at, b := p.table("__start_static_call_sites", "__stop_static_call_sites")
	zero := p.addr("__static_call_return0")
	switched, err := p.switched()
	if err != nil {
		return err
	}
	for i := 0; i+8 <= len(b); i += 8 {
		key := rel32(at+uint64(i)+4, b[i+4:])
		tail := key&1 != 0
		site := rel32(at+uint64(i), b[i:])
		t, err := p.text(site, 5)
		if err != nil {
			return err
		}
		op := byte(opCall)
		if tail {
			op = opJmp
		}
		if t[0] != op { // a conditional tail call
			continue
		}
		to, known := switched[key&^3]
		if !known {
			to = p.pointer(key &^ 3)
		}
		switch {
		case to == 0 && tail:
			copy(t, []byte{opRet, opInt3, opInt3, opInt3, opInt3})
		case to == 0:
			copy(t, nops[5])
		case to == zero && !tail:
			copy(t, []byte{0x2e, 0x2e, 0x2e, 0x31, 0xc0})
		default:
			branch(t, op, site, to)
		}
	}
	return nil
}

// jumpLabels is jump_label_init: a site jumps where its key, as it is in the image, says so.
func (p *patcher) jumpLabels() error {
	at, b := p.table("__start___jump_table", "__stop___jump_table")
	const size = 16
	for i := 0; i+size <= len(b); i += size {
		e := at + uint64(i)
		site, target := rel32(e, b[i:]), rel32(e+4, b[i+4:])
		key := e + 8 + binary.LittleEndian.Uint64(b[i+8:])
		t, err := p.text(site, 2)
		if err != nil {
			return err
		}
		enabled := false
		if k := p.m.Bytes(key&^3, 4); k != nil {
			enabled = int32(binary.LittleEndian.Uint32(k)) > 0
		}
		long := t[0] == opJmp || t[0] == 0x0f
		jumps := enabled != (key&1 != 0)
		switch d := int64(target - site - 2); {
		case long:
			if t, err = p.text(site, 5); err != nil {
				return err
			}
			if copy(t, nops[5]); jumps {
				branch(t, opJmp, site, target)
			}
		case jumps && d >= -128 && d <= 127:
			t[0], t[1] = 0xeb, byte(d)
		case !jumps:
			copy(t, nops[2])
		}
	}
	return nil
}

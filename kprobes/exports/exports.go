// Package exports implements register_kprobe, register_ftrace_function and the related
// functions that kernel modules in the guest call. It reads struct kprobe and struct kretprobe (in 6.1's
// layout) from guest memory, registers a probe whose handlers are the guest functions
// named there, and updates the fields of the struct that Linux updates.
//
// The guest's register_kprobe (kernel/guest/kernel/kprobes.c) checks the caller's
// arguments, allocates the instances of a return probe, and waits for Request. What
// it passes is untrusted: bad pointers are EFAULT.
package exports

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Machine calls handlers.
type Machine interface {
	// Handler calls the guest function fn(first, regs, third) during the hit t, where
	// regs is the address of t's pt_regs, and returns its result.
	Handler(t *abi.Trap, fn, first, third uint64) (uint64, error)
}

// Memory is guest memory.
type Memory interface {
	abi.Memory
	// Add32 and Add64 atomically add to an aligned word. They return EFAULT if addr
	// is not aligned or not mapped.
	Add32(addr uint64, d uint32) (uint32, error)
	Add64(addr, d uint64) (uint64, error)
}

// Config holds what Exports needs.
type Config struct {
	Kprobes   *kprobes.Kprobes
	Machine   Machine
	Memory    Memory
	Sites     *ftrace.Sites // where modules' ftrace_ops listen
	Functions Functions     // nil if the kernel has no function tracer
}

// Exports holds the probes that guest code has registered.
type Exports struct {
	conf Config

	mu     sync.Mutex // one request at a time
	probes map[uint64]*probe

	listeners map[uint64]*listener // by the address of their ftrace_ops
	ids       uint64               // the id of the last listener
}

// probe is a registered probe.
type probe struct {
	c      *Config
	at     uint64
	kp     *kprobes.Kprobe
	ret    *kprobes.Retprobe // nil for a kprobe or jprobe
	jp     *kprobes.Jprobe
	nodes  uint64 // return probe: address of its instances, stride bytes each
	stride uint64
	uses   []uint64 // addresses of its struct and of its handlers
	flags  uint32   // kprobe.flags as the kernel has left them
}

var _ kprobes.Mirror = (*probe)(nil)

// Offsets in struct kprobe, bytes.
const (
	kpNext    = 16 // list_head.next
	kpMissed  = 32 // unsigned long
	kpAddr    = 40
	kpSymbol  = 48
	kpOffset  = 56 // u32
	kpPre     = 64
	kpPost    = 72
	kpOpcode  = 80 // u8
	kpFault   = 88 // in releases that have it; in 6.1 part of ainsn, 32 bytes
	kpBreak   = 96
	kpFlags   = 120 // u32
	kprobeLen = 128
)

// Offsets in struct kretprobe, which begins with a struct kprobe.
const (
	rpHandler    = 128
	rpEntry      = 136
	rpMaxActive  = 144 // int
	rpMissed     = 148 // int
	rpDataSize   = 152
	kretprobeLen = 168
)

// Offsets in struct jprobe, which begins with a struct kprobe.
const (
	jpEntry   = 128
	jprobeLen = 136
)

// Offsets in struct kretprobe_instance. The first two are fields of older releases,
// where 6.1 has internals of rethook_node.
const (
	riTask    = 0
	riRP      = 8
	riRetAddr = 32
	riFrame   = 40
	riData    = 48
)

// ReturnTo maps a callback (an abi.HC* number) to the Linux function that
// calls probes' handlers there. Stack traces in handlers of modules show it
// (kernel.Handlers.ReturnTo).
var ReturnTo = map[uint64]string{
	abi.HCFtrace: "aggr_pre_handler", abi.HCOptimized: "opt_pre_handler", abi.HCRethook: "kretprobe_rethook_handler",
}

// CallerNames are these functions for breakpoints (kernel.Handlers.CallerNames). All but
// the first are names of 2.6; the last is a name of 6.1's image (package release).
var CallerNames = [abi.Callers]string{
	abi.CallerAggr: "aggr_pre_handler", abi.CallerKprobe: "kprobe_handler", abi.CallerPost: "post_kprobe_handler", abi.CallerReturn: "kretprobe_rethook_handler",
}

// maxName is the maximum length of a symbol's name: KSYM_NAME_LEN plus
// MODULE_NAME_LEN.
const maxName = 512 + 64

// maxBatch is the maximum number of probes of a request.
const maxBatch = 1 << 20

// maxInstances is the maximum number of instances of a return probe. No guest has
// memory for more.
const maxInstances = 1 << 20

// New returns an Exports without probes.
func New(c Config) *Exports {
	return &Exports{conf: c, probes: map[uint64]*probe{}, listeners: map[uint64]*listener{}}
}

// Request executes a request of guest code (abi.ProbeNr) and returns 0 or -errno. It
// may sleep.
func (e *Exports) Request(nr, addr, arg uint64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var err error
	switch nr {
	case abi.ProbeRegister:
		err = e.register(addr, kprobeLen, 0)
	case abi.RetprobeRegister:
		err = e.register(addr, kretprobeLen, arg)
	case abi.JprobeRegister:
		err = e.register(addr, jprobeLen, 0)
	case abi.JprobesRegister:
		err = e.registerJprobes(addr, arg)
	case abi.ProbeUnregister, abi.RetprobeUnregister:
		err = e.unregister(addr, arg)
	case abi.ProbeEnable:
		err = e.change(addr, (*kprobes.Kprobes).Enable)
	case abi.ProbeDisable:
		err = e.change(addr, (*kprobes.Kprobes).Disable)
	case abi.FtraceRegister, abi.FtraceUnregister, abi.FtraceSet:
		err = e.requestFtrace(nr, addr)
	default:
		err = syscall.EINVAL
	}
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return -int64(errno)
	}
	return -int64(syscall.EIO)
}

// fields are the bytes of a struct.
type fields []byte

func (f fields) u64(at int) uint64 { return binary.LittleEndian.Uint64(f[at:]) }
func (f fields) u32(at int) uint32 { return binary.LittleEndian.Uint32(f[at:]) }

func (e *Exports) register(at, size, nodes uint64) error {
	f := make(fields, size)
	if err := e.conf.Memory.ReadAt(at, f); err != nil {
		return err
	}
	name, err := e.name(f.u64(kpSymbol))
	if err != nil {
		return err
	}
	p := e.probes[at]
	if p == nil {
		if size == kretprobeLen && int32(f.u32(rpMaxActive)) > maxInstances {
			return fmt.Errorf("%d instances: %w", f.u32(rpMaxActive), syscall.ENOMEM)
		}
		p = &probe{c: &e.conf, at: at, nodes: nodes}
		p.init(f)
		p.kp.Addr, p.kp.SymbolName, p.kp.Offset = f.u64(kpAddr), name, f.u32(kpOffset)
		p.flags = f.u32(kpFlags)
		p.kp.Flags = kprobes.Flags(p.flags)
		p.kp.Mirror = p
	} // otherwise it is registered already: the struct is not read again
	switch {
	case p.ret != nil:
		err = e.conf.Kprobes.RegisterRetprobe(p.ret)
	case p.jp != nil:
		err = e.conf.Kprobes.RegisterJprobe(p.jp)
	default:
		err = e.conf.Kprobes.Register(p.kp)
	}
	if err == nil {
		e.probes[at] = p
	}
	if e := p.writeBack(); err == nil {
		err = e
	}
	return err
}

// registerJprobes is register_jprobes. array is the address of n pointers; n is an
// int.
func (e *Exports) registerJprobes(array, n uint64) error {
	if int32(n) <= 0 || n > maxBatch {
		return fmt.Errorf("%d probes at once: %w", int32(n), syscall.EINVAL)
	}
	for i := range n {
		at, err := e.conf.Memory.ReadU64(array + 8*i)
		if err == nil {
			err = e.register(at, jprobeLen, 0)
		}
		if err != nil {
			return errors.Join(err, e.unregister(array, i))
		}
	}
	return nil
}

// name reads a symbol's name. It returns "" if at is 0.
func (e *Exports) name(at uint64) (string, error) {
	if at == 0 {
		return "", nil
	}
	var b [maxName]byte
	for i := range b {
		if err := e.conf.Memory.ReadAt(at+uint64(i), b[i:i+1]); err != nil {
			return "", err
		}
		if b[i] == 0 {
			break
		}
	}
	name, _, ended := bytes.Cut(b[:], []byte{0})
	if !ended || len(name) == 0 {
		return "", fmt.Errorf("symbol %q: %w", name, syscall.ENOENT)
	}
	return string(name), nil
}

// init sets the handlers.
func (p *probe) init(f fields) {
	p.uses = []uint64{p.at, f.u64(kpPre), f.u64(kpPost), f.u64(kpFault), f.u64(kpBreak)}
	if len(f) > kprobeLen {
		p.uses = append(p.uses, f.u64(kprobeLen)) // rpHandler or jpEntry
	}
	if len(f) == kretprobeLen {
		p.uses = append(p.uses, f.u64(rpEntry))
	}
	switch len(f) {
	case kprobeLen:
		p.kp = &kprobes.Kprobe{Struct: p.at}
		if fn := f.u64(kpPre); fn != 0 {
			p.kp.PreHandler = func(h *kprobes.Hit) int { return int(int32(p.handle(h, fn, 0))) }
		}
		p.initPost(f)
	case jprobeLen:
		p.jp = &kprobes.Jprobe{Entry: f.u64(jpEntry)}
		p.kp = &p.jp.Kprobe
		p.initPost(f)
	default:
		p.initRet(f)
	}
	if fn := f.u64(kpFault); fn != 0 && !p.c.Kprobes.Has(release.NoFaultHandlers) {
		p.kp.FaultHandler = func(h *kprobes.Hit, nr int) int { return int(int32(p.handle(h, fn, uint64(nr)))) }
	}
	if fn := f.u64(kpBreak); fn != 0 && !p.c.Kprobes.Has(release.NoBreakHandlers) {
		p.kp.BreakHandler = func(h *kprobes.Hit) int { return int(int32(p.handle(h, fn, 0))) }
	}
}

func (p *probe) initPost(f fields) {
	if fn := f.u64(kpPost); fn != 0 {
		p.kp.PostHandler = func(h *kprobes.Hit, flags uint64) { p.handle(h, fn, flags) }
	}
}

func (p *probe) initRet(f fields) {
	p.ret = &kprobes.Retprobe{Struct: p.at, MaxActive: int(int32(f.u32(rpMaxActive))), DataSize: f.u64(rpDataSize)}
	p.kp = &p.ret.Kprobe
	p.stride = riData + (p.ret.DataSize+7)&^7
	if fn := f.u64(rpEntry); fn != 0 {
		p.ret.EntryHandler = func(ri *kprobes.Instance, h *kprobes.Hit) int { return p.handleRet(ri, h, fn, h.Regs.SP) }
	}
	if fn := f.u64(rpHandler); fn != 0 {
		p.ret.Handler = func(ri *kprobes.Instance, h *kprobes.Hit) int { return p.handleRet(ri, h, fn, h.Regs.SP-8) }
	}
}

// handle calls a handler of a kprobe.
func (p *probe) handle(h *kprobes.Hit, fn, flags uint64) uint64 {
	ret, err := p.c.Machine.Handler(h.Trap, fn, p.at, flags)
	must(err)
	return ret
}

// handleRet calls a handler of a return probe. frame is the address of the return
// address.
func (p *probe) handleRet(ri *kprobes.Instance, h *kprobes.Hit, fn, frame uint64) int {
	node := p.nodes + uint64(ri.Index)*p.stride
	if ri.RetAddr != 0 { // an entry handler finds what the instance's last call has left
		must(h.Mem.WriteU64(node+riRetAddr, ri.RetAddr))
		must(h.Mem.WriteU64(node+riFrame, frame))
	}
	if !p.c.Kprobes.Has(release.NoInstanceRP) {
		must(h.Mem.WriteU64(node+riTask, ri.Task))
		must(h.Mem.WriteU64(node+riRP, p.at))
	}
	ret, err := p.c.Machine.Handler(h.Trap, fn, node, 0)
	must(err)
	return int(int32(ret))
}

// must panics on an error, whereupon kprobes disables the probe.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// writeBack writes the fields of the struct that registering changes, except for
// those that Mirror's methods write.
func (p *probe) writeBack() error {
	err := p.c.Memory.WriteU64(p.at+kpAddr, p.kp.Addr)
	if p.ret != nil {
		err = errors.Join(err, put32(p.c.Memory, p.at+rpMaxActive, uint32(p.ret.MaxActive)))
	}
	return err
}

// SetFlags and the methods below implement kprobes.Mirror. Errors are ignored: the
// memory of the struct may have been freed since register read it. As on Linux only the
// bits that change are written: the others may have been changed by the module.
func (p *probe) SetFlags(f kprobes.Flags) {
	var b [4]byte
	if p.c.Memory.ReadAt(p.at+kpFlags, b[:]) != nil {
		return
	}
	changed := p.flags ^ uint32(f)
	p.flags = uint32(f)
	_ = put32(p.c.Memory, p.at+kpFlags, binary.LittleEndian.Uint32(b[:])&^changed|uint32(f)&changed)
}

// SetNext writes kprobe.list.next, which on Linux leads through the probes of an address too.
func (p *probe) SetNext(at uint64) { _ = p.c.Memory.WriteU64(p.at+kpNext, at) }

// SetOpcode writes kprobe.opcode.
func (p *probe) SetOpcode(b byte) { _ = p.c.Memory.WriteAt(p.at+kpOpcode, []byte{b}) }

// Missed adds n to kprobe.nmissed, or sets it to 0 if n is 0.
func (p *probe) Missed(n uint64) {
	m, at := p.c.Memory, p.at+kpMissed
	if n == 0 {
		_ = m.WriteU64(at, 0)
	} else if _, err := m.Add64(at, n); err != nil { // not aligned
		v, _ := m.ReadU64(at)
		_ = m.WriteU64(at, v+n)
	}
}

// RetMissed adds n to kretprobe.nmissed, or sets it to 0 if n is 0.
func (p *probe) RetMissed(n uint64) {
	m, at := p.c.Memory, p.at+rpMissed
	if n == 0 {
		_ = put32(m, at, 0)
	} else if _, err := m.Add32(at, uint32(n)); err != nil {
		var b [4]byte
		_ = m.ReadAt(at, b[:])
		_ = put32(m, at, binary.LittleEndian.Uint32(b[:])+uint32(n))
	}
}

func put32(m abi.Memory, at uint64, v uint32) error {
	return m.WriteAt(at, binary.LittleEndian.AppendUint32(nil, v))
}

// unregister unregisters the probes of an array of n pointers to structs. In structs
// that are not registered it clears the address. It returns EFAULT if the array or a
// struct is not mapped; the probes before it are unregistered then.
func (e *Exports) unregister(array, n uint64) error {
	if n > maxBatch {
		return fmt.Errorf("%d probes at once: %w", n, syscall.EINVAL)
	}
	var gone []*probe
	var bad error
	for i := uint64(0); i < n && bad == nil; i++ {
		at, err := e.conf.Memory.ReadU64(array + 8*i)
		if err != nil {
			bad = err
			continue
		}
		p := e.probes[at]
		if p == nil {
			bad = e.conf.Memory.WriteU64(at+kpAddr, 0)
			continue
		}
		delete(e.probes, at)
		gone = append(gone, p)
	}
	return errors.Join(bad, e.remove(gone))
}

// remove unregisters probes that have been removed from e.probes.
func (e *Exports) remove(gone []*probe) error {
	var kps []*kprobes.Kprobe
	var rps []*kprobes.Retprobe
	for _, p := range gone {
		if p.ret != nil {
			rps = append(rps, p.ret)
		} else {
			kps = append(kps, p.kp)
		}
	}
	err := errors.Join(e.conf.Kprobes.UnregisterAll(kps), e.conf.Kprobes.UnregisterRetprobes(rps))
	return err
}

// Gone unregisters the probes and ftrace_ops whose struct or one of whose handlers is in
// memory of a module that is about to be freed. Linux does not, and later calls whatever is at
// these addresses.
func (e *Exports) Gone(freed []abi.Range) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var gone []*probe
	for at, p := range e.probes {
		if slices.ContainsFunc(freed, func(r abi.Range) bool { return slices.ContainsFunc(p.uses, r.Contains) }) {
			delete(e.probes, at)
			gone = append(gone, p)
		}
	}
	return errors.Join(e.remove(gone), e.gone(freed))
}

// change enables or disables a probe. It returns EINVAL if the probe is not
// registered.
func (e *Exports) change(at uint64, f func(*kprobes.Kprobes, *kprobes.Kprobe, ...*kprobes.Hit) error) error {
	p := e.probes[at]
	if p == nil {
		return fmt.Errorf("no probe is registered for the struct at %#x: %w", at, syscall.EINVAL)
	}
	return f(e.conf.Kprobes, p.kp)
}

package exports

import (
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
)

// Functions are the functions that can be listened to, and the function tracer's filters.
type Functions interface {
	// FindFunctions returns the sites of the functions that match a pattern as written
	// to set_ftrace_filter.
	FindFunctions(pattern string) []uint64
	// SetGlobalFilter changes set_ftrace_filter, or set_ftrace_notrace.
	SetGlobalFilter(notrace bool, pattern string, reset bool) error
	// FunctionAt returns the site of the function whose entry or site is at addr.
	FunctionAt(addr uint64) (site uint64, ok bool)
}

// Offsets in struct ftrace_ops, bytes.
const (
	opFunc      = 0
	opFlags     = 16
	opSaved     = 32
	opHash      = 40 // struct ftrace_ops_hash
	opFuncHash  = 88 // its address
	opTramp     = 144
	opTrampSize = 152
	opsLen      = 184

	hashFilter  = opHash + 8  // points to a struct ftrace_hash; here it is the number of the filters, see listener
	hashWaiters = opHash + 32 // list_head of the mutex
)

// Bits of ftrace_ops.flags.
const (
	opEnabled     = 1 << 0
	opDynamic     = 1 << 1
	opSaveRegs    = 1 << 2
	opRecursion   = 1 << 4
	opInitialized = 1 << 6
	opDeleted     = 1 << 7
	opAdding      = 1 << 8
	opAllocTramp  = 1 << 11
	opIPModify    = 1 << 12
	opRCU         = 1 << 14
	opPermanent   = 1 << 16
)

// listener is a module's ftrace_ops: its filters, which may be there before it is
// registered.
type listener struct {
	id              uint64 // in the struct, so that another one at its address is told from it
	at, fn          uint64
	filter, notrace map[uint64]bool
	ops             *ftrace.Ops // nil unless registered
}

// Limits of what modules can make the daemon hold.
const (
	maxListeners = 1 << 12
	maxFiltered  = 1 << 20 // functions in all filters
	maxPattern   = 256     // bytes; FTRACE_BUFF_MAX is more than any name
)

// listener returns the filters of the ftrace_ops at an address, empty ones if it is new.
// It initializes the struct as ftrace_ops_init does.
func (e *Exports) listener(at uint64) (*listener, fields, error) {
	f := make(fields, opsLen)
	if err := e.conf.Memory.ReadAt(at, f); err != nil {
		return nil, nil, err
	}
	l := e.listeners[at]
	if l == nil || l.id != f.u64(hashFilter) && l.ops == nil {
		if l == nil && len(e.listeners) >= maxListeners {
			return nil, nil, fmt.Errorf("%d ftrace_ops: %w", maxListeners, syscall.ENOMEM)
		}
		e.ids++
		l = &listener{id: e.ids, at: at, filter: map[uint64]bool{}, notrace: map[uint64]bool{}}
		if err := e.initOps(at, l.id); err != nil {
			return nil, nil, err
		}
		e.listeners[at] = l
	}
	if f.u64(opFlags)&opInitialized == 0 {
		if err := e.initOps(at, l.id); err != nil {
			return nil, nil, err
		}
	}
	err := e.conf.Memory.ReadAt(at, f)
	return l, f, err
}

func (e *Exports) initOps(at, id uint64) error {
	flags, err := e.conf.Memory.ReadU64(at + opFlags)
	for _, w := range []struct{ off, v uint64 }{
		{opFlags, flags | opInitialized},
		{hashFilter, id},
		{opFuncHash, at + opHash},
		{hashWaiters, at + hashWaiters},
		{hashWaiters + 8, at + hashWaiters},
	} {
		if err == nil {
			err = e.conf.Memory.WriteU64(at+w.off, w.v)
		}
	}
	return err
}

// requestFtrace answers the requests about ftrace_ops. They are ENODEV in a kernel
// without a function tracer.
func (e *Exports) requestFtrace(nr, addr uint64) error {
	switch {
	case e.conf.Functions == nil:
		return fmt.Errorf("no function tracer: %w", syscall.ENODEV)
	case nr == abi.FtraceRegister:
		return e.registerOps(addr)
	case nr == abi.FtraceUnregister:
		return e.unregisterOps(addr)
	}
	return e.setFilter(addr)
}

// wanted returns the sites that its filters select.
func (e *Exports) wanted(l *listener) []uint64 {
	var sites []uint64
	if len(l.filter) > 0 {
		sites = slices.Sorted(maps.Keys(l.filter))
	} else {
		sites = e.conf.Sites.All()
	}
	return slices.DeleteFunc(sites, func(a uint64) bool { return l.notrace[a] })
}

// registerOps is register_ftrace_function. It returns EBUSY for one that is registered.
func (e *Exports) registerOps(at uint64) error {
	l, f, err := e.listener(at)
	if err != nil {
		return err
	}
	flags := f.u64(opFlags)
	switch {
	case flags&opDeleted != 0:
		return fmt.Errorf("the ftrace_ops at %#x is being deleted: %w", at, syscall.EINVAL)
	case l.ops != nil || flags&opEnabled != 0:
		return fmt.Errorf("the ftrace_ops at %#x is registered: %w", at, syscall.EBUSY)
	case flags&opPermanent != 0 && !e.conf.Sites.Enabled():
		return fmt.Errorf("a permanent ftrace_ops, and kernel.ftrace_enabled is 0: %w", syscall.EBUSY)
	}
	l.fn = f.u64(opFunc)
	o := &ftrace.Ops{
		Struct: at, Target: l.fn, Regs: flags&opSaveRegs != 0, Assist: flags&(opRecursion|opRCU) != 0,
		IPModify: flags&opIPModify != 0, Permanent: flags&opPermanent != 0, Allocated: true,
	}
	flags |= opDynamic | opAllocTramp
	if o.IPModify && len(l.filter) == 0 {
		err = fmt.Errorf("an ftrace_ops with IPMODIFY for all functions: %w", syscall.EINVAL)
	} else {
		err = e.conf.Sites.AddOps(o, e.wanted(l))
	}
	flags |= opAdding // stays when it fails, as on Linux
	if err == nil {
		l.ops = o
		flags = flags&^opAdding | opEnabled
	}
	m := e.conf.Memory
	for _, w := range []struct{ off, v uint64 }{{opFlags, flags}, {opSaved, l.fn}, {opTramp, o.Trampoline()}} {
		if werr := m.WriteU64(at+w.off, w.v); err == nil {
			err = werr
		}
	}
	return err
}

// unregisterOps is unregister_ftrace_function. It returns EBUSY for one that is not
// registered.
func (e *Exports) unregisterOps(at uint64) error {
	l := e.listeners[at]
	if l == nil || l.ops == nil {
		return fmt.Errorf("the ftrace_ops at %#x is not registered: %w", at, syscall.EBUSY)
	}
	err := e.conf.Sites.RemoveOps(l.ops)
	l.ops = nil
	flags, rerr := e.conf.Memory.ReadU64(at + opFlags)
	if rerr == nil {
		rerr = e.conf.Memory.WriteU64(at+opFlags, flags&^opEnabled)
	}
	if rerr == nil {
		rerr = e.conf.Memory.WriteU64(at+opTramp, 0)
	}
	if err == nil {
		err = rerr
	}
	return err
}

// setFilter answers a request FtraceSet.
func (e *Exports) setFilter(request uint64) error {
	r := make(fields, abi.FtraceSize)
	if err := e.conf.Memory.ReadAt(request, r); err != nil {
		return err
	}
	kind, buf, n, reset := r.u64(abi.FtraceKind), r.u64(abi.FtraceBuf), int(int32(r.u32(abi.FtraceLen))), r.u64(abi.FtraceReset) != 0
	if r.u64(abi.FtraceOps) == 0 {
		pattern, err := e.pattern(buf, n)
		if err != nil {
			return err
		}
		return e.conf.Functions.SetGlobalFilter(kind == abi.FtraceNotrace, pattern, reset)
	}
	l, _, err := e.listener(r.u64(abi.FtraceOps))
	if err != nil {
		return err
	}
	if kind == abi.FtraceFree {
		if l.ops == nil {
			delete(e.listeners, l.at)
		}
		return nil
	}
	set := &l.filter
	if kind == abi.FtraceNotrace {
		set = &l.notrace
	}
	changed := map[uint64]bool{}
	if !reset {
		changed = maps.Clone(*set)
	}
	if kind == abi.FtraceAddIPs || kind == abi.FtraceRemoveIPs {
		err = e.changeIPs(changed, buf, n, kind == abi.FtraceRemoveIPs)
	} else {
		err = e.changeByPattern(changed, buf, n)
	}
	if err != nil {
		return err
	}
	return e.store(l, set, changed)
}

// store sets a filter, unless the listener is registered and cannot have it.
func (e *Exports) store(l *listener, set *map[uint64]bool, changed map[uint64]bool) error {
	total := len(changed) - len(*set)
	for _, other := range e.listeners {
		total += len(other.filter) + len(other.notrace)
	}
	if total > maxFiltered {
		return fmt.Errorf("%d functions in filters: %w", total, syscall.ENOMEM)
	}
	was := *set
	*set = changed
	if l.ops == nil {
		return nil
	}
	var err error
	if l.ops.IPModify && len(l.filter) == 0 {
		err = fmt.Errorf("an ftrace_ops with IPMODIFY for all functions: %w", syscall.EINVAL)
	} else {
		err = e.conf.Sites.Set(l.ops, e.wanted(l))
	}
	if err != nil {
		*set = was
	}
	return err
}

// pattern reads a pattern of n bytes; at 0 it is empty.
func (e *Exports) pattern(at uint64, n int) (string, error) {
	if at == 0 || n <= 0 {
		return "", nil
	}
	b := make([]byte, min(n, maxPattern))
	err := e.conf.Memory.ReadAt(at, b)
	return string(b), err
}

// changeByPattern is ftrace_match_records. Without a pattern the set stays as it is.
func (e *Exports) changeByPattern(set map[uint64]bool, buf uint64, n int) error {
	if buf == 0 {
		return nil
	}
	pattern, err := e.pattern(buf, n)
	if err != nil {
		return err
	}
	remove := len(pattern) > 0 && pattern[0] == '!'
	if remove {
		pattern = pattern[1:]
	}
	found := e.conf.Functions.FindFunctions(pattern)
	if len(found) == 0 {
		return fmt.Errorf("no function %q: %w", pattern, syscall.EINVAL)
	}
	for _, a := range found {
		if remove {
			delete(set, a)
		} else {
			set[a] = true
		}
	}
	return nil
}

// changeIPs adds or removes n addresses, as ftrace_match_addr does: EINVAL for one that
// is no function's, ENOENT if one to remove is not in the set.
func (e *Exports) changeIPs(set map[uint64]bool, buf uint64, n int, remove bool) error {
	if n < 0 || n > maxBatch {
		return fmt.Errorf("%d addresses: %w", n, syscall.EINVAL)
	}
	for i := range uint64(n) {
		addr, err := e.conf.Memory.ReadU64(buf + 8*i)
		if err != nil {
			return err
		}
		site, ok := e.conf.Functions.FunctionAt(addr)
		switch {
		case !ok:
			return fmt.Errorf("no function is at %#x: %w", addr, syscall.EINVAL)
		case remove && !set[site]:
			return fmt.Errorf("%#x is not in the filter: %w", addr, syscall.ENOENT)
		case remove:
			delete(set, site)
		default:
			set[site] = true
		}
	}
	return nil
}

// Coming lets the listeners of all functions listen to the functions of a module that was loaded.
func (e *Exports) Coming() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.listeners {
		if l.ops != nil && len(l.filter) == 0 {
			if err := e.conf.Sites.Set(l.ops, e.wanted(l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// gone removes the listeners whose struct or function is in memory that is about to be
// freed. It returns the first error.
func (e *Exports) gone(freed []abi.Range) (err error) {
	in := func(a uint64) bool {
		return slices.ContainsFunc(freed, func(r abi.Range) bool { return r.Contains(a) })
	}
	for at, l := range e.listeners {
		maps.DeleteFunc(l.filter, func(a uint64, _ bool) bool { return in(a) })
		maps.DeleteFunc(l.notrace, func(a uint64, _ bool) bool { return in(a) })
		if !in(at) && (l.ops == nil || !in(l.fn)) {
			continue
		}
		if l.ops != nil {
			if rerr := e.conf.Sites.RemoveOps(l.ops); err == nil {
				err = rerr
			}
		}
		delete(e.listeners, at)
	}
	return err
}

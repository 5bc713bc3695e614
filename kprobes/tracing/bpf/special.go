package bpf

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
)

// special is a field of a value that the kernel keeps for itself: user space does not see what is in it, and programs use it
// by helpers only.
type special struct {
	name  string // of its structure
	size  int    // bytes
	align uint32
}

// The structures of such fields.
var (
	spinLock = special{name: "bpf_spin_lock", size: 4, align: 4}
	bpfTimer = special{name: "bpf_timer", size: 16, align: 8}
)

// Why a value has no such field, in place of its offset.
const (
	noField     = -1
	manyFields  = -2
	notAStruct  = -3
	badLocation = -4
)

// find returns the field's offset in a structure or section, or the reason why it has none: btf_find_field.
func (f *special) find(c *btfCheck, t *btfType) int {
	if t.kind != btfStruct && t.kind != btfDatasec {
		return notAStruct
	}
	found := noField
	eachField(c, t, func(typ, off uint32) bool {
		m, ok := c.find(typ)
		switch {
		case !ok || m == nil || m.kind != btfStruct || c.nameOf(m) != f.name || int(m.size) != f.size:
			return true
		case off%f.align != 0:
			found = badLocation
		case found >= 0:
			found = manyFields
		default:
			found = int(off)
			return true
		}
		return false
	})
	return found
}

// eachField calls do with the type and the offset in bytes of each member of a structure or variable of a section, until it
// returns false. The offset of one between two bytes is 1.
func eachField(c *btfCheck, t *btfType, do func(typ, off uint32) bool) bool {
	const each = 12
	if t.kind != btfStruct && t.kind != btfDatasec {
		return true
	}
	for n := range int(t.vlen) {
		typ, off := t.word(n*each+4), t.word(n*each+8)
		if t.kind == btfDatasec {
			variable, ok := c.find(t.word(n * each))
			if !ok || variable == nil {
				continue
			}
			typ, off = variable.size, t.word(n*each+4)
		} else {
			if t.flag {
				off &= 0xffffff
			}
			if off%8 != 0 {
				off = 8
			}
			off /= 8
		}
		if !do(typ, off) {
			return false
		}
	}
	return true
}

// nameOf returns a type's name.
func (c *btfCheck) nameOf(t *btfType) string {
	b := c.strings[min(int(t.name), len(c.strings)):]
	if end := slices.Index(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

// field is such a field of a map's values.
type field struct {
	*special
	off int // offset in the value, or why there is none: noField and the others
}

// has reports whether the values have the field.
func (f *field) has() bool { return f.special != nil && f.off >= 0 }

// touches reports whether bytes of a value from lo up to hi may be the field's.
func (f *field) touches(lo, hi int64) bool {
	return f.has() && lo < int64(f.off+f.size) && int64(f.off) < hi
}

// checkSpecial finds the fields of the values. It fails with EACCES in a map that programs only read, and with ENOTSUPP and
// EOPNOTSUPP in one whose type has no such fields.
func (m *Map) checkSpecial(value *btfType) error {
	m.lock = field{&spinLock, spinLock.find(m.btf.types, value)}
	m.timer = field{&bpfTimer, bpfTimer.find(m.btf.types, value)}
	m.kptrs = m.findKptrs(value)
	switch {
	case len(m.kptrs) > 0 && m.flags&(flagProgRead|flagProgWrite) != 0:
		return fmt.Errorf("a pointer of the kernel in a map that programs only read or write: %w", syscall.EACCES)
	case len(m.kptrs) > 0 && m.kind != mapHash && m.kind != mapArray && m.kind != mapLRUHash && m.kind != mapPerCPUArray:
		return fmt.Errorf("a pointer of the kernel in a map of type %d: %w", m.kind, syscall.EOPNOTSUPP)
	case (m.lock.has() || m.timer.has()) && m.flags&flagProgRead != 0:
		return fmt.Errorf("a lock or a timer in a map that programs only read: %w", syscall.EACCES)
	case m.lock.has() && m.kind != mapHash && m.kind != mapArray && m.kind != mapTaskStorage:
		return fmt.Errorf("a lock in a map of type %d: %w", m.kind, errNotSupported)
	case m.timer.has() && m.kind != mapHash && m.kind != mapArray && m.kind != mapLRUHash:
		return fmt.Errorf("a timer in a map of type %d: %w", m.kind, syscall.EOPNOTSUPP)
	}
	return nil
}

// copyValue writes a value, except the fields that the kernel keeps for itself.
func (m *Map) copyValue(to, from []byte) {
	if !m.lock.has() && !m.timer.has() && len(m.kptrs) == 0 {
		copy(to, from)
		return
	}
	for at := range min(len(to), len(from)) {
		if !m.own(int64(at)) {
			to[at] = from[at]
		}
	}
}

// own reports whether a byte of a value is the kernel's own.
func (m *Map) own(at int64) bool {
	for _, k := range m.kptrs {
		if at >= int64(k.off) && at < int64(k.off+kptrSize) {
			return true
		}
	}
	return m.lock.touches(at, at+1) || m.timer.touches(at, at+1)
}

// freeSpecial ends the timer of an element that is written or deleted, and forgets its pointers. The caller holds mem.
func (m *Map) freeSpecial(n int) {
	m.freeTimer(n)
	if len(m.kptrs) == 0 {
		return
	}
	for cpu := range m.cpus {
		for _, k := range m.kptrs {
			clear(m.slot(n*m.cpus + cpu)[k.off : k.off+kptrSize])
		}
	}
}

// specialArgument checks a pointer to such a field of a map's value: process_spin_lock and process_timer_func.
func (v *verifier) specialArgument(p value, r uint8, f *field) error {
	name := f.special.name
	at := int64(p.bits) + int64(p.off)
	errno := v.badField()
	switch {
	case !p.isConst():
		return v.refuse(errno, "R%d doesn't have constant offset. %s has to be at the constant offset", r, name)
	case p.m.btf == nil:
		return v.refuse(errno, "map '%s' has to have BTF in order to use %s", p.m.name, name)
	case f.off < 0 && v.v612:
		return v.refuse(errno, "map '%s' has no valid %s", p.m.name, name)
	case f.off == manyFields:
		return v.refuse(errno, "map '%s' has more than one 'struct %s'", p.m.name, name)
	case f.off == noField:
		return v.refuse(errno, "map '%s' doesn't have 'struct %s'", p.m.name, name)
	case f.off < 0:
		return v.refuse(errno, "map '%s' is not a struct type or %s is mangled", p.m.name, name)
	case at != int64(f.off) && (v.v612 || f.special == &bpfTimer):
		return v.refuse(errno, "off %d doesn't point to 'struct %s' that is at %d", at, name, f.off)
	case at != int64(f.off):
		return v.refuse(errno, "off %d doesn't point to 'struct %s'", at, name)
	}
	return nil
}

// badField is the errno of an argument that is no such field.
func (v *verifier) badField() syscall.Errno {
	if v.v612 {
		return syscall.EINVAL
	}
	return syscall.EACCES
}

// lockArgument follows bpf_spin_lock and bpf_spin_unlock.
func (v *verifier) lockArgument(s *state, r uint8, take bool) error {
	p := s.regs()[r]
	if p.typ != regMapValue {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), v.typeName(regMapValue))
	}
	lock := p.m.lock
	if lock.special == nil {
		lock = field{&spinLock, noField}
	}
	if err := v.specialArgument(p, r, &lock); err != nil {
		return err
	}
	switch {
	case take && s.lock != 0:
		return v.refuse(v.badField(), "Locking two bpf_spin_locks are not allowed")
	case take:
		s.lock = p.id
	case s.lock == 0:
		return v.refuse(v.badField(), "bpf_spin_unlock without taking a lock")
	case s.lock != p.id:
		return v.refuse(v.badField(), "bpf_spin_unlock of different lock")
	default:
		s.lock = 0
	}
	return nil
}

// timerArgument checks a timer, and returns the map that has it.
func (v *verifier) timerArgument(p value, r uint8, m **Map) error {
	if p.typ != regMapValue {
		return v.refuse(syscall.EACCES, "R%d type=%s expected=%s", r, v.typeName(p.typ), v.typeName(regMapValue))
	}
	timer := p.m.timer
	if timer.special == nil {
		timer = field{&bpfTimer, noField}
	}
	*m = p.m
	return v.specialArgument(p, r, &timer)
}

// async verifies a function that a timer calls, once for each map.
func (v *verifier) async(s *state, at int, m *Map) {
	for _, known := range v.asyncs {
		if known.at == at && known.m == m {
			return
		}
	}
	v.asyncs = append(v.asyncs, asyncCallback{at, m})
	f := newFunction(0, -1, at)
	f.async = s.top().async + 1
	for n, t := range []regType{regMap, regKey, regMapValue} {
		f.regs[n+1] = pointer(t)
		f.regs[n+1].m = m
	}
	v.todo = append(v.todo, &state{pc: at, frames: []*function{f}, branches: 1, from: v.at, last: -1, first: at, log: len(v.log.text)})
}

// asyncCallback is a function that timers of a map call.
type asyncCallback struct {
	at int
	m  *Map
}

// mapCompatible is check_map_prog_compatibility: which programs may use a map with locks or timers.
func (v *verifier) mapCompatible(m *Map) error {
	tracing := false
	switch v.prog.kind {
	case ProgKprobe, ProgTracepoint, ProgPerfEvent, ProgRawTracepoint, ProgRawTracepointWritable:
		tracing = true
	default:
	}
	switch {
	case m.lock.has() && v.prog.kind == ProgSocketFilter:
		return v.refuse(syscall.EINVAL, "socket filter progs cannot use bpf_spin_lock yet")
	case m.lock.has() && tracing:
		return v.refuse(syscall.EINVAL, "tracing progs cannot use bpf_spin_lock yet")
	case m.lock.has() && v.prog.sleepable:
		return v.refuse(syscall.EINVAL, "sleepable progs cannot use bpf_spin_lock yet")
	case m.timer.has() && tracing:
		return v.refuse(syscall.EINVAL, "tracing progs cannot use bpf_timer yet")
	case v.prog.sleepable && v.v612 && !sleepableMaps[m.kind] && m.kind != mapQueue && m.kind != mapStack:
		return v.refuse(syscall.EINVAL, "Sleepable programs can only use array, hash, ringbuf and local storage maps")
	case v.prog.sleepable && !v.v612 && !sleepableMaps[m.kind]:
		return v.refuse(syscall.EINVAL, "Sleepable programs can only use array, hash, and ringbuf maps")
	}
	return nil
}

// sleepableMaps are the types of maps that programs may use that can sleep.
var sleepableMaps = map[MapType]bool{
	mapHash: true, mapLRUHash: true, mapArray: true, mapPerCPUHash: true, mapPerCPUArray: true, mapLRUPerCPUHash: true, mapArrayOfMaps: true, mapHashOfMaps: true,
	mapRingbuf: true, mapUserRingbuf: true, mapTaskStorage: true,
}

// timer is struct bpf_hrtimer: what calls a function of a program for an element of a map. It is guarded by System.mem.
type timer struct {
	m        *Map
	slot     int
	prog     *Prog // nil until a function was set
	callback int
	stop     func() // ends the wait; nil if it is not started
	started  int    // counts, so that what has ended too late is told from what waits now
}

// element returns the map of a pointer to a timer, and the element that has it.
func (r *run) timerAt(addr uint64) (m *Map, slot int) {
	at := addr - mapBase
	if at >= mapEnd-mapBase {
		return nil, 0
	}
	m = r.sys.byIndex[at>>mapShift]
	if m == nil || !m.timer.has() || m.stride == 0 {
		return nil, 0
	}
	return m, int(at&(1<<mapShift-1)) / m.stride
}

// timerOf returns the timer at a pointer, or nil if it was not made.
func (r *run) timerOf(addr uint64) *timer {
	m, slot := r.timerAt(addr)
	if m == nil {
		return nil
	}
	return m.timers[slot]
}

// timerInit is bpf_timer_init.
func (r *run) timerInit(a *[numArgs]uint64) uint64 {
	const clockRealtime, maxClocks = 0, 16
	if clock := a[2]; clock >= maxClocks || clock != clockRealtime && clock != clockMonotonic && clock != clockBoottime {
		return errno(syscall.EINVAL)
	}
	m, slot := r.timerAt(a[0])
	switch {
	case m == nil || m != r.mapAt(a[1]):
		return errno(syscall.EINVAL)
	case m.timers[slot] != nil:
		return errno(syscall.EBUSY)
	case m.users.Load() == 0:
		return errno(syscall.EPERM)
	}
	if m.timers == nil {
		m.timers = map[int]*timer{}
	}
	m.timers[slot] = &timer{m: m, slot: slot}
	return 0
}

// timerSetCallback is bpf_timer_set_callback. The timer keeps the program until it is cancelled.
func (r *run) timerSetCallback(a *[numArgs]uint64) uint64 {
	t := r.timerOf(a[0])
	switch {
	case t == nil:
		return errno(syscall.EINVAL)
	case t.m.users.Load() == 0:
		return errno(syscall.EPERM)
	}
	if t.prog != r.prog {
		t.drop()
		t.prog = r.prog
		t.prog.timers++
	}
	t.callback = int(a[1] - funcBase)
	return 0
}

// timerStart is bpf_timer_start.
func (r *run) timerStart(a *[numArgs]uint64) uint64 {
	t := r.timerOf(a[0])
	if t == nil || t.prog == nil || a[2] != 0 || r.sys.conf.After == nil {
		return errno(syscall.EINVAL)
	}
	t.halt()
	t.started++
	now := t.started
	t.stop = r.sys.conf.After(int64(min(a[1], 1<<63-1)), r.hit.Trap.CPU, func(h *Hit) { r.sys.fire(t, now, h) })
	return 0
}

// timerCancel is bpf_timer_cancel: it returns 1 if the timer had been started. A callback cannot cancel its own timer.
func (r *run) timerCancel(a *[numArgs]uint64) uint64 {
	t := r.timerOf(a[0])
	switch {
	case t == nil:
		return errno(syscall.EINVAL)
	case t == r.timer:
		return errno(syscall.EDEADLK)
	}
	waited := t.halt()
	t.drop()
	if waited {
		return 1
	}
	return 0
}

// halt ends the wait of a timer. It returns false if the timer was not started.
func (t *timer) halt() bool {
	if t.stop == nil {
		return false
	}
	t.stop()
	t.stop = nil
	t.started++
	return true
}

// drop gives the timer's program back.
func (t *timer) drop() {
	p := t.prog
	if p == nil {
		return
	}
	t.prog = nil
	if p.timers--; p.timers == 0 {
		go p.sys.ended(p) // the locks of objects come first
	}
}

// ended ends a program that only a timer has kept.
func (s *System) ended(p *Prog) {
	s.objects.Lock()
	var ends []func()
	if p.refs == 0 && s.progs.all[p.id] == p {
		ends = s.unload(p)
	}
	s.objects.Unlock()
	for _, end := range ends {
		end()
	}
}

// freeTimer ends the timer of an element. The caller holds mem.
func (m *Map) freeTimer(slot int) {
	if t := m.timers[slot]; t != nil {
		t.halt()
		t.drop()
		delete(m.timers, slot)
	}
}

// freeTimers ends all timers of a map. The caller holds mem.
func (m *Map) freeTimers() {
	for slot := range m.timers {
		m.freeTimer(slot)
	}
}

// fire calls the function of a timer whose wait has ended.
func (s *System) fire(t *timer, started int, h *Hit) {
	s.mem.Lock()
	defer s.mem.Unlock()
	if t.started != started || t.stop == nil || t.prog == nil {
		return
	}
	t.stop = nil
	key := binary.LittleEndian.AppendUint32(nil, uint32(t.slot))
	if t.m.slots != nil {
		key = []byte(t.m.keys[t.slot])
	}
	s.run.timer = t
	s.run.callTimer(t, key, h)
	s.run.timer = nil
}

// callTimer executes the function of a timer. The caller holds mem.
func (r *run) callTimer(t *timer, key []byte, h *Hit) {
	p := t.prog
	r.begin(p, 0, h)
	r.keys[0], r.nested = key, 1
	r.reg[1], r.reg[2], r.reg[3] = t.m.pointer(), keyBase, t.m.address(t.slot)
	r.steps(t.callback)
	r.finish(p)
}

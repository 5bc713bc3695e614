package bpf

// When 6.12 takes a state for one that was followed before.

// exactness says how alike two states have to be: enum exact_level.
type exactness uint8

const (
	inexact exactness = iota
	exact
	rangeWithin // all registers, also those that are not read
)

// coveredAs is states_equal.
func (v *verifier) coveredAs(old, s *state, how exactness) bool {
	if !sameCalls(old, s) || (s.lock == 0) != (old.lock == 0) {
		return false
	}
	ids := idMap{next: v.lastID}
	if old.lock != 0 && !ids.match(old.lock, s.lock) {
		return false
	}
	for n, f := range s.frames {
		o := old.frames[n]
		if o.calledBack > f.calledBack {
			return false
		}
		for r := range f.regs {
			if !f.regs[r].coveredAs(&o.regs[r], &ids, how) {
				return false
			}
		}
		if !f.stackCoveredAs(o, &ids, how) || len(f.refs) != len(o.refs) {
			return false
		}
		for n, r := range f.refs {
			if !ids.match(o.refs[n].id, r.id) {
				return false
			}
		}
	}
	return true
}

// idMap has which number of values in an older state stands for which one; no two stand for the same.
type idMap struct {
	pairs
	next uint32 // for numbers that have none
}

func (m *idMap) match(old, now uint32) bool {
	if (old == 0) != (now == 0) {
		return false
	}
	if old == 0 {
		return true
	}
	for _, pair := range m.pairs {
		if pair.old == old || pair.now == now {
			return pair == struct{ old, now uint32 }{old, now}
		}
	}
	m.pairs = append(m.pairs, struct{ old, now uint32 }{old, now})
	return true
}

// matchNumber is check_scalar_ids: a number that was the same as another one has to be so; one that was not may.
func (m *idMap) matchNumber(old, now *value) bool {
	if old.id == 0 {
		return true
	}
	id := now.id
	if id == 0 {
		m.next++
		id = m.next
	}
	const plus = 1 << 31
	if old.plus && !m.match(old.id|plus, id|plus) {
		return false
	}
	return m.match(old.id, id)
}

// coveredAs is regsafe.
func (v *value) coveredAs(o *value, ids *idMap, how exactness) bool {
	if how == exact {
		return v.exactly(o, ids)
	}
	if how == inexact && o.live&liveRead == 0 {
		return true
	}
	if o.typ == regNone && (how == inexact || v.typ == regNone) {
		return true
	}
	if o.typ != v.typ {
		return false
	}
	switch o.typ {
	case regScalar:
		switch {
		case how == inexact && !o.precise:
			return true
		case o.plus && (!v.plus || o.off != v.off), o.id != 0 && !o.plus && v.plus:
			return false
		}
		return ids.matchNumber(o, v) && o.covers(v)
	case regMapValue, regKey, regMem, regRecord:
		return v.off == o.off && v.m == o.m && v.size == o.size && o.covers(v) && ids.match(o.id, v.id) && ids.match(o.ref, v.ref)
	case regStack:
		return v.exactly(o, ids) && v.frame == o.frame
	default:
		return v.exactly(o, ids)
	}
}

// exactly is regs_exact.
func (v *value) exactly(o *value, ids *idMap) bool {
	a, b := *v, *o
	a.id, b.id, a.ref, b.ref = 0, 0, 0, 0
	return a.same(&b) && ids.match(o.id, v.id) && ids.match(o.ref, v.ref)
}

// number returns what a load of a whole slot gives if that is a number, or nil: scalar_reg_for_stack.
func (sl *slot) number() *value {
	if sl.spilled() && sl.kind[0] == slotSpill && sl.typ == regScalar {
		return &sl.value
	}
	for _, k := range sl.kind {
		if k != slotMisc && k != slotNone {
			return nil
		}
	}
	n := unknown()
	n.live = liveRead
	return &n
}

// stackCoveredAs is stacksafe.
func (f *function) stackCoveredAs(o *function, ids *idMap, how exactness) bool {
	for n := range o.stack {
		old := &o.stack[n]
		if how != inexact && (n >= len(f.stack) || f.stack[n].kind != old.kind) {
			return false
		}
		if how == inexact && old.live&liveRead == 0 {
			continue
		}
		if !old.coveredBy(f, n, ids, how) {
			return false
		}
	}
	return true
}

// coveredBy reports whether the slot of a stack can be what it was.
func (sl *slot) coveredBy(f *function, n int, ids *idMap, how exactness) bool {
	for b, kind := range sl.kind {
		if kind == slotNone || kind == slotMisc { // what was not written may be read, too
			continue
		}
		if n >= len(f.stack) {
			return false
		}
		now := &f.stack[n]
		if was, is := sl.number(), now.number(); was != nil && is != nil {
			return is.coveredAs(was, ids, how)
		}
		if now.kind[b] != kind {
			return false
		}
		if b == 7 && kind == slotSpill && !now.value.coveredAs(&sl.value, ids, how) {
			return false
		}
		if b == 7 && kind == slotDynptr && sl.dynptr != now.dynptr {
			return false
		}
	}
	return true
}

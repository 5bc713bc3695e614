package kprobes

import "github.com/kprobefs/kprobefs/kernel/abi"

// textWrites writes text, slots and detour buffers; nothing else does. It writes at once, or,
// while the global switch turns, collects what is to be written for one stop of the machine.
//
// Kprobes.mu guards it, and its methods are called with that lock.
type textWrites struct {
	text  Text
	batch *batch // what has been collected; nil while it writes at once
}

// batch holds the patches that one turn of the global switch writes, in order, each
// with its point, or with nil when it removes a jump.
type batch struct {
	patches []abi.Patch
	points  []*point
}

// poke writes text. pt is the point whose breakpoint is written, or nil.
func (w *textWrites) poke(pt *point, patches ...abi.Patch) error {
	if w.batch == nil {
		return w.text.Poke(patches...)
	}
	for _, p := range patches {
		w.batch.patches = append(w.batch.patches, p)
		w.batch.points = append(w.batch.points, pt)
	}
	return nil
}

// collect collects the writes from now on until flush. There are about n.
func (w *textWrites) collect(n int) {
	w.batch = &batch{make([]abi.Patch, 0, n), make([]*point, 0, n)}
}

// flush writes what was collected, and writes at once from then on. If that fails, it writes
// the patches that can be written, and returns the points whose breakpoints did not change.
func (w *textWrites) flush() (kept []*point, err error) {
	b := w.batch
	w.batch = nil
	if len(b.patches) == 0 || w.text.Poke(b.patches...) == nil {
		return nil, nil
	}
	for i, p := range b.patches {
		e := w.text.Poke(p)
		if pt := b.points[i]; e != nil && pt != nil {
			kept, err = append(kept, pt), e
		}
	}
	return kept, err
}

package hist

import (
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// Trigger is a hist trigger: a line of the file trigger. Its name, filter and histogram
// never change.
type Trigger struct {
	hists  *Hists
	file   File
	hist   *histogram // triggers of one name share it
	name   string     // name=
	filter *filter.Filter
	paused atomic.Bool // it counts no hits
}

// Pause pauses or continues the trigger. It may be called in handler context.
func (t *Trigger) Pause(pause bool) { t.paused.Store(pause) }

// of returns the hist triggers of a file, the oldest first.
func (h *Hists) of(f File) (found []*Trigger) {
	for _, t := range h.all {
		if t.file == f {
			found = append(found, t)
		}
	}
	return found
}

// findVar is find_file_var: it returns the variable of that name that one of the file's
// triggers sets, and its histogram.
func (h *Hists) findVar(f File, name string) (*histField, *histogram) {
	for _, t := range h.of(f) {
		if v := t.hist.findVar(name); v != nil {
			return v, t.hist
		}
	}
	return nil, nil
}

// remove removes the trigger that matches t. It fails with EBUSY if another trigger
// refers to one of its variables.
func (p *parser) remove(t *Trigger) error {
	list := p.hists.of(p.file)
	i := slices.IndexFunc(list, func(x *Trigger) bool { return x.like(t, t.named(), false) })
	if i < 0 {
		return nil
	}
	if list[i].hist.referred() {
		return p.quiet(syscall.EBUSY)
	}
	p.hists.remove(list[i])
	return nil
}

// referred is check_var_refs: whether a trigger of this array refers to one of the
// variables.
func (d *histogram) referred() bool {
	for _, t := range d.hists.all {
		if t.hist == d || t.file.Array() != d.file.Array() {
			continue
		}
		if slices.ContainsFunc(t.hist.refs, func(r *histField) bool { return r.ref == d }) {
			return true
		}
	}
	return false
}

// Clear removes the hist triggers of a file, unless another trigger refers to one of
// them.
func (h *Hists) Clear(f File) {
	if slices.ContainsFunc(h.of(f), func(t *Trigger) bool { return t.hist.referred() }) {
		return
	}
	for list := h.of(f); len(list) > 0; list = h.of(f) {
		h.remove(list[0])
	}
}

// Drop forgets the hist triggers of a file that is being removed with its triggers.
func (h *Hists) Drop(f File) {
	for list := h.of(f); len(list) > 0; list = h.of(f) {
		h.forget(list[0])
	}
}

// update is existing_hist_update_only: pause, cont and clear act on the existing
// trigger that matches t.
func (p *parser) update(t *Trigger) bool {
	a := &p.data.attrs
	named := t.named()
	if a.name != "" && named == nil {
		return false
	}
	for _, old := range p.hists.of(p.file) {
		if !old.like(t, named, false) {
			continue
		}
		switch {
		case a.pause:
			old.Pause(true)
		case a.cont:
			old.Pause(false)
		case a.clear:
			old.hist.table.Clear()
		default:
			continue
		}
		return true
	}
	return false
}

// add is hist_register_trigger and the steps after it.
func (p *parser) add(t *Trigger) error {
	d := p.data
	a := &d.attrs
	named := t.named()
	if named != nil && !named.like(t, named, true) {
		return p.fail(errNamedMismatch, "name="+a.name)
	}
	for _, old := range p.hists.of(p.file) {
		if (a.name == "" || named != nil) && old.like(t, named, false) {
			return p.failWith(syscall.EEXIST, errExists, "")
		}
	}
	if a.cont || a.clear {
		return p.failWith(syscall.ENOENT, errNotThere, "")
	}
	if d.timed {
		if err := p.file.Array().SetClock(a.clock); err != nil {
			return p.fail(errClock, a.clock)
		}
	}
	t.name = a.name
	t.Pause(a.pause)
	if named != nil {
		t.hist = named.hist
		return p.hists.add(t)
	}
	if err := p.createActions(); err != nil {
		d.refuse()
		return err
	}
	if err := d.makeTable(); err != nil {
		d.refuse()
		return err
	}
	return p.hists.add(t)
}

// add adds a trigger to its file.
func (h *Hists) add(t *Trigger) error {
	d := t.hist
	if d.shared++; d.shared == 1 && d.hasVars() {
		d.hold(true)
	}
	t.file.Array().CountTimestamps(d.stamps())
	h.all = append(h.all, t)
	if err := t.file.Add(t); err != nil {
		h.forget(t)
		return err
	}
	return nil
}

// remove removes a trigger from its file; when it returns, no hit is using the trigger.
func (h *Hists) remove(t *Trigger) {
	t.file.Remove(t)
	h.forget(t)
}

// forget drops what a trigger holds that no file has any more.
func (h *Hists) forget(t *Trigger) {
	d, i := t.hist, slices.Index(h.all, t)
	if i < 0 {
		return
	}
	h.all = slices.Delete(h.all, i, i+1)
	t.file.Array().CountTimestamps(-d.stamps())
	if d.shared--; d.shared == 0 {
		d.hold(false)
		d.dropActions()
	}
}

// bytes returns the size of the tables of all histograms.
func (h *Hists) bytes() (sum int) {
	seen := map[*histogram]bool{}
	for _, t := range h.all {
		if !seen[t.hist] {
			seen[t.hist] = true
			sum += t.hist.bytes
		}
	}
	return sum
}

// named is find_named_trigger: it returns a trigger that has the name of the command. All
// that have it share one histogram.
func (t *Trigger) named() *Trigger {
	name := t.hist.attrs.name
	if name == "" {
		return nil
	}
	if i := slices.IndexFunc(t.hists.all, func(x *Trigger) bool { return x.name == name }); i >= 0 {
		return t.hists.all[i]
	}
	return nil
}

// like is hist_trigger_match: whether the existing trigger t matches the new one x.
// named is the trigger whose table x shares.
func (t *Trigger) like(x, named *Trigger, anyFilter bool) bool {
	a, b := t.hist, x.hist
	switch {
	case named != nil && t != named && a != named.hist, named == nil && t.name != "":
		return false
	case a.nVals != b.nVals || len(a.fields) != len(b.fields) || !slices.Equal(a.sort, b.sort):
		return false
	case !anyFilter && t.filterText() != x.filterText():
		return false
	}
	for i, f := range a.fields {
		g := b.fields[i]
		if f.flags != g.flags || !sameMember(f, g) || f.offset != g.offset || f.size != g.size || f.signed != g.signed || f.varName != g.varName {
			return false
		}
	}
	return slices.EqualFunc(a.actions, b.actions, (*action).same)
}

// sameMember is compatible_field: whether members of the entries of two events have the
// same type. Their offsets do not matter: a named histogram reads all entries at the
// offsets of its first event.
func sameMember(f, g *histField) bool {
	a, b := f.event, g.event
	if a == nil || b == nil {
		return a == b && f.cpu == g.cpu
	}
	return a == b || a.Name == b.Name && a.Type == b.Type && a.Size == b.Size && a.Signed == b.Signed
}

func (t *Trigger) filterText() string {
	if t.filter == nil {
		return ""
	}
	return t.filter.Text
}

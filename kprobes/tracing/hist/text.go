package hist

import (
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/release"
)

// Text is event_hist_trigger_print.
func (t *Trigger) Text() string {
	d, common := t.hist, t.hists.conf.Has[release.CommonStacktrace]
	var b strings.Builder
	b.WriteString("hist:")
	if t.name != "" {
		b.WriteString("name=" + t.name + ":")
	}
	list := func(prefix string, fields []*histField, show func(*histField, bool) string) {
		for i, f := range fields {
			b.WriteString([]string{prefix, ","}[min(i, 1)])
			b.WriteString(show(f, common))
		}
	}
	list("keys=", d.fields[d.nVals:], (*histField).showKey)
	vals := []string{"hitcount"}
	if d.attrs.noHitcount {
		vals = nil
	}
	var vars []*histField
	for _, f := range d.fields[1:d.nVals] {
		if f.flags&flagVar != 0 {
			vars = append(vars, f)
		} else {
			vals = append(vals, f.show(common))
		}
	}
	b.WriteString(":vals=" + strings.Join(vals, ","))
	list(":", vars, (*histField).show)
	d.writeSort(&b, common)
	fmt.Fprintf(&b, ":size=%d", 1<<d.attrs.bits)
	if d.timed {
		b.WriteString(":clock=" + d.attrs.clock)
	}
	if d.attrs.noHitcount {
		b.WriteString(":nohitcount")
	}
	for _, x := range d.actions {
		b.WriteString(x.text())
	}
	if t.filter != nil {
		b.WriteString(" if " + t.filter.Text)
	}
	if t.paused.Load() {
		return b.String() + " [paused]\n"
	}
	return b.String() + " [active]\n"
}

// writeSort writes the sort keys of a histogram as its trigger shows them.
func (d *histogram) writeSort(b *strings.Builder, common bool) {
	for i, k := range d.sort {
		b.WriteString([]string{":sort=", ","}[min(i, 1)])
		if k.idx == 0 {
			b.WriteString("hitcount")
		} else {
			b.WriteString(d.sorted(k).show(common))
		}
		if k.descending {
			b.WriteString(".descending")
		}
	}
}

// show is hist_field_print. common says that a stack trace shows as common_stacktrace.
func (f *histField) show(common bool) string {
	text := ""
	if f.flags&flagVar != 0 {
		text = f.varName + "="
	}
	name := f.fieldName(0)
	switch {
	case f.flags&flagCPU != 0 && f.flags&flagStacktrace == 0:
		text += "common_cpu"
	case f.flags&flagConst != 0:
		text += fmt.Sprint(f.constant)
	case f.flags&flagStacktrace != 0 && !common:
		return text + "stacktrace"
	case f.flags&flagStacktrace != 0:
		return text + name
	case f.flags&(flagVarRef|flagAlias) != 0:
		text += "$" + name
	default:
		text += name
	}
	if f.flags&(flagVarRef|flagExpr) == 0 {
		text += f.modifier()
	}
	return text
}

// showKey is show for a key, which includes the modifier of a member that is used as a
// stack.
func (f *histField) showKey(common bool) string {
	if f.flags&flagStacktrace != 0 && !f.isCommonStack() {
		return f.fieldName(0) + f.modifier()
	}
	return f.show(common)
}

// modifier returns the modifier after the field's name.
func (f *histField) modifier() string {
	if f.flags&flagStacktrace != 0 {
		return ".stacktrace" // hides the other modifiers
	}
	for _, m := range modifiers {
		if f.flags&m.flag == 0 {
			continue
		}
		if m.flag == flagBucket {
			return fmt.Sprintf(".%s=%d", m.name, f.buckets)
		}
		return "." + m.name
	}
	return ""
}

// fieldName is hist_field_name.
func (f *histField) fieldName(level int) string {
	switch {
	case level > 1:
		return ""
	case f.event != nil:
		return f.event.Name
	case f.cpu != "":
		return f.cpu
	case f.flags&flagStacktrace != 0:
		return f.name
	case f.flags&flagHitcount != 0 && f.flags&(flagLog2|flagBucket) != 0:
		return ""
	case f.flags&(flagLog2|flagAlias|flagBucket) != 0 && f.operands[0] != nil:
		return f.operands[0].fieldName(level + 1)
	case f.flags&flagCPU != 0:
		return "common_cpu"
	case f.flags&(flagExpr|flagVarRef) != 0 && f.system != "":
		return f.system + "." + f.group + "." + f.name
	case f.flags&(flagExpr|flagVarRef) != 0:
		return f.name
	case f.flags&flagTimestamp != 0:
		return "common_timestamp"
	case f.flags&flagHitcount != 0:
		return "hitcount"
	}
	return ""
}

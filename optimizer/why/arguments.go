package why

import (
	"fmt"
	"strings"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/optimizer/why/args"
)

// describe says what the arguments of a line of kprobe_events fetch.
func (a *Asker) describe(r *Answer, p Probe, v Verdict) {
	if v.Definition == nil {
		return
	}
	fetches := v.Definition.Fetches()
	fn, reason := a.function(v)
	if fn != nil {
		r.Function, r.Entry = args.Prototype(fn), args.Entry(fn)
	} else if len(fetches) > 0 {
		r.NoTypes = reason
	}
	first := v.Symbol.Addr
	if b, _ := a.insnAt(first); string(b) == "\xf3\x0f\x1e\xfa" {
		first += uint64(len(b))
	}
	returns := p.Return || v.Definition.Return
	r.Arguments = args.Describe(fn, args.Place{Return: returns, Entry: returns || v.Addr <= first, Offset: v.Offset}, fetches)
}

// function returns the prototype of the function that contains a place, or why it is not known.
func (a *Asker) function(v Verdict) (*btf.Func, string) {
	types := a.types(v.Symbol.Module)
	if types == nil {
		return nil, "it cannot be said which register has which parameter, and what lies at an offset: there are no types (BTF) of this kernel's functions" + a.noTypes
	}
	if fn := types.Func(v.Symbol.Name); fn != nil {
		return fn, ""
	}
	if strings.Contains(v.Symbol.Name, ".") {
		return nil, fmt.Sprintf("the kernel's types (BTF) have no %s: the compiler has made it of another function, and may have left parameters out", v.Symbol.Name)
	}
	return nil, fmt.Sprintf("the kernel's types (BTF) have no function %s", v.Symbol.Name)
}

// writeArguments writes what describe has found.
func (r *Answer) writeArguments(b *strings.Builder) {
	if r.Function != "" {
		fmt.Fprintf(b, "  function     %s\n", r.Function)
	}
	if len(r.Entry) > 0 {
		b.WriteString("  at its entry")
		for i, h := range r.Entry {
			fmt.Fprintf(b, "%s %s has %s", map[bool]string{true: ","}[i > 0], h.Where, h.Parameter)
		}
		b.WriteByte('\n')
	}
	if r.NoTypes != "" {
		fmt.Fprintf(b, "  no types     %s\n", r.NoTypes)
	}
	for i := range r.Arguments {
		a := &r.Arguments[i]
		fmt.Fprintf(b, "  argument     %s=%s", a.Name, a.Text)
		if a.Where != "" && a.Parameter != "" {
			fmt.Fprintf(b, ": %s has %s", a.Where, a.Parameter)
		} else if a.Where != "" {
			fmt.Fprintf(b, ": %s", a.Where)
		}
		if a.Reads != "" {
			fmt.Fprintf(b, "; reads %s (%s)", a.Reads, a.Member)
		}
		b.WriteByte('\n')
		for _, w := range a.Warnings {
			fmt.Fprintf(b, "               warning: %s\n", w)
		}
	}
}

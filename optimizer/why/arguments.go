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

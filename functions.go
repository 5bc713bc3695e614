package kprobefs

import (
	"slices"

	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kprobes/exports"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
)

// functions adapts the machine's fentry sites to package ftracer.
type functions struct{ *ftrace.Sites }

var _ ftracer.Functions = functions{}

// Listen returns a new listener.
func (f functions) Listen(by ftracer.Handler) ftracer.Listener {
	return listener{f.Sites, &ftrace.Ops{Function: by.Function, Func: by.Hit, Regs: by.Regs, Allocated: by.Allocated, Last: by.Last}}
}

// Listened returns the sites with listeners.
func (f functions) Listened() []ftracer.Listened { return listened(f.Sites.Listened()) }

// Touched returns the sites that have, or had, listeners.
func (f functions) Touched() []ftracer.Listened { return listened(f.Sites.Touched()) }

func listened(sites []ftrace.Site) []ftracer.Listened {
	var list []ftracer.Listened
	for _, s := range sites {
		list = append(list, ftracer.Listened{Addr: s.Addr, Count: s.Count, Regs: s.Regs, IPMod: s.IPModify, Of: s.Target, Tramp: s.Tramp, Func: s.Function})
	}
	return list
}

// moduleFunctions are the functions that ftrace_ops of modules can listen to.
type moduleFunctions struct {
	*ftracer.Tracers
	kernel *Kernel
}

// FunctionAt is ftrace_location: addr is in a site, or the entry of a function with one.
func (f moduleFunctions) FunctionAt(addr uint64) (site uint64, ok bool) {
	all := f.kernel.Machine.Sites().All()
	i, exact := slices.BinarySearch(all, addr)
	if exact {
		return addr, true
	}
	if i > 0 && addr < all[i-1]+ftrace.SiteSize {
		return all[i-1], true
	}
	sym, off, found := f.kernel.Machine.Symbols().Lookup(addr)
	if !found || off != 0 || i == len(all) || all[i] >= addr+sym.Size {
		return 0, false
	}
	return all[i], true
}

type listener struct {
	sites *ftrace.Sites
	ops   *ftrace.Ops
}

func (l listener) Set(sites []uint64) error { return l.sites.Set(l.ops, sites) }

// moduleFunctions returns nil if the kernel has no function tracer.
func (k *Kernel) moduleFunctions() exports.Functions {
	if k.opts.Config.NoFtrace {
		return nil
	}
	return moduleFunctions{k.Tracer.Ftrace(), k}
}

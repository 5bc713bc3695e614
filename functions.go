package kprobefs

import (
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
)

// functions adapts the machine's fentry sites to package tracing.
type functions struct{ *ftrace.Sites }

var _ tracing.Functions = functions{}

// Listen returns a new listener.
func (f functions) Listen(by tracing.FunctionHandler) tracing.FunctionListener {
	return listener{f.Sites, &ftrace.Ops{Function: by.Function, Func: by.Hit, Regs: by.Regs, Allocated: by.Allocated}}
}

// Listened returns the sites with listeners.
func (f functions) Listened() []tracing.ListenedFunction { return listened(f.Sites.Listened()) }

// Touched returns the sites that have, or had, listeners.
func (f functions) Touched() []tracing.ListenedFunction { return listened(f.Sites.Touched()) }

func listened(sites []ftrace.Site) []tracing.ListenedFunction {
	var list []tracing.ListenedFunction
	for _, s := range sites {
		list = append(list, tracing.ListenedFunction{Addr: s.Addr, Count: s.Count, Regs: s.Regs, Tramp: s.Tramp, Func: s.Function})
	}
	return list
}

type listener struct {
	sites *ftrace.Sites
	ops   *ftrace.Ops
}

func (l listener) Set(sites []uint64) error { return l.sites.Set(l.ops, sites) }

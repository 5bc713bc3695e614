package kprobefs

import "github.com/kprobefs/kprobefs/internal/inner"

func init() {
	inner.Of = func(kernel any) inner.Kernel {
		k := kernel.(*Kernel)
		return inner.Kernel{Linux: k.opts.Release.Linux, Modules: k.moduleDir, Sites: k.view.sites, Elsewhere: k.view.vm != nil, Halt: k.halt, OnHalt: k.onHalt, Retire: k.retire}
	}
}

// Package inner is what package kprobefs hands to the other packages of this module and no program needs: it
// would only make its documentation longer.
package inner

import (
	"github.com/kprobefs/kprobefs/fs/machinefs"
	"github.com/kprobefs/kprobefs/kernel/ftrace"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// Kernel is a *kprobefs.Kernel from inside.
type Kernel struct {
	Linux   release.Version
	Modules *machinefs.ModuleDir // which loads and unloads modules

	Sites     *ftrace.Sites // fentry sites of the kernel that is probed
	Elsewhere bool          // it is another one than the guest

	// Halt ends the background work for the guest: the optimizer's, and what OnHalt has been given. The files
	// stay.
	Halt   func()
	OnHalt func(end func())
	// Retire stops the machine and gives its RAM back while its files may be in use.
	Retire func() error
}

// Of returns a *kprobefs.Kernel from inside. Package kprobefs sets it.
var Of func(kernel any) Kernel

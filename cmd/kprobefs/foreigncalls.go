package main

import "golang.org/x/sys/unix"

// A 32-bit program, and a 64-bit one that makes calls in the way of 32-bit ones (int 0x80), makes
// the calls that are answered by other numbers. They are answered as the native ones, whose
// arguments they have, in 32 bits.

// foreignCall is a call in another of the kernel's system call tables.
type foreignCall struct {
	arch, nr uint32
	native   uint32 // the number of the call that does the same
	// shape is that of the names that uname(2) writes, if it is another one.
	shape unameShape
}

// unameShape is how uname(2) writes names.
type unameShape struct {
	length int // of each name, with its final zero, bytes
	names  int
}

// Shapes of uname(2): struct new_utsname, old_utsname and oldold_utsname.
var (
	newUname    = unameShape{65, 6}
	oldUname    = unameShape{65, 5}
	oldoldUname = unameShape{9, 5}
)

// foreign returns the row of a call in another table, or nil.
func foreign(n *seccompNotif) *foreignCall {
	for i, f := range foreignCalls {
		if f.arch == n.arch && int32(f.nr) == n.nr {
			return &foreignCalls[i]
		}
	}
	return nil
}

// newCaller returns the caller of a notification, with a call that does the same in the native
// table.
func newCaller(n *seccompNotif, listener int) *caller {
	c := &caller{seccompNotif: n, listener: listener, uname: newUname}
	f := foreign(n)
	if f == nil {
		return c
	}
	if f.shape != (unameShape{}) {
		c.uname = f.shape
	}
	n.nr = int32(f.native)
	if n.arch != kernelNumbers[0].arch {
		n.arch = kernelNumbers[0].arch
		for i := range n.args {
			n.args[i] &= 0xffffffff
		}
	}
	return c
}

// placeForeign are the calls of placeCalls that foreignCalls has.
var placeForeign = []uint32{unix.SYS_MOUNT, unix.SYS_FSOPEN}

package main

import "golang.org/x/sys/unix"

// oldCalls are those that newer architectures have not.
var oldCalls = []tracedCall{
	{unix.SYS_OPEN, 2, 0, -1, -1, false},
	{unix.SYS_SYMLINK, 88, 1, -1, 0, true},
	{unix.SYS_UNLINK, 87, 0, -1, -1, true},
	{unix.SYS_MKDIR, 83, 0, -1, -1, true},
	{unix.SYS_FORK, guestFork, -1, -1, -1, false},
	{unix.SYS_VFORK, guestVfork, -1, -1, -1, false},
	{unix.SYS_RMDIR, 84, 0, -1, -1, true},
}

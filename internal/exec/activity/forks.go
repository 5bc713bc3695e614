package activity

import (
	"encoding/binary"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kernel/host/connector"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Where the host's kernel does not report forks, a supervisor does, but it can only
// report that a fork begins. The new process is found afterwards: when it makes a call
// or a request, at the latest at its exit, or among the children of a parent that
// makes its next call.

// fork is a fork whose child is not known yet.
type fork struct {
	by    host.Caller
	call  host.Fork
	since uint64 // the time of its start, in ticks since boot
}

// Reported reports whether the host's kernel reports forks and exits.
func Reported() bool {
	c, err := connector.Open()
	if err == nil {
		c.Close()
	}
	return err == nil
}

// PlainFork returns a call, without the child, if it creates a process or a thread. clone3 is what the first argument of
// clone3(2) points to.
func PlainFork(nr uint64, args [6]uint64, clone3 []byte) (f host.Fork, ok bool) {
	f.Nr = nr
	switch nr {
	case abi.SysClone:
		copy(f.Args[:], args[:])
	case abi.SysClone3: // struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
		var of [8]uint64
		for i := range of {
			if len(clone3) >= 8*i+8 {
				of[i] = binary.NativeEndian.Uint64(clone3[8*i:])
			}
		}
		f.Args = [5]uint64{of[0] | of[4], of[5], 0, 0, of[7]}
		f.Stack, f.Size = of[6], args[1]
	case abi.SysFork, abi.SysVfork:
	default:
		return f, false
	}
	return f, true
}

// ReadPlain reads what Plain needs of the memory of a thread that makes a call: what clone3(2) points to. It returns
// false for a signal that a thread of another PID namespace sends, where process ids are different.
func ReadPlain(tid int, nr uint64, args [6]uint64) (clone3 []byte, ok bool) {
	const sizeofCloneArgs = 64 // of which PlainFork looks at all
	switch nr {
	case abi.SysClone3:
		clone3 = proc.ReadMemory(tid, args[0], make([]byte, sizeofCloneArgs))
	case abi.SysKill, abi.SysTkill, abi.SysTgkill:
		return nil, hostview.SameSpace(tid, "pid")
	}
	return clone3, true
}

// Plain makes the guest repeat a call that all is known of by its arguments, as Call and Fork do. It returns what Call
// does.
func (a *Activity) Plain(c host.Caller, nr uint64, args [6]uint64, clone3 []byte) syscall.Errno {
	if f, ok := PlainFork(nr, args, clone3); ok {
		a.Fork(c, f)
		return 0
	}
	return a.Call(c, host.Syscall{Nr: nr, Args: args})
}

// resolveForks looks for the children of forks that have begun. c, which makes a call
// now, has returned from its own fork. The caller holds mu.
func (a *Activity) resolveForks(c host.Caller) {
	if len(a.forks) == 0 {
		return
	}
	a.forks = slices.DeleteFunc(a.forks, func(f fork) bool {
		child := a.child(f, c)
		if child.TID == 0 && f.by.TID != c.TID {
			return false
		}
		// A fork without a child has failed, or the child was killed at once.
		if child.TID != 0 {
			a.known[child.TID] = a.counting(f.by.PID)
		}
		f.call.Child = child
		a.fork(f.by, f.call)
		return true
	})
}

// child finds the thread that a fork has created; TID is 0 if there is none yet.
func (a *Activity) child(f fork, c host.Caller) host.Caller {
	if f.call.Args[0]&unix.CLONE_THREAD != 0 {
		return a.newest(f, proc.Path(f.by.PID, "task"), func(tid int, _ proc.Stat) (int, bool) {
			return f.by.PID, tid != f.by.TID
		})
	}
	if s, err := proc.ReadStat(c.PID); err == nil && c.PID != 0 && a.isChild(f, c.PID, s) {
		return host.Caller{TID: c.PID, PID: c.PID}
	}
	return a.newest(f, "/proc", func(pid int, s proc.Stat) (int, bool) { return pid, a.isChild(f, pid, s) })
}

func (a *Activity) isChild(f fork, pid int, s proc.Stat) bool {
	parent := f.by.PID
	return s.Parent == parent && pid != parent && s.Start+1 >= f.since && a.known[pid] == countsNot
}

// newest searches a directory of /proc for the first thread that was created after f
// began and is one of its children.
func (a *Activity) newest(f fork, dir string, is func(int, proc.Stat) (pid int, ok bool)) (found host.Caller) {
	names, _ := os.ReadDir(dir)
	for _, e := range names {
		tid, err := strconv.Atoi(e.Name())
		if err != nil || a.known[tid] != countsNot || found.TID != 0 && tid > found.TID {
			continue
		}
		s, err := proc.ReadStat(tid)
		if err != nil || s.Start+1 < f.since {
			continue
		}
		if pid, ok := is(tid, s); ok {
			found = host.Caller{TID: tid, PID: pid}
		}
	}
	return found
}

// userHZ is the number of ticks in a second in /proc.
const userHZ = 100

func bootTicks() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return uint64(t.Nano()) / (1e9 / userHZ)
}

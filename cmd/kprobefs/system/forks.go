package system

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// Where the host's kernel does not tell of forks, a supervisor does, but only
// that one begins. Which process it has made is found afterwards: when the child
// itself makes a call or a request, at the latest its exit; or among the
// children of a parent that goes on.

// fork is a fork whose child is not known yet.
type fork struct {
	by    host.Caller
	call  host.Fork
	since uint64 // the clock when it began, in ticks since boot
}

// settle looks for the children of forks that have begun. c is who makes a call
// now: it has returned from its own. The caller holds mu.
func (a *Activity) settle(c host.Caller) {
	if len(a.forks) == 0 {
		return
	}
	a.forks = slices.DeleteFunc(a.forks, func(f fork) bool {
		child := a.child(f, c)
		if child.TID == 0 && f.by.TID != c.TID {
			return false
		}
		// Without a child: it has failed, or the child was killed at once.
		if child.TID != 0 {
			a.known[child.TID] = true
		}
		f.call.Child = child
		a.fork(f.by, f.call)
		return true
	})
}

// child finds the thread that a fork has made; TID 0: there is none yet.
func (a *Activity) child(f fork, c host.Caller) host.Caller {
	if f.call.Args[0]&unix.CLONE_THREAD != 0 {
		return a.newest(f, filepath.Join("/proc", strconv.Itoa(f.by.PID), "task"), func(tid int, _ procStat) (int, bool) {
			return f.by.PID, tid != f.by.TID
		})
	}
	if s, ok := stat(c.PID); ok && c.PID != 0 && a.isChild(f, c.PID, s) {
		return host.Caller{TID: c.PID, PID: c.PID}
	}
	return a.newest(f, "/proc", func(pid int, s procStat) (int, bool) { return pid, a.isChild(f, pid, s) })
}

func (a *Activity) isChild(f fork, pid int, s procStat) bool {
	parent := f.by.PID
	return s.parent == parent && pid != parent && s.start+1 >= f.since && !a.known[pid]
}

// newest looks through a directory of /proc for the first thread made after f
// began that is one of its children.
func (a *Activity) newest(f fork, dir string, is func(int, procStat) (pid int, ok bool)) (found host.Caller) {
	names, _ := os.ReadDir(dir)
	for _, e := range names {
		tid, err := strconv.Atoi(e.Name())
		if err != nil || a.known[tid] || found.TID != 0 && tid > found.TID {
			continue
		}
		s, ok := statAt(filepath.Join(dir, e.Name()))
		if !ok || s.start+1 < f.since {
			continue
		}
		if pid, ok := is(tid, s); ok {
			found = host.Caller{TID: tid, PID: pid}
		}
	}
	return found
}

// procStat is what of /proc/PID/stat is used.
type procStat struct {
	parent int
	start  uint64 // ticks since boot
}

func stat(pid int) (procStat, bool) { return statAt(filepath.Join("/proc", strconv.Itoa(pid))) }

func statAt(dir string) (s procStat, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return s, false
	}
	// After the name, which may hold anything: state, ppid, ..., starttime.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	f := strings.Fields(rest)
	const parent, start = 1, 19
	if len(f) <= start {
		return s, false
	}
	s.parent, _ = strconv.Atoi(f[parent])
	s.start, err = strconv.ParseUint(f[start], 10, 64)
	return s, err == nil
}

// userHZ is what /proc counts in.
const userHZ = 100

func bootTicks() uint64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return uint64(t.Nano()) / (1e9 / userHZ)
}

// maxCounted is how many forks are made up for in one go.
const maxCounted = 64

// count has the guest fork as often as the host has since it was last asked. Who
// did it is not known: c stands for them. The caller holds mu.
func (a *Activity) count(c host.Caller) {
	now := forksSoFar()
	for n := min(now-a.counted, maxCounted); n > 0; n-- {
		a.fork(c, host.Fork{Nr: sysClone, Args: [5]uint64{forkFlags}})
	}
	a.counted = now
}

// forksSoFar is how many processes and threads were ever made on this machine.
func forksSoFar() uint64 {
	b, _ := os.ReadFile("/proc/stat")
	_, rest, _ := strings.Cut(string(b), "\nprocesses ")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseUint(line, 10, 64)
	return n
}

package mirror

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// seizePatience is how long PTRACE_SEIZE may wait before another thread looks at why.
const seizePatience = 2 * time.Millisecond

// seizeThread attaches to a thread. The host's kernel lets that wait while another thread of the process executes a
// program. That one waits until the process's other threads have ended, and been waited for by who traces them: the tracing
// thread, which is in this call. So another thread waits for them meanwhile. It returns the threads that have ended so.
func seizeThread(tid, pid int, options uintptr) (ended []int, err error) {
	over, done := make(chan struct{}), make(chan struct{})
	timer := time.AfterFunc(seizePatience, func() {
		defer close(done)
		for {
			ended = append(ended, reapEnded(pid)...)
			select {
			case <-over:
				return
			case <-time.After(seizePatience):
			}
		}
	})
	err = ptrace(ptraceSeize, tid, 0, options)
	if !timer.Stop() {
		close(over)
		<-done
	}
	return ended, err
}

// reapEnded waits for the threads of a process that this process traces and that have ended. It leaves stops of others
// to the tracing thread.
func reapEnded(pid int) (ended []int) {
	for _, tid := range hostview.Numbers(proc.Path(pid, "task")) {
		var info unix.Siginfo
		const options = unix.WEXITED | unix.WALL | unix.WNOHANG
		if unix.Waitid(unix.P_PID, tid, &info, options|unix.WNOWAIT, nil) != nil || info.Signo == 0 || info.Code > cldDumped {
			continue
		}
		if unix.Waitid(unix.P_PID, tid, &info, options, nil) == nil {
			ended = append(ended, tid)
		}
	}
	return ended
}

// cldDumped is CLD_DUMPED, the last of the codes of SIGCHLD for a process that has ended.
const cldDumped = 3

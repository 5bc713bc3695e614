package activity

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// taskAt is what the guest knows of a task.
func taskAt(t *testing.T, k *kprobefs.Kernel, addr uint64) (comm string, parent uint64) {
	t.Helper()
	var b [abi.TaskCommLen]byte
	if err := k.Machine.Read(addr+abi.TaskComm, b[:]); err != nil {
		t.Fatal(err)
	}
	parent, err := k.Machine.Mem().ReadU64(addr + abi.TaskRealParent)
	if err != nil {
		t.Fatal(err)
	}
	comm, _, _ = strings.Cut(string(b[:]), "\x00")
	return comm, parent
}

// startShell starts a shell, which is killed with its children at the end of the test.
func startShell(t *testing.T, script string) (pid int) {
	t.Helper()
	shell := exec.Command("sh", "-c", script)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
		_ = shell.Wait()
	})
	return shell.Process.Pid
}

// tasksAfter returns the addresses of the guest's tasks, by the threads for which they stand, after a request of a process.
func (w *armer) tasksAfter(pid int) map[int]uint64 {
	w.t.Helper()
	w.requestBy(callerOf(pid, pid), func() error { return nil })
	at := map[int]uint64{}
	for _, task := range w.k.Machine.Host().Tasks() {
		at[task.TID] = task.Addr
	}
	return at
}

// TestUnseen: the guest makes no task of a process whose fork and exec no probe can see, until the process makes a
// call. Then it has the right name and the right parent, and a probe that was armed meanwhile has not seen how
// it has got them.
func TestUnseen(t *testing.T) {
	if !Reported() {
		t.Skip("the host reports no forks: this needs root")
	}
	w := newArmer(t, kprobefs.Options{})
	w.a.Start()
	h := w.k.Machine.Host()
	w.write("tracing/kprobe_events", "p:r vfs_read\n")()
	w.write("tracing/events/kprobes/r/enable", "1")()
	shell, sleep := startShell(t, "sleep 60; :"), 0
	for end := time.Now().Add(10 * time.Second); sleep == 0; time.Sleep(time.Millisecond) {
		w.a.mu.Lock()
		for pid, f := range w.a.unseen {
			if _, executed := w.a.executed[pid]; executed && f.by.TID == shell {
				sleep = pid
			}
		}
		w.a.mu.Unlock()
		if time.Now().After(end) {
			t.Fatal("nothing is known of sleep")
		}
	}
	if h.Knows(shell) || h.Knows(sleep) {
		t.Error("the guest has a task already")
	}
	w.write("tracing/kprobe_events", "p:c kernel_clone\np:e bprm_execve\np:n __set_task_comm\n")()
	filter := fmt.Sprintf("common_pid == %d || common_pid == %d || common_pid == %d", os.Getpid(), shell, sleep)
	for _, name := range []string{"c", "e", "n"} {
		w.write("tracing/events/kprobes/"+name+"/filter", filter)() // others in this mount namespace fork, too
		w.write("tracing/events/kprobes/"+name+"/enable", "1")()
	}
	at := w.tasksAfter(sleep)
	for pid, want := range map[int]struct {
		comm   string
		parent int
	}{sleep: {"sleep", shell}, shell: {"sh", os.Getpid()}} {
		if at[pid] == 0 {
			t.Errorf("%s has no task", want.comm)
			continue
		}
		comm, parent := taskAt(t, w.k, at[pid])
		if comm != want.comm || pid == sleep && parent != at[want.parent] {
			t.Errorf("task %q of parent %#x, want %q of %#x", comm, parent, want.comm, at[want.parent])
		}
	}
	trace, err := w.k.ReadFile("tracing/trace")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(trace)) {
		if !strings.HasPrefix(line, "#") {
			t.Errorf("hit: %s", line)
		}
	}
}

// TestEarlier: the tasks of processes that began before anything was armed have the parents and names of the processes, as
// soon as one of them makes a call that is seen.
func TestEarlier(t *testing.T) {
	w := newArmer(t, kprobefs.Options{})
	w.a.Start()
	own, err := proc.OwnNamespace("mnt")
	if err != nil {
		t.Fatal(err)
	}
	w.a.Join(own, os.Getpid())
	h := w.k.Machine.Host()
	pids := []int{startShell(t, "sh -c 'sleep 60; :'; :")}
	for end := time.Now().Add(10 * time.Second); len(pids) < 3; time.Sleep(time.Millisecond) {
		for _, pid := range hostview.Numbers("/proc") {
			if s, err := proc.ReadStat(pid); err == nil && s.Parent == pids[len(pids)-1] {
				pids = append(pids, pid)
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d processes", len(pids))
		}
	}
	last := pids[2]
	for end := time.Now().Add(10 * time.Second); commOf(last) != "sleep"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("sleep does not run")
		}
	}
	w.write("tracing/kprobe_events", "p:r vfs_read\n")()
	w.write("tracing/events/kprobes/r/enable", "1")()
	if h.Knows(last) {
		t.Error("the guest has a task already")
	}
	at := w.tasksAfter(last)
	for i, want := range []string{"sh", "sh", "sleep"} {
		if at[pids[i]] == 0 {
			t.Fatalf("process %d has no task", i)
		}
		comm, parent := taskAt(t, w.k, at[pids[i]])
		if comm != want || i > 0 && parent != at[pids[i-1]] {
			t.Errorf("process %d: task %q of parent %#x, want %q of %#x", i, comm, parent, want, at[pids[max(i-1, 0)]])
		}
	}
}

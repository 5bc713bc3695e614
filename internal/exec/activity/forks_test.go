package activity

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/host"
)

// TestChild: the child of a fork is found among the processes; children that are
// known already are not.
func TestChild(t *testing.T) {
	a := &Activity{known: map[int]counting{}}
	f := fork{by: host.Caller{TID: os.Getpid(), PID: os.Getpid()}, since: bootTicks()}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if got := a.child(f, host.Caller{}); got.PID != cmd.Process.Pid {
		t.Errorf("found %+v, want %d", got, cmd.Process.Pid)
	}
	if got := a.child(f, host.Caller{TID: cmd.Process.Pid, PID: cmd.Process.Pid}); got.PID != cmd.Process.Pid {
		t.Errorf("found %+v for its own call, want %d", got, cmd.Process.Pid)
	}
	a.known[cmd.Process.Pid] = countsAlone
	if got := a.child(f, host.Caller{}); got.TID != 0 {
		t.Errorf("a known child was found again: %+v", got)
	}
}

// TestLostEvents: the number of lost events is reported at once, and the rest at the
// end.
func TestLostEvents(t *testing.T) {
	var told []uint64
	a := &Activity{sayLost: func(n uint64) { told = append(told, n) }}
	for _, n := range []uint64{3, 4, 5} {
		a.lose(n)
	}
	a.unlisten()
	a.unlisten()
	if !slices.Equal(told, []uint64{3, 9}) {
		t.Errorf("%v lost events reported, want 3 and 9", told)
	}
}

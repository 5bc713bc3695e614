package registers

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// TestRegisters: they are those of the call for which they were noted, and of no other one.
func TestRegisters(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("registers of another processor")
	}
	runtime.LockOSThread() // the tracer
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true} // it stops when it has executed the program
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	pid := cmd.Process.Pid
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}
	var want abi.Regs
	if err := read(pid, &want); err != nil || want.IP == 0 || want.SP == 0 {
		t.Fatal(want, err)
	}
	var s Registers
	m, err := proc.OpenMemory(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, whole := s.Of(m, want.IP, want.SP); whole {
		t.Error("registers that were not noted")
	}
	s.Note(pid)
	if r, whole := s.Of(m, want.IP, want.SP); !whole || r.IP != want.IP || r.SP != want.SP || r.CS != want.CS {
		t.Errorf("%+v, %v", r, whole)
	}
	for _, other := range [][2]uint64{{want.IP + 2, want.SP}, {want.IP, want.SP - 8}} {
		if r, whole := s.Of(m, other[0], other[1]); whole || r.IP != other[0] || r.SP != other[1] || r.BP != 0 {
			t.Errorf("of another call: %+v, %v", r, whole)
		}
	}
	s.Forget(pid)
	if _, whole := s.Of(m, want.IP, want.SP); whole {
		t.Error("registers that were forgotten")
	}
	own, err := proc.OpenMemory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	s.Note(os.Getpid()) // which is not traced
	if _, whole := s.Of(own, 0, 0); whole {
		t.Error("registers of a thread that is not traced")
	}
}

// Package registers knows with which registers the threads of a command have made their calls.
//
// Only the thread that traces another one can read its registers, and only while that is stopped. So the tracer reads them at the
// beginning of each call while somebody could ask for them (Note), and keeps them until the thread's next call. Who asks knows by
// /proc/TID/syscall at which call the thread is, so that registers of an earlier one are told from its own.
package registers

import (
	"sync"

	"github.com/kprobefs/kprobefs/internal/exec/doorbell"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// Registers are those of some threads. Its zero value has none.
type Registers struct {
	all sync.Map // *abi.Regs by thread
}

// Note reads the registers of a thread that the caller, which traces it, has stopped at the beginning of a call.
func (s *Registers) Note(tid int) {
	r := new(abi.Regs)
	if read(tid, r) != nil {
		s.Forget(tid)
		return
	}
	s.all.Store(tid, r)
}

// Forget is called when a thread has ended, or is traced no more.
func (s *Registers) Forget(tid int) { s.all.Delete(tid) }

// Of returns the registers with which the thread of a memory has made a call, where it goes on at ip with the stack pointer sp, as if
// its text were not changed (package doorbell). Without whole only these two are known. It takes no lock.
func (s *Registers) Of(m *proc.Memory, ip, sp uint64) (r abi.Regs, whole bool) {
	if noted, ok := s.all.Load(m.TID); ok && noted.(*abi.Regs).IP == ip && noted.(*abi.Regs).SP == sp {
		r, whole = *noted.(*abi.Regs), true
	}
	r.IP, r.SP = ip, sp
	if at, deeper, rang := doorbell.Place(m.Read(ip, make([]byte, doorbell.PlaceSize))); rang {
		r.IP, r.SP = at, sp+deeper
	}
	return r, whole
}

package tracingtest

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Owners is what a tracer asks of its owners besides symbols, probes and time, as far as a test
// that does not care about it needs it.
type Owners struct{}

// HashPtr returns what %p shows of an address: another number for another one.
func (Owners) HashPtr(addr uint64) uint32 { return uint32(addr * 0x9e3779b97f4a7c15 >> 32) }

// AfterFunc calls f in real time.
func (Owners) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(d, f).Stop
}

// TaskOn returns 0: the vCPUs are idle.
func (Owners) TaskOn(int) uint64 { return 0 }

// Unwind finds the stack empty.
func (Owners) Unwind(_, _, _, _ uint64, _, _ []uint64) int { return 0 }

// UnwindCallback finds the stack empty.
func (Owners) UnwindCallback(int, uint64, []uint64) int { return 0 }

// DirChanged does nothing: nobody serves the directories.
func (Owners) DirChanged(context.Context, bool, string, string) {}

// TaskCPU returns vCPU 0.
func (Owners) TaskCPU(context.Context) int { return 0 }

// RegularFile finds no file.
func (Owners) RegularFile(path string) (bool, error) {
	return false, fmt.Errorf("%s: %w", path, syscall.ENOENT)
}

// Signal has no thread to send signals to.
func (Owners) Signal(uint64, int, bool) {}

// CallRefused has no call to refuse.
func (Owners) CallRefused(uint64, syscall.Errno) {}

// UserStack knows of no call.
func (Owners) UserStack(uint64, []uint64) int { return 0 }

// UserTrace knows of no call.
func (Owners) UserTrace(uint64, []uint64) int { return 0 }

// UserMemory has none.
func (Owners) UserMemory(uint64, uint64, []byte) bool { return false }

// UserFiles knows of no file.
func (Owners) UserFiles(uint64) func(ip uint64) (id [20]byte, offset uint64, ok bool) {
	return func(uint64) (id [20]byte, offset uint64, ok bool) { return id, 0, false }
}

// UserMappings knows of no file.
func (Owners) UserMappings(int32) func(ip uint64) (path string, start uint64) {
	return func(uint64) (string, uint64) { return "", 0 }
}

// UserRegs knows of no call.
func (Owners) UserRegs(uint64) (r abi.Regs, whole, ok bool) { return r, false, false }

// EndedTasks returns none.
func (Owners) EndedTasks() []uint64 { return nil }

// SharedMemory has none.
func (Owners) SharedMemory() (perf.Memory, error) {
	return nil, fmt.Errorf("memory to map: %w", syscall.ENOMEM)
}

// ReadClock returns 0.
func (Owners) ReadClock(int32) int64 { return 0 }

// Loaded reports that no module is loaded.
func (Owners) Loaded(string) bool { return false }

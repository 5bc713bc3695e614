package kprobefs

import (
	"context"
	"os"
	"syscall"

	"github.com/kprobefs/kprobefs/fs/anoninode"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host"
	"github.com/kprobefs/kprobefs/kprobes/tracing"
	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// traceFiles is what the tracer asks about the tasks that use its files.
type traceFiles struct{ k *Kernel }

var _ tracing.Files = traceFiles{}

// DirChanged makes the guest create or remove the directory of events as Linux does, in
// the task whose write caused it, if anybody could see that.
func (f traceFiles) DirChanged(ctx context.Context, made bool, system, event string) {
	if !f.k.watched() {
		return
	}
	do, names := "host_remove_", []string{system}
	if made {
		do = "host_make_"
	}
	if event == "" {
		do += "system"
	} else {
		do += "event"
		names = append(names, event)
	}
	if sym := f.k.Machine.Symbols().LookupName(do); len(sym) > 0 {
		_, _ = host.CallIn(ctx, sym[0].Addr, names...)
	}
}

// TaskCPU returns the vCPU of the guest's task that ctx belongs to.
func (f traceFiles) TaskCPU(ctx context.Context) int { return host.CPUIn(ctx) }

// traceHost is what the tracer asks about the host.
type traceHost struct{ k *Kernel }

var _ tracing.Host = traceHost{}

// RegularFile reports whether a path names a regular file.
func (h traceHost) RegularFile(path string) (bool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return info.Mode().IsRegular(), nil
}

// SharedMemory returns memory that programs can map.
func (h traceHost) SharedMemory() (perf.Memory, error) { return anoninode.NewMemory() }

// Signal sends a signal to the thread of the host for which a task stands.
func (h traceHost) Signal(task uint64, nr int, thread bool) {
	h.k.Machine.Host().Signal(task, syscall.Signal(nr), thread)
}

// CallRefused says that a program has refused the call that a task makes.
func (h traceHost) CallRefused(task uint64, err syscall.Errno) { h.k.Machine.Host().Refuse(task, err) }

// UserStack returns the stack in user space of the thread of a task, as perf has it.
func (h traceHost) UserStack(task uint64, ips []uint64) int {
	return h.k.Machine.Host().UserStack(task, ips)
}

// UserTrace returns that stack as entries of the trace have it.
func (h traceHost) UserTrace(task uint64, ips []uint64) int {
	return h.k.Machine.Host().UserTrace(task, ips)
}

// UserMemory reads memory of the thread of a task.
func (h traceHost) UserMemory(task, addr uint64, b []byte) bool {
	return h.k.Machine.Host().UserMemory(task, addr, b)
}

// UserFiles returns what finds the files that the thread of a task has mapped.
func (h traceHost) UserFiles(task uint64) func(ip uint64) (id [20]byte, offset uint64, ok bool) {
	return h.k.Machine.Host().UserFiles(task)
}

// UserMappings returns what finds the files that a process has mapped.
func (h traceHost) UserMappings(pid int32) func(ip uint64) (path string, start uint64) {
	return h.k.Machine.Host().UserMappings(pid)
}

// UserRegs returns the registers in user space of the thread of a task.
func (h traceHost) UserRegs(task uint64) (r abi.Regs, whole, ok bool) {
	return h.k.Machine.Host().Regs(task)
}

// EndedTasks returns the tasks of threads that have ended.
func (h traceHost) EndedTasks() []uint64 { return h.k.Machine.Host().EndedTasks() }

// ReadClock reads a clock of the host. All clocks of a deterministic machine are its own.
func (h traceHost) ReadClock(id int32) int64 {
	if h.k.opts.Deterministic {
		return h.k.Machine.Now()
	}
	return perfClock(id)
}

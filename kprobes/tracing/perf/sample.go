package perf

import (
	"encoding/binary"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/filter"
)

// Hit is a hit of an event of the tracer.
type Hit struct {
	Trap    *abi.Trap // nil if it is user space's
	VCPU    int
	PID     int32 // of the process
	TID     int32
	Time    int64 // of the kernel's clock
	IP      uint64
	Chain   []uint64 // the kernel's stack, innermost first; nil if no event wants it
	User    []uint64 // the stack of user space
	Subject *filter.Subject
}

// Kinds of records, and bits of their misc.
const (
	recordComm   = 3
	recordExit   = 4
	recordFork   = 7
	recordSample = 9

	miscKernel   = 1
	miscCommExec = 1 << 13

	contextKernel = ^uint64(128) + 1 // PERF_CONTEXT_KERNEL
	contextUser   = ^uint64(512) + 1 // PERF_CONTEXT_USER
)

// sample appends the record of a hit: perf_output_sample. It runs in handler context.
func (e *Event) sample(b []byte, h *Hit, period uint64) []byte {
	le, start, a := binary.LittleEndian, len(b), &e.attr
	b = header(b, recordSample, miscKernel)
	if a.samples(sampleIdentifier) {
		b = le.AppendUint64(b, e.id)
	}
	if a.samples(sampleIP) {
		b = le.AppendUint64(b, h.IP)
	}
	b = e.identity(b, h.PID, h.TID, e.time(h.Time))
	if a.samples(sampleAddr) {
		b = le.AppendUint64(b, 0)
	}
	if a.samples(sampleID) {
		b = le.AppendUint64(b, e.id)
	}
	if a.samples(sampleStreamID) {
		b = le.AppendUint64(b, e.id)
	}
	if a.samples(sampleCPU) {
		b = le.AppendUint64(b, uint64(e.set.cpus[h.VCPU]))
	}
	if a.samples(samplePeriod) {
		b = le.AppendUint64(b, period)
	}
	if a.samples(sampleRead) {
		b = e.values(b, h.Time)
	}
	if a.samples(sampleCallchain) {
		b = e.chain(b, h)
	}
	if a.samples(sampleRaw) {
		b = raw(b, h.Subject.Entry)
	}
	for _, none := range []struct {
		bit  uint64
		size int
	}{ // what a hit here does not have
		{sampleRegsUser, 8},
		{sampleStackUser, 8},
		{sampleWeight | sampleWeightStruct, 8},
		{sampleDataSrc, 8},
		{sampleTransaction, 8},
		{sampleRegsIntr, 8},
		{samplePhysAddr, 8},
		{sampleCgroup, 8},
		{sampleDataPageSize, 8},
		{sampleCodePageSize, 8},
	} {
		if a.samples(none.bit) {
			b = le.AppendUint64(b, 0)
		}
	}
	return finish(b, start)
}

// identity appends what samples and, at their end, other records say of the task and time.
func (e *Event) identity(b []byte, pid, tid int32, time int64) []byte {
	le := binary.LittleEndian
	if e.attr.samples(sampleTID) {
		b = le.AppendUint32(b, uint32(pid))
		b = le.AppendUint32(b, uint32(tid))
	}
	if e.attr.samples(sampleTime) {
		b = le.AppendUint64(b, uint64(time))
	}
	return b
}

// chain appends the stacks, each after its mark: perf_callchain. One that is empty has no mark.
func (e *Event) chain(b []byte, h *Hit) []byte {
	le, start, room := binary.LittleEndian, len(b), e.attr.frames()
	b = le.AppendUint64(b, 0)
	add := func(mark uint64, ips []uint64) {
		if len(ips) == 0 {
			return
		}
		ips = ips[:min(len(ips), room)]
		room -= len(ips)
		b = le.AppendUint64(b, mark)
		for _, ip := range ips {
			b = le.AppendUint64(b, ip)
		}
	}
	if e.attr.wantsChain() {
		add(contextKernel, h.Chain)
	}
	if e.attr.wantsUserChain() {
		add(contextUser, h.User)
	}
	le.PutUint64(b[start:], uint64(len(b)-start)/8-1)
	return b
}

// raw appends an entry: its size has 4 bytes, and both together are a multiple of 8.
func raw(b, entry []byte) []byte {
	size := (len(entry)+4+7)&^7 - 4
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = append(b, entry...)
	for range size - len(entry) {
		b = append(b, 0)
	}
	return b
}

// sampleID appends the end of a record that is no sample: perf_event__output_id_sample.
func (e *Event) sampleID(b []byte, pid, tid int32, cpu int, time int64) []byte {
	a, le := &e.attr, binary.LittleEndian
	if !a.has(flagSampleIDAll) {
		return b
	}
	b = e.identity(b, pid, tid, time)
	if a.samples(sampleID) {
		b = le.AppendUint64(b, e.id)
	}
	if a.samples(sampleStreamID) {
		b = le.AppendUint64(b, e.id)
	}
	if a.samples(sampleCPU) {
		b = le.AppendUint64(b, uint64(cpu))
	}
	if a.samples(sampleIdentifier) {
		b = le.AppendUint64(b, e.id)
	}
	return b
}

// comm appends a record of a task's new name.
func (e *Event) comm(b []byte, pid, tid int32, name string, exec bool, cpu int, time int64) []byte {
	start, misc := len(b), uint16(0)
	if exec {
		misc = miscCommExec
	}
	b = header(b, recordComm, misc)
	b = binary.LittleEndian.AppendUint32(b, uint32(pid))
	b = binary.LittleEndian.AppendUint32(b, uint32(tid))
	b = append(b, name...)
	for n := len(name); n == len(name) || n%8 != 0; n++ {
		b = append(b, 0)
	}
	return finish(e.sampleID(b, pid, tid, cpu, time), start)
}

// task appends a record of a fork or exit.
func (e *Event) task(b []byte, kind uint32, t Task, cpu int, time int64) []byte {
	start, le := len(b), binary.LittleEndian
	b = header(b, kind, 0)
	for _, id := range []int32{t.PID, t.Parent.PID, t.TID, t.Parent.TID} {
		b = le.AppendUint32(b, uint32(id))
	}
	b = le.AppendUint64(b, uint64(time))
	by := t.IDs
	if kind == recordFork {
		by = t.Parent
	}
	return finish(e.sampleID(b, by.PID, by.TID, cpu, time), start)
}

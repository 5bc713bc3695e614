package bpf

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// Place is what BPF_TASK_FD_QUERY says of an event that has a program.
type Place struct {
	Kind   PlaceKind
	Name   string // of a tracepoint, function or file; "" if a probe is at an address
	Offset uint64 // in the function or file
	Addr   uint64 // of a probe whose place was given so
}

// PlaceKind is enum bpf_task_fd_type.
type PlaceKind uint32

// The kinds of places.
const (
	PlaceRawTracepoint PlaceKind = iota
	PlaceTracepoint
	PlaceKprobe
	PlaceKretprobe
	PlaceUprobe
	PlaceUretprobe
)

// Placed is a perf.Source that knows where its hits are.
type Placed interface{ Place() (Place, bool) }

// Offsets of the fields of BPF_TASK_FD_QUERY.
const (
	queryFlags  = 8
	queryRoom   = 12 // of the name, bytes; its length is returned there
	queryName   = 16
	queryProg   = 24
	queryKind   = 28
	queryOffset = 32
	queryAddr   = 40
	queryEnd    = 48
)

// taskFDQuery is BPF_TASK_FD_QUERY: which program a descriptor of a task has attached, and where. It fails with ENOENT
// if there is no such task, or no program, and with ENOTSUPP for a descriptor of another kind.
func (s *System) taskFDQuery(c Caller, a *attr) (Result, error) {
	if a.u32(queryFlags) != 0 {
		return Result{}, syscall.EINVAL
	}
	object, err := c.ObjectOf(a.fd(0), a.fd(4))
	if err != nil {
		return Result{}, err
	}
	switch o := object.(type) {
	case nil:
		return Result{}, syscall.EBADF
	case *Link:
		if o.kind == linkRawTracepoint {
			s.objects.Lock()
			p := o.prog
			s.objects.Unlock()
			return Result{}, putPlace(c, a, p, Place{Kind: PlaceRawTracepoint, Name: o.name})
		}
	case *perf.Event:
		s.objects.Lock()
		p := s.onEvents[o]
		s.objects.Unlock()
		if p == nil {
			return Result{}, fmt.Errorf("an event without a program: %w", syscall.ENOENT)
		}
		if from, ok := o.Source().(Placed); ok && p.kind != ProgPerfEvent {
			if place, ok := from.Place(); ok {
				return Result{}, putPlace(c, a, p, place)
			}
		}
		return Result{}, fmt.Errorf("an event that is no place: %w", syscall.EOPNOTSUPP)
	}
	return Result{}, fmt.Errorf("descriptor %d: %w", a.fd(4), errNotSupported)
}

// putPlace is bpf_task_fd_query_copy. It fails with ENOSPC if the name has no room.
func putPlace(c Caller, a *attr, p *Prog, at Place) (full error) {
	room, to := int(a.u32(queryRoom)), a.u64(queryName)
	c.Write(a.at+queryRoom, binary.LittleEndian.AppendUint32(nil, uint32(len(at.Name))))
	text := append([]byte(at.Name), 0)
	switch {
	case to == 0 || room == 0:
	case room < len(text):
		c.Write(to, append(text[:room-1:room-1], 0))
		full = syscall.ENOSPC
	default:
		c.Write(to, text)
	}
	c.Write(a.at+queryProg, binary.LittleEndian.AppendUint32(nil, p.id))
	c.Write(a.at+queryKind, binary.LittleEndian.AppendUint32(nil, uint32(at.Kind)))
	c.Write(a.at+queryOffset, binary.LittleEndian.AppendUint64(nil, at.Offset))
	c.Write(a.at+queryAddr, binary.LittleEndian.AppendUint64(nil, at.Addr))
	return full
}

package bpf

import (
	"fmt"
	"syscall"
)

// objPin is BPF_OBJ_PIN. It fails with EINVAL for what cannot be pinned, before the path is looked at.
func (s *System) objPin(c Caller, a *attr) (Result, error) {
	if a.u32(12) != 0 {
		return Result{}, fmt.Errorf("file_flags %#x: %w", a.u32(12), syscall.EINVAL)
	}
	object := c.Object(a.fd(8))
	switch object.(type) {
	case *Map, *Prog, *Link:
		return Result{}, c.Pin(object)
	}
	return Result{}, fmt.Errorf("descriptor %d: %w", a.fd(8), syscall.EINVAL)
}

// objGet is BPF_OBJ_GET. A link is opened for reading and writing only.
func (s *System) objGet(c Caller, a *attr) (Result, error) {
	access, err := fileFlags(a.u32(12))
	if err != nil || a.u32(8) != 0 {
		return Result{}, fmt.Errorf("file_flags %#x: %w", a.u32(12), syscall.EINVAL)
	}
	object, err := c.Pinned(access)
	if err != nil {
		return Result{}, err
	}
	if _, link := object.(*Link); link && access != 0 {
		s.Release(object)
		return Result{}, fmt.Errorf("a link for one direction: %w", syscall.EINVAL)
	}
	return Result{Object: object, Access: access}, nil
}

// fileFlags is bpf_get_file_flag. It fails with EINVAL for flags that say nothing of reading and writing, or both.
func fileFlags(flags uint32) (uint32, error) {
	if flags&^(flagReadOnly|flagWriteOnly) != 0 || flags == flagReadOnly|flagWriteOnly {
		return 0, syscall.EINVAL
	}
	return flags, nil
}

// access returns what a caller may do with a map: as it was made, and as the descriptor was opened.
func (m *Map) access(c Caller, fd int) uint32 {
	return m.flags&(flagReadOnly|flagWriteOnly) | c.Access(fd)
}

package bpf

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// dynptrSize is the size of struct bpf_dynptr, bytes, and maxDynptr what one may point to: DYNPTR_MAX_SIZE.
const (
	dynptrSize = 16
	maxDynptr  = 1<<24 - 1
)

// A dynptr has 16 bytes: the address and the size of its memory. Programs get one from bpf_user_ringbuf_drain.

// dynptr returns the address of n bytes at an offset of a dynptr's memory. It fails with E2BIG if the memory ends before.
func (r *run) dynptr(at, off, n uint64) (addr uint64, err error) {
	b := r.fetch(at, dynptrSize)
	if b == nil {
		return 0, syscall.EINVAL
	}
	size := uint64(binary.LittleEndian.Uint32(b[8:]))
	off, n = uint64(uint32(off)), uint64(uint32(n))
	if n > size || off > size-n {
		return 0, syscall.E2BIG
	}
	return binary.LittleEndian.Uint64(b) + off, nil
}

// dynptrRead is bpf_dynptr_read.
func (r *run) dynptrRead(a *[numArgs]uint64) uint64 {
	if a[4] != 0 {
		return errno(syscall.EINVAL)
	}
	from, err := r.dynptr(a[2], a[3], a[1])
	if err != nil {
		return errno(err)
	}
	return r.move(a[0], from, a[1])
}

// dynptrWrite is bpf_dynptr_write.
func (r *run) dynptrWrite(a *[numArgs]uint64) uint64 {
	if a[4] != 0 {
		return errno(syscall.EINVAL)
	}
	to, err := r.dynptr(a[0], a[1], a[3])
	if err != nil {
		return errno(err)
	}
	return r.move(to, a[2], a[3])
}

// move copies n bytes within the program's memory.
func (r *run) move(to, from, n uint64) uint64 {
	dst, src := r.fetch(to, int(uint32(n))), r.fetch(from, int(uint32(n)))
	if dst != nil && src != nil {
		copy(dst, src)
	}
	return 0
}

// dynptrData is bpf_dynptr_data: NULL if the dynptr has not so many bytes.
func (r *run) dynptrData(a *[numArgs]uint64) uint64 {
	addr, err := r.dynptr(a[0], a[1], a[2])
	if err != nil {
		return 0
	}
	return addr
}

// maxDrained is BPF_MAX_USER_RINGBUF_SAMPLES.
const maxDrained = 128 << 10

// ringDrain is bpf_user_ringbuf_drain: it shows each record to a function of the program, until that returns 1. It returns
// how many there were.
func (r *run) ringDrain(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	if a[3]&^(ringNoWakeup|ringForceWakeup) != 0 || m == nil || m.kind != mapUserRingbuf {
		return errno(syscall.EINVAL)
	}
	if m.draining {
		return errno(syscall.EBUSY)
	}
	if r.nested >= maxNested {
		r.end("the call stack is too deep")
		return 0
	}
	m.draining = true
	defer func() { m.draining = false }()
	callback, context, flags := int(a[1]-funcBase), a[2], a[3]
	shown, failed := 0, error(nil)
	for range maxDrained {
		at, n, err := m.ring.peek()
		if errors.Is(err, syscall.EAGAIN) {
			continue
		}
		if err != nil {
			if !errors.Is(err, syscall.ENODATA) {
				failed = err
			}
			break
		}
		d := &r.dyns[r.nested]
		binary.LittleEndian.PutUint64(d[:], mapBase+uint64(m.index)<<mapShift+uint64(at))
		binary.LittleEndian.PutUint64(d[8:], uint64(n))
		stop := r.callback(callback, dynBase+uint64(r.nested)*dynptrSize, context) != 0
		if r.fault != "" {
			return 0
		}
		m.ring.take(n)
		shown++
		if stop {
			break
		}
	}
	if flags&ringForceWakeup != 0 || flags&ringNoWakeup == 0 && shown > 0 {
		m.ring.wake()
	}
	if failed != nil {
		return errno(failed)
	}
	return uint64(shown)
}

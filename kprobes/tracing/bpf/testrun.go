package bpf

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Limits of BPF_PROG_TEST_RUN.
const (
	minFrame   = 14      // ETH_HLEN: a packet's bytes
	maxFrame   = 3520    // what fits on a page, bytes
	maxRepeat  = 1 << 16 // Linux repeats as often as it is told, and can be interrupted
	onlyOnCPU  = 1       // BPF_F_TEST_RUN_ON_CPU
	maxRawArgs = 12 * 8  // MAX_BPF_FUNC_ARGS, bytes
)

// testRun is BPF_PROG_TEST_RUN: it runs a program with a packet, which nobody has sent, or with the arguments
// of a raw tracepoint. It fails with ENOTSUPP for programs of other types.
func (s *System) testRun(c Caller, a *attr) (Result, error) {
	p, ok := c.Object(a.fd(0)).(*Prog)
	if !ok {
		return Result{}, badObject(c.Object(a.fd(0)))
	}
	if p.kind == ProgSyscall {
		return s.syscallTestRun(c, a, p)
	}
	if a.u32(40) == 0 != (a.u64(48) == 0) || a.u32(44) == 0 != (a.u64(56) == 0) {
		return Result{}, syscall.EINVAL
	}
	h := NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, c.Task())
	if p.kind == ProgRawTracepoint {
		return s.rawTestRun(c, a, p, h)
	}
	size := int(a.u32(8))
	switch p.kind {
	case ProgSocketFilter, ProgSchedCLS, ProgSchedACT, ProgXDP:
	default:
		return Result{}, fmt.Errorf("a test run of a program of type %d: %w", p.kind, errNotSupported)
	}
	switch {
	case a.u32(64) != 0 || a.u32(68) != 0 || a.u32(72) != 0, size < minFrame || size > maxFrame:
		return Result{}, syscall.EINVAL
	case a.u64(48) != 0 || a.u64(56) != 0:
		return Result{}, syscall.EINVAL // struct __sk_buff and xdp_md of the caller
	}
	packet, err := read(c, a.u64(16), size)
	if err != nil {
		return Result{}, err
	}
	if p.kind == ProgXDP {
		h.Ctx = make([]byte, xdpSize)
		binary.LittleEndian.PutUint32(h.Ctx[4:], uint32(size)) // data_end, from data 0
	} else {
		h.Ctx = make([]byte, skbSize)
		length := size
		if p.kind == ProgSocketFilter {
			length -= minFrame
		}
		binary.LittleEndian.PutUint32(h.Ctx, uint32(length))
		copy(h.Ctx[16:], packet[12:14]) // protocol
	}
	repeat := min(max(a.u32(32), 1), maxRepeat)
	ret, duration := s.repeat(p, h, repeat)
	if to := a.u64(24); to != 0 {
		n := size
		if room := int(a.u32(12)); room != 0 && room < n {
			c.Write(to, packet[:room])
			err = syscall.ENOSPC
		} else {
			c.Write(to, packet[:n])
		}
	}
	c.Write(a.at+12, binary.LittleEndian.AppendUint32(nil, uint32(size)))
	c.Write(a.at+4, binary.LittleEndian.AppendUint32(nil, ret))
	c.Write(a.at+36, binary.LittleEndian.AppendUint32(nil, duration))
	return Result{}, err
}

// rawTestRun runs a program for raw tracepoints.
func (s *System) rawTestRun(c Caller, a *attr, p *Prog, h *Hit) (Result, error) {
	size := a.u32(40)
	switch {
	case a.u64(16) != 0 || a.u64(24) != 0 || a.u32(8) != 0 || a.u32(12) != 0 || a.u32(32) != 0 || a.u32(72) != 0,
		a.u32(64)&^onlyOnCPU != 0 || a.u32(64) == 0 && a.u32(68) != 0 || size > maxRawArgs:
		return Result{}, syscall.EINVAL
	}
	ctx, err := read(c, a.u64(48), int(size))
	if err != nil {
		return Result{}, err
	}
	h.Ctx = ctx
	ret, _ := s.repeat(p, h, 1)
	c.Write(a.at+4, binary.LittleEndian.AppendUint32(nil, ret))
	return Result{}, nil
}

// repeat runs a program n times. It returns what the last run has returned, and how long one took on average,
// nanoseconds.
func (s *System) repeat(p *Prog, h *Hit, n uint32) (ret, duration uint32) {
	began := s.conf.Now()
	for range n {
		s.mem.Lock()
		ret = uint32(s.runLocked(Attached{Prog: p}, h))
		s.mem.Unlock()
	}
	return ret, uint32(min((s.conf.Now()-began)/int64(n), 1<<32-1))
}

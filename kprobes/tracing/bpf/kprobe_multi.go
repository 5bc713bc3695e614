package bpf

import (
	"encoding/binary"
	"fmt"
	"syscall"
)

// What BPF_LINK_CREATE of BPF_TRACE_KPROBE_MULTI takes.
const (
	traceKprobeMulti  = 42
	kprobeMultiReturn = 1 << 0
	maxKprobeMulti    = 1 << 20 // functions
	maxSymbol         = 512     // KSYM_NAME_LEN
)

// linkKprobeMulti is bpf_kprobe_multi_link_attach: it attaches a program to many functions at once, by their names or
// addresses. It fails with ESRCH if no function that can be traced has the name, and with EINVAL for such an
// address, and with EOPNOTSUPP if the kernel has no fprobes.
func (s *System) linkKprobeMulti(c Caller, a *attr, p *Prog) (Result, error) {
	flags, count := a.u32(16), int(a.u32(20))
	names, addrs, cookies := a.u64(24), a.u64(32), a.u64(40)
	switch {
	case !s.conf.KprobeMulti || s.conf.Probes == nil:
		return Result{}, syscall.EOPNOTSUPP
	case a.u32(12) != 0, p.attachType != traceKprobeMulti, flags&^kprobeMultiReturn != 0, (names == 0) == (addrs == 0), count == 0:
		return Result{}, syscall.EINVAL
	case count > maxKprobeMulti:
		return Result{}, syscall.E2BIG
	}
	if err := s.conf.Room(3 * 8 * count); err != nil {
		return Result{}, err
	}
	of, err := words(c, cookies, count)
	if err != nil {
		return Result{}, err
	}
	var sites []uint64
	if addrs != 0 {
		sites, err = s.sitesAt(c, addrs, count)
	} else {
		sites, err = s.sitesOf(c, names, count)
	}
	if err != nil {
		return Result{}, err
	}
	cookieOf := map[uint64]uint64{} // by site
	for n, cookie := range of {
		cookieOf[sites[n]] = cookie
	}
	at := AtEntry
	if flags&kprobeMultiReturn != 0 {
		at = AtReturn
	}
	detach, err := s.conf.Probes.Listen(sites, at, func(h *Hit, _ *Args) {
		h.Ctx = h.Trap.Regs.Bytes()
		s.runOne(Attached{Prog: p, Cookie: cookieOf[h.Site]}, h)
	})
	if err != nil {
		return Result{}, err
	}
	return s.newLink(&Link{kind: linkKprobeMulti, prog: p, detach: detach}), nil
}

// words reads numbers of 8 bytes of the caller's memory; none at address 0.
func words(c Caller, addr uint64, count int) ([]uint64, error) {
	if addr == 0 {
		return nil, nil
	}
	b, err := read(c, addr, 8*count)
	if err != nil {
		return nil, err
	}
	all := make([]uint64, count)
	for n := range all {
		all[n] = binary.LittleEndian.Uint64(b[8*n:])
	}
	return all, nil
}

// sitesAt returns where the entries of functions at addresses are traced.
func (s *System) sitesAt(c Caller, addr uint64, count int) ([]uint64, error) {
	sites, err := words(c, addr, count)
	if err != nil {
		return nil, err
	}
	for n, at := range sites {
		site, ok := s.conf.Probes.Site(at)
		if !ok {
			return nil, fmt.Errorf("%#x is no function that can be traced: %w", at, syscall.EINVAL)
		}
		sites[n] = site
	}
	return sites, nil
}

// sitesOf returns where the entries of functions of the caller's names are traced. A name that is there twice is not
// found a second time.
func (s *System) sitesOf(c Caller, addr uint64, count int) ([]uint64, error) {
	names, err := words(c, addr, count)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	sites := make([]uint64, count)
	for n, at := range names {
		name, err := readString(c, at, maxSymbol+1)
		switch {
		case err != nil:
			return nil, err
		case len(name) >= maxSymbol:
			return nil, syscall.E2BIG
		}
		site, ok := s.conf.Probes.Site(s.conf.Probes.Function(name))
		if !ok || seen[name] {
			return nil, fmt.Errorf("%s is no function that can be traced: %w", name, syscall.ESRCH)
		}
		seen[name], sites[n] = true, site
	}
	return sites, nil
}

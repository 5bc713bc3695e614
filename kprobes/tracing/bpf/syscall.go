package bpf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// maxSyscallCtx is how large the context of a program of type SYSCALL may be, bytes.
const maxSyscallCtx = 1<<16 - 1

// syscallTestRun is bpf_prog_test_run_syscall: it runs a program of type SYSCALL in the calling task, with a context that the
// program may write.
func (s *System) syscallTestRun(c Caller, a *attr, p *Prog) (Result, error) {
	size := int(a.u32(40))
	if a.u64(16) != 0 || a.u64(24) != 0 || a.u64(56) != 0 || a.u32(44) != 0 || a.u32(36) != 0 || a.u32(32) != 0 || a.u32(64) != 0 || a.u32(72) != 0 ||
		size == 0 != (a.u64(48) == 0) || size < p.reads || size > maxSyscallCtx {
		return Result{}, syscall.EINVAL
	}
	ctx, err := read(c, a.u64(48), size)
	if err != nil {
		return Result{}, err
	}
	h := NewHit(&abi.Trap{Regs: &abi.Regs{}, Mem: s.conf.Kernel, Now: s.conf.Now}, c.Task())
	h.Ctx = ctx
	r := &run{sys: s, ctx: make([]byte, maxSyscallCtx+1), caller: c} // others run while it makes a call
	s.objects.Lock()
	here := s.progs.all[p.id] == p
	if here {
		s.ref(p) // its maps stay, whatever it closes meanwhile
	}
	s.objects.Unlock()
	if !here {
		return Result{}, syscall.EBADF
	}
	defer s.Release(p)
	s.mem.Lock()
	ret := s.runOn(r, Attached{Prog: p}, h)
	s.mem.Unlock()
	if size > 0 {
		c.Write(a.u64(48), r.ctx[:size])
	}
	c.Write(a.at+4, binary.LittleEndian.AppendUint32(nil, uint32(ret)))
	return Result{Given: r.given}, nil
}

// programCalls are the commands that bpf_sys_bpf makes for a program.
var programCalls = map[uint32]bool{
	cmdMapCreate: true, cmdMapUpdate: true, cmdMapDelete: true, cmdMapFreeze: true, cmdMapByID: true, cmdProgLoad: true, cmdBTFLoad: true, cmdLinkCreate: true,
	cmdRawTracepointOpen: true,
}

// maxGiven is how many descriptors a run of a program may leave in the process that runs it.
const maxGiven = 200

// sysBPF is bpf_sys_bpf: bpf(2) with an attr, and with what that points to, in the program's own memory. A descriptor that it returns is
// one of the process that runs the program, which gets it when the program has ended.
func (r *run) sysBPF(a *[numArgs]uint64) uint64 {
	if r.caller == nil || a[0] > 1<<32-1 || !programCalls[uint32(a[0])] {
		return errno(syscall.EINVAL)
	}
	c := &programCaller{Caller: r.caller, run: r}
	cmd := uint32(a[0])
	r.sys.mem.Unlock()
	res, err := r.sys.Call(c, cmd, a[1], uint32(a[2]))
	if err == nil && res.Object != nil && len(r.given) == maxGiven {
		r.sys.Release(res.Object)
		err = syscall.EMFILE
	}
	fd := res.Value
	if err == nil && res.Object != nil {
		fd = r.freeFD()
		r.given = append(r.given, Given{fd, res.Access, res.Object, cmd == cmdLinkCreate || cmd == cmdRawTracepointOpen})
	}
	r.sys.mem.Lock()
	for _, w := range c.writes {
		if to := r.bytes(w.at, len(w.b)); to != nil {
			copy(to, w.b)
		} else if w.at < abi.TaskSizeMax { // the log
			r.caller.Write(w.at, w.b)
		}
	}
	if err != nil {
		return errno(err)
	}
	return uint64(fd)
}

// freeFD returns the number of the next descriptor.
func (r *run) freeFD() int {
	for fd := 0; ; fd++ {
		fd = r.caller.FreeFD(fd)
		if r.givenAt(fd) < 0 {
			return fd
		}
	}
}

// givenAt returns which of the program's descriptors a number is, or -1.
func (r *run) givenAt(fd int) int {
	return slices.IndexFunc(r.given, func(g Given) bool { return g.FD == fd })
}

// sysClose is bpf_sys_close. Only descriptors that the program has made can be closed.
func (r *run) sysClose(a *[numArgs]uint64) uint64 {
	n := r.givenAt(int(int32(a[0])))
	if n < 0 {
		return errno(syscall.EBADF)
	}
	object := r.given[n].Object
	r.given = slices.Delete(r.given, n, n+1)
	r.sys.mem.Unlock()
	r.sys.Release(object)
	r.sys.mem.Lock()
	return 0
}

// findByName is bpf_btf_find_by_name_kind: the number of a type of the kernel.
func (r *run) findByName(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[1]))
	name := r.fetch(a[0], n)
	if name == nil {
		return 0
	}
	if a[3] != 0 || n <= 1 || name[n-1] != 0 {
		return errno(syscall.EINVAL)
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	id, ok := r.sys.types.find(string(name), uint32(a[2]))
	if !ok {
		return errno(syscall.ENOENT)
	}
	return uint64(id)
}

// programCaller is a program that calls bpf(2) in the task that runs it.
type programCaller struct {
	Caller
	run    *run
	writes []programWrite
}

type programWrite struct {
	at uint64
	b  []byte
}

// Object implements Caller.
func (c *programCaller) Object(fd int) any {
	if n := c.run.givenAt(fd); n >= 0 {
		return c.run.given[n].Object
	}
	return c.Caller.Object(fd)
}

// Access implements Caller.
func (c *programCaller) Access(fd int) uint32 {
	if n := c.run.givenAt(fd); n >= 0 {
		return c.run.given[n].Access
	}
	return c.Caller.Access(fd)
}

// Read implements Caller.
func (c *programCaller) Read(addr uint64, b []byte) error {
	c.run.sys.mem.Lock()
	defer c.run.sys.mem.Unlock()
	from := c.run.bytes(addr, len(b))
	if from == nil && len(b) > 0 {
		return syscall.EFAULT
	}
	copy(b, from)
	return nil
}

// Write implements Caller.
func (c *programCaller) Write(addr uint64, b []byte) {
	c.writes = append(c.writes, programWrite{addr, b})
}

// copyFromUser is bpf_copy_from_user. What cannot be read is zero.
func (r *run) copyFromUser(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[1]))
	to := r.fetch(a[0], n)
	if to == nil {
		return 0
	}
	err := error(syscall.EFAULT)
	switch {
	case !userSpace.allows(a[2], uint64(n)):
	case r.caller != nil:
		err = r.caller.Read(a[2], to)
	default:
		if err = r.hit.Trap.Mem.ReadAt(a[2], to); err != nil && r.userMemory(r.hit.Trap.Task, a[2], to) {
			return 0
		}
	}
	if err != nil {
		clear(to)
		return errno(syscall.EFAULT)
	}
	return 0
}

// kallsymsLookup is bpf_kallsyms_lookup_name: it stores the address of a symbol.
func (r *run) kallsymsLookup(a *[numArgs]uint64) uint64 {
	n := int(uint32(a[1]))
	name := r.fetch(a[0], n)
	if name == nil && n > 0 {
		return 0
	}
	if a[2] != 0 || n <= 1 || name[n-1] != 0 {
		return errno(syscall.EINVAL)
	}
	name, _, _ = bytes.Cut(name, []byte{0})
	addr := uint64(0)
	if r.sys.conf.Probes != nil {
		addr = r.sys.conf.Probes.Function(string(name))
	}
	r.store(a[3], addr, 8)
	if addr == 0 {
		return errno(syscall.ENOENT)
	}
	return 0
}

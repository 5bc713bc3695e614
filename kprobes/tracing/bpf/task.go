package bpf

import (
	"syscall"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// taskRegs is bpf_task_pt_regs: the registers with which a task has entered the kernel, at the top of its stack. The arguments of a call are there
// from its entry on, as it has them here; what else user space has there is filled in now.
func (r *run) taskRegs(a *[numArgs]uint64) uint64 {
	stack, err := r.hit.Trap.Mem.ReadU64(a[0] + abi.TaskStack)
	if err != nil {
		return 0
	}
	at := stack + abi.ThreadSize - uint64(unsafe.Sizeof(abi.Regs{}))
	if r.sys.conf.UserRegs == nil {
		return at
	}
	user, whole, ok := r.sys.conf.UserRegs(a[0])
	if !ok {
		return at
	}
	regs := abi.Regs{}
	if r.hit.Trap.Mem.ReadAt(at, regs.Bytes()) != nil {
		return at
	}
	regs.IP, regs.SP, regs.CX = user.IP, user.SP, user.IP // syscall leaves the address of the next instruction in rcx
	if whole {
		regs.BP, regs.BX, regs.R12, regs.R13, regs.R14, regs.R15 = user.BP, user.BX, user.R12, user.R13, user.R14, user.R15
	}
	_ = r.hit.Trap.Mem.WriteAt(at, regs.Bytes())
	return at
}

// findVMA is bpf_find_vma: no task of the emulated kernel has memory that is described there.
func (r *run) findVMA(a *[numArgs]uint64) uint64 {
	if a[4] != 0 {
		return errno(syscall.EINVAL)
	}
	return errno(syscall.ENOENT)
}

// copyFromTask is bpf_copy_from_user_task. Another task's memory can be read as far as it is in RAM.
func (r *run) copyFromTask(a *[numArgs]uint64) uint64 {
	switch {
	case a[4] != 0:
		return errno(syscall.EINVAL)
	case uint32(a[1]) == 0:
		return 0
	case a[3] != r.hit.Trap.Task:
		to := r.fetch(a[0], int(uint32(a[1])))
		if to == nil || userSpace.allows(a[2], uint64(len(to))) && r.userMemory(a[3], a[2], to) {
			return 0
		}
		clear(to)
		return errno(syscall.EFAULT)
	}
	return r.copyFromUser(a)
}

// probeWriteUser is bpf_probe_write_user. What a hit sees of user space's memory is a copy, so that nothing can be written there.
func (r *run) probeWriteUser(*[numArgs]uint64) uint64 { return errno(syscall.EPERM) }

// ancestorCgroup is bpf_get_current_ancestor_cgroup_id. All tasks are in the root.
func ancestorCgroup(_ *run, a *[numArgs]uint64) uint64 {
	if int32(a[0]) == 0 {
		return 1
	}
	return 0
}

// branchRecords is bpf_read_branch_records of a processor that records none.
func branchRecords(_ *run, a *[numArgs]uint64) uint64 {
	const sizeOnly = 1 // BPF_F_GET_BRANCH_RECORDS_SIZE
	if a[3]&^sizeOnly != 0 {
		return errno(syscall.EINVAL)
	}
	return errno(syscall.ENOENT)
}

// lookupPercpu is bpf_map_lookup_percpu_elem.
func (r *run) lookupPercpu(a *[numArgs]uint64) uint64 {
	m := r.mapAt(a[0])
	key := r.key(m, a[1])
	cpu := uint64(uint32(a[2]))
	if key == nil || m.kind != mapPerCPUArray && m.kind != mapPerCPUHash && m.kind != mapLRUPerCPUHash || cpu >= uint64(m.cpus) {
		return 0
	}
	n := m.find(key)
	if n < 0 {
		return 0
	}
	return m.address(n*m.cpus + int(cpu))
}

// unreachable are helpers whose arguments no program can have here: the verifier refuses each call.
func (r *run) unreachable(*[numArgs]uint64) uint64 {
	r.end("a helper with an argument that there is not")
	return 0
}

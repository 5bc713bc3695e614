package bpf

import (
	"encoding/binary"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// storageCreate is BPF_LOCAL_STORAGE_GET_F_CREATE.
const storageCreate = 1

// storageKey returns the key of the value of the task at an address. The idle tasks of all CPUs have the id 0:
// they are known by their addresses.
func (r *run) storageKey(task uint64) []byte {
	var b [8]byte
	if task == 0 || r.hit.Trap.Mem.ReadAt(task+abi.TaskPID, b[:4]) != nil {
		return nil
	}
	if tid := int32(binary.LittleEndian.Uint32(b[:])); tid != 0 {
		return taskKey(tid)
	}
	return binary.LittleEndian.AppendUint64(nil, task)
}

// storageGet is bpf_task_storage_get: it returns NULL if there is none and none is to be made.
func (r *run) storageGet(a *[numArgs]uint64) uint64 {
	m, key := r.mapAt(a[0]), r.storageKey(a[1])
	if m == nil || m.kind != mapTaskStorage || key == nil || a[3]&^storageCreate != 0 {
		return 0
	}
	if n := m.find(key); n >= 0 {
		return m.address(n)
	}
	if a[3] != storageCreate {
		return 0
	}
	value := make([]byte, m.value)
	if a[2] != 0 {
		if value = r.fetch(a[2], m.value); value == nil {
			return 0
		}
	}
	n, err := m.insert(key, updateNoExist)
	if err != nil {
		return 0
	}
	m.copyValue(m.slot(n), value)
	return m.address(n)
}

// storageDelete is bpf_task_storage_delete.
func (r *run) storageDelete(a *[numArgs]uint64) uint64 {
	m, key := r.mapAt(a[0]), r.storageKey(a[1])
	if m == nil || m.kind != mapTaskStorage || key == nil {
		return errno(syscall.EINVAL)
	}
	return errno(m.delete(key))
}

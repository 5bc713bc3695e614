package bpf

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"syscall"
)

// Flags of bpf_get_stackid and bpf_get_stack.
const (
	stackSkip  = 0xff
	stackUser  = 1 << 8
	stackFast  = 1 << 9
	stackReuse = 1 << 10
	stackBuild = 1 << 11
)

// maxCallers is kernel.perf_event_max_stack: how many frames of a stack are told of.
const maxCallers = 127

// struct bpf_stack_build_id has a status, the build id, and an offset in the file or an address.
const (
	buildIDSize   = 32
	buildIDAt     = 4
	buildOffsetAt = 24

	buildIDValid = 1
	buildIDIP    = 2
)

// frameList returns the kernel's stack, or user space's, without the innermost frames that flags say, at most n. It returns false if there are
// not so many, or no stack.
func (r *run) frameList(flags uint64, n int) (ips []uint64, ok bool) {
	skip := int(flags & stackSkip)
	most := min(n+skip, maxCallers)
	switch {
	case flags&stackUser != 0:
		ips = r.userFrames(most)
	case r.hit.Chain != nil:
		ips = r.hit.Chain()
	}
	ips = ips[:min(most, len(ips))]
	if len(ips) < skip || len(ips) == 0 && n > 0 {
		return nil, false
	}
	ips = ips[skip:]
	return ips[:min(n, len(ips))], true
}

// userFrames returns the stack of user space, at most n frames of it.
func (r *run) userFrames(n int) []uint64 {
	if r.sys.conf.UserStack == nil {
		return nil
	}
	return r.callers[:r.sys.conf.UserStack(r.hit.Trap.Task, r.callers[:n])]
}

// buildIDs writes the struct bpf_stack_build_id of each frame to b: stack_map_get_build_id_offset.
func (r *run) buildIDs(b []byte, ips []uint64) {
	var places func(ip uint64) (id [20]byte, offset uint64, ok bool)
	if r.sys.conf.UserFiles != nil {
		places = r.sys.conf.UserFiles(r.hit.Trap.Task)
	}
	for i, ip := range ips {
		one := b[i*buildIDSize:][:buildIDSize]
		clear(one)
		status, at := uint32(buildIDIP), ip
		if places != nil {
			if id, offset, ok := places(ip); ok {
				status, at = buildIDValid, offset
				copy(one[buildIDAt:], id[:])
			}
		}
		binary.LittleEndian.PutUint32(one, status)
		binary.LittleEndian.PutUint64(one[buildOffsetAt:], at)
	}
}

var stackSeed = maphash.MakeSeed()

// stackID is bpf_get_stackid. It fails with EFAULT if there is no stack, or all of it is left out.
func (r *run) stackID(a *[numArgs]uint64) uint64 {
	m, flags := r.mapAt(a[1]), a[2]
	if m == nil || m.kind != mapStackTrace || flags&^uint64(stackSkip|stackUser|stackFast|stackReuse) != 0 {
		return errno(syscall.EINVAL)
	}
	size := m.frameSize()
	ips, ok := r.frameList(flags, m.value/size)
	if !ok || len(ips) == 0 {
		return errno(syscall.EFAULT)
	}
	addrs := make([]byte, 0, len(ips)*8)
	for _, ip := range ips {
		addrs = binary.LittleEndian.AppendUint64(addrs, ip)
	}
	id := int(maphash.Bytes(stackSeed, addrs) % uint64(m.entries))
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(ips)))
	if size == buildIDSize && flags&stackUser != 0 {
		b = append(b, make([]byte, len(ips)*size)...)
		r.buildIDs(b[8:], ips)
	} else {
		b = append(b, addrs...)
	}
	to := m.slot(id)
	switch {
	case bytes.Equal(to[:len(b)], b):
		return uint64(id)
	case binary.LittleEndian.Uint64(to) != 0 && flags&stackReuse == 0:
		return errno(syscall.EEXIST)
	}
	clear(to)
	copy(to, b)
	return uint64(id)
}

// frameSize is the size of a frame in an element of a map of stacks, in bytes.
func (m *mapSpec) frameSize() int {
	if m.flags&flagStackBuildID != 0 {
		return buildIDSize
	}
	return 8
}

// getStack is bpf_get_stack. It returns the number of bytes.
func (r *run) getStack(a *[numArgs]uint64) uint64 {
	flags, n := a[3], int(uint32(a[2]))
	to := r.fetch(a[1], n)
	if to == nil {
		return 0
	}
	clear(to)
	size := 8
	if flags&stackBuild != 0 {
		size = buildIDSize
	}
	if flags&^uint64(stackSkip|stackUser|stackBuild) != 0 || n%size != 0 || size == buildIDSize && flags&stackUser == 0 {
		return errno(syscall.EINVAL)
	}
	ips, ok := r.frameList(flags, n/size)
	switch {
	case !ok:
		return errno(syscall.EFAULT)
	case size == buildIDSize:
		r.buildIDs(to, ips)
	default:
		for i, ip := range ips {
			binary.LittleEndian.PutUint64(to[8*i:], ip)
		}
	}
	return uint64(size * len(ips))
}

// taskStack is bpf_get_task_stack: the stack of the task that runs the program. The kernel's of another one cannot be walked while that is
// not stopped, and user space's is EOPNOTSUPP, as on Linux.
func (r *run) taskStack(a *[numArgs]uint64) uint64 {
	if a[0] != r.hit.Trap.Task {
		if to := r.fetch(a[1], int(uint32(a[2]))); to != nil {
			clear(to)
		}
		if a[3]&stackUser != 0 {
			return errno(syscall.EOPNOTSUPP)
		}
		return errno(syscall.EFAULT)
	}
	return r.getStack(a)
}

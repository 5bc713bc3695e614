package kernel

import (
	"encoding/binary"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// disk is the machine's disk. Its contents are zeros until something is written.
type disk struct {
	mu   sync.Mutex
	data []byte
}

// diskSectors is the size of the disk in sectors of 512 bytes: 4 MB.
const (
	diskSectors = 8192
	sectorSize  = 512
)

// hcDisk does a request of the guest's at once, and interrupts it.
func (v *vcpu) hcDisk(request, _, _ uint64) int64 {
	if request == 0 {
		return diskSectors
	}
	var head [abi.DiskSegments]byte
	if v.m.mem.ReadAt(request, head[:]) != nil {
		return -int64(syscall.EFAULT)
	}
	le := binary.LittleEndian
	write, n, sector := le.Uint32(head[abi.DiskType:]) != 0, le.Uint32(head[abi.DiskCount:]), le.Uint64(head[abi.DiskSector:])
	status := uint32(0)
	if n > abi.DiskMaxSegments || sector > diskSectors || v.m.disk.transfer(v, request+abi.DiskSegments, n, sector*sectorSize, write) != nil {
		status = 1
	}
	var done [8]byte // status and used
	le.PutUint32(done[:], status)
	le.PutUint32(done[4:], 1)
	if v.m.mem.WriteAt(request+abi.DiskStatus, done[:]) != nil {
		return -int64(syscall.EFAULT)
	}
	v.raise(abi.VecDisk)
	return 0
}

// transfer copies between the disk, from a byte on, and n segments of memory, which are
// listed at an address.
func (d *disk) transfer(v *vcpu, list uint64, n uint32, at uint64, write bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil {
		d.data = make([]byte, diskSectors*sectorSize)
	}
	for i := uint64(0); i < uint64(n); i++ {
		var seg [16]byte
		if err := v.m.mem.ReadAt(list+i*16, seg[:]); err != nil {
			return err
		}
		addr, size := binary.LittleEndian.Uint64(seg[:]), binary.LittleEndian.Uint64(seg[8:])
		if size > uint64(len(d.data))-at {
			return syscall.EIO
		}
		part := d.data[at : at+size]
		copied := v.m.mem.WriteAt
		if write {
			copied = v.m.mem.ReadAt
		}
		if err := copied(addr, part); err != nil {
			return err
		}
		at += size
	}
	return nil
}

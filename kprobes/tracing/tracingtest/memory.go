package tracingtest

import (
	"encoding/binary"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// Addresses in Memory.
const (
	TaskAddr  = 0xffff888000010000
	StackAddr = 0xffffc90000c50000
	PathAddr  = 0x00007f0000000000
)

// Memory is the guest memory of a hit with arguments: a task, a stack of
// ThreadSize bytes, two kernel pages and a user page.
type Memory map[uint64][]byte

// NewMemory returns such memory.
func NewMemory(f *Kernel) Memory {
	m := Memory{
		TaskAddr: NewTask(7, "cat").Bytes, StackAddr: make([]byte, abi.ThreadSize),
		PathAddr: make([]byte, abi.PageSize), TaskAddr + 1<<20: make([]byte, abi.PageSize),
		f.Symbol("linux_proc_banner"): append([]byte("%s version %s"), make([]byte, abi.PageSize-14)...),
	}
	copy(m[PathAddr], "/etc/passwd")
	copy(m[PathAddr][abi.PageSize-3:], "end") // without a NUL at the end of memory
	kernel := m[TaskAddr+1<<20]
	copy(kernel, "\x00\x80\x00\x00\xfe\xff\xff\xff")
	binary.LittleEndian.PutUint64(kernel[8:], PathAddr)
	binary.LittleEndian.PutUint64(kernel[16:], f.Symbol("linux_proc_banner"))
	binary.LittleEndian.PutUint64(kernel[24:], 1<<63) // a bad address
	stack := m[StackAddr]
	binary.LittleEndian.PutUint64(stack[0x3000:], f.Symbol("vfs_read")+0x6a)
	binary.LittleEndian.PutUint64(stack[0x3008:], 0x1234)
	return m
}

// ReadAt fails with EFAULT outside of the memory.
func (m Memory) ReadAt(addr uint64, p []byte) error {
	for base, b := range m {
		if addr >= base && addr-base+uint64(len(p)) <= uint64(len(b)) {
			copy(p, b[addr-base:])
			return nil
		}
	}
	return syscall.EFAULT
}

// ReadU64 fails like ReadAt.
func (m Memory) ReadU64(addr uint64) (uint64, error) {
	for base, b := range m {
		if addr >= base && addr-base+8 <= uint64(len(b)) {
			return binary.LittleEndian.Uint64(b[addr-base:]), nil
		}
	}
	return 0, syscall.EFAULT
}

// WriteAt fails with EFAULT.
func (m Memory) WriteAt(uint64, []byte) error { return syscall.EFAULT }

// WriteU64 fails with EFAULT.
func (m Memory) WriteU64(uint64, uint64) error { return syscall.EFAULT }

// TrapWithArgs returns the trap of a call of f(-100 as an int, path, kernel memory,
// nothing, 5, 6, 0x1234).
func TrapWithArgs(f *Kernel) *abi.Trap {
	t := Entered(0, 1e9, NewMemory(f))
	t.Task = TaskAddr
	t.Regs = &abi.Regs{
		DI: 0xffffff9c, SI: PathAddr, DX: TaskAddr + 1<<20, CX: 0, R8: 5, R9: 6, AX: 0xfffffffffffffffe,
		IP: f.Symbol("vfs_read") + 1, SP: StackAddr + 0x3000, CS: abi.KernelCS, SS: abi.KernelSS,
		Flags: abi.FlagIF | 0x46, OrigAX: 11, BX: 1, BP: 2, R10: 10, R11: 11, R12: 12, R13: 13, R14: 14, R15: 15,
	}
	return t
}

package host

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// TestUserFrames: frames are followed wherever they lead, until one cannot be read, as perf_callchain_user does (bpf-stacks
// of internal/tools/clients has what Linux does).
func TestUserFrames(t *testing.T) {
	const pages = 3
	memory, err := unix.Mmap(-1, 0, pages*abi.PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	base := uint64(uintptr(unsafe.Pointer(&memory[0])))
	put := func(at int, next, ret uint64) uint64 {
		binary.LittleEndian.PutUint64(memory[at:], next)
		binary.LittleEndian.PutUint64(memory[at+8:], ret)
		return base + uint64(at)
	}
	m, err := proc.OpenMemory(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	last := put(2000, 0, 3)
	middle := put(64, last, 2)
	across := put(abi.PageSize-8, middle, 1)
	loop := put(3000, base+3000, 7)
	loose := put(3501, last, 9)
	nowhere := put(3600, last, 0)
	for _, c := range []struct {
		name  string
		frame uint64
		n     int
		want  []uint64
	}{
		{"a chain, also to lower addresses", across, 9, []uint64{1, 2, 3}},
		{"no room for all", across, 2, []uint64{1, 2}},
		{"no room", across, 0, nil},
		{"a loop", loop, 4, []uint64{7, 7, 7, 7}},
		{"not aligned", loose, 9, []uint64{9, 3}},
		{"none", 0, 9, nil},
		{"a page that was not touched", base + 2*abi.PageSize, 9, nil},
		{"half of it in such a page", base + 2*abi.PageSize - 8, 9, nil},
		{"the end of user space", abi.TaskSizeMax - frameSize, 9, nil},
		{"the kernel", 0xffffffff81000000, 9, nil},
		{"the last address", ^uint64(0), 9, nil},
	} {
		frames, ips := userFrames{memory: m}, make([]uint64, c.n)
		n := frames.walk(c.frame, ips, func(uint64, uint64) bool { return true })
		if !slices.Equal(ips[:n], c.want) {
			t.Errorf("%s: %d, want %d", c.name, ips[:n], c.want)
		}
	}
	frames, ips := userFrames{memory: m}, make([]uint64, 9)
	if n := frames.walk(nowhere, ips, func(_, ret uint64) bool { return ret != 0 }); n != 0 {
		t.Errorf("a frame that is not good: %d", ips[:n])
	}
}

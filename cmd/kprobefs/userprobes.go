package main

import (
	"encoding/binary"
	"os"
	"strconv"
	"strings"

	"golang.org/x/arch/x86/x86asm"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// A uprobe of perf_event_open(2) is hit in the program that has opened it, if it is at a function that does
// nothing but return: a place that programs have to tell of something, as bpftrace's BEGIN_trigger. The ret and the
// padding after it make room for a system call of a number that no kernel has, which the filter notifies
// of. All other uprobes have no hits.

// userProbeCall is that number.
const userProbeCall = 0x6b7066

// userProbe is what stands at the probe: push %rax; mov $userProbeCall, %eax; syscall; pop %rax; ret. As in any
// function, rcx and r11, which the call changes, are not the caller's.
var userProbe = append(binary.LittleEndian.AppendUint32([]byte{0x50, 0xb8}, userProbeCall), 0x0f, 0x05, 0x58, 0xc3)

// afterUserCall is the offset in userProbe of the instruction after the call.
const afterUserCall = kprobefs.PlantedCall

// plant makes room for a uprobe at an offset of the caller's own program, if that is what path
// names. It returns the address of the instruction after the system call, or 0 if there are no hits here.
func (c *caller) plant(path string, offset uint64) (ip uint64) {
	var mem *os.File
	at := uint64(0)
	waits := c.take(func(tid int) {
		root := proc.Path(tid, "root")
		if !strings.HasPrefix(path, "/") {
			root = proc.Path(tid, "cwd")
		}
		if path == "/proc/self/exe" {
			path = proc.Path(tid, "exe")
			root = ""
		}
		var named, own unix.Stat_t
		if unix.Stat(root+"/"+path, &named) != nil || unix.Stat(proc.Path(tid, "exe"), &own) != nil || named.Dev != own.Dev || named.Ino != own.Ino {
			return
		}
		maps, err := proc.Read(tid, "maps")
		if err != nil {
			return
		}
		if at = mappedAt(maps, own.Ino, offset); at != 0 {
			mem, _ = os.OpenFile(proc.Path(tid, "mem"), os.O_RDWR, 0)
		}
	})
	if mem == nil {
		return 0
	}
	defer mem.Close()
	b := make([]byte, len(userProbe))
	if n, _ := mem.ReadAt(b, int64(at)); !waits || n < len(b) {
		return 0
	}
	if string(b) != string(userProbe) {
		if !empty(b) {
			return 0
		}
		if n, err := mem.WriteAt(userProbe, int64(at)); err != nil || n < len(userProbe) {
			return 0
		}
	}
	return at + afterUserCall
}

// empty reports whether code is a ret, and after it instructions that do nothing: the padding before the next
// function. The last one may go on after the end.
func empty(code []byte) bool {
	const ret = 0xc3
	if code[0] != ret {
		return false
	}
	padding := append(append([]byte{}, code[1:]...), make([]byte, 16)...)
	for at := 0; at < len(code)-1; {
		prefixes := at
		for padding[prefixes] == 0x66 || padding[prefixes] == 0x2e {
			prefixes++
		}
		i, err := x86asm.Decode(padding[prefixes:], 64)
		nop := err == nil && (i.Op == x86asm.NOP || i.Op == x86asm.INT || i.Op == x86asm.XCHG && padding[prefixes] == 0x90)
		if padding[prefixes] == 0xcc {
			nop = true
		}
		if !nop {
			return false
		}
		at = prefixes + i.Len
	}
	return true
}

// mappedAt returns where /proc/TID/maps shows an offset of a file as code, or 0.
func mappedAt(maps string, ino, offset uint64) uint64 {
	for line := range strings.Lines(maps) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.Contains(f[1], "x") || f[4] != strconv.FormatUint(ino, 10) {
			continue
		}
		from, to, _ := strings.Cut(f[0], "-")
		lo, err := strconv.ParseUint(from, 16, 64)
		hi, err2 := strconv.ParseUint(to, 16, 64)
		first, err3 := strconv.ParseUint(f[2], 16, 64)
		if err == nil && err2 == nil && err3 == nil && offset >= first && offset-first < hi-lo {
			return lo + offset - first
		}
	}
	return 0
}

// answerUserProbe answers the call of a planted uprobe: its programs have run when the caller goes on.
func (s *supervisor) answerUserProbe(c *caller) {
	r := s.askOf(c, &question{Do: doUserProbe, Site: c.ip}, nil)
	if r.Errno != 0 {
		c.fail(unix.ENOSYS)
		return
	}
	c.succeed()
}

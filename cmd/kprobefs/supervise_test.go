package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

func TestBelow(t *testing.T) {
	dirs := []string{"/sys/kernel/debug", "/dev/kmsg"}
	for path, want := range map[string]bool{
		"/sys/kernel/debug/kprobes/enabled": true,
		"/sys/kernel/debug":                 true,
		"/dev/kmsg":                         true,
		"/sys/kernel/debugger":              false,
		"/sys/kernel":                       false,
		"pipe:[12]":                         false,
	} {
		if got := below(path, dirs); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestCallFilter: the filter notifies the supervisor of native lseek with SEEK_CUR,
// prctl with PR_SET_NAME or PR_SET_MEMORY_MERGE, splice, mount, perf_event_open, bpf commands
// that attach, and the traced calls, and of no others.
func TestCallFilter(t *testing.T) {
	arch, ok := auditArch()
	if !ok {
		t.Skip("no filter for this architecture")
	}
	type call struct {
		name     string
		arch, nr uint32
		arg0     uint32
		arg2     uint32
		ask      bool
	}
	last := kernelNumbers[len(kernelNumbers)-1]
	calls := []call{
		{"position", arch, unix.SYS_LSEEK, 0, unix.SEEK_CUR, true},
		{"set", arch, unix.SYS_LSEEK, 0, unix.SEEK_SET, false},
		{"end", arch, unix.SYS_LSEEK, 0, unix.SEEK_END, false},
		{"name", arch, unix.SYS_PRCTL, unix.PR_SET_NAME, 0, true},
		{"merge", arch, unix.SYS_PRCTL, unix.PR_SET_MEMORY_MERGE, 1, true},
		{"another prctl", arch, unix.SYS_PRCTL, unix.PR_GET_NAME, unix.SEEK_CUR, false},
		{"mount", arch, unix.SYS_MOUNT, 0, 0, true},
		{"splice", arch, unix.SYS_SPLICE, 0, 0, true},
		{"read", arch, unix.SYS_READ, unix.PR_SET_NAME, unix.SEEK_CUR, false},
		{"write", arch, unix.SYS_WRITE, 0, unix.SEEK_CUR, false},
		{"32 bit", 0x40000003, unix.SYS_LSEEK, 0, unix.SEEK_CUR, false},
		{"perf", arch, unix.SYS_PERF_EVENT_OPEN, 0, 0, true},
		{"a map of bpf", arch, unix.SYS_BPF, unix.BPF_MAP_CREATE, unix.SEEK_CUR, true},
		{"a program of bpf", arch, unix.SYS_BPF, unix.BPF_PROG_LOAD, 0, true},
		{"a raw tracepoint of bpf", arch, unix.SYS_BPF, unix.BPF_RAW_TRACEPOINT_OPEN, 0, true},
		{"a link of bpf", arch, unix.SYS_BPF, unix.BPF_LINK_CREATE, 0, true},
		{"32 bit perf", last.arch, last.perf, 0, 0, true},
		{"32 bit map of bpf", last.arch, last.bpf, unix.BPF_MAP_CREATE, 0, false},
		{"32 bit program of bpf", last.arch, last.bpf, unix.BPF_PROG_LOAD, 0, true},
		{"perf's number elsewhere", 0x40000028 ^ 0xff, last.perf, 0, 0, false},
		{"32 bit open", 0x40000003, tracedCalls[0].host, 0, 0, false},
	}
	for _, c := range tracedCalls {
		calls = append(calls, call{"traced", arch, c.host, 0, 0, true})
	}
	for _, tt := range calls {
		data := map[uint32]uint32{0: tt.nr, 4: tt.arch, 16: tt.arg0, 32: tt.arg2}
		if got := runFilter(callFilter(arch, tracedCalls, identity{}.numbers()), data) == unix.SECCOMP_RET_USER_NOTIF; got != tt.ask {
			t.Errorf("%s (%d): asks %v, want %v", tt.name, tt.nr, got, tt.ask)
		}
	}
}

// TestPerfMapFilter: of the calls of mmap(2) those come to the supervisor that may map a ring.
func TestPerfMapFilter(t *testing.T) {
	arch, ok := auditArch()
	if !ok {
		t.Skip("no filter for this architecture")
	}
	const read, rw, shared, private = unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED, unix.MAP_PRIVATE
	for _, tt := range []struct {
		length, prot, flags, fd uint32
		ask                     bool
	}{
		{528384, rw, shared, 3, true},
		{12345, rw, shared, 3, true},
		{528384, read, shared, 3, true},
		{4096, read, shared, 3, true},
		{8192, read, shared, 3, true},
		{12288, read, shared, 3, true},
		{16384, read, shared, 3, false},
		{27028, read, shared, 3, false},
		{528384, rw, private, 3, false},
		{528384, rw, shared | unix.MAP_ANONYMOUS, 1<<32 - 1, false},
		{8192, read, private | unix.MAP_FIXED | unix.MAP_DENYWRITE, 3, false},
	} {
		data := map[uint32]uint32{0: unix.SYS_MMAP, 4: arch, 24: tt.length, 32: tt.prot, 40: tt.flags, 48: tt.fd}
		if got := runFilter(callFilter(arch, tracedCalls, identity{}.numbers()), data) == unix.SECCOMP_RET_USER_NOTIF; got != tt.ask {
			t.Errorf("%+v: asks %v", tt, got)
		}
	}
}

// TestReadMemory reads strings and arrays of this process.
func TestReadMemory(t *testing.T) {
	text := []byte("a string\x00rest")
	addr := func(b []byte) uint64 { return addrOf(t, &b[0]) }
	if got := readString(os.Getpid(), addr(text)); string(got) != "a string" {
		t.Errorf("a string: %q", got)
	}
	if got := readString(os.Getpid(), 8); got != nil {
		t.Errorf("a string at 8: %q", got)
	}
	vector := make([]byte, 24)
	binary.NativeEndian.PutUint64(vector, addr(text))
	binary.NativeEndian.PutUint64(vector[8:], addr(text)+2)
	if got := readVector(os.Getpid(), addr(vector)); len(got) != 2 || string(got[0]) != "a string" || string(got[1]) != "string" {
		t.Errorf("an array: %q", got)
	}
	if got := readVector(os.Getpid(), 0); got != nil {
		t.Errorf("no array: %q", got)
	}
	runtime.KeepAlive(text)
	runtime.KeepAlive(vector)
}

// TestProcessesOutliveCommand: processes that outlive their command can still open, fork and exec.
// When they have ended, no process of the program is left.
func TestProcessesOutliveCommand(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	done := filepath.Join(dir, "done")
	script := fmt.Sprintf("(sleep 0.3; (true); cat /etc/hostname >%s.tmp; sh -c 'echo more >>%s.tmp'; mv %s.tmp %s) >/dev/null 2>&1 &", done, done, done, done)
	if out, st := output(t, "exec", "--", "sh", "-c", script); st.ExitCode() != 0 {
		t.Fatalf("%v\n%s", st, out)
	}
	var wrote []byte
	if !ends(func() (over bool) { var err error; wrote, err = os.ReadFile(done); return err == nil }) {
		t.Error("it has not ended")
	} else if !strings.HasSuffix(string(wrote), "more\n") {
		t.Errorf("it wrote %q", wrote)
	}
}

// runFilter interprets the part of BPF that the filter uses.
func runFilter(prog []unix.SockFilter, data map[uint32]uint32) uint32 {
	var a, x uint32
	for pc := 0; ; pc++ {
		in := prog[pc]
		switch in.Code & 7 {
		case unix.BPF_LD:
			a = data[in.K]
		case unix.BPF_RET:
			return in.K
		case unix.BPF_MISC: // TAX
			x = a
		case unix.BPF_ALU:
			operand := in.K
			if in.Code&unix.BPF_X != 0 {
				operand = x
			}
			if in.Code&0xf0 == unix.BPF_SUB {
				a -= operand
			} else {
				a &= operand
			}
		case unix.BPF_JMP:
			if in.Code&0xf0 == unix.BPF_JA {
				pc += int(in.K)
			} else if a == in.K {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
	}
}

// FuzzCallMessage: a packet from the supervisor's socket is a valid call of the
// guest, or is dropped. Its texts are not longer than the packet.
func FuzzCallMessage(f *testing.F) {
	for _, m := range []callMessage{
		{ID: 1, TID: 2, PID: 2, Comm: "sh", Nr: 257, Args: [6]uint64{0xffffff9c, 1}, Text: [6][]byte{1: []byte("/etc/passwd")}},
		{ID: 2, TID: 2, PID: 2, Nr: abi.SysExecve, Vector: [6][][]byte{1: {[]byte("sh"), []byte("-c")}, 2: {}}, Head: [][]byte{[]byte("#!/bin/sh\n")}},
		{ID: 3, TID: 2, PID: 2, Nr: abi.SysClone3, Text: [6][]byte{0: make([]byte, 64)}},
		{ID: 4, Nr: abi.SysClone3, Text: [6][]byte{0: make([]byte, 13)}},
		{ID: 5, Nr: abi.SysFork},
		{ID: 6, Nr: abi.SysClone, Args: [6]uint64{0x11}},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m callMessage
		if json.Unmarshal(b, &m) != nil {
			return
		}
		if f, ok := m.fork(); ok && f.Nr != m.Nr {
			t.Errorf("a fork by call %d, not %d", f.Nr, m.Nr)
		}
		s := m.syscall()
		size := 0
		for i := range s.Args {
			if (s.Text[i] == nil) != (m.Text[i] == nil) || len(s.Vector[i]) != len(m.Vector[i]) {
				t.Errorf("argument %d is lost", i)
			}
			if s.Text[i] != nil {
				size += len(*s.Text[i])
			}
			for _, v := range s.Vector[i] {
				size += len(v)
			}
		}
		if size > len(b) {
			t.Errorf("%d bytes of text in a packet of %d", size, len(b))
		}
	})
}

// TestRootPath: the directories of root's programs are at the end of PATH, once each.
func TestRootPath(t *testing.T) {
	for path, want := range map[string]string{
		"/bin":                            "/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"/sbin:/usr/bin":                  "/sbin:/usr/bin:/usr/local/sbin:/usr/sbin",
		"/usr/sbin:/usr/local/sbin:/sbin": "/usr/sbin:/usr/local/sbin:/sbin",
	} {
		if got := rootPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

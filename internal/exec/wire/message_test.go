package wire

import (
	"encoding/json"
	"testing"

	"github.com/kprobefs/kprobefs/internal/exec/perffd"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// FuzzCallMessage: a packet from the supervisor's socket is a valid call of the
// guest, or is dropped. Its texts are not longer than the packet.
func FuzzCallMessage(f *testing.F) {
	for _, m := range []Message{
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
		var m Message
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

// TestReplyIsSmall: what a reply comes with is not part of its message, whose size the socket bounds.
func TestReplyIsSmall(t *testing.T) {
	r := Reply{ID: 1, Writes: []perffd.BPFWrite{{Addr: 1, Bytes: make([]byte, 1<<20)}}}
	if wrote := r.wrote(); wrote == nil {
		t.Error("what is to be written has no file")
	} else {
		wrote.Close()
	}
	b, err := json.Marshal(r)
	if err != nil || len(b) > 1<<10 {
		t.Errorf("a message of %d bytes, %v", len(b), err)
	}
}

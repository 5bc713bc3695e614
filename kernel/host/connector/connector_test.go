package connector

import (
	"encoding/binary"
	"os/exec"
	"testing"
)

// message makes one as the kernel sends it.
func message(what uint32, data ...uint32) []byte {
	b := make([]byte, headerSize+eventOffset)
	binary.NativeEndian.PutUint32(b[16:], idxProc)
	binary.NativeEndian.PutUint32(b[20:], valProc)
	binary.NativeEndian.PutUint32(b[headerSize:], what)
	for _, v := range data {
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return b
}

func TestParse(t *testing.T) {
	other := message(whatExec, 5, 6)
	other[16] = 9
	for _, tt := range []struct {
		name string
		in   []byte
		want Event
		ok   bool
	}{
		{"fork", message(whatFork, 1, 2, 3, 4), Event{Kind: Fork, TID: 1, PID: 2, ChildTID: 3, ChildPID: 4}, true},
		{"exec", message(whatExec, 5, 6), Event{Kind: Exec, TID: 5, PID: 6}, true},
		{"exit", message(whatExit, 7, 8, 0x900, 17), Event{Kind: Exit, TID: 7, PID: 8, Code: 0x900}, true},
		{"uid", message(4, 1, 2, 3, 4), Event{}, false},
		{"another connector", other, Event{}, false},
		{"cut off", message(whatExec, 5), Event{}, false},
		{"nothing", nil, Event{}, false},
	} {
		if got, ok := parse(tt.in); ok != tt.ok || ok && got != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
}

// TestListen: a child's fork and exit are told, before it has been waited for.
func TestListen(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	cmd := exec.Command("sh", "-c", "exit 3")
	if err := cmd.Run(); err == nil {
		t.Error("no exit status")
	}
	forked, code := false, 0
	for {
		e, ok, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		forked = forked || e.Kind == Fork && e.ChildPID == cmd.Process.Pid
		if e.Kind == Exit && e.PID == cmd.Process.Pid {
			code = e.Code
		}
	}
	if !forked || code != 3<<8 {
		t.Errorf("forked %v, exit code %#x", forked, code)
	}
}

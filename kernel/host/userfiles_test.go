package host

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"
	"unsafe"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// elfPage returns the first page of an ELF file with one note.
func elfPage(name string, kind uint32, contents []byte) []byte {
	b := make([]byte, abi.PageSize)
	copy(b, elf.ELFMAG)
	b[4] = byte(elf.ELFCLASS64)
	le := binary.LittleEndian
	le.PutUint64(b[32:], 64)
	le.PutUint16(b[56:], 2)
	le.PutUint32(b[64:], uint32(elf.PT_LOAD))
	le.PutUint32(b[64+56:], uint32(elf.PT_NOTE))
	note := le.AppendUint32(nil, uint32(len(name)))
	note = le.AppendUint32(note, uint32(len(contents)))
	note = le.AppendUint32(note, kind)
	note = append(append(note, name...), make([]byte, -len(name)&3)...)
	note = append(note, contents...)
	le.PutUint64(b[64+56+8:], 512)
	le.PutUint64(b[64+56+32:], uint64(len(note)))
	copy(b[512:], note)
	return b
}

// TestBuildID: the note is found where it is one, and its contents may be shorter than the record.
func TestBuildID(t *testing.T) {
	id := []byte("0123456789abcdefghij")
	for _, c := range []struct {
		name string
		page []byte
		want []byte
	}{
		{"a build id", elfPage("GNU\x00", 3, id), id},
		{"a short one", elfPage("GNU\x00", 3, id[:8]), id[:8]},
		{"a long one", elfPage("GNU\x00", 3, append(id, 'k')), nil},
		{"an empty one", elfPage("GNU\x00", 3, nil), nil},
		{"another note", elfPage("GNU\x00", 1, id), nil},
		{"somebody else's", elfPage("Go\x00\x00", 3, id), nil},
		{"a part of the page", elfPage("GNU\x00", 3, id)[:520], nil},
		{"the headers cut", elfPage("GNU\x00", 3, id)[:100], nil},
		{"no ELF file", make([]byte, abi.PageSize), nil},
		{"nothing", nil, nil},
	} {
		got, ok := buildID(c.page)
		if ok != (c.want != nil) || ok && !bytes.Equal(bytes.TrimRight(got[:], "\x00"), c.want) {
			t.Errorf("%s: %q, %v", c.name, got, ok)
		}
	}
}

// FuzzBuildID: a page may have anything.
func FuzzBuildID(f *testing.F) {
	f.Add(elfPage("GNU\x00", 3, []byte("0123456789abcdefghij")))
	f.Fuzz(func(_ *testing.T, page []byte) { buildID(page) })
}

// TestUserMappings: this program's own text and data, and memory without a file.
func TestUserMappings(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	of := (&Host{}).UserMappings(int32(os.Getpid()))
	if path, start := of(uint64(uintptr(unsafe.Pointer(&elf.ErrNoSymbols)))); path != "" && path != exe || path != "" && start == 0 {
		t.Errorf("data: %q from %#x", path, start)
	}
	text := **(**uintptr)(unsafe.Pointer(&[]func(*testing.T){TestUserMappings}[0]))
	if path, start := of(uint64(text)); path != exe || start == 0 || start > uint64(text) {
		t.Errorf("text: %q from %#x, want %q", path, start, exe)
	}
	if path, _ := of(^uint64(0)); path != "" {
		t.Errorf("the last address: %q", path)
	}
	if path, _ := (&Host{}).UserMappings(-1)(uint64(text)); path != "" {
		t.Errorf("no process: %q", path)
	}
}

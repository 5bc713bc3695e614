package main

import "testing"

// TestEmpty: where a uprobe is hit is a ret with room after it, and nothing else.
func TestEmpty(t *testing.T) {
	for _, tt := range []struct {
		name string
		code []byte
		want bool
	}{
		{"bpftrace's", []byte{0xc3, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0}, true},
		{"int3", []byte{0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc}, true},
		{"nop", []byte{0xc3, 0x90, 0x66, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, true},
		{"another function", []byte{0xc3, 0x90, 0x90, 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90}, false},
		{"does something", []byte{0x55, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, false},
		{"nothing", make([]byte, len(userProbe)), false},
	} {
		if got := empty(tt.code); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMappedAt: the address is that of the file's code, not of its data or of another file.
func TestMappedAt(t *testing.T) {
	const maps = `55d0c0000000-55d0c0021000 r--p 00000000 08:01 77 /usr/bin/bpftrace
55d0c0021000-55d0c01d4000 r-xp 00021000 08:01 77 /usr/bin/bpftrace
7f0000000000-7f0000001000 r-xp 00000000 08:01 78 /lib/other
`
	for _, tt := range []struct{ ino, offset, want uint64 }{
		{77, 0xc8830, 0x55d0c00c8830},
		{77, 0x1000, 0},
		{77, 0x200000, 0},
		{78, 0x10, 0x7f0000000010},
		{79, 0x10, 0},
	} {
		if got := mappedAt(maps, tt.ino, tt.offset); got != tt.want {
			t.Errorf("%d+%#x: %#x, want %#x", tt.ino, tt.offset, got, tt.want)
		}
	}
	if got := mappedAt("x\n1-2 r-xp\n", 1, 0); got != 0 {
		t.Errorf("no list of mappings: %#x", got)
	}
}

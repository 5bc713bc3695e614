package bpf

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

// TestShowValue: arrays and bitfields as bpf_snprintf_btf shows them on Linux: elements have neither names nor an opening brace, those that
// are zero are left out, pointers and arrays in an array are all shown as its first one, and the end of an inner array lets names come back.
func TestShowValue(t *testing.T) {
	number := &btf.Int{Name: "unsigned int", Size: 4}
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	byte_ := &btf.Typedef{Name: "u8", Type: &btf.Int{Name: "unsigned char", Size: 1}}
	node := &btf.Struct{Name: "node", Size: 8, Members: []btf.Member{{Name: "n", Type: number}, {Name: "text", Type: &btf.Array{Type: char, Nelems: 4}, Offset: 32}}}
	pair := &btf.Struct{Name: "pair", Size: 8, Members: []btf.Member{{Name: "a", Type: number}, {Name: "b", Type: number, Offset: 32}}}
	void := &btf.Pointer{Target: &btf.Void{}}
	array := func(of btf.Type, n uint32) *btf.Struct {
		return &btf.Struct{Name: "s", Size: 32, Members: []btf.Member{{Name: "all", Type: &btf.Array{Type: of, Nelems: n}}}}
	}
	for _, tt := range []struct {
		name  string
		of    btf.Type
		data  []byte
		flags showFlags
		want  string
	}{
		{"numbers", array(number, 3), []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, showCompact, "(struct s){.all = (unsigned int[])[1,2,],}"},
		{"zero", array(number, 2), make([]byte, 8), showCompact, "(struct s){}"},
		{"all numbers", array(number, 3), []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0}, showCompact | showZero, "(struct s){.all = (unsigned int[])[1,0,2,],}"},
		{"characters", array(char, 8), []byte("a\x01\x80\xe9\x00b\x00\x00"), showCompact, "(struct s){.all = (char[])['a',1,-128,'\xe9',],}"},
		{"bytes", array(byte_, 4), []byte{0x80, 'z', 0, 1}, showCompact, "(struct s){.all = (u8[])[128,'z',],}"},
		{"structures", array(pair, 2), []byte{0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0}, showCompact, "(struct s){.all = (struct pair[])[3,4,},],}"},
		{"on lines", array(pair, 1), []byte{3, 0, 0, 0, 4, 0, 0, 0}, 0, "(struct s){\n .all = (struct pair[])[\n  \n   3,\n   4,\n  },\n ],\n}\n"},
		{"pointers", array(void, 2), []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, showCompact | showPtrRaw, "(struct s){.all = ( *[])0x0000000000000001,0x0000000000000001,],}"},
		{"text in structures", array(node, 2), []byte("\x01\x00\x00\x00ab\x00\x00\x02\x00\x00\x00c\x00\x00\x00"), showCompact, "(struct s){.all = (struct node[])[(struct node){.n = (unsigned int)1,.text = (char[])['a','b',],},(struct node){.n = (unsigned int)2,.text = (char[])['c',],},],}"},
		{"all text in structures", array(node, 2), []byte("\x01\x00\x00\x00ab\x00\x00\x02\x00\x00\x00c\x00\x00\x00"), showCompact | showZero, "(struct s){.all = (struct node[])[1,'a','b',],},(struct node){.n = (unsigned int)2,.text = (char[])['c',],},],}"},
		{"bitfields", &btf.Struct{Name: "b", Size: 4, Members: []btf.Member{{Name: "low", Type: number, BitfieldSize: 4}, {Name: "none", Type: number, Offset: 4, BitfieldSize: 3}, {Name: "high", Type: number, Offset: 7, BitfieldSize: 9}}}, []byte{0x85, 0xff, 0, 0}, showCompact, "(struct b){.low = (unsigned int)0x5,.high = (unsigned int)0x1ff,}"},
		{"an enum", &btf.Enum{Name: "e", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "MINUS", Value: 1<<64 - 1}, {Name: "NONE"}}}, []byte{0xff, 0xff, 0xff, 0xff}, 0, "(enum e)MINUS\n"},
		{"no name", &btf.Enum{Name: "e", Size: 4, Signed: true}, []byte{0xfe, 0xff, 0xff, 0xff}, showNoName, "-2\n"},
		{"a large number", &btf.Int{Name: "__int128", Size: 16}, []byte{1, 0, 0, 0, 0, 0, 0, 0, 2}, showCompact, "(__int128)0x20000000000000001"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := showValue(tt.of, tt.data, tt.flags, nil); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

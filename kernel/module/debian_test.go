package module

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
)

// textAt and tablesAt are where textModule lies.
const (
	textAt   = abi.ModulesBase
	tablesAt = abi.ModulesBase + 0x10000
)

// textModule returns a module with text and tables, as they are before patch.
func textModule(text []byte, tables map[string][]byte) (*module, *object) {
	m, o := &module{name: "m"}, &object{}
	m.at[coreText] = placed{start: textAt, size: uint64(len(text)), bytes: bytes.Clone(text)}
	var data []byte
	for name, b := range tables {
		o.sections = append(o.sections, section{
			SectionHeader: &elf.SectionHeader{Name: name, Size: uint64(len(b))},
			area:          coreRodata, off: uint64(len(data)), addr: tablesAt + uint64(len(data)),
		})
		data = append(data, b...)
	}
	m.at[coreRodata] = placed{start: tablesAt, size: uint64(len(data)), bytes: data}
	return m, o
}

// rel32 returns the address to as a relative field of 4 bytes at an address.
func rel32(to, at uint64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(to-at)) }

// alternative returns an entry of .altinstructions, which lies at tablesAt.
func alternative(site, replacement uint64, feature uint16, size, n byte) []byte {
	b := append(rel32(textAt+site, tablesAt), rel32(textAt+replacement, tablesAt+4)...)
	return append(binary.LittleEndian.AppendUint16(b, feature), size, n)
}

func TestAlternatives(t *testing.T) {
	const xenpv = 8*32 + 16
	text := []byte("\xff\x14\x25\x00\x00\x00\x00\xc3" + // a call through memory of 7 bytes, ret
		"\xfa" + // at 8: cli
		"\xe8\x10\x00\x00\x00" + // at 9: a call
		"\xcc") // at 14
	for _, tt := range []struct {
		name  string
		entry []byte
		want  string // of the first 8 bytes; "" if the entry is refused
	}{
		{"for processors without a feature", alternative(0, 8, altNot|xenpv, 7, 1), "\xfa\x66\x0f\x1f\x44\x00\x00\xc3"},
		{"for processors with a feature", alternative(0, 8, xenpv, 7, 1), string(text[:8])},
		{"always", alternative(0, 8, featureAlways, 7, 1), "\xfa\x66\x0f\x1f\x44\x00\x00\xc3"},
		{"never", alternative(0, 8, altNot|featureAlways, 7, 1), string(text[:8])},
		{"nothing", alternative(0, 8, featureAlways, 7, 0), "\x0f\x1f\x80\x00\x00\x00\x00\xc3"},
		{"a call", alternative(0, 9, featureAlways, 7, 5), "\xe8\x19\x00\x00\x00\x66\x90\xc3"},
		{"too long", alternative(8, 9, featureAlways, 1, 5), ""},
		{"outside", alternative(12, 8, featureAlways, 7, 1), ""},
		{"replacement outside", alternative(0, 14, featureAlways, 7, 5), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, o := textModule(text, map[string][]byte{".altinstructions": tt.entry})
			err := m.patch(o)
			if got := string(m.at[coreText].bytes[:8]); tt.want != "" && (err != nil || got != tt.want) || tt.want == "" && err == nil {
				t.Errorf("%x, %v, want %x", got, err, tt.want)
			}
		})
	}
}

func TestReturnSites(t *testing.T) {
	text := []byte("\x90\xe9\x01\x02\x03\x04\xc3\xcc\xcc\xcc\xcc\xcc")
	m, o := textModule(text, map[string][]byte{".return_sites": append(rel32(textAt+1, tablesAt), rel32(textAt+6, tablesAt+4)...)})
	if err := m.patch(o); err != nil {
		t.Fatal(err)
	}
	if got, want := string(m.at[coreText].bytes), "\x90\xc3\xcc\xcc\xcc\xcc\xc3\xcc\xcc\xcc\xcc\xcc"; got != want {
		t.Errorf("%x, want %x", got, want)
	}
	m, o = textModule(text, map[string][]byte{".return_sites": rel32(textAt+8, tablesAt)})
	if err := m.patch(o); err == nil {
		t.Error("a return across the end of text is patched")
	}
}

func TestNops(t *testing.T) {
	for n := range 20 {
		b := bytes.Repeat([]byte{0xcc}, n)
		nops(b)
		if bytes.Contains(b, []byte{0xcc}) || n > 0 && n <= len(longNops) && string(b) != longNops[n-1] {
			t.Errorf("%d: %x", n, b)
		}
	}
	for i, nop := range longNops {
		if len(nop) != i+1 {
			t.Errorf("a nop of %d bytes has %d", i+1, len(nop))
		}
	}
}

package image

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kernel/kallsyms"
)

//go:generate gcc -nostdlib -static -Wl,-T,testdata/tiny.lds,--build-id=none,-z,max-page-size=16,--no-warn-rwx-segments -o testdata/tiny.elf testdata/tiny.S

const text = 0xffffffff81000000

func tinyELF(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/tiny.elf")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t *testing.T) *Image {
	t.Helper()
	m, err := Load(tinyELF(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLoad(t *testing.T) {
	m := load(t)
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"Entry", m.Entry, uint64(text)},
		{"Mcount", m.Mcount, []uint64{text + 0x10, text + 0x4000}},
		{"Jumps", m.Jumps, []Jump{
			{Code: text + 0x15, Target: text + 0x2e, Key: text + 0x2000, Branch: true, Len: 5},
			{Code: text + 0x1a, Target: text + 0x2e, Key: text + 0x2000, Len: 2},
		}},
		{"StaticCalls", m.StaticCalls, []StaticCall{
			{Addr: text + 0x1c, Key: text + 0x2008},
			{Addr: text + 0x21, Key: text + 0x2008, Tail: true},
		}},
		{"Bugs", m.Bugs, []Bug{{Addr: text + 0x29, File: "fs/read_write.c", Line: 452, Flags: 3}}},
		{"ExTable", m.ExTable, []Ex{{Insn: text + 0x26, Fixup: text + 0x2e, Type: 3}}},
		{"SMPLocks", m.SMPLocks, []uint64{text + 0x2b}},
		{"NoKprobe", m.NoKprobe, []uint64{text + 0x40}},
		{"Text", m.Text, abi.Range{Start: text, End: text + 0x90}},
		{"InitText", m.InitText, abi.Range{Start: text + 0x4000, End: text + 0x4006}},
		{"KprobesText", m.KprobesText, abi.Range{Start: text + 0x50, End: text + 0x50}},
		{"NoinstrText", m.NoinstrText, abi.Range{Start: text + 0x50, End: text + 0x61}},
		{"EntryText", m.EntryText, abi.Range{Start: text + 0x70, End: text + 0x80}},
		{"Thunk", m.Thunk, abi.Range{Start: text + 0x80, End: text + 0x82}},
		{"Percpu", m.Percpu, abi.Range{Start: 0, End: 0x30}},
		{"PercpuLoad", m.PercpuLoad, uint64(text + 0x3000)},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %#x, want %#x", c.what, c.got, c.want)
		}
	}
}

func TestSegments(t *testing.T) {
	m := load(t)
	type seg struct {
		addr, size uint64
		perm       Perm
	}
	var got []seg
	for _, s := range m.Segments {
		got = append(got, seg{s.Addr, s.MemSize, s.Perm})
	}
	want := []seg{
		{text, 0x90, Read | Exec},
		{text + 0x1000, 0x78, Read},
		{text + 0x2000, 0x10, Read | Write},
		{text + 0x3000, 0x30, Read | Write}, // the per-CPU template
		{text + 0x4000, 0x1008, Read | Write | Exec},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %#x\nwant %#x", got, want)
	}
	if b := m.Bytes(text+0x3028, 2); !bytes.Equal(b, []byte{0x5a, 0x5a}) {
		t.Errorf("per-CPU data % x", b)
	}
	if b := m.Bytes(text+0x4005, 2); b != nil {
		t.Errorf("bytes after the segment's data: % x", b)
	}
}

func TestSymbols(t *testing.T) {
	syms := kallsyms.New(load(t).Symbols)
	for name, want := range map[string]abi.Symbol{
		"vfs_read":          {Addr: text + 0x10, Size: 0x20, Type: 'T'},
		"local_fn":          {Addr: text + 0x30, Size: 1, Type: 't'},
		"weak_fn":           {Addr: text + 0x31, Size: 15, Type: 'W'},
		"key":               {Addr: text + 0x2000, Size: 8, Type: 'D'},
		"call_key":          {Addr: text + 0x2008, Size: 0xff8, Type: 'd'},
		"file":              {Addr: text + 0x1000, Size: 16, Type: 'r'},
		"counter":           {Addr: text + 0x5000, Size: 8, Type: 'B'},
		"fixed_percpu_data": {Size: 0x30, Type: 'A'},
		"_end":              {Addr: text + 0x5008, Type: 'B'},
	} {
		want.Name = name
		if got := syms.LookupName(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: got %#v, want %#v", name, got, want)
		}
	}
	if sym, _, _ := syms.Lookup(text); sym.Name != "phys_start" && sym.Name != "startup_64" {
		t.Errorf("first symbol %s", sym.Name)
	}
}

func TestTables(t *testing.T) {
	m := load(t)
	syms := kallsyms.New(m.Symbols)
	tab := NewTables(m, syms)
	for _, c := range []struct {
		what string
		got  bool
		want bool
	}{
		{"text", tab.KernelText(text), true},
		{"end of text", tab.KernelText(text + 0x90), false},
		{"data", tab.KernelText(text + 0x2000), false},
		{"init text while booting", tab.KernelText(text + 0x4005), true},
		{"init site while booting", tab.FtraceSite(text + 0x4000), true},
		{"in front of the jump label", tab.JumpLabel(text+0x10, text+0x15), false},
		{"jump label", tab.JumpLabel(text+0x15, text+0x16), true},
		{"jump label's last byte", tab.JumpLabel(text+0x19, text+0x1a), true},
		{"short jump label", tab.JumpLabel(text+0x1b, text+0x1c), true},
		{"behind the short jump label", tab.JumpLabel(text+0x1c, text+0x40), false},
		{"static call", tab.StaticCall(text+0x25, text+0x26), true},
		{"behind static calls", tab.StaticCall(text+0x26, text+0x30), false},
		{"into a static call", tab.StaticCall(text+0x10, text+0x1d), true},
		{"LOCK with many CPUs", tab.SMPLock(text+0x20, text+0x30), false},
		{"bug", tab.Bug(text + 0x29), true},
		{"inside a bug", tab.Bug(text + 0x2a), false},
		{"fixup", tab.ExTable(text + 0x26), true},
		{"no fixup", tab.ExTable(text + 0x27), false},
		{"entry", tab.EntryText(text + 0x70), true},
		{"behind entry", tab.EntryText(text + 0x80), false},
		{"thunk", tab.Thunk(text + 0x80), true},
		{"the thunks' end", tab.Thunk(text + 0x82), true},
		{"behind the thunks", tab.Thunk(text + 0x83), false},
		{"ftrace site", tab.FtraceSite(text + 0x10), true},
		{"inside an ftrace site", tab.FtraceSite(text + 0x11), false},
		{"ftrace overlap", tab.FtraceOverlap(text+0x14, text+0x15), true},
		{"no ftrace overlap", tab.FtraceOverlap(text+0x15, text+0x20), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", c.what, c.got)
		}
	}
	tab.SetSMPAlternatives(true)
	if !tab.SMPLock(text+0x20, text+0x2c) || tab.SMPLock(text+0x20, text+0x2b) || tab.SMPLock(text+0x2b, text+0x2b) {
		t.Error("SMPLock with one CPU of several")
	}
	tab.Booted()
	if tab.KernelText(text+0x4000) || tab.FtraceSite(text+0x4000) || tab.FtraceOverlap(text+0x4000, text+0x4001) {
		t.Error("init text after boot")
	}
	want := []abi.Range{
		{Start: text + 0x40, End: text + 0x50}, // NOKPROBE_SYMBOL
		{Start: text + 0x50, End: text + 0x60}, // noinstr
		{Start: text + 0x60, End: text + 0x61},
		{Start: text + 0x70, End: text + 0x80}, // entry
	}
	if got := tab.Blacklist(); !slices.Equal(got, want) {
		t.Errorf("blacklist %#x, want %#x", got, want)
	}
}

func TestModules(t *testing.T) {
	m := load(t)
	tab := NewTables(m, kallsyms.New(m.Symbols))
	const mod = abi.ModulesBase
	mine := &Sites{
		Module: "kpt", Text: []abi.Range{{Start: mod, End: mod + 0x1000}}, InitText: abi.Range{Start: mod + 0x2000, End: mod + 0x3000},
		Mcount: []uint64{mod + 0x2000, mod}, Blacklist: []abi.Range{{Start: mod + 16, End: mod + 32}},
		Bugs: []Bug{{Addr: mod + 0x2010}}, ExTable: []Ex{{Insn: mod + 0x2020}},
	}
	if err := tab.AddModule(mine); err != nil {
		t.Fatal(err)
	}
	if err := tab.AddModule(mine); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("a second time: %v", err)
	}
	if !tab.KernelText(mod) || !tab.KernelText(mod+0x2000) || !tab.FtraceSite(mod) || !tab.FtraceSite(mod+0x2000) || !tab.Bug(mod+0x2010) || !tab.ExTable(mod+0x2020) {
		t.Error("a coming module's text")
	}
	tab.InitDone("kpt")
	if !tab.KernelText(mod) || tab.KernelText(mod+0x2000) || tab.FtraceSite(mod+0x2000) {
		t.Error("a live module's init text")
	}
	if b := tab.Blacklist(); b[len(b)-1] != mine.Blacklist[0] {
		t.Errorf("blacklist %#x", b)
	}
	later := &Sites{
		Module: "later", Text: []abi.Range{{Start: mod + 0x2000, End: mod + 0x3000}}, Mcount: []uint64{mod + 0x2000},
	}
	if err := tab.AddModule(later); err != nil {
		t.Fatal(err)
	}
	if !tab.KernelText(mod+0x2000) || !tab.FtraceSite(mod+0x2000) || tab.Bug(mod+0x2010) || tab.ExTable(mod+0x2020) {
		t.Error("text where another module's init text was")
	}
	tab.RemoveModule("later")
	tab.RemoveModule("kpt")
	if tab.KernelText(mod) || tab.FtraceSite(mod) || len(tab.Blacklist()) != 4 {
		t.Error("a removed module is still there")
	}
}

func TestLoadErrors(t *testing.T) {
	good := tinyELF(t)
	for name, change := range map[string]func(b []byte) []byte{
		"empty":            func([]byte) []byte { return nil },
		"cut":              func(b []byte) []byte { return b[:len(b)/2] },
		"32 bits":          func(b []byte) []byte { b[4] = 1; return b },
		"another machine":  func(b []byte) []byte { b[18] = 3; return b },
		"segment past end": func(b []byte) []byte { binary.LittleEndian.PutUint64(b[64+8:], 1<<40); return b },
		"huge segment":     func(b []byte) []byte { binary.LittleEndian.PutUint64(b[64+40:], 1<<62); return b },
		"user address": func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[64+16:], 0x400000)
			clear(b[64+24 : 64+32])
			return b
		},
		"overlap": func(b []byte) []byte { binary.LittleEndian.PutUint64(b[64+40:], 0x2000); return b },
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := Load(change(bytes.Clone(good))); !errors.Is(err, syscall.ENOEXEC) || m != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(tinyELF(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Load(b)
		if err != nil {
			return
		}
		tab := NewTables(m, kallsyms.New(m.Symbols))
		tab.Blacklist()
		for _, s := range m.Segments {
			if s.Addr < abi.TextBase || s.MemSize > maxSize || uint64(len(s.Data)) > s.MemSize {
				t.Fatalf("segment %#x, %#x bytes", s.Addr, s.MemSize)
			}
			tab.JumpLabel(s.Addr, s.Addr+16)
		}
	})
}

package bpf

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/kprobefs/kprobefs/kprobes/tracing/perf"
)

// newIterSystem returns a system whose kernel has iterators, and the numbers of their functions by name.
func newIterSystem(t testing.TB) (s *System, ids map[string]uint32) {
	t.Helper()
	number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	long := &btf.Int{Name: "long long unsigned int", Size: 8}
	raw := marshal(t, &btf.Struct{Name: "task_struct", Size: 4, Members: []btf.Member{{Name: "pid", Type: number}}},
		&btf.Struct{Name: "seq_file", Size: 8, Members: []btf.Member{{Name: "size", Type: long}}},
		&btf.Int{Name: "unsigned int", Size: 4}, &btf.Int{Name: "char", Size: 1}, &btf.Int{Name: "bool", Size: 1, Encoding: btf.Bool},
		&btf.Typedef{Name: "u64", Type: long}, &btf.Typedef{Name: "u8", Type: &btf.Int{Name: "unsigned char", Size: 1}}, &btf.Typedef{Name: "atomic64_t", Type: long})
	raw, err := WithIterators(raw)
	if err != nil {
		t.Fatal(err)
	}
	s = New(Config{CPUs: 1, Now: func() int64 { return 1 }, Types: raw, Kernel: &guest{}, Memory: func() (perf.Memory, error) { return &memory{}, nil }})
	ids = map[string]uint32{}
	for _, of := range iterTargets {
		var f *btf.Func
		if err := s.types.parsed().TypeByName(iterPrefix+of.name, &f); err != nil {
			t.Fatal(err)
		}
		id, err := s.types.parsed().TypeID(f)
		if err != nil {
			t.Fatal(err)
		}
		ids[of.name] = uint32(id)
	}
	return s, ids
}

// iterator loads a program of an iterator and links it. It returns the link's descriptor.
func (c *fakeCaller) iterator(s *System, id uint32, raw []byte) (p *Prog, link uint32, err error) {
	r, _, err := c.call(s, cmdProgLoad, map[int]any{
		0: uint32(ProgTracing), 4: uint32(len(raw) / insnSize), 8: c.put(raw), 16: c.put([]byte("GPL\x00")), 68: uint32(traceIter), 108: id,
	})
	if err != nil {
		return nil, 0, err
	}
	p = r.Object.(*Prog)
	c.objects = append(c.objects, p)
	if r, _, err = c.call(s, cmdLinkCreate, map[int]any{0: uint32(len(c.objects) + 2), 8: uint32(traceIter)}); err != nil {
		return p, 0, err
	}
	c.objects = append(c.objects, r.Object)
	return p, uint32(len(c.objects) + 2), nil
}

// writesID is a program that writes 4 bytes of an object at an offset.
func writesID(off int16) []byte {
	return code(ldx(sizeDW, 6, 1, 8), ldx(sizeDW, 7, 1, 0), ldx(sizeDW, 1, 7, 0), jmpK(jmpJEQ, 6, 0, 5), ldx(sizeW, 2, 6, off), stx(sizeW, 10, 2, -4),
		movX(2, 10), aluK(aluADD, 2, -4), movK(3, 4), jmpK(jmpJEQ, 6, 0, 1), callHelper(helperSeqWrite), movK(0, 0), exit)
}

// TestIterator reads the numbers of maps and programs, whole and in parts, and again when there is one more.
func TestIterator(t *testing.T) {
	for name, off := range map[string]int16{"bpf_map": 68, "bpf_prog": 12} {
		s, ids := newIterSystem(t)
		c := &fakeCaller{}
		c.newMap(t, s, mapHash, 4, 8, 8, 0)
		c.newMap(t, s, mapArray, 4, 8, 8, 0)
		_, link, err := c.iterator(s, ids[name], writesID(off))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r, _, err := c.call(s, cmdIterCreate, map[int]any{0: link})
		if err != nil {
			t.Fatal(err)
		}
		it := r.Object.(*Iterator)
		want := "\x01\x00\x00\x00\x02\x00\x00\x00"
		if name == "bpf_prog" {
			want = "\x0d\x00\x00\x00"
		}
		got := ""
		for range 10 {
			b := make([]byte, 3)
			n, err := it.Read(Task{}, b)
			if err != nil {
				t.Fatal(err)
			}
			got += string(b[:n])
		}
		if got != want {
			t.Errorf("%s: % x, want % x", name, got, want)
		}
		if text := s.FDInfo(c.objects[link-3]); !strings.Contains(text, "target_name:\t"+name+"\n") {
			t.Errorf("fdinfo: %s", text)
		}
		p := it.prog
		s.Release(it)
		if p.refs != 2 { // of the test, and of the link
			t.Errorf("%s: %d references to the program are left", name, p.refs)
		}
	}
}

// TestIteratorErrors: a link of something else, flags, and what has nothing to read.
func TestIteratorErrors(t *testing.T) {
	s, ids := newIterSystem(t)
	c := &fakeCaller{}
	m := c.newMap(t, s, mapHash, 4, 8, 8, 0)
	_, link, err := c.iterator(s, ids["task"], code(movK(0, 1), exit))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		attr map[int]any
		want syscall.Errno
	}{
		"flags": {map[int]any{0: link, 4: uint32(1)}, syscall.EINVAL},
		"a map": {map[int]any{0: m}, syscall.EINVAL},
		"none":  {map[int]any{0: uint32(99)}, syscall.EBADF},
		"more":  {map[int]any{0: link, 8: uint32(1)}, syscall.EINVAL},
	} {
		if _, _, err := c.call(s, cmdIterCreate, x.attr); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
	}
	if _, err := s.OpenPinned(c.objects[m-3]); !errors.Is(err, syscall.EIO) {
		t.Errorf("a pinned map: %v", err)
	}
	if _, _, err := c.iterator(s, 1, code(movK(0, 0), exit)); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a program of something that is no iterator: %v", err)
	}
	if _, err := WithIterators([]byte("types")); err == nil {
		t.Error("types that are none are read")
	}
}

package guest_test

import (
	"bytes"
	"encoding/binary"
	"math/rand"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// initXArray makes an array at addr: the lock, flags and head of struct xarray.
func (s *scratch) initXArray(addr uint64, flags uint32) {
	s.put64(addr, uint64(flags)<<32)
	s.put64(addr+8, 0)
}

const xaFlagsAlloc = 4 | 1<<27

func TestXArray(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(1))
	xa := s.a
	s.initXArray(xa, 0)
	model := map[uint64]uint64{}
	keys := []uint64{0, 1, 63, 64, 65, 4095, 4096, 1 << 30, 1<<30 + 1, 1 << 50, ^uint64(0), ^uint64(0) - 64}
	for range 600 {
		key := keys[r.Intn(len(keys))] + uint64(r.Intn(3))
		value := r.Uint64()&^3 | 4
		switch r.Intn(4) {
		case 0, 1:
			s.want(model[key], "xa_store", xa, key, value, gfpKernel)
			model[key] = value
		case 2:
			s.want(model[key], "xa_erase", xa, key)
			delete(model, key)
		case 3:
			want := -int(syscall.EBUSY)
			if model[key] == 0 {
				want, model[key] = 0, value
			}
			if got := i32(s.call("__xa_insert", xa, key, value, gfpKernel)); got != want {
				t.Fatalf("__xa_insert(%#x) = %d, want %d", key, got, want)
			}
		}
		s.want(model[key], "xa_load", xa, key)
	}
	var want, got []uint64
	for k := range model {
		want = append(want, k)
	}
	slices.Sort(want)
	const present = 8
	s.put64(s.b, 0)
	for find := "xa_find"; ; find = "xa_find_after" {
		entry := s.call(find, xa, s.b, ^uint64(0), present)
		if entry == 0 {
			break
		}
		k := s.u64(s.b)
		if entry != model[k] {
			t.Errorf("%s at %#x gives %#x", find, k, entry)
		}
		got = append(got, k)
	}
	if !slices.Equal(got, want) {
		t.Errorf("xa_find: %x, want %x", got, want)
	}
	for _, k := range want {
		s.want(model[k], "xa_erase", xa, k)
	}
	if s.u64(xa+8) != 0 {
		t.Error("an empty array has nodes")
	}
}

// An entry with a large index leaves no nodes.
func TestXArrayEmpties(t *testing.T) {
	s := boot(t, 1).scratch()
	s.initXArray(s.a, 0)
	for _, key := range []uint64{0, 1 << 40, ^uint64(0)} {
		s.want(0, "radix_tree_insert", s.a, key, s.b)
		s.want(s.b, "radix_tree_lookup", s.a, key)
		s.want(s.b, "radix_tree_delete", s.a, key)
		if s.u64(s.a+8) != 0 {
			t.Errorf("an array that held %#x has nodes", key)
		}
	}
}

func TestIDR(t *testing.T) {
	s := boot(t, 1).scratch()
	idr := s.a
	s.initXArray(idr, xaFlagsAlloc)
	s.put64(idr+16, 0) // idr_base, idr_next
	alloc := func(start, end int) int { return i32(s.call("idr_alloc", idr, s.b, u(start), u(end), gfpKernel)) }
	for want := range 70 {
		if got := alloc(0, 0); got != want {
			t.Fatalf("idr_alloc: %d, want %d", got, want)
		}
	}
	s.want(s.b, "idr_remove", idr, 5)
	s.want(s.b, "idr_remove", idr, 64)
	s.want(0, "idr_remove", idr, 64)
	s.want(0, "idr_find", idr, 5)
	s.want(s.b, "idr_find", idr, 6)
	if got := alloc(0, 0); got != 5 {
		t.Errorf("idr_alloc reuses %d", got)
	}
	if got := alloc(10, 20); got != -int(syscall.ENOSPC) {
		t.Errorf("idr_alloc in a full range: %d", got)
	}
	if got := alloc(60, 66); got != 64 {
		t.Errorf("idr_alloc from 60: %d", got)
	}
	if got := alloc(-1, 0); got != -int(syscall.EINVAL) {
		t.Errorf("idr_alloc(-1): %d", got)
	}
	s.want(s.b, "idr_replace", idr, s.c, 7)
	s.want(s.c, "idr_find", idr, 7)
	s.want(neg(syscall.ENOENT), "idr_replace", idr, s.c, 1000)
	s.put64(s.c, 66)
	s.want(s.b, "idr_get_next", idr, s.c)
	if got := s.u32(s.c); got != 66 {
		t.Errorf("idr_get_next: %d", got)
	}
	if got := i32(s.call("idr_alloc_cyclic", idr, s.b, 100, 103, gfpKernel)); got != 100 {
		t.Errorf("idr_alloc_cyclic: %d", got)
	}
	s.call("idr_remove", idr, 100)
	for _, want := range []int{101, 102, 100} {
		if got := i32(s.call("idr_alloc_cyclic", idr, s.b, 100, 103, gfpKernel)); got != want {
			t.Errorf("idr_alloc_cyclic: %d, want %d", got, want)
		}
	}
	// memset(id, p, data): of id 0 with value p's low byte, data bytes: nothing for data 0, and gives id.
	if got := i32(s.call("idr_for_each", idr, s.sym("memset"), 0)); got != 1 {
		t.Errorf("idr_for_each stops with %d, want 1, the first id that is not 0", got)
	}
	s.call("idr_destroy", idr)
	s.want(0, "idr_find", idr, 0)
	if got := alloc(0, 0); got != 0 {
		t.Errorf("idr_alloc after idr_destroy: %d", got)
	}
}

func TestParser(t *testing.T) {
	s := boot(t, 1).scratch()
	table := s.b
	for i, p := range []string{"uid=%u", "mode=%o", "name=%s", "n=%d", "100%%", "quiet"} {
		s.put64(table+u(16*i), u(i))
		s.put64(table+u(16*i)+8, s.cstr(p))
	}
	s.put64(table+16*6, 99)
	s.put64(table+16*6+8, 0)
	args := s.c
	for text, want := range map[string]int{"uid=17": 0, "mode=755": 1, "name=x y": 2, "n=-4": 3, "100%": 4, "quiet": 5, "quiet!": 99, "uid=x": 99, "": 99} {
		if got := i32(s.call("match_token", s.str(s.a, text), table, args)); got != want {
			t.Errorf("match_token(%q) = %d, want %d", text, got, want)
		}
	}
	number := func(text, sym string) int {
		s.call("match_token", s.str(s.a, text), table, args)
		s.put64(s.c+512, 0)
		if e := i32(s.call(sym, args, s.c+512)); e != 0 {
			return e
		}
		return i32(uint64(s.u32(s.c + 512)))
	}
	for _, c := range []struct {
		text, sym string
		want      int
	}{
		{"uid=17", "match_int", 17},
		{"n=-4", "match_int", -4},
		{"mode=755", "match_octal", 0o755},
		{"name=ff", "match_hex", 255},
		{"name=0x20", "match_u64", 32},
		{"name=99999999999", "match_int", -int(syscall.ERANGE)},
		{"name=z", "match_int", -int(syscall.EINVAL)},
	} {
		if got := number(c.text, c.sym); got != c.want {
			t.Errorf("%s of %q: %d, want %d", c.sym, c.text, got, c.want)
		}
	}
	s.call("match_token", s.str(s.a, "name=abcdef"), table, args)
	s.want(6, "match_strlcpy", s.c+512, args, 4)
	if got := s.string(s.c + 512); got != "abc" {
		t.Errorf("match_strlcpy: %q", got)
	}
	if got := s.string(s.call("match_strdup", args)); got != "abcdef" {
		t.Errorf("match_strdup: %q", got)
	}
	for _, text := range []string{"", "  ", "a", " one two\tthree \n"} {
		argv := s.call("argv_split", gfpKernel, s.str(s.a, text), s.b)
		var got []string
		for i := uint64(0); s.u64(argv+8*i) != 0; i++ {
			got = append(got, s.string(s.u64(argv+8*i)))
		}
		if want := strings.Fields(text); !slices.Equal(got, want) && len(got)+len(want) > 0 || int(s.u32(s.b)) != len(got) {
			t.Errorf("argv_split(%q): %q, %d", text, got, s.u32(s.b))
		}
		s.call("argv_free", argv)
	}
	for v := range uint64(100) {
		s.want(v, "_bcd2bin", v/10<<4|v%10)
		if got := s.call("_bin2bcd", v) & 0xff; got != v/10<<4|v%10 {
			t.Errorf("_bin2bcd(%d) = %#x", v, got)
		}
	}
}

func TestPrandom(t *testing.T) {
	s := boot(t, 1).scratch()
	s.call("prandom_seed_full_state", s.a, 12345)
	// LFSR113 after L'Ecuyer.
	z := [4]uint32{s.u32(s.a), s.u32(s.a + 4), s.u32(s.a + 8), s.u32(s.a + 12)}
	next := func() uint32 {
		lfsr := func(z uint32, q, s, k int) uint32 {
			return (z&(^uint32(0)<<(32-k)))<<s ^ (z<<q^z)>>(k-s)
		}
		z = [4]uint32{lfsr(z[0], 6, 18, 31), lfsr(z[1], 2, 2, 29), lfsr(z[2], 13, 7, 28), lfsr(z[3], 3, 13, 25)}
		return z[0] ^ z[1] ^ z[2] ^ z[3]
	}
	for range 50 {
		if got, want := uint32(s.call("prandom_u32_state", s.a)), next(); got != want {
			t.Fatalf("prandom_u32_state = %#x, want %#x", got, want)
		}
	}
	var want []byte
	for range 3 {
		want = binary.LittleEndian.AppendUint32(want, next())
	}
	s.call("prandom_bytes_state", s.a, s.b, 10)
	if got := s.bytes(s.b, 10); !bytes.Equal(got, want[:10]) {
		t.Errorf("prandom_bytes_state: %x, want %x", got, want[:10])
	}
}

func TestSeqBuf(t *testing.T) {
	v := newVFS(t, 1)
	s := v.scratch()
	sb, buf := s.a, s.b
	s.call("seq_buf_init", sb, buf, 40)
	ok := func(sym string, args ...uint64) {
		t.Helper()
		s.want(0, sym, append([]uint64{sb}, args...)...)
	}
	ok("seq_buf_printf", s.cstr("%d-%s"), 7, s.cstr("x"))
	ok("seq_buf_putc", ' ')
	ok("seq_buf_puts", s.cstr("puts "))
	ok("seq_buf_putmem", s.cstr("mem "), 4)
	ok("seq_buf_putmem_hex", s.cstr("\x01\x02\x03"), 3)
	want := "7-x puts mem 030201 "
	if got := string(s.bytes(buf, int(s.u64(sb+16)))); got != want {
		t.Errorf("seq_buf holds %q, want %q", got, want)
	}
	if n := v.k.call("seq_buf_to_user", sb, v.user, 8); n != 8 || string(v.bytes(v.user, 8)) != want[:8] {
		t.Errorf("seq_buf_to_user: %d", n)
	}
	if n := v.k.call("seq_buf_to_user", sb, v.user, 100); int(n) != len(want)-8 {
		t.Errorf("seq_buf_to_user: %d", n)
	}
	if n := i32(v.k.call("seq_buf_to_user", sb, v.user, 100)); n != -int(syscall.EBUSY) {
		t.Errorf("seq_buf_to_user at the end: %d", n)
	}
	if n := i32(s.call("seq_buf_puts", sb, s.cstr(strings.Repeat("y", 30)))); n != -1 || s.u64(sb+16) != 41 {
		t.Errorf("seq_buf_puts of too much: %d, length %d", n, s.u64(sb+16))
	}
	if n := i32(s.call("seq_buf_printf", sb, s.cstr("z"))); n != -1 {
		t.Errorf("seq_buf_printf after an overflow: %d", n)
	}
}

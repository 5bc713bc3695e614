package guest_test

import (
	"bytes"
	"crypto/aes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/big"
	"math/bits"
	"math/rand"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/kprobefs/kprobefs/kernel"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

// scratch is guest memory that the calls of a test reuse.
type scratch struct {
	*machine
	a, b, c uint64 // 8 KiB each
}

func (m *machine) scratch() *scratch {
	return &scratch{m, m.zalloc(8192), m.zalloc(8192), m.zalloc(8192)}
}

// at writes bytes at a and returns a.
func (s *scratch) at(a uint64, p []byte) uint64 { s.put(a, p); return a }

// str writes a string at a and returns a.
func (s *scratch) str(a uint64, v string) uint64 { return s.at(a, append([]byte(v), 0)) }

func u(v int) uint64 { return uint64(int64(v)) }

// i32 is a result of type int.
func i32(v uint64) int { return int(int32(v)) }

func cmpSign(a, b string) int { return strings.Compare(a, b) }

var words = []string{"", "a", "b", "ab", "abc", "abd", "ABC", "hello world", "hello", "x=1", strings.Repeat("q", 300)}

func TestStringCompare(t *testing.T) {
	s := boot(t, 1).scratch()
	sign := func(v uint64) int { return max(-1, min(1, i32(v))) }
	for _, x := range words {
		for _, y := range words {
			a, b := s.str(s.a, x), s.str(s.b, y)
			n := uint64(3)
			x3, y3 := x[:min(3, len(x))], y[:min(3, len(y))]
			for _, c := range []struct {
				sym  string
				got  int
				want int
			}{
				{"strcmp", i32(s.call("strcmp", a, b)), cmpSign(x, y)},
				{"strncmp", i32(s.call("strncmp", a, b, n)), cmpSign(x3, y3)},
				{"strcasecmp", sign(s.call("strcasecmp", a, b)), cmpSign(strings.ToLower(x), strings.ToLower(y))},
				{"strncasecmp", sign(s.call("strncasecmp", a, b, n)), cmpSign(strings.ToLower(x3), strings.ToLower(y3))},
			} {
				if c.got != c.want {
					t.Errorf("%s(%.9q, %.9q) = %d, want %d", c.sym, x, y, c.got, c.want)
				}
			}
			wantEq := uint64(0)
			if strings.TrimSuffix(x, "\n") == strings.TrimSuffix(y, "\n") {
				wantEq = 1
			}
			if got := s.call("sysfs_streq", a, s.str(s.b, y+"\n")) & 1; got != wantEq {
				t.Errorf("sysfs_streq(%.9q, %.9q\\n) = %d", x, y, got)
			}
			k := min(len(x), len(y))
			if got, want := sign(s.call("memcmp", a, b, u(k))), bytes.Compare([]byte(x[:k]), []byte(y[:k])); got != want {
				t.Errorf("memcmp(%.9q, %.9q) = %d, want %d", x, y, got, want)
			}
			if got := s.call("bcmp", a, b, u(k)); (i32(got) == 0) != (x[:k] == y[:k]) {
				t.Errorf("bcmp(%.9q, %.9q) = %d", x, y, got)
			}
		}
	}
}

func TestStringSearch(t *testing.T) {
	s := boot(t, 1).scratch()
	off := func(v uint64) int {
		if v == 0 {
			return -1
		}
		return int(v - s.a)
	}
	for _, x := range words {
		a := s.str(s.a, x)
		s.want(u(len(x)), "strlen", a)
		s.want(u(min(4, len(x))), "strnlen", a, 4)
		for _, c := range []byte("alow=") {
			cc := uint64(c)
			full := func(i int) int {
				if i < 0 {
					return len(x)
				}
				return i
			}
			i := strings.IndexByte(x, c)
			for _, r := range []struct {
				sym       string
				got, want int
			}{
				{"strchr", off(s.call("strchr", a, cc)), i},
				{"strrchr", off(s.call("strrchr", a, cc)), strings.LastIndexByte(x, c)},
				{"strchrnul", off(s.call("strchrnul", a, cc)), full(i)},
				{"strnchr", off(s.call("strnchr", a, 3, cc)), strings.IndexByte(x[:min(3, len(x))], c)},
				{"strnchrnul", off(s.call("strnchrnul", a, u(len(x)), cc)), full(i)},
				{"memchr", off(s.call("memchr", a, cc, u(len(x)))), i},
				{"memscan", off(s.call("memscan", a, cc, u(len(x)))), full(i)},
			} {
				if r.got != r.want {
					t.Errorf("%s(%.9q, %c) = %d, want %d", r.sym, x, c, r.got, r.want)
				}
			}
		}
		for _, y := range words {
			b := s.str(s.b, y)
			n := min(5, len(x))
			for _, r := range []struct {
				sym       string
				got, want int
			}{
				{"strstr", off(s.call("strstr", a, b)), strings.Index(x, y)},
				{"strnstr", off(s.call("strnstr", a, b, u(n))), strings.Index(x[:n], y)},
				{"strspn", int(s.call("strspn", a, b)), len(x) - len(strings.TrimLeft(x, y))},
				{"strcspn", int(s.call("strcspn", a, b)), indexAny(x, y)},
			} {
				if r.got != r.want {
					t.Errorf("%s(%.9q, %.9q) = %d, want %d", r.sym, x, y, r.got, r.want)
				}
			}
			want := strings.IndexAny(x, y)
			if got := off(s.call("strpbrk", a, b)); got != want {
				t.Errorf("strpbrk(%.9q, %.9q) = %d, want %d", x, y, got, want)
			}
		}
	}
	for n := range 70 {
		s.at(s.a, bytes.Repeat([]byte{7}, 128))
		for _, at := range []int{0, 1, 9, 40, 69} {
			s.at(s.a+uint64(at), []byte{8})
			want := at
			if at < 3 || at >= 3+n {
				want = -1
			}
			if got := off(s.call("memchr_inv", s.a+3, 7, u(n))); got != want {
				t.Errorf("memchr_inv of %d with another at %d: %d", n, at, got)
			}
			s.at(s.a+uint64(at), []byte{7})
		}
	}
}

func indexAny(s, chars string) int {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return i
	}
	return len(s)
}

func TestStringCopy(t *testing.T) {
	s := boot(t, 1).scratch()
	for _, x := range words {
		a := s.str(s.a, x)
		fresh := func() uint64 { return s.at(s.b, bytes.Repeat([]byte{0xee}, 1024)) }
		s.want(s.b, "strcpy", fresh(), a)
		check := func(sym, want string) {
			t.Helper()
			if got := s.string(s.b); got != want {
				t.Errorf("%s(%.9q) left %.20q", sym, x, got)
			}
		}
		check("strcpy", x)
		s.want(s.b+u(len(x)), "stpcpy", fresh(), a)
		check("stpcpy", x)
		s.call("strncpy", fresh(), a, 1000)
		if got := s.bytes(s.b, 1001); !bytes.Equal(got[:1000], append([]byte(x), make([]byte, 1000-len(x))...)) || got[1000] != 0xee {
			t.Errorf("strncpy(%.9q)", x)
		}
		cut := x[:min(len(x), 3)]
		want := len(x)
		if len(x) > 3 {
			want = -int(syscall.E2BIG)
		}
		if got := int(int64(s.call("strscpy", fresh(), a, 4))); got != want {
			t.Errorf("strscpy(%.9q) = %d", x, got)
		}
		check("strscpy", cut)
		s.want(u(len(x)), "strlcpy", fresh(), a, 4)
		check("strlcpy", cut)
		s.call("strcat", s.str(s.b, "pre"), a)
		check("strcat", "pre"+x)
		s.call("strncat", s.str(s.b, "pre"), a, 2)
		check("strncat", "pre"+x[:min(2, len(x))])
		s.want(u(3+len(x)), "strlcat", s.str(s.b, "pre"), a, 6)
		check("strlcat", "pre"+x[:min(2, len(x))])
		s.call("string_upper", s.b, a)
		check("string_upper", strings.ToUpper(x))
		s.call("string_lower", s.b, a)
		check("string_lower", strings.ToLower(x))
		s.want(s.b+u(len(x)), "strreplace", s.str(s.b, x), 'l', 'L')
		check("strreplace", strings.ReplaceAll(x, "l", "L"))
	}
	// strsep, strim, skip_spaces, match_string
	text := "a,b;;c"
	s.put64(s.c, s.str(s.a, text))
	var got []string
	for {
		p := s.call("strsep", s.c, s.str(s.b, ",;"))
		if p == 0 {
			break
		}
		got = append(got, s.string(p))
	}
	if want := []string{"a", "b", "", "c"}; !slices.Equal(got, want) {
		t.Errorf("strsep: %q", got)
	}
	for _, x := range []string{"", "  ", " a b \n", "x"} {
		if got := s.string(s.call("strim", s.str(s.a, x))); got != strings.TrimSpace(x) {
			t.Errorf("strim(%q) = %q", x, got)
		}
		if got := s.string(s.call("skip_spaces", s.str(s.a, x))); got != strings.TrimLeft(x, " \n") {
			t.Errorf("skip_spaces(%q) = %q", x, got)
		}
	}
	s.put64(s.a, s.str(s.b, "on"))
	s.put64(s.a+8, s.str(s.b+100, "off"))
	s.put64(s.a+16, 0)
	for v, want := range map[string]int{"on": 0, "off": 1, "x": -int(syscall.EINVAL)} {
		if got := i32(s.call("match_string", s.a, ^uint64(0), s.str(s.c, v))); got != want {
			t.Errorf("match_string(%q) = %d", v, got)
		}
		if got := i32(s.call("__sysfs_match_string", s.a, 2, s.str(s.c, v+"\n"))); got != want {
			t.Errorf("__sysfs_match_string(%q) = %d", v, got)
		}
	}
	s.call("memcpy_and_pad", s.a, 8, s.str(s.b, "abc"), 3, 'z')
	if got := string(s.bytes(s.a, 8)); got != "abczzzzz" {
		t.Errorf("memcpy_and_pad: %q", got)
	}
}

func TestMemory(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(1))
	for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 1000, 4000} {
		p := make([]byte, n)
		r.Read(p)
		s.at(s.a, p)
		s.want(s.b, "memcpy", s.b, s.a, u(n))
		if !bytes.Equal(s.bytes(s.b, n), p) {
			t.Errorf("memcpy of %d", n)
		}
		s.want(s.a+5, "memmove", s.a+5, s.a, u(n))
		if !bytes.Equal(s.bytes(s.a+5, n), p) {
			t.Errorf("memmove up of %d", n)
		}
		s.want(s.a, "memmove", s.a, s.a+5, u(n))
		if !bytes.Equal(s.bytes(s.a, n), p) {
			t.Errorf("memmove down of %d", n)
		}
		s.want(s.b, "memset", s.b, 0x5a, u(n))
		if !bytes.Equal(s.bytes(s.b, n), bytes.Repeat([]byte{0x5a}, n)) {
			t.Errorf("memset of %d", n)
		}
	}
	s.call("memset16", s.a, 0x1234, 5)
	s.call("memset32", s.a+64, 0x12345678, 5)
	s.call("memset64", s.a+128, 0x123456789abcdef0, 5)
	if got := s.bytes(s.a, 10); !bytes.Equal(got, bytes.Repeat([]byte{0x34, 0x12}, 5)) {
		t.Errorf("memset16: %x", got)
	}
	if s.u32(s.a+80) != 0x12345678 || s.u64(s.a+160) != 0x123456789abcdef0 {
		t.Error("memset32, memset64")
	}
}

func TestNumbers(t *testing.T) {
	s := boot(t, 1).scratch()
	texts := []string{
		"0", "1", "-1", "+5", "127", "128", "-128", "-129", "255", "256", "32767", "32768", "65535", "65536", "2147483647", "2147483648",
		"-2147483648", "-2147483649", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"18446744073709551615", "18446744073709551616", "", "-", "x", "12x", "12\n", "12\n\n", " 12", "0x1f", "0X1F", "0x", "017", "08", "ff",
	}
	for _, text := range texts {
		for _, base := range []int{0, 10, 16} {
			for _, f := range []struct {
				sym    string
				bits   int
				signed bool
			}{
				{"kstrtoull", 64, false},
				{"kstrtoll", 64, true},
				{"kstrtouint", 32, false},
				{"kstrtoint", 32, true},
				{"kstrtou16", 16, false},
				{"kstrtos16", 16, true},
				{"kstrtou8", 8, false},
				{"kstrtos8", 8, true},
				{"_kstrtoul", 64, false},
				{"_kstrtol", 64, true},
			} {
				s.put64(s.b, 0)
				got := i32(s.call(f.sym, s.str(s.a, text), u(base), s.b))
				v, errno := parse(text, base, f.bits, f.signed)
				if got != -int(errno) {
					t.Errorf("%s(%q, %d) = %d, want %d", f.sym, text, base, got, -int(errno))
				} else if errno == 0 && s.u64(s.b) != v&(^uint64(0)>>(64-f.bits)) {
					t.Errorf("%s(%q, %d) gives %#x, want %#x", f.sym, text, base, s.u64(s.b), v)
				}
			}
		}
	}
	for text, want := range map[string]int{"1": 1, "y": 1, "Yes": 1, "on": 1, "0": 0, "n": 0, "off": 0, "oFF": 0, "": -22, "o": -22, "2": -22} {
		s.put64(s.b, 0x77)
		got := i32(s.call("kstrtobool", s.str(s.a, text), s.b))
		if got == 0 {
			got = int(s.u64(s.b) & 0xff)
		}
		if got != want {
			t.Errorf("kstrtobool(%q): %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string]struct {
		v    uint64
		rest string
	}{"12abc": {12, "abc"}, "0x1fg": {0x1f, "g"}, "": {0, ""}, "0778": {0o77, "8"}} {
		if got := s.call("simple_strtoull", s.str(s.a, text), s.b, 0); got != want.v || s.string(s.u64(s.b)) != want.rest {
			t.Errorf("simple_strtoull(%q) = %d, %q", text, got, s.string(s.u64(s.b)))
		}
		s.want(want.v, "simple_strtoul", s.str(s.a, text), 0, 0)
		s.want(-want.v, "simple_strtol", s.str(s.a, "-"+text), 0, 0)
		s.want(-want.v, "simple_strtoll", s.str(s.a, "-"+text), 0, 0)
	}
	for text, want := range map[string]struct {
		v    uint64
		rest string
	}{"5": {5, ""}, "4k,x": {4096, ",x"}, "2M": {2 << 20, ""}, "0x10G": {16 << 30, ""}, "1P": {1 << 50, ""}, "1x": {1, "x"}} {
		if got := s.call("memparse", s.str(s.a, text), s.b); got != want.v || s.string(s.u64(s.b)) != want.rest {
			t.Errorf("memparse(%q) = %d, %q", text, got, s.string(s.u64(s.b)))
		}
	}
	for _, v := range []uint64{0, 7, 1234567890, ^uint64(0)} {
		n := s.call("num_to_str", s.a, 24, v, 12)
		if got, want := string(s.bytes(s.a, int(n))), fmt.Sprintf("%12d", v); got != want {
			t.Errorf("num_to_str(%d) = %q", v, got)
		}
	}
	s.want(0, "num_to_str", s.a, 2, 1234, 0)
}

// parse does by strconv what Linux's kstrto* does.
func parse(text string, base, bitSize int, signed bool) (uint64, syscall.Errno) {
	body := strings.TrimSuffix(text, "\n")
	neg := signed && strings.HasPrefix(body, "-")
	if neg {
		body = body[1:]
	} else {
		body = strings.TrimPrefix(body, "+")
	}
	low := strings.ToLower(body)
	hexed := len(low) > 2 && low[:2] == "0x" && strings.ContainsRune("0123456789abcdef", rune(low[2]))
	if base == 0 {
		switch {
		case hexed:
			base = 16
		case strings.HasPrefix(low, "0"):
			base = 8
		default:
			base = 10
		}
	}
	if base == 16 {
		low = strings.TrimPrefix(low, "0x")
	}
	if low == "" || strings.ContainsAny(low, "+-_ ") {
		return 0, syscall.EINVAL
	}
	v, err := strconv.ParseUint(low, base, 64)
	if err != nil {
		if strings.Contains(err.Error(), "range") {
			return 0, syscall.ERANGE
		}
		return 0, syscall.EINVAL
	}
	if signed {
		limit := uint64(1)<<(bitSize-1) - 1
		if neg {
			limit++
		}
		if v > limit {
			return 0, syscall.ERANGE
		}
		if neg {
			v = -v
		}
	} else if v > ^uint64(0)>>(64-bitSize) {
		return 0, syscall.ERANGE
	}
	return v, 0
}

func TestPrintf(t *testing.T) {
	s := boot(t, 1).scratch()
	ptr := s.str(s.c, "str")
	mac := s.at(s.c+64, []byte{1, 0xab, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	for _, c := range []struct {
		format string
		args   []uint64
		want   string
	}{
		{"plain %%", nil, "plain %"},
		{"%d %5d|%-5d|%05d", []uint64{u(-3) & 0xffffffff, 42}, ""},
		{"%d|%i", []uint64{u(-7), 7}, "-7|7"},
		{"%+d|% d", []uint64{7, 7}, "+7| 7"},
		{"%6.3d|%-6d", []uint64{5, 6}, "   005|6     "},
		{"%x|%#X", []uint64{255, 255}, "ff|0XFF"},
		{"%#o|%08x", []uint64{8, 0xdead}, "010|0000dead"},
		{"%lx|%llu", []uint64{1 << 40, ^uint64(0)}, "10000000000|18446744073709551615"},
		{"%hhd|%hu", []uint64{300, 70000}, "44|4464"},
		{"%c%5c", []uint64{'a', 'b'}, "a    b"},
		{"%s|%6s", []uint64{ptr, ptr}, "str|   str"},
		{"%-6s|%.2s", []uint64{ptr, ptr}, "str   |st"},
		{"%s", []uint64{0}, "(null)"},
		{"%*d", []uint64{u(-4), 7}, "7   "},
		{"%px", []uint64{0x1234}, "0000000000001234"},
		{"%p", []uint64{0}, "0000000000000000"},
		{"%pS", []uint64{s.sym("int_sqrt") + 3}, s.Describe(s.sym("int_sqrt") + 3)},
		{"%40ps|%-12ps|", []uint64{s.sym("int_sqrt") + 3, s.sym("int_sqrt")}, strings.Repeat(" ", 32) + "int_sqrt|int_sqrt    |"},
		{"%pB", []uint64{s.sym("int_sqrt") + 1}, s.Describe(s.sym("int_sqrt") + 1)},
		{"%pSR.%ps7", []uint64{0xffffc8fffffff123, 0x1234}, "0xffffc8fffffff123.0x1234"},
		{"%pe", []uint64{u(-2)}, "-ENOENT"},
		{"%pM %pI4", []uint64{mac, mac}, "01:ab:03:04:05:06 1.171.3.4"},
		{"%*phC", []uint64{3, mac}, "01:ab:03"},
		{"%pUb", []uint64{mac}, "01ab0304-0506-0708-090a-0b0c0d0e0f10"},
		{"%pUL", []uint64{mac}, "0403AB01-0605-0807-090A-0B0C0D0E0F10"},
	} {
		if c.want == "" {
			continue
		}
		n := s.call("snprintf", append([]uint64{s.a, 200, s.str(s.b, c.format)}, c.args...)...)
		if got := s.string(s.a); got != c.want || int(n) != len(c.want) {
			t.Errorf("snprintf(%q) = %q, %d, want %q", c.format, got, n, c.want)
		}
		n = s.call("scnprintf", append([]uint64{s.a, 4, s.str(s.b, c.format)}, c.args...)...)
		if got, want := s.string(s.a), c.want[:min(3, len(c.want))]; got != want || int(n) != len(want) {
			t.Errorf("scnprintf(%q) = %q, %d, want %q", c.format, got, n, want)
		}
		n = s.call("sprintf", append([]uint64{s.a, s.str(s.b, c.format)}, c.args...)...)
		if got := s.string(s.a); got != c.want || int(n) != len(c.want) {
			t.Errorf("sprintf(%q) = %q, %d", c.format, got, n)
		}
	}
	for _, ptr := range []uint64{0x123456789, 0xffffffff81000000, u(-4096), u(-4095)} {
		want := fmt.Sprintf("%016x", s.HashPtr(ptr))
		if ptr == u(-4095) { // an error pointer
			want = "fffffffffffff001"
		}
		s.call("snprintf", s.a, 40, s.str(s.b, "%p"), ptr)
		if got := s.string(s.a); got != want {
			t.Errorf("%%p of %#x is %q, want %q", ptr, got, want)
		}
	}
	const address = 0xffffffff81000000
	for restrict, want := range []string{fmt.Sprintf("%016x", s.HashPtr(address)), fmt.Sprintf("%016x", uint64(address)), strings.Repeat("0", 16)} {
		if err := s.SetKptrRestrict(restrict); err != nil {
			t.Fatal(err)
		}
		s.call("snprintf", s.a, 40, s.str(s.b, "%pK"), address)
		if got := s.string(s.a); got != want {
			t.Errorf("%%pK with kptr_restrict %d is %q, want %q", restrict, got, want)
		}
	}
	s.want(2, "sscanf", s.str(s.a, "12 abc 0x1f"), s.str(s.b, "%d %s"), s.c, s.c+16)
	if s.u32(s.c) != 12 || s.string(s.c+16) != "abc" {
		t.Error("sscanf")
	}
	s.want(3, "sscanf", s.str(s.a, "ff:[xyz]-9"), s.str(s.b, "%x:[%9[xyz]]%i"), s.c, s.c+16, s.c+32)
	if s.u32(s.c) != 255 || s.string(s.c+16) != "xyz" || i32(uint64(s.u32(s.c+32))) != -9 {
		t.Error("sscanf of a set")
	}
	for e, want := range map[int]string{2: "ENOENT", -22: "-EINVAL", 9999: ""} {
		p := s.call("errname", u(e)&0xffffffff)
		got := ""
		if p != 0 {
			got = s.string(p)
		}
		if got != want {
			t.Errorf("errname(%d) = %q", e, got)
		}
	}
}

func TestHex(t *testing.T) {
	s := boot(t, 1).scratch()
	data := []byte("0123456789ABCDEF\x00\x01\x80\xff~ xyz........")
	for c := range 256 {
		want := strings.IndexByte("0123456789abcdef", strings.ToLower(string(rune(c)))[0])
		if c >= 128 {
			want = -1
		}
		if got := i32(s.call("hex_to_bin", u(c))); got != want {
			t.Errorf("hex_to_bin(%d) = %d", c, got)
		}
	}
	s.want(s.b+u(2*len(data)), "bin2hex", s.b, s.at(s.a, data), u(len(data)))
	if got := string(s.bytes(s.b, 2*len(data))); got != hex.EncodeToString(data) {
		t.Errorf("bin2hex: %s", got)
	}
	s.want(0, "hex2bin", s.c, s.b, u(len(data)))
	if !bytes.Equal(s.bytes(s.c, len(data)), data) {
		t.Error("hex2bin")
	}
	if got := i32(s.call("hex2bin", s.c, s.str(s.b, "0g"), 1)); got != -22 {
		t.Errorf("hex2bin of no digit: %d", got)
	}
	first, _ := s.Log().Bounds()
	s.call("print_hex_dump_bytes", s.str(s.b, "x: "), 2, s.at(s.a, data[:20]), 20)
	var got []string
	for _, last := s.Log().Bounds(); first < last; first++ {
		r, _, _, _ := s.Log().Get(first)
		if strings.HasPrefix(r.Text, "x: ") {
			got = append(got, r.Text)
		}
	}
	want := []string{
		"x: 00000000: 30 31 32 33 34 35 36 37 38 39 41 42 43 44 45 46  0123456789ABCDEF",
		"x: 00000010: 00 01 80 ff                                      ....",
	}
	if !slices.Equal(got, want) {
		t.Errorf("print_hex_dump_bytes: %q", got)
	}
}

func TestHashes(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(2))
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	for _, n := range []int{0, 1, 3, 8, 15, 55, 56, 63, 64, 65, 119, 120, 200, 1000} {
		p := make([]byte, n)
		r.Read(p)
		a := s.at(s.a, p)
		s.want(uint64(^crc32.ChecksumIEEE(p)), "crc32_le", 0xffffffff, a, u(n))
		s.want(uint64(^crc32.Checksum(p, castagnoli)), "__crc32c_le", 0xffffffff, a, u(n))
		s.want(uint64(^crc32.Checksum(p, castagnoli)), "crc32c", 0xffffffff, a, u(n))
		s.want(uint64(crcBits(p, 0xffffffff, 0x04c11db7, 32, false)), "crc32_be", 0xffffffff, a, u(n))
		for _, c := range []struct {
			sym  string
			poly uint32
			refl bool
		}{{"crc16", 0x8005, true}, {"crc_ccitt", 0x1021, true}, {"crc_itu_t", 0x1021, false}} {
			if got, want := s.call(c.sym, 0xffff, a, u(n))&0xffff, uint64(crcBits(p, 0xffff, c.poly, 16, c.refl)); got != want {
				t.Errorf("%s of %d bytes = %#x, want %#x", c.sym, n, got, want)
			}
		}
		s.call("sha256", a, u(n), s.b)
		if want := sha256.Sum256(p); !bytes.Equal(s.bytes(s.b, 32), want[:]) {
			t.Errorf("sha256 of %d bytes", n)
		}
		s.call("sha224_init", s.c)
		s.call("sha256_update", s.c, a, u(n/2))
		s.call("sha256_update", s.c, a+u(n/2), u(n-n/2))
		s.call("sha224_final", s.c, s.b)
		if want := sha256.Sum224(p); !bytes.Equal(s.bytes(s.b, 28), want[:]) {
			t.Errorf("sha224 of %d bytes", n)
		}
		s.call("blake2s_init", s.c, 32, 0, 0)
		s.call("blake2s_update", s.c, a, u(n))
		s.call("blake2s_final", s.c, s.b)
		if want := blake2s(p); !bytes.Equal(s.bytes(s.b, 32), want) {
			t.Errorf("blake2s of %d bytes", n)
		}
		key := s.at(s.c, []byte("0123456789abcdef"))
		k0, k1 := binary.LittleEndian.Uint64([]byte("01234567")), binary.LittleEndian.Uint64([]byte("89abcdef"))
		for _, sym := range []string{"__siphash_unaligned", "__siphash_aligned"} {
			s.want(siphash(p, k0, k1, 2, 4), sym, a, u(n), key)
		}
		for _, sym := range []string{"__hsiphash_aligned", "__hsiphash_unaligned"} {
			if got, want := uint32(s.call(sym, a, u(n), key)), uint32(siphash(p, k0, k1, 1, 3)); got != want {
				t.Errorf("%s of %d bytes = %#x, want %#x", sym, n, got, want)
			}
		}
		s.want(xxh64(p, 5), "xxh64", a, u(n), 5)
		s.want(uint64(xxh32(p, 5)), "xxh32", a, u(n), 5)
	}
	key := s.at(s.c, []byte("0123456789abcdef"))
	k0, k1 := binary.LittleEndian.Uint64([]byte("01234567")), binary.LittleEndian.Uint64([]byte("89abcdef"))
	v := []uint64{0x1122334455667788, 0x99aabbccddeeff00, 3, 4}
	var b8, b4 []byte
	for i := range v {
		b8 = binary.LittleEndian.AppendUint64(b8, v[i])
		b4 = binary.LittleEndian.AppendUint32(b4, uint32(v[i]))
	}
	w := []uint64{v[0] & 0xffffffff, v[1] & 0xffffffff, 3, 4}
	s.want(siphash(b8[:8], k0, k1, 2, 4), "siphash_1u64", v[0], key)
	s.want(siphash(b8[:16], k0, k1, 2, 4), "siphash_2u64", v[0], v[1], key)
	s.want(siphash(b8[:24], k0, k1, 2, 4), "siphash_3u64", v[0], v[1], v[2], key)
	s.want(siphash(b8, k0, k1, 2, 4), "siphash_4u64", v[0], v[1], v[2], v[3], key)
	s.want(siphash(b4[:4], k0, k1, 2, 4), "siphash_1u32", w[0], key)
	s.want(siphash(b4[:12], k0, k1, 2, 4), "siphash_3u32", w[0], w[1], w[2], key)
	for n, sym := range []string{"hsiphash_1u32", "hsiphash_2u32", "hsiphash_3u32", "hsiphash_4u32"} {
		if got, want := uint32(s.call(sym, append(slices.Clone(w[:n+1]), key)...)), uint32(siphash(b4[:4*n+4], k0, k1, 1, 3)); got != want {
			t.Errorf("%s = %#x, want %#x", sym, got, want)
		}
	}
	// One block of SHA-1 with its padding.
	block := append([]byte("abc\x80"), make([]byte, 60)...)
	block[63] = 24
	s.call("sha1_init", s.b)
	s.call("sha1_transform", s.b, s.at(s.a, block), s.c)
	var got []byte
	for i := range uint64(5) {
		got = binary.BigEndian.AppendUint32(got, s.u32(s.b+4*i))
	}
	if want := sha1.Sum([]byte("abc")); !bytes.Equal(got, want[:]) {
		t.Errorf("sha1: %x", got)
	}
	s.call("crc8_populate_msb", s.a, 7)
	if got, want := s.call("crc8", s.a, s.str(s.b, "123456789"), 9, 0)&0xff, uint64(0xf4); got != want {
		t.Errorf("crc8 = %#x, want %#x", got, want)
	}
	s.call("crc8_populate_lsb", s.a, 0x8c)
	if got, want := s.call("crc8", s.a, s.b, 9, 0)&0xff, uint64(0xa1); got != want {
		t.Errorf("crc8 of Maxim = %#x, want %#x", got, want)
	}
	zeros := make([]byte, 100)
	want := crcBits(zeros, 0x12345678, 0x04c11db7, 32, true)
	s.want(uint64(want), "crc32_le_shift", 0x12345678, 100)
}

// crcBits is a CRC bit by bit.
func crcBits(p []byte, crc, poly uint32, width int, reflected bool) uint32 {
	mask := uint32(1<<width - 1)
	if reflected {
		poly = bits.Reverse32(poly) >> (32 - width)
	}
	for _, b := range p {
		if reflected {
			crc ^= uint32(b)
		} else {
			crc ^= uint32(b) << (width - 8)
		}
		for range 8 {
			if reflected {
				crc = crc>>1 ^ poly*(crc&1)
			} else {
				crc = crc<<1 ^ poly*(crc>>(width-1)&1)
			}
			crc &= mask
		}
	}
	return crc
}

func TestCiphers(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(3))
	for _, n := range []int{16, 24, 32} {
		key, in := make([]byte, n), make([]byte, 16)
		r.Read(key)
		r.Read(in)
		c, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, 16)
		c.Encrypt(want, in)
		s.want(0, "aes_expandkey", s.a, s.at(s.b, key), u(n))
		s.call("aes_encrypt", s.a, s.c, s.at(s.c+64, in))
		if got := s.bytes(s.c, 16); !bytes.Equal(got, want) {
			t.Errorf("AES-%d: %x, want %x", 8*n, got, want)
		}
	}
	if got := i32(s.call("aes_expandkey", s.a, s.b, 17)); got != -22 {
		t.Errorf("aes_expandkey of 17 bytes: %d", got)
	}
	// RFC 8439, 2.4.2.
	var state []byte
	for _, w := range []uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574} {
		state = binary.LittleEndian.AppendUint32(state, w)
	}
	for i := range 32 {
		state = append(state, byte(i))
	}
	state = append(state, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x4a, 0, 0, 0, 0)
	text := "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it."
	s.call("chacha_crypt_generic", s.at(s.a, state), s.b, s.at(s.c, []byte(text)), u(len(text)), 20)
	if got := hex.EncodeToString(s.bytes(s.b, 16)); got != "6e2e359a2568f98041ba0728dd0d6981" {
		t.Errorf("chacha20: %s", got)
	}
	// RFC draft XChaCha, 2.2.1.
	state = state[:48]
	nonce, _ := hex.DecodeString("000000090000004a0000000031415927")
	s.call("hchacha_block_generic", s.at(s.a, append(state, nonce...)), s.b, 20)
	if got := hex.EncodeToString(s.bytes(s.b, 32)); got != "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc" {
		t.Errorf("hchacha20: %s", got)
	}
	for n := range 40 {
		x, y := make([]byte, n), make([]byte, n)
		r.Read(x)
		r.Read(y)
		s.call("__crypto_xor", s.c, s.at(s.a, x), s.at(s.b, y), u(n))
		got := s.bytes(s.c, n)
		for i := range got {
			if got[i] != x[i]^y[i] {
				t.Fatalf("__crypto_xor of %d", n)
			}
		}
		if got := s.call("__crypto_memneq", s.a, s.b, u(n)); (got != 0) != !bytes.Equal(x, y) {
			t.Errorf("__crypto_memneq of %d: %d", n, got)
		}
		s.want(0, "__crypto_memneq", s.a, s.a, u(n))
	}
}

func TestArithmetic(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(4))
	for range 300 {
		x, y, z := r.Uint64()>>r.Intn(64), r.Uint64()>>r.Intn(64), r.Uint64()>>r.Intn(64)
		bx, by := new(big.Int).SetUint64(x), new(big.Int).SetUint64(y)
		g := new(big.Int).GCD(nil, nil, bx, by).Uint64()
		s.want(g, "gcd", x, y)
		l := uint64(0)
		if x != 0 && y != 0 {
			l = x / g * y
		}
		s.want(l, "lcm", x, y)
		if l != 0 {
			s.want(l, "lcm_not_zero", x, y)
		}
		s.want(max(x, 1), "lcm_not_zero", max(x, 1), 0)
		s.want(new(big.Int).Sqrt(bx).Uint64(), "int_sqrt", x)
		e := r.Intn(70)
		s.want(new(big.Int).Exp(bx, big.NewInt(int64(e)), new(big.Int).Lsh(big.NewInt(1), 64)).Uint64(), "int_pow", x, u(e))
		s.want(u(bits.OnesCount64(x)), "__sw_hweight64", x)
		s.want(u(bits.OnesCount32(uint32(x))), "__sw_hweight32", x)
		if z = max(z, 1); y < z {
			hi, lo := bits.Mul64(x, y)
			q, _ := bits.Div64(hi%z, lo, z)
			s.want(q, "mul_u64_u64_div_u64", x, y, z)
		}
		if d := uint32(z); d != 0 {
			packed := s.call("reciprocal_value", uint64(d))
			mul, sh1, sh2 := uint32(packed), packed>>32&0xff, packed>>40&0xff
			a := uint32(x)
			q := uint32(uint64(a) * uint64(mul) >> 32)
			if got := (q + (a-q)>>sh1) >> sh2; got != a/d {
				t.Errorf("%d / %d by reciprocal_value: %d", a, d, got)
			}
		}
	}
}

func TestSorting(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(5))
	strcmp := s.sym("strcmp")
	for _, n := range []int{0, 1, 2, 3, 10, 100} {
		var list []string
		var mem []byte
		for range n {
			w := fmt.Sprintf("%07d", r.Intn(n*2))
			list = append(list, w)
			mem = append(mem, append([]byte(w), 0)...)
		}
		s.call("sort", s.at(s.a, mem), u(n), 8, strcmp, 0)
		slices.Sort(list)
		if got, want := string(s.bytes(s.a, 8*n)), strings.Join(list, "\x00"); strings.TrimSuffix(got, "\x00") != want {
			t.Errorf("sort of %d", n)
		}
		for _, key := range []string{"0000000", "0000005", "0000017"} {
			p := s.call("bsearch", s.str(s.b, key), s.a, u(n), 8, strcmp)
			if (p != 0) != slices.Contains(list, key) || p != 0 && s.string(p) != key {
				t.Errorf("bsearch(%s) in %d: %#x", key, n, p)
			}
		}
	}
	// list_sort compares by a function of (priv, a, b). If it always returns 0, all
	// elements are equal and must stay in order.
	const node = 32
	head := s.b
	prev := head
	order := r.Perm(50)
	for _, i := range order {
		at := s.a + u(i)*node
		s.put64(prev, at)
		s.put64(at+8, prev)
		prev = at
	}
	s.put64(prev, head)
	s.put64(head+8, prev)
	s.call("list_sort", 0, head, s.sym("__static_call_return0"))
	at := s.u64(head)
	for _, i := range order {
		if at != s.a+u(i)*node {
			t.Fatal("list_sort is not stable")
		}
		if s.u64(s.u64(at)+8) != at {
			t.Fatal("list_sort left bad links")
		}
		at = s.u64(at)
	}
}

func TestRBTree(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(6))
	root := s.b
	const size = 32 // an rb_node and a key
	node := func(i int) uint64 { return s.a + u(i)*size }
	in := map[int]bool{}
	s.put64(root, 0)
	for step := range 400 {
		i := r.Intn(100)
		if in[i] {
			s.call("rb_erase", node(i), root)
			delete(in, i)
		} else {
			s.insert(root, node(i))
			in[i] = true
		}
		if step%20 != 0 {
			continue
		}
		var want []int
		for k := range in {
			want = append(want, k)
		}
		slices.Sort(want)
		var got []int
		for n := s.call("rb_first", root); n != 0; n = s.call("rb_next", n) {
			got = append(got, int(n-s.a)/size)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %v, want %v", step, got, want)
		}
		got = nil
		for n := s.call("rb_last", root); n != 0; n = s.call("rb_prev", n) {
			got = append(got, int(n-s.a)/size)
		}
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Fatalf("step %d backwards: %v, want %v", step, got, want)
		}
		seen := 0
		for n := s.call("rb_first_postorder", root); n != 0; n = s.call("rb_next_postorder", n) {
			seen++
		}
		if seen != len(want) {
			t.Fatalf("postorder saw %d of %d", seen, len(want))
		}
		s.blackHeight(s.u64(root))
	}
	for i := range in {
		other := s.c
		s.call("rb_replace_node", node(i), other, root)
		found := false
		for n := s.call("rb_first", root); n != 0; n = s.call("rb_next", n) {
			found = found || n == other
		}
		if !found {
			t.Error("rb_replace_node")
		}
		break
	}
}

// insert links a node by its address and balances.
func (s *scratch) insert(root, n uint64) {
	link, parent := root, uint64(0)
	for at := s.u64(link); at != 0; at = s.u64(link) {
		parent = at
		link = at + 8 // rb_right
		if n < at {
			link = at + 16
		}
	}
	s.put64(n, parent)
	s.put64(n+8, 0)
	s.put64(n+16, 0)
	s.put64(link, n)
	s.call("rb_insert_color", n, root)
}

// blackHeight checks both rules of a red-black tree.
func (s *scratch) blackHeight(n uint64) int {
	s.t.Helper()
	if n == 0 {
		return 1
	}
	black := int(s.u64(n) & 1)
	for _, off := range []uint64{8, 16} {
		if c := s.u64(n + off); c != 0 && black == 0 && s.u64(c)&1 == 0 {
			s.t.Fatal("a red node has a red child")
		}
	}
	right, left := s.blackHeight(s.u64(n+8)), s.blackHeight(s.u64(n+16))
	if left != right {
		s.t.Fatal("the tree is out of balance")
	}
	return left + black
}

func TestBitmaps(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(7))
	for range 150 {
		n := 1 + r.Intn(200)
		x, y := randomBits(r, n), randomBits(r, n)
		s.at(s.a, x.bytes(n))
		s.at(s.b, y.bytes(n))
		start := r.Intn(n + 2)
		s.want(u(x.next(n, start, 1)), "_find_next_bit", s.a, u(n), u(start))
		s.want(u(x.next(n, start, 0)), "_find_next_zero_bit", s.a, u(n), u(start))
		s.want(u(x.next(n, 0, 1)), "_find_first_bit", s.a, u(n))
		s.want(u(x.next(n, 0, 0)), "_find_first_zero_bit", s.a, u(n))
		and := bitset{new(big.Int).And(x.Int, y.Int)}
		s.want(u(and.next(n, 0, 1)), "_find_first_and_bit", s.a, s.b, u(n))
		s.want(u(and.next(n, start, 1)), "_find_next_and_bit", s.a, s.b, u(n), u(start))
		last := n
		if x.Sign() != 0 {
			last = x.BitLen() - 1
		}
		s.want(u(last), "_find_last_bit", s.a, u(n))
		weight := 0
		for i := range n {
			weight += int(x.Bit(i))
		}
		s.want(u(weight), "__bitmap_weight", s.a, u(n))
		flag := func(b bool) uint64 {
			if b {
				return 1
			}
			return 0
		}
		andnot := bitset{new(big.Int).AndNot(x.Int, y.Int)}
		for _, c := range []struct {
			sym  string
			want bool
		}{{"__bitmap_equal", x.Cmp(y.Int) == 0}, {"__bitmap_intersects", and.Sign() != 0}, {"__bitmap_subset", andnot.Sign() == 0}} {
			if got := s.call(c.sym, s.a, s.b, u(n)) & 1; got != flag(c.want) {
				t.Errorf("%s of %d bits = %d", c.sym, n, got)
			}
		}
		for _, c := range []struct {
			sym  string
			want *big.Int
		}{
			{"__bitmap_and", and.Int},
			{"__bitmap_or", new(big.Int).Or(x.Int, y.Int)},
			{"__bitmap_xor", new(big.Int).Xor(x.Int, y.Int)},
			{"__bitmap_andnot", andnot.Int},
		} {
			s.call(c.sym, s.c, s.a, s.b, u(n))
			if got := s.bits(s.c, n); got.Cmp(c.want) != 0 {
				t.Errorf("%s of %d bits", c.sym, n)
			}
		}
		full := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(n)), big.NewInt(1))
		s.call("__bitmap_complement", s.c, s.a, u(n))
		if s.bits(s.c, n).Cmp(new(big.Int).Xor(full, x.Int)) != 0 {
			t.Errorf("__bitmap_complement of %d", n)
		}
		sh := uint(r.Intn(n))
		s.call("__bitmap_shift_right", s.c, s.a, uint64(sh), u(n))
		if s.bits(s.c, n).Cmp(new(big.Int).Rsh(x.Int, sh)) != 0 {
			t.Errorf("__bitmap_shift_right of %d by %d", n, sh)
		}
		s.call("__bitmap_shift_left", s.c, s.a, uint64(sh), u(n))
		if s.bits(s.c, n).Cmp(new(big.Int).And(full, new(big.Int).Lsh(x.Int, sh))) != 0 {
			t.Errorf("__bitmap_shift_left of %d by %d", n, sh)
		}
		// Text and back.
		k := s.call("bitmap_print_list", s.c, 4096, s.a, u(n))
		text := string(s.bytes(s.c, int(k)))
		if want := x.list(n); text != want {
			t.Errorf("bitmap_print_list: %q, want %q", text, want)
		}
		s.want(0, "bitmap_parselist", s.c, s.b, u(n))
		if s.bits(s.b, n).Cmp(x.Int) != 0 {
			t.Errorf("bitmap_parselist(%q)", text)
		}
		from, length := r.Intn(n), 0
		length = r.Intn(n - from + 1)
		run := new(big.Int).Lsh(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(length)), big.NewInt(1)), uint(from))
		s.call("__bitmap_set", s.a, u(from), u(length))
		if s.bits(s.a, n).Cmp(new(big.Int).Or(x.Int, run)) != 0 {
			t.Errorf("__bitmap_set(%d, %d)", from, length)
		}
		s.call("__bitmap_clear", s.a, u(from), u(length))
		if s.bits(s.a, n).Cmp(new(big.Int).AndNot(x.Int, run)) != 0 {
			t.Errorf("__bitmap_clear(%d, %d)", from, length)
		}
	}
	for text, want := range map[string]int{"0-3,8": 0, "0-9:2/4": 0, "9-1": -22, "64": -34, "x": -22, "1-2-3": -22} {
		if got := i32(s.call("bitmap_parselist", s.str(s.a, text), s.b, 64)); got != want {
			t.Errorf("bitmap_parselist(%q) = %d", text, got)
		}
	}
	for text, want := range map[string]int{"ff": 0, "1,00000000": 0, "100": -75, "g": -22, "000000000": -75} {
		nbits := 8
		if strings.Contains(text, ",") {
			nbits = 64
		}
		if got := i32(s.call("bitmap_parse", s.str(s.a, text), u(len(text)), s.b, u(nbits))); got != want {
			t.Errorf("bitmap_parse(%q) = %d, want %d", text, got, want)
		}
	}
	s.put64(s.a, 0xf0f)
	s.want(4, "bitmap_find_next_zero_area_off", s.a, 64, 0, 4, 3)
	s.want(12, "bitmap_find_next_zero_area_off", s.a, 64, 0, 5, 3)
}

type bitset struct{ *big.Int }

func randomBits(r *rand.Rand, n int) bitset {
	x := new(big.Int).Rand(r, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	if r.Intn(4) == 0 {
		x.SetInt64(0)
	}
	return bitset{x}
}

func (b bitset) bytes(n int) []byte {
	p := make([]byte, (n+63)/64*8)
	b.FillBytes(p)
	slices.Reverse(p)
	return p
}

func (b bitset) next(n, from int, bit uint) int {
	for i := from; i < n; i++ {
		if b.Bit(i) == bit {
			return i
		}
	}
	return n
}

func (b bitset) list(n int) string {
	var out []string
	for i := b.next(n, 0, 1); i < n; {
		end := b.next(n, i, 0)
		if end-i > 1 {
			out = append(out, fmt.Sprintf("%d-%d", i, end-1))
		} else {
			out = append(out, strconv.Itoa(i))
		}
		i = b.next(n, end, 1)
	}
	return strings.Join(out, ",")
}

// bits reads a bitmap of n bits.
func (s *scratch) bits(a uint64, n int) *big.Int {
	p := s.bytes(a, (n+63)/64*8)
	slices.Reverse(p)
	x := new(big.Int).SetBytes(p)
	return x.And(x, new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(n)), big.NewInt(1)))
}

func TestChecksums(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(8))
	for n := range 70 {
		p := make([]byte, n)
		r.Read(p)
		want := ^fold(sum16(p))
		if got := uint16(s.call("ip_compute_csum", s.at(s.a, p), u(n))); got != want {
			t.Errorf("ip_compute_csum of %d = %#x, want %#x", n, got, want)
		}
		if got := fold(uint64(uint32(s.call("csum_partial", s.a, u(n), 0x1234)))); got != fold(sum16(p)+0x1234) {
			t.Errorf("csum_partial of %d", n)
		}
		if n%4 == 0 && n >= 20 {
			if got := uint16(s.call("ip_fast_csum", s.a, u(n/4))); got != want {
				t.Errorf("ip_fast_csum of %d", n)
			}
		}
		if got := fold(uint64(uint32(s.call("csum_partial_copy_nocheck", s.a, s.b, u(n))))); got != fold(sum16(p)) || !bytes.Equal(s.bytes(s.b, n), p) {
			t.Errorf("csum_partial_copy_nocheck of %d", n)
		}
	}
	pseudo := []byte{127, 0, 0, 1, 10, 0, 0, 2, 0, 6, 0, 100}
	le := binary.LittleEndian
	if got, want := uint16(s.call("csum_tcpudp_magic", uint64(le.Uint32(pseudo)), uint64(le.Uint32(pseudo[4:])), 100, 6, 0)), ^fold(sum16(pseudo)); got != want {
		t.Errorf("csum_tcpudp_magic = %#x, want %#x", got, want)
	}
}

func sum16(p []byte) (sum uint64) {
	for i, b := range p {
		sum += uint64(b) << (8 * (i & 1))
	}
	return sum
}

func fold(v uint64) uint16 {
	for v>>16 != 0 {
		v = v&0xffff + v>>16
	}
	return uint16(v)
}

func TestDates(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(9))
	for range 300 {
		v := r.Int63n(400_000_000_000) - 60_000_000_000
		d := time.Unix(v, 0).UTC()
		s.call("time64_to_tm", uint64(v), 0, s.a)
		p := s.bytes(s.a, 48)
		field := func(off int) int { return int(int32(binary.LittleEndian.Uint32(p[off:]))) }
		got := []int{field(0), field(4), field(8), field(12), field(16), int(int64(binary.LittleEndian.Uint64(p[24:]))), field(32), field(36)}
		want := []int{d.Second(), d.Minute(), d.Hour(), d.Day(), int(d.Month()) - 1, d.Year() - 1900, int(d.Weekday()), d.YearDay() - 1}
		if !slices.Equal(got, want) {
			t.Errorf("time64_to_tm(%d) = %v, want %v", v, got, want)
		}
		if d.Year() >= 0 { // the seconds are the sixth argument, which calls of the host cannot set: they are whatever is in r9
			minute := d.Truncate(time.Minute).Unix()
			got := int64(s.call("mktime64", u(d.Year()), u(int(d.Month())), u(d.Day()), u(d.Hour()), u(d.Minute())))
			if sec := got - minute; sec < 0 || sec >= 1<<32 {
				t.Errorf("mktime64(%v) = %d, want %d and an unsigned number of seconds", d, got, minute)
			}
		}
	}
}

func TestText(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(10))
	for range 500 {
		pat, str := randomText(r, "ab*?"), randomText(r, "ab")
		want, _ := path.Match(pat, str)
		if got := s.call("glob_match", s.str(s.a, pat), s.str(s.b, str))&1 == 1; got != want {
			t.Errorf("glob_match(%q, %q) = %v", pat, str, got)
		}
	}
	for _, c := range []struct {
		pat, str string
		want     uint64
	}{{"[a-c]x", "bx", 1}, {"[!a-c]x", "bx", 0}, {"*[0-9]", "abc7", 1}, {`a\*`, "a*", 1}, {`a\*`, "ab", 0}, {"[]]", "]", 1}, {"[a", "[a", 1}} {
		if got := s.call("glob_match", s.str(s.a, c.pat), s.str(s.b, c.str)) & 1; got != c.want {
			t.Errorf("glob_match(%q, %q) = %d", c.pat, c.str, got)
		}
	}
	id := "01234567-89ab-CDEF-0123-456789abcdef"
	s.want(0, "uuid_parse", s.str(s.a, id), s.b)
	if got := hex.EncodeToString(s.bytes(s.b, 16)); got != strings.ToLower(strings.ReplaceAll(id, "-", "")) {
		t.Errorf("uuid_parse: %s", got)
	}
	s.want(0, "guid_parse", s.a, s.b)
	if got := hex.EncodeToString(s.bytes(s.b, 16)); got != "67452301ab89efcd0123456789abcdef" {
		t.Errorf("guid_parse: %s", got)
	}
	if s.call("uuid_is_valid", s.str(s.a, id[:35]+"g"))&1 != 0 || i32(s.call("uuid_parse", s.a, s.b)) != -22 {
		t.Error("a bad UUID is valid")
	}
	if s.call("mac_pton", s.str(s.a, "01:23:45:67:89:aB"), s.b)&1 != 1 || hex.EncodeToString(s.bytes(s.b, 6)) != "0123456789ab" {
		t.Error("mac_pton")
	}
	if s.call("mac_pton", s.str(s.a, "01:23:45:67:89-ab"), s.b)&1 != 0 {
		t.Error("mac_pton takes a hyphen")
	}
	for addr, want := range map[string]uint64{"1.2.3.254": 1, "127.0.0.1": 1, "1.2.3": 0, "1.2.3.256": 0, "1.2.3.4.5": 0, "": 0} {
		if got := s.call("in4_pton", s.str(s.a, addr), ^uint64(0), s.b, ^uint64(0), 0); got != want {
			t.Errorf("in4_pton(%q) = %d", addr, got)
		}
	}
	if got := s.call("in_aton", s.str(s.a, "127.0.0.1")); got != 0x0100007f {
		t.Errorf("in_aton: %#x", got)
	}
	for _, c := range "aé€😀\U0010ffff" {
		e := utf8.AppendRune(nil, c)
		s.want(u(len(e)), "utf8_to_utf32", s.at(s.a, e), u(len(e)), s.b)
		if rune(s.u32(s.b)) != c {
			t.Errorf("utf8_to_utf32(%c)", c)
		}
		s.want(u(len(e)), "utf32_to_utf8", uint64(c), s.b, 8)
		if !bytes.Equal(s.bytes(s.b, len(e)), e) {
			t.Errorf("utf32_to_utf8(%c)", c)
		}
	}
	for _, bad := range []string{"\x80", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82"} {
		if got := i32(s.call("utf8_to_utf32", s.at(s.a, []byte(bad)), u(len(bad)), s.b)); got != -1 {
			t.Errorf("utf8_to_utf32(%x) = %d", bad, got)
		}
	}
	text := "aé€😀z"
	w := utf16.Encode([]rune(text))
	s.want(u(len(w)), "utf8s_to_utf16s", s.str(s.a, text), u(len(text)), 1, s.b, 100)
	for i, c := range w {
		if got := binary.LittleEndian.Uint16(s.bytes(s.b+u(2*i), 2)); got != c {
			t.Errorf("utf8s_to_utf16s: word %d is %#x", i, got)
		}
	}
	s.want(u(len(text)), "utf16s_to_utf8s", s.b, u(len(w)), 1, s.c, 100)
	if got := string(s.bytes(s.c, len(text))); got != text {
		t.Errorf("utf16s_to_utf8s: %q", got)
	}
	for _, c := range []struct {
		size, block, units uint64
		want               string
	}{
		{0, 512, 0, "0 B"},
		{1, 512, 0, "512 B"},
		{1100, 1, 0, "1.10 kB"},
		{1100, 1, 1, "1.07 KiB"},
		{8192, 4096, 0, "33.6 MB"},
		{8192, 4096, 1, "32.0 MiB"},
		{^uint64(0), 4096, 0, "75.6 ZB"},
		{^uint64(0), 4096, 1, "64.0 ZiB"},
		{1999, 1, 0, "2.00 kB"},
	} {
		s.call("string_get_size", c.size, c.block, c.units, s.a, 40)
		if got := s.string(s.a); got != c.want {
			t.Errorf("string_get_size(%d, %d, %d) = %q, want %q", c.size, c.block, c.units, got, c.want)
		}
	}
	n := s.call("string_unescape", s.str(s.a, `\n\101\x41\x4\q\"`), s.b, 0, 15)
	if got := string(s.bytes(s.b, int(n))); got != "\nAA\x04\\q\"" {
		t.Errorf("string_unescape: %q", got)
	}
}

func randomText(r *rand.Rand, from string) string {
	var b strings.Builder
	for range r.Intn(6) {
		b.WriteByte(from[r.Intn(len(from))])
	}
	return b.String()
}

func TestCommandLine(t *testing.T) {
	s := boot(t, 1).scratch()
	line := s.str(s.a, `quiet  init=/bin/sh "a b=c d" x="y z" last`)
	var got []string
	for s.bytes(line, 1)[0] != 0 {
		line = s.call("next_arg", line, s.b, s.b+8)
		arg := s.string(s.u64(s.b))
		if v := s.u64(s.b + 8); v != 0 {
			arg += "=" + s.string(v)
		}
		got = append(got, arg)
	}
	if want := []string{"quiet", "init=/bin/sh", "a b=c d", "x=y z", "last"}; !slices.Equal(got, want) {
		t.Errorf("next_arg: %q", got)
	}
	end := s.call("get_options", s.str(s.a, "1,3-6,9x"), 10, s.b)
	var ints []int
	for i := range uint64(7) {
		ints = append(ints, i32(uint64(s.u32(s.b+4*i))))
	}
	if !slices.Equal(ints, []int{6, 1, 3, 4, 5, 6, 9}) || s.string(end) != "x" {
		t.Errorf("get_options: %v, %q left", ints, s.string(end))
	}
	s.put64(s.b, s.str(s.a, "-5,7"))
	s.want(2, "get_option", s.b, s.c)
	if i32(uint64(s.u32(s.c))) != -5 {
		t.Error("get_option(-5)")
	}
	for opt, want := range map[string]uint64{"a": 1, "bc": 1, "b": 0, "d": 1} {
		if got := s.call("parse_option_str", s.str(s.a, "a,bc,d"), s.str(s.b, opt)) & 1; got != want {
			t.Errorf("parse_option_str(%s) = %d", opt, got)
		}
	}
}

func TestLZ4(t *testing.T) {
	s := boot(t, 1).scratch()
	block := append([]byte{0x1f, 'A', 1, 0, 1, 0x50}, "hello"...)
	want := strings.Repeat("A", 21) + "hello"
	s.want(u(len(want)), "LZ4_decompress_safe", s.at(s.a, block), s.b, u(len(block)), 100)
	if got := string(s.bytes(s.b, len(want))); got != want {
		t.Errorf("LZ4_decompress_safe: %q", got)
	}
	for n := range len(block) {
		if n == 2 {
			continue // one literal is a valid block
		}
		if got := i32(s.call("LZ4_decompress_safe", s.a, s.b, u(n), 100)); got >= 0 {
			t.Errorf("LZ4_decompress_safe of the first %d bytes: %d", n, got)
		}
	}
	if got := i32(s.call("LZ4_decompress_safe", s.a, s.b, u(len(block)), 25)); got >= 0 {
		t.Errorf("LZ4_decompress_safe into 25 bytes: %d", got)
	}
	s.want(1000+3+16, "LZ4_compressBound", 1000)
}

// call6 calls a function with six arguments: the handler of an armed function sets
// the registers and continues there.
func (m *machine) call6(sym string, args ...uint64) uint64 {
	m.t.Helper()
	const door = "int_pow"
	addr := m.sym(sym)
	m.SetHandlers(kernel.Handlers{Ftrace: func(t *abi.Trap) {
		r := t.Regs
		r.DI, r.SI, r.DX, r.CX, r.R8, r.R9 = args[0], args[1], args[2], args[3], args[4], args[5]
		r.IP = addr
	}})
	if err := m.Sites().Arm(m.sym(door)); err != nil {
		m.t.Fatal(err)
	}
	ret := m.call(door, 0, 0)
	if err := m.Sites().Disarm(m.sym(door)); err != nil {
		m.t.Fatal(err)
	}
	reached.Store(sym, true)
	return ret
}

func TestSixArguments(t *testing.T) {
	s := boot(t, 1).scratch()
	r := rand.New(rand.NewSource(11))
	for range 100 {
		x, y, bound := 1+r.Intn(5000), 1+r.Intn(5000), 2+r.Intn(200)
		v := big.NewRat(int64(x), int64(y))
		if v.Cmp(big.NewRat(int64(bound), 1)) > 0 || v.Cmp(big.NewRat(1, int64(bound))) < 0 {
			continue
		}
		s.call6("rational_best_approximation", u(x), u(y), u(bound), u(bound), s.a, s.a+8)
		got := distance(v, int64(s.u64(s.a)), int64(s.u64(s.a+8)))
		best := distance(v, 1, 1)
		for d := int64(1); d <= int64(bound); d++ {
			n := d * int64(x) / int64(y)
			for _, n := range []int64{n, n + 1} {
				if e := distance(v, n, d); n <= int64(bound) && e.Cmp(best) < 0 {
					best = e
				}
			}
		}
		if got.Cmp(best) != 0 {
			t.Errorf("rational_best_approximation(%d/%d, %d) = %d/%d", x, y, bound, s.u64(s.a), s.u64(s.a+8))
		}
	}
	for _, c := range []struct {
		text  string
		flags uint64
		only  string
		want  string
	}{
		{"a\n\x01\x00\"", 0x0f, "", `\141\n\001\0\"`},
		{"ab\n", 0x18, "", `ab\012`},
		{"a b", 0x08, " ", `a\040b`},
		{"\x7f~", 0x30, "", `\x7f~`},
	} {
		only := uint64(0)
		if c.only != "" {
			only = s.str(s.c, c.only)
		}
		n := s.call6("string_escape_mem", s.at(s.a, []byte(c.text)), u(len(c.text)), s.b, 100, c.flags, only)
		if got := string(s.bytes(s.b, int(n))); got != c.want {
			t.Errorf("string_escape_mem(%q, %#x) = %q, want %q", c.text, c.flags, got, c.want)
		}
		if short := s.call6("string_escape_mem", s.a, u(len(c.text)), s.b, 1, c.flags, only); short != n {
			t.Errorf("string_escape_mem into one byte: %d, want %d", short, n)
		}
	}
}

func distance(v *big.Rat, n, d int64) *big.Rat {
	x := new(big.Rat).Sub(big.NewRat(n, d), v)
	return x.Abs(x)
}

package sysctl

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// knobs is a table, and the kernel that it acts on.
type knobs struct {
	*Table
	opt, ftrace bool
	taints      uint64
	levels      []int
	log         []string
}

var _ Kernel = (*knobs)(nil)

func (k *knobs) Printk(_ int, format string, args ...any) {
	k.log = append(k.log, fmt.Sprintf(format, args...))
}
func (k *knobs) Optimization() bool        { return k.opt }
func (k *knobs) SetOptimization(on bool)   { k.opt = on }
func (k *knobs) SetFtrace(on bool) error   { k.ftrace = on; return nil }
func (k *knobs) SetStackTracer(bool) error { return nil }
func (k *knobs) SetKptrRestrict(int) error { return nil }
func (k *knobs) ConsoleLevels() []int      { return k.levels }
func (k *knobs) SetConsoleLevels(to []int) { copy(k.levels, to) }
func (k *knobs) Taints() uint64            { return k.taints }
func (k *knobs) SetTaints(bits uint64)     { k.taints |= bits }

func newKnobs() *knobs {
	k := &knobs{opt: true, ftrace: true}
	k.Table = New(Config{Kernel: k, Release: "6.1.0-50-amd64", Version: "#1 SMP"})
	return k
}

var root = Caller{Comm: "dd", SysAdmin: true}

func (k *knobs) write(t *testing.T, path, data string, pos int64) (int, error) {
	t.Helper()
	r, ok := k.Row(path)
	if !ok {
		t.Fatalf("no row %s", path)
	}
	return r.Proc.Write(root, []byte(data), pos)
}

func (k *knobs) read(path string, n int, pos int64) string {
	r, _ := k.Row(path)
	return string(r.Proc.Read(n, pos))
}

// recorded calls f for each line of a table of recorded writes.
func recorded(t *testing.T, name string, f func(fields []string, data string)) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := 0
	for s := bufio.NewScanner(file); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		lines++
		fields := strings.Split(s.Text(), "\t")
		times, err := strconv.Atoi(fields[4])
		if err != nil {
			t.Fatal(err)
		}
		f(fields, unquote(t, fields[2])+strings.Repeat(unquote(t, fields[3]), times)+unquote(t, fields[5]))
	}
	if lines < 100 {
		t.Errorf("only %d lines", lines)
	}
}

func unquote(t *testing.T, s string) string {
	t.Helper()
	u, err := strconv.Unquote(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestRecorded replays recorded writes and compares with what Linux returned.
func TestRecorded(t *testing.T) {
	recorded(t, "testdata/writes.tsv", func(f []string, data string) {
		k := newKnobs()
		if _, err := k.write(t, f[0], f[1], 0); err != nil {
			t.Fatal(err)
		}
		n, err := k.write(t, f[0], data, 0)
		got := strconv.Itoa(n)
		if errors.Is(err, syscall.EINVAL) {
			got = "EINVAL"
		}
		after := strings.TrimSuffix(k.read(f[0], 64, 0), "\n")
		if got != f[6] || after != f[8] {
			t.Errorf("%s from %s, %.40q: got %s and %s, want %s and %s", f[0], f[1], data, got, after, f[6], f[8])
		}
	})
}

// TestStrict follows docs/reference/linux/control-files.md section 1, "offset of the
// write".
func TestStrict(t *testing.T) {
	for _, tc := range []struct {
		strict string
		want   string
		log    string
	}{
		{"1", "1\n", ""},
		{"0", "0\n", "dd wrote to kprobes-optimization when file position was not 0!\nThis will not be supported in the future. To silence this\nwarning, set kernel.sysctl_writes_strict = -1"},
		{"-1", "0\n", ""},
	} {
		k := newKnobs()
		if _, err := k.write(t, "kernel/sysctl_writes_strict", tc.strict, 0); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it warns once
			if n, err := k.write(t, "debug/kprobes-optimization", "0", 1); n != 1 || err != nil {
				t.Errorf("strict %s: %d, %v", tc.strict, n, err)
			}
		}
		if got := k.read("debug/kprobes-optimization", 8, 0); got != tc.want {
			t.Errorf("strict %s: %q, want %q", tc.strict, got, tc.want)
		}
		if got := strings.Join(k.log, "|"); got != tc.log {
			t.Errorf("strict %s: logged %q, want %q", tc.strict, got, tc.log)
		}
	}
	k := newKnobs()
	if n, err := k.write(t, "debug/kprobes-optimization", "garbage", 1); n != 7 || err != nil {
		t.Errorf("an ignored write gives %d, %v", n, err)
	}
	k.write(t, "kernel/sysctl_writes_strict", "0", 0)
	if _, err := k.write(t, "kernel/randomize_va_space", "x", 3); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a write that is warned of is not parsed: %v", err)
	}
}

// TestRanges compares with the results of Debian's 6.1.176.
func TestRanges(t *testing.T) {
	all := []int{-2147483649, -2147483648, -2, -1, 0, 1, 2, 3, 1000000, 1000001, 2147483647, 2147483648}
	for _, tc := range []struct {
		path     string
		initial  string
		min, max int
	}{
		{"debug/exception-trace", "1\n", -2147483648, 2147483647},
		{"debug/kprobes-optimization", "1\n", 0, 1},
		{"kernel/ftrace_enabled", "1\n", -2147483648, 2147483647},
		{"kernel/kptr_restrict", "0\n", 0, 2},
		{"kernel/perf_event_paranoid", "3\n", -2147483648, 2147483647},
		{"kernel/randomize_va_space", "2\n", -2147483648, 2147483647},
		{"kernel/sched_rt_runtime_us", "950000\n", -1, 1000000},
		{"kernel/sysctl_writes_strict", "1\n", -1, 1},
	} {
		k := newKnobs()
		if got := k.read(tc.path, 64, 0); got != tc.initial {
			t.Errorf("%s is %q at first, want %q", tc.path, got, tc.initial)
		}
		for _, v := range all {
			before := k.read(tc.path, 64, 0)
			text := strconv.Itoa(v)
			n, err := k.write(t, tc.path, text, 0)
			ok := tc.min <= v && v <= tc.max
			if want := text + "\n"; ok && (err != nil || n != len(text) || k.read(tc.path, 64, 0) != want || k.Int(tc.path) != v) {
				t.Errorf("%s = %d: %v", tc.path, v, err)
			}
			if !ok && (!errors.Is(err, syscall.EINVAL) || k.read(tc.path, 64, 0) != before) {
				t.Errorf("%s = %d was accepted", tc.path, v)
			}
		}
	}
}

func TestRead(t *testing.T) {
	k := newKnobs()
	for _, tc := range []struct {
		path string
		n    int
		pos  int64
		want string
	}{
		{"kernel/randomize_va_space", 1, 0, "2"},
		{"kernel/randomize_va_space", 9, 1, ""},
		{"kernel/sched_rt_runtime_us", 3, 0, "950"},
		{"kernel/osrelease", 99, 0, "6.1.0-50-amd64\n"},
		{"kernel/osrelease", 3, 3, ".0-"},
		{"kernel/osrelease", 1, 14, "\n"},
		{"kernel/osrelease", 1, 15, ""},
	} {
		if got := k.read(tc.path, tc.n, tc.pos); got != tc.want {
			t.Errorf("%d bytes of %s at %d: %q, want %q", tc.n, tc.path, tc.pos, got, tc.want)
		}
	}
}

// TestTainted compares with what Debian's 6.1.176 gave for the same writes in a row.
func TestTainted(t *testing.T) {
	k := newKnobs()
	for _, tc := range []struct {
		write, want string
		err         error
	}{
		{"0\n", "0\n", nil},
		{"1\n", "1\n", nil},
		{"4096\n", "4097\n", nil},
		{"x\n", "4097\n", syscall.EINVAL},
		{"-1\n", "4097\n", syscall.EINVAL},
		{"\n", "4097\n", syscall.EINVAL},
		{"0x40\n", "4161\n", nil},
		{"8 16\n", "4169\n", nil},
		{"18446744073709551616\n", "4169\n", syscall.EINVAL},
		{"18446744073709551615\n", "18446744073709551615\n", nil}, // the kernel keeps the bits that it has
	} {
		_, err := k.write(t, "kernel/tainted", tc.write, 0)
		if got := k.read("kernel/tainted", 64, 0); got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("after %q: %q, %v; want %q, %v", tc.write, got, err, tc.want, tc.err)
		}
	}
	if got := k.read("kernel/tainted", 64, 1); got != "" {
		t.Errorf("read at 1: %q", got)
	}
	r, _ := k.Row("kernel/tainted")
	if _, err := r.Proc.Write(Caller{}, []byte("1"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("without CAP_SYS_ADMIN: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	k := newKnobs()
	r, _ := k.Row("kernel/kptr_restrict")
	if _, err := r.Proc.Write(Caller{}, []byte("1"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("kptr_restrict without CAP_SYS_ADMIN: %v", err)
	}
	if _, err := k.write(t, "kernel/version", "x", 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("version: %v", err)
	}
	k.write(t, "kernel/ftrace_enabled", "-7", 0)
	if !k.ftrace {
		t.Error("ftrace_enabled=-7 switched tracing off")
	}
	k.write(t, "kernel/ftrace_enabled", "0", 0)
	if k.ftrace {
		t.Error("ftrace_enabled=0 did not")
	}
}

func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"", "1", " 0x1\n", "-0", "09", "0x", "\xa01 2", "99999999999999999999999", strings.Repeat(" ", 4095) + "1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, n, err := ParseInt(data, Bounds{-5, 1000})
		if err != nil {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%v has no errno", err)
			}
			return
		}
		if n < 1 || n > len(data) || v < -5 || v > 1000 {
			t.Errorf("%q gives %d and %d bytes", data, v, n)
		}
		again, _, err := ParseInt([]byte(strconv.Itoa(v)), Bounds{-5, 1000})
		if err != nil || again != v {
			t.Errorf("%d comes back as %d, %v", v, again, err)
		}
	})
}

// number is what proc_dointvec_minmax accepts: blanks, a number of at most 20
// characters that ends with the write or a space, tab or newline, and the blanks after
// it.
var number = regexp.MustCompile("^[\t-\r \\xa0]*(-?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*))(?:[ \t\n][\t-\r \\xa0]*|$)")

// accepts returns the number in data and how many bytes it consumes; ok is false for
// EINVAL. It reads bytes as runes of the same number, because regexps match runes.
func accepts(data []byte, low, high int64) (v int64, n int, ok bool) {
	runes := make([]rune, len(data))
	for i, b := range data {
		runes[i] = rune(b)
	}
	text := string(runes)
	m := number.FindStringSubmatch(text)
	if m == nil || len(m[1]) > 20 {
		return 0, 0, false
	}
	v, err := strconv.ParseInt(m[1], 0, 64)
	return v, len([]rune(m[0])), err == nil && low <= v && v <= high
}

// FuzzWrite writes arbitrary data to any integer at any position, and compares with the
// rules behind the recorded tables.
func FuzzWrite(f *testing.F) {
	rows := []struct {
		path      string
		low, high int64
	}{
		{"debug/kprobes-optimization", 0, 1},
		{"debug/exception-trace", math.MinInt32, math.MaxInt32},
		{"kernel/ftrace_enabled", math.MinInt32, math.MaxInt32},
		{"kernel/kptr_restrict", 0, 2},
		{"kernel/sched_rt_runtime_us", -1, 1000000},
		{"kernel/sysctl_writes_strict", -1, 1},
	}
	for i, s := range []string{"1\n", "0 1", "-0x1", " 017\t", "09", "00000000000000000000000", "\xa01", "2147483648", "1\x00", "-", "+1", "0x"} {
		f.Add(uint8(i), []byte(s), int64(i%3), int8(i%3-1))
	}
	f.Fuzz(func(t *testing.T, row uint8, data []byte, pos int64, strict int8) {
		r := rows[int(row)%len(rows)]
		if len(data) > 4000 || pos < 0 || strict < -1 || strict > 1 {
			return
		}
		k := newKnobs()
		k.write(t, "kernel/sysctl_writes_strict", strconv.Itoa(int(strict)), 0)
		before := k.read(r.path, 64, 0)
		n, err := k.write(t, r.path, string(data), pos)
		after := k.read(r.path, 64, 0)
		v, took, ok := accepts(data, r.low, r.high)
		switch {
		case len(data) == 0 || pos > 0 && strict == 1:
			if n != len(data) || err != nil || after != before {
				t.Errorf("%q at %d: %d, %v, and %q became %q", data, pos, n, err, before, after)
			}
		case !ok:
			if !errors.Is(err, syscall.EINVAL) || after != before {
				t.Errorf("%q: %d, %v, want EINVAL; %q became %q", data, n, err, before, after)
			}
		default:
			if err != nil || n != took || after != strconv.FormatInt(v, 10)+"\n" {
				t.Errorf("%q: %d, %v and %q; want %d, and %d", data, n, err, after, took, v)
			}
		}
		if warned := len(k.log) > 0; warned != (pos > 0 && strict == 0 && len(data) > 0) {
			t.Errorf("%q at %d with writes_strict %d: said %q", data, pos, strict, k.log)
		}
		if k.read(r.path, 64, 1) != "" {
			t.Error("something can be read at position 1")
		}
	})
}

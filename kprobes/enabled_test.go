package kprobes_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestParseEnabled compares with Linux's result for each write to kprobes/enabled.
func TestParseEnabled(t *testing.T) {
	table, err := os.ReadFile("testdata/enabled.tsv")
	if err != nil {
		t.Fatal(err)
	}
	k, lines := newWorld(t).k, 0
	for line := range strings.Lines(string(table)) {
		if line[0] == '#' {
			continue
		}
		lines++
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		var part [4]string
		for _, i := range []int{1, 2, 4} {
			if part[i-1], err = strconv.Unquote(f[i]); err != nil {
				t.Fatal(err)
			}
		}
		times, _ := strconv.Atoi(f[3])
		data := part[0] + strings.Repeat(part[1], times) + part[3]
		on, err := k.ParseEnabled([]byte(data))
		n, after := strconv.Itoa(len(data)), "0"
		if on {
			after = "1"
		}
		if errors.Is(err, syscall.EINVAL) {
			n, after = "EINVAL", f[0]
		}
		if n != f[5] || after != f[7] {
			t.Errorf("from %s, %.40q: got %s and %s, want %s and %s", f[0], data, n, after, f[5], f[7])
		}
	}
	if lines < 200 {
		t.Errorf("only %d lines", lines)
	}
}

// FuzzParseEnabled: the first byte determines the value, or the second one if the
// first is an o (kstrtobool).
func FuzzParseEnabled(f *testing.F) {
	for _, s := range []string{"", "1", "oN", "o", "no\n"} {
		f.Add([]byte(s))
	}
	k := newWorld(f).k
	f.Fuzz(func(t *testing.T, data []byte) {
		on, err := k.ParseEnabled(data)
		two := string(data[:min(2, len(data))])
		isOn := strings.ContainsAny(two[:min(1, len(two))], "1yYtT") || strings.EqualFold(two, "on")
		isOff := strings.ContainsAny(two[:min(1, len(two))], "0nNfF") || strings.EqualFold(two, "of")
		switch {
		case isOn || isOff:
			if err != nil || on != isOn {
				t.Errorf("%q: %v, %v", data, on, err)
			}
		case !errors.Is(err, syscall.EINVAL):
			t.Errorf("%q: %v, %v, want EINVAL", data, on, err)
		}
	})
}

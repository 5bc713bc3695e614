package kstrtox

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestParseUint(t *testing.T) {
	const all = uint64(math.MaxUint64)
	for _, c := range []struct {
		text  string
		base  uint64
		limit uint64
		want  uint64
		err   error
	}{
		{"0", 0, all, 0, nil},
		{"+7\n", 0, all, 7, nil},
		{"010", 0, all, 8, nil},
		{"010", 10, all, 10, nil},
		{"0x1F", 0, all, 31, nil},
		{"0X1f", 16, all, 31, nil},
		{"1f", 16, all, 31, nil},
		{"18446744073709551615", 0, all, all, nil},
		{"0xffffffffffffffff", 0, all, all, nil},
		{"255", 0, 255, 255, nil},
		{"300", 0, 255, 0, syscall.ERANGE},
		{"18446744073709551616", 10, all, 0, syscall.ERANGE},
		// An overflow is reported before the garbage after the number.
		{"18446744073709551616 x", 0, all, 0, syscall.ERANGE},
		{"0x1ffffffffffffffffg", 0, all, 0, syscall.ERANGE},
		{"18446744073709551615 x", 0, all, 0, syscall.EINVAL},
		{"300x", 0, 255, 0, syscall.EINVAL},
		{"", 0, all, 0, syscall.EINVAL},
		{"\n", 0, all, 0, syscall.EINVAL},
		{"+", 0, all, 0, syscall.EINVAL},
		{"-1", 0, all, 0, syscall.EINVAL},
		{"++1", 0, all, 0, syscall.EINVAL},
		{" 1", 0, all, 0, syscall.EINVAL},
		{"1\n\n", 0, all, 0, syscall.EINVAL},
		{"0x", 0, all, 0, syscall.EINVAL},
		{"08", 0, all, 0, syscall.EINVAL},
		{"0x10", 10, all, 0, syscall.EINVAL},
		{"\xb2", 0, all, 0, syscall.EINVAL},
	} {
		if got, err := ParseUint(c.text, c.base, c.limit); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q, base %d, limit %d: %d, %v; want %d, %v", c.text, c.base, c.limit, got, err, c.want, c.err)
		}
	}
}

func TestParseInt(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		err  error
	}{
		{"-1", -1, nil},
		{"-0x10\n", -16, nil},
		{"+5", 5, nil},
		{"9223372036854775807", math.MaxInt64, nil},
		{"9223372036854775808", 0, syscall.ERANGE},
		{"-9223372036854775808", math.MinInt64, nil},
		{"-9223372036854775809", 0, syscall.ERANGE},
		{"-+1", 0, syscall.EINVAL},
		{"--1", 0, syscall.EINVAL},
		{"-", 0, syscall.EINVAL},
		{"- 1", 0, syscall.EINVAL},
	} {
		if got, err := ParseInt(c.text, 0); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v; want %d, %v", c.text, got, err, c.want, c.err)
		}
	}
}

func TestFromUser(t *testing.T) {
	for _, c := range []struct {
		data string
		want uint64
		err  error
	}{
		{"12\n", 12, nil},
		{"12\x00 and more", 12, nil},
		{"010", 10, nil},
		{strings.Repeat("0", 65) + "1", 1, nil},
		{strings.Repeat("0", 66) + "x", 0, nil}, // the x is not looked at
		{strings.Repeat("0", 65) + "x", 0, syscall.EINVAL},
		{"0x1", 0, syscall.EINVAL},
		{"\x00", 0, syscall.EINVAL},
	} {
		if got, err := FromUser([]byte(c.data)); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %d, %v; want %d, %v", c.data, got, err, c.want, c.err)
		}
	}
}

// TestPrefixes compares the two functions that parse a number at the start of a text.
func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		text string
		want uint64
		rest string
		err  error // of LenientUint
	}{
		{"12@3", 12, "@3", nil},
		{"0x1fg", 31, "g", nil},
		{"0xg", 0, "xg", nil},
		{"0x", 0, "x", nil},
		{"08", 0, "8", nil},
		{"0778", 63, "8", nil},
		{"18446744073709551615,", math.MaxUint64, ",", nil},
		{"18446744073709551617/", 1, "/", syscall.ERANGE},
		{"", 0, "", syscall.EINVAL},
		{"+1", 0, "+1", syscall.EINVAL},
		{" 1", 0, " 1", syscall.EINVAL},
	} {
		if got, rest := SimpleUint(c.text, 0); got != c.want || rest != c.rest {
			t.Errorf("SimpleUint %q: %d, %q; want %d, %q", c.text, got, rest, c.want, c.rest)
		}
		got, n, err := LenientUint(c.text)
		if got != c.want || c.text[n:] != c.rest || !errors.Is(err, c.err) {
			t.Errorf("LenientUint %q: %d, %q, %v; want %d, %q, %v", c.text, got, c.text[n:], err, c.want, c.rest, c.err)
		}
	}
	if got, rest := SimpleUint("010z", 10); got != 10 || rest != "z" {
		t.Errorf("base 10: %d, %q", got, rest)
	}
}

// FuzzNumbers holds ParseUint against strconv, which has the same prefixes.
func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"", "0", "+1\n", "0x1F", "017", "08", "99999999999999999999", "0x1ffffffffffffffff z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseUint(s, 0, math.MaxUint64)
		digits := strings.TrimSuffix(strings.TrimPrefix(s, "+"), "\n")
		lower := strings.ToLower(digits)
		if strings.ContainsAny(digits, "_") || strings.HasPrefix(lower, "0b") || strings.HasPrefix(lower, "0o") {
			return // Go's own
		}
		want, wantErr := strconv.ParseUint(digits, 0, 64)
		if wantErr == nil && (err != nil || got != want) || wantErr != nil && err == nil {
			t.Errorf("%q: %d, %v; strconv: %d, %v", s, got, err, want, wantErr)
		}
		if wantErr == nil {
			if v, rest := SimpleUint(digits, 0); v != want || rest != "" {
				t.Errorf("SimpleUint %q: %d, %q", digits, v, rest)
			}
		}
	})
}

func TestParseBool(t *testing.T) {
	for text, want := range map[string]string{
		"1": "true", "y\n": "true", "Yes": "true", "true": "true", "T": "true", "on": "true", "oN": "true",
		"0": "false", "n": "false", "NO": "false", "false": "false", "oF": "false", "OFF\n": "false",
		"": "EINVAL", "o": "EINVAL", "op": "EINVAL", "2": "EINVAL", " 1": "EINVAL", "\x00": "EINVAL",
	} {
		on, err := ParseBool([]byte(text))
		got := fmt.Sprint(on)
		if errors.Is(err, syscall.EINVAL) {
			got = "EINVAL"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text  string
		strip string
		argv  []string
	}{
		{"", "", nil},
		{" \t\n", "", nil},
		{"a", "a", []string{"a"}},
		{"\xa0a\vb \r", "a\vb", []string{"a", "b"}},
		{" p:x  vfs_read\n", "p:x  vfs_read", []string{"p:x", "vfs_read"}},
		{"\u00e9", "\u00e9", []string{"\u00e9"}},
		{"\xe0\xa0", "\xe0", []string{"\xe0"}}, // bytes are Latin-1, also UTF-8's
	} {
		if got := Strip(c.text); got != c.strip {
			t.Errorf("Strip %q: %q, want %q", c.text, got, c.strip)
		}
		if got := ArgvSplit(c.text); !slices.Equal(got, c.argv) {
			t.Errorf("ArgvSplit %q: %q, want %q", c.text, got, c.argv)
		}
	}
	for data, want := range map[string]string{"": "", "a\x00b": "a", "\x00": "", "ab": "ab"} {
		if got := CString([]byte(data)); got != want {
			t.Errorf("CString %q: %q, want %q", data, got, want)
		}
	}
	alpha := ""
	for c := range 256 {
		if IsAlpha(byte(c)) {
			alpha += string(rune(c))
		}
	}
	want := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" +
		"ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
	if alpha != want {
		t.Errorf("isalpha: %s, want %s", alpha, want)
	}
}

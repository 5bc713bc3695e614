package proc

import "testing"

// TestParseMapping: a line is taken apart, also one with blanks in its path, and others are refused.
func TestParseMapping(t *testing.T) {
	for line, want := range map[string]Mapping{
		"1000-2000 r-xp 00003000 fd:01 42                         /a  file (deleted)\n": {0x1000, 0x2000, 0x3000, "r-xp", "fd:01", 42, "/a  file (deleted)"},
		"7ffd0000-7ffd1000 r-xp 00000000 00:00 0                  [vdso]\n":             {0x7ffd0000, 0x7ffd1000, 0, "r-xp", "00:00", 0, "[vdso]"},
		"0-1 ---s 00000000 00:00 0 \n":                                                  {0, 1, 0, "---s", "00:00", 0, ""},
	} {
		if got, ok := ParseMapping(line); !ok || got != want {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
	for _, line := range []string{"", "1000-2000 r-xp 0 00:00", "1000 r-xp 0 00:00 0", "x-2000 r-xp 0 00:00 0", "1-2 rx 0 00:00 0", "1-2 r-xp 0 00:00 -1"} {
		if _, ok := ParseMapping(line); ok {
			t.Errorf("%q is taken for one", line)
		}
	}
}

package filter

import (
	"encoding/binary"
	"errors"
	"reflect"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/field"
)

// fields are the members of the entry of hit.
var fields = Fields(field.Members([]field.Field{
	field.New("u64 n", 8, 8, false), field.New("s8 small", 16, 1, true), field.New("char s[7]", 17, 7, true),
	field.New("__data_loc char[] path", 24, 4, true), field.New("u16 list[2]", 28, 4, false), field.New("const char * p", 32, 8, false),
}))

func hit() *Subject {
	entry := make([]byte, 40, 60)
	binary.LittleEndian.PutUint32(entry[4:], 43)
	binary.LittleEndian.PutUint64(entry[8:], 1<<63)
	entry[16] = 0xfe
	copy(entry[17:], "short")
	field.PutDataLoc(entry[24:], 40, 9)
	return &Subject{Entry: append(entry, "/dev/nul\x00"...), CPU: 1, Comm: &[abi.TaskCommLen]byte{'c', 'a', 't'}}
}

func TestPasses(t *testing.T) {
	s := hit()
	for text, want := range map[string]bool{
		"n == 0x8000000000000000": true, "n > 0": true, "n < 0x8000000000000000": false, "n & 1": false,
		"small == -2": true, "small < 0": true, "small == 254": true, "common_pid >= 43": true,
		`s == "short"`: true, `s ~ "sh*"`: true, `s ~ "*ort"`: false, `s != "shor"`: true,
		`path ~ "/dev/*"`: true, `path == "/dev/null"`: false, `path ~ "*nul"`: true, `path ~ "!*x*"`: true,
		"list == 1": false, "list != 1": true,
		`p == "x"`: false, `p != "x"`: false, // without memory from which to read the string
		"CPU == 1": true, "cpu != 1": false, "common_cpu < 0": false, `COMM == "cat"`: true, `comm ~ "c?t"`: true,
		"!n == 0 && (small == 1 || small == -2)": true, "!(CPU == 1 && n == 1) || n == 0": true,
	} {
		f, err := new(Rules).Parse(text, fields)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Passes(s); got != want || f.Text != text {
			t.Errorf("%s: %v, shows %s", text, got, f.Text)
		}
	}
	var none *Filter
	if !none.Passes(s) {
		t.Error("no filter lets nothing pass")
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]Error{
		"bogus == 1":                {"Field not found", 6, syscall.EINVAL},
		"n == ":                     {"Invalid value (did you forget quotes)?", 6, syscall.EINVAL},
		"n":                         {"Invalid operator", 2, syscall.EINVAL},
		`n == "x"`:                  {"Expecting numeric field", 6, syscall.EINVAL},
		"s == 1":                    {"Expecting string field", 6, syscall.EINVAL},
		"n == 1 &&":                 {"Meaningless filter expression", 9, syscall.EINVAL},
		"(n == 1":                   {"Too many '('", 0, syscall.Errno(2)},
		"n == 1)":                   {"Too few '('", 6, syscall.Errno(1)},
		`s == "x`:                   {"Missing matching quote", 5, syscall.Errno(3)},
		"":                          {errorOnly, 0, syscall.EINVAL},
		"n == 1 n == 2":             {"Too many terms in predicate expression", 7, syscall.Errno(1)},
		"n == 99999999999999999999": {"Illegal integer value", 6, syscall.EINVAL},
	} {
		_, err := new(Rules).Parse(text, fields)
		if err == nil || *err != want || !errors.Is(err, want.Errno) {
			t.Errorf("%q: %v, want %v", text, err, &want)
			continue
		}
		if f := Refused(text, err); !f.Passes(hit()) || f.Text == text {
			t.Errorf("%q, refused, does not let all pass, or shows %q", text, f.Text)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, name             string
		covers, matches, openEnds bool
	}{
		{"vfs_*", "vfs_read", true, true, true},
		{"*read*", "vfs_read", true, true, true},
		{"*read", "vfs_read", true, true, false},
		{"vfs_read", "vfs_read", true, true, false},
		{"!vfs_*", "vfs_read", true, false, true},
		{"v*d", "vfs_read", true, true, false},
		{"vfs", "vfs_read", false, false, false},
	} {
		p := NewPattern(c.pattern)
		if got := p.Covers([]byte(c.name)); got != c.covers || p.Matches([]byte(c.name)) != c.matches || p.OpenEnd() != c.openEnds {
			t.Errorf("%q and %q: %v, %v, %v", c.pattern, c.name, got, p.Matches([]byte(c.name)), p.OpenEnd())
		}
	}
}

// TestFunctions has what Linux 6.1 answers to filters of ftrace:function
// (mirror_perf_functions), and what is_or makes of others.
func TestFunctions(t *testing.T) {
	ip := Fields{"ip": fields["n"], "parent_ip": fields["n"]}
	for text, want := range map[string][]FunctionTerm{
		"ip == a":                         {{false, []string{"a"}}},
		"((ip!=a,b* c ))":                 {{true, []string{"a", "b*", "c"}}},
		"ip == a || ip == b || ip != c":   {{false, []string{"a"}}, {false, []string{"b"}}, {true, []string{"c"}}},
		"ip == a && (ip == b && ip == c)": {{false, []string{"a"}}, {false, []string{"b"}}, {false, []string{"c"}}},
		"ip == a || ip == b && ip == c":   {{false, []string{"a"}}, {false, []string{"b"}}, {false, []string{"c"}}},
		"ip == a && (ip == b || ip == c)": {{false, []string{"a"}}, {false, []string{"b"}}, {false, []string{"c"}}},
	} {
		got, err := new(Rules).ParseFunctions(text, ip)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]syscall.Errno{
		"ip == a && ip == b || ip == c": syscall.EINVAL, "(ip == a || ip == b) && ip == c": syscall.EINVAL,
		"!(ip == a)": syscall.EINVAL, "ip ~ a": syscall.EINVAL, "ip > 5": syscall.EINVAL, "ip ==": syscall.EINVAL, "ip": syscall.EINVAL,
		"parent_ip == a": syscall.EINVAL, "COMM == a": syscall.EINVAL, "": syscall.EINVAL, "ip == a ||": syscall.EINVAL,
		`ip == "a"`: 1, `ip ~ "a"`: 1, "ip == a | ip == b": 1, "ip == a)": 1, "(ip == a": 2, "ip == 'a": 3,
	} {
		if got, err := new(Rules).ParseFunctions(text, ip); err == nil || err.Errno != want {
			t.Errorf("%s: %v, %v, want errno %d", text, got, err, want)
		}
	}
}

// FuzzParse: a text is refused with an errno, or the filter can be applied to entries
// of any length.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`COMM == "cat" && (CPU == 0 || !common_pid < -5)`, "((((", `s ~ "[!a-"`, "0", "! =", "(ip == a,b || ip != c*)", "n && || b", `path ~ "*x*"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := hit()
		parsed, err := new(Rules).Parse(text, fields)
		if err != nil {
			if err.Errno == 0 {
				t.Errorf("%q: %v", text, err)
			}
			parsed = Refused(text, err)
		}
		if terms, err := new(Rules).ParseFunctions(text, Fields{"ip": fields["n"]}); err == nil && len(terms) == 0 || err != nil && err.Errno == 0 {
			t.Errorf("%q as a filter of functions: %v, %v", text, terms, err)
		}
		parsed.Passes(s)
		s.Entry = s.Entry[:40]
		parsed.Passes(s)
	})
}

// someSymbols are a function of 16 bytes and nothing else.
type someSymbols struct{}

func (someSymbols) LookupName(name string) []abi.Symbol {
	if name == "schedule" {
		return []abi.Symbol{{Addr: 1 << 63, Size: 16, Name: name}}
	}
	return nil
}

func (someSymbols) Lookup(addr uint64) (abi.Symbol, uint64, bool) {
	return abi.Symbol{Addr: 1 << 63, Size: 16}, addr - 1<<63, addr-1<<63 < 16
}

// TestForms: FIELD.function and CPUS{LIST} of Linux 6.12, with two CPUs.
func TestForms(t *testing.T) {
	rules := &Rules{UserStrings: true, Symbols: someSymbols{}, CPUs: 2}
	s := hit()
	for text, want := range map[string]bool{
		"n.function == schedule": true, "n.function != schedule": false,
		"n.function==0x8000000000000005": true, "n.function == schedule && CPU == 1": true,
		"CPU & CPUS{0}": false, "CPU & CPUS{1}": true, "CPU == CPUS{1}": true, "CPU != CPUS{1}": false,
		"CPU == CPUS{0-1}": false, "CPU != CPUS{0-1}": true, "CPU&CPUS{0-1}": true, "CPU & CPUS{,}": false,
		"common_pid & CPUS{0-1}": false, "common_pid != CPUS{0-1}": false, "common_pid != CPUS{0}": true,
		`s.ustring == "short"`: true, `p.ustring ~ "x*"`: false,
	} {
		f, err := rules.Parse(text, fields)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := f.Passes(s); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, want := range map[string]Error{
		"n.function == nosuch":       {"Function not found", 21, syscall.EINVAL},
		"n.function == 5":            {"Function not found", 16, syscall.EINVAL},
		"n.function == 1g":           {"Invalid value (did you forget quotes)?", 17, syscall.EINVAL},
		"n.function < schedule":      {"Invalid operator", 14, syscall.EINVAL},
		"n.functions == schedule":    {"Invalid operator", 11, syscall.EINVAL},
		"small.function < nosuch":    {"Illegal operation for field type", 18, syscall.EINVAL},
		"CPU.function == schedule":   {"Illegal operation for field type", 17, syscall.EINVAL},
		"(n.function == schedule) ":  {"Function not found", 25, syscall.EINVAL},
		"CPU & CPUS{}":               {"Invalid cpulist", 12, syscall.EINVAL},
		"CPU & CPUS{0-3}":            {"Invalid cpulist", 15, syscall.EINVAL},
		"CPU & CPUS {0}":             {"Missing '{'", 12, syscall.EINVAL},
		"CPU & CPUS{0,1 && CPU == 1": {"Missing '}'", 27, syscall.EINVAL},
		"CPU > CPUS{0}":              {"Illegal operation for field type", 7, syscall.EINVAL},
		"COMM == CPUS":               {"Illegal operation for field type", 9, syscall.EINVAL},
		"CPU & CPUS{0}x":             {"Too many terms in predicate expression", 13, syscall.Errno(1)},
		`n.ustring == "schedule"`:    {"Expecting numeric field", 14, syscall.EINVAL},
	} {
		if _, err := rules.Parse(text, fields); err == nil || *err != want {
			t.Errorf("%q: %v, want %v", text, err, &want)
		}
	}
	if _, err := new(Rules).Parse("n.function == schedule", fields); err == nil || err.Text != "Invalid operator" {
		t.Errorf("without functions: %v", err)
	}
}

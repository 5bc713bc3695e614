package release

import (
	"slices"
	"testing"
)

// TestVersions: the releases by their names, in order; the zero Version is 6.1.
func TestVersions(t *testing.T) {
	var got []string
	for _, v := range Versions {
		got = append(got, v.String())
	}
	if want := []string{"2.6.25", "2.6.32", "4.15", "5.10", "6.1", "6.12"}; !slices.Equal(got, want) || !slices.IsSorted(Versions) {
		t.Errorf("%q, want %q", got, want)
	}
	var zero Version
	if zero.String() != "6.1" || zero.Set() != Linux6_1.Set() || Trampoline.Of(zero) != Trampoline.Of(Linux6_1) {
		t.Errorf("the zero Version is %s", zero)
	}
}

// checkSince checks the versions of a row. The first release that shows a change of Linux
// is the oldest one that is not older than the change.
func checkSince(t *testing.T, what string, since, linux Version) {
	t.Helper()
	i := slices.Index(Versions, since)
	switch {
	case i < 0:
		t.Errorf("%s: %s is no release", what, since)
	case linux != 0 && (linux > since || i > 0 && linux <= Versions[i-1]):
		t.Errorf("%s: Linux %s, but the first release that shows it is %s", what, linux, since)
	}
}

// TestChanges: each row is complete. The oldest release has no feature, and of those that
// were observed on 5.10 only it has the old behaviour, unless a document has it, too.
func TestChanges(t *testing.T) {
	for i, c := range Changes {
		f := Feature(i)
		if c.Subject == "" || c.What == "" || c.Source == "" {
			t.Errorf("feature %d: %+v", i, c)
		}
		checkSince(t, c.What, c.Since, c.Linux)
		if c.Since == Versions[0] {
			t.Errorf("%s: all releases do it", c.What)
		}
		if c.Documented && c.Since != Linux6_1 {
			t.Errorf("%s: Documented has no meaning for a change of %s", c.What, c.Since)
		}
		for _, v := range Versions {
			want := v >= c.Since
			if c.Since == Linux6_1 && v < Linux5_10 {
				want = !c.Documented
			}
			if got := v.Has(f); got != want || v.Set()[f] != want {
				t.Errorf("%s: on %s %v, want %v", c.What, v, got, want)
			}
		}
	}
}

// TestValues: the rows of a value are in order, and each differs from the one before.
func TestValues(t *testing.T) {
	rows := Values()
	for _, r := range rows {
		if r.Subject == "" || r.What == "" || r.Source == "" || len(r.By) < 2 {
			t.Errorf("%+v", r)
		}
		for i, at := range r.By {
			checkSince(t, r.What, at.Since, at.Linux)
			if i > 0 && (at.Since <= r.By[i-1].Since || at.Value == r.By[i-1].Value) {
				t.Errorf("%s: %v after %v", r.What, at, r.By[i-1])
			}
		}
	}
	for v, want := range map[Version]string{Linux2_6_25: "_printk", Linux5_10: "new", Linux4_15: "_printk", Linux6_1: "_printk", Linux6_12: "_printk"} {
		x := Value[string]{By: []At[string]{{Linux5_10, "new", 0}, {Linux6_1, "_printk", 0}}}
		if got := x.Of(v); got != want {
			t.Errorf("on %s %q, want %q", v, got, want)
		}
	}
}

// TestRename: the functions that have other names than in 6.1.
func TestRename(t *testing.T) {
	for v, want := range map[Version]map[string]string{
		Linux2_6_25: {"do_execveat_common.isra.0": "do_execve", "kretprobe_rethook_handler": "trampoline_probe_handler", "exc_page_fault": "do_page_fault", "_printk": "printk"},
		Linux5_10: {
			"arch_rethook_trampoline": "kretprobe_trampoline", "arch_rethook_trampoline_callback": "trampoline_handler",
			"rethook_trampoline_handler": "__kretprobe_trampoline_handler", "_printk": "printk",
		},
		Linux6_1:  {},
		Linux6_12: {},
	} {
		got := Rename(v)
		if len(got) != len(want) {
			t.Errorf("%s: %q, want %q", v, got, want)
		}
		for from, to := range want {
			if got[from] != to {
				t.Errorf("%s: %s is %q, want %q", v, from, got[from], to)
			}
		}
	}
}

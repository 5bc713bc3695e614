package verdicts

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reason is a line of differences.txt or guestonly.txt.
type reason struct {
	releases, names *regexp.Regexp
	line            string
	needed          bool
}

// reasons reads such a file.
func reasons(t *testing.T, file string) (all []*reason) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] == "" || f[0][0] == '#' {
			continue
		}
		if len(f) != 3 || f[2] == "" {
			t.Fatalf("%s: %q is not releases, names and a reason", file, line)
		}
		all = append(all, &reason{releases: regexp.MustCompile("^(" + f[0] + ")$"), names: regexp.MustCompile("^(" + f[1] + ")$"), line: line})
	}
	return all
}

// find reports whether there is a reason for a name, and notes that it is needed.
func find(all []*reason, release, name string) bool {
	i := slices.IndexFunc(all, func(r *reason) bool { return r.releases.MatchString(release) && r.names.MatchString(name) })
	if i < 0 {
		return false
	}
	all[i].needed = true
	return true
}

// TestGuest asks the guest of each release for a probe and a return probe at the entry of
// each of its functions, and compares with what Linux answered. A difference has a reason in
// differences.txt, a function that Linux does not have one in guestonly.txt.
func TestGuest(t *testing.T) {
	differences, only := reasons(t, "differences.txt"), reasons(t, "guestonly.txt")
	for _, release := range Releases {
		t.Run(release, func(t *testing.T) { testGuest(t, release, differences, only) })
	}
	for _, r := range slices.Concat(differences, only) {
		if !r.needed && !t.Failed() {
			t.Errorf("not needed any more: %s", r.line)
		}
	}
}

// mostAlone is how many functions of a release may be the guest's only. It goes down, but for what mirrors the host (host_dentry was the last).
var mostAlone = map[string]int{"5.10": 618, "6.1": 501, "6.12": 616}

func testGuest(t *testing.T, release string, differences, only []*reason) {
	want, err := Read(release)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Boot(release)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}()
	names, err := Functions(k)
	if err != nil {
		t.Fatal(err)
	}
	got, err := AskGuest(k, names)
	if err != nil {
		t.Fatal(err)
	}
	alone := 0
	for _, name := range names {
		w, asked := want.Functions[name]
		if asked && w == nil {
			alone++
		}
		switch {
		case !asked: // "make check" fails then
			t.Logf("%s: Linux has not been asked: make verdicts", name)
		case w == nil && !find(only, release, name):
			t.Errorf("%s: Linux has no such function, and guestonly.txt no reason", name)
		case w != nil && *w != got[name] && !find(differences, release, name):
			t.Errorf("%s: [%s], on Linux [%s]", name, got[name], w)
		}
	}
	t.Logf("%d functions only the guest has", alone)
	if alone > mostAlone[release] {
		t.Errorf("%d functions that Linux does not have, which are more than %d", alone, mostAlone[release])
	}
}

// TestWriteParse reads the recordings and writes them again.
func TestWriteParse(t *testing.T) {
	for _, release := range Releases {
		file, err := files.ReadFile(release + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		table, err := Parse(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := table.Write(&b); err != nil {
			t.Fatal(err)
		}
		if b.String() != string(file) {
			t.Errorf("the recording of %s is not what Write writes of it", release)
		}
		taken := 0
		for _, v := range table.Functions {
			if v != nil && *v == (Verdict{}) {
				taken++
			}
		}
		if taken < 2000 || table.Kernel == "" {
			t.Errorf("%s: only %d functions take all probes, on %q", release, taken, table.Kernel)
		}
	}
	if _, err := Parse(strings.NewReader("vfs_read EINVAL\n")); err == nil {
		t.Error("a line without all verdicts is parsed")
	}
}

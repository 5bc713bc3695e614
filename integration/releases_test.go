package integration

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// releases are the releases other than 6.1 on which all scripts were recorded.
var releases = [...]string{"5.10", "6.12"}

// A difference is a script whose output here, as another release, is 6.1's
// instead of that release's. docs/reference/differences.md lists it too.
type difference struct {
	why string
	// is reports whether the difference exists on this machine. If nil, it exists on
	// all.
	is func(t *testing.T) bool
}

// asDefault are these scripts, by release. They are compared with what 6.1 printed,
// so that the test fails when a script prints anything else, even what that release
// prints, and must be removed here.
var asDefault = map[string]map[string]difference{
	"5.10": {
		"activity_kill":      {"kill(2) does not come by kill_pid_info there", nil},
		"dd_directory":       {"a host's kernel of 6.4 and newer refuses the flags before we are asked", hostRefusesDirectory},
		"events_far_symbols": {"5.10 has the one function and not the other, our guest the other way round", nil},
		"mirror_answered":    {"do_syslog is joined with the system call in Debian's 5.10, and a function in the guest", nil},
		"mirror_perf":        {"struct perf_event_attr is shorter there, and a group that was closed reads otherwise", nil},
		"mirror_splice_pipe": {"after a read of a part of a line, a splice gives some of it again there", nil},
	},
	"6.12": {
		"activity_kill": {"kill(2) does not come by kill_pid_info there", nil},
		"mirror_close":  {"close(2) does not come by close_fd there", nil},
		"mirror_names":  {"struct file has other places for its fields there", nil},
		"mirror_perf":   {"struct perf_event_attr is longer there", nil},
	},
}

// hostRefusesDirectory reports whether this machine's kernel refuses to create a
// directory by open(2) before it looks the name up, as since 6.4.
func hostRefusesDirectory(t *testing.T) bool {
	fd, err := unix.Open("/dev/null", unix.O_CREAT|unix.O_DIRECTORY, 0)
	if err == nil {
		unix.Close(fd)
	}
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTDIR) {
		t.Fatalf("open of /dev/null as a new directory: %v", err)
	}
	return errors.Is(err, unix.EINVAL)
}

// expected returns the case with the output expected here.
func expected(t *testing.T, c *Case) *Case {
	d, differs := asDefault[c.Release][c.Name]
	if !differs || d.is != nil && !d.is(t) {
		return c
	}
	t.Logf("%s of %s is as 6.1: %s", c.Name, c.Release, d.why)
	as := *c
	as.Want, as.Status = c.Default.Want, c.Default.Status
	return &as
}

// releaseScripts is which of the scripts are played as another release: one of so many of
// those that print something else than on 6.1, and as many of those that print the same;
// others for each release and each commit.
const releaseScripts = 5

// TestReleases runs a part of the scripts as other releases, or all if KPROBEFS_SOAK is set,
// and compares with what these releases of Linux printed.
func TestReleases(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	_, masks := cases(t)
	for i, release := range releases {
		t.Run(release, func(t *testing.T) {
			all, err := LoadRelease("testdata", release)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("KPROBEFS_SOAK") == "" {
				all = oneOf(releaseScripts, i, all, (*Case).AsDefault)
				all = oneOf(releaseScripts, i, all, func(c *Case) bool { return !c.AsDefault() })
			}
			for i, c := range all {
				all[i] = expected(t, c)
			}
			play(t, nil, nil, sample(t, 8, all), masks)
		})
	}
}

// TestReleasesRecorded: each script has one recording of each release, and recordings
// are masked.
func TestReleasesRecorded(t *testing.T) {
	_, masks := cases(t)
	page, err := os.ReadFile("../docs/reference/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, release := range releases {
		all, err := LoadRelease("testdata", release)
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]*Case{}
		for _, c := range all {
			byName[c.Name] = c
			if c.Kernel == "" {
				t.Errorf("%s of %s: not recorded: golden -release %s record %s", c.Name, release, release, c.Name)
			}
			if got := Apply(masks, c.Want); got != c.Want {
				t.Errorf("%s of %s: want is not masked:\n%s", c.Name, release, diff(c.Want, got))
			}
			if _, err := os.Stat(c.File); err == nil && c.AsDefault() {
				t.Errorf("%s of %s: stored twice: golden -release %s fold", c.Name, release, release)
			}
		}
		for name := range asDefault[release] {
			if !strings.Contains(string(page), "("+name+")") {
				t.Errorf("docs/reference/differences.md does not name %s", name)
			}
			c := byName[name]
			if c == nil || c.Default == nil {
				t.Errorf("%s of %s is said to be as 6.1: there is no such script of both", name, release)
			} else if c.Want == c.Default.Want {
				t.Errorf("%s of %s is said to differ from 6.1: it is recorded as the same", name, release)
			}
		}
	}
}

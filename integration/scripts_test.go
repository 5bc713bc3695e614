package integration

import (
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rootOnly are the scripts that cannot run in an ordinary user's namespace, because
// the host's kernel refuses a call before it reaches a file of kprobefs.
var rootOnly = map[string]string{
	"mirror_change":         "it gives files to other users",
	"inherited_owners":      "the same",
	"mirror_splice_pipe":    "it changes the mode of a file of root",
	"mirror_perf":           "it changes the mode of a file of root",
	"mirror_perf_probes":    "the same",
	"mirror_perf_functions": "the same",
	"mount_options":         "it gives files to other users",
	"access":                "needs a second user",
	"access_matrix":         "needs a second user",
	"debugfs_open":          "needs a second user",
	"fd_other_user":         "needs a second user",
	"kptr_user":             "needs a second user",
	"modes":                 "chown to a user that the namespace does not have",
}

func cases(t *testing.T) ([]*Case, []Mask) {
	t.Helper()
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("%d scripts in testdata, want at least 30", len(cases))
	}
	return cases, masks
}

// TestScripts runs each script below "kprobefs exec" and compares its output with
// Linux's.
func TestScripts(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	all, masks := cases(t)
	var skip map[string]string
	if !Mappable() {
		skip = map[string]string{"mirror_perf": "the rings of perf need Linux 5.9", "mirror_perf_probes": "the same", "mirror_perf_functions": "the same"}
	}
	play(t, nil, skip, sample(t, 6, all), masks)
}

// asksUser finds in a script what an ordinary user may do otherwise than root.
var asksUser = regexp.MustCompile(`\b(chmod|chown|id|uid|gid|mknod|mount|umount|umask|kill|ulimit|insmod|rmmod|modprobe|unshare|dmesg|kmsg|setpriv|su)\b|test -[rwx]`)

// otherScripts is which of the other scripts an ordinary user plays: one of so many. The
// files ask who the caller is in few places, and to play all scripts again takes minutes.
const otherScripts = 8

// TestScriptsUser does the same as an ordinary user in a user namespace, with the scripts
// that ask for what depends on the user and with a part of the others, or with all of them
// if KPROBEFS_SOAK is set.
func TestScriptsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestScripts runs as an ordinary user already")
	}
	needFUSE(t)
	needBusybox(t)
	user := ordinary(t)
	all, masks := cases(t)
	if os.Getenv("KPROBEFS_SOAK") == "" {
		all = oneOf(otherScripts, 0, all, func(c *Case) bool { return !asksUser.MatchString(c.Script) })
	}
	skip := maps.Clone(rootOnly)
	if hostTraces(t) {
		skip["filesystems"] = "the host's own tracefs or debugfs lies below ours, where an ordinary user cannot unmount it, and lists show both"
	}
	play(t, user, skip, sample(t, 12, all), masks)
}

// hostTraces says whether the host has a file system of its own where ours are mounted.
func hostTraces(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^\S+ /sys/kernel/(debug|tracing) `).Match(b)
}

// sample leaves one of n scripts where a part of each kind of test is wanted (-short), others for
// each commit. It says how many it has left out, as a subtest that is skipped.
func sample(t *testing.T, n int, all []*Case) []*Case {
	t.Helper()
	if !testing.Short() {
		return all
	}
	total := len(all)
	all = oneOf(n, 0, all, func(*Case) bool { return true })
	t.Run("others", func(t *testing.T) { t.Skipf("%d of %d scripts are left to make test-all", total-len(all), total) })
	return all
}

// needTime skips a test that takes longer than a part of each kind of test should (-short).
func needTime(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long for its kind: left to make test-all")
	}
}

// oneOf leaves of the cases for which of returns true every n-th: others for each value of
// first, and for each commit, which make says in KPROBEFS_COMMIT.
func oneOf(n, first int, all []*Case, of func(*Case) bool) []*Case {
	h := fnv.New32a()
	_, _ = h.Write([]byte(os.Getenv("KPROBEFS_COMMIT")))
	first = (first + int(h.Sum32()>>1)) % n
	i := -1
	return slices.DeleteFunc(all, func(c *Case) bool {
		if !of(c) {
			return false
		}
		i++
		return i%n != first
	})
}

// play runs all scripts, as many at a time as there are processors.
func play(t *testing.T, user asUser, skip map[string]string, all []*Case, masks []Mask) {
	t.Cleanup(func() { noMountsLeft(t) }) // when all have ended
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if why := skip[c.Name]; why != "" {
				t.Skip(why)
			}
			playOne(t, c, user, masks)
		})
	}
}

// interruptedAgain is how often a script is played again in which a call was interrupted.
const interruptedAgain = 3

func playOne(t *testing.T, c *Case, user asUser, masks []Mask) {
	if os.Getuid() != 0 && rootOnly[c.Name] != "" {
		t.Skip(rootOnly[c.Name])
	}
	if c.Kernel == "" {
		t.Fatal("not recorded: make golden")
	}
	out, status := run(t, c, user)
	for range interruptedAgain {
		// A difference that docs/reference/differences.md names: a call may be interrupted before
		// the supervisor has received its notification, if that may not run at once (SCHED_FIFO).
		if Apply(masks, out) == c.Want || !strings.Contains(out, "Interrupted system call") {
			break
		}
		t.Logf("again, since a call was interrupted:\n%s", out)
		out, status = run(t, c, user)
	}
	if got := Apply(masks, out); got != c.Want {
		t.Errorf("%sLinux (-) and kprobefs (+) differ:\n%s", c.Comment, diff(c.Want, got))
	}
	if status != c.Status {
		t.Errorf("exit status %d, on Linux %d", status, c.Status)
	}
}

// run plays a script, and returns what it prints and its exit status.
func run(t *testing.T, c *Case, user asUser) (string, int) {
	t.Helper()
	dir := publicDir(t)
	put(t, dir, "script", c.Script)
	put(t, dir, "lib.sh", Lib())
	if err := c.BuildProgram(); err != nil {
		t.Fatal(err)
	}
	for name, b := range c.Files {
		put(t, dir, name, string(b))
	}
	tmp := "TMPDIR=" + publicDir(t) // /tmp may not be accessible to the user
	flags := []string{"--cpus", "2"}
	if c.Release != "" {
		flags = append(flags, "--release", c.Release)
	}
	// Scripts say the same with either, except for those about calls: 6.1's are played
	// with the default, all, the others with changes.
	if c.Release != "" && !strings.HasPrefix(c.Name, "mirror_") {
		flags = append(flags, "--mirror", "changes")
	}
	return user.exec(t, dir, []string{tmp}, flags, "busybox", "sh", "script")
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// diff returns the lines that differ, each below the script's command that printed
// it.
func diff(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// TestRecorded: all recordings are masked and name their kernel, and all scripts have
// a description.
func TestRecorded(t *testing.T) {
	all, masks := cases(t)
	for _, c := range all {
		if got := Apply(masks, c.Want); got != c.Want {
			t.Errorf("%s: want is not masked:\n%s", c.Name, diff(c.Want, got))
		}
		if c.Kernel == "" {
			t.Errorf("%s: names no kernel", c.Name)
		}
		if strings.TrimSpace(c.Comment) == "" {
			t.Errorf("%s: does not say what it shows", c.Name)
		}
	}
}

func TestMasks(t *testing.T) {
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, in, want string }{
		{"list", "ffffffff813669e5  k  vfs_read+0x5    [OPTIMIZED]\n", "ADDR  k  vfs_read+0x5    [OPTIMIZED]\n"},
		{"module", "ffffffffc0201020  k  m+0x0  kpt [FTRACE]\n", "ADDR  k  m+0x0  kpt [FTRACE]\n"},
		{"hidden", "0000000000000000  k  vfs_read+0x0    \n", "0000000000000000  k  vfs_read+0x0    \n"},
		{
			"trace", "             cat-127     [000] ..Zff     2.627130: a: (vfs_read+0x5/0x310)\n",
			"             cat-PID [CPU] ..Zff TIME: a: (vfs_read+0x5/SIZE)\n",
		},
		{
			"return", "  cat-7       [001] .....    12.627130: r: (ksys_read+0x67/0xe0 <- vfs_read)\n",
			"  cat-PID [CPU] ..... TIME: r: (ksys_read+OFF/SIZE <- vfs_read)\n",
		},
		{"hashes", "p:kprobes/p_0x0000000065b61442 0x0000000005b61442 ptr=00000000c0065b61\n", "p:kprobes/p_0xHASH 0xHASH ptr=HASH\n"},
		{"not hashes", "/bin/a:0x0000000000000104 ptr=0000000000000000 (____ptrval____)\n", "/bin/a:0x0000000000000104 ptr=0000000000000000 (____ptrval____)\n"},
		{"error_log", "[    7.496355] trace_kprobe: error: x\n", "[TIME] trace_kprobe: error: x\n"},
		{"errno and count", "sh: write error: Invalid argument\n[rc=1]\n  a   11   0\n", "sh: write error: Invalid argument\n[rc=1]\n  a   11   0\n"},
		{"no newline", "1", "1\n"},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Apply(masks, tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestParseMasks(t *testing.T) {
	for _, tt := range []struct{ name, in string }{
		{"no arrow", "abc"},
		{"bad regexp", "( => x"},
		{"too many", strings.Repeat("a => b\n", maxMasks+1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseMasks(tt.in); err == nil {
				t.Error("no error")
			}
		})
	}
}

// TestSaved: the cases are written as they were read, byte for byte.
func TestSaved(t *testing.T) {
	all, _ := cases(t)
	for _, c := range all {
		was, err := os.ReadFile(c.File)
		if err != nil {
			t.Fatal(err)
		}
		c.File = filepath.Join(t.TempDir(), c.Name)
		if err := c.Save(); err != nil {
			t.Fatal(err)
		}
		if now, err := os.ReadFile(c.File); err != nil || string(now) != string(was) {
			t.Errorf("%s, %v:\n%s", c.Name, err, diff(string(was), string(now)))
		}
	}
}

// TestShortSaysSo: no test of this package does less with -short but by sample and needTime, which
// say what is left out by a subtest or a test that is skipped: CI plays just these later
// (internal/tools/passed).
func TestShortSaysSo(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if file == "scripts_test.go" {
			want = 2
		}
		if got := strings.Count(string(text), "testing."+"Short()"); got != want {
			t.Errorf("%s asks %d times for -short, want %d: use sample or needTime", file, got, want)
		}
	}
}

package testns

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

// TestMain_private: a mount is possible, also for an ordinary user, and is not seen
// in the namespace of the process that started the tests.
func TestMain_private(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("unshare", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	outside, err := os.ReadFile("/proc/" + parent() + "/mountinfo")
	if err != nil {
		t.Skip(err)
	}
	if strings.Contains(string(outside), dir) {
		t.Error("the mount is seen outside")
	}
}

// parent returns the PID of the parent process, which is outside of the namespace.
func parent() string {
	stat, _ := os.ReadFile("/proc/self/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)[1]
}

// TestWithoutNamespace: without a namespace each test is reported as skipped; in CI this is a
// failure.
func TestWithoutNamespace(t *testing.T) {
	t.Setenv("CI", "")
	var out strings.Builder
	if status := without(&out, errors.New("none here")); status != 0 {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"--- SKIP: TestWithoutNamespace (0.00s)\n", "--- SKIP: TestMain_private", "none here", "\nPASS\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	t.Setenv("CI", "true")
	if status := without(&out, errors.New("none here")); status != 1 {
		t.Errorf("in CI the status is %d", status)
	}
}

package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// locksVar tells the test binary to play the steps of package locking on the two
// mounts given as arguments. testdata/locks.txt was made on Linux by
//
//	CGO_ENABLED=0 go test -c -o locks.test ./integration
//	linux-run -d locks.test SCRIPT
//
// where SCRIPT is: mkdir /tmp/d; mount -t debugfs d /tmp/d;
// KPROBEFS_INTEGRATION_LOCKS=1 ./locks.test /sys/kernel/debug /tmp/d
const locksVar = "KPROBEFS_INTEGRATION_LOCKS"

// TestLocks plays the steps on kprobefs's files, seen through two mounts.
func TestLocks(t *testing.T) {
	needTime(t)
	needFUSE(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/locks.txt")
	if err != nil {
		t.Fatal(err)
	}
	out, status := asUser(nil).kprobefs(t, publicDir(t), []string{locksVar + "=1"}, 2,
		"sh", "-c", `exec "$0" /sys/kernel/debug "$KPROBEFS_MNT"`, self)
	if status != 0 {
		t.Fatalf("exit status %d:\n%s", status, out)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(out, "\n")); diff != "" {
		t.Error(diff)
	}
}

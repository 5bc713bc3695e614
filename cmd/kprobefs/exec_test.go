package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProcessesOutliveCommand: processes that outlive their command can still open, fork and exec.
// When they have ended, no process of the program is left.
func TestProcessesOutliveCommand(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	done := filepath.Join(dir, "done")
	script := fmt.Sprintf("(sleep 0.3; (true); cat /etc/hostname >%s.tmp; sh -c 'echo more >>%s.tmp'; mv %s.tmp %s) >/dev/null 2>&1 &", done, done, done, done)
	if out, st := output(t, "exec", "--", "sh", "-c", script); st.ExitCode() != 0 {
		t.Fatalf("%v\n%s", st, out)
	}
	var wrote []byte
	if !ends(func() (over bool) { var err error; wrote, err = os.ReadFile(done); return err == nil }) {
		t.Error("it has not ended")
	} else if !strings.HasSuffix(string(wrote), "more\n") {
		t.Errorf("it wrote %q", wrote)
	}
}

// TestRootPath: the directories of root's programs are at the end of PATH, once each.
func TestRootPath(t *testing.T) {
	for path, want := range map[string]string{
		"/bin":                            "/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"/sbin:/usr/bin":                  "/sbin:/usr/bin:/usr/local/sbin:/usr/sbin",
		"/usr/sbin:/usr/local/sbin:/sbin": "/usr/sbin:/usr/local/sbin:/sbin",
	} {
		if got := rootPath(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

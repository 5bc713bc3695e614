package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/look"
)

// TestWritesFile: machine/writes names who has written to the mounted files, and says what came of it;
// what others may not read, they do not learn there.
func TestWritesFile(t *testing.T) {
	needFuse(t)
	dir := t.TempDir()
	if out, st := outputAs(t, roleReal, "mount", "--daemon", dir); !st.Success() {
		t.Fatal(out)
	}
	t.Cleanup(func() { _ = fs.Detach(dir) })
	script := `cd "$1/tracing" && echo 'p:mine vfs_read' >kprobe_events; echo 'p:bad nosuch' >>kprobe_events; echo marked >trace_marker; echo $$; exit 0`
	out, err := exec.Command("sh", "-c", script, "sh", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	all, err := look.Writes(look.Files(dir))
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []look.Write{{Text: "p:mine vfs_read\n", Result: "16"}, {Text: "p:bad nosuch\n", Result: "ENOENT"}} {
		got := all[i]
		if fmt.Sprint(got.PID) != strings.TrimSpace(string(out)) || got.UID != os.Getuid() && got.UID != 0 || got.Comm != "sh" || got.File != "/sys/kernel/tracing/kprobe_events" || got.Text != want.Text || got.Result != want.Result || got.At <= 0 {
			t.Errorf("%+v", got)
		}
	}
	if st, err := os.Stat(filepath.Join(dir, "machine/writes")); err != nil || st.Mode().Perm() != 0o400 {
		t.Errorf("%v, %v", st, err)
	}
	if out, st := outputAs(t, roleReal, "umount", dir); !st.Success() {
		t.Error(out)
	}
}

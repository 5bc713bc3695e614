package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPackage: make deb makes the same package twice, dpkg installs it in an empty root, systemd takes
// its unit there, and what it installs serves a tree in a chroot; dpkg removes all of it.
func TestPackage(t *testing.T) {
	needTime(t)
	needFUSE(t)
	for _, program := range []string{"make", "dpkg", "unshare", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("dpkg and chroot need root")
	}
	pack := debPackage(t)
	if !bytes.Equal(pack, debPackage(t)) {
		t.Error("two builds differ")
	}
	top := t.TempDir()
	root, file := filepath.Join(top, "root"), filepath.Join(top, "kprobefs.deb")
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "proc", "dev", "mnt"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string][]byte{file: pack, filepath.Join(root, "var/lib/dpkg/status"): nil} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran(t, "dpkg", "--root="+root, "-i", file)
	wantInstalled(t, root)
	wantServed(t, root)
	ran(t, "dpkg", "--root="+root, "-P", "kprobefs")
	if left, _ := filepath.Glob(root + "/usr/*"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

// debPackage builds the package.
func debPackage(t *testing.T) []byte {
	t.Helper()
	dist := t.TempDir()
	out, err := exec.Command("make", "-s", "-C", "..", "deb", "DIST="+dist).CombinedOutput()
	switch {
	case err != nil && (bytes.Contains(out, []byte("proxy.golang.org")) || bytes.Contains(out, []byte("dial tcp"))):
		t.Skipf("nfpm cannot be had: %s", out)
	case err != nil:
		t.Fatalf("make deb: %v\n%s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dist, "kprobefs_amd64.deb"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ran runs a command and returns what it prints.
func ran(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// wantInstalled looks at the manual, the completion and the unit.
func wantInstalled(t *testing.T, root string) {
	t.Helper()
	if out := ran(t, "sh", "-c", "gzip -dc "+root+"/usr/share/man/man1/kprobefs-mount.1.gz"); !strings.Contains(out, "kprobefs mount") {
		t.Errorf("the manual: %s", out)
	}
	for file, want := range map[string]string{"zsh/vendor-completions/_kprobefs": "#compdef kprobefs", "fish/vendor_completions.d/kprobefs.fish": "complete -c kprobefs"} {
		if b, err := os.ReadFile(filepath.Join(root, "usr/share", file)); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if out := ran(t, "bash", "-c", ". "+root+"/usr/share/bash-completion/completions/kprobefs && complete -p kprobefs"); !strings.Contains(out, "__start_kprobefs") {
		t.Errorf("bash's completion: %s", out)
	}
	unit := "kprobefs@.service"
	b, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system", unit))
	if err != nil || !bytes.Contains(b, []byte("\nExecStart=/usr/bin/kprobefs ")) {
		t.Errorf("%s: %v\n%s", unit, err, b)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Logf("the unit is not verified: %v", err)
		return
	}
	// Without a libc the root has no other units: they are missing, which is no fault of this one.
	out, _ := exec.Command("systemd-analyze", "--root="+root, "--man=no", "verify", unit).CombinedOutput()
	for _, line := range strings.Split(string(out), "\n") {
		if strings.Contains(line, unit) && !strings.Contains(line, "not found") {
			t.Error(line)
		}
	}
}

// wantServed runs what was installed in a chroot that has nothing else.
func wantServed(t *testing.T, root string) {
	t.Helper()
	if out := ran(t, "chroot", root, "/usr/bin/kprobefs", "version"); !strings.HasPrefix(out, "kprobefs ") {
		t.Errorf("version: %s", out)
	}
	script := fmt.Sprintf(`set -e
mount -t proc proc %[1]s/proc
mount -t tmpfs none %[1]s/dev
for d in null fuse; do : >%[1]s/dev/$d; mount --bind /dev/$d %[1]s/dev/$d; done
chroot %[1]s /usr/bin/kprobefs mount --daemon /mnt
echo 'p:mine vfs_read+5' >%[1]s/mnt/tracing/kprobe_events
echo 1 >%[1]s/mnt/tracing/events/kprobes/mine/enable
cat %[1]s/mnt/kprobes/list
chroot %[1]s /usr/bin/kprobefs umount /mnt`, root)
	if out := ran(t, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script); !strings.Contains(out, "k  vfs_read+0x5") {
		t.Error(out)
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
)

// ordinary and ordinaryGroup are the IDs of a user without privileges.
const ordinary, ordinaryGroup = 4242, 4243

// asUser makes cmd run as an ordinary user.
func asUser(cmd *exec.Cmd, uid, gid uint32) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	return cmd
}

// openForUsers lets an ordinary user mount in this mount namespace: it makes
// /dev/fuse accessible and gives the user a name, which fusermount3 requires.
func openForUsers(t *testing.T) {
	t.Helper()
	needFuse(t)
	if _, err := exec.LookPath("fusermount3"); err != nil || os.Geteuid() != 0 {
		t.Skipf("uid %d, %v", os.Geteuid(), err)
	}
	dir := t.TempDir()
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Skip(err)
	}
	users = fmt.Appendf(users, "kprobefs-test:x:%d:%d::/:/bin/sh\n", ordinary, ordinaryGroup)
	err = errors.Join(
		os.WriteFile(dir+"/passwd", users, 0o644),
		unix.Mknod(dir+"/fuse", unix.S_IFCHR, int(unix.Mkdev(10, 229))),
		os.Chmod(dir+"/fuse", 0o666),
	)
	for from, to := range map[string]string{"/passwd": "/etc/passwd", "/fuse": "/dev/fuse"} {
		if err == nil {
			err = unix.Mount(dir+from, to, "", unix.MS_BIND, "")
		}
		if err == nil {
			t.Cleanup(func() { _ = unix.Unmount(to, unix.MNT_DETACH) })
		}
	}
	if err != nil {
		t.Skip(err) // device nodes cannot be made in a user namespace
	}
	if out, err := asUser(exec.Command("sh", "-c", ": <>/dev/fuse"), ordinary, ordinaryGroup).CombinedOutput(); err != nil {
		t.Skipf("%s: no devices here", out)
	}
}

// TestMountAsUser: files of a mount by an ordinary user belong to that user, who can
// do with them what root can, and are not accessible to others.
func TestMountAsUser(t *testing.T) {
	openForUsers(t)
	top := t.TempDir()
	dir := filepath.Join(top, "mnt")
	err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Mkdir(dir, 0o755), os.Chown(dir, ordinary, ordinaryGroup))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := asUser(runProgram("check", dir), ordinary, ordinaryGroup).CombinedOutput(); !strings.Contains(string(out), "ok     mount: ") {
		t.Errorf("check: %s, %v", out, err)
	}
	if out, err := asUser(runProgram("mount", "--daemon", dir), ordinary, ordinaryGroup).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	sh := func(uid, gid uint32, script string) string {
		cmd := asUser(exec.Command("sh", "-c", script), uid, gid)
		cmd.Dir = top
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	got := sh(ordinary, ordinaryGroup, `cd mnt
		cat kprobes/list tracing/kprobe_events
		echo 0 > kprobes/enabled; cat kprobes/enabled
		echo 0 > sys/debug/kprobes-optimization; cat sys/debug/kprobes-optimization
		stat -c '%u:%g %a %n' . kprobes kprobes/list sys/debug/kprobes-optimization
		chgrp 0 kprobes/list; chmod 440 kprobes/list; chown 77 kprobes/blacklist
		stat -c '%u:%g %a %n' kprobes/list kprobes/blacklist`)
	want := listText + `ours kprobe_events
0
0
4242:4243 755 .
4242:4243 755 kprobes
4242:4243 400 kprobes/list
4242:4243 644 sys/debug/kprobes-optimization
4242:0 440 kprobes/list
77:4243 400 kprobes/blacklist
`
	if got != want {
		t.Errorf("the owner gets\n%s\nwant\n%s", got, want)
	}
	for _, other := range [][2]uint32{{0, 0}, {ordinary + 5, ordinaryGroup}} {
		if out := sh(other[0], other[1], "cat mnt/kprobes/list; echo 1 > mnt/kprobes/enabled"); strings.Count(out, "ermission denied") != 2 || strings.Contains(out, listText) {
			t.Errorf("uid %d: %q", other[0], out)
		}
	}
	if out, err := asUser(runProgram("umount", dir), ordinary, ordinaryGroup).CombinedOutput(); err != nil || fs.Ours(dir) {
		t.Errorf("umount: %s, %v, mounted %v", out, err, fs.Ours(dir))
	}
}

// TestCheckNamelessUser: check reports that fusermount3 refuses a user without a
// name.
func TestCheckNamelessUser(t *testing.T) {
	openForUsers(t)
	out, err := asUser(runProgram("check"), ordinary+1000, ordinaryGroup).CombinedOutput()
	if err == nil || !strings.Contains(string(out), fmt.Sprintf("uid %d has no name", ordinary+1000)) {
		t.Errorf("%s, %v", out, err)
	}
}

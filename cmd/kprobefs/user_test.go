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
	// allow_other is fusermount3's to allow, and is not dropped.
	refused, err := asUser(runProgram("mount", "--daemon", "-o", "allow_other", dir), ordinary, ordinaryGroup).CombinedOutput()
	if err == nil || !strings.HasSuffix(string(refused), "option allow_other only allowed if 'user_allow_other' is set in /etc/fuse.conf\n") || fs.Ours(dir) {
		t.Errorf("allow_other: %q, %v", refused, err)
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

// TestAllowOther: where /etc/fuse.conf lets users allow others, -o allow_other does. Others, root
// too, are ordinary users to the files.
func TestAllowOther(t *testing.T) {
	openForUsers(t)
	top := t.TempDir()
	dir, conf := filepath.Join(top, "mnt"), filepath.Join(top, "fuse.conf")
	err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Mkdir(dir, 0o755), os.Chown(dir, ordinary, ordinaryGroup),
		os.WriteFile(conf, []byte("user_allow_other\n"), 0o644))
	if err == nil {
		err = unix.Mount(conf, "/etc/fuse.conf", "", unix.MS_BIND, "")
	}
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount("/etc/fuse.conf", unix.MNT_DETACH) })
	if out, err := asUser(runProgram("mount", "--daemon", "-o", "allow_other,nosuid", dir), ordinary, ordinaryGroup).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for uid, want := range map[uint32]string{ordinary: listText, ordinary + 5: "denied", 0: "denied"} {
		cmd := asUser(exec.Command("sh", "-c", "cat mnt/proc/version mnt/kprobes/list"), uid, ordinaryGroup+5)
		cmd.Dir = top
		if out, _ := cmd.CombinedOutput(); !strings.HasPrefix(string(out), "ours version\n") || !strings.HasSuffix(strings.TrimRight(string(out), "\n"), strings.TrimRight(want, "\n")) {
			t.Errorf("uid %d: %q", uid, out)
		}
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

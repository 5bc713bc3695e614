package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// hostsFiles are files that the pages name and that are the host's below exec, with the reason.
var hostsFiles = map[string]string{
	"/proc/mounts":  "the host's mounts, of which ours are shown as Linux has them",
	"/proc/cpuinfo": "the processor is the host's; why takes the names of features that it shows",
	"/proc/locks":   "named as a file that has no locks of ours",
	"/dev/vda":      "the emulated kernel's disk is in the tree only",
}

// namedPaths returns the paths below /proc, /sys, /dev and /boot that the pages name.
func namedPaths(t *testing.T) (paths []string) {
	t.Helper()
	pages := []string{"../README.md", "../CHANGELOG.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md", "../docs/man/*.1"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	named := regexp.MustCompile(`/(?:proc|sys|dev|boot)/[A-Za-z0-9_./-]*[A-Za-z0-9_]`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, named.FindAllString(strings.ReplaceAll(string(text), `\-`, "-"), -1)...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestNoHostFiles: whatever the pages name, and whatever the tree has, is not the host's below exec, by
// whichever call it is opened.
func TestNoHostFiles(t *testing.T) {
	needFUSE(t)
	needTool(t, "gcc", "gcc")
	dir := publicDir(t)
	source, err := filepath.Abs("testdata/hostile/opens.c")
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, dir, "gcc -w -o opens "+source)
	release, err := exec.Command("uname", "-r").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := namedPaths(t)
	for _, must := range []string{"/proc/config.gz", "/proc/kmsg", "/proc/sys/kernel/tainted", "/dev/kmsg", "/proc/version"} {
		if !slices.Contains(paths, must) {
			t.Errorf("no page names %s", must)
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return hostsFiles[p] != "" })
	put(t, dir, "paths", strings.Join(paths, "\n")+"\n")
	for _, flags := range [][]string{nil, {"--release", "5.10"}} {
		out, status := asUser(nil).exec(t, dir, nil, flags, "sh", "-c", fmt.Sprintf(`cd $KPROBEFS_MNT
{
	cat %[1]s/paths
	find proc dev/kmsg -type f | sed 's,^,/,'
	find sys/debug sys/kernel -type f | sed 's,^,/proc/,'
	find sys/module -type f | sed 's,^,/,'
} | sort -u | %[1]s/opens %[2]s $KPROBEFS_MNT /sys/kernel/debug /sys/kernel/tracing`, dir, strings.TrimSpace(string(release))))
		opened, ours := 0, true
		for line := range strings.Lines(out) {
			switch {
			case strings.HasPrefix(line, "no "):
				t.Log(strings.TrimSpace(line))
			case strings.HasPrefix(line, "opened "):
				_, _ = fmt.Sscanf(line, "opened %d", &opened)
			default:
				ours = false
			}
		}
		if !ours || status != 0 || opened < 100 {
			t.Errorf("%v: status %d\n%s", flags, status, out)
		}
	}
}

// TestFreshMounts: a proc or sysfs that a program mounts below exec, in whichever mount and pid namespace, shows the
// emulated kernel, is one line of the lists of mounts, and can be unmounted.
func TestFreshMounts(t *testing.T) {
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	needTool(t, "bwrap", "bubblewrap")
	dir := publicDir(t)
	put(t, dir, "script", `mkdir at
words() { head -n 1 "$1" | cut -d ' ' -f 3,4; }
mount -t proc proc at && words at/version
cat at/sys/kernel/tainted
cmp at/kallsyms /proc/kallsyms && echo same
grep -c " $PWD/at" /proc/mounts /proc/self/mountinfo
umount at; echo "umount $?"
mount -t sysfs none at
cmp at/kernel/btf/vmlinux /sys/kernel/btf/vmlinux && echo same
umount at; echo "umount $?"
unshare -m sh -c 'mount -t proc proc at; head -n 1 at/version | cut -d " " -f 3,4; umount at; echo "umount $?"'
unshare -pf --mount-proc sh -c 'head -n 1 /proc/version | cut -d " " -f 3,4; echo $$'
bwrap --dev-bind / / --proc /proc head -n 1 /proc/version | cut -d ' ' -f 3,4
mount -t proc proc at; words at/version; mount -t tmpfs none at/sys/fs; umount at 2>/dev/null || echo busy; umount at/sys/fs; umount at; echo "umount $?"
mount -t proc -o nosuchoption=1 proc at 2>/dev/null || echo refused
umount at 2>/dev/null || echo 'nothing there'
`)
	out, status := asUser(nil).exec(t, dir, nil, nil, "sh", "script")
	const name = "6.1.0-56-amd64 (kprobefs@guest)\n"
	want := name + "0\nsame\n/proc/mounts:1\n/proc/self/mountinfo:1\numount 0\nsame\numount 0\n" + name + "umount 0\n" + name + "1\n" + name + name + "busy\numount 0\nrefused\nnothing there\n"
	if status != 0 || out != want {
		t.Errorf("status %d, got:\n%s\nwant:\n%s", status, out, want)
	}
}

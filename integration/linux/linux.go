// Package linux runs shell scripts on a real Linux: the stock kernel package of
// Debian 12 (6.1), 11 (5.10) or 13 (6.12), booted by QEMU without KVM from an
// initrd that is made here. One boot runs many scripts, each in turn, and tells of each what it
// printed, its exit status, and whether it left the kernel's files as it found
// them.
//
// The kernel comes from "apt-get download" and is kept in the user's cache
// folder; QEMU, busybox (static) and the GNU tools are those of this machine.
// Addresses do not move (nokaslr), there are two vCPUs.
package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ErrNoKernel says that the archive does not have that kernel package, or not in that version (any more).
var ErrNoKernel = errors.New("the Debian archive does not have this kernel")

// ErrNoTools says what this machine lacks to run Linux.
var ErrNoTools = errors.New("cannot run Linux here")

// Kernel is a kernel package of Debian on this machine.
type Kernel struct {
	Package string // linux-image-6.1.0-56-amd64
	Version string // 6.1.180-1
	Release string // 6.1
	Image   string // path of its vmlinuz
}

// String is what a recording names.
func (k *Kernel) String() string { return k.Package + " " + k.Version }

// Check tells whether this machine has what it takes, wrapping ErrNoTools.
func Check() error {
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %s is missing", ErrNoTools, tool)
		}
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil || !bytes.Contains(release, []byte("VERSION_CODENAME=bookworm")) {
		return fmt.Errorf("%w: the recordings come from Debian 12's kernel and tools, this is another system", ErrNoTools)
	}
	return nil
}

// Default is the release whose kernel this machine's own archive has.
const Default = "6.1"

// suites are Debian's names for the systems that have a release's kernel.
var suites = map[string]string{"5.10": "bullseye", Default: "bookworm", "6.12": "trixie"}

// release is the release ("6.1") of a package's name, linux-image-6.1.0-56-amd64.
func release(pkg string) string {
	for r := range suites {
		if strings.HasPrefix(pkg, "linux-image-"+r+".") {
			return r
		}
	}
	return ""
}

// archive is apt for one release: the machine's own, or the same mirror's other
// suite with lists of its own in the cache folder.
type archive struct{ opts []string }

func openArchive(release string) (*archive, error) {
	if release == Default {
		return &archive{}, nil
	}
	suite, ok := suites[release]
	if !ok {
		return nil, fmt.Errorf("no Debian suite for Linux %q: %w", release, ErrNoKernel)
	}
	mirror, err := mirror()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "kprobefs", "apt-"+suite)
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	source := fmt.Sprintf("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n", mirror, suite)
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(source), 0o644); err != nil {
		return nil, err
	}
	a := &archive{}
	for _, o := range []string{
		"Dir::Etc::sourcelist=" + list, "Dir::Etc::sourceparts=-",
		"Dir::State::lists=" + filepath.Join(dir, "lists"), "Dir::Cache=" + filepath.Join(dir, "cache"),
	} {
		a.opts = append(a.opts, "-o", o)
	}
	return a, nil
}

// mirror is where this machine gets its packages from.
func mirror() (string, error) {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*") // the pattern is good
	for _, file := range append(files, "/etc/apt/sources.list") {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if m := regexp.MustCompile(`(?m)^(?:URIs:|deb(?: \[[^]]*\])?) *(\S+/debian/?)(?: .*)?$`).FindSubmatch(b); m != nil {
			return string(m[1]), nil
		}
	}
	return "", fmt.Errorf("%w: no mirror of Debian in /etc/apt", ErrNoTools)
}

func (a *archive) args(args []string) []string { return append(slices.Clone(a.opts), args...) }

func (a *archive) update(ctx context.Context) error {
	return run(ctx, "apt-get", a.args([]string{"update", "-qq"})...)
}

func (a *archive) cache(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "apt-cache", a.args(args)...)
}

// Newest fetches the newest kernel of a release ("6.1") that Debian has.
func Newest(ctx context.Context, release string) (*Kernel, error) {
	a, err := openArchive(release)
	if err != nil {
		return nil, err
	}
	if err := a.update(ctx); err != nil {
		return nil, err
	}
	out, err := a.cache(ctx, "depends", "linux-image-amd64")
	if err != nil {
		return nil, err
	}
	m := regexp.MustCompile(`Depends: (linux-image-` + regexp.QuoteMeta(release) + `\.\S+)`).FindStringSubmatch(out)
	if m == nil {
		return nil, fmt.Errorf("linux-image-amd64 names no %s kernel: %w", release, ErrNoKernel)
	}
	version, err := a.candidate(ctx, m[1])
	if err != nil {
		return nil, err
	}
	return Fetch(ctx, m[1]+" "+version)
}

// Fetch gives the kernel that a recording names ("PACKAGE VERSION"), from the cache or from the archive.
func Fetch(ctx context.Context, name string) (*Kernel, error) {
	pkg, version, ok := strings.Cut(name, " ")
	if !ok {
		return nil, fmt.Errorf("kernel %q is not PACKAGE VERSION", name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "kprobefs", "linux", pkg+"_"+version)
	k := &Kernel{Package: pkg, Version: version, Release: release(pkg), Image: filepath.Join(dir, "vmlinuz")}
	if _, err := os.Stat(k.Image); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return k, k.download(ctx, dir)
}

// download puts the package's vmlinuz at k.Image.
func (k *Kernel) download(ctx context.Context, dir string) error {
	a, err := openArchive(k.Release)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := k.get(ctx, a, tmp); err != nil { // perhaps only the lists are old
		if err := a.update(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNoTools, err)
		}
		if !a.known(ctx, k.Package, k.Version) {
			return fmt.Errorf("%s: %w", k, ErrNoKernel)
		}
		if err := k.get(ctx, a, tmp); err != nil {
			return err
		}
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("downloading %s gave %d files", k, len(debs))
	}
	if err := run(ctx, "dpkg-deb", "-x", debs[0], filepath.Join(tmp, "root")); err != nil {
		return err
	}
	images, err := filepath.Glob(filepath.Join(tmp, "root/boot/vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return fmt.Errorf("%s has no vmlinuz: %w", k, fs.ErrNotExist)
	}
	return os.Rename(images[0], k.Image)
}

// get downloads the package into dir.
func (k *Kernel) get(ctx context.Context, a *archive, dir string) error {
	cmd := exec.CommandContext(ctx, "apt-get", a.args([]string{"download", "-qq", "-o", "APT::Sandbox::User=root", k.Package + "=" + k.Version})...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("downloading %s: %w\n%s", k, err, out)
	}
	return nil
}

// candidate is the version of a package that apt would install.
func (a *archive) candidate(ctx context.Context, pkg string) (string, error) {
	out, err := a.cache(ctx, "policy", pkg)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`Candidate: (\d\S*)`).FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%s: %w", pkg, ErrNoKernel)
	}
	return m[1], nil
}

// known tells whether apt has the package in that version.
func (a *archive) known(ctx context.Context, pkg, version string) bool {
	out, err := a.cache(ctx, "madison", pkg)
	return err == nil && strings.Contains(out, " "+version+" |")
}

func run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}

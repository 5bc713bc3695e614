// Package linux runs shell scripts on a real Linux: the kernel package of Debian 12
// (6.1), 11 (5.10) or 13 (6.12), booted by QEMU without KVM from an initrd that this
// package makes. A boot runs many scripts in order, and returns the output and the
// exit status of each, and the changes that it left in the kernel's files.
//
// The kernel comes from "apt-get download" and is kept in the user's cache directory.
// QEMU, busybox (static) and the GNU tools are this machine's. Addresses are
// fixed (nokaslr), and there are two vCPUs.
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

	table "github.com/kprobefs/kprobefs/kernel/release"
)

// ErrNoKernel means that the archive does not have that kernel package or version
// (any more).
var ErrNoKernel = errors.New("the Debian archive does not have this kernel")

// ErrNoTools means that this machine lacks something needed to run Linux.
var ErrNoTools = errors.New("cannot run Linux here")

// Kernel is a kernel package of Debian on this machine.
type Kernel struct {
	Package string // linux-image-6.1.0-56-amd64
	Version string // 6.1.180-1
	Release string // 6.1
	Image   string // path of its vmlinuz
}

// String returns the kernel's name in recordings.
func (k *Kernel) String() string { return k.Package + " " + k.Version }

// Check returns an error that wraps ErrNoTools if this machine lacks something.
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

// Default is the release whose kernel is in this machine's own archive.
const Default = "6.1"

// suites are the Debian suites that have a release's kernel.
var suites = func() map[string]string {
	all := map[string]string{}
	for _, d := range table.Recorded {
		all[d.Version.String()] = d.Suite
	}
	return all
}()

// release returns the release ("6.1") in a package's name,
// linux-image-6.1.0-56-amd64.
func release(pkg string) string {
	for r := range suites {
		if strings.HasPrefix(pkg, "linux-image-"+r+".") {
			return r
		}
	}
	return ""
}

// archive is apt for one release: the machine's own, or another suite of the same
// mirror with separate lists in the cache directory.
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

// mirror returns the mirror from which this machine gets its packages.
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

// Newest fetches Debian's newest kernel of a release ("6.1").
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

// ForHeaders returns the kernel package of headers, such as
// /usr/src/linux-headers-6.1.0-56-amd64.
func ForHeaders(ctx context.Context, headers string) (*Kernel, error) {
	pkg := "linux-image-" + strings.TrimPrefix(filepath.Base(headers), "linux-headers-")
	a, err := openArchive(release(pkg))
	if err != nil {
		return nil, err
	}
	version, err := a.candidate(ctx, pkg)
	if err != nil { // apt's lists may be old
		if err := a.update(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoTools, err)
		}
		if version, err = a.candidate(ctx, pkg); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoKernel, err)
		}
	}
	return Fetch(ctx, pkg+" "+version)
}

// Fetch returns the kernel that a recording names ("PACKAGE VERSION"), from the cache
// or from the archive.
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
	return k, k.download(ctx, dir)
}

// Headers returns the folders of the kernel's headers: what its configuration has, and what
// all of its configurations have. They come from /usr/src or from the archive.
func (k *Kernel) Headers(ctx context.Context) (arch, common string, err error) {
	pkg := strings.Replace(k.Package, "linux-image-", "linux-headers-", 1)
	pkgs := []string{pkg, strings.TrimSuffix(pkg, "-amd64") + "-common"}
	folders := func(root string) (arch, common string, ok bool) {
		arch, common = filepath.Join(root, "usr/src", pkgs[0]), filepath.Join(root, "usr/src", pkgs[1])
		return arch, common, exists(arch) && exists(common)
	}
	if arch, common, ok := folders("/"); ok {
		return arch, common, nil
	}
	dir := filepath.Join(filepath.Dir(k.Image), "headers")
	if arch, common, ok := folders(dir); ok {
		return arch, common, nil
	}
	a, err := openArchive(k.Release)
	if err != nil {
		return "", "", err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(k.Image), "headers")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(tmp)
	for _, p := range pkgs {
		if err := a.get(ctx, p+"="+k.Version, tmp); err != nil {
			return "", "", fmt.Errorf("%w: %w", ErrNoKernel, err)
		}
	}
	const unpack = `for deb in "$1"/*.deb; do dpkg-deb -x "$deb" "$1/root"; done; mv "$1/root" "$2"`
	if err := run(ctx, "sh", "-ec", unpack, "sh", tmp, dir); err != nil {
		return "", "", err
	}
	arch, common, ok := folders(dir)
	if !ok {
		return "", "", fmt.Errorf("%v have no headers: %w", pkgs, ErrNoKernel)
	}
	return arch, common, nil
}

// moduleFolders are what Modules keeps of the package's modules: those that need no hardware.
var moduleFolders = []string{"crypto", "lib", "fs/nls"}

// Modules returns the folder of the package's modules. It has crypto, lib and fs/nls.
func (k *Kernel) Modules(ctx context.Context) (string, error) {
	dir := filepath.Join(filepath.Dir(k.Image), "modules")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, k.download(ctx, filepath.Dir(k.Image))
}

// diskDrivers are the modules that a virtio disk needs, in the order in which they are loaded.
// Some releases have some of them built in.
var diskDrivers = []string{
	"drivers/virtio/virtio", "drivers/virtio/virtio_ring", "drivers/virtio/virtio_pci_legacy_dev", "drivers/virtio/virtio_pci_modern_dev", "drivers/virtio/virtio_pci",
	"drivers/block/virtio_blk",
}

// diskFolder is where download keeps them, beside the kernel.
func (k *Kernel) diskFolder() string { return filepath.Join(filepath.Dir(k.Image), "disk") }

// diskModules returns the modules of the package, in this order.
func (k *Kernel) diskModules(ctx context.Context) (modules [][]byte, err error) {
	if !exists(k.diskFolder()) {
		if err := k.download(ctx, filepath.Dir(k.Image)); err != nil {
			return nil, err
		}
	}
	for _, driver := range diskDrivers {
		b, err := readObject(ctx, filepath.Join(k.diskFolder(), filepath.Base(driver)+".ko"))
		switch {
		case err == nil:
			modules = append(modules, b)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return modules, nil
}

// readObject reads a module, which may be compressed: then its name has .xz at the end.
func readObject(ctx context.Context, file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && exists(file+".xz") {
		b, err = exec.CommandContext(ctx, "xz", "-dc", file+".xz").Output()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return b, nil
}

// placeModules are the modules of whose text Linux is asked whether it takes probes.
var placeModules = []string{"drivers/block/loop", "fs/fuse/fuse", "fs/overlayfs/overlay"}

// placeFolder is where download keeps them, beside the kernel.
func (k *Kernel) placeFolder() string { return filepath.Join(filepath.Dir(k.Image), "places") }

// HasPlaceModules reports whether they have been downloaded.
func (k *Kernel) HasPlaceModules() bool { return exists(k.placeFolder()) }

// PlaceModules returns some modules of the package, by their names: a driver and two file systems. 6.12
// has one of them built in.
func (k *Kernel) PlaceModules(ctx context.Context) (map[string][]byte, error) {
	if !k.HasPlaceModules() {
		if err := k.download(ctx, filepath.Dir(k.Image)); err != nil {
			return nil, err
		}
	}
	objects := map[string][]byte{}
	for _, name := range placeModules {
		name = filepath.Base(name)
		b, err := readObject(ctx, filepath.Join(k.placeFolder(), name+".ko"))
		switch {
		case err == nil:
			objects[name] = b
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s has none of the modules %v: %w", k, placeModules, ErrNoKernel)
	}
	return objects, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// keepObjects copies modules, named by their paths below kernel/, from a package's files to dir, at once.
func keepObjects(root, dir string, modules []string) error {
	if exists(dir) {
		return nil
	}
	part := filepath.Join(root, filepath.Base(dir))
	if err := os.Mkdir(part, 0o755); err != nil {
		return err
	}
	for _, module := range modules {
		var files []string
		for _, lib := range []string{"lib", "usr/lib"} {
			more, err := filepath.Glob(filepath.Join(root, lib, "modules/*/kernel", module+".ko*"))
			if err != nil {
				return err
			}
			files = append(files, more...)
		}
		for _, file := range files {
			if err := os.Link(file, filepath.Join(part, filepath.Base(file))); err != nil {
				return err
			}
		}
	}
	return os.Rename(part, dir)
}

// ModuleObjects returns the modules that Modules keeps, by their names ("crc64.ko").
func (k *Kernel) ModuleObjects(ctx context.Context) (map[string][]byte, error) {
	dir, err := k.Modules(ctx)
	if err != nil {
		return nil, err
	}
	objects := map[string][]byte{}
	return objects, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".ko" {
			objects[filepath.Base(path)], err = os.ReadFile(path)
		}
		return err
	})
}

// download stores the package's vmlinuz at k.Image, and its modules beside it.
func (k *Kernel) download(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	a, err := openArchive(k.Release)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := a.get(ctx, k.Package+"="+k.Version, tmp); err != nil { // apt's lists may be old
		if err := a.update(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNoTools, err)
		}
		if !a.known(ctx, k.Package, k.Version) {
			return fmt.Errorf("%s: %w", k, ErrNoKernel)
		}
		if err := a.get(ctx, k.Package+"="+k.Version, tmp); err != nil {
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
	if err := keepObjects(filepath.Join(tmp, "root"), k.diskFolder(), diskDrivers); err != nil {
		return err
	}
	if err := keepObjects(filepath.Join(tmp, "root"), k.placeFolder(), placeModules); err != nil {
		return err
	}
	if err := keepModules(filepath.Join(tmp, "root"), filepath.Join(dir, "modules")); err != nil {
		return err
	}
	return os.Rename(images[0], k.Image)
}

// keepModules moves modules from a package's files to dir, at once.
func keepModules(root, dir string) error {
	kernels, err := filepath.Glob(filepath.Join(root, "lib/modules/*/kernel"))
	if err != nil || len(kernels) != 1 {
		return nil // later packages have them in usr/lib, and compressed
	}
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	part := filepath.Join(root, "modules")
	for _, folder := range moduleFolders {
		to := filepath.Join(part, folder)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(kernels[0], folder), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(part, dir)
}

// get downloads a package, NAME=VERSION, into dir.
func (a *archive) get(ctx context.Context, pkg, dir string) error {
	cmd := exec.CommandContext(ctx, "apt-get", a.args([]string{"download", "-qq", "-o", "APT::Sandbox::User=root", pkg})...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("downloading %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// candidate returns the version of a package that apt would install.
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

// known reports whether apt has the package in that version.
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

// Source unpacks files and folders of Debian's linux-source package of a release ("6.1"),
// named as in its archive ("linux-source-6.1/samples"), below dir.
func Source(ctx context.Context, release, dir string, names ...string) error {
	a, err := openArchive(release)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "kprobefs-source")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	pkg := "linux-source-" + release
	get := func() error {
		cmd := exec.CommandContext(ctx, "apt-get", a.args([]string{"download", "-qq", "-o", "APT::Sandbox::User=root", pkg})...)
		cmd.Dir = tmp
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("downloading %s: %w\n%s", pkg, err, out)
		}
		return nil
	}
	if get() != nil { // apt's lists may be old, or not there
		if err := a.update(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrNoTools, err)
		}
		if err := get(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const unpack = `dpkg-deb --fsys-tarfile "$1"/*.deb | tar -xO "./usr/src/$2.tar.xz" | { dir=$3; shift 3; tar -xJ -C "$dir" "$@"; }`
	return run(ctx, "sh", append([]string{"-ec", unpack, "sh", tmp, pkg, dir}, names...)...)
}

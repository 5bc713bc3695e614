package integration

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// sidecar is what a file of contrib says of the two containers.
type sidecar struct {
	serve  []string // the command of the one that mounts
	health []check  // each is good when it serves
	volume string   // the volume's directory in both
	look   []string // the command of the one that looks
	page   string   // where the page is on the loopback interface of the one that mounts, or ""
	token  string   // the file with its token
}

// check is what an engine asks a container: by a command in it, or by HTTP at its address.
type check struct {
	command []string
	url     string
}

// contrib has the files that are tried.
const contrib = "../contrib"

// readYAML reads a file of contrib.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(contrib, name))
	if err == nil {
		err = yaml.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// composed reads compose.yaml.
func composed(t *testing.T, image v1.Config) sidecar {
	t.Helper()
	type service struct {
		Build       struct{ Context string }
		Command     []string
		Healthcheck struct{ Test []string }
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Volumes     []struct{ Target string }
	}
	var file struct{ Services map[string]service }
	readYAML(t, "compose.yaml", &file)
	serve, look := file.Services["kprobefs"], file.Services["inspector"]
	if got := look.DependsOn["kprobefs"].Condition; got != "service_healthy" {
		t.Errorf("the inspector waits for %q", got)
	}
	if _, err := os.Stat(filepath.Join(contrib, serve.Build.Context, ".dockerignore")); err != nil {
		t.Errorf("what Docker leaves out of the build's context: %v", err)
	}
	health := serve.Healthcheck.Test
	if len(health) < 2 || health[0] != "CMD" {
		t.Fatalf("healthcheck %q", health)
	}
	command := image.Cmd
	if serve.Command != nil {
		command = serve.Command
	}
	for i, word := range look.Command {
		look.Command[i] = strings.ReplaceAll(word, "$$", "$")
	}
	return sidecar{
		serve: slices.Concat(image.Entrypoint, command), health: []check{{command: health[1:]}},
		volume: serve.Volumes[0].Target, look: look.Command,
	}
}

// podAddress is the pod's address, at which kubelet asks.
const podAddress = "192.0.2.1"

// httpProbe is a probe of a manifest.
type httpProbe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// podded reads kubernetes.yaml.
func podded(t *testing.T, image v1.Config) sidecar {
	t.Helper()
	type container struct {
		Args, Command []string
		Ports         []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		StartupProbe   httpProbe `yaml:"startupProbe"`
		ReadinessProbe httpProbe `yaml:"readinessProbe"`
		LivenessProbe  httpProbe `yaml:"livenessProbe"`
		VolumeMounts   []struct {
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	var pod struct {
		Spec struct {
			InitContainers []container `yaml:"initContainers"`
			Containers     []container
		}
	}
	readYAML(t, "kubernetes.yaml", &pod)
	serve, look := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	s := sidecar{serve: slices.Concat(image.Entrypoint, serve.Args), volume: serve.VolumeMounts[0].MountPath, look: look.Command}
	for _, p := range []httpProbe{serve.StartupProbe, serve.ReadinessProbe, serve.LivenessProbe} {
		if p.HTTPGet.Port != serve.Ports[0].Name {
			t.Errorf("no port is named %q", p.HTTPGet.Port)
		}
		s.health = append(s.health, check{url: fmt.Sprintf("http://%s:%d%s", podAddress, serve.Ports[0].ContainerPort, p.HTTPGet.Path)})
	}
	s.page, s.token = "http://"+argAfter(t, serve.Args, "--http"), argAfter(t, serve.Args, "--http-token-file")
	return s
}

// argAfter returns the argument after a flag.
func argAfter(t *testing.T, args []string, flag string) string {
	t.Helper()
	i := slices.Index(args, flag)
	if i < 0 || i+1 == len(args) {
		t.Fatalf("no %s in %q", flag, args)
	}
	return args[i+1]
}

// imageUnpacked has make image build the image, and unpacks it as an engine does.
func imageUnpacked(t *testing.T, dir string) v1.Config {
	t.Helper()
	dist := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "..", "image", "DIST="+dist).CombinedOutput(); err != nil {
		t.Fatalf("make image: %v\n%s", err, out)
	}
	img, err := tarball.ImageFromPath(filepath.Join(dist, "kprobefs-image.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(img)
	defer func() { _ = files.Close() }()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return f.Config
		}
		if err == nil {
			err = unpack(filepath.Join(dir, h.Name), h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// unpack makes a file or a directory of an image.
func unpack(name string, h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return errors.Join(os.MkdirAll(name, 0o755), os.Chown(name, h.Uid, h.Gid))
	}
	b, err := io.ReadAll(r)
	if err == nil {
		err = os.WriteFile(name, b, os.FileMode(h.Mode))
	}
	if c, ok := h.PAXRecords["SCHILY.xattr.security.capability"]; ok && err == nil {
		err = unix.Setxattr(name, "security.capability", []byte(c), 0)
	}
	return err
}

// TestSidecar plays compose.yaml and kubernetes.yaml without a container engine: the container
// that mounts is a chroot in mount and PID namespaces of its own, the inspector runs below
// bubblewrap. When the one is killed and started again, the inspector of before sees the new tree.
func TestSidecar(t *testing.T) {
	needTime(t)
	needFUSE(t)
	if os.Getuid() != 0 {
		t.Skip("a mount that is passed on to other namespaces needs root")
	}
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skipf("the inspector runs below bubblewrap: %v", err)
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip(err)
	}
	top := t.TempDir()
	if err := os.Chmod(filepath.Dir(top), 0o755); err != nil { // the image's user is another one
		t.Fatal(err)
	}
	image := filepath.Join(top, "image")
	config := imageUnpacked(t, image)
	bin := filepath.Join(top, "bin")
	makeBin(t, bin, busybox)
	privateThread(t)
	for name, s := range map[string]sidecar{"compose": composed(t, config), "kubernetes": podded(t, config)} {
		volume := filepath.Join(top, name)
		shareSubmounts(t, volume)
		s.play(t, container{volume, image, config.User, busybox}, bwrap, bin)
	}
}

// container is what an engine knows of the one that mounts.
type container struct{ volume, image, user, busybox string }

func (s sidecar) play(t *testing.T, c container, bwrap, bin string) {
	t.Helper()
	addDirs(t, c.image, s.volume)
	first := s.start(t, c)
	s.healthy(t, first)
	s.paged(t, first, c)
	seen := &output{}
	look := exec.Command(bwrap, append([]string{
		"--unshare-pid", "--die-with-parent", "--proc", "/proc", "--dev", "/dev",
		"--ro-bind", bin, "/bin", "--bind", c.volume, s.volume, "--chdir", "/", "--setenv", "PATH", "/bin",
	}, s.look...)...)
	look.Stdout, look.Stderr = seen, seen
	begin(t, look)
	seen.waitFor(t, "k  vfs_read+0x5")
	seen.waitFor(t, "mine")

	killContainer(t, first)
	// The tree is dead; or it is gone, if the process that watches it was quicker than its own end.
	seen.waitFor(t, "not connected", "No such file")
	seen.reset()
	second := s.start(t, c)
	s.healthy(t, second)
	s.paged(t, second, c)
	seen.waitFor(t, "k  vfs_read+0x5")
	seen.waitFor(t, "mine")
	_ = look.Process.Kill()
	_ = look.Wait()
	killContainer(t, second)
}

// privateThread gives this test, and the processes that it starts, a mount namespace that ends with
// them. The thread is not used for anything else.
func privateThread(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skip(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
}

// shareSubmounts makes a directory a mount whose submounts are shared, as a container engine's host has it.
func shareSubmounts(t *testing.T, dir string) {
	t.Helper()
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777)); err != nil { // as an emptyDir is
		t.Fatal(err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		trees, _ := filepath.Glob(dir + "/*")
		for _, tree := range append(trees, dir) {
			for unix.Unmount(tree, unix.MNT_DETACH) == nil {
			}
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		t.Skip(err)
	}
}

// addDirs adds the directories that an engine adds to an image.
func addDirs(t *testing.T, image, volume string) {
	t.Helper()
	for _, d := range []string{"proc", "dev", "sys", volume} {
		if err := os.MkdirAll(filepath.Join(image, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// makeBin makes the inspector's programs, busybox'. Its sleep is short, to save time.
func makeBin(t *testing.T, dir, busybox string) {
	t.Helper()
	b, err := os.ReadFile(busybox)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "busybox"), b, 0o755)
	}
	for _, applet := range []string{"sh", "cat", "grep", "usleep"} {
		if err == nil {
			err = os.Symlink("busybox", filepath.Join(dir, applet))
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/sh\nexec /bin/busybox sleep 0.2\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// start starts the container that mounts, with the image's user and a network of its own, and with the
// capabilities that compose.yaml adds. Its first process ends with the returned command.
func (s sidecar) start(t *testing.T, c container) *exec.Cmd {
	t.Helper()
	user, group, _ := strings.Cut(c.user, ":")
	script := fmt.Sprintf(`set -e
%[1]s ip link set lo up
%[1]s ip addr add %[2]s/32 dev lo
mount --rbind %[3]s %[4]s%[5]s
mount -t proc proc %[4]s/proc
mount -t tmpfs none %[4]s/dev
for d in null fuse; do : >%[4]s/dev/$d; mount --bind /dev/$d %[4]s/dev/$d; done
exec setpriv --bounding-set -all,+sys_admin,+sys_chroot,+setuid,+setgid chroot --userspec=%[6]s:%[7]s %[4]s "$@"`,
		c.busybox, podAddress, c.volume, c.image, s.volume, user, group)
	cmd := exec.Command("unshare", append([]string{"--mount", "--net", "--propagation", "unchanged", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"}, s.serve...)...)
	begin(t, cmd)
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			killContainer(t, cmd)
		}
	})
	return cmd
}

// begin starts a command that is killed at the test's end.
func begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.Stderr == nil {
		cmd.Stderr = &output{}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if said, ok := cmd.Stderr.(fmt.Stringer); ok && t.Failed() {
			t.Logf("%s: %s", cmd.Args[0], said)
		}
	})
}

// healthy waits until all checks succeed.
func (s sidecar) healthy(t *testing.T, container *exec.Cmd) {
	t.Helper()
	for _, c := range s.health {
		var out []byte
		err := errors.ErrUnsupported
		for begin := time.Now(); err != nil && time.Since(begin) < sidecarLimit; time.Sleep(100 * time.Millisecond) {
			if pid := firstProcess(container); pid != "" {
				out, err = c.run(pid)
			}
		}
		if err != nil {
			t.Fatalf("not healthy: %+v: %s", c, out)
		}
	}
}

// firstProcess returns the pid of a container's first process, or "".
func firstProcess(container *exec.Cmd) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", container.Process.Pid))
	if fields := strings.Fields(string(b)); err == nil && len(fields) != 0 {
		return fields[0]
	}
	return ""
}

// killContainer kills a container's first process, and so all of its processes.
func killContainer(t *testing.T, container *exec.Cmd) {
	t.Helper()
	pid, err := strconv.Atoi(firstProcess(container))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = container.Wait()
}

// run checks a container by its first process.
func (c check) run(pid string) ([]byte, error) {
	if c.url != "" {
		return inNet(pid, c.url)
	}
	enter := []string{"--target", pid, "--mount", "--pid", "--root", "--wd"}
	return exec.Command("nsenter", append(enter, c.command...)...).CombinedOutput()
}

// inNet gets a URL in a container's network.
func inNet(pid, url string, headers ...string) ([]byte, error) {
	args := []string{"--target", pid, "--net", "busybox", "wget", "-qO-"}
	for _, h := range headers {
		args = append(args, "--header", h)
	}
	return exec.Command("nsenter", append(args, url)...).CombinedOutput()
}

// paged gets the page as port-forward does, which connects in the pod's network, with the token that
// the inspector finds.
func (s sidecar) paged(t *testing.T, first *exec.Cmd, c container) {
	t.Helper()
	if s.page == "" {
		return
	}
	token, err := os.ReadFile(filepath.Join(c.volume, strings.TrimPrefix(s.token, s.volume)))
	if err != nil {
		t.Fatal(err)
	}
	pid := firstProcess(first)
	out, err := inNet(pid, s.page+"/api/about", "Authorization: Bearer "+strings.TrimSpace(string(token)))
	if err != nil || !strings.Contains(string(out), `"write":false`) {
		t.Errorf("the page: %v: %s", err, out)
	}
	if out, err := inNet(pid, s.page+"/api/about"); err == nil {
		t.Errorf("the page without a token: %s", out)
	}
	if out, err := inNet(pid, strings.Replace(s.page, "127.0.0.1", podAddress, 1)+"/"); err == nil {
		t.Errorf("the page from other hosts: %s", out)
	}
}

// sidecarLimit is the time allowed for a start or a restart on a busy machine.
const sidecarLimit = time.Minute

// output collects what a command writes.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

var _ io.Writer = (*output)(nil)

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
}

// waitFor waits until the command has written one of some words.
func (o *output) waitFor(t *testing.T, oneOf ...string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < sidecarLimit; time.Sleep(50 * time.Millisecond) {
		if slices.ContainsFunc(oneOf, func(words string) bool { return strings.Contains(o.String(), words) }) {
			return
		}
	}
	t.Fatalf("no %q in what the inspector sees: %s", oneOf, o)
}

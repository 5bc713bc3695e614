package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// sidecar is what a file of contrib says of the two containers.
type sidecar struct {
	serve  []string // the command of the one that mounts
	health []string // whether it serves, a command in it
	volume string   // the volume's directory in both
	look   []string // the command of the one that looks
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

// imageCommand returns ENTRYPOINT and CMD of the Containerfile.
func imageCommand(t *testing.T) (entry, command []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(contrib, "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for word, into := range map[string]*[]string{"ENTRYPOINT": &entry, "CMD": &command} {
		line := regexp.MustCompile(`(?m)^` + word + ` (\[.*\])$`).FindSubmatch(b)
		if line == nil {
			t.Fatalf("the Containerfile has no %s", word)
		}
		if err := json.Unmarshal(line[1], into); err != nil {
			t.Fatal(err)
		}
	}
	return entry, command
}

// composed reads compose.yaml.
func composed(t *testing.T) sidecar {
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
	entry, command := imageCommand(t)
	if serve.Command != nil {
		command = serve.Command
	}
	for i, word := range look.Command {
		look.Command[i] = strings.ReplaceAll(word, "$$", "$")
	}
	return sidecar{append(entry, command...), health[1:], serve.Volumes[0].Target, look.Command}
}

// podded reads kubernetes.yaml.
func podded(t *testing.T) sidecar {
	t.Helper()
	type container struct {
		Args, Command []string
		StartupProbe  struct{ Exec struct{ Command []string } } `yaml:"startupProbe"`
		VolumeMounts  []struct {
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
	entry, _ := imageCommand(t)
	return sidecar{append(entry, serve.Args...), serve.StartupProbe.Exec.Command, serve.VolumeMounts[0].MountPath, look.Command}
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
	t.Setenv("CGO_ENABLED", "0") // as the Containerfile has it: the image has nothing else
	program, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	privateThread(t)
	for _, s := range []sidecar{composed(t), podded(t)} {
		s.play(t, program, bwrap, busybox)
	}
}

func (s sidecar) play(t *testing.T, program, bwrap, busybox string) {
	t.Helper()
	top := t.TempDir()
	volume, image, bin := filepath.Join(top, "volume"), filepath.Join(top, "image"), filepath.Join(top, "bin")
	shareSubmounts(t, volume)
	makeImage(t, image, program, s)
	makeBin(t, bin, busybox)

	first := s.start(t, volume, image)
	s.healthy(t, first, image)
	seen := &output{}
	look := exec.Command(bwrap, append([]string{
		"--unshare-pid", "--die-with-parent", "--proc", "/proc", "--dev", "/dev",
		"--ro-bind", bin, "/bin", "--bind", volume, s.volume, "--chdir", "/", "--setenv", "PATH", "/bin",
	}, s.look...)...)
	look.Stdout, look.Stderr = seen, seen
	begin(t, look)
	seen.waitFor(t, "k  vfs_read+0x5")
	seen.waitFor(t, "mine")

	_ = first.Process.Kill() // and so the process that it waits for
	_ = first.Wait()
	seen.waitFor(t, "not connected")
	seen.reset()
	second := s.start(t, volume, image)
	s.healthy(t, second, image)
	seen.waitFor(t, "k  vfs_read+0x5")
	seen.waitFor(t, "mine")
	_ = look.Process.Kill()
	_ = look.Wait()
	_ = second.Process.Kill()
	_ = second.Wait()
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
	if err := os.Mkdir(dir, 0o755); err != nil {
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

// makeImage makes the root of the container that mounts: what the Containerfile has, and the
// directories that an engine adds.
func makeImage(t *testing.T, dir, program string, s sidecar) {
	t.Helper()
	for _, d := range []string{"bin", "proc", "dev", "sys", s.volume} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, s.serve[0]), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
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

// start starts the container that mounts. Its first process ends with the returned command.
func (s sidecar) start(t *testing.T, volume, image string) *exec.Cmd {
	t.Helper()
	script := fmt.Sprintf(`set -e
mount --rbind %[1]s %[2]s%[3]s
mount -t proc proc %[2]s/proc
mount -t tmpfs none %[2]s/dev
for d in null fuse; do : >%[2]s/dev/$d; mount --bind /dev/$d %[2]s/dev/$d; done
exec chroot %[2]s "$@"`, volume, image, s.volume)
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation", "unchanged", "--pid", "--fork", "--kill-child", "sh", "-c", script, "sh"}, s.serve...)...)
	begin(t, cmd)
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

// healthy waits until the health check, in the container's namespaces, ends with 0.
func (s sidecar) healthy(t *testing.T, container *exec.Cmd, image string) {
	t.Helper()
	var out []byte
	for begin := time.Now(); time.Since(begin) < sidecarLimit; time.Sleep(100 * time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", container.Process.Pid))
		if err != nil || len(strings.Fields(string(b))) == 0 {
			continue
		}
		enter := []string{"--target", strings.Fields(string(b))[0], "--mount", "--pid", "--root", "--wd"}
		if out, err = exec.Command("nsenter", append(enter, s.health...)...).CombinedOutput(); err == nil {
			return
		}
	}
	t.Fatalf("not healthy: %s", out)
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

// waitFor waits until the command has written some words.
func (o *output) waitFor(t *testing.T, words string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < sidecarLimit; time.Sleep(50 * time.Millisecond) {
		if strings.Contains(o.String(), words) {
			return
		}
	}
	t.Fatalf("no %q in what the inspector sees: %s", words, o)
}

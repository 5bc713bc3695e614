package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kprobefs/kprobefs/internal/tools/linux"
)

// DebianModules are the sources of modules that are built with the headers of Debian's
// kernel, in files of their own or in the scripts that load them, below integration.
const DebianModules = "testdata/modules/debian"

// ErrNoHeaders says that the headers of Debian's kernel are not installed.
var ErrNoHeaders = errors.New("no headers of Debian's kernel 6.1 here (linux-headers-amd64, gcc, make)")

// ABINumber reads NN of the folder linux-headers-6.1.0-NN-amd64.
var abiNumber = regexp.MustCompile(`linux-headers-6\.1\.0-(\d+)-amd64$`)

// Headers returns the folder of the newest headers of Debian's 6.1 that are installed.
// It fails with ErrNoHeaders.
func Headers() (string, error) {
	dirs, err := filepath.Glob("/usr/src/linux-headers-6.1.0-*-amd64")
	if err != nil {
		return "", err
	}
	newest, best := "", -1
	for _, dir := range dirs {
		if m := abiNumber.FindStringSubmatch(dir); m != nil {
			if n, _ := strconv.Atoi(m[1]); n > best {
				newest, best = dir, n
			}
		}
	}
	if newest == "" {
		return "", ErrNoHeaders
	}
	return newest, nil
}

// Source is the source of a kernel module.
type Source struct {
	Name string // of the module
	Text []byte
}

// SourcesIn returns the sources of modules in dir: files NAME.c, and parts NAME.c of scripts.
func SourcesIn(dir string) ([]Source, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.c"))
	if err != nil {
		return nil, err
	}
	all, err := readSources(files)
	if err != nil {
		return nil, err
	}
	cases, err := Load(dir)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		for _, m := range c.Modules {
			all = append(all, Source{moduleName(m.Name), m.Data})
		}
	}
	return all, nil
}

// readSources reads sources from files.
func readSources(files []string) (all []Source, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, Source{moduleName(file), text})
	}
	return all, nil
}

// moduleName returns the name of the module that a file is the source of.
func moduleName(file string) string { return strings.TrimSuffix(filepath.Base(file), ".c") }

// Object returns the name of the module's object.
func (s Source) Object() string { return s.Name + ".ko" }

// BuildModules compiles the sources in dir with the headers of Debian's kernel and
// returns the objects by their names ("x.ko"). It fails with ErrNoHeaders.
func BuildModules(dir string) (map[string][]byte, error) {
	headers, err := Headers()
	if err != nil {
		return nil, err
	}
	sources, err := SourcesIn(dir)
	if err != nil {
		return nil, err
	}
	return buildOnce(headers, sources)
}

// BuildSamples compiles Samples with the headers of Debian's kernel. It fails with
// ErrNoHeaders.
func BuildSamples(sources []Source) (map[string][]byte, error) {
	headers, err := Headers()
	if err != nil {
		return nil, err
	}
	return buildOnce(headers, sources)
}

// maxBuilt is how many sets of objects buildOnce keeps.
const maxBuilt = 12

// buildOnce is BuildSources with the headers of a package. It keeps the objects in the
// user's cache: one run of CI needs the same sixty modules in four programs, and to build
// them takes a minute and a half.
func buildOnce(headers string, sources []Source) (map[string][]byte, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return BuildSources(headers, sources)
	}
	key := sha256.New()
	compiler, err := exec.Command("gcc", "--version").Output()
	fmt.Fprintln(key, headers, string(compiler), err)
	for _, s := range sources {
		fmt.Fprintln(key, s.Name, len(s.Text))
		key.Write(s.Text)
	}
	all := filepath.Join(cache, "kprobefs", "modules")
	dir := filepath.Join(all, hex.EncodeToString(key.Sum(nil)[:16]))
	if objects, err := readObjects(dir, sources); err == nil {
		return objects, nil
	}
	objects, err := BuildSources(headers, sources)
	if err != nil {
		return nil, err
	}
	if err := keepObjects(all, dir, objects); err != nil {
		fmt.Fprintln(os.Stderr, "integration: modules are built again the next time:", err)
	}
	return objects, nil
}

// readObjects reads what keepObjects has written.
func readObjects(dir string, sources []Source) (map[string][]byte, error) {
	objects := map[string][]byte{}
	for _, s := range sources {
		name := s.Object()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		objects[name] = b
	}
	return objects, nil
}

// keepObjects writes objects to dir, which is in all, and removes the
// others when there are maxBuilt.
func keepObjects(all, dir string, objects map[string][]byte) error {
	if err := os.MkdirAll(all, 0o755); err != nil {
		return err
	}
	old, err := os.ReadDir(all)
	if err != nil {
		return err
	}
	if len(old) >= maxBuilt {
		for _, e := range old {
			if err := os.RemoveAll(filepath.Join(all, e.Name())); err != nil {
				return err
			}
		}
	}
	tmp, err := os.MkdirTemp(all, "new")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	for name, b := range objects {
		if err := os.WriteFile(filepath.Join(tmp, name), b, 0o644); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, os.ErrExist) { // another process was faster
		return err
	}
	return nil
}

// BuildModulesWith compiles the sources in dir as kernel modules with headers, a
// directory such as /lib/modules/RELEASE/build. It returns the objects by their names.
func BuildModulesWith(headers, dir string) (map[string][]byte, error) {
	sources, err := SourcesIn(dir)
	if err != nil {
		return nil, err
	}
	return BuildSources(headers, sources)
}

// BuildSources is BuildModulesWith for sources that have been read.
func BuildSources(headers string, sources []Source) (map[string][]byte, error) {
	tmp, err := os.MkdirTemp("", "kprobefs-modules")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	makefile := "obj-m :="
	var names []string
	for _, s := range sources {
		names = append(names, s.Name)
		makefile += " " + s.Name + ".o"
		if err := os.WriteFile(filepath.Join(tmp, s.Name+".c"), s.Text, 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(tmp, "Makefile"), []byte(makefile+"\n"), 0o644); err != nil {
		return nil, err
	}
	// genksyms, which EXPORT_SYMBOL needs, can take all memory there is.
	build := exec.Command("sh", "-c", `ulimit -v 4000000; exec make -s -j2 -C "$1" M="$2" modules`, "sh", headers, tmp)
	var said bytes.Buffer
	build.Stdout, build.Stderr = &said, &said
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("modules %s: %w\n%s", names, err, said.Bytes())
	}
	objects := map[string][]byte{}
	for _, s := range sources {
		name := s.Object()
		if objects[name], err = os.ReadFile(filepath.Join(tmp, name)); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// ImageModules are scripts that load modules of Debian's kernel package, and sources of
// modules that call them, below integration.
const ImageModules = "testdata/modules/image"

// BuildImageModules returns the modules of the kernel package of the newest headers here,
// and the modules of ImageModules' sources in dir. It fails with ErrNoHeaders, and with
// errors of package linux.
func BuildImageModules(ctx context.Context, dir string) (map[string][]byte, error) {
	headers, err := Headers()
	if err != nil {
		return nil, err
	}
	kernel, err := linux.ForHeaders(ctx, headers)
	if err != nil {
		return nil, err
	}
	objects, err := kernel.ModuleObjects(ctx)
	if err != nil {
		return nil, err
	}
	own, err := BuildModulesWith(headers, dir)
	maps.Copy(objects, own)
	return objects, err
}

// SampleModules are scripts that load samples of Linux 6.1, below integration. The
// sources are Linux's, under the GPL: they are not part of this repository.
const SampleModules = "testdata/modules/samples"

// ErrNoSamples says that Linux's samples are not there.
var ErrNoSamples = errors.New("no samples of Linux 6.1 here (go run ./internal/tools/ftracetest fetch)")

// LinuxSource returns the folder in which `ftracetest fetch` keeps what it has taken out
// of Debian's linux-source of a release ("6.1"), whether it is there or not.
func LinuxSource(release string) (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "kprobefs", "ftrace-"+release, "linux-source-"+release), err
}

// SampleSources are the samples of Linux that are built, below its folder samples.
var SampleSources = []string{
	"kprobes/kprobe_example.c", "kprobes/kretprobe_example.c", "trace_printk/trace-printk.c",
}

// Samples returns SampleSources. It fails with ErrNoSamples.
func Samples() ([]Source, error) {
	source, err := LinuxSource(linux.Default)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, s := range SampleSources {
		file := filepath.Join(source, "samples", s)
		if _, err := os.Stat(file); err != nil {
			return nil, ErrNoSamples
		}
		files = append(files, file)
	}
	return readSources(files)
}

// LoadModuleCases reads the cases of scripts, DebianModules or SampleModules, in a folder
// of package integration. Each has the modules beside it that its script names; objects
// are what BuildModules returned.
func LoadModuleCases(integration, scripts string, objects map[string][]byte) ([]*Case, error) {
	cases, err := Load(filepath.Join(integration, scripts))
	if err != nil {
		return nil, err
	}
	lib, err := shared.ReadFile("modules.sh")
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		c.Files = map[string][]byte{"modules.sh": lib}
		words := append(regexp.MustCompile(`\w+`).FindAllString(c.Script, -1), regexp.MustCompile(`[\w-]+`).FindAllString(c.Script, -1)...)
		for name, object := range objects {
			if slices.Contains(words, strings.TrimSuffix(name, ".ko")) {
				c.Files[name] = object
			}
		}
	}
	return cases, nil
}

// Command ftracetest runs the kernel's own tests of tracing,
// tools/testing/selftests/ftrace of Debian's linux-source-6.1, unmodified: below
// "kprobefs exec", or on Debian's kernel, whose results are recorded beside it.
//
//	ftracetest run [DIR]...      run them here, compare with the recording; a test that passes on Linux must pass
//	ftracetest record            run them on Linux, and write linux-6.1.txt
//	ftracetest fetch             get the suite, and print where it is
//
// DIR is a directory of test.d; without one those of dirs are run. The logs of a
// run stay in the folder that it names at its end.
package main

import (
	"bytes"
	"context"
	_ "embed" // the recording
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/integration/linux"
)

// dirs are the directories whose tests are run.
var dirs = []string{"00basic", "kprobe", "event", "filter", "instances", "dynevent", "trigger"}

// notRun are the suite's other directories with their numbers of tests: for the
// function and function_graph tracers, direct calls, a module that disables
// interrupts, boot-time tests, and the tracers wakeup and hwlat.
var notRun = map[string]int{"ftrace": 15, "direct": 2, "preemptirq": 1, "selftest": 1, "tracer": 2}

// recording has a line for each test: its result on Linux and its name.
//
//go:embed linux-6.1.txt
var recording string

const recordingFile = "integration/ftracetest/linux-6.1.txt"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ftracetest:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: ftracetest run [DIR]..., record, fetch")
	}
	suite, err := fetch(ctx)
	if err != nil {
		return err
	}
	switch args[0] {
	case "fetch":
		fmt.Fprintln(out, suite)
		return nil
	case "record":
		return record(ctx, suite, out)
	case "run":
		chosen := args[1:]
		if len(chosen) == 0 {
			chosen = dirs
		}
		return runHere(ctx, suite, chosen, out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// suitePath is the suite's path in the kernel's source.
const suitePath = "linux-source-6.1/tools/testing/selftests/ftrace"

// samplesPath is where Linux's examples are, of which integration.TestSamples builds some.
const samplesPath = "linux-source-6.1/samples/"

// cached returns the directory where the suite is kept.
func cached() (string, error) {
	source, err := integration.LinuxSource()
	return filepath.Dir(source), err
}

// fetch returns the suite's directory, and downloads it from Debian's archive the
// first time.
func fetch(ctx context.Context) (string, error) {
	dir, err := cached()
	if err != nil {
		return "", err
	}
	suite := filepath.Join(dir, filepath.FromSlash(suitePath))
	_, missing := os.Stat(filepath.Join(suite, "ftracetest"))
	if _, err := integration.Samples(); err == nil && missing == nil {
		return suite, nil
	}
	tmp, err := os.MkdirTemp("", "kprobefs-ftracetest")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	script := `apt-cache show linux-source-6.1 >/dev/null 2>&1 || apt-get update -qq
apt-get download -qq linux-source-6.1 2>/dev/null || { apt-get update -qq; apt-get download -qq linux-source-6.1; }
mkdir -p "$1"
dpkg-deb --fsys-tarfile linux-source-6.1_*.deb | tar -xO ./usr/src/linux-source-6.1.tar.xz | { dir=$1; shift; tar -xJ -C "$dir" "$@"; }`
	args := []string{"-ec", script, "sh", dir, suitePath}
	for _, s := range integration.SampleSources {
		args = append(args, samplesPath+s)
	}
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir, cmd.Stderr = tmp, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("linux-source-6.1: %w", err)
	}
	return suite, nil
}

// result is the result of a test.
type result struct{ name, what string }

// tests returns the names of a run's tests in ftracetest's order: the directories'
// tests, then those that also run in an instance.
func tests(suite string, chosen []string) (names []string, err error) {
	var again []string
	for _, dir := range chosen {
		var files []string
		root := filepath.Join(suite, "test.d")
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".tc") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		slices.Sort(files)
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			name, _ := filepath.Rel(root, f)
			names = append(names, name)
			if regexp.MustCompile(`(?m)^#[ \t]*flags:.*instance`).Match(text) {
				again = append(again, name+" (instance)")
			}
		}
	}
	return append(names, again...), nil
}

var resultLine = regexp.MustCompile(`^\[(\d+)\].*\[([A-Z]+)\]$`)

// results parses the output of ftracetest. A test without a result was not run.
func results(names []string, output string) []result {
	all := make([]result, len(names))
	for i, n := range names {
		all[i] = result{n, "-"}
	}
	for line := range strings.Lines(output) {
		m := resultLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if n, _ := strconv.Atoi(m[1]); n >= 1 && n <= len(all) {
			all[n-1].what = m[2]
		}
	}
	return all
}

// good reports whether a result is a success.
func good(what string) bool { return what == "PASS" || what == "XFAIL" }

// recorded returns Linux's results by name.
func recorded() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(recording) {
		what, name, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasPrefix(line, "#") {
			all[strings.TrimSpace(name)] = what
		}
	}
	return all
}

// compare prints a table, and returns the tests that pass on Linux only.
func compare(all []result, out io.Writer) (worse []string) {
	want := recorded()
	for _, r := range all {
		mark := ""
		if good(want[r.name]) && !good(r.what) {
			mark = "  <--"
			worse = append(worse, r.name)
		}
		fmt.Fprintf(out, "%-12s %-12s %s%s\n", r.what, want[r.name], r.name, mark)
	}
	return worse
}

// installModules is a script that puts the modules in the directory $1 where modprobe
// finds them. Without "$1" there are none.
const installModules = `
if [ -n "$1" ]; then
	at=/lib/modules/$(uname -r)/extra
	mkdir -p $at && cp "$1"/*.ko $at && depmod -a || exit
fi
`

// installed writes the modules that tests load, samples of Linux, to a directory that it
// makes, and returns that. It returns "" if they cannot be built here.
func installed(dir string) (string, error) {
	sources, err := integration.Samples()
	var objects map[string][]byte
	if err == nil {
		objects, err = integration.BuildSamples(sources)
	}
	switch {
	case errors.Is(err, integration.ErrNoSamples), errors.Is(err, integration.ErrNoHeaders):
		return "", nil
	case err != nil:
		return "", err
	}
	err = os.MkdirAll(dir, 0o755)
	for name, b := range objects {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o644)
		}
	}
	return dir, err
}

// play runs the tests of some directories below kprobefs exec. Their logs are written
// to logs.
func play(ctx context.Context, suite string, chosen []string, bin, logs string, out io.Writer) ([]result, error) {
	names, err := tests(suite, chosen)
	if err != nil {
		return nil, err
	}
	modules, err := installed(filepath.Join(filepath.Dir(logs), "modules"))
	if err != nil {
		return nil, err
	}
	// The suite enables all events and traces all functions again and again, and each call of
	// its shells would be stopped for that: with all, the suite did not end within 8 minutes on
	// a loaded machine.
	args := []string{"exec", "--mirror", "changes", "--cpus", "2", "--", "busybox", "sh", "-c", installModules + `shift; exec busybox sh ./ftracetest "$@"`, "sh", modules, "-l", logs}
	for _, d := range chosen {
		args = append(args, "test.d/"+d)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = suite
	var text, noise bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&text, out), &noise
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) { // also if a test fails
		return nil, err
	}
	all := results(names, text.String())
	if slices.ContainsFunc(all, func(r result) bool { return r.what == "-" }) { // it did not finish
		fmt.Fprintf(out, "\n%v\n%s", err, tail(noise.String(), 40))
	}
	return all, ctx.Err()
}

// tail returns the last n lines.
func tail(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

func runHere(ctx context.Context, suite string, chosen []string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "kprobefs-ftracetest")
	if err != nil {
		return err
	}
	bin, err := integration.Build(ctx, dir)
	if err != nil {
		return err
	}
	logs := filepath.Join(dir, "logs")
	all, err := play(ctx, suite, chosen, bin, logs, out)
	_ = os.Remove(bin)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%-12s %-12s %s\n", "here", "Linux", "test")
	worse := compare(all, out)
	fmt.Fprintf(out, "logs: %s\n", logs)
	if len(worse) > 0 {
		return fmt.Errorf("%d of %d tests pass on Linux and not here", len(worse), len(all))
	}
	return nil
}

// addModules adds the modules that tests load to the files of a script.
func addModules(files map[string][]byte) error {
	sources, err := integration.Samples()
	if err != nil {
		return err
	}
	objects, err := integration.BuildSamples(sources)
	for name, b := range objects {
		files["modules/"+name] = b
	}
	return err
}

// record runs all tests on Linux and writes their results.
func record(ctx context.Context, suite string, out io.Writer) error {
	if err := linux.Check(); err != nil {
		return err
	}
	k, err := linux.Newest(ctx, linux.Default)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(suite, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(suite, path)
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	if err := addModules(files); err != nil {
		return err
	}
	script := "ifconfig lo 127.0.0.1 up\nset -- modules" + installModules + "busybox sh ./ftracetest -l /tmp/logs"
	for _, d := range dirs {
		script += " test.d/" + d
	}
	got, err := k.Run(ctx, "", []linux.Script{{Name: "ftracetest", Text: script + "\n", Files: files, Limit: time.Hour}})
	if err != nil {
		return err
	}
	names, err := tests(suite, dirs)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of linux-source-6.1's ftracetest on %s, two vCPUs.\n", k)
	for _, r := range results(names, got[0].Output) {
		if r.what == "-" {
			return fmt.Errorf("%s was not run:\n%s", r.name, got[0].Output)
		}
		fmt.Fprintf(&b, "%-11s %s\n", r.what, r.name)
	}
	fmt.Fprint(out, b.String())
	return os.WriteFile(recordingFile, []byte(b.String()), 0o644)
}

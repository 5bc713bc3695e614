// Command ftracetest runs the kernel's own tests of tracing,
// tools/testing/selftests/ftrace of Debian's linux-source-6.1 or -6.12, unmodified,
// with dash and GNU's tools: below "kprobefs exec", or on Debian's kernel, whose results
// are recorded beside it.
//
//	ftracetest [-release R] run [NAME]...     run tests here, compare with the recording; one that passes on Linux must pass, unless known.txt has it
//	ftracetest [-release R] record [DIR]...   run them on Linux, and write linux-R.txt
//	ftracetest [-release R] fetch             get the suite, and print where it is
//
// NAME is a directory of test.d or a test in one; without one all are run. The logs of a
// run stay in the folder that it names at its end.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
	"github.com/kprobefs/kprobefs/kernel/release"
)

// releases are those whose suite can be run, and for which it is recorded what Linux gave.
var releases = release.RecordedNames(func(d release.Debian) bool { return d.Selftests })

// recordings have a line for each test of a release's suite: its result on Linux and its
// name. known.txt has the tests that fail here and not there, and why.
//
//go:embed linux-*.txt known.txt
var recordings embed.FS

func recordingFile(release string) string { return "linux-" + release + ".txt" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ftracetest:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("ftracetest", flag.ContinueOnError)
	release := flags.String("release", linux.Default, "the `RELEASE` whose suite it is, "+strings.Join(releases, " or "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if args = flags.Args(); len(args) == 0 || !slices.Contains(releases, *release) {
		return errors.New("usage: ftracetest [-release 6.1|6.12] run [NAME]..., record [DIR]..., fetch")
	}
	s, err := fetch(ctx, *release)
	if err != nil {
		return err
	}
	switch args[0] {
	case "fetch":
		fmt.Fprintln(out, s.dir)
		return nil
	case "record":
		return s.record(ctx, args[1:], out)
	case "run":
		return s.runHere(ctx, args[1:], out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// suite is the tests of a release.
type suite struct {
	release string
	dir     string // tools/testing/selftests/ftrace
}

// suitePath and samplesPath are where the suite is in the kernel's source, and Linux's
// examples, of which integration.TestSamples builds some.
const (
	suitePath   = "tools/testing/selftests/ftrace"
	samplesPath = "samples"
)

// cached returns a release's suite as it is kept, whether it is there or not.
func cached(release string) (suite, error) {
	source, err := integration.LinuxSource(release)
	return suite{release, filepath.Join(source, filepath.FromSlash(suitePath))}, err
}

// there reports whether the suite has been fetched.
func (s suite) there() bool {
	_, err := os.Stat(filepath.Join(s.dir, "ftracetest"))
	return err == nil
}

// fetch returns a release's suite, and downloads it from Debian's archive the first time.
func fetch(ctx context.Context, release string) (suite, error) {
	s, err := cached(release)
	if err != nil {
		return s, err
	}
	_, noSamples := integration.Samples()
	if s.there() && (release != linux.Default || noSamples == nil) {
		return s, nil
	}
	source, err := integration.LinuxSource(release)
	if err != nil {
		return s, err
	}
	name := filepath.Base(source)
	wanted := []string{name + "/" + suitePath}
	if release == linux.Default {
		for _, sample := range integration.SampleSources {
			wanted = append(wanted, name+"/"+samplesPath+"/"+sample)
		}
	}
	return s, linux.Source(ctx, release, filepath.Dir(source), wanted...)
}

// result is the result of a test.
type result struct{ name, what string }

// dirs returns the directories of the suite that have tests.
func (s suite) dirs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "test.d"))
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "template" {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, nil
}

// tests returns the tests in directories and those that are named. Without a name
// it returns all.
func (s suite) tests(chosen []string) ([]string, error) {
	if len(chosen) == 0 {
		var err error
		if chosen, err = s.dirs(); err != nil {
			return nil, err
		}
	}
	root := filepath.Join(s.dir, "test.d")
	var names []string
	for _, c := range chosen {
		err := filepath.WalkDir(filepath.Join(root, c), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".tc") {
				name, _ := filepath.Rel(root, path)
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

var instanceFlag = regexp.MustCompile(`(?m)^#[ \t]*flags:.*instance`)

// inOrder returns what ftracetest runs for tests, in its order: the tests, then those
// that also run in an instance.
func (s suite) inOrder(tests []string) ([]string, error) {
	var again []string
	for _, t := range tests {
		text, err := os.ReadFile(filepath.Join(s.dir, "test.d", t))
		if err != nil {
			return nil, err
		}
		if instanceFlag.Match(text) {
			again = append(again, t+" (instance)")
		}
	}
	return slices.Concat(tests, again), nil
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

// table returns the lines of a recording: a word, and what follows it.
func table(file string) ([][2]string, error) {
	text, err := recordings.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rows [][2]string
	for line := range strings.Lines(string(text)) {
		word, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasPrefix(line, "#") {
			rows = append(rows, [2]string{word, strings.TrimSpace(rest)})
		}
	}
	return rows, nil
}

// recorded returns a release's results on Linux by name.
func recorded(release string) (map[string]string, error) {
	all := map[string]string{}
	rows, err := table(recordingFile(release))
	for _, r := range rows {
		all[r[1]] = r[0]
	}
	return all, err
}

// known returns why tests of a release fail here that pass on Linux, by name. A line of
// known.txt is RELEASE NAME: REASON.
func known(release string) (map[string]string, error) {
	rows, err := table("known.txt")
	all := map[string]string{}
	for _, r := range rows {
		name, why, _ := strings.Cut(r[1], ": ")
		if r[0] == release {
			all[name] = why
		}
	}
	return all, err
}

// compare prints a table, and returns what is not as it should be: tests that pass on
// Linux only and are not known to, and tests that are known to and pass.
func compare(all []result, onLinux, known map[string]string, out io.Writer) (wrong []string) {
	for _, r := range all {
		mark := ""
		why, isKnown := known[r.name]
		switch {
		case good(onLinux[r.name]) && !good(r.what) && isKnown:
			mark = "  known: " + why
		case good(onLinux[r.name]) && !good(r.what):
			mark = "  <--"
			wrong = append(wrong, r.name+" passes on Linux and is "+r.what+" here")
		case isKnown:
			mark = "  <-- known.txt"
			wrong = append(wrong, fmt.Sprintf("%s is %s here and %s on Linux: it must not be in known.txt", r.name, r.what, onLinux[r.name]))
		}
		fmt.Fprintf(out, "%-12s %-12s %s%s\n", r.what, onLinux[r.name], r.name, mark)
	}
	return wrong
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

// play runs tests below kprobefs exec. Their logs are written to logs.
func (s suite) play(ctx context.Context, tests []string, bin, logs, modules string, out io.Writer) ([]result, error) {
	names, err := s.inOrder(tests)
	if err != nil {
		return nil, err
	}
	// As exec does by default. With --mirror=changes a fork could fail with EINTR, since dash has
	// a handler of SIGCHLD: "Cannot fork" (differences.md).
	args := integration.ExecArgs([]string{"--release", s.release, "--cpus", "2"},
		"sh", "-c", installModules+`shift; exec sh ./ftracetest "$@"`, "sh", modules, "-l", logs)
	for _, t := range tests {
		args = append(args, "test.d/"+t)
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = s.dir
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

// parts is how many parts of the tests are played at once, each below an exec of its own:
// most of their time is spent waiting.
const parts = 2

// playAll plays tests in parts, of which each has its share of every directory's.
func (s suite) playAll(ctx context.Context, tests []string, bin, dir string, out io.Writer) ([]result, error) {
	modules := ""
	if s.release == linux.Default { // whose headers are here
		var err error
		if modules, err = installed(filepath.Join(dir, "modules")); err != nil {
			return nil, err
		}
	}
	var shares [parts][]string
	for i, t := range tests {
		shares[i%parts] = append(shares[i%parts], t)
	}
	var played [parts][]result
	var errs [parts]error
	var wg sync.WaitGroup
	for i, share := range shares {
		if len(share) > 0 {
			wg.Go(func() {
				played[i], errs[i] = s.play(ctx, share, bin, filepath.Join(dir, "logs", strconv.Itoa(i)), modules, out)
			})
		}
	}
	wg.Wait()
	all := slices.Concat(played[:]...)
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.name, b.name) })
	return all, errors.Join(errs[:]...)
}

// tail returns the last n lines.
func tail(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

func (s suite) runHere(ctx context.Context, chosen []string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "kprobefs-ftracetest")
	if err != nil {
		return err
	}
	bin, err := integration.Build(ctx, dir)
	if err != nil {
		return err
	}
	tests, err := s.tests(chosen)
	if err != nil {
		return err
	}
	all, err := s.playAll(ctx, tests, bin, dir, io.Discard)
	_ = os.Remove(bin)
	if err != nil {
		return err
	}
	onLinux, err := recorded(s.release)
	if err != nil {
		return err
	}
	fails, err := known(s.release)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-12s %-12s %s\n", "here", "Linux", "test")
	wrong := compare(all, onLinux, fails, out)
	here, there := 0, 0
	for _, r := range all {
		if good(r.what) {
			here++
		}
		if good(onLinux[r.name]) {
			there++
		}
	}
	fmt.Fprintf(out, "%d of %d pass here, %d on Linux; logs: %s\n", here, len(all), there, filepath.Join(dir, "logs"))
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d tests are not as they should be", len(wrong), len(all))
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

// packages are Debian's whose programs the tests call.
var packages = []string{
	"bc", "coreutils", "dash", "diffutils", "findutils", "grep", "iputils-ping", "kmod", "mawk", "mount",
	"procps", "sed", "util-linux",
}

// programs returns the paths of the packages' programs.
func programs(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "dpkg", append([]string{"-L"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("dpkg -L %s: %w", packages, err)
	}
	var files []string
	for _, f := range regexp.MustCompile(`(?m)^(/usr)?/s?bin/.*$`).FindAllString(string(out), -1) {
		if b, err := os.ReadFile(f); err == nil && bytes.HasPrefix(b, []byte("\x7fELF")) {
			files = append(files, f)
		}
	}
	return files, nil
}

// onLinux is what the initrd's busybox does before it calls a suite with Debian's own
// programs.
const onLinux = `ifconfig lo 127.0.0.1 up
echo 127.0.0.1 localhost >/etc/hosts
ln -sf /usr/bin/dash /bin/sh
ln -s mawk /usr/bin/awk
set -- "$(ls -d $PWD/modules 2>/dev/null)"
export PATH=/usr/sbin:/usr/bin
` + installModules + `exec sh ./ftracetest -l /tmp/logs`

// record runs directories on Linux, each after a boot of its own, and writes the results.
func (s suite) record(ctx context.Context, chosen []string, out io.Writer) error {
	if err := linux.Check(); err != nil {
		return err
	}
	k, err := linux.Newest(ctx, s.release)
	if err != nil {
		return err
	}
	tools, err := programs(ctx)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(s.dir, path)
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	if s.release == linux.Default {
		if err := addModules(files); err != nil {
			return err
		}
	}
	all := map[string]string{}
	if len(chosen) > 0 {
		all, err = recorded(s.release)
	} else if len(chosen) == 0 {
		chosen, err = s.dirs()
	}
	if err != nil {
		return err
	}
	for _, dir := range chosen {
		played, err := s.playOnLinux(ctx, k, dir, files, tools)
		if err != nil {
			return err
		}
		for _, r := range played {
			fmt.Fprintf(out, "%-11s %s\n", r.what, r.name)
			all[r.name] = r.what
		}
		if err := s.write(k, all); err != nil {
			return err
		}
	}
	return nil
}

// write writes the recording.
func (s suite) write(k *linux.Kernel, all map[string]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of linux-source-%s's ftracetest on %s, two vCPUs.\n", s.release, k)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%-11s %s\n", all[name], name)
	}
	return os.WriteFile(filepath.Join("internal", "tools", "ftracetest", recordingFile(s.release)), []byte(b.String()), 0o644)
}

// playOnLinux runs the tests of a directory.
func (s suite) playOnLinux(ctx context.Context, k *linux.Kernel, dir string, files map[string][]byte, tools []string) ([]result, error) {
	tests, err := s.tests([]string{dir})
	if err != nil {
		return nil, err
	}
	names, err := s.inOrder(tests)
	if err != nil {
		return nil, err
	}
	script := onLinux
	for _, t := range tests {
		script += " test.d/" + t
	}
	got, err := k.Run(ctx, "", []linux.Script{{Name: "ftracetest", Text: script + "\n", Files: files, Limit: time.Hour}}, tools...)
	if err != nil {
		return nil, err
	}
	all := results(names, got[0].Output)
	for _, r := range all {
		if r.what == "-" {
			return nil, fmt.Errorf("%s was not run:\n%s", r.name, got[0].Output)
		}
	}
	return all, nil
}

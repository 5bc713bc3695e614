// Command fuzz runs the module's fuzz targets, each for a given time, several in
// parallel. It fails if one finds a failing input, prints that input, and leaves it
// in the package's testdata/fuzz, where `go test` finds it.
//
// `go test -fuzz X -fuzztime T` sometimes fails with "context deadline exceeded" and
// no input, because of a race in the fuzzing engine when T is over. Here engines are
// ended by an interrupt instead, which does not have that race. An error that an
// engine then reports is a failure.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/kprobefs/kprobefs/internal/tools/share"
)

func main() {
	length := flag.Duration("time", 30*time.Second, "how long each target runs")
	jobs := flag.Int("jobs", 2, "how many targets run at once, one processor each")
	only := flag.String("run", "", "a pattern: only targets whose package and name, as in kernel/cpu.FuzzRun, match")
	var part share.Share
	flag.Var(&part, "share", "with `TEXT/N`, run one of N targets; TEXT, such as a commit, says which")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *length, *jobs, *only, part); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, length time.Duration, jobs int, only string, part share.Share) error {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	targets, err := find(ctx, pattern)
	targets = slices.DeleteFunc(targets, func(t *target) bool { return !part.Has(t.String()) })
	if err == nil && len(targets) == 0 {
		err = fmt.Errorf("no target matches %q", only)
	}
	if err != nil {
		return err
	}
	if err := build(ctx, dir, targets); err != nil {
		return err
	}
	return fuzzAll(ctx, out, targets, length, jobs)
}

// target is a fuzz function.
type target struct {
	pkg, dir string
	name     string
	binary   string // the package's test binary
	cache    string // the engine's cache of interesting inputs
}

func (t *target) String() string { return t.pkg + "." + t.name }

// find returns the module's targets that match, by package.
func find(ctx context.Context, pattern *regexp.Regexp) ([]*target, error) {
	list := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,Module,TestGoFiles,XTestGoFiles", "./...")
	list.Stderr = os.Stderr
	text, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var targets []*target
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p struct {
			Dir, ImportPath           string
			Module                    struct{ Path string }
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return targets, nil
		} else if err != nil {
			return nil, err
		}
		for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
			names, err := fuzzFuncs(filepath.Join(p.Dir, f))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				t := &target{
					pkg: strings.TrimPrefix(p.ImportPath, p.Module.Path+"/"), dir: p.Dir, name: name,
					cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz", p.ImportPath),
				}
				if pattern.MatchString(t.String()) {
					targets = append(targets, t)
				}
			}
		}
	}
}

// fuzzFuncs returns the fuzz targets in a file.
func fuzzFuncs(file string) (names []string, err error) {
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// build builds the test binary of each target's package with the engine's coverage
// instrumentation.
func build(ctx context.Context, dir string, targets []*target) error {
	built := map[string]string{}
	for _, t := range targets {
		if built[t.dir] == "" {
			file := filepath.Join(dir, strings.ReplaceAll(t.pkg, "/", "_")+".test")
			cmd := exec.CommandContext(ctx, "go", "test", "-c", "-fuzz=.", "-o", file, t.dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("building the tests of %s: %w\n%s", t.pkg, err, out)
			}
			built[t.dir] = file
		}
		t.binary = built[t.dir]
	}
	return nil
}

// fuzzAll runs all targets, and prints a line for each.
func fuzzAll(ctx context.Context, out io.Writer, targets []*target, length time.Duration, jobs int) error {
	var mu sync.Mutex
	var failed []string
	queue := make(chan *target)
	var wg sync.WaitGroup
	for range max(1, jobs) {
		wg.Go(func() {
			for t := range queue {
				did, err := t.fuzz(ctx, length)
				if errors.Is(err, errEnded) {
					mu.Lock()
					fmt.Fprintf(out, "once more %s: %v\n", t, err)
					mu.Unlock()
					did, err = t.fuzz(ctx, length)
				}
				mu.Lock()
				switch {
				case errors.Is(err, errSkipped):
					fmt.Fprintf(out, "skip %s: %v\n", t, err)
				case err != nil:
					failed = append(failed, t.String())
					fmt.Fprintf(out, "FAIL %s: %v\n", t, err)
				case did.inputs < fewInputs:
					failed = append(failed, t.String())
					fmt.Fprintf(out, "FAIL %-44s %v: fewer than %d find nothing\n", t, did, fewInputs)
				default:
					fmt.Fprintf(out, "ok   %-44s %v\n", t, did)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range targets {
		if ctx.Err() != nil {
			break
		}
		queue <- t
	}
	close(queue)
	wg.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d targets failed: %s", len(failed), len(targets), strings.Join(failed, ", "))
	}
	return nil
}

const (
	// beginLimit is the time limit for the inputs that an engine has at the start.
	beginLimit = 5 * time.Minute
	// endLimit is the time limit for ending after the interrupt: the engine finishes
	// its current input.
	endLimit = time.Minute
)

// fewInputs is the minimum number of inputs that a target must try. With fewer, the run
// would show only that the seeds pass. On a busy machine a slow target gets the time that
// it needs for them, up to moreTimes as long as the others.
const (
	fewInputs = 50
	moreTimes = 12
)

// done are an engine's counts.
type done struct {
	inputs int // inputs tried
	found  int // inputs that reached new code
	known  int // inputs in the corpus
}

func (d done) String() string {
	return fmt.Sprintf("%9d executions, %5d new interesting, %6d in all", d.inputs, d.found, d.known)
}

// fuzz runs a target and returns its counts.
func (t *target) fuzz(ctx context.Context, length time.Duration) (did done, err error) {
	// The engine minimizes inputs that reach new code. The coverage of targets that
	// run a machine is not deterministic, so they would spend half a second on each.
	// This limits the number of attempts.
	cmd := exec.Command(t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzzcachedir="+t.cache,
		"-test.parallel=1", "-test.fuzzminimizetime=10x", "-test.timeout=0")
	cmd.Dir = t.dir
	text := newLog(begun)
	cmd.Stdout, cmd.Stderr = text, text
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a process group for it and its workers
	if err := cmd.Start(); err != nil {
		return did, err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = t.wait(ctx, ended, text, length)
	if err == nil {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case err = <-ended:
		case <-time.After(endLimit):
			err = fmt.Errorf("still runs %v after it was asked to end", endLimit)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-ended
		}
	}
	did = executed(text.String())
	if err != nil && strings.Contains(text.String(), "fuzzing process hung or terminated unexpectedly") {
		err = fmt.Errorf("%w: %w", errEnded, err)
	}
	switch {
	case err != nil:
		return did, fmt.Errorf("%w\n%s%s", err, text.String(), t.failing(text.String()))
	case did.inputs == 0 && ctx.Err() == nil:
		return did, fmt.Errorf("no input was tried\n%s", text.String())
	}
	return did, nil
}

// wait lets the engine try its corpus, and then new inputs for a time, or for longer until
// there were enough of them.
func (t *target) wait(ctx context.Context, ended <-chan error, text *log, length time.Duration) error {
	timer := time.NewTimer(beginLimit)
	defer timer.Stop()
	seen := text.seen
	var late time.Time
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = t.whyNone()
			}
			return err
		case <-seen:
			seen = nil
			late = time.Now().Add(moreTimes * length)
			timer.Reset(length)
		case <-timer.C:
			if seen != nil {
				return fmt.Errorf("still tries the inputs that it has after %v", beginLimit)
			}
			if executed(text.String()).inputs >= fewInputs || time.Now().After(late) {
				return nil
			}
			timer.Reset(time.Second)
		case <-ctx.Done():
			return nil
		}
	}
}

// begun matches what an engine prints once it has tried its corpus. If the corpus is
// empty, there is only the count of inputs, every three seconds.
var begun = regexp.MustCompile(`now fuzzing with|execs: `)

// log collects a process's output, and signals when phrase matches.
type log struct {
	phrase *regexp.Regexp
	seen   chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	told bool
}

func newLog(phrase *regexp.Regexp) *log { return &log{phrase: phrase, seen: make(chan struct{})} }

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if !l.told && l.phrase.Match(l.text.Bytes()) {
		l.told = true
		close(l.seen)
	}
	return len(p), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// errEnded means that a worker has ended while it tried an input. The engine kills
// workers after ten seconds, which may be due to other load: the target is run a
// second time, and tries that input first.
var errEnded = errors.New("a worker ended")

// errSkipped means that a target does not run on this machine.
var errSkipped = errors.New("not on this machine")

// whyNone returns why a target has ended without an error.
func (t *target) whyNone() error {
	cmd := exec.Command(t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzzcachedir="+t.cache, "-test.fuzztime=1x", "-test.v")
	cmd.Dir = t.dir
	out, err := cmd.CombinedOutput()
	if err == nil && bytes.Contains(out, []byte("--- SKIP: "+t.name+" ")) {
		return fmt.Errorf("%w\n%s", errSkipped, out)
	}
	return errors.New("ended before its time")
}

var (
	execs   = regexp.MustCompile(`execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)
	written = regexp.MustCompile(`Failing input written to (\S+)`)
)

// executed returns the last counts that the engine has printed.
func executed(text string) (d done) {
	m := execs.FindAllStringSubmatch(text, -1)
	if m == nil {
		return d
	}
	last := m[len(m)-1]
	for i, n := range []*int{&d.inputs, &d.found, &d.known} {
		*n, _ = strconv.Atoi(last[i+1])
	}
	return d
}

// failing returns the failing inputs that the engine has written.
func (t *target) failing(text string) string {
	var b strings.Builder
	for _, m := range written.FindAllStringSubmatch(text, -1) {
		input, err := os.ReadFile(filepath.Join(t.dir, m[1]))
		fmt.Fprintf(&b, "%s:\n%s", filepath.Join(t.pkg, m[1]), input)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}

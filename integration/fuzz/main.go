// Command fuzz runs the module's fuzz targets, each for a time, several at once.
// It fails where one finds an input that fails, prints that input, and leaves it
// in the package's testdata/fuzz, where `go test` finds it.
//
// `go test -fuzz X -fuzztime T` can fail by itself with "context deadline exceeded"
// and no input: when T is over, its engine may see the end before the context that
// it compares the end with. So targets get no time limit here but an interrupt,
// which ends an engine without that race; whatever it then says is a failure.
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	length := flag.Duration("time", 30*time.Second, "how long each target runs")
	jobs := flag.Int("jobs", 2, "how many targets run at once, one processor each")
	only := flag.String("run", "", "a pattern: only targets whose package and name, as in kernel/cpu.FuzzRun, match")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *length, *jobs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, length time.Duration, jobs int, only string) error {
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

// target is one fuzz function.
type target struct {
	pkg, dir string
	name     string
	binary   string // the package's tests, built
	cache    string // where the engine keeps what it finds interesting
}

func (t *target) String() string { return t.pkg + "." + t.name }

// find gives the targets of the module that match, package by package.
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

// fuzzFuncs gives the fuzz targets of a file.
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

// build makes the tests of each target's package, with what the engine needs to
// see which code an input reaches.
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

// fuzzAll runs all, and says of each how it went.
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
	// beginLimit is how long an engine may take for the inputs that it has.
	beginLimit = 5 * time.Minute
	// endLimit is how long it may take to end once it is asked to: it waits for the
	// input that it is at.
	endLimit = time.Minute
)

// fewInputs is how few a target must not try, however busy the machine is: with
// fewer, what it reports is only that its seeds pass.
const fewInputs = 50

// done is what an engine did.
type done struct {
	inputs int // that it tried
	found  int // of these, those that reached new code
	known  int // inputs that it has now, each with code of its own
}

func (d done) String() string {
	return fmt.Sprintf("%9d executions, %5d new interesting, %6d in all", d.inputs, d.found, d.known)
}

// fuzz runs one target, and gives what it did.
func (t *target) fuzz(ctx context.Context, length time.Duration) (did done, err error) {
	// An input that reaches new code is made smaller before the next is tried. A target
	// with a machine behind it does not always take the same way: it would do nothing
	// else for half a second each time. So an input is tried only that often.
	cmd := exec.Command(t.binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzzcachedir="+t.cache,
		"-test.parallel=1", "-test.fuzzminimizetime=10x", "-test.timeout=0")
	cmd.Dir = t.dir
	text := newLog(begun)
	cmd.Stdout, cmd.Stderr = text, text
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers are in its group
	if err := cmd.Start(); err != nil {
		return did, err
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = t.wait(ctx, ended, text.seen, length)
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

// wait lets the engine try all inputs that it has, and then new ones for a time.
func (t *target) wait(ctx context.Context, ended <-chan error, seen <-chan struct{}, length time.Duration) error {
	timer := time.NewTimer(beginLimit)
	defer timer.Stop()
	for {
		select {
		case err := <-ended:
			if err == nil {
				err = t.whyNone()
			}
			return err
		case <-seen:
			seen = nil
			timer.Reset(length)
		case <-timer.C:
			if seen != nil {
				return fmt.Errorf("still tries the inputs that it has after %v", beginLimit)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// begun is what an engine says once it has tried the inputs that it has. Where it has
// none, there is no such line: only the count of others, every three seconds.
var begun = regexp.MustCompile(`now fuzzing with|execs: `)

// log keeps what a process says, and tells when it has said something.
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

// errEnded is a worker that has ended while it tried an input. The engine ends one
// that takes ten seconds, which on a machine with much else to do need not be the
// input's fault: the target gets a second chance, and tries that input first.
var errEnded = errors.New("a worker ended")

// errSkipped is a target that does not run on this machine.
var errSkipped = errors.New("not on this machine")

// whyNone says why a target has ended by itself without an error.
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

// executed gives the last counts that the engine has told.
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

// failing gives the inputs that the engine has written down.
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

// Command clients plays the commands of commands.txt, calls of the programs that people
// use on the tracing files: below "kprobefs exec", or on Debian's kernel, whose answers
// are recorded there.
//
//	clients run [CLIENT]...      play them here, and compare with the recording
//	clients record [CLIENT]...   play them on Linux, and write what they printed
//
// In commands.txt a line "[CLIENT] NEED..." names a client and what its commands need:
//
//	/usr/bin/perf    a file or a folder of this machine
//	NAME.c           a program of the folder programs, linked with libtracefs if it includes its header
//	PACKAGE@VERSION  the tests of a Go package, as a program with the package's last name and .test, and testdata.tar with
//	                 the folders testdata of its module
//	mmap             rings that can be mapped (Linux 5.9)
//	slow             more time than CI has: only "make clients" plays it
//	6.12             the kernel's release, if it is not 6.1
//
// A line "$ COMMAND" is a command of busybox's shell. The commands of a client are played
// in order in one folder, where the programs built for it are, so that one can read what
// another has recorded. A line that begins with a space is what the command printed on
// Linux (masked), "? N" its status there if that is not 0, and "! REASON" says why it
// prints something else here. A reason whose command prints the same fails the run.
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/integration"
	"github.com/kprobefs/kprobefs/internal/tools/linux"
	"github.com/kprobefs/kprobefs/kernel/release"
)

//go:embed commands.txt
var commands string

//go:embed programs/*.c programs/*.h
var sources embed.FS

// file is where the table is written, from the module's root.
var file = filepath.Join("internal", "tools", "clients", "commands.txt")

// limit is how long the commands of one client may take on Linux, which QEMU emulates, and
// commandLimit how long one of them may take, there and here.
const (
	limit        = 20 * time.Minute
	commandLimit = 2 * time.Minute
)

// timeout is the program that ends a command with its children.
const timeout = "/usr/bin/timeout"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: clients run|record [CLIENT]")
	}
	_, all, err := parse(commands)
	if err != nil {
		return err
	}
	chosen, err := choose(all, args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "record":
		return record(ctx, chosen)
	case "run":
		return runHere(ctx, chosen, out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// client is a section of the table.
type client struct {
	name  string
	needs []string
	rows  []*row
}

// row is a command with what it printed on Linux.
type row struct {
	command string
	want    answer
	why     string // why it prints something else here, or ""
}

// answer is what a command printed, masked, and its exit status.
type answer struct {
	text   string
	status int
}

// parse reads a table: the comment at its head, and the clients.
func parse(text string) (head string, all []*client, _ error) {
	var c *client
	var r *row
	n := 0
	for line := range strings.Lines(text) {
		n++
		bad := fmt.Errorf("commands.txt:%d: %q", n, line)
		line = strings.TrimSuffix(line, "\n")
		mark, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case line[0] == '#' && c == nil:
			head += line + "\n"
		case line[0] == '[' && strings.HasSuffix(mark, "]"):
			c, r = &client{name: mark[1 : len(mark)-1], needs: strings.Fields(rest)}, nil
			all = append(all, c)
		case mark == "$" && c != nil:
			r = &row{command: rest}
			c.rows = append(c.rows, r)
		case r == nil:
			return "", nil, bad
		case line[0] == ' ':
			r.want.text += line[1:] + "\n"
		case mark == "!":
			r.why = rest
		case mark == "?":
			status, err := strconv.Atoi(rest)
			if err != nil {
				return "", nil, bad
			}
			r.want.status = status
		default:
			return "", nil, bad
		}
	}
	return head, all, nil
}

// format writes a table as parse reads it.
func format(head string, all []*client) string {
	var b strings.Builder
	b.WriteString(head)
	for _, c := range all {
		fmt.Fprintf(&b, "\n[%s] %s\n", c.name, strings.Join(c.needs, " "))
		for _, r := range c.rows {
			fmt.Fprintf(&b, "$ %s\n", r.command)
			for line := range strings.Lines(r.want.text) {
				b.WriteString(" " + strings.TrimSuffix(line, "\n") + "\n")
			}
			if r.want.status != 0 {
				fmt.Fprintf(&b, "? %d\n", r.want.status)
			}
			if r.why != "" {
				fmt.Fprintf(&b, "! %s\n", r.why)
			}
		}
	}
	return b.String()
}

// choose returns the clients with these names, or all.
func choose(all []*client, names []string) ([]*client, error) {
	if len(names) == 0 {
		return all, nil
	}
	var chosen []*client
	for _, name := range names {
		i := slices.IndexFunc(all, func(c *client) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no client %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// mark precedes the number and the status of a command in a script's output.
const mark = "\x01end "

// script is a script that plays a client's commands, each in a shell of its own, which is
// ended with all that it has started if it takes too long.
func (c *client) script() string {
	var b strings.Builder
	b.WriteString("export PATH=$PWD:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C PAGER=cat\n" +
		"if [ ! -e /bin/bash ]; then ln -s /usr/bin/bash /bin/bash; fi\n" +
		"mkdir -p /var/tmp; exec 2>&1\n")
	for i := range c.rows {
		fmt.Fprintf(&b, "%s -s KILL %d busybox sh ./%s </dev/null; printf '%s%d %%d\\n' $?\n",
			timeout, int(commandLimit.Seconds()), rowFile(i), mark, i)
	}
	return b.String()
}

// files returns what stands in the folder of a client's script.
func (c *client) files() map[string][]byte {
	files := map[string][]byte{}
	for i, r := range c.rows {
		files[rowFile(i)] = []byte(r.command + "\n")
	}
	return files
}

func rowFile(i int) string { return fmt.Sprintf(".command%d", i) }

// answers splits the output of a client's script. It must have one for each command.
func (c *client) answers(masks []integration.Mask, output string) ([]answer, error) {
	var all []answer
	text := ""
	for line := range strings.Lines(output) {
		before, after, end := strings.Cut(line, mark)
		text += before
		if !end {
			continue
		}
		var n, status int
		if _, err := fmt.Sscanf(after, "%d %d", &n, &status); err != nil || n != len(all) {
			return nil, fmt.Errorf("%s: command %d ended with %q", c.name, len(all), after)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		all = append(all, answer{integration.Apply(masks, text), status})
		text = ""
	}
	if len(all) < len(c.rows) {
		return nil, fmt.Errorf("%s: %d commands of %d were played, then %q:\n%s", c.name, len(all), len(c.rows), c.rows[len(all)].command, text)
	}
	return all, nil
}

// The needs of a client that are no files.
const (
	needMmap = "mmap"
	needSlow = "slow"
)

// release returns the release of the kernel that the client's commands want.
func (c *client) release() string {
	every := release.RecordedNames(func(release.Debian) bool { return true })
	if i := slices.IndexFunc(c.needs, func(n string) bool { return slices.Contains(every, n) }); i >= 0 {
		return c.needs[i]
	}
	return linux.Default
}

// host returns the client's needs that are files and folders of this machine.
func (c *client) host() (paths []string) {
	for _, n := range c.needs {
		if filepath.IsAbs(n) {
			paths = append(paths, n)
		}
	}
	return paths
}

// missing returns what of the client's needs is not on this machine, or "".
func (c *client) missing() string {
	for _, p := range c.host() {
		if _, err := os.Stat(p); err != nil {
			return p
		}
	}
	if slices.Contains(c.needs, needMmap) && !integration.Mappable() {
		return "a host kernel below which rings can be mapped"
	}
	if c.needsTracefs() && !haveTracefs() {
		return "libtracefs-dev"
	}
	return ""
}

// tracefsHeader is what programs include that are linked with libtracefs.
const tracefsHeader = "tracefs.h"

// needsTracefs reports whether one of the client's programs is linked with libtracefs.
func (c *client) needsTracefs() bool {
	return slices.ContainsFunc(c.needs, func(n string) bool {
		source, err := sources.ReadFile("programs/" + n)
		return err == nil && bytes.Contains(source, []byte(tracefsHeader))
	})
}

func haveTracefs() bool {
	return exec.Command("pkg-config", "--exists", "libtracefs").Run() == nil
}

// build builds the client's programs into a folder.
func (c *client) build(ctx context.Context, dir string) error {
	for _, n := range c.needs {
		var err error
		switch {
		case filepath.Ext(n) == ".c":
			err = buildC(ctx, dir, n)
		case strings.Contains(n, "@"):
			err = buildTests(ctx, dir, n)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", c.name, n, err)
		}
	}
	return nil
}

// buildC builds a program of the folder programs.
func buildC(ctx context.Context, dir, name string) error {
	source, err := sources.ReadFile("programs/" + name)
	if err != nil {
		return err
	}
	library := ""
	if bytes.Contains(source, []byte(tracefsHeader)) {
		library = " $(pkg-config --cflags --libs libtracefs)"
	}
	headers, err := os.MkdirTemp("", "kprobefs-clients")
	if err != nil {
		return err
	}
	defer os.RemoveAll(headers)
	if err := os.CopyFS(headers, sources); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c",
		`gcc -O2 -Wall -Werror -I "$2" -x c -o "$1" -`+library, "sh", strings.TrimSuffix(name, ".c"), filepath.Join(headers, "programs"))
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(source)
	return run(cmd)
}

// buildTests builds the tests of a Go package, PATH@VERSION, in a module of their own.
func buildTests(ctx context.Context, dir, pkg string) error {
	module, err := os.MkdirTemp("", "kprobefs-clients")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module)
	path, _, _ := strings.Cut(pkg, "@")
	for _, args := range [][]string{
		{"mod", "init", "clients"},
		{"get", "-t", pkg},
		{"test", "-c", "-o", filepath.Join(dir, filepath.Base(path)+".test"), path},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if err := run(cmd); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", `at=$(go list -f '{{.Module.Dir}}' "$1") && cd "$at" && find . -name testdata -type d | tar -cf "$2" --mode=u+w -T -`,
		"sh", path, filepath.Join(dir, "testdata.tar"))
	cmd.Dir = module
	return run(cmd)
}

// run runs a command, and puts what it says into the error.
func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}

// record plays clients on Linux, each in a boot of its own, and writes what they printed.
func record(ctx context.Context, chosen []*client) error {
	if err := linux.Check(); err != nil {
		return err
	}
	kernels := map[string]*linux.Kernel{}
	for _, c := range chosen {
		k := kernels[c.release()]
		if k == nil {
			var err error
			if k, err = linux.Newest(ctx, c.release()); err != nil {
				return err
			}
			kernels[c.release()] = k
		}
		got, err := c.there(ctx, k)
		if err != nil {
			return err
		}
		if err := c.write(got); err != nil {
			return err
		}
	}
	return nil
}

// write writes the client's answers into the table, whose commands may have changed since.
func (c *client) write(got []answer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, all, err := parse(string(text))
	if err != nil {
		return err
	}
	chosen, err := choose(all, []string{c.name})
	if err != nil {
		return err
	}
	next := 0
	for _, r := range chosen[0].rows {
		if i := slices.IndexFunc(c.rows[next:], func(was *row) bool { return was.command == r.command }); i >= 0 {
			r.want = got[next+i]
			next += i + 1
		}
	}
	return os.WriteFile(file, []byte(format(head, all)), 0o644)
}

// play has run play a client's commands, with the programs that are built for it in a directory, and returns the
// answers in what they print.
func (c *client) play(ctx context.Context, run func(dir string) (output string, err error)) ([]answer, error) {
	masks, err := integration.Masks()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kprobefs-clients")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := c.build(ctx, dir); err != nil {
		return nil, err
	}
	output, err := run(dir)
	if err != nil {
		return nil, err
	}
	return c.answers(masks, output)
}

// there plays a client's commands on Linux.
func (c *client) there(ctx context.Context, k *linux.Kernel) ([]answer, error) {
	return c.play(ctx, func(dir string) (string, error) {
		s := linux.Script{Name: c.name, Text: c.script(), Files: c.files(), Host: append(c.host(), timeout), Limit: limit}
		built, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, e := range built {
			if s.Files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				return "", err
			}
		}
		results, err := k.Run(ctx, "", []linux.Script{s})
		switch {
		case err != nil:
			return "", err
		case len(results) == 0:
			return "", fmt.Errorf("%s: Linux has not played the commands", c.name)
		}
		return results[0].Output, nil
	})
}

// here plays a client's commands below kprobefs exec.
func (c *client) here(ctx context.Context, bin string) ([]answer, error) {
	return c.play(ctx, func(dir string) (string, error) {
		files := c.files()
		files["script"] = []byte(c.script())
		for name, data := range files {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
				return "", err
			}
		}
		cmd := exec.CommandContext(ctx, bin, integration.ExecArgs([]string{"--release", c.release(), "--cpus", "2"}, "busybox", "sh", "script")...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 5 * time.Second
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			return "", err
		}
		return string(out), nil
	})
}

// compare returns what is wrong with the answers here.
func (c *client) compare(got []answer) (wrong []string) {
	for i, r := range c.rows {
		switch same := got[i] == r.want; {
		case same && r.why != "":
			wrong = append(wrong, fmt.Sprintf("%s: %s: prints what it prints on Linux, and the table says: %s", c.name, r.command, r.why))
		case !same && r.why == "":
			wrong = append(wrong, fmt.Sprintf("%s: %s: status %d here, %d on Linux; -Linux +here\n%s", c.name, r.command,
				got[i].status, r.want.status, cmp.Diff(strings.Split(r.want.text, "\n"), strings.Split(got[i].text, "\n"))))
		}
	}
	return wrong
}

func runHere(ctx context.Context, chosen []*client, out io.Writer) error {
	dir, err := os.MkdirTemp("", "kprobefs-clients")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := integration.Build(ctx, dir)
	if err != nil {
		return err
	}
	bad := 0
	for _, c := range chosen {
		if p := c.missing(); p != "" {
			fmt.Fprintf(out, "%s: %s is missing\n", c.name, p)
			continue
		}
		got, err := c.here(ctx, bin)
		if err != nil {
			return err
		}
		differ, wrong := 0, c.compare(got)
		for i, r := range c.rows {
			if got[i] != r.want {
				differ++
			}
		}
		for _, w := range wrong {
			fmt.Fprintln(out, w)
		}
		fmt.Fprintf(out, "%s: %d commands, %d differ, %d are not as they should be\n", c.name, len(c.rows), differ, len(wrong))
		bad += len(wrong)
	}
	if bad > 0 {
		return fmt.Errorf("%d commands are not as they should be", bad)
	}
	return nil
}

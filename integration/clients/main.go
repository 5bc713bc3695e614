// Command clients plays the commands of commands.txt, calls of the programs that people
// use on the tracing files: below "kprobefs exec", or on Debian's kernel, whose answers
// are recorded there.
//
//	clients run [CLIENT]...      play them here, and compare with the recording
//	clients record [CLIENT]...   play them on Linux, and write what they printed
//
// In commands.txt a line [CLIENT] PATH... names a client and the programs that its
// commands need, a line "$ COMMAND" a command of busybox's shell. The commands of a client
// are played in order in one folder, so that one can read what another has recorded. A
// line that begins with a space is what the command printed on Linux (masked), "? N" its
// status there if that is not 0, and "! REASON" says why it prints something else here. A
// reason whose command prints the same fails the run.
package main

import (
	"context"
	_ "embed" // commands.txt
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
	"github.com/kprobefs/kprobefs/integration/linux"
)

//go:embed commands.txt
var commands string

// file is where the table is written, from the module's root.
var file = filepath.Join("integration", "clients", "commands.txt")

// limit is how long the commands of one client may take on Linux, which QEMU emulates.
const limit = 10 * time.Minute

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
	head, all, err := parse(commands)
	if err != nil {
		return err
	}
	chosen, err := choose(all, args[1:])
	if err != nil {
		return err
	}
	switch args[0] {
	case "record":
		if err := record(ctx, chosen); err != nil {
			return err
		}
		return os.WriteFile(file, []byte(format(head, all)), 0o644)
	case "run":
		return runHere(ctx, chosen, out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}

// client is a section of the table.
type client struct {
	name     string
	programs []string
	rows     []*row
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
			c, r = &client{name: mark[1 : len(mark)-1], programs: strings.Fields(rest)}, nil
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
		fmt.Fprintf(&b, "\n[%s] %s\n", c.name, strings.Join(c.programs, " "))
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

// script is a script that plays a client's commands.
func (c *client) script() string {
	var b strings.Builder
	b.WriteString("export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C PAGER=cat\n" +
		"if [ ! -e /bin/bash ]; then ln -s /usr/bin/bash /bin/bash; fi\n" +
		"mkdir -p /var/tmp; exec 2>&1\n")
	for i, r := range c.rows {
		fmt.Fprintf(&b, "(%s\n) </dev/null; printf '%s%d %%d\\n' $?\n", r.command, mark, i)
	}
	return b.String()
}

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
	if len(all) != len(c.rows) {
		return nil, fmt.Errorf("%s: %d commands of %d were played, then:\n%s", c.name, len(all), len(c.rows), text)
	}
	return all, nil
}

// missing returns a program of the client that is not on this machine, or "".
func (c *client) missing() string {
	for _, p := range c.programs {
		if _, err := os.Stat(p); err != nil {
			return p
		}
	}
	return ""
}

// record plays clients on Linux, each in a boot of its own, and sets what they printed.
func record(ctx context.Context, chosen []*client) error {
	if err := linux.Check(); err != nil {
		return err
	}
	masks, err := integration.Masks()
	if err != nil {
		return err
	}
	k, err := linux.Newest(ctx, linux.Default)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		s := linux.Script{Name: c.name, Text: c.script(), Files: map[string][]byte{}, Limit: limit}
		var programs []string
		for _, p := range c.programs {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if strings.HasPrefix(string(b), "#!") {
				s.Files[filepath.Base(p)] = b
				s.Text = fmt.Sprintf("mkdir -p /usr/sbin && mv ./%s %s\n", filepath.Base(p), p) + s.Text
				continue
			}
			programs = append(programs, p)
		}
		results, err := k.Run(ctx, "", []linux.Script{s}, programs...)
		if err != nil {
			return err
		}
		got, err := c.answers(masks, results[0].Output)
		if err != nil {
			return err
		}
		for i, r := range c.rows {
			r.want = got[i]
		}
	}
	return nil
}

// here plays a client's commands below kprobefs exec.
func (c *client) here(ctx context.Context, bin string) ([]answer, error) {
	masks, err := integration.Masks()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "kprobefs-clients")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte(c.script()), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "exec", "--release", linux.Default, "--cpus", "2", "--", "busybox", "sh", "script")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return c.answers(masks, string(out))
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

// Command docs runs the commands on a page of documentation and compares their output
// with the page.
//
//	docs check PAGE...     fail if the output on a page is not what its commands print
//	docs update PAGE...    write the commands' output into the pages
//
// Commands are in fenced blocks of the kind "console". A line that begins with "$ "
// is run by bash. Lines that begin with "# " after "$ kprobefs exec ... -- bash" are
// run in that shell, which lives until the next "$ " line. "> " continues a command.
// All other lines are output. The blocks of a page are one session: they share a
// directory, and the shell if a block continues with "# ".
//
// Outputs are masked by integration/masks before they are compared, so that a page
// can show real addresses, times and process ids.
//
// Blocks that cannot be run have another kind (sh, yaml, text). A block of kind sh
// needs a reason in a comment above it: <!-- not played: REASON -->.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kprobefs/kprobefs/integration"
)

// home is the name that pages have for the directory in which their commands run.
const home = "/home/me"

// commandTimeout is the time limit for a command of a page, on a busy machine.
const commandTimeout = 2 * time.Minute

// endTimeout is the time limit for the end of a shell.
const endTimeout = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) < 2 || args[0] != "check" && args[0] != "update" {
		return errors.New("usage: docs check|update PAGE [PAGE]")
	}
	bin, err := os.MkdirTemp("", "kprobefs-docs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if _, err := integration.Build(ctx, bin); err != nil {
		return err
	}
	masks, err := integration.Masks()
	if err != nil {
		return err
	}
	bad := 0
	for _, page := range args[1:] {
		diff, err := onePage(ctx, page, bin, masks, args[0] == "update")
		if err != nil {
			return fmt.Errorf("%s: %w", page, err)
		}
		if diff != "" {
			bad++
			fmt.Fprintf(out, "%s does not say what its commands print (-page +printed):\n%s", page, diff)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d pages are wrong; \"make docs\" writes what is printed into them", bad, len(args)-1)
	}
	fmt.Fprintf(out, "docs: %d pages say what their commands print\n", len(args)-1)
	return nil
}

// onePage runs the commands of a page. The difference is empty if the page is right,
// or has been updated.
func onePage(ctx context.Context, page, bin string, masks []integration.Mask, update bool) (diff string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return "", err
	}
	p, err := parse(string(text))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "kprobefs-page")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	source, err := os.Getwd()
	if err != nil {
		return "", err
	}
	s := &session{ctx: ctx, dir: dir, bin: bin, source: source}
	defer s.close()
	for i := range p {
		for j := range p[i].commands {
			c := &p[i].commands[j]
			if c.printed, err = s.play(*c); err != nil {
				return "", fmt.Errorf("line %d: %s: %w", c.line, c.text, err)
			}
			c.printed = strings.ReplaceAll(c.printed, dir, home)
		}
	}
	if err := s.close(); err != nil {
		return "", err
	}
	got := render(p)
	if update {
		return "", os.WriteFile(page, []byte(got), 0o644)
	}
	return cmp.Diff(normal(masks, string(text)), normal(masks, got)), nil
}

// shellLine matches bash's prefix of error messages in scripts.
var shellLine = regexp.MustCompile(`(?m)^bash: line \d+: `)

// distance matches the bytes of a call or jmp in machine/text. Its displacement
// depends on addresses.
var distance = regexp.MustCompile(`\b(e[89])(?: [0-9a-f]{2}){4}\b`)

// normal masks what differs between two runs, or between two builds of the guest.
func normal(masks []integration.Mask, text string) string {
	text = shellLine.ReplaceAllString(text, "bash: ")
	return integration.Apply(masks, distance.ReplaceAllString(text, "$1 DISTANCE"))
}

// A part of a page is either text or a block of commands.
type part struct {
	text     []string // lines as they stand; for a block its opening fence
	commands []command
}

// command is a command of a block and what it prints.
type command struct {
	line    int
	inner   bool   // run in the shell below kprobefs exec
	text    string // without the prompts; may have several lines
	output  string // on the page
	printed string // actual output
}

const fence = "```"

// parse splits a page into texts and blocks. It returns an error if a block of kind
// sh has no reason.
func parse(text string) (parts []part, err error) {
	cur := part{}
	var inBlock string
	reason := false
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		switch kind, isFence := strings.CutPrefix(line, fence); {
		case isFence && inBlock == "":
			inBlock = "other"
			if kind == "console" {
				parts = append(parts, cur)
				cur = part{text: []string{line}}
				inBlock = "console"
				continue
			}
			if kind == "sh" && !reason {
				return nil, fmt.Errorf("line %d: a block of kind sh needs <!-- not played: REASON --> above it, or is of kind console", n+1)
			}
			cur.text = append(cur.text, line)
		case isFence && inBlock == "console":
			parts = append(parts, cur)
			cur, inBlock = part{text: []string{line}}, ""
		case isFence:
			cur.text, inBlock = append(cur.text, line), ""
		case inBlock == "console":
			if err := cur.take(n+1, line); err != nil {
				return nil, err
			}
		default:
			cur.text = append(cur.text, line)
		}
		if strings.TrimSpace(line) != "" {
			reason = strings.HasPrefix(line, "<!-- not played: ")
		}
	}
	if inBlock != "" {
		return nil, errors.New("the last block does not end")
	}
	return append(parts, cur), nil
}

// take adds a line to a block.
func (p *part) take(n int, line string) error {
	prompt, rest := "", ""
	if len(line) >= 2 {
		prompt, rest = line[:2], line[2:]
	}
	switch prompt {
	case "$ ", "# ":
		p.commands = append(p.commands, command{line: n, inner: prompt == "# ", text: rest})
		return nil
	}
	if len(p.commands) == 0 {
		return fmt.Errorf("line %d: a block of kind console begins with a command", n)
	}
	c := &p.commands[len(p.commands)-1]
	if (prompt == "> " || line == ">") && c.output == "" {
		c.text += "\n" + rest
		return nil
	}
	c.output += line + "\n"
	return nil
}

// continued returns a command with "> " before its lines but the first, ">" where a line
// is empty.
func continued(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines[1:] {
		lines[i+1] = strings.TrimRight("> "+line, " ")
	}
	return strings.Join(lines, "\n")
}

// render returns the page with the printed output.
func render(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		for _, l := range p.text {
			b.WriteString(l + "\n")
		}
		for _, c := range p.commands {
			prompt := "$ "
			if c.inner {
				prompt = "# "
			}
			b.WriteString(prompt + continued(c.text) + "\n" + shellLine.ReplaceAllString(c.printed, "bash: "))
		}
	}
	return b.String()
}

// session runs the commands of a page.
type session struct {
	ctx      context.Context
	dir, bin string // the commands' working directory, and the directory of kprobefs
	source   string // this repository, $KPROBEFS on pages
	outer    *shell
	inner    *shell // below kprobefs exec, or nil
}

// play runs a command and returns its output.
func (s *session) play(c command) (string, error) {
	if c.inner {
		if s.inner == nil {
			return "", errors.New("no shell below \"kprobefs exec\" is open here")
		}
		return s.inner.play(c.text)
	}
	if err := s.leave(); err != nil {
		return "", err
	}
	if strings.HasPrefix(c.text, "kprobefs exec ") && strings.HasSuffix(c.text, " -- bash") {
		inner, err := s.start("exec " + c.text)
		s.inner = inner
		return "", err
	}
	if s.outer == nil {
		outer, err := s.start("exec bash")
		if err != nil {
			return "", err
		}
		s.outer = outer
	}
	return s.outer.play(c.text)
}

// leave ends the inner shell.
func (s *session) leave() error {
	if s.inner == nil {
		return nil
	}
	inner := s.inner
	s.inner = nil
	return inner.close()
}

func (s *session) close() error {
	err := s.leave()
	if s.outer != nil {
		outer := s.outer
		s.outer = nil
		err = errors.Join(err, outer.close())
	}
	return err
}

// shell is a bash that reads its commands from a pipe.
type shell struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *os.File
	read *bufio.Reader
	n    int
}

func (s *session) start(script string) (*shell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	cmd := exec.CommandContext(s.ctx, "bash", "-c", script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, w, w
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "KPROBEFS="+s.source)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return &shell{cmd: cmd, in: in, out: r, read: bufio.NewReader(r)}, nil
}

// play runs a command in the shell and returns its output.
func (s *shell) play(text string) (string, error) {
	s.n++
	mark := fmt.Sprintf("\x01%d\x01", s.n)
	if _, err := fmt.Fprintf(s.in, "%s\nprintf '\\001%d\\001\\n'\n", text, s.n); err != nil {
		return "", fmt.Errorf("the shell has ended: %w", err)
	}
	if err := s.out.SetReadDeadline(time.Now().Add(commandTimeout)); err != nil {
		return "", err
	}
	var b bytes.Buffer
	for {
		line, err := s.read.ReadString('\n')
		before, _, done := strings.Cut(line, mark)
		b.WriteString(before)
		if done {
			if before != "" {
				b.WriteByte('\n') // the output does not end with a newline
			}
			return b.String(), nil
		}
		if err != nil {
			_ = s.cmd.Process.Signal(syscall.SIGTERM) // close waits for it
			return b.String(), fmt.Errorf("after %.200q: %w", b.String(), err)
		}
	}
}

// close ends the shell. Its exit status is ignored: it is the last command's.
func (s *shell) close() error {
	defer s.out.Close()
	s.in.Close()
	defer time.AfterFunc(endTimeout, func() { _ = s.cmd.Process.Kill() }).Stop()
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

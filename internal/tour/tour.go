// Package tour is a lesson on kprobes in the terminal. It follows the chapters of Linux's document
// on a running machine: each step explains, shows a command, runs it, and says what to look at.
//
// The lesson is the table Steps; adding a step is adding a row. A test plays all of them.
package tour

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/internal/look"
)

// Config describes a lesson.
type Config struct {
	Tree  string // the directory of the machine that it uses
	In    io.Reader
	Out   io.Writer
	Echo  bool // writes what is read, where no terminal does
	Yes   bool // runs every command without asking, and fails if one does not show what it should
	Width int  // of the text
	// Paint colours a text, or is nil.
	Paint func(style look.Style, text string) string
}

// lesson is a lesson that is being given.
type lesson struct {
	Config
	words   *strings.Replacer // for the places in commands
	lines   chan string       // of In; closed at its end
	before  map[string]string // what the switches were
	readied int               // the step whose command has been run last, or none
}

// none is the number of no step, and of none before one.
const none = -2

// switches are the files that the lesson changes and restores.
var switches = []string{"kprobes/enabled", "sys/debug/kprobes-optimization"}

// commandTime bounds a command.
const commandTime = 30 * time.Second

// errEnded says that the reader has ended the lesson.
var errEnded = errors.New("ended")

// Find returns the index of a step by its name or number, which counts from 1.
func Find(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(Steps) {
		return n - 1, nil
	}
	if i := slices.IndexFunc(Steps, func(s Step) bool { return s.Name == name }); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%q is no step of the lesson; kprobefs tour --list shows them", name)
}

// List writes the steps by chapters.
func List(w io.Writer) error {
	var b strings.Builder
	chapter := ""
	for i, s := range Steps {
		if s.Chapter != chapter {
			chapter = s.Chapter
			fmt.Fprintln(&b, chapter)
		}
		fmt.Fprintf(&b, "  %2d  %-10s  %s\n", i+1, s.Name, s.Title)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Run gives the lesson from a step on, until its end, the reader's, or ctx's. Then the
// machine has none of its probes, and its switches are as before.
func Run(ctx context.Context, c Config, from int) (err error) {
	l := &lesson{Config: c, readied: none, before: map[string]string{}}
	if l.Paint == nil {
		l.Paint = func(_ look.Style, text string) string { return text }
	}
	if err := l.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.restore()) }()
	l.listen(ctx)
	for i := from; i < len(Steps); {
		next, err := l.step(ctx, i)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			return err
		}
		i = next
	}
	l.say(look.Heading, "That is the end of the lesson. kprobefs top shows the probes live, kprobefs graph draws them.")
	return nil
}

// prepare reads what the lesson needs to know of the machine.
func (l *lesson) prepare() error {
	for _, name := range switches {
		b, err := os.ReadFile(filepath.Join(l.Tree, name))
		if err != nil {
			return fmt.Errorf("the lesson needs the machine's switches, which Linux has since 2.6.34 and shows to root only: %w", err)
		}
		l.before[name] = strings.TrimSpace(string(b))
	}
	if _, err := os.ReadFile(filepath.Join(l.Tree, "tracing/kprobe_events")); err != nil {
		return fmt.Errorf("the lesson has to define events, which Linux has since 2.6.33, and root only: %w", err)
	}
	functions, err := look.Functions(look.Files(l.Tree), "vfs_read")
	if err != nil {
		return err
	}
	inside, next, ok := placesInside(functions)
	if !ok {
		return errors.New("vfs_read of this kernel has no instructions for the lesson; use another release")
	}
	l.words = strings.NewReplacer("INSIDEHEX", fmt.Sprintf("vfs_read+%#x", inside), "INSIDE_NEXT", fmt.Sprintf("vfs_read+%d", next), "INSIDE", fmt.Sprintf("vfs_read+%d", inside))
	return nil
}

// placesInside returns the offsets of two instructions that follow each other within five bytes,
// behind the place for ftrace's call and what the compiler puts before it.
func placesInside(functions []look.Function) (first, second uint64, ok bool) {
	if len(functions) == 0 {
		return 0, 0, false
	}
	all := functions[0].Instructions
	for i := 1; i+1 < len(all); i++ {
		size := all[i+1].Offset - all[i].Offset
		if size > 0 && size < 5 && all[i].Patch == "" && !strings.HasPrefix(all[i].Text, "nop") && !strings.HasPrefix(all[i].Text, "(bad)") {
			return all[i].Offset, all[i+1].Offset, true
		}
	}
	return 0, 0, false
}

// listen reads the reader's lines in another goroutine, since a read cannot be given up.
func (l *lesson) listen(ctx context.Context) {
	l.lines = make(chan string)
	if l.Yes {
		return
	}
	go func() {
		defer close(l.lines)
		for s := bufio.NewScanner(l.In); s.Scan(); {
			select {
			case l.lines <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
}

// step shows a step, and returns the number of the next one.
func (l *lesson) step(ctx context.Context, i int) (int, error) {
	s := Steps[i]
	if err := l.ready(ctx, i); err != nil {
		return 0, err
	}
	if i == 0 || Steps[i-1].Chapter != s.Chapter {
		l.say(look.Heading, "\n== "+s.Chapter+" "+strings.Repeat("=", max(3, l.Width-len(s.Chapter)-4)))
	}
	l.say(look.Heading, fmt.Sprintf("\n%d/%d  %s", i+1, len(Steps), s.Title))
	l.say(look.Plain, "\n"+wrap(l.words.Replace(s.Says), l.Width)+"\n")
	do, see := l.words.Replace(s.Do), l.words.Replace(s.See)
	for _, command := range []string{do, see} {
		if command != "" {
			l.say(look.Ftrace, "$ "+command)
		}
	}
	for !l.Yes {
		next, own, err := l.ask(ctx, i)
		if err != nil || next != i {
			return next, err
		}
		if own == "" || own == do || do == "" && own == see {
			break
		}
		out, err := l.sh(ctx, own)
		if err != nil {
			return 0, err
		}
		l.say(look.Plain, strings.TrimSuffix(out, "\n"))
	}
	out, shown, err := l.play(ctx, s)
	if err != nil {
		return 0, err
	}
	l.readied = i
	l.say(look.Plain, strings.TrimSuffix(out, "\n"))
	if !shown {
		if l.Yes {
			return 0, fmt.Errorf("step %d, %s: the output of %q has not %q", i+1, s.Name, see, s.Shows)
		}
		l.say(look.Bad, "\nThis machine shows something else than the lesson expects; it may be another release, or something else is using it.")
	}
	l.say(look.Probed, "\n"+wrap(l.words.Replace(s.Look), l.Width))
	return i + 1, nil
}

// patience bounds how long a step waits until its command shows what it should.
const patience = 10 * time.Second

// play executes a step's commands. It returns what they print, and whether the step's pattern is in
// it.
func (l *lesson) play(ctx context.Context, s Step) (out string, shown bool, err error) {
	var done string
	if s.Do != "" {
		if done, err = l.sh(ctx, l.words.Replace(s.Do)); err != nil {
			return "", false, err
		}
	}
	pattern := regexp.MustCompile(s.Shows)
	for begin := time.Now(); ; {
		seen, err := l.sh(ctx, l.words.Replace(s.See))
		if err != nil {
			return "", false, err
		}
		if shown = pattern.MatchString(seen); shown || time.Since(begin) > patience {
			return done + seen, shown, nil
		}
		select {
		case <-ctx.Done():
			return "", false, errEnded
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ready brings the machine to where a step begins: its chapter begins without the lesson's probes,
// and the commands of the chapter's steps before have been run.
func (l *lesson) ready(ctx context.Context, i int) error {
	first := i
	for first > 0 && Steps[first-1].Chapter == Steps[i].Chapter {
		first--
	}
	if l.readied == i-1 && first != i {
		return nil
	}
	if err := l.restore(); err != nil {
		return err
	}
	for _, s := range Steps[first:i] {
		if _, _, err := l.play(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

const askText = "[Enter runs it; or type a command. n next, b back, l list, a number goes there, q ends] "

// ask asks what to do at a step. It returns the next step, or the same one and a command, which is
// empty for the step's.
func (l *lesson) ask(ctx context.Context, i int) (next int, own string, err error) {
	for {
		fmt.Fprint(l.Out, l.Paint(look.Faint, askText))
		var line string
		select {
		case <-ctx.Done():
			fmt.Fprintln(l.Out)
			return 0, "", errEnded
		case got, ok := <-l.lines:
			if !ok {
				fmt.Fprintln(l.Out)
				return 0, "", errEnded
			}
			if l.Echo {
				fmt.Fprintln(l.Out, got)
			}
			line = strings.TrimSpace(got)
		}
		switch line {
		case "q", "quit", "exit":
			return 0, "", errEnded
		case "n":
			return i + 1, "", nil
		case "b":
			l.readied = none
			return max(i-1, 0), "", nil
		case "l":
			if err := List(l.Out); err != nil {
				return 0, "", err
			}
			continue
		}
		if _, err := strconv.Atoi(line); err == nil {
			to, err := Find(line)
			if err != nil {
				l.say(look.Bad, err.Error())
				continue
			}
			l.readied = none
			return to, "", nil
		}
		return i, line, nil
	}
}

// sh runs a command in the tree's directory, and returns all that it has printed.
func (l *lesson) sh(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	c.Dir = l.Tree
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.WaitDelay = time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it ends with all that it has started
	c.Cancel = func() error { return unix.Kill(-c.Process.Pid, unix.SIGKILL) }
	out, err := c.CombinedOutput()
	var status *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return string(out) + fmt.Sprintf("\n(the command has been ended after %v)\n", commandTime), nil
	case ctx.Err() != nil:
		return "", errEnded
	case err == nil, errors.As(err, &status):
		return string(out), nil
	}
	return "", err
}

// restore removes the lesson's probes, and sets the switches as they were.
func (l *lesson) restore() error {
	var failed []error
	events := filepath.Join(l.Tree, "tracing/kprobe_events")
	b, err := os.ReadFile(events)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		definition, _, _ := strings.Cut(line, " ")
		_, name, _ := strings.Cut(definition, ":")
		if !strings.HasPrefix(name, "tour/") {
			continue
		}
		if err := write(filepath.Join(l.Tree, "tracing/events", name, "enable"), "0"); err != nil && !errors.Is(err, unix.ENOENT) {
			failed = append(failed, err)
		}
		failed = append(failed, write(events, "-:"+name))
	}
	for _, name := range switches {
		if now, err := os.ReadFile(filepath.Join(l.Tree, name)); err == nil && strings.TrimSpace(string(now)) != l.before[name] {
			failed = append(failed, write(filepath.Join(l.Tree, name), l.before[name]))
		}
	}
	return errors.Join(failed...)
}

// write appends to a file: one that is truncated loses all events.
func write(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

func (l *lesson) say(style look.Style, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(l.Out, l.Paint(style, line))
	}
}

// wrap breaks text at blanks.
func wrap(text string, width int) string {
	var b strings.Builder
	n := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case n == 0:
		case n+1+len(word) > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

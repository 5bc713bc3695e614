// Package locking makes fcntl(2) and flock(2) calls in several processes and prints
// their results. integration/testdata/locks.txt was printed on Linux 6.1, where F and
// G are one file seen through two mounts of debugfs; tests compare it with kprobefs's
// files, seen through two mounts.
package locking

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ActorVar is set in actors: a program that imports this package must then call Act.
const ActorVar = "KPROBEFS_LOCKING_ACTOR"

// asleep is the time after which a call that has not returned counts as waiting.
const asleep = 500 * time.Millisecond

// steps are lines "ACTOR COMMAND ARGUMENTS". An actor is started when it is first
// named, and ended at the end of the case, "--".
//
//	open N F|G|H     descriptor N is the file seen through a mount (H: another file)
//	dup N M          descriptor M is a copy of N
//	close N
//	set, setw, get   N TYPE START LEN   F_SETLK, F_SETLKW, F_GETLK; TYPE is r, w or u
//	oset, osetw, oget                   the same of an open file description
//	flock N TYPE     with LOCK_NB; flockw without
//	ends             prints the result of a call that was waiting
//	kill             SIGKILL
const steps = `
-- ranges of bytes
a open 1 F
b open 1 F
a set 1 w 0 10
b set 1 r 5 1
b get 1 r 0 0
b set 1 r 10 5
a get 1 w 0 0
a set 1 u 3 2
b get 1 w 0 0
b set 1 w 3 2
a set 1 w 0 0
a set 1 r 0 3
b set 1 r 2 1
b set 1 w 2 1
b get 1 w 0 0
-- two mounts
a open 1 F
c open 1 G
a set 1 w 0 10
c get 1 r 0 0
c set 1 w 9 1
c set 1 w 10 1
a open 2 G
a set 2 r 0 3
a get 2 w 0 0
c set 1 r 0 1
a close 2
c get 1 w 0 10
c set 1 w 0 10
-- files
a open 1 F
a open 2 H
b open 1 H
a set 1 w 0 0
b set 1 w 0 0
a set 2 w 0 0
a close 1
b close 1
a set 2 w 0 0
-- flock
a open 1 F
b open 1 F
c open 1 G
a flock 1 w
a flock 1 w
b flock 1 r
c flock 1 r
a flock 1 r
b flock 1 r
c flock 1 r
c flock 1 w
b flock 1 u
a flock 1 u
c flock 1 w
b set 1 w 0 0
a flock 1 r
c close 1
a flock 1 w
-- flock and copies of a descriptor
a open 1 F
a dup 1 2
a open 3 F
a flock 1 w
a flock 3 r
a close 1
a flock 3 r
a close 2
a flock 3 r
-- open file descriptions
a open 1 F
a open 2 F
a open 3 G
b open 1 F
a oset 1 w 0 10
a oset 2 w 5 1
a oset 3 w 5 1
a set 1 w 5 1
b set 1 w 5 1
a close 2
b set 1 r 0 1
a close 1
b set 1 w 5 1
a oset 3 r 5 1
-- waits
a open 1 F
b open 1 F
c open 1 G
a set 1 w 0 10
b setw 1 w 0 5
c setw 1 r 5 5
a set 1 u 0 5
b ends
c ends
a close 1
c ends
c flock 1 w
b flockw 1 r
c flock 1 u
b ends
b osetw 1 w 20 1
c osetw 1 w 20 1
b close 1
c ends
-- a ring of waits
a open 1 F
b open 1 F
a set 1 w 0 1
b set 1 w 1 1
a setw 1 w 1 1
b setw 1 w 0 1
b set 1 u 1 1
a ends
-- a ring over two files and two mounts
a open 1 F
a open 2 H
b open 1 G
b open 2 H
c open 1 G
c open 2 H
a set 1 w 0 1
b set 2 w 0 1
c set 1 w 1 1
a setw 2 w 0 1
b setw 1 w 1 1
c setw 1 w 0 1
c close 1
b ends
b close 2
a ends
-- no ring is seen of open file descriptions
a open 1 F
b open 1 F
a oset 1 w 0 1
b oset 1 w 1 1
a osetw 1 w 1 1
b osetw 1 w 0 1
a kill
b ends
-- the end of a process
a open 1 F
b open 1 F
c open 1 G
a set 1 w 0 0
a flock 1 w
b setw 1 w 0 0
c setw 1 w 0 0
b kill
a kill
c ends
c flockw 1 w
`

// Record plays the steps and prints a line for each. f and g are the two mounts.
func Record(w io.Writer, f, g string) error {
	p := &play{places: map[string]string{
		"F": f + "/kprobes/enabled", "G": g + "/kprobes/enabled", "H": f + "/kprobes/list",
	}, actors: map[string]*actor{}}
	defer p.end()
	for line := range strings.Lines(steps) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "--"):
			p.end()
			fmt.Fprintln(w, line)
		default:
			result, err := p.step(strings.Fields(line))
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			fmt.Fprintf(w, "%s\t%s\n", line, result)
		}
	}
	return nil
}

type play struct {
	places map[string]string
	actors map[string]*actor
}

// actor is a process that makes the calls.
type actor struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string
}

func (p *play) end() {
	for _, a := range p.actors {
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
	}
	clear(p.actors)
}

func (p *play) step(f []string) (string, error) {
	a, err := p.actor(f[0])
	if err != nil {
		return "", err
	}
	switch f[1] {
	case "kill":
		_ = a.cmd.Process.Kill()
		_ = a.cmd.Wait()
		return "gone", nil
	case "ends":
		return p.answer(a), nil
	case "open":
		f[3] = p.places[f[3]]
	}
	if _, err := fmt.Fprintln(a.in, strings.Join(f[1:], " ")); err != nil {
		return "", err
	}
	return p.answer(a), nil
}

// answer returns the result of a call, with process IDs replaced by names.
func (p *play) answer(a *actor) string {
	select {
	case s := <-a.answers:
		for name, o := range p.actors {
			s = strings.ReplaceAll(s, fmt.Sprintf("pid %d.", o.cmd.Process.Pid), name)
		}
		return s
	case <-time.After(asleep):
		return "waits"
	}
}

func (p *play) actor(name string) (*actor, error) {
	if a := p.actors[name]; a != nil {
		return a, nil
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), ActorVar+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &actor{cmd: cmd, in: in, answers: make(chan string, 1)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.answers <- lines.Text()
		}
	}()
	p.actors[name] = a
	// Wait until it runs, since its next call must be immediate.
	if _, err := fmt.Fprintln(in, "hello"); err != nil {
		return nil, err
	}
	<-a.answers
	return a, nil
}

// Act executes the lines of standard input and prints the results. A line that is
// read while a call waits is executed concurrently.
func Act() {
	fds := newDescriptors()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		go func(f []string) { fmt.Fprintln(os.Stdout, fds.do(f)) }(strings.Fields(lines.Text()))
	}
}

type descriptors map[string]int

func newDescriptors() descriptors {
	d := descriptors{}
	for n := 1; n < 10; n++ {
		d[strconv.Itoa(n)] = 100 + n
	}
	return d
}

var (
	types    = map[string]int16{"r": unix.F_RDLCK, "w": unix.F_WRLCK, "u": unix.F_UNLCK}
	commands = map[string]int{
		"set": unix.F_SETLK, "setw": unix.F_SETLKW, "get": unix.F_GETLK,
		"oset": unix.F_OFD_SETLK, "osetw": unix.F_OFD_SETLKW, "oget": unix.F_OFD_GETLK,
	}
	flocks = map[string]int{"r": unix.LOCK_SH, "w": unix.LOCK_EX, "u": unix.LOCK_UN}
)

func (d descriptors) do(f []string) string {
	if f[0] == "hello" {
		return f[0]
	}
	fd := d[f[1]]
	switch f[0] {
	case "open":
		return d.open(fd, f[2])
	case "dup":
		return name(unix.Dup3(fd, d[f[2]], 0))
	case "close":
		return name(unix.Close(fd))
	case "flock":
		return name(unix.Flock(fd, flocks[f[2]]|unix.LOCK_NB))
	case "flockw":
		return name(unix.Flock(fd, flocks[f[2]]))
	}
	return lock(fd, commands[f[0]], types[f[2]], number(f[3]), number(f[4]))
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (d descriptors) open(fd int, path string) string {
	flags := unix.O_RDWR
	got, err := unix.Open(path, flags, 0)
	if err != nil {
		return name(err)
	}
	defer unix.Close(got)
	return name(unix.Dup3(got, fd, 0))
}

func lock(fd, cmd int, typ int16, start, n int64) string {
	l := unix.Flock_t{Type: typ, Start: start, Len: n}
	err := unix.FcntlFlock(uintptr(fd), cmd, &l)
	if err != nil || cmd != unix.F_GETLK && cmd != unix.F_OFD_GETLK {
		return name(err)
	}
	if l.Type == unix.F_UNLCK {
		return "free"
	}
	return fmt.Sprintf("%c %d %d of pid %d.", "rw"[l.Type], l.Start, l.Len, l.Pid)
}

func name(err error) string {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return unix.ErrnoName(e)
	}
	return "ok"
}

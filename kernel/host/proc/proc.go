// Package proc reads the host's files about a thread, /proc/TID. A thread that has
// ended, or that is in another pid namespace, has none.
package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Path returns the path of a file of a thread: "/proc/TID/NAME".
func Path(tid int, name string) string { return "/proc/" + strconv.Itoa(tid) + "/" + name }

// Read returns the contents of a file of a thread. os.ReadFile would make ten system calls
// for it, of which the most ask whether the file can be polled.
func Read(tid int, name string) (string, error) {
	b := make([]byte, 1024)
	n := 0
	err := open(tid, name, func(fd int) error {
		for {
			got, err := unix.Read(fd, b[n:])
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || got == 0 {
				return err
			}
			if n += got; n == len(b) {
				b = append(b, make([]byte, len(b))...)
			}
		}
	})
	return string(b[:n]), err
}

// Comm returns the name of a thread.
func Comm(tid int) (string, error) {
	var b [32]byte // TASK_COMM_LEN is 16; kernel threads may have longer names
	n := 0
	err := open(tid, "comm", func(fd int) (err error) {
		n, err = unix.Read(fd, b[:])
		return err
	})
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(b[:n]), "\n"), nil
}

// open calls read with a descriptor of a file of a thread.
func open(tid int, name string, read func(fd int) error) error {
	for {
		fd, err := unix.Open(Path(tid, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", Path(tid, name), err)
		}
		defer unix.Close(fd)
		return read(fd)
	}
}

// Status returns a field of the file status: "Tgid", "CapEff".
func Status(tid int, field string) (string, bool) {
	text, err := Read(tid, "status")
	if err != nil {
		return "", false
	}
	return Field(text, field)
}

// Field returns a field of a file whose lines are "name: value", such as status and the files of fdinfo.
func Field(text, name string) (string, bool) {
	_, rest, ok := strings.Cut("\n"+text, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value), ok
}

// Process returns the id of the process to which a thread belongs.
func Process(tid int) (pid int, err error) {
	value, ok := Status(tid, "Tgid")
	if !ok {
		return 0, unix.ESRCH
	}
	return strconv.Atoi(value)
}

// Namespace returns what tells the namespaces of a kind ("mnt", "pid", "user") apart.
func Namespace(tid int, kind string) (string, error) {
	return os.Readlink(Path(tid, "ns/"+kind))
}

// OwnNamespace is Namespace for the caller.
func OwnNamespace(kind string) (string, error) { return os.Readlink("/proc/self/ns/" + kind) }

// Stat has fields of the file stat.
type Stat struct {
	Parent int    // the process that created its process
	Start  uint64 // when it was created, in ticks (10 ms) since boot
	CPU    int    // on which it runs or has run last
}

// ReadStat reads the file stat of a thread. It fails with EAGAIN while the thread is in
// execve(2) and waits there (readStat).
func ReadStat(tid int) (Stat, error) {
	text, err := readStat(tid)
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// patience is how long a read of stat may take.
const patience = 50 * time.Millisecond

// reads are the reads of stat that have not ended, by the thread.
var reads struct {
	sync.Mutex
	of map[int]*read
}

type read struct {
	began time.Time
	ended chan struct{}
	text  string
	err   error
}

// readStat returns the contents of stat. The host's kernel makes who reads it wait while
// the thread is in execve(2) and closes files, which can be files of ours: execve would
// wait for the daemon, and the daemon for execve. So another goroutine reads, and goes on
// when the read takes too long.
func readStat(tid int) (string, error) {
	reads.Lock()
	r := reads.of[tid]
	if r == nil {
		r = &read{began: time.Now(), ended: make(chan struct{})}
		if reads.of == nil {
			reads.of = map[int]*read{}
		}
		reads.of[tid] = r
		go r.do(tid)
	}
	reads.Unlock()
	late := time.NewTimer(patience - time.Since(r.began))
	defer late.Stop()
	select {
	case <-r.ended:
		return r.text, r.err
	case <-late.C:
		return "", unix.EAGAIN
	}
}

func (r *read) do(tid int) {
	r.text, r.err = Read(tid, "stat")
	reads.Lock()
	delete(reads.of, tid)
	reads.Unlock()
	close(r.ended)
}

// parseStat parses "TID (NAME) STATE PARENT ...". The name may contain anything.
func parseStat(text string) (s Stat, err error) {
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const parent, start, processor = 1, 19, 36
	if len(words) <= processor {
		return s, unix.EINVAL
	}
	var errs [3]error
	s.Parent, errs[0] = strconv.Atoi(words[parent])
	s.Start, errs[1] = strconv.ParseUint(words[start], 10, 64)
	s.CPU, errs[2] = strconv.Atoi(words[processor])
	return s, errors.Join(errs[:]...)
}

// Package proc reads the host's files about a thread, /proc/TID. A thread that has
// ended, or that is in another pid namespace, has none.
package proc

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Path returns the path of a file of a thread: "/proc/TID/NAME".
func Path(tid int, name string) string { return "/proc/" + strconv.Itoa(tid) + "/" + name }

// Read returns the contents of a file of a thread.
func Read(tid int, name string) (string, error) {
	b, err := os.ReadFile(Path(tid, name))
	return string(b), err
}

// Comm returns the name of a thread. It makes three system calls, where Read makes
// seven: the supervisor asks for each call that it reports.
func Comm(tid int) (string, error) {
	fd, err := unix.Open(Path(tid, "comm"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var b [32]byte // TASK_COMM_LEN is 16; kernel threads may have longer names
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(string(b[:n]), "\n"), nil
}

// Status returns a field of the file status: "Tgid", "CapEff".
func Status(tid int, field string) (string, bool) {
	text, err := Read(tid, "status")
	if err != nil {
		return "", false
	}
	_, rest, ok := strings.Cut("\n"+text, "\n"+field+":")
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
	State  byte   // 'R', 'S', ...; 'Z' and 'X' mean that it has ended
	Parent int    // the process that created its process
	Start  uint64 // when it was created, in ticks (10 ms) since boot
	CPU    int    // on which it runs or has run last
}

// ReadStat reads the file stat of a thread.
func ReadStat(tid int) (Stat, error) {
	text, err := Read(tid, "stat")
	if err != nil {
		return Stat{}, err
	}
	return parseStat(text)
}

// parseStat parses "TID (NAME) STATE PARENT ...". The name may contain anything.
func parseStat(text string) (s Stat, err error) {
	words := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const state, parent, start, processor = 0, 1, 19, 36
	if len(words) <= processor {
		return s, unix.EINVAL
	}
	var errs [3]error
	s.State = words[state][0]
	s.Parent, errs[0] = strconv.Atoi(words[parent])
	s.Start, errs[1] = strconv.ParseUint(words[start], 10, 64)
	s.CPU, errs[2] = strconv.Atoi(words[processor])
	return s, errors.Join(errs[:]...)
}

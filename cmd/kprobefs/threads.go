package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// What /proc says of threads. A call that is told asks for it, so it is read with
// as few system calls as there can be: os.ReadFile makes seven.

// procFile is the name of a file of a thread.
func procFile(tid int, name string) string { return "/proc/" + strconv.Itoa(tid) + "/" + name }

// threadName is the name of a thread; empty where there is none.
func threadName(tid int) string {
	fd, err := unix.Open(procFile(tid, "comm"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var b [32]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b[:n]), "\n")
}

// threadGroup returns the process that a thread belongs to.
func threadGroup(tid int) (int, error) {
	b, err := os.ReadFile(procFile(tid, "status"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "\nTgid:")
	line, _, _ := strings.Cut(rest, "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

// threadGroups remembers which process a thread belongs to.
type threadGroups struct {
	mu    sync.Mutex
	known map[int]int // by thread
}

// maxGroups bounds how many threads are remembered.
const maxGroups = 1 << 12

// of is threadGroup. A number may be another thread's by now: signal 0, which does
// nothing, finds a thread only in its process.
func (g *threadGroups) of(tid int) (int, error) {
	g.mu.Lock()
	pid, ok := g.known[tid]
	g.mu.Unlock()
	if ok && !errors.Is(unix.Tgkill(pid, tid, 0), unix.ESRCH) {
		return pid, nil
	}
	pid, err := threadGroup(tid)
	if err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil || len(g.known) >= maxGroups {
		g.known = map[int]int{}
	}
	g.known[tid] = pid
	return pid, nil
}

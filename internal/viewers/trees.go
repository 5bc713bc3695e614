package viewers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/cli"
	"github.com/kprobefs/kprobefs/kernel/host/proc"
)

// The mounted command finds trees by /proc/PID/mountinfo of all processes: trees of exec, and of
// users who mount in a user namespace, are in mount namespaces of their own.

// Tree is one that is mounted, as `mounted --json` shows it.
type Tree struct {
	Dir     string `json:"dir"`               // in its mount namespace
	State   string `json:"state"`             // Served, Dead or Silent
	Release string `json:"release,omitempty"` // as --release says; "" if it is not known
	PID     int    `json:"pid,omitempty"`     // the serving process; 0 if it cannot be seen
	UID     int    `json:"uid"`               // the user who has mounted it
	// Namespace is a process of its mount namespace if that is not the caller's.
	Namespace int `json:"namespace_pid,omitempty"`

	device string
}

// The states of a tree.
const (
	Served = "served"
	Dead   = "dead"      // the serving process has ended
	Silent = "no answer" // it does not answer, or only to others
)

// mountedCommand is for the probes of a container, whose image has no shell.
func mountedCommand(needProc func() error) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "mounted [MNT]",
		Short: "List the trees that are mounted, or tell whether one is served at MNT",
		Long: `List the trees of this user, root's list has all: the directory, the
release, the serving process, and whether it answers, for which a file of the tree is
read. Trees in other mount namespaces, such as exec's, are listed with a process of
that namespace.

With the directory MNT, open and read a file of the tree there. The exit status is 0
when it answers, else 1: no kprobefs is mounted there, or it has ended, or it hangs
(for three seconds).`,
		Example: `  kprobefs mounted
  kprobefs mounted --json
  kprobefs mounted /mnt && echo it is served`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: cli.CompleteDir,
		RunE: func(c *cobra.Command, args []string) error {
			if err := needProc(); err != nil {
				return err
			}
			if len(args) == 0 {
				return printTrees(c.OutOrStdout(), userTrees(os.Geteuid()), asJSON)
			}
			dir, err := cli.Absolute(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				here := slices.DeleteFunc(userTrees(0), func(t Tree) bool { return t.Dir != dir || t.Namespace != 0 })
				if err := printTrees(c.OutOrStdout(), here, true); err != nil {
					return err
				}
			}
			return answers(dir)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write a JSON array of objects with dir, state (served, dead or no answer), release, pid, uid, and namespace_pid of a tree in another mount namespace")
	return c
}

// answerTime bounds the time in which a tree must answer.
const answerTime = 3 * time.Second

// answers reads a file that everybody may read.
func answers(dir string) error {
	if !fs.Ours(dir) {
		return fmt.Errorf("%s: no kprobefs is mounted there", dir)
	}
	_, err := readSoon(filepath.Join(dir, "proc/version"))
	if errors.Is(err, syscall.ETIMEDOUT) {
		return fmt.Errorf("%s: no answer: %w", dir, err)
	}
	return err
}

// readSoon reads a file. It fails with ETIMEDOUT if that takes longer than answerTime.
func readSoon(path string) ([]byte, error) {
	type result struct {
		b   []byte
		err error
	}
	done := make(chan result, 1)
	go func() {
		b, err := os.ReadFile(path)
		done <- result{b, err}
	}()
	select {
	case r := <-done:
		return r.b, r.err
	case <-time.After(answerTime):
		return nil, syscall.ETIMEDOUT
	}
}

// printTrees writes a line for each tree, after a heading, or JSON.
func printTrees(w io.Writer, trees []Tree, asJSON bool) error {
	if asJSON {
		if trees == nil {
			trees = []Tree{}
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(trees)
	}
	if len(trees) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "DIR\tRELEASE\tPID\tSTATE")
	for _, t := range trees {
		pid, state := "-", t.State
		if t.PID != 0 {
			pid = strconv.Itoa(t.PID)
		}
		if t.Namespace != 0 {
			state += fmt.Sprintf(" (in the mount namespace of process %d)", t.Namespace)
		}
		release := t.Release
		if release == "" {
			release = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Dir, release, pid, state)
	}
	return table.Flush()
}

// userTrees returns the trees of a user, or of all for 0, first this mount namespace's.
func userTrees(uid int) []Tree {
	own, err := proc.OwnNamespace("mnt")
	if err != nil {
		return nil
	}
	pids := processes()
	namespaces := map[string]int{own: 0} // a process of each
	order := []string{own}
	for _, pid := range pids {
		at, err := os.Readlink(proc.Path(pid, "ns/mnt"))
		if _, known := namespaces[at]; err == nil && !known {
			namespaces[at] = pid
			order = append(order, at)
		}
	}
	var trees []Tree
	for _, space := range order {
		for _, m := range fs.Trees(namespaces[space]) {
			if slices.ContainsFunc(trees, func(t Tree) bool { return t.device == m.Device }) {
				continue
			}
			t := Tree{Dir: m.Dir, UID: mounter(m.UID, namespaces[space]), Namespace: namespaces[space], device: m.Device}
			if uid != 0 && t.UID != uid {
				continue
			}
			t.ask()
			t.findServer(pids, space)
			trees = append(trees, t)
		}
	}
	return trees
}

// mounter translates the user id of a mount, which is one of the mount's user namespace: of
// another namespace, whose only user it is as a rule, it is the user of a process there.
func mounter(uid, pid int) int {
	if pid == 0 {
		return uid
	}
	own, err := proc.OwnNamespace("user")
	theirs, terr := proc.Namespace(pid, "user")
	if err != nil || terr != nil || own == theirs {
		return uid
	}
	var st unix.Stat_t
	if unix.Stat(proc.Path(pid, ""), &st) != nil {
		return uid
	}
	return int(st.Uid)
}

// processes returns the ids of all processes.
func processes() []int {
	names, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, n := range names {
		if pid, err := strconv.Atoi(filepath.Base(n)); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// ask finds out whether the tree answers, and its release.
func (t *Tree) ask() {
	root := ""
	if t.Namespace != 0 {
		root = proc.Path(t.Namespace, "root")
	}
	b, err := readSoon(filepath.Join(root, t.Dir, "proc/version"))
	switch {
	case err == nil:
		t.State, t.Release = Served, releaseOf(string(b))
	case errors.Is(err, syscall.ENOTCONN), errors.Is(err, syscall.ECONNABORTED):
		t.State = Dead
	default: // of another user namespace it may not be entered
		t.State = Silent
	}
}

// releaseOf returns the name of the release whose /proc/version this is, or uname -r if it is
// none of this program's.
func releaseOf(version string) string {
	words := strings.Fields(version)
	if len(words) < 3 {
		return ""
	}
	for _, name := range kprobefs.ReleaseNames() {
		if r, err := kprobefs.ParseRelease(name); err == nil && r.Uname() == words[2] {
			return name
		}
	}
	return words[2]
}

// findServer finds the process that serves the tree: it is in the tree's mount namespace, has
// /dev/fuse open, and was started with the directory as an argument. With the flags of one that
// this program has started, it tells the release and the state of a tree that may not be entered.
func (t *Tree) findServer(pids []int, space string) {
	for _, pid := range pids {
		if at, err := os.Readlink(proc.Path(pid, "ns/mnt")); err != nil || at != space {
			continue
		}
		line, _ := os.ReadFile(proc.Path(pid, "cmdline"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		if !namesDir(pid, args, t.Dir) || !hasOpen(pid, "/dev/fuse") {
			continue
		}
		t.PID = pid
		if i := slices.Index(args, "--release"); t.Release == "" && i >= 0 && i+1 < len(args) {
			t.Release = args[i+1]
		}
		if t.Namespace != 0 {
			t.Namespace = pid // which outlives others there
			if t.State == Silent {
				t.State = Served
			}
		}
		return
	}
}

// namesDir reports whether an argument of a process is a directory, by its absolute path or
// below the process's working directory.
func namesDir(pid int, args []string, dir string) bool {
	cwd, _ := os.Readlink(proc.Path(pid, "cwd"))
	return slices.ContainsFunc(args, func(a string) bool {
		return a != "" && (filepath.Clean(a) == dir || cwd != "" && filepath.Join(cwd, a) == dir)
	})
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, file string) bool {
	fds, _ := filepath.Glob(proc.Path(pid, "fd/*"))
	return slices.ContainsFunc(fds, func(fd string) bool {
		at, _ := os.Readlink(fd)
		return at == file
	})
}

package space

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/internal/exec/hostview"
)

// tempPrefix is the beginning of the names of directories that TempDir has created.
const tempPrefix = "kprobefs-tree-"

// TempDir creates a directory to mount on, wherever this user may create one. held has a lock
// (flock(2)) on it for as long as a process has it open: what carries no lock is taken away by the
// next RemoveAbandoned, since all processes that could remove it have been killed.
func TempDir() (dir string, held *os.File, err error) {
	for _, parent := range []string{os.TempDir(), os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", "/var/tmp", os.Getenv("HOME"), "."} {
		if parent == "" {
			continue
		}
		made, held, terr := tempDirIn(parent)
		if terr == nil {
			dir, err := filepath.Abs(made)
			return dir, held, err
		}
		if err == nil {
			err = terr
		}
	}
	return "", nil, err
}

// tempDirIn creates a directory in another one. A RemoveAbandoned may take it away before it has a
// lock; then another one is made.
func tempDirIn(parent string) (dir string, held *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp(parent, tempPrefix); err != nil {
			return "", nil, err
		}
		if held, err = HoldDir(dir); err == nil || !errors.Is(err, os.ErrNotExist) {
			return dir, held, err
		}
	}
}

// HoldDir locks a directory as TempDir does. It fails with ENOENT if the directory has been removed.
func HoldDir(dir string) (*os.File, error) {
	f, err := hostview.OpenHandle(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_SH)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(f.Fd()), &st)
	}
	if err == nil && st.Nlink == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		_ = f.Close()
		return nil, &os.PathError{Op: "lock", Path: dir, Err: err}
	}
	return f, nil
}

// flock is flock(2). A file system without locks has none to respect.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			if how&unix.LOCK_SH != 0 {
				return nil
			}
		}
		return err
	}
}

// RemoveAbandoned removes the directories of TempDir that lie beside one and are of this user, empty,
// and of nobody who lives.
func RemoveAbandoned(beside string) {
	parent := filepath.Dir(beside)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if dir := filepath.Join(parent, e.Name()); e.IsDir() && strings.HasPrefix(e.Name(), tempPrefix) && dir != beside && !fs.Ours(dir) {
			removeIfAbandoned(dir)
		}
	}
}

func removeIfAbandoned(dir string) {
	f, err := hostview.OpenHandle(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid() && flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		_ = unix.Rmdir(dir)
	}
}

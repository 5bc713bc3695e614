package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/kprobefs/kprobefs/fs"
)

// self is this program's file, also when it has been replaced on disk.
const self = "/proc/self/exe"

// background starts the mount again without a terminal, and returns when its
// files are there.
func (p *program) background(f *mountFlags, dir string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	args := append(append(p.logging.args(), "mount", "--detached", "--ready-fd", "3"), f.args()...)
	if f.mkdir {
		args = append(args, "--mkdir")
	}
	for _, o := range f.options {
		args = append(args, "-o", o)
	}
	for _, face := range f.faces {
		args = append(args, "--face", face)
	}
	cmd := exec.Command(self, append(args, dir)...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = w.Close()
	if line, _ := bufio.NewReader(r).ReadString('\n'); line == "ready\n" {
		_ = cmd.Process.Release()
		return writeReady(f.readyFD)
	}
	_, _ = io.Copy(os.Stderr, stderr) // says why
	err = cmd.Wait()
	var e *exec.ExitError
	if errors.As(err, &e) {
		return &exitError{err: err, said: true, status: e.Sys().(syscall.WaitStatus)}
	}
	return errors.Join(errors.New("the daemon ended at once"), err)
}

// watch starts a process that detaches the mounts if this one is killed: the
// host's kernel would keep them, dead. stop tells it that there is nothing to do.
func watch(mounts []*fs.Mount) (stop func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	args := []string{"watch"}
	for _, m := range mounts {
		args = append(args, m.Dir)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("start of the watcher: %w", err)
	}
	return func() {
		_, _ = w.WriteString("q")
		_ = w.Close()
		_ = cmd.Wait()
	}, nil
}

func watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "watch MNT...",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if n, _ := io.ReadFull(os.Stdin, make([]byte, 1)); n == 1 {
				return nil
			}
			var errs []error
			for _, d := range dirs {
				errs = append(errs, fs.DetachDead(d))
			}
			return errors.Join(errs...)
		},
	}
}

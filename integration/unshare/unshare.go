// Package unshare runs the tests of a package in a mount namespace of their own, so
// that no mount that they make is seen outside, or survives them.
package unshare

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideVar says which part of this package a process plays: in the private namespace,
// or where there is none and only the names of the tests are wanted.
const (
	insideVar = "KPROBEFS_TEST_NAMESPACE"
	inside    = "inside"
	names     = "names"
)

// Main is for TestMain: it runs this test binary again in a private mount namespace
// (of a user namespace, if the user is not root), and there run, which is m.Run or
// calls it. The result is the exit status.
//
// Where no such namespace can be had, each test is reported as skipped with the
// reason; with CI set in the environment this is a failure, so that a CI that lost
// its namespaces does not stay green.
func Main(run func() int) int {
	switch os.Getenv(insideVar) {
	case names:
		return run()
	case inside:
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return run()
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVar+"="+inside)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = private()
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	if err := cmd.Start(); err != nil {
		return without(os.Stdout, err)
	}
	interrupts := make(chan os.Signal, 1) // a fuzzer is ended by one
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range interrupts {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// private asks for a mount namespace; an ordinary user becomes root of a user
// namespace, which may have one.
func private() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// without says of each test that it is skipped, as the testing package says it.
func without(out io.Writer, cause error) int {
	if os.Getenv("CI") != "" {
		fmt.Fprintln(out, "FAIL: no private mount namespace, and this is CI:", cause)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", "-test.list=^Test")
	cmd.Env = append(os.Environ(), insideVar+"="+names)
	list, err := cmd.Output()
	if err != nil {
		fmt.Fprintln(out, "FAIL: listing the tests:", err)
		return 1
	}
	for name := range strings.FieldsSeq(string(list)) {
		fmt.Fprintf(out, "=== RUN   %s\n    no private mount namespace to test in: %v\n--- SKIP: %s (0.00s)\n", name, cause, name)
	}
	fmt.Fprintln(out, "PASS")
	return 0
}

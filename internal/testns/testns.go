// Package testns runs the tests of a package in a private mount namespace, so that
// their mounts are not seen outside and do not outlive them.
package testns

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

// insideVar tells a process whether it is in the private namespace, or has to list
// the names of the tests because there is none.
const (
	insideVar = "KPROBEFS_TEST_NAMESPACE"
	inside    = "inside"
	names     = "names"
)

// Main is called by TestMain. It runs this test binary again in a private mount
// namespace (and in a user namespace if the user is not root), where it calls run,
// which is m.Run or calls it. It returns the exit status.
//
// If no such namespace can be created, each test is reported as skipped with the
// reason. If CI is set in the environment this is a failure.
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
	interrupts := make(chan os.Signal, 1) // a fuzzer is ended by an interrupt
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	go func() {
		for s := range interrupts {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// private returns the attributes for a private mount namespace, with a user namespace
// for ordinary users.
func private() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// without reports each test as skipped, in the testing package's format.
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

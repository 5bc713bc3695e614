package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	sys "github.com/kprobefs/kprobefs/cmd/kprobefs/system"
	"github.com/kprobefs/kprobefs/fs"
	"github.com/kprobefs/kprobefs/fs/seqfile"
)

// system is a running machine and its files: *system.System.
type system interface {
	// Tree is the directory that is mounted: kprobes, tracing, sys, proc, dev, machine.
	Tree() seqfile.Dir
	// Guest takes the files' system calls.
	Guest() fs.Guest
	Close() error
}

// bootOptions say what to boot.
type bootOptions struct {
	CPUs    int         // vCPUs; 0: as many as this machine has
	Release sys.Release // which kernel
	Config  sys.Config  // of the kernel
	Locked  sys.Lockdown
	Log     *logrus.Logger
	Calls   *callServer // where a supervisor tells of its command's calls; nil: none does
}

// machineFlags say what machine is wanted; exec hands them from process to process.
type machineFlags struct {
	cpus    int
	release string
	config  []string
	locked  string
}

func (f *machineFlags) addTo(flags *pflag.FlagSet) {
	flags.IntVar(&f.cpus, "cpus", 0, "vCPUs of the emulated kernel (default: this machine's)")
	flags.StringVar(&f.release, "release", sys.DefaultRelease, "which Linux to be: "+strings.Join(sys.ReleaseNames(), ", "))
	flags.StringArrayVar(&f.config, "config", nil, "configure the kernel otherwise than Debian's, NAME=VALUE: "+strings.Join(sys.ConfigNames(), ", "))
	flags.StringVar(&f.locked, "lockdown", "", "lock the kernel down: integrity closes debugfs, confidentiality also tracefs (default none)")
}

// args are the flags for another process of this program.
func (f *machineFlags) args() []string {
	args := []string{"--cpus", strconv.Itoa(f.cpus), "--release", f.release}
	for _, line := range f.config {
		args = append(args, "--config", line)
	}
	if f.locked != "" {
		args = append(args, "--lockdown", f.locked)
	}
	return args
}

// debugfs is where the release expects debugfs besides /sys/kernel/debug, or "".
func (f *machineFlags) debugfs() string {
	r, err := sys.ParseRelease(f.release)
	if err != nil {
		return "" // said elsewhere
	}
	return r.Debugfs
}

// options are those flags as what to boot. EINVAL: one of them has no such value.
func (f *machineFlags) options() (o bootOptions, err error) {
	if err := checkCPUs(f.cpus); err != nil {
		return o, err
	}
	o.CPUs = f.cpus
	if o.Locked, err = sys.ParseLockdown(f.locked); err != nil {
		return o, err
	}
	if o.Release, err = sys.ParseRelease(f.release); err != nil {
		return o, err
	}
	if o.Config, err = sys.ParseConfig(o.Release.Config, f.config); err != nil {
		return o, err
	}
	return o, o.Release.Check(o.Config)
}

type bootFunc func(bootOptions) (system, error)

// boot builds the machine.
func boot(o bootOptions) (system, error) {
	s, err := sys.New(sys.Options{CPUs: o.CPUs, Release: o.Release, Config: o.Config, Lockdown: o.Locked, Program: programVersion()})
	if err != nil {
		return nil, err
	}
	watch := sys.ActivityOptions{Say: func(what string, err error) { o.Log.WithField("err", err).Info(what) }}
	if o.Calls != nil {
		watch.Apart, watch.Supervised, watch.State = []int{os.Getppid()}, true, o.Calls.state
	}
	a := s.Watch(watch)
	if o.Calls != nil {
		go o.Calls.serve(a)
	}
	return s, nil
}

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
	CPUs   int        // vCPUs; 0: as many as this machine has
	Config sys.Config // of the kernel
	Locked sys.Lockdown
	Log    *logrus.Logger
	Calls  *callServer // where a supervisor tells of its command's calls; nil: none does
}

// machineFlags say what machine is wanted; exec hands them from process to process.
type machineFlags struct {
	cpus   int
	config []string
	locked string
}

func (f *machineFlags) addTo(flags *pflag.FlagSet) {
	flags.IntVar(&f.cpus, "cpus", 0, "vCPUs of the emulated kernel (default: this machine's)")
	flags.StringArrayVar(&f.config, "config", nil, "configure the kernel otherwise than Debian's, NAME=VALUE: "+strings.Join(sys.ConfigNames(), ", "))
	flags.StringVar(&f.locked, "lockdown", "", "lock the kernel down: integrity closes debugfs, confidentiality also tracefs (default none)")
}

// args are the flags for another process of this program.
func (f *machineFlags) args() []string {
	args := []string{"--cpus", strconv.Itoa(f.cpus)}
	for _, line := range f.config {
		args = append(args, "--config", line)
	}
	if f.locked != "" {
		args = append(args, "--lockdown", f.locked)
	}
	return args
}

func (f *machineFlags) check() (sys.Config, error) {
	if err := checkCPUs(f.cpus); err != nil {
		return sys.Config{}, err
	}
	if _, err := sys.ParseLockdown(f.locked); err != nil {
		return sys.Config{}, err
	}
	return sys.ParseConfig(f.config)
}

// lockdown is the level that check has found good.
func (f *machineFlags) lockdown() sys.Lockdown {
	level, _ := sys.ParseLockdown(f.locked)
	return level
}

type bootFunc func(bootOptions) (system, error)

// boot builds the machine.
func boot(o bootOptions) (system, error) {
	s, err := sys.New(sys.Options{CPUs: o.CPUs, Config: o.Config, Lockdown: o.Locked, Program: programVersion()})
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

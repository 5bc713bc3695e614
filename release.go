package kprobefs

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/kprobefs/kprobefs/kernel/btf"
	"github.com/kprobefs/kprobefs/kernel/guest"
	"github.com/kprobefs/kprobefs/kernel/module"
	"github.com/kprobefs/kprobefs/kernel/release"
	"github.com/kprobefs/kprobefs/kprobes/tracing/bpf"
)

// Release is a kernel that kprobefs can emulate. What it does otherwise than other
// releases is in the tables of package release.
type Release struct {
	Linux    release.Version // its name is Linux.String()
	Image    string          // the guest that it boots, a name for guest.Image
	Kernel   string          // uname -r if it is a distribution's kernel's; "" means a name of our own
	Banner   string          // /proc/version if it is another kernel's, of its file: "Linux version ... #1 SMP ..."
	Build    string          // the beginning of uname -v: "#1 SMP PREEMPT_DYNAMIC"
	Vermagic string          // vermagic of its modules, after uname -r
	Modules  release.Version // the release whose modules it loads as well; 0 means none
	ABI      *module.ABI     // a distribution's kernels whose modules it also loads; nil means none
	Config   Config          // its default configuration

	layout module.Struct // of struct module in the image; it is Debian's kernel's
}

// releases are all releases, the newest first. 6.1 behaves as Debian's 6.1 was observed
// to behave. Those before 5.10 behave as their documentation says, boot 6.1's guest
// otherwise, and are not preemptible unless CONFIG_PREEMPT=y is set.
var releases = []Release{
	{Linux: release.Linux6_12, Image: "6.12", layout: module.Struct{Size: 1280, Refs: 0x4b8, Pieces: true}, Build: "#1 SMP PREEMPT_DYNAMIC", Vermagic: "SMP preempt mod_unload modversions"},
	{Linux: release.Linux6_1, Image: "6.1", layout: struct61, Kernel: module.NewestDebian61(), Build: "#1 SMP PREEMPT_DYNAMIC", Vermagic: "SMP preempt mod_unload modversions", ABI: module.Debian61},
	{Linux: release.Linux5_10, Image: "5.10", layout: module.Struct{Size: 960, Refs: 0x388}, Build: "#1 SMP", Vermagic: "SMP mod_unload modversions", Config: Config{NoPreempt: true}},
	{Linux: release.Linux4_15, Image: "4.15", layout: struct61, Build: "#1 SMP", Vermagic: "SMP mod_unload modversions", Modules: release.Linux6_1, Config: Config{NoPreempt: true}},
	{Linux: release.Linux2_6_32, Image: "2.6", layout: struct61, Build: "#1 SMP", Vermagic: "SMP mod_unload modversions", Modules: release.Linux6_1, Config: config26},
	{Linux: release.Linux2_6_25, Image: "2.6", layout: struct61, Build: "#1 SMP", Vermagic: "SMP mod_unload modversions", Modules: release.Linux6_1, Config: config26},
}

// struct61 is the struct module of 6.1, whose guest the older releases boot.
var struct61 = module.Struct{Size: 896, Refs: 0x358}

var config26 = Config{NoPreempt: true, NoOptprobes: true, NoFtrace: true}

// Version is a version of Linux.
type Version = release.Version

// The versions that can be emulated: arguments of OptionsOf.
const (
	Linux2_6_25 = release.Linux2_6_25
	Linux2_6_32 = release.Linux2_6_32
	Linux4_15   = release.Linux4_15
	Linux5_10   = release.Linux5_10
	Linux6_1    = release.Linux6_1
	Linux6_12   = release.Linux6_12
)

// OptionsOf returns the options of a version's kernel with its default configuration. Of a version
// that cannot be emulated they are DefaultRelease's.
func OptionsOf(v Version) Options {
	r, err := ParseRelease(v.String())
	if err != nil {
		r, _ = ParseRelease(DefaultRelease)
	}
	return Options{Release: r, Config: r.Config}
}

// rename returns the function that maps names in the image, which are 6.1's, to
// the release's names, or nil if they are the same.
func (r Release) rename() func(string) string {
	names := release.Rename(r.Linux)
	in, prefix := release.SyscallPrefix.Of(release.Default), release.SyscallPrefix.Of(r.Linux)
	if len(names) == 0 && prefix == in {
		return nil
	}
	return func(name string) string {
		if call, ok := strings.CutPrefix(name, in); ok {
			return prefix + call
		}
		return cmp.Or(names[name], name)
	}
}

// DefaultRelease is the release that is emulated when none is chosen.
const DefaultRelease = "6.1"

// ParseRelease returns the release with a name; "" means DefaultRelease. It fails with
// EINVAL for an unknown name.
func ParseRelease(name string) (Release, error) {
	if name == "" {
		name = DefaultRelease
	}
	for _, r := range releases {
		if r.Name() == name {
			return r, nil
		}
	}
	return Release{}, fmt.Errorf("unknown release %q; the releases are %s: %w", name, strings.Join(ReleaseNames(), ", "), syscall.EINVAL)
}

// ReleaseNames returns the names that ParseRelease accepts, the newest first.
func ReleaseNames() []string {
	var names []string
	for _, r := range releases {
		names = append(names, r.Name())
	}
	return names
}

// Name returns the release's name: "6.1", the argument of --release.
func (r Release) Name() string { return r.Linux.String() }

// Debugfs returns the path at which it expects debugfs, or "" for /sys/kernel/debug.
func (r Release) Debugfs() string {
	at := release.DebugfsDir.Of(r.Linux)
	if at == release.DebugfsDir.Of(release.Default) {
		return ""
	}
	return at
}

// Check returns EINVAL for a configuration that the release cannot have.
func (r Release) Check(c Config) error {
	for _, part := range []struct {
		needs release.Feature
		off   bool
		name  string
	}{{release.JumpOptimization, c.NoOptprobes, "CONFIG_OPTPROBES"}, {release.KprobesOnFtrace, c.NoFtrace, "CONFIG_KPROBES_ON_FTRACE"}} {
		if !part.off && !r.Linux.Has(part.needs) {
			return fmt.Errorf("%s has no %s: %w", r.Name(), part.name, syscall.EINVAL)
		}
	}
	return nil
}

// Configure adapts uname -v to a configuration that is not the default.
func (r *Release) Configure(c Config) {
	if c.NoPreempt == r.Config.NoPreempt {
		return
	}
	if r.Build = "#1 SMP"; !c.NoPreempt {
		r.Build += " PREEMPT"
	}
}

// Uname returns uname -r.
func (r Release) Uname() string { return cmp.Or(r.Kernel, r.ownUname()) }

// ownUname returns the name of the kernel where that is not a distribution's, and in the
// vermagic of modules without a struct module.
func (r Release) ownUname() string {
	name := r.Name()
	if strings.Count(name, ".") == 1 {
		name += ".0"
	}
	return name + "-kprobefs-amd64"
}

// BuildVersion returns uname -v, with the name of the program: "kprobefs 0.1".
func (r Release) BuildVersion(program string) string {
	if i := strings.LastIndex(r.Banner, " #"); i >= 0 {
		return r.Banner[i+1:]
	}
	return fmt.Sprintf("%s emulating Linux %s by %s", r.Build, r.Name(), program)
}

// Version returns /proc/version in Linux's format, with a newline, as in the guest's
// linux_proc_banner: release, builder and compiler, uname -v.
func (r Release) Version(program string) string {
	if r.Banner != "" {
		return r.Banner + "\n"
	}
	return fmt.Sprintf("Linux version %s (kprobefs@guest) (gcc 12.2.0) %s\n", r.Uname(), r.BuildVersion(program))
}

// btf returns a function that loads the types of the guest's functions when they are
// first needed, or nil if the kernel has none. The files are embedded and tested, so
// loading does not fail.
func (r Release) btf() func() *btf.Types {
	if !r.Linux.Has(release.BTFArgs) {
		return nil
	}
	text := guest.BTF(r.Image)
	return sync.OnceValue(func() *btf.Types {
		types, err := btf.Parse(text)
		if err != nil {
			return nil
		}
		return types
	})
}

// types returns the kernel's types as /sys/kernel/btf/vmlinux shows them, or nil if it has none.
func (r Release) types() []byte {
	raw := guest.RawBTF(r.Image)
	if raw == nil {
		return nil
	}
	types, err := bpf.WithIterators(raw)
	if err != nil {
		return raw
	}
	return types
}

// vermagic returns the kernel's vermagic.
func (r Release) vermagic() string { return r.Uname() + " " + r.Vermagic }

// ownVermagics returns the vermagics of modules that are built with the guest's own
// headers: for the release, for the release whose modules it loads, and of
// modules without a struct module, whose name is not a distribution's kernel's.
func (r Release) ownVermagics() []string {
	own := []string{r.vermagic(), r.ownUname() + " " + r.Vermagic}
	for _, of := range releases {
		if of.Linux == r.Modules {
			own = append(own, of.vermagic(), of.ownUname()+" "+of.Vermagic)
		}
	}
	if r.Kernel != "" { // modules of that kernel have this vermagic, too
		own = own[1:]
	}
	return own
}

func (r Release) image() []byte { return guest.Image(r.Image) }

package verdicts

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/kprobes"
)

// Boot boots the guest of a release.
func Boot(release string) (*kprobefs.Kernel, error) {
	r, err := kprobefs.ParseRelease(release)
	if err != nil {
		return nil, err
	}
	return kprobefs.Boot(kprobefs.Options{CPUs: 1, Release: r, Config: r.Config})
}

// Functions returns the names of the guest's functions, as its kallsyms has them.
func Functions(k *kprobefs.Kernel) ([]string, error) {
	text, err := k.ReadFile("proc/kallsyms")
	if err != nil {
		return nil, err
	}
	return functionsIn(string(text)), nil
}

// functionsIn returns the functions of the kernel itself in the text of kallsyms.
func functionsIn(kallsyms string) []string {
	var names []string
	for line := range strings.Lines(kallsyms) {
		if f := strings.Fields(line); len(f) == 3 && strings.Contains("tTwW", f[1]) {
			names = append(names, f[2])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AskGuest returns the verdicts of a guest on functions.
func AskGuest(k *kprobefs.Kernel, names []string) (map[string]Verdict, error) {
	all := map[string]Verdict{}
	for _, name := range names {
		v := Verdict{Event: errno(k.AppendFile(events, "p:"+probeEvent+" "+name)), ReturnEvent: errno(k.AppendFile(events, "r:"+returnEvent+" "+name))}
		p := &kprobefs.Kprobe{SymbolName: name, Flags: kprobes.FlagDisabled}
		err := k.Register(p)
		if v[Probe] = errno(err); err == nil {
			if err := k.Unregister(p); err != nil {
				return nil, err
			}
		}
		r := &kprobefs.Retprobe{Kprobe: kprobefs.Kprobe{SymbolName: name, Flags: kprobes.FlagDisabled}}
		err = k.RegisterRetprobe(r)
		if v[ReturnProbe] = errno(err); err == nil {
			if err := k.UnregisterRetprobe(r); err != nil {
				return nil, err
			}
		}
		all[name] = v
	}
	return all, k.WriteFile(events, "")
}

// All definitions are probes of these two events, so that there are few directories to make.
const (
	events      = "tracing/kprobe_events"
	probeEvent  = "verdicts/probe"
	returnEvent = "verdicts/return"
)

func errno(err error) (e syscall.Errno) {
	errors.As(err, &e)
	return e
}

package kprobefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

func TestParseConfig(t *testing.T) {
	for _, tc := range []struct {
		lines string
		want  Config
		says  string
	}{
		{"", Config{}, ""},
		{"CONFIG_OPTPROBES=n", Config{NoOptprobes: true}, ""},
		{"CONFIG_OPTPROBES=n CONFIG_OPTPROBES=y", Config{}, ""},
		{"CONFIG_KPROBES_ON_FTRACE=n CONFIG_PREEMPT=n", Config{NoFtrace: true, NoPreempt: true}, ""},
		{"CONFIG_PREEMPTION=n CONFIG_NR_CPUS=3", Config{NoPreempt: true, NRCPUs: 3}, ""},
		{"NR_CPUS=0", Config{}, "the values of NR_CPUS are the numbers from 1 to 8192"},
		{"NR_CPUS", Config{}, "the values of NR_CPUS are the numbers from 1 to 8192"},
		{"NR_CPUS=9000", Config{}, "the values of NR_CPUS are the numbers from 1 to 8192"},
		{"CONFIG_KALLSYMS_ALL=n", Config{NoKallsymsAll: true}, ""},
		{"CONFIG_OPTPROBES=m", Config{}, "the values of CONFIG_OPTPROBES are y and n"},
		{"CONFIG_SMP=n", Config{}, "the known names are CONFIG_KALLSYMS_ALL, CONFIG_KPROBES_ON_FTRACE, CONFIG_OPTPROBES, CONFIG_PREEMPT, NR_CPUS"},
	} {
		c, err := ParseConfig(Config{}, strings.Fields(tc.lines))
		if tc.says == "" && err != nil || c != tc.want {
			t.Errorf("%s: %+v, %v", tc.lines, c, err)
		}
		if tc.says != "" && (!errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: error %v, want %q", tc.lines, err, tc.says)
		}
	}
}

// hasFile reports whether the tree has a file below sys.
func hasFile(s *Kernel, path ...string) bool {
	dir := s.Tree()
	for _, name := range path {
		var found *seqfile.Row
		for _, r := range dir.Rows() {
			if r.Name == name {
				found = r
			}
		}
		if found == nil {
			return false
		}
		dir = found.Dir
	}
	return true
}

// TestConfig: the effect of each setting on a probe at an entry, on one inside a
// function, and on the sysctl. Each probe is hit once.
func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		line         string
		entry, inner kprobes.Flags
		carried      string
		sysctl       bool
	}{
		{"CONFIG_OPTPROBES=y", kprobes.FlagFtrace, kprobes.FlagOptimized, "step", true},
		{"CONFIG_OPTPROBES=n", kprobes.FlagFtrace, 0, "step", false},
		{"CONFIG_KPROBES_ON_FTRACE=n", kprobes.FlagOptimized, kprobes.FlagOptimized, "step", true},
		{"CONFIG_PREEMPT=n", kprobes.FlagFtrace, kprobes.FlagOptimized, "boost", true},
	} {
		t.Run(tc.line, func(t *testing.T) {
			c, err := ParseConfig(Config{}, []string{tc.line})
			if err != nil {
				t.Fatal(err)
			}
			s, err := Boot(Options{CPUs: 2, Config: c})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			var hits int
			count := func(*kprobes.Hit) int { hits++; return 0 }
			entry := &kprobes.Kprobe{SymbolName: "int_pow", PreHandler: count}
			inner := &kprobes.Kprobe{SymbolName: "int_pow", Offset: 5, PreHandler: count}
			if err := s.Kprobes.RegisterAll([]*kprobes.Kprobe{entry, inner}); err != nil {
				t.Fatal(err)
			}
			if s.Kprobes.HasOptprobes() {
				s.Kprobes.WaitOptimizer()
			}
			for _, i := range s.Kprobes.Points() {
				want, flags := tc.entry, i.Flags&(kprobes.FlagFtrace|kprobes.FlagOptimized)
				if i.Addr == inner.Addr {
					want = tc.inner
				}
				if flags != want || i.Addr == inner.Addr && i.Carried != tc.carried {
					t.Errorf("at %#x: %v, carried out by %s", i.Addr, flags, i.Carried)
				}
			}
			if v, err := s.Machine.Call(context.Background(), "int_pow", 3, 4); v != 81 || err != nil || hits != 2 {
				t.Errorf("int_pow(3, 4) is %d (%v), %d hits", v, err, hits)
			}
			if got := hasFile(s, "sys", "debug", "kprobes-optimization"); got != tc.sysctl {
				t.Errorf("sys/debug/kprobes-optimization exists: %v", got)
			}
		})
	}
}

// TestKallsymsAll: without CONFIG_KALLSYMS_ALL there are only symbols of text, for
// probes, for fetch arguments, and for modules.
func TestKallsymsAll(t *testing.T) {
	all, err := Boot(Options{CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	text, err := Boot(Options{CPUs: 1, Config: Config{NoKallsymsAll: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	ko, err := os.ReadFile("kernel/guest/modules/kprobe_target.ko")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Kernel{all, text} {
		if _, err := s.Modules.Load(context.Background(), ko); err != nil {
			t.Fatal(err)
		}
	}
	data := all.Machine.Symbols().LookupName("jiffies")[0].Addr
	img := all.Machine.Image()
	for _, tc := range []struct {
		what      string
		do        func(s *Kernel) error
		all, text error
	}{
		{"a probe at data", func(s *Kernel) error { return s.Kprobes.Register(&kprobes.Kprobe{SymbolName: "jiffies"}) }, syscall.EINVAL, syscall.ENOENT},
		{"a probe at its address", func(s *Kernel) error { return s.Kprobes.Register(&kprobes.Kprobe{Addr: data}) }, syscall.EINVAL, syscall.ENOENT},
		{"a probe at _etext", func(s *Kernel) error { return s.Kprobes.Register(&kprobes.Kprobe{Addr: img.Text.End}) }, syscall.EINVAL, syscall.ENOENT},
		{"@data", define("p:a vfs_read @jiffies"), nil, syscall.ENOENT},
		{"@text", define("p:b vfs_read @vfs_write"), nil, nil},
		{"a module's data", find("kprobe_target:nodes"), nil, syscall.ENOENT},
		{"a module's text", find("kprobe_target:kprobe_target_pop"), nil, nil},
		{"_etext", find("_etext"), nil, nil},
		{"_einittext", find("_einittext"), nil, nil},
		{"per-CPU data", find("current_task"), nil, syscall.ENOENT},
	} {
		if err := tc.do(all); !errors.Is(err, tc.all) {
			t.Errorf("%s: %v, want %v", tc.what, err, tc.all)
		}
		if err := tc.do(text); !errors.Is(err, tc.text) {
			t.Errorf("%s, CONFIG_KALLSYMS_ALL=n: %v, want %v", tc.what, err, tc.text)
		}
	}
	kept := text.Machine.Symbols().All()
	for _, s := range kept {
		if s.Module == "" && (s.Addr < img.Text.Start || s.Addr > img.Text.End) && (s.Addr < img.InitText.Start || s.Addr > img.InitText.End) {
			t.Errorf("%s at %#x is no text", s.Name, s.Addr)
		}
	}
	for _, s := range all.Machine.Symbols().All() {
		if img.Text.Contains(s.Addr) && !slices.ContainsFunc(kept, func(k abi.Symbol) bool { return k == s }) {
			t.Errorf("%s is missing, or not of %d bytes", s.Name, s.Size)
		}
	}
}

func define(line string) func(*Kernel) error {
	return func(s *Kernel) error {
		_, err := s.Tracer.Definitions().WriteKprobeEvents([]byte(line + "\n"))
		return err
	}
}

func find(name string) func(*Kernel) error {
	return func(s *Kernel) error {
		if len(s.Machine.Symbols().LookupName(name)) == 0 {
			return fmt.Errorf("%s: %w", name, syscall.ENOENT)
		}
		return nil
	}
}

// TestNRCPUS: the kernel has at most NR_CPUS vCPUs, and a return probe's default
// maxactive depends on their number.
func TestNRCPUS(t *testing.T) {
	for _, tc := range []struct{ nr, ask, cpus, room int }{{1, 4, 1, 10}, {8, 6, 6, 12}, {0, 6, 6, 12}} {
		s, err := Boot(Options{CPUs: tc.ask, Config: Config{NRCPUs: tc.nr}})
		if err != nil {
			t.Fatal(err)
		}
		rp := &kprobes.Retprobe{Kprobe: kprobes.Kprobe{SymbolName: "int_pow"}}
		if err := s.Kprobes.RegisterRetprobe(rp); err != nil {
			t.Error(err)
		}
		if got := s.Machine.CPUs(); got != tc.cpus || rp.MaxActive != tc.room {
			t.Errorf("NR_CPUS=%d, %d asked for: %d vCPUs, maxactive %d", tc.nr, tc.ask, got, rp.MaxActive)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestPreemptVersion: the preemption model in uname -v and /proc/version.
func TestPreemptVersion(t *testing.T) {
	for _, tc := range []struct{ release, config, want string }{
		{"6.1", "CONFIG_PREEMPT=y", "#1 SMP PREEMPT_DYNAMIC emulating"},
		{"6.1", "CONFIG_PREEMPT=n", "#1 SMP emulating"},
		{"4.15", "CONFIG_PREEMPT=n", "#1 SMP emulating"},
		{"4.15", "CONFIG_PREEMPT=y", "#1 SMP PREEMPT emulating"},
	} {
		s := bootOld(t, tc.release, tc.config)
		first, _ := s.Machine.Log().Bounds()
		line, _, _, _ := s.Machine.Log().Get(first)
		if v := s.opts.Release.Version("a test"); !strings.Contains(v, tc.want) || !strings.Contains(line.Text, tc.want) {
			t.Errorf("%s, %s: version %q, the log %q", tc.release, tc.config, v, line.Text)
		}
	}
}

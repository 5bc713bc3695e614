package system

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
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
		{"NR_CPUS=0", Config{}, "NR_CPUS does not have this value"},
		{"NR_CPUS", Config{}, "NR_CPUS does not have this value"},
		{"NR_CPUS=9000", Config{}, "NR_CPUS does not have this value"},
		{"CONFIG_OPTPROBES=m", Config{}, "does not have this value"},
		{"CONFIG_SMP=n", Config{}, "there are CONFIG_KPROBES_ON_FTRACE, CONFIG_OPTPROBES, CONFIG_PREEMPT, NR_CPUS"},
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

// hasFile says whether the tree has a file below sys.
func hasFile(s *System, path ...string) bool {
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

// TestConfig: what each setting does to a probe at an entry, one inside, and
// the sysctl. Each is hit once.
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
			s, err := New(Options{CPUs: 2, Config: c})
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
			if s.Optimizer != nil {
				s.Optimizer.Wait()
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
				t.Errorf("sys/debug/kprobes-optimization is there: %v", got)
			}
		})
	}
}

// TestNRCPUS: the kernel has no more vCPUs than NR_CPUS, and a return probe's
// default room follows what it has.
func TestNRCPUS(t *testing.T) {
	for _, tc := range []struct{ nr, ask, cpus, room int }{{1, 4, 1, 10}, {8, 6, 6, 12}, {0, 6, 6, 12}} {
		s, err := New(Options{CPUs: tc.ask, Config: Config{NRCPUs: tc.nr}})
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

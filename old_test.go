package kprobefs

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kprobes"
)

func bootOld(t *testing.T, name string, lines ...string) *Kernel {
	t.Helper()
	r, err := ParseRelease(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseConfig(r.Config, lines)
	if err == nil {
		err = r.Check(c)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Boot(Options{CPUs: 1, Release: r, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOldFiles: files about probes that the older releases have, and those that they
// do not.
func TestOldFiles(t *testing.T) {
	for _, tc := range []struct {
		release, config string
		there, missing  string
	}{
		{"2.6.25", "NR_CPUS=1", "debug/kprobes/list debug/kprobes/enabled kprobes/list", "sys/debug/kprobes-optimization debug/kprobes/blacklist kprobes/blacklist"},
		{"2.6.32", "NR_CPUS=1", "kprobes/list kprobes/enabled", "debug sys/debug/kprobes-optimization kprobes/blacklist"},
		{"4.15", "NR_CPUS=1", "kprobes/list kprobes/blacklist sys/debug/kprobes-optimization sys/debug/kprobes_optimization", "debug"},
		{"4.15", "CONFIG_PREEMPT=y", "kprobes/list", "sys/debug/kprobes-optimization sys/debug/kprobes_optimization"},
		{"6.1", "CONFIG_PREEMPT=y", "kprobes/blacklist sys/debug/kprobes-optimization", "debug sys/debug/kprobes_optimization"},
	} {
		s := bootOld(t, tc.release, tc.config)
		for _, f := range strings.Fields(tc.there) {
			if !hasFile(s, strings.Split(f, "/")...) {
				t.Errorf("%s, %s: no %s", tc.release, tc.config, f)
			}
		}
		for _, f := range strings.Fields(tc.missing) {
			if hasFile(s, strings.Split(f, "/")...) {
				t.Errorf("%s, %s: there is %s", tc.release, tc.config, f)
			}
		}
	}
	r, err := ParseRelease("2.6.32")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"CONFIG_OPTPROBES=y", "CONFIG_KPROBES_ON_FTRACE=y"} {
		c, err := ParseConfig(r.Config, []string{line})
		if err = errors.Join(err, r.Check(c)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("2.6.32 with %s: %v", line, err)
		}
	}
}

// TestOldOptimizationWord: sysctl -w debug.kprobes_optimization=n, as in document
// 001, removes the jumps.
func TestOldOptimizationWord(t *testing.T) {
	s := bootOld(t, "4.15")
	p := &kprobes.Kprobe{SymbolName: "int_sqrt", Offset: 5}
	if err := s.Kprobes.Register(p); err != nil {
		t.Fatal(err)
	}
	dir := seqfile.Find(seqfile.Find(s.Tree(), "sys").Dir, "debug").Dir
	for _, tc := range []struct {
		file, data, reads string
		jump              bool
	}{
		{"kprobes_optimization", "n\n", "0\n", false},
		{"kprobes-optimization", "y", "1\n", true},
		{"kprobes-optimization", "0\n", "0\n", false},
		{"kprobes_optimization", "1\n", "1\n", true},
	} {
		f, err := seqfile.Find(dir, tc.file).Open(context.Background(), &seqfile.OpenInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.Write(context.Background(), []byte(tc.data), 0); n != len(tc.data) || err != nil {
			t.Errorf("%s: %q: %d, %v", tc.file, tc.data, n, err)
		}
		b := make([]byte, 8)
		if n, err := f.Read(context.Background(), b, 0); string(b[:n]) != tc.reads || err != nil {
			t.Errorf("%s reads %q, %v", tc.file, b[:n], err)
		}
		if jump := s.Kprobes.Points()[0].Flags&kprobes.FlagOptimized != 0; jump != tc.jump {
			t.Errorf("after %s=%q optimized is %v", tc.file, tc.data, jump)
		}
		f.Release()
	}
	f, err := seqfile.Find(dir, "kprobes_optimization").Open(context.Background(), &seqfile.OpenInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(context.Background(), []byte("no\n"), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no: %v", err)
	}
}

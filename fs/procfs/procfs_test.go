package procfs

import (
	"context"
	"strings"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
)

func all(t *testing.T, row *seqfile.Row, uid uint32) string {
	t.Helper()
	o := &seqfile.OpenInfo{Caller: seqfile.Caller{UID: uid}}
	f, err := row.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	p := make([]byte, 4096)
	for {
		n, err := f.Read(context.Background(), p, int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

func TestProc(t *testing.T) {
	c := Config{
		Symbols: func() []abi.Symbol {
			return []abi.Symbol{
				{Addr: 0xffffffff81000000, Type: 'T', Name: "_stext"},
				{Addr: 0xffffffffc0000010, Type: 't', Name: "kpt_add", Module: "kpt"},
			}
		},
		Modules: func() []Module {
			return []Module{
				{Name: "kpt", Size: 16384, Refs: 1, Users: []string{"a", "b"}, State: "Live", Addr: 0xffffffffc0000000, Taints: "OE"},
				{Name: "x", Size: 4096, State: "Loading", Addr: 0xffffffffc0008000},
			}
		},
		Version:  "Linux version 6.1.0",
		Cmdline:  "quiet",
		ShowAddr: func(c *seqfile.Caller) bool { return c.UID == 0 },
	}
	for _, tc := range []struct {
		name string
		uid  uint32
		want string
	}{
		{"kallsyms", 0, "ffffffff81000000 T _stext\nffffffffc0000010 t kpt_add\t[kpt]\n"},
		{"kallsyms", 1, "0000000000000000 T _stext\n0000000000000000 t kpt_add\t[kpt]\n"},
		{"modules", 0, "kpt 16384 1 a,b, Live 0xffffffffc0000000 (OE)\nx 4096 0 - Loading 0xffffffffc0008000\n"},
		{"modules", 1, "kpt 16384 1 a,b, Live 0x0000000000000000 (OE)\nx 4096 0 - Loading 0x0000000000000000\n"},
		{"version", 1, "Linux version 6.1.0\n"},
		{"cmdline", 1, "quiet\n"},
	} {
		if got := all(t, seqfile.Find(Proc(c).Dir, tc.name), tc.uid); got != tc.want {
			t.Errorf("%s for %d: %q, want %q", tc.name, tc.uid, got, tc.want)
		}
	}
}

func TestShowValue(t *testing.T) {
	for _, tc := range []struct {
		kptr, perf int
		syslog     bool
		want       bool
	}{
		{0, 3, false, false},
		{0, 3, true, true},
		{0, 1, false, true},
		{0, -1, false, true},
		{1, 1, false, false},
		{1, 3, true, true},
		{2, -1, true, false},
	} {
		c := &seqfile.Caller{UID: 5, CapableFunc: func(c int) bool { return tc.syslog && c == seqfile.CapSyslog }}
		if got := ShowValue(tc.kptr, tc.perf, c); got != tc.want {
			t.Errorf("kptr_restrict %d, perf_event_paranoid %d, CAP_SYSLOG %v: %v", tc.kptr, tc.perf, tc.syslog, got)
		}
	}
}

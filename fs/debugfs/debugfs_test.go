package debugfs

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes"
)

type fakeProbes struct {
	buckets [kprobes.Buckets][]kprobes.Record
	enabled bool
}

func (f *fakeProbes) AppendList(b []byte, i int, hide bool) []byte {
	for _, r := range f.buckets[i] {
		b = r.Append(b, hide)
	}
	return b
}
func (f *fakeProbes) Enabled() bool            { return f.enabled }
func (f *fakeProbes) SetEnabled(on bool) error { f.enabled = on; return nil }
func (f *fakeProbes) Blacklist() []kprobes.BlacklistRecord {
	return []kprobes.BlacklistRecord{
		{Range: abi.Range{Start: 0xffffffff81000000, End: 0xffffffff81000040}, Symbol: "asm_exc_nmi"},
		{Range: abi.Range{Start: 0xffffffff81000040, End: 0xffffffff81000050}, Symbol: "fn [m]"},
	}
}

func testConfig(f *fakeProbes) Config {
	return Config{
		Probes:     f,
		ShowAddr:   func(c *seqfile.Caller) bool { return c.UID == 0 },
		LockedDown: func(*seqfile.Caller) error { return nil },
		ParseBool: func(p []byte) (bool, error) {
			if string(p) == "1\n" {
				return true, nil
			}
			if string(p) == "0\n" {
				return false, nil
			}
			return false, syscall.EINVAL
		},
	}
}

func open(t *testing.T, c Config, name string, uid uint32) seqfile.File {
	t.Helper()
	o := &seqfile.OpenInfo{Caller: seqfile.Caller{UID: uid}}
	f, err := seqfile.Find(Kprobes(c).Dir, name).Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func all(t *testing.T, f seqfile.File) string {
	t.Helper()
	var b strings.Builder
	p := make([]byte, 4096)
	for {
		n, err := f.Read(context.Background(), p, int64(b.Len()))
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if n == 0 {
			return b.String()
		}
		b.Write(p[:n])
	}
}

func TestListShowsBucketsInOrder(t *testing.T) {
	f := &fakeProbes{}
	at := func(addr uint64, name string) []kprobes.Record {
		return []kprobes.Record{{Addr: addr, Symbol: abi.Symbol{Addr: addr - 5, Name: name}, Offset: 5, Known: true, Flags: kprobes.FlagOptimized}}
	}
	f.buckets[63] = at(0xffffffff81000105, "second")
	f.buckets[2] = at(0xffffffff81000205, "first")
	want := "ffffffff81000205  k  first+0x5    [OPTIMIZED]\nffffffff81000105  k  second+0x5    [OPTIMIZED]\n"
	if got := all(t, open(t, testConfig(f), "list", 0)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := all(t, open(t, testConfig(f), "list", 7)); !strings.HasPrefix(got, "0000000000000000  k  first+0x5") {
		t.Errorf("another user sees %q", got)
	}
}

func TestBlacklist(t *testing.T) {
	want := "0xffffffff81000000-0xffffffff81000040\tasm_exc_nmi\n0xffffffff81000040-0xffffffff81000050\tfn [m]\n"
	if got := all(t, open(t, testConfig(&fakeProbes{}), "blacklist", 0)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := all(t, open(t, testConfig(&fakeProbes{}), "blacklist", 7))
	if !strings.HasPrefix(got, "0x0000000000000000-0x0000000000000000\tasm_exc_nmi\n") {
		t.Errorf("another user sees %q", got)
	}
}

func TestEnabled(t *testing.T) {
	p := &fakeProbes{enabled: true}
	f := open(t, testConfig(p), "enabled", 0)
	if got := all(t, f); got != "1\n" {
		t.Errorf("got %q", got)
	}
	if n, err := f.Write(context.Background(), []byte("0\n"), 4096); n != 2 || err != nil || p.enabled {
		t.Errorf("write 0 at 4096: %d, %v, enabled %v", n, err, p.enabled)
	}
	if got := all(t, f); got != "0\n" {
		t.Errorf("got %q", got)
	}
	if _, err := f.Write(context.Background(), []byte("2\n"), 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("write 2: %v", err)
	}
	if k, ok := f.(seqfile.PosKeeper); !ok || !k.KeepsPos() {
		t.Error("a write moves the position")
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kprobefs/kprobefs/internal/tools/share"
)

// module is a module with a target that fails for some input, one that does not fail,
// two that are slow, one that is skipped, and one whose process exits once.
var module = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.24\n",
	"m.go":   "package m\n",
	"m_test.go": `package m

import (
	"os"
	"testing"
	"time"
)

func FuzzOnce(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := os.Stat("once"); err != nil {
			_ = os.WriteFile("once", nil, 0o600)
			os.Exit(2)
		}
	})
}

func FuzzBad(f *testing.F) {
	f.Add([]byte("start"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 6 {
			t.Error("long")
		}
	})
}

func FuzzGood(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {})
}

func FuzzSlow(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) { time.Sleep(time.Second) })
}

func FuzzLate(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) { time.Sleep(100 * time.Millisecond) })
}

func FuzzSkipped(f *testing.F) {
	f.Skip("not here")
}
`,
}

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make test-all")
	}
	dir := t.TempDir()
	for name, text := range module {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	var out strings.Builder
	if err := run(t.Context(), &out, 2*time.Second, 1, "Good", share.Share{}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if ok, _ := regexp.MatchString(`^ok   example.org/m.FuzzGood +\d{2,} executions, +\d+ new interesting, +\d+ in all\n$`, out.String()); !ok {
		t.Errorf("one target: %s", &out)
	}
	out.Reset()
	if err := run(t.Context(), &out, time.Second, 1, "Slow", share.Share{}); err == nil || !strings.Contains(out.String(), "fewer than 50 find nothing") {
		t.Errorf("a target that hardly tries: %v\n%s", err, &out)
	}
	out.Reset()
	if err := run(t.Context(), &out, time.Second, 1, "Late", share.Share{}); err != nil {
		t.Errorf("a target that needs more time: %v\n%s", err, &out)
	}
	out.Reset()
	if err := run(t.Context(), &out, 2*time.Second, 1, "Once", share.Share{}); err != nil || !strings.Contains(out.String(), "once more example.org/m.FuzzOnce: ") {
		t.Errorf("a worker that ended once: %v\n%s", err, &out)
	}
	out.Reset()
	err := run(t.Context(), &out, 20*time.Second, 2, "Bad|Skipped", share.Share{})
	if err == nil || !strings.Contains(err.Error(), "1 of 2 targets failed") {
		t.Errorf("a target that fails and one that is skipped: %v", err)
	}
	if s := out.String(); !strings.Contains(s, "go test fuzz v1\n[]byte(") || !strings.Contains(s, "skip example.org/m.FuzzSkipped: ") || !strings.Contains(s, "not here") {
		t.Errorf("the failing input is not shown:\n%s", s)
	}
	inputs, _ := filepath.Glob(filepath.Join(dir, "testdata/fuzz/FuzzBad/*"))
	if len(inputs) != 1 {
		t.Errorf("%d inputs are kept", len(inputs))
	}
	if err := run(t.Context(), &out, time.Second, 1, "none", share.Share{}); err == nil {
		t.Error("no target, no error")
	}
}

func TestExecuted(t *testing.T) {
	for text, want := range map[string]done{
		"": {},
		"fuzz: elapsed: 3s, execs: 1503 (501/sec), new interesting: 1 (total: 9)\nfuzz: elapsed: 6s, execs: 2000 (166/sec), new interesting: 5 (total: 13)\n": {2000, 5, 13},
	} {
		if got := executed(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

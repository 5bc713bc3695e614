package page

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTraceDat: trace-cmd report shows of the downloaded file what the file trace shows, and the
// buffer has it still.
func TestTraceDat(t *testing.T) {
	s := newSite(t, true)
	at := s.secondInstruction("int_sqrt")
	s.post("/api/events", `{"definition":"p:mine int_sqrt+`+strconv.Itoa(int(at))+` x=%di c=$comm"}`)
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	s.hit("int_sqrt", 300) // several pages
	if err := s.k.WriteFile("tracing/trace_marker", "marked\n"); err != nil {
		t.Fatal(err)
	}
	text, err := s.k.ReadFile("tracing/trace")
	if err != nil {
		t.Fatal(err)
	}
	w := s.do(request(http.MethodGet, "/api/trace.dat", ""))
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Disposition"), `"trace.dat"`) {
		t.Fatalf("%d: %s", w.Code, w.Header())
	}
	again := s.do(request(http.MethodGet, "/api/trace.dat", ""))
	if w.Body.String() != again.Body.String() {
		t.Error("a download changes what the next one has")
	}
	after, err := s.k.ReadFile("tracing/trace")
	if err != nil || string(after) != string(text) {
		t.Errorf("the download has changed the trace: %v", err)
	}
	program, err := exec.LookPath("trace-cmd")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "trace.dat")
	if err := os.WriteFile(file, w.Body.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, "report", "-i", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entry := regexp.MustCompile(`(?m)^ *(\S+)-(\d+) +\[(\d+)\] .*?(\d+\.\d{6}): (?:mine|print|tracing_mark_write): .*(x=\S+|marked).*$`)
	short := func(text string) (all []string) {
		for _, m := range entry.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.Join(m[1:], " "))
		}
		return all
	}
	want, got := short(string(text)), short(string(out))
	if len(want) != 301 || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d entries, in trace.dat %d\n%s\n%s", len(want), len(got), text[:min(len(text), 2000)], out[:min(len(out), 3000)])
	}
}

package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/kprobefs/kprobefs"
	"github.com/kprobefs/kprobefs/internal/inner"
	"github.com/kprobefs/kprobefs/internal/look"
)

const token = "0123456789abcdef0123456789abcdef"

// site is a page of a machine that runs.
type site struct {
	t testing.TB
	k *kprobefs.Kernel
	p *Page
}

// newSite boots a machine.
func newSite(t testing.TB, write bool) *site {
	t.Helper()
	k, err := kprobefs.Boot(kprobefs.Options{CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	p := New(Config{Machine: func() Machine { return k }, Token: token, Cookie: "kprobefs-test", Write: write, Program: "kprobefs test"})
	return &site{t, k, p}
}

// request returns a request as curl makes it, with the token.
func request(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Authorization", "Bearer "+token)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (s *site) do(r *http.Request) *httptest.ResponseRecorder {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.p.ServeHTTP(w, r)
	return w
}

// get reads what a path answers.
func get[T any](s *site, target string) (v T) {
	s.t.Helper()
	w := s.do(request(http.MethodGet, target, ""))
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d, %v: %s", target, w.Code, err, w.Body)
	}
	return v
}

// post changes something.
func (s *site) post(target, body string) {
	s.t.Helper()
	if w := s.do(request(http.MethodPost, target, body)); w.Code != http.StatusOK {
		s.t.Fatalf("%s %s: %d: %s", target, body, w.Code, w.Body)
	}
}

// within waits until ok is true.
func within(t testing.TB, d time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s: not %s", d, what)
		}
	}
}

// secondInstruction returns the offset of the first instruction that ftrace does not patch.
func (s *site) secondInstruction(function string) uint64 {
	s.t.Helper()
	f := get[[]look.Function](s, "/api/text?function="+function)
	if len(f) != 1 || len(f[0].Instructions) < 3 {
		s.t.Fatalf("%+v", f)
	}
	return f[0].Instructions[1].Offset
}

// hit has a function called.
func (s *site) hit(function string, times int) {
	s.t.Helper()
	for range times {
		if _, err := s.k.Call(context.Background(), function, 144); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestLife: a probe is defined, armed, hit, optimized, disarmed and removed through the page, and
// each view says so.
func TestLife(t *testing.T) {
	s := newSite(t, true)
	at := s.secondInstruction("int_sqrt")
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d x=%%di"}`, at))
	one := func() probe {
		v := get[probesView](s, "/api/probes")
		if len(v.Probes) != 1 {
			t.Fatalf("%+v", v)
		}
		return v.Probes[0]
	}
	if p := one(); p.Armed || !slices.Contains(p.Flags, "disabled") || p.Events[0].Name != "kprobes/mine" || !strings.Contains(p.Why, "not armed") {
		t.Errorf("defined: %+v", p)
	}
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	within(t, 5*time.Second, "optimized", func() bool { p := one(); return p.Detour != "" && strings.HasPrefix(p.Why, "optimized") })
	s.hit("int_sqrt", 3)
	within(t, 5*time.Second, "hit three times", func() bool { p := one(); return p.Hits != nil && *p.Hits == 3 })
	s.p.conf.Source = func(_ look.ReadFile, f []look.Function) {
		f[0].Instructions[1].Source = &look.Source{File: "lib/int_sqrt.c", Line: 7}
	}
	f := get[[]look.Function](s, "/api/text?function=int_sqrt")[0].Instructions[1]
	if f.Source == nil || f.Source.Line != 7 {
		t.Errorf("the line: %+v", f.Source)
	}
	if f.Patch != "jump" || f.Probe == nil || !slices.ContainsFunc(f.Probe.Copies, func(c look.Copy) bool { return c.Part == "detour" && len(c.Instructions) > 0 }) {
		t.Errorf("the text: %+v", f)
	}
	entries := get[traceView](s, "/api/trace?event=min*").Entries
	if len(entries) != 3 || !strings.HasSuffix(entries[0].Text, "x=0x90") {
		t.Errorf("the trace: %+v", entries)
	}
	if got := get[traceView](s, "/api/trace?event=other").Entries; len(got) != 0 {
		t.Errorf("of other events: %+v", got)
	}
	var what []string
	for _, c := range get[timelineView](s, "/api/timeline").Changes {
		what = append(what, c.What)
	}
	if !slices.Contains(what, "int3 is written") || !slices.Contains(what, "the jump is written") {
		t.Errorf("the timeline: %q", what)
	}
	s.post("/api/optimization", `{"on":false}`)
	within(t, 5*time.Second, "a breakpoint again", func() bool { return one().Why == "optimization is switched off" })
	s.post("/api/enabled", `{"on":false}`)
	if p := one(); p.Armed || p.Why != "all probes are switched off" {
		t.Errorf("all off: %+v", p)
	}
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":false}`)
	s.post("/api/events/remove", `{"event":"kprobes/mine"}`)
	if v := get[probesView](s, "/api/probes"); len(v.Probes) != 0 || v.Enabled == nil || *v.Enabled || v.Optimization == nil || *v.Optimization {
		t.Errorf("removed: %+v", v)
	}
	s.post("/api/trace/clear", `{}`)
	if got := get[traceView](s, "/api/trace").Entries; len(got) != 0 {
		t.Errorf("the trace is not empty: %+v", got)
	}
}

// TestRefusedDefinition: what Linux says to a definition is passed on, with the place of the error.
func TestRefusedDefinition(t *testing.T) {
	s := newSite(t, true)
	for _, c := range []struct {
		definition string
		status     int
		text       string
		caret      int // -1: none
	}{
		{"p:mine int_sqrt bad=$nosuch", 422, "Invalid $-variable specified", 20},
		{"p:mine no_such_function", 422, "Invalid probed address or symbol", 7},
		{"-:mine", 400, "begins with p", -1},
		{"p:a int_sqrt\np:b int_sqrt", 400, "one line", -1},
		{"", 400, "write a definition", -1},
		{"p:mine " + strings.Repeat("x", 5000), 422, "", -1},
	} {
		b, _ := json.Marshal(definition{c.definition})
		w := s.do(request(http.MethodPost, "/api/events", string(b)))
		var got struct {
			Error string
			Caret *int
			Log   string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.status || !strings.Contains(got.Error, c.text) {
			t.Errorf("%.40q: %d, %v: %s", c.definition, w.Code, err, w.Body)
		}
		if c.caret >= 0 && (got.Caret == nil || *got.Caret != c.caret) {
			t.Errorf("%q: the caret is not at %d: %s", c.definition, c.caret, w.Body)
		}
	}
	if v := get[probesView](s, "/api/probes"); len(v.Probes) != 0 {
		t.Errorf("%+v", v.Probes)
	}
}

// eventStream reads server-sent events.
type eventStream struct {
	t    testing.TB
	r    *bufio.Reader
	body io.Closer
}

func openStream(t testing.TB, url string) *eventStream {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d: %s", url, resp.StatusCode, b)
	}
	return &eventStream{t, bufio.NewReader(resp.Body), resp.Body}
}

// next returns the next event. The server sends one, or the test's time ends.
func (s *eventStream) next() (event, data string) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if e, ok := strings.CutPrefix(line, "event: "); ok {
			event = strings.TrimSpace(e)
		}
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			return event, d
		}
	}
}

// TestLive: streams say what has changed, and nothing else.
func TestLive(t *testing.T) {
	s := newSite(t, true)
	server := httptest.NewServer(s.p)
	defer server.Close()
	defer server.CloseClientConnections()
	probes := openStream(t, server.URL+"/api/live?topic=probes")
	if event, data := probes.next(); event != "probes" || !strings.Contains(data, `"probes":[]`) {
		t.Fatalf("%s %s", event, data)
	}
	trace := openStream(t, server.URL+"/api/live?topic=trace")
	text := openStream(t, server.URL+"/api/live?topic=text&function=int_sqrt")
	if event, data := text.next(); event != "text" || strings.Contains(data, "patch") {
		t.Errorf("%s %s", event, data)
	}
	begin := time.Now()
	s.post("/api/events", `{"definition":"p:a int_sqrt"}`)
	s.post("/api/events/enable", `{"event":"kprobes/a","on":true}`)
	armed := delta{}
	for len(armed.Probes) == 0 || !armed.Probes[0].Armed {
		event, data := probes.next()
		if err := json.Unmarshal([]byte(data), &armed); err != nil || event != "delta" {
			t.Fatalf("%s %s: %v", event, data, err)
		}
	}
	t.Logf("seen after %s", time.Since(begin))
	for data := ""; !strings.Contains(data, `"patch":"call"`); { // first it is there and not armed
		_, data = text.next()
	}
	s.hit("int_sqrt", 1)
	if event, data := trace.next(); event != "trace" || !strings.Contains(data, `"event":"a"`) {
		t.Errorf("%s %s", event, data)
	}
	s.post("/api/events/enable", `{"event":"kprobes/a","on":false}`)
	s.post("/api/events/remove", `{"event":"kprobes/a"}`)
	for gone := (delta{}); len(gone.Gone) == 0; {
		_, data := probes.next()
		if err := json.Unmarshal([]byte(data), &gone); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range []string{"machine", "timeline"} {
		if event, data := openStream(t, server.URL+"/api/live?topic="+topic).next(); event != topic || !strings.Contains(data, `"time":`) {
			t.Errorf("%s: %s %s", topic, event, data)
		}
	}
	for _, o := range []*eventStream{probes, trace, text} {
		_ = o.body.Close()
	}
}

// TestNextTab: who comes when all streams have their reader gets the place of the oldest, which says so.
func TestNextTab(t *testing.T) {
	s := newSite(t, true)
	server := httptest.NewServer(s.p)
	defer server.Close()
	defer server.CloseClientConnections()
	var open []*eventStream
	for range mostLives + 2 {
		o := openStream(t, server.URL+"/api/live?topic=trace")
		open = append(open, o)
		within(t, 10*time.Second, "it has a place", func() bool { return s.p.streams.len() == min(len(open), mostLives) })
	}
	for i, o := range open[:2] {
		if event, data := o.next(); event != "over" || !strings.Contains(data, "ask again") {
			t.Errorf("stream %d: %s %s", i, event, data)
		}
		if rest, err := io.ReadAll(o.r); err != nil || len(bytes.TrimSpace(rest)) > 0 {
			t.Errorf("stream %d goes on: %q, %v", i, rest, err)
		}
	}
	if err := s.k.WriteFile("tracing/trace_marker", "mark\n"); err != nil {
		t.Fatal(err)
	}
	for i, o := range open[2:] {
		if event, data := o.next(); event != "trace" || !strings.Contains(data, "mark") {
			t.Errorf("stream %d: %s %s", i+2, event, data)
		}
		_ = o.body.Close()
	}
	within(t, 10*time.Second, "all streams ended", func() bool { return s.p.lives.Load() == 0 })
}

// TestStopped: the machine's stops are in the timeline, and while it is stopped all can be read.
func TestStopped(t *testing.T) {
	s := newSite(t, true)
	run := func(command string) {
		t.Helper()
		if err := s.k.WriteFile("machine/run", command); err != nil {
			t.Fatal(err)
		}
	}
	s.post("/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d"}`, s.secondInstruction("int_sqrt")))
	s.post("/api/optimization", `{"on":false}`)
	s.post("/api/events/enable", `{"event":"kprobes/mine","on":true}`)
	run("stop")
	if v := get[machineView](s, "/api/machine"); v.Stopped != "as requested" {
		t.Errorf("stopped %q", v.Stopped)
	}
	for _, target := range []string{"probes", "text?function=int_sqrt", "trace", "timeline"} {
		if w := s.do(request(http.MethodGet, "/api/"+target, "")); w.Code != http.StatusOK {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
	run("go")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = s.k.Call(ctx, "int_sqrt", 144) // those in which the machine stops wait, or end with ctx
		}
	}()
	run("hit")
	var said []string
	within(t, 10*time.Second, "the stop shown", func() bool { // what was read a moment ago is shown to all
		said = nil
		for _, stop := range get[timelineView](s, "/api/timeline").Stops {
			said = append(said, stop.What)
		}
		return len(said) > 2
	})
	cancel()
	run("go")
	<-done
	if len(said) != 3 || said[0] != "the machine stops as requested" || said[1] != "the machine goes on" || !strings.HasPrefix(said[2], "the machine stops at a breakpoint, cpu ") || !strings.Contains(said[2], " at int_sqrt+0x") {
		t.Errorf("%q", said)
	}
}

// TestOpenAPI: the description is valid, has the paths that there are, and no others; and what they
// answer is what it says.
func TestOpenAPI(t *testing.T) {
	b, err := static.ReadFile("static/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	var there, described []string
	for _, r := range routes {
		if strings.HasPrefix(r.path, "/api/") {
			there = append(there, r.method+" "+r.path)
		}
	}
	for where, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+where)
		}
	}
	slices.Sort(there)
	slices.Sort(described)
	if !slices.Equal(there, described) {
		t.Fatalf("there are %q, described are %q", there, described)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, true)
	at := s.secondInstruction("int_sqrt")
	asked := map[string]bool{}
	ask := func(method, target, body string, status int) {
		t.Helper()
		r := request(method, target, body)
		route, params, err := router.FindRoute(r)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		input := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
		if status == http.StatusOK {
			if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
				t.Errorf("%s: the request: %v", target, err)
			}
		}
		w := s.do(request(method, target, body))
		answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: w.Code, Header: w.Header(), Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		answer.SetBodyBytes(w.Body.Bytes())
		if err := openapi3filter.ValidateResponse(context.Background(), answer); err != nil || w.Code != status {
			t.Errorf("%s %s: %d, not %d: %v: %s", target, body, w.Code, status, err, w.Body)
		}
		asked[method+" "+path.Clean(route.Path)] = true
	}
	const post = http.MethodPost
	ask(post, "/api/events", fmt.Sprintf(`{"definition":"p:mine int_sqrt+%d"}`, at), 200)
	ask(post, "/api/events", `{"definition":"p:top int_sqrt"}`, 200)
	ask(post, "/api/events", `{"definition":"p:bad int_sqrt $x"}`, 422)
	ask(post, "/api/events", `{"definition":"p:bad int_sqrt"`, 400)
	ask(post, "/api/events", `{"definition":"`+strings.Repeat("x", maxBody)+`"}`, 413)
	ask(post, "/api/events/enable", `{"event":"kprobes/mine","on":true}`, 200)
	ask(post, "/api/events/enable", `{"event":"kprobes/top","on":true}`, 200)
	ask(post, "/api/events/enable", `{"event":"kprobes/nosuch","on":true}`, 404)
	ask(post, "/api/events/enable", `{"event":"../..","on":true}`, 400)
	ask(post, "/api/events/remove", `{"event":"kprobes/mine"}`, 409)
	within(t, 5*time.Second, "optimized", func() bool {
		return slices.ContainsFunc(get[probesView](s, "/api/probes").Probes, func(p probe) bool { return p.Detour != "" })
	})
	s.hit("int_sqrt", 2)
	if err := s.k.WriteFile("tracing/events/kprobes/mine/trigger", "hist:keys=common_pid:vals=hitcount"); err != nil {
		t.Fatal(err)
	}
	s.hit("int_sqrt", 3)
	if all := get[[]look.Histogram](s, "/api/histograms?event=kprobes/mine"); len(all) != 1 || len(all[0].Rows) != 1 || all[0].Rows[0].Values[0].Value != 3 {
		t.Errorf("%+v", all)
	}
	for _, target := range []string{"/api/histograms?event=kprobes/mine", "/api/histograms?event=kprobes/top", "/api/events?event=mine", "/api/events?event=nosuch", "/api/openapi.json", "/api/about", "/api/probes", "/api/text?function=int_sqrt", "/api/functions?prefix=int", "/api/trace", "/api/trace.dat", "/api/machine", "/api/timeline"} {
		ask(http.MethodGet, target, "", 200)
	}
	ask(http.MethodGet, "/api/text?function=nosuch", "", 404)
	ask(http.MethodGet, "/api/text?function=../kernel", "", 404)
	ask(http.MethodGet, "/api/text", "", 400)
	ask(http.MethodGet, "/api/histograms?event=kprobes/nosuch", "", 404)
	ask(http.MethodGet, "/api/histograms?event=../..", "", 400)
	ask(http.MethodGet, "/api/events", "", 400)
	ask(http.MethodGet, "/api/trace?event=[", "", 400)
	ask(http.MethodGet, "/api/live?topic=nosuch", "", 400)
	for _, target := range []string{"/api/enabled", "/api/optimization", "/api/tracing"} {
		ask(post, target, `{"on":true}`, 200)
		ask(post, target, `{}`, 400)
	}
	ask(post, "/api/trace/clear", `{}`, 200)
	ask(post, "/api/events/enable", `{"event":"kprobes/mine","on":false}`, 200)
	if err := s.k.WriteFile("tracing/events/kprobes/mine/trigger", "!hist:keys=common_pid:vals=hitcount"); err != nil {
		t.Fatal(err)
	}
	ask(post, "/api/events/remove", `{"event":"kprobes/mine"}`, 200)
	ask(post, "/api/events/remove", `{"event":"kprobes/mine"}`, 404)
	for _, one := range there {
		if !asked[one] {
			t.Errorf("%s is not tried", one)
		}
	}
}

// TestMetrics: the metrics count what was hit.
func TestMetrics(t *testing.T) {
	s := newSite(t, true)
	s.post("/api/events", `{"definition":"p:a int_sqrt"}`)
	s.post("/api/events/enable", `{"event":"kprobes/a","on":true}`)
	s.hit("int_sqrt", 4)
	var text string
	within(t, 5*time.Second, "counted", func() bool {
		w := s.do(request(http.MethodGet, "/metrics", ""))
		text = w.Body.String()
		return w.Code == http.StatusOK && strings.Contains(text, `kprobefs_event_hits_total{event="kprobes/a"} 4`)
	})
	for _, want := range []string{`kprobefs_probes{state="ftrace"} 1`, "kprobefs_guest_memory_bytes 2", `kprobefs_instructions_total{cpu="1"} `, "kprobefs_up 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestPanic: after a panic the page says so, still shows what was, and changes nothing.
func TestPanic(t *testing.T) {
	s := newSite(t, true)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _ = s.k.Call(ctx, "panic", s.k.Machine.Symbols().LookupName("linux_banner")[0].Addr)
	<-s.k.Died()
	if v := get[machineView](s, "/api/machine"); v.Panic == "" || len(v.Log) == 0 || !strings.Contains(v.Log[len(v.Log)-1].Text, "end Kernel panic") {
		t.Errorf("%q, %+v", v.Panic, v.Log)
	}
	for target, want := range map[string]int{"/healthz": 503, "/readyz": 503, "/metrics": 200, "/api/probes": 200, "/api/text?function=vfs_read": 200} {
		if w := s.do(request(http.MethodGet, target, "")); w.Code != want {
			t.Errorf("%s: %d: %s", target, w.Code, w.Body)
		}
	}
	if status, text := s.health(http.MethodGet, "/healthz"); status != 503 || !strings.Contains(text, "panicked") {
		t.Errorf("%d: %s", status, text)
	}
	if w := s.do(request(http.MethodPost, "/api/enabled", `{"on":false}`)); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "panicked") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

// health asks Health's handler, as another host does.
func (s *site) health(method, target string) (status int, text string) {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "192.0.2.1:8081"
	w := httptest.NewRecorder()
	Health(func() Machine { return s.k }).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestHealth: who has no token learns whether the machine works, by any name of this host, and
// nothing else.
func TestHealth(t *testing.T) {
	s := newSite(t, true)
	for _, c := range []struct {
		method, target string
		want           int
		says           string
	}{
		{http.MethodGet, "/healthz", 200, "ok"},
		{http.MethodGet, "/readyz", 200, "ok"},
		{http.MethodHead, "/readyz", 200, ""},
		{http.MethodPost, "/readyz", 405, "takes the method GET"},
		{http.MethodGet, "/", 404, "only /healthz"},
		{http.MethodGet, "/api/probes?token=" + token, 404, "only /healthz"},
		{http.MethodGet, "/metrics", 404, "only /healthz"},
		{http.MethodPost, "/api/enabled", 404, "only /healthz"},
	} {
		if status, text := s.health(c.method, c.target); status != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d: %s", c.method, c.target, status, text)
		}
	}
}

// TestReboot: after a reboot a stream continues with the new machine.
func TestReboot(t *testing.T) {
	first, second := newSite(t, true), newSite(t, true)
	var now atomic.Pointer[kprobefs.Kernel]
	now.Store(first.k)
	p := New(Config{Machine: func() Machine { return now.Load() }, Token: token, Cookie: "kprobefs-test", Write: true})
	first.p, second.p = p, p
	server := httptest.NewServer(p)
	defer server.Close()
	defer server.CloseClientConnections()
	first.post("/api/events", `{"definition":"p:first int_sqrt"}`)
	first.post("/api/events/enable", `{"event":"kprobes/first","on":true}`)
	first.hit("int_sqrt", 1)
	probes := openStream(t, server.URL+"/api/live?topic=probes")
	trace := openStream(t, server.URL+"/api/live?topic=trace")
	if _, data := probes.next(); !strings.Contains(data, "kprobes/first") {
		t.Error(data)
	}
	if _, data := trace.next(); !strings.Contains(data, `"event":"first"`) {
		t.Error(data)
	}
	now.Store(second.k)
	if err := inner.Of(first.k).Retire(); err != nil {
		t.Fatal(err)
	}
	if event, data := probes.next(); event != "probes" || !strings.Contains(data, `"probes":[]`) {
		t.Error(event, data)
	}
	second.post("/api/events", `{"definition":"p:second int_sqrt"}`)
	second.post("/api/events/enable", `{"event":"kprobes/second","on":true}`)
	second.hit("int_sqrt", 1)
	if _, data := trace.next(); !strings.Contains(data, `"event":"second"`) {
		t.Error(data)
	}
}

// TestClosed: a machine that is closed is an answer too.
func TestClosed(t *testing.T) {
	s := newSite(t, true)
	if w := s.do(request(http.MethodGet, "/readyz", "")); w.Code != http.StatusOK {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if err := s.k.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/readyz", "/metrics", "/api/probes", "/api/machine", "/api/trace"} {
		if w := s.do(request(http.MethodGet, target, "")); w.Code < 500 {
			t.Errorf("%s: %d: %s", target, w.Code, w.Body)
		}
	}
	if w := s.do(request(http.MethodPost, "/api/enabled", `{"on":false}`)); w.Code < 500 {
		t.Errorf("a change: %d: %s", w.Code, w.Body)
	}
}

// bootForFuzz boots the machine of a fuzz target, which has one for all inputs.
func bootForFuzz() (*kprobefs.Kernel, error) { return kprobefs.Boot(kprobefs.Options{CPUs: 1}) }
